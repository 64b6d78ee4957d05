//! Messages of the language server protocol: JSON after a header with its length.
//!
//! **Invariant:** every message that arrived whole is answered or read; an invalid one never ends the server.
//! **Invariant:** a message is written at once, also if several threads write.

use std::io::{self, BufRead, Read as _, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

/// Largest message, in bytes. A plan has at most 16 MiB, and JSON may need two bytes for one.
const LARGEST: u64 = 64 << 20;
/// Longest line of a header, in bytes.
const LONGEST_LINE: u64 = 4096;

/// Error codes of JSON-RPC and of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorCode {
    Parse = -32700,
    InvalidRequest = -32600,
    MethodNotFound = -32601,
    InvalidParams = -32602,
    Internal = -32603,
    NotInitialized = -32002,
    /// The request is valid, and cannot be done here.
    RequestFailed = -32803,
}

/// The next thing on the input.
#[derive(Debug, PartialEq)]
pub(super) enum Received {
    Message(Value),
    /// Something that is no message, and why.
    Malformed(String),
    /// The client has closed the input.
    End,
}

pub(super) fn read(input: &mut impl BufRead) -> io::Result<Received> {
    let mut length = None;
    let mut lines = 0;
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(Received::End);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse::<u64>().ok();
            }
            Some(_) => {}
            // Empty lines before a header are harmless.
            None if line.is_empty() && lines == 0 => continue,
            None if line.is_empty() => break,
            None => return Ok(Received::Malformed("a line that is not a header".to_owned())),
        }
        lines += 1;
    }
    let Some(length) = length else {
        return Ok(Received::Malformed("a header without Content-Length".to_owned()));
    };
    if length > LARGEST {
        io::copy(&mut input.by_ref().take(length), &mut io::sink())?;
        return Ok(Received::Malformed(format!("a message of {length} bytes; at most {LARGEST} are read")));
    }
    let mut body = Vec::new();
    if (input.by_ref().take(length).read_to_end(&mut body)? as u64) < length {
        return Ok(Received::End);
    }
    Ok(match serde_json::from_slice(&body) {
        Ok(value) => Received::Message(value),
        Err(error) => Received::Malformed(format!("invalid JSON: {error}")),
    })
}

/// Writes messages to the client.
#[derive(Clone)]
pub(super) struct Outbox {
    to: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl Outbox {
    pub(super) fn new(to: impl Write + Send + 'static) -> Self {
        Self { to: Arc::new(Mutex::new(Box::new(to))) }
    }

    pub(super) fn answer(&self, id: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    pub(super) fn fail(&self, id: &Value, code: ErrorCode, message: &str) {
        let error = json!({ "code": code as i32, "message": message });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    pub(super) fn notify(&self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Shows a message to the person at the editor.
    pub(super) fn show(&self, kind: Kind, message: &str) {
        self.notify("window/showMessage", json!({ "type": kind as u8, "message": message }));
    }

    fn send(&self, message: &Value) {
        let body = message.to_string();
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        // A client that no longer reads has also closed the input, which ends the server.
        let _ = write!(to, "Content-Length: {}\r\n\r\n{body}", body.len()).and_then(|()| to.flush());
    }
}

/// The kind of a message that is shown to a person.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Error = 1,
    Warning = 2,
    Info = 3,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Received> {
        let mut input = bytes;
        let mut found = Vec::new();
        loop {
            match read(&mut input).unwrap() {
                Received::End => return found,
                other => found.push(other),
            }
        }
    }

    #[test]
    fn messages_are_read_one_after_the_other() {
        let bytes = b"Content-Length: 2\r\n\r\n{}content-length:3\r\nContent-Type: x\r\n\r\n[1]";
        assert_eq!(all(bytes), [Received::Message(json!({})), Received::Message(json!([1]))]);
    }

    #[test]
    fn after_an_invalid_message_the_next_one_is_read() {
        let bytes = b"hello\nContent-Length: 3\r\n\r\n{]}X-Other: 1\r\n\r\nContent-Length: 2\r\n\r\n{}";
        let found = all(bytes);
        let is_malformed = |found: &Received| matches!(found, Received::Malformed(_));
        assert_eq!(
            found.iter().map(is_malformed).collect::<Vec<_>>(),
            [true, true, true, false],
            "{found:?}"
        );
    }

    #[test]
    fn a_message_that_ends_too_early_is_the_end() {
        assert_eq!(all(b"Content-Length: 10\r\n\r\n{}"), []);
        assert_eq!(all(b""), []);
        // A length that no machine has does not reserve memory.
        assert_eq!(all(b"Content-Length: 9999999999999\r\n\r\n{}").len(), 1);
    }
}
