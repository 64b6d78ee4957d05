//! Moves events of plans that are over from the log to cold files, which stay readable.
//!
//! A cold file has events of many plans as JSON lines, compressed with zstd: one frame per plan, so that a plan
//! is read alone. The log records for ever what was moved ([`ColdPart`]): the end of the chain, the file, the
//! place in it and its digest. So a chain can only be continued where it ended, and a file that was changed, cut
//! or lost is noticed. A plan can be continued after that: its chain then begins in cold files and ends in the
//! log, and every read of the plan returns both.
//!
//! **Invariant:** events leave the log only after a synced file was read back and their whole chain in it
//! verified up to the end of the chain in the log. A crash at any moment leaves them in the log, in the file, or
//! in both.
//! **Invariant:** no cold file is ever changed or removed.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use provost_core::model::chain::{Head, PlanId, SealedEvent};
use provost_core::model::hash::Hash;
use provost_core::model::timestamp::Timestamp;

use crate::{Cursor, Error, Log};

mod cold_file;
pub(crate) mod cold_read;
#[cfg(test)]
mod tests;

use cold_file::ColdFileWriter;

/// Folder of the cold files in the state folder, unless another one is named.
pub const FOLDER: &str = "archive";
/// Most events of one cold file, and so of one transaction that removes them. A longer plan has its own file.
const EVENTS_AT_ONCE: u64 = 20_000;
/// Most plans of one cold file.
const PLANS_AT_ONCE: usize = 2_000;

/// Events of one plan in a cold file, as the log records them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdPart {
    pub plan: PlanId,
    pub first_seq: u64,
    /// The hash before the first event.
    pub prev: Hash,
    pub last_seq: u64,
    pub last_hash: Hash,
    /// Name of the file, without a folder.
    pub file: String,
    /// The folder that the file was written to.
    pub folder: PathBuf,
    /// Place of the compressed events in the file.
    pub offset: u64,
    pub length: u64,
    /// Digest of the compressed events.
    pub digest: Hash,
}

impl ColdPart {
    /// Returns the end of the chain before these events.
    pub(crate) fn before(&self) -> Head {
        Head { seq: self.first_seq - 1, hash: self.prev }
    }

    /// Returns the end of the chain after these events.
    pub(crate) fn end(&self) -> Head {
        Head { seq: self.last_seq, hash: self.last_hash }
    }

    pub fn events(&self) -> u64 {
        self.last_seq + 1 - self.first_seq
    }
}

/// An event with what the log knows besides the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdEvent {
    pub place: Cursor,
    pub sealed: SealedEvent,
    pub source: ColdSource,
}

/// Who wrote an event, as a shared log recorded it. Readers decide by it whether they believe the event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColdSource {
    pub login: Option<String>,
    pub rights: Option<String>,
    pub signer: Option<Vec<u8>>,
    pub seal: Option<Vec<u8>>,
}

/// A log whose events can be moved to cold files.
pub trait ArchivableLog: Log {
    /// Refuses a login that may not archive, before anything is written.
    fn check_may_archive(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Calls `each` for the events of a plan that are still in the log, from `after` on.
    fn read_sources(
        &self,
        plan: &PlanId,
        after: u64,
        each: &mut dyn FnMut(ColdEvent) -> ControlFlow<()>,
    ) -> Result<(), Error>;

    /// Records the parts and removes their events, in one transaction. Each part must end where the chain of its
    /// plan ends, and begin after the part before it; otherwise nothing is removed ([`Error::Conflict`]).
    fn remove_archived(&self, parts: &[ColdPart], at: Timestamp) -> Result<(), Error>;

    /// Records parts of another log whose plan this log does not have. Their last event has the place `through`;
    /// places after it are used for everything that is written later.
    fn keep_archived(&self, parts: &[ColdPart], at: Timestamp, through: Cursor) -> Result<(), Error>;
}

impl<L: ArchivableLog + ?Sized> ArchivableLog for std::sync::Arc<L> {
    fn check_may_archive(&self) -> Result<(), Error> {
        (**self).check_may_archive()
    }

    fn read_sources(
        &self,
        plan: &PlanId,
        after: u64,
        each: &mut dyn FnMut(ColdEvent) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        (**self).read_sources(plan, after, each)
    }

    fn remove_archived(&self, parts: &[ColdPart], at: Timestamp) -> Result<(), Error> {
        (**self).remove_archived(parts, at)
    }

    fn keep_archived(&self, parts: &[ColdPart], at: Timestamp, through: Cursor) -> Result<(), Error> {
        (**self).keep_archived(parts, at, through)
    }
}

/// What has just been done for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveStage {
    /// The file has another name, and all events.
    Written,
    /// What is on the disk was read back and verified.
    Verified,
    /// The file has its name.
    Named,
    /// The events are no longer in the log.
    Removed,
}

