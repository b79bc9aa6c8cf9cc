//! The findings of an examination, one a line, with the cause and the cure below where something is wrong.

use std::fmt::Write as _;

use engine::host::check::{Check, Severity};

/// The findings, and a last line that says what they amount to.
pub(crate) fn findings(checks: &[Check]) -> String {
    let mut text = String::new();
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for check in checks {
        let word = match check.severity {
            Severity::Good => "good",
            Severity::Warning => "warning",
            Severity::Missing => "missing",
        };
        let _ = writeln!(text, "{word:<8} {:<width$}  {}", check.name, check.found);
        for line in check.cause.iter().chain(&check.cure) {
            let _ = writeln!(text, "{:<8} {:<width$}    {line}", "", "");
        }
    }
    let has = |severity: Severity| checks.iter().any(|check| check.severity == severity);
    text.push_str(if has(Severity::Missing) {
        "\nA run can't start here.\n"
    } else if has(Severity::Warning) {
        "\nA run can start; the warnings may show in its numbers.\n"
    } else {
        "\nA run can start.\n"
    });
    text
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
    fn what_is_missing_comes_with_cause_and_cure() {
        let checks = [
            check("kernel", Severity::Good, None, None),
            check("clock source", Severity::Warning, Some("slow"), Some("another")),
            check("io_uring", Severity::Missing, Some("forbidden"), Some("allow it")),
        ];
        insta::assert_snapshot!(findings(&checks), @r"
        good     kernel        as found
        warning  clock source  as found
                                 slow
                                 another
        missing  io_uring      as found
                                 forbidden
                                 allow it

        A run can't start here.
        ");
        assert!(findings(&checks[..2]).ends_with("the warnings may show in its numbers.\n"));
        assert!(findings(&checks[..1]).ends_with("A run can start.\n"));
    }
}
