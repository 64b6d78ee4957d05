//! Child processes of the bench: a writer that never pauses, a follower, and a runner that measures its own
//! usage.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use provost_store::{Log as _, Sqlite};

use crate::events::{Bare, Chain};
use crate::{measure, serve};

pub(crate) fn play(role: &str, words: Vec<String>) -> ExitCode {
    match (role, words.as_slice()) {
        ("--as-runner", [program, args @ ..]) => run(program, args),
        ("--as-writer", [folder]) => {
            let log = Sqlite::open(Path::new(folder)).expect("a log");
            let mut chain = Chain::new(&log, "beside");
            until_told(|| chain.decide().expect("a commit"))
        }
        ("--as-bare-writer", [folder]) => {
            let mut bare = Bare::open(Path::new(folder), 60_000);
            until_told(|| bare.decide().expect("a commit"))
        }
        ("--as-follower", [folder]) => follow(Path::new(folder)),
        ("--as-sse", []) => serve::bare(),
        #[cfg(feature = "cluster")]
        ("--as-bare-queue", [name]) => crate::cluster::bare_queue(name),
        #[cfg(feature = "cluster")]
        ("--as-dbos-steps", [count]) => crate::peer::dbos_steps(count),
        _ => ExitCode::from(2),
    }
}

/// Runs a program and prints what it and its children used: CPU seconds, and the memory of the largest one
/// in MB.
fn run(program: &str, args: &[String]) -> ExitCode {
    let before = measure::cpu_seconds();
    let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let cpu = measure::cpu_seconds() - before;
    println!("{cpu} {}", measure::largest_child_mb());
    ExitCode::from(u8::from(!status.is_ok_and(|status| status.success())))
}

/// Works without a pause until stdin ends.
fn until_told(mut work: impl FnMut()) -> ExitCode {
    let told = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::stdin().lock().read_line(&mut String::new());
            told.store(true, Ordering::Relaxed);
        });
        work();
        println!("begun");
        while !told.load(Ordering::Relaxed) {
            work();
        }
    });
    ExitCode::SUCCESS
}

/// Prints when it saw each append.
fn follow(folder: &Path) -> ExitCode {
    let log = Sqlite::open_existing(folder).expect("a log").expect("a log");
    let mut seen = log.cursor().expect("a cursor");
    println!("begun");
    loop {
        let now = log.wait(seen, Duration::from_secs(10)).expect("a wait");
        if now == seen {
            return ExitCode::SUCCESS;
        }
        seen = now;
        println!("{}", clock_ns());
        let _ = std::io::stdout().flush();
    }
}

pub(crate) fn clock_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// One of these processes, running.
pub(crate) struct Beside {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Beside {
    pub(crate) fn start(role: &str, folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .arg(role)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let stdout = BufReader::new(child.stdout.take().expect("its output"));
        let stdin = child.stdin.take();
        let mut beside = Self { child, stdin, stdout };
        assert_eq!(beside.line(), "begun");
        beside
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
