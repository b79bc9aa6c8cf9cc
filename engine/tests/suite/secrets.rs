//! A plan's secrets are sent but never shown: the report has their hashes, and its samples still
//! belong to it.

use std::fs;

use engine::plan::Plan;
use engine::verify::with_samples;

use crate::support::{always_ok, open, plan, run, serve};

#[test]
fn a_report_shows_no_secret_and_its_samples_belong_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (raw, body) = (folder.path().join("run.samples"), folder.path().join("order"));
    fs::write(&body, "hidden-order").expect("written");
    let mut plan = Plan {
        method: "POST".to_owned(),
        headers: vec!["X-Passwd: open-sesame".to_owned(), "Accept: text/html".to_owned()],
        body: Some(format!("@{}", body.display())),
        raw: Some(raw.clone()),
        ..open(plan(serve(always_ok)), "1k")
    };
    plan.target.push_str("orders?token=hidden-token");
    let report = run(plan).report;

    let document = serde_json::to_string(&report).expect("a document");
    for secret in ["open-sesame", "hidden-order", "hidden-token"] {
        assert!(!document.contains(secret), "{secret} is in the report");
    }
    let shown = &report.config.plan;
    assert!(shown.target.contains("/orders?token=sha256:"), "{}", shown.target);
    assert_eq!(shown.headers[1], "Accept: text/html");
    assert!(shown.headers[0].starts_with("X-Passwd: sha256:"), "{:?}", shown.headers);
    let shown_body = shown.body.as_deref().expect("a body");
    assert!(shown_body.starts_with(&format!("@{} sha256:", body.display())), "{shown_body}");

    let findings = with_samples(&report, &[&raw]);
    assert!(findings.iter().any(|finding| finding.what.ends_with("plan")), "{findings:?}");
    let wrong: Vec<_> = findings.iter().filter(|finding| !finding.ok).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
