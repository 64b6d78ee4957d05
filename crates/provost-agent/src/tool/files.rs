//! Tools for files of the workspace: read a part, write, list, and check the content.
//!
//! **Invariant:** no path leads out of the workspace, neither through `..` nor through a link. This
//! prevents mistakes of the model; the sandbox around the process is the protection.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::process::Command;

use super::{Tool, ToolAnswer};
use crate::truncate;

/// Default number of lines to read.
const LINES: usize = 200;
/// Maximum size of an answer; longer ones are split into pages.
const BYTES: usize = 24 * 1024;
/// Maximum size of a file to read.
const FILE: u64 = 16 << 20;
const ENTRIES: usize = 300;

/// The folder tools work in.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
    /// Variables that commands of the model do not get.
    pub(crate) withheld: Vec<String>,
    /// Program with arguments that starts a command in a session of its own, without the terminal.
    launcher: Vec<OsString>,
}

impl Workspace {
    pub fn new(root: &Path) -> io::Result<Self> {
        Ok(Self { root: root.canonicalize()?, withheld: Vec::new(), launcher: Vec::new() })
    }

    /// Starts commands with this program, which puts them into a session of their own.
    #[must_use]
    pub fn started_by(self, launcher: Vec<OsString>) -> Self {
        Self { launcher, ..self }
    }

    /// Returns a command that runs in the workspace, without the hidden variables. It leads a process group
    /// of its own, at the latest when its program begins.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self.launcher.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
            None => {
                let mut command = Command::new(program);
                command.process_group(0);
                command
            }
        };
        command.current_dir(&self.root);
        self.withheld.iter().for_each(|variable| {
            command.env_remove(variable);
        });
        command
    }

    /// Hides a variable, such as the one with the API key, from commands that the model starts.
    #[must_use]
    pub fn withhold(mut self, variable: impl Into<String>) -> Self {
        self.withheld.push(variable.into());
        self
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path inside the workspace; the file need not exist.
    pub(crate) fn place(&self, path: &str) -> Result<PathBuf, String> {
        let outside =
            || format!("`{path}` is outside of the workspace; use a path inside, such as src/main.rs");
        if path.trim().is_empty() {
            return Err("the path is empty; `.` is the workspace".to_owned());
        }
        let given = Path::new(path);
        let inside = match given.is_absolute() {
            true => given.strip_prefix(&self.root).map_err(|_| outside())?,
            false => given,
        };
        let mut place = self.root.clone();
        for part in inside.components() {
            match part {
                Component::CurDir => {}
                Component::Normal(name) => place.push(name),
                Component::ParentDir if place != self.root => _ = place.pop(),
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(outside()),
            }
        }
        // Resolve links in the deepest part that exists.
        let there = place.ancestors().find(|above| fs::symlink_metadata(above).is_ok());
        let real =
            there.unwrap_or(&self.root).canonicalize().map_err(|error| format!("`{path}`: {error}"))?;
        if real.starts_with(&self.root) { Ok(place) } else { Err(outside()) }
    }

    pub(crate) fn shown<'p>(&self, path: &'p Path) -> std::path::Display<'p> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }

    pub(super) fn text(&self, path: &str) -> Result<String, String> {
        let place = self.place(path)?;
        let found = fs::metadata(&place).map_err(|error| missing(path, &error))?;
        if found.is_dir() {
            return Err(format!("`{path}` is a folder; use list"));
        }
        if !found.is_file() {
            return Err(format!("`{path}` is not a regular file"));
        }
        if found.len() > FILE {
            return Err(format!(
                "`{path}` has {} bytes, too many to read; use shell with head, tail or grep",
                found.len()
            ));
        }
        let bytes = fs::read(&place).map_err(|error| missing(path, &error))?;
        String::from_utf8(bytes)
            .map_err(|_| format!("`{path}` is not UTF-8 text; use view_image if it is an image, else shell"))
    }
}

