//! The full-screen view of a run (`--live`): its terminal, its keys, and the core that draws it.
//!
//! It is drawn on standard error by the thread that follows the run. That thread moves to a core
//! without a shard once all other threads have been started, since these would inherit it, and back
//! when the view closes. It asks the terminal that it draws on for the screen's size, not the one
//! that controls the process, which may be a different one or none. However the program ends, the
//! terminal is restored.

mod history;
mod screen;

use std::io::{self, BufWriter, IsTerminal as _, Stderr, stderr, stdin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use console::Term;
use engine::plan::Plan;
use engine::run::{Health, RunProgress};
use engine::sys::placement;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use signal_hook::consts::SIGINT;
use signal_hook::low_level;

use crate::failure::Failure;
use crate::recent::Second;
use history::History;
use screen::Screen;

/// The size of a terminal that doesn't report one: rows and columns.
const USUAL_SIZE: (u16, u16) = (24, 80);

/// How long a program that ends waits for its terminal.
const LEAVE_MAX: Duration = Duration::from_millis(100);

/// True while the view has the terminal.
static ON_SCREEN: AtomicBool = AtomicBool::new(false);

/// Checks that there is a terminal to draw on and to read keys from.
///
/// # Errors
/// There is none, as a usage error.
pub(crate) fn require_terminal() -> Result<(), Failure> {
    let missing = match (stderr().is_terminal(), stdin().is_terminal()) {
        (true, true) => return Ok(()),
        (false, _) => "standard error, where it is drawn,",
        (true, false) => "standard input, where its keys come from,",
    };
    Err(Failure::Usage(format!(
        "--live: {missing} isn't a terminal; omit it, or give --progress lines"
    )))
}

/// Restores the terminal, if the view has it.
pub(crate) fn leave_screen() {
    if ON_SCREEN.swap(false, Ordering::AcqRel) {
        // If that fails, no one can see it.
        let _ = disable_raw_mode();
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
    }
}

/// The same for a program that ends: it doesn't wait for a terminal that is stuck.
pub(crate) fn leave_screen_at_last() {
    if !ON_SCREEN.load(Ordering::Acquire) {
        return;
    }
    let Ok(leaving) = thread::Builder::new().spawn(leave_screen) else { return };
    let until = Instant::now() + LEAVE_MAX;
    while !leaving.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The terminal, drawn in one piece.
type Screenful = Terminal<CrosstermBackend<BufWriter<Stderr>>>;

/// The view while it has the terminal.
pub(crate) struct Live {
    terminal: Screenful,
    size: Rect,
    history: History,
    core: Option<usize>,
    /// The thread's affinity before.
    cores: Option<CpuSet>,
}

impl Live {
    /// Takes the terminal, and moves this thread to a core without a shard if there is one: threads
    /// that it starts from now on would inherit that core.
    ///
    /// # Errors
    /// The terminal refuses.
    pub(crate) fn open(shards: &[usize]) -> io::Result<Live> {
        let size = size();
        enable_raw_mode()?;
        ON_SCREEN.store(true, Ordering::Release);
        let opened = execute!(stderr(), EnterAlternateScreen).and_then(|()| clear(size));
        let terminal = opened.inspect_err(|_| leave_screen())?;
        let core = placement::core_away_from(shards);
        let cores = core.and_then(|core| {
            let before = sched_getaffinity(None).ok()?;
            let mut one = CpuSet::new();
            one.set(core);
            sched_setaffinity(None, &one).ok()?;
            Some(before)
        });
        let core = core.filter(|_| cores.is_some());
        Ok(Live { terminal, size, history: History::default(), core, cores })
    }

    /// Draws a run.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn draw(
        &mut self,
        plan: &Plan,
        now: &RunProgress,
        health: &Health,
        second: Option<&Second>,
    ) -> io::Result<()> {
        self.history.look(now, health);
        if self.size != size() {
            self.size = size();
            self.terminal = clear(self.size)?;
        }
        let screen = Screen { plan, now, second, history: &self.history, core: self.core };
        self.terminal.draw(|frame| screen::draw(frame, &screen))?;
        Ok(())
    }

    /// Waits this long for a key that closes the view; returns whether it came. In this mode the
    /// terminal doesn't turn Ctrl-C into a signal, so it is raised here.
    pub(crate) fn wait(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let next =
                event::poll(left).and_then(|is_there| is_there.then(event::read).transpose());
            match next {
                Ok(Some(Event::Key(key))) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        // The handler is installed before a run begins.
                        let _ = low_level::raise(SIGINT);
                        return true;
                    }
                    KeyCode::Char('q') | KeyCode::Esc => return true,
                    _ => {}
                },
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(_) => {
                    thread::sleep(left);
                    return false;
                }
            }
            if left.is_zero() {
                return false;
            }
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        leave_screen();
        if let Some(cores) = &self.cores {
            let _ = sched_setaffinity(None, cores);
        }
    }
}

/// An empty screen of this size. A new size means a new one, since resizing asks the terminal that
/// controls the process for the size.
fn clear(size: Rect) -> io::Result<Screenful> {
    execute!(stderr(), Clear(ClearType::All))?;
    let backend = CrosstermBackend::new(BufWriter::new(stderr()));
    Terminal::with_options(backend, TerminalOptions { viewport: Viewport::Fixed(size) })
}

/// The current size of the terminal.
fn size() -> Rect {
    let (rows, columns) = Term::stderr().size_checked().unwrap_or(USUAL_SIZE);
    Rect::new(0, 0, columns, rows)
}
