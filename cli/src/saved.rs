//! Calibrations of this machine: saved in the user's cache folder, where runs find them.
//!
//! Each has a file of its own, named by a digest of its subject, so a new one replaces the last of
//! its kind. A run takes the one that fits it, or one that the user names. The folder is
//! `$XDG_CACHE_HOME`, or `.cache` in the home folder.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use calibration::floor::Calibration;
use engine::host::environment::calibrated_of;
use engine::plan::Plan;
use engine::report::calibration::{Calibrated, CalibratedOf};
use engine::sys::units::CoreList;
use engine::sys::whole_file::{WholeFile, WholeFileError};
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;
use crate::json;
use crate::signals::StopRequest;

/// The calibration that a run is checked against.
#[derive(Debug)]
pub(crate) enum Reference {
    /// The saved one for its machine, if there is one.
    Saved,
    /// One in a file that the user names.
    Named(PathBuf, Calibrated),
}

impl Reference {
    /// The one in this file, or the saved one without a file.
    ///
    /// # Errors
    /// A file that can't be read, as a usage error.
    pub(crate) fn new(file: Option<&Path>) -> Result<Reference, Failure> {
        let Some(file) = file else { return Ok(Reference::Saved) };
        let refuse = |problem: String| {
            Failure::Usage(format!("--calibration {}: {problem}", file.display()))
        };
        let opened = File::open(file).map_err(|error| {
            let cure = "name a file written by `truetail calibrate --out`";
            refuse(format!("can't be read ({error}); {cure}"))
        })?;
        let calibration = json::read_calibration(BufReader::new(opened));
        let calibration = calibration.map_err(|error| refuse(error.to_string()))?;
        Ok(Reference::Named(file.to_owned(), calibration.calibrated()))
    }

    /// The calibration for a run of this completed plan.
    ///
    /// # Errors
    /// The named file doesn't fit the run, as a usage error.
    pub(crate) fn find(&self, plan: &Plan) -> Result<Option<Calibrated>, Failure> {
        let here = || calibrated_of(plan.cores(), plan.wait);
        match self {
            Reference::Saved => Ok(folder().and_then(|folder| load(&folder, &here()))),
            Reference::Named(file, calibrated) => match difference(&calibrated.of, &here()) {
                None => Ok(Some(calibrated.clone())),
                Some(problem) => Err(Failure::Usage(format!(
                    "--calibration {}: {problem}; omit it, or make one that fits: `truetail \
                     calibrate --cores {} --wait {} --out FILE`",
                    file.display(),
                    CoreList::new(plan.cores().to_vec()),
                    json::name(&plan.wait)
                ))),
            },
        }
    }
}

/// The difference between the subject of a file's calibration and that of the run.
fn difference(file: &CalibratedOf, here: &CalibratedOf) -> Option<String> {
    let known = |cpu: &Option<String>| cpu.clone().unwrap_or_else(|| "an unknown one".to_owned());
    let list = |cores: &[usize]| CoreList::new(cores.to_vec()).to_string();
    let values = |of: &CalibratedOf| {
        [
            ("version", of.tool_version.clone()),
            ("kernel", of.kernel.clone()),
            ("processor", known(&of.cpu)),
            ("cores", list(&of.cores)),
            ("--wait", json::name(&of.wait)),
        ]
    };
    let both = values(file).into_iter().zip(values(here));
    let differ = both.filter(|((_, file), (_, here))| file != here);
    let parts: Vec<String> =
        differ.map(|((name, file), (_, here))| format!("{name} {file}, here {here}")).collect();
    (!parts.is_empty()).then(|| format!("it doesn't fit this run ({})", parts.join("; ")))
}

/// The folder of saved calibrations; `None` if the user has no cache folder.
fn folder() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    // By the XDG Base Directory Specification, a relative path counts as none.
    let named = named.filter(|path| path.is_absolute());
    let cache = named.or_else(|| Some(env::home_dir()?.join(".cache")))?;
    cache.is_absolute().then(|| cache.join("truetail"))
}

/// The name of the file of a calibration with this subject.
fn file_name(of: &CalibratedOf) -> String {
    let mut key = Vec::new();
    json::write_line(of, &mut key).expect("writing to memory can't fail");
    let digest = Sha256::digest(&key);
    let digits: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("calibration-{digits}.json")
}

/// Saves a calibration in place of the last of its kind, and returns the path of its file.
///
/// # Errors
/// There is no place for it; others disturbed all its figures; or the last one is better: full
/// where this one is quick, or with all figures of this one and more.
pub(crate) fn save(calibration: &Calibration, stop: &StopRequest) -> Result<PathBuf, String> {
    if calibration.calibrated().is_empty() {
        let why = "others disturbed all its figures; calibrate again when the machine is \
                   quiet, with a core for the target";
        return Err(why.to_owned());
    }
    let folder =
        folder().ok_or("there is no home folder, and XDG_CACHE_HOME isn't an absolute path")?;
    save_in(&folder, calibration, stop)
}

