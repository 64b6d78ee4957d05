use provost_engine::observe::worktrees;
use serde_json::json;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Make a branch and a worktree for a plan
///
/// The worktree is next to the repository (or in `folder` under [worktrees] in provost.toml), on its own
/// branch; each call makes a new one. provost copies ignored files that `.worktreeinclude` names, and shows
/// and runs the `setup` commands under [worktrees]. In the worktree, commands without a plan name use this
/// plan. If anything fails, provost removes the worktree and the branch again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost spawn fix-auth              branch spawn/fix-auth-1, worktree ../PROJECT-fix-auth-1
  cd \"$(provost spawn fix-auth)\" && provost run
  provost spawn fix-auth --setup      run the setup without asking")]
pub(super) struct Args {
    /// Name of the plan
    plan: String,
    /// Run the configured setup without asking
    #[arg(long, conflicts_with = "no_setup")]
    setup: bool,
    /// Skip the configured setup
    #[arg(long)]
    no_setup: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let settings = global.settings(Some(&args.plan))?;
    let commands = worktrees::setup(&settings)?;
    let set_up = !commands.is_empty() && !args.no_setup && (args.setup || agreed(&commands)?);
    let made = worktrees::spawn(settings, set_up, &mut |line| terminal::talk(line))?;
    if global.json {
        let answer = json!({
            "path": made.path, "branch": made.branch, "base": made.base, "attempt": made.attempt,
            "copied": made.copied, "setup": set_up,
        });
        terminal::print(&format!("{answer}\n"))?;
        return Ok(Outcome::Done);
    }
    terminal::print(&format!("{}\n", made.path.display()))?;
    let base: String = made.base.chars().take(12).collect();
    terminal::talk(&format!("branch {}, based on {base}, for plan {}", made.branch, args.plan));
    if !made.copied.is_empty() {
        terminal::talk(&format!("copied (named in {}): {}", ".worktreeinclude", made.copied.join(", ")));
    }
    Ok(Outcome::Done)
}

/// Shows the setup commands and asks, because agents may be able to write the configuration.
fn agreed(commands: &[String]) -> Result<bool, Failure> {
    if !terminal::is_interactive() {
        return Err(Failure::usage(
            format!("provost.toml has setup commands for worktrees: {}", commands.join("; ")),
            "Pass --setup to run them, or --no-setup to skip them.",
        ));
    }
    terminal::talk("setup commands in provost.toml:");
    commands.iter().for_each(|command| terminal::talk(&format!("  {command}")));
    terminal::agrees("run them in the new worktree?")
}
