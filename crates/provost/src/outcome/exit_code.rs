//! The exit code of each error; `docs/exit-codes.md` lists them.

use provost_core::rules::command::Refusal;
use provost_engine::{
    CollectorError, ConfigError, Error, GroundError, PlanFileError, PlanLeaseError, StoreError, TreeError,
    WorktreeError,
};

use super::{BROKEN, DIAGNOSTICS, FAILED, INTERRUPTED, REFUSED, USAGE};
use crate::failure::Failure;

pub(super) fn code(failure: &Failure) -> u8 {
    match failure {
        Failure::Usage { .. } => USAGE,
        // The reader has closed the pipe, so no message can be shown.
        Failure::Io { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Failure::Io { .. } => BROKEN,
        Failure::Engine(error) => of_engine(error),
    }
}

fn of_engine(error: &Error) -> u8 {
    match error {
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
        Error::TrialTree(_)
        | Error::NoSuchPolicy { .. }
        | Error::NoSuchCheck { .. }
        | Error::Config(_)
        | Error::SshKey { .. }
        | Error::StateInWorkspace(_)
        | Error::ArchiveInWorkspace(_)
        | Error::NotThere { .. }
        | Error::Remote(_)
        | Error::NotCarried { .. }
        | Error::CarriedElsewhere { .. }
        | Error::OtherLog { .. }
        | Error::DatabaseVariable { .. }
        | Error::OtherDatabase { .. }
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
        Error::Store(
            StoreError::BadAddress { .. } | StoreError::BadProject { .. } | StoreError::PasswordInAddress,
        ) => USAGE,
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
    }
}
