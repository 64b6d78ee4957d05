//! The red team: every script in `redteam/attacks` is an agent that tries to get a false ✅, or worse.
//!
//! Each attack gets a fresh project and a real run of the binary; the test decides from outside whether
//! it succeeded. `docs/cheats.md` has the known results; a cell that becomes worse fails the test. A normal
//! run measures the level that `auto` gives on this machine; `PROVOST_REDTEAM=full` measures all levels,
//! with the slow projects. `PROVOST_REDTEAM_ONLY=word,word` runs the attacks with one of these words in
//! their name, prints everything and compares nothing; `PROVOST_REDTEAM_LEVEL=landlock` does so at one
//! level.
//!
//! **Invariant:** no attack is measured unless the controls hold: an honest agent passes, and an agent
//! that does nothing does not pass.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

mod cell;
mod honest;
mod script;
mod table;

use cell::Seen;
use provost_rehearsal::{failure, skip};
use script::{Attack, Fixture};
use table::{Cell, Key, Table};

/// The levels, weakest first.
const LEVELS: [&str; 4] = ["in-place", "guard+clean", "landlock", "clean"];
/// One more than the cores of a small machine, because a cell waits half of its time for a disk or a
/// timeout.
const AT_ONCE: usize = 3;

fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../redteam")
}

#[test]
fn no_attack_gets_further_than_the_table_says() {
    failure::print_at_once();
    let fixtures = script::fixtures(&home());
    let attacks = script::attacks(&home());
    let full = std::env::var("PROVOST_REDTEAM").is_ok_and(|wanted| wanted == "full");
    let only = std::env::var("PROVOST_REDTEAM_ONLY").ok();
    let levels = levels(&fixtures, full);
    let usable: Vec<&Fixture> = fixtures.values().filter(|fixture| can_be_used(fixture, full)).collect();
    let cells: Vec<(&Attack, &Fixture, &str)> = attacks
        .iter()
        .filter(|attack| is_chosen(&attack.name, only.as_deref()))
        .flat_map(|attack| of_attack(attack, &usable).map(move |fixture| (attack, fixture)))
        .flat_map(|(attack, fixture)| levels.iter().map(move |level| (attack, fixture, level.as_str())))
        .collect();
    controls(&usable, &levels, only.is_some());
    let seen = side_by_side(&cells, |(attack, fixture, level)| cell::attack(attack, fixture, level));
    if only.is_some() {
        for ((attack, fixture, level), seen) in cells.iter().zip(&seen) {
            println!("{} {} {level}: {seen:#?}", attack.name, fixture.name);
        }
    }
    if only.is_some() && std::env::var_os("UPDATE_EXPECT").is_none() {
        return;
    }
    let mut table = Table::read(&attacks);
    for ((attack, fixture, level), seen) in cells.iter().zip(seen) {
        let key = Key { attack: attack.name.clone(), fixture: fixture.name.clone() };
        let said = format!("exit code {:?}: {}", seen.code, seen.words.join("\n---\n"));
        table.measured(key, level, Cell { got: seen.got, by: seen.by, said });
    }
    table.settle(&attacks);
}

/// Returns whether the name contains one of the comma-separated words.
fn is_chosen(name: &str, only: Option<&str>) -> bool {
    only.is_none_or(|words| words.split(',').any(|word| name.contains(word)))
}

/// Returns the levels to measure, as far as this machine has them.
fn levels(fixtures: &BTreeMap<String, Fixture>, full: bool) -> Vec<String> {
    let simplest = &fixtures["sh"];
    let auto = cell::honest(simplest, "auto").level.expect("no level at all");
    if !full {
        println!("level {auto}, which is what `auto` gives here");
        return vec![auto];
    }
    let is_there = |level: &&str| {
        let refused = cell::honest(simplest, level).code == Some(5);
        if refused {
            skip::tool(level, "its column in docs/cheats.md stays as it is");
        }
        !refused
    };
    let wanted = std::env::var("PROVOST_REDTEAM_LEVEL").ok();
    let is_wanted = |level: &&str| wanted.as_ref().is_none_or(|wanted| wanted == level);
    LEVELS.into_iter().filter(is_wanted).filter(is_there).map(str::to_owned).collect()
}

fn can_be_used(fixture: &Fixture, full: bool) -> bool {
    if fixture.slow && !full {
        skip::full(&format!("the red team's project {}", fixture.name));
        return false;
    }
    if let Some(needs) = fixture.needs.as_ref().filter(|needs| !cell::succeeds(needs)) {
        skip::tool(needs, &format!("the red team's project {} runs it", fixture.name));
        return false;
    }
    true
}

fn of_attack<'a>(attack: &'a Attack, usable: &'a [&'a Fixture]) -> impl Iterator<Item = &'a Fixture> {
    let is_there = attack.needs.as_ref().is_none_or(|needs| cell::succeeds(needs));
    if !is_there {
        let needs = attack.needs.as_deref().unwrap_or_default();
        skip::tool(needs, &format!("the attack {} runs it", attack.name));
    }
    let named = attack.fixtures.iter().filter(move |_| is_there);
    named.filter_map(|name| usable.iter().find(|fixture| fixture.name == *name).copied())
}

/// Checks that an honest agent passes and an idle one does not, everywhere; otherwise the results mean
/// nothing.
fn controls(fixtures: &[&Fixture], levels: &[String], quick: bool) {
    if quick {
        return;
    }
    let each: Vec<(&Fixture, &str, bool)> = fixtures
        .iter()
        .flat_map(|fixture| levels.iter().map(move |level| (*fixture, level.as_str())))
        .flat_map(|(fixture, level)| [(fixture, level, true), (fixture, level, false)])
        .collect();
    let seen =
        side_by_side(
            &each,
            |(fixture, level, honest)| {
                if *honest { cell::honest(fixture, level) } else { cell::idle(fixture, level) }
            },
        );
    let mut off = Vec::new();
    for ((fixture, level, honest), seen) in each.iter().zip(&seen) {
        if seen.done != *honest {
            let who = if *honest { "an honest agent does not pass" } else { "an idle agent passes" };
            off.push(format!("{who}: {} at {level}\n{seen:#?}", fixture.name));
        }
    }
    assert!(off.is_empty(), "the controls are off, so the table is void:\n{}", off.join("\n"));
}

/// Runs all of them, a few at a time; returns the results in order.
fn side_by_side<T: Sync>(all: &[T], one: impl Fn(&T) -> Seen + Sync) -> Vec<Seen> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(each) = all.get(index) else { return };
                    let seen = one(each);
                    done.lock().expect("nobody panics here").insert(index, seen);
                }
            });
        }
    });
    done.into_inner().expect("nobody panics here").into_values().collect()
}
