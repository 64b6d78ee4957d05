use provost_engine::plan::commands;
use std::collections::BTreeMap;

use provost_engine::plan::commit;
use provost_engine::plan::commit::{CommitOptions, ExcludedPath};
use provost_engine::settings::Access;
use serde_json::json;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// So many names of files of one kind are shown.
const SHOWN: usize = 5;

/// Commit exactly the tree that all contracts held on
///
/// Makes a branch with one commit on top of the base that was approved, for a plan that is done; uncommitted files
/// that were included at the approval are a commit of their own before it. Where the branch is checked out, its
/// files and index follow, or nothing is changed; any other checkout stays as it is.
/// What git ignores, the plan, its progress file and provost.toml are left out and named.
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
    /// Take along files that git ignores and `touches` names
    #[arg(long)]
    with_ignored: bool,
    /// Take along the plan and its progress file, as they are now
    #[arg(long)]
    with_plan: bool,
    /// Leave the signed statement beside the commit, as a git note
    #[arg(long)]
    note: bool,
    /// Take along files that somebody else changed while the plan ran
    #[arg(long)]
    with_others: bool,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    commands::only_people(&harness)?;
    let branch = args.branch.unwrap_or_else(|| commit::usual_branch(&harness.place().path));
    let wanted = CommitOptions {
        branch: branch.clone(),
        message: args.message,
        note: args.note,
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
                "committed as `{}`: git knows no user.name; set it with `git config --global user.name NAME`",
                made.author
            ));
        }
        for (place, follows) in &made.checkouts {
            let place = place.display();
            terminal::talk(&match follows {
                true => format!("the checkout {place} is on {branch} and holds it now"),
                false => format!("the files of {place} follow, its index does not: run `git reset` there"),
            });
        }
    }
    Ok(Outcome::Done)
}

/// A line for each reason, with the first files that it holds for.
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
