//! Decides which line ends git gives a file, by `.gitattributes`.
//!
//! A repository stores `\n`. With `eol=crlf` a checkout has `\r\n`, and a commit has `\n` again. The trees
//! of checks are written like a checkout, and two files that git would commit alike do not count as
//! different. The attributes are those of the approved commit; git is not run for this, and filters never
//! are.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::Base;

pub(super) const NAME: &[u8] = b".gitattributes";
const LIST_BYTES: u64 = 4 << 20;
/// Larger files are taken as they are.
pub(super) const FILE_BYTES: u64 = 64 << 20;
/// Number of bytes that git searches for a zero byte, which text does not contain.
const LOOK_BYTES: usize = 8_000;

/// The conversion of line ends that git does for a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineEndRules {
    text: Text,
    crlf: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Text {
    #[default]
    No,
    Yes,
    /// If it looks like text.
    Auto,
}

impl LineEndRules {
    pub(super) fn are_changed(self) -> bool {
        self.text != Text::No
    }

    /// Returns the content as in a commit, or `None` if it is the same.
    pub(super) fn committed(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let is_text = match self.text {
            Text::No => false,
            Text::Yes => true,
            Text::Auto => looks_like_text(bytes),
        };
        if !is_text || !bytes.windows(2).any(|pair| pair == b"\r\n") {
            return None;
        }
        let mut out = Vec::with_capacity(bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            if *byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
                out.push(*byte);
            }
        }
        Some(out)
    }

    /// Returns the content as in a checkout, or `None` if it is the same.
    pub(super) fn checked_out(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let is_text = match self.text {
            Text::No => false,
            Text::Yes => true,
            // git leaves a file alone that has such line ends in the repository already.
            Text::Auto => looks_like_text(bytes) && !bytes.contains(&b'\r'),
        };
        if !self.crlf || !is_text || !bytes.contains(&b'\n') {
            return None;
        }
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 16);
        let mut before = 0;
        for byte in bytes {
            if *byte == b'\n' && before != b'\r' {
                out.push(b'\r');
            }
            out.push(*byte);
            before = *byte;
        }
        Some(out)
    }
}

fn looks_like_text(bytes: &[u8]) -> bool {
    !bytes[..bytes.len().min(LOOK_BYTES)].contains(&0)
}

/// The rules of a folder; `None` if it has no attributes file.
type FolderRules = Option<Arc<Vec<Rule>>>;

/// The attributes of one tree.
#[derive(Debug, Default)]
pub(super) struct LineEnds {
    tree: Option<Base>,
    folders: Mutex<HashMap<Vec<u8>, FolderRules>>,
}

/// A line of an attributes file.
#[derive(Debug)]
struct Rule {
    paths: Gitignore,
    text: Option<Text>,
    crlf: Option<bool>,
}

impl LineEnds {
    pub(super) fn of_tree(base: &Base) -> Self {
        Self { tree: Some(base.clone()), folders: Mutex::default() }
    }

    /// Makes the rules from the texts of all `.gitattributes`, by their paths.
    pub(super) fn of_texts(texts: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Self {
        let folders = texts.map(|(path, text)| {
            let folder = path.strip_suffix(NAME).unwrap_or(&path);
            let folder = folder.strip_suffix(b"/").unwrap_or(folder).to_vec();
            (folder, Some(Arc::new(rules(&String::from_utf8_lossy(&text)))))
        });
        Self { tree: None, folders: Mutex::new(folders.collect()) }
    }

    pub(super) fn of(&self, path: &[u8]) -> LineEndRules {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let (mut text, mut crlf) = (None, None);
        for (folder, within) in
            std::iter::once((&path[..0], path)).chain(ends.map(|end| (&path[..end], &path[end + 1..])))
        {
            let Some(rules) = self.rules_in(folder) else { continue };
            let within = Path::new(OsStr::from_bytes(within));
            for rule in rules.iter().filter(|rule| rule.paths.matched(within, false).is_ignore()) {
                text = rule.text.or(text);
                crlf = rule.crlf.or(crlf);
            }
        }
        // An `eol` attribute implies that the file is text.
        let text = text.unwrap_or(if crlf.is_some() { Text::Yes } else { Text::No });
        LineEndRules { text, crlf: crlf.unwrap_or(false) }
    }

    fn rules_in(&self, folder: &[u8]) -> Option<Arc<Vec<Rule>>> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = folders.get(folder) {
            return known.clone();
        }
        let tree = self.tree.as_ref()?;
        let name = Path::new(OsStr::from_bytes(folder)).join(OsStr::from_bytes(NAME));
        let file = tree.has(&name).then(|| tree.file(&name));
        let is_short =
            |file: &std::path::PathBuf| file.metadata().is_ok_and(|found| found.len() <= LIST_BYTES);
        let text = file.filter(is_short).and_then(|file| fs::read(file).ok());
        let found = text.map(|text| Arc::new(rules(&String::from_utf8_lossy(&text))));
        folders.insert(folder.to_vec(), found.clone());
        found
    }
}

