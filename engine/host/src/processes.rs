//! The other processes that used some cores, from the accounts in `/proc` at both ends of a
//! stretch.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use report::machine::Contender;
use sys::stat::{Stat, TICK_NS};
use units::SECOND_NS;

/// The most processes to name.
const NAMED: usize = 3;
/// How many of the busiest to examine thread by thread.
const CANDIDATES: usize = 10;

/// The CPU time of every process so far, ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Processes(HashMap<u32, u64>);

impl Processes {
    /// Reads the accounts of all processes visible in `/proc`, one file each.
    pub(super) fn read() -> Processes {
        let each = numbered(Path::new("/proc"));
        Processes(each.filter_map(|pid| Some((pid, process(pid)?.ticks()))).collect())
    }

    /// The processes, other than this one, with the most CPU time since `before` and a thread on
    /// one of these cores; busiest first.
    pub(super) fn busiest_since(&self, before: &Processes, cores: &[usize]) -> Vec<Contender> {
        let took = |(pid, ticks): (&u32, &u64)| {
            let ticks = ticks.saturating_sub(before.0.get(pid).copied().unwrap_or(0));
            (0 < ticks && *pid != std::process::id()).then_some((*pid, ticks))
        };
        let mut busy: Vec<(u32, u64)> = self.0.iter().filter_map(took).collect();
        busy.sort_by_key(|(pid, ticks)| (std::cmp::Reverse(*ticks), *pid));
        busy.into_iter()
            .take(CANDIDATES)
            .filter_map(|(pid, ticks)| {
                let name = process(pid)?.name;
                let core = core_of(pid, ticks, cores)?;
                let cpu_s = (ticks * TICK_NS) as f64 / SECOND_NS as f64;
                Some(Contender { name, pid, cpu_s, core })
            })
            .take(NAMED)
            .collect()
    }
}

/// The core, among these, on which a thread with a good part of its process's ticks was last seen.
fn core_of(pid: u32, ticks: u64, cores: &[usize]) -> Option<usize> {
    let folder = format!("/proc/{pid}/task");
    let threads =
        numbered(Path::new(&folder)).filter_map(|thread| stat(&format!("{folder}/{thread}/stat")));
    let on_cores = |thread: &Stat| cores.contains(&thread.core) && ticks <= 10 * thread.ticks();
    threads.filter(on_cores).max_by_key(Stat::ticks).map(|thread| thread.core)
}

/// The entries of a folder that are numbers.
fn numbered(folder: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn process(pid: u32) -> Option<Stat> {
    stat(&format!("/proc/{pid}/stat"))
}

fn stat(file: &str) -> Option<Stat> {
    Stat::parse(&fs::read_to_string(file).ok()?)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_busy_process_is_named_with_its_core() {
        let before = Processes::read();
        let mut busy = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let took = || process(busy.id()).map_or(0, |stat| stat.ticks());
        while took() < 20 {
            std::thread::yield_now();
        }
        let now = Processes::read();
        let cores = sys::placement::online_cores();
        let all = Processes(now.0.into_iter().filter(|(pid, _)| *pid == busy.id()).collect());
        let found = all.busiest_since(&before, &cores);
        busy.kill().expect("it runs");
        busy.wait().expect("it ended");
        let [only] = &found[..] else { panic!("one process: {found:?}") };
        assert_eq!((only.name.as_str(), only.pid), ("sh", busy.id()));
        assert!(0.2 <= only.cpu_s && cores.contains(&only.core), "{only:?}");
        let own = Processes(HashMap::from([(std::process::id(), u64::MAX)]));
        assert_eq!(own.busiest_since(&before, &cores), [], "this process isn't listed");
    }
}
