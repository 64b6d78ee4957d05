//! Test suite that every implementation of the log must pass.
//!
//! Each case gets a function that opens another handle to one new log. `every_log_must!` turns each case
//! into a test, so that a failure names the broken guarantee.

use std::ops::ControlFlow;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use provost_core::model::chain::{Auditor, Head, PlanId, SealedEvent};
use provost_core::model::event::{Event, Revision};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Amount;

use crate::{Append, ArchivableLog, Cursor, Effect, Error, Fence, Holder, Log, LogEntry, Query};

mod archived;

pub use archived::*;

/// Every call opens another handle to the same log.
pub type Handles = Box<dyn Fn() -> Arc<dyn ArchivableLog>>;

#[macro_export]
macro_rules! every_log_must {
    ($fresh:ident) => {
        $crate::every_log_must!(@ $fresh,
            start_empty keep_a_chain_that_verifies refuse_an_append_on_an_old_head
            write_all_events_of_an_append_or_none accept_an_append_without_events
            answer_by_plan_step_name_and_time answer_newest_first_and_limited
            answer_between_cursors stop_reading_when_told let_a_reader_append
            survive_strange_names wake_a_waiter_in_another_thread wake_a_waiter_at_another_handle
            let_a_waiter_go_when_the_time_is_over give_a_lease_to_one_holder
            let_a_lease_go_when_it_is_dropped refuse_a_write_behind_an_old_fence
            take_two_writers_on_two_plans take_two_writers_on_one_plan commit_wake_ups_with_events
            read_archived_plans_as_before go_on_with_an_archived_plan archive_whole_plans_only
            lose_nothing_if_an_archiving_stops find_changed_cold_files say_which_cold_file_is_missing
            archive_beside_a_writer archive_twice_at_once);
    };
    (@ $fresh:ident, $($case:ident)*) => {
        mod every_log_must {
            $(#[test] fn $case() { $crate::suite::$case(&super::$fresh()) })*
        }
    };
}

pub fn start_empty(open: &Handles) {
    let log = open();
    assert_eq!(log.head(&plan("a")).unwrap(), Head::START);
    assert_eq!(log.cursor().unwrap(), Cursor(0));
    assert_eq!(log.unarchived_plans().unwrap(), []);
    assert_eq!(log.take_wakes().unwrap(), []);
    assert_eq!(log.holder("a").unwrap(), None);
    assert!(all(&*log, Query::default()).is_empty());
    assert!(all(&*log, Query::plan(&plan("a"))).is_empty());
}

pub fn keep_a_chain_that_verifies(open: &Handles) {
    let log = open();
    for round in 0..5 {
        append_steps(&*log, "a", 3);
        append_steps(&*log, "b", round + 1);
    }
    for (name, length) in [("a", 15), ("b", 15)] {
        let mut auditor = Auditor::default();
        for event in all(&*open(), Query::plan(&plan(name))) {
            auditor.next(&event).unwrap();
            event.event().unwrap();
        }
        assert_eq!(auditor.head(), log.head(&plan(name)).unwrap());
        assert_eq!(auditor.head().seq, length);
    }
    assert_eq!(log.unarchived_plans().unwrap(), [plan("a"), plan("b")]);
}

pub fn refuse_an_append_on_an_old_head(open: &Handles) {
    let log = open();
    append_steps(&*log, "a", 2);
    for wrong in [0, 1, 3] {
        let refused = write(&*open(), "a", wrong, 9, &[started(1)]).unwrap_err();
        assert!(
            matches!(refused, Error::Conflict { expected, found: 2, .. } if expected == wrong),
            "{refused}"
        );
    }
    assert_eq!(write(&*log, "a", 2, 9, &[started(1)]).unwrap()[0].seq, 3);
}

pub fn write_all_events_of_an_append_or_none(open: &Handles) {
    let log = open();
    let written = write(&*log, "a", 0, 5, &[started(1), started(2), started(3)]).unwrap();
    assert_eq!(written.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(all(&*open(), Query::plan(&plan("a"))), written);
    let events = [started(4), started(5)];
    let entries = entries(&events);
    let effects = [Effect::Wake(plan("b"))];
    let stale = Fence { name: "never taken".to_owned(), epoch: 7 };
    let append = Append { effects: &effects, fence: Some(&stale), ..append("a", 3, 6, &entries) };
    assert!(matches!(log.append(append), Err(Error::Fenced { held: 7, current: 0, .. })));
    assert_eq!(log.head(&plan("a")).unwrap().seq, 3);
    assert_eq!(log.take_wakes().unwrap(), []);
}

pub fn accept_an_append_without_events(open: &Handles) {
    let log = open();
    assert_eq!(write(&*log, "a", 0, 1, &[]).unwrap(), []);
    assert_eq!(log.unarchived_plans().unwrap(), []);
    assert!(matches!(write(&*log, "a", 1, 1, &[]), Err(Error::Conflict { found: 0, .. })));
}

/// Writes two plans alternately; the clock of the second is behind.
fn history(log: &dyn Log) {
    write(log, "a", 0, 100, &[verified(), started(1)]).unwrap();
    write(log, "b", 0, 90, &[verified(), started(1)]).unwrap();
    write(log, "a", 2, 200, &[failed(1), started(2)]).unwrap();
    write(log, "b", 2, 190, &[failed(1), started(2)]).unwrap();
    write(log, "a", 4, 300, &[failed(2)]).unwrap();
}

pub fn answer_by_plan_step_name_and_time(open: &Handles) {
    let log = open();
    history(&*log);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let a = Query::plan(&plan("a"));
    let whole = Query::default();
    let step = |number| Some(StepNumber(number));
    let at = |ms| Some(Timestamp(ms));
    let cases = [
        (whole.clone(), "a1 a2 b1 b2 a3 a4 b3 b4 a5"),
        (a.clone(), "a1 a2 a3 a4 a5"),
        (Query { after_seq: Some(3), ..a.clone() }, "a4 a5"),
        (Query { step: step(1), ..a.clone() }, "a2 a3"),
        (Query { step: step(2), ..whole.clone() }, "a4 b4 a5"),
        (Query { names: names(&["TASK_FAILED"]), ..a.clone() }, "a3 a5"),
        (Query { names: names(&["TASK_FAILED"]), ..whole.clone() }, "a3 b3 a5"),
        (Query { names: names(&["TASK_STARTED"]), ..whole.clone() }, "a2 b2 a4 b4"),
        (Query { names: names(&["PLAN_VERIFIED", "TASK_FAILED"]), ..whole.clone() }, "a1 b1 a3 b3 a5"),
        (Query { names: names(&["PLAN_VERIFIED", "TASK_STARTED"]), ..whole.clone() }, "a1 a2 b1 b2 a4 b4"),
        (Query { names: names(&["NO_SUCH_EVENT"]), ..whole.clone() }, ""),
        (Query { since: at(190), ..whole.clone() }, "a3 a4 b3 b4 a5"),
        (Query { since: at(191), ..whole.clone() }, "a3 a4 a5"),
        (Query { until: at(100), ..whole.clone() }, "b1 b2"),
        (Query { since: at(100), until: at(200), ..whole.clone() }, "a1 a2 b3 b4"),
        (Query { since: at(100), until: at(200), ..a.clone() }, "a1 a2"),
        (Query { since: at(301), ..whole.clone() }, ""),
        (Query { since: at(100), until: at(250), names: names(&["TASK_FAILED"]), ..whole }, "a3 b3"),
        (Query { since: at(150), step: step(2), names: names(&["TASK_STARTED"]), ..a }, "a4"),
        (Query::plan(&plan("unheard of")), ""),
    ];
    for (query, expected) in cases {
        assert_eq!(told(&*log, &query), expected, "{query:?}");
    }
}

pub fn answer_newest_first_and_limited(open: &Handles) {
    let log = open();
    history(&*log);
    let whole = Query { newest_first: true, ..Query::default() };
    let failures = Query { names: vec!["TASK_FAILED".to_owned()], ..whole.clone() };
    let cases = [
        (whole.clone(), "a5 b4 b3 a4 a3 b2 b1 a2 a1"),
        (Query { limit: Some(3), ..whole.clone() }, "a5 b4 b3"),
        (Query { limit: Some(0), ..whole.clone() }, ""),
        (Query { limit: Some(2), ..Query::default() }, "a1 a2"),
        (Query { limit: Some(2), ..failures }, "a5 b3"),
        (Query { plan: Some(plan("a")), limit: Some(2), ..whole.clone() }, "a5 a4"),
        (Query { since: Some(Timestamp(190)), limit: Some(2), ..whole }, "a5 b4"),
    ];
    for (query, expected) in cases {
        assert_eq!(told(&*log, &query), expected, "{query:?}");
    }
}

pub fn answer_between_cursors(open: &Handles) {
    let log = open();
    write(&*log, "a", 0, 1, &[started(1)]).unwrap();
    let first = log.cursor().unwrap();
    append_steps(&*log, "b", 2);
    let second = log.cursor().unwrap();
    append_steps(&*log, "a", 1);
    assert!(Cursor(0) < first && first < second);
    let after = |cursor| Query { after: Some(cursor), ..Query::default() };
    assert_eq!(told(&*log, &after(first)), "b1 b2 a2");
    assert_eq!(told(&*log, &Query { through: Some(second), ..after(first) }), "b1 b2");
    assert_eq!(told(&*log, &Query { plan: Some(plan("a")), ..after(first) }), "a2");
    assert_eq!(told(&*log, &after(log.cursor().unwrap())), "");
    let mut placed = Vec::new();
    let read = log.read_placed(&Query::default(), &mut |place, sealed| {
        placed.push((place, sealed));
        ControlFlow::Continue(())
    });
    read.unwrap();
    for (place, sealed) in placed {
        let through = all(&*log, Query { through: Some(place), ..Query::default() });
        assert_eq!(through.last(), Some(&sealed));
    }
}

pub fn stop_reading_when_told(open: &Handles) {
    let log = open();
    append_steps(&*log, "a", 10);
    let mut seen = 0;
    log.read(&Query::default(), &mut |_| {
        seen += 1;
        if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(seen, 3);
}

pub fn let_a_reader_append(open: &Handles) {
    let log = open();
    append_steps(&*log, "a", 3);
    let mut seen = 0;
    log.read(&Query::plan(&plan("a")), &mut |_| {
        append_steps(&*log, "b", 1);
        seen += log.head(&plan("b")).unwrap().seq;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seen, 1 + 2 + 3);
}

pub fn survive_strange_names(open: &Handles) {
    let log = open();
    for name in ["", "ein Plän", "a'; DROP TABLE event; --", "nul\0inside", "../../etc", "🦀"] {
        write(&*log, name, 0, 1, &[started(1)]).unwrap();
        assert_eq!(all(&*log, Query::plan(&plan(name))).len(), 1, "{name:?}");
        let lease = log.lease(name, &someone()).unwrap();
        assert_eq!(log.holder(name).unwrap(), Some(someone()), "{name:?}");
        drop(lease);
    }
    assert_eq!(log.unarchived_plans().unwrap().len(), 6);
    let odd = Query { names: vec!["' OR 1=1 --".to_owned()], ..Query::default() };
    assert_eq!(told(&*log, &odd), "");
}

pub fn wake_a_waiter_in_another_thread(open: &Handles) {
    let log = open();
    woken_in_time(&log, &log);
}

pub fn wake_a_waiter_at_another_handle(open: &Handles) {
    woken_in_time(&open(), &open());
}

fn woken_in_time(waiter: &Arc<dyn ArchivableLog>, writer: &Arc<dyn ArchivableLog>) {
    // The best of a few rounds, because other tests share the machine.
    let best = (0..5)
        .map(|_| {
            let after = waiter.cursor().unwrap();
            let ready = Arc::new(Barrier::new(2));
            let waiting = thread::spawn({
                let (waiter, ready) = (waiter.clone(), ready.clone());
                move || {
                    ready.wait();
                    (waiter.wait(after, Duration::from_secs(10)).unwrap(), Instant::now())
                }
            });
            ready.wait();
            thread::sleep(Duration::from_millis(30));
            append_steps(&**writer, "a", 1);
            let appended = Instant::now();
            let (cursor, woken) = waiting.join().unwrap();
            assert_eq!(cursor, writer.cursor().unwrap());
            woken.saturating_duration_since(appended)
        })
        .min();
    assert!(best < Some(Duration::from_millis(50)), "woken after {best:?}");
}

pub fn let_a_waiter_go_when_the_time_is_over(open: &Handles) {
    let log = open();
    append_steps(&*log, "a", 1);
    let begun = Instant::now();
    assert_eq!(log.wait(Cursor(0), Duration::from_secs(10)).unwrap(), log.cursor().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(5), "there was something already");
    let end = log.cursor().unwrap();
    assert_eq!(log.wait(end, Duration::from_millis(60)).unwrap(), end);
    assert_eq!(log.wait(end, Duration::ZERO).unwrap(), end);
}

pub fn give_a_lease_to_one_holder(open: &Handles) {
    let (log, other) = (open(), open());
    let lease = log.lease("plan a", &someone()).unwrap();
    for again in [&log, &other] {
        let refused = again.lease("plan a", &someone()).unwrap_err();
        assert!(matches!(&refused, Error::LeaseHeld { holder: Some(holder), .. } if *holder == someone()));
        assert!(refused.to_string().contains("`plan a` is held by a test"), "{refused}");
    }
    assert_eq!(other.holder("plan a").unwrap(), Some(someone()));
    assert_eq!(other.holder("plan b").unwrap(), None);
    let _unrelated = other.lease("plan b", &someone()).unwrap();
    drop(lease);
}

pub fn let_a_lease_go_when_it_is_dropped(open: &Handles) {
    let (log, other) = (open(), open());
    for epoch in 1..=3 {
        let lease = log.lease("a", &someone()).unwrap();
        assert_eq!(lease.fence(), &Fence { name: "a".to_owned(), epoch: 2 * epoch - 1 });
        drop(lease);
        assert_eq!(log.holder("a").unwrap(), None);
        assert_eq!(other.lease("a", &someone()).unwrap().fence().epoch, 2 * epoch);
    }
}

pub fn refuse_a_write_behind_an_old_fence(open: &Handles) {
    let (log, other) = (open(), open());
    let old = log.lease("a", &someone()).unwrap().fence().clone();
    let events = [started(1)];
    let entries = entries(&events);
    log.append(Append { fence: Some(&old), ..append("a", 0, 1, &entries) }).unwrap();
    let new = other.lease("a", &someone()).unwrap();
    let refused = log.append(Append { fence: Some(&old), ..append("a", 1, 1, &entries) });
    assert!(matches!(refused, Err(Error::Fenced { held: 1, current: 2, .. })));
    other.append(Append { fence: Some(new.fence()), ..append("a", 1, 1, &entries) }).unwrap();
    assert_eq!(log.head(&plan("a")).unwrap().seq, 2);
}

const EACH: u64 = 200;

pub fn take_two_writers_on_two_plans(open: &Handles) {
    at_once(open, |log, who| {
        let name = format!("plan {who}");
        for seq in 0..EACH {
            write(log, &name, seq, seq, &[started(1)]).unwrap();
        }
    });
    let log = open();
    assert_eq!(log.cursor().unwrap(), Cursor(2 * EACH));
    verify_chains(&*log);
}

pub fn take_two_writers_on_one_plan(open: &Handles) {
    at_once(open, |log, _| {
        let mut written = 0;
        while written < EACH {
            let head = log.head(&plan("a")).unwrap();
            match write(log, "a", head.seq, 1, &[started(1)]) {
                Ok(_) => written += 1,
                Err(Error::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    let log = open();
    assert_eq!(log.head(&plan("a")).unwrap().seq, 2 * EACH);
    verify_chains(&*log);
}

fn at_once(open: &Handles, work: impl Fn(&dyn Log, usize) + Sync) {
    let handles = [open(), open()];
    thread::scope(|scope| {
        for (who, log) in handles.iter().enumerate() {
            let work = &work;
            scope.spawn(move || work(&**log, who));
        }
    });
}

pub fn commit_wake_ups_with_events(open: &Handles) {
    let (log, other) = (open(), open());
    let events = [started(1)];
    let entries = entries(&events);
    let effects = [Effect::Wake(plan("c")), Effect::Wake(plan("b")), Effect::Wake(plan("c"))];
    log.append(Append { effects: &effects, ..append("a", 0, 1, &entries) }).unwrap();
    let refused = log.append(Append { effects: &[Effect::Wake(plan("d"))], ..append("a", 0, 1, &entries) });
    assert!(matches!(refused, Err(Error::Conflict { .. })));
    assert_eq!(log.unarchived_plans().unwrap(), [plan("a")]);
    assert_eq!(other.take_wakes().unwrap(), [plan("b"), plan("c")]);
    assert_eq!(log.take_wakes().unwrap(), []);
}

/// Verifies every plan's chain, from its start to its head.
pub fn verify_chains(log: &dyn Log) {
    for plan in log.unarchived_plans().unwrap() {
        let mut auditor = Auditor::default();
        for event in all(log, Query::plan(&plan)) {
            auditor.next(&event).unwrap();
        }
        assert_eq!(auditor.head(), log.head(&plan).unwrap());
    }
}

/// Appends `count` more events to the plan, in one append.
pub fn append_steps(log: &dyn Log, name: &str, count: u32) {
    let events: Vec<Event> = (1..=count).map(started).collect();
    let seq = log.head(&plan(name)).unwrap().seq;
    write(log, name, seq, 1_000 + seq, &events).unwrap();
}

pub fn write(
    log: &dyn Log,
    name: &str,
    expected_seq: u64,
    at: u64,
    events: &[Event],
) -> Result<Vec<SealedEvent>, Error> {
    let (plan, entries) = (plan(name), entries(events));
    let at = Timestamp(at);
    log.append(Append { plan: &plan, expected_seq, at, fence: None, events: &entries, effects: &[] })
}

pub fn all(log: &dyn Log, query: Query) -> Vec<SealedEvent> {
    let mut found = Vec::new();
    log.read(&query, &mut |event| {
        found.push(event);
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

/// Returns the events found, in order, as `a1 b1 a2`.
fn told(log: &dyn Log, query: &Query) -> String {
    let found = all(log, query.clone());
    found.iter().map(|event| format!("{}{}", event.plan, event.seq)).collect::<Vec<_>>().join(" ")
}

fn append<'a>(name: &str, expected_seq: u64, at: u64, events: &'a [LogEntry<'a>]) -> Append<'a> {
    // Tests use few plans; leaking them keeps the cases short.
    let plan: &'static PlanId = Box::leak(Box::new(plan(name)));
    Append { plan, expected_seq, at: Timestamp(at), fence: None, events, effects: &[] }
}

fn entries(events: &[Event]) -> Vec<LogEntry<'_>> {
    events.iter().map(|event| LogEntry { event, task_name: event.step().map(|_| "a title") }).collect()
}

pub fn plan(name: &str) -> PlanId {
    PlanId(name.to_owned())
}

pub fn someone() -> Holder {
    Holder {
        pid: 7,
        host: "here".to_owned(),
        what: "a test".to_owned(),
        since: Timestamp(5),
        pid_namespace: None,
        checks_session: false,
        is_run: false,
    }
}

pub fn started(step: u32) -> Event {
    Event::StepStarted {
        step: StepNumber(step),
        attempt: 1,
        target: "coder \"ä\"\n".to_owned(),
        reserved: Amount::default(),
        start: None,
    }
}

fn failed(step: u32) -> Event {
    Event::StepFailed { step: StepNumber(step), error: "it did not hold".to_owned() }
}

fn verified() -> Event {
    Event::PlanVerified { revision: Revision("r".to_owned()), warnings: 0 }
}
