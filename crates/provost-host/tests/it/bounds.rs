//! Tests children that exceed the limits, and children that are hard to kill.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use provost_host::process::{
    Bounds, Enclosure, HeadAndTail, How, LimitKind, ProcessEnd, Spawn, StartError, become_subreaper,
    cgroups_offered, run,
};
use provost_rehearsal::skip;
use tempfile::TempDir;

use crate::{lives, tag};

const AMPLE: Bounds = Bounds { disk: 1 << 40, memory: 1 << 40, processes: 1 << 20 };

fn sh(script: &str, cwd: &Path, bounds: Bounds) -> ProcessEnd {
    start("bash", &["-c", script], cwd, bounds, Enclosure::None).unwrap()
}

fn start(
    program: &str,
    args: &[&str],
    cwd: &Path,
    bounds: Bounds,
    enclosure: Enclosure<'_>,
) -> Result<ProcessEnd, StartError> {
    become_subreaper().unwrap();
    run(Spawn {
        program: OsStr::new(program),
        args: &args.iter().map(Into::into).collect::<Vec<_>>(),
        cwd,
        env: &[("PATH".into(), "/usr/bin:/bin".into())],
        stdin: b"",
        deadline: Duration::from_secs(600),
        grace: Duration::from_secs(5),
        keep: HeadAndTail { head: 4096, tail: 4096 },
        tag: &tag(),
        stop: None,
        tee: None,
        bounds: Some(bounds),
        enclosure,
    })
}

/// A folder on a file system that other processes write little to.
fn quiet_folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

#[track_caller]
fn over(ended: &ProcessEnd) -> (LimitKind, u64) {
    match ended.how {
        How::OverBounds(exceeded) => {
            assert!(exceeded.used > exceeded.allowed, "{exceeded:?}");
            (exceeded.bound, exceeded.allowed)
        }
        how => panic!("{how:?}: {}", String::from_utf8_lossy(&ended.stderr.head)),
    }
}

#[test]
fn one_that_stays_within_its_bounds_is_let_be() {
    let folder = quiet_folder();
    let script = "head -c 100000 /dev/zero > a; sleep 0.8; echo $(wc -c < a)";
    let bounds = Bounds { disk: 1 << 20, memory: 256 << 20, processes: 20 };
    let ended = sh(script, folder.path(), bounds);
    assert_eq!((ended.how, ended.stdout.head.as_slice()), (How::Exited(0), &b"100000\n"[..]));
}

#[test]
fn memory_of_all_processes_together_is_bounded() {
    let script =
        "hold() { head -c 80M /dev/zero | tail -c 80M | (sleep 300; cat > /dev/null); }; hold & hold & wait";
    let ended = sh(script, Path::new("/"), Bounds { memory: 120 << 20, ..AMPLE });
    assert_eq!(over(&ended), (LimitKind::Memory, 120 << 20));
    assert!(ended.duration < Duration::from_secs(120), "{:?}", ended.duration);
    assert!(ended.survivors.is_empty(), "{:?}", ended.survivors);
}

#[test]
fn one_that_left_its_session_is_counted_too() {
    let script =
        "setsid --fork sh -c 'head -c 90M /dev/zero | tail -c 90M | sleep 301' > /dev/null 2>&1; sleep 300";
    let ended = sh(script, Path::new("/"), Bounds { memory: 64 << 20, ..AMPLE });
    assert_eq!(over(&ended).0, LimitKind::Memory);
}

#[test]
fn files_in_the_folder_are_bounded_together() {
    let folder = quiet_folder();
    let script = "for n in $(seq 400); do head -c 1M /dev/zero > $n; sleep 0.05; done";
    let ended = sh(script, folder.path(), Bounds { disk: 8 << 20, ..AMPLE });
    assert_eq!(over(&ended), (LimitKind::Disk, 8 << 20));
    let written = std::fs::read_dir(folder.path()).unwrap().count();
    assert!(written < 200, "{written} MiB were written");
}

#[test]
fn a_file_without_a_name_is_counted_too() {
    let folder = quiet_folder();
    // Several files, each smaller than the limit.
    let script = "for n in 3 4 5 6 7 8; do eval \"exec $n> gone\"; rm gone; head -c 4M /dev/zero >&$n; done; sleep 300";
    let ended = sh(script, folder.path(), Bounds { disk: 8 << 20, ..AMPLE });
    assert_eq!(over(&ended).0, LimitKind::Disk);
}

#[test]
fn what_was_there_before_does_not_count() {
    let folder = quiet_folder();
    std::fs::write(folder.path().join("old"), vec![1; 32 << 20]).unwrap();
    // File times are a little behind the clock.
    let old = std::fs::metadata(folder.path().join("old")).unwrap();
    crate::eventually("a moment later", || {
        old.modified().unwrap().elapsed().unwrap() > Duration::from_millis(50)
    });
    let script = "for n in 1 2 3 4 5; do head -c 1M /dev/zero > $n; done; sleep 0.8";
    let ended = sh(script, folder.path(), Bounds { disk: 8 << 20, ..AMPLE });
    assert_eq!(ended.how, How::Exited(0));
}

