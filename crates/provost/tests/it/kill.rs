//! Kills provost many times at random; the same command must resume the plan each time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use crate::env::{Env, plan};

/// Each step appends a line to a file, so that every dispatch is visible.
const AGENT: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out\n\
                     echo \"$part $PROVOST_ATTEMPT\" >> out/ledger; sleep 0.01; touch out/$part; echo \"did $part\"\n";

fn kills_wanted() -> u32 {
    std::env::var("PROVOST_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

#[test]
fn fifty_kills_lose_nothing_and_repeat_nothing() {
    kill("in-place", kills_wanted());
}

/// Fewer kills, and later ones, because a run starts with its self-test.
#[test]
fn the_same_behind_the_fence() {
    if Env::new("").has_fences() {
        kill("clean", kills_wanted() / 5);
    }
}

fn kill(level: &str, wanted: u32) {
    let mut dice = SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_nanos() as u64 | 1;
    println!("dice {dice}");
    let mut kills = 0;
    // Measures how long an undisturbed run takes on this machine now.
    let begun = Instant::now();
    fresh(level).provost(&["run"]).exits(0);
    let mut longest = begun.elapsed();
    while kills < wanted {
        let env = fresh(level);
        match kill_until_done(&env, &mut dice, longest) {
            // The machine is less busy than before: a kill within the old time would mostly come too late.
            Killed { times: 0, last_run } => longest = longest.min(last_run),
            Killed { times, .. } => kills += times,
        }
        inspect(&env);
    }
    assert!(kills >= wanted);
}

/// How often the runs of a plan were killed, and how long the last one took, which ended by itself.
struct Killed {
    times: u32,
    last_run: Duration,
}

/// Creates an approved plan of eight steps.
fn fresh(level: &str) -> Env {
    let contracts: Vec<String> = (1..=8).map(|part| format!("test -f out/{part}")).collect();
    let contracts: Vec<&str> = contracts.iter().map(String::as_str).collect();
    let env = Env::new(&plan(&contracts, "abort")).agent(AGENT).isolation(level);
    env.write("provost.toml", env.read("provost.toml") + "[run]\nmax_lost_attempts = 100\n");
    env.approve();
    env
}

/// Starts the same command again and again and kills it a moment later, until the plan is done.
fn kill_until_done(env: &Env, dice: &mut u64, longest: Duration) -> Killed {
    for times in 0..1000 {
        let begun = Instant::now();
        let mut child = env.start(&["run"]);
        *dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let lives = Duration::from_micros((*dice >> 33) % longest.as_micros() as u64);
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                let last_run = begun.elapsed();
                let code = status.code();
                assert_eq!(code, Some(0), "{:?}", crate::env::answer(child.wait_with_output().unwrap()));
                return Killed { times, last_run };
            }
            match lives.checked_sub(begun.elapsed()) {
                Some(left) => std::thread::sleep(left.min(Duration::from_millis(1))),
                None => break,
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    panic!("never done");
}

fn inspect(env: &Env) {
    env.provost(&["audit"]).exits(0);
    assert_eq!(env.stage(), "done");
    let mut passed: BTreeMap<String, u32> = BTreeMap::new();
    let mut started = BTreeSet::new();
    let mut ended = 0;
    for event in env.provost(&["log", "--json"]).exits(0).lines() {
        let task = event["task_id"].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str() {
            Some("TASK_STARTED") => {
                assert!(!passed.contains_key(&task), "{task} was started after it had passed");
                let attempt = event["details"]["attempt"].as_u64().unwrap();
                assert!(started.insert((task, attempt)), "an attempt was announced twice");
            }
            Some("TASK_COMPLETED") => *passed.entry(task).or_default() += 1,
            Some("EXECUTION_COMPLETE") => ended += 1,
            _ => {}
        }
    }
    assert_eq!(passed.len(), 8);
    assert!(passed.values().all(|times| *times == 1), "{passed:?}");
    assert_eq!(ended, 1, "the plan ended {ended} times");
    // No attempt was dispatched twice, and each was in the log before.
    let ledger = env.read("out/ledger");
    let dispatched: Vec<&str> = ledger.lines().collect();
    let distinct: BTreeSet<&&str> = dispatched.iter().collect();
    assert_eq!(distinct.len(), dispatched.len(), "dispatched twice:\n{ledger}");
    for line in dispatched {
        let (part, tag) = line.split_once(' ').unwrap();
        let attempt = tag.rsplit('/').next().unwrap().parse().unwrap();
        assert!(started.contains(&(format!("task_{part}"), attempt)), "{line} was never announced");
    }
    // The progress file has each event once, in order.
    let progress = env.read("progress.md");
    let told: Vec<u64> = progress
        .lines()
        .filter_map(|line| line.split(" #").nth(1)?.split(' ').next()?.parse().ok())
        .collect();
    assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "{progress}");
}