fn missing(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("`{path}` does not exist; use list or search to find it"),
        _ => format!("`{path}`: {error}"),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    /// Path inside the workspace.
    path: String,
    /// First line to show, from 1. Default 1.
    #[serde(default)]
    first_line: usize,
    /// How many lines to show. Default 200.
    #[serde(default)]
    lines: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFile {
    /// Path inside the workspace; folders are made.
    path: String,
    /// The whole new content.
    content: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Folder inside the workspace; `.` is the workspace.
    path: String,
    /// How many entries to skip, to read on in a long list.
    #[serde(default)]
    skip: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VerifyFileExists {
    /// Path inside the workspace.
    path: String,
    /// Text the file must contain; empty if it only has to be there.
    #[serde(default)]
    expected_content_contains: String,
}

pub fn tools(workspace: &Workspace) -> Vec<Tool> {
    let tool = |workspace: &Workspace| workspace.clone();
    let (read, write, list, verify) = (tool(workspace), tool(workspace), tool(workspace), tool(workspace));
    vec![
        Tool::new(
            "read_file",
            "Shows lines of a text file with their numbers. Long files are paged: ask again with first_line.",
            move |ask: ReadFile| std::future::ready(read_file(&read, &ask)),
        )
        .reading_only(),
        Tool::new(
            "write_file",
            "Writes a whole file and replaces its old content. For a small change use edit.",
            move |ask: WriteFile| std::future::ready(write_file(&write, &ask)),
        )
        .editing(),
        Tool::new(
            "list",
            "Lists a folder: folders end with `/`, files have their size in bytes.",
            move |ask: List| std::future::ready(self::list(&list, &ask)),
        )
        .reading_only(),
        Tool::new(
            "verify_file_exists",
            "Says true or false: whether a file exists and contains a text. Cite its \
             call number as evidence.",
            move |ask: VerifyFileExists| std::future::ready(verify_file_exists(&verify, &ask)),
        )
        .reading_only(),
    ]
}

fn read_file(workspace: &Workspace, ask: &ReadFile) -> ToolAnswer {
    let text = workspace.text(&ask.path)?;
    let total = text.lines().count();
    let first = ask.first_line.max(1);
    if total == 0 {
        return Ok(format!("{} is empty", ask.path));
    }
    if first > total {
        return Err(format!("{} has {total} lines; first_line {first} is after its end", ask.path));
    }
    let wanted = if ask.lines == 0 { LINES } else { ask.lines };
    let mut out = String::new();
    let mut last = first - 1;
    for (line, number) in text.lines().zip(1..).skip(first - 1).take(wanted) {
        if !out.is_empty() && out.len() + line.len() > BYTES {
            break;
        }
        let _ = writeln!(
            out,
            "{number:>5}  {}",
            truncate::middle(line, BYTES, "use shell to see the whole line")
        );
        last = number;
    }
    if last < total {
        let _ = writeln!(out, "[lines {first}–{last} of {total}; read on with first_line = {}]", last + 1);
    }
    Ok(out)
}

fn write_file(workspace: &Workspace, ask: &WriteFile) -> ToolAnswer {
    let place = workspace.place(&ask.path)?;
    let failed = |error: io::Error| format!("`{}` could not be written: {error}", ask.path);
    // Writing to a pipe would wait for a reader that never comes.
    if fs::metadata(&place).is_ok_and(|found| !found.is_file()) {
        return Err(format!("`{}` exists and is not a regular file", ask.path));
    }
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(&place, &ask.content).map_err(failed)?;
    Ok(format!("wrote {} bytes to {}", ask.content.len(), workspace.shown(&place)))
}

fn list(workspace: &Workspace, ask: &List) -> ToolAnswer {
    let place = workspace.place(&ask.path)?;
    let entries = fs::read_dir(&place).map_err(|error| missing(&ask.path, &error))?;
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.metadata() {
                Ok(found) if found.is_dir() => format!("{name}/"),
                Ok(found) => format!("{name}  {}", found.len()),
                Err(_) => name,
            }
        })
        .collect();
    names.sort();
    let total = names.len();
    if total == 0 {
        return Ok(format!("{} is empty", ask.path));
    }
    let mut out: String = names.into_iter().skip(ask.skip).take(ENTRIES).collect::<Vec<_>>().join("\n");
    if ask.skip + ENTRIES < total {
        let _ = write!(out, "\n[{total} entries; read on with skip = {}]", ask.skip + ENTRIES);
    }
    Ok(out)
}

