//! Tests that every engine must pass. The prefixes of the names are those of the experiments by which the
//! distributed engine was chosen; each runs with both engines if it applies to both.

use std::time::{Duration, Instant};

use super::engine::{Embedded, Engine, TTL};
use super::{Fleet, PATIENCE};
use crate::env::{HONEST, plan};

/// The very first attempt reports that it has started and waits until it is killed; later attempts do their
/// work.
pub(super) const STALLS: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out\n\
                          echo \"$PROVOST_ATTEMPT\" >> ../ledger\n\
                          if mkdir ../begun 2> /dev/null; then sleep 600; fi\n\
                          touch out/$part; echo \"did $part\"\n";
/// Every attempt waits until the test lets it continue.
pub(super) const WAITS: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out; echo $$ > ../pid\n\
                         echo \"$PROVOST_ATTEMPT\" >> ../ledger; touch ../begun\n\
                         while [ ! -e ../go ]; do sleep 0.05; done; touch out/$part; echo \"did $part\"\n";
pub(super) const WORKS: [&str; 3] = ["--no-ticks", "--roles", "coder"];
pub(super) const TWO: [&str; 2] = ["test -e out/1", "test -e out/2"];
const ONE: [&str; 1] = ["test -e out/1"];

macro_rules! for_both {
    ($($experiment:ident),* $(,)?) => {
        mod cluster {
            $(#[test] fn $experiment() { super::$experiment::<super::Fleet>(); })*
        }
        mod embedded {
            $(#[test] fn $experiment() { super::$experiment::<super::Embedded>(); })*
        }
    };
}

for_both!(
    t0_what_is_approved_is_carried_out_by_several_at_once,
    e1_what_is_approved_twice_is_carried_out_once,
    e2_and_t3_what_a_person_decides_needs_nobody_alive,
    e3_and_t1_what_a_dead_one_had_is_judged_and_begun_anew,
    e5_two_who_mean_the_same_plan_do_not_do_it_twice,
    e7b_the_dead_hold_no_place,
    e8_what_a_newer_program_made_is_refused_and_named,
    e9_what_is_not_wanted_any_more_is_ended_and_written_down,
    e11_no_more_work_at_once_than_they_may,
    e12_a_time_that_was_set_is_kept_by_whoever_is_there_then,
    e13_agents_work_on_while_the_log_is_away,
    what_a_dead_judge_left_is_ended_before_it_is_judged_again,
);

fn made<E: Engine>(plans: usize, contracts: &[&str], agent: &str) -> Option<E> {
    E::make(plans, &plan(contracts, "abort"), agent, "")
}

fn t0_what_is_approved_is_carried_out_by_several_at_once<E: Engine>() {
    let Some(engine) = made::<E>(3, &TWO, HONEST) else { return };
    engine.approve_all();
    let _hands = (engine.hand(), engine.standby());
    engine.until_done(PATIENCE);
    (0..3).for_each(|place| engine.is_sound(place, 2));
}

fn e1_what_is_approved_twice_is_carried_out_once<E: Engine>() {
    let Some(engine) = made::<E>(1, &ONE, WAITS) else { return };
    engine.approve(0);
    let revision = engine.provost(0, &["show", "--json"]).exits(0).json()["revision"].clone();
    let _hand = engine.hand();
    engine.until("begun", PATIENCE, || engine.has("begun"));
    // Whether it is refused or not, the second approval changes nothing.
    engine.provost(0, &["approve", "--revision", revision.as_str().expect("a revision")]);
    engine.go();
    engine.until_done(PATIENCE);
    engine.is_sound(0, 1);
    assert_eq!(engine.count(0, "GATE_APPROVED").values().sum::<usize>(), 1);
    assert_eq!(engine.ledger().len(), 1);
}

fn e2_and_t3_what_a_person_decides_needs_nobody_alive<E: Engine>() {
    let Some(engine) = made::<E>(1, &TWO, HONEST) else { return };
    engine.provost(0, &["verify"]).exits(0);
    engine.hand().kill();
    engine.approve(0);
    let _next = engine.hand();
    engine.until_done(PATIENCE);
    engine.is_sound(0, 2);
}

fn e3_and_t1_what_a_dead_one_had_is_judged_and_begun_anew<E: Engine>() {
    let Some(engine) = made::<E>(1, &TWO, STALLS) else { return };
    engine.approve(0);
    let mut first = engine.hand();
    engine.until("begun", PATIENCE, || engine.has("begun"));
    let standby = engine.standby();
    first.kill();
    let _next = standby.unwrap_or_else(|| engine.hand());
    engine.until("a second try", PATIENCE, || engine.ledger().len() > 1);
    engine.until_done(PATIENCE);
    engine.is_sound(0, 2);
    engine.gave_nothing_twice();
    let names = engine.names(0);
    let lost = names.iter().position(|name| name == "ATTEMPT_LOST").expect("the attempt is told as lost");
    let again = names.iter().rposition(|name| name == "TASK_STARTED").expect("a second try");
    assert!(lost < again, "{names:?}");
}

/// Two workers always have different names; of two runs of one plan the second is refused.
fn e5_two_who_mean_the_same_plan_do_not_do_it_twice<E: Engine>() {
    let Some(engine) = made::<E>(1, &TWO, WAITS) else { return };
    engine.approve(0);
    let _first = engine.hand();
    engine.until("begun", PATIENCE, || engine.has("begun"));
    let _second = engine.hand();
    engine.go();
    engine.until_done(PATIENCE);
    engine.is_sound(0, 2);
    assert_eq!(engine.ledger().len(), 2, "{:?}", engine.ledger());
}

/// A dead worker frees its slot in a queue, and the lease on its workspace.
fn e7b_the_dead_hold_no_place<E: Engine>() {
    let Some(engine) = made::<E>(2, &ONE, STALLS) else { return };
    engine.approve(0);
    let mut first = engine.hand();
    engine.until("begun", PATIENCE, || engine.has("begun"));
    engine.limit(1);
    engine.approve(1);
    first.kill();
    let _second = engine.hand();
    engine.until_done(PATIENCE);
    engine.gave_nothing_twice();
}

fn e8_what_a_newer_program_made_is_refused_and_named<E: Engine>() {
    let Some(engine) = made::<E>(1, &TWO, HONEST) else { return };
    let (refused, versions) = engine.refuses_what_is_newer();
    assert_ne!(refused.code, 0, "{refused:?}");
    let says_which = versions.iter().all(|version| refused.err.contains(version));
    assert!(says_which && refused.out.is_empty(), "it says which: {}", refused.err);
}

fn e9_what_is_not_wanted_any_more_is_ended_and_written_down<E: Engine>() {
    let Some(engine) = made::<E>(1, &ONE, WAITS) else { return };
    engine.approve(0);
    let hand = engine.hand();
    engine.until("begun", PATIENCE, || engine.has("begun") && engine.agent_lives());
    engine.cancel(&hand);
    engine.until("the agent is ended", PATIENCE, || !engine.agent_lives());
    engine.until("it is in the log", PATIENCE, || engine.names(0).contains(&"ATTEMPT_LOST".to_owned()));
    assert!(engine.count(0, "TASK_COMPLETED").is_empty());
    engine.provost(0, &["audit"]).exits(0);
}

/// Without queues, the steps of one plan are the limit: they run one after the other.
fn e11_no_more_work_at_once_than_they_may<E: Engine>() {
    let agent = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out; echo begin >> ../ledger\n\
                 sleep 0.4; echo end >> ../ledger; touch out/$part; echo done\n";
    let (plans, contracts) = if E::HAS_QUEUES { (3, &ONE[..]) } else { (1, &TWO[..]) };
    let Some(engine) = made::<E>(plans, contracts, agent) else { return };
    let _hands = (engine.hand(), engine.standby());
    engine.limit(1);
    engine.approve_all();
    engine.until_done(PATIENCE);
    assert_eq!(engine.ledger(), ["begin", "end"].repeat(plans * contracts.len()), "two were at work at once");
}

fn e12_a_time_that_was_set_is_kept_by_whoever_is_there_then<E: Engine>() {
    // The check fails once with a transient failure, and is retried after four seconds.
    let config =
        "[recipes.away]\nclass = \"transient\"\ndetect = { stderr = \"not yet\" }\nbackoff = [\"4s\"]\n";
    let contract =
        "date +%s%3N >> ../ledger; test $(wc -l < ../ledger) -gt 1 || { echo not yet >&2; exit 1; }";
    let Some(engine) = E::make(1, &plan(&[contract], "retry(3)"), HONEST, config) else { return };
    engine.approve(0);
    let mut first = engine.hand();
    engine.until("a pause", PATIENCE, || !engine.count(0, "RECOVERY_APPLIED").is_empty());
    first.kill();
    let _second = engine.hand();
    engine.until_done(PATIENCE);
    let tries: Vec<u64> = engine.ledger().iter().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(tries.len(), 3, "two looks and the last one: {tries:?}");
    let pause = tries[1] - tries[0];
    assert!((4_000..30_000).contains(&pause), "tried again after {pause} ms");
}

fn e13_agents_work_on_while_the_log_is_away<E: Engine>() {
    let Some(engine) = E::make_alone(1, &plan(&TWO, "abort"), WAITS, "") else { return };
    engine.approve(0);
    let _hand = engine.hand();
    engine.until("begun", PATIENCE, || engine.has("begun"));
    engine.goes_away();
    engine.go();
    let did = engine.places[0].join("out/1");
    let deadline = Instant::now() + PATIENCE;
    while !did.exists() {
        assert!(Instant::now() < deadline, "the agent does not work on");
        std::thread::sleep(Duration::from_millis(20));
    }
    engine.comes_back();
    engine.until_done(PATIENCE);
    engine.is_sound(0, 2);
    assert_eq!(engine.ledger().len(), 2, "nothing was done over: {:?}", engine.ledger());
}

fn what_a_dead_judge_left_is_ended_before_it_is_judged_again<E: Engine>() {
    let contract = "if mkdir ../judging 2> /dev/null; then echo $$ > ../pid; sleep 600; fi; test -e out/1";
    let Some(engine) = made::<E>(1, &[contract], HONEST) else { return };
    engine.approve(0);
    let mut first = engine.hand();
    engine.until("it is judged", PATIENCE, || engine.agent_lives());
    first.kill();
    assert!(engine.agent_lives(), "a check goes on without its judge");
    let _next = engine.hand();
    engine.until_done(PATIENCE);
    engine.is_sound(0, 1);
    assert!(!engine.agent_lives(), "two checks of one step at once");
}

/// A lease in a cluster expires by a clock, so a worker that was stopped has lost it when it continues.
#[test]
fn e4_and_t2_whoever_was_only_stopped_comes_back_to_a_lease_that_is_gone() {
    let Some(fleet) = Fleet::new(1, &TWO, STALLS) else { return };
    fleet.approve(0);
    let holder = fleet.worker(&[]);
    fleet.until("begun", PATIENCE, || fleet.has("begun"));
    let _other = fleet.worker(&[]);
    holder.signal("STOP");
    fleet.until_done(PATIENCE);
    let before = fleet.events(0).len();
    holder.signal("CONT");
    fleet.until("refused", PATIENCE, || !fleet.status()["refused"].as_array().is_none_or(Vec::is_empty));
    let refused = fleet.status()["refused"][0].clone();
    assert_eq!(refused["item"], "attempt 1 1", "{refused}");
    assert_eq!(fleet.events(0).len(), before, "it wrote to the log");
    fleet.is_sound(0, 2);
    fleet.gave_nothing_twice();
    fleet.until("it is back", PATIENCE, || fleet.workers() == 2);
}

/// On a single machine a process holds a lease while it lives, so one that was stopped still has it.
#[test]
fn e4_of_one_machine_whoever_was_only_stopped_keeps_what_it_has() {
    let Some(engine) = made::<Embedded>(1, &TWO, WAITS) else { return };
    engine.approve(0);
    let holder = engine.hand();
    engine.until("begun", PATIENCE, || engine.has("begun"));
    holder.signal("STOP");
    let refused = engine.provost(0, &["run"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    holder.signal("CONT");
    engine.go();
    engine.until_done(PATIENCE);
    engine.is_sound(0, 2);
    assert_eq!(engine.ledger().len(), 2, "{:?}", engine.ledger());
}

/// Only for the cluster: on one machine no queue can deliver an item that the program does not know.
#[test]
fn e6_what_a_worker_does_not_know_is_told_and_keeps_nobody() {
    let Some(fleet) = Fleet::new(1, &TWO, HONEST) else { return };
    fleet.provost(0, &["verify"]).exits(0);
    let _worker = fleet.worker(&[]);
    fleet.cluster.sql(
        &fleet.url,
        "SELECT provost_cluster.offer(name::json #>> '{}', 'dance 1', 'judge', '') FROM provost.plan",
    );
    let troubles = || fleet.status()["troubles"].to_string();
    fleet.until("it is told", PATIENCE, || troubles().contains("dance 1"));
    fleet.approve(0);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
}

/// The second part of E11: a limit on starts per time, over all machines.
#[test]
fn e11_a_rate_holds_for_all_machines_together() {
    let agent = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out; date +%s%3N >> ../ledger\n\
                 touch out/$part; echo done\n";
    let Some(fleet) = Fleet::new(3, &ONE, agent) else { return };
    let roles = ["--jobs", "2", "--roles", "coder"];
    let _workers = [fleet.worker(&roles), fleet.worker(&roles)];
    fleet.provost(0, &["cluster", "limit", "coder", "--rate", "1/2s"]).exits(0);
    fleet.approve_all();
    fleet.until_done(PATIENCE);
    let mut begun: Vec<u64> = fleet.ledger().iter().filter_map(|line| line.parse().ok()).collect();
    begun.sort_unstable();
    assert_eq!(begun.len(), 3);
    // An item starts when it is taken from the queue; the agent starts a moment later.
    assert!(begun.windows(2).all(|two| two[1] - two[0] > 1_000), "{begun:?}");
    let refused = fleet.provost(0, &["cluster", "limit", "nobody", "--rate", "3/2s"]).exits(2);
    assert!(refused.err.contains("cluster status"), "{}", refused.err);
}

#[test]
fn the_dead_are_forgotten_after_their_time() {
    let Some(fleet) = Fleet::new(1, &ONE, HONEST) else { return };
    let (mut one, _other) = (fleet.worker(&[]), fleet.worker(&[]));
    assert_eq!(fleet.workers(), 2);
    one.kill();
    fleet.until("it is forgotten", TTL * 4, || fleet.workers() == 1);
}
