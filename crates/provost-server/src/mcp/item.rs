//! The MCP service of one attempt: what its agent may read and report, without the log.
//!
//! It runs inside the agent's sandbox and has no authority. It answers from files prepared for it, and
//! provost reads what the agent reports when the attempt is over.
//!
//! **Invariant:** no answer here is a verdict: provost judges after the agent has ended.

use std::sync::Arc;

use provost_engine::session::attempt_tools::{AgentStatement, ItemFiles};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::arguments::{Arguments, Status};
use super::{Reply, tools};

const INSTRUCTIONS: &str = include_str!("item.md");

#[derive(Clone)]
pub struct AttemptService {
    served: Arc<ItemFiles>,
}

impl AttemptService {
    pub fn new(served: ItemFiles) -> Self {
        Self { served: Arc::new(served) }
    }

    fn call(&self, name: &str, arguments: &Arguments) -> Result<Reply, Reply> {
        arguments.known_to(name, tools::of_an_attempt())?;
        let gone = |error: std::io::Error| Reply::refusal(format!("cannot read it: {error}"));
        match name {
            "plan_show" => self.served.plan().map(Reply::ok).map_err(gone),
            "plan_next" => self.served.task().map(Reply::ok).map_err(gone),
            "step_update" => self.step_update(arguments),
            "topic_read" => self.topic_read(&arguments.text("topic")?),
            "topic_publish" => {
                let (topic, text) = (arguments.required("topic")?, arguments.required("text")?);
                let length = self.served.publish(&topic, &text).map_err(Reply::refusal)?;
                Ok(Reply::ok(format!(
                    "saved; topic {topic} has {length} bytes of this step, and other steps see it after this step has passed"
                )))
            }
            other => Err(Reply::refusal(format!(
                "there is no tool `{other}`; there are: {}",
                tools::OF_AN_ATTEMPT.join(", ")
            ))),
        }
    }

    fn topic_read(&self, topic: &str) -> Result<Reply, Reply> {
        let known = self.served.reads();
        if topic.is_empty() {
            return Ok(Reply::ok(match known {
                [] => "this step reads no topics".to_owned(),
                known => format!("this step reads: {}", known.join(", ")),
            }));
        }
        match self.served.topic(topic) {
            Some(Ok(text)) => Ok(Reply::ok(text)),
            Some(Err(error)) => Err(Reply::refusal(format!("cannot read it: {error}"))),
            None => Err(Reply::refusal(match known {
                [] => "this step reads no topics".to_owned(),
                known => format!("this step does not read `{topic}`; it reads {}", known.join(", ")),
            })),
        }
    }

    fn step_update(&self, arguments: &Arguments) -> Result<Reply, Reply> {
        let own = self.served.step().0;
        let step = arguments.step()?;
        if step != own {
            return Err(Reply::refusal(format!("you were given step {own}; you cannot update another")));
        }
        let (evidence, reason) = (arguments.text("evidence")?, arguments.text("reason")?);
        let (blocked, text, answer) = match arguments.status()? {
            Status::Pending | Status::InProgress => {
                return Ok(Reply::ok(format!("step {own} is your step until you end")));
            }
            Status::Done if evidence.trim().is_empty() => {
                return Err(Reply::refusal(
                    "evidence is required: say what you did and where it can be seen",
                ));
            }
            Status::Done => {
                let answer = "recorded as your claim, which decides nothing: provost runs the check after you have ended";
                (false, evidence, answer)
            }
            Status::Blocked if reason.trim().is_empty() && evidence.trim().is_empty() => {
                return Err(Reply::refusal("a reason is required: say what stops you"));
            }
            Status::Blocked => {
                let text = if reason.trim().is_empty() { evidence } else { reason };
                (true, text, "recorded: provost asks a person after you have ended")
            }
        };
        let said = self.served.say(&AgentStatement { blocked, text });
        said.map_err(|error| Reply::refusal(format!("cannot record it: {error}")))?;
        Ok(Reply::ok(answer))
    }
}

impl ServerHandler for AttemptService {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("provost", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::of_an_attempt().to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Arguments(request.arguments.unwrap_or_default());
        let reply = self.call(&request.name, &arguments).unwrap_or_else(|refusal| refusal);
        Ok(CallToolResult::from(reply).into())
    }
}
