//! The generator's floor on this machine, section by section.

use std::collections::BTreeSet;
use std::path::Path as FilePath;

use calibration::floor::{
    AGREE_SHARE, AGREE_US, Bound, Calibration, Capacity, CpuPerRequest, Disturbance, Floor,
    GROWTH_MAX, Late, Overhead, SENT_MIN, SHARE_MAX, Section,
};
use calibration::judgement::Judgement;
use engine::plan::Wait;
use engine::report::profile::Profile;
use engine::report::verdict::Code;
use engine::sys::units::CoreList;

use super::details;
use super::figures::{percent, rate, things, time};
use super::layout::Column::{self, Left, Right};
use super::layout::{LABEL, Text, WRITTEN};

/// The most disturbances shown; a document has all of them.
const SHOWN_MAX: usize = 3;

/// The machine and its configuration.
pub(crate) fn head(of: &Calibration) -> String {
    let list = |cores: &[usize]| CoreList::new(cores.to_vec()).to_string();
    let cpu = of.cpu.as_deref().unwrap_or("unknown processor");
    let place = format!(
        "{cpu}, {}; generator on core {}, targets on core {}; --wait {}",
        of.kernel,
        list(&of.cores),
        list(&of.target_cores),
        wait(of.wait),
    );
    let mut text = Text::new();
    text.wrapped(place);
    if !of.is_apart() {
        text.wrapped(
            "Generator and target share a core: each waits for the other, so peak and limit are \
             those of both together, and latencies and lateness contain such waits.",
        );
    }
    text.blank();
    text.done()
}

/// The results of a section; empty if it was interrupted before any.
pub(crate) fn section(of: &Calibration, section: Section) -> String {
    let text = match section {
        Section::Clocks => clocks(of),
        Section::Waits => waits(of),
        Section::Capacity => of.capacity.as_ref().map_or_else(String::new, capacity),
        Section::Floors => floors(of),
        Section::Costs => costs(of),
        Section::Overhead => of.overhead.as_ref().map_or_else(String::new, overhead),
    };
    if text.is_empty() { text } else { text + "\n" }
}

/// Where the CPU time of the best closed loop went.
pub(crate) fn profile(of: &Profile) -> String {
    details::profile(of) + "\n"
}

/// The conclusion, and the file that it was saved in.
pub(crate) fn end(of: &Calibration, written: &[String], saved: Option<&FilePath>) -> String {
    let mut text = Text::new();
    if of.interrupted {
        text.line("Ended early: missing figures were not measured.");
    }
    if of.disturbed.is_empty() {
        if 0 < of.runs {
            let quiet = "The machine was quiet: others took no more of the generator's cores in any \
                         run than a verdict allows. The targets' cores aren't watched.";
            text.wrapped(quiet);
        }
    } else {
        let mut worst: Vec<&Disturbance> = of.disturbed.iter().collect();
        worst.sort_by(|one, other| other.times_limit.total_cmp(&one.times_limit));
        let runs: BTreeSet<usize> = worst.iter().map(|found| found.number).collect();
        let line = format!(
            "The machine was not quiet: others used it in {} of {}, so figures may be worse than \
             its own. The worst:",
            runs.len(),
            things(of.runs as u64, "run")
        );
        text.wrapped(line);
        for found in worst.iter().take(SHOWN_MAX) {
            text.item(2, format!("{}: {}", found.run, found.evidence));
        }
    }
    text.line("These figures are of the loopback: across a network the floor is higher.");
    text.written(WRITTEN, written);
    if let Some(file) = saved {
        text.field_whole(WRITTEN, "saved", &file.display().to_string());
        let cores = CoreList::new(of.cores.clone());
        let line = format!(
            "runs on core {cores} with --wait {} are checked against it: {}",
            wait(of.wait),
            reasons(of)
        );
        text.field(WRITTEN, "", line);
    }
    text.done()
}

