//! Connects through the user's own proxy, if there is one.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;

use super::{Address, CONNECT_PATIENCE};

const VARIABLES: [&str; 6] =
    ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "http_proxy", "HTTP_PROXY"];
const USUAL_PORT: u16 = 3128;
const ANSWER_MAX: usize = 16 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    at: Address,
    /// Base64 of `user:password`, for the proxy's header.
    authorization: Option<String>,
    /// Hosts, and suffixes of hosts, that are reached without it.
    past: Vec<String>,
}

impl Upstream {
    /// Returns the proxy that the environment names, if it speaks plain HTTP; other kinds are ignored.
    pub fn of(environment: &[(OsString, OsString)]) -> Option<Self> {
        let value = |name: &str| {
            let found = environment.iter().find(|(known, _)| known == name)?;
            found.1.to_str().map(str::trim).filter(|value| !value.is_empty())
        };
        let url = VARIABLES.into_iter().find_map(value)?;
        let rest = url.strip_prefix("http://").or((!url.contains("://")).then_some(url))?;
        let authority = rest.split('/').next().unwrap_or_default();
        let encoded = |login: &str| STANDARD.encode(percent_decode_str(login).collect::<Vec<u8>>());
        let login = authority.rsplit_once('@').map(|(login, _)| encoded(login));
        let past = ["no_proxy", "NO_PROXY"].into_iter().find_map(value).unwrap_or_default();
        let past =
            past.split(',').map(|each| each.trim().trim_start_matches(['*', '.']).to_ascii_lowercase());
        let at = Address::of_url(authority, USUAL_PORT)?;
        Some(Self { at, authorization: login, past: past.collect() })
    }

    pub fn leads_to(&self, to: &Address) -> bool {
        let is_at_home = to.is_loopback() || to.host.parse::<IpAddr>().is_ok();
        let is_past = |end: &String| {
            let rest = to.host.strip_suffix(end.as_str());
            !end.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        !is_at_home && !self.past.iter().any(is_past)
    }

    pub fn connect(&self, to: &Address) -> io::Result<TcpStream> {
        let mut addresses = (self.at.host.as_str(), self.at.port).to_socket_addrs()?;
        let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
        let mut stream = TcpStream::connect_timeout(&address, CONNECT_PATIENCE)?;
        stream.set_read_timeout(Some(CONNECT_PATIENCE))?;
        let login =
            self.authorization.as_ref().map(|login| format!("Proxy-Authorization: Basic {login}\r\n"));
        // Sent in one write, because some proxies read only the first packet.
        let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{}\r\n", login.unwrap_or_default());
        stream.write_all(request.as_bytes())?;
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while !answer.ends_with(b"\r\n\r\n") && answer.len() < ANSWER_MAX {
            stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        let first = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
        match first.split(' ').nth(1) {
            Some("200") => stream.set_read_timeout(None::<Duration>).map(|()| stream),
            _ => Err(io::Error::other(format!("your proxy {} said {first:?}", self.at))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Upstream};

    fn of(variables: &[(&str, &str)]) -> Option<Upstream> {
        Upstream::of(&variables.iter().map(|(name, value)| (name.into(), value.into())).collect::<Vec<_>>())
    }

    #[test]
    fn a_proxy_is_read_with_its_login_and_who_goes_past_it() {
        let found =
            of(&[("HTTPS_PROXY", "http://ada:s%40d@gate.lan:8080/"), ("NO_PROXY", ".lan, example.org")]);
        let found = found.expect("a proxy");
        assert_eq!(
            (found.at.to_string().as_str(), found.authorization.as_deref()),
            ("gate.lan:8080", Some("YWRhOnNAZA=="))
        );
        let leads = |to| found.leads_to(&Address::parse(to).expect("an address"));
        assert!(leads("api.openai.com:443") && leads("myexample.org:443"));
        for past in ["gpu.lan:80", "example.org:443", "a.example.org:443", "127.0.0.1:80", "localhost:80"] {
            assert!(!leads(past), "{past}");
        }
        assert_eq!(of(&[("ALL_PROXY", "socks5://gate:1080")]), None);
        assert_eq!(of(&[]), None);
    }
}
