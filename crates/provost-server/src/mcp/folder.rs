//! Texts about the plans of the folder, and about what waits in them for a person.

use provost_engine::observe::view::{InboxItemView, PlanState};
use provost_engine::session::agent_session::FolderPlan;

/// Lists all plans, one line each.
pub(super) fn plans(plans: &[FolderPlan]) -> String {
    match plans {
        [] => "There is no plan in this folder. Make one with plan_create.".to_owned(),
        plans => plans.iter().map(line).collect(),
    }
}

/// Lists the plans that are not done, one line each.
pub(super) fn open_plans(plans: &[FolderPlan]) -> String {
    let open: String = plans.iter().filter(|plan| plan.card.state != PlanState::Done).map(line).collect();
    if open.is_empty() { "- none\n".to_owned() } else { open }
}

fn line(FolderPlan { card, is_own }: &FolderPlan) -> String {
    let own = if *is_own { ", the plan of this session" } else { "" };
    let waiting = match card.waiting {
        0 => String::new(),
        1 => ", 1 item waits for a person".to_owned(),
        more => format!(", {more} items wait for a person"),
    };
    let trouble = card.trouble.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let (name, title, state) = (&card.name, &card.title, card.state.word());
    format!(
        "- {name}: {title} · {state}, {} of {} steps passed{waiting}{own}{trouble}\n",
        card.done, card.total
    )
}

/// Lists what waits for a person: without the output of checks, because a contract may be hidden from agents.
pub(super) fn inbox(items: &[InboxItemView]) -> String {
    let line = |item: &InboxItemView| {
        let step = item.step.map(|step| format!(", step {step}")).unwrap_or_default();
        format!("- {}{step}: {} (since {}; `{}`)\n", item.name, item.reason, item.since, item.next)
    };
    if items.is_empty() { "- nothing\n".to_owned() } else { items.iter().map(line).collect() }
}
