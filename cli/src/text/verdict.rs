//! The verdict, above everything else: one line on whether the numbers can be trusted, then each
//! reason against that in plain words, with its limit and its cure. Its evidence and its meaning
//! for the numbers are among the details.

use std::fmt::Write as _;

use anstyle::AnsiColor;
use engine::report::verdict::{Code, Level, Reason, Topic, Unit, Verdict};
use engine::report::{Follows, Of, explains_added};

use super::figures::{number, time};
use super::layout::{Text, fitting};
use super::slo::percent;

/// The lines of the verdict: its headline, then each reason by its evidence, with its possible
/// causes.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    format!("{}\n{}", headline(verdict), found(verdict))
}

/// The reasons by their evidence, below a heading; empty for a valid run.
pub(crate) fn evidence(verdict: &Verdict) -> String {
    match found(verdict) {
        none if none.is_empty() => none,
        found => format!("what was found\n{found}"),
    }
}

fn found(verdict: &Verdict) -> String {
    let mut text = Text::new();
    for Line { relation, text: found, .. } in in_order(verdict) {
        let indent = if relation.is_empty() { 2 } else { 4 };
        text.item(indent, format!("{relation}{found}."));
    }
    text.done()
}

/// The most lines of reasons above the run's description.
const LINES_MAX: usize = 9;

/// The verdict of the first screen: its headline, with the codes if there is room, then the reasons
/// by their origins.
pub(crate) fn brief(verdict: &Verdict, headline: &str) -> String {
    let mut text = Text::new();
    text.wrapped(headline);
    let all = origins(verdict);
    let mut lines = 0;
    for (at, origin) in all.iter().enumerate() {
        let mut item = Text::new();
        item.item(2, origin.sentence(verdict.level));
        let item = item.done();
        lines += item.lines().count();
        if LINES_MAX < lines {
            let rest: Vec<String> =
                all[at..].iter().map(|origin| origin.reason.code.to_string()).collect();
            text.line(fitting(&[
                format!("  and {}: see --details", rest.join(", ")),
                format!("  and {} more reasons: see --details", rest.len()),
            ]));
            break;
        }
        text.add(item);
    }
    text.done()
}

/// The reasons by their origins, a sentence each.
pub(crate) fn sentences(verdict: &Verdict) -> Vec<String> {
    origins(verdict).iter().map(|origin| origin.sentence(verdict.level)).collect()
}

/// A reason that follows from no other, on all agents that have it.
struct Origin<'a> {
    reason: &'a Reason,
    /// How many other agents have it.
    others: usize,
    /// Its possible cause.
    cause: Option<&'a Reason>,
    /// Its likely consequences.
    following: Vec<&'a Reason>,
}

/// The reasons that follow from no other.
fn origins(verdict: &Verdict) -> Vec<Origin<'_>> {
    let mut all: Vec<Origin<'_>> = Vec::new();
    for reason in verdict.reasons.iter().filter(|reason| followed(verdict, reason).is_none()) {
        let has_it =
            |known: &&mut Origin<'_>| reason.agent.is_some() && known.reason.code == reason.code;
        if let Some(known) = all.iter_mut().find(has_it) {
            known.others += 1;
            continue;
        }
        let cause = causes(verdict, reason).next();
        let mut following: Vec<&Reason> = Vec::new();
        for other in consequences(verdict, reason) {
            if following.iter().all(|known| known.code != other.code) {
                following.push(other);
            }
        }
        all.push(Origin { reason, others: 0, cause, following });
    }
    all
}

impl Origin<'_> {
    /// Evidence, limit and cure; the cure of a cause that took processor time, if the lack of it
    /// may explain the reason.
    fn sentence(&self, level: Level) -> String {
        let Origin { reason, others, cause, following } = self;
        let mut text = name(reason, level);
        if 0 < *others {
            let _ = write!(text, " and {others} more");
        }
        let _ = write!(text, ": {}", plain(reason));
        if !following.is_empty() {
            let codes: Vec<String> =
                following.iter().map(|reason| reason.code.to_string()).collect();
            let _ = write!(text, ", which likely caused {}", codes.join(" and "));
        }
        if let Some(cause) = cause {
            let _ = write!(text, "; perhaps {}: {}", cause.code, plain(cause));
        }
        let has_cure = match reason.code.rule().more.follows {
            Follows::NotesAnd(_) => cause.unwrap_or(reason),
            Follows::Notes | Follows::Nothing => reason,
        };
        let _ = write!(text, "; {}.", has_cure.cure);
        text
    }
}

