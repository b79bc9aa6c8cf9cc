//! The expressions of a definition, over its runs' documents: figures, lines of plots, and flags
//! that depend on earlier results.

use std::collections::BTreeMap;
use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value};
use serde::Serialize;
use serde_json::Value as Json;

use super::error::LabError;
use super::functions;

/// The values that expressions can name, and their evaluation.
///
/// A name is a path into a document: `runs.kept.corrected.p99`, where a dash in the name of a run
/// is written as `_`. A path that leads nowhere is an error; one that leads to `null` is a figure
/// that wasn't measured. `functions.rs` has the functions.
#[derive(Debug)]
pub(super) struct Expressions {
    environment: Environment<'static>,
    /// Values by kind: documents of runs, facts about servers, settings, figures so far.
    known: BTreeMap<&'static str, BTreeMap<String, Value>>,
}

impl Expressions {
    /// The expressions of an experiment whose files lie in this folder.
    pub(super) fn new(folder: &Path) -> Expressions {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        functions::add_to(&mut environment, folder);
        Expressions { environment, known: BTreeMap::new() }
    }

    /// Adds a document as `kind.name`.
    pub(super) fn learn(&mut self, kind: &'static str, name: &str, what: &impl Serialize) {
        let what = Value::from(Serde(what));
        self.known.entry(kind).or_default().insert(name.replace('-', "_"), what);
    }

    /// Adds all fields of a document as `kind.name`.
    pub(super) fn learn_all(&mut self, kind: &'static str, of: &Json) {
        for (name, what) in of.as_object().into_iter().flatten() {
            self.learn(kind, name, what);
        }
    }

    /// The value of an expression.
    pub(super) fn value(&self, expression: &str) -> Result<Json, LabError> {
        self.value_with(expression, BTreeMap::new())
    }

    fn value_with(&self, expression: &str, with: BTreeMap<&str, Value>) -> Result<Json, LabError> {
        let problem =
            |why: &dyn std::fmt::Display| LabError::Definition(format!("`{expression}`: {why}"));
        let compiled = self.environment.compile_expression(expression);
        let evaluated = compiled.and_then(|compiled| compiled.eval(self.context(with)));
        match evaluated {
            Ok(value) if value.is_undefined() => Err(problem(&"it leads nowhere")),
            Ok(value) => serde_json::to_value(&value).map_err(|error| problem(&error)),
            Err(error) => Err(problem(&format!("{error:#}"))),
        }
    }

    /// The value of an expression in a row of a table: `it` is the row's text, and if that is the
    /// name of a run, `run` is its document and `server` has the facts about its target. `row` has
    /// the figures of the row so far. All are `null` for a run that could not be made.
    pub(super) fn in_row(
        &self,
        expression: &str,
        it: &str,
        row: Option<&Json>,
    ) -> Result<Json, LabError> {
        let name = it.replace('-', "_");
        let of = |kind| self.known.get(kind).and_then(|known| known.get(&name));
        let mut with = BTreeMap::from([("it", Value::from(name.as_str()))]);
        with.extend(row.map(|row| ("row", Value::from(Serde(row)))));
        if let Some(run) = of("runs") {
            if run.is_none() {
                return Ok(Json::Null);
            }
            with.insert("run", run.clone());
            with.extend(of("servers").map(|server| ("server", server.clone())));
        }
        self.value_with(expression, with)
    }

    /// A text with each expression between `{{` and `}}` replaced by its value.
    pub(super) fn text(&self, template: &str) -> Result<String, LabError> {
        Ok(self.environment.render_str(template, self.context(BTreeMap::new()))?)
    }

    fn context(&self, with: BTreeMap<&str, Value>) -> Value {
        let known = self.known.iter().map(|(kind, known)| (*kind, Value::from(known.clone())));
        Value::from_pairs(known.chain(with))
    }
}

/// Checks the syntax of an expression.
pub(super) fn check(expression: &str) -> Result<(), LabError> {
    let environment = Environment::new();
    let compiled = environment.compile_expression(expression).map(drop);
    compiled.map_err(|error| LabError::Definition(format!("`{expression}`: {error:#}")))
}

