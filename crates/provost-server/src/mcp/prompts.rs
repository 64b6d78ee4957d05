//! Prompts that explain how to work with provost, and what is open; their texts are in `prompts/`.

use provost_engine::observe::view::InboxItemView;
use provost_engine::session::agent_session::FolderPlan;
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};

use super::folder;

/// Not `plan`: Gemini CLI has a command of that name and warns at each start.
const MAKE: &str = "make_plan";
const PLAN: &str = include_str!("prompts/plan.md");
const FINISH: &str = include_str!("prompts/finish.md");
/// Needs the plans of the folder; the others are fixed texts.
pub(super) const OPEN: &str = "what_is_open";
const OPEN_TEXT: &str = include_str!("prompts/open.md");

pub(super) fn all() -> Vec<Prompt> {
    let goal = PromptArgument::new("goal").with_description("The goal of the work").with_required(false);
    vec![
        Prompt::new(
            MAKE,
            Some("Plan the work with a check for each step, and carry it out"),
            Some(vec![goal]),
        ),
        Prompt::new("finish", Some("The conditions for saying that the work is done"), None),
        Prompt::new(OPEN, Some("The open plans of this folder, and what waits for a person"), None),
    ]
}

/// Returns one of the fixed prompts.
pub(super) fn get(name: &str, arguments: Option<&JsonObject>) -> Option<GetPromptResult> {
    let goal = arguments.and_then(|map| map.get("goal")?.as_str()).map(str::trim).unwrap_or_default();
    let text = match name {
        MAKE if goal.is_empty() => PLAN.to_owned(),
        MAKE => format!("{PLAN}\nThe goal: {goal}\n"),
        "finish" => FINISH.to_owned(),
        _ => return None,
    };
    Some(of(text))
}

pub(super) fn what_is_open(plans: &[FolderPlan], inbox: &[InboxItemView]) -> GetPromptResult {
    let text = OPEN_TEXT.replace("{plans}\n", &format!("{}\n", folder::open_plans(plans)));
    of(text.replace("{inbox}\n", &folder::inbox(inbox)))
}

fn of(text: String) -> GetPromptResult {
    GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)])
}
