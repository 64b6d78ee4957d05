//! The entry points for people, agents and provost itself, and who may use which.
//!
//! **Invariant:** a command for people is refused if it comes from inside an attempt.

use crate::plan::{queries, recording, uncommitted};
use provost_core::model::event::{Approver, Choice, Revision};
use provost_core::model::plan::{Plan, StepNumber};
use provost_core::rules::command::{AgentCommand, HarnessCommand, HumanCommand};
use provost_core::rules::quorum::ApprovalCount;
use provost_core::rules::{decide, foreign_events};
use provost_core::state::run::{Run, Stage};
use provost_host::config;
use provost_store::Holder;

use crate::Error;
use crate::plan::gate::{self, PolicyResult};
use crate::plan::{commit, kept_trees, plan_context};

use crate::plan::authorization::only_at_a_terminal;
pub use crate::plan::authorization::only_people;
use crate::plan::harness::Harness;

/// Requests approval. If the plan was decided meanwhile, nothing is requested and the run shows the
/// decision.
pub fn request_approval(harness: &Harness) -> Result<Run, Error> {
    let plan_id = harness.id().to_string();
    let asked = harness.own_command(|_| HarnessCommand::RequestApproval { plan_id: plan_id.clone() });
    recording::or_found(harness, asked, |run| run.stage != Stage::Draft)
}

/// Asks the policies of the configuration for an approval.
pub fn ask_policies(harness: &Harness, run: &Run) -> Result<(Run, PolicyResult), Error> {
    let key = harness.prover().secret_if_any()?.map(|secret| secret.key().public());
    let hearing = gate::hear(harness.state(), key.as_ref(), &policies(harness), &run.plan)?;
    let Some(by) = hearing.approver.clone() else { return Ok((run.clone(), hearing)) };
    match approve_by_rule(harness, run, by.clone()) {
        Ok(run) if run.approved_by.is_none() => {
            let silent = vec![format!("{by} has approved it: {}", ApprovalCount::of(&run))];
            Ok((run, PolicyResult { approver: None, silent }))
        }
        Ok(run) => Ok((run, hearing)),
        Err(refusal @ (Error::Refused(_) | Error::Uncommitted { .. })) => {
            let silent = vec![format!("the policy did not approve: {refusal}")];
            Ok((run.clone(), PolicyResult { approver: None, silent }))
        }
        Err(error) => Err(error),
    }
}

/// Approves by a policy, by the rule for plans that an agent made in a session, or in a dialog of its client.
pub(crate) fn approve_by_rule(harness: &Harness, run: &Run, by: Approver) -> Result<Run, Error> {
    uncommitted::refuse_uncommitted(harness, run)?;
    keep_included(harness, run)?;
    let revision = run.revision.clone();
    let decision = |run: &Run| match harness.is_under_way() {
        true => foreign_events::policy(run, revision.clone(), by.clone()),
        false => {
            let (revision, by) = (revision.clone(), by.clone());
            decide::harness(run, HarnessCommand::ApproveByPolicy { revision, by })
        }
    };
    // The log must contain the request before the approval.
    decision(&harness.run()?)?;
    request_approval(harness)?;
    harness.say(decision)
}

fn policies(harness: &Harness) -> Vec<(provost_core::rules::policy::Policy, String)> {
    let policies = harness.config().gate.policies.values();
    policies.map(|policy| (policy.clone(), config::digest(policy).to_string())).collect()
}

/// Returns the digests of the plan's checks that come from the catalogue and that a person has trusted.
pub(crate) fn trusted_checks(harness: &Harness, plan: &Plan) -> Result<Vec<String>, Error> {
    let key = harness.prover().secret_if_any()?.map(|secret| secret.key().public());
    gate::trusted_checks(harness.state(), key.as_ref(), &harness.config().checks, plan)
}

/// Records that a person has read a check of the catalogue and trusts it to judge plans of agents.
pub fn trust_check(harness: &Harness, name: &str) -> Result<(), Error> {
    only_people(harness)?;
    only_at_a_terminal(harness)?;
    let command = harness.config().checks.get(name);
    let command = command.ok_or_else(|| Error::NoSuchCheck { name: name.to_owned() })?;
    let digest = config::check_digest(name, command).to_string();
    gate::trust(harness.state(), &harness.prover().secret()?.key(), &digest)
}

/// Records that a person has read a policy's text and lets it approve.
pub fn trust_policy(harness: &Harness, name: &str) -> Result<(), Error> {
    only_people(harness)?;
    only_at_a_terminal(harness)?;
    let policies = policies(harness);
    let (_, digest) = policies
        .iter()
        .find(|(policy, _)| policy.name == name)
        .ok_or_else(|| Error::NoSuchPolicy { name: name.to_owned() })?;
    harness.log().trust_policy(digest)?;
    gate::trust(harness.state(), &harness.prover().secret()?.key(), digest)
}

