//! Checks the architecture: the dependencies between crates, the one place where a step passes, and
//! documents that match the code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns every Rust file below a folder, relative to the root.
pub(crate) fn sources(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Returns the normal dependencies of a crate, by name.
fn dependencies(krate: &str) -> BTreeSet<String> {
    let manifest = read(format!("crates/{krate}/Cargo.toml"));
    let (_, after) = manifest.split_once("\n[dependencies]\n").expect("dependencies");
    let section = after.split("\n[").next().unwrap_or_default();
    section
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_edges_between_the_crates_are_as_drawn() {
    let ours = |krate: &str| -> Vec<String> {
        dependencies(krate).into_iter().filter(|name| name.starts_with("provost")).collect()
    };
    let drawn: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("provost-core", &[][..]),
        ("provost-store", &["provost-core"]),
        ("provost-host", &["provost-core"]),
        ("provost-engine", &["provost-core", "provost-host", "provost-store"]),
        ("provost-server", &["provost-core", "provost-engine"]),
        ("provost-agent", &["provost-core"]),
        ("provost", &["provost-agent", "provost-core", "provost-dbos", "provost-engine", "provost-server"]),
        ("provost-dbos", &["provost-core", "provost-engine", "provost-host", "provost-store"]),
        // Test support; nobody's but the tests'.
        ("provost-rehearsal", &[]),
    ]);
    for (krate, edges) in &drawn {
        assert_eq!(ours(krate), *edges, "{krate}");
    }
    let there: BTreeSet<String> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(there, drawn.keys().map(|name| (*name).to_owned()).collect());
}

/// A literal list, so that a new dependency needs a decision here.
#[test]
fn core_depends_on_nothing_that_touches_the_world() {
    let allowed = [
        "aho-corasick",
        "base64",
        "ed25519-dalek",
        "globset",
        "humantime",
        "pulldown-cmark",
        "regex",
        "regex-automata",
        "roxmltree",
        "serde",
        "serde-saphyr",
        "serde_json",
        "sha2",
        "strsim",
        "thiserror",
        "toml",
    ];
    assert_eq!(dependencies("provost-core"), allowed.map(str::to_owned).into());
}

#[test]
fn a_step_passes_in_one_place_only() {
    let mut built = Vec::new();
    for path in sources("crates") {
        let shown = path.to_string_lossy().into_owned();
        if shown.contains("/tests") || shown.contains("/benches/") {
            continue;
        }
        let text = read(&path);
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            // A pattern ends in `..`; a constructor does not.
            if line.contains("Event::StepPassed {") && !line.contains("..") && !line.contains("=> ") {
                built.push(shown.clone());
            }
        }
    }
    built.dedup();
    assert_eq!(built, ["crates/provost-core/src/rules/decide/judged.rs"]);
}

#[test]
fn leaves_do_not_know_their_siblings() {
    for (folder, prefix) in [
        ("crates/provost/src/cmd", "crate::cmd::"),
        ("crates/provost-core/src/language/verify", "crate::language::verify::"),
        ("crates/provost-host/src/agent", "crate::agent::"),
    ] {
        let names: Vec<String> =
            sources(folder).iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
        for path in sources(folder) {
            let text = read(&path);
            let own = path.file_stem().unwrap().to_string_lossy().into_owned();
            // Drivers share the knowledge about clients, and the form of transcripts.
            let shared = ["tests", "client", "transcript"];
            for name in names.iter().filter(|name| **name != own && !shared.contains(&name.as_str())) {
                for way in [format!("{prefix}{name}"), format!("super::{name}")] {
                    assert!(!text.contains(&way), "{} imports its sibling {name}", path.display());
                }
            }
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for path in sources("crates") {
        let text = read(&path);
        let leaf = path.starts_with("crates/provost/src/cmd");
        // A command may have only its help text (`///`).
        assert!(
            text.starts_with("//!") || leaf && text.contains("\n/// "),
            "{} does not say what it is for",
            path.display()
        );
    }
}

#[test]
fn files_named_in_the_documents_exist() {
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
        let text = read(document);
        let in_code = text.split('`').skip(1).step_by(2);
        let in_links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for name in in_code.chain(in_links) {
            let name = name.split_once('#').map_or(name, |(file, _)| file);
            let looks_like_a_path = (name.contains('/') || name.ends_with(".md") || name.ends_with(".rs"))
                && !name.contains([' ', '*', '<', '\n', '{', ':', '$', '('])
                && !name.starts_with(['/', '-', '.'])
                // Made by the tests themselves.
                && !name.starts_with("target/");
            if !looks_like_a_path || ["PLAN.md", "progress.md", "tests/test_login.py"].contains(&name) {
                continue;
            }
            let places = [
                "",
                "crates/",
                "crates/provost-core/src/",
                "crates/provost-core/src/model/",
                "crates/provost-core/src/language/",
                "crates/provost-core/src/state/",
                "crates/provost-core/src/rules/",
                "crates/provost-core/src/fleet/",
                "crates/provost-core/src/text/",
                "crates/provost-host/src/",
                "crates/provost-engine/src/",
                "crates/provost-store/src/",
                "crates/provost-agent/src/",
                "crates/provost-rehearsal/src/",
                "crates/provost-server/src/",
                "crates/provost-server/src/mcp/",
                "crates/provost-dbos/src/",
                "crates/provost/src/",
                "crates/provost-core/",
            ];
            assert!(
                places.iter().any(|place| root().join(format!("{place}{name}")).exists()),
                "{document} names `{name}`, which is not there"
            );
        }
    }
}

#[test]
fn nothing_of_one_machine_stands_in_the_project() {
    let patterns = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    let mut git = std::process::Command::new("git");
    let listed = git.args(["ls-files", "-z"]).current_dir(root()).output().expect("git");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("text");
    let names: Vec<&str> = names.split_terminator('\0').collect();
    assert!(names.len() > 1000, "{}", names.len());
    for path in names {
        // Pictures are no text, and a file may be deleted in the working tree.
        let Ok(text) = std::fs::read_to_string(root().join(path)) else { continue };
        for pattern in patterns {
            assert!(!text.contains(pattern), "{path} holds the path {pattern}");
        }
    }
}

/// Returns words that assume that a repository has only one plan.
fn speaks_of_a_single_plan(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    [
        "the only plan",
        "the single plan",
        "exactly one plan",
        "one plan per repository",
        "only `plan.md`",
        "always `plan.md`",
    ]
    .into_iter()
    .find(|words| text.contains(words))
}

#[test]
fn no_document_takes_the_names_from_plans_again() {
    assert!(speaks_of_a_single_plan("A repository has exactly one plan.").is_some());
    assert!(speaks_of_a_single_plan("The harness reads only `PLAN.md`.").is_some());
    let docs = std::fs::read_dir(root().join("docs")).unwrap().flatten().map(|entry| entry.path());
    let prompts = std::fs::read_dir(root().join("crates/provost-core/src/text/prompt")).unwrap().flatten();
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let files = docs.chain(prompts.map(|entry| entry.path()));
    for path in files.chain(["README.md", "ARCHITECTURE.md"].map(|name| root().join(name))) {
        let text = read(&path);
        assert_eq!(speaks_of_a_single_plan(&text), None, "{}", path.display());
    }
    for (path, words) in [
        ("docs/many-plans.md", "PLAN-"),
        ("docs/many-plans.md", "active-plan"),
        ("README.md", "many-plans.md"),
    ] {
        assert!(read(path).contains(words), "{path} says nothing of {words}");
    }
}
