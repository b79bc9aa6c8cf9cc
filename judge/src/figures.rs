//! The figures that a tool printed, read from its output as its file says. None is derived.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::tool::{COUNTS, MEAN, PERCENTILES, Place, Tool, percent_of, unit_ms};

/// What a tool printed of a run. A figure that it doesn't print is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requests sent.
    pub sent: Option<f64>,
    /// Responses, of any status.
    pub answered: Option<f64>,
    /// Of these, the ones whose status is no success.
    pub bad: Option<f64>,
    /// Requests that failed without a response.
    pub errors: Option<f64>,
    /// Requests that were open at the end.
    pub open: Option<f64>,
    /// Responses per second.
    pub per_s: Option<f64>,
    /// The mean latency, ms.
    pub mean_ms: Option<f64>,
    /// The percentiles of latency, the lowest first.
    pub percentiles: Vec<Percentile>,
}

/// A printed percentile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Of which route of a mix; `None` for all requests.
    pub route: Option<String>,
    /// Which, in percent.
    pub percent: f64,
    /// Its latency, ms.
    pub ms: f64,
    /// The unit of its last printed digit, ms: no more can be asked of it.
    pub digit_ms: f64,
}

/// Why an output can't be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReadError {
    /// Nothing of what the file describes is there.
    #[error("none of the figures in `read` was found in its output")]
    Nothing,
    /// A number is beyond what it can be, such as a percentile below zero.
    #[error("read.{0}: its output has `{1}` there")]
    NoNumber(String, String),
}

/// A number as it was printed, with its unit if that was.
struct Printed {
    text: String,
    unit: Option<String>,
}

impl Figures {
    /// Reads the output of a tool.
    ///
    /// # Errors
    /// If it has no figure, or one isn't a number.
    pub fn read(tool: &Tool, output: &str) -> Result<Figures, ReadError> {
        let json: Option<Value> = serde_json::from_str(output).ok();
        let mut figures = Figures::default();
        let mut found = false;
        for (figure, places) in &tool.read {
            if figure == PERCENTILES {
                for (percent, printed) in percentiles(places, output) {
                    figures.percentiles.push(printed.percentile(tool, figure, (None, percent))?);
                }
            } else if figure == MEAN {
                if let Some(printed) = first(places, output, json.as_ref()) {
                    figures.mean_ms = Some(printed.ms(tool, figure)?.0);
                    found = true;
                }
            } else if let Some(which) = percent_of(figure) {
                if let Some(printed) = first(places, output, json.as_ref()) {
                    figures.percentiles.push(printed.percentile(tool, figure, which)?);
                }
            } else {
                *figures.count_mut(figure) = sum(places, output, json.as_ref(), figure)?;
                found |= figures.count_mut(figure).is_some();
            }
        }
        if !found && figures.percentiles.is_empty() {
            return Err(ReadError::Nothing);
        }
        figures.percentiles.sort_by(|one, other| one.percent.total_cmp(&other.percent));
        // A count that is only printed if there was something to count: wrk's errors.
        for name in COUNTS.iter().filter(|name| tool.read.contains_key(**name)) {
            let is_of_text = |place: &Place| matches!(place, Place::Text(_));
            let is_of_some = matches!(*name, "bad" | "errors" | "open");
            if tool.read[*name].iter().all(is_of_text) && is_of_some {
                figures.count_mut(name).get_or_insert(0.0);
            }
        }
        Ok(figures)
    }

    fn count_mut(&mut self, name: &str) -> &mut Option<f64> {
        match name {
            "sent" => &mut self.sent,
            "answered" => &mut self.answered,
            "bad" => &mut self.bad,
            "errors" => &mut self.errors,
            "open" => &mut self.open,
            "per_s" => &mut self.per_s,
            _ => unreachable!("a tool's file is checked for its figures: {name}"),
        }
    }

    /// All requests that it speaks of, whatever became of them.
    pub fn accounted(&self) -> Option<f64> {
        let others = self.errors.unwrap_or(0.0) + self.open.unwrap_or(0.0);
        Some(self.answered? + others)
    }

    /// This percentile of all requests.
    pub fn percentile(&self, percent: f64) -> Option<&Percentile> {
        self.of_all().find(|one| one.percent == percent)
    }

    /// The percentiles of all requests.
    pub fn of_all(&self) -> impl Iterator<Item = &Percentile> {
        self.percentiles.iter().filter(|one| one.route.is_none())
    }
}

