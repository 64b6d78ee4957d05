//! Files through which the tools of an agent's client learn about its work.
//!
//! The log must stay out of an agent's reach. The MCP server that the client starts runs in the agent's
//! sandbox; it has these files and nothing else. It also stores there what the agent says about its step;
//! provost reads that after the attempt.
//!
//! **Invariant:** nothing here decides. An agent that writes these files itself has only made a statement.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use provost_core::model::plan::StepNumber;
use serde::{Deserialize, Serialize};

use crate::agent::{AttemptInput, Outbox};
use crate::files::safe_open;

/// The hidden subcommand that runs the MCP server.
pub const COMMAND: &str = "item-mcp";

const FOLDER: &str = "item";
const SAID: &str = "said.json";
const PLAN: &str = "plan.md";
const TASK: &str = "task.md";
const INDEX: &str = "index.json";
const SAID_MAX: u64 = 64 * 1024;
const POST_MAX: usize = 32 * 1024;

/// Data for the tools of a step's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepTools {
    /// The program with the subcommand.
    pub program: OsString,
    pub step: StepNumber,
    /// The plan with its current state.
    pub plan: String,
    /// The task: the prompt.
    pub task: String,
    /// Topics that the agent may read, with their text.
    pub topics: Vec<(String, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Index {
    step: StepNumber,
    reads: Vec<String>,
    publishes: Vec<String>,
}

/// Writes the files, if the agent has such tools.
pub fn lay_out(outbox: Outbox<'_>) -> io::Result<()> {
    let Some(item) = outbox.item else { return Ok(()) };
    let folder = outbox.folder.join(FOLDER);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(PLAN), &item.plan)?;
    fs::write(folder.join(TASK), &item.task)?;
    for (number, (_, text)) in item.topics.iter().enumerate() {
        fs::write(folder.join(format!("topic-{number}.md")), text)?;
    }
    let reads = item.topics.iter().map(|(name, _)| name.clone()).collect();
    let index = Index { step: item.step, reads, publishes: outbox.topics.to_vec() };
    fs::write(folder.join(INDEX), serde_json::to_vec(&index)?)
}

/// Returns the command that starts the MCP server.
pub fn server(work: &AttemptInput<'_>) -> Option<(String, Vec<String>)> {
    let outbox = work.outbox?;
    let program = outbox.item?.program.to_string_lossy().into_owned();
    Some((program, vec![COMMAND.to_owned(), outbox.folder.to_string_lossy().into_owned()]))
}

/// An agent's statement about its step, made with a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatement {
    /// `true`: the agent cannot continue; `false`: it believes that the step is done.
    pub blocked: bool,
    pub text: String,
}

