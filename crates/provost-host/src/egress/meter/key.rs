//! Reads the key of a model's API, and keeps it from being shown.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process;
use crate::process::{Enclosure, HeadAndTail, How, Spawn};

/// Longest key, in bytes.
const KEY_MAX: usize = 16 * 1024;
const PATIENCE: Duration = Duration::from_secs(30);

/// The source of the key; never one of provost's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Variable(String),
    /// A program that prints the key.
    Command(Vec<String>),
}

#[derive(Clone, PartialEq, Eq)]
pub struct MeterKey {
    value: String,
    /// The variable that held it.
    variable: Option<String>,
}

impl fmt::Debug for MeterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NoKey {
    #[error(
        "the variable {name} with the key of its model is not set: export it, or name another in `key_env`"
    )]
    NotSet { name: String },
    #[error("{name} does not hold a key: a key is one line of printable ASCII")]
    Unfit { name: String },
    #[error("`key_command` names {}, which is in the workspace, where agents can \
         write; move it elsewhere", .path.display())]
    InWorkspace { path: PathBuf },
    #[error("`key_command` cannot be run: there is no program {}; name it by its absolute path", .program.display())]
    NoProgram { program: PathBuf },
    #[error("`key_command` gave no key: {why}")]
    Failed { why: String },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Variable(name) => write!(f, "in {name}"),
            Source::Command(words) => write!(f, "from `{}`", words.join(" ")),
        }
    }
}

impl Source {
    /// Reads the key. `environment` is the user's; a command runs with it, outside of the workspace.
    pub fn key(&self, environment: &[(OsString, OsString)], workspace: &Path) -> Result<MeterKey, NoKey> {
        match self {
            Source::Variable(name) => {
                let found = environment.iter().find(|(known, _)| known == name.as_str());
                let value = found.and_then(|(_, value)| value.to_str()).unwrap_or_default();
                if found.is_none_or(|(_, value)| value.is_empty()) {
                    return Err(NoKey::NotSet { name: name.clone() });
                }
                MeterKey::new(value, Some(name)).ok_or_else(|| NoKey::Unfit { name: name.clone() })
            }
            Source::Command(words) => said(words, environment, workspace),
        }
    }
}

impl MeterKey {
    pub fn new(value: &str, variable: Option<&str>) -> Option<Self> {
        let value = value.trim();
        let is_fit =
            !value.is_empty() && value.len() <= KEY_MAX && value.bytes().all(|byte| byte.is_ascii_graphic());
        is_fit.then(|| Self { value: value.to_owned(), variable: variable.map(str::to_owned) })
    }

    /// Returns the key, for the head of a request and for the redaction of secrets.
    pub fn expose(&self) -> &str {
        &self.value
    }

    /// Returns whether this variable is the key's own or contains the key.
    pub(super) fn is_in(&self, name: &OsStr, value: &OsStr) -> bool {
        let holds = || value.to_str().is_some_and(|value| value.contains(&self.value));
        self.variable.as_deref().is_some_and(|own| name == own) || holds()
    }

    /// Returns whether it is a login token instead of an API key, by its variable's name.
    pub(super) fn is_bearer(&self) -> bool {
        self.variable.as_deref().is_some_and(|name| name.ends_with("AUTH_TOKEN"))
    }
}

fn said(words: &[String], environment: &[(OsString, OsString)], workspace: &Path) -> Result<MeterKey, NoKey> {
    let [program, args @ ..] = words else { return Err(NoKey::Failed { why: "it is empty".to_owned() }) };
    let program = found(Path::new(program), environment, workspace)?;
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let ended = process::run(Spawn {
        program: program.as_os_str(),
        args: &args,
        // Not the workspace, because agents write there.
        cwd: Path::new("/"),
        env: environment,
        stdin: b"",
        deadline: PATIENCE,
        grace: Duration::from_secs(1),
        keep: HeadAndTail { head: KEY_MAX, tail: KEY_MAX },
        tag: "key",
        stop: None,
        tee: None,
        bounds: None,
        enclosure: Enclosure::None,
    });
    let failed = |why: String| NoKey::Failed { why };
    let ended = ended.map_err(|error| failed(error.to_string()))?;
    match ended.how {
        How::Exited(0) => {}
        // The output is not shown; it may contain the key.
        How::Exited(code) => return Err(failed(format!("it exited with {code}"))),
        How::TimedOut => return Err(failed(format!("it did not end within {} s", PATIENCE.as_secs()))),
        How::Signalled(_) | How::OverBounds(_) | How::Stopped => {
            return Err(failed("it was ended".to_owned()));
        }
    }
    let key = MeterKey::new(&ended.stdout.excerpt(KEY_MAX).to_string(), None);
    key.ok_or_else(|| failed("what it printed is not one line of printable ASCII".to_owned()))
}

/// Finds the program, outside of the workspace, where no agent can have put it.
fn found(program: &Path, environment: &[(OsString, OsString)], workspace: &Path) -> Result<PathBuf, NoKey> {
    let is_inside = |path: &Path| path.canonicalize().is_ok_and(|path| path.starts_with(workspace));
    if program.components().count() > 1 {
        return match program.is_absolute() && program.is_file() {
            true if is_inside(program) => Err(NoKey::InWorkspace { path: program.to_owned() }),
            true => Ok(program.to_owned()),
            false => Err(NoKey::NoProgram { program: program.to_owned() }),
        };
    }
    let path =
        environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| std::env::split_paths(path));
    let places =
        path.into_iter().flatten().filter(|folder| folder.is_absolute()).map(|folder| folder.join(program));
    let mut fit = places.filter(|place| place.is_file() && !is_inside(place));
    fit.next().ok_or_else(|| NoKey::NoProgram { program: program.to_owned() })
}
