//! Tests what a person at a terminal sees and types; `script` gives the program a real terminal.

use std::io::Write as _;
use std::process::{Command, Stdio};

use provost_rehearsal::skip;

use crate::env::{Answer, Env, HONEST, plan};

/// Runs provost on a pseudo-terminal and types `said`.
fn on_a_terminal(env: &Env, arguments: &str, said: &str) -> Option<Answer> {
    command_on_a_terminal(env, &env.command(&[]), arguments, said)
}

/// The same, with the environment of a command.
pub(crate) fn command_on_a_terminal(
    env: &Env,
    command: &Command,
    arguments: &str,
    said: &str,
) -> Option<Answer> {
    let typed = format!("{} {arguments}", env!("CARGO_BIN_EXE_provost"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &typed, "/dev/null"]);
    script.env_clear().current_dir(env.work()).env("TERM", "xterm");
    for (name, value) in command.get_envs() {
        script.env(name, value.unwrap_or_default());
    }
    let mut child = match script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            skip::tool("script", &format!("apt-get install bsdutils; {error}"));
            return None;
        }
    };
    child.stdin.take()?.write_all(said.as_bytes()).ok()?;
    Some(crate::env::answer(child.wait_with_output().ok()?))
}

#[test]
fn the_words_of_the_gate_are_understood() {
    for (said, code, stage) in [
        ("yes\n", 0, "done"),
        ("👍\n", 0, "done"),
        ("no, wrong approach\n", 5, "draft"),
        ("yes but skip step 1\n", 4, "verified"),
        ("yse\n", 4, "verified"),
        ("\n", 4, "verified"),
        ("\u{4}", 4, "verified"),
    ] {
        let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
        let Some(answer) = on_a_terminal(&env, "run", said) else { return };
        assert_eq!((answer.code, env.stage().as_str()), (code, stage), "{said:?}: {}", answer.out);
        assert!(answer.out.contains("test -f out/1"), "the plan was not shown: {}", answer.out);
        let asked = env.events().contains(&"GATE_QUESTION_ASKED".to_owned());
        assert_eq!(asked, said.starts_with("yes but"), "a typo is no question: {said:?}");
    }
}

#[test]
fn colour_is_for_terminals_and_can_be_turned_off() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
    env.approve();
    let plain = env.provost(&["verify"]).exits(0);
    assert!(!plain.out.contains('\u{1b}'));
    let Some(coloured) = on_a_terminal(&env, "run", "") else { return };
    assert!(coloured.out.contains("\u{1b}[32m"), "{}", coloured.out);
    for command in ["status", "list"] {
        let Some(coloured) = on_a_terminal(&env, command, "") else { return };
        assert!(coloured.out.contains("\u{1b}[32mdone\u{1b}[0m"), "{command}: {}", coloured.out);
        assert!(!env.provost(&[command]).exits(0).out.contains('\u{1b}'));
    }
}

#[test]
fn every_command_explains_itself() {
    let env = Env::new("");
    let help = env.provost(&["--help"]).exits(0).out;
    for command in [
        "demo", "verify", "show", "diff", "approve", "amend", "ask", "reject", "run", "inbox", "answer",
        "status", "log", "audit", "which",
    ] {
        assert!(help.contains(command), "{command} is not in the help");
        let own = env.provost(&[command, "--help"]).exits(0).out;
        assert!(own.contains("Usage: provost"), "{own}");
    }
    assert!(help.contains("Examples:"));
    env.provost(&["--version"]).exits(0);
    assert!(env.provost(&["verify", "--explain", "P001"]).exits(0).out.contains("P001"));
    env.provost(&["verify", "--explain", "P999"]).exits(2);
}

/// clap gets the arguments of the named command only, so the help must be the same in every way of asking
/// for it.
#[test]
fn help_is_the_same_whichever_way_it_is_asked_for() {
    let env = Env::new(&plan(&["true"], "abort"));
    let all = env.provost(&["--help"]).exits(0).out;
    let listed =
        all.lines().skip_while(|line| *line != "Plan:").take_while(|line| *line != "Global options:");
    let names: Vec<&str> = listed
        .filter(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.contains(&"status") && names.contains(&"serve"), "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let asked = env.provost(&[name, "--help"]).exits(0).out;
        assert!(asked.lines().next().is_some_and(|line| !line.is_empty()), "{name}");
        assert_eq!(env.provost(&["help", name]).exits(0).out, asked);
        assert_eq!(env.provost(&["-C", ".", name, "--help"]).exits(0).out, asked);
    }
    assert_eq!(env.provost(&["--version"]).exits(0).out, env.provost(&["-V"]).exits(0).out);
    assert!(env.provost(&["statsu"]).exits(2).err.contains("'status'"));
}
