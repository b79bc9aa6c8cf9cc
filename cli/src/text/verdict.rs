//! The verdict, above everything else: one line that says whether the numbers can be trusted, then
//! each reason why not.

use std::fmt::Write as _;

use engine::report::verdict::{Code, Level, Reason, Topic, Verdict};

use super::wrap::indented;

/// The lines of the verdict.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    let mut text = headline(verdict);
    text.push('\n');
    let reasons = &verdict.reasons;
    let last_cause = reasons.iter().rposition(takes_the_core);
    for (at, reason) in reasons.iter().enumerate() {
        if last_cause.is_none() || !follows(reason) {
            text.push_str(&indented("  ", "    ", &sentences(reason, verdict.level)));
        }
        if last_cause == Some(at) && reasons.iter().any(follows) {
            let evidence = reasons.iter().filter(|reason| follows(reason));
            let evidence: Vec<String> =
                evidence.map(|reason| told(reason, verdict.level)).collect();
            let likely = format!("Likely consequences: {}.", evidence.join("; "));
            text.push_str(&indented("    ", "      ", &likely));
        }
    }
    text
}

/// Whether a reason is that others took time from the shards' cores.
fn takes_the_core(reason: &Reason) -> bool {
    matches!(reason.code, Code::CpuStolen | Code::CpuContended | Code::CpuThrottled)
}

/// Whether a reason follows when they do: it then needs no meaning and no cure of its own.
fn follows(reason: &Reason) -> bool {
    matches!(reason.code, Code::GeneratorLate | Code::GeneratorBound | Code::ScheduleNotAsPlanned)
}

/// The verdict in one line: `valid`, `INVALID: core_saturated`, `valid for throughput; latencies
/// suspect: closed_loop`. What no reason speaks against comes first, then each level with what it
/// is about; throughput and latency together are the run.
pub(crate) fn headline(verdict: &Verdict) -> String {
    let Some(worst) = verdict.reasons.first() else { return word(verdict.level).to_owned() };
    let is_touched =
        |topic: &Topic| verdict.reasons.iter().any(|reason| reason.touches.contains(topic));
    let sound: Vec<&str> = [Topic::Throughput, Topic::Latency]
        .into_iter()
        .filter(|topic| !is_touched(topic))
        .map(noun)
        .collect();
    if sound.is_empty() {
        return format!("{}: {}", word(worst.level), names(verdict, |_| true));
    }
    let mut text = format!("valid for {}", sound.join(" and "));
    let mut told = Vec::new();
    for level in [Level::Invalid, Level::Suspect] {
        let at_level = |reason: &Reason| reason.level == level;
        let touched = |topic: &Topic| {
            verdict.reasons.iter().any(|reason| at_level(reason) && reason.touches.contains(topic))
        };
        let topics: Vec<Topic> = Topic::ALL
            .into_iter()
            .filter(|topic| touched(topic) && !told.contains(topic))
            .collect();
        let names = names(verdict, at_level);
        if topics.is_empty() && !names.is_empty() {
            let _ = write!(text, ", {names}");
        } else if !names.is_empty() {
            let nouns: Vec<&str> = topics.iter().copied().map(noun).collect();
            let _ = write!(text, "; {} {}: {names}", nouns.join(" and "), word(level));
        }
        told.extend(topics);
    }
    text
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Valid => "valid",
        Level::Suspect => "suspect",
        Level::Invalid => "INVALID",
    }
}

fn noun(topic: Topic) -> &'static str {
    match topic {
        Topic::Latency => "latencies",
        Topic::Throughput => "throughput",
        Topic::Arrivals => "arrivals",
        Topic::Samples => "samples",
    }
}

/// The codes of these reasons.
fn names(verdict: &Verdict, of: impl Fn(&Reason) -> bool) -> String {
    let names = verdict.reasons.iter().filter(|reason| of(reason));
    names.map(|reason| reason.code.to_string()).collect::<Vec<String>>().join(", ")
}

/// Evidence, meaning and cure. A reason milder than the verdict says so.
fn sentences(reason: &Reason, level: Level) -> String {
    let Reason { meaning, cure, .. } = reason;
    format!("{}. Meaning: {meaning}. Cure: {cure}.", told(reason, level))
}

