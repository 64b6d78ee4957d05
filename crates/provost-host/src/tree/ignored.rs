//! Decides which paths git ignores, by rules from before any agent worked.
//!
//! The rules are the `.gitignore` files of the approved tree, the repository's own list
//! (`.git/info/exclude`) and the user's list (`core.excludesFile`). The two lists are read once for each
//! approval and kept: later changes by an agent to them or to a `.gitignore` have no effect. git is not run
//! for this.
//!
//! **Invariant:** a path that the approved tree has is tracked, whatever the rules say; callers must not
//! treat it as ignored.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use globset::GlobMatcher;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use provost_core::language::globs;
use provost_core::model::hash::Hash;
use serde::{Deserialize, Serialize};

use super::touches::{Touches, is_at_or_beneath, start_of};
use super::{Base, Error};
use crate::git;

/// Limit on the size of a list of rules; the rest is not read.
const LIST_BYTES: u64 = 4 << 20;
const NAME: &str = ".gitignore";
/// The file name that provost matches a glob against to learn what the glob covers.
const ANY: &str = "provost-any-name";
/// Limit on the alternatives of one glob.
const ALTERNATIVES: usize = 64;

/// The rules of one approval.
#[derive(Debug)]
pub struct IgnoreRules {
    source: Source,
    /// Used last: the repository's own list, then the user's.
    lists: Vec<Gitignore>,
    folders: Mutex<HashMap<Vec<u8>, Option<Arc<Gitignore>>>>,
}

/// The place from which `.gitignore` files are read.
#[derive(Debug)]
enum Source {
    Tree(Base),
    Folder(PathBuf),
}

/// The lists outside the tree, as they were when the approval was first used.
#[derive(Serialize, Deserialize)]
struct Lists {
    exclude: String,
    global: String,
}

impl Lists {
    fn of(workspace: &Path) -> Self {
        let exclude = git::git_folder(workspace).map(|own| git::shared_folder(&own).join("info/exclude"));
        Self {
            exclude: exclude.map(|path| text(&path)).unwrap_or_default(),
            global: gitconfig_excludes_path().map(|path| text(&path)).unwrap_or_default(),
        }
    }
}

impl IgnoreRules {
    /// Returns the rules of an approval: its tree, and the lists as they were at the first call.
    pub(super) fn of_approval(
        folder: &Path,
        workspace: &Path,
        request: &str,
        base: &Base,
    ) -> Result<Option<Self>, Error> {
        if git::git_folder(workspace).is_none() {
            return Ok(None);
        }
        let place = folder.join("ignored").join(Hash::of(request.as_bytes()).to_string());
        let known = fs::read(&place).ok().and_then(|bytes| serde_json::from_slice::<Lists>(&bytes).ok());
        let lists = match known {
            Some(lists) => lists,
            None => {
                let lists = Lists::of(workspace);
                let failed = |error: std::io::Error| Error::io("write", &place, error);
                let parent = place.parent().unwrap_or(folder);
                fs::create_dir_all(parent).map_err(failed)?;
                let mut file = tempfile::NamedTempFile::new_in(parent).map_err(failed)?;
                serde_json::to_writer(&mut file, &lists).map_err(|error| failed(error.into()))?;
                file.persist(&place).map_err(|error| failed(error.error))?;
                lists
            }
        };
        Ok(Some(Self::new(Source::Tree(base.clone()), &lists)))
    }

    /// Returns the rules of a workspace as they are now; for a message to the user, not for a decision.
    pub fn of_workspace(workspace: &Path) -> Option<Self> {
        git::git_folder(workspace)?;
        Some(Self::new(Source::Folder(workspace.to_owned()), &Lists::of(workspace)))
    }

    fn new(source: Source, lists: &Lists) -> Self {
        let lists = [&lists.exclude, &lists.global].map(|list| rules(list));
        Self { source, lists: lists.into_iter().flatten().collect(), folders: Mutex::default() }
    }

    /// Returns whether a rule matches this path itself, independent of the folders above it.
    pub fn matches(&self, path: &[u8], is_folder: bool) -> bool {
        // The nearest folder has precedence.
        let mut folder = Some(path);
        while let Some(inner) = folder {
            let end = inner.iter().rposition(|byte| *byte == b'/');
            let (above, within) = (&path[..end.unwrap_or(0)], &path[end.map_or(0, |end| end + 1)..]);
            let rules = self.rules_in(above);
            if let Some(ignored) = rules.and_then(|rules| decided(&rules, within, is_folder)) {
                return ignored;
            }
            folder = end.map(|_| above);
        }
        self.lists.iter().find_map(|list| decided(list, path, is_folder)).unwrap_or(false)
    }

