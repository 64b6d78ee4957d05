//! Carries out decisions made in the view, by the same entry point as the command line.
//!
//! **Invariant:** an approval names the revision that was on the screen; if the plan has changed, it is
//! refused.

use provost_core::language::parse;
use provost_core::language::shell_word::quoted;
use provost_core::model::chain::PlanId;
use provost_core::model::event::{Choice, Revision};
use provost_core::model::usage::Amount;
use provost_core::rules::command::{HumanCommand, Refusal};
use provost_core::rules::inbox::{self, ItemId};
use provost_core::rules::quorum::ApprovalCount;
use provost_core::state::run::{Run, Stage};
use provost_engine::Error;
use provost_engine::observe::overview::Overview;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::human_check::Who;
use provost_engine::plan::{commands, recording};
use provost_engine::settings::Access;

use crate::failure::Failure;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Approve {
        plan: PlanId,
        revision: Revision,
    },
    Reject {
        plan: PlanId,
        reason: String,
    },
    Ask {
        plan: PlanId,
        question: String,
    },
    /// `limits` as in a plan, or empty.
    Answer {
        item: ItemId,
        choice: Choice,
        note: String,
        limits: String,
    },
}

impl Decision {
    fn plan(&self) -> &PlanId {
        match self {
            Decision::Approve { plan, .. } | Decision::Reject { plan, .. } | Decision::Ask { plan, .. } => {
                plan
            }
            Decision::Answer { item, .. } => &item.plan,
        }
    }
}

/// Carries out a decision and returns a description of the result.
pub(super) fn carry_out(overview: &Overview, decision: Decision, by: &str) -> Result<String, Failure> {
    let plan = decision.plan();
    let seen = overview.plan(plan)?.ok_or_else(|| Error::NotThere { plan: plan.clone() })?;
    let harness = overview.harness(&seen, Access::Write, Who::Here)?;
    commands::only_people(&harness)?;
    let (name, by) = (seen.name(), by.to_owned());
    // Watch shows plans of all folders, so the path names the plan.
    let resume = format!("`provost run {}`", quoted(&harness.place().path.display().to_string()));
    let clean = |text: &str| harness.redactor().text(text).into_owned();
    Ok(match decision {
        Decision::Approve { revision, .. } => {
            let (run, _) = recording::bring_up_to_approve_revision(&harness, &revision.0)?;
            let run = commands::approve(&harness, &run, revision, by)?;
            if run.approved_by.is_none() {
                return Ok(format!("your approval of {name} is recorded: {}", ApprovalCount::of(&run)));
            }
            format!("{name} is approved at revision {}; start it with {resume}", run.revision.short())
        }
        Decision::Reject { reason, .. } => {
            commands::human(&harness, HumanCommand::Reject { reason: clean(&reason), by })?;
            format!("{name} is a draft again")
        }
        Decision::Ask { question, .. } => {
            recording::bring_up(&harness)?;
            commands::human(&harness, HumanCommand::Ask { question: clean(&question), by, step: None })?;
            format!("{name} waits at the gate, with your question")
        }
        Decision::Answer { item, choice, note, limits } => {
            let command = answer(&harness, &item, choice, clean(&note), &limits, by)?;
            let run = commands::human(&harness, command)?;
            format!("{name} is {}; {}", run.stage.word(), next(&run, &resume))
        }
    })
}

fn answer(
    harness: &Harness,
    item: &ItemId,
    choice: Choice,
    note: String,
    limits: &str,
    by: String,
) -> Result<HumanCommand, Failure> {
    // Read the item again: it must still be the same question.
    let items = provost_engine::observe::inbox::plan_items(harness, &harness.run()?)?;
    let found = inbox::named(&items, &format!("e{}", item.seq));
    let Some(found) = found.first() else {
        return Err(Error::from(Refusal::NoSuchItem { id: item.to_string() }).into());
    };
    match (found.step, limits) {
        (step, "") => Ok(HumanCommand::Answer { step, choice, note, by }),
        (Some(step), limits) => {
            let unreadable = |part| {
                let form = "Write them as `max 200k tokens, $1.50, 20 minutes`.";
                Failure::usage(format!("cannot read the limit `{part}`"), form)
            };
            let budget = parse::budget(limits).map(Amount::from).map_err(unreadable)?;
            Ok(HumanCommand::Raise { step, budget, note, by })
        }
        (None, _) => Err(Failure::usage("only a step has limits", "Leave them empty.")),
    }
}

fn next(run: &Run, resume: &str) -> String {
    match run.stage {
        Stage::Failed | Stage::Done => "nothing more runs".to_owned(),
        Stage::Draft => format!("change it, then run {resume} to approve it again"),
        Stage::Verified | Stage::Approved | Stage::InProgress => format!("{resume} continues it"),
    }
}
