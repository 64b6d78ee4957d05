//! A shell for the model: a command with a timeout, or one that goes on in the background.
//!
//! **Invariant:** when a call ends in any way, its process group is dead, unless the model asked for the
//! background. provost itself finds processes that left the group.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::background::{self, Shells};
use super::command::{run_in, start};
use super::files::Workspace;
use super::{Tool, ToolAnswer};

const DEADLINE: u64 = 120;
const DEADLINE_MAX: u64 = 1800;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Shell {
    /// Run by bash. What it leaves in the background ends with it.
    command: String,
    /// Seconds it may take. Default 120.
    #[serde(default)]
    timeout_seconds: u64,
    /// Folder inside the workspace to run it in. Default: the workspace.
    #[serde(default)]
    folder: String,
    /// Let it go on, such as a server under test, and answer at once. It ends with the attempt at the latest.
    #[serde(default)]
    background: bool,
}

/// Returns the shell and the tools for its commands in the background.
pub fn tools(workspace: &Workspace) -> Vec<Tool> {
    let (workspace, shells) = (workspace.clone(), Shells::default());
    let kept = background::tools(&shells);
    let description = "Runs a command with bash in the workspace and shows its exit code and output. There is no \
                       terminal and nothing to type into it. Each command begins in the workspace, or in `folder`.";
    let shell = Tool::new("shell", description, move |ask: Shell| {
        let (workspace, shells) = (workspace.clone(), shells.clone());
        async move { run(&workspace, &shells, &ask).await }
    });
    std::iter::once(shell).chain(kept).collect()
}

