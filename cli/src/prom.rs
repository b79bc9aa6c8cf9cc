//! The figures of a run for Prometheus, in the text that the node exporter's textfile collector
//! reads.
//!
//! All of them are gauges: the file is of one run, and the next one starts from zero. Each sample
//! has the target as a label, and the run's name if it has one, so that several runs' files can be
//! in one folder.
//!
//! Metrics of parts (`truetail_part_…`, a step in a stage) and of sessions (`truetail_session…`)
//! have names of their own, so that a sum over a metric counts no request twice.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use engine::record::counts::Counts;
use engine::report::verdict::Level;
use engine::report::{DistributionPart, Report, ScenarioPart, StepPart};
use engine::stats::percentiles::{Percentile, Quantile};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::json;
use crate::text::slo::bounded;

/// The prefix of every name.
const PREFIX: &str = "truetail";

/// A metric: its name without prefix and unit, its help, and its samples.
#[derive(Debug)]
struct Metric {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    samples: Vec<Sample>,
}

/// The labels of a value.
type Labels = Vec<(&'static str, String)>;
type Sample = (Labels, f64);

/// The metrics of a run, which keep their order.
#[derive(Debug)]
struct Metrics(Vec<Metric>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        // A metric without samples is left out.
        for metric in self.0.iter().filter(|metric| !metric.samples.is_empty()) {
            let unit = metric.unit.as_ref();
            let mut metric_encoder =
                encoder.encode_descriptor(metric.name, metric.help, unit, MetricType::Gauge)?;
            for (labels, value) in &metric.samples {
                ConstGauge::new(*value).encode(metric_encoder.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

/// Writes the figures of a run that began at this time.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(mut writer: impl Write, report: &Report, began: SystemTime) -> io::Result<()> {
    let target = ("target", Some(&report.config.plan.target));
    let labels = [target, ("run", report.label.as_ref())];
    let labels = labels
        .into_iter()
        .filter_map(|(name, value)| Some((Cow::Borrowed(name), Cow::Owned(value?.clone()))));
    let mut registry = Registry::with_prefix_and_labels(PREFIX, labels);
    registry.register_collector(Box::new(Metrics(metrics(report, began))));
    let mut text = String::new();
    encode(&mut text, &registry).map_err(io::Error::other)?;
    writer.write_all(text.as_bytes())
}

fn metrics(report: &Report, began: SystemTime) -> Vec<Metric> {
    let counts = &report.whole.counts;
    let count = |count: u64| count as f64;
    let plain = |name, help, unit, value: f64| Metric {
        name,
        help,
        unit,
        samples: vec![(Labels::new(), value)],
    };
    let began_s = began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let is_whole = !report.interrupted && !report.partial;
    let levels = [Level::Valid, Level::Suspect, Level::Invalid].map(|level| {
        let is_level = level == report.verdict.level;
        (vec![("level", json::name(&level))], f64::from(u8::from(is_level)))
    });
    let rates = &report.whole.rate;
    let rates = [
        ("planned", rates.target),
        ("intended", Some(rates.intended)),
        ("sent", Some(rates.sent)),
        ("answered", Some(rates.answered)),
    ];
    let rates =
        rates.into_iter().filter_map(|(what, per_s)| Some((vec![("of", what.to_owned())], per_s?)));
    let objectives = report.slo.iter().flat_map(|slo| &slo.objectives).map(|objective| {
        let judgement = json::name(&objective.judgement);
        (vec![("objective", bounded(objective)), ("judgement", judgement)], 1.0)
    });
    let per_s = Unit::Other("per_second".to_owned());
    let whole = [&report.whole.corrected, &report.whole.naive];
    let mut metrics = vec![
        plain(
            "run_start_timestamp",
            "When the load began, warm-up included, since the epoch of Unix",
            Some(Unit::Seconds),
            began_s,
        ),
        plain(
            "window",
            "Length of the recorded window",
            Some(Unit::Seconds),
            report.config.window_s(),
        ),
        plain(
            "run_complete",
            "1 if the run came to its planned end with all its agents",
            None,
            f64::from(u8::from(is_whole)),
        ),
        Metric {
            name: "verdict",
            help: "1 for the level of the verdict",
            unit: None,
            samples: levels.into(),
        },
        Metric {
            name: "objective",
            help: "1 for each objective, with what became of it",
            unit: None,
            samples: objectives.collect(),
        },
        plain("requests_intended", "Requests due in the window", None, count(counts.intended)),
        Metric {
            name: "requests",
            help: "Intended requests by their outcome",
            unit: None,
            samples: outcomes(counts),
        },
        plain("requests_bad", "Intended requests without a good answer", None, count(counts.bad())),
        Metric {
            name: "responses",
            help: "Answered requests by status",
            unit: None,
            samples: by("status", counts.status.by_name()),
        },
        Metric {
            name: "errors",
            help: "Requests that failed or timed out, by cause",
            unit: None,
            samples: by("cause", counts.errors.by_name()),
        },
        Metric {
            name: "requests",
            help: "Requests by the length of the window; answered: before its end",
            unit: Some(per_s),
            samples: rates.collect(),
        },
        Metric {
            name: "traffic",
            help: "Bytes of requests and responses in the window, with their heads",
            unit: Some(Unit::Bytes),
            samples: in_directions([report.traffic.received_bytes, report.traffic.sent_bytes]),
        },
        Metric {
            name: "latency",
            help: "Quantiles of latency, from when a request was due (corrected) or sent (naive)",
            unit: Some(Unit::Seconds),
            samples: of_kinds(whole, quantiles),
        },
        Metric {
            name: "latency_interval",
            help: "The ends of the 95 % confidence intervals of the quantiles",
            unit: Some(Unit::Seconds),
            samples: of_kinds(whole, intervals),
        },
        Metric {
            name: "latency_mean",
            help: "Mean latency",
            unit: Some(Unit::Seconds),
            samples: of_kinds(whole, mean),
        },
        Metric {
            name: "latency_max",
            help: "Largest latency",
            unit: Some(Unit::Seconds),
            samples: of_kinds(whole, max),
        },
    ];
    metrics.extend(of_parts(&report.whole.parts));
    metrics.extend(of_sessions(&report.whole.scenarios));
    metrics
}

/// The sessions of each scenario.
fn of_sessions(scenarios: &[ScenarioPart]) -> Vec<Metric> {
    let of_each = |of: &dyn Fn(&ScenarioPart) -> Vec<Sample>| {
        let of_scenario = |scenario: &ScenarioPart| {
            let own = vec![("scenario", scenario.name.clone())];
            let labelled = |(labels, value): Sample| ([own.clone(), labels].concat(), value);
            of(scenario).into_iter().map(labelled).collect::<Vec<Sample>>()
        };
        scenarios.iter().flat_map(of_scenario).collect::<Vec<Sample>>()
    };
    let seconds = |of: fn(&DistributionPart) -> Vec<Sample>| {
        of_each(&|scenario| {
            of(&scenario.latency).into_iter().map(|(labels, us)| (labels, us / 1e6)).collect()
        })
    };
    let metric = |name, help, unit, samples| Metric { name, help, unit, samples };
    vec![
        metric(
            "sessions_intended",
            "Sessions of a scenario due in the window",
            None,
            of_each(&|scenario| vec![(Labels::new(), scenario.intended as f64)]),
        ),
        metric(
            "sessions",
            "Intended sessions of a scenario by how they ended",
            None,
            of_each(&|scenario| {
                by_outcome([
                    ("completed", scenario.completed),
                    ("failed", scenario.failed()),
                    ("unfinished", scenario.unfinished()),
                    ("unsent", scenario.unsent),
                ])
            }),
        ),
        metric(
            "session_latency",
            "Quantiles of a session's latency, without think times",
            Some(Unit::Seconds),
            seconds(quantiles),
        ),
        metric(
            "session_latency_mean",
            "Mean latency of a scenario's sessions",
            Some(Unit::Seconds),
            seconds(mean),
        ),
        metric(
            "session_latency_max",
            "Largest latency of a scenario's sessions",
            Some(Unit::Seconds),
            seconds(max),
        ),
    ]
}

/// The figures of the parts, each with the labels of its scenario and stage. The whole's figures
/// have the same names without `part_`.
fn of_parts(parts: &[StepPart]) -> Vec<Metric> {
    let of_each = |of: &dyn Fn(&StepPart) -> Vec<Sample>| {
        let of_part = |part: &StepPart| {
            let mut own = vec![("scenario", part.name.clone())];
            own.extend(part.stage.as_ref().map(|stage| ("stage", stage.label())));
            let labelled = |(labels, value): Sample| ([own.clone(), labels].concat(), value);
            of(part).into_iter().map(labelled).collect::<Vec<Sample>>()
        };
        parts.iter().flat_map(of_part).collect::<Vec<Sample>>()
    };
    let latencies = |of: fn(&DistributionPart) -> Vec<Sample>| {
        of_each(&|part| of_kinds([&part.corrected, &part.naive], of))
    };
    let plain = |count: u64| vec![(Labels::new(), count as f64)];
    let metric = |name, help, unit, samples| Metric { name, help, unit, samples };
    vec![
        metric(
            "part_requests_intended",
            "Requests of a part due in the window",
            None,
            of_each(&|part| plain(part.counts.intended)),
        ),
        metric(
            "part_requests",
            "Intended requests of a part by their outcome",
            None,
            of_each(&|part| outcomes(&part.counts.as_whole())),
        ),
        metric(
            "part_requests_bad",
            "Intended requests of a part without a good answer",
            None,
            of_each(&|part| plain(part.bad)),
        ),
        metric(
            "part_responses",
            "Answered requests of a part by status",
            None,
            of_each(&|part| by("status", part.counts.status.by_name())),
        ),
        metric(
            "part_errors",
            "Requests of a part that failed or timed out, by cause",
            None,
            of_each(&|part| by("cause", part.counts.errors.by_name())),
        ),
        metric(
            "part_requests_capped",
            "Requests of a part that waited because all connections were in use",
            None,
            of_each(&|part| plain(part.counts.capped)),
        ),
        metric(
            "part_traffic",
            "Bytes of a part's requests and responses, with their heads",
            Some(Unit::Bytes),
            of_each(&|part| in_directions([part.received_bytes, part.sent_bytes])),
        ),
        metric(
            "part_latency",
            "Quantiles of a part's latency, corrected and naive",
            Some(Unit::Seconds),
            latencies(quantiles),
        ),
        metric(
            "part_latency_interval",
            "The ends of the 95 % confidence intervals of a part's quantiles",
            Some(Unit::Seconds),
            latencies(intervals),
        ),
        metric("part_latency_mean", "Mean latency of a part", Some(Unit::Seconds), latencies(mean)),
        metric(
            "part_latency_max",
            "Largest latency of a part",
            Some(Unit::Seconds),
            latencies(max),
        ),
    ]
}

/// Intended requests by their outcome.
fn outcomes(counts: &Counts) -> Vec<Sample> {
    by_outcome([
        ("answered", counts.answered),
        ("timed_out", counts.timed_out),
        ("failed", counts.failed),
        ("abandoned", counts.abandoned),
        ("unsent", counts.unsent),
    ])
}

fn by_outcome<const N: usize>(outcomes: [(&str, u64); N]) -> Vec<Sample> {
    let sample = |(outcome, of): (&str, u64)| (vec![("outcome", outcome.to_owned())], of as f64);
    outcomes.map(sample).into()
}

/// Bytes received and sent.
fn in_directions([received, sent]: [u64; 2]) -> Vec<Sample> {
    let sample = |(way, bytes): (&str, u64)| (vec![("direction", way.to_owned())], bytes as f64);
    [("received", received), ("sent", sent)].map(sample).into()
}

/// Counts by name.
fn by(label: &'static str, of: BTreeMap<String, u64>) -> Vec<Sample> {
    of.into_iter().map(|(name, of)| (vec![(label, name)], of as f64)).collect()
}

/// Times in seconds of corrected and of naive latency, from figures in microseconds.
fn of_kinds(
    [corrected, naive]: [&DistributionPart; 2],
    samples: fn(&DistributionPart) -> Vec<Sample>,
) -> Vec<Sample> {
    let of_kind = |(kind, distribution): (&str, &DistributionPart)| {
        let with_kind = |(mut labels, us): Sample| {
            labels.insert(0, ("kind", kind.to_owned()));
            (labels, us / 1e6)
        };
        samples(distribution).into_iter().map(with_kind).collect::<Vec<Sample>>()
    };
    [("corrected", corrected), ("naive", naive)].into_iter().flat_map(of_kind).collect()
}

fn mean(part: &DistributionPart) -> Vec<Sample> {
    part.mean.map(|us| (Labels::new(), us)).into_iter().collect()
}

fn max(part: &DistributionPart) -> Vec<Sample> {
    part.max.map(|us| (Labels::new(), us)).into_iter().collect()
}

/// The quantiles that a report states, microseconds.
fn quantiles(part: &DistributionPart) -> Vec<Sample> {
    let known = |(quantile, found): (Quantile, Percentile)| {
        Some((vec![("quantile", quantile.q.to_string())], found.value?))
    };
    part.percentiles.iter().filter_map(known).collect()
}

/// Both ends of their intervals.
fn intervals(part: &DistributionPart) -> Vec<Sample> {
    let known = |(quantile, found): (Quantile, Percentile)| {
        let ends = [("low", found.interval?[0]), ("high", found.interval?[1])];
        let q = quantile.q.to_string();
        Some(ends.map(|(end, us)| (vec![("quantile", q.clone()), ("end", end.to_owned())], us)))
    };
    part.percentiles.iter().filter_map(known).flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use engine::report::Part;

    use crate::text::reports::{part, report, sessions, two_by_two};

    fn written(label: Option<&str>) -> String {
        let label = label.map(str::to_owned);
        let report = Report { label, ..report(true, part(1_000, 1_500, 3, 2)) };
        let began = UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        let mut bytes = Vec::new();
        write(&mut bytes, &report, began).expect("writing to memory succeeds");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn each_metric_has_one_name_which_ends_with_its_unit() {
        let text = written(None);
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        insta::assert_snapshot!(types.collect::<Vec<_>>().join("\n"), @r"
        truetail_run_start_timestamp_seconds gauge
        truetail_window_seconds gauge
        truetail_run_complete gauge
        truetail_verdict gauge
        truetail_requests_intended gauge
        truetail_requests gauge
        truetail_requests_bad gauge
        truetail_responses gauge
        truetail_requests_per_second gauge
        truetail_traffic_bytes gauge
        truetail_latency_seconds gauge
        truetail_latency_interval_seconds gauge
        truetail_latency_mean_seconds gauge
        truetail_latency_max_seconds gauge
        ");
    }

    #[test]
    fn a_part_has_its_scenario_and_stage_in_metrics_of_its_own() {
        let text = |report: &Report| {
            let mut bytes = Vec::new();
            write(&mut bytes, report, UNIX_EPOCH).expect("writing to memory succeeds");
            String::from_utf8(bytes).expect("text")
        };
        let several = two_by_two();
        let with = text(&several);
        let without =
            text(&Report { whole: Part { parts: Vec::new(), ..several.whole.clone() }, ..several });
        // What is there of the whole stays as it is; the last line ends the text.
        let before = without.strip_suffix("# EOF\n").expect("an end");
        let parts = with.strip_prefix(before).expect("the whole first");
        let shown = parts.lines().filter(|line| {
            line.contains("part_requests{") && line.contains("answered")
                || line.contains("part_latency_seconds{") && line.contains("\"0.5\"")
        });
        let shown: Vec<String> =
            shown.map(|line| line.replace("target=\"http://127.0.0.1:8080/\",", "")).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        truetail_part_requests{scenario="home",stage="1",outcome="answered"} 1500.0
        truetail_part_requests{scenario="home",stage="2",outcome="answered"} 6000.0
        truetail_part_requests{scenario="POST /a, \"b\"",stage="1",outcome="answered"} 500.0
        truetail_part_requests{scenario="POST /a, \"b\"",stage="2",outcome="answered"} 2000.0
        truetail_part_latency_seconds{scenario="home",stage="1",kind="corrected",quantile="0.5"} 0.001
        truetail_part_latency_seconds{scenario="home",stage="1",kind="naive",quantile="0.5"} 0.0005
        truetail_part_latency_seconds{scenario="home",stage="2",kind="corrected",quantile="0.5"} 0.002
        truetail_part_latency_seconds{scenario="home",stage="2",kind="naive",quantile="0.5"} 0.001
        truetail_part_latency_seconds{scenario="POST /a, \"b\"",stage="1",kind="corrected",quantile="0.5"} 0.004
        truetail_part_latency_seconds{scenario="POST /a, \"b\"",stage="1",kind="naive",quantile="0.5"} 0.002
        truetail_part_latency_seconds{scenario="POST /a, \"b\"",stage="2",kind="corrected",quantile="0.5"} 0.008
        truetail_part_latency_seconds{scenario="POST /a, \"b\"",stage="2",kind="naive",quantile="0.5"} 0.004
        "#);
        assert!(parts.lines().all(|line| line.starts_with('#') || line.contains(",stage=\"")));
    }

    #[test]
    fn sessions_have_metrics_of_their_own() {
        let text = |scenarios| {
            let whole = Part { scenarios, ..part(1_000, 1_500, 3, 2) };
            let mut bytes = Vec::new();
            write(&mut bytes, &report(true, whole), UNIX_EPOCH)
                .expect("writing to memory succeeds");
            String::from_utf8(bytes).expect("text")
        };
        let (without, with) = (text(Vec::new()), text(sessions()));
        let before = without.strip_suffix("# EOF\n").expect("an end");
        let shown = with.strip_prefix(before).expect("the whole first");
        let shown = shown.lines().filter(|line| !line.starts_with('#'));
        let shown: Vec<String> =
            shown.map(|line| line.replace("target=\"http://127.0.0.1:8080/\",", "")).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        truetail_sessions_intended{scenario="shop, \"new\""} 1500.0
        truetail_sessions_intended{scenario="home"} 500.0
        truetail_sessions{scenario="shop, \"new\"",outcome="completed"} 1490.0
        truetail_sessions{scenario="shop, \"new\"",outcome="failed"} 7.0
        truetail_sessions{scenario="shop, \"new\"",outcome="unfinished"} 1.0
        truetail_sessions{scenario="shop, \"new\"",outcome="unsent"} 2.0
        truetail_sessions{scenario="home",outcome="completed"} 500.0
        truetail_sessions{scenario="home",outcome="failed"} 0.0
        truetail_sessions{scenario="home",outcome="unfinished"} 0.0
        truetail_sessions{scenario="home",outcome="unsent"} 0.0
        truetail_session_latency_seconds{scenario="shop, \"new\"",quantile="0.5"} 0.009
        truetail_session_latency_seconds{scenario="shop, \"new\"",quantile="0.75"} 0.009
        truetail_session_latency_seconds{scenario="shop, \"new\"",quantile="0.9"} 0.009
        truetail_session_latency_seconds{scenario="shop, \"new\"",quantile="0.95"} 0.009
        truetail_session_latency_seconds{scenario="shop, \"new\"",quantile="0.99"} 0.009
        truetail_session_latency_seconds{scenario="home",quantile="0.5"} 0.001
        truetail_session_latency_seconds{scenario="home",quantile="0.75"} 0.001
        truetail_session_latency_seconds{scenario="home",quantile="0.9"} 0.001
        truetail_session_latency_seconds{scenario="home",quantile="0.95"} 0.001
        truetail_session_latency_mean_seconds{scenario="shop, \"new\""} 0.009
        truetail_session_latency_mean_seconds{scenario="home"} 0.001
        truetail_session_latency_max_seconds{scenario="shop, \"new\""} 0.009
        truetail_session_latency_max_seconds{scenario="home"} 0.001
        "#);
    }

    #[test]
    fn every_sample_names_its_run() {
        let text = written(Some("nightly \"big\""));
        let run = r#"target="http://127.0.0.1:8080/",run="nightly \"big\"""#;
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(samples.iter().all(|line| line.contains(run)), "{text}");
        for sample in [
            "run_start_timestamp_seconds{} 1700000000.25",
            r#"verdict{,level="valid"} 1.0"#,
            r#"verdict{,level="suspect"} 0.0"#,
            r#"requests{,outcome="answered"} 10000.0"#,
            r#"latency_seconds{,kind="corrected",quantile="0.99"} 0.0015"#,
            r#"latency_seconds{,kind="naive",quantile="0.99"} 0.001"#,
        ] {
            let sample = format!("truetail_{}", sample.replacen('{', &format!("{{{run}"), 1));
            assert!(samples.contains(&&*sample), "{sample}: {text}");
        }
    }
}
