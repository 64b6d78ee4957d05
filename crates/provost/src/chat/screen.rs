//! Prints a conversation as it happens: the text of the model, its calls, and how a turn ended.

use std::io::Write as _;

use provost_agent::agent::RunEnd;
use provost_agent::event::AgentEvent;
use provost_core::model::transcript::call_summary;

use crate::terminal;

pub(super) struct Screen {
    /// The text of the model appears as it arrives; otherwise only the last answer is printed.
    is_live: bool,
    /// The cursor is not at the beginning of a line.
    is_within_line: bool,
}

impl Screen {
    pub(super) fn new(is_live: bool) -> Self {
        Self { is_live, is_within_line: false }
    }

    /// Prints the answer to a single question.
    pub(super) fn answer(&mut self, text: &str) {
        self.write(text.trim_end());
        self.new_line();
    }

    pub(super) fn show(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Text(_) | AgentEvent::Thought(_) if !self.is_live => {}
            AgentEvent::Text(text) => self.write(text),
            AgentEvent::Thought(text) => self.write(&terminal::coloured(text, "2")),
            AgentEvent::Called { tool, arguments, .. } => {
                let call = format!("• {tool} {}", call_summary(arguments));
                self.line(&terminal::coloured(call.trim_end(), "36"));
            }
            AgentEvent::Compacted { before, after } => {
                self.line(&format!("the conversation was shortened from {before} to {after} tokens"));
            }
            AgentEvent::Retrying { after, why } => {
                self.line(&format!("{why}; next try in {} s", after.as_secs()));
            }
            _ => {}
        }
    }

    /// Ends the turn, and says why if the model did not end it.
    pub(super) fn end(&mut self, end: &RunEnd) {
        match end {
            RunEnd::Finished { .. } | RunEnd::Blocked { .. } => self.new_line(),
            RunEnd::Stopped => self.line("interrupted"),
            RunEnd::Unfinished { bound, .. } => self.line(&format!("the agent stopped: {bound}")),
            RunEnd::Failed(failure) => self.line(&format!("the model did not answer: {failure}")),
        }
    }

    fn write(&mut self, text: &str) {
        let mut out = std::io::stdout().lock();
        // The terminal is gone if this fails; the next question finds out.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        self.is_within_line = !text.ends_with('\n');
    }

    fn new_line(&mut self) {
        if self.is_within_line {
            self.write("\n");
        }
    }

    fn line(&mut self, text: &str) {
        self.new_line();
        terminal::talk(text);
    }
}
