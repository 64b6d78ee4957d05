//! Finds the project's own tools: the environments that a developer activates in this repository.
//!
//! Files of the approved base say which environments a project has: a lock file of poetry, a `Pipfile`, a
//! `.tool-versions`. Folders of the person, outside of the workspace, say whether they exist. Nothing is run
//! and nothing is installed here.
//!
//! **Invariant:** no file of the workspace as it is now is read, so nothing that an agent wrote decides
//! which program a check uses.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

mod advice;
mod moved;
mod nested;
mod python;
mod versions;

pub(crate) use moved::move_programs;
pub(crate) use nested::below as environments_below;

/// Names of a virtual environment in a project, in the order in which they are looked for.
const VIRTUAL: [&str; 2] = [".venv", "venv"];
/// Largest file of a project that is read, in bytes.
const FILE_MAX: u64 = 4 << 20;

/// The environment variables and the home of the person who started provost.
#[derive(Debug)]
pub struct Person {
    pub home: Option<PathBuf>,
    variables: Option<Vec<(String, String)>>,
}

impl Person {
    pub fn of_process() -> Self {
        let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        Self { home, variables: None }
    }

    pub fn var(&self, name: &str) -> Option<OsString> {
        let value = match &self.variables {
            None => env::var_os(name),
            Some(all) => all.iter().find(|(known, _)| known == name).map(|(_, value)| value.into()),
        };
        value.filter(|value| !value.is_empty())
    }

    /// Returns a folder that a variable names, or else the usual one below the home.
    fn folder(&self, name: &str, usual: &str) -> Option<PathBuf> {
        let named = self.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| Some(self.home.as_ref()?.join(usual)))
    }

    /// Returns the environments of a workspace that the person's variables or their own names show.
    pub fn environments_in(&self, workspace: &Path) -> Vec<PathBuf> {
        let named = ["VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"].iter().filter_map(|name| self.var(name));
        let named = named.map(|value| workspace.join(value)).filter(|root| root.starts_with(workspace));
        let usual = VIRTUAL.iter().map(|name| workspace.join(name)).filter(|root| !is_of_an_agent(root));
        let at_top = named.chain(usual).filter(|root| root.join("pyvenv.cfg").is_file());
        let below = nested::below(workspace).into_iter().map(|root| workspace.join(root));
        at_top.chain(below.filter(|root| !is_of_an_agent(root))).collect()
    }
}

/// Returns whether an attempt made this folder, and no person trusted it since.
fn is_of_an_agent(root: &Path) -> bool {
    crate::plans::trust::check(root).is_err_and(|untrusted| untrusted.made)
}

/// A folder of programs: of the tree of a check, or of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolFolder {
    /// Relative to the tree.
    InTree(PathBuf),
    Outside(PathBuf),
}

/// The Python environment of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PythonEnvironment {
    prefix: ToolFolder,
    /// `VIRTUAL_ENV` or `CONDA_PREFIX`.
    variable: &'static str,
}

/// The tools that a project brings.
#[derive(Clone, Debug, Default)]
pub struct ProjectTools {
    /// The person activated a Python environment, so the project's is not used.
    is_activated: bool,
    python: Option<PythonEnvironment>,
    /// Folders of programs, in the order of `PATH`.
    folders: Vec<ToolFolder>,
    /// Folders of programs of the approved base that may be on `PATH`.
    in_tree: Vec<PathBuf>,
    /// Folders of the Pythons that the environments of the tree were made with.
    interpreters: Vec<PathBuf>,
    advice: advice::Advice,
}

/// Facts about a project from before any agent runs.
#[derive(Clone, Copy)]
pub struct ApprovedProject<'a> {
    /// Returns where a file of the approved base is kept.
    pub file: &'a dyn Fn(&str) -> PathBuf,
    /// Environments of the base, relative to it, that no agent made.
    pub environments: &'a [PathBuf],
    /// Environments that an agent made or changed, with the reason that names the attempt.
    pub held_back: &'a [(PathBuf, String)],
    pub workspace: &'a Path,
}

impl ApprovedProject<'_> {
    fn read(&self, name: &str) -> Option<String> {
        let path = (self.file)(name);
        let found = path.symlink_metadata().ok()?;
        (found.is_file() && found.len() <= FILE_MAX).then(|| std::fs::read_to_string(path).ok())?
    }

    /// Returns the folders of the Python that an environment was made with.
    fn interpreters(&self, root: &Path) -> Vec<PathBuf> {
        let settings = self.read(&root.join("pyvenv.cfg").to_string_lossy()).unwrap_or_default();
        let lines = settings.lines().filter_map(|line| line.split_once('='));
        let named =
            lines.filter(|(name, _)| name.trim() == "home").map(|(_, home)| PathBuf::from(home.trim()));
        let link = (self.file)(&root.join("bin/python").to_string_lossy()).canonicalize().ok();
        let linked = link.and_then(|python| Some(python.parent()?.to_path_buf()));
        let all = named.chain(linked).filter(|folder| folder.is_absolute() && folder.is_dir());
        let base = (self.file)(&root.to_string_lossy());
        all.filter(|folder| !folder.starts_with(&base) && !folder.starts_with(self.workspace)).collect()
    }

    fn has(&self, name: &str) -> bool {
        (self.file)(name).is_file()
    }
}

