//! Tests the merge train with real repositories, worktrees and plans: everything that lands passes as a
//! whole.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use provost_core::model::timestamp::Timestamp;
use provost_store::{Holder, Log as _, Sqlite};
use serde_json::{Value, json};

use crate::env::{Answer, Env};

/// Runs what its task says after `RUN:`.
const AGENT: &str = "sed -n 's/^RUN: //p' | bash\necho done\n";

/// A plan of one step with this work and this contract.
struct Story {
    name: &'static str,
    depends_on: &'static str,
    touches: &'static str,
    run: &'static str,
    contract: String,
}

impl Story {
    fn new(name: &'static str, touches: &'static str, run: &'static str, contract: &str) -> Self {
        Self { name, depends_on: "", touches, run, contract: contract.to_owned() }
    }

    fn after(self, depends_on: &'static str) -> Self {
        Self { depends_on, ..self }
    }

    fn text(&self) -> String {
        let Self { name, depends_on, touches, run, contract } = self;
        format!(
            "---\ntype: plan\nstatus: draft\nowner: test\ndepends_on: [{depends_on}]\ntouches: [\"{touches}\"]\n---\n\n\
             # Plan {name}\n\n## Steps\n\n### 1. Do {name}\n\n**target:** coder\n\n**task:**\nRUN: {run}\n\n\
             **contract:**\n```shell\n{contract}\n```\nexit_code == 0\n**on_fail:** abort\n"
        )
    }
}

/// Creates a repository with a branch `main` and a few files.
fn repository() -> Env {
    let env = Env::new("").agent(AGENT).isolation("guard+clean");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("removed");
    env.write("src/list", "one\ntwo\nthree\n");
    env.write("src/limit", "10\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "files"]);
    env.git(&["branch", "--move", "main"]);
    env
}

fn worktree(env: &Env, name: &str) -> PathBuf {
    env.folder().join(format!("wt-{name}"))
}

fn there(env: &Env, name: &str, arguments: &[&str]) -> Answer {
    let place = worktree(env, name);
    let all: Vec<&str> = ["-C", place.to_str().expect("text")].iter().chain(arguments).copied().collect();
    env.provost(&all)
}

/// Puts the plan into a separate worktree and approves it.
fn approved(env: &Env, story: &Story) {
    let (place, branch) = (worktree(env, story.name), format!("wt/{}", story.name));
    env.git(&["worktree", "add", "--quiet", "-b", &branch, place.to_str().expect("text"), "main"]);
    let file = place.join(format!(".harness/PLAN-{}.md", story.name));
    std::fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
    std::fs::write(&file, story.text()).expect("a plan");
    if !story.depends_on.is_empty() {
        // The plan it depends on runs elsewhere; here it only has to exist.
        let other = file.with_file_name(format!("PLAN-{}.md", story.depends_on));
        std::fs::write(other, Story::new(story.depends_on, "x", "true", "grep -q x x").text())
            .expect("a plan");
    }
    let shown = there(env, story.name, &["show", story.name, "--json"]).exits(0).json();
    let revision = shown["revision"].as_str().expect("a revision").to_owned();
    there(env, story.name, &["approve", story.name, "--revision", &revision]).exits(0);
}

fn done(env: &Env, story: &Story) {
    approved(env, story);
    there(env, story.name, &["run", story.name]).exits(0);
}

fn stage(env: &Env, name: &str) -> String {
    let status = there(env, name, &["status", name, "--json"]).exits(0).json();
    status["stage"].as_str().unwrap_or_default().to_owned()
}

fn git(env: &Env, arguments: &[&str]) -> String {
    let ran = Command::new("git").args(arguments).current_dir(env.work()).output().expect("git");
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|plan| plan["name"].as_str()).collect()
}

fn reason<'v>(report: &'v Value, name: &str) -> &'v str {
    let out = report["left_out"].as_array().into_iter().flatten().find(|out| out["name"] == name);
    out.and_then(|out| out["reason"].as_str()).unwrap_or_default()
}

fn alpha() -> Story {
    Story::new("alpha", "src/list", "sed -i s/two/TWO/ src/list", "grep -qx TWO src/list")
}

