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
/// The smallest share of requests that found their connection closed that matters.
const RENEWED_MANY: f64 = 0.1;
/// The smallest ratio of a wait to the generator's delay at which that delay doesn't matter.
const OUTWEIGHS: f64 = 20.0;

/// The difference and its cause, in a short paragraph.
pub(crate) fn difference(report: &Report) -> String {
    let (part, plan) = (&report.whole, &report.config.plan);
    if part.corrected.count == 0 || part.naive.count == 0 {
        return "No request has both latencies: there is nothing to compare.".to_owned();
    }
    match most_different(part) {
        Some((widest, Waited::Users)) => format!("{} {}", waited(part, &widest), cause(report)),
        Some((widest, Waited::Generator)) => {
            format!("{}{}", own_doing(report, &widest), given_up(&part.counts))
        }
        None => agreement(part, plan, &compared(part)),
    }
}

/// A mean, µs; 0 if there are no values.
fn mean(of: &DistributionPart) -> f64 {
    of.mean.unwrap_or(0.0)
}

/// The same in a line or two, where corrected latency differs from naive.
pub(crate) fn briefly(report: &Report) -> Option<String> {
    let part = &report.whole;
    let (widest, waited) = most_different(part)?;
    let shown = |of| percentile(of, widest.row.of(of));
    let (corrected, naive) = (shown(&part.corrected), shown(&part.naive));
    if matches!(waited, Waited::Users) {
        let (wait, ..) = users_wait(part, &widest);
        let who = match widest.row.name {
            "max" => format!("The slowest user waited {wait}"),
            name => format!("Users waited {wait} at {name}"),
        };
        let (opening, cap) = (opened(report), capped(report));
        let (_, generator) = generators_part(report);
        return Some(format!(
            "{who}, not the naive {naive}, which omits the wait for a connection: \
             {opening}the target's backlog{cap}{generator}."
        ));
    }
    let why = match own_opening(part, &widest) {
        true => "the generator opened connections while requests waited; use --prewarm or --spare",
        false if !is_doubted(report) => "the generator sent late, within the limits of the verdict",
        false => match report.config.plan.model() {
            Model::Open => {
                "the generator sent late; give it more or quieter --cores, or lower --rate"
            }
            Model::Closed => {
                "the generator sent late; give it more or quieter --cores, or a longer --period"
            }
        },
    };
    let name = widest.row.name;
    Some(format!("Corrected {name} is {corrected}, not the naive {naive}, because {why}."))
}

/// How long users waited, without the generator's own delay; the same in µs, and that delay if it
/// shows.
fn users_wait(part: &Part, widest: &Widest) -> (String, f64, Option<f64>) {
    let own_us = added_us(part, widest.row);
    if OUTWEIGHS * own_us < widest.corrected_us {
        let whole = percentile(&part.corrected, widest.row.of(&part.corrected));
        (whole, widest.corrected_us + own_us, None)
    } else {
        (time(widest.corrected_us), widest.corrected_us, Some(own_us))
    }
}

/// How long users waited, and why naive latency omits it.
fn waited(part: &Part, widest: &Widest) -> String {
    let who = match widest.row.name {
        "max" => format!("The slowest of {} took", things(part.corrected.count, "request")),
        name => format!("At {name} users waited"),
    };
    let (wait, us, own_us) = users_wait(part, widest);
    let own = own_us.map(|us| format!(" beside the {} that the generator added", time(us)));
    format!(
        "{who} {wait}{}, {} times the naive {}. Naive latency omits the wait before sending \
         (coordinated omission): its clock starts when a request is sent, not when it was due.",
        own.unwrap_or_default(),
        ratio(us, widest.naive_us),
        percentile(&part.naive, widest.row.of(&part.naive))
    )
}

/// A difference caused by the generator.
fn own_doing(report: &Report, widest: &Widest) -> String {
    let (part, plan) = (&report.whole, &report.config.plan);
    let at = match widest.row.name {
        "max" => "the maximum".to_owned(),
        name => name.to_owned(),
    };
    let what = format!(
        "At {at} corrected latency is {}, {} times the naive {}.",
        percentile(&part.corrected, widest.row.of(&part.corrected)),
        ratio(widest.corrected_us, widest.naive_us),
        percentile(&part.naive, widest.row.of(&part.naive))
    );
    if own_opening(part, widest) {
        return format!(
            "{what} The generator added that by opening connections when requests were waiting for \
             them: open them in advance with --prewarm, or leave some idle with --spare."
        );
    }
    let lower = match plan.model() {
        Model::Open => "lower --rate",
        Model::Closed => "use a longer --period",
    };
    let rest = match is_doubted(report) {
        true => format!(
            ": give it more or quieter cores with --cores, or {lower}, before you trust these \
             numbers."
        ),
        false => ", within the limits of the verdict.".to_owned(),
    };
    format!(
        "{what} The generator itself was late (pacer lateness {} in the mean){rest}",
        time(mean(&part.pacer_lateness))
    )
}

