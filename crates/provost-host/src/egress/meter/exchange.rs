//! Handles one request of an agent: forwards it to the provider and streams the answer back.

use std::io::{self, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use provost_core::model::usage::Usage;
use serde_json::Value;

use super::api::No;
use super::count::{ReportedUsage, Tap};
use super::counters::{ApiRefusal, FinishedCall};
use super::http::{Framing, HttpHead};
use super::question::{self, BodyMemory, MeteredRequest};
use super::upstream::UpstreamConnection;
use super::{Counter, locked};

/// The kind of an error that occurred before the whole request was sent.
const NOT_SENT: ErrorKind = ErrorKind::BrokenPipe;
/// Longest pause between two requests of a client.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Longest event that is filtered, in bytes; a longer one is passed on unfiltered.
const EVENT_MAX: usize = 1024 * 1024;

/// State of a connection after an answer.
enum Then {
    Goes,
    Ends,
}

pub(super) fn serve(counter: &Counter, agent: &TcpStream, number: u64) -> io::Result<()> {
    agent.set_nodelay(true)?;
    agent.set_read_timeout(Some(PATIENCE))?;
    agent.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(agent.try_clone()?);
    loop {
        let head = match HttpHead::read(&mut reader) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return say(counter, agent, &No::now(400, "this is not a request, or its head is too large"));
            }
            Err(error) => return Err(error),
        };
        let keeps_alive = head.first.ends_with(" HTTP/1.1") && !head.has_token("connection", "close");
        let mut held = BodyMemory::default();
        let then = match question::read(counter, &mut reader, head, &mut held)
            .and_then(|found| counter.allows(found))
        {
            Ok(question) => counter.exchange(agent, number, &question)?,
            Err(no) => return say(counter, agent, &no),
        };
        match then {
            Then::Goes if keeps_alive => {}
            Then::Goes | Then::Ends => return Ok(()),
        }
    }
}

impl Counter {
    /// Checks the limit before a call.
    fn allows(&self, question: MeteredRequest) -> Result<MeteredRequest, No> {
        if question.form.is_none() {
            return Ok(question);
        }
        self.closing.wait();
        let limit = &self.service.limit;
        let mut tally = locked(&self.tally);
        if let Some(why) = tally.is_over(limit) {
            return Err(No::now(402, why));
        }
        if limit.micro_usd.is_some() {
            let model = question.model.as_deref().unwrap_or_default();
            let little = Usage { input_tokens: Some(1), output_tokens: Some(1), ..Usage::default() };
            if (self.service.price)(model, &little).is_none() {
                let why = format!("the budget is in dollars, but the price of {model:?} is not known");
                tally.stop(why.clone());
                return Err(No::now(402, why));
            }
        }
        Ok(question)
    }

    fn book(&self, question: &MeteredRequest, counted: ReportedUsage, bytes: usize) {
        let counted = ReportedUsage { model: counted.model.or_else(|| question.model.clone()), ..counted };
        let model = counted.model.as_deref().unwrap_or_default();
        let micro_usd =
            match counted == (ReportedUsage { model: counted.model.clone(), ..ReportedUsage::nothing() }) {
                true => Some(0),
                false => (self.service.price)(model, &counted.usage()),
            };
        locked(&self.tally).book(&FinishedCall {
            counted: &counted,
            micro_usd,
            bytes: (question.body.len(), bytes),
        });
    }

    fn exchange(&self, agent: &TcpStream, number: u64, question: &MeteredRequest) -> io::Result<Then> {
        if question.form.is_some() {
            locked(&self.tally).begin();
        }
        let unanswered = |counted: ReportedUsage| {
            if question.form.is_some() {
                self.book(question, counted, 0);
            }
        };
        let (mut wire, head) = match self.asked(agent, number, question) {
            Ok(found) => found,
            Err(Unanswered::Unreached(error)) => {
                unanswered(ReportedUsage::nothing());
                let why = format!("{} cannot be reached: {error}", self.service.target);
                return say(self, agent, &No::perhaps_later(502, why)).map(|()| Then::Ends);
            }
            Err(Unanswered::Lost(error)) => {
                unanswered(ReportedUsage::default());
                if error.kind() == ErrorKind::ConnectionAborted {
                    return Err(error);
                }
                let why = format!("{} did not answer: {error}", self.service.target);
                return say(self, agent, &No::perhaps_later(502, why)).map(|()| Then::Ends);
            }
        };
        let passed = self.pass_on(agent, question, &mut wire, &head);
        self.wires.attach(number, None);
        let may_keep = !head.has_token("connection", "close") && wire.is_quiet();
        if matches!(passed, Ok(Then::Goes)) && may_keep && !self.wires.is_over() {
            let mut idle = locked(&self.idle);
            idle.clear();
            idle.push(wire);
        }
        passed
    }