/// The finding in plain words, with its limit: the rule's text, or the start of the evidence.
fn plain(reason: &Reason) -> String {
    if let Some(plain) = reason.code.rule().more.plain {
        let [figure, limit] = [reason.figure, reason.threshold].map(|of| shown(of, reason.unit));
        return plain.replace("{figure}", &figure).replace("{limit}", &limit);
    }
    let mut clauses = reason.evidence.split("; ");
    let first = clauses.next().unwrap_or_default();
    match clauses.find_map(|clause| clause.strip_prefix("the limit is ")) {
        Some(limit) => match first.strip_suffix(')') {
            Some(in_brackets) => format!("{in_brackets}; limit {limit})"),
            None => format!("{first} (limit {limit})"),
        },
        None => first.to_owned(),
    }
}

/// A figure in its unit.
fn shown(figure: f64, unit: Unit) -> String {
    match unit {
        Unit::Share => percent(figure),
        Unit::Us => time(figure),
        Unit::S => time(figure * 1e6),
        Unit::Ratio | Unit::Count | Unit::KsDistance => number(figure),
    }
}

/// A finding, as the verdict lists it.
pub(crate) struct Line<'a> {
    /// The reason, or the note.
    pub(crate) reason: &'a Reason,
    /// Its relation to the reason above it, if any.
    pub(crate) relation: &'static str,
    /// Its code and its evidence.
    pub(crate) text: String,
}

/// The reasons in reading order, each with the notes that may explain it. Likely consequences of
/// time taken by others come after that.
pub(crate) fn in_order(verdict: &Verdict) -> Vec<Line<'_>> {
    let mut lines = Vec::with_capacity(verdict.reasons.len() + verdict.notes.len());
    let mut add = |reason, relation| {
        lines.push(Line { reason, relation, text: message(reason, verdict.level) });
        lines.extend(causes(verdict, reason).map(|note| Line {
            reason: note,
            relation: "a possible cause: ",
            text: message(note, Level::Valid),
        }));
    };
    for reason in verdict.reasons.iter().filter(|reason| followed(verdict, reason).is_none()) {
        add(reason, "");
        consequences(verdict, reason).for_each(|reason| add(reason, "likely a consequence: "));
    }
    lines
}

/// The notes that may explain a reason.
fn causes<'a>(verdict: &'a Verdict, reason: &'a Reason) -> impl Iterator<Item = &'a Reason> {
    verdict.notes.iter().filter(move |note| {
        explained(verdict, note).is_some_and(|effect| std::ptr::eq(effect, reason))
    })
}

/// The likely consequences of a reason.
fn consequences<'a>(verdict: &'a Verdict, reason: &'a Reason) -> impl Iterator<Item = &'a Reason> {
    verdict.reasons.iter().filter(move |other| {
        followed(verdict, other).is_some_and(|followed| std::ptr::eq(followed, reason))
    })
}

/// The first reason that a note may explain: the generator's effect on a number that the note's
/// cause can move, on the same agent. A pool of connections moves what opening them adds,
/// and nothing else.
fn explained<'a>(verdict: &'a Verdict, note: &Reason) -> Option<&'a Reason> {
    verdict.reasons.iter().find(|reason| {
        let is_of_one =
            reason.agent.is_none() || note.agent.is_none() || reason.agent == note.agent;
        let is_measured = match reason.code {
            Code::ClientShare => explains_added(note.code, reason),
            _ => !matches!(note.code, Code::NotSettled | Code::PoolGrew),
        };
        is_of_one
            && is_measured
            && reason.code.rule().more.follows != Follows::Nothing
            && reason.touches.iter().any(|topic| note.touches.iter().any(|of| topic.is_of(*of)))
    })
}

/// The notes that explain no reason; empty if there are none.
pub(crate) fn notes(verdict: &Verdict) -> String {
    let mut text = Text::new();
    let mut alone =
        verdict.notes.iter().filter(|note| explained(verdict, note).is_none()).peekable();
    if alone.peek().is_some() {
        text.line("notes: possible causes that explain none of the reasons above");
    }
    alone.for_each(|note| text.item(2, format!("{}.", message(note, Level::Valid))));
    text.done()
}

