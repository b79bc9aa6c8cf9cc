//! What a rule of the verdict is, and what its checks find in a report.

use std::borrow::Cow;

use crate::Report;
use crate::verdict::{Code, Level, Origin, Reason, Topic, Unit};

/// A rule of the verdict: all that is known of its reason before a report is looked at.
pub struct Rule {
    /// What its reasons are about.
    pub code: Code,
    /// What its checks look at, in Markdown.
    pub looks_at: &'static str,
    /// Beyond what a run is suspect, by default, and where it is invalid; in Markdown.
    pub limit: &'static str,
    /// What it looks at in a run of several agents.
    pub of: Of,
    /// Whose doing it is.
    pub origin: Origin,
    /// Whether it finds an effect or a cause.
    pub effect: Effect,
    /// What it speaks against, or could: the numbers of the report.
    pub touches: &'static [Topic],
    /// What figure and threshold are in.
    pub unit: Unit,
    /// What it means for the numbers.
    pub meaning: &'static str,
    /// What to do about it.
    pub cure: &'static str,
    /// What looks for it: each finds one thing in a report, or nothing.
    pub(super) checks: &'static [Check],
    /// What few rules have.
    pub more: More,
}

/// Finds one thing in a report, or nothing.
pub(super) type Check = fn(&Report) -> Option<Found>;

/// What few rules have.
pub struct More {
    /// The thresholds of the plan that it holds the report to.
    pub thresholds: &'static [&'static str],
    /// What brings it about, where that has rules of its own.
    pub follows: Follows,
    /// Whether it says nothing of its own, and has no cure, where no request was answered.
    pub needs_answers: bool,
    /// What a step of a series is excused with that failed for it, in words.
    pub excuse: Option<&'static str>,
    /// What it finds in plain words, with `{figure}` and `{limit}` in their places, where the
    /// evidence begins with more than a user needs at first.
    pub plain: Option<&'static str>,
}

/// Nothing of that.
pub(super) const NO_MORE: More = More {
    thresholds: &[],
    follows: Follows::Nothing,
    needs_answers: false,
    excuse: None,
    plain: None,
};

/// What a rule is about in a run of several agents; without agents, the run is its one agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The run as a whole: what no agent's part can tell, or all parts tell alike. If it is of an
    /// agent all the same, the evidence names that agent.
    Whole,
    /// Each agent's generator and machine.
    Agent,
    /// Numbers that the run has, and each agent's part of it.
    Both,
}

/// Whether a rule finds effects on numbers, which are reasons, or causes of them, which are notes.
#[derive(Clone, Copy)]
pub enum Effect {
    /// An effect, or what hides one.
    Always,
    /// An effect where this holds of the report; else a cause whose effects are measured.
    Where(fn(&Report) -> bool),
    /// A cause whose effects are measured.
    Never,
}

/// What brings an effect about that has a rule of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Nothing.
    Nothing,
    /// The generator or its machine, so that a note may explain it.
    Notes,
    /// The same; and where a reason of this code was found, it likely follows from that, and needs
    /// neither a meaning nor a cure.
    NotesAnd(Code),
}

/// What a check found.
pub(super) struct Found {
    level: Level,
    figure: f64,
    threshold: f64,
    evidence: String,
    agent: Option<String>,
    touches: Option<&'static [Topic]>,
    meaning: Option<Cow<'static, str>>,
    cure: Option<Cow<'static, str>>,
}

impl Found {
    /// That the numbers may be off: the figure, and the threshold that it crossed, both in the
    /// rule's unit; and the two in words.
    pub(super) fn suspect(figure: f64, threshold: f64, evidence: String) -> Found {
        Found {
            level: Level::Suspect,
            figure,
            threshold,
            evidence,
            agent: None,
            touches: None,
            meaning: None,
            cure: None,
        }
    }

    /// That they don't mean what they seem to mean.
    pub(super) fn invalid(figure: f64, threshold: f64, evidence: String) -> Found {
        Found { level: Level::Invalid, ..Found::suspect(figure, threshold, evidence) }
    }

    /// The same, or that if it is worse.
    pub(super) fn invalid_if(self, is_worse: bool) -> Found {
        Found { level: if is_worse { Level::Invalid } else { self.level }, ..self }
    }

    /// The same, of one agent.
    pub(super) fn on_agent(self, name: &str) -> Found {
        Found { agent: Some(name.to_owned()), ..self }
    }

    /// The same, which speaks against other numbers than the rule says.
    pub(super) fn touches(self, topics: &'static [Topic]) -> Found {
        Found { touches: Some(topics), ..self }
    }

    /// The same, with a meaning that depends on the run; `None` for the rule's.
    pub(super) fn meaning(self, text: Option<impl Into<Cow<'static, str>>>) -> Found {
        Found { meaning: text.map(Into::into), ..self }
    }

    /// The same, with a cure that depends on the run; `None` for the rule's.
    pub(super) fn cure(self, text: Option<impl Into<Cow<'static, str>>>) -> Found {
        Found { cure: text.map(Into::into), ..self }
    }
}

impl Rule {
    /// Whether it finds an effect in a report, which is a reason, and not a cause.
    pub(super) fn is_effect(&self, report: &Report) -> bool {
        match self.effect {
            Effect::Always => true,
            Effect::Where(holds) => holds(report),
            Effect::Never => false,
        }
    }

    /// What it finds in a report, as its checks find it.
    pub(super) fn find(&self, report: &Report) -> Vec<Reason> {
        let found = self.checks.iter().filter_map(|check| check(report));
        found.map(|found| self.reason(found)).collect()
    }

    fn reason(&self, found: Found) -> Reason {
        let Found { level, figure, threshold, evidence, agent, touches, meaning, cure } = found;
        Reason {
            code: self.code,
            agent,
            level,
            touches: touches.unwrap_or(self.touches).to_vec(),
            evidence,
            figure,
            threshold,
            unit: self.unit,
            meaning: meaning.map_or_else(|| self.meaning.to_owned(), Cow::into_owned),
            cure: cure.map_or_else(|| self.cure.to_owned(), Cow::into_owned),
        }
    }
}
