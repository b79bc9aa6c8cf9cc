//! Where raw samples may be written: an unusable path is refused before the run, and permissions
//! that don't matter cost no sample.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::thread;

use engine::samples::{SampleFile, check_writable};
use engine::verify::with_samples;
use rustix::process::{Uid, geteuid};

use crate::sample_run::{SHARDS, SampledRun, fate, path_in, plan, wrong};

/// An unprivileged user that no account uses.
const OTHER_USER: u32 = 54_321;

/// Runs as another user, who owns the folder, if the tests run as root; otherwise as the current
/// user. IDs and their rights belong to a thread and the threads that it starts.
fn as_other_user<T: Send>(folder: &Path, run: impl FnOnce() -> T + Send) -> T {
    let is_root = geteuid().is_root();
    if is_root {
        chown(folder, Some(OTHER_USER), None).expect("root may");
    }
    thread::scope(|scope| {
        let ran = scope.spawn(|| {
            if is_root {
                let uid = Uid::from_raw(OTHER_USER);
                rustix::thread::set_thread_res_uid(uid, uid, uid).expect("root may");
            }
            run()
        });
        ran.join().expect("it runs to its end")
    })
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn a_folder_that_cannot_be_read_costs_no_sample() {
    let folder = tempfile::tempdir().expect("a folder");
    set_mode(folder.path(), 0o333);
    let path = folder.path().to_owned();
    let run = as_other_user(&path, || {
        fs::read_dir(folder.path()).expect_err("the folder can't be read");
        let file = SampleFile::create(&path_in(&folder), SHARDS).expect("it can be written to");
        SampledRun::with(plan("50"), folder, file, fate)
    });
    set_mode(run.folder.path(), 0o755);
    let counted = run.report.whole.counts.intended;
    assert_eq!((run.summary.written, run.summary.lost), (counted, 0), "{:?}", run.summary);
    assert_eq!(run.summary.file, Some(run.path()));
    assert_eq!(wrong(with_samples(&run.report, &[&run.path()])), []);
}

#[test]
fn an_irreplaceable_older_file_is_reported_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let older = path_in(&folder);
    fs::write(&older, "of an earlier run").expect("written");
    let refusal = |expected: &str| {
        let error = as_other_user(folder.path(), || check_writable(&older)).expect_err("refused");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(fs::read(&older).expect("still there"), b"of an earlier run");
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1, "nothing is left");
    };
    set_mode(&older, 0o444);
    refusal("can't be written (");
    if !geteuid().is_root() {
        return; // Only root can make files of other users.
    }
    set_mode(&older, 0o666);
    as_other_user(folder.path(), || check_writable(&older))
        .expect("the other user owns the folder");
    let inside = folder.path().join("sticky");
    fs::create_dir(&inside).expect("a folder");
    set_mode(&inside, 0o1777);
    let file = inside.join("run.samples");
    fs::write(&file, "root's").expect("written");
    set_mode(&file, 0o666);
    let error = as_other_user(folder.path(), || check_writable(&file)).expect_err("refused");
    assert!(error.to_string().contains("belongs to another user"), "{error}");
    assert_eq!(fs::read(&file).expect("still there"), b"root's");
    check_writable(&file).expect("root may");
}

#[test]
fn an_unwritable_path_is_refused_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("missing/run.samples");
    for (path, problem) in [
        (folder.path(), "is a folder"),
        (inside.as_path(), "can't be written (No such file"),
        (Path::new("/dev/null"), "isn't a regular file"),
        (Path::new("/"), "is a folder"),
    ] {
        let error = check_writable(path).expect_err("refused");
        assert_eq!(error.flag, "--raw");
        assert!(error.to_string().contains(problem), "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    check_writable(&path_in(&folder)).expect("a folder of our own");
    drop(SampleFile::create(&path_in(&folder), 1).expect("a folder of our own"));
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0, "nothing is left");
}
