//! Serves the static files of the pages: one stylesheet, two scripts and an icon, built into the program.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use provost_core::model::hash::Hash;

use crate::problem::{Answer, Problem};
use crate::request::Segment;

/// The stylesheet: tokens first, then the parts that use them.
const STYLE: &str = concat!(
    include_str!("assets/tokens.css"),
    include_str!("assets/style.css"),
    include_str!("assets/desk.css"),
    include_str!("assets/drawing.css")
);

/// Name, content type, content.
const FILES: [(&str, &str, &str); 4] = [
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
    ("live.js", "text/javascript; charset=utf-8", include_str!("assets/live.js")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("assets/page.js")),
    ("style.css", "text/css; charset=utf-8", STYLE),
];

pub(crate) async fn serve(Segment(file): Segment<String>, headers: HeaderMap) -> Answer<Response> {
    let found = FILES.iter().find(|(name, ..)| *name == file);
    let Some((_, kind, text)) = found else { return Err(Problem::unknown("there is no such file")) };
    let tag = format!("\"{}\"", &Hash::of(text.as_bytes()).to_string()[..16]);
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
    let head = [(header::CONTENT_TYPE, (*kind).to_owned()), (header::ETAG, tag)];
    // The browser revalidates each time, because another version of the program has other files.
    let keep = [(header::CACHE_CONTROL, "no-cache")];
    Ok(match is_known {
        true => (StatusCode::NOT_MODIFIED, head, keep).into_response(),
        false => (head, keep, *text).into_response(),
    })
}