    /// Returns the uppermost folder of a path that is ignored, or the path itself.
    pub fn top<'p>(&self, path: &'p [u8], is_folder: bool) -> Option<&'p [u8]> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let above = ends.map(|end| &path[..end]).find(|folder| self.matches(folder, true));
        above.or_else(|| self.matches(path, is_folder).then_some(path))
    }

    fn rules_in(&self, folder: &[u8]) -> Option<Arc<Gitignore>> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = folders.get(folder) {
            return known.clone();
        }
        let name = Path::new(OsStr::from_bytes(folder)).join(NAME);
        let found = match &self.source {
            Source::Tree(base) => base.has(&name).then(|| text(&base.file(&name))),
            Source::Folder(workspace) => Some(text(&workspace.join(&name))),
        };
        let found = found.and_then(|text| rules(&text)).map(Arc::new);
        folders.insert(folder.to_vec(), found.clone());
        found
    }

    /// Returns the globs that name something that git ignores: `dist/**`, `.env`, `logs/*.log`. `**` and
    /// `src/**` do not name anything like that, whatever files are there.
    pub fn named_by(&self, touches: &Touches) -> Vec<IgnoredGlob> {
        let globs = touches.written().iter().enumerate();
        let namings = globs.filter_map(|(at, glob)| self.naming(at, globs::plain(glob)));
        namings.collect()
    }

    fn naming(&self, at: usize, glob: &str) -> Option<IgnoredGlob> {
        let mut naming = IgnoredGlob { glob: at, starts: Vec::new(), tops: Vec::new() };
        for glob in alternatives(glob) {
            let start = start_of(&glob);
            if !start.is_empty() && self.top(&start, true).or(self.top(&start, false)).is_some() {
                naming.starts.push(start);
            }
            let parts: Vec<&str> = glob.split('/').collect();
            for count in 1..=parts.len() {
                let says_something = parts[count - 1].contains(|c: char| !"*?".contains(c));
                let means_ignored = || {
                    meanings(&parts[..count]).iter().any(|path| {
                        let path = path.as_bytes();
                        self.top(path, true).or(self.top(path, false)).is_some()
                    })
                };
                if says_something && means_ignored() {
                    let prefix = globs::glob(&parts[..count].join("/"));
                    naming.tops.extend(prefix.ok().map(|glob| glob.compile_matcher()));
                }
            }
        }
        (!naming.starts.is_empty() || !naming.tops.is_empty()).then_some(naming)
    }
}

/// A glob of `touches` that names something git ignores.
#[derive(Debug)]
pub struct IgnoredGlob {
    /// The position of the glob.
    pub glob: usize,
    /// The part before the first wildcard, if it is ignored.
    starts: Vec<Vec<u8>>,
    /// Prefixes of the glob that mean something ignored.
    tops: Vec<GlobMatcher>,
}

impl IgnoredGlob {
    /// Returns whether the glob names the ignored path `top`.
    pub fn names(&self, top: &[u8]) -> bool {
        self.starts.iter().any(|start| is_at_or_beneath(start, top))
            || self.tops.iter().any(|glob| glob.is_match(OsStr::from_bytes(top)))
    }
}

/// Expands `{a,b}`; a glob that cannot be expanded is returned as it is.
fn alternatives(glob: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![glob.to_owned()];
    while let Some(glob) = open.pop() {
        let Some(begin) = glob.find('{') else {
            done.push(glob);
            continue;
        };
        let mut depth = 0;
        let mut cuts = vec![begin];
        let mut end = None;
        for (at, c) in glob.char_indices().skip_while(|(at, _)| *at < begin) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => cuts.push(at),
                _ => {}
            }
            if depth == 0 {
                end = Some(at);
                break;
            }
        }
        let Some(end) = end.filter(|_| open.len() + done.len() < ALTERNATIVES) else {
            done.push(glob);
            continue;
        };
        cuts.push(end);
        let each = cuts.windows(2).map(|cut| &glob[cut[0] + 1..cut[1]]);
        let each: Vec<String> =
            each.map(|each| format!("{}{each}{}", &glob[..begin], &glob[end + 1..])).collect();
        open.extend(each);
    }
    done
}

/// Returns paths that a glob without alternatives matches: `**` as a folder of any name and as no folder.
fn meanings(parts: &[&str]) -> [String; 2] {
    let spelled = |part: &str| {
        let mut out = String::new();
        let mut class = false;
        for c in part.chars() {
            match c {
                '[' => class = true,
                ']' if class => {
                    class = false;
                    out.push('p');
                }
                _ if class => {}
                '*' if out.ends_with(ANY) => {}
                '*' => out.push_str(ANY),
                '?' => out.push('p'),
                '\\' => {}
                c => out.push(c),
            }
        }
        out
    };
    let all: Vec<String> = parts.iter().map(|part| spelled(part)).collect();
    let some = parts.iter().zip(&all).filter(|(part, _)| **part != "**").map(|(_, spelled)| spelled.as_str());
    [some.collect::<Vec<_>>().join("/"), all.join("/")]
}

