//! The verdict, above everything else: one line that says whether the numbers can be trusted, then
//! each reason why not.

use std::fmt::Write as _;

use engine::report::verdict::{Level, Reason, Topic, Verdict};

use super::wrap::indented;

/// The lines of the verdict.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    let mut text = headline(verdict);
    text.push('\n');
    for reason in &verdict.reasons {
        text.push_str(&indented("  ", "    ", &sentences(reason, verdict.level)));
    }
    text
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
    let milder = if reason.level < level { " (suspect only)" } else { "" };
    let Reason { evidence, meaning, cure, .. } = reason;
    format!("{}{milder}: {evidence}. Meaning: {meaning}. Cure: {cure}.", reason.code)
}

#[cfg(test)]
mod tests {
    use engine::report::verdict::Code;

    use super::*;

    fn reason(code: Code, level: Level, evidence: &str) -> Reason {
        Reason {
            code,
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
          rate_missed: 5 of 100 intended requests (5.00 %) were not sent before the window's end. Meaning:
            the run measured its own generator: the target could have answered more, or sooner. Cure: add
            --cores, or lower the load.
          generator_late (suspect only): pacer lateness p99 is 85.0 µs. Meaning: the run measured its own
            generator: the target could have answered more, or sooner. Cure: add --cores, or lower the load.
        ");
        let mild = Verdict { level: Level::Suspect, reasons: judged.reasons[1..].to_vec() };
        assert_eq!(headline(&mild), "suspect: generator_late");
        assert!(!verdict(&mild).contains("only"));
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
