//! Many minutes of chaos with independent steps on five workers behind a pooler: workers are killed, stopped and
//! restarted one after the other, and the pooler is restarted. Nothing may be lost, and no attempt may run twice
//! or beside another one of its step.
//!
//! `./test --full` runs ten minutes of it; `PROVOST_CHAOS_MINUTES` sets the time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use provost_store::postgres::cluster::{Cluster, text};

use super::beside::{FREE, graph};
use super::bouncer::Bouncer;
use super::chaos::{Dice, approvals, is_all_there, witness};
use super::{Fleet, Worker};

/// Waits rather than computes, so that many run on few cores.
const AGENT: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out/$part\n\
                     sleep 4.0417; ls out > out/$part/saw; echo did\n";
/// By this argument the process of an agent is found.
const WAIT: &str = "4.0417";
const WORKERS: usize = 5;
/// Four independent steps, and one that needs them all.
const STEPS: usize = 5;
/// Plans in a minute.
const PLANS: usize = 6;
const CLEAN: &str = "[run]\nmax_lost_attempts = 100\n[verify]\nisolation = \"clean\"\n";
/// Longest time that a worker takes to finish its items.
const LEAVES: Duration = Duration::from_secs(120);

/// Returns how long it takes. Without a request for it, counts the test as skipped.
fn minutes() -> Option<u32> {
    let said = std::env::var("PROVOST_CHAOS_MINUTES").ok().and_then(|minutes| minutes.parse().ok());
    let minutes = said.or_else(|| std::env::var_os("PROVOST_FULL").map(|_| 10));
    if minutes.is_none() {
        provost_rehearsal::skip::full("ten minutes of chaos with parallel steps behind a pooler");
    }
    minutes
}

#[test]
fn parallel_steps_behind_a_pooler_outlive_whatever_dies() {
    let Some(minutes) = minutes() else { return };
    let Some(own) = Cluster::start() else { return };
    let own: &'static Cluster = Box::leak(Box::new(own));
    let Some(bouncer) = Bouncer::start(own, "default_pool_size = 12\nmax_db_connections = 12") else {
        return;
    };
    own.database();
    let (time, plans) = (Duration::from_secs(60) * minutes, PLANS * minutes as usize);
    let text = graph(&[FREE, FREE, FREE, FREE, "**needs:** 1, 2, 3, 4"]);
    let mut fleet = Fleet::at(own, bouncer.url("log_0"), plans, &text, AGENT, CLEAN);
    fleet.lease = "10s";
    if !fleet.env.has_fences() {
        return;
    }
    let said = std::env::var("PROVOST_DICE").ok().and_then(|dice| dice.parse().ok());
    let seed = said.unwrap_or_else(|| SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos());
    println!("dice {seed}");
    let dice = Dice(u64::from(seed) | 1);
    let over = AtomicBool::new(false);
    let (seen, ran) = std::thread::scope(|scope| {
        let witness = scope.spawn(|| witness(&own.url("log_0"), &over));
        let watch = scope.spawn(|| watch(&over));
        let person = scope.spawn(|| approvals(&fleet, time));
        // The other threads end when this one does, also after a panic.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let workers = disturb(&fleet, &bouncer, dice, time);
            fleet.until("all plans ended", Duration::from_secs(600), || ended_plans(&fleet) == plans);
            workers
        }));
        over.store(true, Ordering::Relaxed);
        let workers = ended.unwrap_or_else(|what| std::panic::resume_unwind(what));
        assert_eq!(person.join().expect("a person").len(), plans);
        let result = (witness.join().expect("a witness"), watch.join().expect("a watch"));
        drop(workers);
        result
    });
    is_all_there(&fleet, &seen);
    (0..plans).for_each(|place| fleet.is_sound(place, STEPS));
    let begun = is_one_after_the_other(&fleet);
    let lost: usize =
        (0..plans).map(|place| fleet.count(place, "ATTEMPT_LOST").values().sum::<usize>()).sum();
    let refused = fleet.status()["refused"].as_array().map_or(0, Vec::len);
    println!(
        "{plans} plans, {} steps, {} events; attempts: {begun} begun, {} seen running, {lost} lost; \
         late reports refused: {refused}",
        plans * STEPS,
        seen.len(),
        ran.len()
    );
}

fn ended_plans(fleet: &Fleet) -> usize {
    let count = "SELECT count(*)::text FROM provost.event WHERE name = 'EXECUTION_COMPLETE'";
    text(&fleet.cluster.sql(&fleet.cluster.url("log_0"), count)[0]).parse().expect("a number")
}

