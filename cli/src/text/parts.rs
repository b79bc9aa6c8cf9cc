//! The requests of each route (a scenario of one step), a line each, the worst first; and those of
//! each stage, in order.
//!
//! A request without a good answer is worse than any latency. So routes in which more than one
//! request in a hundred is bad come before those with the longest p99.

use engine::plan::Plan;
use engine::record::counts::Counts;
use engine::report::{
    Bytes, DistributionPart, Holders, Part, Report, StageLoad, StageSpan, StepPart,
};

use super::figures::{bytes, count, listed, percent, rate, things};
use super::layout::Column::{self, Left, Right};
use super::layout::{Text, aligned, columns, widest, wrap};
use super::scale::{Scale, at_the_point};

/// The least width of the column with scenarios' names.
pub(crate) const NAME_MAX: usize = 24;
/// The columns that a line needs beside a scenario's name.
const BESIDE_NAME: usize = 56;
/// The least width of the column with stages' names, or numbers.
const STAGE_NAME_MAX: usize = 10;
/// The columns that a line needs beside a stage's name.
const BESIDE_STAGE: usize = 70;
/// The share of bad requests from which on p99 says less than they do.
const BAD_MAX: f64 = 0.01;

/// The requests of some parts, added up.
struct Sum<'a> {
    of: &'a StepPart,
    counts: Counts,
    bad: u64,
    bytes: Bytes,
    corrected: DistributionPart,
}

impl Sum<'_> {
    /// How bad it is: first by the share of its bad requests, if they are many, then by its tail.
    fn badness(&self) -> (f64, f64) {
        let bad = self.bad as f64 / self.counts.intended.max(1) as f64;
        // If p99 is unknown, the maximum is known.
        let tail = self.corrected.quantile_us(0.99).or(self.corrected.max);
        (if BAD_MAX < bad { bad } else { 0.0 }, tail.unwrap_or(0.0))
    }
}

/// The scenarios of a part, the worst first; empty if there is only one.
fn worst_first(part: &Part) -> Vec<Sum<'_>> {
    let mut sums = sums(part, |one, other| one.name == other.name);
    if sums.len() < 2 {
        return Vec::new();
    }
    sums.sort_by(|one, other| {
        let ((bad, tail), (other_bad, other_tail)) = (one.badness(), other.badness());
        other_bad.total_cmp(&bad).then(other_tail.total_cmp(&tail))
    });
    sums
}

/// The names at the start of a table's rows.
pub(super) struct Names {
    width: usize,
    /// True if none is cut.
    is_whole: bool,
}

impl Names {
    /// Names of scenarios.
    pub(super) fn of_scenarios<'a>(
        names: impl IntoIterator<Item = &'a str>,
        is_whole: bool,
    ) -> Names {
        Names::new(names, [NAME_MAX, BESIDE_NAME], columns(), is_whole)
    }

    /// Names in a column of at least the first of these widths, in lines of so many columns, which
    /// need the second one for the rest.
    fn new<'a>(
        names: impl IntoIterator<Item = &'a str>,
        [least, beside]: [usize; 2],
        columns: usize,
        is_whole: bool,
    ) -> Names {
        let room = columns.saturating_sub(beside);
        Names { width: (widest(names) + 1).min(room).max(least), is_whole }
    }

    /// Their column.
    pub(super) fn column(&self) -> Column {
        Left(self.width)
    }

    /// The first cell of a name's row. A name that is too long is cut, or in a line of its own.
    pub(super) fn cell(&self, name: &str, text: &mut Text) -> String {
        if self.is_whole && self.width <= name.chars().count() {
            text.line(name);
            return String::new();
        }
        name_in(name, self.width)
    }
}

