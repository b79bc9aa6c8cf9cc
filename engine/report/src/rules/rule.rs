//! A rule of the verdict, and what its checks find in a report.

use std::borrow::Cow;

use crate::Report;
use crate::verdict::{Code, Level, Origin, Reason, Topic, Unit};

/// A rule of the verdict: everything about its reason that doesn't depend on a report.
pub struct Rule {
    /// The code of its reasons.
    pub code: Code,
    /// What its checks look at, in Markdown.
    pub looks_at: &'static str,
    /// The limits beyond which a run is suspect, by default, and invalid; in Markdown.
    pub limit: &'static str,
    /// Its scope in a run of several agents.
    pub of: Of,
    /// Where its cause lies.
    pub origin: Origin,
    /// Whether it finds an effect or a cause.
    pub effect: Effect,
    /// The numbers that it casts doubt on, or could.
    pub touches: &'static [Topic],
    /// The unit of figure and threshold.
    pub unit: Unit,
    /// The consequence for the numbers.
    pub meaning: &'static str,
    /// What to do about it.
    pub cure: &'static str,
    /// Its checks; each finds at most one problem in a report.
    pub(super) checks: &'static [Check],
    /// What only a few rules have.
    pub more: More,
}

/// Finds at most one problem in a report.
pub(super) type Check = fn(&Report) -> Option<Found>;

/// What only a few rules have.
pub struct More {
    /// The thresholds of the plan that it applies.
    pub thresholds: &'static [&'static str],
    /// Its cause, if that has rules of its own.
    pub follows: Follows,
    /// True if it adds nothing, and has no cure, when no request was answered.
    pub needs_answers: bool,
    /// The excuse for a step of a series that failed because of it, in words.
    pub excuse: Option<&'static str>,
    /// The finding in plain words, with the placeholders `{figure}` and `{limit}`, if the evidence
    /// begins with more than a user needs at first.
    pub plain: Option<&'static str>,
}

/// The default: none of these.
pub(super) const NO_MORE: More = More {
    thresholds: &[],
    follows: Follows::Nothing,
    needs_answers: false,
    excuse: None,
    plain: None,
};

/// A rule's scope in a run of several agents; without agents, the run is its only agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The run as a whole: what no agent's part can show, or all parts show alike. If it concerns
    /// one agent all the same, the evidence names that agent.
    Whole,
    /// Each agent's generator and machine.
    Agent,
    /// Numbers of the run, and of each agent's part.
    Both,
    /// The same, but the run's only if no agent's part shows it: by chance, each may hide what all
    /// of them have.
    AgentFirst,
}

/// Whether a rule finds effects on numbers, which are reasons, or their causes, which are notes.
#[derive(Clone, Copy)]
pub enum Effect {
    /// An effect, or something that hides one.
    Always,
    /// An effect if this is true of the report; otherwise a cause whose effects are measured.
    Where(fn(&Report) -> bool),
    /// A cause whose effects are measured.
    Never,
}

/// The cause of an effect, if it has rules of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Nothing.
    Nothing,
    /// The generator or its machine: a note may explain it.
    Notes,
    /// The same; and if a reason with this code was found, it is the likely cause, and no meaning
    /// or cure is needed.
    NotesAnd(Code),
}

/// The finding of a check.
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
    /// The numbers may be off: the figure and the threshold that it exceeded, both in the rule's
    /// unit; and the two in words.
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

    /// The numbers don't mean what they seem to mean.
    pub(super) fn invalid(figure: f64, threshold: f64, evidence: String) -> Found {
        Found { level: Level::Invalid, ..Found::suspect(figure, threshold, evidence) }
    }

    /// The same finding, invalid if it is worse.
    pub(super) fn invalid_if(self, is_worse: bool) -> Found {
        Found { level: if is_worse { Level::Invalid } else { self.level }, ..self }
    }

    /// The same finding, for one agent.
    pub(super) fn on_agent(self, name: &str) -> Found {
        Found { agent: Some(name.to_owned()), ..self }
    }

    /// The same finding, about other numbers than the rule's.
    pub(super) fn touches(self, topics: &'static [Topic]) -> Found {
        Found { touches: Some(topics), ..self }
    }

    /// The same finding, with a meaning that depends on the run; `None` for the rule's.
    pub(super) fn meaning(self, text: Option<impl Into<Cow<'static, str>>>) -> Found {
        Found { meaning: text.map(Into::into), ..self }
    }

    /// The same finding, with a cure that depends on the run; `None` for the rule's.
    pub(super) fn cure(self, text: Option<impl Into<Cow<'static, str>>>) -> Found {
        Found { cure: text.map(Into::into), ..self }
    }
}

impl Rule {
    /// True if its finding in this report is an effect, which makes a reason, and not a cause.
    pub(super) fn is_effect(&self, report: &Report) -> bool {
        match self.effect {
            Effect::Always => true,
            Effect::Where(holds) => holds(report),
            Effect::Never => false,
        }
    }

    /// The findings of its checks in a report.
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
