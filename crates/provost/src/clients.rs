//! Writes provost's entries into the configuration of agent clients (`init`), removes them again, and finds
//! problems with them.
//!
//! Each client has a module that names its files and what they must contain; this module inserts, checks and
//! removes it. Existing files are never rewritten: provost's part is added, and everything else stays byte
//! for byte.

mod claude;
mod codex;
mod cursor;
pub(crate) mod difference;
mod gemini;
mod git;
pub(crate) mod installed;
pub(crate) mod jsonc;
pub(crate) mod install_manifest;
mod opencode;
mod project;

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use provost_core::text::hook_protocol::HookClient;
use serde_json::Value;

use install_manifest::Ledger;
use jsonc::Splice;
pub(crate) use project::ConfigTable;

/// Reason why a file is left unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble(String);

impl Trouble {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Context for setting up clients.
pub(crate) struct Ground {
    /// Program that the files name, usually the path of this program.
    pub program: String,
    pub workspace: PathBuf,
    pub home: PathBuf,
    /// Set up for the user, in every project.
    pub user: bool,
    pub environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
}

impl Ground {
    /// Returns the project, unless the setup is for the user.
    pub(crate) fn project_root(&self) -> Option<&Path> {
        (!self.user).then_some(self.workspace.as_path())
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.environment.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.as_os_str())
    }

    /// Returns the folder that a variable names, or the default one in the home folder.
    fn folder(&self, variable: &str, usual: &str) -> PathBuf {
        self.variable(variable).map_or_else(|| self.home.join(usual), PathBuf::from)
    }

    /// Returns the shell command for the hook of a client.
    fn hook(&self, client: HookClient) -> String {
        format!("{} hook {}", quoted(&self.program), client.word())
    }

    fn program_on_path(&self, program: &str) -> Option<PathBuf> {
        let folders = self.variable("PATH").map(std::env::split_paths).into_iter().flatten();
        folders.map(|folder| folder.join(program)).find(|file| file.is_file())
    }

    /// Returns whether this client is used here: its program or one of its folders exists.
    pub(crate) fn has(&self, client: HookClient) -> bool {
        let (programs, folders): (&[&str], &[&str]) = match client {
            HookClient::Claude => (&["claude"], &[".claude"]),
            HookClient::Codex => (&["codex"], &[".codex"]),
            HookClient::Gemini => (&["gemini"], &[".gemini"]),
            HookClient::Opencode => (&["opencode"], &[".config/opencode", ".opencode"]),
            HookClient::Cursor => (&["cursor", "cursor-agent"], &[".cursor"]),
            // Only on request, because it affects people too.
            HookClient::GitPrePush => (&[], &[]),
        };
        let places = [&self.home, &self.workspace];
        programs.iter().any(|program| self.program_on_path(program).is_some())
            || folders.iter().any(|folder| places.iter().any(|place| place.join(folder).is_dir()))
    }

    /// Returns the files of a client and what they must contain.
    pub(crate) fn wanted(&self, client: HookClient) -> Vec<Wanted> {
        match client {
            HookClient::Claude => claude::wanted(self),
            HookClient::Codex => codex::wanted(self),
            HookClient::Gemini => gemini::wanted(self),
            HookClient::Opencode => opencode::wanted(self),
            HookClient::Cursor => cursor::wanted(self),
            HookClient::GitPrePush => git::wanted(self),
        }
    }

    /// Returns the files of the project itself.
    pub(crate) fn project(&self, agents_md: bool) -> Vec<Wanted> {
        if self.user { Vec::new() } else { project::wanted(self, agents_md) }
    }

    /// Returns the files that a first plan needs.
    pub(crate) fn starting(&self, config: &str, tables: &[ConfigTable], ignores: bool) -> Vec<Wanted> {
        project::starting(self, config, tables, ignores)
    }

