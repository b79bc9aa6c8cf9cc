//! Whether the cores that a run would use can keep time: how late each wakes for the times of a
//! regular schedule, and how much of it the hypervisor takes.

use std::time::Duration;
use std::{io, thread};

use plan::thresholds::Thresholds;
use stats::distribution::Distribution;
use sys::lead::Lead;
use sys::topology::{Attachment, Topology};
use sys::{clock, placement};

use super::check::{Check, Severity, cores};
use super::ticks;

/// How long the cores are probed, all at once.
const PROBED: Duration = Duration::from_secs(2);
/// The interval of the schedule, ns.
const EVERY_NS: u64 = 1_000_000;
/// Lateness at p99.9, µs, below which a core that sleeps until an arrival is as good as most.
const TAIL_US: f64 = 1_000.0;

/// The results of one core.
#[derive(Debug)]
struct Kept {
    core: usize,
    /// How late the times of the schedule were noticed.
    lateness: Distribution,
    /// Share of the core's time that the hypervisor took; `None` if the kernel doesn't report it.
    steal: Option<f64>,
}

/// Probes for 2 s the cores that a run would use by default against a local target, waiting like a
/// run.
pub fn check_timekeeping() -> Vec<Check> {
    let allowed = placement::allowed_cores();
    let used = Topology::here().default_cores(&allowed, &Attachment::here("lo"));
    let (kept, unprobed) = probe(&used, PROBED);
    let mut checks = judge(&kept, &Thresholds::default());
    checks.extend(unprobed.into_iter().map(|(core, error)| not_probed(core, &error)));
    checks
}

/// The results of the cores, and the errors of those that couldn't be probed.
fn probe(cores: &[usize], probed: Duration) -> (Vec<Kept>, Vec<(usize, io::Error)>) {
    let before = ticks::now();
    let threads: Vec<_> = cores
        .iter()
        .map(|&core| {
            let thread = thread::Builder::new().spawn(move || ticked(core, probed));
            (core, thread)
        })
        .collect();
    let ticked: Vec<_> = threads
        .into_iter()
        .map(|(core, thread)| {
            (core, thread.and_then(|thread| thread.join().expect("it only waits")))
        })
        .collect();
    let after = ticks::now();
    let steal = |core: &usize| {
        let spent = after.get(core)?.since(before.get(core)?);
        spent.share(spent.steal)
    };
    let (mut kept, mut unprobed) = (Vec::new(), Vec::new());
    for (core, ticked) in ticked {
        match ticked {
            Ok(lateness) => kept.push(Kept { core, lateness, steal: steal(&core) }),
            Err(error) => unprobed.push((core, error)),
        }
    }
    (kept, unprobed)
}

/// How late this thread, on this core, notices the times of a schedule.
///
/// # Errors
/// It can't be moved there.
fn ticked(core: usize, probed: Duration) -> io::Result<Distribution> {
    placement::move_to([core])?;
    clock::set_timer_slack();
    let (mut lateness, mut lead) = (Distribution::new(), Lead::default());
    let begin_ns = clock::now_ns();
    let moments = u64::try_from(probed.as_nanos()).expect("some seconds") / EVERY_NS;
    for moment in 1..=moments {
        let due_ns = begin_ns + moment * EVERY_NS;
        let wake_ns = due_ns.saturating_sub(lead.ns());
        let mut now_ns = clock::now_ns();
        if now_ns < wake_ns {
            thread::sleep(Duration::from_nanos(wake_ns - now_ns));
            now_ns = clock::now_ns();
            lead.slept(wake_ns, now_ns);
        }
        while now_ns < due_ns {
            std::hint::spin_loop();
            let polled_ns = now_ns;
            now_ns = clock::now_ns();
            lead.spun_past(polled_ns, now_ns);
        }
        lateness.record(now_ns - due_ns);
    }
    Ok(lateness)
}

fn not_probed(core: usize, error: &io::Error) -> Check {
    let found = format!("core {core}: not probed: {error}");
    let cause = "how late a run on it would send isn't known";
    let cure = "let threads start and run there (pids.max, cpuset), or give a run other --cores";
    Check::bad(TIMEKEEPING, Severity::Warning, found, cause, cure)
}

