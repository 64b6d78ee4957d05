use std::ffi::OsString;
use std::path::PathBuf;

use provost_engine::sandbox_forwarder::{COMMAND, Forwarder};

use crate::failure::Failure;
use crate::outcome::{Answer, Outcome};

/// Start an agent with a connection to its model (internal: provost starts it inside the sandbox)
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Socket of provost's proxy
    socket: PathBuf,
    /// Loopback address that is forwarded to the model
    #[arg(long)]
    direct: Vec<String>,
    #[arg(long, value_enum, default_value_t = Part::Enter)]
    part: Part,
    #[arg(last = true)]
    command: Vec<OsString>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Part {
    Enter,
    Leave,
    Serve,
}

pub(super) fn obey(args: Args) -> Answer {
    let name = args.command.first().map(|program| format!(" `{}`", program.display())).unwrap_or_default();
    let failed = |source| Failure::Io { what: format!("start the agent's program{name}"), source };
    let program = std::env::current_exe().map_err(failed)?;
    let launcher = vec![program.into(), COMMAND.into()];
    let portal = Forwarder { launcher, socket: args.socket, direct: args.direct };
    match args.part {
        Part::Enter => match portal.enter(&args.command).map_err(failed)? {},
        Part::Leave => portal.leave().map(|()| Outcome::Done).map_err(failed),
        Part::Serve => match portal.serve().map_err(failed)? {},
    }
}
