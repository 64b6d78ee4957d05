//! Workers and the database are killed, stopped and started again at any instant; every plan ends.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use provost_store::postgres::cluster::Cluster;

use super::{Fleet, Worker};
use crate::env::plan;

/// Each attempt leaves a line, so that every dispatch shows.
const AGENT: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out\n\
                     echo \"$part $PROVOST_ATTEMPT\" >> out/ledger; sleep 0.3; touch out/$part; echo \"did $part\"\n";
const STEPS: usize = 3;

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn whatever_dies_every_plan_ends_and_every_step_passes_once() {
    let is_full = std::env::var_os("PROVOST_FULL").is_some();
    let (time, plans) = if is_full { (Duration::from_secs(180), 24) } else { (Duration::from_secs(15), 4) };
    let Some(own) = Cluster::start() else { return };
    let own: &'static Cluster = Box::leak(Box::new(own));
    let contracts: Vec<String> = (1..=STEPS).map(|part| format!("test -e out/{part}")).collect();
    let contracts: Vec<&str> = contracts.iter().map(String::as_str).collect();
    let config = "[run]\nmax_lost_attempts = 100\n";
    let fleet = Fleet::on(own, plans, &plan(&contracts, "abort"), AGENT, config);
    let seed = SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos();
    println!("dice {seed}");
    let mut dice = Dice(u64::from(seed) | 1);
    let start = |place: usize| match place {
        0 => fleet.worker(&["--ticks-only"]),
        // Looks and works, and goes on with what it has begun.
        1 => fleet.worker(&["--jobs", "2"]),
        _ => fleet.worker(&["--no-ticks", "--roles", "coder", "--jobs", "2"]),
    };
    let mut workers: Vec<Worker> = (0..5).map(start).collect();
    let begun = Instant::now();
    let mut approved = 0;
    while begun.elapsed() < time {
        if approved < plans && begun.elapsed() * plans as u32 >= time * approved as u32 {
            fleet.approve(approved);
            approved += 1;
        }
        let who = dice.below(workers.len());
        match dice.below(8) {
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
                own.kill();
                own.run();
            }
            _ => std::thread::sleep(Duration::from_millis(700)),
        }
    }
    (approved..plans).for_each(|place| fleet.approve(place));
    workers.iter().for_each(|worker| worker.signal("CONT"));
    fleet.until_done(Duration::from_secs(120));
    (0..plans).for_each(|place| inspect(&fleet, place));
}

fn inspect(fleet: &Fleet, place: usize) {
    fleet.is_sound(place, STEPS);
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