impl ProjectTools {
    pub fn find(project: &ApprovedProject<'_>, person: &Person) -> Self {
        let in_tree: Vec<PathBuf> = project.environments.iter().map(|root| programs_of(root)).collect();
        let is_conda_base = person.var("CONDA_DEFAULT_ENV").is_some_and(|name| name == "base");
        let virtual_env = person.var("VIRTUAL_ENV").map(PathBuf::from);
        let conda = person.var("CONDA_PREFIX").filter(|_| !is_conda_base).map(PathBuf::from);
        let activated = [(virtual_env, "VIRTUAL_ENV"), (conda, "CONDA_PREFIX")].into_iter();
        let activated = activated.filter_map(|(prefix, variable)| Some((prefix?, variable)));
        let activated = activated.map(|(prefix, variable)| match prefix.strip_prefix(project.workspace) {
            Ok(inside) => PythonEnvironment { prefix: ToolFolder::InTree(inside.to_path_buf()), variable },
            Err(_) => PythonEnvironment { prefix: ToolFolder::Outside(prefix), variable },
        });
        let is_usable = |found: &PythonEnvironment| match &found.prefix {
            ToolFolder::InTree(inside) => in_tree.contains(&inside.join("bin")),
            ToolFolder::Outside(prefix) => prefix.join("bin").is_dir(),
        };
        let activated = activated.into_iter().find(is_usable);
        let is_activated = activated.is_some();
        let python = activated.or_else(|| python::environment(project, person));
        let mut folders: Vec<ToolFolder> = python.iter().map(PythonEnvironment::programs).collect();
        let node = PathBuf::from("node_modules/.bin");
        folders.extend(in_tree.contains(&node).then_some(ToolFolder::InTree(node)));
        let (versions, lacks) = versions::folders(project, person);
        folders.extend(versions.into_iter().map(ToolFolder::Outside));
        let advice = advice::Advice::of(project, person, lacks);
        let interpreters = project.environments.iter().flat_map(|root| project.interpreters(root)).collect();
        Self { is_activated, python, folders, in_tree, interpreters, advice }
    }

    /// Returns the folders that come first on `PATH`.
    pub fn first(&self) -> impl Iterator<Item = &ToolFolder> {
        self.folders.iter()
    }

    /// Returns the folders of programs that the environments of the tree need.
    pub fn interpreters(&self) -> &[PathBuf] {
        &self.interpreters
    }

    /// Returns whether this folder of the tree may be on `PATH`.
    pub fn has_in_tree(&self, programs: &Path) -> bool {
        self.in_tree.iter().any(|known| known == programs)
    }

    pub fn is_python_activated(&self) -> bool {
        self.is_activated
    }

    /// Returns whether these programs are those of the project's Python environment outside of the tree.
    pub fn is_python(&self, programs: &Path) -> bool {
        !self.is_activated
            && self
                .python
                .as_ref()
                .is_some_and(|python| python.programs() == ToolFolder::Outside(programs.to_path_buf()))
    }

    /// Returns the variable that an activated Python environment sets, for a tree at `root`.
    pub fn variables(&self, root: &Path) -> Option<(OsString, OsString)> {
        let python = self.python.as_ref()?;
        let prefix = match &python.prefix {
            ToolFolder::InTree(inside) => root.join(inside),
            ToolFolder::Outside(prefix) => prefix.clone(),
        };
        Some((python.variable.into(), prefix.into()))
    }

    /// Returns the line that provides a missing program or Python module, if the project's files show one.
    pub fn advice(&self, missing: &str) -> Option<String> {
        self.advice.about(missing)
    }

    /// Returns the environments of the tree, relative to it.
    pub fn in_tree(&self) -> impl Iterator<Item = &Path> {
        self.in_tree.iter().filter_map(|programs| programs.parent())
    }

    /// Returns what the project's files name and this machine does not have.
    pub fn lacks(&self) -> &[String] {
        &self.advice.lacks
    }
}

impl PythonEnvironment {
    fn programs(&self) -> ToolFolder {
        match &self.prefix {
            ToolFolder::InTree(inside) => ToolFolder::InTree(inside.join("bin")),
            ToolFolder::Outside(prefix) => ToolFolder::Outside(prefix.join("bin")),
        }
    }
}

/// Returns the folder of programs of an environment: a virtual environment, or the packages of node.
pub fn programs_of(root: &Path) -> PathBuf {
    root.join(if root.ends_with("node_modules") { ".bin" } else { "bin" })
}

/// Returns whether a folder that a package manager filled has programs.
pub fn is_installed(folder: &Path) -> bool {
    folder.join("pyvenv.cfg").is_file() || folder.join(".bin").is_dir()
}

/// Returns whether this folder is an environment with programs.
pub fn is_environment(root: &Path) -> bool {
    let is_kind = root.ends_with("node_modules") || root.join("pyvenv.cfg").is_file();
    is_kind && programs_of(root).is_dir()
}

#[cfg(test)]
mod tests;
