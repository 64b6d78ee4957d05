use provost_engine::harness::Access;
use serde_json::json;

use crate::outcome::{Answer, Outcome};
use crate::place::Global;
use crate::terminal;

/// Say which plan is meant, and why
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A path, a name, or nothing for the active plan
    plan: Option<String>,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    let place = harness.place();
    if global.json {
        let answer = json!({
            "plan": harness.id(), "path": place.path, "workspace": place.workspace, "why": place.why.to_string(),
        });
        terminal::print(&format!("{answer}\n"))?;
    } else {
        terminal::print(&format!("{}\n", place.path.display()))?;
        terminal::talk(&format!("{}; workspace {}", place.why, place.workspace.display()));
    }
    Ok(Outcome::Done)
}
