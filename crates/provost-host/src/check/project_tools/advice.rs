//! Says which command provides a missing tool, from the files of the project: its lock files, `.envrc` and
//! its dev container. None of these commands is run.

use std::path::Path;

use provost_core::language::tool_names;
use sha2::{Digest as _, Sha256};

use super::{ApprovedProject, Person};

/// Longest command of a dev container that is shown, in characters.
const COMMAND_MAX: usize = 160;

/// The commands by which a project's tools are installed or activated.
#[derive(Clone, Debug, Default)]
pub(super) struct Advice {
    python: Option<String>,
    node: Option<String>,
    /// Names of the packages in `package.json`.
    packages: Vec<String>,
    direnv: Option<String>,
    container: Option<String>,
    held_back: Vec<String>,
    /// Versions that the project names and the machine does not have.
    pub lacks: Vec<String>,
}

impl Advice {
    pub(super) fn of(project: &ApprovedProject<'_>, person: &Person, lacks: Vec<String>) -> Self {
        let packages = project.read("package.json").map(|text| packages(&text)).unwrap_or_default();
        let held_back = project
            .held_back
            .iter()
            .map(|(root, why)| format!("checks do not use {}: {why}", root.display()));
        Self {
            python: python(project),
            node: node(project),
            packages,
            direnv: direnv(project, person),
            container: container(project),
            held_back: held_back.collect(),
            lacks,
        }
    }

    /// Returns what provides this program or Python module.
    pub(super) fn about(&self, missing: &str) -> Option<String> {
        let install = match missing {
            name if self.packages.iter().any(|package| package == name) => &self.node,
            name if is_node(name) => &self.node,
            name if tool_names::is_python_tool(name) => &self.python,
            _ => &None,
        };
        let version = self.lacks.iter().find(|lack| lack.split(' ').any(|word| is_same_tool(word, missing)));
        let rest = [&self.direnv, &self.container].into_iter().flatten().cloned();
        let install = install.iter().map(|command| format!("here: `{command}`"));
        let all = self.held_back.iter().cloned().chain(version.cloned()).chain(install).chain(rest);
        let all: Vec<String> = all.collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

fn is_node(name: &str) -> bool {
    ["jest", "vitest", "mocha", "tsc", "eslint", "prettier"].contains(&name)
}

fn is_same_tool(named: &str, missing: &str) -> bool {
    let plain = missing.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    named == plain || matches!((named, plain), ("node", "npm" | "npx") | ("python", "pip"))
}

/// Returns the command that makes the project's Python environment.
fn python(project: &ApprovedProject<'_>) -> Option<String> {
    let manifest = project.read("pyproject.toml").unwrap_or_default();
    let usual = |install: &str| format!("python3 -m venv .venv && .venv/bin/python -m pip install {install}");
    let lists = ["requirements-dev.txt", "dev-requirements.txt", "requirements/dev.txt", "requirements.txt"];
    Some(match () {
        () if project.has("uv.lock") || manifest.contains("[tool.uv") => "uv sync".to_owned(),
        () if project.has("poetry.lock") || manifest.contains("[tool.poetry") => "poetry install".to_owned(),
        () if project.has("Pipfile") => "pipenv install --dev".to_owned(),
        () if project.has("environment.yml") => "conda env create --file environment.yml".to_owned(),
        () => match lists.iter().find(|name| project.has(name)) {
            Some(list) => usual(&format!("-r {list}")),
            None if !manifest.is_empty() => usual("-e ."),
            None => return None,
        },
    })
}

/// Returns the command that installs the project's packages of node.
fn node(project: &ApprovedProject<'_>) -> Option<String> {
    let by_lock = [
        ("pnpm-lock.yaml", "pnpm install"),
        ("yarn.lock", "yarn install"),
        ("bun.lock", "bun install"),
        ("package-lock.json", "npm ci"),
        ("package.json", "npm install"),
    ];
    by_lock.iter().find(|(lock, _)| project.has(lock)).map(|(_, command)| (*command).to_owned())
}

fn packages(manifest: &str) -> Vec<String> {
    let manifest: serde_json::Value = serde_json::from_str(manifest).unwrap_or_default();
    let lists = ["dependencies", "devDependencies"].iter().filter_map(|name| manifest.get(name)?.as_object());
    lists.flat_map(|list| list.keys().cloned()).collect()
}

/// Says how to start provost with the variables of `.envrc`. Only the person's own direnv runs that file.
fn direnv(project: &ApprovedProject<'_>, person: &Person) -> Option<String> {
    let text = project.read(".envrc")?;
    let path = project.workspace.canonicalize().ok()?.join(".envrc");
    // The variable has a minus before the folder.
    let folder = person.var("DIRENV_DIR").map(|folder| folder.to_string_lossy().into_owned());
    let is_loaded = |folder: String| Some(Path::new(folder.trim_start_matches('-'))) == path.parent();
    if folder.is_some_and(is_loaded) {
        return None;
    }
    let mut bytes = path.as_os_str().as_encoded_bytes().to_vec();
    bytes.extend([b"\n", text.as_bytes()].concat());
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let allowed = person.folder("XDG_DATA_HOME", ".local/share")?.join("direnv/allow").join(digest);
    Some(match allowed.is_file() {
        true => {
            "its .envrc is allowed but not loaded: start provost with `direnv exec . provost run`".to_owned()
        }
        false => "it has an .envrc that you have not allowed: read it, then `direnv allow`, then \
                  `direnv exec . provost run`"
            .to_owned(),
    })
}

/// Shows the command by which the project's dev container installs its tools.
fn container(project: &ApprovedProject<'_>) -> Option<String> {
    let files = [".devcontainer/devcontainer.json", ".devcontainer.json"];
    let (file, text) = files.iter().find_map(|file| Some((*file, project.read(file)?)))?;
    let manifest: serde_json::Value = serde_json::from_str(&without_comments(&text)).ok()?;
    let names = ["postCreateCommand", "updateContentCommand", "onCreateCommand"];
    let command = names.iter().find_map(|name| command(manifest.get(name)?))?;
    let command: String = command.chars().filter(|c| !c.is_control()).take(COMMAND_MAX).collect();
    Some(format!("{file} installs its tools with `{command}`"))
}

/// Returns a command that is a text, a list of words, or several of either by name.
fn command(value: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        Value::Object(named) => {
            let all: Vec<String> = named.values().filter_map(command).collect();
            (!all.is_empty()).then(|| all.join(" && "))
        }
        _ => None,
    }
}

/// Removes comments and commas before a closing bracket, which these files may have.
fn without_comments(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = rest.next() {
        match (in_string, c, rest.peek()) {
            (true, '\\', Some(_)) => plain.extend([Some(c), rest.next()].into_iter().flatten()),
            (_, '"', _) => {
                in_string = !in_string;
                plain.push(c);
            }
            (false, '/', Some('/')) => while rest.next_if(|c| *c != '\n').is_some() {},
            (false, '/', Some('*')) => {
                let mut before = ' ';
                for c in rest.by_ref().skip(1) {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            (false, ']' | '}', _) => {
                plain.truncate(plain.trim_end().trim_end_matches(',').len());
                plain.push(c);
            }
            _ => plain.push(c),
        }
    }
    plain
}
