//! Decisions of people: at the gate, and about what waits.
//!
//! **Invariant:** each goes in by a person's door of the engine, on behalf of whoever called, under the name
//! their token has.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use provost_core::language::parse;
use provost_core::model::event::{Choice, Revision};
use provost_core::model::hash::Hash;
use provost_core::model::usage::Amount;
use provost_core::rules::command::{HumanCommand, Refusal};
use provost_core::rules::inbox;
use provost_core::state::run::{Run, Stage};
use provost_engine::plan::harness::Harness;
use provost_engine::plan::{commands, recording, uncommitted};
use provost_engine::settings::Access;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::look::find;
use crate::http::problem::{DiagnosticView, WriteRefusals};
use crate::http::{Answer, AppState, JsonBody, Problem, Segment, Shared, Visitor, ask};
use crate::view::ApprovalsView;

/// For the document; the header is read on the way in.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it is only for the document of the API")]
struct Once {
    /// The same write twice, with the same key, is one.
    #[param(
        rename = "Idempotency-Key",
        min_length = 1,
        max_length = 255,
        pattern = "^[!-~]+$",
        nullable = false
    )]
    key: Option<String>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The one that was read: `revision` of the gate.
    #[schema(min_length = 12)]
    pub revision: String,
    /// Uncommitted files inside `touches` become part of the approved base; the revision is then
    /// `revision_with_uncommitted` of the gate.
    #[serde(default)]
    pub include_uncommitted: bool,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    #[schema(min_length = 1)]
    pub question: String,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rejection {
    #[schema(min_length = 1)]
    pub reason: String,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Amendment {
    /// The whole plan, anew.
    pub text: String,
    /// `digest` of the gate: of the text that was changed.
    pub digest: String,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Answered)]
pub struct InboxAnswerBody {
    /// One of the item's choices: retry, skip, abort, revise or confirm.
    pub choice: String,
    /// Why.
    #[serde(default)]
    pub note: String,
    /// With retry, where a budget ran out: its limits from now on, as in a plan (`max $3, 400k tokens`).
    #[serde(default)]
    pub budget: Option<String>,
}

/// How the plan stands after it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Decided)]
pub struct DecisionResult {
    pub plan: String,
    #[schema(example = "approved")]
    pub stage: String,
    pub revision: String,
    pub approvals: ApprovalsView,
}

/// What a person decides about a plan.
#[derive(Clone, Debug)]
pub enum Decision {
    Approve(Approval),
    Ask(Question),
    Reject(Rejection),
    Amend(Amendment),
}

/// The one way in for decisions at the gate, from pages and programs.
pub fn decide(house: &AppState, by: &Visitor, plan: &str, decision: Decision) -> Answer<DecisionResult> {
    let seen = find(&house.overview, plan)?;
    let harness = house.overview.harness(&seen, Access::Write, by.who(house))?.named(by.name());
    commands::only_people(&harness)?;
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
        Decision::Ask(Question { question }) => {
            recording::bring_up(&harness)?;
            commands::human(&harness, HumanCommand::Ask { question: clean(&question), by: name })?
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
        let detail = "the plan file is not what was read: somebody changed it meanwhile";
        return Err(Problem::new(StatusCode::CONFLICT, "stale", detail).hint("Look at it again."));
    }
    // A form of a browser ends lines as mail does.
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

/// The one way in for answers to what waits.
pub fn answered(
    house: &AppState,
    by: &Visitor,
    item: &str,
    answer: InboxAnswerBody,
) -> Answer<DecisionResult> {
    let items = house.overview.inbox()?;
    let found = items.iter().find(|known| known.id.to_string() == item);
    let found = found.ok_or_else(|| Refusal::NoSuchItem { id: item.to_owned() })?;
    if found.kind.is_at_gate() {
        let detail = "what waits at the gate is approved, amended, asked back or rejected there";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-an-answer", detail)
            .hint(format!("See /plans/{}/gate", found.plan)));
    }
    let choice = [Choice::Retry, Choice::Skip, Choice::Abort, Choice::Revise, Choice::Confirm]
        .into_iter()
        .find(|choice| choice.word() == answer.choice);
    let Some(choice) = choice else {
        let offered: Vec<&str> = found.choices.iter().map(|offer| offer.choice).collect();
        let detail = format!("`{}` is no answer here: choose {}", answer.choice, offered.join(", "));
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-an-answer", detail));
    };
    let seen = find(&house.overview, &found.plan.0)?;
    let harness = house.overview.harness(&seen, Access::Write, by.who(house))?;
    commands::only_people(&harness)?;
    // Still the same question, now that nobody is between.
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
            let detail = "a budget goes with `retry` of a step";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-an-answer", detail));
        }
    };
    let run = commands::human(&harness, command)?;
    Ok(decided(&harness, &run))
}

