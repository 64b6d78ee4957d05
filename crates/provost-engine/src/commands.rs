//! The entry points for people, agents and provost itself, and who may use which.
//!
//! **Invariant:** a command for people is refused if it comes from inside an attempt.

use provost_core::model::chain::PlanId;
use provost_core::model::event::{Approver, Revision};
use provost_core::model::plan::Plan;
use provost_core::rules::command::{AgentCommand, HarnessCommand, HumanCommand};
use provost_core::rules::quorum::ApprovalCount;
use provost_core::rules::{decide, foreign_events};
use provost_core::state::run::{Run, Stage};
use provost_host::config;
use provost_store::Holder;

use crate::gate::PolicyResult;
use crate::human_check::Who;
use crate::sessions::Sessions;
use crate::{Error, commit, gate, human_check, plan_context, remote_tree};

use crate::harness::Harness;

impl Harness {
    /// Requests approval. If the plan was decided meanwhile, nothing is requested and the run shows the
    /// decision.
    pub fn request_approval(&self) -> Result<Run, Error> {
        let plan_id = self.id().to_string();
        let asked = self.harness(|_| HarnessCommand::RequestApproval { plan_id: plan_id.clone() });
        self.or_found(asked, |run| run.stage != Stage::Draft)
    }

    /// Asks the policies of the configuration for an approval.
    pub fn ask_policies(&self, run: &Run) -> Result<(Run, PolicyResult), Error> {
        let key = self.prover().secret_if_any()?.map(|secret| secret.key().public());
        let hearing = gate::hear(&self.state, key.as_ref(), &self.policies(), &run.plan)?;
        let Some(by) = hearing.approver.clone() else { return Ok((run.clone(), hearing)) };
        match self.approve_by_rule(run, by.clone()) {
            Ok(run) if run.approved_by.is_none() => {
                let silent = vec![format!("{by} has approved it: {}", ApprovalCount::of(&run))];
                Ok((run, PolicyResult { approver: None, silent }))
            }
            Ok(run) => Ok((run, hearing)),
            Err(refusal @ (Error::Refused(_) | Error::Uncommitted { .. })) => {
                let silent = vec![format!("policy did not speak: {refusal}")];
                Ok((run.clone(), PolicyResult { approver: None, silent }))
            }
            Err(error) => Err(error),
        }
    }

    /// Approves by a policy, or by the rule for plans that an agent made in a session.
    pub(crate) fn approve_by_rule(&self, run: &Run, by: Approver) -> Result<Run, Error> {
        self.refuse_uncommitted(run)?;
        self.keep_included(run)?;
        let revision = run.revision.clone();
        let decision = |run: &Run| match self.is_under_way() {
            true => foreign_events::policy(run, revision.clone(), by.clone()),
            false => {
                let (revision, by) = (revision.clone(), by.clone());
                decide::harness(run, HarnessCommand::ApproveByPolicy { revision, by })
            }
        };
        // The log must contain the request before the approval.
        decision(&self.run()?)?;
        self.request_approval()?;
        self.say(decision)
    }

    fn policies(&self) -> Vec<(provost_core::rules::policy::Policy, String)> {
        let policies = self.config().gate.policies.values();
        policies.map(|policy| (policy.clone(), config::digest(policy).to_string())).collect()
    }

    /// Returns the digests of the plan's checks that come from the catalogue and that a person has trusted.
    pub(crate) fn trusted_checks(&self, plan: &Plan) -> Result<Vec<String>, Error> {
        let key = self.prover().secret_if_any()?.map(|secret| secret.key().public());
        gate::trusted_checks(&self.state, key.as_ref(), &self.config().checks, plan)
    }

    /// Records that a person has read a check of the catalogue and trusts it to judge plans of agents.
    pub fn trust_check(&self, name: &str) -> Result<(), Error> {
        self.only_people()?;
        self.only_at_a_terminal()?;
        let command = self.config().checks.get(name);
        let command = command.ok_or_else(|| Error::NoSuchCheck { name: name.to_owned() })?;
        let digest = config::check_digest(name, command).to_string();
        gate::trust(&self.state, &self.prover().secret()?.key(), &digest)
    }

