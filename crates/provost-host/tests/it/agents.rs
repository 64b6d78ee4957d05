//! Tests agents as real processes: any command, and the scripted agent with all its misbehaviours.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::model::event::AttemptEnd;
use provost_core::model::plan::StepNumber;
use provost_host::Interrupted;
use provost_host::agent::command::CommandDriver;
use provost_host::agent::scripted::{ScriptedDriver, perform};
use provost_host::agent::{AgentDriver, AttemptInput, AttemptReport};
use provost_host::process::become_subreaper;
use tempfile::TempDir;

use crate::{lives, tag};

pub(crate) fn work<'a>(workspace: &'a Path, tag: &'a str) -> AttemptInput<'a> {
    AttemptInput {
        home: None,
        resume: None,
        outbox: None,
        heard: None,
        limit: None,
        granted: &[],
        answer_schema: None,
        prompt: "write the file\n",
        workspace,
        step: StepNumber(2),
        attempt: 1,
        timeout: Duration::from_secs(300),
        tag,
        stop: None,
        fence: None,
        environment: environment(),
        bounds: None,
    }
}

/// The environment as the binary passes it.
pub(crate) fn environment() -> &'static [(OsString, OsString)] {
    static ENVIRONMENT: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| std::env::vars_os().collect())
}

fn command(argv: &[&str], workspace: &Path) -> AttemptReport {
    CommandDriver::new(argv.iter().copied()).unwrap().attempt(&work(workspace, &tag())).unwrap()
}

pub(crate) fn exited(exit_code: i32) -> AttemptEnd {
    AttemptEnd::Exited { exit_code }
}

#[test]
fn a_command_gets_the_prompt_on_stdin_and_works_in_the_workspace() {
    let folder = TempDir::new().unwrap();
    let attempt = command(&["bash", "-c", "cat > got.txt; echo done; echo hm >&2; exit 3"], folder.path());
    assert_eq!(attempt.end, exited(3));
    assert_eq!((attempt.report.as_str(), attempt.stderr.head.as_str()), ("done\n", "hm\n"));
    assert_eq!(std::fs::read_to_string(folder.path().join("got.txt")).unwrap(), "write the file\n");
}

#[test]
fn a_command_gets_the_prompt_where_it_wants_it() {
    let folder = TempDir::new().unwrap();
    let argv = ["bash", "-c", "echo \"1 $1\"; echo \"2 $2\"; cat", "agent", "{prompt}", "not {prompt}"];
    let attempt = command(&argv, folder.path());
    assert_eq!(attempt.report, "1 write the file\n\n2 not {prompt}\n");
}

#[test]
fn a_relative_command_is_looked_for_in_the_workspace() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("agent.sh"), "echo here").unwrap();
    assert_eq!(command(&["bash", "agent.sh"], folder.path()).report, "here\n");
    let attempt = command(&["./absent.sh"], folder.path());
    assert!(
        matches!(&attempt.end, AttemptEnd::NotStarted { reason } if reason.contains("absent.sh")),
        "{attempt:?}"
    );
    assert_eq!(CommandDriver::new(Vec::<OsString>::new()), None);
}

#[test]
fn an_agent_has_the_users_environment_but_not_the_harnesss() {
    if std::env::var_os("PROVOST_SECRET").is_none() {
        let exe = std::env::current_exe().unwrap();
        let test = "agents::an_agent_has_the_users_environment_but_not_the_harnesss";
        let mut alone = std::process::Command::new(exe);
        alone.args(["--exact", test, "--nocapture"]).env("PROVOST_SECRET", "x").env("API_KEY", "k");
        let done = alone.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let folder = TempDir::new().unwrap();
    let attempt = command(&["bash", "-c", "echo $API_KEY; env | grep -o '^PROVOST_[A-Z]*'"], folder.path());
    assert_eq!(attempt.report, "k\nPROVOST_ATTEMPT\n");
}

#[test]
fn a_long_report_is_cut_in_the_middle() {
    let folder = TempDir::new().unwrap();
    let attempt = command(&["bash", "-c", "echo first; head -c 1000000 /dev/zero; echo last"], folder.path());
    assert!(attempt.report.starts_with("first\n") && attempt.report.ends_with("last\n"));
    assert!(attempt.report.len() < 66 * 1024, "{}", attempt.report.len());
}

#[test]
fn an_agent_that_is_stopped_has_no_attempt_to_show() {
    let folder = TempDir::new().unwrap();
    let stop = AtomicBool::new(true);
    let tag = tag();
    let work = AttemptInput { stop: Some(&stop), ..work(folder.path(), &tag) };
    assert_eq!(CommandDriver::new(["sleep", "60"]).unwrap().attempt(&work), Err(Interrupted));
}

/// The scripted agent's own process: this test binary, which plays the script.
#[test]
fn performs_when_asked() {
    let Some(script) = std::env::var_os("SCRIPT") else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse().unwrap();
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt).unwrap();
    let step = StepNumber(number("STEP"));
    let code = perform(&PathBuf::from(script), step, number("ATTEMPT"), &prompt, &mut std::io::stdout());
    std::process::exit(code);
}

