//! Tests that processes of the same user cannot read provost's memory, environment and descriptors.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::env::{Answer, Env, answer, plan};

/// An ordinary user id that owns no files.
const ORDINARY: u32 = 65534;
const SECRET: &str = "a-secret-of-the-person-5f0c2d1e";

/// Runs the command of a person who has a secret, from a shell that left a file open.
fn run(env: &Env) -> Answer {
    let mut shell = Command::new("bash");
    let provost = env.command(&["run"]);
    shell
        .args(["-c", "exec 9> \"$LEFT_OPEN\" 21< PLAN.md; exec \"$0\" run"])
        .arg(provost.get_program())
        .current_dir(env.work())
        .env_clear()
        .envs(provost.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("LEFT_OPEN", env.folder().join("left-open"))
        .env("A_TOKEN", SECRET);
    answer(shell.output().expect("bash"))
}

#[test]
fn what_the_caller_left_open_reaches_neither_agent_nor_check() {
    let contract = "for fd in /proc/$$/fd/*; do readlink $fd; done | grep -E 'left-open|PLAN' && exit 1; test -s out/open";
    let env = Env::new(&plan(&[contract], "escalate"))
        .agent("mkdir -p out; for fd in /proc/$$/fd/*; do readlink $fd; done > out/open; true\n")
        .isolation("in-place");
    env.approve();
    run(&env).exits(0);
    let open = env.read("out/open");
    assert!(open.contains("pipe:") && !open.contains("left-open") && !open.contains("PLAN"), "{open}");
    assert!(!open.contains("provost-environment"), "{open}");
}

#[test]
fn a_secret_reaches_the_agent_and_stands_in_no_environment_of_the_harness() {
    // Root can read every environment; other users cannot even try.
    let look = "tr '\\0' '\\n' < /proc/$PPID/environ 2> /dev/null";
    let contract =
        format!("{look} | grep -q A_TOKEN && exit 1; test \"${{A_TOKEN-none}}\" = none && test -s out/got");
    let env = Env::new(&plan(&[&contract], "escalate"))
        .agent(&format!(
            "mkdir -p out; test \"$A_TOKEN\" = {SECRET} && echo yes > out/got
             cat /proc/$PPID/comm > out/comm; {look} > out/environ; echo \"I have $A_TOKEN\"\n"
        ))
        .isolation("in-place");
    env.approve();
    let said = run(&env).exits(0);
    assert_eq!(env.read("out/got"), "yes\n");
    assert_eq!(env.read("out/comm"), "provost\n", "it is known by its name");
    assert!(!env.read("out/environ").contains(SECRET));
    let log = env.provost(&["log", "--json"]).exits(0);
    assert!(log.out.contains("I have [redacted") && !log.out.contains(SECRET), "{}", log.out);
    assert!(!said.out.contains(SECRET) && !said.err.contains(SECRET));
}

#[test]
fn it_starts_itself_again_although_its_file_is_gone() {
    let env = Env::new(&plan(&["test -s out/got"], "escalate"))
        .agent(&format!("mkdir -p out; test \"$A_TOKEN\" = {SECRET} && echo yes > out/got\n"))
        .isolation("in-place");
    env.approve();
    let copy = env.folder().join("provost");
    copied(&copy);
    let provost = env.command(&["run"]);
    let mut shell = Command::new("bash");
    shell
        .args(["-c", "exec 7< \"$0\"; rm \"$0\"; exec -a provost /proc/self/fd/7 run"])
        .arg(&copy)
        .current_dir(env.work())
        .env_clear()
        .envs(provost.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("A_TOKEN", SECRET);
    answer(shell.output().expect("bash")).exits(0);
    assert_eq!(env.read("out/got"), "yes\n");
}

/// Copies the program with a separate process. If this process wrote the file, a child that another test is
/// starting might still have it open, and the kernel would refuse to execute it.
fn copied(to: &std::path::Path) {
    let status = Command::new("cp").arg(env!("CARGO_BIN_EXE_provost")).arg(to).status();
    assert!(status.is_ok_and(|status| status.success()), "a copy");
}

/// Files in `/proc` that belong to root cannot be read by others.
#[test]
fn nobody_of_the_same_user_looks_into_the_harness() {
    let contract = "test \"$(stat -c %u /proc/$PPID/environ)\" = 0 && test -s out/owner";
    let env = Env::new(&plan(&[contract], "escalate"))
        .agent(
            "mkdir -p out; stat -c %u /proc/$PPID/environ /proc/$$/environ > out/owner; id -u >> out/owner
             for file in environ mem auxv; do head -c 1 /proc/$PPID/$file > /dev/null 2>&1 && echo $file; done > out/seen
             exec 8> out/lock; flock 8; setsid --fork env -i sleep 61 < /dev/null > /dev/null 2>&1; exec 8>&-\n",
        )
        .isolation("in-place");
    let folder = env.folder().to_owned();
    let provost = folder.join("provost");
    copied(&provost);
    let is_root = std::fs::metadata("/proc/self").expect("/proc").uid() == 0;
    if is_root {
        give(&folder, ORDINARY);
    }
    let ordinary = |arguments: &[&str]| {
        let usual = env.command(arguments);
        let mut command = Command::new(&provost);
        command.args(arguments).current_dir(env.work()).env_clear();
        command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("TMPDIR", &folder).env("A_TOKEN", SECRET);
        if is_root {
            command.uid(ORDINARY).gid(ORDINARY);
        }
        answer(command.output().expect("provost"))
    };
    let shown = ordinary(&["show", "--json"]).exits(0).json();
    ordinary(&["approve", "--revision", shown["revision"].as_str().expect("a revision")]).exits(0);
    let said = ordinary(&["run"]);
    let owners = env.read("out/owner");
    let owners: Vec<&str> = owners.lines().collect();
    assert_eq!(said.code, 0, "{}{} {owners:?}", said.out, said.err);
    assert!(
        owners.len() == 3 && owners[0] == "0" && owners[1] == owners[2] && owners[2] != "0",
        "{owners:?}"
    );
    assert_eq!(env.read("out/seen"), "");
    let lock = std::fs::File::open(env.work().join("out/lock")).expect("a lock");
    assert!(lock.try_lock().is_ok(), "what the agent left behind lives");
}

fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).expect("chown");
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).expect("a folder").flatten() {
            give(&entry.path(), user);
        }
    }
}
