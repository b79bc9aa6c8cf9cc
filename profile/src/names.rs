//! Names of functions as shown in a graph, and their suffixes in stacks.

/// The suffix of a kernel function, as in all flamegraph tools.
pub(crate) const KERNEL: &str = "_[k]";
/// The suffix of a function that was inlined into its caller.
pub(crate) const INLINED: &str = "_[i]";

/// The function in which a shard polls while nothing is due.
pub const POLLING: &str = "shard::polling::poll";
/// The prefix of the names of the shards' threads.
const SHARD: &str = "truetail-shard";

/// The purpose of a stack's processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Requests, on a shard's thread.
    Requests,
    /// Waiting, on a shard's thread, without giving up the core.
    Polling,
    /// The run as a whole, on other threads: the same for few requests as for many.
    Run,
}

/// The purpose of a stack's processor time.
pub(crate) fn purpose(stack: &str) -> Purpose {
    if !stack.starts_with(SHARD) {
        Purpose::Run
    } else if stack.split(';').any(|frame| plain(frame).0 == POLLING) {
        Purpose::Polling
    } else {
        Purpose::Requests
    }
}

/// A frame's label in a graph: the last two names of a path, so that a narrow frame shows those.
pub(crate) fn label(frame: &str) -> &str {
    if frame.starts_with('<') {
        return frame;
    }
    frame.rmatch_indices("::").nth(1).map_or(frame, |(at, _)| &frame[at + 2..])
}

/// The innermost function of a stack, and whether it is the kernel's. An inlined one comes with the
/// function that contains its code: there are many of its name.
pub(crate) fn innermost(stack: &str) -> (String, bool) {
    let mut frames = stack.rsplit(';');
    let frame = frames.next().unwrap_or(stack);
    let (name, kernel) = plain(frame);
    let outer = frames.find(|frame| !frame.ends_with(INLINED));
    match outer {
        Some(outer) if frame.ends_with(INLINED) => {
            (format!("{name} in {}", plain(outer).0), kernel)
        }
        _ => (name.to_owned(), kernel),
    }
}

/// A frame's name without its suffix; true for a kernel function.
pub(crate) fn plain(frame: &str) -> (&str, bool) {
    match frame.strip_suffix(KERNEL) {
        Some(name) => (name, true),
        None => (frame.strip_suffix(INLINED).unwrap_or(frame), false),
    }
}

/// A Rust name without generic arguments, which are longer than the rest of it, and without the
/// type of an `impl` in another module.
pub(crate) fn simplified(name: &str) -> String {
    let mut kept = String::with_capacity(name.len());
    let mut depth = 0_usize;
    let mut previous = None;
    for character in name.chars() {
        // The arrow of a function's type closes nothing.
        let closes = character == '>' && previous != Some('-');
        let opens = character == '<'
            && match previous {
                None => false,
                Some(':') => true,
                Some(before) => before.is_alphanumeric() || "_}])".contains(before),
            };
        if character == '<' && (opens || 0 < depth) {
            depth += 1;
        } else if closes && 0 < depth {
            depth -= 1;
        } else if depth == 0 {
            kept.push(character);
        }
        previous = Some(character);
    }
    kept.replace("::::", "::").trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_arguments_are_left_out() {
        for (name, simple) in [
            ("tcp_sendmsg_locked", "tcp_sendmsg_locked"),
            ("uring::ring::Ring::enter", "uring::ring::Ring::enter"),
            ("glommio::task::raw::RawTask<F,R,S>::run", "glommio::task::raw::RawTask::run"),
            ("hdrhistogram::Histogram<T>::record", "hdrhistogram::Histogram::record"),
            ("core::ptr::read::<u64>", "core::ptr::read"),
            ("core::ptr::read::<u64>::inner", "core::ptr::read::inner"),
            ("shard::request::<impl shard::shard::Shard>::turn", "shard::request::turn"),
            (
                "<alloc::vec::Vec<u8, A> as core::ops::Drop>::drop",
                "<alloc::vec::Vec as core::ops::Drop>::drop",
            ),
            ("{async_block#0}<a::{closure_env#0}, Option<b<c>>>", "{async_block#0}"),
            ("call<fn(u8) -> Option<u8>, ()>", "call"),
            ("run<Pin<Box<T>>", "run"),
        ] {
            assert_eq!(simplified(name), simple);
        }
    }

    #[test]
    fn polling_and_other_threads_serve_no_request() {
        for (stack, of) in [
            ("truetail-shard;turn;send_[k]", Purpose::Requests),
            ("truetail-shard;turn;shard::polling::poll;now", Purpose::Polling),
            ("truetail-shard;turn;shard::polling::poll_[i];now_[i]", Purpose::Polling),
            ("truetail-shard;turn;shard::polling::pollute", Purpose::Requests),
            ("truetail;host::watch::look;read_[k]", Purpose::Run),
        ] {
            assert_eq!(purpose(stack), of, "{stack}");
        }
    }

    #[test]
    fn a_label_is_the_end_of_a_path() {
        for (frame, short) in [
            ("uring::ring::Ring::enter", "Ring::enter"),
            ("Ring::enter", "Ring::enter"),
            ("tcp_sendmsg_[k]", "tcp_sendmsg_[k]"),
            (
                "<alloc::vec::Vec as core::ops::Drop>::drop",
                "<alloc::vec::Vec as core::ops::Drop>::drop",
            ),
        ] {
            assert_eq!(label(frame), short);
        }
    }

    #[test]
    fn suffixes_show_the_kind_of_a_frame() {
        assert_eq!(plain("tcp_sendmsg_[k]"), ("tcp_sendmsg", true));
        assert_eq!(plain("reap_[i]"), ("reap", false));
        assert_eq!(plain("a::reap"), ("a::reap", false));
        for (stack, name, kernel) in [
            ("shard;a::turn;send_[k]", "send", true),
            ("shard;a::turn", "a::turn", false),
            ("shard;a::turn;now_[i];load_[i]", "load in a::turn", false),
            ("shard", "shard", false),
            ("", "", false),
        ] {
            assert_eq!(innermost(stack), (name.to_owned(), kernel));
        }
    }
}
