//! Names under which the server is reached: its hosts, its base URL and its cookie.

use std::net::SocketAddr;

/// Names under which the server is reached.
#[derive(Clone, Debug)]
pub(crate) struct ServerNames {
    scheme: &'static str,
    /// With the port, unless it is the scheme's default. Empty with TLS: a browser checks the certificate
    /// against the name it asked for.
    hosts: Vec<String>,
    shown: String,
    cookie: String,
    pub has_proxy: bool,
}

impl ServerNames {
    pub(crate) fn new(address: SocketAddr, tls: bool, proxied: &[String]) -> Self {
        let scheme = if tls || !proxied.is_empty() { "https" } else { "http" };
        let local = format!("localhost:{}", address.port());
        let shown = match proxied.first() {
            Some(host) => host.clone(),
            None if address.ip().is_unspecified() => local.clone(),
            None => address.to_string(),
        };
        let hosts = match proxied {
            [] if tls => Vec::new(),
            [] => vec![address.to_string(), local],
            proxied => proxied.to_vec(),
        };
        // Another server on another port of this machine has another cookie.
        let cookie = format!("provost_{}", address.port());
        Self { scheme, hosts, shown, cookie, has_proxy: !proxied.is_empty() }
    }

    /// Returns the base URL for a link.
    pub(crate) fn shown(&self) -> String {
        format!("{}://{}", self.scheme, self.shown)
    }

    pub(crate) fn has(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// Returns the name of the cookie that binds a sign-in to its browser.
    pub(crate) fn sign_in_cookie(&self) -> String {
        format!("{}_sign_in", self.cookie)
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.scheme == "https"
    }

    /// Returns whether an `Origin` is the server itself.
    pub(crate) fn is_own(&self, origin: &str, host: &str) -> bool {
        origin.strip_prefix(self.scheme).and_then(|rest| rest.strip_prefix("://")) == Some(host)
    }
}

#[cfg(test)]
mod tests {
    use super::ServerNames;

    #[test]
    fn names_of_this_machine_are_known_and_no_others() {
        let origin = ServerNames::new("127.0.0.1:4180".parse().expect("an address"), false, &[]);
        assert!(origin.has("127.0.0.1:4180") && origin.has("localhost:4180") && origin.has("LOCALHOST:4180"));
        assert!(!origin.has("evil.example:4180") && !origin.has("127.0.0.1") && !origin.has(""));
        assert!(origin.is_own("http://127.0.0.1:4180", "127.0.0.1:4180"));
        assert!(!origin.is_own("http://127.0.0.1:4181", "127.0.0.1:4180"));
        assert!(!origin.is_own("https://127.0.0.1:4180", "127.0.0.1:4180"));
        assert!(!origin.is_own("null", "127.0.0.1:4180"));
        assert_eq!(origin.cookie(), "provost_4180");
    }

    #[test]
    fn behind_a_proxy_its_names_count() {
        let proxied = ["plans.example.org".to_owned()];
        let origin = ServerNames::new("127.0.0.1:4180".parse().expect("an address"), false, &proxied);
        assert!(origin.has("plans.example.org") && !origin.has("127.0.0.1:4180"));
        assert_eq!(origin.shown(), "https://plans.example.org");
        assert!(origin.is_secure());
        let origin = ServerNames::new("0.0.0.0:4180".parse().expect("an address"), true, &[]);
        assert!(origin.has("plans.example.org:4180") && origin.is_secure());
        assert_eq!(origin.shown(), "https://localhost:4180");
    }
}
