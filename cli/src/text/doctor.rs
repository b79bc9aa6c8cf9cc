//! The findings of `doctor`, one per line, with cause and cure below each problem.

use std::fmt::Write as _;

use engine::host::check::{Check, Severity};

use super::wrap::indented_lists;

/// The findings, and a last line that sums them up.
pub(crate) fn findings(checks: &[Check]) -> String {
    let mut text = String::new();
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for check in checks {
        let word = word(check.severity);
        let first = format!("{word:<8} {:<width$}  ", check.name);
        text += &indented_lists(&first, &" ".repeat(first.len()), &check.found);
        for line in check.cause.iter().chain(&check.cure) {
            let _ = writeln!(text, "{:<8} {:<width$}    {line}", "", "");
        }
    }
    let has = |severity: Severity| checks.iter().any(|check| check.severity == severity);
    text.push_str(if has(Severity::Missing) {
        "\nNot ready: a run can't start until the missing items are fixed.\n"
    } else if has(Severity::Warning) {
        "\nReady to run; the warnings may affect the numbers.\n"
    } else {
        "\nReady to run.\n"
    });
    text
}

/// The word for a severity.
pub(crate) fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Good => "good",
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
        insta::assert_snapshot!(findings(&[nodes]), @r"
        good     memory nodes  0 with cores 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,
                               32,34,36,38,40,42,44,46,48,50,52,54,56,58,60,62; 1 with
                               cores 65

        Ready to run.
        ");
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

        Not ready: a run can't start until the missing items are fixed.
        ");
        assert!(findings(&checks[..2]).ends_with("the warnings may affect the numbers.\n"));
        assert!(findings(&checks[..1]).ends_with("Ready to run.\n"));
    }
}
