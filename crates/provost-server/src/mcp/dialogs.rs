//! Asks the person at the client, in a dialog of the client (elicitation), where a person has allowed it.
//!
//! Only over standard input: there the client is the process that started provost. Without an answer nothing is
//! decided, and the item stays in the inbox.

use std::time::Duration;

use axum::http::request::Parts;
use provost_engine::plan::sessions::ClientSession;
use provost_engine::session::agent_session::{AgentSessions, CreateResult, SessionDecision};
use rmcp::RoleServer;
use rmcp::model::{BooleanSchema, ElicitRequestParams, ElicitationAction, ElicitationSchema, StringSchema};
use rmcp::service::{ElicitationMode, RequestContext};
use serde_json::Value;

use super::{Mcp, Reply, words};

/// Maximum time that a dialog stays open.
const OPEN: Duration = Duration::from_secs(600);
const APPROVE: &str = "approve";
const ANSWER: &str = "answer";

/// Returns the name of the client, if it can show dialogs and a person has allowed them.
fn client(sessions: &AgentSessions, context: &RequestContext<RoleServer>) -> Option<String> {
    if context.extensions.get::<Parts>().is_some() {
        return None;
    }
    let has_forms = context.peer.supported_elicitation_modes().contains(&ElicitationMode::Form);
    let name = context.peer.peer_info().filter(|_| has_forms)?.client_info.name.clone();
    sessions.has_dialogs(&name).then_some(name)
}

/// Shows a form. Returns what the person entered; `None` if they declined, or gave no answer in time.
async fn ask(
    context: &RequestContext<RoleServer>,
    message: String,
    requested_schema: ElicitationSchema,
) -> Option<Value> {
    let form = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
    let asked = context.peer.create_elicitation_with_timeout(form, Some(OPEN));
    let result = tokio::select! {
        result = asked => result.ok()?,
        () = context.ct.cancelled() => return None,
    };
    result.content.filter(|_| result.action == ElicitationAction::Accept)
}

impl Mcp {
    /// Asks the person to approve a plan that waits for one.
    pub(super) async fn with_approval(
        &self,
        mut created: CreateResult,
        session: ClientSession,
        context: &RequestContext<RoleServer>,
    ) -> Result<CreateResult, Reply> {
        let SessionDecision::Waits(why) = &created.gate else { return Ok(created) };
        let client = client(&self.inner.sessions, context).filter(|_| created.run.quorum().is_usual());
        let Some(client) = client else { return Ok(created) };
        let message = format!(
            "provost asks you, not the agent. This plan waits for your approval, because {why}.\n\n{}\n\
             Approved here, its steps pass as self-checked. To have them verified, run `provost approve {}` in \
             another terminal.",
            words::state(&created.run, &created.name),
            created.name
        );
        let field = BooleanSchema::new().title("Approve the plan").description("I have read its checks");
        let Ok(form) = ElicitationSchema::builder().required_bool_property(APPROVE, |_| field).build() else {
            return Ok(created);
        };
        let answer = ask(context, message, form).await;
        if answer.is_none_or(|answer| answer[APPROVE] != true) {
            created.gate = SessionDecision::Waits(format!("{why}, and was not approved in the dialog"));
            return Ok(created);
        }
        let revision = created.run.revision.clone();
        let approved = self.look(move |sessions| sessions.approve_in_dialog(&session, &revision, &client));
        let (run, by) = approved.await?;
        Ok(CreateResult { run, gate: SessionDecision::Open(by), ..created })
    }

    /// Asks the person what the agent needs to know. Returns their answer, which the agent gets.
    pub(super) async fn answered(
        &self,
        step: u32,
        why: &str,
        session: ClientSession,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<String>, Reply> {
        let Some(client) = client(&self.inner.sessions, context) else { return Ok(None) };
        let message = format!(
            "provost asks you, not the agent. The agent cannot continue with step {step}: {why}\n\n\
             With an answer it tries again. Without one, the question stays in the inbox (`provost inbox`)."
        );
        let field = StringSchema::new().title("Your answer").description("The agent gets it as it is");
        let Ok(form) = ElicitationSchema::builder().required_string_with(ANSWER, |_| field).build() else {
            return Ok(None);
        };
        let answer = ask(context, message, form).await;
        let answer = answer.and_then(|answer| Some(answer[ANSWER].as_str()?.trim().to_owned()));
        let Some(answer) = answer.filter(|answer| !answer.is_empty()) else { return Ok(None) };
        let said = answer.clone();
        self.look(move |sessions| sessions.answer_in_dialog(&session, step, &said, &client)).await?;
        Ok(Some(answer))
    }
}
