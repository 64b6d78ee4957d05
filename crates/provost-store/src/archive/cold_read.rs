//! Reads a plan whose chain begins in cold files and ends in the log.
//!
//! **Invariant:** the same events are returned as if all of them were in the log, in the same order and with the
//! same places.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;

use provost_core::model::chain::SealedEvent;

use super::{ColdEvent, ColdPart, cold_file};
use crate::{Cursor, Error, Query};

/// Called with each event.
pub(crate) type Each<'a> = dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()> + 'a;

/// The cold parts of a plan, and how to read them.
pub(crate) struct ColdRead<'a> {
    pub parts: &'a [ColdPart],
    /// Where the files are looked for first.
    pub folder: Option<&'a Path>,
    /// Returns why an event is not believed, if so.
    pub doubt: &'a dyn Fn(&ColdEvent) -> Option<String>,
}

impl ColdRead<'_> {
    /// Calls `each` for every event of the plan that the query selects. `live` reads those in the log.
    pub(crate) fn each(
        &self,
        query: &Query,
        live: &mut dyn FnMut(&mut Each<'_>) -> Result<(), Error>,
        each: &mut Each<'_>,
    ) -> Result<(), Error> {
        let left = Cell::new(query.limit.unwrap_or(u64::MAX));
        let mut limited = |place: Cursor, sealed: SealedEvent| {
            left.set(left.get() - 1);
            if each(place, sealed).is_break() {
                left.set(0);
            }
            if left.get() > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        if query.newest_first {
            if left.get() > 0 {
                live(&mut limited)?;
            }
            for part in self.parts.iter().rev() {
                self.newest(part, query, &left, &mut limited)?;
            }
            return Ok(());
        }
        for part in self.parts {
            self.oldest(part, query, &left, &mut limited)?;
        }
        if left.get() > 0 { live(&mut limited) } else { Ok(()) }
    }

    fn oldest(
        &self,
        part: &ColdPart,
        query: &Query,
        left: &Cell<u64>,
        each: &mut Each<'_>,
    ) -> Result<(), Error> {
        if left.get() == 0 || query.after_seq.is_some_and(|seq| part.last_seq <= seq) {
            return Ok(());
        }
        cold_file::each(part, self.folder, &mut |event| match matches(query, event.place, &event.sealed) {
            true => each(event.place, self.believed(event)),
            false => ControlFlow::Continue(()),
        })
    }

    /// Keeps the selected events of one part in memory, because its file is read from its start.
    fn newest(
        &self,
        part: &ColdPart,
        query: &Query,
        left: &Cell<u64>,
        each: &mut Each<'_>,
    ) -> Result<(), Error> {
        let most = usize::try_from(left.get()).unwrap_or(usize::MAX);
        let mut found: VecDeque<ColdEvent> = VecDeque::new();
        if most == 0 || query.after_seq.is_some_and(|seq| part.last_seq <= seq) {
            return Ok(());
        }
        cold_file::each(part, self.folder, &mut |event| {
            if matches(query, event.place, &event.sealed) {
                if found.len() == most {
                    found.pop_front();
                }
                found.push_back(event);
            }
            ControlFlow::Continue(())
        })?;
        while let Some(event) = found.pop_back() {
            if each(event.place, self.believed(event)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn believed(&self, event: ColdEvent) -> SealedEvent {
        let doubt = (self.doubt)(&event);
        SealedEvent { doubt, ..event.sealed }
    }
}

/// Returns whether a query selects an event.
pub(crate) fn matches(query: &Query, place: Cursor, event: &SealedEvent) -> bool {
    query.plan.as_ref().is_none_or(|plan| *plan == event.plan)
        && query.step.is_none_or(|step| event.step == Some(step))
        && (query.names.is_empty() || query.names.contains(&event.name))
        && query.since.is_none_or(|since| event.at >= since)
        && query.until.is_none_or(|until| event.at < until)
        && query.after_seq.is_none_or(|seq| event.seq > seq)
        && query.after.is_none_or(|after| place > after)
        && query.through.is_none_or(|through| place <= through)
}
