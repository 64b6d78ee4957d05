//! Tests that `provost commit` commits the judged tree, whatever the workspace contains later.

use std::process::Command;

use crate::env::{Env, plan};

const AGENT: &str = "mkdir -p out; printf 'one\\n' > out/1; printf '#!/bin/sh\\n' > out/run; chmod +x out/run\n\
                     rm -f old; printf 'new\\n' > \"$(printf 'out/a\\nb')\"; echo nothing > stray\n";

fn git(env: &Env, arguments: &[&str]) -> String {
    let ran = Command::new("git").args(arguments).current_dir(env.work()).output().expect("git");
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

fn done() -> Env {
    let text = plan(&["test -x out/run && ! test -e old"], "escalate")
        .replace("touches: [\"out/**\"]", "touches: [\"out/**\", \"old\"]");
    let env = Env::new(&text).agent(AGENT).isolation("guard+clean");
    env.write("old", "old\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "more"]);
    env.approve();
    env.provost(&["commit"]).exits(5);
    env.provost(&["run"]).exits(0);
    env
}

#[test]
fn the_commit_is_the_judged_tree_and_nothing_of_the_users_is_touched() {
    let env = done();
    // Changes of the workspace after the judgement are not committed.
    env.write("out/1", "edited afterwards\n");
    env.write(".git/hooks/reference-transaction", "#!/bin/sh\ntouch hooked\n");
    Command::new("chmod")
        .args(["+x", ".git/hooks/reference-transaction"])
        .current_dir(env.work())
        .status()
        .expect("chmod");
    let head = git(&env, &["rev-parse", "HEAD"]);
    let index = std::fs::read(env.work().join(".git/index")).expect("an index");
    let made = env.provost(&["commit", "--json", "--note"]).exits(0).json();
    let commit = made["commit"].as_str().expect("a commit").to_owned();
    assert_eq!(git(&env, &["rev-parse", "provost/plan"]), commit);
    assert_eq!(git(&env, &["rev-parse", &format!("{commit}^")]), head);
    let log = env.provost(&["log", "--json"]).exits(0).lines();
    assert_eq!(made["tree"], log.last().expect("an end")["details"]["tree"]);
    let changed = git(&env, &["diff", "--name-status", "-z", &head, &commit]).replace('\0', " ");
    assert_eq!(changed.trim(), "D old A out/1 A out/a\nb A out/run");
    assert_eq!(git(&env, &["show", &format!("{commit}:out/1")]), "one");
    assert!(git(&env, &["ls-tree", &commit, "out/run"]).starts_with("100755"));
    let note = git(&env, &["notes", "--ref", "provost", "show", &commit]);
    env.write("note.json", &note);
    let key = env.state().join("key.pub");
    let audited =
        env.provost(&["audit", "--proof", "note.json", "--key", key.to_str().expect("text")]).exits(0);
    assert!(audited.out.contains("done"), "{}", audited.out);
    assert!(note.contains("payload"), "{note}");
    git(&env, &["fsck", "--strict"]);
    assert_eq!(git(&env, &["rev-parse", "HEAD"]), head);
    assert_eq!(std::fs::read(env.work().join(".git/index")).expect("an index"), index);
    assert!(!env.work().join("hooked").exists(), "a hook of the workspace was run");
}

#[test]
fn a_branch_that_is_elsewhere_is_left_alone() {
    let env = done();
    env.git(&["branch", "provost/plan", "HEAD~1"]);
    let before = git(&env, &["rev-parse", "provost/plan"]);
    let refused = env.provost(&["commit"]).exits(5);
    assert!(refused.err.contains("--branch"), "{}", refused.err);
    assert_eq!(git(&env, &["rev-parse", "provost/plan"]), before);
    env.git(&["pack-refs", "--all"]);
    env.provost(&["commit"]).exits(5);
    for bad in ["../../HEAD", "a..b", "x.lock", "-x", "refs/heads/\u{1}"] {
        env.provost(&["commit", &format!("--branch={bad}")]).exits(70);
    }
    env.provost(&["commit", "--branch", "side", "-m", "Mine"]).exits(0);
    assert_eq!(git(&env, &["log", "-1", "--format=%s", "side"]), "Mine");
    let again = env.provost(&["commit", "--branch", "side"]).exits(0);
    assert!(again.out.contains("already committed"), "{}", again.out);
}

/// The author is the one that git itself takes in the same folder.
#[test]
fn the_author_is_whom_git_takes_there() {
    let env = done();
    let home = env.folder().join("home");
    let author = |variables: &[(&str, &str)], branch: &str| {
        let made = env.command(&["commit", "--branch", branch]).envs(variables.iter().copied()).output();
        assert!(made.expect("provost").status.success());
        let mut git_itself = Command::new("git");
        git_itself.args(["var", "GIT_AUTHOR_IDENT"]).current_dir(env.work());
        git_itself.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &home);
        let ran = git_itself.env("GIT_CONFIG_NOSYSTEM", "1").envs(variables.iter().copied()).output();
        let ident = String::from_utf8_lossy(&ran.expect("git").stdout).into_owned();
        let ident = ident.split_once('>').map_or(String::new(), |(who, _)| format!("{who}>"));
        let ours = git(&env, &["log", "-1", "--format=%an <%ae>", branch]);
        assert_eq!(git(&env, &["log", "-1", "--format=%cn <%ce>", branch]), ours);
        (ours, ident)
    };
    for key in ["user.name", "user.email"] {
        let _ = Command::new("git").args(["config", "--unset-all", key]).current_dir(env.work()).status();
    }
    std::fs::write(
        home.join(".gitconfig"),
        "[user]\n\tname = Global # mine\n\temail = \"global@example.org\"\n",
    )
    .expect("a configuration");
    let (ours, theirs) = author(&[], "one");
    assert_eq!((ours.as_str(), ours.as_str()), (theirs.as_str(), "Global <global@example.org>"));
    env.git(&["config", "user.name", "Repo \"R\" Owner"]);
    let (ours, theirs) = author(&[], "two");
    assert_eq!((ours.as_str(), ours.as_str()), (theirs.as_str(), "Repo \"R\" Owner <global@example.org>"));
    let variables = [("GIT_AUTHOR_NAME", "Env"), ("GIT_AUTHOR_EMAIL", "env@example.org")];
    let (ours, theirs) = author(&variables, "three");
    assert_eq!((ours.as_str(), ours.as_str()), (theirs.as_str(), "Env <env@example.org>"));
    // An agent may have written files that the repository's configuration includes.
    env.git(&["config", "--unset-all", "user.name"]);
    env.write("included", "[user]\n\tname = Agent\n");
    env.git(&["config", "include.path", "../included"]);
    assert_eq!(author(&[], "four").0, "Global <global@example.org>");
}
