//! The processes whose parent is this one: what a tool leaves behind ends up here.
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
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process that has ended since is no child.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name in parentheses may have spaces and parentheses of its own.
        let Some((_, rest)) = stat.rsplit_once(')') else { continue };
        let mut fields = rest.split_whitespace();
        let (state, parent) = (fields.next(), fields.next().and_then(|field| field.parse().ok()));
        if let (Some(pid), true) = (Pid::from_raw(pid), parent == Some(own)) {
            children.push(Child { pid, has_ended: state == Some("Z") });
        }
    }
    Ok(children)
}
