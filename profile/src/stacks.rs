//! Sampled stacks, folded: one line for each, from the thread to the innermost function, with its
//! number of samples.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options};

use crate::names::{INLINED, KERNEL, innermost, simplified};
use crate::symbols::Symbols;

/// Stacks with their samples. A stack's frames are joined by `;`, the thread's name first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks(BTreeMap<String, u64>);

/// The lowest kernel address, on every supported architecture.
const KERNEL_BEGIN: u64 = 1 << 63;

impl Stacks {
    /// The stacks in the output of `perf script --no-inline -F comm,tid,time,event,ip,sym,dso`,
    /// completed with this process's knowledge of its own code.
    ///
    /// # Errors
    /// The parser could not read it.
    pub(crate) fn of_perf_script(text: &str, symbols: &mut Symbols) -> io::Result<Stacks> {
        let mut options = Options::default();
        options.annotate_kernel = true;
        options.nthreads = 1;
        let mut folded = Vec::new();
        Folder::from(options).collapse(tidied(text, symbols).as_bytes(), &mut folded)?;
        let mut stacks = Stacks::default();
        for line in String::from_utf8_lossy(&folded).lines() {
            if let Some((stack, samples)) = line.rsplit_once(' ') {
                let samples = samples.parse().map_err(io::Error::other)?;
                // The kernel cuts a thread's name, and with it the number at its end.
                let (thread, frames) = stack.split_once(';').unwrap_or((stack, ""));
                stacks.add(thread.trim_end_matches('-'), frames, samples);
            }
        }
        Ok(stacks)
    }

    /// Adds samples of a thread; its frames, joined by `;`, end with the innermost.
    pub(crate) fn add(&mut self, thread: &str, frames: &str, samples: u64) {
        *self.0.entry(format!("{thread};{frames}")).or_default() += samples;
    }

    /// All samples.
    pub fn samples(&self) -> u64 {
        self.0.values().sum()
    }

    /// Samples whose innermost function is the kernel's.
    pub fn kernel(&self) -> u64 {
        self.iter().filter(|(stack, _)| stack.ends_with(KERNEL)).map(|(_, samples)| samples).sum()
    }

    /// Each stack with its samples.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(stack, samples)| (stack.as_str(), *samples))
    }

    /// Functions by their own samples: name, whether it is the kernel's, samples; most first.
    pub fn own(&self) -> Vec<(String, bool, u64)> {
        let mut own: Vec<_> = by_function(self.iter())
            .into_iter()
            .map(|((name, kernel), samples)| (name, kernel, samples))
            .collect();
        // A stable sort keeps equals in the order of their names.
        own.sort_by_key(|(_, _, samples)| std::cmp::Reverse(*samples));
        own
    }
}

/// A value of all stacks by their innermost function: its name, and whether it is the kernel's.
pub(crate) fn by_function<'a>(
    stacks: impl Iterator<Item = (&'a str, u64)>,
) -> BTreeMap<(String, bool), u64> {
    let mut own = BTreeMap::new();
    for (stack, weight) in stacks {
        *own.entry(innermost(stack)).or_default() += weight;
    }
    own
}

/// The sampling event, as perf names it.
pub(crate) fn event(script: &str) -> Option<&str> {
    let head = script.lines().find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let event = head.trim_end().trim_end_matches(':').rsplit(' ').next()?;
    (!event.is_empty()).then_some(event)
}

/// The output of perf with inlined functions and short names, without unknown frames, and with
/// modules that distinguish the kernel from user space, as the brackets of `[vdso]` don't.
fn tidied(script: &str, symbols: &mut Symbols) -> String {
    let mut tidy = String::with_capacity(script.len());
    for sample in script.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let Some(head) = lines.next() else { continue };
        let _ = writeln!(tidy, "{}", named(head, symbols).as_deref().unwrap_or(head));
        let length = tidy.len();
        lines.for_each(|line| frames(line, symbols, &mut tidy));
        if tidy.len() == length {
            tidy.push_str("\t0 [unknown] ([unknown])\n");
        }
        tidy.push('\n');
    }
    tidy
}

/// The first line of a sample with its thread's name; `None` if no better one is known.
fn named(head: &str, symbols: &Symbols) -> Option<String> {
    let (thread, rest) = head.split_once(": ")?;
    let mut words = thread.rsplit(' ').filter(|word| !word.is_empty());
    let (time, number) = (words.next()?, words.next()?);
    let name = symbols.thread(number.parse().ok()?)?;
    Some(format!("{name} {number} {time}: {rest}"))
}

