//! Tests children that leave their group, their session and their environment.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use provost_host::process::{
    Enclosure, HeadAndTail, How, ProcessEnd, Spawn, become_subreaper, end_leftovers, inside_attempt, run,
};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::{eventually, lives, tag};

fn sh(script: &str) -> ProcessEnd {
    become_subreaper().unwrap();
    let tag = tag();
    run(Spawn {
        program: OsStr::new("bash"),
        args: &["-c".into(), script.into()],
        cwd: Path::new("/"),
        env: &[("PATH".into(), "/usr/bin:/bin".into())],
        stdin: b"",
        deadline: Duration::from_secs(600),
        grace: Duration::from_millis(100),
        keep: HeadAndTail { head: 4096, tail: 4096 },
        tag: &tag,
        stop: None,
        tee: None,
        bounds: None,
        enclosure: Enclosure::None,
    })
    .unwrap()
}

fn pids(ended: &ProcessEnd) -> Vec<i32> {
    let text = String::from_utf8_lossy(&ended.stdout.head).into_owned();
    text.lines().map(|line| line.trim().parse().unwrap()).collect()
}

/// Prints its pid, closes its streams, and ignores SIGTERM.
const DAEMON: &str = "f=$(mktemp); setsid --fork bash -c '
    echo $$; echo > $0; exec 0<&- 1>&- 2>&-; trap \"\" TERM HUP; sleep 60 & wait; sleep 60' $f
    until [ -s $f ]; do sleep 0.01; done; rm $f";
/// Prints its pid and keeps the output open.
const TALKER: &str = "f=$(mktemp); setsid --fork bash -c 'echo $$; echo > $0; sleep 600' $f
    until [ -s $f ]; do sleep 0.01; done; rm $f";

#[test]
fn a_daemon_in_its_own_session_is_dead_afterwards() {
    let ended = sh(&format!("{DAEMON}; exit 3"));
    assert_eq!(ended.how, How::Exited(3));
    let pids = pids(&ended);
    assert!(pids.len() == 1 && !lives(pids[0]), "{pids:?}");
    assert!(ended.survivors.is_empty(), "{:?}", ended.survivors);
}

#[test]
fn a_daemon_of_one_run_is_not_mistaken_for_anothers() {
    std::thread::scope(|scope| {
        // Its own helper, orphaned on purpose, must live as long as the command does.
        let script = "p=$(setsid --fork bash -c 'echo $$; exec sleep 62 >/dev/null 2>&1')
            sleep 0.6; kill -0 $p && echo $p";
        let long = scope.spawn(|| sh(script));
        for _ in 0..5 {
            let short = sh(DAEMON);
            assert!(!lives(pids(&short)[0]));
        }
        let long = long.join().unwrap();
        assert!(long.survivors.is_empty(), "{:?}", long.survivors);
        let helper = pids(&long);
        assert!(helper.len() == 1, "it was ended too early");
        assert!(!lives(helper[0]));
    });
}

#[test]
fn a_daemon_that_holds_the_output_open_is_found_and_ended() {
    let ended = sh(TALKER);
    assert_eq!(ended.how, How::Exited(0));
    assert!(!lives(pids(&ended)[0]));
    assert!(ended.duration < Duration::from_secs(60), "{:?}", ended.duration);
}

/// Runs alone in its process, so that a child without a tag can only be its own.
#[test]
fn a_daemon_that_cleared_its_environment_is_dead_afterwards() {
    if std::env::var_os("ALONE").is_none() {
        return alone("escapes::a_daemon_that_cleared_its_environment_is_dead_afterwards");
    }
    let ended = sh(&DAEMON.replace("setsid", "env -i PATH=/usr/bin:/bin setsid"));
    let pids = pids(&ended);
    assert!(pids.len() == 1 && !lives(pids[0]), "{pids:?}");
    assert!(ended.survivors.is_empty(), "{:?}", ended.survivors);
}

