//! Tests that the errors of clients and APIs, in their own words, have their class and use up no attempt.

use serde::Deserialize;

use super::*;
use crate::rules::recover::class;

#[derive(Deserialize)]
struct Wording {
    rule: String,
    /// The program or service that says it.
    from: String,
    text: String,
}

fn all() -> Vec<Wording> {
    let table = include_str!("../../../../test_data/agents/errors.jsonl");
    table.lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
}

#[test]
fn every_wording_is_classified_by_its_rule() {
    for Wording { rule, from, text } in all() {
        let found = class::of_agent(&text, Some(1)).unwrap_or_else(|| class::of_report(&text));
        let counts = matches!(found.class, FailureClass::Transient | FailureClass::Permission);
        let found_rule = if rule == "none" && !counts { "none" } else { found.rule.as_str() };
        assert_eq!(found_rule, rule, "{from}: {text}");
        assert!(rule == "none" || text.contains(&found.line) && !found.line.is_empty(), "{from}: {text}");
    }
}

#[test]
fn no_attempt_is_used_up_and_the_person_reads_what_the_agent_said() {
    for Wording { rule, from, text } in all().into_iter().filter(|row| row.rule != "none") {
        let mut story = Story::new("retry(2), then abort");
        story.attempt(1, &format!("I look at the code.\n{text}\nwarning: noise"));
        let events = story.breaks("");
        let what = format!("{from}, {rule}: {text}");
        if class(&events) == FailureClass::Transient {
            let tried = matches!(events.last(), Some(Event::RecoveryApplied { check_again: false, .. }));
            // A limit that ends in many hours is a matter for a person.
            assert!(tried || reason(&events).contains("asks to wait"), "{what}: {events:?}");
            continue;
        }
        let start: String = text.chars().take(100).collect();
        assert!(reason(&events).contains(&format!("(it said: {start}")), "{what}: {}", reason(&events));
        assert!(!reason(&events).contains("after 1 attempt"), "{what}: {}", reason(&events));
        let advice: Vec<&String> = events
            .iter()
            .filter_map(|event| match event {
                Event::PermissionRequired { configure, .. } => Some(configure),
                _ => None,
            })
            .flatten()
            .collect();
        let is_foreign = |advice: &&&String| {
            [".docker", ".npmrc", ".aws", "gcloud"].iter().any(|word| advice.contains(word))
        };
        assert_eq!(advice.iter().find(is_foreign), None, "{what}");
    }
}

#[test]
fn the_words_of_an_agent_say_nothing_about_a_check() {
    for Wording { from, text, rule } in all() {
        let agent_rule = crate::rules::recover::rules::of_agents().iter().any(|known| known.name == rule);
        if !agent_rule {
            continue;
        }
        let mut story = Story::new("retry(2), then abort");
        let events = story.fails(&text);
        let Event::FailureClassified { rule: found, .. } = &events[1] else { panic!("{events:?}") };
        assert!(!found.starts_with(&format!("{rule}:")), "{from}: {text}: {found}");
    }
}

#[test]
fn an_agent_that_only_prints_such_a_sentence_does_not_try_for_ever() {
    for text in
        ["API Error: Repeated 529 Overloaded errors", "429 Too Many Requests", "Model not found: a/b."]
    {
        let mut story = Story::new("retry(2), then escalate");
        let ended = (0..5).any(|_| {
            story.attempt(1, text);
            matches!(story.breaks("").last(), Some(Event::Escalated { .. }))
        });
        assert!(ended, "{text}");
        assert!(story.run.step(ONE).is_some_and(|step| step.attempts <= 3), "{text}");
    }
}
