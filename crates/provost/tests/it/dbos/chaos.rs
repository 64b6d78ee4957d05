//! Kills, stops and restarts workers and the database at random, cuts and holds connections, splits the
//! network. Every plan must end, and no event that was seen may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use provost_store::postgres::Postgres;
use provost_store::postgres::cluster::{Cluster, address};
use provost_store::{Cursor, Log as _, Query};

use super::station::Station;
use super::{Fleet, Worker};
use crate::env::plan;

/// Each attempt appends a line to a file, so that every dispatch is visible.
const AGENT: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out\n\
                     echo \"$part $PROVOST_ATTEMPT\" >> out/ledger; sleep 0.3; touch out/$part; echo \"did $part\"\n";
const STEPS: usize = 3;

pub(super) struct Dice(pub u64);

impl Dice {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }

    pub(super) fn time(&mut self, most: Duration) -> Duration {
        most * self.below(1000) as u32 / 1000
    }
}

#[test]
fn whatever_dies_every_plan_ends_and_every_step_passes_once() {
    let is_full = std::env::var_os("PROVOST_FULL").is_some();
    let (time, plans) = if is_full { (Duration::from_secs(180), 24) } else { (Duration::from_secs(20), 4) };
    let Some(own) = Cluster::start() else { return };
    let own: &'static Cluster = Box::leak(Box::new(own));
    let contracts: Vec<String> = (1..=STEPS).map(|part| format!("test -e out/{part}")).collect();
    let contracts: Vec<&str> = contracts.iter().map(String::as_str).collect();
    let config = "[run]\nmax_lost_attempts = 100\n";
    let fleet = Fleet::on(own, plans, &plan(&contracts, "abort"), AGENT, config);
    let said = std::env::var("PROVOST_DICE").ok().and_then(|dice| dice.parse().ok());
    let seed = said.unwrap_or_else(|| SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos());
    println!("dice {seed}");
    let dice = Dice(u64::from(seed) | 1);
    let over = AtomicBool::new(false);
    let (seen, approved) = std::thread::scope(|scope| {
        let witness = scope.spawn(|| witness(&fleet.url, &over));
        let person = scope.spawn(|| approvals(&fleet, time));
        // The other threads end when this one does, also after a panic.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disturb(&fleet, dice, time)));
        let approved = person.join().expect("a person");
        let workers = ended.unwrap_or_else(|what| {
            over.store(true, Ordering::Relaxed);
            std::panic::resume_unwind(what)
        });
        let deadline = Instant::now() + Duration::from_secs(600);
        while !is_over(&fleet) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(300));
        }
        over.store(true, Ordering::Relaxed);
        let seen = witness.join().expect("a witness");
        fleet.until_done(Duration::from_secs(1));
        drop(workers);
        (seen, approved)
    });
    assert_eq!(approved.len(), plans);
    is_all_there(&fleet, &seen);
    (0..plans).for_each(|place| inspect(&fleet, place));
}

fn is_over(fleet: &Fleet) -> bool {
    (0..fleet.places.len()).all(|place| fleet.stage(place) == "done")
}

/// Disturbs workers that schedule and workers that run items for this time, then repairs everything.
fn disturb(fleet: &Fleet, mut dice: Dice, time: Duration) -> Vec<(Worker, Station)> {
    let is_full = time > Duration::from_secs(60);
    let stations = vec![
        Station::near(fleet),
        Station::by_wire(fleet, "looks"),
        Station::by_wire(fleet, "works-1"),
        Station::by_wire(fleet, "works-2"),
        Station::by_net(fleet, "works-3"),
    ];
    let start = |place: usize| {
        stations[place].mend();
        match place {
            0 => stations[place].worker(fleet, &["--ticks-only"]),
            // Schedules, runs items, and continues with plans.
            1 => stations[place].worker(fleet, &["--jobs", "2"]),
            _ => stations[place].worker(fleet, &["--no-ticks", "--roles", "coder", "--jobs", "2"]),
        }
    };
    let mut workers: Vec<Worker> = (0..stations.len()).map(start).collect();
    let mut mended: Vec<Option<Instant>> = vec![None; stations.len()];
    let begun = Instant::now();
    while begun.elapsed() < time {
        for (station, until) in stations.iter().zip(&mut mended) {
            if until.take_if(|until| *until <= Instant::now()).is_some() {
                station.mend();
            }
        }
        let who = dice.below(workers.len());
        let station = &stations[who];
        // At most twice the lease time.
        let soon = Instant::now() + dice.time(Duration::from_secs(10));
        match dice.below(14) {
            0 | 1 => {
                workers[who].kill();
                workers[who] = start(who);
            }
            2 => workers[who].signal("STOP"),
            3 | 4 => workers[who].signal("CONT"),
            5 => {
                workers[who].signal("CONT");
                workers[who].signal("TERM");
                std::thread::sleep(Duration::from_millis(500));
                workers[who].kill();
                workers[who] = start(who);
            }
            6 if is_full || dice.below(3) == 0 => {
                fleet.cluster.kill();
                fleet.cluster.run();
            }
            7 | 8 => station.cut(),
            9 => {
                station.hold();
                mended[who] = Some(soon);
            }
            10 => {
                station.refuse();
                mended[who] = Some(soon);
            }
            11 => {
                station.slow_down(Duration::from_millis(80));
                mended[who] = Some(soon);
            }
            12 => {
                stations[4].part();
                mended[4] = Some(soon);
            }
            _ => std::thread::sleep(Duration::from_millis(700)),
        }
    }
    stations.iter().for_each(Station::mend);
    workers.iter().for_each(|worker| worker.signal("CONT"));
    workers.into_iter().zip(stations).collect()
}

