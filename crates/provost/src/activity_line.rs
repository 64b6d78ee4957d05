//! Says what provost is busy with: in a line on a terminal, and from time to time where there is none.

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use provost_engine::activity;

/// Something that is over sooner is not shown.
const NOTICEABLE: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(120);
/// Time between two lines without a terminal.
const PLAIN: Duration = Duration::from_secs(10);

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

/// Prints lines on stderr until it is dropped.
pub(crate) struct PlainLines(#[expect(dead_code, reason = "its end ends the thread")] Sender<()>);

/// Prints what provost is busy with, each time that it has taken a while more: for logs of CI.
pub(crate) fn plain_lines() -> PlainLines {
    lines_every(PLAIN, |line| eprintln!("{line}"))
}

fn lines_every(interval: Duration, print: impl Fn(String) + Send + 'static) -> PlainLines {
    let (sender, receiver) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        while receiver.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            if let Some(current) = activity::current() {
                print(format!("… {current}"));
            }
        }
    });
    PlainLines(sender)
}

/// Shows what provost is busy with while `work` runs, if that takes long.
pub(crate) fn during<T>(work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        let _lines = plain_lines();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_a_line_says_what_takes_long() {
        let (sender, receiver) = mpsc::channel();
        let activity = activity::Activity::begin("installing the dependencies");
        let lines = lines_every(Duration::from_millis(1), move |line| {
            let _ = sender.send(line);
        });
        assert_eq!(receiver.recv().as_deref(), Ok("… installing the dependencies"));
        drop(activity);
        drop(lines);
        // It ends with its owner, and so does what it prints to.
        while receiver.recv().is_ok() {}
    }
}
