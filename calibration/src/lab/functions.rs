//! The functions of expressions: of figures, of a run's document with its raw samples and its
//! target's ledger, and the arithmetic that these are held against.
//!
//! Functions of figures pass on the `null` of one that wasn't measured.

use std::path::Path;
use std::sync::Arc;

use engine::report::{ClientPart, DistributionPart, Report};
use engine::sys::placement;
use engine::sys::units::us_to_ns;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, State, Value, context};
use probe::bound::lacks_core;
use probe::ceiling::{Answer, NotJudged};
use probe::document::CeilingDocument;
use serde::Serialize;
use serde::de::DeserializeOwned;
use target::{Ledger, Span};

use super::error::LabError;
use super::flow::Stalled;
use super::latencies::{Exact, Latencies, Requests, backfilled, quantile, read_all};
use super::queue::{Queue, closed_form_ms, pausing};
use crate::floor::CpuPerRequest;
use crate::observed::{PATH_MS, band};
use crate::truth::{BUCKET, DEVIATIONS, Truth};

/// Adds them all to the expressions of an experiment whose files lie in this folder.
pub(super) fn add_to(environment: &mut Environment<'static>, folder: &Path) {
    let folder: Arc<Path> = folder.into();
    of_figures(environment);
    of_documents(environment);
    of_samples(environment, &folder);
    by_arithmetic(environment);
}

/// Shares and differences of figures, and rows.
fn of_figures(environment: &mut Environment<'static>) {
    environment.add_global("path_ms", PATH_MS);
    environment.add_global("deviations", DEVIATIONS);
    environment.add_global("bucket", BUCKET);
    environment.add_function("ms", |us: Value| Ok(number(&us)?.map(|us| us / 1e3)));
    environment.add_function("ratio", ratio);
    environment.add_function("percent", |part: Value, whole: Value| {
        Ok(ratio(part, whole)?.map(|ratio| ratio * 100.0))
    });
    environment.add_function("beyond_percent", |part: Value, whole: Value| {
        Ok(ratio(part, whole)?.map(|ratio| (1.0 - ratio) * 100.0))
    });
    environment.add_function("off_percent", |measured: Value, expected: Value| {
        Ok(ratio(measured, expected)?.map(|ratio| (ratio - 1.0) * 100.0))
    });
    environment.add_function("each", each);
    environment.add_function("quantiles", |of: Vec<f64>, quantiles: Vec<f64>| {
        let mut ascending = of;
        ascending.sort_by(f64::total_cmp);
        let at = |q| quantile(&ascending, q);
        (!ascending.is_empty()).then(|| quantiles.into_iter().map(at).collect::<Vec<f64>>())
    });
    environment.add_function("counts", |of: Vec<f64>, edges: Vec<f64>| counts(&of, &edges));
    environment.add_function("outside", outside);
    environment
        .add_function("core", |agent: usize| core_of_agent(&placement::allowed_cores(), agent));
}

/// Figures of one document: a report, a ledger, or that of a search for a ceiling.
fn of_documents(environment: &mut Environment<'static>) {
    environment.add_function("client_percent", |part: Value| {
        let part = (!part.is_none()).then(|| typed::<ClientPart>(&part)).transpose()?;
        Ok(part.map(|part| part.share() * 100.0))
    });
    environment.add_function("cpu_us", |run: Value| {
        Ok(CpuPerRequest::new(&typed::<Report>(&run)?).total_us())
    });
    environment.add_function("window_s", |run: Value| Ok(typed::<Report>(&run)?.config.window_s()));
    environment.add_function("latencies", |part: Value| {
        document(Latencies::of(&typed::<DistributionPart>(&part)?))
    });
    environment.add_function("held_ms", |ledger: Value, q: f64| {
        let held = typed::<Ledger>(&ledger)?.held.decode().map_err(failed)?;
        Ok(held.value_at_quantile(q) as f64 / 1e6)
    });
    environment.add_function("not_judged", |ceiling: Value| {
        let not_judged = typed::<CeilingDocument>(&ceiling)?.answer.not_judged;
        Ok(not_judged.as_ref().map(NotJudged::words))
    });
    environment.add_function("lacks_core", |ceiling: Value| {
        let Answer { not_judged, bound, proof, .. } = typed::<CeilingDocument>(&ceiling)?.answer;
        Ok(not_judged.is_none() && lacks_core(&bound, &proof))
    });
    environment.add_function("backfilled_ms", |run: Value, q: f64| {
        let report = typed::<Report>(&run)?;
        let naive = &report.whole.naive;
        let max_ns = us_to_ns(naive.max.unwrap_or(0.0));
        let interval_ns = report.config.plan.period.map_or(0, |period| period.0);
        let naive = naive.decode_histogram().map_err(failed)?;
        Ok(backfilled(&naive, max_ns, interval_ns).value_at_quantile(q) as f64 / 1e6)
    });
}