fn verify_file_exists(workspace: &Workspace, ask: &VerifyFileExists) -> ToolAnswer {
    let place = workspace.place(&ask.path)?;
    let Ok(found) = fs::metadata(&place) else { return Ok(format!("false: {} does not exist", ask.path)) };
    if !found.is_file() {
        return Ok(format!("false: {} is not a file", ask.path));
    }
    if ask.expected_content_contains.is_empty() {
        return Ok(format!("true: {} exists with {} bytes", ask.path, found.len()));
    }
    match workspace.text(&ask.path)?.contains(&ask.expected_content_contains) {
        true => Ok(format!("true: {} exists with {} bytes and contains the text", ask.path, found.len())),
        false => Ok(format!("false: {} exists and does not contain the text", ask.path)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    struct Place {
        folder: tempfile::TempDir,
        tools: Vec<Tool>,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let tools = tools(&Workspace::new(folder.path()).expect("a workspace"));
            Self { folder, tools }
        }

        async fn call(&self, name: &str, arguments: Value) -> String {
            let tool = self.tools.iter().find(|tool| tool.spec.name == name).expect("a tool");
            tool.call(arguments).await.unwrap_or_else(|error| format!("error: {error}"))
        }
    }

    #[tokio::test]
    async fn a_file_is_written_read_and_verified() {
        let place = Place::new();
        let wrote = place.call("write_file", json!({ "path": "a/b.txt", "content": "one\ntwo\n" })).await;
        assert_eq!(wrote, "wrote 8 bytes to a/b.txt");
        assert_eq!(place.call("read_file", json!({ "path": "a/b.txt" })).await, "    1  one\n    2  two\n");
        place.call("write_file", json!({ "path": "a/b.txt", "content": "one\nthree\n" })).await;
        assert_eq!(place.call("list", json!({ "path": "." })).await, "a/");
        assert_eq!(place.call("list", json!({ "path": "a" })).await, "b.txt  10");
        let ask = |text: &str| json!({ "path": "a/b.txt", "expected_content_contains": text });
        assert!(place.call("verify_file_exists", ask("three")).await.starts_with("true:"));
        assert!(place.call("verify_file_exists", ask("two")).await.starts_with("false:"));
        let away = place.call("verify_file_exists", json!({ "path": "c" })).await;
        assert_eq!(away, "false: c does not exist");
    }

    #[tokio::test]
    async fn long_files_are_paged() {
        let place = Place::new();
        let text: String = (1..=1000).map(|number| format!("line {number}\n")).collect();
        std::fs::write(place.folder.path().join("long"), text).expect("a file");
        let first = place.call("read_file", json!({ "path": "long" })).await;
        assert!(first.ends_with("[lines 1–200 of 1000; read on with first_line = 201]\n"), "{first}");
        let last = place.call("read_file", json!({ "path": "long", "first_line": 999 })).await;
        assert_eq!(last, "  999  line 999\n 1000  line 1000\n");
        let behind = place.call("read_file", json!({ "path": "long", "first_line": 1001 })).await;
        assert!(behind.contains("has 1000 lines"), "{behind}");
    }

    #[tokio::test]
    async fn no_path_leads_out() {
        let place = Place::new();
        let outside = tempfile::tempdir().expect("a folder");
        std::fs::write(outside.path().join("secret"), "s").expect("a file");
        std::os::unix::fs::symlink(outside.path(), place.folder.path().join("link")).expect("a link");
        for path in ["../x", "/etc/passwd", "a/../../x", "link/secret", "link/new"] {
            let read = place.call("read_file", json!({ "path": path })).await;
            assert!(read.contains("outside of the workspace"), "{path}: {read}");
            let wrote = place.call("write_file", json!({ "path": path, "content": "x" })).await;
            assert!(wrote.contains("outside of the workspace"), "{path}: {wrote}");
        }
        let absolute = place.folder.path().canonicalize().expect("a path").join("in");
        let wrote = place.call("write_file", json!({ "path": absolute, "content": "x" })).await;
        assert_eq!(wrote, "wrote 1 bytes to in");
        let folder = place.call("write_file", json!({ "path": ".", "content": "x" })).await;
        assert!(folder.contains("not a regular file"), "{folder}");
    }
}