/// Each percentage with its first time: of two groups, or three with the unit.
fn percentiles(places: &[Place], output: &str) -> Vec<(f64, Printed)> {
    let texts = places.iter().filter_map(|place| match place {
        Place::Text(text) => Some(text),
        Place::Pointer(_) => None,
    });
    let all = texts.flat_map(|text| text.captures_iter(output));
    let read = all.filter_map(|groups| {
        let unit = groups.get(3).map(|unit| unit.as_str().to_owned());
        let percent: f64 = groups.get(1)?.as_str().parse().ok()?;
        let is_one = (0.0..=100.0).contains(&percent);
        is_one.then_some((percent, Printed { text: groups.get(2)?.as_str().to_owned(), unit }))
    });
    let mut first: Vec<(f64, Printed)> = Vec::new();
    for (percent, printed) in read {
        if first.iter().all(|(known, _)| *known != percent) {
            first.push((percent, printed));
        }
    }
    first
}

/// A figure's first place in the output.
fn first(places: &[Place], output: &str, json: Option<&Value>) -> Option<Printed> {
    places.iter().find_map(|place| match place {
        Place::Pointer(pointer) => pointed(json?, pointer),
        Place::Text(text) => {
            let groups = text.captures(output)?;
            let unit = groups.get(2).map(|unit| unit.as_str().to_owned());
            Some(Printed { text: groups.get(1)?.as_str().to_owned(), unit })
        }
    })
}

/// The sum of all groups of all matches: many tools print a count by its kinds.
fn sum(
    places: &[Place],
    output: &str,
    json: Option<&Value>,
    figure: &str,
) -> Result<Option<f64>, ReadError> {
    let mut total = None;
    let mut add = |text: &str| {
        *total.get_or_insert(0.0) += number(text, figure)?;
        Ok(())
    };
    for place in places {
        match place {
            Place::Pointer(pointer) => {
                if let Some(printed) = json.and_then(|json| pointed(json, pointer)) {
                    add(&printed.text)?;
                }
            }
            Place::Text(text) => {
                for groups in text.captures_iter(output) {
                    groups.iter().skip(1).flatten().try_for_each(|group| add(group.as_str()))?;
                }
            }
        }
    }
    Ok(total)
}

fn pointed(json: &Value, pointer: &str) -> Option<Printed> {
    let number = json.pointer(pointer)?.as_number()?;
    Some(Printed { text: number.to_string(), unit: None })
}

fn number(text: &str, figure: &str) -> Result<f64, ReadError> {
    let value: Option<f64> = text.replace(',', "").parse().ok();
    let value = value.filter(|value| value.is_finite() && 0.0 <= *value);
    value.ok_or_else(|| ReadError::NoNumber(figure.to_owned(), text.to_owned()))
}

impl Printed {
    fn percentile(
        &self,
        tool: &Tool,
        figure: &str,
        (route, percent): (Option<&str>, f64),
    ) -> Result<Percentile, ReadError> {
        let (ms, digit_ms) = self.ms(tool, figure)?;
        Ok(Percentile { route: route.map(str::to_owned), percent, ms, digit_ms })
    }

    /// It as a time, and the unit of its last digit, ms.
    fn ms(&self, tool: &Tool, figure: &str) -> Result<(f64, f64), ReadError> {
        let unit = match self.unit.as_deref() {
            None => Some(tool.unit_ms),
            Some(unit) => unit_ms(unit),
        };
        let no_number = || ReadError::NoNumber(figure.to_owned(), self.text.clone());
        let factor = unit.ok_or_else(no_number)?;
        let value = number(&self.text, figure)?;
        let (digits, exponent) = self.text.split_once(['e', 'E']).unwrap_or((&self.text, "0"));
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let exponent: i32 = exponent.parse().map_err(|_| no_number())?;
        let decimals = i32::try_from(decimals).map_err(|_| no_number())?;
        let printed = 10_f64.powi(exponent.saturating_sub(decimals));
        // Of 160 with two digits, the last one is worth 10.
        let rounded = |digits: i32| 10_f64.powf(value.log10().floor() + 1.0 - f64::from(digits));
        let digit = tool.significant.map_or(printed, |digits| printed.max(rounded(digits)));
        Ok((value * factor, digit * factor))
    }
}
