//! Tests that checks find their dependencies from the lock file, and earlier build results.
//!
//! Without a network, unless a test says otherwise: every proxy address leads nowhere.

use std::path::{Path, PathBuf};
use std::process::Command;

use provost_rehearsal::skip;
use serde_json::Value;

use crate::env::{Answer, Env, answer};

/// A dependency of provost itself, so it is in the cache of every machine that built this test.
const CRATE: &str = "cfg-if";

const LIB: &str =
    "pub fn add(a: i32, b: i32) -> i32 {\n    cfg_if::cfg_if! { if #[cfg(unix)] { a - b } else { 0 } }\n}\n";
const TEST: &str = "#[test]\nfn adds() {\n    assert_eq!(calc::add(2, 2), 4);\n}\n";
const QUICK: &str = "grep -q 'a + b' src/lib.rs && cargo check --quiet";
const REPAIRED: &str = "sed -i 's/a - b/a + b/' src/lib.rs";

fn plan(touches: &str, contract: &str, on_fail: &str) -> String {
    format!(
        "---\ntype: plan\nstatus: draft\nowner: test\ntouches: {touches}\n---\n\n# A plan\n\n## Steps\n\n\
         ### 1. Repair it\n\n**target:** coder\n\n**task:**\nRepair it.\n\n**contract:**\n```shell\n{contract}\n```\n\
         exit_code == 0\n**on_fail:** {on_fail}\n"
    )
}

/// Creates a repository with these files and this plan, if this machine has sandboxes and these programs.
fn project(plan: &str, files: &[(&str, &str)], agent: &str, needs: &[&str]) -> Option<Env> {
    let env = Env::new(plan);
    if !env.has_fences() {
        return None;
    }
    for program in needs {
        if !Command::new(program).arg("--version").output().is_ok_and(|said| said.status.success()) {
            skip::tool(program, "`./test` installs it");
            return None;
        }
    }
    for (name, text) in files {
        env.write(name, text);
    }
    let env = env.agent(agent);
    let timeout = "[verify]\ncontract_timeout = \"5m\"\n";
    env.write("provost.toml", format!("{}{timeout}", env.read("provost.toml")));
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "project"]);
    Some(env)
}

/// Returns a `provost` command with the toolchains and the cache of the user who runs this test.
fn with_tools(env: &Env, arguments: &[&str], cargo_home: &Path) -> Command {
    let mut command = env.command(arguments);
    command.env("CARGO_HOME", cargo_home).env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup"));
    command.env("PYENV_ROOT", own("PYENV_ROOT", ".pyenv"));
    for proxy in ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "npm_config_proxy"] {
        command.env(proxy, "http://127.0.0.1:1");
    }
    command
}

fn run(env: &Env, cargo_home: &Path) -> Answer {
    env.approve();
    answer(with_tools(env, &["run"], cargo_home).output().unwrap())
}

fn own(variable: &str, usual: &str) -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(usual);
    std::env::var_os(variable).map_or_else(home, PathBuf::from)
}

fn verdicts(env: &Env) -> Vec<Value> {
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let judged = log.into_iter().filter(|event| {
        event["event"] == "CONTRACT_JUDGED" && event["details"]["subject"]["final"].is_null()
    });
    judged.map(|event| event["details"]["verdict"].clone()).collect()
}

fn said(verdict: &Value) -> String {
    format!("{}{}", verdict["stderr"], verdict["stdout"])
}

/// Returns the files of a crate in the user's cache.
fn cached(name: &str) -> Vec<PathBuf> {
    let folders =
        |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let registries = folders(own("CARGO_HOME", ".cargo").join("registry/cache"));
    let is_one =
        |path: &PathBuf| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name));
    registries.flat_map(folders).filter(is_one).collect()
}