/// Adds the frames of one line of a stack; none if it is empty.
fn frames(line: &str, symbols: &mut Symbols, tidy: &mut String) {
    let Some((address, rest)) = line.trim_start().split_once(' ') else { return };
    let (symbol, module) = rest.rsplit_once(" (").unwrap_or((rest, "[unknown]"));
    let module = module.trim_end_matches(')');
    if symbol == "[unknown]" && module == "[unknown]" {
        return;
    }
    let at = u64::from_str_radix(address, 16).unwrap_or(0);
    if KERNEL_BEGIN <= at {
        let _ = writeln!(tidy, "\t{address} {symbol} ([kernel.kallsyms])");
        return;
    }
    let inlined = usize::try_from(at).map(|at| symbols.inlined_at(module, at));
    let module = module.trim_matches(['[', ']']);
    for name in inlined.unwrap_or_default() {
        let _ = writeln!(tidy, "\t{address} {name}{INLINED} ({module})");
    }
    let _ = writeln!(tidy, "\t{address} {} ({module})", simplified(symbol));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three samples of a run as perf 6.1 prints them, and one unknown one.
    const SCRIPT: &str = include_str!("../tests/recorded.script");

    #[test]
    fn recorded_stacks_go_from_the_thread_to_the_kernel() {
        let stacks = Stacks::of_perf_script(SCRIPT, &mut Symbols::default()).expect("stacks");
        // One frame a line, as long lines can't be read.
        let lines: Vec<String> = stacks
            .iter()
            .map(|(stack, samples)| format!("{samples}:\n{}", stack.replace(';', "\n")))
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        1:
        truetail-shard
        [unknown]
        1:
        truetail-shard
        glommio::task::raw::RawTask::run
        shard::request::turn
        __vdso_clock_gettime
        1:
        truetail-shard
        glommio::task::raw::RawTask::run
        shard::request::turn
        shard::request::reap
        http1::response::head::parse
        httparse::parse_headers_iter_uninit
        1:
        truetail-shard
        glommio::task::raw::RawTask::run
        shard::request::turn
        shard::request::reap
        shard::request::end
        shard::request::record
        record::recorder::Recorder::ended
        hdrhistogram::Histogram::record_n_inner
        1:
        truetail-shard
        glommio::task::raw::RawTask::run
        shard::request::turn
        shard::request::reap
        shard::request::ready
        uring::ring::Ring::enter
        syscall
        entry_SYSCALL_64_after_hwframe_[k]
        do_syscall_64_[k]
        __do_sys_io_uring_enter_[k]
        io_submit_sqes_[k]
        io_issue_sqe_[k]
        __io_issue_sqe_[k]
        io_send_[k]
        sock_sendmsg_[k]
        tcp_sendmsg_[k]
        tcp_sendmsg_locked_[k]
        __tcp_push_pending_frames_[k]
        tcp_write_xmit_[k]
        __tcp_transmit_skb_[k]
        __ip_queue_xmit_[k]
        ip_output_[k]
        ip_finish_output2_[k]
        __dev_queue_xmit_[k]
        __local_bh_enable_ip_[k]
        do_softirq.part.0_[k]
        handle_softirqs_[k]
        net_rx_action_[k]
        skb_defer_free_flush_[k]
        1:
        truetail-shard
        glommio::task::raw::RawTask::run
        shard::request::turn
        uring::ring::Ring::enter
        syscall
        entry_SYSCALL_64_after_hwframe_[k]
        do_syscall_64_[k]
        __do_sys_io_uring_enter_[k]
        io_cqring_wait_[k]
        __io_run_local_work_[k]
        __io_run_local_work_loop_[k]
        io_poll_task_func_[k]
        io_poll_issue_[k]
        __io_issue_sqe_[k]
        io_recvmsg_[k]
        io_recvmsg_multishot.constprop.0_[k]
        sock_recvmsg_[k]
        inet_recvmsg_[k]
        ");
        assert_eq!((stacks.samples(), stacks.kernel()), (6, 2));
        assert_eq!(event(SCRIPT), Some("cpu-clock"));
    }

    #[test]
    fn a_functions_own_samples_are_those_with_it_innermost() {
        let mut stacks = Stacks::default();
        for (frames, samples) in
            [("a;b_[k]", 3), ("a;c;b_[k]", 2), ("a;b", 4), ("a;c_[i]", 2), ("e;c_[i]", 1)]
        {
            stacks.add("shard", frames, samples);
        }
        let own = stacks.own();
        let own: Vec<_> = own.iter().map(|(name, kernel, own)| (&**name, *kernel, *own)).collect();
        assert_eq!(
            own,
            [("b", true, 5), ("b", false, 4), ("c in a", false, 2), ("c in e", false, 1)]
        );
    }

    #[test]
    fn other_output_has_no_stacks() {
        for text in ["", "\n\n", "# only a comment\n"] {
            assert_eq!(
                Stacks::of_perf_script(text, &mut Symbols::default()).expect("nothing"),
                Stacks::default()
            );
            assert_eq!(event(text), None);
        }
    }
}
