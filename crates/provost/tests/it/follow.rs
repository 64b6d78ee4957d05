//! Tests that a follower waits for the log instead of polling it.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use crate::env::{Env, HONEST, plan};

#[test]
fn log_follow_is_woken_by_each_event_and_burns_nothing() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
    env.provost(&["run"]).exits(4);
    let mut follower = env.start(&["log", "--follow", "--json"]);
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        lines.next().unwrap().unwrap();
    }
    let mut fastest = Duration::MAX;
    for _ in 0..10 {
        // The command appends an event and exits; the time is measured from its end.
        env.provost(&["ask", "--question", "why?"]).exits(0);
        let ended = Instant::now();
        lines.next().unwrap().unwrap();
        fastest = fastest.min(ended.elapsed());
    }
    // On an idle machine it takes a millisecond; on a busy one each process waits for the CPU.
    println!("the fastest of ten was told after {fastest:?}");
    let (ticks, begun, before) = (cpu_ticks(follower.id()), Instant::now(), wake_ups(follower.id()));
    std::thread::sleep(Duration::from_secs(3));
    let woken = wake_ups(follower.id()) - before;
    let halves = begun.elapsed().as_secs() * 2 + 2;
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert!(ticks < 50, "the follower used {ticks} ticks of CPU while it waited");
    // `log --follow` checks for an interrupt twice a second. A faster answer comes from an event.
    assert!(woken <= halves * 3, "woken {woken} times in {:?} while nothing happened", begun.elapsed());
}

/// Returns how often a process has slept and was woken.
fn wake_ups(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// Returns the user and system time of a process, in clock ticks.
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
