//! Partial updates: sends only the changed parts of an open page, and caches pages that are the same for all
//! viewers.
//!
//! A page is rendered as a whole, and its parts are marked while it is written ([`part`]). A browser that
//! sends the version it has gets the changed parts, and for the others a mark that they are the same;
//! `assets/live.js` joins them.
//!
//! **Invariant:** the joined parts are the rendered page, byte for byte.
//! **Invariant:** cached pages belong to one position in the log and are dropped when the log grows.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use maud::{Markup, PreEscaped};
use provost_engine::Cursor;

use crate::problem::Answer;

/// Marks around a part, and for the place of ready parts. No escaped text contains them (`pages/text.rs`).
const BEGIN: char = '\u{1}';
const END: char = '\u{2}';
const HERE: char = '\u{3}';
/// Maximum number of remembered versions.
const VERSIONS: usize = 128;
/// Maximum number of cached pages.
const KEPT: usize = 16;
/// Maximum number of cached log rows, and the maximum size of one.
const ROWS: usize = 2048;
const ROW_MAX: usize = 8 * 1024;

/// Random seed, so that the author of a text cannot predict its digest.
static DIGEST: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Marks one element that changes independently. Parts cannot be nested.
pub(crate) fn part(markup: Markup) -> Markup {
    PreEscaped(format!("{BEGIN}{}{END}", markup.0))
}

/// Marks the place where [`Main::around`] inserts its parts.
pub(crate) fn parts_here() -> Markup {
    PreEscaped(HERE.to_string())
}

/// The content of a page.
#[derive(Clone, Debug)]
pub(crate) struct Main(Arc<Cut>);

#[derive(Debug)]
struct Cut {
    pieces: Vec<Piece>,
    version: u64,
    /// Digest of everything outside of the parts.
    frame: u64,
    /// The whole text, once it was requested.
    whole: OnceLock<String>,
}

#[derive(Debug)]
enum Piece {
    Frame(String),
    Part(Arc<PagePart>),
}

/// A part as it is sent: whole, or as a mark that it is the same.
#[derive(Debug)]
pub(crate) struct PagePart {
    digest: u64,
    whole: String,
    same: String,
}

impl PagePart {
    /// Makes a part. Text that is no element is always sent whole.
    fn new(text: &str) -> Arc<Self> {
        let digest = DIGEST.hash_one(text);
        let (whole, same) = match opened(text) {
            Some((tag, rest)) => (
                format!("<{tag} data-part=\"{digest:016x}\"{rest}"),
                format!("<{tag} data-same=\"{digest:016x}\"></{tag}>"),
            ),
            None => (text.to_owned(), text.to_owned()),
        };
        Arc::new(Self { digest, whole, same })
    }
}

/// Splits `<section id="x">…` into `section` and ` id="x">…`.
fn opened(part: &str) -> Option<(&str, &str)> {
    let inside = part.strip_prefix('<')?;
    Some(inside.split_at(inside.find([' ', '>'])?))
}

impl From<Markup> for Main {
    fn from(markup: Markup) -> Self {
        Self::of(cut(&markup.0))
    }
}

/// Splits a page into parts and the text around them.
fn cut(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (at, text) in text.split(BEGIN).enumerate() {
        let (part, frame) = if at == 0 { ("", text) } else { text.split_once(END).unwrap_or(("", text)) };
        if !part.is_empty() {
            pieces.push(Piece::Part(PagePart::new(part)));
        }
        pieces.push(Piece::Frame(frame.to_owned()));
    }
    pieces
}

impl Main {
    /// Joins ready parts and the markup around them ([`parts_here`]).
    pub(crate) fn around(markup: &Markup, parts: &[Arc<PagePart>]) -> Self {
        let (before, after) = markup.0.split_once(HERE).unwrap_or((&markup.0, ""));
        let mut pieces = cut(before);
        pieces.extend(parts.iter().cloned().map(Piece::Part));
        pieces.extend(cut(after));
        Self::of(pieces)
    }