/// The reasons that it enables, from its undisturbed figures.
fn reasons(of: &Calibration) -> String {
    let known = of.calibrated();
    let near_ceiling = match (known.ceiling_open, known.ceiling_closed) {
        (Some(_), _) => Some(Code::NearCeiling.to_string()),
        (None, Some(_)) => Some(format!("{} of closed loops alone", Code::NearCeiling)),
        (None, None) => None,
    };
    let below_floor = (!known.floors.is_empty()).then(|| Code::BelowFloor.to_string());
    near_ceiling.into_iter().chain(below_floor).collect::<Vec<String>>().join(", ")
}

fn wait(of: Wait) -> &'static str {
    match of {
        Wait::Sleep => "sleep",
        Wait::Hybrid => "hybrid",
        Wait::Spin => "spin",
    }
}

/// The mark at the end of a line whose figures others may have moved.
fn mark(disturbed: bool) -> &'static str {
    if disturbed { "  disturbed" } else { "" }
}

/// A time that may be unknown.
fn some(us: Option<f64>) -> String {
    us.map_or("n/a".to_owned(), time)
}

fn clocks(of: &Calibration) -> String {
    let mut text = Text::new();
    if let Some(clocks) = &of.clocks {
        text.field(
            LABEL,
            "clock",
            format!(
                "resolution {} ns, smallest step {} ns; {:.0} ns to read, {:.0} ns for a stamp",
                clocks.resolution_ns, clocks.step_ns, clocks.read_ns, clocks.stamp_pair_ns
            ),
        );
    }
    text.done()
}

fn waits(of: &Calibration) -> String {
    let mut text = Text::new();
    if of.waits.is_empty() {
        return text.done();
    }
    let columns = [Left(22), Right(9), Right(9), Left(7), Right(9), Right(9)];
    text.row(&columns, &["late at 1,000/s", "sends: p50", "p99", "", "receives: p50", "p99"]);
    for found in &of.waits {
        let [sent, sent_p99, received, received_p99] =
            [found.pacer.p50, found.pacer.p99, found.receive.p50, found.receive.p99].map(some);
        let name = format!("  --wait {}", wait(found.wait));
        let mark = mark(found.disturbed);
        let cells = [&*name, &sent, &sent_p99, "", &received, &received_p99, mark];
        text.row(&columns, &cells);
    }
    text.done()
}

/// The columns of runs that load the generator.
const LOADED: [Column; 5] = [Left(13), Right(10), Right(7), Right(13), Right(10)];

fn capacity(of: &Capacity) -> String {
    let mut text = Text::new();
    text.row(&LOADED, &["capacity", "rate/s", "busy", "CPU/request", "late p99"]);
    for closed in &of.closed {
        let name = format!("  closed, {}", closed.conns);
        let [rate, busy, cpu] = loaded(closed.rate, closed.busy, &closed.cpu);
        text.row(&LOADED[..4], &[&*name, &rate, &busy, &cpu, mark(closed.disturbed)]);
    }
    for tried in &of.open {
        let [rate, busy, cpu] = loaded(tried.rate, tried.busy, &tried.cpu);
        let late = some(tried.pacer_p99_us);
        let outcome = tried.failed.as_deref().unwrap_or("kept up");
        let outcome = format!("  {outcome}{}", mark(tried.disturbed));
        text.row(&LOADED, &["  open", &rate, &busy, &cpu, &late, &outcome]);
    }
    let doubt = match of.is_open_disturbed() {
        true => ", and others took as much of the machine as was missing, so it may be higher",
        false => "",
    };
    let shown = |of: Option<f64>| of.map_or("none".to_owned(), |of| format!("{}/s", rate(of)));
    let bound = match of.bound {
        Bound::Generator => "the generator's core was the bound",
        Bound::Unknown => "its bound is unknown, since others used the machine as well",
        Bound::Target => {
            "the null target was the bound, so the generator's own peak is higher: give it more \
             cores by naming fewer with --cores"
        }
    };
    let peak = format!("{}/s with {} connections: {bound}.", rate(of.closed_rate), of.closed_conns);
    text.field(LABEL, "closed-loop peak", peak);
    let limit = format!(
        "{} is the highest rate that kept up, {} the lowest that didn't{doubt}. Keeping up means \
         that {:.1} % of the plan is sent, and the backlog grows by at most {:.1} % of it.",
        shown(of.bracket.passed),
        shown(of.bracket.failed),
        SENT_MIN * 100.0,
        GROWTH_MAX * 100.0
    );
    text.field(LABEL, "open-loop limit", limit);
    text.done()
}

