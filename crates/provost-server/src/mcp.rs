//! The Model Context Protocol service: one instance for each session of a client.
//!
//! **Invariant:** a refusal is a tool result marked as an error that says what to do: clients show these to
//! the model, but mostly not protocol errors.

mod answers;
mod arguments;
mod dialogs;
mod folder;
mod item;
mod judging;
mod over_http;
mod prompts;
mod resources;
mod subscriptions;
mod tools;
mod words;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use provost_engine::plan::sessions::ClientSession;
use provost_engine::session::agent_session::{AgentSessions, SessionPlan, SessionRefusal};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

pub(crate) use over_http::over_http;

use answers::AnswerPart;
use arguments::{Arguments, Status};
use judging::{CheckJob, CheckJobs};
use over_http::Asker;
use subscriptions::{Subscriber, Subscriptions};

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
    subscriptions: Arc<Subscriptions>,
}

/// Answer of a tool: its text, whether it is a refusal, and the same as data.
struct Reply {
    text: String,
    refuses: bool,
    data: Option<Value>,
}

impl Reply {
    fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), refuses: false, data: None }
    }

    fn refusal(text: impl Into<String>) -> Self {
        Self { text: text.into(), refuses: true, data: None }
    }

    fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
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
        let mut result = match reply.refuses {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        result.structured_content = reply.data;
        result
    }
}

