//! The part of HTTP/1.1 that the meter needs, for agents and for providers.

use std::io::{self, BufRead, ErrorKind};

const HEAD_MAX: usize = 64 * 1024;
const PIECE: usize = 64 * 1024;

/// Hop-by-hop headers, not forwarded.
const HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
];

/// The first line and the headers of a request or an answer.
#[derive(Clone, Debug)]
pub(super) struct HttpHead {
    pub first: String,
    pub headers: Vec<(String, String)>,
}

impl HttpHead {
    /// Reads a head; `None` at the end of the stream.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut left = HEAD_MAX;
        let Some(first) = line(from, &mut left)? else { return Ok(None) };
        let mut headers = Vec::new();
        loop {
            let line = line(from, &mut left)?.ok_or(ErrorKind::UnexpectedEof)?;
            if line.is_empty() {
                return Ok(Some(Self { first, headers }));
            }
            let (name, value) = line.split_once(':').ok_or(ErrorKind::InvalidData)?;
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(ErrorKind::InvalidData.into());
            }
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn has_token(&self, name: &str, token: &str) -> bool {
        let values = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        values.flat_map(|(_, value)| value.split(',')).any(|each| each.trim().eq_ignore_ascii_case(token))
    }

    /// Returns the headers that are forwarded.
    pub(super) fn passed(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_passed = |name: &str| !HOP.iter().any(|hop| hop.eq_ignore_ascii_case(name));
        self.headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(move |(name, _)| is_passed(name))
    }

    /// Returns how the body is delimited. A head with both kinds of length is an error, because it is used
    /// for request smuggling.
    pub(super) fn length(&self) -> io::Result<Option<Framing>> {
        let is_chunked = self.has_token("transfer-encoding", "chunked");
        match (is_chunked, self.header("content-length")) {
            (true, Some(_)) => Err(ErrorKind::InvalidData.into()),
            (true, None) => Ok(Some(Framing::Chunked { left: None })),
            (false, Some(length)) => {
                let length = length.parse().map_err(|_| ErrorKind::InvalidData)?;
                Ok(Some(Framing::Length(length)))
            }
            (false, None) => Ok(None),
        }
    }
}

/// Reads a line without its end; a head that is too large is invalid data.
fn line(from: &mut impl BufRead, left: &mut usize) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    loop {
        let found = from.fill_buf()?;
        if found.is_empty() {
            return if bytes.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
        }
        let end = found.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(found.len(), |end| end + 1);
        *left = left.checked_sub(count).ok_or(ErrorKind::InvalidData)?;
        bytes.extend_from_slice(&found[..count]);
        from.consume(count);
        if end.is_some() {
            break;
        }
    }
    bytes.pop();
    bytes.pop_if(|last| *last == b'\r');
    // A parser that takes a lone control character as a line end would see another request.
    if bytes.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return Err(ErrorKind::InvalidData.into());
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    /// `left`: bytes left in the current chunk.
    Chunked {
        left: Option<u64>,
    },
    UntilTheEnd,
}

impl Framing {
    /// Reads the next bytes into `piece`; returns `false` at the end of the body.
    pub(super) fn next(&mut self, from: &mut impl BufRead, piece: &mut Vec<u8>) -> io::Result<bool> {
        piece.clear();
        match self {
            Framing::Length(0) => Ok(false),
            Framing::Length(left) => {
                *left -= some(from, *left, piece)?;
                Ok(true)
            }
            Framing::UntilTheEnd => match some(from, u64::MAX, piece) {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
                Err(error) => Err(error),
            },
            Framing::Chunked { left } => {
                let mut count = match *left {
                    Some(count) if count > 0 => count,
                    before => {
                        if before.is_some() {
                            // The line end of the chunk before.
                            short_line(from)?;
                        }
                        let size = short_line(from)?;
                        let digits = size.split(';').next().unwrap_or_default().trim();
                        u64::from_str_radix(digits, 16).map_err(|_| ErrorKind::InvalidData)?
                    }
                };
                if count == 0 {
                    while !short_line(from)?.is_empty() {}
                    *self = Framing::Length(0);
                    return Ok(false);
                }
                count -= some(from, count, piece)?;
                *left = Some(count);
                Ok(true)
            }
        }
    }
}

fn short_line(from: &mut impl BufRead) -> io::Result<String> {
    line(from, &mut HEAD_MAX.clone())?.ok_or_else(|| ErrorKind::UnexpectedEof.into())
}

/// Reads at least one byte, without waiting for more.
fn some(from: &mut impl BufRead, most: u64, piece: &mut Vec<u8>) -> io::Result<u64> {
    let found = from.fill_buf()?;
    if found.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let count = found.len().min(PIECE).min(usize::try_from(most).unwrap_or(usize::MAX));
    piece.extend_from_slice(&found[..count]);
    from.consume(count);
    Ok(u64::try_from(count).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::{Framing, HttpHead};

    fn whole(mut framing: Framing, bytes: &str) -> Option<(String, String)> {
        // Read in small pieces.
        let mut from = BufReader::with_capacity(3, bytes.as_bytes());
        let (mut all, mut piece) = (Vec::new(), Vec::new());
        while framing.next(&mut from, &mut piece).ok()? {
            all.extend_from_slice(&piece);
        }
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut from, &mut rest).ok()?;
        Some((String::from_utf8(all).ok()?, rest))
    }

    #[test]
    fn bodies_end_where_they_say() {
        let both = |body: &str, rest: &str| Some((body.to_owned(), rest.to_owned()));
        assert_eq!(whole(Framing::Length(5), "hellothere"), both("hello", "there"));
        assert_eq!(whole(Framing::Length(5), "hell"), None);
        let chunked = Framing::Chunked { left: None };
        assert_eq!(
            whole(chunked, "5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nT: x\r\n\r\nrest"),
            both("hello!", "rest")
        );
        assert_eq!(whole(chunked, "5\r\nhel"), None);
        assert_eq!(whole(chunked, "x\r\n"), None);
        assert_eq!(whole(Framing::UntilTheEnd, "all of it"), both("all of it", ""));
    }

    #[test]
    fn heads_are_read_and_bounded() {
        let head = |text: &str| HttpHead::read(&mut BufReader::new(text.as_bytes()));
        let found =
            head("GET / HTTP/1.1\r\nConnection: a, Close\r\nX: 1\r\n\r\n").expect("a head").expect("one");
        assert!(found.has_token("connection", "close"));
        assert_eq!(found.passed().collect::<Vec<_>>(), [("X", "1")]);
        assert!(head("").expect("nothing").is_none());
        assert!(head("GET / HTTP/1.1\r\n").is_err());
        assert!(head("GET / HTTP/1.1\r\n folded\r\n\r\n").is_err());
        assert!(head("GET / HTTP/1.1\r\nX: 1\rPOST / HTTP/1.1\r\n\r\n").is_err());
        assert!(head(&format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000))).is_err());
        let both = head("POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(both.expect("a head").expect("one").length().is_err());
    }
}
