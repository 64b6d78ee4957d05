//! Parses times as people write them: an instant, a day, or an age.

use std::time::{SystemTime, UNIX_EPOCH};

use provost_core::model::timestamp::Timestamp;

use crate::failure::Failure;

pub(super) fn read(text: &str) -> Result<Timestamp, Failure> {
    let instant = match humantime::parse_duration(text) {
        Ok(age) => SystemTime::now().checked_sub(age).unwrap_or(UNIX_EPOCH),
        Err(_) => humantime::parse_rfc3339_weak(text)
            .or_else(|_| humantime::parse_rfc3339_weak(&format!("{text}T00:00:00Z")))
            .map_err(|_| {
                Failure::usage(
                    format!("`{text}` is neither a time nor an age"),
                    "Write 2026-11-15T03:00:00Z, 2026-11-15, 10m, 2h or 1d.",
                )
            })?,
    };
    Ok(Timestamp(instant.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64))
}
