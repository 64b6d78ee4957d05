//! Decides which paths a plan may change. The meaning of a glob is defined in `provost-core` (`globs.rs`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use globset::{GlobSet, GlobSetBuilder};
use provost_core::language::{globs, test_files};

use super::Error;

#[derive(Clone, Debug, Default)]
pub struct Touches {
    written: Vec<String>,
    globs: Vec<Reach>,
    set: GlobSet,
}

/// The reach of a glob, as far as its text shows it.
#[derive(Clone, Debug)]
struct Reach {
    /// The part before the first wildcard.
    start: Vec<u8>,
    /// Number of parts of the paths that it matches; `None`: any number.
    depth: Option<usize>,
    is_everything: bool,
    /// True if it has no wildcard.
    is_plain: bool,
}

impl Touches {
    pub fn new<S: AsRef<str>>(globs: &[S]) -> Result<Self, Error> {
        let mut reaches = Vec::new();
        let mut set = GlobSetBuilder::new();
        for written in globs {
            let refused = |why: String| Error::Glob { glob: written.as_ref().to_owned(), why };
            set.add(globs::glob(written.as_ref()).map_err(refused)?);
            reaches.push(reach(globs::plain(written.as_ref())));
        }
        let refused = |error: globset::Error| Error::Glob {
            glob: error.glob().unwrap_or_default().to_owned(),
            why: error.kind().to_string(),
        };
        let written = globs.iter().map(|glob| glob.as_ref().to_owned()).collect();
        Ok(Self { written, globs: reaches, set: set.build().map_err(refused)? })
    }

    /// Returns the globs as they were written.
    pub fn written(&self) -> &[String] {
        &self.written
    }

    /// Returns whether a glob without wildcards is exactly this path, or one below it.
    pub fn spells_out(&self, path: &[u8]) -> bool {
        let is_plain = |reach: &&Reach| reach.is_plain;
        self.globs.iter().filter(is_plain).any(|reach| is_at_or_beneath(&reach.start, path))
    }

    /// Returns whether one of these globs, given by their positions, covers the path.
    pub fn covers_by(&self, globs: &[usize], path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.chain([path.len()]).any(|end| {
            let matching = self.set.matches(OsStr::from_bytes(&path[..end]));
            globs.iter().any(|glob| matching.contains(glob))
        })
    }

    /// Returns whether a glob names a path inside this nested repository, as `vendor/x/.git/**` does.
    pub fn names_repository(&self, path: &[u8]) -> bool {
        self.globs.iter().any(|reach| is_at_or_beneath(&reach.start, path))
    }

    /// Returns whether the path is configuration of a test runner that a glob covers without showing it:
    /// `src/**` and `src/conftest.py`. A glob that names the file, a folder of tests or everything shows
    /// it.
    pub fn lets_in_unseen(&self, path: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(path) else { return false };
        test_files::is_runner_file(text)
            && !self.globs.iter().any(|reach| {
                let start = String::from_utf8_lossy(&reach.start);
                // Without a wildcard the start is the whole glob.
                reach.start == path
                    || is_at_or_beneath(path, &reach.start) && test_files::is_handed_over(&start)
                    || reach.is_everything
            })
    }

    /// Returns whether exactly this path is written in the plan.
    pub fn name(&self, path: &str) -> bool {
        self.globs.iter().any(|reach| reach.is_plain && reach.start == path.as_bytes())
    }

    /// Returns whether the globs only name configuration files: then the work is about configuration.
    pub fn are_configuration(&self) -> bool {
        let is_one = |reach: &Reach| {
            let start = String::from_utf8_lossy(&reach.start);
            reach.is_plain && test_files::is_oracle(&start) && !test_files::is_test(&start)
        };
        !self.globs.is_empty() && self.globs.iter().all(is_one)
    }

    /// Returns whether a glob matches this path itself. The content of a matched folder is covered as well.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.set.is_match(OsStr::from_bytes(path))
    }

    /// Returns whether a glob matches this path or a folder that contains it.
    pub fn covers(&self, path: &[u8]) -> bool {
        let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        folders.map(|(at, _)| &path[..at]).any(|folder| self.matches(folder)) || self.matches(path)
    }

    /// Returns whether a glob could match a path inside this folder without matching the folder itself.
    pub fn reaches_into(&self, folder: &[u8]) -> bool {
        let depth =
            if folder.is_empty() { 0 } else { 1 + folder.iter().filter(|byte| **byte == b'/').count() };
        self.globs.iter().any(|reach| {
            (is_at_or_beneath(folder, &reach.start) && reach.depth.is_none_or(|most| depth < most))
                || is_at_or_beneath(&reach.start, folder)
        })
    }

    /// Returns the paths at which to start: nothing outside them can match, and none is below another.
    pub fn starts(&self) -> Vec<&[u8]> {
        let mut starts: Vec<&[u8]> = self.globs.iter().map(|reach| reach.start.as_slice()).collect();
        starts.sort();
        starts.dedup();
        let all = starts.clone();
        let is_within = |path: &[u8], other: &&[u8]| *other != path && is_at_or_beneath(path, other);
        starts.retain(|start| !all.iter().any(|other| is_within(start, other)));
        starts
    }
}

