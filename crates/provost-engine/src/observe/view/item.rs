//! The view of an item that waits for a person.

use provost_core::model::chain::PlanId;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::inbox::{ChoiceOffer, DecisionKind, FailedTry, InboxItem, ItemContext, ItemId};
use serde::Serialize;
use utoipa::ToSchema;

/// Something that waits for a person.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Waiting)]
pub struct InboxItemView {
    #[schema(value_type = String, example = "fix-auth-3fa9c1d2:e12")]
    pub id: ItemId,
    #[schema(value_type = String)]
    pub plan: PlanId,
    pub name: String,
    pub title: String,
    #[schema(value_type = String, example = "escalation")]
    pub kind: DecisionKind,
    pub step: Option<u32>,
    pub step_title: Option<String>,
    #[schema(value_type = String)]
    pub since: Timestamp,
    pub reason: String,
    /// It waits longer than `remind_after`; null if the configuration of its plan was not read.
    pub overdue: Option<bool>,
    /// Earlier tries and the last output, for the decision.
    #[schema(value_type = Object)]
    pub context: ItemContext,
    pub choices: Vec<ChoiceView>,
    /// The command for the first choice.
    pub next: String,
}

/// A possible answer and its effect.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Choice)]
pub struct ChoiceView {
    pub choice: &'static str,
    pub does: &'static str,
    /// The same on a command line.
    pub command: String,
}

impl InboxItemView {
    pub fn of(item: &InboxItem, overdue: Option<bool>) -> Self {
        let choice = |offer: &ChoiceOffer| ChoiceView {
            choice: offer.choice,
            does: offer.does,
            command: offer.command.clone(),
        };
        Self {
            id: item.id.clone(),
            plan: item.plan.clone(),
            name: item.name.clone(),
            title: item.title.clone(),
            kind: item.kind,
            step: item.step.map(|step| step.0),
            step_title: item.step_title.clone(),
            since: item.since,
            reason: item.reason.clone(),
            overdue,
            context: item.context.clone(),
            choices: item.choices.iter().map(choice).collect(),
            next: item.choices.first().map(|offer| offer.command.clone()).unwrap_or_default(),
        }
    }
}

impl From<&InboxItem> for InboxItemView {
    fn from(item: &InboxItem) -> Self {
        Self::of(item, None)
    }
}

/// Describes a failed attempt and its consequence in one line.
pub fn attempt(tried: &FailedTry) -> String {
    let by = tried.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let said = tried.said.as_ref().map(|said| format!(" (it said: {said})")).unwrap_or_default();
    let mut parts: Vec<String> = tried.ended.iter().map(|ended| format!("{ended}{said}")).collect();
    parts.extend(tried.failure.clone());
    if let (Some(class), rule) = (tried.class, tried.rule.as_deref().unwrap_or_default()) {
        parts.push(format!("{} ({rule})", class.word()));
    }
    if let Some(followed) = &tried.followed {
        let recipe = tried.recipe.as_deref().unwrap_or("recipe");
        parts.push(format!("{recipe}: {followed}"));
    }
    format!("attempt {}{by}: {}", tried.attempt, parts.join(" · "))
}
