use provost_engine::observe::worktrees::{self, Fate, ListedWorktree};
use serde_json::{Value, json};

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{table, terminal};

/// List worktrees, or remove those that are merged and clean
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost worktree list               all worktrees and their plans
  provost worktree prune              show which can be removed, and why the others stay
  provost worktree prune --yes        remove them")]
pub(super) struct Args {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(clap::Subcommand, Debug)]
enum Deed {
    /// List the worktrees of the repository
    #[command(after_help = "Examples:\n  provost worktree list --json")]
    List,
    /// Show which worktrees can be removed; with --yes, remove them and their branches
    ///
    /// A worktree can be removed if `provost spawn` made it and it is merged and clean. One with uncommitted,
    /// untracked, unmerged or stashed work, and one that is locked, in use or unclear, stays; the output
    /// says why.
    #[command(after_help = "Examples:\n  provost worktree prune\n  provost worktree prune --yes")]
    Prune {
        /// Remove them
        #[arg(long, short)]
        yes: bool,
    },
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    match args.deed {
        Deed::List => list(global),
        Deed::Prune { yes } => prune(global, yes),
    }
}

fn list(global: &Global) -> Answer {
    let all = worktrees::list(&global.settings(None)?);
    if global.json {
        let all: Vec<Value> = all.iter().map(as_json).collect();
        terminal::print(&format!("{}\n", json!({ "worktrees": all })))?;
        return Ok(Outcome::Done);
    }
    if all.is_empty() {
        terminal::talk("no worktrees; `provost spawn NAME` makes one");
        return Ok(Outcome::Done);
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|found| {
            let plan = found.note.as_ref().map_or("-", |note| note.plan.as_str()).to_owned();
            let age = found.note.as_ref().map(|note| terminal::age(worktrees::since(note)));
            let gone = if found.is_there() { "" } else { " (gone)" };
            vec![plan, short(found), age.unwrap_or_default(), format!("{}{gone}", found.path.display())]
        })
        .collect();
    terminal::print(&table::lines(&["PLAN", "BRANCH", "MADE", "PATH"], &rows))?;
    Ok(Outcome::Done)
}

fn short(found: &ListedWorktree) -> String {
    found.branch.as_deref().map_or("-", |name| name.strip_prefix("refs/heads/").unwrap_or(name)).to_owned()
}

fn as_json(found: &ListedWorktree) -> Value {
    json!({
        "path": found.path,
        "branch": found.branch.as_deref().and_then(|name| name.strip_prefix("refs/heads/")),
        "head": found.head,
        "plan": found.note.as_ref().map(|note| &note.plan),
        "attempt": found.note.as_ref().map(|note| note.attempt),
        "base": found.note.as_ref().map(|note| &note.base),
        "there": found.is_there(),
        "locked": found.is_locked,
    })
}

fn prune(global: &Global, yes: bool) -> Answer {
    let settings = global.settings(None)?;
    let mut answers = Vec::new();
    let mut could_go = 0;
    for (found, fate) in worktrees::fates(&settings)? {
        let shown = found.path.display().to_string();
        let mut value = as_json(&found);
        let (word, reasons) = match fate {
            Fate::Stays(reasons) => ("stays", reasons),
            Fate::Goes if !yes => {
                could_go += 1;
                ("would go", vec!["merged and clean".to_owned()])
            }
            Fate::Goes => match worktrees::prune(&settings, &found) {
                Ok(()) => ("removed", vec!["merged and clean".to_owned()]),
                Err(error) => ("stays", vec![error.to_string()]),
            },
        };
        value["fate"] = json!(word);
        value["reasons"] = json!(reasons);
        answers.push(value);
        if !global.json {
            terminal::print(&format!("{word:<9} {shown}\n"))?;
            for reason in reasons {
                terminal::print(&format!("          {reason}\n"))?;
            }
        }
    }
    if global.json {
        terminal::print(&format!("{}\n", json!({ "worktrees": answers })))?;
    } else if answers.is_empty() {
        terminal::talk("no worktrees");
    } else if could_go > 0 {
        terminal::talk("nothing was removed; to remove them, run `provost worktree prune --yes`");
    }
    Ok(Outcome::Done)
}
