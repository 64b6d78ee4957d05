//! A host and a port, as in requests, URLs and the configuration.

use std::fmt;
use std::net::IpAddr;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// In lower case; an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
}

const HOST_MAX: usize = 253;

impl Address {
    /// Parses `host:port`, `1.2.3.4:port` or `[::1]:port`; nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port: u16 = port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok())??;
        let host = match host.strip_prefix('[') {
            Some(inside) => inside.strip_suffix(']').filter(|inside| is_v6(inside))?,
            None => Some(host).filter(|host| is_name(host))?,
        };
        (port != 0).then(|| Self { host: host.trim_end_matches('.').to_ascii_lowercase(), port })
    }

    /// Returns the address of a URL; without a scheme, the text is `host[:port]`.
    pub fn of_url(url: &str, usual_port: u16) -> Option<Self> {
        let (usual, rest) = match url.trim().split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (443, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (80, rest),
            Some(_) => return None,
            None => (usual_port, url.trim()),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        Self::parse(authority).or_else(|| Self::parse(&format!("{authority}:{usual}")))
    }

    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

fn is_v6(host: &str) -> bool {
    host.parse::<std::net::Ipv6Addr>().is_ok()
}

fn is_name(host: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !host.is_empty() && host.len() <= HOST_MAX && host.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_are_read_whole_or_not_at_all() {
        let read = |text| Address::parse(text).map(|address| address.to_string()).unwrap_or_default();
        assert_eq!(read("API.Example.org:443"), "api.example.org:443");
        assert_eq!(read("example.org.:443"), "example.org:443");
        assert_eq!(read("[::1]:80"), "[::1]:80");
        for wrong in
            ["example.org", "example.org:", "::1:80", "a b:80", "a:0", "a:70000", "a:+80", "u@h:80", ":80"]
        {
            assert_eq!(read(wrong), "", "{wrong}");
        }
    }

    #[test]
    fn a_url_leads_somewhere() {
        let read = |url| Address::of_url(url, 11434).map(|address| address.to_string()).unwrap_or_default();
        assert_eq!(read("https://u:p@llm.example.org/v1?x=y"), "llm.example.org:443");
        assert_eq!(read("http://127.0.0.1:8080/r/x"), "127.0.0.1:8080");
        assert_eq!(read("http://[::1]/"), "[::1]:80");
        assert_eq!(read("gpu.local"), "gpu.local:11434");
        assert_eq!(read("unix:///run/x"), "");
    }
}
