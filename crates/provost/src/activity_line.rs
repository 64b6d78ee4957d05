//! The line on a terminal that says what provost is busy with.

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use provost_engine::activity;

/// Something that is over sooner is not shown.
const NOTICEABLE: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(120);

/// Starts a line on stderr: what provost is busy with, then the message that the caller sets.
pub(crate) fn with_message() -> ProgressBar {
    start("{spinner} {activity}{wide_msg} {elapsed}", "", " · ")
}

fn start(template: &str, idle: &'static str, separator: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.with_key(
            "activity",
            move |_: &ProgressState, line: &mut dyn std::fmt::Write| {
                let _ = match activity::current() {
                    Some(current) => write!(line, "{current}{separator}"),
                    None => line.write_str(idle),
                };
            },
        ));
    }
    bar.enable_steady_tick(TICK);
    bar
}

/// Shows what provost is busy with while `work` runs, if that takes long and stderr is a terminal.
pub(crate) fn during<T>(work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let (sender, receiver) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if receiver.recv_timeout(NOTICEABLE) == Err(RecvTimeoutError::Timeout) {
                let bar = start("{spinner} {activity} {elapsed}", "working", "");
                let _ = receiver.recv();
                bar.finish_and_clear();
            }
        });
        // A panic drops it too, or the scope would wait for ever.
        let _until_here = sender;
        work()
    })
}
