//! Tests the level without namespaces, `landlock`, from end to end.

use std::fs;
use std::process::Command;

use provost_rehearsal::skip;

use crate::env::{Env, plan};

/// Does the work, tries what is forbidden, and writes the results to `out/`.
const HOSTILE: &str = r#"
mkdir -p out
try() { name=$1; shift; if "$@" 2>/dev/null; then echo "$name" >> out/could; fi; }
write() { : > "$1"; }
content() { [ -n "$(cat "$1")" ]; }
try state-write write "$STATE_OF_TEST/planted"
try state-list ls "$STATE_OF_TEST"
try log-read content "$STATE_OF_TEST/log.db"
try key-read content "$STATE_OF_TEST/key"
try ssh-key-read content "$HOME_OF_TEST/.ssh/id"
try signal kill -0 "$PPID"
try environment content "/proc/$PPID/environ"
try memory content "/proc/$PPID/maps"
try outside-write write /etc/planted
try door "$PROVOST" approve --revision 0 
try own-temporary-folder write "$TMPDIR/x"
(setsid sh -c 'sleep 0.3; echo done > out/2; sleep 60' > /dev/null 2>&1 &)
echo done > out/1
ln -s /etc/passwd out/link
cp /bin/true out/tool && chmod 4755 out/tool
"#;

/// The contract attacks too, because it runs code of the agent.
fn contract(state: &str) -> String {
    format!(
        "S=$(printf %s {state}); test -f out/1 && test ! -e out/2 && ! (: > $S/by-check) && ! cat $S/key && \
         ! (exec 9<>/dev/tcp/127.0.0.1/9) && echo x > made && echo x > \"$HOME/x\" && echo x > \"$TMPDIR/x\""
    )
}

fn is_attested(env: &Env, level: &str) -> bool {
    let doctor = env.provost(&["doctor", "--json"]).exits(0).json();
    let levels = doctor["levels"].as_array().cloned().unwrap_or_default();
    let seen = levels.iter().find(|seen| seen["level"] == level).cloned().unwrap_or_default();
    let holds = |probes: &Vec<serde_json::Value>| probes.iter().all(|probe| probe["held"] == true);
    let is_there = seen["probes"].as_array().is_some_and(holds);
    if !is_there {
        skip::tool(level, &format!("`provost doctor` says what is missing: {seen}"));
    }
    is_there
}

fn site(level: &str) -> Option<Env> {
    let env = Env::new("");
    let script = format!(
        "STATE_OF_TEST={:?}\nHOME_OF_TEST={:?}\nPROVOST={:?}\n{HOSTILE}\necho done",
        env.state(),
        env.folder().join("home"),
        env!("CARGO_BIN_EXE_provost")
    );
    env.write("PLAN.md", plan(&[&contract(&env.state().display().to_string())], "escalate"));
    let env = env.agent(&script).isolation(level);
    let key = env.folder().join("home/.ssh/id");
    fs::create_dir(key.parent().unwrap()).unwrap();
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    if made.is_ok_and(|status| status.success()) {
        let config = env.read("provost.toml");
        env.write("provost.toml", format!("{config}[proof]\nssh_key = \"~/.ssh/id\"\n"));
    }
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "plan"]);
    is_attested(&env, level).then_some(env)
}

fn held_on(level: &str) {
    let Some(env) = site(level) else { return };
    env.approve();
    let run = env.provost(&["run"]).exits(0);
    assert!(run.err.contains(&format!("isolation {level}")) || run.out.contains(level), "{run:?}");
    assert_eq!(env.read("out/could").trim(), "own-temporary-folder", "what the agent could do");
    assert!(!env.state().join("planted").exists() && !env.state().join("by-check").exists());
    assert!(!env.work().join("out/2").exists(), "nothing of the agent is left");
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    let judged: Vec<_> = log.iter().filter(|event| event["event"] == "CONTRACT_JUDGED").collect();
    assert!(!judged.is_empty());
    assert!(judged.iter().all(|event| event["details"]["verdict"]["isolation"] == level), "{judged:?}");
    env.provost(&["audit"]).exits(0);
}

#[test]
fn behind_landlock_an_agent_works_and_reaches_nothing_of_the_harness() {
    held_on("landlock");
}

#[test]
fn the_level_uid_is_refused_and_landlock_named_instead() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent("true\n").isolation("uid");
    let run = env.provost(&["verify"]).exits(2);
    assert!(run.err.contains("the level `uid` was removed; use `landlock`"), "{run:?}");
}

#[test]
fn behind_landlock_no_session_or_terminal_is_asked_for_help() {
    let Some(env) = site("landlock") else { return };
    let has_python = Command::new("/usr/bin/python3").arg("--version").output().is_ok();
    if !has_python {
        return skip::tool("python3", "apt-get install python3");
    }
    let socket = env.folder().join("session");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let connect =
        format!("import socket; socket.socket(socket.AF_UNIX).connect({:?})", socket.display().to_string());
    let env = env.agent(&format!("mkdir -p out; /usr/bin/python3 -c '{connect}' 2> out/1; echo done"));
    env.git(&["commit", "--quiet", "--all", "--message", "agent"]);
    env.approve();
    env.provost(&["run"]);
    assert!(env.read("out/1").contains("PermissionError"), "{}", env.read("out/1"));
    assert!(listener.accept().is_err());
}

/// Returns a command as a container without privileges would run it: no user namespaces, no cgroups of its own, a
/// read-only root, and a process group that was made outside.
fn contained(env: &Env, arguments: &[&str]) -> Option<Command> {
    let container = |program: &std::ffi::OsStr| {
        let mut command = Command::new("bwrap");
        command.args([
            "--unshare-user",
            "--disable-userns",
            "--uid",
            "10001",
            "--gid",
            "10001",
            "--unshare-pid",
        ]);
        command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", "/tmp", "/tmp"]);
        command.arg("--bind").args([env.folder(), env.folder()]).arg(program);
        command
    };
    if !container("true".as_ref()).status().is_ok_and(|status| status.success()) {
        skip::fences("a test makes a container with it");
        return None;
    }
    let plain = env.command(arguments);
    let mut command = container(plain.get_program());
    command.args(plain.get_args()).current_dir(env.work()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(command)
}

#[test]
fn a_container_without_privileges_has_the_level_landlock() {
    let Some(env) = site("landlock") else { return };
    let Some(mut doctor) = contained(&env, &["doctor", "--json"]) else { return };
    let found = crate::env::answer(doctor.output().expect("bwrap")).exits(0).json();
    let is_there = |name: &str| {
        let offers = found["offers"].as_array().cloned().unwrap_or_default();
        offers.iter().any(|offer| offer["name"] == name && offer["here"] == true)
    };
    assert!(!is_there("bubblewrap") && !is_there("cgroups"), "{found}");
    assert_eq!(found["level"], "landlock", "{found}");
}