    /// Sends the request and reads the head of its answer.
    fn asked(
        &self,
        agent: &TcpStream,
        number: u64,
        question: &MeteredRequest,
    ) -> Result<(UpstreamConnection, HttpHead), Unanswered> {
        let kept = locked(&self.idle).pop().filter(UpstreamConnection::is_quiet);
        let is_kept = kept.is_some();
        let connect = || self.way.connect(&self.service.target).map_err(Unanswered::Unreached);
        let wire = kept.map_or_else(connect, Ok)?;
        match self.ask(wire, agent, number, question) {
            // The upstream closed a reused connection while it was idle, so the request is sent again on a new
            // one. A request that was sent may cost money already, and is not sent twice.
            Err(error) if is_kept && error.kind() == NOT_SENT => {
                self.ask(connect()?, agent, number, question).map_err(Unanswered::Lost)
            }
            asked => asked.map_err(Unanswered::Lost),
        }
    }

    fn ask(
        &self,
        mut wire: UpstreamConnection,
        agent: &TcpStream,
        number: u64,
        question: &MeteredRequest,
    ) -> io::Result<(UpstreamConnection, HttpHead)> {
        wire.wait_for(agent)?;
        if !self.wires.attach(number, wire.handle()) {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        // An upstream that rejects a request before it has read all of it may have sent the reason.
        let sent = wire.send(&question.sent(self));
        loop {
            let head = match (HttpHead::read(&mut wire.reader), &sent) {
                (Ok(Some(head)), _) => head,
                (Ok(None), Ok(())) => return Err(ErrorKind::UnexpectedEof.into()),
                (Err(error), Ok(())) => return Err(error),
                (_, Err(error)) => return Err(io::Error::new(NOT_SENT, error.to_string())),
            };
            // Interim answers such as 100 and 103 are not passed on.
            if status(&head) >= 200 {
                return Ok((wire, head));
            }
        }
    }

    fn pass_on(
        &self,
        agent: &TcpStream,
        question: &MeteredRequest,
        wire: &mut UpstreamConnection,
        head: &HttpHead,
    ) -> io::Result<Then> {
        let status = status(head);
        let is_bare = question.method == "HEAD" || matches!(status, 204 | 304);
        let framing = if is_bare { Some(Framing::Length(0)) } else { head.length()? };
        let is_error = !(200..300).contains(&status);
        if question.form.is_some() {
            locked(&self.tally).answered(is_error.then(|| ApiRefusal { status, after: come_back(head) }));
        }
        let mut tap = question.form.map(|form| Tap::new(form, head.header("content-type")));
        let mut sieve = question.drops_usage.then(Sieve::default).filter(|_| !is_error);
        let mut closing = None;
        let carried = carry(agent, question, wire, head, framing, |piece, is_last, out| {
            if let Some(tap) = &mut tap {
                tap.feed(piece);
                if is_last || tap.has_said_all() {
                    closing.get_or_insert_with(|| self.closing.begin());
                }
            }
            match &mut sieve {
                Some(sieve) => sieve.through(piece, out),
                None => out.extend_from_slice(piece),
            }
        });
        if let Some(tap) = tap {
            let bytes = tap.bytes;
            let counted = if is_error { ReportedUsage::nothing() } else { tap.end() };
            self.book(question, counted, bytes);
        }
        drop(closing);
        carried
    }
}

/// Why there is no answer.
enum Unanswered {
    /// The request was not sent.
    Unreached(io::Error),
    /// The upstream may have seen the request.
    Lost(io::Error),
}

/// Returns the header that says when the API wants to be asked again.
fn come_back(head: &HttpHead) -> Option<String> {
    const NAMES: [&str; 2] = ["retry-after-ms", "retry-after"];
    let is_sane = |value: &&str| value.len() <= 40 && value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    NAMES.iter().find_map(|name| Some(format!("{name}: {}", head.header(name).filter(is_sane)?)))
}

fn status(head: &HttpHead) -> u16 {
    head.first.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(502)
}

/// Streams an answer to the agent. `look` gets each piece, and whether it is the last one, and returns what
/// is sent for it.
fn carry(
    mut agent: &TcpStream,
    question: &MeteredRequest,
    wire: &mut UpstreamConnection,
    head: &HttpHead,
    framing: Option<Framing>,
    mut look: impl FnMut(&[u8], bool, &mut Vec<u8>),
) -> io::Result<Then> {
    let first = head.first.split_once(' ').map_or("502 Bad Gateway", |(_, rest)| rest);
    let mut text = format!("HTTP/1.1 {first}\r\n");
    for (name, value) in head.passed() {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = match framing {
        Some(Framing::Length(length)) if !question.drops_usage => Some(length),
        _ => None,
    };
    let is_chunked = length.is_none() && question.is_11;
    match length {
        // The length that a GET would have; there is no body.
        Some(_) if question.method == "HEAD" => {
            let told = head.header("content-length").unwrap_or("0");
            text.push_str(&format!("content-length: {told}\r\n"));
        }
        Some(length) => text.push_str(&format!("content-length: {length}\r\n")),
        None if is_chunked => text.push_str("transfer-encoding: chunked\r\n"),
        None => text.push_str("connection: close\r\n"),
    }
    text.push_str("\r\n");
    agent.write_all(text.as_bytes())?;
    let mut framing = framing.unwrap_or(Framing::UntilTheEnd);
    let (mut piece, mut out) = (Vec::new(), Vec::new());
    let mut send = |out: &mut Vec<u8>| -> io::Result<()> {
        if is_chunked && !out.is_empty() {
            let mut framed = format!("{:x}\r\n", out.len()).into_bytes();
            framed.append(out);
            framed.extend_from_slice(b"\r\n");
            *out = framed;
        }
        agent.write_all(out)?;
        out.clear();
        Ok(())
    };
    while framing.next(&mut wire.reader, &mut piece)? {
        look(&piece, framing == Framing::Length(0), &mut out);
        send(&mut out)?;
    }
    look(b"", true, &mut out);
    send(&mut out)?;
    if is_chunked {
        (&mut &*agent).write_all(b"0\r\n\r\n")?;
    }
    let has_ended = framing == Framing::UntilTheEnd || length.is_none() && !question.is_11;
    Ok(if has_ended { Then::Ends } else { Then::Goes })
}

/// Removes the usage event from a stream, if the meter requested it and the agent did not.
#[derive(Default)]
struct Sieve {
    /// The event that has not ended yet.
    begun: Vec<u8>,
}

impl Sieve {
    /// Filters a piece; an empty piece means the end.
    fn through(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        if piece.is_empty() {
            out.append(&mut self.begun);
            return;
        }
        for byte in piece {
            self.begun.push(*byte);
            let is_over = self.begun.ends_with(b"\n\n") || self.begun.ends_with(b"\r\n\r\n");
            if is_over || self.begun.len() >= EVENT_MAX {
                if !is_usage_alone(&self.begun) {
                    out.append(&mut self.begun);
                }
                self.begun.clear();
            }
        }
    }
}

fn is_usage_alone(event: &[u8]) -> bool {
    let data = event.strip_prefix(b"data:").unwrap_or_default();
    if !data.windows(7).any(|seven| seven == b"\"usage\"") {
        return false;
    }
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return false };
    value["usage"].is_object() && value["choices"].as_array().is_some_and(Vec::is_empty)
}

/// Sends the meter's own answer and ends the connection; the rest of the request is ignored.
fn say(counter: &Counter, mut agent: &TcpStream, no: &No) -> io::Result<()> {
    let body = counter.service.api.refusal(no).to_string();
    // Clients of these APIs retry by the status code, unless this header forbids it.
    let again = if no.is_final { "x-should-retry: false\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{again}connection: close\r\n\r\n",
        no.status,
        phrase(no.status),
        body.len()
    );
    agent.write_all(format!("{head}{body}").as_bytes())?;
    agent.shutdown(Shutdown::Write)?;
    // Reads what is still arriving, so that a reset does not destroy the answer.
    agent.set_read_timeout(Some(Duration::from_secs(1)))?;
    let _ = io::copy(&mut agent.take(64 << 20), &mut io::sink());
    Ok(())
}

fn phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        413 => "Payload Too Large",
        415 => "Unsupported Media Type",
        502 => "Bad Gateway",
        _ => "Service Unavailable",
    }
}
