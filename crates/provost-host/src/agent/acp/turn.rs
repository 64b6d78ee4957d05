//! State machine of one turn of an ACP agent: initialize, open a session, send the prompt, answer requests,
//! end.
//!
//! **Invariant:** the agent's own plan is shown and decides nothing.

use provost_core::model::usage::Usage;
use serde_json::{Value, json};

use super::{
    Acp, AcpFiles, ModelChoice, Permissions, asked_for, desk, error_text, short, used, write_message,
};
use crate::agent::transcript::{AcpEntries, EntrySink};
use crate::agent::{AttemptInput, Resume, SpendLimit, is_session, micro};

const VERSION: u64 = 1;
/// Longest text that is kept of what the agent said since its last tool call, in bytes.
const WORDS_MAX: usize = 256 * 1024;
const NOTES_MAX: usize = 20;

/// The answer that provost waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Introduction,
    Session(Open),
    Setting(SessionSetting),
    Prompt,
    Over,
}

/// How a session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    New,
    /// Continues a session; the agent does not repeat its history.
    Resume,
    /// Continues a session; the agent sends its history again.
    Load,
}

/// What provost sets in a session before it sends the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionSetting {
    Model,
    Mode,
}

pub(super) struct AcpTurn<'a> {
    workspace: String,
    prompt: &'a str,
    resume: Option<Resume<'a>>,
    sink: EntrySink<'a>,
    entries: AcpEntries,
    limit: Option<SpendLimit<'a>>,
    servers: Vec<Value>,
    mode: Option<String>,
    model: Option<String>,
    /// The agent's client, which may know its model from its own configuration, is known.
    has_client: bool,
    /// Requests that follow the opening of the session.
    settings: Vec<(SessionSetting, &'static str, Value)>,
    permissions: Permissions,
    /// What a person allowed in this step.
    granted: &'a [String],
    desk: AcpFiles<'a>,
    stage: Stage,
    id: u64,
    /// Capabilities the agent advertised in `initialize`.
    can: Value,
    agent: String,
    session: Option<String>,
    words: String,
    /// The agent repeats its old messages after it was sent the prompt.
    repeats: bool,
    message: Value,
    plan: Option<(usize, usize)>,
    cost: Option<u64>,
    usage: Usage,
    /// Tool call that provost refused.
    refused: Option<String>,
    over_limit: bool,
    cancelled: bool,
    failure: Option<String>,
    notes: Vec<String>,
}

/// Result of a turn.
pub(super) struct Finish {
    /// The turn came to an end, good or bad, and was not cancelled.
    pub done: bool,
    /// The agent answered `initialize`.
    pub begun: bool,
    /// provost ended the turn, because the budget is used up.
    pub over_limit: bool,
    /// provost ended the turn, because only a person can allow this.
    pub asks: Option<String>,
    /// The cost is that of the whole conversation, and this was not its first turn.
    pub goes_on_counting: bool,
    /// The activity at which the turn ended, for messages.
    pub at: &'static str,
    pub failure: Option<String>,
    pub words: String,
    pub session: Option<String>,
    pub usage: Usage,
    pub notes: Vec<String>,
}

