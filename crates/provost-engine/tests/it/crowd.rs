//! Simulates 1,000 workers and many plans on one log, from a seed. Queues deliver twice, late and in any
//! order. Workers die before and after they write, lose their connection and come back with old leases;
//! their clocks are wrong. Only the database is a model; the engine decides, announces, works and writes.
//!
//! `PROVOST_SIM_SEED=17` runs one seed, `PROVOST_CROWD_SEEDS=1000` runs more of them.

#[path = "crowd/acts.rs"]
mod acts;
#[path = "crowd/database.rs"]
mod database;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard};

use provost_core::model::chain::{Auditor, Head, PlanId};
use provost_core::model::event::Event;
use provost_core::rules::foreign_events;
use provost_core::rules::recover::recipe::Recipes;
use provost_core::state::run::{Run, Stage, StepState};
use provost_store::{Fence, Log as _, Memory, Query};

use self::acts::{Act, Doing};
use self::database::{Database, Name, Plan, Row, TTL, Work};
use super::{Dice, SimWorld, Truth, answer_to, approved, attested, check, expect_deaths, plan_text, say};

const WORKERS: u64 = 1000;
const PLANS: u64 = 60;
const HANDS: usize = 2;
/// Number of items of a plan that may be in hand.
const JOBS: usize = 4;
/// Time in which faults are injected, in milliseconds.
const UNREST: u64 = 600_000;
/// Longest time without progress of a plan that could continue: it covers leases, wrong clocks and pauses.
const PATIENCE: u64 = 3_600_000;
/// Maximum number of scheduling passes per event of a plan.
const LOOKS: u64 = 5;
const SKEW: u64 = 300_000;

/// A slot for a worker: when the worker dies, a new one takes the slot.
struct Desk {
    name: Name,
    ahead: i64,
    away_until: u64,
    acts: usize,
}

/// A plan: the state of its log, its workspace, and the invariants to check.
struct Site {
    world: SimWorld,
    run: Run,
    head: Head,
    auditor: Auditor,
    started: BTreeSet<(u32, u32)>,
    moved: u64,
    looks: u64,
    is_asked: bool,
}

#[derive(Clone, Copy)]
enum Next {
    Poll,
    Sweep,
    Fault,
    Renew(u64),
    Act(u64),
    Answer(usize),
}

/// Counts what happened, to make sure that the simulation had faults at all.
#[derive(Debug, Default)]
struct Tally {
    done: usize,
    failed: usize,
    deaths: usize,
    cut_off: usize,
    twice: usize,
    refused: usize,
    swept: usize,
    conflicts: usize,
    /// Attempts that were given to agents while another one of the plan worked.
    beside: usize,
    looks: u64,
    events: u64,
}

struct Crowd {
    seed: u64,
    dice: Dice,
    database: Mutex<Database>,
    desks: Vec<Desk>,
    sites: Vec<Site>,
    acts: BTreeMap<u64, Act>,
    agenda: BTreeMap<(u64, u64), Next>,
    numbers: u64,
    given: BTreeSet<(usize, u32, u32)>,
    tally: Tally,
}

fn workspace(seed: u64) -> SimWorld {
    SimWorld {
        has_trees: false,
        deadly: false,
        steady: false,
        recipes: Recipes::default(),
        truth: Mutex::default(),
        dice: Mutex::new(Dice(seed)),
        law_edit: Mutex::new(false),
    }
}

