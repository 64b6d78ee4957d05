//! Tries every contract of `docs/cookbook.md`: it fails on the red project and holds after the green work.
//!
//! The recipes are read from the page. Each one runs through the gate, an agent and the checks of the
//! harness, at the level `clean` and with the real tools.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use provost_rehearsal::skip;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};

use crate::docs::{page, parser};
use crate::env::{Answer, Env, answer};

#[derive(Debug, Default)]
struct Recipe {
    /// The heading above it: a language, or a kind of work.
    section: String,
    title: String,
    /// The fields of the step: `touches`, `contract` and others.
    fields: String,
    /// A script that makes the project before the work.
    red: String,
    /// A script that does the work of the agent.
    green: String,
}

fn recipes() -> Vec<Recipe> {
    let text = page("docs/cookbook.md").text;
    let mut found: Vec<Recipe> = Vec::new();
    let (mut section, mut words, mut kind) = (String::new(), String::new(), String::new());
    for event in parser(&text) {
        match event {
            Event::Start(Tag::Heading { .. }) => words.clear(),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                words.clear();
                kind = info.to_string();
            }
            Event::Text(text) | Event::Code(text) => words.push_str(&text),
            Event::End(TagEnd::Heading(HeadingLevel::H2)) => section = std::mem::take(&mut words),
            Event::End(TagEnd::Heading(HeadingLevel::H3)) => {
                let title = std::mem::take(&mut words);
                found.push(Recipe { section: section.clone(), title, ..Recipe::default() });
            }
            Event::End(TagEnd::CodeBlock) => {
                let recipe = found.last_mut().expect("a heading above the block");
                match kind.as_str() {
                    "markdown recipe" => recipe.fields = std::mem::take(&mut words),
                    "sh red" => recipe.red = std::mem::take(&mut words),
                    "sh green" => recipe.green = std::mem::take(&mut words),
                    other => panic!("{}: a block of the kind `{other}`", recipe.title),
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns a plan with one step. Its `touches` are those of the step.
pub(crate) fn plan(title: &str, fields: &str) -> String {
    let touches = fields.lines().find_map(|line| line.strip_prefix("**touches:** ")).unwrap_or_default();
    let globs: Vec<String> = touches.split(", ").map(|glob| format!("{glob:?}")).collect();
    format!(
        "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [{}]\n---\n\n# A recipe\n\n## Steps\n\n### 1. {title}\n\n\
         **target:** coder\n**task:** Do the work.\n{fields}**on_fail:** escalate\n",
        globs.join(", ")
    )
}

/// A `PATH` whose python has pytest: the system's own, if the first one on `PATH` has none.
static PATH: LazyLock<String> = LazyLock::new(|| {
    let path = std::env::var("PATH").unwrap_or_default();
    let has_pytest = |python: &str| {
        let started = Command::new(python).args(PYTEST.1).output();
        started.is_ok_and(|output| output.status.success())
    };
    if has_pytest("python3") || !has_pytest("/usr/bin/python3") { path } else { format!("/usr/bin:{path}") }
});

/// The program `cargo` may be a proxy that finds its toolchain through HOME, which is another one here.
fn rustup_home() -> Option<(&'static str, PathBuf)> {
    let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".rustup"));
    let place = std::env::var_os("RUSTUP_HOME").map(PathBuf::from).or_else(usual)?;
    place.is_dir().then_some(("RUSTUP_HOME", place))
}

/// A program, arguments that make it start and end, and the way to install it.
type Program = (&'static str, &'static [&'static str], &'static str);

const PYTHON: Program = ("python3", &["--version"], "apt-get install python3");
const PYTEST: Program = ("python3", &["-m", "pytest", "--version"], "apt-get install python3-pytest");
const NODE: Program = ("node", &["--version"], "apt-get install nodejs");
const NPM: Program = ("npm", &["--version"], "apt-get install nodejs npm");
const CARGO: Program = ("cargo", &["--version"], "install a Rust toolchain (rustup)");
const GO: Program = ("go", &["version"], "apt-get install golang-go");
const CHROMIUM: Program = ("chromium", &["--version"], "apt-get install chromium");
const CURL: Program = ("curl", &["--version"], "apt-get install curl");

/// Returns whether all programs start. If not, the test is counted as skipped.
fn works(programs: &[Program]) -> bool {
    programs.iter().all(|(program, arguments, how)| {
        let started = Command::new(program).args(*arguments).env("PATH", &*PATH).output();
        let starts = started.is_ok_and(|output| output.status.success());
        if !starts {
            skip::tool(program, how);
        }
        starts
    })
}

fn provost(env: &Env, arguments: &[&str]) -> Answer {
    let mut command = env.command(arguments);
    command.env("PATH", &*PATH).envs(rustup_home());
    answer(command.output().expect("provost"))
}

/// Runs every recipe of a section.
fn try_section(section: &str) {
    let recipes: Vec<Recipe> = recipes().into_iter().filter(|recipe| recipe.section == section).collect();
    assert!(!recipes.is_empty(), "no recipes under {section}");
    for recipe in recipes {
        let env = Env::new(&plan(&recipe.title, &recipe.fields));
        if !env.has_fences() {
            return;
        }
        let mut red = Command::new("bash");
        red.args(["-ec", &recipe.red]).current_dir(env.work()).env("PATH", &*PATH).envs(rustup_home());
        let made = answer(red.env("HOME", env.folder().join("home")).output().expect("bash"));
        assert_eq!(made.code, 0, "{}: {}", recipe.title, made.err);
        env.write("agent.sh", &recipe.green);
        env.git(&["add", "--all"]);
        env.git(&["commit", "--quiet", "--message", "red"]);

        let verified = provost(&env, &["verify", "--json"]).exits(0).json();
        let warned = verified["diagnostics"].as_array().is_some_and(|all| {
            all.iter().any(|each| each["severity"] == "warning" || each["severity"] == "error")
        });
        assert!(!warned, "{}: {verified:#}", recipe.title);
        let shown = provost(&env, &["show", "--no-checks", "--json"]).exits(0).json();
        let revision = shown["revision"].as_str().expect("a revision");
        provost(&env, &["approve", "--revision", revision]).exits(0);
        provost(&env, &["run"]).exits(0);

        let status = provost(&env, &["status", "--json"]).exits(0).json();
        // A contract that expects failing tests of the agent cannot show more.
        let pass = if recipe.fields.contains("**writes:** tests") { "self_checked" } else { "verified" };
        assert_eq!(status["steps"][0]["pass"], pass, "{}: {status:#}", recipe.title);
        let judged = provost(&env, &["log", "--json", "--event", "CONTRACT_JUDGED"]).exits(0).lines();
        let outcomes: Vec<&str> = judged
            .iter()
            .map(|event| event["details"]["verdict"]["outcome"]["kind"].as_str().unwrap_or("?"))
            .collect();
        let (before, after) = outcomes.split_first().expect("verdicts");
        assert_eq!(*before, "broke", "{}: before the work", recipe.title);
        assert!(!after.is_empty() && after.iter().all(|kind| *kind == "held"), "{}: {after:?}", recipe.title);
    }
}

#[test]
fn there_are_thirty_nine_recipes_and_each_is_whole() {
    let recipes = recipes();
    assert_eq!(recipes.len(), 39);
    for (index, recipe) in recipes.iter().enumerate() {
        assert!(recipe.title.starts_with(&format!("{}. ", index + 1)), "{}", recipe.title);
        for part in [&recipe.fields, &recipe.red, &recipe.green] {
            assert!(!part.is_empty(), "{} lacks a part", recipe.title);
        }
        assert!(recipe.fields.contains("**touches:** ") && recipe.fields.contains("**contract:**"));
    }
}

#[test]
fn python_recipes_fail_first_and_hold_then() {
    if works(&[PYTEST]) {
        try_section("Python");
    }
}

#[test]
fn node_recipes_fail_first_and_hold_then() {
    if works(&[NODE, NPM]) {
        try_section("Node");
    }
}

#[test]
fn rust_recipes_fail_first_and_hold_then() {
    if works(&[CARGO]) {
        try_section("Rust");
    }
}

#[test]
fn go_recipes_fail_first_and_hold_then() {
    if works(&[GO]) {
        try_section("Go");
    }
}

#[test]
fn shell_recipes_fail_first_and_hold_then() {
    try_section("Shell");
}

#[test]
fn git_recipes_fail_first_and_hold_then() {
    if works(&[PYTHON]) {
        try_section("Git");
    }
}

#[test]
fn recipes_for_documents_fail_first_and_hold_then() {
    if works(&[PYTHON]) {
        try_section("Documents");
    }
}

#[test]
fn recipes_for_data_fail_first_and_hold_then() {
    if works(&[PYTHON]) {
        try_section("Data");
    }
}

#[test]
fn recipes_for_http_fail_first_and_hold_then() {
    if works(&[PYTHON, CURL]) {
        try_section("HTTP");
    }
}

#[test]
fn recipes_for_performance_fail_first_and_hold_then() {
    if works(&[PYTHON, NODE]) {
        try_section("Performance");
    }
}

#[test]
fn recipes_of_provost_check_fail_first_and_hold_then() {
    if works(&[PYTHON]) {
        try_section("Provost-check");
    }
}

#[test]
fn recipes_for_coverage_fail_first_and_hold_then() {
    if works(&[NODE]) {
        try_section("Coverage");
    }
}

#[test]
fn recipes_for_a_browser_fail_first_and_hold_then() {
    if works(&[PYTHON, CHROMIUM]) {
        try_section("Browser");
    }
}
