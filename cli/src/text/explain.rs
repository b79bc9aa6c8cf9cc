//! Why naive and corrected latency differ or agree, in sentences derived from a report's numbers.

use engine::plan::{Model, Plan, Switch};
use engine::record::counts::Counts;
use engine::record::outcome::UnsentReason;
use engine::report::verdict::Code;
use engine::report::{DistributionPart, Part, Report};

use super::figures::{count, percent, percentile, ratio, things, time};
use super::table::{ROWS, Row, lacks};

/// The smallest ratio of corrected to naive that counts as a difference.
const RATIO_MIN: f64 = 1.1;
/// The smallest difference that counts, µs: less is the cost of a system call.
const DIFFERENCE_MIN_US: f64 = 50.0;
/// The share of requests that found their connection closed from which on that matters.
const RENEWED_MANY: f64 = 0.1;
/// How many times as long as the generator's delay a wait must be for that delay not to matter.
const BESIDE: f64 = 20.0;

/// What differs and why, in a short paragraph.
pub(crate) fn difference(report: &Report) -> String {
    let (part, plan) = (&report.whole, &report.config.plan);
    if part.corrected.count == 0 || part.naive.count == 0 {
        return "No request has both latencies: there is nothing to compare.".to_owned();
    }
    if plan.backfill == Switch::On {
        return "Corrected by back-filling: each response that took longer than the period adds the \
                requests it held up, with the latency they would have had. They were never sent."
            .to_owned();
    }
    let compared = compared(part);
    let Some(widest) = widest(part, compared) else {
        return agreement(part, plan, compared);
    };
    let shown = |distribution| percentile(distribution, widest.row.of(distribution));
    let who = match widest.row.name {
        "max" => format!("The slowest of {} took", things(part.corrected.count, "request")),
        name => format!("At {name} users waited"),
    };
    let what = format!(
        "{who} {}, {} times the naive {}. Naive latency omits the wait before sending (coordinated \
         omission): its clock starts when a request is sent, not when it was due.",
        shown(&part.corrected),
        ratio(widest.corrected_us, widest.naive_us),
        shown(&part.naive)
    );
    format!("{what} {}", cause(report))
}

/// The rows to compare by: the percentiles, or the maximum if no percentile is known of both. The
/// maximum is a single request, which no comparison should rest on if there is a choice.
fn compared(part: &Part) -> &'static [Row] {
    let (max, percentiles) = ROWS.split_last().expect("the table has rows");
    let known = |row: &Row| row.of(&part.naive).is_some() && row.of(&part.corrected).is_some();
    if percentiles.iter().any(known) { percentiles } else { std::slice::from_ref(max) }
}

/// The row where corrected and naive differ most.
struct Widest {
    row: &'static Row,
    naive_us: f64,
    corrected_us: f64,
}

impl Widest {
    fn ratio(&self) -> f64 {
        self.corrected_us / self.naive_us
    }
}

/// The row where corrected and naive differ most, if they do.
fn widest(part: &Part, compared: &'static [Row]) -> Option<Widest> {
    // From the highest down, because the last of equal ratios wins: a lower percentile concerns
    // more users.
    let differing = compared.iter().rev().filter_map(|row| {
        // No response takes less than a nanosecond, which keeps the ratio finite.
        let naive_us = row.of(&part.naive)?.max(0.001);
        let corrected_us = row.of(&part.corrected)?;
        let differs =
            RATIO_MIN <= corrected_us / naive_us && DIFFERENCE_MIN_US <= corrected_us - naive_us;
        differs.then_some(Widest { row, naive_us, corrected_us })
    });
    differing.max_by(|one, other| one.ratio().total_cmp(&other.ratio()))
}

fn agreement(part: &Part, plan: &Plan, compared: &[Row]) -> String {
    match (plan.model(), plan.period) {
        (Model::Closed, None) => "In a closed loop they are the same by construction, but for waits for a \
            connection: a user sends the next request only after a response, so both leave out the requests that users \
            would have sent during a stall (coordinated omission). Use --rate to measure what \
            independent users wait."
            .to_owned(),
        _ if compared.iter().all(|row| row.name == "max") => format!(
            "Too few requests to compare percentiles: {}. Even the slowest took no longer than the \
             naive maximum.",
            lacks("naive", &part.naive, |_| true).unwrap_or_default()
        ),
        (Model::Open, _) => format!(
            "Naive and corrected agree: requests left when they were due, so this is what users \
             waited{}.",
            exceptions(&part.counts)
        ),
        (Model::Closed, Some(_)) => "Naive and corrected agree: responses came within the period, so \
            each request left when it was due."
            .to_owned(),
    }
}

/// The requests whose users didn't wait for their latency: they have none, or waited on.
fn exceptions(counts: &Counts) -> String {
    let given_up = counts.timed_out.saturating_add(counts.abandoned);
    let failed = (0 < counts.failed)
        .then(|| format!("for those of the {}", things(counts.failed, "failed request")));
    let given_up = (0 < given_up).then(|| {
        let who = if given_up == 1 { "user" } else { "users" };
        format!("for the {} given up, whose {who} waited longer", things(given_up, "request"))
    });
    match [failed, given_up].into_iter().flatten().collect::<Vec<String>>().join(", and ") {
        none if none.is_empty() => none,
        exceptions => format!(", but {exceptions}"),
    }
}

