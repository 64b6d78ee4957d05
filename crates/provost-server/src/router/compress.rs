//! Compresses large pages for browsers that accept gzip.
//!
//! The size of a compressed page could tell an observer of the network about its secrets, if another site chose a
//! part of the page and asked for it again and again. It cannot: the cookie of a session is not sent with requests
//! of other sites, and `guard.rs` refuses those.

use std::io::Write as _;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::principal::header_text;

/// A smaller page gains nothing.
const LEAST_BYTES: u64 = 4096;
const GZIP: &str = "gzip";

/// Returns whether the sender of a request accepts gzip.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = header_text(headers, header::ACCEPT_ENCODING).unwrap_or_default();
    accepted.split(',').any(|each| {
        let (name, weight) = each.split_once(';').unwrap_or((each, ""));
        name.trim() == GZIP && weight.trim() != "q=0"
    })
}

/// Compresses a page whose bytes are all there; other responses stay as they are.
pub(super) async fn compressed(response: Response) -> Response {
    let headers = response.headers();
    let is_page =
        header_text(headers, header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html"));
    let size = response.body().size_hint().exact().filter(|size| *size >= LEAST_BYTES);
    if !is_page || size.is_none() || headers.contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    let Ok(packed) = encoder.write_all(&bytes).and_then(|()| encoder.finish()) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(GZIP));
    parts.headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    Response::from_parts(parts, Body::from(packed))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use axum::response::{Html, IntoResponse as _};
    use flate2::read::GzDecoder;

    use super::*;

    fn asked(accepted: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        accepts_gzip(&headers)
    }

    #[test]
    fn only_who_accepts_gzip_gets_it() {
        assert!(asked("gzip, deflate, br") && asked("br;q=1.0, gzip;q=0.5"));
        assert!(
            !asked("deflate, br") && !asked("gzip;q=0") && !asked("") && !accepts_gzip(&HeaderMap::new())
        );
    }

    #[tokio::test]
    async fn a_large_page_is_compressed_and_nothing_else() {
        let text = "<p>one of many steps</p>".repeat(1000);
        let page = compressed(Html(text.clone()).into_response()).await;
        assert_eq!(page.headers()[header::CONTENT_ENCODING], GZIP);
        let bytes = to_bytes(page.into_body(), usize::MAX).await.unwrap();
        assert!(bytes.len() < text.len() / 10, "{}", bytes.len());
        let mut plain = String::new();
        GzDecoder::new(&bytes[..]).read_to_string(&mut plain).unwrap();
        assert_eq!(plain, text);
        for other in [Html("<p>small</p>").into_response(), text.into_response()] {
            assert!(!compressed(other).await.headers().contains_key(header::CONTENT_ENCODING));
        }
    }
}