impl Crowd {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed ^ 0xc0_ffee);
        let now = 1 << 40;
        let mut database = Database::default();
        database.now = now;
        let mut sites = Vec::new();
        for number in 0..PLANS {
            let (id, log) = (PlanId(format!("crowd-{seed}-{number}")), Memory::default());
            let fallback = dice.chance(30).then_some("other");
            approved(&log, &id, &plan_text(&mut dice, false), fallback);
            let has_trees = dice.chance(60);
            if has_trees {
                attested(&log, &id);
            }
            database.plans.push(Plan { id, log, offered: BTreeMap::new(), has_trees });
            database.wake(sites.len(), now + dice.below(60_000));
            sites.push(Site {
                world: workspace(dice.roll()),
                run: Run::default(),
                head: Head::START,
                auditor: Auditor::default(),
                started: BTreeSet::new(),
                moved: now,
                looks: 0,
                is_asked: false,
            });
        }
        let mut crowd = Self {
            seed,
            dice,
            database: Mutex::new(database),
            desks: Vec::new(),
            sites,
            acts: BTreeMap::new(),
            agenda: BTreeMap::new(),
            numbers: WORKERS,
            given: BTreeSet::new(),
            tally: Tally::default(),
        };
        crowd.desks = (0..WORKERS).map(|name| crowd.joins(name)).collect();
        (0..crowd.sites.len()).for_each(|plan| crowd.hear(plan));
        [Next::Poll, Next::Sweep, Next::Fault].into_iter().for_each(|next| crowd.soon(next, 1));
        crowd
    }

    fn joins(&mut self, name: Name) -> Desk {
        let now = self.db().now;
        self.db().seen.insert(name, now);
        let ahead = if self.dice.chance(30) {
            self.dice.below(2 * SKEW).cast_signed() - SKEW.cast_signed()
        } else {
            0
        };
        Desk { name, ahead, away_until: 0, acts: 0 }
    }

    fn db(&self) -> MutexGuard<'_, Database> {
        self.database.lock().unwrap()
    }

    fn soon(&mut self, next: Next, delay: u64) {
        self.numbers += 1;
        let at = self.db().now + delay;
        self.agenda.insert((at, self.numbers), next);
    }

    /// Returns a pause: usually short, sometimes much longer than a lease.
    fn pause(&mut self) -> u64 {
        match self.dice.below(100) {
            0..80 => 1 + self.dice.below(50),
            80..97 => self.dice.below(3_000),
            _ => self.dice.below(3 * TTL),
        }
    }

    fn run(mut self) -> Tally {
        while let Some(((at, _), next)) = self.agenda.pop_first() {
            self.db().now = at;
            match next {
                Next::Poll => self.poll(),
                Next::Sweep => self.sweep(),
                Next::Fault => self.fault(),
                Next::Renew(act) => self.renew(act),
                Next::Act(act) => self.act(act),
                Next::Answer(plan) => self.answer(plan),
            }
            if self.sites.iter().all(Site::is_over) && self.acts.is_empty() {
                return self.end();
            }
        }
        unreachable!("somebody always asks the queue again")
    }

    /// Delivers rows that are due, in any order and some of them twice.
    fn poll(&mut self) {
        let now = self.db().now;
        let is_due = |row: &Row| row.claimed.is_none() && row.not_before <= now;
        let due: Vec<u64> =
            self.db().rows.iter().filter(|(_, row)| is_due(row)).map(|(number, _)| *number).collect();
        for number in due {
            let row = self.db().rows[&number].clone();
            let is_looked_at =
                |other: &Row| other.claimed.is_some() && other.work == Work::Look && other.plan == row.plan;
            // One scheduling pass per plan at a time, unless the worker that does it is taken for dead.
            let is_late = row.work == Work::Look && self.db().rows.values().any(is_looked_at);
            if self.dice.chance(20) || is_late && !self.dice.chance(2) {
                continue;
            }
            let Some(desk) = self.free_desk() else { continue };
            let name = self.desks[desk].name;
            self.db().rows.get_mut(&number).expect("a row").claimed = Some(name);
            self.begin(desk, number, &row);
            if self.dice.chance(5)
                && let Some(another) = self.free_desk()
            {
                self.tally.twice += 1;
                self.begin(another, number, &row);
            }
            if self.dice.chance(2) && self.is_restless() {
                self.kill(desk);
            }
        }
        let delay = 20 + self.dice.below(80);
        self.soon(Next::Poll, delay);
    }

    fn free_desk(&mut self) -> Option<usize> {
        let desk = self.dice.below(WORKERS) as usize;
        let now = self.db().now;
        let found = &self.desks[desk];
        (found.away_until <= now && found.acts < HANDS).then_some(desk)
    }

    fn begin(&mut self, desk: usize, row: u64, work: &Row) {
        let stage = match work.work {
            Work::Look => Doing::Looks { tries: 0 },
            Work::Item(item) => Doing::Has(item),
        };
        self.desks[desk].acts += 1;
        self.then(Act { desk, worker: self.desks[desk].name, row, plan: work.plan, stage });
    }

    fn then(&mut self, act: Act) {
        let pause = self.pause();
        self.after(act, pause);
    }

    fn after(&mut self, act: Act, delay: u64) {
        self.numbers += 1;
        let number = self.numbers;
        self.acts.insert(number, act);
        self.soon(Next::Act(number), delay);
    }

    fn is_restless(&self) -> bool {
        self.db().now < (1 << 40) + UNREST
    }

    fn sweep(&mut self) {
        let now = self.db().now;
        for desk in &self.desks {
            if desk.away_until <= now {
                self.db().seen.insert(desk.name, now);
            }
        }
        let lost = self.db().sweep();
        self.tally.swept += lost;
        for (plan, site) in self.sites.iter().enumerate() {
            let waits = now - site.moved;
            assert!(
                site.is_over() || site.is_asked || waits < PATIENCE,
                "plan {plan} starves for {waits} ms: {:?}, {:?}",
                self.db().plans[plan].offered,
                site.run.steps().map(|(_, step)| &step.state).collect::<Vec<_>>()
            );
        }
        self.soon(Next::Sweep, TTL / 5);
    }

    /// Injects a fault, mostly into a busy worker.
    fn fault(&mut self) {
        if !self.is_restless() {
            return;
        }
        let busy: Vec<usize> = self.acts.values().map(|act| act.desk).collect();
        let desk = match busy.len() as u64 {
            many @ 1.. if self.dice.chance(70) => busy[self.dice.below(many) as usize],
            _ => self.dice.below(WORKERS) as usize,
        };
        let now = self.db().now;
        match self.dice.below(4) {
            0 => self.kill(desk),
            1 => self.desks[desk].away_until = now + self.dice.below(TTL / 2),
            _ => self.desks[desk].away_until = now + TTL / 2 + self.dice.below(3 * TTL),
        }
        self.tally.cut_off += usize::from(self.desks[desk].away_until > now);
        let delay = self.dice.below(3_000);
        self.soon(Next::Fault, delay);
    }

    /// Kills a worker. Its next act finds that the worker is gone.
    fn kill(&mut self, desk: usize) {
        self.tally.deaths += 1;
        self.numbers += 1;
        self.desks[desk] = self.joins(self.numbers);
    }

    fn renew(&mut self, number: u64) {
        let Some(act) = self.acts.get(&number) else { return };
        let fences: Vec<Fence> = match &act.stage {
            Doing::Decides { fence, .. } => vec![fence.clone()],
            Doing::Works { fence, apart, .. } => {
                std::iter::once(fence).chain(apart.iter().map(|apart| &apart.own)).cloned().collect()
            }
            Doing::Apart { apart, .. } => vec![apart.own.clone()],
            Doing::Looks { .. } | Doing::Has(_) => return,
        };
        let desk = &self.desks[act.desk];
        let is_there = desk.name == act.worker;
        let reaches = desk.away_until <= self.db().now;
        let is_held = |fence: &Fence| self.db().renew(fence);
        if is_there && (!reaches || fences.iter().filter(|fence| is_held(fence)).count() == fences.len()) {
            self.soon(Next::Renew(number), TTL / 3);
        }
    }

    fn act(&mut self, number: u64) {
        let act = self.acts.remove(&number).expect("an act");
        if self.desks[act.desk].name != act.worker {
            return self.left_by_the_dead(&act);
        }
        let now = self.db().now;
        let away = self.desks[act.desk].away_until.saturating_sub(now);
        if away > 0 {
            let is_item = matches!(act.stage, Doing::Has(_) | Doing::Works { .. } | Doing::Apart { .. });
            // A worker gives up after it has waited for the log; a stopped one does not notice.
            if is_item && away > TTL && self.dice.chance(30) {
                self.left_by_the_dead(&act);
                return self.finish(&act);
            }
            let delay = away + self.dice.below(500);
            return self.after(act, delay);
        }
        let plan = act.plan;
        match act.stage {
            Doing::Looks { .. } => self.look(act),
            Doing::Decides { .. } => self.decide(act),
            Doing::Has(_) => self.take(act),
            Doing::Works { .. } => self.report(act),
            Doing::Apart { .. } => self.come_back(act),
        }
        self.hear(plan);
    }

    /// Reads the new events of a plan and checks the invariants.
    fn hear(&mut self, plan: usize) {
        let (id, log, now) = {
            let database = self.db();
            (database.plans[plan].id.clone(), database.plans[plan].log.clone(), database.now)
        };
        let site = &mut self.sites[plan];
        let query = Query { after_seq: Some(site.head.seq), ..Query::plan(&id) };
        log.read(&query, &mut |sealed| {
            let was_over = site.is_over();
            site.auditor.next(&sealed).unwrap_or_else(|found| panic!("{id}: {found}"));
            let event = sealed.event().unwrap();
            if let Event::StepStarted { step, attempt, .. } = &event {
                assert!(site.started.insert((step.0, *attempt)), "{id}: attempt {attempt} begun twice");
            }
            site.run.apply_at(&event, sealed.at);
            // Work that ran when a person ended the plan still reports, but the plan stays ended.
            assert!(!was_over || site.is_over(), "{id}: goes on by {} after the end", sealed.name);
            assert!(!was_over || !matches!(event, Event::StepStarted { .. }), "{id}: begun after the end");
            site.head = Head { seq: sealed.seq, hash: sealed.hash };
            site.moved = now;
            ControlFlow::Continue(())
        })
        .unwrap();
        if site.waits() && !site.is_over() && !std::mem::replace(&mut site.is_asked, true) {
            let most = if self.dice.chance(50) { 500 } else { 120_000 };
            let delay = self.dice.below(most);
            self.soon(Next::Answer(plan), delay);
        }
    }

    /// Answers as the person, whatever runs at the moment. The answer may be refused while an agent works.
    fn answer(&mut self, plan: usize) {
        let site = &mut self.sites[plan];
        site.is_asked = false;
        if site.waits() && !site.is_over() {
            let (id, log) = {
                let database = self.database.lock().unwrap();
                (database.plans[plan].id.clone(), database.plans[plan].log.clone())
            };
            let answer = answer_to(&site.run, &mut self.dice, self.seed);
            say(&log, &id, |run| foreign_events::human(run, answer.clone()).unwrap_or_default());
            self.db().wake(plan, 0);
        }
        self.hear(plan);
    }

    fn end(mut self) -> Tally {
        let database = self.database.into_inner().unwrap();
        for (plan, site) in database.plans.iter().zip(&self.sites) {
            let truth: &Truth = &site.world.truth();
            let run = check(&plan.log, &plan.id, truth, self.seed, false, JOBS);
            assert!(run.stage == site.run.stage && run.seq == site.head.seq);
            let allowed = LOOKS * (site.head.seq + 10);
            assert!(site.looks < allowed, "{}: {} looks, {} events", plan.id, site.looks, site.head.seq);
            self.tally.done += usize::from(run.stage == Stage::Done);
            self.tally.failed += usize::from(run.stage == Stage::Failed);
            self.tally.looks += site.looks;
            self.tally.events += run.seq;
        }
        self.tally
    }
}

