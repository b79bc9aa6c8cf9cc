//! The runs of a series as CSV: a header, then one row per step, then one per run of each trial.

use std::io::{self, Write};

use engine::report::slo::Judgement;
use engine::report::verdict::Level;

use crate::figures::Figures;
use crate::proof::{Changed, Trial};
use crate::step::{Latency, Outcome, SHOWN, Step};

/// The columns, in order, as groups of names with what they hold.
const COLUMNS: [(&[&str], &str); 20] = [
    (&["rate"], "planned, per second"),
    (&["duration_s"], "length of the window, seconds"),
    (&["seed"], "seed of the schedule"),
    (
        &["intended", "sent", "answered"],
        "requests per second: due, sent and answered in the window, the last two whenever they \
         were due",
    ),
    (&["sent_due", "answered_due"], "of those due in the window, sent and answered before its end"),
    (&["requests", "errors"], "requests of the window, and those without a good answer"),
    (
        &["backlog_growth", "fell_behind"],
        "the share of arrivals by which the backlog grew in the window's second half, and whether \
         that is falling behind; empty if undecided",
    ),
    (&["silent_from_s"], "when answers stopped, seconds into the window; empty if they didn't"),
    (
        &[
            "naive_p50_us",
            "naive_p50_low_us",
            "naive_p50_high_us",
            "naive_p99_us",
            "naive_p99_low_us",
            "naive_p99_high_us",
            "naive_p999_us",
            "naive_p999_low_us",
            "naive_p999_high_us",
        ],
        "naive latency, µs, each with its interval; empty if unknown",
    ),
    (
        &[
            "corrected_p50_us",
            "corrected_p50_low_us",
            "corrected_p50_high_us",
            "corrected_p99_us",
            "corrected_p99_low_us",
            "corrected_p99_high_us",
            "corrected_p999_us",
            "corrected_p999_low_us",
            "corrected_p999_high_us",
        ],
        "the same of corrected latency",
    ),
    (&["verdict", "slo"], "the step's verdict and objectives; empty without objectives"),
    (&["cpu_us_per_request"], "CPU time of the shards for each request sent, µs"),
    (&["busy"], "share of the window for which the busiest shard had work"),
    (&["in_flight"], "requests in flight on average"),
    (&["throughput"], "good answers per second in the second half of the window"),
    (&["at_target"], "requests at the target on average"),
    (&["shards", "conns"], "number of shards, and the most connections"),
    (&["capped"], "requests that waited while all connections were busy"),
    (&["steal"], "share of the cores' time that the hypervisor took; empty if unknown"),
    (&["outcome", "trial"], "the step's result for its rate, and the change of a trial's run"),
];

/// The description of each column, in one sentence.
pub fn columns() -> String {
    let group = |(names, content): &(&[&str], &str)| format!("{}: {content}", names.join(", "));
    COLUMNS.iter().map(group).collect::<Vec<_>>().join(". ")
}

