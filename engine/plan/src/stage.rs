//! A stage: a part of the window with a load of its own, a rate or a number of users, as text and
//! as a table.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use thiserror::Error;
use units::{InvalidDuration, InvalidRate, Nanos, Rate, Scalar};

/// A part of the window in which the load is constant or changes evenly: the rate, or in a closed
/// model the number of users. As text `LOAD:DURATION` or `FROM..TO:DURATION`, after `NAME=` if it
/// has a name; in documents a table of `name`, `rate` or `users`, or `from` and `to`, and
/// `duration`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Table", into = "Table")]
pub struct Stage {
    /// Its name; empty if it has none.
    pub name: String,
    /// Whether it says itself what its load is.
    pub load: LoadOf,
    /// The load at its start; may be zero.
    pub from: Rate,
    /// The load at its end; may be zero.
    pub to: Rate,
    /// Its length.
    pub duration: Nanos,
}

/// What the numbers of a stage are, as far as it says so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadOf {
    /// What the plan's model needs.
    Model,
    /// Requests per second: an open model.
    Rate,
    /// Users: a closed model.
    Users,
}

impl Stage {
    /// The numbers of users of a closed model at its start and at its end.
    pub fn users(&self) -> (u64, u64) {
        let whole = |load: Rate| load.micro_per_second() / MICRO;
        (whole(self.from), whole(self.to))
    }

    /// True if its numbers are whole, as those of users are.
    pub(super) fn is_whole(&self) -> bool {
        [self.from, self.to].iter().all(|load| load.micro_per_second().is_multiple_of(MICRO))
    }

    /// The same stage, which says that its load is this as far as documents do: a ramp has `from`
    /// and `to`, of whatever the plan's model needs.
    pub(super) fn of(self, load: LoadOf) -> Stage {
        let load = if self.is_ramp() { LoadOf::Model } else { load };
        Stage { load, ..self }
    }

    /// True if its load changes.
    pub fn is_ramp(&self) -> bool {
        self.from != self.to
    }
}

/// The parts of a number that make 1.
const MICRO: u64 = 1_000_000;

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
    /// It is an empty text.
    #[error("a stage is missing: give RATE:DURATION, and no comma after the last one")]
    Empty,
    /// It lacks a rate or its length.
    #[error(
        "invalid stage `{0}`: give RATE:DURATION or FROM..TO:DURATION, e.g. 100:30s or \
         100..1000:2m, after NAME= if it has a name; in a closed model users instead of rates"
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
        if text.trim().is_empty() {
            return Err(InvalidStage::Empty);
        }
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
        let (from, to, duration) = (rate(from)?, rate(to)?, duration.parse()?);
        Ok(Stage { name, load: LoadOf::Model, from, to, duration })
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
    /// The number of users of the whole stage, in a closed model.
    #[serde(default, deserialize_with = "some_users", skip_serializing_if = "Option::is_none")]
    users: Option<u64>,
    /// Of a ramp: the rate at its start, or in a closed model the number of users.
    #[serde(default, deserialize_with = "some_rate", skip_serializing_if = "Option::is_none")]
    from: Option<Rate>,
    /// Of a ramp: the rate at its end, or in a closed model the number of users.
    #[serde(default, deserialize_with = "some_rate", skip_serializing_if = "Option::is_none")]
    to: Option<Rate>,
    /// Its length.
    duration: Nanos,
}

fn some_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
    let Scalar(text) = Scalar::deserialize(deserializer)?;
    rate(&text).map(Some).map_err(de::Error::custom)
}

fn some_users<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Scalar(text) = Scalar::deserialize(deserializer)?;
    let users = rate(&text).map_err(de::Error::custom)?.micro_per_second();
    if !users.is_multiple_of(MICRO) {
        return Err(de::Error::custom(format!("{text} users: give a whole number")));
    }
    Ok(Some(users / MICRO))
}

impl TryFrom<Table> for Stage {
    type Error = &'static str;

    fn try_from(table: Table) -> Result<Stage, &'static str> {
        let Table { name, rate: constant, users, from, to, duration } = table;
        let (load, from, to) = match (constant, users, from, to) {
            (Some(rate), None, None, None) => (LoadOf::Rate, rate, rate),
            (None, Some(users), None, None) => {
                let users = rate(&users.to_string()).map_err(|_| "too many `users`")?;
                (LoadOf::Users, users, users)
            }
            (None, None, Some(from), Some(to)) => (LoadOf::Model, from, to),
            _ => return Err("a stage has a `rate` or `users`, or `from` and `to`"),
        };
        Ok(Stage { name, load, from, to, duration })
    }
}

impl From<Stage> for Table {
    fn from(stage: Stage) -> Table {
        let (is_ramp, (users, _)) = (stage.is_ramp(), stage.users());
        let Stage { name, load, from, to, duration } = stage;
        let table = Table { name, rate: None, users: None, from: None, to: None, duration };
        match load {
            _ if is_ramp => Table { from: Some(from), to: Some(to), ..table },
            LoadOf::Users => Table { users: Some(users), ..table },
            LoadOf::Rate | LoadOf::Model => Table { rate: Some(from), ..table },
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
            (" ", "a stage is missing: give RATE:DURATION, and no comma after the last one"),
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
        let [constant, ramp] = &stages("1000:30s,rise=0..7.5:2m")[..] else { panic!("two") };
        let constant = constant.clone().of(LoadOf::Rate);
        assert_eq!(file.stage, [constant, ramp.clone().of(LoadOf::Rate)]);
        let json = serde_json::to_string(&file.stage).expect("a document");
        let want = r#"[{"rate":1000.0,"duration":"30s"},{"name":"rise","from":0.0,"to":7.5,"duration":"2m"}]"#;
        assert_eq!(json, want);
        assert_eq!(serde_json::from_str::<Vec<Stage>>(&json).expect("comes back"), file.stage);
        let text = "[[stage]]\nusers = '1k'\nduration = 30\n[[stage]]\nusers = 0\nduration = 1\n";
        let file: File = toml::from_str(text).expect("stages");
        let users: Vec<Stage> =
            stages("1000:30s,0:1s").into_iter().map(|stage| stage.of(LoadOf::Users)).collect();
        assert_eq!((file.stage[0].users(), &file.stage), ((1_000, 1_000), &users));
        let json = serde_json::to_string(&file.stage).expect("a document");
        assert_eq!(json, r#"[{"users":1000,"duration":"30s"},{"users":0,"duration":"1s"}]"#);
        assert_eq!(serde_json::from_str::<Vec<Stage>>(&json).expect("comes back"), users);
        for wrong in [
            "from = 1",
            "rate = 1\nto = 2",
            "",
            "rate = 1\nlabel = 'x'",
            "rate = -1",
            "rate = 1\nusers = 1",
            "users = 1.5",
            "users = -1",
            "users = '200M'",
        ] {
            let text = format!("[[stage]]\nduration = 1\n{wrong}\n");
            assert!(toml::from_str::<File>(&text).is_err(), "{wrong}");
        }
    }
}
