//! The part of HTTP/1.1 that model APIs and their clients use.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;

const HEAD_MAX: usize = 64 * 1024;
const BODY_MAX: usize = 64 * 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct HttpRequest {
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub keeps_alive: bool,
}

impl HttpRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reads a request; `None` at the end of the connection.
    pub(crate) fn read(from: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let Some(first) = line(from, HEAD_MAX)? else { return Ok(None) };
        let mut words = first.split(' ');
        let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next()) else {
            return Err(ErrorKind::InvalidData.into());
        };
        let mut headers = Vec::new();
        loop {
            let line = line(from, HEAD_MAX)?.ok_or(ErrorKind::UnexpectedEof)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or(ErrorKind::InvalidData)?;
            headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut incoming = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            keeps_alive: version == "HTTP/1.1",
            headers,
            body: Vec::new(),
        };
        if incoming.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            incoming.keeps_alive = false;
        }
        if incoming.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            from.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        incoming.body = body(from, &incoming)?;
        Ok(Some(incoming))
    }
}

fn body(from: &mut BufReader<TcpStream>, head: &HttpRequest) -> io::Result<Vec<u8>> {
    if head.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        let mut whole = Vec::new();
        loop {
            let size = line(from, HEAD_MAX)?.ok_or(ErrorKind::UnexpectedEof)?;
            let digits = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).map_err(|_| ErrorKind::InvalidData)?;
            if whole.len() + size > BODY_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            let begun = whole.len();
            whole.resize(begun + size, 0);
            from.read_exact(&mut whole[begun..])?;
            while line(from, HEAD_MAX)?.is_some_and(|line| size == 0 && !line.is_empty()) {}
            if size == 0 {
                return Ok(whole);
            }
        }
    }
    let length =
        head.header("content-length").map_or(Ok(0), str::parse).map_err(|_| ErrorKind::InvalidData)?;
    if length > BODY_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut whole = vec![0; length];
    from.read_exact(&mut whole)?;
    Ok(whole)
}

fn line(from: &mut impl BufRead, most: usize) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    if from.take(limit).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if !bytes.ends_with(b"\n") {
        return Err(ErrorKind::InvalidData.into());
    }
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    String::from_utf8(bytes).map(Some).map_err(|_| ErrorKind::InvalidData.into())
}

/// Returns a status line, headers, and the empty line after them.
pub(crate) fn head(status: u16, headers: &[(&str, &str)]) -> String {
    let mut text = format!("HTTP/1.1 {status} {}\r\n", phrase(status));
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text
}

/// Sends a whole answer at once.
pub(crate) fn answer(
    mut to: &TcpStream,
    status: u16,
    kind: &str,
    more: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    let length = body.len().to_string();
    let mut headers = vec![("content-type", kind), ("content-length", &length)];
    headers.extend_from_slice(more);
    let mut bytes = head(status, &headers).into_bytes();
    bytes.extend_from_slice(body);
    to.write_all(&bytes)
}

/// Sends one chunk of a body of unknown length.
pub(crate) fn chunk(mut to: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    to.write_all(&framed)
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Payload Too Large",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Status",
    }
}

/// State of a connection after an answer.
pub(crate) enum Then {
    Goes,
    Ends,
}
