//! Tests that provost does not obey what an agent leaves behind: links, forged git files, file names.

use std::os::unix::fs::symlink;

use crate::env::{Env, HONEST, plan};

fn with_role(env: Env, line: &str) -> Env {
    env.write("provost.toml", format!("{}{line}\n", env.read("provost.toml")));
    env
}

#[test]
fn an_agent_has_a_clone_of_the_repository_unless_somebody_says_otherwise() {
    let script = "mkdir -p out; git branch -D keep; git checkout -q -b mine; git add -A;
        git -c user.name=a -c user.email=a@b commit -qm agent; git log --oneline | wc -l > out/1; echo ok\n";
    let refs = |env: &Env| {
        let out = std::process::Command::new("git")
            .args(["for-each-ref", "--format=%(refname) %(objectname)"])
            .current_dir(env.work())
            .output();
        String::from_utf8_lossy(&out.expect("git").stdout).into_owned()
    };
    let env = Env::new(&plan(&["test -s out/1"], "escalate")).agent(script);
    if !env.has_fences() {
        return;
    }
    env.git(&["branch", "keep"]);
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("git clone") && !shown.contains("your branches"), "{shown}");
    let before = refs(&env);
    env.approve().provost(&["run"]).exits(0);
    assert_eq!(refs(&env), before);

    let env = with_role(Env::new(&plan(&["test -s out/1"], "escalate")).agent(script), "git = \"shared\"");
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("the agent can change your branches, refs and index"), "{shown}");
    env.git(&["branch", "keep"]);
    env.approve().provost(&["run"]).exits(0);
    assert!(!refs(&env).contains("refs/heads/keep"));
}

#[test]
fn a_report_is_written_through_no_link() {
    let script = format!(
        "{HONEST}ln -s \"$PRECIOUS\" report.xml; ln -s \"$PRECIOUS\" all.md; ln -s \"$PRECIOUS\" out/found.sarif\n"
    );
    let env = Env::new(&plan(&["test -s out/1"], "escalate")).agent(&script);
    let precious = env.folder().join("precious");
    std::fs::write(&precious, "mine").expect("a file");
    env.approve();
    let arguments =
        ["run", "--ci", "--junit", "report.xml", "--summary", "all.md", "--sarif", "out/found.sarif"];
    let mut command = env.command(&arguments);
    command.env("PRECIOUS", &precious);
    crate::env::answer(command.output().expect("provost")).exits(0);
    assert_eq!(std::fs::read_to_string(&precious).expect("read"), "mine");
    assert!(env.read("report.xml").contains("<testsuites"), "{}", env.read("report.xml"));
    assert!(!env.read("all.md").is_empty() && env.read("out/found.sarif").contains("sarif"));
    // A folder that is a link is an error, and does not change the run's result.
    let elsewhere = env.folder().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    symlink(&elsewhere, env.work().join("reports")).expect("a link");
    let said = env.provost(&["run", "--ci", "--junit", "reports/a.xml"]);
    assert_ne!(said.code, 0);
    assert!(said.err.contains("does not follow links"), "{}", said.err);
    assert!(!elsewhere.join("a.xml").exists());
    assert_eq!(env.stage(), "done");
}

#[test]
fn a_subscription_is_read_through_no_link() {
    // The prompt of the second attempt shows what the first one made of the subscribed file.
    let script = "mkdir -p out; cat > out/prompt; rm -f notes.md; ln -s \"$SECRET\" notes.md; echo ok\n";
    let text = plan(&["test -e never"], "retry(1), then escalate")
        .replace("**task:**", "**subscriptions:**\n- file:notes.md\n- file:docs/plain.md\n\n**task:**");
    let env = Env::new(&text).agent(script);
    env.write("notes.md", "what is known\n");
    env.write("docs/plain.md", "plain words\n");
    let secret = env.folder().join("secret");
    std::fs::write(&secret, "the hidden words\n").expect("a file");
    env.approve();
    let mut command = env.command(&["run"]);
    command.env("SECRET", &secret);
    crate::env::answer(command.output().expect("provost")).exits(4);
    let prompt = env.read("out/prompt");
    assert!(prompt.contains("An earlier attempt"), "{prompt}");
    assert!(!prompt.contains("the hidden words"), "{prompt}");
    assert!(prompt.contains("does not follow links") && prompt.contains("plain words"), "{prompt}");
}

