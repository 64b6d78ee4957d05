use provost_engine::harness::Access;
use serde_json::json;

use crate::outcome::{Answer, Outcome};
use crate::place::Global;
use crate::terminal;

/// Verify the log: the chain from its first event, and that every passed step rests on a verdict
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost audit                       the active plan
  provost audit PLAN.md --json        for programs; exit code 70 when the log does not verify")]
pub struct Args {
    /// A path, a name, or nothing for the active plan
    plan: Option<String>,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    let audit = harness.audit()?;
    if global.json {
        let found = json!({
            "plan": harness.id(),
            "sound": audit.sound(),
            "events": audit.head.seq,
            "head": audit.head.hash.to_string(),
            "broken": audit.broken.as_ref().map(ToString::to_string),
            "unfounded": audit.unfounded,
        });
        terminal::print(&format!("{found}\n"))?;
    } else {
        terminal::print(&terminal::audit(&audit))?;
    }
    Ok(if audit.sound() { Outcome::Done } else { Outcome::Unsound })
}
