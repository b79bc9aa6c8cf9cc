//! The binary that the tests drive.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The `truetail` binary, which is built first if this package is tested alone.
pub fn truetail() -> PathBuf {
    let truetail = Path::new(env!("CARGO_BIN_EXE_truetail-bench")).with_file_name("truetail");
    if !truetail.is_file() {
        let folder = truetail.parent().and_then(Path::parent).expect("the build folder");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--package", "cli"]).env("CARGO_TARGET_DIR", folder);
        if truetail.parent().is_some_and(|profile| profile.ends_with("release")) {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo starts").success(), "truetail can't be built");
    }
    truetail
}
