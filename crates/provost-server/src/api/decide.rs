//! Carries out decisions of people: at the gate, and about items of the inbox.
//!
//! **Invariant:** the engine checks for each decision that its caller can be a person, and the log records it
//! under the name of the caller's token.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use provost_core::language::parse;
use provost_core::model::event::{Choice, Revision};
use provost_core::model::hash::Hash;
use provost_core::model::plan::StepNumber;
use provost_core::model::usage::Amount;
use provost_core::rules::command::{HumanCommand, Refusal};
use provost_core::rules::inbox;
use provost_core::state::run::{Run, Stage};
use provost_engine::plan::harness::Harness;
use provost_engine::plan::{commands, recording, uncommitted};
use provost_engine::settings::Access;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::look::find;
use crate::principal::Principal;
use crate::problem::{Answer, Problem, WriteRefusals};
use crate::request::{JsonBody, Segment};
use crate::state::{AppState, SharedState, ask};
use provost_engine::observe::view::{ApprovalsView, DiagnosticView};

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Approval {
    /// The revision to approve: `revision` of the gate.
    #[schema(min_length = 12)]
    pub revision: String,
    /// If true, uncommitted files inside `touches` become part of the approved base. The revision is then
    /// `revision_with_uncommitted` of the gate.
    #[serde(default)]
    pub include_uncommitted: bool,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    #[schema(min_length = 1)]
    pub question: String,
    /// The step that it is about [default: the whole plan].
    #[serde(default)]
    #[schema(minimum = 1)]
    pub step: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rejection {
    #[schema(min_length = 1)]
    pub reason: String,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Amendment {
    /// The whole new text of the plan.
    pub text: String,
    /// Digest of the text that was edited: `digest` of the gate.
    pub digest: String,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Answered)]
pub(crate) struct InboxAnswerBody {
    /// One of the item's choices: retry, skip, abort, revise or confirm.
    pub choice: String,
    /// Reason, for the log.
    #[serde(default)]
    pub note: String,
    /// With retry, if a budget ran out: its new limits, written as in a plan (`max $3, 400k tokens`).
    #[serde(default)]
    pub budget: Option<String>,
}

/// State of the plan after the decision.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Decided)]
pub(crate) struct DecisionResult {
    pub plan: String,
    #[schema(example = "approved")]
    pub stage: String,
    pub revision: String,
    pub approvals: ApprovalsView,
}

/// A decision of a person about a plan.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    Approve(Approval),
    Ask(Question),
    Reject(Rejection),
    Amend(Amendment),
}

/// Carries out a decision at the gate, from a page or a program.
pub(crate) fn decide(
    app: &AppState,
    by: &Principal,
    plan: &str,
    decision: Decision,
) -> Answer<DecisionResult> {
    let seen = find(&app.overview, plan)?;
    let harness = app.overview.harness(&seen, Access::Write, by.who(app))?.named(by.name());
    provost_engine::plan::commands::only_people(&harness)?;
    let name = by.name();
    let clean = |text: &str| harness.redactor().text(text).into_owned();
    let run = match decision {
        Decision::Approve(Approval { revision: typed, include_uncommitted }) => {
            if include_uncommitted {
                uncommitted::include_uncommitted(&harness);
            }
            let (run, _) = recording::bring_up_to_approve_revision(&harness, &typed)?;
            // A prefix names the revision only if it is the one the plan has now.
            let named = run.revision.is_named_by(&typed);
            let revision = if named { run.revision.clone() } else { Revision(typed) };
            commands::approve(&harness, &run, revision, name)?
        }
        Decision::Ask(Question { question, step }) => {
            recording::bring_up(&harness)?;
            let (question, step) = (clean(&question), step.map(StepNumber));
            commands::human(&harness, HumanCommand::Ask { question, by: name, step })?
        }
        Decision::Reject(Rejection { reason }) => {
            commands::human(&harness, HumanCommand::Reject { reason: clean(&reason), by: name })?
        }
        Decision::Amend(amendment) => amended(&harness, amendment)?,
    };
    Ok(decided(&harness, &run))
}

fn amended(harness: &Harness, Amendment { text, digest }: Amendment) -> Answer<Run> {
    let before = recording::read(harness)?;
    if Hash::of(before.text.as_bytes()).to_string() != digest {
        let detail = "the plan file has changed since you read it";
        return Err(Problem::new(StatusCode::CONFLICT, "stale", detail)
            .hint("Read the plan again, and change that text."));
    }
    // A browser's form ends lines with CRLF.
    let text = if before.text.contains("\r\n") { text } else { text.replace("\r\n", "\n") };
    let after = recording::check_text(harness, text.into_bytes())?;
    if after.errors() {
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "plan", "the new text has errors");
        let diagnostics = DiagnosticView::all(&after.text, &after.diagnostics);
        return Err(Problem { diagnostics, ..problem.hint("The plan is unchanged.") });
    }
    recording::rewrite(harness, &before, &after.text)?;
    let (run, _) = recording::bring_up(harness)?;
    Ok(if run.stage == Stage::Verified { commands::request_approval(harness)? } else { run })
}

fn decided(harness: &Harness, run: &Run) -> DecisionResult {
    DecisionResult {
        plan: harness.id().0.clone(),
        stage: run.stage.word().to_owned(),
        revision: run.revision.0.clone(),
        approvals: ApprovalsView::of(run),
    }
}