/// Returns what a list says about a path: ignored, not ignored, or nothing.
fn decided(rules: &Gitignore, path: &[u8], is_folder: bool) -> Option<bool> {
    match rules.matched(Path::new(OsStr::from_bytes(path)), is_folder) {
        Match::Ignore(_) => Some(true),
        Match::Whitelist(_) => Some(false),
        Match::None => None,
    }
}

fn rules(text: &str) -> Option<Gitignore> {
    // git does not read an invalid rule either.
    let mut builder = GitignoreBuilder::new(".");
    for line in text.lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// Reads a text file. Returns an empty text for anything else: reading a pipe would block.
fn text(path: &Path) -> String {
    let mut bytes = Vec::new();
    if path.metadata().is_ok_and(|found| found.is_file())
        && let Ok(file) = File::open(path)
    {
        let _ = file.take(LIST_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(files: &[(&str, &str)]) -> (tempfile::TempDir, IgnoreRules) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let lists = Lists { exclude: "*.swp\n".to_owned(), global: ".DS_Store\n".to_owned() };
        let ignored = IgnoreRules::new(Source::Folder(folder.path().to_owned()), &lists);
        (folder, ignored)
    }

    #[test]
    fn rules_are_read_as_git_reads_them() {
        let (_folder, rules) = ignored(&[
            (".gitignore", "# words\n.env\n/dist/\n*.log\n!keep.log\nnode_modules\n!again.swp\n"),
            ("src/.gitignore", "*.tmp\n!/.env\n/only-here\n"),
        ]);
        for (path, is_folder, top) in [
            (".env", false, Some(".env")),
            ("a/b/.env", false, Some("a/b/.env")),
            ("src/.env", false, None),
            ("src/deep/.env", false, Some("src/deep/.env")),
            ("dist", true, Some("dist")),
            ("dist", false, None),
            ("dist/a/b", false, Some("dist")),
            ("a/dist/b", false, None),
            ("a.log", false, Some("a.log")),
            ("a/keep.log", false, None),
            ("node_modules/x/keep.log", false, Some("node_modules")),
            ("src/a.tmp", false, Some("src/a.tmp")),
            ("a.tmp", false, None),
            ("src/only-here", false, Some("src/only-here")),
            ("src/deep/only-here", false, None),
            (".a.swp", false, Some(".a.swp")),
            ("again.swp", false, None),
            ("x/.DS_Store", false, Some("x/.DS_Store")),
            ("x", true, None),
        ] {
            let found =
                rules.top(path.as_bytes(), is_folder).map(|top| String::from_utf8_lossy(top).into_owned());
            assert_eq!(found.as_deref(), top, "{path}");
        }
    }

    #[test]
    fn a_glob_names_what_is_ignored_by_a_name_of_its_own() {
        let (_folder, rules) = ignored(&[
            (".gitignore", ".env\n/.root\ndist/\n*.log\nnode_modules/\nsecret.py\n/out/*\n!/out/kept\n"),
            ("tmp/.gitignore", "*\n!.gitignore\n"),
        ]);
        for (glob, top, named) in [
            ("**", ".env", false),
            ("src/**", "src/.env", false),
            ("*", ".env", false),
            ("**/*", "dist", false),
            ("src", "src/dist", false),
            (".env", ".env", true),
            ("**/.env", ".env", true),
            ("**/.env", "a/.env", true),
            ("**/.env", "node_modules", false),
            ("**/.root", ".root", true),
            ("dist/**", "dist", true),
            ("./dist/", "dist", true),
            ("dist/app/*.js", "dist", true),
            ("packages/*/dist/**", "packages/a/dist", true),
            ("packages/**", "packages/a/dist", false),
            ("{src,dist}/**", "dist", true),
            ("{src,dist}/**", "src/dist", false),
            ("logs/*.log", "logs/a.log", true),
            ("**/*.log", "a.log", true),
            ("**/*.py", "secret.py", false),
            ("**/package.json", "node_modules", false),
            ("out/**", "out/a", false),
            ("out/a/**", "out/a", true),
            ("tmp/**", "tmp/a", false),
            ("tmp/a", "tmp/a", true),
        ] {
            let touches = Touches::new(&[glob]).unwrap();
            let found = rules.named_by(&touches).iter().any(|naming| naming.names(top.as_bytes()));
            assert_eq!(found, named, "{glob} {top}");
        }
    }
}