/// The meaning of the reasons for the numbers and the cure for each, and for their possible causes;
/// empty for a valid run. Reasons with one meaning share it, and a consequence of another reason
/// needs none.
pub(crate) fn meanings(verdict: &Verdict) -> String {
    let causes = verdict.notes.iter().filter(|note| explained(verdict, note).is_some());
    let reasons = verdict.reasons.iter().filter(|reason| followed(verdict, reason).is_none());
    let mut groups: Vec<(Vec<String>, &Reason)> = Vec::new();
    for reason in reasons.chain(causes) {
        let alike = |(_, other): &&mut (Vec<String>, &Reason)| {
            (&other.meaning, &other.cure) == (&reason.meaning, &reason.cure)
        };
        let name = reason.code.to_string();
        match groups.iter_mut().find(alike) {
            Some((names, _)) if names.contains(&name) => {}
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], reason)),
        }
    }
    let mut text = Text::new();
    if !groups.is_empty() {
        text.line("what the reasons mean");
    }
    for (names, Reason { meaning, cure, .. }) in groups {
        text.item(2, format!("{}: {meaning}. Cure: {cure}.", names.join(", ")));
    }
    text.done()
}

/// The reason that likely caused this one, which then needs no meaning and no cure of its own.
fn followed<'a>(verdict: &'a Verdict, reason: &Reason) -> Option<&'a Reason> {
    let Follows::NotesAnd(code) = reason.code.rule().more.follows else { return None };
    verdict.reasons.iter().find(|other| other.code == code)
}

/// A text that begins with the headline of a verdict of this level, with the headline in colour.
pub(crate) fn coloured(text: &str, level: Level) -> String {
    let colour = match level {
        Level::Valid => AnsiColor::Green,
        Level::Suspect => AnsiColor::Yellow,
        Level::Invalid => AnsiColor::Red,
    };
    let style = colour.on_default().bold();
    let (headline, rest) = text.split_once('\n').unwrap_or((text, ""));
    format!("{style}{headline}{style:#}\n{rest}")
}

/// The verdict in one line: `valid`, `INVALID: core_saturated`, `valid for throughput; latencies
/// suspect: closed_loop`. Topics without a reason come first, then each level with its topics;
/// throughput and latency together are the run.
pub(crate) fn headline(verdict: &Verdict) -> String {
    headline_with(verdict, names)
}

/// The same without the codes, which are listed below with the findings.
pub(crate) fn headline_alone(verdict: &Verdict) -> String {
    headline_with(verdict, |_, _| String::new())
}

/// Names the selected reasons of a verdict.
type Names = fn(&Verdict, &dyn Fn(&Reason) -> bool) -> String;

fn headline_with(verdict: &Verdict, names: Names) -> String {
    let Some(worst) = verdict.reasons.first() else { return word(verdict.level).to_owned() };
    let is_touched =
        |topic: &Topic| verdict.reasons.iter().any(|reason| reason.touches.contains(topic));
    let sound: Vec<&str> = [Topic::Throughput, Topic::Latency]
        .into_iter()
        .filter(|topic| !is_touched(topic))
        .map(|topic| match topic {
            Topic::Latency if is_touched(&Topic::Tail) => "latencies up to p99",
            topic => noun(topic),
        })
        .collect();
    if sound.is_empty() {
        return format!("{}{}", word(worst.level), names(verdict, &|_| true));
    }
    let mut text = format!("valid for {}", sound.join(" and "));
    let mut listed = Vec::new();
    for level in [Level::Invalid, Level::Suspect] {
        let at_level = |reason: &Reason| reason.level == level;
        let touched = |topic: &Topic| {
            verdict.reasons.iter().any(|reason| at_level(reason) && reason.touches.contains(topic))
        };
        let topics: Vec<Topic> = Topic::ALL
            .into_iter()
            .filter(|topic| touched(topic) && !listed.contains(topic))
            .collect();
        let names = names(verdict, &at_level);
        if topics.is_empty() {
            text.push_str(&names.replacen(':', ",", 1));
        } else {
            let nouns: Vec<&str> = topics.iter().copied().map(noun).collect();
            let _ = write!(text, "; {} {}{names}", nouns.join(" and "), word(level));
        }
        listed.extend(topics);
    }
    text
}

/// The word for a level.
pub(crate) fn word(level: Level) -> &'static str {
    match level {
        Level::Valid => "valid",
        Level::Suspect => "suspect",
        Level::Invalid => "INVALID",
    }
}

fn noun(topic: Topic) -> &'static str {
    match topic {
        Topic::Latency => "latencies",
        Topic::Tail => "p99.9",
        Topic::Throughput => "throughput",
        Topic::Arrivals => "arrivals",
        Topic::Samples => "samples",
    }
}