/// Reads the last statement. Call it when no process of the attempt is alive.
pub fn said(outbox: Outbox<'_>) -> Option<AgentStatement> {
    outbox.item?;
    let folder = safe_open::top(outbox.folder).ok()?;
    let file = safe_open::file(&folder, SAID.as_bytes()).ok()?;
    if safe_open::stamp(&file).ok()?.kind() != rustix::fs::FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(SAID_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice::<AgentStatement>(&bytes).ok().filter(|saying| !saying.text.trim().is_empty())
}

/// The files, as the MCP server sees them.
#[derive(Debug)]
pub struct ItemFiles {
    outbox: PathBuf,
    index: Index,
}

impl ItemFiles {
    pub fn open(outbox: &Path) -> io::Result<Self> {
        let bytes = fs::read(outbox.join(FOLDER).join(INDEX))?;
        Ok(Self { outbox: outbox.to_owned(), index: serde_json::from_slice(&bytes)? })
    }

    pub fn step(&self) -> StepNumber {
        self.index.step
    }

    pub fn plan(&self) -> io::Result<String> {
        fs::read_to_string(self.outbox.join(FOLDER).join(PLAN))
    }

    pub fn task(&self) -> io::Result<String> {
        fs::read_to_string(self.outbox.join(FOLDER).join(TASK))
    }

    pub fn reads(&self) -> &[String] {
        &self.index.reads
    }

    pub fn publishes(&self) -> &[String] {
        &self.index.publishes
    }

    /// Returns the text of a topic; `None` if the step does not read it.
    pub fn topic(&self, name: &str) -> Option<io::Result<String>> {
        let number = self.index.reads.iter().position(|known| known == name)?;
        Some(fs::read_to_string(self.outbox.join(FOLDER).join(format!("topic-{number}.md"))))
    }

    /// Appends to a topic that the step publishes. Returns its new length, or the reason why it was not
    /// appended.
    pub fn publish(&self, topic: &str, text: &str) -> Result<usize, String> {
        if !self.index.publishes.iter().any(|known| known == topic) {
            return Err(match self.index.publishes.as_slice() {
                [] => "this step may not publish: the plan has no `**publishes:**` for it".to_owned(),
                known => format!("this step may not publish to `{topic}`, only to {}", known.join(", ")),
            });
        }
        let path = self.outbox.join(format!("{topic}.md"));
        let before = fs::read_to_string(&path).unwrap_or_default();
        let whole = match before.trim_end() {
            "" => text.trim().to_owned(),
            before => format!("{before}\n\n{}", text.trim()),
        };
        if whole.len() > POST_MAX {
            return Err(format!("a step may publish at most {POST_MAX} bytes"));
        }
        fs::write(path, &whole).map_err(|error| error.to_string())?;
        Ok(whole.len())
    }

    pub fn say(&self, saying: &AgentStatement) -> io::Result<()> {
        fs::write(self.outbox.join(SAID), serde_json::to_vec(saying)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_laid_out_is_served_and_what_is_said_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let item = StepTools {
            program: "provost".into(),
            step: StepNumber(2),
            plan: "# Plan".to_owned(),
            task: "Do it.".to_owned(),
            topics: vec![("notes".to_owned(), "so far".to_owned())],
        };
        let topics = ["found".to_owned()];
        let outbox = Outbox { folder: folder.path(), topics: &topics, item: Some(&item) };
        lay_out(outbox).expect("laid out");
        let served = ItemFiles::open(folder.path()).expect("served");
        assert_eq!((served.step(), served.plan().expect("a plan").as_str()), (StepNumber(2), "# Plan"));
        assert_eq!(served.topic("notes").expect("known").expect("read"), "so far");
        assert!(served.topic("found").is_none() && served.topic("../said").is_none());
        assert_eq!(served.publish("found", "one"), Ok(3));
        assert_eq!(served.publish("found", "two"), Ok(8));
        assert!(served.publish("notes", "x").is_err() && served.publish("item/plan", "x").is_err());
        assert!(served.publish("found", &"x".repeat(POST_MAX)).is_err());
        assert_eq!(said(outbox), None);
        let saying = AgentStatement { blocked: false, text: "done it".to_owned() };
        served.say(&saying).expect("said");
        assert_eq!(said(outbox), Some(saying));
        assert_eq!(said(Outbox { item: None, ..outbox }), None, "nobody was given such a tool");
    }

    #[test]
    fn what_was_not_said_by_a_file_counts_for_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let item = StepTools {
            program: "p".into(),
            step: StepNumber(1),
            plan: String::new(),
            task: String::new(),
            topics: Vec::new(),
        };
        let outbox = Outbox { folder: folder.path(), topics: &[], item: Some(&item) };
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join(SAID)).expect("linked");
        assert_eq!(said(outbox), None);
        fs::remove_file(folder.path().join(SAID)).expect("removed");
        for text in ["", "{}", "{\"blocked\":false,\"text\":\" \"}", "[1]"] {
            fs::write(folder.path().join(SAID), text).expect("written");
            assert_eq!(said(outbox), None, "{text}");
        }
    }
}