fn delta() -> Story {
    let fits = "test \"$(cat src/users)\" -le \"$(cat src/limit)\"";
    Story::new("delta", "src/users", "echo 8 > src/users", fits)
}

fn gamma() -> Story {
    Story::new("gamma", "src/limit", "echo 3 > src/limit", "test \"$(cat src/limit)\" -lt 5")
}

/// Adds a test that compares two files.
fn with_a_test(env: &Env) {
    env.write("src/want", "4\n");
    env.write("tests/sum", "test \"$(cat src/sum)\" = \"$(cat src/want)\"\n");
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "a test"]);
}

fn sum() -> Story {
    Story::new("sum", "src/sum", "echo 4 > src/sum", "sh tests/sum")
}

/// A plan whose own contract holds, but which makes a test of another plan useless.
fn weakener() -> Story {
    let run = "echo 5 > src/want; echo true > tests/sum";
    Story::new("weakener", "src/want\", \"tests/sum", run, "test \"$(cat src/want)\" -eq 5")
}

#[test]
fn a_plan_that_takes_the_bite_out_of_anothers_test_does_not_land_with_it() {
    let env = repository();
    with_a_test(&env);
    for story in [sum(), weakener()] {
        done(&env, &story);
    }
    let report = env.provost(&["integrate", "--json"]).exits(1).json();
    assert_eq!(names(&report["landed"]).len(), 1, "{report}");
    let out = report["left_out"][0]["reason"].as_str().unwrap_or_default();
    assert!(out.contains("of sum") && out.contains("tests/sum"), "{report}");
}

#[test]
fn what_has_landed_is_also_held_against_the_tests_it_landed_with() {
    let env = repository();
    with_a_test(&env);
    done(&env, &sum());
    env.provost(&["integrate"]).exits(0);
    done(&env, &weakener());
    let report = env.provost(&["integrate", "--json"]).exits(1).json();
    assert!(names(&report["landed"]).is_empty(), "{report}");
    assert!(reason(&report, "weakener").contains("tests/sum"), "{report}");
}

#[test]
fn tests_that_are_made_better_by_another_plan_land() {
    let env = repository();
    with_a_test(&env);
    let run = "echo 'test -s src/sum' >> tests/sum; echo true > tests/more";
    let better = Story::new("better", "tests/**", run, "grep -q src/sum tests/sum");
    for story in [sum(), better] {
        done(&env, &story);
    }
    let report = env.provost(&["integrate", "--json"]).exits(0).json();
    assert_eq!(names(&report["landed"]).len(), 2, "{report}");
}

