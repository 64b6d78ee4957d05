//! Instants on a page: how long ago, with the exact time on hover.
//!
//! A page may be cached, so the distance is filled in when the page is sent ([`fill`]). `assets/page.js` keeps
//! it true while the page is open.

use std::time::{SystemTime, UNIX_EPOCH};

use maud::{Markup, html};
use provost_core::model::timestamp::Timestamp;

/// Encloses the milliseconds of an instant. No escaped text contains it (`text.rs`).
const MARK: char = '\u{4}';

/// Returns the current time in milliseconds.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Renders an instant.
pub(super) fn instant(at: Timestamp) -> Markup {
    let text = at.to_string();
    html! { time datetime=(text) title=(exact(at)) { (MARK) (at.0) (MARK) } }
}

/// Returns the exact time for people: `2026-01-31 09:30:00 UTC`.
pub(super) fn exact(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{} UTC", text.get(..19).unwrap_or(&text).replace('T', " "))
}

/// Fills in the instants of a rendered page.
pub(super) fn fill(page: &str, now: u64) -> String {
    let mut out = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(MARK) {
        out.push_str(before);
        // Only a mark that directly follows a tag is one of ours.
        let found = after.split_once(MARK).filter(|_| before.ends_with("\">"));
        match found.and_then(|(ms, after)| Some((ms.parse::<u64>().ok()?, after))) {
            Some((at, after)) => {
                out.push_str(&ago(at, now));
                rest = after;
            }
            None => {
                out.push(MARK);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Describes how far an instant is from now, in one unit. `assets/page.js` uses the same words.
fn ago(at: u64, now: u64) -> String {
    let seconds = now.abs_diff(at) / 1000;
    let words = match seconds {
        0..=4 => return "now".to_owned(),
        5..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min", seconds / 60),
        3600..=86_399 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    };
    if at > now { format!("in {words}") } else { format!("{words} ago") }
}

#[cfg(test)]
mod tests {
    use super::{Timestamp, ago, fill, instant};

    #[test]
    fn an_instant_says_how_long_ago_it_was_when_the_page_is_sent() {
        let page = instant(Timestamp(1_000_000)).into_string();
        assert!(fill(&page, 1_000_000 + 90_000).ends_with(">1 min ago</time>"), "{page}");
        assert!(fill(&page, 1_000_000 + 7_200_000).ends_with(">2 h ago</time>"));
        assert!(page.contains("title=\"1970-01-01 00:16:40 UTC\""), "{page}");
        let said = [(0, 3_000), (0, 30_000), (0, 90_000_000), (90_000, 0)].map(|(at, now)| ago(at, now));
        assert_eq!(said, ["now", "30 s ago", "1 d ago", "in 1 min"]);
    }

    #[test]
    fn a_mark_in_a_text_stays_as_it_is() {
        let text = "<textarea>a\u{4}12\u{4}b</textarea>";
        assert_eq!(fill(text, 1), text);
    }
}
