//! Writes provost's entries into the configuration of agent clients (`init`), removes them again, and finds
//! problems with them.
//!
//! Each client has a module that names its files and what they must contain; this module inserts and checks
//! it. Existing files are never rewritten: provost's part is added, and everything else stays byte for byte.

mod claude;
mod codex;
mod copilot;
mod cursor;
pub(crate) mod difference;
mod edit;
mod gemini;
mod git;
pub(crate) mod installed;
pub(crate) mod jsonc;
pub(crate) mod install_manifest;
mod lines;
mod opencode;
mod project;
mod qwen;
mod repository;
pub(crate) mod set_up_client;
mod shell_hook;
mod toml_text;
mod tools_only;
mod yaml_text;

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use provost_core::text::hook_protocol::HookClient;

use edit::{Edit, InsertedEdit};
use install_manifest::{Entry, Ledger};
use jsonc::Splice;
pub(crate) use project::ConfigTable;
use set_up_client::SetUpClient;

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

/// Name of provost's entries in the files of clients. What has it is provost's, whatever it holds.
const OWN_KEY: &str = "provost";

/// Which of provost's entries may be removed from a file that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// Only entries that are as they were written.
    Unchanged,
    /// Also entries that a person or the client has changed since.
    Any,
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
    pub(crate) fn has(&self, client: SetUpClient) -> bool {
        let (programs, folders) = client.traces();
        let places = [&self.home, &self.workspace];
        programs.iter().any(|program| self.program_on_path(program).is_some())
            || folders.iter().any(|folder| places.iter().any(|place| place.join(folder).is_dir()))
    }

    /// Returns the files of a client and what they must contain.
    pub(crate) fn wanted(&self, client: SetUpClient) -> Vec<Wanted> {
        let client = match client {
            SetUpClient::Held(client) => client,
            SetUpClient::ToolsOnly(client) => return tools_only::wanted(self, client),
        };
        match client {
            HookClient::Claude => claude::wanted(self),
            HookClient::Codex => codex::wanted(self),
            HookClient::Gemini => gemini::wanted(self),
            HookClient::Qwen => qwen::wanted(self),
            HookClient::Copilot => copilot::wanted(self),
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

    /// Returns the trust settings to write, for a client that otherwise ignores provost's hook. Other clients
    /// ask the person when they start.
    pub(crate) fn trusted(&self, client: SetUpClient) -> Option<Wanted> {
        (client == SetUpClient::Held(HookClient::Codex)).then(|| codex::trusted(self)).flatten()
    }

    /// Returns the file of the trust settings.
    pub(crate) fn trusts_in(&self, client: SetUpClient) -> Option<PathBuf> {
        (client == SetUpClient::Held(HookClient::Codex)).then(|| codex::users(self))
    }

    /// Returns the same context for files that name another program.
    pub(crate) fn naming(&self, program: String) -> Self {
        let (workspace, home) = (self.workspace.clone(), self.home.clone());
        Self { program, workspace, home, user: self.user, environment: self.environment.clone() }
    }

    /// Returns the program that the files of a client name.
    pub(crate) fn program_in(&self, client: SetUpClient) -> Option<String> {
        self.wanted(client).iter().find_map(Wanted::program)
    }

    /// Returns what the files contain if they name another program than this one.
    pub(crate) fn former(&self, client: SetUpClient) -> Vec<Wanted> {
        let other = self.program_in(client).filter(|program| *program != self.program);
        other.map(|program| self.naming(program).wanted(client)).unwrap_or_default()
    }

    /// Returns what keeps a configured client from calling provost.
    pub(crate) fn findings(&self, client: SetUpClient) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.missing_program(client).into_iter().collect();
        findings.extend(self.wanted(client).into_iter().filter_map(|wanted| wanted.finding(client)));
        findings.extend(self.half_committed(client));
        let SetUpClient::Held(client) = client else { return findings };
        findings.extend(match client {
            HookClient::Claude => claude::findings(self),
            HookClient::Codex => codex::findings(self),
            HookClient::Gemini => gemini::findings(self),
            HookClient::Qwen => qwen::findings(self),
            HookClient::Copilot => copilot::findings(self),
            HookClient::Opencode => opencode::findings(self),
            HookClient::Cursor | HookClient::GitPrePush => Vec::new(),
        });
        findings
    }

    fn missing_program(&self, client: SetUpClient) -> Option<Finding> {
        let (program, client) = (&self.program, client.word());
        let is_there = match self.is_private() {
            true => installed::is_program(Path::new(program)),
            false => self.program_on_path(program).is_some_and(|found| installed::is_program(&found)),
        };
        (!is_there).then(|| match self.is_private() {
            true => finding(
                format!("{program} is not there: this checkout is not gated, no session is held"),
                format!("Run `provost init --agent {client}`."),
            ),
            false => finding(
                format!("`{program}` is not on PATH: this checkout is not gated, no session is held"),
                format!(
                    "Install provost on PATH, or run `provost init --agent {client}` for this one's path."
                ),
            ),
        })
    }

    /// Returns whether the files name a path of this machine.
    pub(crate) fn is_private(&self) -> bool {
        self.program.contains('/')
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

/// A text with all edits applied, and what was inserted for which of them.
struct Applied {
    text: String,
    added: Vec<Splice>,
    made: Vec<InsertedEdit>,
}

impl Wanted {
    fn new(path: PathBuf, edits: Vec<Edit>) -> Self {
        Self { path, edits, executable: false }
    }

    fn applied(&self, before: Option<&str>) -> Result<Applied, Trouble> {
        let mut text = before.unwrap_or_default().to_owned();
        if text.trim().is_empty() && self.edits.iter().any(Edit::is_json) {
            text = "{}\n".to_owned();
        }
        let mut applied = Applied { text, added: Vec::new(), made: Vec::new() };
        for edit in &self.edits {
            if let Some(splice) = edit.insertion(&applied.text, before.is_none())? {
                applied.made.push(edit.made_by(&splice, &applied.text));
                applied.text = splice.apply(&applied.text);
                applied.added.push(splice);
            }
        }
        Ok(applied)
    }

    /// Returns whether there is nothing to add. A template may be outdated.
    fn stands_in(&self, now: &str) -> bool {
        let is_template = self.edits.iter().any(|edit| matches!(edit, Edit::Template(_)));
        !is_template && self.applied(Some(now)).is_ok_and(|applied| applied.added.is_empty())
    }

    /// Returns an error if the file cannot be set up.
    fn refusal(&self) -> Result<(), Trouble> {
        let why = self.edits.iter().find_map(|edit| match edit {
            Edit::Refused(why) => Some(Trouble::new(why.clone())),
            _ => None,
        });
        why.map_or(Ok(()), Err)
    }

    /// Returns the program that the file names.
    fn program(&self) -> Option<String> {
        let now = read(&self.path).ok()??;
        self.edits.iter().find_map(|edit| edit.program(&now))
    }

    /// Returns the change to write, if there is one. `former` is what the file may contain instead.
    pub(crate) fn change(
        &self,
        ledger: &Ledger,
        project: Option<&Path>,
        former: &[Wanted],
    ) -> Result<Option<Change>, Trouble> {
        self.refusal()?;
        let now = read(&self.path)?;
        let known = ledger.find(&self.path, project);
        let is_current = known.as_ref().is_none_or(|known| known.has_only_rules_of(&self.edits));
        if is_current && now.as_deref().is_some_and(|now| self.stands_in(now)) {
            return Ok(None);
        }
        let before = self.before(now.as_deref(), known.as_ref(), former);
        let applied = self.applied(before.as_deref())?;
        if now.as_deref() == Some(applied.text.as_str()) {
            return Ok(None);
        }
        Ok(Some(Change {
            path: self.path.clone(),
            project: project.map(Path::to_owned),
            now,
            before,
            applied,
            executable: self.executable,
        }))
    }

    /// Returns the file without provost's earlier entries, so that they do not conflict.
    fn before(&self, now: Option<&str>, known: Option<&Entry>, former: &[Wanted]) -> Option<String> {
        let now = now?;
        if self.edits.iter().any(|edit| matches!(edit, Edit::Generated(_))) {
            return None;
        }
        if let Some(without) = known.and_then(|entry| entry.without(Some(now), Care::Unchanged)) {
            return without.text;
        }
        let former = former.iter().find(|former| former.path == self.path);
        let made = |edit: &Edit| InsertedEdit { edit: edit.clone(), existing: usize::MAX };
        let made: Vec<InsertedEdit> = former.into_iter().flat_map(|former| &former.edits).map(made).collect();
        Some(edit::removed(&made, now, Care::Unchanged).unwrap_or_else(|| now.to_owned()))
    }

    /// Returns what is missing in the file, if anything is.
    fn finding(&self, client: SetUpClient) -> Option<Finding> {
        let here = self.path.display();
        let again = format!("Run `provost init --agent {}`.", client.word());
        let now = match self.refusal().and_then(|()| read(&self.path)) {
            Ok(None) => return Some(finding(format!("{here} is missing"), again)),
            Ok(Some(now)) => Ok(now),
            Err(trouble) => Err(trouble),
        };
        match now.and_then(|now| Ok(self.applied(Some(&now))?.text == now)) {
            Ok(true) => None,
            Ok(false) => Some(finding(format!("{here} lacks provost's entries, or has old ones"), again)),
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
    applied: Applied,
    executable: bool,
}

impl Change {
    /// Returns the text to write.
    pub(crate) fn after(&self) -> &str {
        &self.applied.text
    }

    pub(crate) fn write(&self, ledger: &Ledger) -> Result<(), Trouble> {
        let Applied { text, added, made } = &self.applied;
        let (project, before) = (self.project.as_deref(), self.before.as_deref());
        ledger.keep(&self.path, project, before, text, (added.clone(), made.clone()))?;
        write(&self.path, text)?;
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

/// Quotes a text as one shell word.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    if word.bytes().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
