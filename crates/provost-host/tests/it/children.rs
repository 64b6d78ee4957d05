//! Tests `process::run` with children that behave, and with children that do not.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use provost_host::process::{Enclosure, HeadAndTail, How, ProcessEnd, Spawn, StartError, run};
use tempfile::TempDir;

use crate::{eventually, lives, tag};

const KEEP: HeadAndTail = HeadAndTail { head: 4096, tail: 4096 };

/// Longer than anything here takes, also on a busy machine.
const AMPLE: Duration = Duration::from_secs(600);

/// Children that are not killed sleep for longer than this.
const SOON: Duration = Duration::from_secs(60);

/// Time after which a shell has started and has set its traps.
const STARTED: Duration = Duration::from_secs(2);

/// Runs a shell script with the limits of the test.
struct Child<'a> {
    stdin: &'a [u8],
    deadline: Duration,
    grace: Duration,
    stop: Option<&'a AtomicBool>,
}

impl Default for Child<'_> {
    fn default() -> Self {
        Self { stdin: b"", deadline: AMPLE, grace: Duration::from_millis(150), stop: None }
    }
}

impl Child<'_> {
    fn run(&self, script: &str) -> ProcessEnd {
        let tag = tag();
        run(Spawn {
            program: OsStr::new("bash"),
            args: &["-c".into(), script.into()],
            cwd: Path::new("/"),
            env: &[("PATH".into(), "/usr/bin:/bin".into())],
            stdin: self.stdin,
            deadline: self.deadline,
            grace: self.grace,
            keep: KEEP,
            tag: &tag,
            stop: provost_host::process::stop_flag(self.stop),
            tee: None,
            bounds: None,
            enclosure: Enclosure::None,
        })
        .unwrap()
    }
}

fn sh(script: &str) -> ProcessEnd {
    Child::default().run(script)
}

