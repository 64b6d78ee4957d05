//! Prints the failure of a test when it happens. The test runner prints it after the last test.

#![allow(clippy::disallowed_methods)]

use std::io::Write as _;
use std::sync::Once;

/// Most characters that are printed.
const SHOWN: usize = 4000;

/// Prints each failure of this process from now on to standard error, besides the runner's own report.
pub fn print_at_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            let text: String = panic.to_string().chars().take(SHOWN).collect();
            // The macros would be captured by the test runner.
            let _ = writeln!(std::io::stderr(), "{}: {text}", thread.name().unwrap_or("a thread"));
            usual(panic);
        }));
    });
}
