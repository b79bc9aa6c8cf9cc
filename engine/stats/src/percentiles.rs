//! The reported figures of each percentile: its value and its confidence interval.
//!
//! Everything that lists percentiles takes them from [`PERCENTILES`]; in a document each name is a
//! key.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use hdrhistogram::Histogram;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::distribution::Distribution;
use crate::interval::{Interval, Method, Missing, dependent, interval, interval_by_ranks, needed};
use crate::pieces::Pieces;
pub use crate::quantiles::{PERCENTILES, Quantile, WITH_INTERVAL};

/// The reported figures of one percentile, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percentile {
    /// Its value; `None` if there are too few values.
    pub value: Option<f64>,
    /// Its 95 % confidence interval, `[low, high]`.
    pub interval: Option<[f64; 2]>,
    /// The number of values that an interval takes, if there are too few.
    pub needed: Option<u64>,
    /// The window length that an interval takes, s, if the window is too short for the dependence
    /// of its latencies.
    pub needed_s: Option<f64>,
}

/// The percentiles of one distribution, and the basis of their confidence intervals.
///
/// Only the corrected latencies are kept by pieces of the run, so only their intervals can come
/// from the spread between pieces, and only they can be shown to depend on each other. A stall
/// affects the run's other distributions as well. So if the corrected latencies depend on each
/// other, the others have no intervals: ranks would claim a precision that they don't have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "Document", from = "Document")]
pub struct Percentiles {
    /// One for each of [`PERCENTILES`].
    each: [Percentile; PERCENTILES.len()],
    /// The method of the intervals, or the one that failed if there are none. `batches`: from the
    /// spread between pieces of the run; `order_statistics`: from ranks, for values that don't
    /// depend on each other. `None`: no method, because values may depend on each other and this
    /// distribution isn't kept by pieces.
    pub method: Option<Method>,
    /// Whether the run's latencies depend on each other, by the spread between its pieces; `None`
    /// if the run is too short to tell.
    pub dependent: Option<bool>,
}

impl Percentiles {
    /// The percentiles of a distribution whose values the pieces hold in the order of the run.
    pub fn new(distribution: &Distribution, pieces: &Pieces<Histogram<u64>>) -> Percentiles {
        let percentiles = Percentiles { dependent: dependent(pieces), ..Percentiles::default() };
        percentiles.with(distribution, Method::Batches, |q| interval(distribution, pieces, q))
    }

    /// The percentiles of independent values.
    pub fn independent(distribution: &Distribution) -> Percentiles {
        let percentiles = Percentiles { dependent: Some(false), ..Percentiles::default() };
        percentiles
            .with(distribution, Method::OrderStatistics, |q| interval_by_ranks(distribution, q))
    }

    /// The percentiles of a distribution that isn't kept by pieces of a run; `dependent`: whether
    /// the run's latencies depend on each other.
    pub fn alone(distribution: &Distribution, dependent: Option<bool>) -> Percentiles {
        match dependent {
            Some(false) => Percentiles::independent(distribution),
            _ => Percentiles { dependent, ..Percentiles::without_intervals(distribution) },
        }
    }

    /// The same with the values of a distribution, and the intervals that `interval` finds.
    fn with(
        self,
        distribution: &Distribution,
        method: Method,
        find: impl Fn(f64) -> Result<Interval, Missing>,
    ) -> Percentiles {
        let Percentiles { mut each, .. } = Percentiles::without_intervals(distribution);
        for (percentile, quantile) in each.iter_mut().zip(PERCENTILES).take(WITH_INTERVAL) {
            match find(quantile.q) {
                Ok(found) => percentile.interval = Some([us(found.low_ns), us(found.high_ns)]),
                Err(Missing::Samples(needed)) => percentile.needed = Some(needed),
                Err(Missing::Seconds(needed_s)) => percentile.needed_s = Some(needed_s),
            }
        }
        Percentiles { each, method: Some(method), ..self }
    }

    fn without_intervals(distribution: &Distribution) -> Percentiles {
        let each = PERCENTILES.map(|Quantile { q, .. }| {
            let is_known = needed(q) <= distribution.count();
            let value = distribution.quantile_ns(q).filter(|_| is_known).map(us);
            Percentile { value, ..Percentile::default() }
        });
        Percentiles { each, ..Percentiles::default() }
    }

    /// These values with the intervals of another distribution.
    #[must_use]
    pub fn with_intervals_of(&self, other: &Percentiles) -> Percentiles {
        let mut both = other.clone();
        for (percentile, own) in both.each.iter_mut().zip(&self.each) {
            percentile.value = own.value;
        }
        both
    }

    /// Each percentile with its name.
    pub fn iter(&self) -> impl Iterator<Item = (Quantile, Percentile)> {
        PERCENTILES.into_iter().zip(self.each)
    }

    /// The reported figures of quantile `q`, one of [`PERCENTILES`].
    pub fn at(&self, q: f64) -> &Percentile {
        &self.each[place(q)]
    }

