//! Searches files of the workspace by a regular expression; skips files that git ignores.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::Workspace;
use super::{Tool, ToolAnswer};
use crate::truncate;

const MATCHES: usize = 100;
const LINE: usize = 300;
/// Only this many bytes of a file are searched.
const FILE: u64 = 8 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Regular expression, matched line by line.
    pattern: String,
    /// Folder or file to look in. Default: the workspace.
    #[serde(default)]
    path: String,
    /// Only files whose path matches this glob, such as `*.rs` or `src/**`.
    #[serde(default)]
    glob: String,
    /// Do not tell capital letters from small ones.
    #[serde(default)]
    ignore_case: bool,
    /// How many matches to skip, to read on in a long result.
    #[serde(default)]
    skip: usize,
}

pub fn tools(workspace: &Workspace) -> Vec<Tool> {
    let workspace = workspace.clone();
    let run = move |ask: Search| {
        let workspace = workspace.clone();
        async move {
            // A large tree takes a while; the loop can be stopped meanwhile.
            let found = tokio::task::spawn_blocking(move || search(&workspace, &ask)).await;
            found.unwrap_or_else(|error| Err(format!("the search failed: {error}")))
        }
    };
    let description = "Finds lines that match a regular expression: `path:line: text`. Files that git ignores are left out.";
    vec![Tool::new("search", description, run).reading_only()]
}

fn search(workspace: &Workspace, ask: &Search) -> ToolAnswer {
    let pattern =
        RegexBuilder::new(&ask.pattern).case_insensitive(ask.ignore_case).build().map_err(|error| {
            format!("the pattern cannot be read; escape characters that are meant literally: {error}")
        })?;
    let place = workspace.place(if ask.path.is_empty() { "." } else { &ask.path })?;
    let mut walk = walk(&place);
    if !ask.glob.is_empty() {
        let mut only = OverrideBuilder::new(workspace.root());
        let built = only.add(&ask.glob).and_then(|only| only.build());
        walk.overrides(built.map_err(|error| format!("the glob cannot be read: {error}"))?);
    }
    let mut out = String::new();
    let mut seen = 0;
    let files = walk.build().flatten().filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    for entry in files {
        for (number, line) in matches(entry.path(), &pattern) {
            seen += 1;
            if seen <= ask.skip {
                continue;
            }
            if seen > ask.skip + MATCHES {
                let _ = write!(
                    out,
                    "[more; read on with skip = {}, or search more narrowly]",
                    ask.skip + MATCHES
                );
                return Ok(out);
            }
            let shown = workspace.shown(entry.path());
            let _ = writeln!(out, "{shown}:{number}: {}", truncate::indented_line(&line, LINE));
        }
    }
    match (seen, out.is_empty()) {
        (0, _) => Ok("no line matches".to_owned()),
        (_, true) => Ok(format!("no more: {seen} lines match")),
        _ => Ok(out),
    }
}

/// Returns a walk in the order of names, over everything that git does not ignore.
pub(crate) fn walk(place: &Path) -> WalkBuilder {
    let mut walk = WalkBuilder::new(place);
    walk.hidden(false).require_git(false).follow_links(false).sort_by_file_path(Path::cmp);
    walk.filter_entry(|entry| entry.file_name() != ".git");
    walk
}

/// Returns the matching lines of a text file; other files have none.
fn matches(path: &Path, pattern: &regex::Regex) -> Vec<(usize, String)> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let lines = BufReader::new(file.take(FILE)).lines().map_while(Result::ok);
    lines.zip(1..).filter(|(line, _)| pattern.is_match(line)).map(|(line, number)| (number, line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(pattern: &str) -> Search {
        Search {
            pattern: pattern.to_owned(),
            path: String::new(),
            glob: String::new(),
            ignore_case: false,
            skip: 0,
        }
    }

    #[test]
    fn lines_are_found_where_git_would_look() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        std::fs::create_dir_all(at.join("src")).expect("a folder");
        std::fs::create_dir_all(at.join("target")).expect("a folder");
        std::fs::write(at.join(".gitignore"), "target\n").expect("a file");
        std::fs::write(at.join("src/a.rs"), "fn one() {}\nfn two() {}\n    let five = 5;  \n")
            .expect("a file");
        std::fs::write(at.join("src/b.md"), "fn three\n").expect("a file");
        std::fs::write(at.join("target/c.rs"), "fn four() {}\n").expect("a file");
        std::fs::write(at.join("binary"), [b'f', b'n', b' ', 0xff, 0xfe]).expect("a file");
        let workspace = Workspace::new(at).expect("a workspace");
        assert_eq!(
            search(&workspace, &ask("^fn ")).expect("an answer"),
            "src/a.rs:1: fn one() {}\nsrc/a.rs:2: fn two() {}\nsrc/b.md:1: fn three\n"
        );
        let only = Search { glob: "*.md".to_owned(), ..ask("^fn ") };
        assert_eq!(search(&workspace, &only).expect("an answer"), "src/b.md:1: fn three\n");
        let found = search(&workspace, &ask("five")).expect("an answer");
        assert_eq!(found, "src/a.rs:3:     let five = 5;\n", "with its indentation");
        assert_eq!(search(&workspace, &ask("six")).expect("an answer"), "no line matches");
        let skipped = Search { skip: 2, ..ask("^fn ") };
        assert_eq!(search(&workspace, &skipped).expect("an answer"), "src/b.md:1: fn three\n");
        assert!(search(&workspace, &ask("(")).expect_err("an error").contains("cannot be read"));
    }
}
