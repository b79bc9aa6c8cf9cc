//! The limit of open files, raised from soft to hard before a run. Alone in its process: a limit holds for all threads.

use engine::host::{self, check::Severity};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn a_soft_limit_below_the_need_is_raised_and_a_hard_one_is_named() {
    let hard = 512;
    let low = Rlimit { current: Some(128), maximum: Some(hard) };
    setrlimit(Resource::Nofile, low).expect("lowering needs no privilege");

    assert_eq!(host::require(300, 1), Ok(()), "300 connections fit under the hard limit");
    assert_eq!(getrlimit(Resource::Nofile).current, Some(hard));

    let missing = host::require(1_000, 1).expect_err("1,000 connections don't fit");
    assert_eq!((missing.name, missing.severity), ("open files", Severity::Missing));
    let text = missing.to_string();
    for word in ["512, the hard limit", "--conns 1000 needs 1080", "lower --conns to 432"] {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}