/// Result of an archiving.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveResult {
    pub plans: u64,
    pub events: u64,
    pub bytes: u64,
    /// Names of the new files.
    pub files: Vec<String>,
    /// Plans that another process wrote to meanwhile; all their events are still in the log.
    pub left: Vec<PlanId>,
}

/// Moves all events of these plans to cold files in `folder`, and calls `reached` after each stage of a file. An
/// error of `reached` ends the work there.
pub fn archive(
    log: &dyn ArchivableLog,
    folder: &Path,
    plans: &[PlanId],
    at: Timestamp,
    reached: &mut dyn FnMut(ArchiveStage) -> Result<(), Error>,
) -> Result<ArchiveResult, Error> {
    log.check_may_archive()?;
    let folder = cold_file::make_folder(folder)?;
    let mut result = ArchiveResult::default();
    let mut rest: VecDeque<PlanId> = plans.iter().cloned().collect();
    while !rest.is_empty() {
        let mut file = ColdFileWriter::create(&folder)?;
        let parts = write_some(log, &mut file, &mut rest)?;
        if parts.is_empty() {
            continue;
        }
        file.sync()?;
        reached(ArchiveStage::Written)?;
        file.verify(&parts)?;
        let mut moved_on = Vec::new();
        for part in &parts {
            if log.head(&part.plan)? != part.end() {
                moved_on.push(part.plan.clone());
            }
        }
        if moved_on.is_empty() {
            reached(ArchiveStage::Verified)?;
            let (parts, bytes) = file.publish(parts)?;
            reached(ArchiveStage::Named)?;
            match remove(log, &parts, at)? {
                None => {
                    reached(ArchiveStage::Removed)?;
                    result.add(&parts, bytes);
                }
                Some(plan) => put_back(&mut rest, &parts, &[plan], &mut result.left),
            }
        } else {
            put_back(&mut rest, &parts, &moved_on, &mut result.left);
        }
    }
    Ok(result)
}

/// Writes plans of the queue until the file has enough. Plans without an event in the log are passed over.
fn write_some(
    log: &dyn ArchivableLog,
    file: &mut ColdFileWriter,
    rest: &mut VecDeque<PlanId>,
) -> Result<Vec<ColdPart>, Error> {
    let (mut parts, mut events): (Vec<ColdPart>, u64) = (Vec::new(), 0);
    while events < EVENTS_AT_ONCE && parts.len() < PLANS_AT_ONCE {
        let Some(plan) = rest.pop_front() else { break };
        let before = log.archived(&plan)?.last().map_or(Head::START, ColdPart::end);
        if let Some(part) = file.add(log, &plan, before)? {
            events += part.events();
            parts.push(part);
        }
    }
    Ok(parts)
}

/// Removes the events of the parts, or returns the plan that another process wrote to.
fn remove(log: &dyn ArchivableLog, parts: &[ColdPart], at: Timestamp) -> Result<Option<PlanId>, Error> {
    match log.remove_archived(parts, at) {
        // An answer can be lost: then the second try finds that the first one has done it.
        Err(Error::Conflict { plan, .. }) => {
            for part in parts {
                if log.archived(&part.plan)?.last() != Some(part) {
                    return Ok(Some(plan));
                }
            }
            Ok(None)
        }
        removed => removed.map(|()| None),
    }
}

/// Puts the plans of a file that was not used back into the queue, without those that moved on. The file has
/// copies of events that are in the log; it stays, because another log may use it.
fn put_back(rest: &mut VecDeque<PlanId>, parts: &[ColdPart], moved_on: &[PlanId], left: &mut Vec<PlanId>) {
    left.extend(moved_on.iter().cloned());
    for part in parts.iter().rev().filter(|part| !moved_on.contains(&part.plan)) {
        rest.push_front(part.plan.clone());
    }
}

impl ArchiveResult {
    fn add(&mut self, parts: &[ColdPart], bytes: u64) {
        self.plans += parts.len() as u64;
        self.events += parts.iter().map(ColdPart::events).sum::<u64>();
        self.bytes += bytes;
        self.files.extend(parts.first().map(|part| part.file.clone()));
    }
}

/// Checks that a part continues what the log has of its plan and reaches its end.
pub(crate) fn check_part(part: &ColdPart, archived: Head, end: Head) -> Result<(), Error> {
    if part.before() == archived && part.end() == end && part.first_seq <= part.last_seq {
        return Ok(());
    }
    Err(Error::Conflict { plan: part.plan.clone(), expected: part.last_seq, found: end.seq })
}