fn judge(kept: &[Kept], bounds: &Thresholds) -> Vec<Check> {
    // How far a core exceeds the permitted lateness of a run: for most requests, and in the tail,
    // where a run also shows each stall.
    let excess = |kept: &Kept| {
        let us = |quantile| kept.lateness.quantile_ns(quantile).unwrap_or(0) as f64 / 1e3;
        [us(0.99) / bounds.lateness_floor_us, us(0.999) / TAIL_US]
    };
    let worst = |kept: &Kept| excess(kept).into_iter().fold(0.0, f64::max);
    let latest = kept.iter().max_by(|one, other| worst(one).total_cmp(&worst(other)));
    let robbed = kept.iter().filter_map(|kept| Some((kept.core, kept.steal?)));
    let robbed = robbed.max_by(|one, other| one.1.total_cmp(&other.1));
    let worst_of = |core: usize| match kept.len() {
        1 => format!("core {core}"),
        all => format!("core {core}, the worst of {}", cores(all)),
    };
    let lateness = latest.map(|latest| {
        let us = |q| latest.lateness.quantile_ns(q).unwrap_or(0) as f64 / 1e3;
        let found = format!(
            "{}: {:.1} µs late at p50, {:.1} at p99, {:.1} at p99.9, {:.1} at most",
            worst_of(latest.core),
            us(0.5),
            us(0.99),
            us(0.999),
            us(1.0)
        );
        let (name, quantile) = match excess(latest) {
            [most, _] if 1.0 < most => ("p99", 0.99),
            [_, tail] if 1.0 < tail => ("p99.9", 0.999),
            _ => return Check::good(TIMEKEEPING, found),
        };
        let cause = format!(
            "a run sends as late: with a corrected {name} below {:.1} ms it will be suspect \
             (client_share)",
            us(quantile) / bounds.client_share / 1e3
        );
        Check::bad(TIMEKEEPING, Severity::Warning, found, cause, CURE)
    });
    let name = "steal";
    let steal = robbed.map_or(Check::unknown(name, "/proc/stat can't be read"), |(core, steal)| {
        let found = format!("{}: the hypervisor took {:.2} %", worst_of(core), steal * 100.0);
        if steal <= bounds.stolen {
            return Check::good(name, found);
        }
        let cause = "what it takes is in every latency, and a run will be suspect \
                     (cpu_stolen)";
        Check::bad(name, Severity::Warning, found, cause, "use a host that isn't shared")
    });
    lateness.into_iter().chain([steal]).collect()
}

const TIMEKEEPING: &str = "timekeeping";

const CURE: &str = "stop what else runs on these cores, or keep it off them (isolcpus, a cpuset); \
                    give a virtual machine cores of its own";

#[cfg(test)]
mod tests {
    use super::*;

    /// A core with this many times in 100 noticed `late_us` late, and the others at once.
    fn kept(core: usize, late: u64, late_us: u64, steal: Option<f64>) -> Kept {
        let mut lateness = Distribution::new();
        for moment in 0..100 {
            lateness.record(if moment < late { late_us * 1_000 } else { 100 });
        }
        Kept { core, lateness, steal }
    }

    #[test]
    fn a_core_that_keeps_time_is_good() {
        let checks = judge(&[kept(1, 1, 900, Some(0.0))], &Thresholds::default());
        let found: Vec<_> = checks.iter().map(|check| (check.name, check.severity)).collect();
        assert_eq!(found, [("timekeeping", Severity::Good), ("steal", Severity::Good)]);
        assert!(checks[0].found.starts_with("core 1: 0.1 µs late at p50, 0.1 at p99, 9"));
    }

    #[test]
    fn a_core_that_pauses_now_and_then_is_judged_by_its_tail() {
        let cores = [kept(1, 0, 0, None), kept(2, 1, 5_000, None), kept(3, 5, 19, None)];
        let [late, _] = &judge(&cores, &Thresholds::default())[..] else { panic!("two checks") };
        assert_eq!(late.severity, Severity::Warning, "{late}");
        assert!(late.found.starts_with("core 2, the worst of 3 cores: "), "{late}");
        // 5 % of 100 ms is 5 ms.
        assert!(late.to_string().contains("with a corrected p99.9 below 100.0 ms"), "{late}");
    }

    #[test]
    fn a_core_that_cannot_be_probed_is_named() {
        // No kernel has this many.
        let (kept, unprobed) = probe(&[1_023], Duration::from_millis(1));
        let [(core, error)] = &unprobed[..] else { panic!("{kept:?}") };
        let check = not_probed(*core, error);
        assert_eq!(check.severity, Severity::Warning);
        assert!(check.found.starts_with("core 1023: not probed: Invalid argument"), "{check}");
    }

    #[test]
    fn the_worst_core_is_named_with_what_a_run_on_it_would_show() {
        let cores = [kept(1, 0, 0, Some(0.02)), kept(2, 5, 100, Some(0.0)), kept(3, 9, 50, None)];
        let checks = judge(&cores, &Thresholds::default());
        assert!(checks.iter().all(|check| check.severity == Severity::Warning), "{checks:?}");
        let [late, steal] = &checks[..] else { panic!("{checks:?}") };
        assert!(late.found.starts_with("core 2, the worst of 3 cores: "), "{late}");
        // 5 % of 2 ms is 100 µs.
        assert!(late.to_string().contains("a corrected p99 below 2.0 ms"), "{late}");
        assert_eq!(steal.found, "core 1, the worst of 3 cores: the hypervisor took 2.00 %");
    }

    #[test]
    fn steal_that_cant_be_read_is_unknown() {
        let checks = judge(&[kept(1, 0, 0, None)], &Thresholds::default());
        let found: Vec<_> = checks.iter().map(|check| (check.name, check.severity)).collect();
        assert_eq!(found, [("timekeeping", Severity::Good), ("steal", Severity::Unknown)]);
    }

    #[test]
    fn a_core_is_probed_once_per_interval() {
        let core = placement::allowed_cores()[0];
        let (kept, unprobed) = probe(&[core], Duration::from_millis(50));
        assert_eq!((kept.len(), unprobed.len()), (1, 0));
        assert_eq!((kept[0].core, kept[0].lateness.count()), (core, 50));
    }
}
