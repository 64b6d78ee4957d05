//! The server of the mock model: one thread per connection, and one shared record of all requests.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::aside::{aside, refuse};
use crate::dialect::{Frame, ModelApi, Reply};
use crate::http::{HttpRequest, Then};
use crate::request::SeenRequest;
use crate::script::{Cursor, Model};
use crate::turn::{ApiFailure, Fault, ScriptedUsage, StopReason, Turn};
use crate::{http, offered, request};

/// How often a waiting thread checks whether the client is still connected.
const LOOK: Duration = Duration::from_millis(10);
/// Timeout of [`Rehearsal::wait_for`].
const PATIENCE: Duration = Duration::from_secs(30);

/// A running mock model. It ends on drop.
pub struct Rehearsal {
    address: SocketAddr,
    stage: Arc<Stage>,
    accepting: Option<JoinHandle<()>>,
}

struct Stage {
    is_over: AtomicBool,
    memory: Mutex<Memory>,
    changed: Condvar,
}

#[derive(Default)]
struct Memory {
    cursors: BTreeMap<String, Cursor>,
    requests: Vec<SeenRequest>,
    failures: Vec<String>,
    /// Number of held turns that may continue.
    released: usize,
    replies: u64,
    wires: BTreeMap<u64, TcpStream>,
    next_wire: u64,
}

impl Model {
    pub fn serve(self) -> io::Result<Rehearsal> {
        let (port, cursors) = self.into_parts();
        Rehearsal::open(port, cursors)
    }
}

impl Rehearsal {
    pub(crate) fn open(port: u16, cursors: BTreeMap<String, Cursor>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let memory = Mutex::new(Memory { cursors, ..Memory::default() });
        let stage = Arc::new(Stage { is_over: AtomicBool::new(false), memory, changed: Condvar::new() });
        let of_thread = stage.clone();
        let accepting = thread::spawn(move || accept(&listener, &of_thread));
        Ok(Self { address, stage, accepting: Some(accepting) })
    }

