//! Tests of the host crate; every test here starts real processes.

mod acp;
mod agents;
mod apart;
mod clients;
mod bounds;
mod children;
mod confined;
mod controls;
mod escapes;
mod meter;
mod provision;
mod proxy;
mod reach;
mod remote;
mod remote_access;
mod sandbox;
mod single_tests;
mod teeth;
mod tree;
mod travel;
mod tree_hostile;
mod union;
mod verdicts;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Returns a tag that no other test uses.
fn tag() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test/{}/{}.", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns whether the process lives; a zombie does not.
fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}
