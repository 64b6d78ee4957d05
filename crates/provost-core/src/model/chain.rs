//! Seals events into the log and checks a sealed log.
//!
//! The wire form of an event is one JSON object. Its hash is SHA-256 over that object without `hash`, written
//! as RFC 8785 specifies: keys sorted, no spaces. `prev` is part of the object, so each event fixes every
//! event before it. Anyone can check a log with a JSON parser and `sha256sum`.
//!
//! **Invariant:** the stored bytes are the hashed bytes; nothing is serialised twice.

use std::fmt::Write as _;

use serde::Serialize;

use crate::model::event::Event;
use crate::model::hash::Hash;
use crate::model::plan::StepNumber;
use crate::model::timestamp::Timestamp;

/// Identifies the plan an event belongs to; unique in one state folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PlanId(pub String);

impl std::fmt::Display for PlanId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An event at its position in a plan's chain, exactly as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedEvent {
    pub plan: PlanId,
    pub seq: u64,
    pub at: Timestamp,
    /// Wire name of the event.
    pub name: String,
    pub step: Option<StepNumber>,
    pub task_name: Option<String>,
    /// Canonical JSON; hashed byte for byte.
    pub details: String,
    pub prev: Hash,
    pub hash: Hash,
    /// Why nothing from this event on is believed, if the store found a reason. Not a part of the chain.
    pub doubt: Option<String>,
}

/// The end of a plan's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Sequence number of the last event; 0 if there is none.
    pub seq: u64,
    pub hash: Hash,
}

impl Head {
    pub const START: Head = Head { seq: 0, hash: Hash::NONE };
}

/// Seals `event` as the successor of `head`.
pub fn seal(plan: &PlanId, head: Head, at: Timestamp, event: &Event, task_name: Option<&str>) -> SealedEvent {
    let mut sealed = SealedEvent {
        plan: plan.clone(),
        seq: head.seq + 1,
        at,
        name: event.name().to_owned(),
        step: event.step(),
        task_name: task_name.map(str::to_owned),
        details: details(event),
        prev: head.hash,
        hash: Hash::NONE,
        doubt: None,
    };
    sealed.hash = sealed.computed_hash();
    sealed
}

/// Returns the details of an event as canonical JSON. Events hold strings, numbers, lists and maps with
/// string keys; none of these can fail to serialise.
fn details(event: &Event) -> String {
    match serde_json::to_value(event) {
        Ok(mut value) => written(&sorted(value["details"].take())),
        Err(error) => unreachable!("an event that cannot be written: {error}"),
    }
}

/// Sorts the keys of every object. A map keeps its insertion order if any crate in the build enables that
/// feature.
pub fn sorted(mut value: serde_json::Value) -> serde_json::Value {
    value.sort_all_objects();
    value
}

/// Writes the same text as `Display`, in half the time.
fn written(value: &(impl Serialize + ?Sized)) -> String {
    match serde_json::to_string(value) {
        Ok(text) => text,
        Err(error) => unreachable!("a value that cannot be written: {error}"),
    }
}

impl SealedEvent {
    /// Decodes the event. One in doubt is read as a record of tampering, so that every reader stops to
    /// believe the log there.
    pub fn event(&self) -> Result<Event, Unreadable> {
        if let Some(doubt) = &self.doubt {
            let what = format!("event {} ({}) {doubt}", self.seq, self.name);
            return Ok(Event::TamperDetected { step: None, what, from_seq: Some(self.seq) });
        }
        let wire = format!("{{\"event\":{},\"details\":{}}}", quoted(&self.name), self.details);
        let event = serde_json::from_str(&wire).map(Event::upgraded);
        event.map_err(|source| Unreadable {
            plan: self.plan.clone(),
            seq: self.seq,
            name: self.name.clone(),
            source,
        })
    }

    /// Computes the hash from all other fields.
    pub fn computed_hash(&self) -> Hash {
        Hash::of(self.object().as_bytes())
    }

    /// Returns one line of the wire format, with `hash` last.
    pub fn line(&self) -> String {
        let mut line = self.object();
        line.pop();
        let _ = write!(line, ",\"hash\":\"{}\"}}", self.hash);
        line
    }

    /// Returns the object that is hashed: keys sorted, no spaces.
    fn object(&self) -> String {
        let mut out = String::with_capacity(self.details.len() + 320);
        let _ = write!(
            out,
            "{{\"details\":{},\"event\":{},\"plan\":{},\"prev\":\"{}\",\"seq\":{}",
            self.details,
            quoted(&self.name),
            quoted(&self.plan.0),
            self.prev,
            self.seq,
        );
        match self.step {
            Some(step) => {
                let _ = write!(out, ",\"task_id\":\"task_{step}\"");
            }
            None => out.push_str(",\"task_id\":null"),
        }
        match &self.task_name {
            Some(name) => {
                let _ = write!(out, ",\"task_name\":{}", quoted(name));
            }
            None => out.push_str(",\"task_name\":null"),
        }
        let _ = write!(out, ",\"timestamp\":\"{}\"}}", self.at);
        out
    }
}

fn quoted(text: &str) -> String {
    written(text)
}

/// An event of the log that this version of provost cannot decode.
#[derive(Debug, thiserror::Error)]
#[error("event {seq} of plan {plan} ({name}) cannot be read")]
pub struct Unreadable {
    pub plan: PlanId,
    pub seq: u64,
    pub name: String,
    #[source]
    pub source: serde_json::Error,
}

/// The first difference between a log and what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    #[error("event {found} follows event {after}: the events between them are missing")]
    Gap { after: u64, found: u64 },
    #[error("event {seq} does not follow the event before it: its `prev` is not that event's hash")]
    Unlinked { seq: u64 },
    #[error("event {seq} was changed: its hash does not match its content")]
    Altered { seq: u64 },
}

/// Checks a chain from its start, one event at a time, in constant memory.
#[derive(Clone, Copy, Debug)]
pub struct Auditor {
    head: Head,
}

impl Default for Auditor {
    fn default() -> Self {
        Self { head: Head::START }
    }
}

impl Auditor {
    /// Checks the part of a chain after `head`.
    pub fn after(head: Head) -> Self {
        Self { head }
    }

    pub fn next(&mut self, sealed: &SealedEvent) -> Result<(), Break> {
        if sealed.seq != self.head.seq + 1 {
            return Err(Break::Gap { after: self.head.seq, found: sealed.seq });
        }
        if sealed.prev != self.head.hash {
            return Err(Break::Unlinked { seq: sealed.seq });
        }
        if sealed.computed_hash() != sealed.hash {
            return Err(Break::Altered { seq: sealed.seq });
        }
        self.head = Head { seq: sealed.seq, hash: sealed.hash };
        Ok(())
    }

    pub fn head(&self) -> Head {
        self.head
    }
}

#[cfg(test)]
mod tests;