    fn of(pieces: Vec<Piece>) -> Self {
        let frames: Vec<&str> =
            pieces.iter().map(|piece| if let Piece::Frame(text) = piece { text } else { "" }).collect();
        let frame = DIGEST.hash_one(&frames);
        let digests: Vec<u64> = parts(&pieces).map(|part| part.digest).collect();
        let version = DIGEST.hash_one((frame, digests));
        Self(Arc::new(Cut { pieces, version, frame, whole: OnceLock::new() }))
    }

    pub(crate) fn version(&self) -> String {
        format!("{:016x}", self.0.version)
    }

    pub(crate) fn frame(&self) -> String {
        format!("{:016x}", self.0.frame)
    }

    /// Returns the page; known parts are only marked as the same.
    pub(crate) fn written(&self, known: &HashSet<u64>) -> Cow<'_, str> {
        if known.is_empty() {
            return Cow::Borrowed(self.0.whole.get_or_init(|| self.put_together(known)));
        }
        Cow::Owned(self.put_together(known))
    }

    fn put_together(&self, known: &HashSet<u64>) -> String {
        let texts = self.0.pieces.iter().map(|piece| match piece {
            Piece::Frame(text) => text.as_str(),
            Piece::Part(part) if known.contains(&part.digest) => &part.same,
            Piece::Part(part) => &part.whole,
        });
        texts.collect()
    }
}

fn parts(pieces: &[Piece]) -> impl Iterator<Item = &Arc<PagePart>> {
    pieces.iter().filter_map(|piece| if let Piece::Part(part) = piece { Some(part) } else { None })
}

/// Caches of recently shown pages.
#[derive(Default)]
pub(crate) struct News {
    versions: Mutex<VecDeque<(u64, Arc<HashSet<u64>>)>>,
    kept: Mutex<Kept>,
    rows: Mutex<BTreeMap<Cursor, Arc<PagePart>>>,
    newest: Mutex<Newest>,
}

/// The newest rows of the log, newest first, as far as a page shows them.
#[derive(Default)]
struct Newest {
    through: Cursor,
    rows: Vec<(Cursor, Arc<PagePart>)>,
}

#[derive(Default)]
struct Kept {
    at: u64,
    pages: BTreeMap<String, Main>,
}

impl News {
    /// Returns the parts of a version that a browser has; empty if the version is no longer known.
    pub(crate) fn known(&self, version: Option<&str>) -> Arc<HashSet<u64>> {
        let version = version.and_then(|text| u64::from_str_radix(text, 16).ok());
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let found = versions.iter().find(|(known, _)| Some(*known) == version);
        found.map(|(_, parts)| parts.clone()).unwrap_or_default()
    }