/// Approve the revision that was read
#[utoipa::path(
    post, path = "/api/plans/{plan}/gate/approve", tag = "gate", request_body = Approval,
    params(
        ("plan" = String, Path, description = "Its id."),
        Once,
    ),
    responses(
        (status = 200, description = "Approved.", body = DecisionResult),
        WriteRefusals,
    )
)]
pub async fn approve(
    State(house): State<Shared>,
    Segment(plan): Segment<String>,
    JsonBody { by, said }: JsonBody<Approval>,
) -> Answer<Json<DecisionResult>> {
    ask(&house, move |house| decide(house, &by, &plan, Decision::Approve(said)).map(Json)).await
}

/// Park the plan at the gate with a question
#[utoipa::path(
    post, path = "/api/plans/{plan}/gate/ask", tag = "gate", request_body = Question, operation_id = "ask",
    params(
        ("plan" = String, Path, description = "Its id."),
        Once,
    ),
    responses(
        (status = 200, description = "Asked.", body = DecisionResult),
        WriteRefusals,
    )
)]
pub async fn ask_back(
    State(house): State<Shared>,
    Segment(plan): Segment<String>,
    JsonBody { by, said }: JsonBody<Question>,
) -> Answer<Json<DecisionResult>> {
    ask(&house, move |house| decide(house, &by, &plan, Decision::Ask(said)).map(Json)).await
}

/// Send the plan back to draft, with a reason
#[utoipa::path(
    post, path = "/api/plans/{plan}/gate/reject", tag = "gate", request_body = Rejection,
    params(
        ("plan" = String, Path, description = "Its id."),
        Once,
    ),
    responses(
        (status = 200, description = "Rejected.", body = DecisionResult),
        WriteRefusals,
    )
)]
pub async fn reject(
    State(house): State<Shared>,
    Segment(plan): Segment<String>,
    JsonBody { by, said }: JsonBody<Rejection>,
) -> Answer<Json<DecisionResult>> {
    ask(&house, move |house| decide(house, &by, &plan, Decision::Reject(said)).map(Json)).await
}

/// Change the plan: its file gets the new text, and it stands at the gate again
#[utoipa::path(
    post, path = "/api/plans/{plan}/gate/amend", tag = "gate", request_body = Amendment,
    params(
        ("plan" = String, Path, description = "Its id."),
        Once,
    ),
    responses(
        (status = 200, description = "Changed.", body = DecisionResult),
        WriteRefusals,
    )
)]
pub async fn amend(
    State(house): State<Shared>,
    Segment(plan): Segment<String>,
    JsonBody { by, said }: JsonBody<Amendment>,
) -> Answer<Json<DecisionResult>> {
    ask(&house, move |house| decide(house, &by, &plan, Decision::Amend(said)).map(Json)).await
}

/// Answer what waits for a person
#[utoipa::path(
    post, path = "/api/inbox/{item}/answer", tag = "inbox", request_body = InboxAnswerBody,
    params(
        ("item" = String, Path, description = "Its id."),
        Once,
    ),
    responses(
        (status = 200, description = "Answered.", body = DecisionResult),
        WriteRefusals,
    )
)]
pub async fn answer(
    State(house): State<Shared>,
    Segment(item): Segment<String>,
    JsonBody { by, said }: JsonBody<InboxAnswerBody>,
) -> Answer<Json<DecisionResult>> {
    ask(&house, move |house| answered(house, &by, &item, said).map(Json)).await
}
