use crate::demo;
use crate::open_plan::Global;
use crate::outcome::Answer;

/// Watch an agent get caught: offline, no key, under a minute
///
/// Makes a temporary repository with a plan of four steps and a scripted agent that lies about one
/// step and breaks another, then runs the plan.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost demo                        in a temporary folder
  provost demo --at try-provost       keep the repository and its log to look around")]
pub(super) struct Args {
    /// Create the demo in this new folder instead of a temporary one
    #[arg(long, value_name = "DIR")]
    at: Option<std::path::PathBuf>,
    /// Do not wait between the agent's actions
    #[arg(long)]
    fast: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    demo::play(global, args.at, args.fast)
}