    /// Records that a person has read a policy's text and lets it approve.
    pub fn trust_policy(&self, name: &str) -> Result<(), Error> {
        self.only_people()?;
        self.only_at_a_terminal()?;
        let policies = self.policies();
        let (_, digest) = policies
            .iter()
            .find(|(policy, _)| policy.name == name)
            .ok_or_else(|| Error::NoSuchPolicy { name: name.to_owned() })?;
        gate::trust(&self.state, &self.prover().secret()?.key(), digest)
    }

    /// Approves the revision that the person read; the changes since the last revision are kept with it.
    pub fn approve(&self, run: &Run, revision: Revision, by: String) -> Result<Run, Error> {
        self.only_people()?;
        self.only_at_a_terminal()?;
        self.refuse_uncommitted(run)?;
        self.keep_included(run)?;
        let modifications = self.last_changes(run)?;
        let command = HumanCommand::Approve { revision, by, modifications };
        let now = self.run()?;
        let would_be = self.in_their_name(command.clone())?;
        // Decide before writing, so that a refused approval changes nothing.
        match self.is_under_way() {
            true => foreign_events::human(&now, would_be)?,
            false => decide::human(&now, would_be)?,
        };
        // The log must contain the request before the approval.
        self.request_approval()?;
        let run = self.human(command)?;
        if run.approved_by.is_some() {
            // The plan is approved even if this fails; a worker that does not find the base reports it.
            let _ = remote_tree::offer_base(self, &run);
        }
        Ok(run)
    }

    /// Keeps the included files as they are now, so that later changes in the workspace do not matter.
    fn keep_included(&self, run: &Run) -> Result<(), Error> {
        match (&run.binding.base, run.binding.included.is_empty()) {
            (Some(commit), false) => commit::trees(self, run, commit).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Accepts a command of a person.
    pub fn human(&self, command: HumanCommand) -> Result<Run, Error> {
        self.only_people()?;
        let command = self.in_their_name(command)?;
        if foreign_events::lets_through(&command) {
            self.only_at_a_terminal()?;
        }
        let run = self.say(|run| match self.is_under_way() {
            true => foreign_events::human(run, command.clone()),
            false => decide::human(run, command.clone()),
        })?;
        self.project(&run);
        Ok(run)
    }

    /// If a quorum is configured, replaces the approver's name by the authenticated one.
    fn in_their_name(&self, command: HumanCommand) -> Result<HumanCommand, Error> {
        Ok(match command {
            HumanCommand::Approve { revision, modifications, .. } if !self.run()?.quorum().is_usual() => {
                HumanCommand::Approve { revision, by: self.person(), modifications }
            }
            other => other,
        })
    }

    /// Refuses and records a caller that runs, or may run, inside an attempt.
    pub fn only_people(&self) -> Result<(), Error> {
        let sessions = Sessions::new(&self.state);
        let Some(why) = human_check::intruder(&*self.log, &self.workspace_lease(), &sessions, &self.who)?
        else {
            return Ok(());
        };
        let what = format!("a person's command was tried {why}");
        self.harness(|_| HarnessCommand::Tampered { step: None, what: what.clone() })?;
        Err(Error::NotAPerson { why })
    }

    /// If agents have run without a sandbox, requires a terminal that none of them can have.
    pub(crate) fn only_at_a_terminal(&self) -> Result<(), Error> {
        let why = |plan: &PlanId| match &self.who {
            Who::Here => human_check::no_terminal(&*self.log, plan, self.begun),
            Who::Caller(caller) => human_check::no_old_program(&*self.log, plan, caller),
        };
        // An agent of a parent plan is as close to this plan as its own agents.
        let mut found = why(self.id())?;
        for plan in self.plans_above()? {
            found = found.or(why(&plan)?);
        }
        let Some(why) = found else { return Ok(()) };
        let what = format!("a person's decision was tried, and {why}");
        self.harness(|_| HarnessCommand::Tampered { step: None, what: what.clone() })?;
        Err(Error::NoTerminal { why })
    }

    /// Accepts a command of an agent; it can only report.
    pub fn agent(&self, command: AgentCommand) -> Result<Run, Error> {
        self.say(|run| decide::agent(run, command.clone()))
    }

    /// Runs a command while this process holds the plan's lease.
    pub(crate) fn harness_alone(&self, command: HarnessCommand) -> Result<Run, Error> {
        let holder = Holder::here(format!("plan {}", self.id()), plan_context::now());
        let patience = self.config().run.lease_timeout;
        let _plan = self.lease(&format!("plan {}", self.id()), &holder, patience)?;
        self.harness(|_| command.clone())
    }
}
