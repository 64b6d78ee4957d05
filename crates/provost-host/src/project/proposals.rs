//! Proposes checks from what a repository has: tests, Makefile targets, package scripts, CI, linters, type
//! checkers, API descriptions and snapshots.
//!
//! **Invariant:** only commands that look like checks are proposed. A command of CI that installs, publishes
//! or asks for values of CI is left out.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::listing::{FileListing, split};
use super::{CheckCandidates, Language, Project, TEST};

/// Most tests that are proposed because the goal names them.
const FOCUSED_MAX: usize = 3;
/// Names of targets and scripts that check something, or begin so.
const CHECKING: [&str; 9] =
    ["test", "check", "lint", "verify", "ci", "typecheck", "type-check", "types", "format-check"];
/// Beginnings of CI commands that check something.
const CHECKERS: [&str; 26] = [
    "pytest",
    "python -m pytest",
    "python3 -m pytest",
    "python -m unittest",
    "python3 -m unittest",
    "uv run pytest",
    "poetry run pytest",
    "tox",
    "ruff check",
    "mypy",
    "pyright",
    "black --check",
    "flake8",
    "cargo test",
    "cargo nextest",
    "cargo clippy",
    "cargo fmt",
    "go test",
    "go vet",
    "npm test",
    "npm run",
    "pnpm test",
    "yarn test",
    "make ",
    "npx tsc",
    "npx eslint",
];
/// Words without a meaning of their own in a goal.
const SMALL_WORDS: [&str; 22] = [
    "the", "and", "for", "with", "from", "that", "this", "into", "add", "make", "fix", "use", "should",
    "new", "more", "all", "its", "are", "not", "test", "tests", "code",
];

/// A check that is proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedCheck {
    pub check: CheckCandidates,
    /// The file that it comes from.
    pub source: String,
    /// Number of words of the goal that it names.
    pub fit: usize,
}

/// Proposes checks for a goal, each command once. The project is the one that was found near.
pub fn for_goal(repository: &Path, project: &Project, goal: &str) -> Vec<ProposedCheck> {
    let files = FileListing::of(repository);
    let words = words(goal);
    let mut found: Vec<(CheckCandidates, String)> = Vec::new();
    found.extend(focused(&files, project, &words));
    let manifest = project.manifests.first().cloned().unwrap_or_else(|| "the repository".to_owned());
    found.extend(project.checks.iter().map(|check| (check.clone(), manifest.clone())));
    found.extend(targets(&files));
    found.extend(scripts(&files, project));
    found.extend(configured(&files));
    found.extend(snapshots(&files, project));
    found.extend(ci(&files));
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut proposals = Vec::new();
    for (mut check, source) in found {
        check.commands.retain(|command| known.insert(command.clone()));
        if check.commands.is_empty() {
            continue;
        }
        let named = self::words(&format!("{} {source}", check.commands[0]));
        let fit = words.iter().filter(|word| named.contains(*word)).count();
        proposals.push(ProposedCheck { check, source, fit });
    }
    proposals
}

/// Returns the meaningful words of a text, in small letters: those of paths and names too.
fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| word.chars().count() >= 3 && !SMALL_WORDS.contains(&word.as_str())).collect()
}

fn is_test(path: &str) -> bool {
    provost_core::language::test_files::is_test(path) && !path.ends_with(".snap")
}

/// Proposes the test files that the goal names, those with the most words first.
fn focused(
    files: &FileListing,
    project: &Project,
    goal: &BTreeSet<String>,
) -> Vec<(CheckCandidates, String)> {
    let fit = |path: &String| words(path).iter().filter(|word| goal.contains(*word)).count();
    let mut fitting: Vec<(usize, &String)> = files
        .paths
        .iter()
        .filter(|path| path.starts_with(&project.folder) && is_test(path))
        .map(|path| (fit(path), path))
        .filter(|(fit, _)| *fit > 0)
        .collect();
    fitting.sort_by_key(|(fit, path)| (std::cmp::Reverse(*fit), (*path).clone()));
    let commands = fitting.into_iter().take(FOCUSED_MAX).filter_map(|(_, path)| {
        let inside = path.strip_prefix(&project.folder).unwrap_or(path);
        let commands = of_test_file(project, inside);
        let check = CheckCandidates::new("focused", commands);
        (!check.commands.is_empty()).then(|| (check, path.clone()))
    });
    commands.collect()
}

/// Returns the commands that run one test file of the project.
fn of_test_file(project: &Project, path: &str) -> Vec<String> {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte));
    let tests = project.checks.iter().find(|check| check.name == TEST).filter(|_| is_plain);
    let Some(tests) = tests else { return Vec::new() };
    let (folder, name) = split(path);
    let stem = name.split('.').next().unwrap_or(name);
    let moved = |command: String| match project.folder.trim_end_matches('/') {
        "" => command,
        folder => format!("(cd {folder} && {command})"),
    };
    let bare = |command: &str| {
        let inner = command.split_once("&& ").map_or(command, |(_, inner)| inner);
        inner.trim_end_matches(')').to_owned()
    };
    let of_command = |command: &String| {
        let command = bare(command);
        Some(moved(match project.language? {
            Language::Python if command.contains("unittest") => format!("python3 -m unittest -q {path}"),
            Language::Python => format!("{command} {path}"),
            Language::Node if command == "node --test" => format!("node --test {path}"),
            Language::Node => format!("{command} -- {path}"),
            Language::Rust if folder == "tests/" => format!("cargo test --test {stem}"),
            Language::Rust => return None,
            Language::Go => format!("go test ./{folder}..."),
        }))
    };
    tests.commands.iter().filter_map(of_command).collect()
}

