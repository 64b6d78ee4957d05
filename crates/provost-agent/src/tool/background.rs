//! Commands that go on while the model does something else, such as a server under test.
//!
//! **Invariant:** all of them are dead when the tools are dropped, which is at the end of the run.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::command::{Group, Said, ended_how, hear};
use super::{Tool, ToolAnswer};

/// Most commands at the same time.
const MOST: usize = 8;
const WAIT_MAX: u64 = 300;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShellOutput {
    /// The number that shell gave.
    shell: u64,
    /// Seconds to wait for output or for its end, if there is none yet. Default 0.
    #[serde(default)]
    wait_seconds: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShellEnd {
    /// The number that shell gave.
    shell: u64,
}

/// The commands in the background, shared by their tools.
#[derive(Clone, Default)]
pub(super) struct Shells {
    all: Arc<Mutex<Numbered>>,
}

#[derive(Default)]
struct Numbered {
    last: u64,
    shells: BTreeMap<u64, Background>,
}

struct Background {
    group: Group,
    heard: Arc<Heard>,
    reader: JoinHandle<()>,
    ended: Option<ExitStatus>,
}

/// What a command printed since it was last shown.
#[derive(Default)]
struct Heard {
    unread: Mutex<Said>,
    more: Notify,
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.group.kill();
        self.reader.abort();
    }
}

impl Background {
    /// Returns how the command ended, if it has.
    fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.group.child.try_wait().ok().flatten();
            if self.ended.is_some() {
                self.group.kill();
            }
        }
        self.ended
    }
}

impl Shells {
    fn lock(&self) -> MutexGuard<'_, Numbered> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a started command; the answer has its number.
    pub(super) fn keep(&self, mut group: Group) -> ToolAnswer {
        let mut all = self.lock();
        let running =
            all.shells.values_mut().filter_map(|shell| shell.ended().is_none().then_some(())).count();
        if running >= MOST {
            return Err(format!("{MOST} commands run in the background already; end one with shell_end"));
        }
        let (mut out, mut err) = (group.child.stdout.take(), group.child.stderr.take());
        let heard = Arc::<Heard>::default();
        let to = heard.clone();
        let reader = tokio::spawn(async move {
            while out.is_some() || err.is_some() {
                let mut piece = Said::default();
                hear(&mut out, &mut err, &mut piece).await;
                to.lock().push(piece.first());
                to.more.notify_one();
            }
        });
        all.last += 1;
        let number = all.last;
        all.shells.insert(number, Background { group, heard, reader, ended: None });
        Ok(format!(
            "shell {number} runs in the background; shell_output shows what it prints, shell_end ends it"
        ))
    }

    /// Returns what a command printed since the last time, after a wait if there is nothing.
    async fn output(&self, number: u64, wait: Duration) -> ToolAnswer {
        let heard = self.lock().find(number)?.heard.clone();
        let deadline = Instant::now() + wait;
        loop {
            // Before the output is taken, so that the last of it is not lost.
            let ended = self.lock().find(number)?.ended();
            let is_read = self.lock().find(number)?.reader.is_finished();
            let has_news = !heard.lock().is_empty() || ended.is_some() && is_read;
            if has_news || Instant::now() >= deadline {
                let text = std::mem::take(&mut *heard.lock()).text();
                let state = ended.map_or_else(|| "running".to_owned(), ended_how);
                return Ok(if text.is_empty() { state } else { format!("{state}\n{text}") });
            }
            // A command that closed its output may still run.
            let next = deadline.min(Instant::now() + Duration::from_millis(100));
            let _ = timeout_at(next, heard.more.notified()).await;
        }
    }

    fn end(&self, number: u64) -> ToolAnswer {
        let mut all = self.lock();
        let shell = all.find(number)?;
        let how =
            shell.ended().map_or_else(|| "ended".to_owned(), |it| format!("it had ended: {}", ended_how(it)));
        shell.group.kill();
        let text = shell.heard.lock().text();
        all.shells.remove(&number);
        Ok(if text.is_empty() { how } else { format!("{how}\n{text}") })
    }
}

impl Numbered {
    fn find(&mut self, number: u64) -> Result<&mut Background, String> {
        let known: Vec<String> = self.shells.keys().map(u64::to_string).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        self.shells.get_mut(&number).ok_or_else(|| format!("there is no shell {number} (there are: {known})"))
    }
}

/// Returns the tools that read and end commands in the background.
pub(super) fn tools(shells: &Shells) -> Vec<Tool> {
    let (read, ended) = (shells.clone(), shells.clone());
    vec![
        Tool::new(
            "shell_output",
            "Shows what a command in the background printed since the last time, and whether it still runs.",
            move |ask: ShellOutput| {
                let shells = read.clone();
                async move { shells.output(ask.shell, Duration::from_secs(ask.wait_seconds.min(WAIT_MAX))).await }
            },
        ),
        Tool::new(
            "shell_end",
            "Ends a command in the background with everything it started, and shows its last output.",
            move |ask: ShellEnd| std::future::ready(ended.end(ask.shell)),
        ),
    ]
}