/// The shared cells of runs that load the generator.
fn loaded(per_second: f64, busy: f64, cpu: &CpuPerRequest) -> [String; 3] {
    [rate(per_second), format!("{:.0} %", busy * 100.0), format!("{:.2} µs", cpu.total_us())]
}

fn floors(of: &Calibration) -> String {
    let mut text = Text::new();
    if of.floors.is_empty() {
        return text.done();
    }
    let columns = [7, 10, 8, 8, 8, 9, 8, 8, 10].map(Right);
    text.row(
        &[Left(17), Right(19), Right(25), Right(15)],
        &["floor at share of", "naive", "corrected", "CPU per"],
    );
    let heads = ["capacity", "rate/s", "p50", "p99", "p99.9", "p50", "p99", "p99.9", "request"];
    text.row(&columns, &heads);
    for Floor { share, rate: per_second, naive, corrected, cpu, .. } in &of.floors {
        let figures = [naive, corrected].map(|of| [of.p50, of.p99, of.p999].map(some)).concat();
        let (share, cpu) = (format!("{:.0} %", share * 100.0), format!("{:.2} µs", cpu.total_us()));
        let cells = [vec![share, rate(*per_second)], figures, vec![cpu]].concat();
        text.row(&columns, &cells);
    }
    let at = |which: fn(&Floor) -> bool| -> Option<String> {
        let those = of.floors.iter().filter(|floor| which(floor));
        let shares: Vec<String> =
            those.map(|floor| format!("{:.0} %", floor.share * 100.0)).collect();
        (!shares.is_empty()).then(|| shares.join(" and "))
    };
    if let Some(shares) = at(|floor| floor.disturbed) {
        text.item(
            2,
            format!(
                "disturbed at {shares}: others used the machine there, so no run is checked against \
                 it"
            ),
        );
    }
    if let Some(shares) = at(|floor| floor.tail_disturbed && !floor.disturbed) {
        text.item(2, format!("p99 and above disturbed at {shares}: others used the machine there"));
    }
    text.done()
}

fn costs(of: &Calibration) -> String {
    let mut text = Text::new();
    if of.costs.is_empty() {
        return text.done();
    }
    text.line("CPU per request that a feature adds");
    for cost in &of.costs {
        let [low, high] = cost.range_us;
        let range = match cost.pairs.len() {
            1 => "one pair of runs".to_owned(),
            pairs => format!("{low:+.3} to {high:+.3} in {pairs} pairs of runs"),
        };
        let added = format!("{:+.3} µs ({range}){}", cost.median_us, mark(cost.disturbed));
        text.field_whole(LABEL, &format!("  {}", cost.feature.name()), &added);
    }
    text.done()
}

