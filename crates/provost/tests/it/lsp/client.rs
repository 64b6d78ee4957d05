//! A client of the language server: it starts `provost lsp` and talks JSON-RPC with it.

use std::io::{BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::env::Env;

/// Time after which an answer that does not come is a failure.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<Result<Value, String>>,
    /// Messages that nothing waited for yet.
    seen: Vec<Value>,
    last_id: u64,
}

impl Client {
    /// Starts the server and initializes it.
    pub(crate) fn start(env: &Env) -> Self {
        let mut client = Self::uninitialized(env);
        let publishing = json!({ "relatedInformation": true });
        let answer = client.request(
            "initialize",
            json!({
                "processId": std::process::id(),
                "rootUri": format!("file://{}", env.work().display()),
                "capabilities": { "textDocument": { "publishDiagnostics": publishing } },
            }),
        );
        assert_eq!(answer["serverInfo"]["name"], "provost", "{answer}");
        client.notify("initialized", json!({}));
        client
    }

    pub(crate) fn uninitialized(env: &Env) -> Self {
        let mut command = env.command(&["lsp", "--stdio"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("provost");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        let (send, output) = mpsc::channel();
        std::thread::spawn(move || {
            loop {
                let next = message(&mut stdout);
                let is_end = !matches!(next, Some(Ok(_)));
                let _ = next.map(|next| send.send(next));
                if is_end {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, output, seen: Vec::new(), last_id: 0 }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let body = message.to_string();
        self.write(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    /// Writes any bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("an open input");
        input.write_all(bytes).and_then(|()| input.flush()).expect("written");
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Asks, and returns the result.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Asks, and returns the message of the error.
    #[track_caller]
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> String {
        let answer = self.ask(method, params);
        answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {answer}")).to_owned()
    }

    #[track_caller]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        self.wait(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Waits for a message.
    #[track_caller]
    pub(crate) fn wait(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&is_it) {
            return self.seen.remove(at);
        }
        let end = Instant::now() + LIMIT;
        loop {
            match self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Ok(message)) if is_it(&message) => return message,
                Ok(Ok(message)) => self.seen.push(message),
                Ok(Err(error)) => panic!("not a message: {error}"),
                Err(RecvTimeoutError::Timeout) => panic!("no answer in {LIMIT:?}; so far {:#?}", self.seen),
                Err(RecvTimeoutError::Disconnected) => panic!("the server has ended; {:#?}", self.seen),
            }
        }
    }

    #[track_caller]
    pub(crate) fn shown(&mut self) -> String {
        let message = self.wait(|message| message["method"] == "window/showMessage");
        message["params"]["message"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn open(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "markdown", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    /// Replaces the whole text.
    pub(crate) fn replace(&mut self, uri: &str, version: i64, text: &str) {
        self.change(uri, version, json!([{ "text": text }]));
    }

    pub(crate) fn change(&mut self, uri: &str, version: i64, changes: Value) {
        let document = json!({ "uri": uri, "version": version });
        self.notify("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    /// Waits for the diagnostics of this version.
    #[track_caller]
    pub(crate) fn diagnostics(&mut self, uri: &str, version: i64) -> Vec<Value> {
        let message = self.wait(|message| {
            let params = &message["params"];
            message["method"] == "textDocument/publishDiagnostics"
                && params["uri"] == uri
                && params["version"] == version
        });
        message["params"]["diagnostics"].as_array().cloned().expect("a list")
    }

    /// Returns how many diagnostics arrived that nothing waited for.
    pub(crate) fn unread_diagnostics(&self) -> usize {
        self.seen.iter().filter(|message| message["method"] == "textDocument/publishDiagnostics").count()
    }

    /// Asks about the place before `needle` in a text.
    #[track_caller]
    pub(crate) fn at(&mut self, method: &str, uri: &str, text: &str, needle: &str) -> Value {
        self.request(method, place(uri, text, needle))
    }

    /// Ends the server as the protocol says, and returns its exit code.
    pub(crate) fn finish(mut self) -> Option<i32> {
        self.request("shutdown", Value::Null);
        self.notify("exit", Value::Null);
        self.child.wait().expect("ended").code()
    }

    /// Closes the input, and returns the exit code.
    pub(crate) fn hang_up(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().expect("ended").code()
    }

    pub(crate) fn exit_code(mut self) -> Option<i32> {
        self.child.wait().expect("ended").code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the parameters of a request about the place before `needle`.
#[track_caller]
pub(crate) fn place(uri: &str, text: &str, needle: &str) -> Value {
    let at = text.find(needle).unwrap_or_else(|| panic!("no {needle:?}"));
    json!({ "textDocument": { "uri": uri }, "position": position(text, at) })
}

/// Returns the position of a byte, counted here by the rules of the protocol.
pub(crate) fn position(text: &str, at: usize) -> Value {
    let before = &text[..at];
    let line = before.matches('\n').count();
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    json!({ "line": line, "character": before[start..].encode_utf16().count() })
}

/// Reads a message; `None` at the end. Anything else on the output is an error.
fn message(output: &mut impl std::io::BufRead) -> Option<Result<Value, String>> {
    let mut header = String::new();
    loop {
        let mut line = String::new();
        match output.read_line(&mut line) {
            Ok(0) if header.is_empty() && line.is_empty() => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error.to_string())),
        }
        if line == "\r\n" {
            break;
        }
        header.push_str(&line);
        if !header.starts_with("Content-Length: ") {
            return Some(Err(header));
        }
    }
    let length = header.trim().strip_prefix("Content-Length: ").and_then(|length| length.parse().ok());
    let Some(length) = length else { return Some(Err(header)) };
    let mut body = vec![0; length];
    if let Err(error) = output.read_exact(&mut body) {
        return Some(Err(error.to_string()));
    }
    Some(serde_json::from_slice(&body).map_err(|error| error.to_string()))
}