impl Mcp {
    pub fn new(sessions: Arc<AgentSessions>, session: ClientSession, patience: Duration) -> Self {
        let inner = Inner {
            sessions,
            session: Mutex::new(session),
            judging: CheckJobs::new(patience),
            subscriptions: Arc::default(),
        };
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
        if let Some(asker) = asker {
            *session = session.clone().named(&asker.name).with_client(asker.client);
        }
        if let Some(name) = arguments::session_name(&context.meta) {
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
        arguments.known_to(name, tools::all())?;
        match name {
            "plan_create" => {
                let draft = arguments.draft()?;
                let asked = session.clone();
                let created = self.look(move |sessions| sessions.create(&asked, &draft)).await?;
                let created = self.with_approval(created, session, context).await?;
                let text = words::created(&created);
                Ok(Reply::ok(&text).with_data(answers::created(&text, &created)))
            }
            "plan_list" => {
                let plans = self.look(move |sessions| sessions.plans(&session)).await?;
                Ok(Reply::ok(folder::plans(&plans)).with_data(answers::listed(&plans)))
            }
            "plan_show" => {
                let plan = arguments.text("plan")?;
                let shown = self.look(move |sessions| match plan.as_str() {
                    "" => sessions.show(&session),
                    name => sessions.show_named(&session, name),
                });
                Ok(self.shown(&shown.await?))
            }
            "plan_take" => {
                let plan = Some(arguments.text("plan")?).filter(|plan| !plan.is_empty());
                let taken = self.look(move |sessions| sessions.take(&session, plan.as_deref()));
                Ok(self.shown(&taken.await?))
            }
            "plan_next" => {
                let said = self.inner.judging.settled(context).await;
                let shown = self.look(move |sessions| sessions.show(&session)).await?;
                let text = words::after(said, &words::next(&shown.run));
                let data = answers::message(&text, Some(&shown), AnswerPart::Standing);
                Ok(Reply::ok(text).with_data(data))
            }
            "step_update" => {
                let part = AnswerPart::Step(arguments.step()?);
                let reply = self.step_update(session.clone(), &arguments, context).await?;
                Ok(self.with_plan(reply, session, part).await)
            }
            "postcondition_verify" => self.verify(session, &arguments, context).await,
            "topic_read" => self.topic_read(session, arguments.text("topic")?).await,
            "topic_publish" => {
                self.topic_publish(session, arguments.required("topic")?, arguments.required("text")?).await
            }
            other => Err(Reply::refusal(format!(
                "there is no tool `{other}`; there are: {}",
                tools::NAMES.join(", ")
            ))),
        }
    }

    fn shown(&self, plan: &SessionPlan) -> Reply {
        if !plan.is_own {
            return Reply::ok(words::other_plan(&plan.run, &plan.name)).with_data(answers::shown(plan, ""));
        }
        let note = self.inner.judging.note();
        let text = format!("{}{note}", words::plan(&plan.run, &plan.name));
        Reply::ok(text).with_data(answers::shown(plan, &note))
    }

    /// Adds the plan of the session as data, as it is after the call.
    async fn with_plan(&self, reply: Reply, session: ClientSession, part: AnswerPart) -> Reply {
        let plan = self.look(move |sessions| sessions.show(&session)).await.ok();
        let data = answers::message(&reply.text, plan.as_ref(), part);
        reply.with_data(data)
    }

    async fn verify(
        &self,
        session: ClientSession,
        arguments: &Arguments,
        context: &RequestContext<RoleServer>,
    ) -> Result<Reply, Reply> {
        self.known_postcondition(&session, arguments).await?;
        let ask = CheckJob::new("the whole plan", "verify".to_owned());
        let (sessions, asked) = (self.inner.sessions.clone(), session.clone());
        let said = self.inner.judging.judge(ask, context, move |told| sessions.verify(&asked, told)).await;
        Ok(self.with_plan(words::verified(said), session, AnswerPart::Postconditions).await)
    }

    async fn topic_publish(
        &self,
        session: ClientSession,
        topic: String,
        text: String,
    ) -> Result<Reply, Reply> {
        let named = topic.clone();
        let length = self.look(move |sessions| sessions.publish(&session, &topic, &text)).await?;
        let text = format!("published to {named}, {length} bytes; others read it after the step has passed");
        let data = json!({ "message": text, "topic": named, "bytes": length });
        Ok(Reply::ok(text).with_data(data))
    }

    async fn topic_read(&self, session: ClientSession, topic: String) -> Result<Reply, Reply> {
        if topic.is_empty() {
            let topics = self.look(move |sessions| Ok(sessions.topics(&session))).await?;
            let text = words::topics(&topics);
            let data = json!({ "message": text, "topics": topics });
            return Ok(Reply::ok(text).with_data(data));
        }
        let named = topic.clone();
        let text = self.look(move |sessions| sessions.topic(&session, &topic)).await?;
        let data = json!({ "topic": named, "text": text });
        Ok(Reply::ok(text).with_data(data))
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
                let (asked, reason) = (session.clone(), why.clone());
                let run = self.look(move |sessions| sessions.block(&asked, step, &reason)).await?;
                return Ok(Reply::ok(match self.answered(step, &why, session.clone(), context).await? {
                    None => words::blocked(&run, step),
                    Some(answer) => {
                        let now = self.look(move |sessions| sessions.show(&session)).await?;
                        words::answered(&now.run, &answer)
                    }
                }));
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
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources();
        let capabilities = capabilities.enable_resources_subscribe().enable_prompts().build();
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
        Ok(ListToolsResult::with_all_items(tools::all().to_vec()))
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
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let session = self.session(&context);
        let all = self.look(move |sessions| Ok(resources::all(sessions, &session))).await;
        Ok(ListResourcesResult::with_all_items(all.map_err(internal)?))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![resources::template()]))
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
            Ok(None) => Err(no_resource(&request.uri)),
            Err(reply) => Err(internal(reply)),
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !resources::is_address(&request.uri) {
            return Err(no_resource(&request.uri));
        }
        let (session, list) = (self.session(&context), self.inner.subscriptions.clone());
        let asked = session.clone();
        let added = self.look(move |sessions| Ok(list.add(sessions, &asked, &request.uri)));
        if !added.await.map_err(internal)? {
            return Err(ErrorData::invalid_params("this session has too many subscriptions", None));
        }
        let list = &self.inner.subscriptions;
        if list.needs_follower() {
            let subscriber = Subscriber::Session(context.peer.clone());
            let sessions = self.inner.sessions.clone();
            tokio::spawn(subscriptions::follow(Arc::downgrade(list), sessions, session, subscriber));
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.inner.subscriptions.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let wanted = requested.resource_subscriptions.iter().flatten();
        let known = wanted.filter(|uri| resources::is_address(uri)).cloned();
        Some(SubscriptionFilter::builder().resource_subscriptions(known).build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let session = self.inner.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let wanted: Vec<String> =
            context.accepted().resource_subscriptions.iter().flatten().cloned().collect();
        let asked = session.clone();
        let list = self.look(move |sessions| Ok(Arc::new(Subscriptions::to(sessions, &asked, &wanted))));
        let list = list.await.map_err(internal)?;
        let subscriber = Subscriber::Request(context.sink().clone());
        let sessions = self.inner.sessions.clone();
        tokio::select! {
            () = context.cancelled() => {}
            () = subscriptions::follow(Arc::downgrade(&list), sessions, session, subscriber) => {}
        }
        Ok(())
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
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name == prompts::OPEN {
            let session = self.session(&context);
            let found = self.look(move |sessions| Ok((sessions.plans(&session)?, sessions.inbox()?)));
            let (plans, inbox) = found.await.map_err(internal)?;
            return Ok(prompts::what_is_open(&plans, &inbox).into());
        }
        match prompts::get(&request.name, request.arguments.as_ref()) {
            Some(prompt) => Ok(prompt.into()),
            None => Err(ErrorData::invalid_params(format!("there is no prompt `{}`", request.name), None)),
        }
    }
}

fn no_resource(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("there is no {uri}"), None)
}

fn internal(reply: Reply) -> ErrorData {
    ErrorData::internal_error(reply.text, None)
}