/// Writes the steps, then the runs of the trials, in the given order; the last column names a
/// trial's change. Unknown values are empty.
///
/// # Errors
/// Those of the writer.
pub fn write(mut writer: impl Write, steps: &[Step], trials: &[Trial]) -> io::Result<()> {
    let names: Vec<&str> = COLUMNS.iter().flat_map(|(names, _)| *names).copied().collect();
    writeln!(writer, "{}", names.join(","))?;
    let steps = steps.iter().map(|step| (step, ""));
    let trials = trials.iter().flat_map(|trial| {
        let changed = name(trial.changed);
        trial.steps.iter().map(move |step| (step, changed))
    });
    for (step, trial) in steps.chain(trials) {
        let Step {
            rate_per_s: rate,
            duration_s,
            seed,
            intended_per_s: intended,
            sent_per_s: sent,
            sent_due_per_s: sent_due,
            answered_per_s: answered,
            answered_due_per_s: answered_due,
            requests,
            errors,
            ..
        } = step;
        write!(
            writer,
            "{rate},{duration_s},{seed},{intended},{sent},{answered},{sent_due},{answered_due},\
             {requests},{errors}"
        )?;
        write!(writer, ",{},{}", step.backlog.growth, cell(step.backlog.fell_behind))?;
        write!(writer, ",{}", cell(step.silent_from_s))?;
        for latency in [&step.naive, &step.corrected] {
            write!(writer, ",{}", cells(latency))?;
        }
        let verdict = match step.verdict.level {
            Level::Valid => "valid",
            Level::Suspect => "suspect",
            Level::Invalid => "invalid",
        };
        let slo = match step.slo.as_ref().map(|slo| slo.judgement) {
            None => "",
            Some(Judgement::Met) => "met",
            Some(Judgement::Undecided) => "undecided",
            Some(Judgement::Missed) => "missed",
        };
        let cpu = cell(step.cpu_us_per_request);
        write!(writer, ",{verdict},{slo},{cpu},{},{}", step.busy, step.in_flight)?;
        let Figures {
            throughput_per_s: throughput, at_target, shards, conns, capped, steal, ..
        } = &step.figures;
        let outcome = match step.outcome {
            None => "",
            Some(Outcome::Passed) => "passed",
            Some(Outcome::Undecided) => "undecided",
            Some(Outcome::Excused) => "excused",
            Some(Outcome::Doubted) => "doubted",
            Some(Outcome::Failed) => "failed",
        };
        let (shards, steal) = (shards.len(), cell(*steal));
        write!(writer, ",{throughput},{at_target},{shards},{conns},{capped},{steal}")?;
        writeln!(writer, ",{outcome},{trial}")?;
    }
    Ok(())
}

fn name(changed: Changed) -> &'static str {
    match changed {
        Changed::Nothing => "nothing",
        Changed::Shards => "shards",
        Changed::Conns => "conns",
        Changed::Scaled => "scaled",
    }
}

fn cells(latency: &Latency) -> String {
    let each = SHOWN.map(|(_, q)| {
        let percentile = latency.percentiles.at(q);
        let [low, high] = percentile.interval.map_or([None; 2], |ends| ends.map(Some));
        [percentile.value, low, high].map(cell).join(",")
    });
    each.join(",")
}

fn cell(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::{Queue, asked};

    #[test]
    fn each_step_is_a_row_of_the_columns_in_the_header() {
        let queue = Queue { slo_ms: Some(20.0), ..Queue::serial_ms() };
        let steps = [queue.run(&asked("100", 30)), queue.run(&asked("2k", 5))];
        let mut bytes = Vec::new();
        let trials = Trial::of(&[(Changed::Nothing, &steps[1..]), (Changed::Conns, &steps[1..])]);
        write(&mut bytes, &steps, &trials).expect("memory takes all");
        let text = String::from_utf8(bytes).expect("text");
        let rows: Vec<Vec<&str>> = text.lines().map(|row| row.split(',').collect()).collect();
        assert_eq!(rows.len(), 5);
        let all = |name: &str| {
            let at = rows[0].iter().position(|known| *known == name).expect(name);
            [1, 2, 3, 4].map(|row: usize| rows[row][at])
        };
        let column = |name: &str| [all(name)[0], all(name)[1]];
        assert_eq!(all("rate"), ["100", "2000", "2000", "2000"]);
        assert_eq!(all("trial"), ["", "", "nothing", "conns"]);
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
        assert_eq!(column("fell_behind"), ["false", "true"]);
        // 3,000 requests are too few for p99.9.
        assert_eq!((column("corrected_p999_us")[0], column("slo")), ("", ["met", "missed"]));
        let p99 = steps[1].corrected.percentiles.at(0.99);
        let value = p99.value.expect("10,000 requests have one");
        assert_eq!(column("corrected_p99_us")[1], value.to_string());
    }
}
