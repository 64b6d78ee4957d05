//! The sentence after an error that names the next command.

use provost_core::rules::command::Refusal;
use provost_engine::plan::uncommitted;
use provost_engine::{
    CollectorError, CommandOrigin, Error, GroundError, PlanFileError, PlanLeaseError, TreeError,
};

use crate::failure::Failure;

/// Returns a sentence that names the next command.
pub(crate) fn hint(failure: &Failure) -> Option<String> {
    match failure {
        Failure::Usage { hint, .. } => hint.clone(),
        Failure::Io { .. } => None,
        Failure::Engine(Error::Uncommitted { files, branch }) => {
            Some(uncommitted::ways_out(files, branch.as_deref()))
        }
        Failure::Engine(Error::NoAgent { roles }) => {
            let role = roles.first().map_or("coder", String::as_str);
            Some(format!(
                "Add to provost.toml: [agents.{role}] with driver = \"command\" and command = [\"…\"]."
            ))
        }
        Failure::Engine(error) => of_engine(error).map(str::to_owned),
    }
}

fn of_engine(error: &Error) -> Option<&'static str> {
    match error {
        Error::Refused(refusal) => of_refusal(refusal),
        Error::NotAPerson { why: CommandOrigin::AgentClient(_) } => Some(
            "Use another terminal: in this one, provost cannot tell you from the agent. It is free again when that process has ended.",
        ),
        Error::NotAPerson { .. } => {
            Some("Run the command yourself, in a terminal that no agent has started.")
        }
        Error::NoTerminal { .. } => Some(
            "Use a terminal that was open before the plan's first attempt, or install bubblewrap so that agents run in a sandbox (`provost doctor` checks it); docs/trust.md explains why.",
        ),
        Error::Ground(error) => of_ground(error),
        Error::TrialTree(TreeError::NoCommit { .. }) => {
            Some("Name a commit of this repository: an id, a branch or a tag, also with `~1` behind it.")
        }
        Error::TrialTree(_) => Some(
            "A patch is the output of `git diff` for the last commit; its paths begin at the top of the repository.",
        ),
        Error::ReadOnly { .. } => Some(
            "Nothing was started. Make the folder writable (`mount -o remount,rw …`, `chmod u+w …`), then run `provost run` again.",
        ),
        Error::CarriesItself { .. } => Some("`provost verify` names the plans in the cycle."),
        Error::NotThere { .. } => Some("Restore the plan file, or name the plan: `provost answer PLAN:2 …`."),
        Error::PlanFile(PlanFileError::NoFolder { .. }) => Some(
            "`provost new NAME` makes it; for a shared folder, set `folder` under [plans] in provost.toml.",
        ),
        Error::PlanFile(PlanFileError::Exists { .. }) => {
            Some("Choose another name, or edit the existing plan.")
        }
        Error::PlanLease(PlanLeaseError::Held(_)) => Some(
            "`provost queue` shows who works on the plan; to wait for them, set `lease_timeout` under [run].",
        ),
        Error::OtherKey { .. }
        | Error::SshKey { .. }
        | Error::StateInWorkspace(_)
        | Error::ArchiveInWorkspace(_)
        | Error::OtherLog { .. }
        | Error::DatabaseVariable { .. }
        | Error::OtherDatabase { .. }
        | Error::NoPostgres { .. }
        | Error::NoStateFolder
        | Error::Broken { .. }
        | Error::Disproved { .. }
        | Error::Forged { .. }
        | Error::Carry(_)
        | Error::CarriedElsewhere { .. }
        | Error::Collector(_) => of_log(error),
        Error::Uncommitted { .. }
        | Error::NoAgent { .. }
        | Error::PlanLease(_)
        | Error::Worktree(_)
        | Error::Store(_)
        | Error::PlanFile(_)
        | Error::Config(_)
        | Error::Diagnosed { .. }
        | Error::NoSuchPolicy { .. }
        | Error::NoSuchCheck { .. }
        | Error::Remote(_)
        | Error::NotCarried { .. }
        | Error::Unreadable(_)
        | Error::Interrupted
        | Error::Io { .. } => None,
    }
}

fn of_ground(error: &GroundError) -> Option<&'static str> {
    match error {
        GroundError::Unattested { .. } => Some(
            "`provost doctor` shows what is missing and how to get it; `isolation = \"auto\"` uses the strongest level that works here.",
        ),
        GroundError::Trees(TreeError::Moved { .. }) => {
            Some("Nothing was changed. Name another branch with --branch.")
        }
        GroundError::Trees(_) => Some(
            "`isolation = \"in-place\"` under [verify] in provost.toml runs checks in the workspace itself.",
        ),
    }
}