/// Approves the plans one after the other, spread over this time. Only acknowledged approvals count.
pub(super) fn approvals(fleet: &Fleet, time: Duration) -> Vec<usize> {
    let begun = Instant::now();
    let plans = fleet.places.len();
    let mut done = Vec::new();
    for place in 0..plans {
        while begun.elapsed() * (plans as u32) < time * place as u32 {
            std::thread::sleep(Duration::from_millis(50));
        }
        while !acknowledged(fleet, place) {
            std::thread::sleep(Duration::from_millis(100));
        }
        done.push(place);
    }
    done
}

fn acknowledged(fleet: &Fleet, place: usize) -> bool {
    let shown = fleet.provost(place, &["show", "--json"]);
    if shown.code != 0 {
        return false;
    }
    let revision = shown.json()["revision"].as_str().expect("a revision").to_owned();
    fleet.provost(place, &["approve", "--revision", &revision]).code == 0
}

pub(super) type Seen = BTreeMap<(String, u64), String>;

/// Follows the log over its own connection, which only the server can interrupt.
pub(super) fn witness(url: &str, over: &AtomicBool) -> Seen {
    let log = Postgres::open(&address(url)).expect("the log");
    let mut seen = Seen::new();
    let mut after = Cursor(0);
    while !over.load(Ordering::Relaxed) {
        let Ok(through) = log.wait(after, Duration::from_millis(300)) else { continue };
        let query = Query { after: Some(after), through: Some(through), ..Query::default() };
        let read = log.read_placed(&query, &mut |_, event| {
            let place = (event.plan.0.clone(), event.seq);
            let before = seen.insert(place, event.hash.to_string());
            assert!(before.is_none_or(|before| before == event.hash.to_string()), "an event was changed");
            ControlFlow::Continue(())
        });
        if read.is_ok() {
            after = through;
        }
    }
    seen
}

/// Checks that every event that was seen is still in its place.
pub(super) fn is_all_there(fleet: &Fleet, seen: &Seen) {
    let mut there = Seen::new();
    for event in (0..fleet.places.len()).flat_map(|place| fleet.events(place)) {
        let word = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        there.insert((word("plan"), event["seq"].as_u64().expect("a number")), word("hash"));
    }
    let lost: Vec<_> = seen.iter().filter(|(place, hash)| there.get(*place) != Some(*hash)).collect();
    assert!(lost.is_empty() && !seen.is_empty(), "of {} events that were seen: {lost:?}", seen.len());
}

fn inspect(fleet: &Fleet, place: usize) {
    fleet.is_sound(place, STEPS);
    assert_eq!(
        fleet.count(place, "GATE_APPROVED").values().sum::<usize>(),
        1,
        "what a person was told counts"
    );
    let mut announced = BTreeSet::new();
    for event in fleet.events(place).iter().filter(|event| event["event"] == "TASK_STARTED") {
        let task = event["task_id"].as_str().unwrap_or_default().to_owned();
        let attempt = event["details"]["attempt"].as_u64().expect("an attempt");
        assert!(announced.insert((task, attempt)), "an attempt was announced twice");
    }
    let ledger = std::fs::read_to_string(fleet.places[place].join("out/ledger")).expect("a ledger");
    let given: Vec<&str> = ledger.lines().collect();
    let distinct: BTreeSet<&&str> = given.iter().collect();
    assert_eq!(distinct.len(), given.len(), "given to an agent twice:\n{ledger}");
    for line in given {
        let (part, tag) = line.split_once(' ').expect("a line");
        let attempt = tag.rsplit('/').next().and_then(|attempt| attempt.parse().ok()).expect("an attempt");
        assert!(announced.contains(&(format!("task_{part}"), attempt)), "{line} was never announced");
    }
}