/// What causes the difference: the generator, the target's backlog or the cap. That is decided by
/// the exact means of both delays, since the requests at a percentile of one aren't those at the
/// same percentile of the other.
fn cause(report: &Report) -> String {
    let (part, plan) = (&report.whole, &report.config.plan);
    let has = |code| report.verdict.reasons.iter().any(|reason| reason.code == code);
    let mean = |of: &DistributionPart| of.mean.unwrap_or(0.0);
    let (pacer_us, wait_us) = (mean(&part.pacer_lateness), mean(&part.connection_wait));
    let pacer = time(pacer_us);
    let mut text = if wait_us < pacer_us {
        let lower = match plan.model() {
            Model::Open => "lower --rate",
            Model::Closed => "use a longer --period",
        };
        format!(
            "The generator itself was late (pacer lateness {pacer} in the mean): give it more or \
             quieter cores with --cores, or {lower}, before you trust these numbers."
        )
    } else {
        let generator = if has(Code::CoreSaturated) {
            format!(", or the generator, which was at its limit (pacer lateness {pacer})")
        } else if let Some(held) = report.littles_law.held_by_generator() {
            format!(
                ", and the generator: for {} of the time that requests were in flight, their \
                 response was there and waited for it (pacer lateness {pacer})",
                percent(held)
            )
        } else if has(Code::GeneratorLate) {
            format!(", or the generator, which was late (pacer lateness {pacer})")
        } else if wait_us < BESIDE * pacer_us {
            format!("; the generator added to it (pacer lateness {pacer})")
        } else {
            format!(", not the generator (pacer lateness {pacer})")
        };
        let renewed = part.counts.connects_in_window.saturating_sub(part.counts.pool_grew);
        let is_closed = plan.requests_per_connection.is_none()
            && RENEWED_MANY * part.counts.sent as f64 <= renewed as f64;
        let opening = match plan.keepalive {
            Switch::Off => "opening one for each request, ",
            Switch::On if is_closed => "opening one for each that was closed, ",
            Switch::On => "",
        };
        let cap = match part.counts.capped {
            0 => String::new(),
            _ => format!(" or the cap of --conns {}", count(plan.conns() as u64)),
        };
        format!(
            "They waited for a connection (connection wait {} in the mean; {} found none free): \
             {opening}the target's backlog{cap}{generator}.",
            time(wait_us),
            things(part.counts.waited, "arrival"),
        )
    };
    let dropped = part.counts.unsent_reasons.of(UnsentReason::Dropped);
    let were = |requests| match requests {
        1 => "1 request was".to_owned(),
        requests => format!("{} were", things(requests, "request")),
    };
    let given_up = part.counts.unsent.saturating_sub(dropped);
    if 0 < given_up {
        let were = were(given_up);
        text.push_str(&format!(" {were} never sent; latency counts until they were given up."));
    }
    if 0 < dropped {
        text.push_str(&format!(" {} dropped, and no latency has them.", were(dropped)));
    }
    text
}

#[cfg(test)]
mod tests {
    use engine::report::LittlesLaw;
    use engine::report::verdict::{Level, Reason, Unit};

    use super::super::reports::{self, part, times};
    use super::*;

    const CLOSED: &[&str] = &[];
    const OPEN: &[&str] = &["rate"];

    /// Of these flags; nothing is in flight, so that nothing waits for the generator.
    fn report(open: bool, part: Part) -> Report {
        Report { littles_law: LittlesLaw::new(0.0, 0.0, 0.0), ..reports::report(open, part) }
    }

    fn told(open: bool, part: &Part) -> String {
        difference(&report(open, part.clone()))
    }

    fn check(flags: &[&str], part: &Part, words: &[&str]) {
        let text = told(!flags.is_empty(), part);
        for word in words {
            assert!(text.contains(word), "`{word}` is missing in: {text}");
        }
    }

    #[test]
    fn equal_latencies_are_explained_by_the_model() {
        check(OPEN, &part(1_000, 1_000, 1, 2), &["agree", "left when they were due"]);
        check(CLOSED, &part(1_000, 1_000, 0, 0), &["closed loop", "by construction", "--rate"]);
    }

    #[test]
    fn a_small_difference_is_none() {
        check(OPEN, &part(20, 60, 1, 39), &["agree"]);
        check(OPEN, &part(100_000, 101_000, 1, 999), &["agree"]);
    }

    #[test]
    fn a_wait_for_a_connection_names_what_was_there() {
        let waited = part(1_000, 200_000, 1, 199_000);
        let text = told(true, &waited);
        assert!(text.contains("): the target's backlog, not the generator"), "{text}");
        let mut capped = waited.clone();
        capped.counts.capped = 3;
        let text = told(true, &capped);
        assert!(
            text.contains("): the target's backlog or the cap of --conns 1,000, not"),
            "{text}"
        );
        // A target that closes after each response.
        let mut closed = waited;
        closed.counts.connects_in_window = closed.counts.sent;
        let text = told(true, &closed);
        assert!(text.contains("): opening one for each that was closed, the target's"), "{text}");
        closed.counts.pool_grew = closed.counts.sent;
        assert!(!told(true, &closed).contains("that was closed"), "they were added to the pool");
    }