    /// Returns the base URL; clients add `/v1/messages`, `/v1/responses` and so on.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the base URL of one session.
    pub fn session_url(&self, name: &str) -> String {
        format!("http://{}/r/{name}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns every request for an answer, in order.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.stage.memory().requests.clone()
    }

    /// Returns the deviations from the script: an unmet expectation, a request too many.
    pub fn failures(&self) -> Vec<String> {
        self.stage.memory().failures.clone()
    }

    /// Returns the number of unused turns of a session; `""` is the default session.
    pub fn turns_left(&self, session: &str) -> usize {
        self.stage.memory().cursors.get(session).map_or(0, Cursor::left)
    }

    pub fn has_seen(&self, text: &str) -> bool {
        self.stage.memory().requests.iter().any(|seen| seen.all_text().contains(text))
    }

    /// Panics unless a request contained this text.
    #[track_caller]
    pub fn expect_seen(&self, text: &str) {
        let count = self.requests().len();
        assert!(self.has_seen(text), "none of {count} requests to the model holds {text:?}");
    }

    /// Panics if anything deviated from the script.
    #[track_caller]
    pub fn expect_kept(&self) {
        let failures = self.failures();
        assert!(failures.is_empty(), "against the script:\n{}", failures.join("\n"));
    }

    /// Lets one held turn continue: the waiting one, or the next one.
    pub fn release(&self) {
        self.stage.memory().released += 1;
        self.stage.changed.notify_all();
    }

    /// Waits for `count` requests; panics on a timeout.
    #[track_caller]
    pub fn wait_for(&self, count: usize) {
        let enough = |memory: &Memory| memory.requests.len() >= count;
        assert!(
            self.stage.wait_until(enough),
            "{count} requests were expected, {:?} came",
            self.requests().len()
        );
    }

    /// Waits until the client of a request has disconnected before its answer was complete; panics on a
    /// timeout.
    #[track_caller]
    pub fn wait_until_left(&self, request: usize) {
        let left = |memory: &Memory| memory.requests.get(request).is_some_and(|seen| seen.has_left);
        assert!(self.stage.wait_until(left), "the client of request {request} is still there");
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        self.stage.is_over.store(true, Ordering::SeqCst);
        self.stage.changed.notify_all();
        let woken = TcpStream::connect(self.address);
        for wire in self.stage.memory().wires.values() {
            let _ = wire.shutdown(Shutdown::Both);
        }
        if let Some(accepting) = self.accepting.take().filter(|_| woken.is_ok()) {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, stage: &Arc<Stage>) {
    for wire in listener.incoming().flatten() {
        if stage.is_over.load(Ordering::SeqCst) {
            return;
        }
        let of_thread = stage.clone();
        thread::spawn(move || {
            let number = of_thread.enter(&wire);
            // An error is what the test wanted, or the test will notice it.
            let _ = of_thread.serve(&wire);
            let _ = wire.shutdown(Shutdown::Both);
            of_thread.memory().wires.remove(&number);
        });
    }
}

impl Stage {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until(&self, is_so: impl Fn(&Memory) -> bool) -> bool {
        let until = Instant::now() + PATIENCE;
        let mut memory = self.memory();
        while !is_so(&memory) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            memory = self.changed.wait_timeout(memory, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn enter(&self, wire: &TcpStream) -> u64 {
        let _ = wire.set_nodelay(true);
        let mut memory = self.memory();
        memory.next_wire += 1;
        let number = memory.next_wire;
        memory.wires.extend(wire.try_clone().ok().map(|wire| (number, wire)));
        number
    }

    fn serve(&self, wire: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(wire.try_clone()?);
        while let Some(incoming) = HttpRequest::read(&mut reader)? {
            let keeps_alive = incoming.keeps_alive;
            match self.handle(wire, &incoming)? {
                Then::Goes if keeps_alive => {}
                Then::Goes | Then::Ends => break,
            }
        }
        Ok(())
    }

    fn handle(&self, wire: &TcpStream, incoming: &HttpRequest) -> io::Result<Then> {
        let (session, path) = self.session(incoming);
        let bare = path.split('?').next().unwrap_or_default();
        let asked = ModelApi::of(bare).filter(|_| incoming.method == "POST");
        let dialect = asked.unwrap_or_else(|| ModelApi::of_stranger(incoming));
        let wanted = self.memory().cursors.get(&session).and_then(|cursor| cursor.key().map(str::to_owned));
        if wanted.is_some() && wanted != request::key(incoming) {
            return refuse(wire, dialect, &dialect.wrong_key());
        }
        let Some(dialect) = asked else { return aside(wire, dialect, incoming, bare) };
        let body: Value = match serde_json::from_slice(&incoming.body) {
            Ok(body) => body,
            Err(error) => {
                let message = Some(format!("the body is not JSON: {error}"));
                return refuse(wire, dialect, &ApiFailure { status: 400, message, ..ApiFailure::default() });
            }
        };
        let tools = offered::tools(dialect, &body);
        let seen = SeenRequest::of(session, dialect, &path, incoming, body);
        let (index, turn, reply) = self.take(seen.clone(), &tools);
        self.changed.notify_all();
        self.act(wire, &seen, index, &turn, &reply)
    }

    /// Returns the session, and the path without the part that names it.
    fn session(&self, incoming: &HttpRequest) -> (String, String) {
        if let Some(rest) = incoming.path.strip_prefix("/r/") {
            let (name, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            return (name.to_owned(), path.to_owned());
        }
        let by_key = request::key(incoming).filter(|key| self.memory().cursors.contains_key(key));
        let named = incoming.header("x-rehearsal").map(str::to_owned).or(by_key);
        (named.unwrap_or_default(), incoming.path.clone())
    }

    /// Determines the answer and records the request.
    fn take(&self, mut seen: SeenRequest, tools: &[offered::Tool]) -> (usize, Turn, Reply) {
        let mut memory = self.memory();
        let index = memory.requests.len();
        let which = match seen.session.as_str() {
            "" => String::new(),
            name => format!(" of {name}"),
        };
        let due = memory.cursors.get_mut(&seen.session).map(|cursor| cursor.due(&seen));
        let mut failures = Vec::new();
        let (turn, number) = match due {
            Some(due) => {
                if due.is_beyond {
                    failures.push(format!("request {index}{which}: the script has no turn left for it"));
                }
                (due.turn, due.number)
            }
            None => {
                failures.push(format!("request {index}{which}: there is no such session"));
                (Turn::text("(no such session)"), None)
            }
        };
        seen.turn = number;
        for text in turn.expect.iter().filter(|text| !seen.newest.contains(text.as_str())) {
            let newest: String = seen.newest.chars().take(2000).collect();
            failures.push(format!(
                "request {index}{which}: {text:?} was expected in its newest message: {newest}"
            ));
        }
        let mut calls = Vec::new();
        for call in &turn.calls {
            match offered::called(call, tools) {
                Ok(called) => calls.push(called),
                Err(why) => failures.push(format!("request {index}{which}: {why}")),
            }
        }
        memory.replies += 1;
        let stop = match (&turn.refusal, calls.is_empty()) {
            (Some(_), _) => StopReason::Refusal,
            (None, false) => StopReason::Tools,
            (None, true) => StopReason::End,
        };
        // A rough estimate.
        let guess = || ScriptedUsage {
            input: u64::try_from(seen.body.to_string().len() / 4).unwrap_or(1).max(1),
            output: turn.length() / 4 + 1,
            ..ScriptedUsage::default()
        };
        let reply = Reply {
            number: memory.replies,
            model: seen.model.clone(),
            text: turn.text.clone(),
            thinking: turn.thinking.clone(),
            refusal: turn.refusal.clone(),
            calls,
            usage: turn.usage.unwrap_or_else(guess),
            stop: turn.stop.unwrap_or(stop),
            tells_usage: seen.body["stream_options"]["include_usage"] == json!(true),
        };
        memory.failures.append(&mut failures);
        memory.requests.push(seen);
        (index, turn, reply)
    }

    fn act(
        &self,
        wire: &TcpStream,
        seen: &SeenRequest,
        index: usize,
        turn: &Turn,
        reply: &Reply,
    ) -> io::Result<Then> {
        thread::sleep(Duration::from_millis(turn.delay_ms));
        let dialect = seen.dialect;
        match &turn.fault {
            Some(Fault::HangUp) => return Ok(Then::Ends),
            Some(Fault::Status(failure)) => return refuse(wire, dialect, failure),
            Some(Fault::TooLong) => return refuse(wire, dialect, &dialect.too_long()),
            Some(Fault::InStream(failure)) if !seen.is_stream => return refuse(wire, dialect, failure),
            Some(Fault::InStream(_) | Fault::Cut | Fault::Garbage) | None => {}
        }
        let said = dialect.say(reply);
        let is_sse = dialect != ModelApi::Gemini || seen.path.contains("alt=sse");
        let sent = match (seen.is_stream, is_sse) {
            (true, true) => self.stream(wire, dialect, turn, &said.frames),
            // Gemini streams a JSON list to clients that do not ask for server-sent events.
            (true, false) => {
                let list: Vec<&str> = said.frames.iter().map(|frame| frame.data.as_str()).collect();
                self.whole(wire, turn, &format!("[{}]", list.join(",\n")))
            }
            (false, _) => self.whole(wire, turn, &said.body.to_string()),
        };
        if sent.is_err() {
            self.memory().requests[index].has_left = true;
            self.changed.notify_all();
        }
        sent
    }

    fn whole(&self, wire: &TcpStream, turn: &Turn, body: &str) -> io::Result<Then> {
        if turn.held {
            self.hold(wire)?;
        }
        let kind = "application/json";
        match turn.fault {
            Some(Fault::Garbage) => {
                http::answer(wire, 200, "text/html", &[], b"<html><body>gateway</body></html>")?;
            }
            Some(Fault::Cut) => {
                let length = body.len().to_string();
                let head = http::head(200, &[("content-type", kind), ("content-length", &length)]);
                let mut wire = wire;
                wire.write_all(head.as_bytes())?;
                wire.write_all(&body.as_bytes()[..body.len() / 2])?;
                return Ok(Then::Ends);
            }
            _ => http::answer(wire, 200, kind, &[("request-id", "req_scripted")], body.as_bytes())?,
        }
        Ok(Then::Goes)
    }

    fn stream(
        &self,
        mut wire: &TcpStream,
        dialect: ModelApi,
        turn: &Turn,
        frames: &[Frame],
    ) -> io::Result<Then> {
        let headers = [
            ("content-type", "text/event-stream; charset=utf-8"),
            ("cache-control", "no-cache"),
            ("transfer-encoding", "chunked"),
            ("request-id", "req_scripted"),
        ];
        wire.write_all(http::head(200, &headers).as_bytes())?;
        let send = |bytes: &[u8]| match turn.dribbled {
            true => bytes.chunks(7).try_for_each(|few| http::chunk(wire, few)),
            false => http::chunk(wire, bytes),
        };
        let (before, after) = frames.split_at(frames.len().div_ceil(2));
        for frame in before {
            send(&frame.bytes())?;
        }
        if turn.held {
            self.hold(wire)?;
        }
        match &turn.fault {
            Some(Fault::Cut) => return Ok(Then::Ends),
            Some(Fault::InStream(failure)) => send(&dialect.error_frame(failure).bytes())?,
            Some(Fault::Garbage) => send(b"data: {\"type\": \"content_bl\n\n<html>gateway</html>\n\n")?,
            _ => {
                for frame in after {
                    send(&frame.bytes())?;
                }
                // An empty chunk would already mean the end.
                if !dialect.farewell().is_empty() {
                    send(dialect.farewell())?;
                }
            }
        }
        wire.write_all(b"0\r\n\r\n")?;
        Ok(Then::Goes)
    }

    /// Waits until the turn is released; returns an error if the client disconnects.
    fn hold(&self, wire: &TcpStream) -> io::Result<()> {
        wire.set_read_timeout(Some(LOOK))?;
        loop {
            {
                let mut memory = self.memory();
                if memory.released > 0 {
                    memory.released -= 1;
                    break;
                }
            }
            match wire.peek(&mut [0]) {
                Ok(0) => return Err(io::ErrorKind::ConnectionAborted.into()),
                // The client sent more data, which is read later.
                Ok(_) => thread::sleep(LOOK),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(error),
            }
            if self.is_over.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        wire.set_read_timeout(None)
    }
}
