//! Drives the language server from Neovim, as an editor of a person does.

use std::path::Path;
use std::process::{Command, Stdio};

use provost_rehearsal::skip;
use serde_json::Value;

use super::{ODD, verified};
use crate::env::Env;

/// Returns whether Neovim is here. If not, the test is counted as skipped.
#[track_caller]
fn installed() -> bool {
    let found = Command::new("nvim").arg("--version").stdout(Stdio::null()).status();
    let is_here = found.is_ok_and(|status| status.success());
    if !is_here {
        skip::tool("nvim", "apt-get install neovim");
    }
    is_here
}

#[test]
fn neovim_shows_fixes_completes_and_renames() {
    if !installed() {
        return;
    }
    for line_end in ["\n", "\r\n"] {
        let text = ODD.replacen("**target:** coder", "**target:** üben 😀", 1).replace('\n', line_end);
        let env = Env::new(&text).agent("true\n");
        let result = env.folder().join("result.json");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lsp/neovim.lua");
        let mut neovim = Command::new("nvim");
        neovim.args(["--headless", "-u", "NONE", "-i", "NONE", "-n", "PLAN.md"]);
        neovim.arg("-c").arg(format!("luafile {}", script.display())).current_dir(env.work()).env_clear();
        for (name, value) in env.command(&[]).get_envs() {
            neovim.env(name, value.unwrap_or_default());
        }
        neovim.env("PROVOST", env!("CARGO_BIN_EXE_provost")).env("RESULT", &result).stdin(Stdio::null());
        let output = neovim.output().expect("nvim");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let seen = std::fs::read_to_string(&result).unwrap_or_else(|error| panic!("{error}: {said}"));
        let seen: Value = serde_json::from_str(&seen).expect("JSON");
        assert_eq!(seen["problem"], Value::Null, "{seen:#}\n{said}");
        assert!(seen["hover"].as_str().unwrap().contains("# P030: a misspelt field"), "{seen:#}");
        assert!(seen["action"].as_str().unwrap().starts_with("P030: write `"), "{seen:#}");
        assert_eq!(seen["completion"], serde_json::json!(["coder"]), "{seen:#}");
        // What Neovim has written is what the server has read.
        let written = env.read("PLAN.md");
        assert!(written.contains("### 1. Zwei") && written.contains("### 2. Öl 😀 messen"), "{written}");
        assert_eq!(written.matches("\r\n").count() > 0, line_end == "\r\n");
        let mut expected: Vec<String> =
            verified(&env, "PLAN.md", &written).iter().map(|each| each[1..5].to_owned()).collect();
        expected.sort();
        let last = seen["last"].as_array().unwrap().iter().filter_map(Value::as_str);
        let last: Vec<String> = last.map(|each| each[..4].to_owned()).collect();
        assert_eq!(last, expected, "{seen:#}");
    }
}
