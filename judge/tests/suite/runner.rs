//! A command that hangs, prints without end, forks, fails or wants a terminal is reported, and nothing
//! of it is left running.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use judge::{Conditions, Ended, ProcessError, Ran, Stops, run};

use crate::alone;

/// A folder of this test's own, beside the tests' binaries.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("judge").join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn shell(name: &str, script: &str, longest: Duration) -> Result<Ran, ProcessError> {
    let _alone = alone();
    under(name, script, longest, PLAIN)
}

fn under(
    name: &str,
    script: &str,
    longest: Duration,
    conditions: Conditions,
) -> Result<Ran, ProcessError> {
    let words = ["sh", "-c", script].map(str::to_owned);
    run(&words, "typed\n", longest, (&folder("runner"), name), conditions, &|| false)
}

/// Processes whose command line has this word.
fn running(word: &str) -> usize {
    let all = fs::read_dir("/proc").expect("proc").flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).split('\0').any(|arg| arg == word)).count()
}

const PLAIN: Conditions = Conditions { stops: None, files_max: None };
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_command_gets_its_input_and_its_output_is_read() {
    let ran = shell("plain", "cat; echo bad >&2", LONG).expect("it runs");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("typed\n", "bad\n"));
    assert_eq!((ran.left_running, ran.problem(&[0])), (0, None));
}

#[test]
fn a_command_that_fails_says_why() {
    let ran = shell("fails", "echo figures; echo 'no such host' >&2; exit 7", LONG).expect("runs");
    assert_eq!(ran.problem(&[0]).as_deref(), Some("it exited with 7: no such host"));
    assert_eq!(ran.problem(&[0, 7]), None);
    let killed = shell("killed", "kill -9 $$", LONG).expect("it runs");
    assert_eq!(killed.problem(&[0]).as_deref(), Some("signal 9 ended it"));
}

#[test]
fn a_command_that_hangs_is_killed_with_all_its_processes() {
    let began = Instant::now();
    let script = "sleep 3107 & setsid sleep 3107 & sleep 3107";
    let ran = shell("hangs", script, Duration::from_secs(1)).expect("it runs");
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    let problem = "it didn't end within 1 s and was killed";
    assert_eq!(ran.problem(&[0]).as_deref(), Some(problem));
    assert_eq!(running("3107"), 0);
}

#[test]
fn a_command_that_forks_and_ends_leaves_nothing() {
    // One in its group, one in a session of its own, and the child of one without its environment.
    let script = "sleep 3109 & setsid sleep 3109 & env -i setsid sh -c 'sleep 3109; :' & sleep 0.5";
    let ran = shell("forks", script, LONG).expect("it runs");
    assert_eq!(ran.left_running, 4);
    let problem = "it ended and left 4 processes running, which were killed";
    assert_eq!(ran.problem(&[0]).as_deref(), Some(problem));
    assert_eq!(running("3109"), 0);
}

#[test]
fn a_command_that_prints_without_end_is_killed() {
    let ran = shell("garbage", "yes 3110", LONG).expect("it runs");
    assert_eq!(ran.ended, Ended::TooMuch);
    assert_eq!(running("3110"), 0);
}

#[test]
fn a_command_that_needs_a_terminal_has_none() {
    let ran = shell("terminal", "read line < /dev/tty", LONG).expect("it runs");
    let problem = ran.problem(&[0]).expect("it failed");
    assert!(problem.contains("it may need a terminal"), "{problem}");
}

#[test]
fn a_stop_ends_a_command_at_once() {
    let words = ["sleep", "3111"].map(str::to_owned);
    let ran =
        run(&words, "", LONG, (&folder("runner"), "stopped"), PLAIN, &|| true).expect("it runs");
    assert_eq!(ran.ended, Ended::Stopped);
    assert_eq!(running("3111"), 0);
}

#[test]
fn a_command_is_stopped_as_long_as_its_conditions_have_it() {
    let _alone = alone();
    let stops = |every| Conditions {
        stops: Some(Stops {
            after: Duration::from_millis(100),
            hold: Duration::from_millis(300),
            every,
        }),
        ..PLAIN
    };
    // It prints the time that it measures, in hundredths of a second, ten times.
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; cut -d ' ' -f 1 /proc/uptime; done";
    let longest_gap = |ran: &Ran| {
        let times: Vec<f64> = ran.stdout.lines().filter_map(|line| line.parse().ok()).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
    };
    let once = under("once", script, LONG, stops(None)).expect("it runs");
    assert_eq!((once.stopped.len(), once.problem(&[0])), (1, None));
    assert!(0.3 <= longest_gap(&once) + 0.01, "{}", once.stdout);
    let often =
        under("often", script, LONG, stops(Some(Duration::from_millis(400)))).expect("runs");
    assert!(2 <= often.stopped.len(), "{:?}", often.stopped);
    let none = under("none", script, LONG, PLAIN).expect("it runs");
    assert!(none.stopped.is_empty());
}

#[test]
fn a_command_that_hangs_while_it_is_stopped_is_killed() {
    let _alone = alone();
    let hold = Duration::from_millis(50);
    let stops = Stops { after: hold, hold, every: Some(2 * hold) };
    let conditions = Conditions { stops: Some(stops), ..PLAIN };
    let longest = Duration::from_millis(500);
    let ran = under("both", "sleep 3112", longest, conditions).expect("it runs");
    assert_eq!(ran.ended, Ended::TooLong(longest));
    assert_eq!(running("3112"), 0);
}

#[test]
fn a_command_may_open_so_many_files() {
    let _alone = alone();
    let conditions = Conditions { files_max: Some(17), ..PLAIN };
    let ran = under("files", "ulimit -n", LONG, conditions).expect("it runs");
    assert_eq!(ran.stdout, "17\n");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    for name in ["no-such-program", "/no/such/program", ""] {
        let words = [name.to_owned()];
        let ran = run(&words, "", LONG, (&folder("runner"), "none"), PLAIN, &|| false);
        assert!(matches!(ran, Err(ProcessError::NotFound(found)) if found == name));
    }
}

#[test]
fn two_runs_at_once_do_not_kill_each_other() {
    let _alone = alone();
    let both = thread::scope(|scope| {
        let start = |name: &'static str| {
            scope.spawn(move || {
                let words = ["sh", "-c", "sleep 0.3 & wait"].map(str::to_owned);
                run(&words, "", LONG, (&folder("runner"), name), PLAIN, &|| false)
            })
        };
        [start("one"), start("other")].map(|thread| thread.join().expect("no panic"))
    });
    for ran in both {
        assert_eq!(ran.expect("it runs").problem(&[0]), None);
    }
}
