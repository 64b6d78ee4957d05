//! Checks that no test passes silently because something is missing.

use std::process::Command;

use crate::tidy::{read, sources};

/// Functions that return `None` or `false` only after they have counted the test as skipped.
const COUNTING: [&str; 24] = [
    "Bouncer::",
    "Cluster::shared(",
    "Cluster::start(",
    "E::make",
    "Fenced::new(",
    "Fleet::",
    "Machines::",
    "Mounted::tmpfs(",
    "Move::half_way(",
    "Site::new(",
    "Tmux::open(",
    "can_hop(",
    "cargo(",
    "cases(",
    "embedded(",
    "fetched(",
    "has_fences(",
    "held_on(",
    "installed(",
    "made::<",
    "offer(",
    "on_a_terminal(",
    "python(",
    "works(",
];
/// Functions of this kind that exist in some files only.
const LOCAL: [&str; 27] = [
    "= earlier(",
    "= machines(",
    "= minutes(",
    "= own_server(",
    "= package(",
    "= tools(",
    "= fleet(&[FREE",
    "Compose::new(",
    "Server::serve(&place",
    "certified(",
    "contained(",
    "demanding(",
    "git_project(",
    "oidc::package(",
    "outside(",
    "packages(",
    "priced(",
    "project(",
    "python_client(",
    "registry::npm(",
    "site(",
    "small(folder",
    "sought(",
    "talk(&env,",
    "with_net(",
    "with_test(",
    "with_tls(",
];

/// Marks tests that another test starts in a separate process, and settings of a developer.
const ASKED: &str = "std::env::var";

/// Returns the lines of test functions in `text` that end the test early without counting it.
fn silent_ends(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut silent = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let is_test = matches!(lines[at].trim(), "#[test]") || lines[at].trim().starts_with("#[tokio::test");
        if !is_test {
            at += 1;
            continue;
        }
        let outer = indent(lines[at]);
        let end = (at + 1..lines.len()).find(|line| lines[*line] == format!("{}}}", " ".repeat(outer)));
        let end = end.unwrap_or(lines.len());
        for place in at + 1..end {
            let line = lines[place].trim();
            let ends =
                line == "return;" || line.contains("else { return }") || line.contains("return println!");
            if !ends && !line.contains("return eprintln!") {
                continue;
            }
            // The condition is this line, or the line that opens the block with its continuation.
            let opens =
                |above: &usize| indent(lines[*above]) < indent(lines[place]) && lines[*above].ends_with('{');
            let first = (at + 1..place).rev().find(opens).unwrap_or(place);
            let mut condition = format!("{} {line}", lines[first]);
            if lines[first].trim() == "else {" || lines[first].trim_start().starts_with("})") {
                condition.push_str(&lines[first.saturating_sub(4).max(at + 1)..first].join(" "));
            }
            let counts = |known: &&str| condition.contains(*known);
            let is_counted = COUNTING.iter().chain(&LOCAL).any(counts);
            if !is_counted && !condition.contains(ASKED) {
                silent.push(format!("{}: {}", place + 1, lines[place].trim()));
            }
        }
        at = end;
    }
    silent
}

#[test]
fn a_test_that_cannot_run_is_counted() {
    let mut wrong = Vec::new();
    for path in sources("crates") {
        let text = read(&path);
        let place = path.display();
        wrong.extend(silent_ends(&text).into_iter().map(|line| format!("{place}:{line}")));
        let is_helper = path.ends_with("provost-rehearsal/src/skip.rs") || path.ends_with("it/skips.rs");
        let says = |line: &&str| line.contains("println!(") && line.to_lowercase().contains("skipped");
        let said = text.lines().filter(says).filter(|_| !is_helper);
        wrong.extend(said.map(|line| format!("{place}: {}", line.trim())));
    }
    assert!(
        wrong.is_empty(),
        "use provost_rehearsal::skip, so that `./test` counts it:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_silent_end_is_found() {
    let counted = "#[test]\nfn a() {\n    let Some(x) = offer() else { return };\n}\n";
    assert!(silent_ends(counted).is_empty());
    let silent = "#[test]\nfn a() {\n    if !is_there() {\n        return;\n    }\n}\n";
    assert_eq!(silent_ends(silent), ["4: return;"]);
    assert_eq!(silent_ends(&counted.replace("offer()", "bwrap()")).len(), 1);
}

/// Skips this test on purpose, in a separate process.
#[test]
#[ignore = "started by another test"]
fn needs_a_tool_that_is_missing() {
    provost_rehearsal::skip::tool("no-such-tool", "apt-get install no-such-tool");
}

#[test]
fn a_missing_tool_is_written_down_and_fails_where_it_is_required() {
    let folder = tempfile::tempdir().expect("a folder");
    let skips = folder.path().join("skips");
    let run = |required: &str| {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--ignored", "--exact", "skips::needs_a_tool_that_is_missing"]);
        child.env("PROVOST_TEST_SKIPS", &skips).env("PROVOST_TEST_REQUIRE", required);
        child.output().expect("this program")
    };
    for (required, passes) in [("", true), ("postgres", true), ("all", false), ("npm,no-such-tool", false)] {
        let output = run(required);
        assert_eq!(output.status.success(), passes, "{required}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(passes || said.contains("apt-get install no-such-tool"), "{required}: {said}");
    }
    let line = "a tool is missing: no-such-tool (apt-get install no-such-tool): skips::needs_a_tool_that_is_missing\n";
    assert_eq!(std::fs::read_to_string(&skips).expect("lines"), line.repeat(2));
}
