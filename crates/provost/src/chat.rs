//! `provost chat`: a conversation with the built-in agent in the terminal.
//!
//! The agent gets its plan tools from `provost mcp`, as any client does. The approval of a plan is asked for
//! here, in the process of the person, and never by the agent.

mod gate;
mod preview;
mod screen;
mod slash;
mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_agent::agent::RunEnd;
use provost_agent::builtin::BuiltinOptions;
use provost_agent::chat::Chat;
use provost_agent::tool::mcp_server::McpServer;
use provost_core::model::hash::Hash;
use provost_engine::manage::chat_role::{self, ChatRole, ChatRoleError};
use provost_engine::plan::sessions::ClientSession;
use provost_engine::session::agent_session::AgentSessions;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;
use gate::ChatGate;
use screen::Screen;
use slash::Slash;
use watch::{Input, TerminalWatch};

/// The hidden command that starts a program without this terminal: what the agent starts must not be able to
/// type into it.
pub(crate) const OWN_SESSION: &str = "own-session";
/// Most times in a row that an unfinished plan sends the agent back to work.
const SENT_BACK_MAX: u32 = 5;

/// Reads the options of the built-in agent's command.
pub(crate) type OptionReader = fn(Vec<OsString>) -> Result<BuiltinOptions, Failure>;

pub(crate) struct ChatOptions {
    /// Answer the first message and end.
    pub once: bool,
    pub first: Option<String>,
    pub role: Option<String>,
    pub model: Option<String>,
    pub allow_all: bool,
    pub resume: bool,
    /// The JSON Schema of the answer to a single message.
    pub answer_schema: Option<PathBuf>,
}

/// Opens the conversation and leads it to its end.
pub(crate) fn open(global: &Global, options: ChatOptions, read_options: OptionReader) -> Answer {
    let settings = global.settings_without_signals(None)?;
    let (cwd, state) = (settings.cwd.clone(), settings.state.clone());
    let environment = settings.environment.clone();
    let ChatRole { options: of_role, instructions } = role(&cwd, &options)?;
    let orders = read_options(of_role)?;
    let name = format!("chat-{}-{}", std::process::id(), terminal::now().0);
    let saved = state.join("chats").join(format!("{}.json", folder_name(&cwd)));
    let resume = options.resume && saved.exists();
    let orders = BuiltinOptions {
        servers: servers(global, orders.servers, &name)?,
        launcher: vec![own_program()?.into(), OWN_SESSION.into()],
        conversation: Some(saved.clone()),
        resume,
        answer_schema: options.answer_schema.as_deref().map(schema).transpose()?,
        ..orders
    };
    let sessions = AgentSessions::open(settings)?;
    let session = ClientSession::over_http(&cwd).named(&name);
    let gate = Arc::new(ChatGate::new(global.clone(), sessions, session));
    let input = Arc::new(Input::open(&state, options.once)?);
    let watch = Arc::new(TerminalWatch::new(input.clone(), gate.clone(), &cwd, options.allow_all));
    let variable = |name: &str| {
        let found = environment.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
    };
    let project =
        instructions.map(|(file, text)| format!("Instructions of the project, from {file}:\n\n{text}"));
    let project = project.unwrap_or_default();
    let chat = Chat::open(&orders, &cwd, &variable, &project, watch)
        .map_err(|error| Failure::usage(error.to_string(), "See docs/chat.md."))?;
    let mut talk = Talk { chat, screen: Screen::new(!options.once), input, gate, model: orders.model, saved };
    if resume {
        let count = terminal::count(talk.chat.messages(), "message");
        terminal::talk(&format!("the last conversation in this folder, with {count} of yours"));
    } else if options.resume {
        terminal::talk("there is no saved conversation of this folder: a new one");
    }
    if options.once {
        return talk.once(&options.first.unwrap_or_default());
    }
    talk.lead(options.first)
}

