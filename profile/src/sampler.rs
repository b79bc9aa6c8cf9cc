//! The fallback sampler without perf: a signal of the process's own timer, and a handler that walks
//! the stack of the interrupted thread.
//!
//! It sees user space only. A system call that the signal interrupts is repeated: by the kernel, or
//! by the shard, whose ring treats EINTR like a wait that ended early.

use pprof::{Frames, ProfilerGuard, ProfilerGuardBuilder, Symbol, UnresolvedReport};

use crate::names::{INLINED, simplified};
use crate::stacks::Stacks;

/// The sampler of this process; there can be one at a time.
pub(crate) struct Sampler {
    frequency: i32,
    running: Option<ProfilerGuard<'static>>,
    taken: Option<UnresolvedReport>,
}

impl Sampler {
    /// A sampler of this many samples per second of processor time, as far as the kernel's tick
    /// allows. Code that it loads at its first use is loaded now.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn new(frequency: u32) -> Result<Sampler, String> {
        let frequency = i32::try_from(frequency).expect("thousands at most");
        let mut sampler = Sampler { frequency, running: None, taken: None };
        sampler.start()?;
        sampler.running = None;
        Ok(sampler)
    }

    /// Starts taking samples.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let guard = ProfilerGuardBuilder::default().frequency(self.frequency).build();
        self.running = Some(guard.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Takes no more samples.
    ///
    /// # Errors
    /// The samples can't be read back.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        if let Some(running) = self.running.take() {
            let taken = running.report().build_unresolved();
            self.taken = Some(taken.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// The stacks, by name.
    pub(crate) fn finish(mut self) -> Stacks {
        let mut stacks = Stacks::default();
        let taken = self.taken.take().map(|taken| taken.data).unwrap_or_default();
        for (unresolved, samples) in taken {
            let frames = Frames::from(unresolved);
            let folded: Vec<String> = frames.frames.iter().rev().flat_map(|at| named(at)).collect();
            let thread = frames.thread_name_or_id();
            let samples = u64::try_from(samples).unwrap_or(0);
            stacks.add(thread.trim_end_matches('-'), &folded.join(";"), samples);
        }
        stacks
    }
}

/// The functions at one address, the outermost first: one, and those inlined into it.
fn named(symbols: &[Symbol]) -> Vec<String> {
    let name = |symbol: &Symbol| match simplified(&symbol.name()).as_str() {
        "Unknown" => "[unknown]".to_owned(),
        name => name.replace(';', ":"),
    };
    let (inlined, outermost) = symbols.split_at(symbols.len().saturating_sub(1));
    let outermost = outermost.iter().map(name);
    outermost.chain(inlined.iter().rev().map(|symbol| name(symbol) + INLINED)).collect()
}