/// A line for each scenario of a part, at most `rows_max`, or all of them with their whole names;
/// empty if there is only one.
pub(super) fn scenarios(part: &Part, rows_max: Option<usize>) -> String {
    let mut sums = worst_first(part);
    let all = sums.len();
    if all == 0 {
        return String::new();
    }
    sums.truncate(rows_max.unwrap_or(all));
    let (unit, times) = times(sums.iter().map(|sum| &sum.corrected), &[0.5, 0.99]);
    let names = Names::of_scenarios(sums.iter().map(|sum| &*sum.of.name), rows_max.is_none());
    let columns = [names.column(), Right(10), Right(9), Right(12), Right(12), Right(12)];
    let mut text = Text::new();
    let title = format!("by route, {unit}");
    text.row(&columns, &[&*title, "requests", "bad", "p50", "p99", "max"]);
    for (sum, times) in sums.iter().zip(times) {
        let name = names.cell(&sum.of.name, &mut text);
        let first = [name, count(sum.counts.intended), count(sum.bad)];
        text.row(&columns, &[&first[..], &times].concat());
    }
    text.add(others(all, rows_max));
    text.add(failed_checks(&sums));
    text.done()
}

/// How many of each one's requests, which count as bad, were answered but failed a check; empty
/// without any.
fn failed_checks(sums: &[Sum<'_>]) -> String {
    let failed = sums.iter().filter(|sum| 0 < sum.counts.failed_checks);
    let failed: Vec<String> = failed
        .map(|sum| format!("{} in {}", count(sum.counts.failed_checks), sum.of.name))
        .collect();
    match failed.is_empty() {
        true => String::new(),
        false => wrap(&format!("failed checks: {}", failed.join(", "))),
    }
}

/// A line for the sessions of each scenario, if one has several steps: how many there were, how they
/// ended, and how long they took without think times.
pub(super) fn sessions(report: &Report) -> String {
    let part = &report.whole;
    if part.scenarios.is_empty() {
        return String::new();
    }
    let latencies = part.scenarios.iter().map(|one| &one.latency);
    let (unit, times) = times(latencies, &[0.5, 0.99]);
    let names = Names::of_scenarios(part.scenarios.iter().map(|one| &*one.name), false);
    let columns = [names.column(), Right(9), Right(10), Right(9), Right(11), Right(11)];
    let mut text = Text::new();
    let title = format!("by session, {unit}");
    text.row(&columns, &[&*title, "all", "completed", "failed", "p50", "p99"]);
    for (one, times) in part.scenarios.iter().zip(times) {
        let name = names.cell(&one.name, &mut text);
        let first = [name, count(one.intended), count(one.completed), count(one.failed())];
        text.row(&columns, &[&first[..], &times[..2]].concat());
    }
    for one in &part.scenarios {
        let ended = one.steps.iter().flat_map(|step| {
            let name = &step.name;
            let failed =
                (0 < step.failed).then(|| format!("{} failed in {name}", count(step.failed)));
            let unfinished = (0 < step.unfinished)
                .then(|| format!("{} unfinished in {name}", count(step.unfinished)));
            failed.into_iter().chain(unfinished)
        });
        let unsent = (0 < one.unsent).then(|| format!("{} never began", count(one.unsent)));
        let all: Vec<String> = ended.chain(unsent).collect();
        if !all.is_empty() {
            text.add(wrap(&format!("{}: {}", one.name, all.join(", "))));
        }
    }
    if 0 < part.counts.capped_sessions {
        let (waited, most) = (part.counts.capped_sessions, report.config.plan.sessions_max);
        let arrivals = things(waited, "arrival");
        let most = count(most.unwrap_or(0) as u64);
        text.add(wrap(&format!("{arrivals} waited: {most} sessions were open (--sessions-max)")));
    }
    text.add(wrap("Within a session each step waits for the response before it, as a user does."));
    text.done()
}

/// The bytes and the outcomes of each scenario; empty if there is only one.
pub(super) fn outcomes(part: &Part) -> String {
    let sums = worst_first(part);
    let mut text = Text::new();
    let names = Names::of_scenarios(sums.iter().map(|sum| &*sum.of.name), true);
    let columns = [names.column(), Right(8), Right(9)];
    let line = |text: &mut Text, cells: &[String], outcomes: &str| {
        text.field(names.width + 8 + 9 + 2, &aligned(&columns, cells), outcomes);
    };
    if !sums.is_empty() {
        let head = ["by route", "received", "sent"].map(str::to_owned);
        line(&mut text, &head, "status; errors");
    }
    for sum in sums {
        let Bytes { received_bytes, sent_bytes } = sum.bytes;
        let name = names.cell(&sum.of.name, &mut text);
        let cells = [name, bytes(received_bytes), bytes(sent_bytes)];
        let Counts { failed_checks, abandoned, unsent, .. } = sum.counts;
        let mut outcomes = vec![listed(&sum.counts.status)];
        outcomes.extend(
            (0 < failed_checks).then(|| format!("failed checks: {}", count(failed_checks))),
        );
        outcomes.extend((0 < sum.counts.errors.total()).then(|| listed(&sum.counts.errors)));
        outcomes.extend((0 < abandoned).then(|| format!("abandoned: {}", count(abandoned))));
        outcomes.extend((0 < unsent).then(|| format!("never sent: {}", count(unsent))));
        line(&mut text, &cells, &outcomes.join("; "));
    }
    text.done()
}

/// Which scenarios all others waited for at the cap; empty unless a few had most connections then.
pub(super) fn holders(report: &Report) -> String {
    let Some(holders) = report.holders() else { return String::new() };
    let Holders { share, of_requests, others, .. } = holders;
    let has = if holders.names.len() == 1 { "has" } else { "have" };
    let waited = match others {
        0 => String::new(),
        others => format!(
            ": {} of the {} were of other routes",
            count(others),
            things(report.whole.counts.capped, "arrival")
        ),
    };
    wrap(&format!(
        "While arrivals waited at the cap of {}, {} of these were busy with {}, which {has} {} of \
         the requests{waited}.",
        things(report.conns() as u64, "connection"),
        percent(share),
        holders.named(),
        percent(of_requests)
    ))
}

/// The times of each at these quantiles and their maximum, in one unit, which is returned too: in
/// columns with aligned decimal points.
pub(super) fn times<'a>(
    each: impl Iterator<Item = &'a DistributionPart> + Clone,
    quantiles: &[f64],
) -> (&'static str, Vec<Vec<String>>) {
    let of = |part: &DistributionPart| {
        let at = quantiles.iter().map(|q| part.quantile_us(*q));
        at.chain([part.max]).collect::<Vec<Option<f64>>>()
    };
    let scale = Scale::of(each.clone().flat_map(|part| of(part).into_iter().flatten()));
    let mut rows: Vec<Vec<String>> = each
        .map(|part| of(part).into_iter().map(|us| scale.percentile(part, us)).collect())
        .collect();
    for at in 0..=quantiles.len() {
        let mut column: Vec<String> =
            rows.iter_mut().map(|row| std::mem::take(&mut row[at])).collect();
        at_the_point(&mut column);
        rows.iter_mut().zip(column).for_each(|(row, cell)| row[at] = cell);
    }
    (scale.unit, rows)
}