    /// The same, mutable.
    pub fn at_mut(&mut self, q: f64) -> &mut Percentile {
        &mut self.each[place(q)]
    }
}

fn place(q: f64) -> usize {
    let place = PERCENTILES.iter().position(|known| (known.q - q).abs() < 1e-9);
    place.unwrap_or_else(|| panic!("no report states quantile {q}"))
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// The document's form: the values, then the intervals with their basis.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Document {
    #[serde(flatten)]
    values: ByKey<f64, { PERCENTILES.len() }>,
    intervals: Intervals,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Intervals {
    #[serde(flatten)]
    found: ByKey<[f64; 2], WITH_INTERVAL>,
    method: Option<Method>,
    dependent: Option<bool>,
    needed: ByKey<u64, WITH_INTERVAL>,
    needed_s: ByKey<f64, WITH_INTERVAL>,
}

impl From<Percentiles> for Document {
    fn from(Percentiles { each, method, dependent }: Percentiles) -> Document {
        Document {
            values: ByKey(each.map(|percentile| percentile.value)),
            intervals: Intervals {
                found: ByKey(std::array::from_fn(|at| each[at].interval)),
                method,
                dependent,
                needed: ByKey(std::array::from_fn(|at| each[at].needed)),
                needed_s: ByKey(std::array::from_fn(|at| each[at].needed_s)),
            },
        }
    }
}

impl From<Document> for Percentiles {
    fn from(Document { values, intervals }: Document) -> Percentiles {
        let Intervals { found, method, dependent, needed, needed_s } = intervals;
        let each = std::array::from_fn(|at| Percentile {
            value: values.0[at],
            interval: found.0.get(at).copied().flatten(),
            needed: needed.0.get(at).copied().flatten(),
            needed_s: needed_s.0.get(at).copied().flatten(),
        });
        Percentiles { each, method, dependent }
    }
}

/// A value for each of the first `N` percentiles, by their keys. Other keys are left to other
/// fields.
struct ByKey<T, const N: usize>([Option<T>; N]);

impl<T: Serialize, const N: usize> Serialize for ByKey<T, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(PERCENTILES.iter().map(|known| known.label).zip(&self.0))
    }
}

impl<T: JsonSchema, const N: usize> JsonSchema for ByKey<T, N> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("ByKeyOf{N}{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<Option<T>>();
        let keys = PERCENTILES[..N].iter().map(|known| known.label);
        let properties: Map<String, Value> =
            keys.clone().map(|key| (key.to_owned(), value.clone().into())).collect();
        let keys: Vec<&str> = keys.collect();
        json_schema!({ "type": "object", "properties": properties, "required": keys })
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for ByKey<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByKey<T, N>, D::Error> {
        deserializer.deserialize_map(ByKeyVisitor(PhantomData))
    }
}

struct ByKeyVisitor<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for ByKeyVisitor<T, N> {
    type Value = ByKey<T, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("values by the keys of percentiles")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ByKey<T, N>, M::Error> {
        let mut values = std::array::from_fn(|_| None);
        while let Some(key) = map.next_key::<String>()? {
            match PERCENTILES[..N].iter().position(|known| known.label == key) {
                Some(at) => values[at] = map.next_value()?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(ByKey(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_a_key_for_each_and_reads_back() {
        let mut distribution = Distribution::new();
        (1..=1_000).for_each(|us| distribution.record(us * 1_000));
        let percentiles = Percentiles::independent(&distribution);
        assert_eq!(percentiles.at(0.5).value, Some(500.223));
        assert!(percentiles.at(0.99).interval.is_some());
        assert_eq!(
            percentiles.at(0.999),
            &Percentile { needed: Some(5_662), ..Percentile::default() }
        );
        let text = serde_json::to_string(&percentiles).expect("a document");
        assert!(text.starts_with(r#"{"p50":500.223,"p75":"#), "{text}");
        assert!(text.contains(r#""p99.99":null,"intervals":{"p50":["#), "{text}");
        assert!(text.ends_with(r#""p95":null,"p99":null,"p99.9":null}}}"#), "{text}");
        assert_eq!(serde_json::from_str::<Percentiles>(&text).expect("percentiles"), percentiles);
    }

    #[test]
    fn intervals_may_be_those_of_another() {
        let mut distribution = Distribution::new();
        distribution.record_n(1_000, 1_000);
        let (own, other) = (
            Percentiles::alone(&distribution, Some(true)),
            Percentiles::independent(&distribution),
        );
        assert_ne!(own, other);
        assert_eq!(own.with_intervals_of(&other), other);
        assert_eq!(other.with_intervals_of(&own), own);
    }

    #[test]
    #[should_panic(expected = "no report states quantile 0.96")]
    fn a_quantile_that_is_not_stated_has_no_value() {
        Percentiles::default().at(0.96);
    }
}