fn role(folder: &Path, options: &ChatOptions) -> Result<ChatRole, Failure> {
    chat_role::find(folder, options.role.as_deref(), options.model.as_deref()).map_err(|error| match error {
        ChatRoleError::Engine(error) => error.into(),
        other @ ChatRoleError::NotBuiltIn { .. } => Failure::usage(
            other.to_string(),
            "Give it `driver = \"builtin\"` in provost.toml, or use `--model MODEL`.",
        ),
        other @ ChatRoleError::NoModel => Failure::usage(
            other.to_string(),
            "Use `provost chat --model claude-sonnet-5`, or add a role with `driver = \"builtin\"` to \
             provost.toml (docs/builtin.md).",
        ),
    })
}

fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|source| Failure::Io { what: "find this program's own file".to_owned(), source })
}

fn schema(file: &Path) -> Result<serde_json::Value, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| Failure::Io { what: format!("read {}", file.display()), source })?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("{} is not JSON: {error}", file.display()), "Give a file with a JSON Schema.")
    })
}

/// Adds provost's own server: the agent makes plans and claims steps through it.
fn servers(global: &Global, others: Vec<McpServer>, session: &str) -> Result<Vec<McpServer>, Failure> {
    let mut command = vec![own_program()?.display().to_string()];
    if let Some(state) = &global.state {
        command.extend(["--state".to_owned(), state.display().to_string()]);
    }
    let options = ["mcp", "--gated", "--patience", "590s", "--session", session];
    command.extend(options.map(str::to_owned));
    let own = McpServer { name: "provost".to_owned(), command, ..McpServer::default() };
    Ok(std::iter::once(own).chain(others).collect())
}

/// Returns the name of a folder's conversation: a digest, because a path is no file name.
fn folder_name(folder: &Path) -> String {
    Hash::of(folder.as_os_str().as_encoded_bytes()).to_string().chars().take(16).collect()
}

/// The conversation, its terminal, and the plan in it.
struct Talk {
    chat: Chat,
    screen: Screen,
    input: Arc<Input>,
    gate: Arc<ChatGate>,
    model: String,
    /// The file that the conversation is saved in.
    saved: PathBuf,
}

impl Talk {
    /// Answers one message.
    fn once(&mut self, message: &str) -> Answer {
        match self.turn(message) {
            RunEnd::Finished { answer } | RunEnd::Blocked { answer } => {
                self.screen.answer(&answer);
                Ok(if self.gate.waits() { Outcome::Waiting } else { Outcome::Done })
            }
            RunEnd::Stopped => Ok(Outcome::Interrupted),
            RunEnd::Unfinished { .. } | RunEnd::Failed(_) => Ok(Outcome::PlanFailed),
        }
    }

    /// Takes messages until the person ends the conversation.
    fn lead(&mut self, first: Option<String>) -> Answer {
        terminal::talk(&format!("{} in this folder. /help lists the commands, Ctrl-D ends.", self.model));
        let mut next = first;
        loop {
            let line = match next.take() {
                Some(line) => line,
                None => match self.input.message()? {
                    Some(line) => line,
                    None => return Ok(Outcome::Done),
                },
            };
            match Slash::of(&line) {
                _ if line.trim().is_empty() => {}
                Some(Slash::Quit) => return Ok(Outcome::Done),
                Some(command) => self.command(&command)?,
                None => {
                    self.turn(&line);
                }
            }
        }
    }

    fn save(&self) {
        let saved = slash::make_folder(&self.saved).and_then(|()| self.chat.save(&self.saved));
        if let Err(error) = saved {
            terminal::talk(&format!("the conversation could not be saved: {error}"));
        }
    }

    /// Sends a message. While its plan is open, the agent is sent back to work, as a stop hook does.
    fn turn(&mut self, message: &str) -> RunEnd {
        let mut message = message.to_owned();
        let mut sent_back = 0;
        loop {
            let end = self.chat.say(&message, &mut |event| self.screen.show(&event));
            self.screen.end(&end);
            self.save();
            if !matches!(end, RunEnd::Finished { .. }) || sent_back >= SENT_BACK_MAX {
                return end;
            }
            match self.gate.unfinished() {
                Some(missing) => message = missing,
                None => return end,
            }
            sent_back += 1;
            terminal::talk("the plan is not done: provost sends the agent back to work");
        }
    }
}
