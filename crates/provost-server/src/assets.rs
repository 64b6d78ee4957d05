//! Serves the static files of the pages: one stylesheet, two scripts and an icon, built into the program.

use std::sync::LazyLock;

use axum::extract::RawQuery;
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

/// The first digits of the hash of each file, in the order of [`FILES`].
static VERSIONS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let version = |text: &str| Hash::of(text.as_bytes()).to_string()[..16].to_owned();
    FILES.iter().map(|(_, _, text)| version(text)).collect()
});

/// Returns the address of a file. It names the version, so that a browser asks for each version once.
pub(crate) fn address(file: &str) -> String {
    let version = FILES.iter().zip(VERSIONS.iter()).find(|((name, ..), _)| *name == file);
    format!("/assets/{file}?{}", version.map_or("", |(_, version)| version))
}

pub(crate) async fn serve(
    Segment(file): Segment<String>,
    RawQuery(asked): RawQuery,
    headers: HeaderMap,
) -> Answer<Response> {
    let found = FILES.iter().zip(VERSIONS.iter()).find(|((name, ..), _)| *name == file);
    let Some(((_, kind, text), version)) = found else {
        return Err(Problem::unknown("there is no such file"));
    };
    let tag = format!("\"{version}\"");
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
    // Another version of the program has other files, so only an address with the version may be kept.
    let keep =
        if asked.as_ref() == Some(version) { "private, max-age=31536000, immutable" } else { "no-cache" };
    let head = [
        (header::CONTENT_TYPE, (*kind).to_owned()),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, keep.to_owned()),
    ];
    Ok(match is_known {
        true => (StatusCode::NOT_MODIFIED, head).into_response(),
        false => (head, *text).into_response(),
    })
}