fn save_in(
    folder: &Path,
    calibration: &Calibration,
    stop: &StopRequest,
) -> Result<PathBuf, String> {
    let of = calibration.calibrated().of;
    if calibration.quick && read(folder, &of).is_some_and(|last| !last.quick) {
        let why = "one made without --quick is saved already, and its figures scatter less; omit \
                   --quick to replace it";
        return Err(why.to_owned());
    }
    let path = folder.join(file_name(&of));
    if let Some(last) = read(folder, &of) {
        let (known, new) = (usable(&last), usable(calibration));
        let lost: Vec<&str> = known.difference(&new).map(String::as_str).collect();
        if !lost.is_empty() && new.is_subset(&known) {
            return Err(format!(
                "others disturbed figures that the last one has ({}); calibrate again when the \
                 machine is quiet, or delete {} to use this one",
                lost.join(", "),
                path.display()
            ));
        }
    }
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(|error| named(&error))?;
    let file = stop.covering(|| {
        let file = WholeFile::create(&path)?;
        let temporary = file.temporary().to_owned();
        Ok((file, Some(temporary)))
    });
    let file = file.map_err(|error: WholeFileError| named(&error))?;
    let mut writer = BufWriter::new(file.file());
    json::write(calibration, &mut writer)
        .and_then(|()| writer.flush())
        .map_err(|error| named(&error))?;
    drop(writer);
    file.publish().map_err(|error| named(&error))
}

/// The figures that runs can be checked against, by name.
fn usable(calibration: &Calibration) -> BTreeSet<String> {
    let known = calibration.calibrated();
    let capacity =
        [("open-loop limit", known.ceiling_open), ("closed-loop peak", known.ceiling_closed)];
    let capacity = capacity.into_iter().filter(|(_, rate)| rate.is_some());
    let floors = calibration
        .floors
        .iter()
        .filter(|floor| known.floors.iter().any(|known| known.rate == floor.rate))
        .map(|floor| format!("floor at {:.0} %", floor.share * 100.0));
    capacity.map(|(name, _)| name.to_owned()).chain(floors).collect()
}

/// The figures for runs of the calibration with this subject that was saved in a folder.
fn load(folder: &Path, of: &CalibratedOf) -> Option<Calibrated> {
    read(folder, of).map(|calibration| calibration.calibrated())
}

/// The saved calibration with this subject in a folder; `None` if it can't be read, or is of
/// another version of the document.
fn read(folder: &Path, of: &CalibratedOf) -> Option<Calibration> {
    let file = File::open(folder.join(file_name(of))).ok()?;
    let calibration = json::read_calibration(BufReader::new(file)).ok()?;
    (calibration.calibrated().of == *of).then_some(calibration)
}

#[cfg(test)]
mod tests {
    use calibration::cases::Size;
    use calibration::floor::{CpuPerRequest, Floor, SCHEMA, Setup, Three};
    use engine::plan::{StampSource, Wait};

    use super::*;

    /// A calibration of this machine on these cores.
    fn calibration(cores: &[usize], wait: Wait) -> Calibration {
        Calibration::new(&Setup {
            null_target: ([127, 0, 0, 1], 1).into(),
            target_cores: vec![9],
            cores: cores.to_vec(),
            wait,
            size: Size::Smoke,
            raw: PathBuf::new(),
        })
    }

    fn saved(folder: &Path, of: &Calibration) -> PathBuf {
        save_in(folder, of, &StopRequest::default()).expect("saved")
    }

