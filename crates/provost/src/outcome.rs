//! Exit codes, and the hint for each kind of failure, in one place.

use std::process::ExitCode;

use provost_engine::Error;

use crate::failure::Failure;
use crate::terminal;

pub const FAILED: u8 = 1;
pub const USAGE: u8 = 2;
pub const DIAGNOSTICS: u8 = 3;
pub const WAITING: u8 = 4;
pub const REFUSED: u8 = 5;
pub const BROKEN: u8 = 70;
pub const INTERRUPTED: u8 = 130;

/// How a command ended, if the command itself did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    PlanFailed,
    Diagnosed,
    /// The plan waits for a person.
    Waiting,
    Refused,
    /// An audit found that the log was changed.
    Unsound,
    Interrupted,
    /// There is no plan folder here; the command has printed a message and needs no hint.
    NoFolder,
}

/// Result of a command.
pub type Answer = Result<Outcome, Failure>;

pub fn conclude(answer: Answer) -> ExitCode {
    ExitCode::from(match answer {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::PlanFailed | Outcome::NoFolder) => FAILED,
        Ok(Outcome::Diagnosed) => DIAGNOSTICS,
        Ok(Outcome::Waiting) => WAITING,
        Ok(Outcome::Refused) => REFUSED,
        Ok(Outcome::Unsound) => BROKEN,
        Ok(Outcome::Interrupted) => INTERRUPTED,
        Err(failure) => {
            terminal::complain(&failure, hint(&failure).as_deref());
            code(&failure)
        }
    })
}

