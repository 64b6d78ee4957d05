//! A follower is told at once.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use crate::env::{Env, HONEST, plan};

#[test]
fn log_follow_wakes_within_fifty_milliseconds_and_burns_nothing() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
    env.provost(&["run"]).exits(4);
    let mut follower = env.start(&["log", "--follow", "--json"]);
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        lines.next().unwrap().unwrap();
    }
    let mut latencies: Vec<Duration> = Vec::new();
    for _ in 0..10 {
        // The asking process appends, then exits; the clock starts when it has ended.
        env.provost(&["ask", "--question", "why?"]).exits(0);
        let ended = Instant::now();
        lines.next().unwrap().unwrap();
        latencies.push(ended.elapsed());
    }
    latencies.sort();
    let ticks = cpu_ticks(follower.id());
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert!(latencies[5] <= Duration::from_millis(50), "{latencies:?}");
    assert!(ticks < 50, "the follower used {ticks} ticks of CPU while it waited");
}

/// User and system time of a process, in clock ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    after_name.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn the_log_is_queried_by_step_event_and_time() {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "escalate")).agent(HONEST);
    env.approve();
    env.provost(&["run"]).exits(0);
    let count = |arguments: &[&str]| env.provost(arguments).exits(0).lines().len();
    let all = env.events().len();
    assert_eq!(count(&["log", "--json", "--task", "2", "--event", "task_completed"]), 1);
    assert_eq!(count(&["log", "--json", "--event", "TASK_STARTED,TASK_COMPLETED"]), 4);
    assert_eq!(count(&["log", "--json", "--since", "1h"]), all);
    assert_eq!(count(&["log", "--json", "--since", "2999-01-01"]), 0);
    assert_eq!(count(&["log", "--json", "-n", "2"]), 2);
    env.provost(&["log", "--since", "yesterday"]).exits(2);
}