/// Figures of a run's raw samples, which lie in this folder.
fn of_samples(environment: &mut Environment<'static>, folder: &Arc<Path>) {
    let each = {
        let folder = Arc::clone(folder);
        move |run: &Value| read_all(&folder, &typed(run)?).map_err(failed)
    };
    let own = {
        let each = each.clone();
        move |run: &Value| -> Result<Requests, Error> {
            let [own] = <[Requests; 1]>::try_from(each(run)?)
                .map_err(|_| failed("a run of agents has no samples of its own"))?;
            Ok(own)
        }
    };
    environment.add_function("exact", move |run: Value, after: Option<f64>| {
        document(Exact::of(&each(&run)?, after.unwrap_or(0.0)))
    });
    let of = own.clone();
    environment.add_function("corrected_ms", move |run: Value| {
        let of = of(&run)?.requests.into_iter();
        Ok(of.map(|request| request.corrected_ns() as f64 / 1e6).collect::<Vec<f64>>())
    });
    let of = own.clone();
    environment.add_function("naive_ms", move |run: Value| {
        let of = of(&run)?.requests.into_iter();
        let naive_ns = of.filter_map(|request| request.naive_ns());
        Ok(naive_ns.map(|ns| ns as f64 / 1e6).collect::<Vec<f64>>())
    });
    let of = own.clone();
    environment.add_function("p99_by_length", move |run: Value, after: f64| {
        Ok(Value::from(Serde(of(&run)?.p99_by_length(after))))
    });
    let of = own.clone();
    environment.add_function("whole", move |run: Value, spans: Value| {
        Ok(Value::from(Serde(of(&run)?.whole(&typed::<Vec<Span>>(&spans)?))))
    });
    let of = own.clone();
    environment.add_function("due_in", move |run: Value, spans: Value| {
        Ok(of(&run)?.due_in(&typed::<Vec<Span>>(&spans)?))
    });
    let of = own.clone();
    environment.add_function("sent_in", move |run: Value, spans: Value| {
        Ok(of(&run)?.sent_in(&typed::<Vec<Span>>(&spans)?))
    });
    let of = own.clone();
    environment.add_function("stalled", move |run: Value, ledger: Value, after_ms: u64| {
        document(Stalled::new(&of(&run)?, &typed(&ledger)?, after_ms))
    });
    let of = own;
    environment.add_function("users", move |run: Value, ledger: Value, base_ms: f64, q: f64| {
        let ledger = typed::<Ledger>(&ledger)?;
        let truth = Truth::hold(base_ms, &ledger.stalls, of(&run)?.window);
        let held = ledger.held.decode().map_err(failed)?;
        Ok(Value::from(Serde(band(&truth, &typed(&run)?, &held, q))))
    });
}

/// What arithmetic gives for a target that stalls or pauses.
fn by_arithmetic(environment: &mut Environment<'static>) {
    environment
        .add_function("queue", |of: Value| Ok(Value::from(Serde(typed::<Queue>(&of)?.p99()))));
    environment.add_function("closed_form_ms", closed_form_ms);
    environment.add_function(
        "pausing",
        |rate_per_s: f64, requests: usize, service_ms: f64, every: usize, pause_ms: f64| {
            Value::from(Serde(pausing(rate_per_s, requests, service_ms, (every, pause_ms))))
        },
    );
}

/// Counts of the latencies up to each edge, and beyond the last.
fn counts(latencies_ms: &[f64], edges_ms: &[f64]) -> Vec<u64> {
    let mut counts = vec![0; edges_ms.len() + 1];
    for latency_ms in latencies_ms {
        // Rounding may leave a sum of fractions slightly too small.
        let beyond = |edge: &&f64| **edge <= latency_ms + 1e-9;
        counts[edges_ms.iter().filter(beyond).count()] += 1;
    }
    counts
}

/// How far the worst count lies outside two bounds, in either order, that have this much reach.
fn outside(counts: Vec<u64>, one: Vec<u64>, other: Vec<u64>, reach: u64) -> u64 {
    let each = counts.iter().zip(one.iter().zip(&other)).map(|(count, (one, other))| {
        let (low, high) = (one.min(other).saturating_sub(reach), one.max(other) + reach);
        low.saturating_sub(*count).max(count.saturating_sub(high))
    });
    each.max().unwrap_or(0)
}

/// A number, or `None` for one that wasn't measured.
fn number(value: &Value) -> Result<Option<f64>, Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "a path leads nowhere"));
    }
    (!value.is_none()).then(|| f64::try_from(value.clone())).transpose()
}