    /// Remembers the version that a browser has from now on.
    pub(crate) fn shown(&self, main: &Main) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        if versions.iter().any(|(known, _)| *known == main.0.version) {
            return;
        }
        if versions.len() == VERSIONS {
            versions.pop_front();
        }
        let parts = parts(&main.0.pieces).map(|part| part.digest).collect();
        versions.push_back((main.0.version, Arc::new(parts)));
    }

    /// Returns a cached page that depends only on the log up to `at` and is the same for every viewer.
    pub(crate) fn kept(&self, page: String, at: u64, make: impl FnOnce() -> Answer<Main>) -> Answer<Main> {
        if let Some(main) = self.lock(at).pages.get(&page) {
            return Ok(main.clone());
        }
        let main = make()?;
        let mut kept = self.lock(at);
        if kept.at == at && kept.pages.len() < KEPT {
            kept.pages.insert(page, main.clone());
        }
        Ok(main)
    }

    /// Returns the row of an event, cached for the newest ones; a row never changes.
    pub(crate) fn row(&self, at: Cursor, make: impl FnOnce() -> Answer<Markup>) -> Answer<Arc<PagePart>> {
        let rows = || self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = rows().get(&at) {
            return Ok(row.clone());
        }
        let row = PagePart::new(&make()?.0);
        if row.whole.len() <= ROW_MAX {
            let mut rows = rows();
            rows.insert(at, row.clone());
            while rows.len() > ROWS {
                rows.pop_first();
            }
        }
        Ok(row)
    }

    /// Returns the newest `limit` rows of the whole log, newest first. `since` reads at most `limit` rows
    /// after a position: older rows do not change.
    pub(crate) fn newest(
        &self,
        limit: usize,
        since: impl FnOnce(Cursor, usize) -> Answer<Vec<(Cursor, Arc<PagePart>)>>,
    ) -> Answer<Vec<(Cursor, Arc<PagePart>)>> {
        let mut known = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = since(known.through, limit)?;
        known.through = rows.first().map_or(known.through, |(at, _)| *at);
        rows.append(&mut known.rows);
        rows.truncate(limit);
        known.rows.clone_from(&rows);
        Ok(rows)
    }

    fn lock(&self, at: u64) -> std::sync::MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.at < at {
            *kept = Kept { at, pages: BTreeMap::new() };
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use maud::html;

    use super::{Cursor, HashSet, Main, News, PagePart, part};

    fn page(rows: &[&str]) -> Main {
        html! { h1 { "A" } table { @for row in rows { (part(html! { tr { td { (row) } } })) } } }.into()
    }

    #[test]
    fn what_is_the_same_is_not_sent_again() {
        let news = News::default();
        let (before, after) = (page(&["one", "two", "three"]), page(&["one", "2", "three"]));
        assert!(news.known(Some(&before.version())).is_empty(), "nobody has it yet");
        news.shown(&before);
        let sent = after.written(&news.known(Some(&before.version()))).into_owned();
        assert!(sent.contains("<td>2</td>") && !sent.contains("one") && !sent.contains("three"), "{sent}");
        assert_eq!(sent.matches("<tr data-same=\"").count(), 2);
        assert_eq!((before.frame(), before.version() == after.version()), (after.frame(), false));
        // Joined, it is the rendered page.
        let whole = after.written(&HashSet::new()).into_owned();
        let old = before.written(&HashSet::new()).into_owned();
        let rows = |text: &str| -> Vec<String> {
            text.split("<tr ").skip(1).map(|row| row.split("</tr>").next().unwrap_or("").to_owned()).collect()
        };
        let (rows_old, mut together) = (rows(&old), sent.clone());
        for row in &rows_old {
            let digest = row.split('"').nth(1).unwrap_or("");
            together =
                together.replace(&format!("<tr data-same=\"{digest}\"></tr>"), &format!("<tr {row}</tr>"));
        }
        assert_eq!(together, whole);
    }

    #[test]
    fn a_page_is_kept_until_the_log_goes_on() {
        let news = News::default();
        let made = std::cell::Cell::new(0);
        let look = |at| {
            let made = &made;
            news.kept("log".to_owned(), at, || {
                made.set(made.get() + 1);
                Ok(html! { p { (at) } }.into())
            })
            .map(|main| main.written(&HashSet::new()).into_owned())
            .unwrap_or_default()
        };
        assert_eq!((look(7), look(7), made.get()), ("<p>7</p>".to_owned(), "<p>7</p>".to_owned(), 1));
        assert_eq!((look(8), made.get()), ("<p>8</p>".to_owned(), 2));
        // A late request with an older position gets the newer page.
        assert_eq!((look(7), made.get()), ("<p>8</p>".to_owned(), 2));
    }
    #[test]
    fn of_the_newest_rows_only_those_that_are_new_are_read() {
        let news = News::default();
        let look = |end: u64| {
            let mut from = None;
            let rows = news.newest(3, |after, limit| {
                from = Some(after.0);
                let new = (after.0 + 1..=end).rev().take(limit);
                Ok(new.map(|at| (Cursor(at), PagePart::new(&format!("<tr>{at}</tr>")))).collect())
            });
            let rows: Vec<u64> = rows.unwrap_or_default().iter().map(|(at, _)| at.0).collect();
            (from.unwrap_or(u64::MAX), rows)
        };
        assert_eq!(look(2), (0, vec![2, 1]));
        assert_eq!(look(2), (2, vec![2, 1]));
        assert_eq!(look(4), (2, vec![4, 3, 2]));
        assert_eq!(look(9), (4, vec![9, 8, 7]));
    }
}
