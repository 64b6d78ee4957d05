//! Takes and restores the terminal: raw mode, the alternate screen, the mouse, pasted text, the cursor.
//!
//! Every end of the program restores the terminal first: a normal end, an error, a panic of any thread, a
//! signal. While the program is stopped (`Ctrl-Z`, SIGTSTP) the shell has the terminal in its old state.
//!
//! **Invariant:** [`leave`] may be called at any time, by any thread, more than once, and writes only if the
//! terminal is taken.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::failure::Failure;
use crate::outcome;

/// Alternate screen, bracketed paste, hidden cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?2004h\u{1b}[?25l";
/// Buttons and the wheel, in the form that wide terminals need. Mouse moves are not reported, because each
/// would wake the program.
const MOUSE: &str = "\u{1b}[?1000h\u{1b}[?1006h";
const NO_MOUSE: &str = "\u{1b}[?1006l\u{1b}[?1000l";
const LEAVE: &str = "\u{1b}[?1006l\u{1b}[?1000l\u{1b}[?2004l\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l";

static TAKEN: AtomicBool = AtomicBool::new(false);
/// Lock for writing to the screen.
static PEN: Mutex<()> = Mutex::new(());

/// Restores the terminal when it is dropped.
pub(super) struct Guard {
    mouse: bool,
}

impl Guard {
    pub(super) fn take(mouse: bool) -> Result<Self, Failure> {
        on_panic();
        let guard = Self { mouse };
        guard.enter()?;
        Ok(guard)
    }

    /// Takes the terminal again, after [`leave`] or after a shell had it.
    pub(super) fn enter(&self) -> Result<(), Failure> {
        let failed = |source| Failure::Io { what: "take the terminal".to_owned(), source };
        TAKEN.store(true, Ordering::SeqCst);
        // Another program may have changed the mode meanwhile.
        let _ = disable_raw_mode();
        enable_raw_mode().map_err(failed)?;
        write(ENTER).map_err(failed)?;
        if self.mouse { write(MOUSE).map_err(failed) } else { Ok(()) }
    }

    /// Turns the mouse on or off; without it, a terminal lets people select text.
    pub(super) fn mouse(&mut self, wanted: bool) {
        self.mouse = wanted;
        let _ = write(if wanted { MOUSE } else { NO_MOUSE });
    }

    pub(super) fn has_mouse(&self) -> bool {
        self.mouse
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        leave();
    }
}

/// Restores the terminal.
pub(super) fn leave() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = write(LEAVE);
        let _ = disable_raw_mode();
    }
}

fn write(sequence: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(sequence.as_bytes())?;
    out.flush()
}

/// Locks the screen for drawing, so that nothing is drawn on a restored terminal.
pub(super) fn pen() -> MutexGuard<'static, ()> {
    PEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Restores the terminal and ends the program after a signal, whatever else runs. Waits a limited time for a
/// terminal that accepts no output (stopped, or on a stalled connection).
pub(super) fn end(code: u8) -> ! {
    let mut pen = None;
    for _ in 0..20 {
        match PEN.try_lock() {
            Ok(free) => pen = Some(free),
            Err(TryLockError::Poisoned(poisoned)) => pen = Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(50)),
        }
        if pen.is_some() {
            break;
        }
    }
    match pen {
        Some(_) => leave(),
        // A thread is blocked while drawing; the modes can be reset anyway.
        None => drop(disable_raw_mode()),
    }
    signal_hook::low_level::exit(i32::from(code))
}

/// Restores the terminal before a panic message is printed, which would otherwise vanish with the screen.
fn on_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let was_taken = TAKEN.load(Ordering::SeqCst);
            leave();
            usual(panic);
            // Other threads would continue drawing.
            if was_taken {
                signal_hook::low_level::exit(i32::from(outcome::BROKEN));
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    #[ignore = "takes the terminal: another test starts it on one of its own"]
    fn panics_while_the_terminal_is_taken() {
        let _guard = Guard::take(true).expect("a terminal");
        panic!("a panic that can be read");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_is_told() {
        let program = std::env::current_exe().expect("this test");
        let inside = "watch::guard::tests::panics_while_the_terminal_is_taken";
        let typed =
            format!("'{}' --ignored --exact {inside} --nocapture; echo code=$?; stty -a", program.display());
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &typed, "/dev/null"]).env("TERM", "xterm");
        let Ok(output) = script.stdin(Stdio::null()).output() else {
            return provost_rehearsal::skip::tool("script", "apt-get install bsdutils");
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(ENTER), "{said:?}");
        let (_, after) = said.rsplit_once(LEAVE).unwrap_or_else(|| panic!("{said:?}"));
        assert!(after.contains("a panic that can be read"), "{after:?}");
        assert!(after.contains(&format!("code={}", outcome::BROKEN)), "{after:?}");
        let modes: Vec<&str> = after.split_whitespace().collect();
        for mode in ["icanon", "echo", "isig", "opost", "icrnl"] {
            assert!(modes.contains(&mode), "{mode} is off: {after:?}");
        }
    }
}
