//! What `init` writes into the configuration of the clients people use, how it is taken back, and what is
//! off with it.
//!
//! Each client has a leaf that says which files, and what is to stand in them; here it is put in, looked
//! at and taken out. Files are never written anew: what is ours is added, all else stays byte for byte.

mod claude;
mod codex;
mod cursor;
pub mod difference;
mod gemini;
mod git;
pub mod jsonc;
pub mod ledger;
mod opencode;
mod project;

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use provost_core::text::hook_protocol::Client;
use serde_json::Value;

use jsonc::Splice;
use ledger::Ledger;

/// Why a file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble(String);

impl Trouble {
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where and for whom clients are set up.
pub struct Ground {
    /// What the files name: the path of this program, mostly.
    pub program: String,
    pub workspace: PathBuf,
    pub home: PathBuf,
    /// For the user, in every project.
    pub user: bool,
    pub environment: Vec<(std::ffi::OsString, std::ffi::OsString)>,
}

impl Ground {
    /// The project it is about, where it is not the user's.
    pub fn project_root(&self) -> Option<&Path> {
        (!self.user).then_some(self.workspace.as_path())
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.environment.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.as_os_str())
    }

    /// A folder that a variable names, or the usual one in the home.
    fn folder(&self, variable: &str, usual: &str) -> PathBuf {
        self.variable(variable).map_or_else(|| self.home.join(usual), PathBuf::from)
    }

    /// A shell's words for the hook of a client.
    fn hook(&self, client: Client) -> String {
        format!("{} hook {}", quoted(&self.program), client.word())
    }

    fn program_on_path(&self, program: &str) -> Option<PathBuf> {
        let folders = self.variable("PATH").map(std::env::split_paths).into_iter().flatten();
        folders.map(|folder| folder.join(program)).find(|file| file.is_file())
    }

    /// Whether this client is used here: its program is there, or a folder of its.
    pub fn has(&self, client: Client) -> bool {
        let (programs, folders): (&[&str], &[&str]) = match client {
            Client::Claude => (&["claude"], &[".claude"]),
            Client::Codex => (&["codex"], &[".codex"]),
            Client::Gemini => (&["gemini"], &[".gemini"]),
            Client::Opencode => (&["opencode"], &[".config/opencode", ".opencode"]),
            Client::Cursor => (&["cursor", "cursor-agent"], &[".cursor"]),
            // By name alone: it holds for people too.
            Client::GitPrePush => (&[], &[]),
        };
        let places = [&self.home, &self.workspace];
        programs.iter().any(|program| self.program_on_path(program).is_some())
            || folders.iter().any(|folder| places.iter().any(|place| place.join(folder).is_dir()))
    }

    /// The files of a client, and what is to stand in them.
    pub fn wanted(&self, client: Client) -> Vec<Wanted> {
        match client {
            Client::Claude => claude::wanted(self),
            Client::Codex => codex::wanted(self),
            Client::Gemini => gemini::wanted(self),
            Client::Opencode => opencode::wanted(self),
            Client::Cursor => cursor::wanted(self),
            Client::GitPrePush => git::wanted(self),
        }
    }

    /// The files of a project itself.
    pub fn project(&self, agents_md: bool) -> Vec<Wanted> {
        if self.user { Vec::new() } else { project::wanted(self, agents_md) }
    }

    /// What is to stand where a client keeps whom it trusts, for those that heed nothing of ours otherwise.
    pub fn trusted(&self, client: Client) -> Option<Wanted> {
        match client {
            Client::Codex => codex::trusted(self),
            // They ask the person when they are started.
            Client::Claude | Client::Gemini | Client::Cursor => None,
            Client::Opencode | Client::GitPrePush => None,
        }
    }

    /// The file of that.
    pub fn trusts_in(&self, client: Client) -> Option<PathBuf> {
        (client == Client::Codex).then(|| codex::users(self))
    }

