//! A shell for the model: one command at a time, with a timeout.
//!
//! **Invariant:** when a call ends in any way, its process group is dead. provost itself finds processes
//! that left the group.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout_at};

use super::files::Workspace;
use super::{Tool, ToolAnswer};

const DEADLINE: u64 = 120;
const DEADLINE_MAX: u64 = 1800;
/// Kept part of an output: its first and its last bytes.
const HEAD: usize = 256 * 1024;
const TAIL: usize = 256 * 1024;
/// Time to read the pipes after the end, because a process outside of the group may hold them open.
const DRAIN: Duration = Duration::from_millis(200);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Shell {
    /// Run by bash in the workspace. What it leaves in the background ends with it.
    command: String,
    /// Seconds it may take. Default 120.
    #[serde(default)]
    timeout_seconds: u64,
}

pub fn tool(workspace: &Workspace) -> Tool {
    let workspace = workspace.clone();
    let description = "Runs a command with bash in the workspace and shows its exit code and output. There is no \
                       terminal and nothing to type into it.";
    Tool::new("shell", description, move |ask: Shell| {
        let workspace = workspace.clone();
        async move { run(&workspace, &ask).await }
    })
}

/// Kills the process group on drop, also if the call is cancelled.
struct Group {
    child: Child,
    id: Option<Pid>,
}

