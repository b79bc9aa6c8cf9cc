//! The processes of this machine, and those whose parent is this one: what a tool leaves behind ends
//! up here.
//!
//! This process is a subreaper while tools run, so a process whose parent has ended becomes its
//! child, whichever group or session it has moved to.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

/// How often what is left is looked for, and how long apart: what has been killed is gone within
/// milliseconds, and each round finds the children of those that ended in the last one.
const ROUNDS: usize = 400;
const ROUND: Duration = Duration::from_millis(5);
/// Rounds in which nothing is killed: a process may end right after its parent.
const GRACE: usize = 20;

/// The children of this process at a time.
pub(crate) struct Children(BTreeSet<i32>);

/// A child as /proc shows it.
struct Child {
    pid: Pid,
    has_ended: bool,
}

impl Children {
    /// Notes the children that are there, and takes in the orphans of those to come.
    pub(crate) fn before() -> io::Result<Children> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Children(all()?.iter().map(|child| child.pid.as_raw_nonzero().get()).collect()))
    }

    /// Ends every child that has come since, and theirs; returns how many were still running.
    pub(crate) fn end_others(&self) -> io::Result<usize> {
        let mut running = BTreeSet::new();
        for round in 0..ROUNDS {
            let others = all()?.into_iter();
            let others: Vec<Child> = others
                .filter(|child| !self.0.contains(&child.pid.as_raw_nonzero().get()))
                .collect();
            if others.is_empty() {
                return Ok(running.len());
            }
            for child in others {
                if !child.has_ended && GRACE <= round {
                    running.insert(child.pid.as_raw_nonzero().get());
                    // It may have ended by itself: as our child it keeps its number until then.
                    let _ = kill_process(child.pid, Signal::KILL);
                }
                let _ = waitpid(Some(child.pid), WaitOptions::NOHANG);
            }
            thread::sleep(ROUND);
        }
        Err(io::Error::other("a process of the tool's can't be ended"))
    }
}

fn all() -> io::Result<Vec<Child>> {
    let own = getpid().as_raw_nonzero().get();
    let children = processes()?.filter(|process| process.parent == own);
    let child = |process: Process| {
        Some(Child { pid: Pid::from_raw(process.pid)?, has_ended: process.has_ended })
    };
    Ok(children.filter_map(child).collect())
}

/// A process as /proc shows it.
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    has_ended: bool,
    /// Its time, with that of the children that it has waited for, clock ticks.
    pub(crate) ticks: u64,
    /// Its scheduling policy.
    pub(crate) policy: u64,
}

/// All processes.
pub(crate) fn processes() -> io::Result<impl Iterator<Item = Process>> {
    let process = |entry: io::Result<fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        let pid: i32 = name.to_str()?.parse().ok()?;
        // A process that has ended since is none.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may have spaces and parentheses of its own.
        let (_, rest) = stat.rsplit_once(')')?;
        // From the third on (proc_pid_stat(5)).
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Process {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            has_ended: *fields.first()? == "Z",
            ticks: (14..=17).filter_map(number).sum(),
            policy: number(41)?,
        })
    };
    Ok(fs::read_dir("/proc")?.filter_map(process))
}