/// Carries out an answer to an item of the inbox.
pub(crate) fn answered(
    app: &AppState,
    by: &Principal,
    item: &str,
    answer: InboxAnswerBody,
) -> Answer<DecisionResult> {
    let items = app.overview.inbox()?;
    let found = items.iter().find(|known| known.id.to_string() == item);
    let found = found.ok_or_else(|| Refusal::NoSuchItem { id: item.to_owned() })?;
    if found.kind.is_at_gate() {
        let detail = "this item is decided at the gate: approve, amend, ask or reject the plan there";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-an-answer", detail)
            .hint(format!("See /plans/{}/gate", found.plan)));
    }
    let choice = [Choice::Retry, Choice::Skip, Choice::Abort, Choice::Revise, Choice::Confirm]
        .into_iter()
        .find(|choice| choice.word() == answer.choice);
    let Some(choice) = choice else {
        let offered: Vec<&str> = found.choices.iter().map(|offer| offer.choice).collect();
        let detail =
            format!("`{}` is no answer to this item; choose one of {}", answer.choice, offered.join(", "));
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-an-answer", detail));
    };
    let seen = find(&app.overview, &found.plan.0)?;
    let harness = app.overview.harness(&seen, Access::Write, by.who(app))?;
    provost_engine::plan::commands::only_people(&harness)?;
    // Another person may have answered the item since it was listed.
    let run = harness.run()?;
    if inbox::named(
        &provost_engine::observe::inbox::plan_items(&harness, &run)?,
        &format!("e{}", found.id.seq),
    )
    .is_empty()
    {
        return Err(Refusal::NoSuchItem { id: item.to_owned() }.into());
    }
    let note = harness.redactor().text(&answer.note).into_owned();
    let budget = answer.budget.filter(|text| !text.trim().is_empty());
    let command = match (budget, found.step, choice) {
        (None, step, choice) => HumanCommand::Answer { step, choice, note, by: by.name() },
        (Some(text), Some(step), Choice::Retry) => {
            let unreadable = |part| {
                let detail =
                    format!("`{part}` is no limit; write it as `max 200k tokens, $1.50, 20 minutes`");
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-an-answer", detail)
            };
            let budget = parse::budget(&text).map(Amount::from).map_err(unreadable)?;
            HumanCommand::Raise { step, budget, note, by: by.name() }
        }
        (Some(_), ..) => {
            let detail = "a budget is only accepted with `retry` of a step";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-an-answer", detail));
        }
    };
    let run = commands::human(&harness, command)?;
    Ok(decided(&harness, &run))
}

/// Approve the revision that you read
#[utoipa::path(
    post, path = "/api/plans/{plan}/gate/approve", tag = "gate", request_body = Approval,
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "Approved.", body = DecisionResult),
        WriteRefusals,
    )
)]
pub(super) async fn approve(
    State(app): State<SharedState>,
    Segment(plan): Segment<String>,
    JsonBody { by, said }: JsonBody<Approval>,
) -> Answer<Json<DecisionResult>> {
    ask(&app, move |app| decide(app, &by, &plan, Decision::Approve(said)).map(Json)).await
}

/// Hold the plan at the gate with a question
#[utoipa::path(
    post, path = "/api/plans/{plan}/gate/ask", tag = "gate", request_body = Question, operation_id = "ask",
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "Asked.", body = DecisionResult),
        WriteRefusals,
    )
)]
pub(super) async fn ask_back(
    State(app): State<SharedState>,
    Segment(plan): Segment<String>,
    JsonBody { by, said }: JsonBody<Question>,
) -> Answer<Json<DecisionResult>> {
    ask(&app, move |app| decide(app, &by, &plan, Decision::Ask(said)).map(Json)).await
}

/// Send the plan back to draft, with a reason
#[utoipa::path(
    post, path = "/api/plans/{plan}/gate/reject", tag = "gate", request_body = Rejection,
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "Rejected.", body = DecisionResult),
        WriteRefusals,
    )
)]
pub(super) async fn reject(
    State(app): State<SharedState>,
    Segment(plan): Segment<String>,
    JsonBody { by, said }: JsonBody<Rejection>,
) -> Answer<Json<DecisionResult>> {
    ask(&app, move |app| decide(app, &by, &plan, Decision::Reject(said)).map(Json)).await
}

/// Change the plan: replaces its text and sends it to the gate again
#[utoipa::path(
    post, path = "/api/plans/{plan}/gate/amend", tag = "gate", request_body = Amendment,
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "Changed.", body = DecisionResult),
        WriteRefusals,
    )
)]
pub(super) async fn amend(
    State(app): State<SharedState>,
    Segment(plan): Segment<String>,
    JsonBody { by, said }: JsonBody<Amendment>,
) -> Answer<Json<DecisionResult>> {
    ask(&app, move |app| decide(app, &by, &plan, Decision::Amend(said)).map(Json)).await
}

/// Answer an item that waits for a person
#[utoipa::path(
    post, path = "/api/inbox/{item}/answer", tag = "inbox", request_body = InboxAnswerBody,
    params(("item" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "Answered.", body = DecisionResult),
        WriteRefusals,
    )
)]
pub(super) async fn answer(
    State(app): State<SharedState>,
    Segment(item): Segment<String>,
    JsonBody { by, said }: JsonBody<InboxAnswerBody>,
) -> Answer<Json<DecisionResult>> {
    ask(&app, move |app| answered(app, &by, &item, said).map(Json)).await
}