#[test]
fn a_worktree_that_only_git_says_is_ours_is_not_removed() {
    let env = Env::new(&plan(&["test -s out/1"], "escalate")).agent(HONEST);
    let documents = env.folder().join("home/documents");
    std::fs::create_dir_all(&documents).expect("a folder");
    std::fs::write(documents.join("letter.txt"), "mine").expect("a file");
    // The files as an agent could write them.
    let own = env.work().join(".git/worktrees/x");
    std::fs::create_dir_all(&own).expect("a folder");
    std::fs::write(own.join("gitdir"), format!("{}/.git\n", documents.display())).expect("a file");
    std::fs::write(own.join("HEAD"), "ref: refs/heads/master\n").expect("a file");
    std::fs::write(own.join("commondir"), "../..\n").expect("a file");
    for finished in [true, false] {
        let note = format!(
            r#"{{"plan":"PLAN.md","attempt":1,"branch":"master","base":"x","at":1,"pid":1,"finished":{finished}}}"#
        );
        std::fs::write(own.join("provost-spawned"), note).expect("a file");
        let said = env.provost(&["worktree", "prune", "--yes"]).exits(0).out;
        assert!(said.contains("provost did not make it"), "{said}");
        env.provost(&["doctor", "--fix", "--yes"]);
        assert!(documents.join("letter.txt").exists(), "finished: {finished}");
    }
}

fn everything(answer: &crate::env::Answer) -> String {
    format!("{}{}", answer.out, answer.err)
}

#[test]
fn what_an_agent_changed_outside_of_touches_is_named_at_the_end_and_in_the_inbox() {
    // The agent hides the edit from git and keeps the old size and time.
    let script = format!(
        "{HONEST}touch -r tests/test_a.py /tmp/when; printf 'assert 2' > tests/test_a.py; touch -r /tmp/when tests/test_a.py
        git update-index --skip-worktree tests/test_a.py; rm -f docs/b.md; echo new > notes.txt\n"
    );
    let text = plan(&["test -s out/1"], "escalate");
    let env = with_role(Env::new(&text).agent(&script), "git = \"shared\"");
    env.write("tests/test_a.py", "assert 1");
    env.write("docs/b.md", "b");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "more"]);
    env.approve();
    let said = everything(&env.provost(&["run"]).exits(0));
    for name in ["tests/test_a.py (changed)", "docs/b.md (deleted)", "notes.txt (new)"] {
        assert!(said.contains(name), "{name}: {said}");
    }
    let last: Vec<&str> = said.lines().rev().take(4).collect();
    assert!(last.iter().any(|line| line.contains("during step 1, attempt 1")), "{said}");
    let inbox = everything(&env.provost(&["inbox"]).exits(0));
    assert!(inbox.contains("tests/test_a.py (changed)") && inbox.contains("docs/b.md (deleted)"), "{inbox}");
    // A change that a person has undone is not reported again.
    env.write("tests/test_a.py", "assert 1");
    env.write("docs/b.md", "b");
    let inbox = everything(&env.provost(&["inbox"]).exits(0));
    assert!(!inbox.contains("test_a.py") && !inbox.contains("docs/b.md"), "{inbox}");
    assert!(inbox.contains("notes.txt (new)"), "{inbox}");
}

#[test]
fn an_agent_that_stays_inside_touches_is_not_spoken_of() {
    let env = Env::new(&plan(&["test -s out/1", "test -s out/2"], "escalate")).agent(HONEST);
    env.approve();
    let said = everything(&env.provost(&["run"]).exits(0));
    assert!(!said.contains("outside of `touches`"), "{said}");
    let inbox = everything(&env.provost(&["inbox"]).exits(0));
    assert!(!inbox.contains("outside of `touches`"), "{inbox}");
}

#[test]
fn refs_that_an_agent_moved_or_deleted_are_named() {
    let script = format!(
        "{HONEST}git branch -q -D keep; git branch -q new; git replace HEAD^{{tree}} \"$(git hash-object -t tree -w /dev/null)\"\n"
    );
    let env = with_role(Env::new(&plan(&["test -s out/1"], "escalate")).agent(&script), "git = \"shared\"");
    env.git(&["branch", "keep"]);
    env.approve();
    let said = everything(&env.provost(&["run"]).exits(0));
    for name in ["refs/heads/keep (deleted)", "refs/heads/new (new)", "refs/replace/"] {
        assert!(said.contains(name), "{name}: {said}");
    }
}

#[test]
fn a_configuration_that_came_during_an_attempt_decides_nothing_until_a_person_trusts_it() {
    let script = format!(
        "{HONEST}printf '[agents.coder]\\ndriver = \"command\"\\ncommand = [\"true\"]\\n' > provost.toml\n"
    );
    let env = Env::new(&plan(&["test -s out/1"], "escalate")).agent(&script);
    // The person's own configuration is above the workspace.
    std::fs::rename(env.work().join("provost.toml"), env.folder().join("provost.toml")).expect("moved");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "elsewhere"]);
    env.approve();
    let said = everything(&env.provost(&["run"]).exits(0));
    assert!(said.contains("provost.toml (new)") && said.contains("provost trust"), "{said}");
    for arguments in [&["show"][..], &["run"], &["verify"]] {
        let refused = env.provost(arguments).exits(5);
        assert!(refused.err.contains("step 1") && refused.err.contains("provost trust"), "{}", refused.err);
    }
    let listed = env.provost(&["trust"]).exits(0).out;
    assert!(listed.contains("work/provost.toml"), "{listed}");
    // The person can remove the file or trust it.
    let text = env.read("provost.toml");
    std::fs::remove_file(env.work().join("provost.toml")).expect("removed");
    env.provost(&["show"]).exits(0);
    env.write("provost.toml", text);
    env.provost(&["show"]).exits(5);
    env.provost(&["trust", "provost.toml"]).exits(0);
    env.provost(&["show"]).exits(0);
    assert_eq!(env.provost(&["trust"]).exits(0).out, "");
}