/// The evidence.
fn told(reason: &Reason, level: Level) -> String {
    let milder = if reason.level < level { " (suspect only)" } else { "" };
    // Evidence that is of agents beside each other names them.
    let beside = [Code::AgentLost, Code::AgentsDiffer, Code::StartSkew].contains(&reason.code);
    let agent = match &reason.agent {
        Some(name) if !beside => format!(" on agent {name}"),
        _ => String::new(),
    };
    format!("{}{agent}{milder}: {}", reason.code, reason.evidence)
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
            meaning:
                "the run measured its own generator: the target could have answered more, or sooner"
                    .to_owned(),
            cure: "add --cores, or lower the load".to_owned(),
        }
    }

    #[test]
    fn nothing_against_it_is_one_word() {
        let nothing = Verdict { level: Level::Valid, reasons: Vec::new() };
        assert_eq!(verdict(&nothing), "valid\n");
    }

    #[test]
    fn each_reason_comes_with_evidence_meaning_and_cure() {
        let judged = Verdict {
            level: Level::Invalid,
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
            window's end. Meaning: the run measured its own generator: the target could
            have answered more, or sooner. Cure: add --cores, or lower the load.
          generator_late (suspect only): pacer lateness p99 is 85.0 µs. Meaning: the run
            measured its own generator: the target could have answered more, or sooner.
            Cure: add --cores, or lower the load.
        ");
        let mild = Verdict { level: Level::Suspect, reasons: judged.reasons[1..].to_vec() };
        assert_eq!(headline(&mild), "suspect: generator_late");
        assert!(!verdict(&mild).contains("only"));
    }

    #[test]
    fn what_follows_from_a_lost_core_is_told_with_it() {
        let late = reason(Code::GeneratorLate, Level::Suspect, "pacer lateness p99 is 85.0 µs");
        let errors = reason(Code::Errors, Level::Suspect, "5 of 100 requests had no good answer");
        let stolen =
            reason(Code::CpuStolen, Level::Suspect, "the hypervisor took 2 % of the cores' time");
        let text = |reasons: Vec<Reason>| verdict(&Verdict { level: Level::Suspect, reasons });
        insta::assert_snapshot!(text(vec![late.clone(), stolen.clone(), errors.clone()]), @r"
        suspect: generator_late, cpu_stolen, errors
          cpu_stolen: the hypervisor took 2 % of the cores' time. Meaning: the run
            measured its own generator: the target could have answered more, or sooner.
            Cure: add --cores, or lower the load.
            Likely consequences: generator_late: pacer lateness p99 is 85.0 µs.
          errors: 5 of 100 requests had no good answer. Meaning: the run measured its
            own generator: the target could have answered more, or sooner. Cure: add
            --cores, or lower the load.
        ");
        let alone = text(vec![late, errors.clone()]);
        assert!(alone.contains("µs. Meaning: "), "{alone}");
        assert!(!text(vec![stolen, errors]).contains("consequences"));
    }

    #[test]
    fn a_reason_names_its_agent_once() {
        let text = |code, evidence: &str| {
            let reason = reason(code, Level::Suspect, evidence);
            told(&Reason { agent: Some("b:7070".to_owned()), ..reason }, Level::Suspect)
        };
        let stalled = text(Code::GeneratorLate, "it stalled");
        assert_eq!(stalled, "generator_late on agent b:7070: it stalled");
        let lost = text(Code::AgentLost, "agent b:7070 was lost");
        assert_eq!(lost, "agent_lost: agent b:7070 was lost");
    }

    #[test]
    fn what_no_reason_touches_stays_valid() {
        use Topic::{Arrivals, Latency, Samples, Throughput};
        let found = |reasons: &[(Code, Level, &[Topic])]| {
            let reasons: Vec<Reason> = reasons
                .iter()
                .map(|(code, level, touches)| Reason {
                    touches: touches.to_vec(),
                    ..reason(*code, *level, "")
                })
                .collect();
            headline(&Verdict { level: reasons[0].level, reasons })
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
        let saturated = (Code::CoreSaturated, Level::Invalid, &[Throughput, Latency][..]);
        assert_eq!(found(&[saturated, closed]), "INVALID: core_saturated, closed_loop");
    }
}
