//! Finds the Python environment of a project that no one activated: in the tree, or where uv, poetry, pipenv
//! and conda keep it.
//!
//! The names are computed as these tools do; none of them is started.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use sha2::{Digest as _, Sha256};

use super::{ApprovedProject, Person, PythonEnvironment, ToolFolder, VIRTUAL};

/// Longest part of a project's name in the name of its environment.
const NAME_MAX: usize = 42;
/// Folders below the home in which conda is usually installed.
const CONDAS: [&str; 6] =
    ["miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".local/share/mamba"];

pub(super) fn environment(project: &ApprovedProject<'_>, person: &Person) -> Option<PythonEnvironment> {
    let outside =
        |prefix: PathBuf, variable| PythonEnvironment { prefix: ToolFolder::Outside(prefix), variable };
    if let Some(prefix) = uv(project, person) {
        return Some(prefix);
    }
    let mut usual = VIRTUAL.iter().map(PathBuf::from);
    if let Some(inside) = usual.find(|name| project.environments.contains(name)) {
        return Some(PythonEnvironment { prefix: ToolFolder::InTree(inside), variable: "VIRTUAL_ENV" });
    }
    let found = poetry(project, person).or_else(|| pipenv(project, person));
    let is_virtual = |prefix: &PathBuf| prefix.join("pyvenv.cfg").is_file();
    let found = found.filter(|prefix| is_outside(project, prefix) && is_virtual(prefix));
    if let Some(prefix) = found {
        return Some(outside(prefix, "VIRTUAL_ENV"));
    }
    let found = conda(project, person).filter(|prefix| is_outside(project, prefix));
    if let Some(prefix) = found {
        return Some(outside(prefix, "CONDA_PREFIX"));
    }
    let prefix = ToolFolder::InTree(only_one_below(project)?);
    Some(PythonEnvironment { prefix, variable: "VIRTUAL_ENV" })
}

/// Returns the environment of a project in a folder, if the repository has no other one.
fn only_one_below(project: &ApprovedProject<'_>) -> Option<PathBuf> {
    let is_virtual = |root: &&PathBuf| VIRTUAL.iter().any(|name| root.ends_with(name));
    let mut all = project.environments.iter().filter(is_virtual);
    let found = all.next()?;
    all.next().is_none().then(|| found.clone())
}

fn is_outside(project: &ApprovedProject<'_>, path: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    path.is_absolute() && !real(path).starts_with(real(project.workspace))
}

/// The variable of uv, which may name a folder of the project or another one.
fn uv(project: &ApprovedProject<'_>, person: &Person) -> Option<PythonEnvironment> {
    let named = person.var("UV_PROJECT_ENVIRONMENT").filter(|_| project.has("pyproject.toml"))?;
    let prefix = project.workspace.join(named);
    let prefix = match prefix.strip_prefix(project.workspace) {
        Ok(inside) if project.environments.iter().any(|known| known == inside) => {
            ToolFolder::InTree(inside.to_path_buf())
        }
        Ok(_) => return None,
        Err(_) if prefix.join("pyvenv.cfg").is_file() && is_outside(project, &prefix) => {
            ToolFolder::Outside(prefix)
        }
        Err(_) => return None,
    };
    Some(PythonEnvironment { prefix, variable: "VIRTUAL_ENV" })
}

/// `<cache>/virtualenvs/<name>-<digest of the project's path>-py<version>`
fn poetry(project: &ApprovedProject<'_>, person: &Person) -> Option<PathBuf> {
    let manifest = table(&project.read("pyproject.toml")?)?;
    let of_poetry = manifest.get("tool").and_then(|tool| tool.get("poetry"));
    if of_poetry.is_none() && !project.has("poetry.lock") {
        return None;
    }
    let names = [manifest.get("project"), of_poetry].into_iter().flatten();
    let name = names.filter_map(|part| part.get("name")?.as_str()).next().unwrap_or("non-package-mode");
    let name = poetry_name(name, &project.workspace.canonicalize().ok()?)?;
    let folder = poetry_folder(project, person)?;
    let known = std::fs::read_to_string(folder.join("envs.toml")).ok().and_then(|text| table(&text));
    let minor = known.as_ref().and_then(|known| known.get(&name)?.get("minor")?.as_str());
    if let Some(minor) = minor {
        return Some(folder.join(format!("{name}-py{minor}")));
    }
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let begins = format!("{name}-py");
    all.retain(|path| path.file_name().is_some_and(|own| own.to_string_lossy().starts_with(&begins)));
    all.sort();
    // Without a choice of the person there is one, or the one that poetry made last.
    all.into_iter().max_by_key(|path| path.metadata().and_then(|found| found.modified()).ok())
}

pub(super) fn poetry_name(name: &str, folder: &Path) -> Option<String> {
    let digest = URL_SAFE.encode(Sha256::digest(folder.as_os_str().as_encoded_bytes()));
    Some(format!("{}-{}", sanitized(&name.to_lowercase(), "$`!*@\"\\"), digest.get(..8)?))
}

/// Returns the folder of environments: set by a variable, by the project, by the person, or the usual one.
fn poetry_folder(project: &ApprovedProject<'_>, person: &Person) -> Option<PathBuf> {
    let config = person.folder("XDG_CONFIG_HOME", ".config")?.join("pypoetry/config.toml");
    let texts = [project.read("poetry.toml"), std::fs::read_to_string(config).ok()];
    let settings: Vec<toml::Table> = texts.into_iter().flatten().filter_map(|text| table(&text)).collect();
    let set = |read: &dyn Fn(&toml::Table) -> Option<String>| settings.iter().find_map(read);
    let cache = person.var("POETRY_CACHE_DIR").map(PathBuf::from);
    let cache =
        cache.or_else(|| set(&|each| Some(each.get("cache-dir")?.as_str()?.to_owned())).map(PathBuf::from));
    let usual = person.folder("XDG_CACHE_HOME", ".cache")?.join("pypoetry");
    let cache = cache.unwrap_or(usual);
    let named = person.var("POETRY_VIRTUALENVS_PATH").map(PathBuf::from);
    let named = named.or_else(|| {
        set(&|each| Some(each.get("virtualenvs")?.get("path")?.as_str()?.to_owned())).map(PathBuf::from)
    });
    let Some(named) = named else { return Some(cache.join("virtualenvs")) };
    let text = named.to_string_lossy().replace("{cache-dir}", &cache.to_string_lossy());
    Some(match text.strip_prefix("~/") {
        Some(rest) => person.home.as_ref()?.join(rest),
        None => PathBuf::from(text),
    })
}

/// `<share>/virtualenvs/<name of the folder>-<digest of the Pipfile's path>`
fn pipenv(project: &ApprovedProject<'_>, person: &Person) -> Option<PathBuf> {
    if !project.has("Pipfile") {
        return None;
    }
    let home = match person.var("WORKON_HOME") {
        Some(home) => PathBuf::from(home),
        None => person.folder("XDG_DATA_HOME", ".local/share")?.join("virtualenvs"),
    };
    if let Some(name) = person.var("PIPENV_CUSTOM_VENV_NAME") {
        return Some(home.join(name));
    }
    let suffix = person.var("PIPENV_PYTHON").map(PathBuf::from);
    let suffix = suffix.and_then(|python| Some(format!("-{}", python.file_name()?.to_string_lossy())));
    Some(home.join(format!("{}{}", pipenv_name(project.workspace)?, suffix.unwrap_or_default())))
}

pub(super) fn pipenv_name(folder: &Path) -> Option<String> {
    let location = folder.join("Pipfile");
    let digest = URL_SAFE.encode(&Sha256::digest(location.as_os_str().as_encoded_bytes())[..6]);
    let name = sanitized(&folder.file_name()?.to_string_lossy(), "&$`!*@\"()[]\\");
    Some(format!("{name}-{}", digest.get(..8)?))
}

/// The environment that `environment.yml` names, in one of the folders where conda keeps them.
fn conda(project: &ApprovedProject<'_>, person: &Person) -> Option<PathBuf> {
    let text = ["environment.yml", "environment.yaml"].iter().find_map(|name| project.read(name))?;
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let value = value.split(" #").next()?.trim().trim_matches(['"', '\'']);
        (!value.is_empty()).then(|| value.to_owned())
    };
    let is_one = |prefix: &PathBuf| prefix.join("conda-meta").is_dir() && prefix.join("bin").is_dir();
    if let Some(prefix) = field("prefix").map(PathBuf::from).filter(is_one) {
        return Some(prefix);
    }
    let name =
        field("name").filter(|name| !name.contains('/') && name != "base" && !name.starts_with('.'))?;
    let home = person.home.as_ref()?;
    let known = std::fs::read_to_string(home.join(".conda/environments.txt")).unwrap_or_default();
    let known = known.lines().map(PathBuf::from).filter(|path| path.ends_with(&name)).collect::<Vec<_>>();
    let named = ["CONDA_ENVS_PATH", "CONDA_ENVS_DIRS"].iter().filter_map(|name| person.var(name));
    let named = named.flat_map(|value| std::env::split_paths(&value).collect::<Vec<_>>());
    let program = person.var("CONDA_EXE").map(PathBuf::from);
    let around = program.and_then(|program| Some(program.parent()?.parent()?.join("envs")));
    let roots = person.var("MAMBA_ROOT_PREFIX").map(|root| PathBuf::from(root).join("envs"));
    let usual = CONDAS.iter().map(|install| home.join(install).join("envs"));
    let folders = named.chain(around).chain(roots).chain([home.join(".conda/envs")]).chain(usual);
    known.into_iter().chain(folders.map(|folder| folder.join(&name))).find(is_one)
}

/// Replaces blanks and these characters, as the tools do, and cuts the name.
fn sanitized(name: &str, forbidden: &str) -> String {
    let is_forbidden = |c: char| matches!(c, ' ' | '\r' | '\n' | '\t') || forbidden.contains(c);
    name.chars().map(|c| if is_forbidden(c) { '_' } else { c }).take(NAME_MAX).collect()
}

fn table(text: &str) -> Option<toml::Table> {
    text.parse().ok()
}