fn overhead(of: &Overhead) -> String {
    let message = format!(
        "target of {}: the generator must add less than {:.0} % of corrected latency",
        time(of.hold_us),
        SHARE_MAX * 100.0
    );
    let mut text = Text::new();
    text.field(LABEL, "overhead", message);
    for at in &of.at {
        let verdict = match at.judgement(&of.late) {
            Judgement::Passed => "ok",
            Judgement::NotJudged => "more, but not judged",
            Judgement::Failed => "TOO MUCH",
        };
        let line = format!(
            "{}: {} corrected, of which the generator added {} ({:.2} %): {verdict}; the target \
             held it for {} by its ledger, which leaves {:.2} % outside of it",
            at.name,
            time(at.corrected_us),
            time(at.added_us),
            at.share * 100.0,
            time(at.held_us),
            at.outside * 100.0
        );
        text.item(2, line);
    }
    if of.at.len() < 2 {
        text.line("  too few requests were answered to know p99");
    }
    if of.judgement != Judgement::Passed {
        text.item(2, others(&of.late));
    }
    if of.judgement == Judgement::NotJudged {
        disturbed(&mut text, &of.disturbed);
        let runs = things(of.runs as u64, "run");
        text.item(2, format!("{runs} ended like this; repeat it when the machine is quiet"));
    }
    if let Some(path) = &of.path {
        let verdict = match path.judgement {
            Judgement::Passed => "they agree",
            Judgement::NotJudged => "they differ, but that isn't judged",
            Judgement::Failed => "they DISAGREE",
        };
        let line = format!(
            "the path without a target, p50: {} by the null target, {} by the ledger of a \
             target without a hold; {verdict} (within {:.0} % or {})",
            time(path.floor_us),
            time(path.ledger_us.max(0.0)),
            AGREE_SHARE * 100.0,
            time(AGREE_US)
        );
        text.field(2, "", line);
        if path.judgement == Judgement::NotJudged {
            disturbed(&mut text, &path.disturbed);
        }
    }
    text.done()
}

/// How many late sends others can explain.
fn others(late: &Late) -> String {
    let Late { limit_us, share, taken, by_others } = late;
    let limit = time(*limit_us);
    let had = match taken.most_s() {
        Some(most_s) => format!("for at most {}", time(most_s * 1e6)),
        None => "for an unknown time".to_owned(),
    };
    format!(
        "{} of the requests were sent more than {limit} late; others had the generator's cores \
         {had}, which explains up to {} of them",
        percent(*share),
        percent((by_others / share.max(f64::MIN_POSITIVE)).min(1.0))
    )
}

/// The disturbances of runs that aren't judged.
fn disturbed(text: &mut Text, by: &[Disturbance]) {
    for found in by {
        text.item(2, format!("not quiet: {}: {}", found.run, found.evidence));
    }
}

#[cfg(test)]
mod tests {
    use calibration::floor::{
        Bracket, Clocks, Closed, Cost, Feature, Lateness, OverheadAt, Path, SCHEMA, Taken, Tried,
    };

    use engine::plan::StampSource;

    use calibration::floor::Three;

    use super::*;

    const CPU: CpuPerRequest = CpuPerRequest { user_us: 1.0, system_us: 3.25 };

    fn each(p50: f64, p99: f64) -> Three {
        Three { p50: Some(p50), p99: Some(p99), p999: None }
    }

    fn tried(rate: f64, failed: Option<&str>) -> Tried {
        Tried {
            rate,
            sent: 1.0,
            growth: 0.0,
            pacer_p99_us: Some(40.0),
            busy: 0.8,
            cpu: CPU,
            failed: failed.map(str::to_owned),
            disturbed: false,
        }
    }

    fn lateness(wait: Wait, p50: f64) -> Lateness {
        let (pacer, receive) = (each(p50, 21.0), each(13.0, 31.0));
        Lateness { wait, rate: 1_001.0, pacer, receive, disturbed: false }
    }

    fn capacity() -> Capacity {
        let (conns, rate) = (64, 233_726.0);
        Capacity {
            closed: vec![Closed {
                conns,
                rate,
                busy: 0.99,
                stolen: 0.0,
                cpu: CPU,
                disturbed: false,
            }],
            closed_rate: rate,
            closed_conns: conns,
            bound: Bound::Generator,
            open: vec![tried(116_863.0, None), tried(151_922.0, Some("sent 98.31 %"))],
            bracket: Bracket { passed: Some(116_863.0), failed: Some(151_922.0) },
        }
    }