impl<'a> AcpTurn<'a> {
    pub(super) fn new(acp: &Acp, work: &AttemptInput<'a>, mode: Option<String>) -> Self {
        Self {
            workspace: work.workspace.to_string_lossy().into_owned(),
            prompt: work.prompt,
            resume: work.resume,
            sink: EntrySink::new(work.heard),
            entries: AcpEntries::default(),
            limit: work.limit,
            servers: acp
                .servers
                .iter()
                .cloned()
                .chain(super::Server::of(work))
                .map(|each| each.told())
                .collect(),
            mode,
            model: acp.model.clone(),
            has_client: acp.client.is_some(),
            settings: Vec::new(),
            permissions: acp.permissions,
            granted: work.granted,
            desk: desk(work),
            stage: Stage::Introduction,
            id: 0,
            can: Value::Null,
            agent: String::new(),
            session: None,
            words: String::new(),
            repeats: false,
            message: Value::Null,
            plan: None,
            cost: None,
            usage: Usage::default(),
            refused: None,
            over_limit: false,
            cancelled: false,
            failure: None,
            notes: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, say: &mut Vec<u8>) {
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
            "clientInfo": { "name": "provost", "title": "provost", "version": env!("CARGO_PKG_VERSION") },
        });
        self.ask("initialize", params, say);
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Asks the agent to stop. The caller finds out whether it does.
    pub(super) fn cancel(&mut self, say: &mut Vec<u8>) {
        if let (Stage::Prompt, Some(session)) = (self.stage, &self.session) {
            let params = json!({ "sessionId": session });
            write_message(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }), say);
        } else {
            self.stage = Stage::Over;
        }
        self.cancelled = true;
    }

    pub(super) fn fail(&mut self, why: impl Into<String>) {
        self.failure.get_or_insert(why.into());
        self.stage = Stage::Over;
    }

    pub(super) fn hear(&mut self, message: Value, say: &mut Vec<u8>) {
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => self.asked(method, id.clone(), &message["params"], say),
            (Some("session/update"), None) => {
                self.told(&message["params"]);
                self.look_at_the_cost(say);
            }
            (Some(_), None) => {}
            (None, Some(id)) if *id == self.id && self.stage != Stage::Over => self.answered(&message, say),
            // A response without a matching request.
            (None, _) => {}
        }
    }

    fn ask(&mut self, method: &str, params: Value, say: &mut Vec<u8>) {
        self.id += 1;
        write_message(&json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }), say);
    }

    fn answered(&mut self, message: &Value, say: &mut Vec<u8>) {
        let result = match message.get("error") {
            Some(error) => Err(error_text(error)),
            None => Ok(&message["result"]),
        };
        match (self.stage, result) {
            (Stage::Introduction, Ok(result)) => self.introduced(result, say),
            (Stage::Session(Open::New), Ok(result)) => {
                let name = result["sessionId"].as_str().unwrap_or_default().to_owned();
                match name.is_empty() {
                    true => self.fail("the agent opened a session without an id"),
                    false => self.opened(name, result, say),
                }
            }
            (Stage::Session(Open::Resume | Open::Load), Ok(result)) => {
                let name = self.resume.map_or(String::new(), |resume| resume.session.to_owned());
                self.opened(name, result, say);
            }
            (Stage::Session(Open::Resume | Open::Load), Err(why)) => {
                self.note(format!("the agent could not resume the conversation: {why}"));
                self.resume = None;
                self.open(say);
            }
            (Stage::Setting(SessionSetting::Model), Err(why)) => {
                let model = self.model.as_deref().unwrap_or_default();
                self.fail(format!("model not found: {model}; the agent did not accept it: {why}"));
            }
            (Stage::Setting(setting), answer) => {
                if let (SessionSetting::Mode, Err(why)) = (setting, answer) {
                    self.note(format!("the agent did not accept its mode: {why}"));
                }
                self.next_setting(say);
            }
            (Stage::Prompt, Ok(result)) => self.ended(result),
            (Stage::Introduction | Stage::Session(Open::New) | Stage::Prompt, Err(why)) => self.fail(why),
            (Stage::Over, _) => {}
        }
    }

    fn introduced(&mut self, result: &Value, say: &mut Vec<u8>) {
        if result["protocolVersion"] != VERSION {
            let version = &result["protocolVersion"];
            return self
                .fail(format!("the agent speaks version {version} of ACP, but provost speaks {VERSION}"));
        }
        self.can = result["agentCapabilities"].clone();
        self.agent = result["agentInfo"]["name"].as_str().unwrap_or_default().to_lowercase();
        if !self.resumes() {
            self.resume = None;
        }
        self.open(say);
    }

    fn resumes(&self) -> bool {
        self.can["loadSession"] == Value::Bool(true) || self.can["sessionCapabilities"]["resume"].is_object()
    }

    fn open(&mut self, say: &mut Vec<u8>) {
        let mut params = json!({ "cwd": self.workspace, "mcpServers": self.servers });
        let how = match self.resume {
            None => Open::New,
            Some(_) if self.can["sessionCapabilities"]["resume"].is_object() => Open::Resume,
            Some(_) => Open::Load,
        };
        if let Some(resume) = self.resume {
            params["sessionId"] = resume.session.into();
        }
        self.stage = Stage::Session(how);
        let method = match how {
            Open::New => "session/new",
            Open::Resume => "session/resume",
            Open::Load => "session/load",
        };
        self.ask(method, params, say);
    }

    fn opened(&mut self, session: String, result: &Value, say: &mut Vec<u8>) {
        let modes = &result["modes"];
        let mut offered = modes["availableModes"].as_array().into_iter().flatten();
        if let Some(mode) = &self.mode
            && modes["currentModeId"] != mode.as_str()
            && offered.any(|each| each["id"] == mode.as_str())
        {
            let params = json!({ "sessionId": session, "modeId": mode });
            self.settings.push((SessionSetting::Mode, "session/set_mode", params));
        }
        self.session = Some(session);
        if let Err(why) = self.set_model(result) {
            return self.fail(why);
        }
        self.next_setting(say);
    }

    /// Prepares the request that selects the model of the role; an error if the agent does not offer it.
    fn set_model(&mut self, result: &Value) -> Result<(), String> {
        let Some(model) = &self.model else { return Ok(()) };
        let (method, mut params) = match ModelChoice::of(result, model) {
            ModelChoice::Request { method, params } => (method, params),
            // The list of a known client may be incomplete: the client decides.
            ModelChoice::NotOffered { request: Some(method), .. } if self.has_client => {
                (method, json!({ "modelId": model }))
            }
            ModelChoice::NotOffered { offered, .. } if !self.has_client => {
                return Err(format!("model not found: {model}; the agent offers {}", offered.join(", ")));
            }
            ModelChoice::Unsupported if !self.has_client => {
                let note = format!("the agent offers no choice of its model, so {model} was not selected");
                self.note(note);
                return Ok(());
            }
            // The client's configuration names the model.
            ModelChoice::Current | ModelChoice::NotOffered { .. } | ModelChoice::Unsupported => return Ok(()),
        };
        params["sessionId"] = json!(self.session);
        self.settings.push((SessionSetting::Model, method, params));
        Ok(())
    }

    /// Sends the next setting, or the prompt after the last one.
    fn next_setting(&mut self, say: &mut Vec<u8>) {
        match self.settings.pop() {
            Some((setting, method, params)) => {
                self.stage = Stage::Setting(setting);
                self.ask(method, params, say);
            }
            None => self.put_prompt(say),
        }
    }

    fn put_prompt(&mut self, say: &mut Vec<u8>) {
        self.stage = Stage::Prompt;
        let text = self.resume.map_or(self.prompt, |resume| resume.prompt);
        let params = json!({ "sessionId": self.session, "prompt": [{ "type": "text", "text": text }] });
        self.ask("session/prompt", params, say);
    }

    fn ended(&mut self, result: &Value) {
        let is_opencode = self.agent.contains("opencode");
        self.usage = used(result, self.cost, is_opencode);
        self.stage = Stage::Over;
        let reason = result["stopReason"].as_str().unwrap_or("nothing");
        let why = match (reason, &self.refused) {
            ("end_turn", _) => return,
            ("cancelled", _) if self.cancelled => return,
            ("cancelled", Some(refused)) => format!("the agent stopped after a refusal: {refused}"),
            ("max_tokens", _) => "the agent's answer was too long for its model (max_tokens)".to_owned(),
            ("max_turn_requests", _) => {
                "the agent reached its limit of model requests in one turn (max_turn_requests)".to_owned()
            }
            ("refusal", _) => "the agent's model refused the task".to_owned(),
            (other, _) => format!("the agent ended its turn with {}", short(other)),
        };
        self.failure.get_or_insert(why);
    }

    /// Handles a `session/update` notification. Before the prompt is sent, these are a replay of old
    /// messages. Some agents replay them later: then a message of the user comes first.
    fn told(&mut self, params: &Value) {
        let update = &params["update"];
        if self.stage != Stage::Prompt || params["sessionId"].as_str() != self.session.as_deref() {
            return;
        }
        self.entries.update(update, &mut self.sink);
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => {
                if update["messageId"] != self.message {
                    self.words.clear();
                    self.message = update["messageId"].clone();
                }
                let text = update["content"]["text"].as_str().unwrap_or_default();
                if self.words.len() + text.len() <= WORDS_MAX {
                    self.words.push_str(text);
                }
            }
            "user_message_chunk" if self.resume.is_some() => {
                let text = update["content"]["text"].as_str().unwrap_or_default();
                self.repeats |= !self.resume.is_some_and(|resume| resume.prompt.starts_with(text));
                self.words.clear();
            }
            // Text before a tool call is not the last message.
            "tool_call" => self.words.clear(),
            "plan" => {
                let entries = update["entries"].as_array().map_or(&[][..], Vec::as_slice);
                let done = entries.iter().filter(|entry| entry["status"] == "completed").count();
                self.plan = Some((done, entries.len()));
            }
            "usage_update" if update["cost"]["currency"] == "USD" => {
                self.cost = update["cost"]["amount"].as_f64().and_then(micro).or(self.cost);
            }
            _ => {}
        }
    }

    /// Ends the turn if the agent says that it has cost more than it may.
    fn look_at_the_cost(&mut self, say: &mut Vec<u8>) {
        let before = self.resume.and_then(|resume| resume.used.micro_usd).unwrap_or(0);
        let before = if self.agent.contains("opencode") { before } else { 0 };
        let micro_usd = self.cost.map(|cost| cost.saturating_sub(before));
        let used = Usage { micro_usd, ..Usage::default() };
        let Some(why) = self.limit.and_then(|limit| limit.exceeded_by(&used)) else { return };
        if !self.cancelled {
            self.failure.get_or_insert(why);
            self.over_limit = true;
            self.cancel(say);
        }
    }

    fn asked(&mut self, method: &str, id: Value, params: &Value, say: &mut Vec<u8>) {
        let answer = match method {
            "session/request_permission" => Ok(self.permission(params, say)),
            "fs/write_text_file" => {
                let text = params["content"].as_str().unwrap_or_default();
                let path = params["path"].as_str().unwrap_or_default();
                let written = self.desk.write(path, text);
                written.map(|()| Value::Null).map_err(|why| (-32603, format!("not written: {why}")))
            }
            other => Err((-32601, format!("provost does not offer {}", short(other)))),
        };
        let answer = match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, message)) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
            }
        };
        write_message(&answer, say);
    }

    fn permission(&mut self, params: &Value, say: &mut Vec<u8>) -> Value {
        let name = short(&asked_for(&params["toolCall"]));
        let permissions = match self.permissions {
            Permissions::Ask if self.granted.contains(&name) => Permissions::Allow,
            other => other,
        };
        match permissions {
            Permissions::Allow => {}
            Permissions::Deny => {
                self.note(format!("refused, as configured: {name}"));
                self.refused = Some(name);
            }
            Permissions::Ask => {
                // The failure rule `agent-asks` matches this text.
                let why = format!("the agent asks for permission, and no person is there to give it: {name}");
                self.failure.get_or_insert(why);
                if self.refused.is_none() {
                    self.refused = Some(name);
                    self.cancel(say);
                }
            }
        }
        permissions.answer(&params["options"])
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn finish(self) -> Finish {
        let can_resume = self.resumes();
        let mut notes = self.notes;
        if let Some((done, all)) = self.plan.filter(|(_, all)| *all > 0) {
            notes.push(format!("by its own plan the agent has done {done} of {all}"));
        }
        let old = self.resume.filter(|_| self.repeats).map_or("", |resume| resume.claim);
        let words = self.words.trim_start();
        let words = words.strip_prefix(old.trim()).unwrap_or(words).trim_start().to_owned();
        let asks = self.refused.filter(|_| self.permissions == Permissions::Ask);
        Finish {
            done: self.stage == Stage::Over && !self.cancelled,
            begun: !self.can.is_null() || self.session.is_some(),
            over_limit: self.over_limit,
            asks,
            // Other agents count what their process spent.
            goes_on_counting: self.resume.is_some() && self.agent.contains("opencode"),
            at: match self.stage {
                Stage::Introduction => "provost waited for its `initialize` answer",
                Stage::Session(_) | Stage::Setting(_) => "provost opened its session",
                Stage::Prompt | Stage::Over => "it was working",
            },
            failure: self.failure,
            words,
            session: self.session.filter(|name| can_resume && is_session(name)),
            usage: match self.usage.is_unknown() {
                // The agent reports its cost while it works, also if the turn does not end.
                true => Usage { micro_usd: self.cost, ..Usage::default() },
                false => self.usage,
            },
            notes,
        }
    }
}
