//! Tests what an agent's files become in the workspace, in the check and in the commit: ignored files,
//! provost's own files, and files of unusual kinds.

use std::process::Command;

use crate::env::{Env, plan};

fn git(env: &Env, arguments: &[&str]) -> String {
    let ran = Command::new("git").args(arguments).current_dir(env.work()).output().expect("git");
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

/// Creates a plan with these globs, in a repository with these ignore rules.
fn approved(touches: &str, ignore: &str, contract: &str, agent: &str) -> Env {
    let text = plan(&[contract], "escalate").replace("touches: [\"out/**\"]", touches);
    let env = Env::new(&text).agent(agent);
    env.write(".gitignore", ignore);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "rules"]);
    env.approve();
    env
}

#[test]
fn a_key_that_git_ignores_is_in_no_check_and_in_no_commit() {
    for touches in ["touches: [\"**\"]", "", "touches: [\"out/**\"]"] {
        let agent = "mkdir -p out; echo KEY=1 > out/.env; echo KEY=2 > .env; echo x > out/1\n";
        let env = approved(touches, ".env\n", "test -f out/1 && ! test -e .env && ! test -e out/.env", agent);
        env.provost(&["run"]).exits(0);
        let made = env.provost(&["commit"]).exits(0);
        assert_eq!(git(&env, &["show", "--format=", "--name-only", "provost/plan"]), "out/1", "{}", made.err);
        assert!(
            git(&env, &["diff", "--name-only", "HEAD", "provost/plan"]).lines().all(|name| name == "out/1")
        );
    }
}

#[test]
fn a_failing_step_says_which_ignored_files_it_did_without() {
    let env =
        approved("touches: [\"**\"]", "dist/\n", "test -f dist/app", "mkdir -p dist; echo x > dist/app\n");
    let ran = env.provost(&["run"]).exits(4);
    let said = format!("{}{}", ran.out, ran.err);
    assert!(said.contains("ignored by git, so not part of the check: dist/"), "{said}");
    assert!(said.contains("name what the check needs in `touches`"), "{said}");
}

#[test]
fn a_glob_that_names_ignored_files_lets_them_into_the_check_and_says_so_at_the_gate() {
    let touches = "touches: [\"out/**\", \"dist/**\"]";
    let agent = "mkdir -p dist out; echo x > dist/app; echo y > out/1\n";
    let env = approved(touches, "dist/\n", "test -f dist/app && test -f out/1", agent);
    let verified = env.provost(&["verify"]).exits(0);
    let said = format!("{}{}", verified.out, verified.err);
    assert!(said.contains("P075") && said.contains("`dist/**` names files that git ignores"), "{said}");
    env.provost(&["run"]).exits(0);
    let made = env.provost(&["commit"]).exits(0);
    assert!(
        made.err.contains("not in the commit: dist/app") && made.err.contains("--with-ignored"),
        "{}",
        made.err
    );
    assert_eq!(git(&env, &["diff", "--name-only", "HEAD", "provost/plan"]), "out/1");
    env.provost(&["commit", "--with-ignored", "--branch", "all"]).exits(0);
    assert_eq!(git(&env, &["diff", "--name-only", "HEAD", "all"]), "dist/app\nout/1");
}

#[test]
fn the_plan_and_its_progress_are_committed_only_where_a_person_asks() {
    let env = approved("touches: [\"**\"]", "", "test -f x", "echo x > x\n");
    env.provost(&["run"]).exits(0);
    assert!(env.read("PLAN.md").contains("done"), "the workspace has the marks");
    env.provost(&["commit"]).exits(0);
    assert_eq!(git(&env, &["diff", "--name-only", "HEAD", "provost/plan"]), "x");
    env.provost(&["commit", "--with-plan", "--branch", "all"]).exits(0);
    assert_eq!(git(&env, &["diff", "--name-only", "HEAD", "all"]), "PLAN.md\nprogress.md\nx");
}

#[test]
fn modes_links_empty_folders_and_second_names_reach_the_check() {
    let agent = "mkdir -p out/empty out/v1; echo s > out/key; chmod 600 out/key; echo t > out/v1/t; \
                 ln -s v1 out/now; ln out/v1/t out/again; printf '#!/bin/sh\\n' > out/run; chmod 750 out/run\n";
    let contract = "test \"$(stat -c %a out/key)\" = 600 && test \"$(stat -c %a out/run)\" = 750 && \
                    test -d out/empty && test \"$(readlink out/now)\" = v1 && grep -q t out/now/t out/again";
    let env = approved("touches: [\"out/**\"]", "", contract, agent);
    env.provost(&["run"]).exits(0);
    env.provost(&["commit"]).exits(0);
    let modes = git(&env, &["ls-tree", "-r", "--format=%(objectmode) %(path)", "provost/plan", "out"]);
    assert_eq!(modes, "100644 out/again\n100644 out/key\n120000 out/now\n100755 out/run\n100644 out/v1/t");
}

#[test]
fn permissions_of_a_folder_do_not_arrive_and_a_failed_check_says_what_to_do() {
    let agent = "mkdir -p out/open out/shut; touch out/open/1 out/shut/1; chmod 700 out/shut\n";
    let env = approved("touches: [\"out/**\"]", "", "test \"$(stat -c %a out/shut)\" = 700", agent);
    let ran = env.provost(&["run"]).exits(4);
    let said = format!("{}{}", ran.out, ran.err);
    assert!(said.contains("not taken over: out/shut: its permissions (700)"), "{said}");
    assert!(said.contains("chmod 700") && !said.contains("out/open"), "{said}");
    let contract = "chmod 700 out/shut && test \"$(stat -c %a out/shut)\" = 700";
    approved("touches: [\"out/**\"]", "", contract, agent).provost(&["run"]).exits(0);
}

#[test]
fn what_a_step_deletes_is_gone_from_the_check_with_its_folder() {
    let text = plan(&["! test -e old && test -f out/1"], "escalate")
        .replace("touches: [\"out/**\"]", "touches: [\"out/**\", \"old/**\"]");
    let env = Env::new(&text).agent("rm -r old; mkdir -p out; echo x > out/1\n");
    env.write("old/deep/file", "x");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "more"]);
    env.approve();
    env.provost(&["run"]).exits(0);
}

#[test]
fn a_link_out_of_touches_is_named_with_the_way_out() {
    let env = approved(
        "touches: [\"out/**\"]",
        "",
        "test -e out/conf",
        "mkdir -p out; ln -s /etc/hostname out/conf\n",
    );
    let ran = env.provost(&["run"]).exits(4);
    let said = format!("{}{}", ran.out, ran.err);
    assert!(said.contains("not taken over: out/conf: a symbolic link that leads out of `touches`"), "{said}");
}

#[test]
fn a_file_above_the_limit_is_named_with_the_setting_that_raises_it() {
    let agent = "mkdir -p out; head -c 70000 /dev/zero > out/big\n";
    let env = Env::new(&plan(&["test -s out/big"], "escalate")).agent(agent);
    env.write("provost.toml", format!("{}[verify]\nmax_file = \"64 KiB\"\n", env.read("provost.toml")));
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "limit"]);
    env.approve();
    let ran = env.provost(&["run"]).exits(4);
    let said = format!("{}{}", ran.out, ran.err);
    assert!(said.contains("out/big: 70000 bytes") && said.contains("`[verify] max_file`"), "{said}");
}