    fn overhead() -> Overhead {
        let at = OverheadAt {
            name: "p50".to_owned(),
            corrected_us: 5_060.0,
            added_us: 1.1,
            share: 1.1 / 5_060.0,
            held_us: 5_010.0,
            outside: 50.0 / 5_060.0,
        };
        let (judgement, disturbed) = (Judgement::Passed, Vec::new());
        let path = Path { floor_us: 48.5, ledger_us: 60.0, judgement, disturbed };
        Overhead {
            hold_us: 5_000.0,
            at: vec![at],
            judgement: Judgement::Failed,
            late: Late {
                limit_us: 250.0,
                share: 0.012,
                taken: Taken { stolen_s: Some(0.0), waited_s: 0.001, unseen_s: 0.0 },
                by_others: 0.001,
            },
            disturbed: Vec::new(),
            runs: 1,
            path: Some(path),
        }
    }

    fn calibration() -> Calibration {
        let clocks = Clocks { resolution_ns: 1, step_ns: 20, read_ns: 24.6, stamp_pair_ns: 50.1 };
        Calibration {
            schema: SCHEMA,
            interrupted: false,
            quick: false,
            began_s: 0,
            tool_version: "0.1.0".to_owned(),
            kernel: "Linux 6.12.1".to_owned(),
            cpu: Some("A Processor".to_owned()),
            cores: vec![1, 2],
            target_cores: vec![0],
            wait: Wait::Hybrid,
            clocks: Some(clocks),
            waits: vec![lateness(Wait::Sleep, 9.5), lateness(Wait::Hybrid, 0.15)],
            capacity: Some(capacity()),
            profile: None,
            floors: vec![Floor {
                share: 0.01,
                rate: 1_168.6,
                naive: each(33.7, 60.1),
                corrected: each(33.9, 66.0),
                cpu: CPU,
                stamps: StampSource::Kernel,
                disturbed: false,
                tail_disturbed: false,
            }],
            costs: vec![Cost {
                feature: Feature::Raw,
                pairs: vec![[4.5, 4.25]],
                median_us: 0.25,
                range_us: [0.25, 0.25],
                disturbed: false,
            }],
            overhead: Some(overhead()),
            runs: 40,
            disturbed: Vec::new(),
        }
    }

    fn whole(of: &Calibration) -> String {
        let sections = Section::ALL.into_iter().map(|one| section(of, one));
        let saved = (!of.interrupted).then(|| FilePath::new("/home/me/.cache/truetail/c.json"));
        head(of) + &sections.collect::<String>() + &end(of, &["c.json".to_owned()], saved)
    }