impl Site {
    fn is_over(&self) -> bool {
        matches!(self.run.stage, Stage::Done | Stage::Failed)
    }

    /// Returns whether the plan waits for a person.
    fn waits(&self) -> bool {
        self.run.steps().any(|(_, step)| matches!(step.state, StepState::Blocked { .. }))
    }
}

fn lives_through(seed: u64) -> Tally {
    let lived = catch_unwind(|| Crowd::new(seed).run());
    lived.unwrap_or_else(|panic| {
        eprintln!("the crowd of seed {seed} came to grief: PROVOST_SIM_SEED={seed} does it again");
        resume_unwind(panic)
    })
}

#[test]
fn a_thousand_workers_carry_every_plan_to_its_end_and_nothing_twice() {
    expect_deaths();
    if let Ok(seed) = std::env::var("PROVOST_SIM_SEED") {
        println!("{:?}", lives_through(seed.parse().expect("a number")));
        return;
    }
    let seeds: u64 = std::env::var("PROVOST_CROWD_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let mut all = Tally::default();
    for seed in 0..seeds {
        let tally = lives_through(seed);
        assert_eq!(tally.done + tally.failed, PLANS as usize);
        all.done += tally.done;
        all.failed += tally.failed;
        all.deaths += tally.deaths;
        all.cut_off += tally.cut_off;
        all.twice += tally.twice;
        all.refused += tally.refused;
        all.swept += tally.swept;
        all.conflicts += tally.conflicts;
        all.beside += tally.beside;
        all.looks += tally.looks;
        all.events += tally.events;
    }
    println!("{seeds} seeds: {all:?}");
    let often = seeds as usize;
    assert!(all.deaths > 20 * often && all.twice > 20 * often && all.cut_off > 20 * often, "{all:?}");
    assert!(all.beside > 5 * often, "{all:?}");
    assert!(all.refused > often && all.swept > often && all.done > often, "{all:?}");
}
