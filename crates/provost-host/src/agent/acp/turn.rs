//! State machine of one turn of an ACP agent: initialize, open a session, send the prompt, answer requests,
//! end.
//!
//! **Invariant:** the agent's own plan is shown and decides nothing.

use provost_core::model::usage::Usage;
use serde_json::{Value, json};

use super::{Acp, AcpFiles, Permissions, desk};
use crate::agent::{AttemptInput, Ear, Resume, believable, is_session, micro};

const VERSION: u64 = 1;
const LOGIN_WANTED: i64 = -32000;
/// Longest text that is kept of what the agent said since its last tool call, in bytes.
const WORDS_MAX: usize = 256 * 1024;
const DETAIL_MAX: usize = 2000;
const NOTES_MAX: usize = 20;

/// The answer that provost waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Introduction,
    Session(Open),
    Mode,
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

pub(super) struct AcpTurn<'a> {
    workspace: String,
    prompt: &'a str,
    resume: Option<Resume<'a>>,
    heard: Option<Ear<'a>>,
    servers: Vec<Value>,
    mode: Option<String>,
    permissions: Permissions,
    desk: AcpFiles<'a>,
    stage: Stage,
    id: u64,
    /// Capabilities the agent advertised in `initialize`.
    can: Value,
    agent: String,
    session: Option<String>,
    words: String,
    message: Value,
    plan: Option<(usize, usize)>,
    cost: Option<u64>,
    usage: Usage,
    /// Tool call that provost refused.
    refused: Option<String>,
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
    /// The turn ended because only a person could give a permission.
    pub asked: bool,
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
            heard: work.heard,
            servers: acp
                .servers
                .iter()
                .cloned()
                .chain(super::Server::of(work))
                .map(|each| each.told())
                .collect(),
            mode,
            permissions: acp.permissions,
            desk: desk(work),
            stage: Stage::Introduction,
            id: 0,
            can: Value::Null,
            agent: String::new(),
            session: None,
            words: String::new(),
            message: Value::Null,
            plan: None,
            cost: None,
            usage: Usage::default(),
            refused: None,
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
            write(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }), say);
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
            (Some("session/update"), None) => self.told(&message["params"]),
            (Some(_), None) => {}
            (None, Some(id)) if *id == self.id && self.stage != Stage::Over => self.answered(&message, say),
            // A response without a matching request.
            (None, _) => {}
        }
    }

    fn ask(&mut self, method: &str, params: Value, say: &mut Vec<u8>) {
        self.id += 1;
        write(&json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }), say);
    }

    fn answered(&mut self, message: &Value, say: &mut Vec<u8>) {
        let result = match message.get("error") {
            Some(error) => Err(told(error)),
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
            (Stage::Mode, answer) => {
                if let Err(why) = answer {
                    self.note(format!("the agent did not accept its mode: {why}"));
                }
                self.put_prompt(say);
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
        let offered = modes["availableModes"].as_array().into_iter().flatten();
        let wanted = self.mode.clone().filter(|mode| {
            modes["currentModeId"] != mode.as_str() && offered.clone().any(|each| each["id"] == mode.as_str())
        });
        self.session = Some(session.clone());
        match wanted {
            Some(mode) => {
                self.stage = Stage::Mode;
                self.ask("session/set_mode", json!({ "sessionId": session, "modeId": mode }), say);
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
        self.usage = self.used(result);
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

    fn used(&self, result: &Value) -> Usage {
        let (usage, quota) = (&result["usage"], &result["_meta"]["quota"]["token_count"]);
        let count = |names: &[&str]| {
            let both = names.iter().flat_map(|name| [&usage[*name], &quota[*name]]);
            both.filter_map(Value::as_u64).next()
        };
        let models = result["_meta"]["quota"]["model_usage"].as_array().filter(|models| models.len() == 1);
        let money = Usage { micro_usd: self.cost, ..Usage::default() };
        // opencode reports only its last step.
        if self.agent.contains("opencode") {
            return money;
        }
        let output = count(&["outputTokens", "output_tokens"]);
        let thought = count(&["thoughtTokens", "reasoningOutputTokens"]).unwrap_or(0);
        let all = count(&["totalTokens"]).zip(count(&["inputTokens"]));
        believable(Usage {
            model: models.and_then(|models| models[0]["model"].as_str()).map(str::to_owned),
            input_tokens: count(&["inputTokens", "input_tokens"]),
            // The output count includes the reasoning tokens or not; the total shows which.
            output_tokens: output.map(|output| match all {
                Some((total, input)) if total >= input + output + thought => output + thought,
                _ => output,
            }),
            cache_read_tokens: count(&["cachedReadTokens", "cachedInputTokens"]),
            cache_write_tokens: count(&["cachedWriteTokens", "cacheWriteInputTokens"]),
            ..money
        })
    }

    /// Handles a `session/update` notification. Before the prompt is sent, these are a replay of old
    /// messages.
    fn told(&mut self, params: &Value) {
        let update = &params["update"];
        if self.stage != Stage::Prompt || params["sessionId"].as_str() != self.session.as_deref() {
            return;
        }
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => {
                if update["messageId"] != self.message {
                    self.words.clear();
                    self.message = update["messageId"].clone();
                }
                let text = update["content"]["text"].as_str().unwrap_or_default();
                self.heard.inspect(|heard| heard(text.as_bytes()));
                if self.words.len() + text.len() <= WORDS_MAX {
                    self.words.push_str(text);
                }
            }
            // Text before a tool call is not the last message.
            "tool_call" => {
                self.words.clear();
                let title = update["title"].as_str().unwrap_or_default();
                self.heard.inspect(|heard| heard(format!("\n{title}\n").as_bytes()));
            }
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
        write(&answer, say);
    }

    fn permission(&mut self, params: &Value, say: &mut Vec<u8>) -> Value {
        let call = &params["toolCall"];
        let name = [&call["title"], &call["name"], &call["kind"], &call["toolCallId"]];
        let name = name.into_iter().filter_map(Value::as_str).find(|name| !name.is_empty());
        let name = short(name.unwrap_or("something without a name"));
        match self.permissions {
            Permissions::Allow => {}
            Permissions::Deny => {
                self.note(format!("refused, as configured: {name}"));
                self.refused = Some(name);
            }
            Permissions::Ask => {
                // The failure rule `agent-asks` matches this text.
                let why = format!("the agent asks for permission, and nobody is there to give it: {name}");
                self.failure.get_or_insert(why);
                if self.refused.replace(name).is_none() {
                    self.cancel(say);
                }
            }
        }
        self.permissions.answer(&params["options"])
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn finish(self) -> Finish {
        let mut notes = self.notes;
        if let Some((done, all)) = self.plan.filter(|(_, all)| *all > 0) {
            notes.push(format!("by its own plan the agent has done {done} of {all}"));
        }
        let can_resume = self.can["loadSession"] == Value::Bool(true)
            || self.can["sessionCapabilities"]["resume"].is_object();
        Finish {
            done: self.stage == Stage::Over && !self.cancelled,
            begun: !self.can.is_null() || self.session.is_some(),
            asked: self.permissions == Permissions::Ask && self.refused.is_some(),
            // Other agents count what their process spent.
            goes_on_counting: self.resume.is_some() && self.agent.contains("opencode"),
            at: match self.stage {
                Stage::Introduction => "provost waited for its `initialize` answer",
                Stage::Session(_) | Stage::Mode => "provost opened its session",
                Stage::Prompt | Stage::Over => "it was working",
            },
            failure: self.failure,
            words: self.words,
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

fn write(message: &Value, say: &mut Vec<u8>) {
    say.extend_from_slice(message.to_string().as_bytes());
    say.push(b'\n');
}

/// Formats an error with all details that help to classify it.
fn told(error: &Value) -> String {
    let message = match (error["code"].as_i64(), error["message"].as_str()) {
        // ACP's code for a missing login, worded so that it is classified as an error of the model and not
        // of a package registry.
        (Some(LOGIN_WANTED), _) => "authentication_error: the agent has no login or key for its model",
        (_, message) => message.unwrap_or("the agent reports an error"),
    };
    let code = error["code"].as_i64().map(|code| format!(" (code {code})")).unwrap_or_default();
    let data = match &error["data"] {
        Value::Null => String::new(),
        Value::String(text) => format!(": {text}"),
        data => format!(": {data}"),
    };
    short(&format!("{message}{code}{data}"))
}

/// Returns the text on one line, cut to `DETAIL_MAX` characters.
fn short(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(DETAIL_MAX).collect()
}
