//! Measures `provost proved` on a change of 20 hunks with a contract of 2 s, against the same number of bare
//! runs of the contract on all cores.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;
use std::time::Instant;

use serde_json::Value;

use crate::Asked;
use crate::measure::{folder, time};
use crate::table::{Kind, Row, Table};

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");
const HUNKS: usize = 20;
const CONTRACT: &str = "sleep 2; python3 -m unittest -q test_calc";
const GOAL: f64 = 1.2;

pub(crate) fn measure(_: &Asked, table: &mut Table) {
    let place = folder("proved");
    let (workspace, state) = (place.join("workspace"), place.join("state"));
    project(&workspace);
    let provost = |words: &[&str]| {
        let mut command = Command::new(PROVOST);
        command.args(words).current_dir(&workspace).env("PROVOST_STATE", &state).stdin(Stdio::null());
        let output = command.output().expect("provost");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let shown: Value = serde_json::from_str(&provost(&["show", "--json"]).1).unwrap_or_default();
    let revision = shown["revision"].as_str().unwrap_or_default();
    if !provost(&["approve", "--revision", revision]).0 || !provost(&["run"]).0 {
        return table.note("proved", "needs python3, git and an isolation level with its own tree");
    }
    let begun = Instant::now();
    let (_, made) = provost(&["proved", "1", "--json"]);
    let took = begun.elapsed().as_secs_f64();
    let made: Value = serde_json::from_str(&made).unwrap_or_default();
    let step = &made["steps"][0];
    let runs = step["runs"].as_u64().unwrap_or_default();
    let proved =
        step["hunks"].as_array().map_or(0, |hunks| hunks.iter().filter(|h| h["mark"] == "proved").count());
    assert_eq!(proved, HUNKS, "{made}");
    let begun = Instant::now();
    let bare = Command::new("bash").args(["-c", CONTRACT]).current_dir(&workspace).output();
    assert!(bare.is_ok_and(|output| output.status.success()), "the contract holds");
    let cores = available_parallelism().map_or(1, |cores| cores.get());
    let floor = begun.elapsed().as_secs_f64() * runs as f64 / cores as f64;
    table.row(Row {
        what: "proved: 20 hunks, contract of 2 s (real time)",
        subject: time(took),
        floor: time(floor),
        figure: took / floor,
        unit: "×",
        goal: GOAL,
        kind: Kind::Wall,
    });
}

/// Makes a repository with a plan whose agent writes twenty functions.
fn project(workspace: &Path) {
    let functions: Vec<String> =
        (0..HUNKS).map(|n| format!("def f{n}(a):\n    b = a + {n}\n    return b")).collect();
    let tests: String = (0..HUNKS)
        .map(|n| format!("    def test_{n}(self):\n        self.assertEqual(calc.f{n}(1), {n} + 1)\n\n"))
        .collect();
    let plan = format!(
        "---\ntype: plan\nstatus: draft\nowner: bench\ntouches: [\"calc.py\"]\n---\n\n# Write it\n\n## Steps\n\n\
         ### 1. Write it\n\n**target:** coder\n\n**task:**\nWrite the functions.\n\n\
         **contract:**\n```shell\n{CONTRACT}\n```\nexit_code == 0\n**on_fail:** escalate\n"
    );
    let files = [
        ("PLAN.md", plan),
        (
            "provost.toml",
            "[agents.coder]\ndriver = \"command\"\ncommand = [\"cp\", \"work.txt\", \"calc.py\"]\n"
                .to_owned(),
        ),
        ("work.txt", format!("{}\n", functions.join("\n\n\n"))),
        ("calc.py", "VERSION = 1\n".to_owned()),
        ("test_calc.py", format!("import unittest\n\nimport calc\n\n\nclass T(unittest.TestCase):\n{tests}")),
    ];
    fs::create_dir_all(workspace).expect("a workspace");
    for (name, text) in files {
        fs::write(workspace.join(name), text).expect("a file");
    }
    let commit =
        "git init -q && git add -A && git -c user.name=bench -c user.email=bench@localhost commit -qm start";
    let made = Command::new("sh").args(["-c", commit]).current_dir(workspace).status();
    assert!(made.is_ok_and(|status| status.success()), "a repository");
}