/// True if the verdict objects to what the generator added.
fn is_doubted(report: &Report) -> bool {
    report.verdict.reasons.iter().any(|reason| reason.code == Code::ClientShare)
}

/// True if the generator's delay there came mostly from opening connections.
fn own_opening(part: &Part, widest: &Widest) -> bool {
    let client = part.client_share.as_ref().and_then(|share| widest.row.client(share));
    client.is_some_and(|part| part.added < part.opening)
}

/// The generator's delay at a row, µs. For the slowest request only the latest one's is known.
fn added_us(part: &Part, row: &Row) -> f64 {
    let share = part.client_share.as_ref();
    match share.and_then(|share| row.client(share)) {
        Some(client) => client.whole(),
        None => part.pacer_lateness.max.unwrap_or(0.0),
    }
}

/// The rows to compare by: the percentiles with a known delay of the generator, or the maximum if
/// there are none. The maximum is a single request, so it is used only as a last resort.
fn compared(part: &Part) -> Vec<&'static Row> {
    let (max, percentiles) = ROWS.split_last().expect("the table has rows");
    let client = |row: &Row| row.client(part.client_share.as_ref()?);
    let known = |row: &&Row| row.of(&part.naive).is_some() && client(row).is_some();
    let known: Vec<&Row> = percentiles.iter().filter(known).collect();
    if known.is_empty() { vec![max] } else { known }
}

/// Who had to wait until requests were sent.
enum Waited {
    Users,
    /// It was late itself.
    Generator,
}

/// The row where corrected and naive differ most, if they do, and by whose wait.
fn most_different(part: &Part) -> Option<(Widest, Waited)> {
    let compared = compared(part);
    // What the generator added is no user's wait.
    let users_waited = mean(&part.pacer_lateness) <= mean(&part.connection_wait);
    let of_users = widest(part, &compared, |row| added_us(part, row)).filter(|_| users_waited);
    let of_users = of_users.map(|widest| (widest, Waited::Users));
    // Where waits for connections outweigh it, the generator's part isn't lateness: it opened some
    // of them itself, or there is nothing to explain.
    let of_generator = widest(part, &compared, |_| 0.0);
    let of_generator = of_generator.filter(|widest| !users_waited || own_opening(part, widest));
    of_users.or_else(|| Some((of_generator?, Waited::Generator)))
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

/// The row where corrected, less `off_us`, and naive differ most, if they do.
fn widest(part: &Part, compared: &[&'static Row], off_us: impl Fn(&Row) -> f64) -> Option<Widest> {
    // From the highest down, because the last of equal ratios wins: a lower percentile concerns
    // more users.
    let differing = compared.iter().rev().filter_map(|row| {
        // No response takes less than a nanosecond, which keeps the ratio finite.
        let naive_us = row.of(&part.naive)?.max(0.001);
        let corrected_us = row.of(&part.corrected)? - off_us(row);
        let differs =
            RATIO_MIN <= corrected_us / naive_us && DIFFERENCE_MIN_US <= corrected_us - naive_us;
        differs.then_some(Widest { row, naive_us, corrected_us })
    });
    differing.max_by(|one, other| one.ratio().total_cmp(&other.ratio()))
}

fn agreement(part: &Part, plan: &Plan, compared: &[&Row]) -> String {
    match (plan.model(), plan.period) {
        (Model::Closed, None) => "In a closed loop they are the same by construction, except for \
            waits for a connection: a user sends the next request only after a response, so both \
            leave out the requests that users would have sent during a stall (coordinated \
            omission). Use --rate to measure how long independent users wait."
            .to_owned(),
        _ if compared.iter().all(|row| row.name == "max") => format!(
            "Too few requests to compare percentiles: {}. Even the slowest took no longer than the \
             naive maximum.",
            lacks("naive", &part.naive, |_| true).unwrap_or_default()
        ),
        (Model::Open, _) if 0 < part.counts.capped || part.counts.answered == 0 => format!(
            "Naive and corrected agree at the percentiles known, although {} waited for a \
             connection{}.",
            things(part.counts.waited, "arrival"),
            exceptions(&part.counts)
        ),
        (Model::Open, _) => format!(
            "Naive and corrected agree: requests left when they were due, so this is how long users \
             waited{}.",
            exceptions(&part.counts)
        ),
        (Model::Closed, Some(_)) => {
            "Naive and corrected agree: responses came within the period, so \
            each request left when it was due."
                .to_owned()
        }
    }
}

/// The requests whose users didn't wait for their latency: they have none, or waited longer.
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
        exceptions => format!(", except {exceptions}"),
    }
}

