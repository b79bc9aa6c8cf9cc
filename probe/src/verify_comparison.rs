//! Verifies the document of `compare` or of `ab`: what it says of each figure follows from the
//! figures, those of `ab` from its slices, and with the reports all of it from these.

use engine::report::Report;
use engine::report::verdict::Level;
use engine::stats::percentiles::PERCENTILES;
use engine::stats::pieces::RUNS_MIN;
use engine::verify::{Finding, compare as compare_values, summed_up};

use crate::ab::{AbDocument, AbPlan, Measured, Name, Slice, Turn, turns};
use crate::change::{CONFIDENCE, ErrorsChange, PercentileChange};
use crate::compare::{Allowed, Changes, Comparison, SCHEMA, Side, compare, overall};
use crate::step::Trust;
use crate::verify::rises;

/// What a comparison of runs doesn't contain.
pub const UNCHECKED: &str = "without the reports of the runs, their percentiles, the intervals, \
    the shares of errors, and the counts of either side";

/// What a comparison by slices doesn't contain.
pub const UNCHECKED_OF_SLICES: &str = "the environment and the plan; and of each slice without \
    its report, its counts, its percentiles and the reasons of its verdict";

/// The most pairs that are examined: those of the longest comparison.
const PAIRS_MAX: usize = 1_000;

/// Checks the document of `compare`; with the reports of both sides, recomputes it from them.
pub fn of_runs(document: &Comparison, reports: Option<[&[Report]; 2]>) -> Vec<Finding> {
    let sides = [&document.a, &document.b];
    let mut findings = constants(document);
    findings.extend(side("a", &document.a));
    findings.extend(side("b", &document.b));
    // With many runs on both sides, the intervals include the noise between them.
    let is_within = sides.iter().all(|side| RUNS_MIN <= side.runs);
    let least = |one: &PercentileChange| {
        let noise = one.noise.filter(|_| !is_within).unwrap_or(1.0);
        noise.max(1.0 + document.margin)
    };
    let whole =
        Changes { percentiles: document.percentiles.clone(), errors: document.errors.clone() };
    findings.extend(figures(&whole, &least));
    for part in &document.parts {
        let found = Changes { percentiles: part.percentiles.clone(), errors: part.errors.clone() };
        let mut checks = figures(&found, &least);
        checks.extend(compare_values("change", &found.overall(), &part.change));
        for (side, requests) in sides.iter().zip(part.requests) {
            checks.push(Finding::at_most("requests", side.requests, requests));
        }
        findings.extend(summed_up(&format!("part {}", part.part), checks));
    }
    let change = overall(whole.overall(), document.parts.iter().map(|part| part.change));
    findings.extend(compare_values("change", &change, &document.change));
    if let Some([a, b]) = reports {
        findings.extend(summed_up("by the reports", by_reports(document, a, b)));
    }
    findings
}

