//! A stage: a part of the window with a rate of its own, as text and as a table.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use thiserror::Error;
use units::{InvalidDuration, InvalidRate, Nanos, Rate, Scalar};

/// A part of the window in which the rate is constant or changes evenly. As text `RATE:DURATION` or
/// `FROM..TO:DURATION`, after `NAME=` if it has a name; in documents a table of `name`, `rate`, or
/// `from` and `to`, and `duration`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Table", into = "Table")]
pub struct Stage {
    /// Its name; empty if it has none.
    pub name: String,
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
        if !self.name.is_empty() {
            write!(f, "{}=", self.name)?;
        }
        match self.is_ramp() {
            false => write!(f, "{}:{}", self.from, self.duration),
            true => write!(f, "{}..{}:{}", self.from, self.to, self.duration),
        }
    }
}

/// A text that isn't a stage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidStage {
    /// It lacks a rate or its length.
    #[error(
        "invalid stage `{0}`: give RATE:DURATION or FROM..TO:DURATION, e.g. 100:30s or \
         100..1000:2m, after NAME= if it has a name"
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
        let (name, stage) = match text.rsplit_once('=') {
            Some((name, _)) if name.trim().is_empty() => return Err(form()),
            Some((name, stage)) => (name.trim().to_owned(), stage),
            None => (String::new(), text),
        };
        let (rates, duration) = stage.trim().split_once(':').ok_or_else(form)?;
        let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
        if [from, to, duration].iter().any(|part| part.trim().is_empty()) {
            return Err(form());
        }
        Ok(Stage { name, from: rate(from)?, to: rate(to)?, duration: duration.parse()? })
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
    /// Its name, for results and objectives. Default: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
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

    fn try_from(table: Table) -> Result<Stage, &'static str> {
        let Table { name, rate, from, to, duration } = table;
        match (rate, from, to) {
            (Some(rate), None, None) => Ok(Stage { name, from: rate, to: rate, duration }),
            (None, Some(from), Some(to)) => Ok(Stage { name, from, to, duration }),
            _ => Err("a stage has a `rate`, or `from` and `to`"),
        }
    }
}

impl From<Stage> for Table {
    fn from(stage: Stage) -> Table {
        let is_ramp = stage.is_ramp();
        let Stage { name, from, to, duration } = stage;
        match is_ramp {
            false => Table { name, rate: Some(from), from: None, to: None, duration },
            true => Table { name, rate: None, from: Some(from), to: Some(to), duration },
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
        let all = stages(" 100:30s,100..1k:2m,1000:1m30s,1000..0:10,0:500ms, a=b = 1:2s");
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        let expected =
            ["100:30s", "100..1000:2m", "1000:1m30s", "1000..0:10s", "0:500ms", "a=b=1:2s"];
        assert_eq!(texts, expected);
        assert_eq!((all[0].name.as_str(), all[5].name.as_str()), ("", "a=b"));
        for (text, problem) in [
            ("100", "invalid stage `100`: give RATE:DURATION or FROM..TO:DURATION"),
            ("=1:30s", "invalid stage `=1:30s`: give RATE:DURATION or FROM..TO:DURATION"),
            ("x:30s", "invalid rate `x`"),
            ("1..:30s", "invalid stage `1..:30s`: give RATE"),
            ("-1:30s", "invalid rate `-1`"),
            ("0.0000001:30s", "must be above 0"),
            ("1:30x", "invalid duration `30x`"),
            ("1:", "invalid stage `1:`: give RATE"),
            ("200M:1s", "at most 100000000"),
        ] {
            let error = text.parse::<Stage>().expect_err(text).to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn a_document_has_a_table_for_each() {
        let text = "[[stage]]\nrate = '1k'\nduration = 30\n\
            [[stage]]\nname = 'rise'\nfrom = 0\nto = 7.5\nduration = '2m'\n";
        let file: File = toml::from_str(text).expect("stages");
        assert_eq!(file.stage, stages("1000:30s,rise=0..7.5:2m"));
        let json = serde_json::to_string(&file.stage).expect("a document");
        let want = r#"[{"rate":1000.0,"duration":"30s"},{"name":"rise","from":0.0,"to":7.5,"duration":"2m"}]"#;
        assert_eq!(json, want);
        assert_eq!(serde_json::from_str::<Vec<Stage>>(&json).expect("comes back"), file.stage);
        for wrong in ["from = 1", "rate = 1\nto = 2", "", "rate = 1\nlabel = 'x'", "rate = -1"] {
            let text = format!("[[stage]]\nduration = 1\n{wrong}\n");
            assert!(toml::from_str::<File>(&text).is_err(), "{wrong}");
        }
    }
}
