//! Idempotency: a repeated write with the same `Idempotency-Key` gets the first answer again.
//!
//! Answers are kept in memory for an hour. After a restart the rules of the gate still apply: a decision is
//! not made twice, and a second attempt is refused with the reason.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use provost_core::model::hash::Hash;

use super::guard::text;
use super::{BODY_MAX, Problem, Shared};

const KEPT_FOR: Duration = Duration::from_secs(3600);
const KEPT_MAX: usize = 1000;
const KEY_MAX: usize = 255;

#[derive(Default)]
pub struct WriteLog {
    known: Mutex<HashMap<Hash, Write>>,
}

struct Write {
    /// Digest of the request.
    digest: Hash,
    since: Instant,
    /// `None` while it is running.
    answer: Option<(StatusCode, HeaderMap, Bytes)>,
}

enum Known {
    New,
    UnderWay,
    Another,
    Answered(Response),
}

impl WriteLog {
    fn begin(&self, key: Hash, digest: Hash) -> Known {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if known.len() >= KEPT_MAX {
            known.retain(|_, write| now.duration_since(write.since) < KEPT_FOR);
            let oldest = known.iter().min_by_key(|(_, write)| write.since).map(|(key, _)| *key);
            if let Some(oldest) = oldest.filter(|_| known.len() >= KEPT_MAX) {
                known.remove(&oldest);
            }
        }
        match known.get(&key) {
            Some(write) if write.digest != digest => Known::Another,
            Some(Write { answer: None, .. }) => Known::UnderWay,
            Some(Write { answer: Some((status, headers, body)), .. }) => {
                let mut response = (*status, Body::from(body.clone())).into_response();
                *response.headers_mut() = headers.clone();
                response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
                Known::Answered(response)
            }
            None => {
                known.insert(key, Write { digest, since: now, answer: None });
                Known::New
            }
        }
    }

    /// Stores the answer. `None` forgets the request, so that it may be tried again after a server error, a
    /// refusal by authentication or a rate limit.
    fn end(&self, key: Hash, answer: Option<(StatusCode, HeaderMap, Bytes)>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Some(answer) => {
                if let Some(write) = known.get_mut(&key) {
                    write.answer = Some(answer);
                }
            }
            None => {
                known.remove(&key);
            }
        }
    }
}

pub async fn once(State(house): State<Shared>, request: Request, next: Next) -> Response {
    let is_write = request.method() == Method::POST && request.uri().path().starts_with("/api/");
    let asked = request.headers().get("idempotency-key").filter(|_| is_write).cloned();
    let Some(asked) = asked else { return next.run(request).await };
    let is_visible = asked.as_bytes().iter().all(u8::is_ascii_graphic);
    if asked.is_empty() || asked.len() > KEY_MAX || !is_visible {
        return Problem::bad("an Idempotency-Key has 1 to 255 visible characters").into_response();
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_MAX).await else {
        return Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "the body is too large")
            .into_response();
    };
    let who = text(&parts.headers, header::AUTHORIZATION).or(text(&parts.headers, header::COOKIE));
    let part = |bytes: &[u8]| Hash::of(bytes).to_string();
    let key =
        Hash::of(format!("{} {}", part(asked.as_bytes()), part(who.unwrap_or("").as_bytes())).as_bytes());
    let digest = Hash::of(format!("{} {}", parts.uri, part(&body)).as_bytes());
    let refused = |status, kind, detail: &str| Problem::new(status, kind, detail).into_response();
    match house.writes.begin(key, digest) {
        Known::New => {}
        Known::Answered(response) => return response,
        Known::UnderWay => {
            return refused(StatusCode::CONFLICT, "under-way", "the first with this key is being answered");
        }
        Known::Another => {
            return refused(
                StatusCode::CONFLICT,
                "another",
                "this Idempotency-Key was used for another request",
            );
        }
    }
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, BODY_MAX).await.unwrap_or_default();
    let is_kept = !parts.status.is_server_error()
        && !matches!(
            parts.status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
        );
    house.writes.end(key, is_kept.then(|| (parts.status, parts.headers.clone(), body.clone())));
    Response::from_parts(parts, Body::from(body))
}
