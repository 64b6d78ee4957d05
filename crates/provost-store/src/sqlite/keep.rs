//! Writes events that were sealed elsewhere.

use provost_core::model::chain::SealedEvent;

use super::{Sqlite, insert};
use crate::{Error, SealedLog, transfer};

impl SealedLog for Sqlite {
    fn keep(&self, events: &[SealedEvent]) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        self.writing(|transaction| {
            for sealed in events {
                let (row, head) = self.head_of(transaction, &sealed.plan)?;
                transfer::fits(head, sealed)?;
                let row = self.plan_row(transaction, &sealed.plan, row)?;
                insert(transaction, row, sealed).map_err(self.failed("write an event"))?;
            }
            Ok(())
        })
    }
}