impl Group {
    fn kill(&mut self) {
        if let Some(id) = self.id.take() {
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn run(workspace: &Workspace, ask: &Shell) -> ToolAnswer {
    if ask.command.trim().is_empty() {
        return Err("the command is empty".to_owned());
    }
    let seconds = if ask.timeout_seconds == 0 { DEADLINE } else { ask.timeout_seconds.min(DEADLINE_MAX) };
    let mut command = Command::new("bash");
    command.arg("-c").arg(&ask.command).current_dir(workspace.root()).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in &workspace.withheld {
        command.env_remove(variable);
    }
    let child = command.spawn().map_err(|error| format!("bash could not be started: {error}"))?;
    let id = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let mut group = Group { child, id };
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut said = Said::default();
    let (mut out, mut err) = (group.child.stdout.take(), group.child.stderr.take());
    let ended = listen(&mut group.child, &mut out, &mut err, &mut said, deadline).await;
    group.kill();
    if ended.is_none() {
        // Reap the killed shell, so that no zombie stays.
        let _ = group.child.wait().await;
    }
    // The last output may still be in the pipes.
    let _ = timeout_at(Instant::now() + DRAIN, async {
        while out.is_some() || err.is_some() {
            hear(&mut out, &mut err, &mut said).await;
        }
    })
    .await;
    let output = said.text();
    match ended {
        None => Err(format!(
            "it was ended after {seconds} s; give it more with timeout_seconds, or do less at once\n{output}"
        )),
        Some(Err(error)) => Err(format!("provost did not see its end: {error}\n{output}")),
        Some(Ok(status)) => {
            let how = match (status.code(), std::os::unix::process::ExitStatusExt::signal(&status)) {
                (Some(code), _) => format!("exit code {code}"),
                (None, signal) => format!("ended by signal {}", signal.unwrap_or_default()),
            };
            // A failed command is a normal answer, and often the expected one.
            Ok(if output.is_empty() { how } else { format!("{how}\n{output}") })
        }
    }
}

type Stream<T> = Option<T>;

async fn listen<O: AsyncRead + Unpin, E: AsyncRead + Unpin>(
    child: &mut Child,
    out: &mut Stream<O>,
    err: &mut Stream<E>,
    said: &mut Said,
    deadline: Instant,
) -> Option<std::io::Result<std::process::ExitStatus>> {
    timeout_at(deadline, async {
        loop {
            tokio::select! {
                ended = child.wait() => return ended,
                () = hear(out, err, said), if out.is_some() || err.is_some() => {}
            }
        }
    })
    .await
    .ok()
}

/// Waits until one of the streams has data or ends.
async fn hear<O: AsyncRead + Unpin, E: AsyncRead + Unpin>(
    out: &mut Stream<O>,
    err: &mut Stream<E>,
    said: &mut Said,
) {
    let (mut one, mut other) = ([0; 8192], [0; 8192]);
    tokio::select! {
        read = next(out, &mut one) => match read {
            0 => *out = None,
            length => said.push(&one[..length]),
        },
        read = next(err, &mut other) => match read {
            0 => *err = None,
            length => said.push(&other[..length]),
        },
    }
}

/// Reads from a stream; a closed one is never ready.
async fn next<R: AsyncRead + Unpin>(stream: &mut Stream<R>, buffer: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// An output of limited size.
#[derive(Default)]
struct Said {
    head: Vec<u8>,
    tail: Vec<u8>,
    dropped: usize,
}

impl Said {
    fn push(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(rest);
        // Drain rarely, because it moves the whole buffer.
        if self.tail.len() > 2 * TAIL {
            let over = self.tail.len() - TAIL;
            self.tail.drain(..over);
            self.dropped += over;
        }
    }

    fn text(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        let tail = String::from_utf8_lossy(&self.tail);
        match self.dropped {
            0 => format!("{head}{tail}"),
            dropped => format!("{head}\n[… {dropped} bytes were not kept …]\n{tail}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shell(command: &str, timeout_seconds: u64) -> ToolAnswer {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::new(folder.path()).expect("a workspace").withhold("MODEL_API_KEY");
        run(&workspace, &Shell { command: command.to_owned(), timeout_seconds }).await
    }

    #[tokio::test]
    async fn the_exit_code_and_both_streams_are_shown() {
        let answer = shell("echo out; echo err >&2; exit 3", 0).await.expect("an answer");
        assert!(answer.starts_with("exit code 3\n"), "{answer}");
        assert!(answer.contains("out\n") && answer.contains("err\n"), "{answer}");
        assert_eq!(shell("true", 0).await.expect("an answer"), "exit code 0");
        assert!(shell("kill -9 $$", 0).await.expect("an answer").starts_with("ended by signal 9"));
        assert!(shell(" ", 0).await.is_err());
    }

    #[tokio::test]
    async fn a_deadline_ends_the_whole_group() {
        let started = std::time::Instant::now();
        let error =
            shell("echo $$; (sleep 600 & echo $!; wait) & sleep 600", 1).await.expect_err("a deadline");
        assert!(started.elapsed() < Duration::from_secs(200));
        assert!(error.starts_with("it was ended after 1 s"), "{error}");
        for id in error.lines().filter_map(|line| line.trim().parse::<u32>().ok()) {
            // The process is gone, or is a zombie that was not reaped yet.
            let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            assert!(state.is_empty() || state.contains(") Z "), "{id} is alive: {state}");
        }
    }

    #[tokio::test]
    async fn what_is_left_in_the_background_does_not_hold_the_answer() {
        let started = std::time::Instant::now();
        let answer = shell("sleep 600 & echo started", 60).await.expect("an answer");
        assert_eq!(answer, "exit code 0\nstarted\n");
        let answer = shell("setsid sleep 3 & echo started", 60).await.expect("an answer");
        assert_eq!(answer, "exit code 0\nstarted\n");
        assert!(started.elapsed() < Duration::from_secs(200));
    }

    #[tokio::test]
    async fn a_flood_is_kept_within_bounds() {
        let answer = shell("yes | head -c 3000000; echo last", 60).await.expect("an answer");
        assert!(answer.len() < HEAD + 2 * TAIL + 200, "{}", answer.len());
        assert!(answer.ends_with("last\n") && answer.contains("bytes were not kept"));
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = Workspace::new(folder.path()).expect("a workspace");
        let ask = Shell { command: "echo $$ > id; sleep 600".to_owned(), timeout_seconds: 60 };
        let file = folder.path().join("id");
        {
            let call = run(&workspace, &ask);
            tokio::pin!(call);
            while !std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')) {
                let _ = tokio::time::timeout(Duration::from_millis(5), &mut call).await;
            }
        }
        let id = std::fs::read_to_string(&file).expect("an id");
        let path = format!("/proc/{}/stat", id.trim());
        let is_gone = || std::fs::read_to_string(&path).map_or(true, |state| state.contains(") Z "));
        let patience = std::time::Instant::now();
        while !is_gone() {
            assert!(patience.elapsed() < Duration::from_secs(120), "still alive");
            tokio::task::yield_now().await;
        }
    }
}
