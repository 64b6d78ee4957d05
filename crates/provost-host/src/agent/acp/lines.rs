//! Splits the bytes of an agent into JSON messages, one a line.

use serde_json::Value;

/// Longest line that is read, in bytes; a longer one ends the conversation.
const LINE_MAX: usize = 8 << 20;
/// Number of lines without a message that are ignored, as output of a program around the agent.
const NOISE_MAX: u32 = 100;

#[derive(Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    noise: u32,
    /// Reading has ended because of an error.
    shut: bool,
}

impl Lines {
    /// Passes each complete message to `each`. Returns the reason if the agent does not speak ACP.
    pub(super) fn take(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(Value)) -> Result<(), String> {
        while !self.shut && !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() > LINE_MAX {
                self.shut = true;
                return Err(format!(
                    "the agent does not speak ACP: it sent a line of more than {LINE_MAX} bytes"
                ));
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            bytes = &bytes[end + 1..];
            self.end_of_line(each)?;
        }
        Ok(())
    }

    fn end_of_line(&mut self, each: &mut dyn FnMut(Value)) -> Result<(), String> {
        let line = std::mem::take(&mut self.line);
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        match serde_json::from_slice::<Value>(&line).ok().filter(Value::is_object) {
            Some(message) => each(message),
            None => self.noise += 1,
        }
        if self.noise > NOISE_MAX {
            self.shut = true;
            return Err("the agent does not speak ACP: it prints lines that are not messages".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_MAX, Lines, NOISE_MAX};

    #[test]
    fn messages_come_in_any_pieces_and_noise_is_borne_for_a_while() {
        let text = b"starting\n{\"a\":1}\n\n{\"b\":\n{\"c\":3}\n";
        for size in [1, 2, 7, text.len()] {
            let (mut lines, mut heard) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.take(piece, &mut |message| heard.push(message.to_string())).expect("borne");
            }
            assert_eq!(heard, ["{\"a\":1}", "{\"c\":3}"], "pieces of {size}");
        }
        let mut lines = Lines::default();
        let noise = "noise\n".repeat(NOISE_MAX as usize + 1);
        assert!(lines.take(noise.as_bytes(), &mut |_| {}).is_err());
        lines.take(b"{}\n", &mut |_| panic!("shut")).expect("not read");
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let mut lines = Lines::default();
        let flood = vec![b'x'; LINE_MAX / 2 + 1];
        lines.take(&flood, &mut |_| {}).expect("a long line");
        assert!(lines.take(&flood, &mut |_| {}).is_err());
        assert!(lines.line.len() <= LINE_MAX);
    }
}
