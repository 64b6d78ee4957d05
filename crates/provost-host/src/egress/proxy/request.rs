//! Parses the head of a request to the proxy: its target, and what is forwarded.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;

use super::Address;

const HEAD_MAX: usize = 32 * 1024;
const HEADERS_MAX: usize = 128;

/// Headers between client and proxy, not forwarded.
const OURS: [&str; 6] =
    ["proxy-connection", "proxy-authorization", "proxy-authenticate", "connection", "keep-alive", "host"];

pub(super) struct ProxyRequest {
    pub to: Address,
    pub form: RequestForm,
}

pub(super) enum RequestForm {
    /// `CONNECT host:port`: forwards bytes unchanged.
    Tunnel,
    /// `GET http://host/path`: the head in the form that the server expects.
    Whole(Vec<u8>),
}

/// Reads the head up to its empty line, and returns the bytes after it separately. A head that is too large
/// is invalid data.
pub(super) fn read_head(mut from: &UnixStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The end may be split over two reads.
        let looked_at = bytes.len().saturating_sub(3);
        bytes.extend_from_slice(&buffer[..count]);
        if let Some(end) = bytes[looked_at..].windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(looked_at + end + 4);
            return Ok((bytes, rest));
        }
        if bytes.len() > HEAD_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

impl ProxyRequest {
    pub(super) fn parse(head: &[u8]) -> Result<Self, &'static str> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(head) {
            Ok(httparse::Status::Complete(end)) if end == head.len() => {}
            Err(httparse::Error::Version) => return Err("this proxy speaks HTTP/1.1"),
            Ok(_) | Err(_) => return Err("this is not a request"),
        }
        let (method, target) = request.method.zip(request.path).ok_or("this is not a request")?;
        let minor = request.version.unwrap_or_default();
        if method == "CONNECT" {
            let to = Address::parse(target).ok_or("CONNECT needs host:port")?;
            return Ok(Self { to, form: RequestForm::Tunnel });
        }
        let is_http = target.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
        let rest =
            target.get(7..).filter(|_| is_http).ok_or("this is a proxy: send a complete http:// address")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let to = Address::parse(authority).or_else(|| Address::parse(&format!("{authority}:80")));
        let to = to.ok_or("this address cannot be read")?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        let mut passed =
            format!("{method} {slash}{path} HTTP/1.{minor}\r\nHost: {authority}\r\n").into_bytes();
        for header in request.headers {
            if !OURS.iter().any(|ours| ours.eq_ignore_ascii_case(header.name)) {
                passed.extend([header.name.as_bytes(), b": ", header.value, b"\r\n"].concat());
            }
        }
        // The next request on this connection might be for another host.
        passed.extend_from_slice(b"Connection: close\r\n\r\n");
        Ok(Self { to, form: RequestForm::Whole(passed) })
    }
}

#[cfg(test)]
mod tests {
    use super::{ProxyRequest, RequestForm};

    #[test]
    fn a_whole_address_becomes_a_request_to_its_host() {
        let head = b"POST http://llm.lan:8080/v1?x=1 HTTP/1.1\r\nHost: evil\r\nProxy-Authorization: x\r\n\
                     Connection: keep-alive\r\nContent-Length: 2\r\n\r\n";
        let Ok(request) = ProxyRequest::parse(head) else { panic!("this is a request") };
        assert_eq!(request.to.to_string(), "llm.lan:8080");
        let RequestForm::Whole(passed) = request.form else { panic!("no tunnel was asked for") };
        assert_eq!(
            String::from_utf8_lossy(&passed),
            "POST /v1?x=1 HTTP/1.1\r\nHost: llm.lan:8080\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for head in [
            "",
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://a/ HTTP/1.1\r\n\r\n",
            "GET http://u@a/ HTTP/1.1\r\n\r\n",
            "GET http:// HTTP/1.1\r\n\r\n",
            "GET http://a:0/ HTTP/1.1\r\n\r\n",
            "CONNECT a HTTP/1.1\r\n\r\n",
            "CONNECT a:443 HTTP/2\r\n\r\n",
            "CONNECT  a:443 HTTP/1.1\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\n folded: x\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nX : 1\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nX: 1\rPOST / HTTP/1.1\r\n\r\n",
            "GET http://a/ HTTP/1.1\nX: 1\n\nPOST http://b/ HTTP/1.1\r\n\r\n",
        ] {
            assert!(ProxyRequest::parse(head.as_bytes()).is_err(), "{head}");
        }
    }
}
