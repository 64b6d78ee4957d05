//! Tests repositories in unusual states: the plan is judged or the error is clear, and the repository stays
//! the same, byte for byte.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use crate::env::{Env, HONEST, plan};

/// Returns every path with its kind, mode and content; large files by their size.
fn fingerprint(folder: &Path) -> BTreeMap<Vec<u8>, String> {
    fn walk(folder: &Path, found: &mut BTreeMap<Vec<u8>, String>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = path.symlink_metadata() else { continue };
            let kind = metadata.file_type();
            let holds = if kind.is_symlink() {
                format!("{:?}", std::fs::read_link(&path).ok())
            } else if kind.is_dir() || kind.is_fifo() || kind.is_socket() || metadata.len() > 1 << 20 {
                String::from(if kind.is_dir() { "" } else { "special or large" })
            } else {
                format!("{:?}", std::fs::read(&path).ok())
            };
            let mode = metadata.permissions().mode();
            found.insert(path.as_os_str().as_encoded_bytes().to_vec(), format!("{mode:o} {holds}"));
            if kind.is_dir() {
                walk(&path, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, &mut found);
    found
}

fn prepared(script: &str) -> Env {
    let env = Env::new(&plan(&["test -f out/1"], "abort")).agent(HONEST);
    env.write("tracked", "as committed\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "more"]);
    let done = Command::new("bash")
        .args(["-ec", script])
        .current_dir(env.work())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status();
    assert!(done.expect("bash").success(), "{script}");
    env
}

#[test]
fn no_state_of_a_repository_keeps_a_plan_from_being_judged() {
    let states = [
        ("no commit", "rm -rf .git; git init -q"),
        ("no repository", "rm -rf .git"),
        ("a bare one", "rm -rf .git; git init -q --bare .git"),
        (
            "a dirty index",
            "echo other > tracked; git add tracked; rm tracked; echo new > added; git add added",
        ),
        ("locks left behind", "touch .git/index.lock .git/HEAD.lock .git/config.lock .git/refs/heads/x.lock"),
        (
            "odd names",
            "touch -- $'new\\nline' $'\\xff\\xfe' '-rf' ' '; git add -A; \
                       git -c user.name=a -c user.email=a@b commit -qm odd; touch -- $'other\\nline'",
        ),
        ("a large file", "truncate -s 1100M large; mkdir -p out; truncate -s 1100M out/large"),
        ("loops", "ln -s b a; ln -s a b; mkdir -p out; ln -s . out/self; ln -s ../out out/up"),
        (
            "pipes and sockets",
            "mkfifo pipe; mkdir -p out; mkfifo out/pipe; python3 -c \
                       'import socket; socket.socket(socket.AF_UNIX).bind(\"out/socket\")'",
        ),
        (
            "names that differ in case",
            "mkdir Dir dir; touch Dir/A dir/a dir/A; git add -A; \
                       git -c user.name=a -c user.email=a@b commit -qm case",
        ),
        (
            "closed folders",
            "mkdir -p closed/in; touch closed/in/file; git add -A; \
                       git -c user.name=a -c user.email=a@b commit -qm closed; chmod -R a-w closed",
        ),
        (
            "in the middle of a merge",
            "git checkout -qb side; echo a > tracked; \
                       git -c user.name=a -c user.email=a@b commit -qam a; git checkout -q -; \
                       echo b > tracked; git -c user.name=a -c user.email=a@b commit -qam b; \
                       git -c user.name=a -c user.email=a@b merge -q side || true",
        ),
        ("a detached head", "git checkout -q --detach"),
        (
            "shallow",
            "git clone -q --depth 1 file://$PWD shallow; rm -rf .git; mv shallow/.git .; rm -rf shallow",
        ),
    ];
    for (name, script) in states {
        let env = prepared(script);
        let before = fingerprint(&env.work().join(".git"));
        env.approve_with_uncommitted();
        let ran = env.provost(&["run"]);
        assert_eq!(ran.code, 0, "{name}:\n{}{}", ran.out, ran.err);
        env.provost(&["audit"]).exits(0);
        let after = fingerprint(&env.work().join(".git"));
        let changed: Vec<_> =
            before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
        assert!(
            changed.is_empty(),
            "{name}: {:?}",
            changed.iter().map(|p| String::from_utf8_lossy(p)).collect::<Vec<_>>()
        );
        let _ = Command::new("chmod").args(["-R", "u+w", "."]).current_dir(env.work()).status();
    }
}