#[test]
fn no_single_file_is_larger_than_the_bound() {
    let folder = TempDir::new().unwrap();
    let script = "until [ $(ulimit -f) != unlimited ]; do :; done; (head -c 3M /dev/zero > large); (truncate -s 1G hole); ulimit -f";
    let ended = sh(script, folder.path(), Bounds { disk: 1 << 20, ..AMPLE });
    assert_eq!(ended.stdout.head, b"1024\n");
    let size = |name: &str| std::fs::metadata(folder.path().join(name)).map_or(0, |found| found.len());
    assert_eq!((size("large"), size("hole")), (1 << 20, 0));
}

#[test]
fn the_number_of_processes_is_bounded() {
    let ended =
        sh("for n in $(seq 30); do sleep 20 & done; wait", Path::new("/"), Bounds { processes: 20, ..AMPLE });
    assert_eq!(over(&ended), (LimitKind::Processes, 20));
}

/// Replaces itself by a child all the time, in its own session, until its time is over or it is killed. The
/// file is locked while one of these processes lives.
const HOPPER: &str = r#"
    use Fcntl ":flock"; use POSIX ();
    open(my $lock, ">", $ARGV[0]); flock($lock, LOCK_EX);
    POSIX::dup2(POSIX::open("/dev/null", POSIX::O_RDWR()), $_) for 0..2;
    my $end = time + 20;
    while (time < $end) {
        POSIX::setsid();
        my $child = fork;
        POSIX::_exit(0) if $child;
        select(undef, undef, undef, $ARGV[1]) if $ARGV[1];
    }"#;

fn is_free(lock: &Path) -> bool {
    File::open(lock).unwrap().try_lock().is_ok()
}

fn can_hop() -> bool {
    let can = Command::new("perl").args(["-MPOSIX", "-e", "1"]).status().is_ok_and(|status| status.success());
    if !can {
        skip::tool("perl", "apt-get install perl");
    }
    can
}

/// Runs alone in its process: every process without a tag belongs to it.
#[test]
fn one_that_becomes_another_all_the_time_is_dead_afterwards() {
    if !can_hop() {
        return;
    }
    if std::env::var_os("ALONE").is_none() {
        return alone("bounds::one_that_becomes_another_all_the_time_is_dead_afterwards");
    }
    let folder = TempDir::new().unwrap();
    for (number, pause) in ["0.001", "0", "0.0002"].iter().cycle().take(15).enumerate() {
        let lock = folder.path().join(number.to_string());
        let script = format!(
            "perl -e '{}' {} {pause} & until [ -e {} ]; do :; done; sleep 0.02",
            HOPPER.replace('\'', "'\\''"),
            lock.display(),
            lock.display()
        );
        let ended = sh(&script, folder.path(), AMPLE);
        assert_eq!(ended.how, How::Exited(0), "{}", String::from_utf8_lossy(&ended.stderr.head));
        assert!(is_free(&lock), "round {number}, pause {pause}: it lives");
        assert!(ended.survivors.is_empty(), "{:?}", ended.survivors);
    }
}

#[test]
fn in_a_cgroup_nothing_is_mistaken_for_anothers() {
    if !can_hop() {
        return;
    }
    let home = match cgroups_offered() {
        Ok(home) => home,
        Err(why) => return skip::tool("cgroups", why),
    };
    let folder = TempDir::new().unwrap();
    let sh =
        |script: &str| start("bash", &["-c", script], folder.path(), AMPLE, Enclosure::IfLasting).unwrap();
    let script = |lock: &Path| {
        format!(
            "until grep 0::.*provost- /proc/self/cgroup; do :; done; env -i perl -e '{}' {} 0.001 & until [ -e {} ]; do :; done; sleep 0.02",
            HOPPER.replace('\'', "'\\''"),
            lock.display(),
            lock.display()
        )
    };
    // The process has no variable that identifies its run, and another run exists at the same time.
    let ours = std::thread::scope(|scope| {
        let other = scope.spawn(|| sh("sleep 1"));
        let lock = folder.path().join("lock");
        let ended = sh(&script(&lock));
        assert!(is_free(&lock), "it lives");
        assert!(ended.survivors.is_empty(), "{:?}", ended.survivors);
        assert_eq!(other.join().unwrap().how, How::Exited(0));
        String::from_utf8(ended.stdout.head).unwrap()
    });
    let own = ours.lines().find_map(|line| line.strip_prefix("0::")).unwrap().rsplit('/').next().unwrap();
    assert!(own.starts_with("provost-"), "{own}");
    assert!(!home.join(own).exists(), "it was not removed");
}

#[test]
fn the_cgroups_of_a_harness_that_died_are_ended() {
    let Ok(home) = cgroups_offered() else { return skip::tool("cgroups", "a cgroup that may be divided") };
    if std::env::var_os("ALONE").is_none() {
        // A cgroup of a process that is dead, with a living process in it.
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
        let namespace = namespace.to_str().unwrap().trim_matches(|c: char| !c.is_ascii_digit());
        let left = home.join(format!("provost-{namespace}-1-1-{}", std::process::id()));
        std::fs::create_dir(&left).unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(left.join("cgroup.procs"), child.id().to_string()).unwrap();
        alone("bounds::the_cgroups_of_a_harness_that_died_are_ended");
        let lived = lives(child.id().cast_signed());
        let _ = (child.kill(), child.wait());
        assert!(!lived && !left.exists());
    }
}

/// Runs one test in a separate process.
fn alone(test: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let done = command.args(["--exact", test, "--nocapture"]).env("ALONE", "1").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