#[test]
fn a_person_may_edit_the_configuration_while_an_agent_works() {
    // In the sandbox the agent cannot have changed it.
    let script = "mkdir -p out; echo begun > out/begun; while [ ! -e out/go ]; do sleep 0.05; done; echo done > out/1\n";
    let env = Env::new(&plan(&["test -s out/1"], "escalate")).agent(script);
    if !env.has_fences() {
        return;
    }
    env.approve();
    let run = env.start(&["run"]);
    while !env.work().join("out/begun").exists() {
        std::thread::yield_now();
    }
    env.write("provost.toml", format!("# a word\n{}", env.read("provost.toml")));
    env.provost(&["status"]).exits(0);
    env.write("out/go", "");
    crate::env::answer(run.wait_with_output().expect("ended")).exits(0);
    env.provost(&["status"]).exits(0);
}

#[test]
fn a_base_that_an_agent_moved_is_shown_at_the_gate_and_its_control_is_run_again() {
    let script = "mkdir -p out; echo x > out/x; echo weaker > tests.txt; git add tests.txt;
        git -c user.name=a -c user.email=a@b commit -qm 'better tests'; echo ok\n";
    let text = plan(&["test -e never"], "escalate");
    let env = with_role(Env::new(&text).agent(script), "git = \"shared\"");
    env.write("tests.txt", "strict");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "more"]);
    env.approve();
    env.provost(&["run"]).exits(4);
    env.write("PLAN.md", env.read("PLAN.md").replace("Do part 1 of the work.", "Do part 1 of all the work."));
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("the base commit moved") && shown.contains("by the agent"), "{shown}");
    let json = env.provost(&["show", "--json"]).exits(0).json();
    assert!(json["changed_since_approval"].to_string().contains("by the agent"), "{json}");
    let said = everything(&env.provost(&["approve", "--revision", &env.revision()]).exits(0));
    assert!(said.contains("by the agent"), "{said}");
    let controls = |env: &Env| {
        let log = env.provost(&["log", "--json", "--event", "CONTRACT_JUDGED"]).exits(0).lines();
        log.iter().filter(|event| event["details"]["subject"]["control"] == 1).count()
    };
    let before = controls(&env);
    env.provost(&["run"]).exits(4);
    assert!(before == 0 || controls(&env) > before, "the control was not run on the new base");
}

#[test]
fn a_cache_that_an_agent_changed_is_shown_at_the_gate() {
    let script = "mkdir -p out; echo evil > .venv/bin/python; echo ok\n";
    let env = Env::new(&plan(&["test -e never"], "escalate")).agent(script);
    env.write(".gitignore", ".venv\n");
    env.write(".venv/bin/python", "good");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "more"]);
    env.approve();
    env.provost(&["run"]).exits(4);
    env.write("PLAN.md", env.read("PLAN.md").replace("Do part 1 of the work.", "Do part 1 of all the work."));
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("the agent of step 1, attempt 1, changed the cache .venv"), "{shown}");
}

#[test]
fn no_field_of_an_event_tells_a_secret() {
    let script = "mkdir -p out; echo done > out/1; echo \"$API_KEY\" > out/findings; mkdir -p \"out/$API_KEY\";
        ln -s /etc/hostname \"out/link-$API_KEY\"; cp out/findings \"$PROVOST_TOPICS/findings.md\"; echo x > \"tests-$API_KEY\";
        echo \"$API_KEY\" >&2; echo \"I used $API_KEY\"\n";
    let text = plan(&["test -s out/1; ls -R out; cat out/findings >&2; false"], "escalate")
        .replace("**target:** coder\n", "**target:** coder\n**publishes:** findings\n");
    let env = Env::new(&text).agent(script);
    env.approve();
    let mut command = env.command(&["run"]);
    command.env("API_KEY", "tellnobody-4711-xyz");
    let said = everything(&crate::env::answer(command.output().expect("provost")).exits(4));
    assert!(!said.contains("tellnobody-4711-xyz"), "{said}");
    let log = env.provost(&["log", "--json"]).exits(0).out;
    assert!(log.contains("[redacted:") && !log.contains("tellnobody-4711-xyz"), "{log}");
}
