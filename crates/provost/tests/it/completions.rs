//! Tests completion in shells, and man pages.

use std::process::Command;

use provost_rehearsal::skip;
use serde_json::Value;

use crate::env::{Answer, Env, answer, plan};
use crate::registry;

/// A plan whose first step waits for a person, and a second plan.
fn waiting() -> Env {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "escalate"))
        .isolation("in-place")
        .agent("true\n");
    env.provost(&["verify"]).exits(0);
    env.approve();
    env.provost(&["run"]).exits(4);
    env
}

fn item(env: &Env) -> String {
    let inbox = env.provost(&["inbox", "--json"]).exits(0).json();
    let id = inbox[0]["id"].as_str().expect("an item");
    id.rsplit(':').next().unwrap_or_default().to_owned()
}

/// Completes a command line as the script of this shell does.
fn complete(env: &Env, shell: &str, words: &[&str]) -> Answer {
    let mut command = env.command(&["--", "provost"]);
    command.args(words).env("PROVOST_COMPLETE", shell);
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string()).env("_CLAP_IFS", "\n");
    answer(command.output().expect("provost")).exits(0)
}

/// Starts a shell that finds provost on its PATH.
fn shell(env: &Env, program: &str, words: &[&str]) -> Option<Answer> {
    let mut command = Command::new(program);
    let like = env.command(&[]);
    command.args(words).env_clear().current_dir(env.work());
    like.get_envs().for_each(|(name, value)| {
        command.env(name, value.unwrap_or_default());
    });
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_provost")).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.display()));
    command.output().ok().map(answer)
}

#[test]
fn every_shell_gets_plans_steps_and_items_from_the_log() {
    let env = waiting();
    env.provost(&["new", "cache"]).exits(0);
    let item = item(&env);
    for shell in ["bash", "zsh", "fish", "powershell", "nushell"] {
        let items = complete(&env, shell, &["answer", ""]).out;
        assert!(items.contains(&item), "{shell}: no {item} in {items}");
        let plans = complete(&env, shell, &["status", "ca"]).out;
        assert!(plans.contains("cache"), "{shell}: {plans}");
        let steps = complete(&env, shell, &["log", "--step", ""]).out;
        assert!(steps.contains('1') && steps.contains('2'), "{shell}: {steps}");
        let commands = complete(&env, shell, &["appr"]).out;
        assert!(commands.contains("approve"), "{shell}: {commands}");
    }
    let found: Value = complete(&env, "nushell", &["changes", "1"]).json();
    assert_eq!(found[0]["value"], "1", "{found}");
    assert!(found[0]["description"].as_str().is_some_and(|text| text.contains(": ")), "{found}");
    // The step numbers are those of the plan that was named.
    let listed = complete(&env, "fish", &["fork", "cache", "--from", ""]).out;
    let steps = env.provost(&["show", "cache", "--json"]).exits(0).json()["steps"].as_array().map(Vec::len);
    assert_eq!(Some(listed.lines().count()), steps, "{listed}");
}

#[test]
fn completion_reads_only_and_answers_nothing_where_nothing_is() {
    let env = Env::new("");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("the plan");
    std::fs::remove_dir_all(env.state()).expect("the state");
    assert_eq!(complete(&env, "fish", &["inbox", "e"]).out, "");
    assert!(!env.state().exists(), "completion made a state folder");
    env.command(&["--", "provost", ""])
        .env("PROVOST_COMPLETE", "tcsh")
        .output()
        .map(answer)
        .expect("provost")
        .exits(2);
}

#[test]
fn the_scripts_work_in_their_shells() {
    let env = waiting();
    let item = item(&env);
    let bash = "source <(provost completions bash); COMP_WORDS=(provost answer e) COMP_CWORD=2 COMP_TYPE=9; \
                _clap_complete_provost provost e answer; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let found = shell(&env, "bash", &["--norc", "-c", bash]).expect("bash").exits(0);
    assert_eq!(found.out.trim(), item);
    match shell(
        &env,
        "fish",
        &["--no-config", "-c", "provost completions fish | source; complete -C 'provost answer e'"],
    ) {
        Some(found) => assert!(found.out.starts_with(&item), "{found:?}"),
        None => skip::tool("fish", "apt-get install fish"),
    }
    // Zsh completes at a terminal only: here it reads the script.
    match shell(&env, "zsh", &["-f", "-c", "compdef() { print $*; }; source <(provost completions zsh)"]) {
        Some(found) => assert_eq!(found.exits(0).out, "_clap_dynamic_completer_provost provost\n"),
        None => skip::tool("zsh", "apt-get install zsh"),
    }
}

#[test]
fn the_script_works_in_nushell() {
    let Some(folder) = registry::npm("nushell", "node_modules/.bin/nu", &["nushell@0.108.0"]) else { return };
    let env = waiting();
    let script = env.provost(&["completions", "nushell"]).exits(0).out;
    env.write("provost.nu", script);
    let ask =
        "source provost.nu; do $env.config.completions.external.completer [provost answer e] | to json --raw";
    let nu = folder.join("node_modules/.bin/nu");
    let found =
        shell(&env, nu.to_str().unwrap(), &["--no-config-file", "-c", ask]).expect("nu").exits(0).json();
    assert_eq!(found[0]["value"], item(&env), "{found}");
}

#[test]
fn each_command_has_a_man_page() {
    let env = Env::new(&plan(&["true"], "abort"));
    let folder = env.folder().join("man");
    env.provost(&["man", "--to", folder.to_str().unwrap()]).exits(0);
    let page = |name: &str| {
        std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(page("provost.1").contains("provost\\-answer(1)"), "{}", page("provost.1"));
    assert!(page("provost-answer.1").contains("Reason, for the log"));
    assert!(!folder.join("provost-scripted-agent.1").exists(), "hidden commands have no page");
}

#[test]
fn self_check_is_doctor() {
    let env = Env::new(&plan(&["true"], "abort"));
    let (check, doctor) = (env.provost(&["self", "check", "--json"]), env.provost(&["doctor", "--json"]));
    assert_eq!(check.exits(0).json()["level"], doctor.exits(0).json()["level"]);
}