/// The cause of the difference: the target's backlog or the cap, and the generator's part.
fn cause(report: &Report) -> String {
    let part = &report.whole;
    let (generator, _) = generators_part(report);
    let (opening, cap) = (opened(report), capped(report));
    format!(
        "They waited for a connection (connection wait {} in the mean; {} found none free): \
         {opening}the target's backlog{cap}{generator} (pacer lateness {}).{}",
        time(mean(&part.connection_wait)),
        things(part.counts.waited, "arrival"),
        time(mean(&part.pacer_lateness)),
        given_up(&part.counts)
    )
}

/// The generator's part, at length and in a few words, from the exact means of both delays: the
/// requests at a percentile of one aren't those at the same percentile of the other.
fn generators_part(report: &Report) -> (String, &'static str) {
    let part = &report.whole;
    let has = |code| report.verdict.found().any(|found| found.code == code);
    let short = |text: &'static str| (text.to_owned(), text);
    if has(Code::CoreSaturated) {
        short(", or the generator, which was at its limit")
    } else if let Some(held) = report.littles_law.held_by_generator() {
        let text = format!(
            ", and the generator: for {} of the time that requests were in flight, their response \
             was there and waited for it",
            percent(held)
        );
        (text, ", and the generator, which took responses late")
    } else if has(Code::GeneratorLate) {
        short(", or the generator, which was late")
    } else if mean(&part.connection_wait) < OUTWEIGHS * mean(&part.pacer_lateness) {
        short("; the generator added to it")
    } else {
        short(", not the generator")
    }
}

/// The text on connections that were opened.
fn opened(report: &Report) -> &'static str {
    let (part, plan) = (&report.whole, &report.config.plan);
    let renewed = part.counts.connects_in_window.saturating_sub(part.counts.pool_grew);
    let is_closed = plan.requests_per_connection.is_none()
        && plan.connection_lifetime.is_none()
        && RENEWED_MANY * part.counts.sent as f64 <= renewed as f64;
    match plan.keepalive {
        Switch::Off => "opening one for each request, ",
        Switch::On if is_closed => "opening one for each that was closed, ",
        Switch::On if plan.requests_per_connection.is_some() => {
            "opening one for each that --requests-per-connection ends, "
        }
        Switch::On => "",
    }
}

/// The text on the cap as a possible cause.
fn capped(report: &Report) -> String {
    match report.whole.counts.capped {
        0 => String::new(),
        _ => format!(" or the cap of --conns {}", count(report.config.plan.conns() as u64)),
    }
}