fn rules(text: &str) -> Vec<Rule> {
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '!', '[']));
    lines.filter_map(rule).collect()
}

fn rule(line: &str) -> Option<Rule> {
    let (pattern, words) = match line.strip_prefix('"') {
        Some(rest) => rest.split_once('"')?,
        None => line.split_once(char::is_whitespace)?,
    };
    let (mut text, mut crlf) = (None, None);
    for word in words.split_whitespace() {
        match word {
            "text" => text = Some(Text::Yes),
            "-text" | "binary" => text = Some(Text::No),
            "text=auto" => text = Some(Text::Auto),
            "eol=crlf" => crlf = Some(true),
            "eol=lf" => crlf = Some(false),
            _ => {}
        }
    }
    if text.is_none() && crlf.is_none() {
        return None;
    }
    let mut builder = GitignoreBuilder::new(".");
    builder.add_line(None, pattern).ok()?;
    Some(Rule { paths: builder.build().ok()?, text, crlf })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_the_nearest_folder_counts() {
        let texts = [
            (".gitattributes", "* text=auto\n*.bat text eol=crlf\n*.png binary\n/docs/** eol=crlf\n"),
            ("src/.gitattributes", "*.bat eol=lf\n"),
        ];
        let ends = LineEnds::of_texts(
            texts.iter().map(|(path, text)| (path.as_bytes().into(), text.as_bytes().into())),
        );
        for (path, changed, crlf) in [
            ("a", true, false),
            ("a.bat", true, true),
            ("x/a.bat", true, true),
            ("src/a.bat", true, false),
            ("a.png", false, false),
            ("docs/a/b", true, true),
        ] {
            let found = ends.of(path.as_bytes());
            assert_eq!((found.are_changed(), found.crlf), (changed, crlf), "{path}");
        }
        assert!(!LineEnds::default().of(b"a").are_changed());
    }

    #[test]
    fn ends_are_those_of_a_checkout_and_of_a_commit() {
        let crlf = LineEndRules { text: Text::Yes, crlf: true };
        assert_eq!(crlf.checked_out(b"a\nb\r\nc").as_deref(), Some(&b"a\r\nb\r\nc"[..]));
        assert_eq!(crlf.committed(b"a\r\nb\rc\n").as_deref(), Some(&b"a\nb\rc\n"[..]));
        assert_eq!((crlf.checked_out(b"a"), crlf.committed(b"a\n")), (None, None));
        let auto = LineEndRules { text: Text::Auto, crlf: true };
        assert_eq!(
            (auto.checked_out(b"\0\n"), auto.committed(b"\0\r\n"), auto.checked_out(b"a\r\nb\n")),
            (None, None, None)
        );
        assert_eq!(auto.checked_out(b"a\n").as_deref(), Some(&b"a\r\n"[..]));
        let lf = LineEndRules { text: Text::Yes, crlf: false };
        assert_eq!((lf.checked_out(b"a\n"), lf.committed(b"a\r\n").as_deref()), (None, Some(&b"a\n"[..])));
    }
}