    #[test]
    fn few_requests_are_compared_by_the_slowest() {
        let few = |naive_us, corrected_us| Part {
            naive: times(naive_us, 7),
            corrected: times(corrected_us, 7),
            pacer_lateness: times(2, 7),
            connection_wait: times(corrected_us - naive_us, 7),
            ..part(1, 1, 1, 1)
        };
        check(
            OPEN,
            &few(2_000_000, 7_150_000),
            &[
                "The slowest of 7 requests took 7.15 s, 3.6 times the naive 2.00 s",
                "connection wait 5.15 s in the mean",
            ],
        );
        let alike = few(1_000, 1_000);
        check(OPEN, &alike, &["Too few requests", "naive has n = 7, p50 needs 8"]);
        assert!(!told(true, &alike).contains("agree"));
        check(CLOSED, &alike, &["closed loop", "by construction"]);
    }

    #[test]
    fn a_wait_for_a_connection_is_not_the_generators() {
        let waiting = part(1_000, 182_000, 3, 181_000);
        check(
            OPEN,
            &waiting,
            &["182 times", "1.00 ms", "182 ms", "coordinated omission", "not the generator"],
        );
    }

    #[test]
    fn a_wait_is_not_said_to_be_the_targets_alone_if_the_generator_had_a_part_in_it() {
        check(OPEN, &part(1_000, 182_000, 20_000, 161_000), &["; the generator added to it"]);
        let with = |code: Option<Code>, at_target| {
            let mut report = report(true, part(1_000, 182_000, 3, 181_000));
            report.littles_law = LittlesLaw::new(0.616, 0.616, at_target);
            report.verdict.reasons.extend(code.map(reason));
            difference(&report)
        };
        for (code, at_target, words) in [
            (Some(Code::CoreSaturated), 0.616, "or the generator, which was at its limit"),
            (Some(Code::GeneratorLate), 0.616, "or the generator, which was late"),
            (None, 0.353, "and the generator: for 42.7 % of the time that requests were in flight"),
            (None, 0.59, ", not the generator (pacer lateness"),
        ] {
            let text = with(code, at_target);
            assert!(text.contains(words), "{text}");
            assert_eq!(text.contains("at its limit"), code == Some(Code::CoreSaturated), "{text}");
        }
    }

    fn reason(code: Code) -> Reason {
        Reason {
            code,
            agent: None,
            level: Level::Invalid,
            touches: Vec::new(),
            evidence: String::new(),
            figure: 1.0,
            threshold: 0.6,
            unit: Unit::Share,
            meaning: String::new(),
            cure: String::new(),
        }
    }

    #[test]
    fn users_of_requests_given_up_waited_longer_than_is_known() {
        let mut some = part(1_000, 1_000, 1, 2);
        (some.counts.timed_out, some.counts.abandoned) = (2_500, 1);
        check(OPEN, &some, &["but for the 2,501 requests given up, whose users waited longer."]);
        some.counts.failed = 3;
        check(OPEN, &some, &["but for those of the 3 failed requests, and for the 2,501 requests"]);
    }

    #[test]
    fn a_late_pacer_is_the_generators() {
        let late = part(1_000, 9_000, 8_000, 5);
        check(
            OPEN,
            &late,
            &["9.0 times", "generator itself was late", "8.00 ms", "--cores, or lower --rate"],
        );
        let mut paced = report(false, late);
        paced.config.plan.period = Some("1s".parse().expect("a period"));
        let text = difference(&paced);
        assert!(text.contains("--cores, or use a longer --period"), "{text}");
    }

    #[test]
    fn unsent_requests_are_named() {
        let mut unsent = part(1_000, 9_000, 5, 8_000);
        unsent.counts.unsent = 1_500;
        check(OPEN, &unsent, &["1,500 requests were never sent"]);
        unsent.counts.unsent = 1;
        check(OPEN, &unsent, &["1 request was never sent; latency counts"]);
        unsent.counts.unsent_reasons = [(UnsentReason::Dropped, 1)].into();
        check(OPEN, &unsent, &["1 request was dropped, and no latency has them"]);
        assert!(!told(true, &unsent).contains("never sent"));
    }

    #[test]
    fn back_filled_values_are_called_what_they_are() {
        let mut backfilled = report(false, part(1_000, 9_000, 0, 0));
        backfilled.config.plan.backfill = Switch::On;
        let text = difference(&backfilled);
        assert!(text.contains("back-filling") && text.contains("never sent"), "{text}");
    }

    #[test]
    fn nothing_measured_is_nothing_compared() {
        let mut nothing = part(1, 1, 1, 1);
        nothing.corrected.count = 0;
        check(OPEN, &nothing, &["nothing to compare"]);
        let unsent = Part { naive: times(0, 0), ..part(1, 9_000, 1, 1) };
        check(OPEN, &unsent, &["nothing to compare"]);
    }
}
