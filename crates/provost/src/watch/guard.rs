//! The terminal, taken and given back: raw mode, the alternate screen, the mouse, pasted text, the cursor.
//!
//! Whatever ends the program gives the terminal back first: the end of the view, an error, a panic of any
//! thread, a signal. While it is stopped (`Ctrl-Z`, SIGTSTP) the shell has its terminal as it was.
//!
//! **Invariant:** [`leave`] may be called at any time, by any thread, more than once, and writes only if
//! the terminal is taken.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::failure::Failure;
use crate::outcome;

/// The alternate screen, pasted text as such, no cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?2004h\u{1b}[?25l";
/// Buttons and the wheel, in the form that wide terminals need. Every move of the mouse would wake us.
const MOUSE: &str = "\u{1b}[?1000h\u{1b}[?1006h";
const NO_MOUSE: &str = "\u{1b}[?1006l\u{1b}[?1000l";
const LEAVE: &str = "\u{1b}[?1006l\u{1b}[?1000l\u{1b}[?2004l\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l";

static TAKEN: AtomicBool = AtomicBool::new(false);
/// Whoever writes to the screen has it.
static PEN: Mutex<()> = Mutex::new(());

/// Gives the terminal back when it is dropped.
pub struct Guard {
    mouse: bool,
}

impl Guard {
    pub fn take(mouse: bool) -> Result<Self, Failure> {
        on_panic();
        let guard = Self { mouse };
        guard.enter()?;
        Ok(guard)
    }

    /// Takes it once more, after [`leave`] or after a shell had it.
    pub fn enter(&self) -> Result<(), Failure> {
        let failed = |source| Failure::Io { what: "take the terminal".to_owned(), source };
        TAKEN.store(true, Ordering::SeqCst);
        // Whoever had it meanwhile may have changed what we believe to have set.
        let _ = disable_raw_mode();
        enable_raw_mode().map_err(failed)?;
        write(ENTER).map_err(failed)?;
        if self.mouse { write(MOUSE).map_err(failed) } else { Ok(()) }
    }

    /// Without it, a terminal lets text be marked with the mouse.
    pub fn mouse(&mut self, wanted: bool) {
        self.mouse = wanted;
        let _ = write(if wanted { MOUSE } else { NO_MOUSE });
    }

    pub fn has_mouse(&self) -> bool {
        self.mouse
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back, as it was.
pub fn leave() {
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

/// To be held while something is drawn, so that nobody draws on a screen that was just given back.
pub fn pen() -> MutexGuard<'static, ()> {
    PEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For a signal: gives the terminal back and ends the program, whatever else is under way. A terminal that
/// takes nothing any more (stopped, or behind a line that hangs) is waited for only so long.
pub fn end(code: u8) -> ! {
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
        // Somebody is stuck with half a picture: the modes can be set all the same.
        None => drop(disable_raw_mode()),
    }
    signal_hook::low_level::exit(i32::from(code))
}

/// A message of a panic is worth nothing on a screen that is about to vanish.
fn on_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let was_taken = TAKEN.load(Ordering::SeqCst);
            leave();
            usual(panic);
            // The others would go on drawing.
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
