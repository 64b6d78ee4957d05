//! Measures runs in a large repository, until their first agent starts: with an empty state folder against
//! `git worktree add`, and a later plan when nothing has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Asked;
use crate::measure::{folder, is_whole, kept, time};
use crate::real::phases::account;
use crate::real::run::{PLAN, approve, events, now, run, timed};
use crate::table::{Kind, NO_GOAL, Row, Table};

const FILES: usize = 30_000;
/// With `--large`: 5 GB.
const FILES_LARGE: usize = 500_000;
const BYTES: usize = 10_000;
const FILES_OF_A_FOLDER: usize = 100;

pub(crate) fn measure(asked: &Asked, table: &mut Table) {
    let files = if asked.large { FILES_LARGE } else { FILES };
    let workspace = repository(files);
    let state = folder("large-state");
    let checkout = folder("large-worktree").join("tree");
    let (floor, ()) = timed(|| git(&workspace, &["worktree", "add", "--quiet", "--detach"], Some(&checkout)));
    let first = plan_run(&workspace, &state, "first");
    let later = plan_run(&workspace, &state, "later");
    // Not before: ext4 takes long to make files for minutes after as many were removed.
    git(&workspace, &["worktree", "remove", "--force"], Some(&checkout));
    let (approved, first) = match first {
        Ok(times) => times,
        Err(why) => return table.broken("large: first run", &why),
    };
    let later = match later {
        Ok((_, later)) => later,
        Err(why) => return table.broken("large: later run", &why),
    };
    table.note("large: files", &format!("{files} of {BYTES} bytes"));
    for (what, subject, figure, unit, goal) in [
        ("large: approve, against git worktree add", approved, approved / floor.wall, "×", NO_GOAL),
        ("large: first run until its agent starts, against it", first, first / floor.wall, "×", 1.5),
        ("large: later run until its agent starts", later, later * 1e3, "ms", 300.0),
    ] {
        let (subject, floor) = (time(subject), time(floor.wall));
        table.row(Row { what, subject, floor, figure, unit, goal, kind: Kind::Wall });
    }
}

/// Approves and runs a plan with one step. Returns the seconds of the approval, and those of the run until its
/// agent started. Afterwards the workspace is as before.
fn plan_run(workspace: &Path, state: &Path, name: &str) -> Result<(f64, f64), String> {
    let plan = format!(
        "---\ntype: plan\nstatus: draft\nowner: bench\ntouches: [\"src/**\"]\n---\n\n# {name}\n\n## Steps\n\n\
         ### 1. Write a file\n\n**target:** coder\n**task:** Write a file.\n\
         **contract:**\n```shell\ngrep -qx {name} src/0/made.txt\n```\nexit_code == 0\n"
    );
    fs::write(workspace.join(PLAN), plan).expect("a plan");
    let config = format!(
        "[agents.coder]\ndriver = \"command\"\ncommand = [\"sh\", \"-c\", \"echo {name} > src/0/made.txt\"]\n\
         [verify]\nisolation = \"clean\"\n"
    );
    fs::write(workspace.join("provost.toml"), config).expect("a configuration");
    let (approval, approved) = timed(|| approve(workspace, state, PLAN));
    approved?;
    // The log of the plan also has its earlier revision.
    let (before, begun) = (events(workspace, state, PLAN).len(), now());
    let output = run(workspace, state, PLAN);
    let account = account(&events(workspace, state, PLAN)[before..], begun, now());
    let _ = fs::remove_file(workspace.join("src/0/made.txt"));
    match output.status.success() && account.verified {
        true => Ok((approval.wall, account.phases.prepare + account.phases.base)),
        false => Err(String::from_utf8_lossy(&output.stdout).into_owned()),
    }
}

/// Returns a repository with this many files in folders, in one commit. It is kept for the next run.
fn repository(files: usize) -> PathBuf {
    let (top, is_there) = kept(&format!("large-packed-{files}"));
    let workspace = top.join("work");
    if is_there {
        return workspace;
    }
    for number in 0..files {
        let folder = workspace.join(format!("src/{}", number / FILES_OF_A_FOLDER));
        if number % FILES_OF_A_FOLDER == 0 {
            fs::create_dir_all(&folder).expect("a folder");
        }
        // Text that compresses like code.
        let line = format!("let value_{number} = call({number}, \"{:x}\");\n", number * 7_919);
        let text: String = line.repeat(BYTES / line.len());
        fs::write(folder.join(format!("file{number}.rs")), text).expect("a file");
    }
    fs::write(workspace.join(".gitignore"), "PLAN*.md\nprovost.toml\nprogress.md\n").expect("a file");
    git(&workspace, &["init", "--quiet"], None);
    git(&workspace, &["add", "--all"], None);
    git(
        &workspace,
        &["-c", "user.name=b", "-c", "user.email=b@localhost", "commit", "--quiet", "-m", "all"],
        None,
    );
    // As after a clone.
    git(&workspace, &["repack", "-adq"], None);
    is_whole(&top);
    workspace
}

fn git(workspace: &Path, args: &[&str], path: Option<&Path>) {
    let mut command = Command::new("git");
    command.arg("-C").arg(workspace).args(["-c", "gc.auto=0"]).args(args).args(path);
    let status = command.stdin(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "git {args:?}");
}