/// The codes of these reasons after a colon, each once; empty if there are none.
fn names(verdict: &Verdict, of: &dyn Fn(&Reason) -> bool) -> String {
    let mut names: Vec<String> = Vec::new();
    for reason in verdict.reasons.iter().filter(|reason| of(reason)) {
        let name = reason.code.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
}

/// The evidence.
fn message(reason: &Reason, level: Level) -> String {
    format!("{}: {}", name(reason, level), reason.evidence)
}

/// A reason's code and its agent, with its level if that is milder than this one.
fn name(reason: &Reason, level: Level) -> String {
    let milder = if reason.level < level { " (suspect only)" } else { "" };
    // Evidence that compares agents names them.
    let names_agents = reason.code.rule().of == Of::Whole;
    let agent = match &reason.agent {
        Some(name) if !names_agents => format!(" on agent {name}"),
        _ => String::new(),
    };
    format!("{}{agent}{milder}", reason.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(code: Code, level: Level, evidence: &str) -> Reason {
        Reason {
            code,
            agent: None,
            level,
            touches: vec![Topic::Throughput, Topic::Latency],
            evidence: evidence.to_owned(),
            figure: 2.0,
            threshold: 1.0,
            unit: Unit::Ratio,
            meaning:
                "the run measured its own generator: the target could have answered more, or sooner"
                    .to_owned(),
            cure: "add --cores, or lower the load".to_owned(),
        }
    }

    #[test]
    fn a_verdict_without_reasons_is_one_word() {
        let nothing = Verdict::valid();
        assert_eq!(verdict(&nothing), "valid\n");
        assert_eq!(meanings(&nothing), "");
    }

    #[test]
    fn each_reason_has_its_evidence_and_below_its_meaning_and_cure() {
        let judged = Verdict {
            level: Level::Invalid,
            notes: Vec::new(),
            reasons: vec![
                reason(
                    Code::RateMissed,
                    Level::Invalid,
                    "5 of 100 intended requests (5.00 %) were not sent before the window's end",
                ),
                reason(Code::GeneratorLate, Level::Suspect, "pacer lateness p99 is 85.0 µs"),
            ],
        };
        insta::assert_snapshot!(verdict(&judged), @r"
        INVALID: rate_missed, generator_late
          rate_missed: 5 of 100 intended requests (5.00 %) were not sent before the
            window's end.
          generator_late (suspect only): pacer lateness p99 is 85.0 µs.
        ");
        insta::assert_snapshot!(meanings(&judged), @r"
        what the reasons mean
          rate_missed, generator_late: the run measured its own generator: the target
            could have answered more, or sooner. Cure: add --cores, or lower the load.
        ");
        let reasons = judged.reasons[1..].to_vec();
        let mild = Verdict { level: Level::Suspect, reasons, notes: Vec::new() };
        assert_eq!(headline(&mild), "suspect: generator_late");
        assert!(!verdict(&mild).contains("only"));
    }

    #[test]
    fn the_headline_alone_is_coloured() {
        let text = coloured("suspect: errors\n  errors: 5 of 100.\n", Level::Suspect);
        assert!(text.ends_with("\n  errors: 5 of 100.\n"), "{text:?}");
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(plain, "suspect: errors\n  errors: 5 of 100.\n");
        assert!(text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn consequences_of_a_lost_core_are_shown_with_it() {
        let late = reason(Code::GeneratorLate, Level::Suspect, "pacer lateness p99 is 85.0 µs");
        let errors = reason(Code::Errors, Level::Suspect, "5 of 100 requests had no good answer");
        let stolen =
            reason(Code::CpuStolen, Level::Suspect, "the hypervisor took 2 % of the cores' time");
        let suspect =
            |reasons: Vec<Reason>| Verdict { level: Level::Suspect, reasons, notes: Vec::new() };
        let judged = suspect(vec![late.clone(), stolen.clone(), errors.clone()]);
        insta::assert_snapshot!(verdict(&judged), @r"
        suspect: generator_late, cpu_stolen, errors
          cpu_stolen: the hypervisor took 2 % of the cores' time.
            likely a consequence: generator_late: pacer lateness p99 is 85.0 µs.
          errors: 5 of 100 requests had no good answer.
        ");
        let meant = meanings(&judged);
        assert!(meant.contains("\n  cpu_stolen, errors: the run"), "{meant}");
        let alone = suspect(vec![late, errors.clone()]);
        assert!(meanings(&alone).contains("\n  generator_late, errors: the run"));
        assert!(!verdict(&suspect(vec![stolen, errors])).contains("consequence"));
    }

    #[test]
    fn a_cause_is_below_the_effect_that_it_may_explain_or_among_the_notes() {
        let added = reason(Code::ClientShare, Level::Suspect, "the generator added 30 µs");
        let few = reason(Code::TooFewSamples, Level::Suspect, "p99 has 5 samples");
        let contended =
            reason(Code::CpuContended, Level::Invalid, "a shard waited for its core 12 %");
        let with = |reasons: Vec<Reason>| {
            let level = reasons.first().map_or(Level::Valid, |reason| reason.level);
            Verdict { level, reasons, notes: vec![contended.clone()] }
        };
        let tail = Reason { touches: vec![Topic::Tail], ..added.clone() };
        assert_eq!(notes(&with(vec![tail])), "", "it may explain those of the tail as well");
        let explained = with(vec![few.clone(), added]);
        insta::assert_snapshot!(verdict(&explained), @r"
        suspect: too_few_samples, client_share
          too_few_samples: p99 has 5 samples.
          client_share: the generator added 30 µs.
            a possible cause: cpu_contended: a shard waited for its core 12 %.
        ");
        assert_eq!(notes(&explained), "");
        assert!(meanings(&explained).contains("cpu_contended: the run"));
        for alone in [with(vec![few]), with(Vec::new())] {
            assert!(!verdict(&alone).contains("cpu_contended"), "{}", verdict(&alone));
            let want = "notes: possible causes that explain none of the reasons above\n  cpu_contended: a shard waited for \
                        its core 12 %.\n";
            assert_eq!(notes(&alone), want);
            assert!(!meanings(&alone).contains("cpu_contended"));
        }
    }

    #[test]
    fn a_cause_of_what_the_generator_added_has_a_part_in_it() {
        let opening = Code::NotSettled.rule().cure;
        let of_cores = Code::ClientShare.rule().cure;
        let with_part = "the generator added 30 µs (20 %, 9 µs of it by opening connections)";
        for (evidence, cure, causes) in [
            ("the generator added 30 µs (20 %)", of_cores, &[Code::CpuContended][..]),
            (with_part, of_cores, &[Code::PoolGrew, Code::CpuContended]),
            (with_part, opening, &[Code::PoolGrew]),
        ] {
            let added = reason(Code::ClientShare, Level::Suspect, evidence);
            let late = reason(Code::GeneratorLate, Level::Suspect, "it stalled");
            let note = |code| reason(code, Level::Suspect, "seen");
            let judged = Verdict {
                level: Level::Suspect,
                reasons: vec![Reason { cure: cure.to_owned(), ..added }, late],
                notes: vec![note(Code::PoolGrew), note(Code::CpuContended)],
            };
            let found: Vec<Code> =
                super::causes(&judged, &judged.reasons[0]).map(|note| note.code).collect();
            assert_eq!(found, causes, "{evidence}; {cure}");
            assert!(
                !super::causes(&judged, &judged.reasons[1])
                    .any(|note| { note.code == Code::PoolGrew })
            );
        }
    }

    fn screen(verdict: &Verdict) -> String {
        brief(verdict, &headline(verdict))
    }

    #[test]
    fn the_first_screen_has_the_origins_in_plain_words() {
        let at = |code: Code, evidence: &str| Reason {
            figure: 0.0213,
            threshold: 0.01,
            unit: code.rule().unit,
            cure: code.rule().cure.to_owned(),
            ..reason(code, Level::Suspect, evidence)
        };
        let stolen = at(
            Code::CpuStolen,
            "the hypervisor took 2.13 % of the cores' time; the limit is 1.00 %",
        );
        let planned = at(
            Code::ScheduleNotAsPlanned,
            "arrivals were not Poisson(5000/s) as planned: dispersion of the sends at 1 ms is 1.26",
        );
        let late = at(Code::GeneratorLate, "the shard on core 1 stalled for 0.639 s (2.13 %)");
        let with = |reasons: &[&Reason], notes: Vec<Reason>| {
            let reasons = reasons.iter().copied().cloned().collect();
            Verdict { level: Level::Suspect, reasons, notes }
        };
        insta::assert_snapshot!(screen(&with(&[&late, &stolen, &planned], Vec::new())), @r"
        suspect: generator_late, cpu_stolen, schedule_not_as_planned
          cpu_stolen: the hypervisor took 2.1 % of the cores' time (limit 1 %), which
            likely caused generator_late and schedule_not_as_planned; use a dedicated
            machine, or one whose processors aren't shared.
        ");
        insta::assert_snapshot!(screen(&with(&[&planned, &late], Vec::new())), @r"
        suspect: schedule_not_as_planned, generator_late
          schedule_not_as_planned: requests left in bursts that were not planned; lower
            the rate per core, or use --wait spin.
          generator_late: the generator stalled for 2.1 % of the time (limit 1 %); give
            the generator cores of its own (--cores), use --wait spin, or stop what else
            runs there.
        ");
        let contended = at(Code::CpuContended, "a shard waited for its core 2.13 % of the time");
        insta::assert_snapshot!(screen(&with(&[&planned], vec![contended])), @r"
        suspect: schedule_not_as_planned
          schedule_not_as_planned: requests left in bursts that were not planned;
            perhaps cpu_contended: other processes had the generator's core 2.1 % of the
            time (limit 1 %); keep other processes, including a local target, off the
            generator's cores (--cores).
        ");
        let of = |agent: &str| Reason { agent: Some(agent.to_owned()), ..late.clone() };
        insta::assert_snapshot!(screen(&with(&[&of("a:1"), &of("b:1"), &of("c:1")], Vec::new())), @r"
        suspect: generator_late
          generator_late on agent a:1 and 2 more: the generator stalled for 2.1 % of the
            time (limit 1 %); give the generator cores of its own (--cores), use --wait
            spin, or stop what else runs there.
        ");
    }

    #[test]
    fn plain_words_fill_every_placeholder() {
        for rule in engine::report::RULES {
            let words = plain(&reason(rule.code, Level::Suspect, "as found; the limit is 1 %; x"));
            assert!(!words.contains(['{', '}', ';']), "{words}");
            assert!(rule.more.plain.is_some() || words == "as found (limit 1 %)", "{words}");
        }
        let evidence = "the generator added 9 µs (20 %); the limit is 5 %; also more";
        let added = reason(Code::ClientShare, Level::Suspect, evidence);
        assert_eq!(plain(&added), "the generator added 9 µs (20 %; limit 5 %)");
    }

    #[test]
    fn a_reason_names_its_agent_once() {
        let text = |code, evidence: &str| {
            let reason = reason(code, Level::Suspect, evidence);
            message(&Reason { agent: Some("b:7070".to_owned()), ..reason }, Level::Suspect)
        };
        let stalled = text(Code::GeneratorLate, "it stalled");
        assert_eq!(stalled, "generator_late on agent b:7070: it stalled");
        let lost = text(Code::AgentLost, "agent b:7070 was lost");
        assert_eq!(lost, "agent_lost: agent b:7070 was lost");
    }

    #[test]
    fn topics_without_a_reason_stay_valid() {
        use Topic::{Arrivals, Latency, Samples, Throughput};
        let found = |reasons: &[(Code, Level, &[Topic])]| {
            let reasons: Vec<Reason> = reasons
                .iter()
                .map(|(code, level, touches)| Reason {
                    touches: touches.to_vec(),
                    ..reason(*code, *level, "")
                })
                .collect();
            headline(&Verdict { level: reasons[0].level, reasons, notes: Vec::new() })
        };
        let closed: (Code, Level, &[Topic]) = (Code::ClosedLoop, Level::Suspect, &[Latency]);
        let lost: (Code, Level, &[Topic]) = (Code::RawSamplesLost, Level::Suspect, &[Samples]);
        assert_eq!(found(&[closed]), "valid for throughput; latencies suspect: closed_loop");
        assert_eq!(
            found(&[lost]),
            "valid for throughput and latencies; samples suspect: raw_samples_lost"
        );
        let late = (Code::GeneratorLate, Level::Invalid, &[Latency, Arrivals][..]);
        assert_eq!(
            found(&[late, closed, lost]),
            "valid for throughput; latencies and arrivals INVALID: generator_late; samples \
             suspect: closed_loop, raw_samples_lost"
        );
        assert_eq!(
            found(&[late, closed]),
            "valid for throughput; latencies and arrivals INVALID: generator_late, closed_loop"
        );
        let tail: (Code, Level, &[Topic]) = (Code::ClientShare, Level::Suspect, &[Topic::Tail]);
        assert_eq!(
            found(&[tail]),
            "valid for throughput and latencies up to p99; p99.9 suspect: client_share"
        );
        let saturated = (Code::CoreSaturated, Level::Invalid, &[Throughput, Latency][..]);
        assert_eq!(found(&[saturated, closed]), "INVALID: core_saturated, closed_loop");
    }
}