/// Creates a crate with one dependency from a registry.
fn cargo(touches: &str, agent: &str, contract: &str, on_fail: &str) -> Option<Env> {
    let ours =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock")).unwrap();
    let package =
        ours.split("[[package]]\n").find(|part| part.starts_with(&format!("name = \"{CRATE}\"")))?;
    let version = package.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))?;
    let manifest = format!(
        "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\n{CRATE} = \"={version}\"\n"
    );
    let lock = format!(
        "version = 4\n\n[[package]]\nname = \"calc\"\nversion = \"0.1.0\"\ndependencies = [\n \"{CRATE}\",\n]\n\n[[package]]\n{}\n",
        package.trim_end()
    );
    let name = format!("{CRATE}-{version}.crate");
    if !cached(CRATE).iter().any(|path| path.ends_with(&name)) {
        skip::tool("cargo's cache", &format!("run `cargo fetch`; {name} is not there"));
        return None;
    }
    let files: [(&str, &str); 4] =
        [("Cargo.toml", &manifest), ("Cargo.lock", &lock), ("src/lib.rs", LIB), ("tests/calc.rs", TEST)];
    project(&plan(touches, contract, on_fail), &files, agent, &["cargo"])
}

#[test]
fn a_crate_from_the_users_cache_is_there_and_is_built_once() {
    // The first attempt does nothing, the second one does the work.
    let agent = format!("test -e tried || {{ touch tried; exit 0; }}\n{REPAIRED}\n");
    let Some(env) = cargo("[\"src/**\"]", &agent, "cargo test", "retry(2), then abort") else { return };
    run(&env, &own("CARGO_HOME", ".cargo")).exits(0);
    let verdicts = verdicts(&env);
    let [control, idle, done] = verdicts.as_slice() else { panic!("{verdicts:#?}") };
    assert!(said(control).contains("Compiling cfg-if") && said(control).contains("adds"), "{control:#}");
    // Without changes nothing is built; then only the change is built.
    assert!(!said(idle).contains("Compiling"), "{idle:#}");
    assert!(said(done).contains("Compiling calc") && !said(done).contains("Compiling cfg-if"), "{done:#}");
    assert_eq!(done["outcome"]["kind"], "held");
    let kept = std::fs::read_dir(env.state().join("provision")).unwrap().flatten();
    let kept = kept.filter(|entry| entry.path().join("cargo").is_dir()).count();
    assert_eq!(kept, 1);
    assert!(!env.work().join("target").exists() && !env.work().join("vendor").exists());
    // A second check finds everything, with or without the user's cache.
    let empty = env.folder().join("empty");
    let again = answer(with_tools(&env, &["recheck", "1"], &empty).output().unwrap());
    assert_eq!(again.code, 0, "{again:?}");
}

#[test]
fn a_check_whose_dependencies_cannot_be_had_is_not_run_and_says_why() {
    let Some(env) = cargo("[\"src/**\"]", REPAIRED, QUICK, "abort") else { return };
    let patience = "[verify.provision.cargo]\nenv = { CARGO_NET_RETRY = \"0\" }\n";
    env.write("provost.toml", format!("{}{patience}", env.read("provost.toml")));
    // A file with the right name is not trusted, because agents can write the user's home.
    let crates = env.folder().join("forged/registry/cache/any");
    std::fs::create_dir_all(&crates).unwrap();
    for entry in cached(CRATE) {
        std::fs::write(crates.join(entry.file_name().unwrap()), "forged").unwrap();
    }
    let answer = run(&env, &env.folder().join("forged"));
    assert_ne!(answer.code, 0);
    let last = verdicts(&env).pop().unwrap();
    let reason = last["outcome"]["reason"].as_str().unwrap_or_default();
    assert_eq!(last["outcome"]["kind"], "not_run", "{last:#}");
    assert!(reason.starts_with("provisioning cargo failed: exit code 101: "), "{reason}");
    assert!(
        reason.contains("cargo vendor") && reason.contains("[verify.provision] auto = false"),
        "{reason}"
    );
}

#[test]
fn without_a_fence_the_crates_are_there_too() {
    let Some(env) = cargo("[\"src/**\"]", REPAIRED, QUICK, "abort") else { return };
    env.write("provost.toml", format!("{}isolation = \"guard+clean\"\n", env.read("provost.toml")));
    run(&env, &own("CARGO_HOME", ".cargo")).exits(0);
    assert_eq!(verdicts(&env).pop().unwrap()["isolation"], "guard+clean");
}