    /// Returns the trust settings to write, for a client that otherwise ignores provost's hook.
    pub(crate) fn trusted(&self, client: HookClient) -> Option<Wanted> {
        match client {
            HookClient::Codex => codex::trusted(self),
            // These clients ask the person when they start.
            HookClient::Claude | HookClient::Gemini | HookClient::Cursor => None,
            HookClient::Opencode | HookClient::GitPrePush => None,
        }
    }

    /// Returns the file of the trust settings.
    pub(crate) fn trusts_in(&self, client: HookClient) -> Option<PathBuf> {
        (client == HookClient::Codex).then(|| codex::users(self))
    }

    /// Returns what keeps a configured client from calling provost.
    pub(crate) fn findings(&self, client: HookClient) -> Vec<Finding> {
        let mut findings: Vec<Finding> =
            self.wanted(client).into_iter().filter_map(|wanted| wanted.finding(client)).collect();
        findings.extend(match client {
            HookClient::Claude => claude::findings(self),
            HookClient::Codex => codex::findings(self),
            HookClient::Gemini => gemini::findings(self),
            HookClient::Opencode => opencode::findings(self),
            HookClient::Cursor | HookClient::GitPrePush => Vec::new(),
        });
        findings
    }
}

/// A problem with a client, and what to do.
pub(crate) struct Finding {
    pub words: String,
    pub hint: String,
}

fn finding(words: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding { words: words.into(), hint: hint.into() }
}

/// A file and what it must contain.
pub(crate) struct Wanted {
    pub path: PathBuf,
    edits: Vec<Edit>,
    executable: bool,
}

enum Edit {
    /// A JSON object has this member.
    Member { path: Vec<&'static str>, value: Value },
    /// A JSON list has this element; `ours` identifies provost's own element.
    Element { path: Vec<&'static str>, value: Value, ours: String },
    /// Tables at the end of a TOML file.
    Tables { text: String, keys: Vec<String> },
    /// Lines at the end of a text, unless its first line is there.
    Lines(String),
    /// The whole file, if it does not exist.
    Whole(String),
}

impl Wanted {
    fn new(path: PathBuf, edits: Vec<Edit>) -> Self {
        Self { path, edits, executable: false }
    }

    /// Returns the text with all edits applied, and what was inserted.
    fn applied(&self, before: Option<&str>) -> Result<(String, Vec<Splice>), Trouble> {
        let (mut text, mut added) = (before.unwrap_or_default().to_owned(), Vec::new());
        for edit in &self.edits {
            let splice = match edit {
                Edit::Member { path, value } => jsonc::member(&or_empty(&mut text), path, value)?,
                Edit::Element { path, value, ours } => {
                    let is_ours = |element: &Value| has_words(element, ours);
                    jsonc::element(&or_empty(&mut text), path, value, is_ours)?
                }
                Edit::Tables { text: tables, keys } => codex::tables(&text, tables, keys)?,
                Edit::Lines(lines) => at_the_end(&text, lines),
                Edit::Whole(whole) if before.is_none() => {
                    Some(Splice { at: text.len(), text: whole.clone() })
                }
                Edit::Whole(_) => None,
            };
            if let Some(splice) = splice {
                text = splice.apply(&text);
                added.push(splice);
            }
        }
        Ok((text, added))
    }

    /// Returns whether there is nothing to add. A file that is provost's as a whole may be outdated.
    fn stands_in(&self, now: Option<&str>) -> bool {
        let is_whole = self.edits.iter().any(|edit| matches!(edit, Edit::Whole(_)));
        !is_whole && self.applied(now).is_ok_and(|(_, added)| added.is_empty())
    }

    /// Returns the change to write, if there is one.
    pub(crate) fn change(&self, ledger: &Ledger, project: Option<&Path>) -> Result<Option<Change>, Trouble> {
        let now = read(&self.path)?;
        if now.is_some() && self.stands_in(now.as_deref()) {
            return Ok(None);
        }
        let known = ledger.find(&self.path, project);
        // Start from the file without provost's earlier edits, so that they do not conflict.
        let without = known.and_then(|entry| entry.without(now.as_deref())).filter(|_| now.is_some());
        let before = match without {
            Some(without) => without.text,
            None => now.clone(),
        };
        let (after, added) = self.applied(before.as_deref())?;
        if now.as_deref() == Some(after.as_str()) {
            return Ok(None);
        }
        Ok(Some(Change {
            path: self.path.clone(),
            project: project.map(Path::to_owned),
            now,
            before,
            after,
            added,
            executable: self.executable,
        }))
    }

    /// Returns what is missing in the file, if anything is.
    fn finding(&self, client: HookClient) -> Option<Finding> {
        let here = self.path.display();
        match read(&self.path).and_then(|now| {
            let applied = self.applied(now.as_deref())?;
            Ok(now.as_deref() == Some(applied.0.as_str()))
        }) {
            Ok(true) => None,
            Ok(false) => Some(finding(
                format!("{here} lacks provost's entries"),
                format!("Run `provost init --agent {}`.", client.word()),
            )),
            Err(trouble) => Some(finding(
                format!("{here}: {trouble}"),
                "Correct the file, then run `provost init` again.",
            )),
        }
    }
}

/// A file to be written.
pub(crate) struct Change {
    pub path: PathBuf,
    project: Option<PathBuf>,
    pub now: Option<String>,
    before: Option<String>,
    pub after: String,
    added: Vec<Splice>,
    executable: bool,
}

impl Change {
    pub(crate) fn write(&self, ledger: &Ledger) -> Result<(), Trouble> {
        let (project, added) = (self.project.as_deref(), self.added.clone());
        ledger.keep(&self.path, project, self.before.as_deref(), &self.after, added)?;
        write(&self.path, &self.after)?;
        if self.executable {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(&self.path, mode).map_err(|error| trouble("make executable", &error))?;
        }
        Ok(())
    }
}

/// Replaces a file atomically, keeps its permissions, and follows links to it.
fn write(path: &Path, text: &str) -> Result<(), Trouble> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
        io::Write::write_all(&mut fresh, text.as_bytes())?;
        let rights = match fs::metadata(&path) {
            Ok(found) => found.permissions(),
            Err(_) => std::os::unix::fs::PermissionsExt::from_mode(0o644),
        };
        fresh.as_file().set_permissions(rights)?;
        fresh.persist(&path).map_err(|error| error.error).map(drop)
    };
    write().map_err(|error| Trouble::new(format!("cannot write {}: {error}", path.display())))
}

