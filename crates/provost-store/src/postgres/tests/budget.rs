//! Tests the budget of all plans: what counts, and which plans wait and are woken.

use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Amount;

use super::super::cluster::Cluster;
use super::super::*;
use crate::suite::{self, plan};

fn tokens(tokens: u64) -> Amount {
    Amount { tokens: Some(tokens), micro_usd: Some(tokens * 10), wall_ms: None }
}

fn limit(tokens: u64) -> Amount {
    Amount { tokens: Some(tokens), ..Amount::default() }
}

/// Appends an event with which the plan has used this much.
fn uses(log: &Postgres, name: &str, used: Amount) {
    let seq = log.head(&plan(name)).expect("a head").seq;
    let event = suite::started(1);
    log.append(Append {
        plan: &plan(name),
        expected_seq: seq,
        at: Timestamp(1),
        fence: None,
        events: &[crate::LogEntry { event: &event, task_name: None }],
        effects: &[Effect::Used(used)],
    })
    .expect("written");
}

#[test]
fn a_plan_waits_until_the_budget_is_raised_or_less_counts() {
    let Some(cluster) = Cluster::shared() else { return };
    let log = cluster.log();
    let waits = |name: &str| log.waits_for_budget(&plan(name)).expect("an answer");
    let woken = || log.take_wakes().expect("wakes");
    uses(&log, "a", tokens(600));
    assert_eq!(waits("a"), None, "there is no budget");
    log.set_budget(&limit(1_000)).expect("the owner");
    assert_eq!(waits("a"), None);
    uses(&log, "b", tokens(400));
    let why = waits("a").expect("it is used up");
    assert!(
        why.contains("1k tokens used") && why.contains("provost cluster budget 'max 2k tokens'"),
        "{why}"
    );
    log.set_budget(&limit(900)).expect("the owner");
    assert_eq!(woken(), []);
    log.set_budget(&limit(2_000)).expect("the owner");
    assert_eq!(woken(), [plan("a")]);
    assert_eq!(waits("a"), None);
    // An attempt used less than was reserved for it.
    log.set_budget(&limit(1_000)).expect("the owner");
    assert!(waits("a").is_some() && waits("b").is_some());
    uses(&log, "b", tokens(399));
    assert_eq!(woken(), [plan("a"), plan("b")]);
    let record = log.budget().expect("a budget");
    assert_eq!((record.budget.used, record.budget.limit), (tokens(999), limit(1_000)));
    assert_eq!(record.set_by.as_deref(), Some(super::super::cluster::USER));
    uses(&log, "b", tokens(1 << 59));
    uses(&log, "c", tokens(1 << 59));
    assert_eq!(log.budget().expect("a budget").budget.used.micro_usd, Some(i64::MAX as u64));
    assert!(waits("c").is_some());
    log.set_budget(&Amount::default()).expect("the owner");
    assert_eq!((waits("c"), woken()), (None, vec![plan("c")]));
}

#[test]
fn plans_without_an_amount_are_counted_later_and_archived_ones_still_count() {
    let Some(cluster) = Cluster::shared() else { return };
    let log = cluster.log();
    suite::append_steps(&log, "old", 2);
    uses(&log, "new", tokens(5));
    assert_eq!(log.uncounted_plans().expect("plans"), [plan("old")]);
    let counted = |seq| [CountedPlan { plan: plan("old"), seq, used: tokens(70) }];
    log.count_plans(&counted(1)).expect("the owner");
    assert_eq!(log.uncounted_plans().expect("plans"), [plan("old")], "it went on meanwhile");
    log.count_plans(&counted(2)).expect("the owner");
    log.count_plans(&counted(2)).expect("the owner");
    let used = || log.budget().expect("a budget").budget.used;
    assert_eq!((used(), log.uncounted_plans().expect("plans")), (tokens(75), vec![]));
    let folder = tempfile::tempdir().expect("a folder");
    suite::archive_plans(&log, folder.path(), &["old"]);
    assert_eq!(used(), tokens(75));
    // A program of an earlier version continues it.
    suite::append_steps(&log, "new", 1);
    assert_eq!((used(), log.uncounted_plans().expect("plans")), (tokens(75), vec![plan("new")]));
    for refused in ["UPDATE provost.budget SET tokens = 1", "UPDATE provost.plan SET tokens = -1"] {
        log.set_budget(&limit(1)).expect("the owner");
        let url = cluster.url(log.options().get_database().expect("a name"));
        cluster.try_sql(&url, refused).expect_err(refused);
    }
}