/// Checks the document of `ab`; `report` gives the report of a slice, if there is one, or why it
/// can't be used.
pub fn of_slices(
    document: &AbDocument,
    report: impl Fn(Turn) -> Option<Result<Report, String>>,
) -> Vec<Finding> {
    let AbDocument { comparison, pairs_asked, slices, .. } = document;
    let mut findings = constants(comparison);
    findings.push(Finding::at_most("pairs_asked", PAIRS_MAX, *pairs_asked));
    findings.push(Finding::at_most("slices", pairs_asked.saturating_mul(2), slices.len()));
    if findings.iter().any(|finding| !finding.ok) {
        return findings;
    }
    // Only the first of them were made if it ended early.
    let planned = turns(slices.len()).filter(|turn| 0 < turn.pair);
    let first = slices.first();
    for (slice, planned) in slices.iter().zip(planned) {
        let turn = Turn { pair: slice.pair, of: slice.of };
        let mut checks = one(slice);
        let is_next = turn == planned;
        checks.push(Finding::new("turn", format!("{planned:?}"), format!("{turn:?}"), is_next));
        if let Some(first) = first {
            let pairs_later = (slice.pair as u64).wrapping_sub(first.pair as u64);
            let seed = first.seed.wrapping_add(pairs_later);
            checks.push(Finding::equal("seed", seed, slice.seed));
        }
        match report(turn) {
            None => {}
            Some(Err(problem)) => {
                checks.push(Finding::new("report", "that of the slice", problem, false));
            }
            Some(Ok(report)) => {
                let expected = Slice::new(turn, &report);
                checks.extend(compare_values("by its report: ", &expected, slice));
            }
        }
        findings.extend(summed_up(&format!("slice {:?}{}", slice.of, slice.pair), checks));
    }
    let asked = AbPlan {
        pairs: *pairs_asked,
        margin: comparison.margin,
        allow_invalid: document.allow_invalid,
    };
    let expected = AbDocument {
        interrupted: document.interrupted,
        error: document.error.clone(),
        plan: document.plan.clone(),
        environment: document.environment.clone(),
        reports: document.reports.clone(),
        ..AbDocument::new(&asked, slices.clone())
    };
    findings.extend(compare_values("", &expected, document));
    let is_cut_short = slices.len() < 2 * pairs_asked;
    findings.push(Finding::equal("interrupted", is_cut_short, document.interrupted));
    let is_explained = document.error.is_none() || is_cut_short;
    findings.push(Finding::equal("error: of what was cut short", true, is_explained));
    findings.extend(planned_first(document));
    findings
}

/// The plan is that of the first slice, before the first pair.
fn planned_first(document: &AbDocument) -> Vec<Finding> {
    let (Some(plan), Some(first)) = (&document.plan, document.slices.first()) else {
        return Vec::new();
    };
    let seed = first.seed.wrapping_sub(first.pair as u64);
    let mut findings = vec![Finding::equal("plan.seed", seed, plan.seed)];
    let of_a = document.slices.iter().find(|slice| slice.of == Name::A);
    let target = of_a.map(|slice| Finding::equal("plan.target", &slice.target, &plan.target));
    findings.extend(target);
    findings
}

/// What is the same in all comparisons of this version.
fn constants(document: &Comparison) -> Vec<Finding> {
    let is_margin = document.margin.is_finite() && 0.0 <= document.margin;
    vec![
        Finding::equal("schema", SCHEMA, document.schema),
        Finding::close("confidence", CONFIDENCE, document.confidence),
        Finding::new("margin", "0 or more", document.margin, is_margin),
    ]
}

/// A side's counts are possible together, and so are the runs that it names.
fn side(name: &str, side: &Side) -> Vec<Finding> {
    let own = side.unsent.saturating_add(side.failed_here);
    let mut checks = vec![
        Finding::at_most("unsent + failed_here", side.requests, own),
        Finding::at_most("targets", side.runs, side.targets.len()),
        Finding::at_most("doubted", side.runs, side.doubted.len()),
        Finding::new("runs", "1 or more", side.runs, 0 < side.runs),
    ];
    if !side.reports.is_empty() {
        checks.push(Finding::equal("reports", side.runs, side.reports.len()));
    }
    for doubted in &side.doubted {
        checks.push(Finding::at_most("doubted: run", side.runs, doubted.run));
        checks.extend(verdict("doubted: ", &doubted.verdict));
    }
    summed_up(&format!("side {name}"), checks)
}

/// The level of a verdict is that of its worst reason.
fn verdict(prefix: &str, trust: &Trust) -> Vec<Finding> {
    let worst = trust.codes.iter().map(|reason| reason.level).max();
    let worst = worst.unwrap_or(Level::Valid);
    compare_values(&format!("{prefix}verdict.level"), &worst, &trust.level)
}