/// Restores the text of a file, or removes the file.
pub(crate) fn restore(path: &Path, text: Option<&str>) -> Result<(), Trouble> {
    match text {
        Some(text) => write(path, text),
        None => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(trouble("remove it", &error)),
            _ => Ok(()),
        },
    }
}

/// Removes folders that were made for files, if they are empty.
pub(crate) fn clear(folders: &[PathBuf]) {
    for folder in folders {
        let _ = fs::remove_dir(folder);
    }
}

pub(crate) fn read(path: &Path) -> Result<Option<String>, Trouble> {
    match fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Trouble::new("it is not UTF-8 text")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(trouble("read it", &error)),
    }
}

fn trouble(what: &str, error: &io::Error) -> Trouble {
    Trouble::new(format!("cannot {what}: {error}"))
}

/// Turns an empty JSON file into an empty object.
fn or_empty(text: &mut String) -> String {
    if text.trim().is_empty() {
        *text = "{}\n".to_owned();
    }
    text.clone()
}

fn has_words(value: &Value, words: &str) -> bool {
    match value {
        Value::String(text) => text.contains(words),
        Value::Array(list) => list.iter().any(|each| has_words(each, words)),
        Value::Object(members) => members.values().any(|each| has_words(each, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn at_the_end(text: &str, lines: &str) -> Option<Splice> {
    let first = lines.lines().find(|line| !line.trim().is_empty())?;
    if text.lines().any(|line| line.trim() == first.trim()) {
        return None;
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    Some(Splice { at: text.len(), text: format!("{gap}{lines}") })
}

/// Quotes a text as one shell word.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    if word.bytes().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