/// A line for each stage of a part of this plan with a window of this length, s, at most
/// `rows_max`, or all of them with their whole names; empty if the load is constant.
pub(super) fn stages(part: &Part, plan: &Plan, window_s: f64, rows_max: Option<usize>) -> String {
    let sums = sums(part, |one, other| one.stage == other.stage);
    let of_stages: Vec<(&StageSpan, &Sum<'_>)> =
        sums.iter().filter_map(|sum| Some((sum.of.stage.as_ref()?, sum))).collect();
    let all = of_stages.len();
    let shown = &of_stages[..rows_max.map_or(all, |max| all.min(max))];
    let (unit, times) = times(shown.iter().map(|(_, sum)| &sum.corrected), &[0.5, 0.9, 0.99]);
    let figures = [13, 9, 10, 6, 8, 8, 8, 8].map(Right);
    let labels: Vec<String> = shown.iter().map(|(stage, _)| stage.label()).collect();
    let widths = [STAGE_NAME_MAX, BESIDE_STAGE];
    let names =
        Names::new(labels.iter().map(String::as_str), widths, columns(), rows_max.is_none());
    let columns: Vec<Column> = [names.column()].into_iter().chain(figures).collect();
    let has_users = plan.stages_of_users().is_some();
    let mut text = Text::new();
    if !of_stages.is_empty() {
        let title = format!("stage, {unit}");
        let asked = if has_users { "users" } else { "asked/s" };
        text.row(
            &columns,
            &[&*title, asked, "sent/s", "answered", "bad", "p50", "p90", "p99", "max"],
        );
    }
    for (((stage, sum), times), label) in shown.iter().zip(times).zip(&labels) {
        let (from, to) = match stage.load {
            StageLoad::Rates { from, to } => (rate(from), rate(to)),
            StageLoad::Users { from, to } => (count(from), count(to)),
        };
        let asked = if stage.is_ramp() { format!("{from}..{to}") } else { from };
        let length_s = (window_s - stage.start).min(stage.duration);
        let per_second = |number: u64| match 0.0 < length_s {
            true => rate(number as f64 / length_s),
            false => "n/a".to_owned(),
        };
        let Counts { sent, answered, .. } = sum.counts;
        let (sent, answered) = (per_second(sent), per_second(answered));
        let label = names.cell(label, &mut text);
        let bad = count(sum.bad);
        text.row(&columns, &[&[label, asked, sent, answered, bad][..], &times].concat());
    }
    text.add(others(all, rows_max));
    mixed(plan).into_iter().for_each(|mixed| text.wrapped(mixed));
    text.done()
}

/// What the percentiles of a run of this plan mix, if its load changes.
pub(super) fn mixed(plan: &Plan) -> Option<&'static str> {
    // A ramp that is the only stage is the whole run.
    let has_ramp = 1 < plan.stage.len() && plan.stage.iter().any(|stage| stage.from != stage.to);
    plan.load_changes().then(|| match (has_ramp, plan.stages_of_users().is_some()) {
        _ if plan.replay.is_some() => "Percentiles of the whole run mix the log's rates.",
        (true, true) => {
            "Percentiles of a ramp mix its numbers of users, and those of the whole run all of \
             them."
        }
        (true, false) => {
            "Percentiles of a ramp mix its rates, and those of the whole run all of them."
        }
        (false, true) => "Percentiles of the whole run mix the numbers of users of its stages.",
        (false, false) => "Percentiles of the whole run mix the rates of its stages.",
    })
}

