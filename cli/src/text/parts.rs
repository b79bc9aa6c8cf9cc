//! The requests of each scenario, a line each: those with the longest tail first.

use engine::report::{DistributionPart, Part, StepPart};

use super::figures::{cell, count, percentile};

/// The most lines: the report has all.
const SHOWN_MAX: usize = 12;
/// The widest that a name is shown.
const NAME_MAX: usize = 24;

/// A line for each scenario of a part; nothing where there is only one.
pub(super) fn parts(part: &Part) -> String {
    if part.parts.is_empty() {
        return String::new();
    }
    let mut steps: Vec<&StepPart> = part.parts.iter().collect();
    // Of an unknown p99 the maximum is known.
    let tail = |step: &StepPart| step.corrected.quantile_us(0.99).or(step.corrected.max);
    steps.sort_by(|one, other| tail(other).unwrap_or(0.0).total_cmp(&tail(one).unwrap_or(0.0)));
    let mut text = format!(
        "{:<NAME_MAX$}{:>10}{:>9}{:>11}{:>11}{:>11}\n",
        "corrected by scenario", "requests", "bad", "p50", "p99", "max"
    );
    for step in steps.iter().take(SHOWN_MAX) {
        let of = |part: &DistributionPart, us| cell(&percentile(part, us));
        let corrected = &step.corrected;
        let line = format!(
            "{:<NAME_MAX$}{:>10}{:>9} {} {} {}",
            short(&step.name),
            count(step.counts.intended),
            count(step.bad),
            of(corrected, corrected.quantile_us(0.5)),
            of(corrected, corrected.quantile_us(0.99)),
            of(corrected, corrected.max),
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if SHOWN_MAX < steps.len() {
        text.push_str(&format!(
            "and {} others: see `parts` in the report\n",
            steps.len() - SHOWN_MAX
        ));
    }
    text
}

/// A name that leaves room for the figures.
fn short(name: &str) -> String {
    if name.chars().count() < NAME_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME_MAX - 2).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use engine::record::counts::Counts;
    use engine::report::StepCounts;

    use super::super::reports::{part, times};
    use super::*;

    #[test]
    fn the_scenario_with_the_longest_tail_comes_first() {
        let step = |name: &str, us, requests| StepPart {
            name: name.to_owned(),
            planned: 0.5,
            counts: StepCounts::new(&Counts { intended: requests, ..Counts::default() }),
            bad: 3,
            naive: times(us, requests),
            corrected: times(us, requests),
        };
        let mut whole = part(1_020, 1_020, 0, 0);
        assert_eq!(parts(&whole), "");
        whole.parts = vec![
            step("GET /", 1_020, 9_000),
            step("a name that is longer than there is room for", 182_000, 900),
            step("rare", 90_000, 20),
        ];
        insta::assert_snapshot!(parts(&whole), @r"
        corrected by scenario     requests      bad        p50        p99        max
        a name that is longer…         900        3      182 ms      182 ms      182 ms
        rare                            20        3     90.0 ms      n/a        90.0 ms
        GET /                        9,000        3     1.02 ms     1.02 ms     1.02 ms
        ");
        whole.parts = (0..14).map(|at| step(&at.to_string(), 1_000 + at, 700)).collect();
        assert!(parts(&whole).ends_with("and 2 others: see `parts` in the report\n"));
        assert!(parts(&whole).lines().all(|line| line.chars().count() <= 80));
    }
}