/// The requests that were never sent, and where they count.
fn given_up(counts: &Counts) -> String {
    let mut text = String::new();
    let dropped = counts.unsent_reasons.of(UnsentReason::Dropped);
    let were = |requests| match requests {
        1 => "1 request was".to_owned(),
        requests => format!("{} were", things(requests, "request")),
    };
    let unsent = counts.unsent.saturating_sub(dropped);
    if 0 < unsent {
        let were = were(unsent);
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

    /// Of these flags; nothing is in flight, so nothing waits for the generator.
    fn report(open: bool, part: Part) -> Report {
        Report { littles_law: LittlesLaw::new(0.0, 0.0, 0.0), ..reports::report(open, part) }
    }

    fn message(open: bool, part: &Part) -> String {
        difference(&report(open, part.clone()))
    }

    fn check(flags: &[&str], part: &Part, words: &[&str]) {
        let text = message(!flags.is_empty(), part);
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
    fn a_wait_for_a_connection_names_its_causes() {
        let waited = part(1_000, 200_000, 1, 199_000);
        let text = message(true, &waited);
        assert!(text.contains("): the target's backlog, not the generator"), "{text}");
        let mut capped = waited.clone();
        capped.counts.capped = 3;
        let text = message(true, &capped);
        assert!(
            text.contains("): the target's backlog or the cap of --conns 1,000, not"),
            "{text}"
        );
        // A target that closes after each response.
        let mut closed = waited;
        closed.counts.connects_in_window = closed.counts.sent;
        let text = message(true, &closed);
        assert!(text.contains("): opening one for each that was closed, the target's"), "{text}");
        closed.counts.pool_grew = closed.counts.sent;
        assert!(!message(true, &closed).contains("that was closed"), "they were added to the pool");
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
        assert!(!message(true, &alike).contains("agree"));
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
    fn a_wait_is_not_only_the_targets_if_the_generator_had_a_part_in_it() {
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
    fn users_of_abandoned_requests_waited_longer_than_is_known() {
        let mut some = part(1_000, 1_000, 1, 2);
        (some.counts.timed_out, some.counts.abandoned) = (2_500, 1);
        check(OPEN, &some, &["except for the 2,501 requests given up, whose users waited longer."]);
        some.counts.failed = 3;
        check(
            OPEN,
            &some,
            &["except for those of the 3 failed requests, and for the 2,501 requests"],
        );
    }

    #[test]
    fn the_generators_delay_is_no_users_wait() {
        // Most of it is the generator's, and the rest is no difference.
        let late = part(220, 746, 500, 20);
        let text = message(true, &late);
        assert!(text.starts_with("At p50 corrected latency is 746 µs, 3.4 times the naive 220 µs"));
        assert!(text.contains("generator itself was late") && !text.contains("users"), "{text}");
        assert!(text.ends_with("within the limits of the verdict."), "{text}");
        // Without it users still waited long.
        let late = part(220, 746, 100, 420);
        let text = message(true, &late);
        let who =
            "At p50 users waited 646 µs beside the 100 µs that the generator added, 2.9 times";
        assert!(text.starts_with(who), "{text}");
        let text = briefly(&report(true, late)).expect("they differ");
        assert!(text.starts_with("Users waited 646 µs at p50, not the naive 220 µs"), "{text}");
        assert!(text.ends_with("; the generator added to it."), "{text}");
        // Too little to mention.
        let text = message(true, &part(220, 746, 20, 500));
        assert!(text.starts_with("At p50 users waited 746 µs, 3.4 times the naive"), "{text}");
        // The waits for a connection outweigh its lateness, and are no more than what it added.
        let mut waited = part(220, 300, 0, 80);
        let share = waited.client_share.as_mut().expect("it is known");
        let above = [&mut share.p90, &mut share.p99, &mut share.p999];
        let above = above.into_iter().map(|part| part.as_mut().expect("many requests"));
        above.chain([&mut share.p50]).for_each(|part| part.added = 79.0);
        assert_eq!(briefly(&report(true, waited)), None);
        // A pool that was too small is the generator's fault as well.
        let mut cold = part(220, 746, 0, 500);
        let share = cold.client_share.as_mut().expect("it is known");
        let above = [&mut share.p90, &mut share.p99, &mut share.p999];
        let above = above.into_iter().map(|part| part.as_mut().expect("many requests"));
        above.chain([&mut share.p50]).for_each(|part| part.opening = 500.0);
        let text = message(true, &cold);
        assert!(text.contains("--prewarm") && !text.contains("users waited"), "{text}");
    }

    #[test]
    fn a_late_pacer_is_the_generators() {
        let doubted = |open| {
            let mut report = report(open, part(1_000, 9_000, 8_000, 5));
            report.verdict.reasons.push(reason(Code::ClientShare));
            report
        };
        let text = difference(&doubted(true));
        for words in
            ["9.0 times", "generator itself was late", "8.00 ms", "--cores, or lower --rate"]
        {
            assert!(text.contains(words), "{text}");
        }
        let mut paced = doubted(false);
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
        assert!(!message(true, &unsent).contains("never sent"));
    }

    #[test]
    fn an_empty_window_is_not_compared() {
        let mut nothing = part(1, 1, 1, 1);
        nothing.corrected.count = 0;
        check(OPEN, &nothing, &["nothing to compare"]);
        let unsent = Part { naive: times(0, 0), ..part(1, 9_000, 1, 1) };
        check(OPEN, &unsent, &["nothing to compare"]);
    }
}
