use provost_engine::plan::commands;
use std::collections::BTreeMap;

use provost_engine::plan::commit::{self, CommitOptions, ExcludedPath};
use provost_engine::settings::Access;
use serde_json::json;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Maximum number of file names shown for one reason.
const SHOWN: usize = 5;

/// Commit exactly the tree that all contracts held on
///
/// For a plan that is done: makes a branch with one commit on top of the approved base. Uncommitted files
/// that the approval included become a separate commit before it. If the branch is checked out, provost
/// updates its files and index too, or changes nothing; other checkouts do not change. Files that git
/// ignores, the plan, its progress file and provost.toml are left out and listed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost commit                      branch provost/NAME for the active plan
  provost commit PLAN.md --branch fix-login -m \"Fix the login timeout\"
  provost commit --git-note           with the signed statement as a git note (refs/notes/provost)")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// Branch to make [default: provost/NAME]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Message of the commit [default: the plan's title, revision, tree and approver]
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Include files that git ignores and `touches` names
    #[arg(long)]
    with_ignored: bool,
    /// Include the plan and its progress file as they are now
    #[arg(long)]
    with_plan: bool,
    /// Add the signed statement to the commit as a git note
    #[arg(long, alias = "note")]
    git_note: bool,
    /// Include files that others changed while the plan ran
    #[arg(long)]
    with_others: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    commands::only_people(&harness)?;
    let branch = args.branch.unwrap_or_else(|| commit::usual_branch(&harness.place().path));
    let wanted = CommitOptions {
        branch: branch.clone(),
        message: args.message,
        note: args.git_note,
        with_ignored: args.with_ignored,
        with_plan: args.with_plan,
        by: terminal::user(),
        home: std::env::var_os("HOME").map(Into::into),
        with_others: args.with_others,
    };
    let made = commit::make(&harness, &wanted)?;
    if global.json {
        let answer = json!({
            "plan": harness.id(), "branch": branch, "commit": made.commit, "git_tree": made.git_tree,
            "tree": made.tree, "parent": made.parent, "already": made.already, "author": made.author,
            "included": made.included, "left_out": made.left_out.iter().map(
                |left| json!({ "path": left.path, "why": left.why.to_string() })).collect::<Vec<_>>(),
        });
        terminal::print(&format!("{answer}\n"))?;
    } else {
        let short = |id: &str| id.chars().take(12).collect::<String>();
        if made.already {
            terminal::print(&format!("already committed: {} on branch {branch}\n", short(&made.commit)))?;
            return Ok(Outcome::Done);
        }
        for left in left_out(&made.left_out) {
            terminal::talk(&format!("not in the commit: {left}"));
        }
        if let Some(included) = &made.included {
            terminal::print(&format!(
                "{} on branch {branch}: the files that were included at the approval\n",
                short(included)
            ))?;
        }
        terminal::print(&format!(
            "{} on branch {branch}: exactly tree {}, on {}\n",
            short(&made.commit),
            short(&made.tree),
            short(&made.parent)
        ))?;
        if !made.is_known {
            terminal::talk(&format!(
                "committed as `{}` because git has no user.name; set it with `git config --global user.name NAME`",
                made.author
            ));
        }
        for (place, follows) in &made.checkouts {
            let place = place.display();
            terminal::talk(&match follows {
                true => format!("updated the checkout {place}, which is on {branch}"),
                false => format!("updated the files in {place} but not its index; run `git reset` there"),
            });
        }
    }
    Ok(Outcome::Done)
}

/// Returns one line for each reason, with its first files.
fn left_out(files: &[ExcludedPath]) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for left in files {
        by_reason.entry(left.why.to_string()).or_default().push(&left.path);
    }
    let line = |(why, paths): (String, Vec<&str>)| {
        let more = paths.len().saturating_sub(SHOWN);
        let some = paths.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{some}{more} ({why})")
    };
    by_reason.into_iter().map(line).collect()
}
