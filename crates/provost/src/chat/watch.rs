//! Asks the person before the agent changes a file or runs a command, and shows what a call answered.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_agent::chat::{ToolWatch, WatchedCall};
use provost_agent::tool::ToolAnswer;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::gate::ChatGate;
use super::{preview, slash};
use crate::failure::Failure;
use crate::terminal;

/// Lines of an answer that are shown.
const SHOWN: usize = 6;
/// Prefix of the tools of provost's own server; what they do is judged or asked elsewhere.
const OWN: &str = "provost__";

/// The keyboard: messages and answers of the person.
pub(super) struct Input {
    editor: Mutex<DefaultEditor>,
    history: PathBuf,
    /// The chat answers one message (`-p`), so it asks no questions.
    is_silent: bool,
}

/// An answer to a question about a call.
enum Permission {
    Once,
    Always,
    /// With the reason, if there is one.
    No(String),
}

impl Input {
    pub(super) fn open(state: &Path, is_silent: bool) -> Result<Self, Failure> {
        let failed = |error: ReadlineError| Failure::Io {
            what: "open the terminal".to_owned(),
            source: std::io::Error::other(error),
        };
        let mut editor = DefaultEditor::new().map_err(failed)?;
        let history = state.join("chats").join("history");
        // The first conversation has no history yet.
        let _ = editor.load_history(&history);
        Ok(Self { editor: Mutex::new(editor), history, is_silent })
    }

    fn editor(&self) -> MutexGuard<'_, DefaultEditor> {
        self.editor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the next message; `None` at the end of the input. A line that ends in `\` goes on.
    pub(super) fn message(&self) -> Result<Option<String>, Failure> {
        let mut editor = self.editor();
        let (mut text, mut prompt) = (String::new(), "\n> ");
        loop {
            match editor.readline(prompt) {
                Ok(line) => match line.strip_suffix('\\') {
                    Some(part) => {
                        text.push_str(part);
                        text.push('\n');
                        prompt = "  ";
                    }
                    None => {
                        text.push_str(&line);
                        break;
                    }
                },
                // Ctrl-C drops the line.
                Err(ReadlineError::Interrupted) => (text, prompt) = (String::new(), "\n> "),
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => {
                    let source = std::io::Error::other(error);
                    return Err(Failure::Io { what: "read from the terminal".to_owned(), source });
                }
            }
        }
        let _ = editor.add_history_entry(text.trim());
        let kept = slash::make_folder(&self.history)
            .and_then(|()| editor.save_history(&self.history).map_err(std::io::Error::other));
        if let Err(error) = kept {
            terminal::talk(&format!("the history could not be saved: {error}"));
        }
        Ok(Some(text))
    }

    /// Asks about a call. Anything but a yes is a no.
    fn permission(&self, what: &str) -> Permission {
        if self.is_silent {
            return Permission::No("`provost chat -p` asks no questions, so it refuses changes and commands; `--yes` allows them".to_owned());
        }
        let question = format!("{what}? (yes · always · no, because …) > ");
        let line = self.editor().readline(&question).unwrap_or_default();
        let line = line.trim();
        match line.to_lowercase().as_str() {
            "y" | "yes" => Permission::Once,
            "a" | "always" => Permission::Always,
            "" | "n" | "no" => Permission::No(String::new()),
            _ => {
                let reason = line.strip_prefix("no").unwrap_or(line).trim_start_matches([',', ' ']);
                Permission::No(reason.to_owned())
            }
        }
    }
}

/// Watches the calls of the agent.
pub(super) struct TerminalWatch {
    input: Arc<Input>,
    gate: Arc<ChatGate>,
    folder: PathBuf,
    allow_all: bool,
    /// Kinds of calls that the person allowed for the whole conversation.
    allowed: Mutex<BTreeSet<String>>,
    /// One question at a time.
    asking: Mutex<()>,
}

impl TerminalWatch {
    pub(super) fn new(input: Arc<Input>, gate: Arc<ChatGate>, folder: &Path, allow_all: bool) -> Self {
        let (allowed, asking) = (Mutex::default(), Mutex::new(()));
        Self { input, gate, folder: folder.to_owned(), allow_all, allowed, asking }
    }
}

impl ToolWatch for TerminalWatch {
    fn before(&self, call: &WatchedCall<'_>) -> Result<(), String> {
        // What a server says about its own tools does not count.
        let is_local = !call.tool.contains("__") && call.tool != "fetch";
        if call.reads_only && is_local || call.tool.starts_with(OWN) {
            return Ok(());
        }
        let _one = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let preview = preview::of(call.tool, call.arguments, &self.folder);
        preview.lines.iter().for_each(|line| terminal::talk(line));
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.allow_all || allowed.contains(&preview.kind) {
            return Ok(());
        }
        match self.input.permission(&preview.question) {
            Permission::Once => Ok(()),
            Permission::Always => {
                allowed.insert(preview.kind);
                Ok(())
            }
            Permission::No(reason) if reason.is_empty() => {
                Err("The person did not allow this. Ask what to do instead.".to_owned())
            }
            Permission::No(reason) => Err(format!("The person did not allow this: {reason}")),
        }
    }

    fn after(&self, call: &WatchedCall<'_>, answer: ToolAnswer) -> ToolAnswer {
        if !call.reads_only {
            let (mark, text) = match &answer {
                Ok(text) => ("  ", text),
                Err(text) => ("✗ ", text),
            };
            // The answer to a plan is about the gate, which follows.
            let shown = if call.tool.ends_with("plan_create") && answer.is_ok() { 1 } else { SHOWN };
            for line in text.lines().take(shown) {
                terminal::talk(&terminal::coloured(&format!("  {mark}{line}"), "2"));
            }
            let more = text.lines().count().saturating_sub(shown);
            if more > 0 && shown > 1 {
                let words = format!("    … {}", terminal::count(more, "more line"));
                terminal::talk(&terminal::coloured(&words, "2"));
            }
        }
        if !call.tool.starts_with(OWN) || answer.is_err() {
            return answer;
        }
        match (answer, self.gate.ask()) {
            (Ok(text), Some(Ok(decision))) => Ok(format!("{text}\n\n{decision}")),
            (Ok(_), Some(Err(refusal))) => Err(refusal),
            (answer, _) => answer,
        }
    }
}