fn start(program: &str, args: &[OsString], cwd: &Path) -> Result<ProcessEnd, StartError> {
    run(Spawn {
        program: OsStr::new(program),
        args,
        cwd,
        env: &[("PATH".into(), "/usr/bin:/bin".into())],
        stdin: b"",
        deadline: AMPLE,
        grace: Duration::from_millis(100),
        keep: KEEP,
        tag: &tag(),
        stop: None,
        tee: None,
        bounds: None,
        enclosure: Enclosure::None,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[test]
fn an_exit_code_is_an_exit_code_and_a_signal_a_signal() {
    assert_eq!(sh("exit 0").how, How::Exited(0));
    assert_eq!(sh("exit 3").how, How::Exited(3));
    assert_eq!(sh("exit 255").how, How::Exited(255));
    assert_eq!(sh("kill -9 $$").how, How::Signalled(9));
    assert_eq!(sh("kill -15 $$").how, How::Signalled(15));
}

#[test]
fn both_streams_are_kept_apart_and_watched() {
    let mut seen = Vec::new();
    let mut tee = |stream: provost_core::model::plan::Stream, bytes: &[u8]| {
        seen.push((stream.to_string(), text(bytes)))
    };
    let ended = run(Spawn {
        program: OsStr::new("sh"),
        args: &["-c".into(), "echo out; echo err >&2".into()],
        cwd: Path::new("/"),
        env: &[("PATH".into(), "/usr/bin:/bin".into())],
        stdin: b"",
        deadline: AMPLE,
        grace: Duration::ZERO,
        keep: KEEP,
        tag: &tag(),
        stop: None,
        tee: Some(&mut tee),
        bounds: None,
        enclosure: Enclosure::None,
    })
    .unwrap();
    assert_eq!((ended.stdout.head.as_slice(), ended.stderr.head.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    seen.sort();
    assert_eq!(seen, [("stderr".into(), "err".into()), ("stdout".into(), "out".into())]);
    assert!(ended.survivors.is_empty());
}

#[test]
fn the_environment_is_what_was_given_and_the_tag() {
    let ended = sh("env | sort");
    let lines: Vec<String> = text(&ended.stdout.head).lines().map(str::to_owned).collect();
    let names: Vec<&str> =
        lines.iter().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert_eq!(names, ["PATH", "PROVOST_ATTEMPT", "PWD", "SHLVL", "_"]);
}

#[test]
fn what_cannot_be_started_says_why() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let plain = file("plain", "#!/bin/sh\n", 0o644);
    let no_interpreter = file("lost", "#!/no/such/interpreter\n", 0o755);
    let nonsense = file("nonsense", "\x01\x02\x03", 0o755);
    let here = folder.path();
    assert!(matches!(start("no-such-program", &[], here), Err(StartError::NotFound { .. })));
    assert!(matches!(start("/no/such/program", &[], here), Err(StartError::NotFound { .. })));
    assert!(matches!(start("./absent", &[], here), Err(StartError::NotFound { .. })));
    assert!(matches!(start(&plain, &[], here), Err(StartError::NotExecutable { .. })));
    assert!(matches!(start("./plain", &[], here), Err(StartError::NotExecutable { .. })));
    assert!(matches!(start(&no_interpreter, &[], here), Err(StartError::NotExecutable { .. })));
    assert!(matches!(start(&nonsense, &[], here), Err(StartError::NotExecutable { .. })));
    assert!(matches!(start("true", &[], &here.join("gone")), Err(StartError::NoFolder { .. })));
    assert!(matches!(start("true", &[], Path::new(&plain)), Err(StartError::NoFolder { .. })));
    let long = OsString::from("x".repeat(3_000_000));
    assert!(matches!(start("true", &[long], here), Err(StartError::TooLong { .. })));
    assert!(matches!(start("true", &["nul\0".into()], here), Err(StartError::Other { .. })));
    assert_eq!(start("true", &[], here).unwrap().how, How::Exited(0));
}

#[test]
fn a_child_that_reads_gets_its_input_and_then_the_end() {
    let input: Vec<u8> = (0..3_000_000u32).map(|n| n as u8).collect();
    let ended = Child { stdin: &input, ..Child::default() }.run("wc -c");
    assert_eq!(text(&ended.stdout.head), "3000000");
    assert_eq!(text(&sh("cat; echo end").stdout.head), "end");
}

#[test]
fn a_child_that_does_not_read_its_input_is_left_in_peace() {
    let input = vec![b'x'; 3_000_000];
    let ended = Child { stdin: &input, ..Child::default() }.run("exec 0<&-; sleep 0.1; echo ok");
    assert_eq!((ended.how, text(&ended.stdout.head)), (How::Exited(0), "ok".into()));
    assert_eq!(Child { stdin: &input, ..Child::default() }.run("exit 4").how, How::Exited(4));
}

#[test]
fn a_flood_is_counted_and_not_kept() {
    let ended = sh("echo first; head -c 1000000000 /dev/zero; echo last");
    assert_eq!(ended.how, How::Exited(0));
    assert_eq!(ended.stdout.bytes, 1_000_000_011);
    assert_eq!((ended.stdout.head.len(), ended.stdout.tail.len()), (KEEP.head, KEEP.tail));
    assert!(ended.stdout.head.starts_with(b"first\n") && ended.stdout.tail.ends_with(b"last\n"));
}

#[test]
fn a_flood_does_not_outlive_its_deadline() {
    let ended = Child { deadline: Duration::from_millis(200), ..Child::default() }.run("yes & yes >&2");
    assert_eq!(ended.how, How::TimedOut);
    assert!(ended.duration < SOON, "{:?}", ended.duration);
}

#[test]
fn a_child_that_heeds_the_deadline_ends_at_once_and_has_still_timed_out() {
    let child = Child { deadline: STARTED, grace: AMPLE, ..Child::default() };
    let ended = child.run("trap 'echo bye; exit 0' TERM; while :; do sleep 0.01; done");
    assert_eq!((ended.how, text(&ended.stdout.head)), (How::TimedOut, "bye".into()));
    assert!(ended.duration < SOON, "{:?}", ended.duration);
}

#[test]
fn a_child_that_ignores_being_asked_is_made_to_end() {
    let child = Child { deadline: STARTED, ..Child::default() };
    let ended = child.run("trap '' TERM; echo $$; while :; do sleep 0.01; done");
    assert_eq!(ended.how, How::TimedOut);
    assert!(ended.duration >= STARTED + Duration::from_millis(140), "no grace: {:?}", ended.duration);
    assert!(ended.duration < SOON, "{:?}", ended.duration);
    assert!(!lives(text(&ended.stdout.head).parse().unwrap()));
}

#[test]
fn children_that_ignore_being_asked_do_not_outlive_their_parent() {
    let ended = sh(
        "f=$(mktemp); for i in 1 2 3; do (trap '' TERM HUP; echo $BASHPID; echo $i >> $f; while :; do sleep 0.01; done) & done
        until [ $(wc -l < $f) = 3 ]; do sleep 0.01; done; rm $f",
    );
    assert_eq!(ended.how, How::Exited(0));
    let pids: Vec<i32> = text(&ended.stdout.head).lines().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| !lives(*pid)), "{pids:?}");
    assert!(ended.survivors.is_empty(), "{:?}", ended.survivors);
}

#[test]
fn a_background_child_that_holds_the_output_open_does_not_hold_us() {
    let ended = sh("sleep 600 & echo $!; exit 5");
    assert_eq!(ended.how, How::Exited(5));
    assert!(ended.duration < SOON, "{:?}", ended.duration);
    assert!(!lives(text(&ended.stdout.head).parse().unwrap()));
}

#[test]
fn a_stopped_child_still_hears_the_deadline() {
    let ended = Child { deadline: Duration::from_millis(100), ..Child::default() }.run("kill -STOP $$");
    assert_eq!(ended.how, How::TimedOut);
    assert!(ended.duration < SOON, "{:?}", ended.duration);
}

#[test]
fn a_stop_ends_the_child_before_its_time() {
    let stop = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            stop.store(true, Ordering::Relaxed);
        });
        Child { stop: Some(&stop), ..Child::default() }.run("sleep 600")
    });
    assert_eq!(ended.how, How::Stopped);
    assert!(ended.duration < SOON, "{:?}", ended.duration);
}

#[test]
fn any_bytes_are_kept_as_they_came() {
    let ended = sh(r"printf '\x00\xff\xfe\x80ok'; head -c 300 /dev/urandom >&2");
    assert_eq!(ended.stdout.head, b"\x00\xff\xfe\x80ok");
    assert_eq!(ended.stderr.bytes, 300);
}

#[test]
fn many_children_at_once_do_not_disturb_each_other() {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for code in 0..20 {
                    let ended = sh(&format!("(sleep 30 &) ; echo {thread}; exit {code}"));
                    assert_eq!(ended.how, How::Exited(code));
                    assert_eq!(text(&ended.stdout.head), thread.to_string());
                    assert!(ended.survivors.is_empty(), "{:?}", ended.survivors);
                }
            });
        }
    });
}

#[test]
fn descriptors_are_given_back() {
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    sh("true");
    let before = count();
    for _ in 0..50 {
        sh("echo a; echo b >&2");
    }
    // Other tests open and close descriptors at the same time.
    eventually("as many descriptors as before", || count() <= before + 30);
}