#[test]
fn of_six_plans_in_conflict_the_green_ones_land_and_each_other_says_why_not() {
    let env = repository();
    let beta = Story::new("beta", "src/list", "sed -i s/two/deux/ src/list", "grep -qx deux src/list");
    let epsilon = Story::new("epsilon", "src/eps", "echo 1 > src/eps", "test -f src/eps").after("gamma");
    let zeta = Story::new("zeta", "src/zeta", "echo 1 > src/zeta", "test -f src/zeta").after("alpha");
    for story in [alpha(), beta, gamma(), delta(), epsilon, zeta] {
        done(&env, &story);
    }
    let before = git(&env, &["rev-parse", "main"]);
    let plan = env.provost(&["integrate", "--dry-run", "--json"]).exits(1).json();
    assert_eq!(names(&plan["landed"]), ["delta", "alpha", "zeta"]);
    assert_eq!(git(&env, &["rev-parse", "main"]), before, "a dry run moves nothing");
    assert!(env.provost(&["log", "--all", "--event", "TRAIN_STARTED", "--json"]).exits(0).out.is_empty());

    let report = env.provost(&["integrate", "--json"]).exits(1).json();
    assert_eq!(names(&report["landed"]), ["delta", "alpha", "zeta"]);
    assert_eq!(reason(&report, "beta"), "conflicts with alpha in src/list");
    let red = reason(&report, "gamma");
    assert!(red.starts_with("passes alone, but not together with delta:"), "{red}");
    assert!(red.contains("step 1 “Do delta” of delta broke"), "{red}");
    assert_eq!(reason(&report, "epsilon"), "depends on gamma, which does not land");

    let commit = report["commit"].as_str().expect("a commit");
    assert_eq!(git(&env, &["rev-parse", "main"]), commit);
    assert_eq!(git(&env, &["rev-parse", "main^{tree}"]), report["git_tree"].as_str().expect("a tree"));
    assert_eq!(git(&env, &["rev-parse", "main^1"]), before);
    assert_eq!(git(&env, &["diff", "--name-only", &before, "main"]), "src/list\nsrc/users\nsrc/zeta");
    assert_eq!(git(&env, &["log", "--format=%s", "-1", "main^3"]), "Plan alpha");
    assert_eq!(git(&env, &["diff", "--name-only", &before, "main^3"]), "src/list", "a plan's own work");
    assert_eq!(git(&env, &["rev-parse", "provost/alpha"]), git(&env, &["rev-parse", "main^3"]));
    git(&env, &["fsck", "--strict"]);
    for (name, branch) in [("alpha", json!("main")), ("beta", Value::Null), ("zeta", json!("main"))] {
        assert_eq!(
            there(&env, name, &["status", name, "--json"]).exits(0).json()["landed"],
            branch,
            "{name}"
        );
        let listed = there(&env, name, &["list", "--json"]).exits(0).json();
        let own = listed["plans"].as_array().into_iter().flatten().find(|plan| plan["name"] == name);
        assert_eq!(own.expect("the plan")["landed"], branch, "{name}");
    }
    // The branch is checked out: its files are updated, and nothing is left to commit.
    assert_eq!(env.read("src/users"), "8\n");
    assert_eq!(git(&env, &["status", "--porcelain", "--untracked-files=no"]), "");
    // The proof is a git note of the commit.
    env.write("note.json", git(&env, &["notes", "--ref", "provost", "show", commit]));
    let key = env.state().join("key.pub");
    let told =
        env.provost(&["audit", "--proof", "note.json", "--key", key.to_str().expect("text"), "--json"]);
    let statement = &told.exits(0).json()["statement"];
    assert_eq!(statement["subject"][1]["digest"]["gitTree"], report["git_tree"]);
    assert_eq!(names(&statement["predicate"]["plans"]), ["delta", "alpha", "zeta"]);
    // The log of each plan records it, and no plan lands twice.
    let log = there(&env, "alpha", &["log", "alpha", "--event", "PLAN_LANDED", "--json"]).exits(0).lines();
    assert_eq!((log.len(), &log[0]["details"]["commit"]), (1, &report["commit"]));
    there(&env, "alpha", &["audit", "alpha"]).exits(0);
    let again = env.provost(&["integrate", "--json"]).exits(1).json();
    assert_eq!((names(&again["landed"]), &again["commit"]), (vec![], &Value::Null));
    env.provost(&["integrate", "alpha"]).exits(0);
    assert_eq!(git(&env, &["rev-parse", "main"]), commit);
}

#[test]
fn what_is_not_done_or_not_proved_is_refused() {
    let env = repository();
    approved(&env, &alpha());
    done(&env, &delta());
    let before = git(&env, &["rev-parse", "main"]);
    let refused = env.provost(&["integrate", "alpha"]).exits(2);
    assert!(refused.err.contains("alpha"), "{}", refused.err);
    let refused = there(&env, "alpha", &["integrate", "alpha", "--into", "main"]).exits(5);
    assert!(refused.err.contains("it is approved"), "{}", refused.err);
    env.provost(&["integrate", "--into", "nowhere"]).exits(2);
    // With a changed proof, the plan does not count as done.
    let proofs: Vec<PathBuf> = std::fs::read_dir(env.state().join("proofs"))
        .expect("proofs")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().contains("delta"))
        .collect();
    let text = std::fs::read_to_string(&proofs[0]).expect("a proof");
    std::fs::write(&proofs[0], text.replacen("\"sig\":\"", "\"sig\":\"AAAA", 1)).expect("changed");
    let refused = there(&env, "delta", &["integrate", "delta", "--into", "main"]).exits(5);
    assert!(refused.err.contains("does not verify"), "{}", refused.err);
    let left_out = env.provost(&["integrate", "--json"]).exits(1).json();
    assert!(reason(&left_out, "delta").contains("does not verify"), "{left_out}");
    std::fs::remove_file(&proofs[0]).expect("removed");
    let left_out = env.provost(&["integrate", "--json"]).exits(1).json();
    assert_eq!(reason(&left_out, "delta"), "there is no proof that it is done");
    assert_eq!(git(&env, &["rev-parse", "main"]), before);
}

