use provost_engine::finish;
use provost_engine::harness::Access;

use crate::outcome::{Answer, Outcome};
use crate::place::Global;

/// Make the checks of a session that wants to stop (started by its hook)
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Whose session it is
    client: String,
    /// The plan's file
    plan: String,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    // The client may end everything its hook has started; checks go on without it.
    let _ = rustix::process::setsid();
    let harness = global.open(Some(&args.plan), Access::Write)?;
    finish::look(&harness, &args.client)?;
    Ok(Outcome::Done)
}
