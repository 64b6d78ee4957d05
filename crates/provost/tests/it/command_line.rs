//! Tests the command line as a person meets it: groups of commands, states, hints that work, `stop` and `gc`.

use std::process::{Child, Command};
use std::time::Duration;

use crate::env::{Answer, Env, HONEST, answer, plan};

/// An agent that says that it has begun, and waits until the test lets it continue.
const SLOW: &str = "cat > /dev/null; mkdir -p out; echo thinking; touch ../begun\n\
                    while [ ! -e ../go ]; do sleep 0.05; done; touch out/1\n";

fn slow() -> Env {
    let env = Env::new(&plan(&["test -e out/1"], "abort")).agent(SLOW).isolation("in-place");
    env.git(&["commit", "--quiet", "--all", "--message", "level"]);
    env
}

#[track_caller]
fn begin(env: &Env, arguments: &[&str]) -> Child {
    let child = env.start(arguments);
    let begun = || env.folder().join("begun").exists();
    (0..3000).take_while(|_| !begun()).for_each(|_| std::thread::sleep(Duration::from_millis(10)));
    assert!(begun(), "it never began");
    child
}

#[track_caller]
fn state(env: &Env) -> String {
    let word = env.provost(&["status", "--json"]).exits(0).json()["state"].as_str().map(str::to_owned);
    let word = word.expect("a state");
    // The list and the first line of the status say the same.
    let listed = env.provost(&["list", "--json"]).exits(0).json();
    assert_eq!(listed["plans"][0]["state"], word.as_str());
    let told = word.replace('-', " ");
    let status = env.provost(&["status"]).exits(0).out;
    assert!(status.lines().next().is_some_and(|line| line.contains(&format!(": {told} ·"))), "{status}");
    let list = env.provost(&["list"]).exits(0).out;
    assert!(list.contains(&told), "{list}");
    word
}

#[test]
fn a_plan_runs_waits_idles_or_is_over_and_every_list_says_so() {
    let env = slow();
    assert_eq!(state(&env), "draft");
    env.provost(&["verify"]).exits(0);
    assert_eq!(state(&env), "waiting-for-you");
    env.approve();
    assert_eq!(state(&env), "idle");
    assert!(env.provost(&["status"]).exits(0).out.contains("`provost run` starts it"));
    let run = begin(&env, &["run"]);
    assert_eq!(state(&env), "running");
    std::fs::write(env.folder().join("go"), "").expect("a sign");
    answer(run.wait_with_output().expect("an end")).exits(0);
    assert_eq!(state(&env), "done");
    let over = Env::new(&plan(&["test -e out/1"], "abort")).agent("true\n").isolation("in-place");
    over.git(&["commit", "--quiet", "--all", "--message", "level"]);
    over.approve();
    over.provost(&["run"]).exits(1);
    assert_eq!(state(&over), "failed");
}

#[test]
fn stop_ends_a_run_as_ctrl_c_does() {
    let env = slow();
    env.approve();
    let none = env.provost(&["stop"]).exits(0);
    assert!(none.err.contains("no run works on this plan"), "{}", none.err);
    let run = begin(&env, &["run"]);
    let stopped = env.provost(&["stop", "--json"]).exits(0);
    assert_eq!(stopped.json()["pid"], run.id());
    assert!(stopped.err.contains("`provost run` continues the plan"), "{}", stopped.err);
    let run = answer(run.wait_with_output().expect("an end")).exits(130);
    assert!(run.err.contains("interrupted; the same command resumes"), "{}", run.err);
    assert_eq!(state(&env), "idle");
    std::fs::write(env.folder().join("go"), "").expect("a sign");
    env.provost(&["run"]).exits(0);
}

#[test]
fn a_run_shows_what_its_agent_writes() {
    let env = slow();
    env.approve();
    let run = begin(&env, &["run", "--output"]);
    // The output is kept in a file, and the run looks at it several times a second.
    std::thread::sleep(Duration::from_secs(2));
    std::fs::write(env.folder().join("go"), "").expect("a sign");
    let run = answer(run.wait_with_output().expect("an end")).exits(0);
    assert_eq!(run.err.matches("[Step 1] │ thinking\n").count(), 1, "{}", run.err);
}

#[test]
fn verify_and_the_commands_that_show_change_no_file_of_the_repository() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    env.git(&["commit", "--quiet", "--all", "--message", "level"]);
    let before = env.read("PLAN.md");
    for words in [&["verify"][..], &["status"], &["show"], &["list"], &["inbox"], &["verify", "--sarif"]] {
        env.provost(words).exits(0);
    }
    assert_eq!(env.read("PLAN.md"), before);
    let status = Command::new("git").args(["status", "--porcelain"]).current_dir(env.work()).output();
    assert_eq!(String::from_utf8_lossy(&status.expect("git").stdout), "");
    assert_eq!(env.events(), ["PLAN_CREATED", "PLAN_VERIFIED"]);
}

/// Returns the commands that a text names in back-quotes.
fn hints(text: &str) -> Vec<String> {
    let parts = text.split('`').skip(1).step_by(2);
    parts.filter(|part| part.starts_with("provost ")).map(str::to_owned).collect()
}

/// Runs a hint in a shell whose current folder is another one.
fn paste(env: &Env, hint: &str) -> Answer {
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(hint.replacen("provost", env!("CARGO_BIN_EXE_provost"), 1)).env_clear();
    for (name, value) in env.command(&[]).get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    answer(shell.current_dir(env.folder()).output().expect("bash"))
}

