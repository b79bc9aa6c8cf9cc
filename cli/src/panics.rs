//! A panic of any thread ends the process.

use std::panic;
use std::process;

use super::live;

/// Exit code of a panic, a fault of this program: the one that Rust's own programs end with.
const EXIT_PANIC: i32 = 101;

/// From now on, a panic of any thread ends the process once it has been printed. A run whose shard
/// is gone would never end.
pub(crate) fn end_on_panic() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        live::leave_screen();
        print(panicked);
        process::exit(EXIT_PANIC);
    }));
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// How long the process may take to end.
    const LONGEST: Duration = Duration::from_secs(30);

    #[test]
    fn a_panic_of_any_thread_ends_the_process() {
        let tests = env::current_exe().expect("this binary");
        let panics = ["--ignored", "--exact", "panics::tests::a_thread_panics_and_is_awaited"];
        let output = Command::new(tests).args(panics).arg("--nocapture").output();
        let output = output.expect("it ran");
        assert_eq!(output.status.code(), Some(EXIT_PANIC), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("a shard's fault"), "{stderr}");
        assert!(!stderr.contains("it went on"), "{stderr}");
    }

    #[test]
    #[ignore = "ends the process; another test starts it in one of its own"]
    fn a_thread_panics_and_is_awaited() {
        end_on_panic();
        let (word, awaited) = mpsc::channel::<()>();
        thread::spawn(|| panic!("a shard's fault"));
        let _ = awaited.recv_timeout(LONGEST);
        drop(word);
        panic!("it went on");
    }
}