    #[test]
    fn the_last_of_its_kind_is_found_and_no_other() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("none yet").join("truetail");
        let here = calibrated_of;
        assert_eq!(load(&folder, &here(&[1], Wait::Hybrid)), None);
        let first = calibration(&[1], Wait::Hybrid);
        let second = Calibration { began_s: first.began_s + 5, ..first.clone() };
        assert_eq!(saved(&folder, &first), saved(&folder, &second), "it is replaced");
        saved(&folder, &calibration(&[1, 2], Wait::Hybrid));
        saved(&folder, &calibration(&[1], Wait::Spin));
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 3);
        let found = load(&folder, &here(&[1], Wait::Hybrid)).expect("there is one");
        assert_eq!((found.began_s, found.of), (second.began_s, here(&[1], Wait::Hybrid)));
        assert_eq!(load(&folder, &here(&[2], Wait::Hybrid)), None);
        assert_eq!(load(&folder, &here(&[1], Wait::Sleep)), None);
        let after_an_update =
            CalibratedOf { kernel: "Linux 99".to_owned(), ..here(&[1], Wait::Hybrid) };
        assert_eq!(load(&folder, &after_an_update), None);
    }

    #[test]
    fn a_quick_one_replaces_a_quick_one_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let quick = calibration(&[1], Wait::Hybrid);
        assert!(quick.quick, "it is of the smallest size");
        let full = Calibration { quick: false, began_s: quick.began_s + 5, ..quick.clone() };
        let quicker = Calibration { began_s: quick.began_s + 7, ..quick.clone() };
        let began_s = || {
            let here = calibrated_of(&[1], Wait::Hybrid);
            load(folder.path(), &here).expect("there is one").began_s
        };
        for better in [&quick, &quicker, &full] {
            saved(folder.path(), better);
            assert_eq!(began_s(), better.began_s);
        }
        let why = save_in(folder.path(), &quicker, &StopRequest::default()).expect_err("refused");
        assert!(why.contains("saved already") && why.contains("omit --quick"), "{why}");
        assert_eq!(began_s(), full.began_s, "the full one stays");
        saved(folder.path(), &Calibration { began_s: quick.began_s + 9, ..full });
        assert_eq!(began_s(), quick.began_s + 9);
    }

    #[test]
    fn a_disturbed_one_does_not_replace_a_better_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let floor = |share: f64, disturbed| Floor {
            share,
            rate: 1e5 * share,
            naive: Three::default(),
            corrected: Three { p50: Some(30.0), ..Three::default() },
            cpu: CpuPerRequest::default(),
            stamps: StampSource::Kernel,
            disturbed,
            tail_disturbed: disturbed,
        };
        let of = |began_s, disturbed: [bool; 2]| {
            let floors = vec![floor(0.01, disturbed[0]), floor(0.1, disturbed[1])];
            Calibration { began_s, floors, ..calibration(&[1], Wait::Hybrid) }
        };
        let began_s = || {
            let here = calibrated_of(&[1], Wait::Hybrid);
            load(folder.path(), &here).expect("there is one").began_s
        };
        saved(folder.path(), &of(1, [true, false]));
        let why = save_in(folder.path(), &of(2, [true, true]), &StopRequest::default());
        let why = why.expect_err("it knows nothing");
        assert!(why.contains("(floor at 10 %)") && why.contains("or delete /"), "{why}");
        assert_eq!(began_s(), 1, "the better one stays");
        // If each has figures that the other lacks, they can't be weighed: the new one is as good.
        for (new, disturbed) in [(3, [false, true]), (4, [false, false]), (5, [false, false])] {
            saved(folder.path(), &of(new, disturbed));
            assert_eq!(began_s(), new);
        }
    }

    #[test]
    fn an_unreadable_saved_one_is_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = calibration(&[1], Wait::Hybrid);
        let path = saved(folder.path(), &of);
        let text = fs::read_to_string(&path).expect("text");
        let key = of.calibrated().of;
        assert!(load(folder.path(), &key).is_some());
        let schema = |number: u32| format!("\"schema\": {number}");
        let older = text.replacen(&schema(SCHEMA), &schema(SCHEMA - 1), 1);
        assert_ne!(older, text);
        let other = text.replacen(&of.kernel, "Linux 99", 1);
        for unfit in ["", "{}", &text[..text.len() / 2], &older, &other] {
            fs::write(&path, unfit).expect("written");
            assert_eq!(load(folder.path(), &key), None, "{unfit}");
        }
    }

    #[test]
    fn a_named_file_that_does_not_fit_is_refused_with_the_difference() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = calibration(&[1], Wait::Hybrid);
        let path = saved(folder.path(), &of);
        let reference = Reference::new(Some(&path)).expect("it is a calibration");
        let plan = |cores: Vec<usize>, wait| {
            let (target, cores) = ("http://127.0.0.1:1/".to_owned(), Some(CoreList::new(cores)));
            let plan = Plan { target, cores, wait, ..Plan::default() };
            plan.complete(&[0, 1, 2]).expect("a plan that runs")
        };
        let fits = reference.find(&plan(vec![1], Wait::Hybrid)).expect("it fits");
        assert_eq!(fits, Some(of.calibrated()));
        let refused = reference.find(&plan(vec![1, 2], Wait::Spin)).expect_err("it doesn't");
        assert!(matches!(refused, Failure::Usage(_)), "{refused}");
        let line = refused.to_string();
        let shown = format!("--calibration {}: it doesn't fit this run (", path.display());
        assert!(line.starts_with(&shown), "{line}");
        assert!(line.contains("(cores 1, here 1-2; --wait hybrid, here spin); omit it"), "{line}");
        assert!(line.ends_with("calibrate --cores 1-2 --wait spin --out FILE`"), "{line}");
        for (file, problem) in [("none", "can't be read ("), ("text", "not a calibration (")] {
            let path = folder.path().join(file);
            if file == "text" {
                fs::write(&path, "{}").expect("written");
            }
            let refused = Reference::new(Some(&path)).expect_err("refused").to_string();
            assert!(refused.contains(problem) && refused.contains("calibrate --out"), "{refused}");
        }
    }
}