/// Two plans in a folder with a space, named from outside: no hint may lead to the other plan, or nowhere.
#[test]
fn every_hint_is_a_command_that_works_when_it_is_pasted() {
    let env = Env::new(&plan(&["test -e out/1"], "abort")).agent("true\n");
    if !env.has_fences() {
        return;
    }
    std::fs::remove_file(env.work().join("PLAN.md")).expect("removed");
    env.write(".harness/PLAN-first.md", plan(&["test -e out/1"], "escalate"));
    env.write(".harness/PLAN-other.md", plan(&["test -e out/2"], "escalate"));
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--all", "--message", "plans"]);
    let folder = env.folder().join("my app");
    std::fs::rename(env.work(), &folder).expect("renamed");
    std::fs::create_dir(env.work()).expect("a folder to stand in");
    let dir = folder.display().to_string();
    let mut tried = 0;
    let mut follow = |said: Answer| {
        let all = hints(&format!("{}{}", said.out, said.err));
        assert!(!all.is_empty(), "no hint in {}{}", said.out, said.err);
        for hint in &all {
            let done = paste(&env, hint);
            let words = format!("`{hint}` exits with {}: {}", done.code, done.err);
            assert!(!matches!(done.code, 2 | 5 | 70), "{words}");
            tried += 1;
        }
    };
    let said = |words: &[&str]| env.provost(&[&["-C", &dir], words].concat());
    follow(said(&["status", "first"]).exits(0));
    // `provost show`, `provost approve --revision`, and `provost inbox`.
    follow(said(&["run", "first"]).exits(4));
    assert_eq!(said(&["status", "first", "--json"]).exits(0).json()["stage"], "approved");
    assert_eq!(said(&["status", "other", "--json"]).exits(0).json()["stage"], "draft");
    // The agent does nothing, so the step waits. The hints show the item, and answer it.
    let stuck = said(&["run", "first"]).exits(4);
    assert!(stuck.err.contains("provost -C "), "{}", stuck.err);
    let named =
        |wanted: &str| hints(&stuck.err).into_iter().find(|hint| hint.contains(wanted)).expect(wanted);
    follow(paste(&env, &named(" inbox first:")).exits(0));
    follow(paste(&env, &named(" answer first:")).exits(0));
    // The run that the answer's hint started got stuck once more, and nothing touched the other plan.
    follow(said(&["run", "first"]).exits(4));
    assert_eq!(said(&["status", "other", "--json"]).exits(0).json()["stage"], "draft");
    assert!(tried >= 8, "only {tried} hints");
}

#[test]
fn a_table_is_whole_in_a_pipe() {
    let title = "a title that is far longer than the eighty columns of a terminal ".repeat(3);
    let text = plan(&["test -e out/1"], "abort").replace("# A plan", &format!("# {}", title.trim()));
    let listed = Env::new(&text).provost(&["list"]).exits(0).out;
    assert!(listed.contains(title.trim()), "{listed}");
}

#[test]
fn the_help_has_groups_and_ends_with_the_global_options() {
    let env = Env::new("");
    let help = env.provost(&["--help"]).exits(0).out;
    for heading in ["Plan:", "Run:", "Decide:", "Prove:", "Many plans:", "Set up:", "Global options:"] {
        assert!(help.lines().any(|line| line == heading), "{heading} is not in {help}");
    }
    assert!(!help.contains("builtin-agent") && help.contains("  stop "), "{help}");
    let of_run = env.provost(&["run", "--help"]).exits(0).out;
    let (own, global) = of_run.split_once("Global options:").expect("the heading");
    let global = global.split("Examples:").next().unwrap_or_default();
    assert!(own.contains("--jobs") && global.contains("--state") && !global.contains("--jobs"), "{of_run}");
    assert_eq!(help, env.provost(&["help"]).exits(0).out);
}

#[test]
fn gc_shows_and_then_frees_what_a_removed_workspace_left() {
    let env = Env::new(&plan(&["test -e out/1"], "abort")).agent(HONEST);
    if !env.has_fences() {
        return;
    }
    env.approve();
    env.provost(&["run"]).exits(0);
    let nothing = env.provost(&["gc"]).exits(0);
    assert!(nothing.err.contains("nothing to free"), "{}{}", nothing.out, nothing.err);
    // The plan is done, so all its trees may go if they count as unused at once.
    let unused = env.provost(&["gc", "--unused", "0s", "--json"]).exits(0).json();
    assert!(unused["bytes"].as_u64() > Some(0) && unused["removed"] == false, "{unused}");
    std::fs::rename(env.work(), env.folder().join("elsewhere")).expect("moved");
    std::fs::create_dir(env.folder().join("desk")).expect("a folder");
    let gc = |words: &[&str]| {
        let mut command = env.command(&[&["gc"], words].concat());
        answer(command.current_dir(env.folder().join("desk")).output().expect("provost"))
    };
    let log = std::fs::read(env.state().join("log.db")).expect("the log");
    let shown = gc(&[]).exits(0);
    assert!(shown.out.contains("is gone") && shown.err.contains("`provost gc --yes`"), "{}", shown.out);
    assert!(env.state().join("trees").read_dir().expect("trees").next().is_some(), "nothing was removed");
    let freed = gc(&["--yes"]).exits(0);
    assert!(freed.err.contains("freed "), "{}", freed.err);
    assert!(env.state().join("trees").read_dir().expect("trees").next().is_none());
    assert_eq!(std::fs::read(env.state().join("log.db")).expect("the log"), log);
    assert!(env.state().join("proofs").read_dir().expect("proofs").next().is_some());
    assert!(gc(&["--yes"]).exits(0).err.contains("nothing to free"));
}