    #[test]
    fn each_section_is_shown() {
        insta::assert_snapshot!(whole(&calibration()), @r"
        A Processor, Linux 6.12.1; generator on core 1-2, targets on core 0; --wait
        hybrid

        clock            resolution 1 ns, smallest step 20 ns; 25 ns to read, 50 ns for
                         a stamp

        late at 1,000/s      sends: p50      p99   receives: p50      p99
          --wait sleep          9.50 µs  21.0 µs         13.0 µs  31.0 µs
          --wait hybrid          150 ns  21.0 µs         13.0 µs  31.0 µs

        capacity         rate/s   busy  CPU/request  late p99
          closed, 64    233,726   99 %      4.25 µs
          open          116,863   80 %      4.25 µs   40.0 µs  kept up
          open          151,922   80 %      4.25 µs   40.0 µs  sent 98.31 %
        closed-loop peak 233,726/s with 64 connections: the generator's core was the
                         bound.
        open-loop limit  116,863/s is the highest rate that kept up, 151,922/s the
                         lowest that didn't. Keeping up means that 99.9 % of the plan is
                         sent, and the backlog grows by at most 0.1 % of it.

        floor at share of              naive                corrected        CPU per
        capacity   rate/s     p50     p99   p99.9      p50     p99   p99.9   request
            1 %     1,169 33.7 µs 60.1 µs     n/a  33.9 µs 66.0 µs     n/a   4.25 µs

        CPU per request that a feature adds
          --raw          +0.250 µs (one pair of runs)

        overhead         target of 5.00 ms: the generator must add less than 5 % of
                         corrected latency
          p50: 5.06 ms corrected, of which the generator added 1.10 µs (0.02 %): ok; the
            target held it for 5.01 ms by its ledger, which leaves 0.99 % outside of it
          too few requests were answered to know p99
          1.2 % of the requests were sent more than 250 µs late; others had the
            generator's cores for at most 1.00 ms, which explains up to 8.3 % of them
          the path without a target, p50: 48.5 µs by the null target, 60.0 µs by the
          ledger of a target without a hold; they agree (within 50 % or 25.0 µs)

        The machine was quiet: others took no more of the generator's cores in any run
        than a verdict allows. The targets' cores aren't watched.
        These figures are of the loopback: across a network the floor is higher.
        written  c.json
        saved    /home/me/.cache/truetail/c.json
                 runs on core 1-2 with --wait hybrid are checked against it:
                 near_ceiling, below_floor
        ");
    }

    #[test]
    fn disturbed_figures_are_marked_and_enable_no_reason() {
        let mut of = calibration();
        let capacity = of.capacity.as_mut().expect("one");
        capacity.open[1].disturbed = true;
        of.waits[1].disturbed = true;
        of.floors[0].disturbed = true;
        of.costs[0] = Cost {
            pairs: vec![[4.5, 4.25], [4.5, 4.0]],
            range_us: [0.25, 0.5],
            disturbed: true,
            ..of.costs[0].clone()
        };
        assert_eq!(reasons(&of), "near_ceiling of closed loops alone");
        of.floors.push(Floor { share: 0.1, tail_disturbed: true, ..of.floors[0].clone() });
        of.floors[1].disturbed = false;
        let sections = [Section::Waits, Section::Capacity, Section::Floors, Section::Costs];
        let text: String = sections.into_iter().map(|one| section(&of, one)).collect();
        insta::assert_snapshot!(text, @r"
        late at 1,000/s      sends: p50      p99   receives: p50      p99
          --wait sleep          9.50 µs  21.0 µs         13.0 µs  31.0 µs
          --wait hybrid          150 ns  21.0 µs         13.0 µs  31.0 µs  disturbed

        capacity         rate/s   busy  CPU/request  late p99
          closed, 64    233,726   99 %      4.25 µs
          open          116,863   80 %      4.25 µs   40.0 µs  kept up
          open          151,922   80 %      4.25 µs   40.0 µs  sent 98.31 %  disturbed
        closed-loop peak 233,726/s with 64 connections: the generator's core was the
                         bound.
        open-loop limit  116,863/s is the highest rate that kept up, 151,922/s the
                         lowest that didn't, and others took as much of the machine as
                         was missing, so it may be higher. Keeping up means that 99.9 %
                         of the plan is sent, and the backlog grows by at most 0.1 % of
                         it.

        floor at share of              naive                corrected        CPU per
        capacity   rate/s     p50     p99   p99.9      p50     p99   p99.9   request
            1 %     1,169 33.7 µs 60.1 µs     n/a  33.9 µs 66.0 µs     n/a   4.25 µs
           10 %     1,169 33.7 µs 60.1 µs     n/a  33.9 µs 66.0 µs     n/a   4.25 µs
          disturbed at 1 %: others used the machine there, so no run is checked against
            it
          p99 and above disturbed at 10 %: others used the machine there

        CPU per request that a feature adds
          --raw          +0.250 µs (+0.250 to +0.500 in 2 pairs of runs)  disturbed
        ");
        of.capacity = None;
        of.floors[0].disturbed = false;
        assert_eq!(reasons(&of), "below_floor");
    }

    #[test]
    fn failures_that_others_may_have_caused_are_not_judged() {
        let by = |run: &str| Disturbance {
            run: run.to_owned(),
            number: 7,
            evidence: "a shard waited for its core 48.00 % of the time; the limit is 1.00 %".into(),
            times_limit: 48.0,
        };
        let mut of = overhead();
        of.at[0].share = 0.08;
        of.late.taken = Taken { stolen_s: Some(0.0), waited_s: 0.002, unseen_s: 0.01 };
        of.late.by_others = 0.012;
        of.runs = 3;
        (of.judgement, of.disturbed) = (Judgement::NotJudged, vec![by("5 ms target")]);
        let path = of.path.as_mut().expect("a path");
        (path.judgement, path.disturbed) = (Judgement::NotJudged, vec![by("null target")]);
        insta::assert_snapshot!(super::overhead(&of), @r"
        overhead         target of 5.00 ms: the generator must add less than 5 % of
                         corrected latency
          p50: 5.06 ms corrected, of which the generator added 1.10 µs (8.00 %): more,
            but not judged; the target held it for 5.01 ms by its ledger, which leaves
            0.99 % outside of it
          too few requests were answered to know p99
          1.2 % of the requests were sent more than 250 µs late; others had the
            generator's cores for at most 12.0 ms, which explains up to 100.0 % of them
          not quiet: 5 ms target: a shard waited for its core 48.00 % of the time; the
            limit is 1.00 %
          3 runs ended like this; repeat it when the machine is quiet
          the path without a target, p50: 48.5 µs by the null target, 60.0 µs by the
          ledger of a target without a hold; they differ, but that isn't judged (within
          50 % or 25.0 µs)
          not quiet: null target: a shard waited for its core 48.00 % of the time; the
            limit is 1.00 %
        ");
    }

    #[test]
    fn missing_figures_are_left_out_and_disturbances_named() {
        let taken = "other processes ran for 48.00 % of the cores' time; the limit is 1.00 %";
        let found = |number, run: &str, times_limit| Disturbance {
            run: run.to_owned(),
            number,
            evidence: taken.to_owned(),
            times_limit,
        };
        let disturbed = vec![
            found(4, "closed loop, 16 connections", 2.0),
            found(1, "1,000/s, sleep", 48.0),
            found(3, "1,000/s, spin", 1.5),
            found(3, "1,000/s, spin", 1.2),
            found(9, "closed loop, 16 connections", 1.1),
        ];
        let of = Calibration {
            interrupted: true,
            cores: vec![0],
            waits: Vec::new(),
            capacity: Some(Capacity { bound: Bound::Unknown, ..capacity() }),
            floors: Vec::new(),
            costs: Vec::new(),
            overhead: None,
            disturbed,
            ..calibration()
        };
        insta::assert_snapshot!(whole(&of), @r"
        A Processor, Linux 6.12.1; generator on core 0, targets on core 0; --wait hybrid
        Generator and target share a core: each waits for the other, so peak and limit
        are those of both together, and latencies and lateness contain such waits.

        clock            resolution 1 ns, smallest step 20 ns; 25 ns to read, 50 ns for
                         a stamp

        capacity         rate/s   busy  CPU/request  late p99
          closed, 64    233,726   99 %      4.25 µs
          open          116,863   80 %      4.25 µs   40.0 µs  kept up
          open          151,922   80 %      4.25 µs   40.0 µs  sent 98.31 %
        closed-loop peak 233,726/s with 64 connections: its bound is unknown, since
                         others used the machine as well.
        open-loop limit  116,863/s is the highest rate that kept up, 151,922/s the
                         lowest that didn't. Keeping up means that 99.9 % of the plan is
                         sent, and the backlog grows by at most 0.1 % of it.

        Ended early: missing figures were not measured.
        The machine was not quiet: others used it in 4 of 40 runs, so figures may be
        worse than its own. The worst:
          1,000/s, sleep: other processes ran for 48.00 % of the cores' time; the limit
            is 1.00 %
          closed loop, 16 connections: other processes ran for 48.00 % of the cores'
            time; the limit is 1.00 %
          1,000/s, spin: other processes ran for 48.00 % of the cores' time; the limit
            is 1.00 %
        These figures are of the loopback: across a network the floor is higher.
        written  c.json
        ");
    }
}