pub(super) fn is_at_or_beneath(path: &[u8], folder: &[u8]) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
}

/// Returns the part of a glob before the first wildcard.
pub(super) fn start_of(glob: &str) -> Vec<u8> {
    let is_plain = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\', '!']);
    glob.split('/').take_while(is_plain).collect::<Vec<_>>().join("/").into_bytes()
}

fn reach(glob: &str) -> Reach {
    let parts: Vec<&str> = glob.split('/').collect();
    let start = start_of(glob);
    // Alternatives may contain slashes.
    let open = glob.contains("**") || glob.contains('{');
    Reach {
        is_plain: start == glob.as_bytes(),
        start,
        depth: (!open).then_some(parts.len()),
        is_everything: matches!(glob, "**" | "**/*" | "*"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touches(globs: &[&str]) -> Touches {
        Touches::new(globs).unwrap()
    }

    #[test]
    fn a_folder_that_is_matched_is_covered_with_all_it_holds() {
        for (glob, path, covered) in [
            ("src/**", "src/a/b.rs", true),
            ("src/**", "src", false),
            ("src", "src/a/b.rs", true),
            ("src/", "src/a", true),
            ("./src", "src/a", true),
            (".", "a/b", true),
            ("*", "a/b", true),
            ("**", ".hidden", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/a/b.rs", false),
            ("src/*/mod.rs", "src/a/mod.rs", true),
            ("src/*/mod.rs", "src/a/b/mod.rs", false),
            ("**/*.md", "a/b/c.md", true),
            ("**/*.md", "c.md", true),
            ("src/{a,b/c}.rs", "src/b/c.rs", true),
            ("src", "srcs/a", false),
            ("src/**", "src/with\nnewline", true),
            ("README.md", "README.md", true),
        ] {
            assert_eq!(touches(&[glob]).covers(path.as_bytes()), covered, "{glob} {path}");
        }
        assert!(touches(&["src/**"]).covers(b"src/\xff\xfe"), "names need not be text");
        assert!(!touches(&[]).covers(b"a"));
    }

    #[test]
    fn configuration_of_a_runner_is_let_in_by_name() {
        for (glob, path, unseen) in [
            ("src/**", "src/conftest.py", true),
            ("src", "src/a/conftest.py", true),
            ("**/*.py", "conftest.py", true),
            ("*.toml", "nextest.toml", true),
            ("src/conftest.py", "src/conftest.py", false),
            ("tests/**", "tests/conftest.py", false),
            ("pkg/tests", "pkg/tests/conftest.py", false),
            (".cargo/**", ".cargo/config.toml", false),
            ("**", "conftest.py", false),
            ("src/**", "src/package.json", false),
            ("src/**", "src/calc.py", false),
        ] {
            assert_eq!(touches(&[glob]).lets_in_unseen(path.as_bytes()), unseen, "{glob} {path}");
        }
    }

    #[test]
    fn looking_begins_where_the_wildcards_do() {
        let set = touches(&["src/auth/**", "src/auth/x/*.rs", "README.md", "a/*/c.rs"]);
        assert_eq!(set.starts(), [b"README.md".as_slice(), b"a", b"src/auth"]);
        assert_eq!(touches(&["**/*.rs", "src/a"]).starts(), [b"".as_slice()]);
        for (folder, reached) in [
            ("", true),
            ("src", true),
            ("src/auth/deep/er", true),
            ("a/b", true),
            ("a/b/c", false),
            ("c", false),
        ] {
            assert_eq!(set.reaches_into(folder.as_bytes()), reached, "{folder}");
        }
    }

    #[test]
    fn a_glob_that_leaves_the_workspace_is_refused() {
        for glob in ["/", "/etc", "../x", "a/../b", "a//b", "a/./b", "src/["] {
            assert!(Touches::new(&[glob]).is_err(), "{glob}");
        }
    }
}
