//! What all pages have around them.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use provost_core::event::DESCRIPTIONS;

use super::text::T;
use crate::http::{House, Problem, Visitor};

/// Where a page is in the house.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Agenda,
    Inbox,
    Log,
    Elsewhere,
}

const ROOMS: [(Room, &str, &str); 3] =
    [(Room::Agenda, "/", "Agenda"), (Room::Inbox, "/inbox", "Inbox"), (Room::Log, "/log", "Log")];

/// A whole page.
pub struct Page {
    pub title: String,
    pub room: Room,
    /// Which events make it look again, as the query of `/api/events`; none for a page that stands still.
    pub live: Option<String>,
    pub body: Markup,
}

impl Page {
    /// `after` is a place in the log from before the page was made, so that nothing falls in between.
    pub fn shown(self, house: &House, visitor: &Visitor, after: u64) -> Response {
        let waiting = house.overview.waiting().unwrap_or(0);
        let names: Vec<&str> = DESCRIPTIONS.iter().map(|(name, _)| *name).collect();
        let names = names.join(" ");
        let (filter, after) = match &self.live {
            Some(filter) => (Some(filter.as_str()), Some(after)),
            None => (None, None),
        };
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                (head(&self.title, None))
                body data-events=(names) data-filter=[filter] data-after=[after] {
                    header {
                        strong { "provost" }
                        nav aria-label="Pages" {
                            @for (room, place, name) in ROOMS {
                                a href=(place) aria-current=[(room == self.room).then_some("page")] {
                                    (name)
                                    @if room == Room::Inbox { " (" span id="waiting" { (waiting) } ")" }
                                }
                            }
                        }
                        div class="who" {
                            (T(&visitor.name())) " · may " (visitor.token.scope.word()) " · "
                            @if visitor.token.scope.may_decide() {
                                form class="inline" method="post" action="/leave" {
                                    (form_key(visitor)) button { "Leave" }
                                }
                                " · "
                            }
                            span id="live" role="status" { @if self.live.is_some() { "connecting" } @else { "" } }
                        }
                    }
                    main id="main" { (self.body) }
                    script src="/assets/live.js" defer {}
                }
            }
        };
        Html(page.into_string()).into_response()
    }
}

fn head(title: &str, onward: Option<&str>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            title { (T(title)) " · provost" }
            link rel="stylesheet" href="/assets/style.css";
            link rel="icon" type="image/svg+xml" href="/assets/icon.svg";
            @if let Some(place) = onward { meta http-equiv="refresh" content=(format!("0; url={place}")); }
        }
    }
}

/// A page for somebody who is not in.
pub fn bare(status: StatusCode, title: &str, body: &Markup, onward: Option<&str>) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, onward))
            body {
                header { strong { "provost" } }
                main id="main" { h1 { (T(title)) } (body) }
            }
        }
    };
    (status, Html(page.into_string())).into_response()
}

pub fn problem(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = html! {
        p { (T(&problem.detail)) }
        @if let Some(hint) = &problem.hint { p { (T(hint)) } }
        @if !problem.diagnostics.is_empty() { (super::gate::findings(&problem.diagnostics)) }
        p { a href="/" { "To the agenda" } }
    };
    let mut response = bare(status, problem.title, &body, None);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// A state, a stage or an outcome, by its colour and, without one, by its word.
pub fn word(word: &str) -> Markup {
    let class = match word {
        "passed" | "done" | "held" | "approved" => "word good",
        "failed" | "broke" | "blocked" | "tampered" | "timed_out" | "killed" | "not_run" | "vacuous"
        | "flaky" => "word bad",
        "verified" | "in_progress" | "in-progress" | "claimed" | "waived" | "draft" => "word wait",
        _ => "word",
    };
    html! { span class=(class) { (T(&word.replace('_', " "))) } }
}

/// An instant; the script is not needed to read it.
pub fn instant(text: &str) -> Markup {
    let short = text.get(..19).unwrap_or(text).replace('T', " ");
    html! { time datetime=(text) { (short) } }
}

/// The key that our own forms carry.
pub fn form_key(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name="form_key" value=(visitor.form_key); }
}

/// Into a path.
pub fn segment(text: &str) -> PreEscaped<String> {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => {
                out.push(byte.into())
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    PreEscaped(out)
}
