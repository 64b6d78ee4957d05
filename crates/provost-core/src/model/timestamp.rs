//! A point in time, as events store it.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

/// Milliseconds since 1970 in UTC. Callers pass the time to core; core never reads a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // RFC 3339 ends with the year 9999; later times show as its last instant.
        let at = UNIX_EPOCH + Duration::from_millis(self.0.min(253_402_300_799_999));
        humantime::format_rfc3339_millis(at).fmt(f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let at = humantime::parse_rfc3339(&text).map_err(serde::de::Error::custom)?;
        let since = at.duration_since(UNIX_EPOCH).map_err(serde::de::Error::custom)?;
        Ok(Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
    }
}
