//! Tests how the environments of a project are found, with folders laid out as the tools lay them out.

use std::fs;
use std::path::{Path, PathBuf};

use super::{ApprovedProject, Person, ProjectTools, ToolFolder, python};

/// A workspace, an approved base and a home in one temporary folder.
struct Machine {
    _folder: tempfile::TempDir,
    root: PathBuf,
    variables: Vec<(String, String)>,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a real path");
        let machine = Self { _folder: folder, root, variables: Vec::new() };
        ["base", "home", "shop"]
            .iter()
            .for_each(|name| fs::create_dir(machine.root.join(name)).expect("made"));
        machine
    }

    fn with(self, path: &str, text: &str) -> Self {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
        self
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        let value = value.replace("ROOT", &self.root.display().to_string());
        self.variables.push((name.to_owned(), value));
        self
    }

    fn find(&self, environments: &[&str]) -> ProjectTools {
        let environments: Vec<PathBuf> = environments.iter().map(PathBuf::from).collect();
        let file = |name: &str| self.root.join("base").join(name);
        let workspace = self.root.join("shop");
        let project = ApprovedProject {
            file: &file,
            environments: &environments,
            held_back: &[],
            workspace: &workspace,
        };
        let person = Person { home: Some(self.root.join("home")), variables: Some(self.variables.clone()) };
        ProjectTools::find(&project, &person)
    }

    /// Returns the folders that come first on `PATH`; those of the tree begin with `tree:`.
    fn first(&self, environments: &[&str]) -> Vec<String> {
        let name = |folder: &ToolFolder| match folder {
            ToolFolder::InTree(inside) => format!("tree:{}", inside.display()),
            ToolFolder::Outside(path) => path.strip_prefix(&self.root).unwrap_or(path).display().to_string(),
        };
        self.find(environments).first().map(name).collect()
    }
}

#[test]
fn environments_have_the_names_that_poetry_and_pipenv_give_them() {
    let name = python::poetry_name("My Shop!", Path::new("/srv/shop"));
    assert_eq!(name.as_deref(), Some("my_shop_-58fqC6Q1"));
    assert_eq!(python::pipenv_name(Path::new("/srv/my shop")).as_deref(), Some("my_shop-r4-QnURX"));
}

#[test]
fn what_the_person_activated_comes_before_what_the_project_has() {
    let machine = Machine::new().with("home/ve/bin/python3", "").with("home/ve/pyvenv.cfg", "");
    assert_eq!(machine.first(&[".venv", "node_modules"]), ["tree:.venv/bin", "tree:node_modules/.bin"]);
    let machine = machine.set("VIRTUAL_ENV", "ROOT/home/ve");
    assert_eq!(machine.first(&[".venv"]), ["home/ve/bin"]);
    let machine = Machine::new().set("VIRTUAL_ENV", "ROOT/shop/dev");
    assert_eq!(machine.first(&[".venv", "dev"]), ["tree:dev/bin"]);
    assert_eq!(machine.first(&[".venv"]), ["tree:.venv/bin"], "not in the base, so not used");
    let conda = Machine::new().with("home/c/bin/python3", "").set("CONDA_PREFIX", "ROOT/home/c");
    assert_eq!(conda.first(&[".venv"]), ["home/c/bin"]);
    let conda = conda.set("CONDA_DEFAULT_ENV", "base");
    assert_eq!(conda.first(&[".venv"]), ["tree:.venv/bin"], "every shell of conda has its base");
}

#[test]
fn environments_outside_of_the_project_are_found_where_their_tools_keep_them() {
    let machine = Machine::new().with("base/pyproject.toml", "[tool.poetry]\nname = \"shop\"\n");
    let name = python::poetry_name("shop", &machine.root.join("shop")).expect("a name");
    let at = format!("home/.cache/pypoetry/virtualenvs/{name}-py3.12");
    let machine = machine.with(&format!("{at}/pyvenv.cfg"), "").with(&format!("{at}/bin/python"), "");
    assert_eq!(machine.first(&[]), [format!("{at}/bin")]);
    assert_eq!(machine.first(&[".venv"]), ["tree:.venv/bin"], "the environment in the project is nearer");

    let machine = Machine::new().with("base/Pipfile", "");
    let name = python::pipenv_name(&machine.root.join("shop")).expect("a name");
    let at = format!("home/.local/share/virtualenvs/{name}");
    let machine = machine.with(&format!("{at}/pyvenv.cfg"), "");
    assert_eq!(machine.first(&[]), [format!("{at}/bin")]);

    let machine = Machine::new().with("base/environment.yml", "name: shop  # ours\ndependencies: []\n");
    let machine = machine.with("home/miniforge3/envs/shop/conda-meta/history", "");
    assert!(machine.first(&[]).is_empty(), "no programs yet");
    let machine = machine.with("home/miniforge3/envs/shop/bin/python", "");
    assert_eq!(machine.first(&[]), ["home/miniforge3/envs/shop/bin"]);

    let machine = Machine::new().with("base/pyproject.toml", "").with("home/u/pyvenv.cfg", "");
    let machine = machine.set("UV_PROJECT_ENVIRONMENT", "ROOT/home/u");
    assert_eq!(machine.first(&[".venv"]), ["home/u/bin"]);
}

