use provost_engine::commit::{self, Wanted};
use provost_engine::harness::Access;
use serde_json::json;

use crate::outcome::{Answer, Outcome};
use crate::place::Global;
use crate::terminal;

/// Commit exactly the tree that all contracts held on
///
/// Makes a branch with one commit on top of the base that was approved, for a plan that is done. The
/// checkout, its index and HEAD stay as they are: merge the branch as you like.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost commit                      branch provost/NAME for the active plan
  provost commit PLAN.md --branch fix-login -m \"Fix the login timeout\"
  provost commit --note               with the signed statement as a git note (refs/notes/provost)")]
pub struct Args {
    /// A path, a name, or nothing for the active plan
    plan: Option<String>,
    /// The branch to make [default: provost/NAME]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// The commit's message [default: the plan's title, revision, tree and approver]
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Leave the signed statement beside the commit, as a git note
    #[arg(long)]
    note: bool,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    harness.only_people()?;
    let branch = args.branch.unwrap_or_else(|| commit::usual_branch(&harness.place().path));
    let wanted = Wanted {
        branch: branch.clone(),
        message: args.message,
        note: args.note,
        by: terminal::user(),
        home: std::env::var_os("HOME").map(Into::into),
    };
    let made = commit::make(&harness, &wanted)?;
    if global.json {
        let answer = json!({
            "plan": harness.id(), "branch": branch, "commit": made.commit, "git_tree": made.git_tree,
            "tree": made.tree, "parent": made.parent,
        });
        terminal::print(&format!("{answer}\n"))?;
    } else {
        let short = |id: &str| id.chars().take(12).collect::<String>();
        terminal::print(&format!(
            "{} on branch {branch}: exactly tree {}, on {}\n",
            short(&made.commit),
            short(&made.tree),
            short(&made.parent)
        ))?;
    }
    Ok(Outcome::Done)
}
