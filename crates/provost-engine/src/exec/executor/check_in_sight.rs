//! Shows the output of a check while it runs. The verdict does not depend on it: what is shown is a copy.

use std::sync::{Mutex, PoisonError};

use provost_core::model::event::CheckSubject;
use provost_core::model::plan::{Shell, Stream};
use provost_core::model::transcript::TranscriptEntry;
use provost_core::model::verdict::Verdict;
use provost_host::Interrupted;

use super::Executor;
use super::check::CheckOrder;
use crate::exec::live::LiveOutput;

impl Executor<'_> {
    /// Runs the check of a step, and shows its output meanwhile to people who watch.
    pub(super) fn judge_in_sight(&self, order: &CheckOrder, shell: &Shell) -> Result<Verdict, Interrupted> {
        let is_of_step = match order.subject {
            CheckSubject::Precondition(_) | CheckSubject::Contract(_) | CheckSubject::Final(_) => true,
            CheckSubject::Control(_) | CheckSubject::Postcondition(_) => false,
        };
        if order.known || !is_of_step {
            return self.judge(order, shell);
        }
        let live = LiveOutput::new(self.ground.state(), &self.site.id, order.step());
        let texts = Mutex::new(<[Utf8Text; 2]>::default());
        let listener = |stream: Stream, bytes: &[u8]| {
            let mut texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
            let text = match stream {
                Stream::Stdout => texts[0].take(bytes),
                Stream::Stderr => texts[1].take(bytes),
            };
            if !text.is_empty() {
                live.hear(TranscriptEntry::Text { text });
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| live.show(|text| self.clean(text)));
            let _over = live.until_dropped();
            self.judge_shown_to(order, shell, Some(&listener))
        })
    }
}

/// Bytes of a stream as text; a character whose bytes arrive apart stays whole.
#[derive(Default)]
struct Utf8Text(Vec<u8>);

impl Utf8Text {
    fn take(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        // At most three bytes wait for the rest of their character.
        let open = match std::str::from_utf8(&self.0) {
            Err(error) if error.error_len().is_none() => self.0.split_off(error.valid_up_to()),
            _ => Vec::new(),
        };
        let text = String::from_utf8_lossy(&self.0).into_owned();
        self.0 = open;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Utf8Text;

    #[test]
    fn a_character_whose_bytes_arrive_apart_stays_whole() {
        let mut text = Utf8Text::default();
        let bytes = "a→b".as_bytes();
        assert_eq!([&bytes[..2], &bytes[2..3], &bytes[3..]].map(|part| text.take(part)), ["a", "", "→b"]);
        assert_eq!(text.take(b"x\xffy"), "x\u{fffd}y");
    }
}