#[test]
fn local_changes_are_never_overwritten() {
    let env = repository();
    done(&env, &alpha());
    let before = git(&env, &["rev-parse", "main"]);
    for change in ["src/list", "index"] {
        match change {
            "index" => {
                env.write("src/list", "staged\n");
                env.git(&["add", "src/list"]);
                env.write("src/list", "one\ntwo\nthree\n");
            }
            _ => env.write("src/list", "mine\n"),
        }
        let refused = env.provost(&["integrate"]).exits(5);
        assert!(refused.err.contains("src/list") && refused.err.contains("--into"), "{}", refused.err);
        assert_eq!(git(&env, &["rev-parse", "main"]), before);
        env.git(&["checkout", "--quiet", "HEAD", "--", "src/list"]);
    }
    // Changes to other files are kept and do not prevent landing.
    env.write("src/limit", "mine\n");
    env.provost(&["integrate"]).exits(0);
    assert_eq!((env.read("src/list"), env.read("src/limit")), ("one\nTWO\nthree\n".into(), "mine\n".into()));
    assert_eq!(git(&env, &["status", "--porcelain", "--untracked-files=no"]), "M src/limit");
}

#[test]
fn a_branch_that_moves_meanwhile_is_noticed_and_the_train_begins_anew() {
    let env = repository();
    // The check moves the branch once, so the judged tree is not the one that would land.
    let armed = env.folder().join("armed");
    let moves = format!(
        "grep -qx TWO src/list || exit 1\nif test -f {armed}; then rm {armed}; cd {work} && echo 9 > src/nine && \
         git add src/nine && git -c user.name=t -c user.email=t@localhost commit -qm meanwhile; fi",
        armed = armed.display(),
        work = env.work().display(),
    );
    done(&env, &Story { contract: moves, ..alpha() });
    // Another commit on the branch, so that the merged tree was not judged before.
    env.write("src/limit", "11\n");
    env.git(&["commit", "--quiet", "--all", "--message", "more"]);
    std::fs::write(&armed, "").expect("armed");
    let report = env.provost(&["integrate", "--json"]).exits(0).json();
    assert!(!armed.exists());
    assert_eq!(git(&env, &["log", "--format=%s", "-1", "main^1"]), "meanwhile");
    assert_eq!(git(&env, &["show", "main:src/nine"]), "9");
    assert_eq!(git(&env, &["show", "main:src/list"]), "one\nTWO\nthree");
    assert_eq!(names(&report["landed"]), ["alpha"]);
    let started = env.provost(&["log", "--all", "--event", "TRAIN_STARTED", "--json"]).exits(0).lines();
    assert_eq!(started.len(), 2);
}

#[test]
fn done_is_a_lease() {
    let env = repository();
    done(&env, &delta());
    env.provost(&["integrate"]).exits(0);
    // A plan that would break it does not land, although it does not know of it.
    let loose = Story::new("loose", "src/**", "echo 3 > src/users; echo 2 > src/limit", "test -f src/limit");
    done(&env, &loose);
    let report = env.provost(&["integrate", "--json"]).exits(1).json();
    assert!(reason(&report, "loose").contains("of delta broke"), "{report}");
    assert!(reason(&report, "loose").contains("it has landed"), "{report}");
    assert_eq!(stage(&env, "delta"), "done");
    env.provost(&["integrate", "--check"]).exits(0);
    // A commit from elsewhere that breaks the plan opens it again.
    env.write("src/users", "99\n");
    env.git(&["commit", "--quiet", "--all", "--message", "so many users"]);
    let checked = env.provost(&["integrate", "--check", "--json"]).exits(1).json();
    let undone = checked["undone"][0]["reason"].as_str().expect("a reason");
    assert!(undone.contains("so many users") && undone.contains("delta broke"), "{undone}");
    assert_eq!(stage(&env, "delta"), "in-progress");
    let inbox = there(&env, "delta", &["inbox", "--json"]).exits(0);
    assert!(inbox.out.contains("no longer holds on main"), "{}", inbox.out);
    there(&env, "delta", &["audit", "delta"]).exits(0);
    env.provost(&["integrate", "--check"]).exits(0);
}

