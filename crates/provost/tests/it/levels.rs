//! The fences without namespaces, from end to end: `landlock` and `uid`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use provost_rehearsal::skip;

use crate::env::{Env, plan};

/// Tries what it must not, and leaves what came of it in `out/`. The work itself is done.
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

/// The contract attacks as well: it runs code of the agent.
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
        match level {
            "uid" if !rustix::process::geteuid().is_root() => skip::user(skip::User::Root),
            level => skip::tool(level, &format!("`provost doctor` says what is missing: {seen}")),
        }
    }
    is_there
}

fn site(level: &str) -> Option<Env> {
    let env = Env::new("");
    // At `uid` others have to pass.
    fs::set_permissions(env.folder(), fs::Permissions::from_mode(0o755)).unwrap();
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

fn held_on(level: &str) -> Option<Env> {
    let env = site(level)?;
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
    Some(env)
}

#[test]
fn behind_landlock_an_agent_works_and_reaches_nothing_of_the_harness() {
    held_on("landlock");
}

#[test]
fn another_user_works_in_the_workspace_and_leaves_it_to_its_owner() {
    let Some(env) = held_on("uid") else { return };
    let owner = fs::metadata(env.folder()).unwrap().uid();
    for name in ["", "out", "out/1", "out/link", "out/tool", "agent.sh", "PLAN.md", ".git", ".git/HEAD"] {
        let found = fs::symlink_metadata(env.work().join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (owner, owner), "{name}");
    }
    let tool = fs::metadata(env.work().join("out/tool")).unwrap();
    assert_eq!(
        tool.mode() & 0o6000,
        0,
        "a program that runs as its owner must not become one of another owner"
    );
    assert_eq!(fs::metadata(env.work()).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn a_level_that_cannot_be_had_is_refused_with_the_reason() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent("true\n").isolation("uid");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "plan"]);
    env.approve();
    // And whoever runs this as an ordinary user has no other users.
    fs::set_permissions(env.folder(), fs::Permissions::from_mode(0o700)).unwrap();
    let run = env.provost(&["run"]).exits(5);
    assert!(run.err.contains("isolation `uid` is not available here"), "{run:?}");
    assert!(
        run.err.contains("other users must be able to enter") || run.err.contains("does not run as root"),
        "{run:?}"
    );
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