#[test]
fn a_lock_file_counts_only_where_the_step_may_change_it() {
    let agent = format!("{REPAIRED}; printf '\\n# changed\\n' >> Cargo.lock\n");
    for (touches, words) in [
        ("[\"src/**\"]", Value::Null),
        ("[\"src/**\", \"Cargo.lock\"]", Value::from(vec!["cargo, from Cargo.lock as the step left it"])),
    ] {
        let Some(env) = cargo(touches, &agent, QUICK, "abort") else { return };
        run(&env, &own("CARGO_HOME", ".cargo")).exits(0);
        let last = verdicts(&env).pop().unwrap();
        assert_eq!(last["provisioned"], words, "{touches}: {last:#}");
    }
}

#[test]
fn what_a_registry_alone_has_is_fetched() {
    let Some(env) = cargo("[\"src/**\"]", REPAIRED, QUICK, "abort") else { return };
    let home = env.folder().join("fetched");
    let mut fetch = Command::new("cargo");
    fetch.args(["fetch", "--locked"]).current_dir(env.work()).env("CARGO_HOME", &home);
    if !fetch.output().is_ok_and(|fetched| fetched.status.success()) {
        return skip::registry("a crate", "`cargo fetch` fails");
    }
    env.approve();
    let mut run = env.command(&["run"]);
    run.env("CARGO_HOME", env.folder().join("empty")).env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup"));
    for (name, value) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.to_ascii_lowercase().ends_with("_proxy") || name.starts_with("SSL_CERT_") {
            run.env(name, value);
        }
    }
    answer(run.output().unwrap()).exits(0);
}

#[test]
fn packages_of_npm_are_there_and_their_scripts_did_not_run() {
    let package = r#"{"name":"calc","version":"1.0.0","dependencies":{"plus":"file:plus-1.0.0.tgz"}}"#;
    let plus = r#"{"name":"plus","version":"1.0.0","scripts":{"install":"touch ran"}}"#;
    let files = [
        ("package.json", package),
        ("plus/package.json", plus),
        ("plus/index.js", "module.exports = (a, b) => a + b;\n"),
    ];
    let contract = "test ! -e node_modules/plus/ran && node calc.js && touch node_modules/.written";
    let agent = "echo \"if (require('plus')(2, 2) !== 4) process.exit(1)\" > calc.js\n";
    let Some(env) = project(&plan("[\"calc.js\"]", contract, "abort"), &files, agent, &["npm", "node"])
    else {
        return;
    };
    for arguments in [&["pack", "./plus"][..], &["install", "--package-lock-only", "--offline"]] {
        let mut npm = Command::new("npm");
        let done = npm.args(arguments).current_dir(env.work()).env("HOME", env.folder()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "locked"]);
    run(&env, &env.folder().join("empty")).exits(0);
    assert!(!env.work().join("node_modules").exists());
    // The control had the packages, but not the step's result.
    let control = &verdicts(&env)[0];
    assert!(said(control).contains("calc.js") && !said(control).contains("plus"), "{control:#}");
}

#[test]
fn packages_of_pip_are_in_an_environment_in_the_tree() {
    // A wheel is an archive with a list of its files.
    let wheel = "import zipfile\nz = zipfile.ZipFile('plus-1.0-py3-none-any.whl', 'w')\n\
                 z.writestr('plus.py', 'def plus(a, b):\\n    return a + b\\n')\n\
                 z.writestr('plus-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: plus\\nVersion: 1.0\\n')\n\
                 z.writestr('plus-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
                 z.writestr('plus-1.0.dist-info/RECORD', '')\nz.close()\n";
    let files = [("make-wheel.py", wheel), ("requirements.txt", "./plus-1.0-py3-none-any.whl\n")];
    let contract = ".venv/bin/python calc.py && test \"$VIRTUAL_ENV\" = \"$PWD/.venv\"";
    let agent = "printf 'from plus import plus\\nassert plus(2, 2) == 4\\n' > calc.py\n";
    let Some(env) = project(&plan("[\"calc.py\"]", contract, "abort"), &files, agent, &["python3"]) else {
        return;
    };
    let made = Command::new("python3").arg("make-wheel.py").current_dir(env.work()).status().unwrap();
    assert!(made.success());
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "wheel"]);
    run(&env, &env.folder().join("empty")).exits(0);
    assert!(!env.work().join(".venv").exists());
}