/// Hints about the log, its keys and its proofs, and about the places that receive copies.
fn of_log(error: &Error) -> Option<&'static str> {
    match error {
        Error::OtherKey { .. } => Some(
            "Restore the key from a backup. If it is lost, move `key`, `key.pub` and `proofs` out of the state folder; the plans must then be proved again.",
        ),
        Error::Carry(_) => {
            Some("`provost cluster remote` shows the git remote in use; see docs/cluster-remote.md.")
        }
        Error::SshKey { .. } => Some(
            "Make one with `ssh-keygen -t ed25519 -N '' -f FILE`, and set ssh_key under [proof] to its path.",
        ),
        Error::ArchiveInWorkspace(_) => Some("Name a folder outside of every workspace with --to."),
        Error::StateInWorkspace(_) => Some("Set PROVOST_STATE to a folder outside of the workspace."),
        Error::CarriedElsewhere { .. } => Some(
            "Set it with `provost cluster remote URL`, or with `provost worker --remote URL` for one worker. Workers that know the remote continue the plan; see docs/cluster.md.",
        ),
        Error::OtherLog { .. } => Some(
            "A person must choose the log: `provost migrate --to URL` moves this one to the database, `--back URL` moves it back; see docs/postgres.md.",
        ),
        Error::DatabaseVariable { .. } => {
            Some("See docs/postgres.md for the variables with the address of the log.")
        }
        Error::OtherDatabase { .. } => Some(
            "Unset PROVOST_DATABASE_URL and PROVOST_DATABASE_URL_FILE to use the log of the state folder. To move it, use `provost migrate --to URL`; if the database itself was moved, write its address to `log.url` in the state folder.",
        ),
        Error::NoPostgres { .. } => Some("Build it with `--features postgres`; see docs/postgres.md."),
        Error::NoStateFolder => Some("Set PROVOST_STATE to a folder for the log."),
        Error::Broken { .. } | Error::Disproved { .. } => {
            Some("`provost audit` shows where; provost runs nothing on a log that does not verify.")
        }
        Error::Forged { .. } => Some(
            "`provost audit` shows where. Keep a copy of the state folder as evidence, then restore the log from a backup or use another state folder; see docs/trust.md.",
        ),
        Error::Collector(CollectorError::NoAddress | CollectorError::Address { .. }) => Some(
            "Name the collector: `provost log --otel=http://localhost:4318`, or print the trace with `--otel`.",
        ),
        Error::Collector(CollectorError::Unreached { .. } | CollectorError::Refused { .. }) => {
            Some("You can repeat the export: it sends the same trace with the same ids.")
        }
        _ => None,
    }
}

fn of_refusal(refusal: &Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::Stale { .. } => Some("Run `provost show` and approve the revision it prints."),
        Refusal::WrongStage { .. } => Some("`provost status` shows the stage of the plan."),
        Refusal::NothingToAnswer { .. } | Refusal::NothingWaits | Refusal::NoSuchItem { .. } => {
            Some("`provost inbox` lists the items that wait for a person.")
        }
        Refusal::DependsOn { .. } => {
            Some("Run it first: `provost run NAME`. `provost ready` lists the plans that can start now.")
        }
        Refusal::NothingToRaise { .. } => Some("`provost inbox` shows which step waits for a budget."),
        Refusal::NoBranch { .. } => Some("Name an existing branch with --into BRANCH."),
        Refusal::CannotLand { .. } => Some(
            "Nothing was changed. Check the plan with `provost status PLAN` and its log with `provost audit PLAN`.",
        ),
        Refusal::LocalChanges { .. } => Some(
            "Nothing was changed. Commit or stash the changes there, or name another branch (`commit --branch`, `integrate --into`).",
        ),
        Refusal::NeverApproved => Some(
            "Read it with `provost show`, then run `provost approve`; `provost diff --list` lists its revisions.",
        ),
        Refusal::NoSuchRevision { .. } => {
            Some("`provost diff --list` lists the revisions; `approved` and `now` are names too.")
        }
        Refusal::HasRun { .. } => Some("Keep its text. To run it again, use `provost fork --from N`."),
        Refusal::BranchElsewhere { .. } => Some("Nothing was changed. Name another branch with --branch."),
        Refusal::OthersWork { .. } => Some(
            "Nothing was changed. Commit these files yourself and approve the plan again, or include them with `provost commit --with-others`.",
        ),
        Refusal::OwnPlan { .. } | Refusal::CountsOnce { .. } => Some(
            "Another person must approve, from their own account or with a token: `provost serve token --scope decide --name NAME`.",
        ),
        _ => None,
    }
}
