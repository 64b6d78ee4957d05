//! Removes secrets from every text of an event, in any field.
//!
//! All events pass through here before they are logged. The text of a plan is the exception: it is kept byte
//! for byte, and `verify` reports a secret in it as an error.
//!
//! **Invariant:** the result decodes as the same kind of value.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Redactor;
use crate::model::event::Event;

impl Redactor {
    /// Returns the event without secrets.
    pub fn event(&self, mut event: Event) -> Event {
        let text = match &mut event {
            Event::PlanCreated { text, .. } | Event::PlanRewritten { text, .. } => std::mem::take(text),
            _ => return self.value(event),
        };
        let mut event = self.value(event);
        if let Event::PlanCreated { text: place, .. } | Event::PlanRewritten { text: place, .. } = &mut event
        {
            *place = text;
        }
        event
    }

    /// Does the same for any value that serialises to JSON, in keys and texts.
    pub fn value<T: Serialize + DeserializeOwned>(&self, value: T) -> T {
        let Ok(before) = serde_json::to_value(&value) else { return value };
        let mut after = before.clone();
        self.walk(&mut after);
        if after == before {
            return value;
        }
        if let Ok(clean) = serde_json::from_value(after) {
            return clean;
        }
        // A secret is also a word of the format: redact each text separately.
        let mut kept = before;
        let mut place = 0;
        while let Some(changed) = self.changed_at(&kept, place) {
            if serde_json::from_value::<T>(changed.clone()).is_ok() {
                kept = changed;
            }
            place += 1;
        }
        serde_json::from_value(kept).unwrap_or(value)
    }

    fn walk(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let std::borrow::Cow::Owned(clean) = self.text(text) {
                    *text = clean;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|each| self.walk(each)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|each| self.walk(each));
                if fields.keys().any(|name| matches!(self.text(name), std::borrow::Cow::Owned(_))) {
                    let named = std::mem::take(fields).into_iter();
                    *fields = named
                        .map(|(name, each)| (self.text(&name).into_owned(), each))
                        .collect::<Map<_, _>>();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns the value with only its text number `place` redacted; `None` if it has fewer.
    fn changed_at(&self, value: &Value, place: usize) -> Option<Value> {
        let mut changed = value.clone();
        let mut left = place;
        let text = nth_text(&mut changed, &mut left)?;
        *text = self.text(text).into_owned();
        Some(changed)
    }
}

fn nth_text<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut String> {
    match value {
        Value::String(text) if *left == 0 => Some(text),
        Value::String(_) => {
            *left -= 1;
            None
        }
        Value::Array(values) => values.iter_mut().find_map(|each| nth_text(each, left)),
        Value::Object(fields) => fields.values_mut().find_map(|each| nth_text(each, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::model::event::{AttemptEnd, EndedAttempt, Event, TopicPost};
    use crate::model::plan::StepNumber;
    use crate::redact::Redactor;

    const SECRET: &str = "hunter2-hunter2";

    fn ended() -> Event {
        let end = AttemptEnd::NotStarted { reason: format!("{SECRET} is no program") };
        Event::AttemptEnded(EndedAttempt {
            report: format!("I used {SECRET}"),
            notes: vec![format!("not reached: {SECRET}.example.org:443")],
            session: Some(format!("session-{SECRET}")),
            published: vec![TopicPost { topic: SECRET.to_owned(), text: format!("the key is {SECRET}") }],
            ..EndedAttempt::new(StepNumber(1), 1, end)
        })
    }

    #[test]
    fn no_field_of_an_event_keeps_a_secret() {
        let redactor = Redactor::new([("KEY", SECRET)]);
        let clean = serde_json::to_string(&redactor.event(ended())).expect("text");
        assert!(!clean.contains(SECRET), "{clean}");
        let twice = redactor.event(redactor.event(ended()));
        assert_eq!(twice, redactor.event(ended()));
    }

    #[test]
    fn an_event_without_secrets_stays_as_it_is_and_so_does_the_text_of_a_plan() {
        let redactor = Redactor::new([("KEY", "another-secret")]);
        assert_eq!(redactor.event(ended()), ended());
        let text = "# a plan that says hunter2-hunter2".to_owned();
        let created = Event::PlanCreated {
            text: text.clone(),
            revision: Default::default(),
            base: None,
            files: Vec::new(),
            terms: Default::default(),
            task_count: 1,
            dependencies: Vec::new(),
            drafting: Vec::new(),
            author: Some(SECRET.to_owned()),
            checks_by: crate::model::check_author::CheckAuthor::Person,
            included: Default::default(),
        };
        let Event::PlanCreated { text: kept, author, .. } = Redactor::new([("KEY", SECRET)]).event(created)
        else {
            unreachable!("the same kind of event")
        };
        assert_eq!(kept, text);
        assert_eq!(author.as_deref(), Some("[redacted:KEY]"));
    }

    #[test]
    fn a_secret_that_is_a_word_of_the_format_goes_everywhere_else() {
        let redactor = Redactor::new([("KEY", "not_started"), ("OTHER", "ATTEMPT_ENDED")]);
        let end = AttemptEnd::NotStarted { reason: "not_started: ATTEMPT_ENDED".to_owned() };
        let event = redactor.event(Event::AttemptEnded(EndedAttempt::new(StepNumber(1), 1, end)));
        let Event::AttemptEnded(EndedAttempt { end: AttemptEnd::NotStarted { reason }, .. }) = event else {
            unreachable!("the same kind of event")
        };
        assert!(!reason.contains("not_started") && !reason.contains("ATTEMPT_ENDED"), "{reason}");
    }
}