/// A check whose result changes on the same tree affects only its own plan.
#[test]
fn who_cannot_make_up_its_mind_is_left_out_and_nobody_is_blamed() {
    let env = repository();
    let moody = env.folder().join("moody");
    let contract = format!(
        "grep -qx TWO src/list || exit 1\nif test -f {moody}; then rm {moody}; exit 1; fi",
        moody = moody.display()
    );
    done(&env, &Story { contract, ..alpha() });
    done(&env, &delta());
    std::fs::write(&moody, "").expect("moody");
    let report = env.provost(&["integrate", "--json"]).exits(1).json();
    assert_eq!(names(&report["landed"]), ["delta"]);
    let why = reason(&report, "alpha");
    assert!(why.starts_with("cannot be judged:") && why.contains("held on the same tree"), "{why}");
    // When its check holds, it lands.
    let report = env.provost(&["integrate", "--json"]).exits(0).json();
    assert_eq!(names(&report["landed"]), ["alpha"]);
}

/// Kills the command as soon as the condition holds, if this is possible in time.
fn killed_when(env: &Env, seen: impl Fn() -> bool) {
    let mut child = env.command(&["integrate"]);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("provost");
    while child.try_wait().expect("a child").is_none() && !seen() {
        std::thread::sleep(Duration::from_micros(200));
    }
    let _ = child.kill();
    child.wait().expect("a child");
}

/// After a kill between decision and execution, or before it was recorded, the same command finishes what
/// was decided.
#[test]
fn what_was_decided_is_carried_out_by_whoever_comes_after_a_crash() {
    let env = repository();
    for (story, landed) in [(alpha(), "src/list"), (delta(), "src/users")] {
        done(&env, &story);
        let before = git(&env, &["rev-parse", "main"]);
        let packs = || std::fs::read_dir(env.work().join(".git/objects/pack")).map_or(0, Iterator::count);
        let (count, main) = (packs(), env.work().join(".git/refs/heads/main"));
        let moved = || std::fs::read_to_string(&main).is_ok_and(|now| now.trim() != before);
        match story.name {
            // Objects are copied after the decision and before the branch moves.
            "alpha" => killed_when(&env, || packs() > count),
            _ => killed_when(&env, moved),
        }
        let report = env.provost(&["integrate", "--json"]).exits(0).json();
        let now = git(&env, &["rev-parse", "main"]);
        assert!(report["commit"] == Value::Null || report["commit"] == now.as_str(), "{report}");
        assert_eq!(git(&env, &["diff", "--name-only", &before, "main"]), landed);
        assert_eq!(git(&env, &["rev-parse", "main^1"]), before);
        assert_eq!(git(&env, &["status", "--porcelain", "--untracked-files=no"]), "");
        git(&env, &["notes", "--ref", "provost", "show", "main"]);
        let log = there(&env, story.name, &["log", story.name, "--event", "PLAN_LANDED", "--json"]).exits(0);
        assert_eq!(log.lines().len(), 1, "{}", story.name);
    }
    let started = env.provost(&["log", "--all", "--event", "TRAIN_STARTED", "--json"]).exits(0).lines();
    assert_eq!(started.len(), 2, "nothing was begun anew");
}

/// How often a train is killed.
const KILLS: u64 = 16;

