//! A report against the raw samples of its run: every number is computed again from the requests themselves.
//!
//! The files are read as streams: once for counts, schedule and histograms, then once for each distribution, whose
//! values are sorted in memory, 8 bytes a request, for quantiles that owe nothing to a histogram.

use std::collections::BTreeMap;
use std::path::Path;

use super::distribution::{buckets_of, stated};
use super::document::arrivals_of;
use super::parts::same_map;
use super::{Finding, QUANTILES, is_close, seconds_to_ns, to_ns};
use crate::distribution::{Distribution, VALUE_MAX_NS, backfill, rank};
use crate::plan::Plan;
use crate::report::{DistributionPart, IntervalPart, Report};
use crate::samples::{
    End, Header, Kind, ReadError, Sample, SampleReader, Tally, cause_name, plan_digest,
};
use crate::schedule::Digest;
use crate::units::SECOND_NS;

/// How far a percentile of the report may be from the exact one: 1 %, or one bucket of its histogram.
const QUANTILE_TOLERANCE: f64 = 0.01;

/// Gives the values that a sample adds to one of the report's distributions.
type Measure = fn(&Sample, &Plan, &mut dyn FnMut(u64));

/// A distribution of the report that samples can rebuild.
type Measured<'a> = (&'static str, &'a DistributionPart, Measure);

fn measured(report: &Report) -> Vec<Measured<'_>> {
    let whole = &report.whole;
    let mut all: Vec<Measured<'_>> = vec![
        ("naive", &whole.naive, |sample, _, each| sample.naive_ns().into_iter().for_each(each)),
        ("corrected", &whole.corrected, corrected),
        ("pacer_lateness", &whole.pacer_lateness, |sample, _, each| {
            sample.pacer_lateness_ns().into_iter().for_each(each);
        }),
        ("connection_wait", &whole.connection_wait, |sample, _, each| {
            sample.connection_wait_ns().into_iter().for_each(each);
        }),
    ];
    if let Some(successes) = &whole.successes {
        all.push(("successes.naive", &successes.naive, |sample, plan, each| {
            sample.naive_ns().filter(|_| is_success(sample, plan)).into_iter().for_each(each);
        }));
        all.push(("successes.corrected", &successes.corrected, |sample, plan, each| {
            sample.corrected_ns().filter(|_| is_success(sample, plan)).into_iter().for_each(each);
        }));
    }
    all
}

fn is_success(sample: &Sample, plan: &Plan) -> bool {
    sample.kind == Kind::Answered && plan.expect_status.holds(sample.status)
}

/// The corrected latency, or with back-filling the naive one and those of the requests that it held up.
fn corrected(sample: &Sample, plan: &Plan, each: &mut dyn FnMut(u64)) {
    match (plan.backfill.is_off(), plan.period, sample.naive_ns()) {
        (false, Some(period), Some(naive_ns)) => backfill(naive_ns, period.0, each),
        _ => sample.corrected_ns().into_iter().for_each(each),
    }
}

/// Checks a report against the samples of its run, one file for each agent. A file that is damaged or incomplete ends
/// the checks, for nothing can be said from a part.
pub fn with_samples(report: &Report, files: &[&Path]) -> Vec<Finding> {
    let until_ns = seconds_to_ns(report.config.schedule_until);
    let mut findings = Vec::new();
    let measured = measured(report);
    let plan = &report.config.plan;
    let mut replay = Replay::new(report, until_ns, measured.len());
    for file in files {
        match replay.read(file, plan, &measured) {
            Ok((header, end)) => findings.extend(belonging(report, file, &header, &end)),
            Err(error) => {
                findings.push(Finding::new(file.display().to_string(), "whole", error, false));
                return findings;
            }
        }
    }
    findings.extend(replay.counts(report));
    findings.extend(replay.rates(report));
    findings.extend(replay.schedule(report));
    findings.push(replay.series.against(&report.series.intervals));
    for ((name, document, measure), rebuilt) in measured.into_iter().zip(&replay.distributions) {
        findings.extend(against_rebuilt(name, document, rebuilt));
        match sorted(files, plan, measure) {
            Ok(values) => findings.extend(quantiles(name, document, &values)),
            Err(error) => findings.push(Finding::new(name, "a file that stays", error, false)),
        }
    }
    findings
}

