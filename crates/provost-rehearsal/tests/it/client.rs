//! A minimal HTTP client for the tests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

pub(crate) struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// The connection broke before the answer was complete.
    pub is_cut: bool,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the data of each event that is JSON, with the event's name under `event:`.
    pub(crate) fn events(&self) -> Vec<Value> {
        let mut events = Vec::new();
        for block in self.body.split("\n\n") {
            let data = block.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default();
            let name = block.lines().find_map(|line| line.strip_prefix("event: "));
            let Ok(mut value) = serde_json::from_str::<Value>(data) else { continue };
            if let Some(name) = name {
                assert_eq!(value["type"], name, "the event is named by its type");
            }
            value["event:"] = name.into();
            events.push(value);
        }
        events
    }
}

pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn to(url: &str) -> Self {
        let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
        Self { reader: BufReader::new(TcpStream::connect(address).unwrap()) }
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) {
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        self.reader.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Answer {
        let mut first = String::new();
        if self.reader.read_line(&mut first).unwrap_or(0) == 0 {
            return Answer { status: 0, headers: Vec::new(), body: String::new(), is_cut: true };
        }
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, body: String::new(), is_cut: false };
        let mut bytes = Vec::new();
        match answer.header("content-length").map(|length| length.parse().unwrap()) {
            Some(length) => {
                let got = self.reader.by_ref().take(length).read_to_end(&mut bytes).unwrap_or(0);
                answer.is_cut = u64::try_from(got).unwrap() < length;
            }
            None => answer.is_cut = !self.chunks(&mut bytes),
        }
        answer.body = String::from_utf8(bytes).unwrap();
        answer
    }

    /// Returns one piece of a stream as soon as it arrives.
    pub(crate) fn piece(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line(), 16).ok().filter(|size| *size > 0)?;
        let mut bytes = vec![0; size];
        self.reader.read_exact(&mut bytes).unwrap();
        self.line();
        Some(bytes)
    }

    pub(crate) fn skip_head(&mut self) {
        while !self.line().is_empty() {}
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads chunks; returns whether the last one arrived.
    fn chunks(&mut self, into: &mut Vec<u8>) -> bool {
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or(0) == 0 {
                return false;
            }
            let size = usize::from_str_radix(line.trim(), 16).unwrap();
            let mut bytes = vec![0; size + 2];
            if self.reader.read_exact(&mut bytes).is_err() {
                return false;
            }
            into.extend_from_slice(&bytes[..size]);
            if size == 0 {
                return true;
            }
        }
    }
}

pub(crate) fn ask(url: &str, path: &str, body: &Value) -> Answer {
    let mut client = Client::to(url);
    client.send("POST", path, "", &body.to_string());
    client.receive()
}

pub(crate) fn get(url: &str, path: &str, headers: &str) -> Answer {
    let mut client = Client::to(url);
    client.send("GET", path, headers, "");
    client.receive()
}

pub(crate) const MESSAGES: &str = "/v1/messages";
pub(crate) const RESPONSES: &str = "/v1/responses";
pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const GEMINI: &str = "/v1beta/models/gemini-2.5-pro:generateContent";
pub(crate) const GEMINI_STREAM: &str = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse";

/// Returns a request in the format of the path's API.
pub(crate) fn question(path: &str, text: &str, is_stream: bool) -> Value {
    use serde_json::json;
    match path {
        RESPONSES => json!({ "model": "gpt-5", "input": text, "stream": is_stream }),
        GEMINI | GEMINI_STREAM => json!({ "contents": [{ "role": "user", "parts": [{ "text": text }] }] }),
        _ => json!({
            "model": "scripted-1", "max_tokens": 100, "stream": is_stream,
            "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": text }],
        }),
    }
}
