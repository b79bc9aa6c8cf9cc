//! A pseudo-terminal that is not displayed, to measure the cost of drawing.

use std::fs::File;
use std::io::{self, Read as _};
use std::thread;

use console::Term;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

/// A terminal whose text is read and thrown away.
pub(crate) struct HiddenTerminal {
    far: File,
    far_too: File,
}

impl HiddenTerminal {
    /// Opens one. The thread that reads it ends when the terminal is closed.
    ///
    /// # Errors
    /// The kernel has no pseudo-terminal left, or refused a thread.
    pub(crate) fn open() -> io::Result<HiddenTerminal> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let near = openpt(flags)?;
        grantpt(&near)?;
        unlockpt(&near)?;
        let far = File::from(ioctl_tiocgptpeer(&near, flags)?);
        let far_too = far.try_clone()?;
        let mut near = File::from(near);
        thread::Builder::new().spawn(move || {
            let mut buffer = [0; 4_096];
            // Once the far end is closed, reading fails.
            while let Ok(1..) = near.read(&mut buffer) {}
        })?;
        Ok(HiddenTerminal { far, far_too })
    }

    /// The terminal to draw on.
    pub(crate) fn term(self) -> Term {
        Term::read_write_pair(self.far, self.far_too)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_terminal_and_takes_more_than_its_buffer() {
        let term = HiddenTerminal::open().expect("a terminal").term();
        assert!(term.is_term());
        for _ in 0..10_000 {
            term.write_line("a line that is never read").expect("taken");
        }
    }
}