/// Whether a file is of this run's plan and whole.
fn belonging(report: &Report, file: &Path, header: &Header, end: &End) -> Vec<Finding> {
    let plan = &report.config.plan;
    let hex = |digest: u64| format!("{digest:016x}");
    let name = |what: &str| format!("{}: {what}", file.display());
    vec![
        Finding::equal(name("plan"), hex(plan_digest(plan)), hex(header.plan_digest)),
        Finding::equal(name("seed"), plan.seed, header.seed),
        Finding::equal(name("window start, ns"), plan.warmup.0, header.window_start_ns),
        Finding::equal(name("window end, ns"), plan.end_ns(), header.window_end_ns),
        Finding::equal(
            name("end of the schedule, ns"),
            seconds_to_ns(report.config.schedule_until),
            end.until_ns,
        ),
        Finding::equal(name("samples lost"), 0, end.lost()),
    ]
}

/// What the samples of all files add up to.
struct Replay {
    until_ns: u64,
    tally: Tally,
    ends: Tally,
    taken: Digest,
    intended: Digest,
    early: u64,
    unconnected: u64,
    sent_in_window: u64,
    answered_in_window: u64,
    status: BTreeMap<String, u64>,
    errors: BTreeMap<String, u64>,
    skipped: BTreeMap<String, u64>,
    distributions: Vec<Distribution>,
    series: SeriesCounts,
}

impl Replay {
    fn new(report: &Report, until_ns: u64, distributions: usize) -> Replay {
        Replay {
            until_ns,
            tally: Tally::default(),
            ends: Tally::default(),
            taken: Digest::default(),
            intended: Digest::default(),
            early: 0,
            unconnected: 0,
            sent_in_window: 0,
            answered_in_window: 0,
            status: BTreeMap::new(),
            errors: BTreeMap::new(),
            skipped: BTreeMap::new(),
            distributions: vec![Distribution::new(); distributions],
            series: SeriesCounts::new(report),
        }
    }