#[test]
fn without_a_subreaper_a_daemon_that_prints_is_still_found() {
    if std::env::var_os("ALONE").is_none() {
        return alone("escapes::without_a_subreaper_a_daemon_that_prints_is_still_found");
    }
    let tag = tag();
    let ended = run(Spawn {
        program: OsStr::new("bash"),
        args: &["-c".into(), TALKER.into()],
        cwd: Path::new("/"),
        env: &[("PATH".into(), "/usr/bin:/bin".into())],
        stdin: b"",
        deadline: Duration::from_secs(600),
        grace: Duration::ZERO,
        keep: HeadAndTail { head: 4096, tail: 4096 },
        tag: &tag,
        stop: None,
        tee: None,
        bounds: None,
        enclosure: Enclosure::None,
    })
    .unwrap();
    let pid = pids(&ended)[0];
    let shown = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    assert!(!lives(pid), "{shown}\n{:?}", ended.survivors);
    assert!(ended.survivors.is_empty(), "{:?}", ended.survivors);
}

/// While a process starts another program, its environment reads as empty.
#[test]
fn a_process_that_starts_one_program_after_the_other_is_known_by_its_tag() {
    let tag = format!("crashed{}", tag());
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("again.sh");
    std::fs::write(&script, format!("exec bash {}", script.display())).unwrap();
    for number in 0..40 {
        let tag = format!("{tag}/{number}");
        let mut restless =
            Command::new("setsid").arg("bash").arg(&script).env("PROVOST_ATTEMPT", &tag).spawn().unwrap();
        let pid = restless.id();
        eventually("the script is running", || {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.contains("again.sh"))
        });
        assert_eq!(end_leftovers(&tag), []);
        assert!(!lives(pid.cast_signed()), "round {number}");
        let _ = restless.wait();
    }
}

#[test]
fn leftovers_of_a_harness_that_died_are_ended_by_their_tag() {
    let tag = format!("crashed{}", tag());
    let start = |tag: &str| {
        Command::new("setsid")
            .args(["bash", "-c", "sleep 60 & env -i sleep 60 & trap '' TERM; wait; sleep 60"])
            .env("PROVOST_ATTEMPT", tag)
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    };
    let (mut ours, mut others) = (start(&format!("{tag}1")), start("some/other"));
    let started = |pid: u32| {
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().count() == 2
    };
    eventually("both are at work", || started(ours.id()) && started(others.id()));
    assert_eq!(end_leftovers(&tag), []);
    assert!(!lives(ours.id().cast_signed()));
    assert!(lives(others.id().cast_signed()));
    assert_eq!(end_leftovers(&tag), [], "twice does no harm");
    kill_process_group(Pid::from_child(&others), Signal::KILL).unwrap();
    let _ = (ours.wait(), others.wait());
}

#[test]
fn a_process_knows_whether_it_is_inside_an_attempt() {
    if std::env::var_os("ALONE").is_some() {
        println!("inside: {:?}", inside_attempt());
        return;
    }
    let ask = |prefix: &str, tag: Option<&str>| {
        let exe = std::env::current_exe().unwrap();
        let script = format!(
            "{prefix} \"$0\" --exact escapes::a_process_knows_whether_it_is_inside_an_attempt --nocapture; :"
        );
        let mut bash = Command::new("bash");
        bash.arg("-c").arg(script).arg(exe).env("ALONE", "1").env_remove("PROVOST_ATTEMPT");
        bash.envs(tag.map(|tag| ("PROVOST_ATTEMPT", tag)));
        String::from_utf8(bash.output().unwrap().stdout).unwrap()
    };
    // Only if no parent of this test is an attempt.
    if inside_attempt().is_none() {
        assert!(ask("env", None).contains("inside: None"));
    }
    assert!(ask("env", Some("a/1/1")).contains("inside: Some(\"a/1/1\")"));
    assert!(ask("env -i ALONE=1", Some("a/1/1")).contains("inside: Some(\"a/1/1\")"));
}

/// Runs one test in a separate process.
fn alone(test: &str) {
    let args: [OsString; 3] = ["--exact".into(), test.into(), "--nocapture".into()];
    let done = Command::new(std::env::current_exe().unwrap()).args(args).env("ALONE", "1").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
