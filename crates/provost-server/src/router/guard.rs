//! Checks host and origin of every request, limits its time, and sets the security headers of every response.
//!
//! A page of another site can make a browser send requests here, and a foreign host name can be made to
//! resolve to this machine. Neither can choose what the browser sends in `Host`, `Origin` and
//! `Sec-Fetch-Site`.
//!
//! **Invariant:** no response carries a header that lets another origin read it.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::compress;
use crate::pages;
use crate::principal::header_text;
use crate::problem::Problem;
use crate::state::{REPOSITORIES, SharedState};

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

/// Wraps every request. Renders a problem as a page if a browser shows it to a person.
pub(super) async fn wrap(State(app): State<SharedState>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let for_people = is_for_people(&request);
    let wanted = wanted(&request);
    let accepts_gzip = compress::accepts_gzip(request.headers());
    let is_asset = request.uri().path().starts_with("/assets/");
    let response = match refused(&app, &request) {
        Some(problem) => problem.into_response(),
        None => {
            match tokio::time::timeout(PATIENCE, REPOSITORIES.scope(RefCell::default(), next.run(request)))
                .await
            {
                Ok(response) => response,
                Err(_) => Problem::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "too-slow",
                    "the server took longer than 60 s",
                )
                .hint("Try again in a moment.")
                .into_response(),
            }
        }
    };
    app.counts.add(response.status(), begun.elapsed());
    let mut response = match response.extensions().get::<Problem>() {
        Some(problem) if for_people && problem.status == StatusCode::UNAUTHORIZED => {
            pages::sign_in(&app, &wanted.place, wanted.is_from_elsewhere)
        }
        Some(problem) if for_people => pages::problem(problem),
        _ => response,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if app.names.is_secure() {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, year);
    }
    if !is_asset {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if accepts_gzip { compress::compressed(response).await } else { response }
}

/// The page that a browser asked for.
struct Wanted {
    place: String,
    /// A person followed a link on a page of another site.
    is_from_elsewhere: bool,
}

fn wanted(request: &Request) -> Wanted {
    let reads = request.method() == Method::GET;
    let place = request.uri().path_and_query().filter(|_| reads).map_or("/", |place| place.as_str());
    let site = header_text(request.headers(), "sec-fetch-site");
    Wanted {
        place: place.to_owned(),
        is_from_elsewhere: reads && matches!(site, Some("cross-site" | "same-site")),
    }
}

/// Refuses requests from other sites.
fn refused(app: &SharedState, request: &Request) -> Option<Problem> {
    let headers = request.headers();
    let host = header_text(headers, header::HOST).unwrap_or_default();
    let named = request.uri().authority().map_or(host, |authority| authority.as_str());
    let is_one = headers.get_all(header::HOST).iter().count() == 1 && named == host;
    if !is_one || !app.names.has(host) {
        let detail = format!("`{host}` is not a name of this server");
        return Some(Problem::new(StatusCode::MISDIRECTED_REQUEST, "host", detail));
    }
    let elsewhere = Problem::forbidden("origin", "the request was made by a page of another site");
    match header_text(headers, header::ORIGIN) {
        Some(origin) if !app.names.is_own(origin, host) => return Some(elsewhere),
        None if headers.contains_key(header::ORIGIN) => return Some(elsewhere),
        _ => {}
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match header_text(headers, "sec-fetch-site") {
        Some("same-origin" | "none") | None => None,
        // A person may follow a link from another site; its pages may not fetch or write.
        Some(_) if reads && header_text(headers, "sec-fetch-mode") == Some("navigate") => None,
        Some(_) => Some(elsewhere),
    }
}

/// Returns whether a browser shows the response to a person.
fn is_for_people(request: &Request) -> bool {
    let accepts =
        header_text(request.headers(), header::ACCEPT).is_some_and(|accept| accept.contains("text/html"));
    let path = request.uri().path();
    accepts && !path.starts_with("/api/") && path != "/mcp" && path != "/metrics"
}

pub(super) async fn nothing_here() -> Problem {
    Problem::unknown("there is no such page or route")
        .hint("`/` is the agenda; `/api/openapi.json` lists the routes of the API.")
}

pub(super) async fn not_so() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "this route does not take that method")
        .hint("`/api/openapi.json` lists the routes of the API and their methods.")
}
