//! The Model Context Protocol service: one instance for each session of a client.
//!
//! **Invariant:** a refusal is a tool result marked as an error that says what to do: clients show these to
//! the model, but mostly not protocol errors.

mod arguments;
mod item;
mod judging;
mod over_http;
mod prompts;
mod resources;
mod tools;
mod words;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use provost_engine::plan::sessions::ClientSession;
use provost_engine::session::agent_session::{AgentSessions, SessionRefusal};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, Implementation, JsonObject, ListPromptsResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

pub(crate) use over_http::over_http;

use arguments::{Arguments, Status};
use judging::{CheckJob, CheckJobs};
use over_http::Asker;

pub use item::AttemptService;

const INSTRUCTIONS: &str = include_str!("mcp/instructions.md");

#[derive(Clone)]
pub struct Mcp {
    inner: Arc<Inner>,
}

struct Inner {
    sessions: Arc<AgentSessions>,
    session: Mutex<ClientSession>,
    judging: CheckJobs,
}

/// Answer of a tool: its text, and whether it is a refusal.
struct Reply {
    text: String,
    refuses: bool,
}

impl Reply {
    fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), refuses: false }
    }

    fn refusal(text: impl Into<String>) -> Self {
        Self { text: text.into(), refuses: true }
    }
}

impl From<SessionRefusal> for Reply {
    fn from(refused: SessionRefusal) -> Self {
        Reply::refusal(refused.told())
    }
}

impl From<Reply> for CallToolResult {
    fn from(reply: Reply) -> Self {
        let content = vec![ContentBlock::text(reply.text)];
        if reply.refuses { CallToolResult::error(content) } else { CallToolResult::success(content) }
    }
}

impl Mcp {
    pub fn new(sessions: Arc<AgentSessions>, session: ClientSession, patience: Duration) -> Self {
        let inner = Inner { sessions, session: Mutex::new(session), judging: CheckJobs::new(patience) };
        Self { inner: Arc::new(inner) }
    }

    /// Waits for the running check, which was told to stop.
    pub fn wind_down(&self, patience: Duration) {
        self.inner.judging.wind_down(patience);
    }