    fn read(
        &mut self,
        file: &Path,
        plan: &Plan,
        measured: &[Measured<'_>],
    ) -> Result<(Header, End), ReadError> {
        let mut reader = SampleReader::open(file)?;
        let header = *reader.header();
        // By number first: a name for every sample would be a text for every sample.
        let mut status: BTreeMap<u16, u64> = BTreeMap::new();
        let mut causes: BTreeMap<u16, u64> = BTreeMap::new();
        let mut reasons: BTreeMap<u16, u64> = BTreeMap::new();
        for sample in &mut reader {
            let sample = sample?;
            self.add(&sample, &header);
            for ((_, _, measure), distribution) in measured.iter().zip(&mut self.distributions) {
                measure(&sample, plan, &mut |value_ns| distribution.record(value_ns));
            }
            match sample.kind {
                Kind::Answered => *status.entry(sample.status).or_default() += 1,
                Kind::TimedOut | Kind::Failed => *causes.entry(sample.cause).or_default() += 1,
                Kind::Unsent => *reasons.entry(sample.cause).or_default() += 1,
                Kind::Abandoned => {}
            }
        }
        for (code, count) in status {
            *self.status.entry(code.to_string()).or_default() += count;
        }
        for (codes, names) in [(causes, &mut self.errors), (reasons, &mut self.skipped)] {
            for (code, count) in codes {
                let name = cause_name(code).unwrap_or_else(|| format!("cause {code}"));
                *names.entry(name).or_default() += count;
            }
        }
        let end = reader.end().expect("a file read without an error has its end").clone();
        for shard in &end.shards {
            self.ends.merge(&shard.tally);
            self.taken.merge(Digest::from_value(shard.schedule_digest, shard.schedule_arrivals));
        }
        Ok((header, end))
    }

    fn add(&mut self, sample: &Sample, header: &Header) {
        self.tally.add(sample.kind);
        self.intended.add(sample.intended_ns);
        self.early += u64::from(sample.intended_ns < header.window_start_ns);
        self.unconnected += u64::from(sample.is_unconnected());
        let sent = sample.kind != Kind::Unsent
            && !sample.is_unconnected()
            && sample.sent_ns <= self.until_ns;
        self.sent_in_window += u64::from(sent);
        let answered = sample.kind == Kind::Answered && sample.ended_ns <= self.until_ns;
        self.answered_in_window += u64::from(answered);
        self.series.add(sample, sent, answered);
    }

    fn counts(&self, report: &Report) -> Vec<Finding> {
        let (samples, counts) = (&self.tally, &report.whole.counts);
        let numbers = [
            ("intended", samples.intended, counts.intended),
            ("sent", samples.sent, counts.sent),
            ("sent_in_window", self.sent_in_window, counts.sent_in_window),
            ("unconnected", self.unconnected, counts.unconnected),
            ("unsent", samples.unsent, counts.unsent),
            ("answered", samples.answered, counts.answered),
            ("timed_out", samples.timed_out, counts.timed_out),
            ("failed", samples.failed, counts.failed),
            ("abandoned", samples.abandoned, counts.abandoned),
            ("intended by the shards' ends", self.ends.intended, counts.intended),
            ("samples due before the window", 0, self.early),
        ];
        let mut findings: Vec<Finding> = numbers
            .into_iter()
            .map(|(what, expected, found)| {
                Finding::equal(format!("samples: {what}"), expected, found)
            })
            .collect();
        findings.push(Finding::new(
            "samples: sums close",
            "yes",
            if samples.closes() { "yes" } else { "no" },
            samples.closes(),
        ));
        findings.push(same_map("samples: status", &self.status, &counts.status));
        findings.push(same_map("samples: errors", &self.errors, &counts.errors));
        findings.push(same_map("samples: unsent", &self.skipped, &counts.unsent_reasons));
        findings
    }

    fn rates(&self, report: &Report) -> Vec<Finding> {
        let window_ns = self.until_ns.saturating_sub(report.config.plan.warmup.0);
        let per_second = |count: u64| match window_ns {
            0 => 0.0,
            window_ns => count as f64 * SECOND_NS as f64 / window_ns as f64,
        };
        let rate = &report.whole.rate;
        vec![
            Finding::close("samples: rate.sent", per_second(self.sent_in_window), rate.sent),
            Finding::close(
                "samples: rate.answered",
                per_second(self.answered_in_window),
                rate.answered,
            ),
        ]
    }

    /// The samples' intended times against the plan's arrivals of the window.
    fn schedule(&self, report: &Report) -> Vec<Finding> {
        let Some((whole, window)) = arrivals_of(&report.config.plan, self.until_ns) else {
            return Vec::new();
        };
        let found = report.config.schedule_digest.clone().unwrap_or("none".to_owned());
        vec![
            Finding::equal("samples: schedule_digest by the shards' ends", self.taken.hex(), found),
            Finding::equal("samples: whole schedule", whole.hex(), self.taken.hex()),
            Finding::equal("samples: intended times", window.hex(), self.intended.hex()),
        ]
    }
}

/// The counts of an interval: by when requests were due intended, sent, unsent, answered and errors; by when they happened sends
/// and answers.
type IntervalCounts = [u64; 7];

/// The counts of the report's intervals, made again.
struct SeriesCounts {
    window_ns: u64,
    interval_ns: u64,
    intervals: Vec<IntervalCounts>,
    /// What belongs to no interval of the report.
    outside: u64,
}

impl SeriesCounts {
    fn new(report: &Report) -> SeriesCounts {
        SeriesCounts {
            window_ns: report.config.plan.warmup.0,
            interval_ns: seconds_to_ns(report.series.interval_s).max(1),
            intervals: vec![[0; 7]; report.series.intervals.len()],
            outside: 0,
        }
    }

    /// `sent` and `answered` say whether it was, before the end of the window.
    fn add(&mut self, sample: &Sample, sent: bool, answered: bool) {
        let end = match sample.kind {
            Kind::Unsent => 2,
            Kind::Answered => 3,
            Kind::TimedOut | Kind::Failed | Kind::Abandoned => 4,
        };
        self.count(sample.intended_ns, 0, true);
        self.count(sample.intended_ns, 1, sample.kind != Kind::Unsent);
        self.count(sample.intended_ns, end, true);
        // The moment between two intervals belongs to the earlier one.
        self.count(sample.sent_ns.saturating_sub(1).max(self.window_ns), 5, sent);
        self.count(sample.ended_ns.saturating_sub(1).max(self.window_ns), 6, answered);
    }

