//! Tests revisions of a plan, changes to steps that have not run, and forks.

use crate::env::{Answer, Env, HONEST, plan};

/// Creates a plan of three steps whose second does not hold yet.
fn half_way() -> Env {
    let env =
        Env::new(&plan(&["test -f out/1", "test -f out/never", "test -f out/3"], "escalate")).agent(HONEST);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "agent"]);
    env.approve();
    env.provost(&["run"]).exits(4);
    assert_eq!(env.states(), "1 passed, 2 blocked, 3 pending");
    env
}

fn revisions(env: &Env) -> Vec<String> {
    let list = env.provost(&["diff", "--list", "--json"]).exits(0).json();
    let all = list["revisions"].as_array().unwrap().clone();
    all.iter().map(|version| version["revision"].as_str().unwrap().to_owned()).collect()
}

const PATCH: &str = "### 2. Second thoughts\n\n**target:** coder\n\n**task:**\nDo part 2 of the work.\n\n\
                     **contract:**\n```shell\ntest -f out/2\n```\n";

fn amend(env: &Env, from: &str, patch: &str) -> Answer {
    env.write("patch.md", patch);
    env.provost(&["amend", "--from", from, "--file", "patch.md"])
}

#[test]
fn a_patch_replaces_what_has_not_run_and_keeps_the_history() {
    let env = half_way();
    let first = env.revision();
    amend(&env, "2", PATCH).exits(4);
    assert_eq!(env.states(), "1 passed, 2 pending", "the passed step stays passed");
    assert!(env.read("PLAN.md").contains("### 1. ✅ Step 1"));
    // The plan waits at the gate again.
    env.provost(&["run"]).exits(4);
    env.approve();
    env.provost(&["run"]).exits(0);
    assert_eq!(env.states(), "1 passed, 2 passed");
    let log = env.provost(&["log", "--json", "--event", "TASK_STARTED", "--task", "1"]).exits(0).lines();
    assert_eq!(log.len(), 1, "nothing that had passed was run again");
    // Both revisions are in the log, and the diff names steps.
    assert_eq!(revisions(&env), [first.clone(), env.revision()]);
    let diff = env.provost(&["diff", "PLAN.md", &first[..8], "approved"]).exits(0).out;
    assert!(
        diff.contains("step 2 contract: `test -f out/never [exit_code == 0]` -> `test -f out/2`"),
        "{diff}"
    );
    assert!(diff.contains("step 3 removed: Step 3"), "{diff}");
    let back = env.provost(&["diff", "PLAN.md", "now", &first[..8], "--json"]).exits(0).json();
    assert!(back["changes"].to_string().contains("step 3 added"), "{back}");
    env.provost(&["audit"]).exits(0);
}

#[test]
fn a_patch_that_changes_a_step_that_ran_is_refused_with_its_name() {
    let env = half_way();
    let before = env.read("PLAN.md");
    let refused = amend(&env, "1", &PATCH.replace("### 2.", "### 1.")).exits(5);
    assert!(refused.err.contains("step 1 (Step 1) has already run"), "{}", refused.err);
    // A whole plan is accepted too, if the steps that ran are unchanged.
    let whole = before.replace("Do part 1 of", "Do something else instead of part 1 of");
    let refused = amend(&env, "2", &whole).exits(5);
    assert!(refused.err.contains("step 1"), "{}", refused.err);
    assert_eq!(env.read("PLAN.md"), before);
    amend(&env, "3", "no step at all").exits(5);
    let refused = amend(&env, "3", &before.replace("test -f out/never", "true")).exits(5);
    assert!(refused.err.contains("step 2 comes before step 3"), "{}", refused.err);
    amend(&env, "3", "### 3. Nothing but a title").exits(3);
    assert_eq!(env.read("PLAN.md"), before);
}

#[test]
fn a_revision_that_is_not_there_is_named_with_those_that_are() {
    let env = half_way();
    let refused = env.provost(&["diff", "PLAN.md", "ffff0000"]).exits(5);
    assert!(refused.err.contains(&env.revision()[..12]), "{}", refused.err);
    env.provost(&["diff", "PLAN.md", "approved"]).exits(0);
}

