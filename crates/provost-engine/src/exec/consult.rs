//! Asks the agent of a role for text, such as a draft or a judgement. The agent does no work.

use std::path::Path;
use std::time::Duration;

use provost_core::model::event::AttemptEnd;
use provost_core::model::plan::StepNumber;
use provost_core::model::usage::{Amount, Usage};
use provost_core::model::verdict::Excerpt;
use provost_core::rules::recover::last_words;
use provost_host::agent::{AttemptInput, AttemptReport, SpendLimit};
use provost_host::config::Role;
use provost_host::egress::prices;
use provost_host::exec::access::Grant;
use provost_host::exec::environment::{ConsultPaths, ExecEnv};
use provost_host::{Interrupted, drivers};

use crate::exec::metering::RunMetering;
use crate::plan::plan_context::PlanContext;
use crate::sandbox_forwarder;

pub struct ConsultRequest<'a> {
    pub role: &'a str,
    pub prompt: &'a str,
    /// Number of this request, from 1.
    pub round: u32,
    pub step: StepNumber,
    pub timeout: Duration,
    pub tag: &'a str,
    /// Folder that the agent can read.
    pub sees: &'a Path,
    /// Folder in which it may write an answer.
    pub answers: Option<&'a Path>,
    /// JSON Schema of the answer; only the built-in agent is held to it.
    pub answer_schema: Option<&'a serde_json::Value>,
    /// The most it may use.
    pub limit: Amount,
}

/// Returns the agent's answer without secrets, or why it cannot be asked, in words for the person who
/// configures it.
pub fn ask(
    site: &PlanContext,
    ground: &ExecEnv,
    metering: &RunMetering,
    question: &ConsultRequest<'_>,
) -> Result<Result<AttemptReport, String>, Interrupted> {
    let agent = drivers::agent(&site.config, question.role, &site.launcher);
    let opened = agent.and_then(|agent| {
        // The conversation is not resumed, so its folder is not kept.
        let home = agent.has_client().then(|| ground.desk()).transpose();
        let home = home.map_err(|error| format!("no folder could be made for its client: {error}"))?;
        Ok((agent, home, metering.open(site, question.role, question.limit)?))
    });
    let (agent, home, account) = match opened {
        Ok(opened) => opened,
        Err(why) => return Ok(Err(why)),
    };
    let role = site.config.agents.get(question.role);
    let portal = sandbox_forwarder::launcher(&site.launcher);
    let api = role.map(|role| role.api.clone()).unwrap_or_default();
    let grant = Grant {
        role: question.role,
        reach: role.map(|role| role.reach).unwrap_or_default(),
        // It only reads and writes nowhere.
        folders: None,
        api: &api,
        launcher: portal.as_slice(),
        meter: account.as_ref().map(|account| account.address()),
    };
    let metered = account.as_ref().map(|account| account.environment(&site.agents_environment));
    let prompt = site.redactor.text(question.prompt);
    let asks = role.and_then(Role::asks);
    let cost = |usage: &Usage| prices::priced(&site.config.prices, asks, usage.clone()).micro_usd;
    let work = AttemptInput {
        prompt: &prompt,
        workspace: question.sees,
        step: question.step,
        attempt: question.round,
        timeout: role.and_then(|role| role.timeout).unwrap_or(question.timeout),
        tag: question.tag,
        stop: Some(&site.stop),
        fence: None,
        environment: metered.as_ref().unwrap_or(&site.agents_environment),
        bounds: Some(site.config.run.bounds()),
        home: home.as_ref().map(|home| home.path()),
        // It has no conversation to resume and nothing to publish.
        resume: None,
        outbox: None,
        heard: None,
        limit: account.is_none().then_some(SpendLimit { amount: question.limit, cost: &cost }),
        granted: &[],
        answer_schema: question.answer_schema,
    };
    let desk = ConsultPaths { sees: question.sees, answers: question.answers };
    let mut said = ground.ask(&*agent, &work, desk, &grant)?;
    if let Some(account) = account {
        metering.close(account, &mut said);
    }
    let clean = |text: &str| metering.clean(site.redactor.text(text).into_owned());
    said.report = clean(&said.report);
    said.stderr = Excerpt::whole(clean(&said.stderr.to_string()));
    said.notes = said.notes.iter().map(|note| clean(note)).collect();
    let model = role.and_then(|role| role.model.as_deref());
    let used = Usage { model: said.usage.model.as_deref().map(clean), ..said.usage };
    said.usage = prices::priced(&site.config.prices, model, used);
    Ok(Ok(said))
}

/// Describes for people how the agent ended, with the last line it printed.
pub fn end_of(said: &AttemptReport) -> String {
    let end = match &said.end {
        AttemptEnd::Exited { exit_code } => format!("it exited with {exit_code}"),
        AttemptEnd::Signalled { signal } => format!("it was ended by signal {signal}"),
        AttemptEnd::TimedOut => "it took too long".to_owned(),
        AttemptEnd::OverBounds { reason }
        | AttemptEnd::NotStarted { reason }
        | AttemptEnd::PlanFailed { reason, .. }
        | AttemptEnd::PlanWaits { reason, .. } => reason.clone(),
        AttemptEnd::PlanStopped { plan } => format!("the plan {plan} was stopped"),
    };
    let words = match said.report.trim() {
        "" => said.stderr.to_string(),
        report => report.to_owned(),
    };
    match last_words::of(&words) {
        Some(line) => format!("{end}: {line}"),
        None => end,
    }
}
