//! The accounts of the database may write the events that the rules allow them.

use std::collections::BTreeSet;

use provost_core::model::event::{Approver, DESCRIPTIONS, Event, EventWriter};

/// Examples of all events, of every version.
const EVENTS: &str = include_str!("../../../../provost-core/test_data/events/v1.jsonl");
const MIGRATION: &str = include_str!("../migrations/0002_trust.sql");

/// Returns the names in the list that follows `begin` in the migration.
fn list(begin: &str) -> BTreeSet<String> {
    let (_, rest) = MIGRATION.split_once(begin).unwrap_or_else(|| panic!("{begin} is in the migration"));
    let (list, _) = rest.split_once(')').expect("a list");
    list.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_lists_of_the_migration_are_those_of_the_events() {
    let events: Vec<Event> =
        EVENTS.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let all: BTreeSet<&str> = events.iter().map(Event::name).collect();
    assert_eq!(all, DESCRIPTIONS.iter().map(|(name, _)| *name).collect(), "every event has an example");

    let written_by = |writer: EventWriter| -> BTreeSet<String> {
        let of = events.iter().filter(|event| event.writer() == writer);
        of.map(|event| event.name().to_owned()).collect()
    };
    let mut persons = list("is_a_persons boolean := event IN (");
    // The migration asks for the approver of this one.
    persons.insert("GATE_APPROVED".to_owned());
    assert_eq!(persons, written_by(EventWriter::Person));
    assert_eq!(list("is_a_runs boolean := event IN ("), written_by(EventWriter::Run));
    assert_eq!(list("is_a_workers boolean := is_a_runs OR event IN ("), written_by(EventWriter::All));
    let is_by_policy = |event: &&Event| matches!(event, Event::Approved { by: Approver::Policy { .. }, .. });
    let by_policy = events.iter().find(is_by_policy).expect("an approval by a policy");
    assert_eq!(by_policy.writer(), EventWriter::HarnessOrPerson);
}