#[test]
fn a_fork_runs_the_rest_from_the_tree_of_its_step_and_is_compared() {
    let text = plan(&["test -f out/1", "test -f out/2 && test -f out/1", "test -f out/3"], "abort");
    let env = Env::new(&text).agent(HONEST);
    let other =
        "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); ls out > out/saw; touch out/$part; echo other\n";
    env.write("other.sh", other);
    let role = "[agents.other]\ndriver = \"command\"\ncommand = [\"bash\", \"other.sh\"]\n";
    env.write("provost.toml", env.read("provost.toml") + role);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "agents"]);
    if !env.has_fences() {
        return;
    }
    env.approve();
    env.provost(&["run"]).exits(0);
    let head = std::fs::read(env.work().join(".git/HEAD")).unwrap();
    // Configuration that an agent may have left in the repository is not used.
    let trap = env.folder().join("sprung");
    env.git(&["config", "filter.evil.smudge", &format!("touch {}; cat", trap.display())]);
    env.write(".git/info/attributes", "* filter=evil\n");
    let forked =
        env.provost(&["fork", "--from", "2", "--target", "other", "--name", "again", "--json"]).exits(0);
    assert!(!trap.exists(), "a filter of the repository was run");
    env.git(&["config", "--unset", "filter.evil.smudge"]);
    let at = |folder: &str| format!("--git-dir={folder}/.git");
    env.git(&[&at("../work-again"), "--work-tree=../work-again", "diff", "--exit-code", "provost/again"]);
    let forked = forked.json();
    assert_eq!(forked["branch"], "provost/again");
    let folder = env.folder().join("work-again");
    let there = folder.to_str().unwrap();
    // The fork contains the result of step 1, and nothing later.
    assert!(folder.join("out/1").exists() && !folder.join("out/2").exists());
    let shown = env.provost(&["show", "--dir", there, "--json"]).exits(0).json();
    assert_eq!(shown["steps"].as_array().unwrap().len(), 2);
    assert_eq!(shown["steps"][0]["target"], "other");
    assert_eq!(shown["steps"][0]["title"], "Step 2");
    let revision = shown["revision"].as_str().unwrap();
    env.provost(&["approve", "--dir", there, "--revision", revision]).exits(0);
    env.provost(&["run", "--dir", there]).exits(0);
    assert!(folder.join("out/2").exists() && folder.join("out/3").exists());
    // The original plan is unchanged.
    assert_eq!(env.states(), "1 passed, 2 passed, 3 passed");
    assert_eq!(std::fs::read(env.work().join(".git/HEAD")).unwrap(), head);
    let both = env.provost(&["compare", "PLAN.md", "again", "--json"]).exits(0).json();
    assert_eq!((&both["one"]["total"], &both["other"]["total"]), (&3.into(), &2.into()));
    assert_eq!(both["steps"][0]["other"], serde_json::Value::Null);
    assert_eq!(
        (&both["steps"][1]["one"]["target"], &both["steps"][1]["other"]["target"]),
        (&"coder".into(), &"other".into())
    );
    assert_eq!(both["steps"][1]["other"]["state"], "passed");
    let table = env.provost(&["compare", "PLAN.md", "again"]).exits(0).out;
    assert!(table.contains("steps done") && table.lines().all(|line| line.chars().count() <= 80), "{table}");
    // provost knows the worktree that it made, and keeps it while it has work of its own.
    let listed = env.provost(&["worktree", "list"]).exits(0).out;
    assert!(listed.contains("again") && listed.contains("provost/again"), "{listed}");
    let pruned = env.provost(&["worktree", "prune"]).exits(0).out;
    assert!(pruned.contains("neither merged nor pushed") && folder.exists(), "{pruned}");
    // A second fork with the same name is refused before anything is made.
    env.provost(&["fork", "--from", "2", "--name", "again"]).exits(5);
    env.provost(&["fork", "--from", "9", "--name", "never"]).exits(5);
}
