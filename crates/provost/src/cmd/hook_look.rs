use provost_engine::session::stop_hook;
use provost_engine::settings::Access;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};

/// Run the checks of a session that wants to stop (internal: its hook starts it)
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Client of the session
    client: String,
    /// Plan file
    plan: String,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    // The client may kill all processes of its hook; in a session of its own, the check continues.
    let _ = rustix::process::setsid();
    let harness = global.open(Some(&args.plan), Access::Write)?;
    stop_hook::look(&harness, &args.client)?;
    Ok(Outcome::Done)
}
