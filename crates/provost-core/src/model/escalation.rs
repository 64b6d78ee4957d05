//! Why a person is asked, as far as a rule depends on it.

use serde::{Deserialize, Serialize};

/// Cause of an escalation. Rules read this; `reason` is for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EscalationCause {
    /// The agent says that it cannot continue.
    AgentBlocked,
    /// The sub-plan that carries out the step waits for a person.
    SubplanWaits,
    /// The check holds before any work, so it cannot show that the work was done.
    HoldsAlready,
    /// A reminder of an item that waits too long; it changes nothing.
    Overdue,
    /// Anything else, such as retries that are used up.
    #[default]
    Other,
}

impl EscalationCause {
    /// Words that a reason with this cause begins with.
    pub fn words(self) -> &'static str {
        match self {
            EscalationCause::AgentBlocked => "the agent is blocked: ",
            EscalationCause::SubplanWaits => "its plan waits: ",
            EscalationCause::HoldsAlready => "its check holds already, before any work",
            EscalationCause::Overdue => "overdue: ",
            EscalationCause::Other => "",
        }
    }

    /// Returns the cause of an event that was written before `cause` was a field: its reason begins with the
    /// words.
    pub(crate) fn of_old_reason(reason: &str) -> Self {
        use EscalationCause::{AgentBlocked, HoldsAlready, Overdue, SubplanWaits};
        let known = [AgentBlocked, SubplanWaits, HoldsAlready, Overdue];
        known.into_iter().find(|cause| reason.starts_with(cause.words())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::Event;

    #[test]
    fn an_old_event_has_its_cause_in_the_words_of_its_reason_and_a_new_one_in_its_field() {
        let read = |details: &str| {
            let text = format!(r#"{{"event":"RECOVERY_ESCALATION","details":{details}}}"#);
            match serde_json::from_str::<Event>(&text).map(Event::upgraded) {
                Ok(Event::Escalated { cause, .. }) => cause,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(read(r#"{"step":1,"reason":"its plan waits: x"}"#), Some(EscalationCause::SubplanWaits));
        assert_eq!(read(r#"{"step":1,"reason":"broke"}"#), Some(EscalationCause::Other));
        let new = r#"{"step":1,"reason":"its plan waits: says an agent","cause":"other"}"#;
        assert_eq!(read(new), Some(EscalationCause::Other));
    }
}