/// Disturbs the workers and the pooler for this time, then repairs everything.
fn disturb(fleet: &Fleet, bouncer: &Bouncer, mut dice: Dice, time: Duration) -> Vec<Worker> {
    let start = || fleet.worker(&["--jobs", "2"]);
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| start()).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let begun = Instant::now();
    let mut rolled = Instant::now();
    while begun.elapsed() < time {
        // Once in two minutes, all are replaced one after the other, as with a new version.
        if rolled.elapsed() > Duration::from_secs(120) {
            for worker in &mut workers {
                leave(worker);
                *worker = start();
            }
            rolled = Instant::now();
            *counts.entry("rolling restarts").or_default() += 1;
        }
        let who = dice.below(workers.len());
        let what = match dice.below(10) {
            0 | 1 => {
                workers[who].kill();
                workers[who] = start();
                "kills"
            }
            2 => {
                workers[who].signal("STOP");
                "stops"
            }
            3 | 4 => {
                workers[who].signal("CONT");
                "continues"
            }
            5 => {
                leave(&mut workers[who]);
                workers[who] = start();
                "restarts of a worker"
            }
            6 => {
                bouncer.stop();
                std::thread::sleep(dice.time(Duration::from_secs(3)));
                bouncer.run();
                "restarts of the pooler"
            }
            _ => {
                std::thread::sleep(dice.time(Duration::from_secs(6)));
                continue;
            }
        };
        *counts.entry(what).or_default() += 1;
    }
    workers.iter().for_each(|worker| worker.signal("CONT"));
    println!("{counts:?}");
    workers
}

/// Lets a worker finish its items.
fn leave(worker: &mut Worker) {
    worker.signal("CONT");
    worker.signal("TERM");
    let deadline = Instant::now() + LEAVES;
    while !worker.has_left() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(worker.has_left(), "a worker did not leave in {LEAVES:?}");
}

/// Agents that were seen, by attempt: the processes of each.
type Ran = BTreeMap<String, u32>;

/// Looks at the agents that run, and checks that each attempt has one process, and each step one attempt.
fn watch(over: &AtomicBool) -> Ran {
    let mut ran = Ran::new();
    while !over.load(Ordering::Relaxed) {
        let running = agents();
        let mut steps: BTreeMap<&str, &str> = BTreeMap::new();
        for (attempt, pid) in &running {
            let first = *ran.entry(attempt.clone()).or_insert(*pid);
            assert_eq!(first, *pid, "{attempt} was given to an agent twice");
            let (step, _) = attempt.rsplit_once('/').expect("an attempt");
            let other = steps.insert(step, attempt).filter(|other| *other != attempt);
            assert_eq!(other, None, "beside {attempt}");
        }
        std::thread::sleep(Duration::from_millis(150));
    }
    ran
}

/// Returns the attempts whose agent runs now, with the process in which the agent waits.
fn agents() -> Vec<(String, u32)> {
    let of = |pid: u32| {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let command = read("cmdline");
        let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
        // Not the shell: its copies for `$(…)` look like it.
        if !(words.len() >= 2 && words[0] == b"sleep" && words[1] == WAIT.as_bytes()) {
            return None;
        }
        let environment = read("environ");
        let attempt =
            environment.split(|byte| *byte == 0).find_map(|pair| pair.strip_prefix(b"PROVOST_ATTEMPT="));
        Some((String::from_utf8_lossy(attempt?).into_owned(), pid))
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| of(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Checks in the log that no attempt of a step began before the one before it had ended, and that none began
/// twice. Returns how many began.
fn is_one_after_the_other(fleet: &Fleet) -> usize {
    let mut count = 0;
    for place in 0..fleet.places.len() {
        let mut open: BTreeMap<String, u64> = BTreeMap::new();
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for event in fleet.events(place) {
            let step = event["task_id"].as_str().unwrap_or_default().to_owned();
            match event["event"].as_str().unwrap_or_default() {
                "TASK_STARTED" => {
                    let attempt = event["details"]["attempt"].as_u64().expect("an attempt");
                    assert_eq!(open.insert(step.clone(), attempt), None, "beside another: {event}");
                    assert!(last.insert(step, attempt).is_none_or(|before| before < attempt), "{event}");
                    count += 1;
                }
                "ATTEMPT_ENDED" | "ATTEMPT_LOST" => assert!(open.remove(&step).is_some(), "{event}"),
                _ => {}
            }
        }
    }
    count
}
