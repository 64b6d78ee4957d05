//! Asks Codex which hooks it trusts. Only Codex knows how it computes its trust digests and which files it
//! reads.
//!
//! **Invariant:** asking does not change the configuration of Codex.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clients::Ground;

/// It usually answers within a second.
const PATIENCE: Duration = Duration::from_secs(10);

/// One of provost's hooks, as Codex sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hook {
    /// Key of its trust entry.
    pub key: String,
    /// Digest that would be trusted.
    pub digest: String,
    /// The file it is in.
    pub file: PathBuf,
    pub is_trusted: bool,
    /// A person may have disabled it.
    pub is_enabled: bool,
}

/// Returns provost's hooks that Codex finds for this workspace, or would find if it trusted it. `None` if
/// there is no Codex or it does not answer.
pub(super) fn hooks(ground: &Ground) -> Option<Vec<Hook>> {
    let mut talk = Talk::begin(ground)?;
    let who = json!({ "name": "provost", "title": "provost", "version": env!("CARGO_PKG_VERSION") });
    talk.ask(1, "initialize", json!({ "clientInfo": who }))?;
    talk.say(&json!({ "method": "initialized" }))?;
    let listed = talk.ask(2, "hooks/list", json!({ "cwds": [ground.workspace] }))?;
    let all = listed.pointer("/data/0/hooks")?.as_array()?;
    Some(all.iter().filter_map(hook).collect())
}

fn hook(listed: &Value) -> Option<Hook> {
    let text = |name: &str| listed[name].as_str();
    if !text("command")?.contains(" hook codex") {
        return None;
    }
    Some(Hook {
        key: text("key")?.to_owned(),
        digest: text("currentHash")?.to_owned(),
        file: Path::new(text("sourcePath")?).to_owned(),
        is_trusted: matches!(text("trustStatus"), Some("trusted" | "managed")),
        is_enabled: listed["enabled"].as_bool().unwrap_or(true),
    })
}

/// A conversation with `codex app-server`, one line per message.
struct Talk {
    child: Child,
    lines: Receiver<String>,
    until: Instant,
}

impl Talk {
    fn begin(ground: &Ground) -> Option<Self> {
        let program = ground.program_on_path("codex")?;
        let project = toml::Value::String(ground.workspace.to_str()?.to_owned());
        // Codex lists no hooks of an untrusted project.
        let trusted = format!("projects={{{project}={{trust_level=\"trusted\"}}}}");
        let mut codex = Command::new(program);
        codex.args(["-c", &trusted, "--disable", "plugins", "app-server"]).current_dir(&ground.workspace);
        codex.env_clear().envs(ground.environment.iter().cloned());
        codex.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = codex.spawn().ok()?;
        let said = BufReader::new(child.stdout.take()?);
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Some(Self { child, lines, until: Instant::now() + PATIENCE })
    }

    fn say(&mut self, message: &Value) -> Option<()> {
        let stdin = self.child.stdin.as_mut()?;
        writeln!(stdin, "{message}").and_then(|()| stdin.flush()).ok()
    }

    fn ask(&mut self, id: u32, method: &str, params: Value) -> Option<Value> {
        self.say(&json!({ "id": id, "method": method, "params": params }))?;
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).ok()?;
            let Ok(mut message) = serde_json::from_str::<Value>(&line) else { continue };
            if message["id"] == json!(id) {
                return message.get_mut("result").map(Value::take);
            }
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // It ends when its input is closed; if not, it is killed.
        drop(self.child.stdin.take());
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
