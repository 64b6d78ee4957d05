//! Runs one command with bash, in a process group of its own.
//!
//! **Invariant:** when a [`Group`] is dropped, its processes are dead. provost itself finds processes that
//! left the group.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Child;
use tokio::time::{Instant, timeout_at};

use super::ToolAnswer;
use super::files::Workspace;

/// Kept part of an output: its first and its last bytes.
pub(super) const HEAD: usize = 256 * 1024;
pub(super) const TAIL: usize = 256 * 1024;
/// Time to read the pipes after the end, because a process outside of the group may hold them open.
const DRAIN: Duration = Duration::from_millis(200);

/// Kills the process group on drop, also if the call is cancelled.
pub(super) struct Group {
    pub(super) child: Child,
    id: Option<Pid>,
}

impl Group {
    pub(super) fn kill(&mut self) {
        if let Some(id) = self.id.take() {
            // A launcher that has not made its group yet is alone.
            if kill_process_group(id, Signal::KILL).is_err() {
                let _ = kill_process(id, Signal::KILL);
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a command with bash, in a process group of its own.
pub(super) fn start(workspace: &Workspace, folder: &Path, line: &str) -> Result<Group, String> {
    let mut command = workspace.command("bash");
    command.arg("-c").arg(line).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("bash could not be started: {error}"))?;
    let id = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    Ok(Group { child, id })
}

/// Returns how a command ended, in words.
pub(super) fn ended_how(status: ExitStatus) -> String {
    match (status.code(), std::os::unix::process::ExitStatusExt::signal(&status)) {
        (Some(code), _) => format!("exit code {code}"),
        (None, signal) => format!("ended by signal {}", signal.unwrap_or_default()),
    }
}

/// Runs a command in a folder until it ends or its time is over.
pub(super) async fn run_in(workspace: &Workspace, folder: &Path, line: &str, limit: Duration) -> ToolAnswer {
    let mut group = start(workspace, folder, line)?;
    let deadline = Instant::now() + limit;
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
            "it was ended after {} s; give it more with timeout_seconds, or do less at once\n{output}",
            limit.as_secs()
        )),
        Some(Err(error)) => Err(format!("provost did not see its end: {error}\n{output}")),
        Some(Ok(status)) => {
            let how = ended_how(status);
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
) -> Option<std::io::Result<ExitStatus>> {
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
pub(super) async fn hear<O: AsyncRead + Unpin, E: AsyncRead + Unpin>(
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
pub(super) struct Said {
    head: Vec<u8>,
    tail: Vec<u8>,
    dropped: usize,
}

impl Said {
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// Returns the first bytes, which are all of a short output.
    pub(super) fn first(&self) -> &[u8] {
        &self.head
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
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

    pub(super) fn text(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        let tail = String::from_utf8_lossy(&self.tail);
        match self.dropped {
            0 => format!("{head}{tail}"),
            dropped => format!("{head}\n[… {dropped} bytes were not kept …]\n{tail}"),
        }
    }
}