/// A row for each item of a list: named values of expressions in which `it` is the item.
fn each(state: &State, list: Value, fields: Value) -> Result<Value, Error> {
    let row = |it: Value| {
        let field = |name: Value| {
            let expression = fields.get_item(&name)?.to_string();
            let compiled = state.env().compile_expression(&expression)?;
            let value = compiled.eval(context! { it => it.clone() })?;
            if value.is_undefined() {
                return Err(Error::new(ErrorKind::UndefinedError, "a path leads nowhere"));
            }
            Ok((name, value))
        };
        let row: Result<Vec<(Value, Value)>, Error> = fields.try_iter()?.map(field).collect();
        Ok(Value::from_pairs(row?))
    };
    list.try_iter()?.map(row).collect()
}

/// One number divided by another; `None` if either wasn't measured, or the second is zero.
fn ratio(part: Value, whole: Value) -> Result<Option<f64>, Error> {
    let (part, whole) = (number(&part)?, number(&whole)?);
    Ok(part.zip(whole).filter(|(_, whole)| *whole != 0.0).map(|(part, whole)| part / whole))
}

/// Converts a value to a document of this type.
fn typed<T: DeserializeOwned>(of: &Value) -> Result<T, Error> {
    let json = serde_json::to_value(of).map_err(failed)?;
    serde_json::from_value(json).map_err(failed)
}

fn failed(problem: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem.to_string())
}

/// The core of an agent: the allowed cores in turn, except the first, which is the target's.
fn core_of_agent(allowed: &[usize], agent: usize) -> usize {
    let cores = if allowed.len() < 2 { allowed } else { &allowed[1..] };
    cores[agent % cores.len()]
}

/// A result as a value.
fn document(of: Result<impl Serialize, LabError>) -> Result<Value, Error> {
    of.map(|of| Value::from(Serde(of))).map_err(failed)
}

/// True if expressions can call a function of this name.
#[cfg(test)]
pub(crate) fn is_known(name: &str) -> bool {
    let mut environment = Environment::new();
    add_to(&mut environment, Path::new("."));
    let is_defined = format!("{name} is defined");
    let is_defined = environment.compile_expression(&is_defined);
    is_defined.and_then(|is_defined| is_defined.eval(())).is_ok_and(|there| there.is_true())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::queue::Served;

    const EDGES_MS: [f64; 5] = [5.0, 41.0, 91.0, 141.0, 200.0];

    #[test]
    fn the_published_pair_by_arithmetic() {
        let served = pausing(450.0, 13_500, 1.0, (500, 200.0));
        let sorted = |of: fn(&Served) -> f64| {
            let mut ms: Vec<f64> = served.iter().map(of).collect();
            ms.sort_by(f64::total_cmp);
            ms
        };
        let (naive, corrected) = (sorted(|one| one.naive_ms), sorted(|one| one.corrected_ms));
        let p = |q| quantile(&corrected, q);
        let rounded = [0.5, 0.9, 0.99, 0.999].map(|q| (p(q) * 100.0).round() / 100.0);
        // As published, except for the service time beyond a millisecond there.
        assert_eq!(rounded, [1.0, 137.67, 193.89, 200.0]);
        let naive = counts(&naive, &EDGES_MS);
        assert_eq!((naive[0], naive[5]), (13_473, 27));
        assert_eq!(counts(&corrected, &EDGES_MS), [9339, 754, 1066, 1066, 1248, 27]);
    }

    #[test]
    fn ten_requests_by_hand() {
        let served = pausing(100.0, 20, 2.0, (10, 35.0));
        let mean = |of: fn(&Served) -> f64| served[10..].iter().map(of).sum::<f64>() / 10.0;
        assert!((mean(|one| one.naive_ms) - 5.3).abs() < 1e-9);
        assert!((mean(|one| one.corrected_ms) - 10.5).abs() < 1e-9);
        assert!((mean(|one| one.waited_ms) - 5.2).abs() < 1e-9, "25, 17, 9 and 1 ms");
    }

    #[test]
    fn a_count_may_differ_by_the_requests_at_its_edges() {
        let off = |counts: [u64; 2]| outside(counts.into(), vec![100, 50], vec![96, 54], 2);
        assert_eq!((off([94, 56]), off([92, 58])), (0, 2));
    }

    #[test]
    fn agents_share_the_cores_that_the_target_leaves() {
        let cores = |allowed: &[usize]| [0, 1, 2, 3].map(|agent| core_of_agent(allowed, agent));
        assert_eq!(cores(&[0, 1]), [1, 1, 1, 1]);
        assert_eq!(cores(&[0, 1, 2, 3]), [1, 2, 3, 1]);
        assert_eq!(cores(&[7]), [7, 7, 7, 7]);
    }
}