/// Approves the revision that the person read; the changes since the last revision are kept with it.
pub fn approve(harness: &Harness, run: &Run, revision: Revision, by: String) -> Result<Run, Error> {
    only_people(harness)?;
    only_at_a_terminal(harness)?;
    uncommitted::refuse_uncommitted(harness, run)?;
    keep_included(harness, run)?;
    let modifications = queries::last_changes(harness, run)?;
    let command = HumanCommand::Approve { revision, by, modifications };
    let now = harness.run()?;
    let would_be = in_their_name(harness, command.clone())?;
    // Decide before writing, so that a refused approval changes nothing.
    match harness.is_under_way() {
        true => foreign_events::human(&now, would_be)?,
        false => decide::human(&now, would_be)?,
    };
    // The log must contain the request before the approval.
    request_approval(harness)?;
    let run = human(harness, command)?;
    if run.approved_by.is_some() {
        // The plan is approved even if this fails; a worker that does not find the base reports it.
        let _ = kept_trees::offer_base(harness, &run);
    }
    Ok(run)
}

/// Keeps the included files as they are now, so that later changes in the workspace do not matter.
fn keep_included(harness: &Harness, run: &Run) -> Result<(), Error> {
    match (&run.binding.base, run.binding.included.is_empty()) {
        (Some(commit), false) => commit::trees(harness, run, commit).map(|_| ()),
        _ => Ok(()),
    }
}

/// Accepts a command of a person.
pub fn human(harness: &Harness, command: HumanCommand) -> Result<Run, Error> {
    only_people(harness)?;
    let command = in_their_name(harness, command)?;
    if foreign_events::lets_through(&command) {
        only_at_a_terminal(harness)?;
    }
    record_of_person(harness, &command)
}

/// Records a command of a person, after the caller checked that it comes from one.
fn record_of_person(harness: &Harness, command: &HumanCommand) -> Result<Run, Error> {
    let command = &as_known_to_the_log(harness, command.clone())?;
    let run = harness.say(|run| match harness.is_under_way() {
        true => foreign_events::human(run, command.clone()),
        false => decide::human(run, command.clone()),
    })?;
    recording::project(harness, &run);
    Ok(run)
}

/// Accepts an answer that a person gave in a dialog of the agent's client: only to try again, because that
/// lets nothing pass.
pub(crate) fn retry_from_dialog(
    harness: &Harness,
    step: StepNumber,
    note: String,
    by: &Approver,
) -> Result<Run, Error> {
    let (choice, by) = (Choice::Retry, by.to_string());
    record_of_person(harness, &HumanCommand::Answer { step: Some(step), choice, note, by })
}

/// Replaces the person's name by the one that the log knows them by, if it does: a name that a client sends is
/// not who it is. The name of a token stays; the log decides whether this process may speak for others.
fn as_known_to_the_log(harness: &Harness, mut command: HumanCommand) -> Result<HumanCommand, Error> {
    let (HumanCommand::Approve { by, .. }
    | HumanCommand::Reject { by, .. }
    | HumanCommand::Ask { by, .. }
    | HumanCommand::Answer { by, .. }
    | HumanCommand::Raise { by, .. }
    | HumanCommand::BreakLease { by, .. }) = &mut command;
    if harness.log().own_name()?.is_some() {
        *by = harness.person();
    }
    Ok(command)
}

/// If a quorum is configured, replaces the approver's name by the authenticated one.
fn in_their_name(harness: &Harness, command: HumanCommand) -> Result<HumanCommand, Error> {
    let command = as_known_to_the_log(harness, command)?;
    Ok(match command {
        HumanCommand::Approve { revision, modifications, .. } if !harness.run()?.quorum().is_usual() => {
            HumanCommand::Approve { revision, by: harness.person(), modifications }
        }
        other => other,
    })
}

/// Accepts a command of an agent; it can only report.
pub fn agent(harness: &Harness, command: AgentCommand) -> Result<Run, Error> {
    harness.say(|run| decide::agent(run, command.clone()))
}

/// Runs a command while this process holds the plan's lease.
pub(crate) fn harness_alone(harness: &Harness, command: HarnessCommand) -> Result<Run, Error> {
    let holder = Holder::here(format!("plan {}", harness.id()), plan_context::now());
    let patience = harness.config().run.lease_timeout;
    let _plan = crate::plan::harness::lease(harness, &format!("plan {}", harness.id()), &holder, patience)?;
    harness.own_command(|_| command.clone())
}