#[test]
fn an_environment_inside_the_workspace_is_never_taken_for_one_outside() {
    let machine = Machine::new().with("base/pyproject.toml", "").with("shop/mine/pyvenv.cfg", "");
    assert!(machine.set("UV_PROJECT_ENVIRONMENT", "mine").first(&[]).is_empty());
    let machine = Machine::new().with("base/environment.yml", "prefix: PLACE\n");
    let inside = machine.root.join("shop/env").display().to_string();
    let machine = machine.with("base/environment.yml", &format!("prefix: {inside}\n"));
    let machine = machine.with("shop/env/conda-meta/x", "").with("shop/env/bin/python", "");
    assert!(machine.first(&[]).is_empty());
}

#[test]
fn versions_come_from_the_files_of_the_approved_base() {
    let machine = Machine::new()
        .with("base/.tool-versions", "# ours\nnodejs 20.1.0\ngolang 1.22\nruby system\n")
        .with("base/.python-version", "3.12\n")
        .with("shop/.tool-versions", "nodejs 18.0.0\n")
        .with("home/.local/share/mise/installs/node/20.1.0/bin/node", "")
        .with("home/.local/share/mise/installs/node/18.0.0/bin/node", "")
        .with("home/.asdf/installs/golang/1.22.4/go/bin/go", "")
        .with("home/.asdf/installs/golang/1.22.11/go/bin/go", "")
        .with("home/.asdf/installs/golang/1.220.0/go/bin/go", "")
        .with("home/.pyenv/versions/3.12.1/bin/python", "");
    let expected = [
        "home/.local/share/mise/installs/node/20.1.0/bin",
        "home/.asdf/installs/golang/1.22.11/go/bin",
        "home/.pyenv/versions/3.12.1/bin",
    ];
    assert_eq!(machine.first(&[]), expected);
    let machine =
        machine.with("base/mise.toml", "[tools]\nnode = \"22\"\npython = { version = \"3.12.1\" }\n");
    let found = machine.find(&[]);
    assert!(found.lacks()[0].contains("mise.toml names node 22"), "{:?}", found.lacks());
    let advice = found.advice("node").expect("advice");
    assert!(advice.contains("`mise install`"), "{advice}");
}

#[test]
fn a_missing_tool_has_the_line_that_provides_it() {
    for (files, missing, line) in [
        (&["uv.lock"][..], "pytest", "`uv sync`"),
        (&["poetry.lock"], "pytest", "`poetry install`"),
        (&["Pipfile"], "ruff", "`pipenv install --dev`"),
        (&["requirements.txt", "requirements-dev.txt"], "pytest", "pip install -r requirements-dev.txt`"),
        (&["package.json", "pnpm-lock.yaml"], "vitest", "`pnpm install`"),
        (&["package-lock.json"], "tsc", "`npm ci`"),
    ] {
        let machine = files.iter().fold(Machine::new(), |all, file| all.with(&format!("base/{file}"), "{}"));
        let advice = machine.find(&[]).advice(missing).unwrap_or_default();
        assert!(advice.contains(line), "{files:?}: {advice}");
    }
    assert_eq!(Machine::new().find(&[]).advice("pytest"), None);
}

#[test]
fn a_dev_container_and_an_envrc_are_read_and_never_run() {
    let machine = Machine::new()
        .with(
            "base/.devcontainer/devcontainer.json",
            "// ours\n{ \"postCreateCommand\": \"make tools\", /* x */ }\n",
        )
        .with("base/.envrc", "touch ran\n");
    let advice = machine.find(&[]).advice("helm").expect("advice");
    assert!(advice.contains("`make tools`") && advice.contains("`direnv allow`"), "{advice}");
    assert!(!machine.root.join("shop/ran").exists());
    let loaded = machine.set("DIRENV_DIR", "-ROOT/shop");
    assert!(!loaded.find(&[]).advice("helm").expect("advice").contains("direnv"));
}