fn scripted(script: &str, workspace: &Path, work: AttemptInput<'_>) -> AttemptReport {
    let path = workspace.join("script.toml");
    std::fs::write(&path, script).unwrap();
    let play =
        "SCRIPT=$1 STEP=$2 ATTEMPT=$3 exec \"$0\" --exact agents::performs_when_asked --nocapture --quiet";
    let exe = std::env::current_exe().unwrap();
    let launcher = vec!["bash".into(), "-c".into(), play.into(), exe.into()];
    ScriptedDriver { launcher, script: path }.attempt(&work).unwrap()
}

fn play(actions: &str) -> (TempDir, AttemptReport) {
    let folder = TempDir::new().unwrap();
    let tag = tag();
    let script = format!("[[step]]\nnumber = 2\ndo = [{actions}]");
    let attempt = scripted(&script, folder.path(), work(folder.path(), &tag));
    (folder, attempt)
}

#[test]
fn a_script_is_followed_in_order() {
    let (folder, attempt) = play(
        r#"{ write = "src/a.txt", text = "one\n" }, { append = "src/a.txt", text = "two\n" },
           { write = "b", text = "" }, { remove = "b" }, { sleep = "1ms" }, { require_prompt = "the file" },
           { run = "cat src/a.txt; echo no >&2" }, { say = "all done" }, { exit = 3 }, { say = "never" }"#,
    );
    assert_eq!(attempt.end, exited(3), "{attempt:?}");
    assert!(
        attempt.report.contains("one\ntwo\nall done\n") && !attempt.report.contains("never"),
        "{attempt:?}"
    );
    assert_eq!(attempt.stderr.head, "no\n");
    assert!(!folder.path().join("b").exists());
}

#[test]
fn a_script_can_lie_crash_refuse_and_fail() {
    assert_eq!(play(r#"{ say = "all tests pass" }"#).1.end, exited(0));
    assert_eq!(play("{ crash = true }").1.end, AttemptEnd::Signalled { signal: 9 });
    assert_eq!(play(r#"{ require_prompt = "absent" }, { exit = 0 }"#).1.end, exited(9));
    assert_eq!(play(r#"{ run = "exit 7" }, { exit = 0 }"#).1.end, exited(7));
}

#[test]
fn a_script_that_hangs_runs_out_of_time() {
    let folder = TempDir::new().unwrap();
    let tag = tag();
    let work = AttemptInput { timeout: Duration::from_millis(300), ..work(folder.path(), &tag) };
    let attempt = scripted("[[step]]\nnumber = 2\ndo = [{ hang = true }]", folder.path(), work);
    assert_eq!(attempt.end, AttemptEnd::TimedOut);
}

#[test]
fn a_scripts_daemon_is_dead_when_the_attempt_is_over() {
    become_subreaper().unwrap();
    let (folder, attempt) =
        play(r#"{ daemon = "echo $$ > pid; sleep 60" }, { run = "until [ -s pid ]; do sleep 0.01; done" }"#);
    assert_eq!(attempt.end, exited(0), "{attempt:?}");
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    assert!(!lives(pid.trim().parse().unwrap()));
    assert_eq!(attempt.survivors, []);
}

#[test]
fn what_is_written_for_one_attempt_comes_before_what_is_written_for_any() {
    let script =
        "[[step]]\nnumber = 2\ndo = [{ exit = 1 }]\n[[step]]\nnumber = 2\nattempt = 3\ndo = [{ exit = 33 }]";
    for (attempt, code) in [(1, 1), (3, 33), (4, 1)] {
        let folder = TempDir::new().unwrap();
        let tag = tag();
        let work = AttemptInput { attempt, ..work(folder.path(), &tag) };
        assert_eq!(scripted(script, folder.path(), work).end, exited(code));
    }
}

#[test]
fn a_script_that_cannot_be_followed_says_where() {
    for (actions, said) in [
        (r#"{ writ = "a" }"#, "unknown field `writ`"),
        (r#"{ write = "a" }"#, "step 2, action 1: `text` belongs to"),
        (r#"{ say = "a" }, { say = "a", exit = 1 }"#, "step 2, action 2: one action has one key"),
        ("{}", "it names no action"),
        (r#"{ sleep = "soon" }"#, "expected number"),
        (r#"{ remove = "absent" }"#, "could not remove absent"),
    ] {
        let (_folder, attempt) = play(actions);
        assert_eq!(attempt.end, exited(2), "{actions}");
        assert!(attempt.stderr.head.contains(said), "{actions}: {}", attempt.stderr.head);
        assert!(attempt.stderr.head.contains("script.toml"), "{}", attempt.stderr.head);
    }
    let folder = TempDir::new().unwrap();
    let tag = tag();
    let attempt = scripted("", folder.path(), work(folder.path(), &tag));
    assert!(attempt.stderr.head.contains("the script has no entry for step 2, attempt 1"), "{attempt:?}");
}
