//! The common frame of all pages.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use provost_core::model::event::DESCRIPTIONS;
use provost_core::model::person;

use super::text::T;
use super::times;
use crate::assets::address;
use crate::partial::Main;
use crate::principal::Principal;
use crate::problem::Problem;
use crate::state::AppState;

/// Navigation section of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Agenda,
    Inbox,
    Log,
    Compare,
    Insight,
    Machine,
    Cluster,
    Elsewhere,
}

const ROOMS: [(Section, &str, &str); 7] = [
    (Section::Agenda, "/", "Agenda"),
    (Section::Inbox, "/inbox", "Inbox"),
    (Section::Log, "/log", "Log"),
    (Section::Compare, "/compare", "Compare"),
    (Section::Insight, "/insight", "Insight"),
    (Section::Machine, "/machine", "Machine"),
    (Section::Cluster, "/cluster", "Cluster"),
];

/// Navigation section among the pages of one plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlanRoom {
    Overview,
    Steps,
    Changes,
    Timeline,
    Text,
    Gate,
    Proofs,
    Elsewhere,
}

/// Renders the navigation of one plan.
pub(super) fn plan_rooms(plan: &str, here: PlanRoom) -> Markup {
    let plan = segment(plan).0;
    let own = |rest: &str| format!("/plans/{plan}{rest}");
    let rooms = [
        (PlanRoom::Overview, own(""), "Overview"),
        (PlanRoom::Gate, own("/gate"), "Gate"),
        (PlanRoom::Steps, own("/steps"), "Steps"),
        (PlanRoom::Changes, own("/changes"), "Changes"),
        (PlanRoom::Timeline, own("/timeline"), "Timeline"),
        (PlanRoom::Text, own("/text"), "Text"),
        (PlanRoom::Elsewhere, format!("/log?plan={plan}"), "Log"),
        (PlanRoom::Proofs, own("/proofs"), "Proofs"),
        (PlanRoom::Elsewhere, format!("/compare?one={plan}"), "Compare"),
    ];
    html! {
        nav class="rooms" aria-label="Pages of this plan" {
            @for (room, place, name) in rooms {
                @let is_here = room == here && room != PlanRoom::Elsewhere;
                a href=(place) aria-current=[is_here.then_some("page")] { (name) }
            }
        }
    }
}

/// A whole page.
pub(super) struct HtmlPage {
    pub title: String,
    pub room: Section,
    /// Filter of the events that update the page, as a query of `/api/events`; `None` for a static page.
    pub live: Option<String>,
    pub body: Main,
}

impl HtmlPage {
    /// Renders the page. `after` is a position in the log from before the page was made, so that no event is
    /// missed.
    pub(super) fn shown(self, app: &AppState, principal: &Principal, after: u64) -> Response {
        let waiting = app.overview.waiting().unwrap_or(0);
        let names: Vec<&str> = DESCRIPTIONS.iter().map(|(name, _)| *name).collect();
        let names = names.join(" ");
        let (filter, after) = match &self.live {
            Some(filter) => (Some(filter.as_str()), Some(after)),
            None => (None, None),
        };
        let known = app.news.known(principal.has.as_deref());
        let (version, frame) = match &self.live {
            Some(_) => (Some(self.body.version()), Some(self.body.frame())),
            None => (None, None),
        };
        if self.live.is_some() {
            app.news.shown(&self.body);
        }
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                (head(&self.title, None))
                body data-events=(names) data-filter=[filter] data-after=[after] {
                    a class="skip" href="#main" { "To the content" }
                    header {
                        strong { "provost" }
                        nav aria-label="Pages" {
                            @for (room, place, name) in ROOMS {
                                a href=(place) aria-current=[(room == self.room).then_some("page")] {
                                    (name)
                                    @if room == Section::Inbox { " " span id="waiting" class="count" { (waiting) } }
                                }
                            }
                        }
                        (who(principal, self.live.is_some()))
                    }
                    main id="main" tabindex="-1" data-version=[version] data-frame=[frame] { (PreEscaped(self.body.written(&known))) }
                    (keys())
                    script src=(address("page.js")) defer {}
                    script src=(address("live.js")) defer {}
                }
            }
        };
        Html(times::fill(&page.0, times::now())).into_response()
    }
}

/// Lists the keys of the pages; `assets/page.js` opens it.
fn keys() -> Markup {
    let keys = [
        ("j", "next plan or item"),
        ("k", "the one before"),
        ("Enter", "open it"),
        ("/", "filter"),
        ("?", "this list"),
    ];
    html! {
        dialog id="keys" aria-labelledby="keys-title" {
            h2 id="keys-title" { "Keys" }
            dl { @for (key, does) in keys { dt { kbd { (key) } } dd { (does) } } }
            form method="dialog" { button { "Close" } }
        }
    }
}

fn who(principal: &Principal, is_live: bool) -> Markup {
    let scope = principal.token.scope;
    html! {
        div class="who" {
            span id="live" role="status" { @if is_live { "connecting" } }
            a href="/sessions" title={ "Your session may " (scope.word()) ". Show all sessions." } {
                (T(person::short(&principal.name())))
            }
            @if !scope.may_decide() { span { "may only look" } }
            form class="inline" method="post" action="/leave" { (form_key(principal)) button { "Leave" } }
        }
    }
}

fn head(title: &str, onward: Option<&str>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            title { (T(title)) " · provost" }
            link rel="stylesheet" href=(address("style.css"));
            link rel="icon" type="image/svg+xml" href=(address("icon.svg"));
            @if let Some(place) = onward { meta http-equiv="refresh" content=(format!("0; url={place}")); }
        }
    }
}

/// Renders a page for a client that is not logged in.
pub(super) fn bare(status: StatusCode, title: &str, body: &Markup, onward: Option<&str>) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, onward))
            body {
                header { strong { "provost" } }
                main id="main" class="bare" { h1 { (T(title)) } (body) }
            }
        }
    };
    (status, Html(page.into_string())).into_response()
}

pub(super) fn problem(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = html! {
        p { (T(&problem.detail)) }
        @if let Some(hint) = &problem.hint { p { (T(hint)) } }
        @if !problem.diagnostics.is_empty() { (super::parts::findings(&problem.diagnostics)) }
        // An empty link target is this page, so that the request can be repeated.
        p { a href="" { "Look again" } " · " a href="/" { "To the agenda" } }
    };
    bare(status, problem.title, &body, None)
}

/// Renders the key that provost's own forms carry.
pub(super) fn form_key(principal: &Principal) -> Markup {
    html! { input type="hidden" name="form_key" value=(principal.form_key); }
}

/// Escapes a text for a URL path.
pub(super) fn segment(text: &str) -> PreEscaped<String> {
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