/// The line on parts that aren't shown without details.
fn others(all: usize, shown_max: Option<usize>) -> String {
    match shown_max.and_then(|shown| all.checked_sub(shown)) {
        None | Some(0) => String::new(),
        Some(1) => "and 1 other: see --details\n".to_owned(),
        Some(others) => format!("and {others} others: see --details\n"),
    }
}

/// The parts of a part, like ones added up, in order of first appearance.
fn sums<'a>(part: &'a Part, alike: impl Fn(&StepPart, &StepPart) -> bool) -> Vec<Sum<'a>> {
    let mut groups: Vec<Vec<&StepPart>> = Vec::new();
    for part in &part.parts {
        match groups.iter_mut().find(|group| alike(group[0], part)) {
            Some(group) => group.push(part),
            None => groups.push(vec![part]),
        }
    }
    groups.iter().map(|group| sum(group)).collect()
}

fn sum<'a>(group: &[&'a StepPart]) -> Sum<'a> {
    let mut counts = Counts::default();
    group.iter().for_each(|part| counts += part.counts.as_whole());
    Sum {
        of: group[0],
        counts,
        bad: group.iter().map(|part| part.bad).sum(),
        bytes: Bytes::of_parts(group.iter().copied()),
        corrected: match group {
            [only] => only.corrected.clone(),
            several => DistributionPart::added(several.iter().map(|part| &part.corrected))
                .expect("a report is verified before it is shown"),
        },
    }
}

