//! Finds the versions of tools that a project's files name (`.tool-versions`, `mise.toml`,
//! `.python-version`, `.nvmrc`), where version managers have installed them.
//!
//! The installed folder comes before the shims of a version manager on `PATH`. A shim reads the file of the
//! tree, which an agent may have changed; this module reads the file of the approved base.

use std::path::{Path, PathBuf};

use super::{ApprovedProject, Person};

/// A version that a file of the project names.
struct WantedVersion {
    tool: String,
    version: String,
    file: &'static str,
}

/// Returns the folders of programs, and a sentence for each version that is not installed.
pub(super) fn folders(project: &ApprovedProject<'_>, person: &Person) -> (Vec<PathBuf>, Vec<String>) {
    let (mut folders, mut lacks) = (Vec::new(), Vec::new());
    for wanted in wanted(project, person) {
        let roots = roots(&wanted.tool, person);
        match roots.iter().find_map(|root| installed(root, &wanted.version)) {
            Some(prefix) => folders.push(programs(&prefix)),
            // The machine has no version manager for it, so the file is for other machines.
            None if !roots.iter().any(|root| root.is_dir()) => {}
            None => lacks.push(format!(
                "{} names {} {}, which is not installed here: `{}`",
                wanted.file,
                wanted.tool,
                wanted.version,
                install(&wanted, person)
            )),
        }
    }
    folders.retain(|folder| folder.is_dir() && !folder.starts_with(project.workspace));
    (folders, lacks)
}

/// Returns what the files name; the first file that names a tool decides.
fn wanted(project: &ApprovedProject<'_>, person: &Person) -> Vec<WantedVersion> {
    let mut all: Vec<WantedVersion> = Vec::new();
    let mut add = |tool: &str, version: &str, file: &'static str| {
        let tool = match tool {
            "nodejs" => "node",
            "golang" => "go",
            tool => tool,
        };
        // mise writes `npm:prettier` into the folder `npm-prettier`.
        let tool = tool.replace([':', '/'], "-");
        let version = version.trim().trim_start_matches('v');
        let is_plain = |text: &str| {
            !text.is_empty()
                && !text.starts_with('.')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_+".contains(c))
        };
        let is_known = all.iter().any(|known| known.tool == tool);
        if is_plain(&tool) && is_plain(version) && version != "system" && !is_known {
            all.push(WantedVersion { tool, version: version.to_owned(), file });
        }
    };
    for file in ["mise.toml", ".mise.toml", ".config/mise.toml", "mise/config.toml"] {
        let table = project.read(file).and_then(|text| text.parse::<toml::Table>().ok());
        let tools = table.as_ref().and_then(|table| table.get("tools")?.as_table());
        for (tool, value) in tools.into_iter().flatten() {
            let first = value.as_array().and_then(|all| all.first()).unwrap_or(value);
            let version = first.as_str().or_else(|| first.get("version")?.as_str());
            add(tool, version.unwrap_or_default(), file);
        }
    }
    let text = project.read(".tool-versions").unwrap_or_default();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default()) {
        let mut words = line.split_whitespace();
        if let (Some(tool), Some(version)) = (words.next(), words.next()) {
            add(tool, version, ".tool-versions");
        }
    }
    let single = [
        (".python-version", "python"),
        (".nvmrc", "node"),
        (".node-version", "node"),
        (".ruby-version", "ruby"),
    ];
    for (file, tool) in single {
        let is_overruled = tool == "python" && person.var("PYENV_VERSION").is_some();
        let text = project.read(file).filter(|_| !is_overruled).unwrap_or_default();
        add(tool, text.lines().next().unwrap_or_default(), file);
    }
    all
}

/// Returns the folders whose entries are versions of this tool.
fn roots(tool: &str, person: &Person) -> Vec<PathBuf> {
    let mise = person.folder("MISE_DATA_DIR", ".local/share/mise");
    let asdf = person.folder("ASDF_DATA_DIR", ".asdf");
    let also = match tool {
        "node" => "nodejs",
        "go" => "golang",
        tool => tool,
    };
    let installs = [mise, asdf].into_iter().flatten().map(|folder| folder.join("installs"));
    let mut roots: Vec<PathBuf> =
        installs.flat_map(|folder| [folder.join(tool), folder.join(also)]).collect();
    roots.extend(match tool {
        "python" => person.folder("PYENV_ROOT", ".pyenv").map(|folder| folder.join("versions")),
        "ruby" => person.folder("RBENV_ROOT", ".rbenv").map(|folder| folder.join("versions")),
        "node" => person.folder("NVM_DIR", ".nvm").map(|folder| folder.join("versions/node")),
        _ => None,
    });
    roots
}

/// Returns the newest installed version that is this one or begins with it.
fn installed(root: &Path, version: &str) -> Option<PathBuf> {
    let exact = [root.join(version), root.join(format!("v{version}"))];
    if let Some(prefix) = exact.into_iter().find(|prefix| prefix.is_dir()) {
        return Some(prefix);
    }
    let entries = std::fs::read_dir(root).ok()?.flatten().map(|entry| entry.path());
    let numbers = |path: &PathBuf| -> Option<Vec<u64>> {
        let name = path.file_name()?.to_str()?;
        let rest = name.strip_prefix('v').unwrap_or(name).strip_prefix(version)?.strip_prefix('.')?;
        rest.split('.').map(|part| part.parse().ok()).collect()
    };
    let found = entries.filter(|path| path.is_dir()).filter_map(|path| Some((numbers(&path)?, path)));
    found.max().map(|(_, path)| path)
}

/// Returns the folder of programs of an installation; Go of asdf has it one folder deeper.
fn programs(prefix: &Path) -> PathBuf {
    let usual = [prefix.join("bin"), prefix.join("go/bin")].into_iter().find(|folder| folder.is_dir());
    usual.unwrap_or_else(|| prefix.to_path_buf())
}

/// Returns the command that installs this version.
fn install(wanted: &WantedVersion, person: &Person) -> String {
    let has = |name: &str, usual: &str| person.folder(name, usual).is_some_and(|folder| folder.is_dir());
    let version = &wanted.version;
    match wanted.file {
        ".python-version" if has("PYENV_ROOT", ".pyenv") => format!("pyenv install {version}"),
        ".nvmrc" | ".node-version" if has("NVM_DIR", ".nvm") => format!("nvm install {version}"),
        ".ruby-version" if has("RBENV_ROOT", ".rbenv") => format!("rbenv install {version}"),
        _ if wanted.file.ends_with(".toml") || has("MISE_DATA_DIR", ".local/share/mise") => {
            "mise install".to_owned()
        }
        _ => "asdf install".to_owned(),
    }
}
