//! The findings of `doctor`: problems with cause and cure; on demand all checks.

use engine::host::check::{Check, Severity};

use super::extent::Extent;
use super::figures::things;
use super::layout::{Column, Text, aligned, widest};

/// The problems (all checks with details), and a line that sums them up.
pub(crate) fn findings(checks: &[Check], extent: Extent) -> String {
    let is_shown = |check: &&Check| extent == Extent::Details || check.is_problem();
    let shown: Vec<&Check> = checks.iter().filter(is_shown).collect();
    let mut text = Text::new();
    let columns = [Column::Left(9), Column::Left(widest(shown.iter().map(|check| check.name)) + 2)];
    for check in &shown {
        let label = aligned(&columns, &[word(check.severity), check.name, ""]);
        text.field_of_lists(label.len(), &label, &check.found);
        for line in check.cause.iter().chain(&check.cure) {
            text.field(label.len() + 2, "", line);
        }
    }
    if !shown.is_empty() {
        text.blank();
    }
    let has = |severity: Severity| checks.iter().any(|check| check.severity == severity);
    let ready = if has(Severity::Missing) {
        "Not ready: a run can't start until the missing items are fixed."
    } else if has(Severity::Warning) {
        "Ready to run; the warnings may affect the numbers."
    } else {
        "Ready to run."
    };
    let count = |severity| checks.iter().filter(|check| check.severity == severity).count() as u64;
    let good = things(count(Severity::Good), "check");
    text.line(match (extent, count(Severity::Unknown)) {
        (Extent::Details, _) => ready.to_owned(),
        (Extent::Screen, 0) => format!("{ready} {good} passed."),
        (Extent::Screen, unknown) => {
            format!("{ready} {good} passed, {unknown} couldn't be made (--details).")
        }
    });
    text.done()
}

/// The word for a severity.
pub(crate) fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Good => "good",
        Severity::Unknown => "unknown",
        Severity::Warning => "warning",
        Severity::Missing => "missing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        name: &'static str,
        severity: Severity,
        cause: Option<&str>,
        cure: Option<&str>,
    ) -> Check {
        let (cause, cure) = (cause.map(str::to_owned), cure.map(str::to_owned));
        Check { name, severity, found: "as found".to_owned(), cause, cure }
    }

    #[test]
    fn a_list_of_many_cores_is_wrapped() {
        let even: Vec<String> = (0..32).map(|core| (2 * core).to_string()).collect();
        let found = format!("0 with cores {}; 1 with cores 65", even.join(","));
        let nodes = Check { found, ..check("memory nodes", Severity::Good, None, None) };
        insta::assert_snapshot!(findings(&[nodes], Extent::Details), @r"
        good     memory nodes  0 with cores 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,
                               32,34,36,38,40,42,44,46,48,50,52,54,56,58,60,62; 1 with
                               cores 65

        Ready to run.
        ");
    }

    #[test]
    fn problems_come_with_cause_and_cure() {
        let checks = [
            check("kernel", Severity::Good, None, None),
            check("clock source", Severity::Warning, Some("slow"), Some("another")),
            check("io_uring", Severity::Missing, Some("forbidden"), Some("allow it")),
        ];
        insta::assert_snapshot!(findings(&checks, Extent::Screen), @r"
        warning  clock source  as found
                                 slow
                                 another
        missing  io_uring      as found
                                 forbidden
                                 allow it

        Not ready: a run can't start until the missing items are fixed. 1 check passed.
        ");
        insta::assert_snapshot!(findings(&checks, Extent::Details), @r"
        good     kernel        as found
        warning  clock source  as found
                                 slow
                                 another
        missing  io_uring      as found
                                 forbidden
                                 allow it

        Not ready: a run can't start until the missing items are fixed.
        ");
        assert!(
            findings(&checks[..2], Extent::Details)
                .ends_with("the warnings may affect the numbers.\n")
        );
        let good = "Ready to run. 1 check passed.\n";
        assert_eq!(findings(&checks[..1], Extent::Screen), good);
        let unknown = [checks[0].clone(), check("audit", Severity::Unknown, None, None)];
        let summary = "Ready to run. 1 check passed, 1 couldn't be made (--details).\n";
        assert_eq!(findings(&unknown, Extent::Screen), summary);
    }
}