async fn run(workspace: &Workspace, shells: &Shells, ask: &Shell) -> ToolAnswer {
    if ask.command.trim().is_empty() {
        return Err("the command is empty".to_owned());
    }
    let folder = workspace.place(if ask.folder.is_empty() { "." } else { &ask.folder })?;
    if !folder.is_dir() {
        return Err(format!("`{}` is not a folder", ask.folder));
    }
    if ask.background {
        return shells.keep(start(workspace, &folder, &ask.command)?);
    }
    let seconds = if ask.timeout_seconds == 0 { DEADLINE } else { ask.timeout_seconds.min(DEADLINE_MAX) };
    run_in(workspace, &folder, &ask.command, Duration::from_secs(seconds)).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::command::{HEAD, TAIL};
    use super::*;

    async fn shell(command: &str, timeout_seconds: u64) -> ToolAnswer {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::new(folder.path()).expect("a workspace").withhold("MODEL_API_KEY");
        run(&workspace, &Shells::default(), &ask(command, timeout_seconds)).await
    }

    fn ask(command: &str, timeout_seconds: u64) -> Shell {
        Shell { command: command.to_owned(), timeout_seconds, folder: String::new(), background: false }
    }

    #[tokio::test]
    async fn the_exit_code_and_both_streams_are_shown() {
        let answer = shell("echo out; echo err >&2; exit 3", 0).await.expect("an answer");
        assert!(answer.starts_with("exit code 3\n"), "{answer}");
        assert!(answer.contains("out\n") && answer.contains("err\n"), "{answer}");
        assert_eq!(shell("true", 0).await.expect("an answer"), "exit code 0");
        assert!(shell("kill -9 $$", 0).await.expect("an answer").starts_with("ended by signal 9"));
        assert!(shell(" ", 0).await.is_err());
    }

    #[tokio::test]
    async fn a_deadline_ends_the_whole_group() {
        let started = std::time::Instant::now();
        let error =
            shell("echo $$; (sleep 600 & echo $!; wait) & sleep 600", 1).await.expect_err("a deadline");
        assert!(started.elapsed() < Duration::from_secs(200));
        assert!(error.starts_with("it was ended after 1 s"), "{error}");
        for id in error.lines().filter_map(|line| line.trim().parse::<u32>().ok()) {
            // The process is gone, or is a zombie that was not reaped yet.
            let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            assert!(state.is_empty() || state.contains(") Z "), "{id} is alive: {state}");
        }
    }

    #[tokio::test]
    async fn what_is_left_in_the_background_does_not_hold_the_answer() {
        let started = std::time::Instant::now();
        let answer = shell("sleep 600 & echo started", 60).await.expect("an answer");
        assert_eq!(answer, "exit code 0\nstarted\n");
        let answer = shell("setsid sleep 3 & echo started", 60).await.expect("an answer");
        assert_eq!(answer, "exit code 0\nstarted\n");
        assert!(started.elapsed() < Duration::from_secs(200));
    }

    #[tokio::test]
    async fn a_flood_is_kept_within_bounds() {
        let answer = shell("yes | head -c 3000000; echo last", 60).await.expect("an answer");
        assert!(answer.len() < HEAD + 2 * TAIL + 200, "{}", answer.len());
        assert!(answer.ends_with("last\n") && answer.contains("bytes were not kept"));
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::new(folder.path()).expect("a workspace");
        let ask = ask("echo $$ > id; sleep 600", 60);
        let file = folder.path().join("id");
        {
            let shells = Shells::default();
            let call = run(&workspace, &shells, &ask);
            tokio::pin!(call);
            while !std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')) {
                let _ = tokio::time::timeout(Duration::from_millis(5), &mut call).await;
            }
        }
        let id = std::fs::read_to_string(&file).expect("an id");
        gone(id.trim()).await;
    }

    /// Waits until a process has ended.
    async fn gone(id: &str) {
        let path = format!("/proc/{id}/stat");
        let is_gone = || std::fs::read_to_string(&path).map_or(true, |state| state.contains(") Z "));
        let patience = std::time::Instant::now();
        while !is_gone() {
            assert!(patience.elapsed() < Duration::from_secs(120), "still alive");
            tokio::task::yield_now().await;
        }
    }

    async fn call(tools: &[Tool], name: &str, arguments: serde_json::Value) -> String {
        let tool = tools.iter().find(|tool| tool.spec.name == name).expect("a tool");
        tool.call(arguments).await.unwrap_or_else(|error| format!("error: {error}"))
    }

    #[tokio::test]
    async fn a_command_in_the_background_is_read_and_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let tools = tools(&Workspace::new(folder.path()).expect("a workspace"));
        let line = "echo $$; read -r go < go; echo going; sleep 600 & wait";
        assert!(std::process::Command::new("mkfifo").arg(folder.path().join("go")).status().is_ok());
        let begun = call(&tools, "shell", json!({ "command": line, "background": true })).await;
        assert!(begun.starts_with("shell 1 runs in the background"), "{begun}");
        let first = call(&tools, "shell_output", json!({ "shell": 1, "wait_seconds": 120 })).await;
        let id = first.strip_prefix("running\n").expect("running").trim().to_owned();
        let none = call(&tools, "shell_output", json!({ "shell": 1 })).await;
        assert_eq!(none, "running", "nothing is shown twice");
        call(&tools, "shell", json!({ "command": "echo > go" })).await;
        let second = call(&tools, "shell_output", json!({ "shell": 1, "wait_seconds": 120 })).await;
        assert_eq!(second, "running\ngoing\n");
        assert_eq!(call(&tools, "shell_end", json!({ "shell": 1 })).await, "ended");
        gone(&id).await;
        let away = call(&tools, "shell_output", json!({ "shell": 1 })).await;
        assert_eq!(away, "error: there is no shell 1 (there are: none)");
    }

    #[tokio::test]
    async fn the_end_of_a_background_command_is_told_with_its_last_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let tools = tools(&Workspace::new(folder.path()).expect("a workspace"));
        call(&tools, "shell", json!({ "command": "echo last; exit 3", "background": true })).await;
        let mut heard = String::new();
        while !heard.contains("exit code 3") {
            heard += &call(&tools, "shell_output", json!({ "shell": 1, "wait_seconds": 120 })).await;
        }
        assert!(heard.contains("last\n"), "{heard}");
    }

    #[tokio::test]
    async fn commands_in_the_background_are_few_and_end_with_the_tools() {
        let folder = tempfile::tempdir().expect("a folder");
        let tools = tools(&Workspace::new(folder.path()).expect("a workspace"));
        let begin = json!({ "command": "echo $$; exec sleep 600", "background": true });
        for number in 1..=8 {
            let begun = call(&tools, "shell", begin.clone()).await;
            assert!(begun.starts_with(&format!("shell {number} ")), "{begun}");
        }
        assert!(call(&tools, "shell", begin).await.contains("end one with shell_end"));
        let first = call(&tools, "shell_output", json!({ "shell": 1, "wait_seconds": 120 })).await;
        let id = first.lines().nth(1).expect("an id").to_owned();
        drop(tools);
        gone(&id).await;
    }

    #[tokio::test]
    async fn a_command_may_begin_in_a_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("sub")).expect("a folder");
        let tools = tools(&Workspace::new(folder.path()).expect("a workspace"));
        let inside = json!({ "command": "basename $PWD", "folder": "sub" });
        assert_eq!(call(&tools, "shell", inside).await, "exit code 0\nsub\n");
        let away = json!({ "command": "pwd", "folder": "../" });
        assert!(call(&tools, "shell", away).await.contains("outside of the workspace"));
        let none = json!({ "command": "pwd", "folder": "none" });
        assert_eq!(call(&tools, "shell", none).await, "error: `none` is not a folder");
    }
}
