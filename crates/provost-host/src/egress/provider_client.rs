//! Sends requests to an identity provider: bounded in time and size, over TLS.
//!
//! **Invariant:** no redirect is followed, so that a code or a secret reaches only the address it is for.
//! **Invariant:** an address on another machine is used over TLS, or not at all.

use std::ffi::OsString;
use std::time::Duration;

use ureq::http::{Response, Uri};
use ureq::{Agent, Body};

use super::proxy::Address;
use super::trust_roots::TrustRoots;

/// Time limit of one request. A sign-in makes at most four, within the time limit of the page.
const PATIENCE: Duration = Duration::from_secs(8);
/// Largest answer; documents and tokens of providers are much smaller.
const ANSWER_MAX: u64 = 256 << 10;

/// A client for the requests to an identity provider.
pub struct ProviderClient {
    roots: TrustRoots,
}

/// An answer of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderAnswer {
    pub status: u16,
    /// The media type, without parameters.
    pub kind: String,
    pub body: Vec<u8>,
}

impl ProviderClient {
    /// Trusts the certificates of `SSL_CERT_FILE` and `SSL_CERT_DIR`, or those of the system.
    pub fn new(environment: &[(OsString, OsString)]) -> Self {
        Self { roots: TrustRoots::from_environment(environment) }
    }

    /// Requests a document, with an access token if one is given.
    pub fn get(&self, url: &str, bearer: Option<&str>) -> Result<ProviderAnswer, String> {
        let mut request = self.agent(url)?.get(url).header("accept", "application/json");
        if let Some(token) = bearer {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        read(request.call())
    }

    /// Sends a form, with the value of the header `Authorization` if one is given.
    pub fn post(
        &self,
        url: &str,
        authorization: Option<&str>,
        form: &[(&str, &str)],
    ) -> Result<ProviderAnswer, String> {
        let mut request = self.agent(url)?.post(url).header("accept", "application/json");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        read(request.send_form(form.iter().copied()))
    }

    fn agent(&self, url: &str) -> Result<Agent, String> {
        let uri: Uri = url.parse().map_err(|_| format!("`{url}` is not an address"))?;
        let is_here = Address::of_url(url, 80).is_some_and(|address| address.is_loopback());
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_here => {}
            _ => return Err(format!("`{url}` does not begin with https://")),
        }
        let config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .max_redirects(0)
            .http_status_as_error(false)
            .tls_config(self.roots.for_request(url)?)
            .user_agent(concat!("provost/", env!("CARGO_PKG_VERSION")));
        // A server on this machine is not behind a proxy.
        let config = if is_here { config.proxy(None) } else { config };
        Ok(config.build().into())
    }
}

fn read(answer: Result<Response<Body>, ureq::Error>) -> Result<ProviderAnswer, String> {
    let mut answer = answer.map_err(|error| error.to_string())?;
    let kind = answer.body().mime_type().unwrap_or_default().to_ascii_lowercase();
    let body = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_vec();
    let body = body.map_err(|error| error.to_string())?;
    Ok(ProviderAnswer { status: answer.status().as_u16(), kind, body })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::ProviderClient;

    /// Answers one request, and returns the address.
    fn answer(text: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(&text);
        });
        url
    }

    #[test]
    fn a_redirect_is_an_answer_and_is_not_followed() {
        let url = answer(
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".to_vec(),
        );
        let got = ProviderClient::new(&[]).post(&url, None, &[("code", "c")]).expect("an answer");
        assert_eq!(got.status, 302);
    }

    #[test]
    fn an_answer_that_is_too_large_is_an_error() {
        let mut text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 300 << 10).into_bytes();
        text.resize(text.len() + (300 << 10), b'x');
        let url = answer(text);
        let why = ProviderClient::new(&[]).get(&url, None).expect_err("too large");
        assert!(why.contains("limit"), "{why}");
    }

    #[test]
    fn only_this_machine_is_asked_without_tls() {
        let client = ProviderClient::new(&[]);
        for url in ["http://provider.example/", "ftp://127.0.0.1/", "provider.example", ""] {
            assert!(client.get(url, None).is_err(), "{url}");
        }
    }
}
