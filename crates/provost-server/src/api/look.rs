//! Answers questions about plans: list, state, gate, changes, proofs and inbox.

use axum::Json;
use axum::extract::State;
use provost_core::model::chain::PlanId;
use provost_core::model::plan::StepNumber;
use provost_engine::observe::overview::{Overview, PlanSnapshot};
use provost_engine::plan::human_check::Who;
use provost_engine::plan::{queries, step_changes};
use provost_engine::settings::Access;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::principal::Viewer;
use crate::problem::{Answer, Problem, ReadRefusals, no_such_plan};
use crate::request::{Segment, UrlQuery};
use crate::state::{SharedState, ask};
use provost_engine::observe::view::{GateView, InboxItemView, PlanCard, PlanView};

/// Maximum number of items on a page.
const PAGE_MAX: usize = 500;
/// Default number of items on a page.
pub(crate) const PAGE: usize = 100;

pub(crate) fn find(overview: &Overview, id: &str) -> Answer<PlanSnapshot> {
    overview.plan(&PlanId(id.to_owned()))?.ok_or_else(|| no_such_plan(id))
}

/// The caller of the API.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Me {
    /// Name that the log records for your decisions.
    pub name: String,
    #[schema(example = "view")]
    pub scope: String,
}

/// Show the owner of the token or the session
#[utoipa::path(
    get, path = "/api/me", tag = "you",
    responses(
        (status = 200, description = "You.", body = Me),
        ReadRefusals,
    )
)]
pub(super) async fn me(State(_house): State<SharedState>, Viewer(principal): Viewer) -> Json<Me> {
    Json(Me { name: principal.name(), scope: principal.token.scope.word().to_owned() })
}

/// Part of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// Start after this item: `next` of the page before.
    after: Option<String>,
    /// Maximum number of items [default: 100].
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

impl Page {
    /// Returns one page of items that are sorted by `key`, and the key where the next page starts.
    fn of<T>(&self, all: Vec<T>, key: impl Fn(&T) -> String) -> Answer<(Vec<T>, Option<String>)> {
        let limit = limit(self.limit)?;
        let after = |item: &T| self.after.as_ref().is_none_or(|after| key(item) > *after);
        let mut page: Vec<T> = all.into_iter().filter(after).take(limit + 1).collect();
        let next = if page.len() > limit {
            page.truncate(limit);
            page.last().map(key)
        } else {
            None
        };
        Ok((page, next))
    }
}

pub(crate) fn limit(asked: Option<usize>) -> Answer<usize> {
    match asked {
        None => Ok(PAGE),
        Some(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Some(_) => Err(Problem::bad(format!("limit is 1 to {PAGE_MAX}"))),
    }
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Plans {
    pub items: Vec<PlanCard>,
    /// Start of the next page; null on the last page.
    pub next: Option<String>,
}

/// List all plans, by id
#[utoipa::path(
    get, path = "/api/plans", tag = "plans", params(Page),
    responses(
        (status = 200, description = "Plans.", body = Plans),
        ReadRefusals,
    )
)]
pub(super) async fn plans(
    State(app): State<SharedState>,
    _viewer: Viewer,
    UrlQuery(page): UrlQuery<Page>,
) -> Answer<Json<Plans>> {
    ask(&app, move |app| {
        let (page, next) = page.of(app.overview.plans()?, |seen| seen.id.0.clone())?;
        Ok(Json(Plans { items: page.iter().map(PlanCard::of).collect(), next }))
    })
    .await
}

pub(crate) fn plan_of(overview: &Overview, id: &str) -> Answer<PlanView> {
    let seen = find(overview, id)?;
    let attempts = overview.attempts(&seen.id)?;
    let items = overview.items(&seen)?;
    Ok(PlanView::of(&seen, &attempts, items.iter().map(InboxItemView::from).collect()))
}

/// Show one plan with its steps, attempts and verdicts
#[utoipa::path(
    get, path = "/api/plans/{plan}", tag = "plans",
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "The plan.", body = PlanView),
        ReadRefusals,
    )
)]
pub(super) async fn plan(
    State(app): State<SharedState>,
    _viewer: Viewer,
    Segment(plan): Segment<String>,
) -> Answer<Json<PlanView>> {
    ask(&app, move |app| plan_of(&app.overview, &plan).map(Json)).await
}

/// A plan at the end of each revision that ran, and its current state.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Lives {
    /// Oldest first; each has the attempts of its `revision`.
    pub items: Vec<PlanView>,
}

pub(crate) fn lives_of(overview: &Overview, id: &str) -> Answer<Lives> {
    let lives = overview.lives(&find(overview, id)?)?;
    let items = lives.iter().map(|life| PlanView::of(&life.seen, &life.attempts, Vec::new()));
    Ok(Lives { items: items.collect() })
}

/// Show the attempts under each revision of a plan, to compare them
#[utoipa::path(
    get, path = "/api/plans/{plan}/lives", tag = "plans",
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "The lives.", body = Lives),
        ReadRefusals,
    )
)]
pub(super) async fn lives(
    State(app): State<SharedState>,
    _viewer: Viewer,
    Segment(plan): Segment<String>,
) -> Answer<Json<Lives>> {
    ask(&app, move |app| lives_of(&app.overview, &plan).map(Json)).await
}