/// Killed at any instant, the same command brings the train to the same end.
#[test]
fn a_train_that_is_killed_goes_on() {
    let env = repository();
    for story in [alpha(), gamma(), delta()] {
        done(&env, &story);
    }
    let before = git(&env, &["rev-parse", "main"]);
    let mut dice = SystemTime::UNIX_EPOCH.elapsed().expect("a time").subsec_nanos() as u64 | 1;
    println!("dice {dice}");
    let begun = Instant::now();
    env.provost(&["integrate", "--dry-run"]).exits(1);
    // Landing takes time, too.
    let whole = begun.elapsed().as_micros() as u64 * 5 / 4;
    let (mut kills, mut ends) = (0, Vec::new());
    // A little later each time, at random within its share of the time.
    for share in 0..KILLS {
        let mut child = env.command(&["integrate"]);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("provost");
        dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let within = (dice >> 33) % (whole / KILLS).max(1);
        std::thread::sleep(Duration::from_micros(whole * share / KILLS + within));
        if child.try_wait().expect("a child").is_none() {
            child.kill().expect("killed");
            kills += 1;
        }
        child.wait().expect("a child");
        ends.extend(Some(git(&env, &["rev-parse", "main"])).filter(|now| *now != before));
    }
    println!("{kills} kills");
    assert!(kills >= KILLS / 4, "{kills} kills say little");
    let last = env.provost(&["integrate", "--json"]);
    assert!(last.code == 0 || last.code == 1, "{last:?}");
    env.provost(&["integrate"]).exits(1);
    let main = git(&env, &["rev-parse", "main"]);
    assert!(ends.iter().all(|end| *end == main), "it landed twice: {ends:?} {main}");
    assert_eq!(git(&env, &["rev-parse", "main^1"]), before);
    assert_eq!(git(&env, &["diff", "--name-only", &before, "main"]), "src/list\nsrc/users");
    assert_eq!(git(&env, &["status", "--porcelain", "--untracked-files=no"]), "");
    git(&env, &["fsck", "--strict"]);
    git(&env, &["notes", "--ref", "provost", "show", &main]);
    for (name, landings) in [("alpha", 1), ("delta", 1), ("gamma", 0)] {
        let log = there(&env, name, &["log", name, "--event", "PLAN_LANDED", "--json"]).exits(0);
        assert_eq!(log.lines().len(), landings, "{name}");
        there(&env, name, &["audit", name]).exits(0);
    }
}

/// A child that is forked just before a kill holds the locks of its parent until it executes its program.
#[test]
fn a_train_whose_holder_has_just_been_killed_is_waited_for() {
    let env = repository();
    done(&env, &alpha());
    let planned = env.provost(&["integrate", "--dry-run", "--json"]).exits(0).json();
    // Above the largest pid of Linux, so that no other process can have it.
    let nobody = 1 << 23;
    let holder = Holder { pid: nobody, ..Holder::here("the train for main", Timestamp(0)) };
    let log = Sqlite::open(&env.state()).expect("the log");
    let name = format!("train {}", planned["train"].as_str().expect("its name"));
    let held = log.lease(&name, &holder).expect("the lease");
    let mut train = env.start(&["integrate", "--json"]);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(700) {
        assert!(train.try_wait().expect("a child").is_none(), "it did not wait");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(held);
    let landed = crate::env::answer(train.wait_with_output().expect("its end")).exits(0).json();
    assert_eq!(names(&landed["landed"]), ["alpha"]);
}

/// What has landed stays protected, and can be depended on, also when it is archived.
#[test]
fn an_archived_plan_that_has_landed_stays_landed() {
    let env = repository();
    let mut person = env.person();
    done(&env, &Story::new("alpha", "src/alpha", "echo alpha > src/alpha", "grep -qx alpha src/alpha"));
    env.provost(&["integrate"]).exits(0);
    person.provost(&["archive", "--older-than", "0s"]).exits(0);
    let all = env.provost(&["log", "--all", "--json"]).exits(0).out;
    assert!(
        all.contains("TRAIN_STARTED") && !all.contains("TASK_STARTED"),
        "only the plan is archived: {all}"
    );
    done(&env, &Story::new("breaks", "src/**", "echo beta > src/alpha", "grep -qx beta src/alpha"));
    let report = env.provost(&["integrate", "--json"]).exits(1).json();
    assert!(reason(&report, "breaks").contains("alpha"), "{report}");
    done(
        &env,
        &Story::new("builds", "src/more", "cp src/alpha src/more", "grep -qx alpha src/more").after("alpha"),
    );
    let report = env.provost(&["integrate", "builds", "--json"]).exits(0).json();
    assert_eq!(names(&report["landed"]), ["builds"], "{report}");
    // A plan that is done and was not landed can be archived by its name, and land later.
    done(&env, &Story::new("later", "src/later", "echo later > src/later", "grep -qx later src/later"));
    let id = there(&env, "later", &["status", "later", "--json"]).exits(0).json()["id"].clone();
    person.provost(&["archive", id.as_str().expect("an id")]).exits(0);
    env.provost(&["integrate", "later"]).exits(0);
}
