//! A stage: a part of the window with a rate of its own, as text and as a table.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use thiserror::Error;
use units::{InvalidDuration, InvalidRate, Nanos, Rate, Scalar};

/// A part of the window in which the rate is constant or changes evenly. As text `RATE:DURATION` or
/// `FROM..TO:DURATION`; in documents a table of `rate`, or `from` and `to`, and `duration`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Table", into = "Table")]
pub struct Stage {
    /// The rate at its start; may be zero.
    pub from: Rate,
    /// The rate at its end; may be zero.
    pub to: Rate,
    /// Its length.
    pub duration: Nanos,
}

impl Stage {
    /// True if its rate changes.
    pub fn is_ramp(&self) -> bool {
        self.from != self.to
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.is_ramp() {
            false => write!(f, "{}:{}", self.from, self.duration),
            true => write!(f, "{}..{}:{}", self.from, self.to, self.duration),
        }
    }
}

/// A text that isn't a stage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidStage {
    /// It has no length.
    #[error(
        "invalid stage `{0}`: give RATE:DURATION or FROM..TO:DURATION, e.g. 100:30s or \
         100..1000:2m"
    )]
    Form(String),
    /// Its rate isn't one.
    #[error(transparent)]
    Rate(#[from] InvalidRate),
    /// Its length isn't one.
    #[error(transparent)]
    Duration(#[from] InvalidDuration),
}

impl FromStr for Stage {
    type Err = InvalidStage;

    fn from_str(text: &str) -> Result<Stage, InvalidStage> {
        let form = || InvalidStage::Form(text.to_owned());
        let (rates, duration) = text.trim().split_once(':').ok_or_else(form)?;
        let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
        Ok(Stage { from: rate(from)?, to: rate(to)?, duration: duration.parse()? })
    }
}

/// A rate that may be zero.
fn rate(text: &str) -> Result<Rate, InvalidRate> {
    match text.trim().parse() {
        Ok(0.0) => Ok(Rate::ZERO),
        _ => text.parse(),
    }
}

/// A stage as documents write it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Stage")]
struct Table {
    /// The rate of the whole stage, per second.
    #[serde(default, deserialize_with = "some_rate", skip_serializing_if = "Option::is_none")]
    rate: Option<Rate>,
    /// Of a ramp: the rate at its start.
    #[serde(default, deserialize_with = "some_rate", skip_serializing_if = "Option::is_none")]
    from: Option<Rate>,
    /// Of a ramp: the rate at its end.
    #[serde(default, deserialize_with = "some_rate", skip_serializing_if = "Option::is_none")]
    to: Option<Rate>,
    /// Its length.
    duration: Nanos,
}

fn some_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    let Scalar(text) = Scalar::deserialize(deserializer)?;
    rate(&text).map(Some).map_err(de::Error::custom)
}

impl TryFrom<Table> for Stage {
    type Error = &'static str;

    fn try_from(Table { rate, from, to, duration }: Table) -> Result<Stage, &'static str> {
        match (rate, from, to) {
            (Some(rate), None, None) => Ok(Stage { from: rate, to: rate, duration }),
            (None, Some(from), Some(to)) => Ok(Stage { from, to, duration }),
            _ => Err("a stage has a `rate`, or `from` and `to`"),
        }
    }
}

impl From<Stage> for Table {
    fn from(stage: Stage) -> Table {
        let Stage { from, to, duration } = stage;
        match stage.is_ramp() {
            false => Table { rate: Some(from), from: None, to: None, duration },
            true => Table { rate: None, from: Some(from), to: Some(to), duration },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct File {
        stage: Vec<Stage>,
    }

    fn stages(text: &str) -> Vec<Stage> {
        text.split(',').map(|stage| stage.parse().expect(stage)).collect()
    }

    #[test]
    fn stages_are_read_and_printed() {
        let all = stages(" 100:30s,100..1k:2m,1000:1m30s,1000..0:10,0:500ms");
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["100:30s", "100..1000:2m", "1000:1m30s", "1000..0:10s", "0:500ms"]);
        for (text, problem) in [
            ("100", "invalid stage `100`: give RATE:DURATION or FROM..TO:DURATION"),
            ("x:30s", "invalid rate `x`"),
            ("1..:30s", "invalid rate ``"),
            ("-1:30s", "invalid rate `-1`"),
            ("0.0000001:30s", "must be above 0"),
            ("1:30x", "invalid duration `30x`"),
            ("1:", "invalid duration ``"),
            ("200M:1s", "at most 100000000"),
        ] {
            let error = text.parse::<Stage>().expect_err(text).to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn a_document_has_a_table_for_each() {
        let text = "[[stage]]\nrate = '1k'\nduration = 30\n\
            [[stage]]\nfrom = 0\nto = 7.5\nduration = '2m'\n";
        let file: File = toml::from_str(text).expect("stages");
        assert_eq!(file.stage, stages("1000:30s,0..7.5:2m"));
        let json = serde_json::to_string(&file.stage).expect("a document");
        let want = r#"[{"rate":1000.0,"duration":"30s"},{"from":0.0,"to":7.5,"duration":"2m"}]"#;
        assert_eq!(json, want);
        assert_eq!(serde_json::from_str::<Vec<Stage>>(&json).expect("comes back"), file.stage);
        for wrong in ["from = 1", "rate = 1\nto = 2", "", "rate = 1\nname = 'x'", "rate = -1"] {
            let text = format!("[[stage]]\nduration = 1\n{wrong}\n");
            assert!(toml::from_str::<File>(&text).is_err(), "{wrong}");
        }
    }
}