/// The figures of the whole or of a part: each ratio is that of the two values and lies in its
/// interval, which decides what is called, beyond the factor that `least` gives.
fn figures(of: &Changes, least: &impl Fn(&PercentileChange) -> f64) -> Vec<Finding> {
    let labels: Vec<&str> = of.percentiles.iter().map(|one| &*one.percentile).collect();
    let planned: Vec<&str> = PERCENTILES.iter().map(|one| one.label).collect();
    let mut findings = compare_values("percentiles", &planned, &labels);
    for one in &of.percentiles {
        let name = |what: &str| format!("{}.{what}", one.percentile);
        let ratio = one.a.zip(one.b).map(|(a, b)| b / a);
        findings.extend(compare_values(&name("ratio"), &ratio, &one.ratio));
        findings.extend(compare_values(&name("change"), &one.again(least(one)), &one.change));
        findings.push(Finding::equal(name("unit"), "us", &*one.unit));
        findings.push(within(name("interval"), one.interval, one.ratio));
        let is_above = one.shows.is_none_or(|shows| least(one) <= shows);
        let shows = one.shows.map_or("none".to_owned(), |shows| shows.to_string());
        findings.push(Finding::new(name("shows"), "above the margin", shows, is_above));
    }
    if let Some(errors) = &of.errors {
        let ErrorsChange { a, b, difference, interval, .. } = *errors;
        findings.extend(compare_values("errors.", &errors.again(), errors));
        let interval = interval.map(Some);
        findings.push(within("errors.interval".to_owned(), interval, Some(difference)));
        for share in [a, b] {
            let is_share = (0.0..=1.0).contains(&share);
            findings.push(Finding::new("errors: share", "0 to 1", share, is_share));
        }
    }
    findings
}

/// An estimate lies in its interval, as far as both are known.
fn within(what: String, [low, high]: [Option<f64>; 2], estimate: Option<f64>) -> Finding {
    let ok = estimate.is_none_or(|estimate| {
        low.is_none_or(|low| low <= estimate) && high.is_none_or(|high| estimate <= high)
    });
    let found = format!("{low:?} to {high:?}");
    Finding::new(what, "one that contains its estimate", found, ok)
}

/// The comparison of these reports, against the document.
fn by_reports(document: &Comparison, a: &[Report], b: &[Report]) -> Vec<Finding> {
    let allowed = Allowed { invalid: true, plans: true };
    match compare(a, b, document.margin, allowed) {
        Err(problem) => vec![Finding::new("reports", "runs to compare", problem, false)],
        Ok(mut expected) => {
            expected.a.reports.clone_from(&document.a.reports);
            expected.b.reports.clone_from(&document.b.reports);
            compare_values("", &expected, document)
        }
    }
}

/// A slice agrees with itself, and its parts add up to it.
fn one(slice: &Slice) -> Vec<Finding> {
    let mut findings = measured("", &slice.whole);
    findings.extend(verdict("", &slice.verdict));
    for part in &slice.parts {
        findings.extend(measured(&format!("{}: ", part.part), &part.of));
    }
    if slice.parts.is_empty() {
        return findings;
    }
    let sum = |of: fn(&Measured) -> u64| {
        slice.parts.iter().map(|part| of(&part.of)).fold(0, u64::saturating_add)
    };
    // A request that was dropped counts for the target in the whole and not in its part, or the
    // other way round, if others of its part waited for other reasons.
    let bad = |of: &Measured| of.errors.saturating_add(of.unsent);
    findings.extend([
        Finding::equal("parts: requests", slice.whole.requests, sum(|of| of.requests)),
        Finding::equal("parts: failed_here", slice.whole.failed_here, sum(|of| of.failed_here)),
        Finding::equal("parts: errors + unsent", bad(&slice.whole), sum(bad)),
        Finding::equal("parts: count", slice.whole.corrected.count, sum(|of| of.corrected.count)),
    ]);
    findings
}

/// The figures of a slice, or of a part of it, are possible together.
fn measured(prefix: &str, of: &Measured) -> Vec<Finding> {
    let name = |what: &str| format!("{prefix}{what}");
    let bad = [of.unsent, of.failed_here, of.errors].into_iter().fold(0, u64::saturating_add);
    vec![
        Finding::at_most(name("unsent + failed_here + errors"), of.requests, bad),
        Finding::at_most(name("corrected.count"), of.requests, of.corrected.count),
        rises(&name("corrected"), &of.corrected),
    ]
}
