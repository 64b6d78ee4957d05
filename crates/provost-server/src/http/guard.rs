//! Checks host and origin of every request, and sets the security headers of every response.
//!
//! A page of another site can make a browser send requests here, and a foreign host name can be made to
//! resolve to this machine. Neither can choose what the browser sends in `Host`, `Origin` and
//! `Sec-Fetch-Site`.
//!
//! **Invariant:** no response carries a header that lets another origin read it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{Problem, Shared};
use crate::pages;

/// Time limit of a response; a stream has started its response by then.
const PATIENCE: Duration = Duration::from_secs(60);

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    // Not `no-referrer`: with it a browser sends the origin `null` for its own forms.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

/// Names under which the server is reached.
#[derive(Clone, Debug)]
pub struct ServerNames {
    scheme: &'static str,
    /// With the port, unless it is the scheme's default. Empty with TLS: a browser checks the certificate
    /// against the name it asked for.
    hosts: Vec<String>,
    shown: String,
    cookie: String,
    pub has_proxy: bool,
}

impl ServerNames {
    pub fn new(address: SocketAddr, tls: bool, proxied: &[String]) -> Self {
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
    pub fn shown(&self) -> String {
        format!("{}://{}", self.scheme, self.shown)
    }

    pub fn has(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    pub fn is_secure(&self) -> bool {
        self.scheme == "https"
    }

    fn is_own(&self, origin: &str, host: &str) -> bool {
        origin.strip_prefix(self.scheme).and_then(|rest| rest.strip_prefix("://")) == Some(host)
    }
}

pub fn text(headers: &HeaderMap, name: impl axum::http::header::AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Wraps every request.
pub async fn look(State(house): State<Shared>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let for_people = is_for_people(&request);
    let is_asset = request.uri().path().starts_with("/assets/");
    let response = match refused(&house, &request) {
        Some(problem) => problem.into_response(),
        None => match tokio::time::timeout(PATIENCE, next.run(request)).await {
            Ok(response) => response,
            Err(_) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-slow", "it took too long")
                .hint("Ask again in a moment.")
                .into_response(),
        },
    };
    house.counts.answered(response.status(), begun.elapsed());
    let mut response = match response.extensions().get::<Problem>() {
        Some(problem) if for_people => pages::problem(problem),
        _ => response,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if house.origin.is_secure() {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, year);
    }
    if !is_asset {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Refuses requests from other sites.
fn refused(house: &Shared, request: &Request) -> Option<Problem> {
    let headers = request.headers();
    let host = text(headers, header::HOST).unwrap_or_default();
    let named = request.uri().authority().map_or(host, |authority| authority.as_str());
    let is_one = headers.get_all(header::HOST).iter().count() == 1 && named == host;
    if !is_one || !house.origin.has(host) {
        let detail = format!("`{host}` is not a name of this server");
        return Some(Problem::new(StatusCode::MISDIRECTED_REQUEST, "host", detail));
    }
    let elsewhere = Problem::forbidden("origin", "the request was made by a page of another site");
    match text(headers, header::ORIGIN) {
        Some(origin) if !house.origin.is_own(origin, host) => return Some(elsewhere),
        None if headers.contains_key(header::ORIGIN) => return Some(elsewhere),
        _ => {}
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match text(headers, "sec-fetch-site") {
        Some("same-origin" | "none") | None => None,
        // A person may follow a link from another site; its pages may not fetch or write.
        Some(_) if reads && text(headers, "sec-fetch-mode") == Some("navigate") => None,
        Some(_) => Some(elsewhere),
    }
}

/// Returns whether a browser shows the response to a person.
fn is_for_people(request: &Request) -> bool {
    let accepts = text(request.headers(), header::ACCEPT).is_some_and(|accept| accept.contains("text/html"));
    let path = request.uri().path();
    accepts && !path.starts_with("/api/") && path != "/mcp" && path != "/metrics"
}

pub async fn nothing_here() -> Problem {
    Problem::unknown("there is nothing here")
        .hint("`/` is the page, `/api/openapi.json` says what the API has.")
}

pub async fn not_so() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "that is not done with what is here")
        .hint("`/api/openapi.json` says what the API has.")
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