/// Show what an approval would cover now, and possible reasons against it
#[utoipa::path(
    get, path = "/api/plans/{plan}/gate", tag = "gate",
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "The gate.", body = GateView),
        ReadRefusals,
    )
)]
pub(super) async fn gate(
    State(app): State<SharedState>,
    _viewer: Viewer,
    Segment(plan): Segment<String>,
) -> Answer<Json<GateView>> {
    ask(&app, move |app| Ok(Json(GateView::of(&app.overview, &find(&app.overview, &plan)?)?))).await
}

/// Changes of the plan file since the revision in the log.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Diff {
    pub plan: String,
    pub from: String,
    pub to: String,
    pub changes: Vec<String>,
}

/// Show the changes of the plan file since its last revision in the log
#[utoipa::path(
    get, path = "/api/plans/{plan}/diff", tag = "plans",
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "The changes.", body = Diff),
        ReadRefusals,
    )
)]
pub(super) async fn diff(
    State(app): State<SharedState>,
    _viewer: Viewer,
    Segment(plan): Segment<String>,
) -> Answer<Json<Diff>> {
    ask(&app, move |app| {
        let seen = find(&app.overview, &plan)?;
        let harness = app.overview.harness(&seen, Access::Read, Who::Here)?;
        let reading = provost_engine::plan::recording::read(&harness)?;
        let changes = provost_engine::plan::queries::changes(&seen.run, &reading);
        let (from, to) = (seen.run.revision.0.clone(), reading.revision.0);
        Ok(Json(Diff { plan, from, to, changes }))
    })
    .await
}

/// Files that a step changed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Work {
    pub plan: String,
    pub step: u32,
    pub files: Vec<File>,
}

/// A file before and after the step; null if it did not exist then.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct File {
    pub path: String,
    pub old: Option<String>,
    pub new: Option<String>,
    /// Reason why the content is not shown.
    pub unshown: Option<String>,
}

/// Show the files that a step changed: from the tree before it to the tree its contract held on
#[utoipa::path(
    get, path = "/api/plans/{plan}/steps/{step}/changes", tag = "plans",
    params(
        ("plan" = String, Path, description = "Its id."),
        ("step" = u32, Path, description = "The step's number.", minimum = 1, maximum = 1000000),
    ),
    responses(
        (status = 200, description = "The files.", body = Work),
        ReadRefusals,
    )
)]
pub(super) async fn changes(
    State(app): State<SharedState>,
    _viewer: Viewer,
    Segment((plan, step)): Segment<(String, u32)>,
) -> Answer<Json<Work>> {
    ask(&app, move |app| {
        let seen = find(&app.overview, &plan)?;
        let harness = app.overview.harness(&seen, Access::Read, Who::Here)?;
        let files = step_changes::of_step(&harness, StepNumber(step))?.into_iter().map(|changed| File {
            path: changed.path,
            old: changed.old,
            new: changed.new,
            unshown: changed.unshown.map(str::to_owned),
        });
        Ok(Json(Work { plan, step, files: files.collect() }))
    })
    .await
}

/// Result of the audit of a plan's log, and its signed proofs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Proofs {
    pub plan: String,
    /// True if hash chain, verdicts, approvals and proofs are consistent.
    pub sound: bool,
    /// Problems that the audit found, one per line.
    pub findings: Vec<String>,
    pub events: u64,
    /// Hash of the last event.
    pub head: String,
    /// Public key that verifies the envelopes.
    pub public_key: Option<String>,
    /// DSSE envelopes, oldest first.
    #[schema(value_type = Vec<Object>)]
    pub envelopes: Vec<Value>,
}

pub(crate) fn proofs_of(overview: &Overview, plan: &str) -> Answer<Proofs> {
    let seen = find(overview, plan)?;
    let harness = overview.harness(&seen, Access::Read, Who::Here)?;
    let audit = queries::audit(&harness)?;
    let broken = audit.broken.as_ref().map(ToString::to_string);
    let findings = broken.into_iter().chain(audit.unfounded.clone()).chain(audit.forged.clone());
    let none = audit.is_empty().then(|| "the log has no event of this plan".to_owned());
    let findings = none.into_iter().chain(findings).chain(audit.disproved.clone()).collect();
    let lines = queries::proofs(&harness)?;
    Ok(Proofs {
        plan: plan.to_owned(),
        sound: audit.sound(),
        findings,
        events: audit.head.seq,
        head: audit.head.hash.to_string(),
        public_key: audit.proofs.map(|(_, key)| key),
        envelopes: lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect(),
    })
}

/// Audit the log of a plan, and show its proofs
#[utoipa::path(
    get, path = "/api/plans/{plan}/proofs", tag = "plans",
    params(("plan" = String, Path, description = "Its id.")),
    responses(
        (status = 200, description = "The proofs.", body = Proofs),
        ReadRefusals,
    )
)]
pub(super) async fn proofs(
    State(app): State<SharedState>,
    _viewer: Viewer,
    Segment(plan): Segment<String>,
) -> Answer<Json<Proofs>> {
    ask(&app, move |app| proofs_of(&app.overview, &plan).map(Json)).await
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Inbox {
    pub items: Vec<InboxItemView>,
}

/// List the items that wait for a person, newest last
#[utoipa::path(
    get, path = "/api/inbox", tag = "inbox",
    responses(
        (status = 200, description = "What waits.", body = Inbox),
        ReadRefusals,
    )
)]
pub(super) async fn inbox(State(app): State<SharedState>, _viewer: Viewer) -> Answer<Json<Inbox>> {
    ask(&app, |app| {
        let items = app.overview.inbox()?;
        Ok(Json(Inbox { items: items.iter().map(InboxItemView::from).collect() }))
    })
    .await
}