/// A name shortened to a column of this width.
pub(crate) fn name_in(name: &str, width: usize) -> String {
    if name.chars().count() < width {
        return name.to_owned();
    }
    let kept: String = name.chars().take(width - 2).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use engine::plan::Model;
    use engine::report::{StepCounts, StepSeries};

    use engine::record::outcome::Cause;

    use super::super::reports::{part, report, times};
    use super::*;

    fn step(name: &str, us: u64, requests: u64) -> StepPart {
        let counts = Counts {
            intended: requests,
            sent: requests - 1,
            answered: requests - 3,
            ..Counts::default()
        };
        StepPart {
            name: name.to_owned(),
            stage: None,
            planned: 0.5,
            counts: StepCounts::new(&counts),
            bad: 3,
            received_bytes: 200 * requests,
            sent_bytes: 100 * requests,
            held: 0,
            naive: times(us, requests),
            corrected: times(us, requests),
            slowest: Vec::new(),
            series: StepSeries { piece_s: 1.0, pieces: Vec::new() },
        }
    }

    /// The plan of these stages, and a part with results of two scenarios in each.
    fn staged(text: &str) -> (Plan, Part) {
        with_model(Model::Open, text)
    }

    fn with_model(model: Model, text: &str) -> (Plan, Part) {
        let stage = text.split(',').map(|stage| stage.parse().expect(stage)).collect();
        let target = "http://127.0.0.1:8080/".to_owned();
        let plan = Plan { target, stage, model: Some(model), ..Plan::default() }
            .complete(&[0])
            .expect("it runs");
        let mut whole = part(1_020, 1_020, 0, 0);
        for (name, factor) in [("home", 1), ("search", 10)] {
            for (number, (stage, span)) in (1..).zip(plan.stages()) {
                let (start_ns, length_ns) = (span.start - plan.warmup.0, stage.duration.0);
                let span = StageSpan {
                    number,
                    name: Some(stage.name.clone()).filter(|name| !name.is_empty()),
                    load: match (plan.model(), stage.users()) {
                        (Model::Open, _) => {
                            let (from, to) = (stage.from.per_second(), stage.to.per_second());
                            StageLoad::Rates { from, to }
                        }
                        (Model::Closed, (from, to)) => StageLoad::Users { from, to },
                    },
                    start: start_ns as f64 / 1e9,
                    duration: length_ns as f64 / 1e9,
                };
                let part = step(name, number as u64 * 1_000 * factor, 3_000);
                whole.parts.push(StepPart { stage: Some(span), ..part });
            }
        }
        (plan, whole)
    }

    #[test]
    fn stages_come_in_order_with_all_their_scenarios() {
        let (plan, whole) = staged("100:30s,rise=100..100k:2m,a long name=100k:30s");
        insta::assert_snapshot!(stages(&whole, &plan, 165.0, Some(40)), @r"
        stage, ms       asked/s   sent/s  answered   bad     p50     p90     p99     max
        1                   100    199.9     199.8     6    1.00    10.0    10.0    10.0
        rise       100..100,000       50        50     6    2.00    20.0    20.0    20.0
        a long n…       100,000    399.9     399.6     6    3.00    30.0    30.0    30.0
        Percentiles of a ramp mix its rates, and those of the whole run all of them.
        ");
        insta::assert_snapshot!(scenarios(&whole, Some(12)), @r"
        by route, ms              requests      bad         p50         p99         max
        search                       9,000        9       20.0        30.0        30.0
        home                         9,000        9        2.00        3.00        3.00
        ");
        // It ended before the last began.
        let (plan, whole) = staged("100:30s,200:2m");
        insta::assert_snapshot!(stages(&whole, &plan, 20.0, Some(40)), @r"
        stage, ms       asked/s   sent/s  answered   bad     p50     p90     p99     max
        1                   100    299.9     299.7     6    1.00    10.0    10.0    10.0
        2                   200      n/a       n/a     6    2.00    20.0    20.0    20.0
        Percentiles of the whole run mix the rates of its stages.
        ");
        let (plan, whole) = staged(&["1:1s,2:1s"; 21].join(","));
        let text = stages(&whole, &plan, 42.0, Some(40));
        assert!(text.contains("and 2 others: see --details\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn stages_of_a_closed_loop_have_users() {
        let (plan, whole) = with_model(Model::Closed, "10:30s,10..1k:2m");
        insta::assert_snapshot!(stages(&whole, &plan, 150.0, Some(40)), @r"
        stage, ms         users   sent/s  answered   bad     p50     p90     p99     max
        1                    10    199.9     199.8     6    1.00    10.0    10.0    10.0
        2             10..1,000       50        50     6    2.00    20.0    20.0    20.0
        Percentiles of a ramp mix its numbers of users, and those of the whole run all
        of them.
        ");
        let (plan, whole) = with_model(Model::Closed, "10:30s,20:2m");
        let text = stages(&whole, &plan, 150.0, Some(40));
        let note = "Percentiles of the whole run mix the numbers of users of its stages.\n";
        assert!(text.ends_with(note), "{text}");
    }

    #[test]
    fn a_single_ramp_comes_with_a_note_on_mixed_rates() {
        let (plan, _) = staged("0..100:30s");
        let whole = part(1_020, 1_020, 0, 0);
        assert_eq!(
            stages(&whole, &plan, 30.0, Some(40)),
            "Percentiles of the whole run mix the rates of its stages.\n"
        );
        let (plan, _) = staged("100:30s");
        assert_eq!(stages(&whole, &plan, 30.0, Some(40)), "");
    }

    #[test]
    fn names_are_cut_only_where_a_line_has_no_room_and_never_in_details() {
        let long = "GET /api/v1/organizations/members";
        let width = |columns, is_whole| {
            Names::new(["GET /", long], [NAME_MAX, BESIDE_NAME], columns, is_whole).width
        };
        assert_eq!([40, 80, 81, 89, 90, 200].map(|of| width(of, false)), [24, 24, 25, 33, 34, 34]);
        assert_eq!(width(80, true), 24);
        let mut whole = part(1_020, 1_020, 0, 0);
        whole.parts = vec![step(long, 182_000, 900), step("GET /", 1_020, 9_000)];
        insta::assert_snapshot!(scenarios(&whole, Some(12)), @r"
        by route, ms              requests      bad         p50         p99         max
        GET /api/v1/organizati…        900        3      182         182         182
        GET /                        9,000        3        1.02        1.02        1.02
        ");
        insta::assert_snapshot!(scenarios(&whole, None) + &outcomes(&whole), @r"
        by route, ms              requests      bad         p50         p99         max
        GET /api/v1/organizations/members
                                       900        3      182         182         182
        GET /                        9,000        3        1.02        1.02        1.02
        by route                received     sent  status; errors
        GET /api/v1/organizations/members
                                  180 kB  90.0 kB  none
        GET /                    1.80 MB   900 kB  none
        ");
        let (plan, whole) = staged("100:30s,a long name=200:30s");
        let text = stages(&whole, &plan, 60.0, None);
        assert!(text.contains("\na long name\n                    200"), "{text}");
    }

    #[test]
    fn a_scenario_that_fails_comes_before_all_that_are_slow() {
        let mut whole = part(1_020, 1_020, 0, 0);
        assert_eq!(outcomes(&whole), "");
        let mut down = step("down", 100, 500);
        (down.bad, down.corrected) = (400, times(100, 20));
        down.counts.failed = 400;
        down.counts.errors = [(Cause::Reset, 390), (Cause::ConnectRefused, 10)].into();
        let mut answered = step("up", 90_000, 9_000);
        answered.counts.status = [(200, 8_000), (404, 991), (503, 6)].into();
        answered.counts.unsent = 1;
        whole.parts = vec![step("slow", 182_000, 900), answered, down];
        insta::assert_snapshot!(scenarios(&whole, Some(2)), @r"
        by route, ms              requests      bad         p50         p99         max
        down                           500      400       0.100         n/a       0.100
        slow                           900        3     182             182     182
        and 1 other: see --details
        ");
        insta::assert_snapshot!(outcomes(&whole), @r"
        by route                received     sent  status; errors
        down                      100 kB  50.0 kB  none; reset: 390, connect_refused: 10
        slow                      180 kB  90.0 kB  none
        up                       1.80 MB   900 kB  200: 8,000, 404: 991, 503: 6; never
                                                   sent: 1
        ");
    }

    #[test]
    fn failed_checks_are_named_by_route() {
        let mut whole = part(1_020, 1_020, 0, 0);
        let mut empty = step("shop/search", 9_000, 900);
        (empty.counts.failed_checks, empty.bad) = (40, 43);
        let mut few = step("shop/pay", 20_000, 850);
        few.counts.failed_checks = 3;
        whole.parts = vec![step("shop/login", 1_020, 900), empty, few];
        insta::assert_snapshot!(scenarios(&whole, Some(12)) + &outcomes(&whole), @r"
        by route, ms              requests      bad         p50         p99         max
        shop/search                    900       43        9.00        9.00        9.00
        shop/pay                       850        3       20.0        20.0        20.0
        shop/login                     900        3        1.02        1.02        1.02
        failed checks: 40 in shop/search, 3 in shop/pay
        by route                received     sent  status; errors
        shop/search               180 kB  90.0 kB  none; failed checks: 40
        shop/pay                  170 kB  85.0 kB  none; failed checks: 3
        shop/login                180 kB  90.0 kB  none
        ");
        // Those of routes that aren't shown are left out with them.
        assert!(scenarios(&whole, Some(1)).ends_with("\nfailed checks: 40 in shop/search\n"));
    }

    #[test]
    fn the_scenario_that_the_others_waited_for_is_named() {
        let mut report = report(true, part(1_020, 1_020, 0, 0));
        assert_eq!(holders(&report), "");
        report.whole.counts.capped = 1_250;
        let mut step = |name: &str, held: u64, capped: u64| {
            let mut step = step(name, 1_000, 9_000);
            (step.held, step.counts.capped) = (held, capped);
            report.whole.parts.push(step);
        };
        step("search", 60_000, 250);
        step("home", 15_000, 900);
        step("orders", 5_000, 100);
        insta::assert_snapshot!(holders(&report), @r"
        While arrivals waited at the cap of 1,000 connections, 75.0 % of these were busy
        with search, which has 33.3 % of the requests: 1,000 of the 1,250 arrivals were
        of other routes.
        ");
        report.whole.parts[0].held = 7_000;
        insta::assert_snapshot!(holders(&report), @r"
        While arrivals waited at the cap of 1,000 connections, 55.6 % of these were busy
        with home, which has 33.3 % of the requests: 350 of the 1,250 arrivals were of
        other routes.
        ");
        // Two of two are no cause, nor is anything if no arrival waited.
        report.whole.parts.truncate(2);
        report.whole.parts.iter_mut().for_each(|part| part.held = 0);
        assert_eq!(holders(&report), "");
    }

    #[test]
    fn the_scenario_with_the_longest_tail_comes_first() {
        let mut whole = part(1_020, 1_020, 0, 0);
        assert_eq!(scenarios(&whole, Some(12)), "");
        whole.parts = vec![
            step("GET /", 1_020, 9_000),
            step("a name that is longer than there is room for", 182_000, 900),
            StepPart { bad: 0, ..step("rare", 90_000, 20) },
        ];
        insta::assert_snapshot!(scenarios(&whole, Some(12)), @r"
        by route, ms              requests      bad         p50         p99         max
        a name that is longer…         900        3      182         182         182
        rare                            20        0       90.0       n/a          90.0
        GET /                        9,000        3        1.02        1.02        1.02
        ");
        whole.parts = (0..14).map(|at| step(&at.to_string(), 1_000 + at, 700)).collect();
        assert!(scenarios(&whole, Some(12)).ends_with("and 2 others: see --details\n"));
        assert!(scenarios(&whole, Some(12)).lines().all(|line| line.chars().count() <= 80));
    }
}