fn code(failure: &Failure) -> u8 {
    use provost_core::rules::command::Refusal;
    use provost_engine::{
        CollectorError, ConfigError, GroundError, PlanFileError, PlanLeaseError, StoreError, TreeError,
        WorktreeError,
    };
    match failure {
        Failure::Usage { .. } => USAGE,
        // The reader has closed the pipe, so no message can be shown.
        Failure::Io { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Failure::Io { .. } => BROKEN,
        Failure::Engine(error) => match error {
            Error::Interrupted => INTERRUPTED,
            Error::Refused(Refusal::NoBranch { .. }) => USAGE,
            Error::Refused(_)
            | Error::Uncommitted { .. }
            | Error::NotAPerson { .. }
            | Error::NoTerminal { .. }
            | Error::Ground(
                GroundError::Unattested { .. }
                | GroundError::Trees(
                    TreeError::Moved { .. } | TreeError::Replaced { .. } | TreeError::Linked { .. },
                ),
            ) => REFUSED,
            Error::Diagnosed { .. } | Error::CarriesItself { .. } | Error::NoAgent { .. } => DIAGNOSTICS,
            Error::ReadOnly { .. } => BROKEN,
            Error::Config(ConfigError::Untrusted(_)) => REFUSED,
            Error::NoSuchPolicy { .. }
            | Error::NoSuchCheck { .. }
            | Error::Config(_)
            | Error::SshKey { .. }
            | Error::StateInWorkspace(_)
            | Error::NotThere { .. }
            | Error::Remote(_)
            | Error::NotCarried { .. }
            | Error::CarriedElsewhere { .. }
            | Error::OtherLog { .. }
            | Error::NoPostgres { .. }
            | Error::NoStateFolder => USAGE,
            Error::PlanFile(
                PlanFileError::Changed { .. } | PlanFileError::Exists { .. } | PlanFileError::Untrusted(_),
            ) => REFUSED,
            Error::PlanFile(PlanFileError::TooLarge { .. }) => DIAGNOSTICS,
            Error::PlanFile(PlanFileError::Io { .. }) => BROKEN,
            Error::PlanLease(PlanLeaseError::Held(_) | PlanLeaseError::Lost(_)) => REFUSED,
            Error::PlanLease(PlanLeaseError::Unreadable(_)) => USAGE,
            Error::PlanLease(PlanLeaseError::File(_)) => BROKEN,
            Error::Worktree(WorktreeError::NoCommit(_) | WorktreeError::TooMany(_)) => USAGE,
            Error::Worktree(WorktreeError::Setup { .. }) => FAILED,
            Error::Worktree(_) => BROKEN,
            Error::PlanFile(_) => USAGE,
            Error::Store(
                StoreError::Conflict { .. } | StoreError::Fenced { .. } | StoreError::LeaseHeld { .. },
            ) => REFUSED,
            Error::Store(StoreError::BadAddress { .. } | StoreError::PasswordInAddress) => USAGE,
            Error::Store(StoreError::OtherEvents { .. }) => REFUSED,
            Error::Collector(
                CollectorError::Address { .. } | CollectorError::NoAddress | CollectorError::Headers { .. },
            ) => USAGE,
            Error::Store(_)
            | Error::Collector(_)
            | Error::Ground(GroundError::Trees(_))
            | Error::Carry(_)
            | Error::Unreadable(_)
            | Error::Broken { .. }
            | Error::Disproved { .. }
            | Error::Forged { .. }
            | Error::OtherKey { .. }
            | Error::Io { .. } => BROKEN,
        },
    }
}

/// Returns a sentence that names the next command.
pub fn hint(failure: &Failure) -> Option<String> {
    use provost_core::rules::command::Refusal;
    use provost_engine::{CollectorError, GroundError, PlanFileError, PlanLeaseError, TreeError};
    let text = match failure {
        Failure::Usage { hint, .. } => return hint.clone(),
        Failure::Io { .. } => return None,
        Failure::Engine(error) => match error {
            Error::Refused(Refusal::Stale { .. }) => "Run `provost show` and approve the revision it prints.",
            Error::Refused(Refusal::WrongStage { .. }) => "`provost status` shows the stage of the plan.",
            Error::Refused(
                Refusal::NothingToAnswer { .. } | Refusal::NothingWaits | Refusal::NoSuchItem { .. },
            ) => "`provost inbox` lists the items that wait for a person.",
            Error::Refused(Refusal::DependsOn { .. }) => {
                "Run it first: `provost run NAME`. `provost ready` lists the plans that can start now."
            }
            Error::Refused(Refusal::NothingToRaise { .. }) => {
                "`provost inbox` shows which step waits for a budget."
            }
            Error::Refused(Refusal::NoBranch { .. }) => "Name an existing branch with --into BRANCH.",
            Error::Refused(Refusal::CannotLand { .. }) => {
                "Nothing was changed. Check the plan with `provost status PLAN` and its log with `provost audit PLAN`."
            }
            Error::Refused(Refusal::LocalChanges { .. }) => {
                "Nothing was changed. Commit or stash the changes there, or name another branch (`commit --branch`, `integrate --into`)."
            }
            Error::Refused(Refusal::NeverApproved) => {
                "Read it with `provost show`, then run `provost approve`; `provost diff --list` lists its revisions."
            }
            Error::Refused(Refusal::NoSuchRevision { .. }) => {
                "`provost diff --list` lists the revisions; `approved` and `now` are names too."
            }
            Error::Refused(Refusal::HasRun { .. }) => {
                "Keep its text. To run it again, use `provost fork --from N`."
            }
            Error::Refused(Refusal::BranchElsewhere { .. }) => {
                "Nothing was changed. Name another branch with --branch."
            }
            Error::Refused(Refusal::OthersWork { .. }) => {
                "Nothing was changed. Commit these files yourself and approve the plan again, or include them with `provost commit --with-others`."
            }
            Error::Refused(Refusal::OwnPlan { .. } | Refusal::CountsOnce { .. }) => {
                "Another person must approve, from their own account or with a token: `provost serve token --scope decide --name NAME`."
            }
            Error::Refused(_) => return None,
            Error::Uncommitted { files, branch } => {
                return Some(provost_engine::plan::uncommitted::ways_out(files, branch.as_deref()));
            }
            Error::NotAPerson { why } if why.contains("`provost mcp`") => {
                "Use another terminal: in this one, provost cannot tell you from the agent. It is free again when that process has ended."
            }
            Error::NotAPerson { .. } => "Run the command yourself, in a terminal that no agent has started.",
            Error::NoTerminal { .. } => {
                "Use a terminal that was open before the plan's first attempt, or install bubblewrap so that agents run in a sandbox (`provost doctor` checks it); docs/trust.md explains why."
            }
            Error::OtherKey { .. } => {
                "Restore the key from a backup. If it is lost, move `key`, `key.pub` and `proofs` out of the state folder; the plans must then be proved again."
            }
            Error::Ground(GroundError::Unattested { .. }) => {
                "`provost doctor` shows what is missing and how to get it; `isolation = \"auto\"` uses the strongest level that works here."
            }
            Error::Ground(GroundError::Trees(TreeError::Moved { .. })) => {
                "Nothing was changed. Name another branch with --branch."
            }
            Error::Carry(_) => "`provost cluster remote` shows the git remote in use; see docs/cluster.md.",
            Error::Ground(GroundError::Trees(_)) => {
                "`isolation = \"in-place\"` under [verify] in provost.toml runs checks in the workspace itself."
            }
            Error::ReadOnly { .. } => {
                "Nothing was started. Make the folder writable (`mount -o remount,rw …`, `chmod u+w …`), then run `provost run` again."
            }
            Error::CarriesItself { .. } => "`provost verify` names the plans in the cycle.",
            Error::NoAgent { roles } => {
                let role = roles.first().map_or("coder", String::as_str);
                return Some(format!(
                    "Add to provost.toml: [agents.{role}] with driver = \"command\" and command = [\"…\"]."
                ));
            }
            Error::SshKey { .. } => {
                "Make one with `ssh-keygen -t ed25519 -N '' -f FILE`, and set ssh_key under [proof] to its path."
            }
            Error::StateInWorkspace(_) => "Set PROVOST_STATE to a folder outside of the workspace.",
            Error::NotThere { .. } => "Restore the plan file, or name the plan: `provost answer PLAN:2 …`.",
            Error::CarriedElsewhere { .. } => {
                "Set it with `provost cluster remote URL`, or with `provost worker --remote URL` for one worker. Workers that know the remote continue the plan; see docs/cluster.md."
            }
            Error::OtherLog { .. } => {
                "A person must choose the log: `provost migrate --to URL` moves this one to the database, `--from URL` moves it back; see docs/postgres.md."
            }
            Error::NoPostgres { .. } => "Build it with `--features postgres`; see docs/postgres.md.",
            Error::NoStateFolder => "Set PROVOST_STATE to a folder for the log.",
            Error::Broken { .. } | Error::Disproved { .. } => {
                "`provost audit` shows where; provost runs nothing on a log that does not verify."
            }
            Error::Forged { .. } => {
                "`provost audit` shows where. Keep a copy of the state folder as evidence, then restore the log from a backup or use another state folder; see docs/trust.md."
            }
            Error::Collector(CollectorError::NoAddress | CollectorError::Address { .. }) => {
                "Name the collector: `provost log --otel=http://localhost:4318`, or print the trace with `--otel`."
            }
            Error::Collector(CollectorError::Unreached { .. } | CollectorError::Refused { .. }) => {
                "You can repeat the export: it sends the same trace with the same ids."
            }
            Error::PlanFile(PlanFileError::NoFolder { .. }) => {
                "`provost new NAME` makes it; for a shared folder, set `folder` under [plans] in provost.toml."
            }
            Error::PlanFile(PlanFileError::Exists { .. }) => {
                "Choose another name, or edit the existing plan."
            }
            Error::PlanLease(PlanLeaseError::Held(_)) => {
                "`provost queue` shows who works on the plan; to wait for them, set `lease_timeout` under [run]."
            }
            Error::PlanLease(_)
            | Error::Worktree(_)
            | Error::Collector(_)
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
            | Error::Io { .. } => return None,
        },
    };
    Some(text.to_owned())
}
