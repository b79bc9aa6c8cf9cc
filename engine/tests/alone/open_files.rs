//! The limit of open files is raised from soft to hard before a run.

use engine::host;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn the_soft_limit_of_open_files_is_raised_to_the_hard_one() {
    let _process = crate::process();
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), maximum: hard })
        .expect("lowering needs no privilege");

    assert_eq!(host::require(300, 1), Ok(()), "300 connections fit under the hard limit");
    assert_eq!(getrlimit(Resource::Nofile).current, hard);
}