    /// What keeps a client that was set up from asking.
    pub fn findings(&self, client: Client) -> Vec<Finding> {
        let mut findings: Vec<Finding> =
            self.wanted(client).into_iter().filter_map(|wanted| wanted.finding(client)).collect();
        findings.extend(match client {
            Client::Claude => claude::findings(self),
            Client::Codex => codex::findings(self),
            Client::Gemini => gemini::findings(self),
            Client::Opencode => opencode::findings(self),
            Client::Cursor | Client::GitPrePush => Vec::new(),
        });
        findings
    }
}

/// Something that is off with a client, and what to do.
pub struct Finding {
    pub words: String,
    pub hint: String,
}

fn finding(words: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding { words: words.into(), hint: hint.into() }
}

/// A file, and what is to stand in it.
pub struct Wanted {
    pub path: PathBuf,
    edits: Vec<Edit>,
    executable: bool,
}

enum Edit {
    /// A JSON object has this.
    Member { path: Vec<&'static str>, value: Value },
    /// A JSON list has this, and knows its own by these words.
    Element { path: Vec<&'static str>, value: Value, ours: String },
    /// Tables at the end of a TOML file.
    Tables { text: String, keys: Vec<String> },
    /// Lines at the end of a text, unless the first of them is there.
    Lines(String),
    /// The whole file, where there is none.
    Whole(String),
}

impl Wanted {
    fn new(path: PathBuf, edits: Vec<Edit>) -> Self {
        Self { path, edits, executable: false }
    }

    /// The text with everything in it, and what was put in.
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

    /// Whether there is nothing to add. A file that is ours as a whole may be an old one.
    fn stands_in(&self, now: Option<&str>) -> bool {
        let is_whole = self.edits.iter().any(|edit| matches!(edit, Edit::Whole(_)));
        !is_whole && self.applied(now).is_ok_and(|(_, added)| added.is_empty())
    }

    /// What is to be written, if anything is.
    pub fn change(&self, ledger: &Ledger, project: Option<&Path>) -> Result<Option<Change>, Trouble> {
        let now = read(&self.path)?;
        if now.is_some() && self.stands_in(now.as_deref()) {
            return Ok(None);
        }
        let known = ledger.find(&self.path, project);
        // Made anew from what it was without us, so that what we wrote before is not in the way.
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

    /// Whether it stands there as it should, as far as it was ever put there.
    fn finding(&self, client: Client) -> Option<Finding> {
        let here = self.path.display();
        match read(&self.path).and_then(|now| {
            let applied = self.applied(now.as_deref())?;
            Ok(now.as_deref() == Some(applied.0.as_str()))
        }) {
            Ok(true) => None,
            Ok(false) => Some(finding(
                format!("{here} lacks what provost puts there"),
                format!("`provost init --agent {}` puts it there", client.word()),
            )),
            Err(trouble) => Some(finding(format!("{here}: {trouble}"), "Correct it, and init again.")),
        }
    }
}

/// A file that is to be written.
pub struct Change {
    pub path: PathBuf,
    project: Option<PathBuf>,
    pub now: Option<String>,
    before: Option<String>,
    pub after: String,
    added: Vec<Splice>,
    executable: bool,
}

impl Change {
    pub fn write(&self, ledger: &Ledger) -> Result<(), Trouble> {
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

/// Puts a file in place as a whole, with the rights it had, behind whatever links lead to it.
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

/// Gives a file back what it said, or takes it away.
pub fn restore(path: &Path, text: Option<&str>) -> Result<(), Trouble> {
    match text {
        Some(text) => write(path, text),
        None => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(trouble("remove it", &error)),
            _ => Ok(()),
        },
    }
}

/// Takes folders away that were made for files, as far as nobody else has put something there.
pub fn clear(folders: &[PathBuf]) {
    for folder in folders {
        let _ = fs::remove_dir(folder);
    }
}

pub fn read(path: &Path) -> Result<Option<String>, Trouble> {
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

/// A JSON file without anything is an empty object.
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

/// As one word of a shell.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    if word.bytes().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
