//! Possible secrets are never repeated on stderr: credentials and the query of a URL, the value of
//! a header.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};

use crate::support::{binary, bounded};

/// Asserts that the arguments are refused in one line without the secret.
fn assert_kept(args: &[&str], plan: Option<&str>) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = binary();
    command.args(args).current_dir(folder.path());
    if let Some(plan) = plan {
        fs::write(folder.path().join("plan.toml"), plan).expect("written");
        command.args(["--plan", "plan.toml"]);
    }
    let piped = || std::process::Stdio::piped();
    let child = command.stdout(piped()).stderr(piped()).spawn().expect("the binary runs");
    let output = bounded(child);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?} {plan:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{args:?} {plan:?}: {said}");
    assert!(!said.contains("pa55"), "{args:?} {plan:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?} {plan:?}");
}

#[test]
fn no_line_on_stderr_holds_a_secret() {
    // Nothing listens there any more.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let host = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let url = format!("http://{host}/");
    let secret = format!("http://{host}/?token=pa55");
    let credentials = format!("http://user:pa55@{host}/");
    for args in [
        &["run", &secret][..],
        &["run", "http://no-such-host.invalid/?token=pa55"],
        &["run", &credentials],
        &["run", &url, &secret],
        &["run", &secret, "--target", &secret],
        &["run", &url, "--header", "Authorization=pa55"],
        &["run", &url, "--header", "Authorization pa55"],
        &["run", &url, "--header", "X-Key:", "pa55"],
        &["run", &url, "--headr", "Authorization: pa55"],
        &["run", &url, "--headr=Authorization: pa55"],
        &["run", &url, "--threshold", "Authorization=pa55"],
        &["run", &url, "--threshold", "Authorization: pa55"],
        &[&secret],
    ] {
        assert_kept(args, None);
    }
    for plan in [
        "headers = [\"Authorization: pa55]",
        "headers = [\"Authorization=pa55\"]",
        "headers = \"Authorization pa55\"",
        "headers = { Authorization = \"pa55\" }",
        "headers = [Authorization: pa55]",
        "header = [[\"pa55\"]]",
        "headers = [\"A: b\", { x = \"pa55\" }]",
        "headers = \"Authorization: pa55\"\nheaders = \"x\"",
        "Authorization: pa55",
        "Authorization = \"pa55\"",
        "\"Authorization: pa55\" = 1",
        "[headers]\nAuthorization = \"pa55\"",
        "thresholds = \"Authorization=pa55\"",
        "[thresholds]\nAuthorization = \"pa55\"",
        "target = \"http://h/?t=pa55",
        "target = [\"http://h/?t=pa55\"]",
        "body = { password = \"pa55\" }",
    ] {
        assert_kept(&["run", &url], Some(plan));
    }
}