/// Proposes targets of a Makefile or a justfile that check something.
fn targets(files: &FileListing) -> Vec<(CheckCandidates, String)> {
    let known = [("Makefile", "make"), ("makefile", "make"), ("justfile", "just")];
    let mut found = Vec::new();
    for (file, program) in known {
        let text = files.top(file);
        let names = text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
        for name in names.filter(|name| is_checking(name)) {
            found.push((CheckCandidates::one("make", &format!("{program} {name}")), file.to_owned()));
        }
    }
    found
}

fn is_checking(name: &str) -> bool {
    let is_plain =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-:".contains(&byte));
    let begins = |own: &str| {
        name.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', ':']))
    };
    is_plain && (CHECKING.iter().any(|own| begins(own)) || name.ends_with(":check"))
}

/// Proposes scripts of `package.json` that check something.
fn scripts(files: &FileListing, project: &Project) -> Vec<(CheckCandidates, String)> {
    let package: Value = serde_json::from_str(&files.top("package.json")).unwrap_or_default();
    let Some(scripts) = package["scripts"].as_object() else { return Vec::new() };
    let manager = project.manager.filter(|_| project.language == Some(Language::Node)).unwrap_or("npm");
    let is_watch = |text: &Value| text.as_str().is_none_or(|text| text.contains("watch"));
    let wanted =
        scripts.iter().filter(|(name, text)| is_checking(name) && *name != "test" && !is_watch(text));
    let named = wanted.map(|(name, _)| {
        (CheckCandidates::one("script", &format!("{manager} run {name}")), "package.json".to_owned())
    });
    named.collect()
}

/// Proposes linters, type checkers and comparisons of APIs that files of the repository configure.
fn configured(files: &FileListing) -> Vec<(CheckCandidates, String)> {
    let known: [(&[&str], &'static str, &str); 6] = [
        (&["tsconfig.json"], "types", "npx --no-install tsc --noEmit"),
        (&["pyrightconfig.json"], "types", "pyright"),
        (
            &["eslint.config.js", "eslint.config.mjs", ".eslintrc.json", ".eslintrc.js"],
            "lint",
            "npx --no-install eslint .",
        ),
        (&[".prettierrc", ".prettierrc.json"], "format", "npx --no-install prettier --check ."),
        (&["biome.json"], "lint", "npx --no-install biome check ."),
        (&[".golangci.yml", ".golangci.yaml"], "lint", "golangci-lint run"),
    ];
    let mut found = Vec::new();
    for (names, kind, command) in known {
        if let Some(name) = names.iter().find(|name| files.has(name)) {
            found.push((CheckCandidates::one(kind, command), (*name).to_owned()));
        }
    }
    let is_api = |path: &&String| {
        let stem = split(path).1.split('.').next().unwrap_or_default().to_lowercase();
        matches!(stem.as_str(), "openapi" | "swagger")
            && [".json", ".yaml", ".yml"].iter().any(|end| path.ends_with(end))
    };
    for path in files.paths.iter().filter(is_api).take(FOCUSED_MAX) {
        let word = provost_core::language::shell_word::quoted(path);
        found.push((CheckCandidates::one("api", &format!("provost-check api --new {word}")), path.clone()));
    }
    found
}

/// Proposes to compare snapshots without writing new ones.
fn snapshots(files: &FileListing, project: &Project) -> Vec<(CheckCandidates, String)> {
    let Some(path) = files.paths.iter().find(|path| path.ends_with(".snap")) else { return Vec::new() };
    let Some(test) = project.test() else { return Vec::new() };
    let command = match project.language {
        Some(Language::Rust) => format!("INSTA_UPDATE=no {test}"),
        _ => format!("CI=true {test}"),
    };
    vec![(CheckCandidates::one("snapshots", &command), path.clone())]
}

/// Proposes the commands of CI that check something.
fn ci(files: &FileListing) -> Vec<(CheckCandidates, String)> {
    let mut found = Vec::new();
    for (path, text) in &files.ci {
        let lines = text.lines().map(|line| {
            let line = line.trim().trim_start_matches("- ");
            line.strip_prefix("run:").or(line.strip_prefix("script:")).unwrap_or(line).trim()
        });
        for line in lines {
            let is_check = CHECKERS.iter().any(|checker| line.starts_with(checker));
            let is_plain = !line.contains("${{") && !line.contains(['$', ';', '|', '>', '&', '`', '"', '\'']);
            if is_check && is_plain {
                found.push((CheckCandidates::one("ci", line), path.clone()));
            }
        }
    }
    found
}