    fn count(&mut self, at_ns: u64, column: usize, counts: bool) {
        if !counts {
            return;
        }
        let since_ns = at_ns.checked_sub(self.window_ns);
        let at = since_ns.and_then(|ns| usize::try_from(ns / self.interval_ns).ok());
        match at.and_then(|at| self.intervals.get_mut(at)) {
            Some(interval) => interval[column] += 1,
            None => self.outside += 1,
        }
    }

    fn against(&self, intervals: &[IntervalPart]) -> Finding {
        let stated = |interval: &IntervalPart| {
            let IntervalPart { intended, sent, unsent, answered, errors, sends, answers, .. } =
                *interval;
            [intended, sent, unsent, answered, errors, sends, answers]
        };
        let rebuilt = self.intervals.iter().zip(intervals);
        let differ = rebuilt.filter(|(rebuilt, interval)| **rebuilt != stated(interval)).count();
        let ok = differ == 0 && self.outside == 0;
        Finding::new(
            "samples: series",
            "each interval's counts",
            if ok {
                "each interval's counts".to_owned()
            } else {
                format!("{differ} intervals with others, {} counts in none", self.outside)
            },
            ok,
        )
    }
}

/// A distribution of the report against the one that the samples give when recorded again: equal in every bucket.
fn against_rebuilt(
    name: &str,
    document: &DistributionPart,
    rebuilt: &Distribution,
) -> Vec<Finding> {
    let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
    let histogram = document.decode_histogram();
    let same = histogram
        .as_ref()
        .is_ok_and(|histogram| buckets_of(histogram) == buckets_of(rebuilt.histogram()));
    let text = |value: Option<f64>| value.map_or("n/a".to_owned(), |value| value.to_string());
    let number = |key: &str, expected: Option<f64>, found: Option<f64>| {
        let ok = match (expected, found) {
            (Some(expected), Some(found)) => is_close(expected, found),
            (expected, found) => expected.is_none() && found.is_none(),
        };
        Finding::new(format!("samples: {name}.{key}"), text(expected), text(found), ok)
    };
    vec![
        Finding::equal(format!("samples: {name}.count"), rebuilt.count(), document.count),
        Finding::equal(format!("samples: {name}.overflow"), rebuilt.overflow(), document.overflow),
        Finding::new(
            format!("samples: {name}.histogram"),
            "equal in every bucket",
            if same { "equal in every bucket" } else { "not equal" },
            same,
        ),
        number("min", us(rebuilt.min_ns()), document.min),
        number("mean", rebuilt.mean_ns().map(|ns| ns / 1e3), document.mean),
        number("max", us(rebuilt.max_ns()), document.max),
    ]
}

/// The values of one measure over all files, in order.
fn sorted(files: &[&Path], plan: &Plan, measure: Measure) -> Result<Vec<u64>, ReadError> {
    let mut values = Vec::new();
    for file in files {
        for sample in SampleReader::open(file)? {
            measure(&sample?, plan, &mut |value_ns| values.push(value_ns));
        }
    }
    values.sort_unstable();
    Ok(values)
}

/// The percentiles that the report states against the exact ones.
fn quantiles(name: &str, document: &DistributionPart, values: &[u64]) -> Vec<Finding> {
    let histogram = Distribution::new();
    let bucket_ns = |value_ns: u64| histogram.histogram().equivalent_range(value_ns);
    let mut findings = Vec::new();
    for (key, q) in QUANTILES {
        let Some(found) = stated(document, key) else { continue };
        let what = format!("samples: {name}.{key}");
        if values.is_empty() {
            findings.push(Finding::new(what, "n/a", found, false));
            continue;
        }
        let at = usize::try_from(rank(q, values.len() as u64) - 1).expect("a rank is an index");
        let exact_ns = values[at];
        let found_ns = to_ns(found);
        // Beyond the histogram's range the report states its end, a lower bound.
        let expected_ns = exact_ns.min(VALUE_MAX_NS);
        let off = found_ns.abs_diff(expected_ns);
        let ok =
            off as f64 <= QUANTILE_TOLERANCE * expected_ns as f64 || off <= bucket_ns(expected_ns);
        findings.push(Finding::new(what, exact_ns as f64 / 1e3, found, ok));
    }
    findings
}