/// Sets the figure at a path such as `open.p99_ms` or `rows.0.rate`; rows come in their order.
pub(super) fn set(figures: &mut Json, path: &str, value: Json) -> Result<(), LabError> {
    let mut place = figures;
    for part in path.split('.') {
        if place.is_null() {
            *place =
                if part == "0" { Json::Array(Vec::new()) } else { Json::Object(<_>::default()) };
        }
        place = match place {
            Json::Object(fields) => fields.entry(part).or_insert(Json::Null),
            Json::Array(rows) => {
                let at = part.parse().ok().filter(|at| *at <= rows.len());
                let at: usize = at.ok_or_else(|| taken(path))?;
                if at == rows.len() {
                    rows.push(Json::Null);
                }
                &mut rows[at]
            }
            _ => return Err(taken(path)),
        };
    }
    *place = value;
    Ok(())
}

fn taken(path: &str) -> LabError {
    LabError::Definition(format!("`{path}`: no figure can be there"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn expressions() -> Expressions {
        let mut expressions = Expressions::new(Path::new("."));
        let open = json!({ "rate": { "sent": 500.0, "target": null }, "count": 20 });
        expressions.learn("runs", "open-loop", &open);
        expressions.learn("runs", "remote", &());
        expressions.learn("servers", "open-loop", &json!({ "time_wait": 7 }));
        expressions
    }

    #[test]
    fn a_path_leads_to_a_number_to_nothing_or_nowhere() {
        let value = |expression| expressions().value(expression);
        assert_eq!(value("runs.open_loop.rate.sent").expect("a value"), json!(500.0));
        assert_eq!(value("runs.open_loop.count").expect("a value"), json!(20));
        assert_eq!(value("runs.open_loop.rate.target").expect("a value"), json!(null));
        for nowhere in ["runs.open_loop.rate.snet", "ms(runs.open_loop.snet)", "runs.shut.rate"] {
            assert!(value(nowhere).is_err(), "{nowhere}");
        }
        assert!(check("runs.open_loop.").is_err() && check("runs.open_loop").is_ok());
    }

    #[test]
    fn an_unmeasured_number_has_no_share() {
        let value = |expression| expressions().value(expression).expect("a value");
        assert_eq!(value("ratio(5, 20)"), json!(0.25));
        assert_eq!(value("percent(5, 20)"), json!(25.0));
        assert_eq!(value("beyond_percent(5, 20)"), json!(75.0));
        assert_eq!(value("beyond_percent(20, 0)"), json!(null));
        assert_eq!(value("ratio(runs.open_loop.rate.target, 20)"), json!(null));
        assert_eq!(value("ms(runs.open_loop.rate.target)"), json!(null));
    }

    #[test]
    fn each_of_a_list_is_a_row() {
        let value = expressions().value("each([{'a': 1}, {'a': 2}], {'b': 'it.a * 10'})");
        assert_eq!(value.expect("a value"), json!([{ "b": 10 }, { "b": 20 }]));
        assert!(expressions().value("each([{'a': 1}], {'b': 'it.c'})").is_err());
    }

    #[test]
    fn a_row_is_a_run_or_a_word() {
        let row = |expression, it| expressions().in_row(expression, it, None);
        assert_eq!(row("run.count + server.time_wait", "open-loop").expect("a value"), json!(27));
        assert_eq!(row("runs.open_loop[it]", "count").expect("a value"), json!(20));
        assert_eq!(row("run.count", "remote").expect("a value"), json!(null), "it wasn't made");
        assert!(row("run.count", "count").is_err());
    }

    #[test]
    fn figures_lie_at_their_paths() {
        let mut figures = json!({ "computed": 1 });
        for (path, value) in [("a.b", 2), ("rows.0.c", 3), ("rows.0.d", 4), ("rows.1.c", 5)] {
            set(&mut figures, path, value.into()).expect("set");
        }
        let expected =
            json!({ "computed": 1, "a": { "b": 2 }, "rows": [{ "c": 3, "d": 4 }, { "c": 5 }] });
        assert_eq!(figures, expected);
        for path in ["computed.x", "rows.3.c", "rows.x"] {
            assert!(set(&mut figures, path, json!(0)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_text_has_values_in_it() {
        let text = expressions().text("{{ runs.open_loop.rate.sent | int }}/s");
        assert_eq!(text.expect("a text"), "500/s");
        assert_eq!(expressions().text("2k").expect("a text"), "2k");
    }
}
