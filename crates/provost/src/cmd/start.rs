use clap::builder::PossibleValuesParser;
use provost_engine::project::Language;

use crate::open_plan::Global;
use crate::outcome::Answer;
use crate::start::{self, StartOptions};

/// Set up this repository and run a first verified step
///
/// Looks at the repository (language, package manager, tests, CI), finds installed agents, and runs the
/// checks of the project as provost runs every check. Then it shows the files it would write: provost.toml
/// with roles and checks, and a plan with one step. It asks before it writes, and you approve the plan before
/// an agent starts. No existing file is overwritten; `provost init --undo` removes the configuration again.
///
/// Run it again to continue the plan.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost start                          look, ask, run
  provost start --dry-run                look and run the checks; write nothing
  provost start --agent codex            choose the agent
  provost start --test 'make test'       choose the command that runs the tests
  provost start --yes --json             without a question, for programs

Exit codes: 0 the step is verified · 1 the plan failed · 2 no repository or no agent ·
3 no check runs here · 4 waiting for a person")]
pub(super) struct Args {
    /// Write the files and approve the plan without a question: only a person may pass this
    #[arg(long, short)]
    yes: bool,
    /// Run the checks and show the files; write nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Agent: claude, codex, gemini, opencode, or the command of an agent that speaks ACP
    #[arg(long, value_name = "CLIENT")]
    agent: Option<String>,
    /// Language of the project, if it has several
    #[arg(long, value_name = "LANGUAGE", value_parser = PossibleValuesParser::new(Language::ALL.map(Language::word)))]
    language: Option<String>,
    /// Command that runs the tests [default: the project's own]
    #[arg(long, value_name = "COMMAND")]
    test: Option<String>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let options = StartOptions {
        yes: args.yes,
        dry_run: args.dry_run,
        agent: args.agent,
        language: args.language.as_deref().and_then(Language::named),
        check: args.test,
    };
    start::guide(global, &options)
}
