//! Reads an agent's request, checks it and prepares it for the upstream.

use std::io::{BufReader, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::Counter;
use super::api::{AllowedRequest, Form, No};
use super::http::{Framing, HttpHead};

/// Largest request body, in bytes; no provider accepts more.
const BODY_MAX: usize = 48 * 1024 * 1024;
/// Most bytes of all request bodies in memory, over all agents.
const IN_HAND_MAX: usize = 512 * 1024 * 1024;

static IN_HAND: AtomicUsize = AtomicUsize::new(0);

/// Headers that are meant for the meter, or that the meter sets itself; not forwarded.
const NOT_PASSED: [&str; 7] =
    ["host", "expect", "accept-encoding", "authorization", "x-api-key", "x-goog-api-key", "cookie"];

/// A request that was read and may pass.
pub(super) struct MeteredRequest {
    pub method: String,
    /// Path at the upstream, with its query.
    path: String,
    head: HttpHead,
    pub body: Vec<u8>,
    pub form: Option<Form>,
    pub model: Option<String>,
    /// The meter requested the usage in the stream, so it removes that event again.
    pub drops_usage: bool,
    pub is_11: bool,
}

/// Memory of a body, counted until it is sent.
#[derive(Default)]
pub(super) struct BodyMemory(usize);

impl BodyMemory {
    fn take(&mut self, count: usize) -> bool {
        self.0 += count;
        IN_HAND.fetch_add(count, Ordering::Relaxed) + count <= IN_HAND_MAX
    }
}

impl Drop for BodyMemory {
    fn drop(&mut self) {
        IN_HAND.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Reads a request, or returns the rejection. The limit is not checked here.
pub(super) fn read(
    counter: &Counter,
    reader: &mut BufReader<TcpStream>,
    head: HttpHead,
    held: &mut BodyMemory,
) -> Result<MeteredRequest, No> {
    let service = &counter.service;
    let first = head.first.clone();
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = words[..] else { return Err(No::now(400, "this is not a request")) };
    if !matches!(version, "HTTP/1.0" | "HTTP/1.1") || !target.starts_with('/') {
        return Err(No::now(400, "the meter speaks only HTTP/1.1"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if !is_let_in(&head, query, &counter.token) {
        return Err(No::now(401, "this is not the token of the running attempt"));
    }
    let asked = path.strip_prefix(service.api.base_path()).and_then(|path| service.api.asked(method, path));
    let Some(asked) = asked else {
        let why = format!("the meter blocks {method} {path}: it forwards only calls to the model");
        return Err(No::now(403, why));
    };
    let body = body(reader, &head, held)?;
    let path = path.strip_prefix(service.api.base_path()).unwrap_or(path);
    let query: Vec<&str> =
        query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("key=")).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let mut question = MeteredRequest {
        method: method.to_owned(),
        path: format!("{}{path}{query}", service.target.path()),
        is_11: version == "HTTP/1.1",
        form: None,
        model: None,
        drops_usage: false,
        head,
        body,
    };
    if let AllowedRequest::Answer(form) = asked {
        question.form = Some(form);
        question.understand(form, path)?;
    }
    Ok(question)
}

/// Returns whether the request has the token, in any of the ways in which clients of these APIs send a key.
fn is_let_in(head: &HttpHead, query: &str, token: &str) -> bool {
    let bearer = head.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let named = ["x-api-key", "x-goog-api-key"].map(|name| head.header(name));
    let in_query = query.split('&').find_map(|pair| pair.strip_prefix("key="));
    named
        .into_iter()
        .chain([bearer, in_query])
        .flatten()
        .any(|shown| is_same(shown.as_bytes(), token.as_bytes()))
}

/// Compares in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn body(reader: &mut BufReader<TcpStream>, head: &HttpHead, held: &mut BodyMemory) -> Result<Vec<u8>, No> {
    let unread = |_| No::now(400, "the body cannot be read");
    let Some(mut framing) = head.length().map_err(unread)? else { return Ok(Vec::new()) };
    let too_large = || No::now(413, format!("a request may have at most {} MiB", BODY_MAX >> 20));
    if matches!(framing, Framing::Length(length) if length > BODY_MAX as u64) {
        return Err(too_large());
    }
    if head.header("content-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(No::now(415, "requests must not be compressed"));
    }
    if head.has_token("expect", "100-continue") {
        reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(unread)?;
    }
    let (mut whole, mut piece) = (Vec::new(), Vec::new());
    while framing.next(reader, &mut piece).map_err(unread)? {
        if whole.len() + piece.len() > BODY_MAX {
            return Err(too_large());
        }
        if !held.take(piece.len()) {
            return Err(No::perhaps_later(503, "too many bytes are being sent at once"));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

impl MeteredRequest {
    /// Reads the model of a call and makes sure that the answer will report its usage.
    fn understand(&mut self, form: Form, path: &str) -> Result<(), No> {
        let mut body: Value = serde_json::from_slice(&self.body)
            .map_err(|error| No::now(400, format!("the body is not JSON: {error}")))?;
        self.model = match form {
            Form::Gemini => path
                .rsplit('/')
                .next()
                .and_then(|name| name.rsplit_once(':'))
                .map(|(name, _)| name.to_owned()),
            _ => body["model"].as_str().map(str::to_owned),
        };
        if body["background"] == json!(true) {
            return Err(No::now(
                400,
                "the meter blocks `background`: it could not count what the model uses",
            ));
        }
        // Without this option such a stream does not report its usage.
        let is_stream = form == Form::Completions && body["stream"] == json!(true);
        if is_stream && body["stream_options"]["include_usage"] != json!(true) {
            self.body = with_usage(&self.body, &mut body["stream_options"]);
            self.drops_usage = true;
        }
        Ok(())
    }

    /// Returns the request for the upstream, with the key.
    pub(super) fn sent(&self, counter: &Counter) -> Vec<u8> {
        let service = &counter.service;
        let mut text =
            format!("{} {} HTTP/1.1\r\nhost: {}\r\n", self.method, self.path, service.target.host());
        for (name, value) in self.head.passed() {
            if !NOT_PASSED.iter().any(|ours| ours.eq_ignore_ascii_case(name)) {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        if let Some((name, value)) = service.key.as_ref().map(|key| service.api.login(key)) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        // A compressed answer could not be parsed.
        text.push_str(&format!("accept-encoding: identity\r\ncontent-length: {}\r\n\r\n", self.body.len()));
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Appends a member to the JSON text. The order of the other members stays, because it may matter to a
/// model. If the name exists already, the last one counts.
fn with_usage(body: &[u8], options: &mut Value) -> Vec<u8> {
    if !options.is_object() {
        *options = json!({});
    }
    options["include_usage"] = json!(true);
    let mut text = body.trim_ascii_end().to_vec();
    text.pop();
    text.extend_from_slice(format!(",\"stream_options\":{options}}}").as_bytes());
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::with_usage;

    #[test]
    fn what_was_said_stays_as_it_was() {
        let body = b"{\"z\": 1.50, \"a\": {\"y\": 1, \"b\": 2}, \"stream\": true } \n";
        let text = String::from_utf8(with_usage(body, &mut Value::Null)).expect("text");
        assert_eq!(
            text,
            r#"{"z": 1.50, "a": {"y": 1, "b": 2}, "stream": true ,"stream_options":{"include_usage":true}}"#
        );
        let more = with_usage(br#"{"stream_options": {"x": 1}}"#, &mut json!({ "x": 1 }));
        let value: Value = serde_json::from_slice(&more).expect("JSON");
        assert_eq!(value, json!({ "stream_options": { "x": 1, "include_usage": true } }));
    }
}
