use provost_engine::harness::Access;
use serde_json::json;

use crate::outcome::{Answer, Outcome};
use crate::place::Global;
use crate::terminal;

/// Show what changed since the revision the log holds
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A path, a name, or nothing for the active plan
    plan: Option<String>,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    let run = harness.run()?;
    let reading = harness.read()?;
    let changes = if run.exists() { harness.changes(&run, &reading) } else { Vec::new() };
    if global.json {
        let from = run.exists().then_some(&run.revision);
        terminal::print(&format!(
            "{}\n",
            json!({ "plan": harness.id(), "from": from, "to": reading.revision, "changes": changes })
        ))?;
        return Ok(Outcome::Done);
    }
    if !run.exists() {
        terminal::talk("the log holds no revision of this plan yet");
    } else if changes.is_empty() {
        terminal::talk("nothing changed");
    }
    for change in changes {
        terminal::print(&format!("{change}\n"))?;
    }
    Ok(Outcome::Done)
}