    /// Returns the session as known so far, with the name that this request gives.
    fn session(&self, context: &RequestContext<RoleServer>) -> ClientSession {
        let mut session = self.inner.session.lock().unwrap_or_else(PoisonError::into_inner);
        let asker = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Asker>());
        if let Some(name) = arguments::session_name(&context.meta).or(asker.map(|asker| asker.name.clone())) {
            *session = session.clone().named(&name);
        }
        session.clone()
    }

    /// Runs a blocking call outside of the async threads.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&AgentSessions) -> Result<T, SessionRefusal> + Send + 'static,
    ) -> Result<T, Reply> {
        let sessions = self.inner.sessions.clone();
        match tokio::task::spawn_blocking(move || look(&sessions)).await {
            Ok(answer) => answer.map_err(Reply::from),
            Err(_) => Err(Reply::refusal("the call failed on the server; call it again")),
        }
    }

    async fn call(
        &self,
        name: &str,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<Reply, Reply> {
        let session = self.session(context);
        let arguments = Arguments(arguments);
        match name {
            "plan_create" => {
                let draft = arguments.draft()?;
                let created = self.look(move |sessions| sessions.create(&session, &draft)).await?;
                Ok(Reply::ok(words::created(&created)))
            }
            "plan_show" => {
                let plan = arguments.text("plan")?;
                let shown = self.look(move |sessions| match plan.as_str() {
                    "" => sessions.show(&session),
                    name => sessions.take_up(&session, name),
                });
                let shown = shown.await?;
                Ok(Reply::ok(format!(
                    "{}{}",
                    words::plan(&shown.run, &shown.name),
                    self.inner.judging.note()
                )))
            }
            "plan_next" => {
                let said = self.inner.judging.settled(context).await;
                let shown = self.look(move |sessions| sessions.show(&session)).await?;
                Ok(Reply::ok(words::after(said, &words::next(&shown.run))))
            }
            "step_update" => self.step_update(session, &arguments, context).await,
            "postcondition_verify" => {
                self.known_postcondition(&session, &arguments).await?;
                let ask = CheckJob::new("the whole plan", "verify".to_owned());
                let said = self
                    .inner
                    .judging
                    .judge(ask, context, {
                        let sessions = self.inner.sessions.clone();
                        move |told| sessions.verify(&session, told)
                    })
                    .await;
                Ok(words::verified(said))
            }
            "topic_read" => {
                let topic = arguments.text("topic")?;
                if topic.is_empty() {
                    let topics = self.look(move |sessions| Ok(sessions.topics(&session))).await?;
                    return Ok(Reply::ok(words::topics(&topics)));
                }
                Ok(Reply::ok(self.look(move |sessions| sessions.topic(&session, &topic)).await?))
            }
            "topic_publish" => {
                let (topic, text) = (arguments.required("topic")?, arguments.required("text")?);
                let named = topic.clone();
                let length = self.look(move |sessions| sessions.publish(&session, &topic, &text)).await?;
                Ok(Reply::ok(format!(
                    "published to {named}, {length} bytes; others read it after the step has passed"
                )))
            }
            other => Err(Reply::refusal(format!(
                "there is no tool `{other}`; there are: {}",
                tools::NAMES.join(", ")
            ))),
        }
    }

    async fn step_update(
        &self,
        session: ClientSession,
        arguments: &Arguments,
        context: &RequestContext<RoleServer>,
    ) -> Result<Reply, Reply> {
        let step = arguments.step()?;
        let status = arguments.status()?;
        let (evidence, reason) = (arguments.text("evidence")?, arguments.text("reason")?);
        let sessions = self.inner.sessions.clone();
        let said = match status {
            Status::Pending => {
                let run = self.look(move |sessions| sessions.put_back(&session, step)).await?;
                return Ok(Reply::ok(format!("step {step} is put back.\n{}", words::next(&run))));
            }
            Status::Blocked => {
                let why = if reason.trim().is_empty() { evidence } else { reason };
                let run = self.look(move |sessions| sessions.block(&session, step, &why)).await?;
                return Ok(Reply::ok(words::blocked(&run, step)));
            }
            Status::InProgress => {
                let ask = CheckJob::new(format!("step {step} before the work"), format!("begin {step}"));
                let judged =
                    self.inner.judging.judge(ask, context, move |told| sessions.begin(&session, step, told));
                return Ok(words::begun(judged.await, step));
            }
            Status::Done => {
                let ask = CheckJob::new(format!("step {step}"), format!("claim {step}"));
                let claim =
                    move |told: &mut judging::JobListener| sessions.claim(&session, step, &evidence, told);
                self.inner.judging.judge(ask, context, claim).await
            }
        };
        Ok(words::claimed(said, step))
    }

    /// Checks that a named postcondition exists.
    async fn known_postcondition(&self, session: &ClientSession, arguments: &Arguments) -> Result<(), Reply> {
        let Some(number) = arguments.number("postcondition")? else { return Ok(()) };
        let session = session.clone();
        let shown = self.look(move |sessions| sessions.show(&session)).await?;
        let count = shown.run.plan.postconditions.len() as u64;
        if (1..=count).contains(&number) {
            return Ok(());
        }
        Err(Reply::refusal(match count {
            0 => "the plan has no postconditions; call postcondition_verify without a number".to_owned(),
            _ => format!("there is no postcondition {number}: they are 1 to {count}"),
        }))
    }
}

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("provost", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let reply = self.call(&request.name, arguments, &context).await.unwrap_or_else(|refusal| refusal);
        Ok(CallToolResult::from(reply).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::all()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let session = self.session(&context);
        let uri = request.uri.clone();
        let read = self.look(move |sessions| Ok(resources::read(sessions, &session, &uri))).await;
        match read {
            Ok(Some(Ok(read))) => Ok(read.into()),
            Ok(Some(Err(refused))) => Err(ErrorData::resource_not_found(refused.told(), None)),
            Ok(None) => Err(ErrorData::resource_not_found(format!("there is no {}", request.uri), None)),
            Err(reply) => Err(ErrorData::internal_error(reply.text, None)),
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::all()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match prompts::get(&request.name, request.arguments.as_ref()) {
            Some(prompt) => Ok(prompt.into()),
            None => Err(ErrorData::invalid_params(format!("there is no prompt `{}`", request.name), None)),
        }
    }
}
