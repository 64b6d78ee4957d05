//! A seeded simulation. Agents obey, lie, stall, break things and are refused by their model's API; checks
//! fail in every way; the harness dies before or after any append; clocks jump; budgets run out; people
//! answer late or never. The invariants are checked after every event and at every end.
//!
//! `PROVOST_SIM_SEED=17` runs one seed, `PROVOST_SIM_SEEDS=100000` runs more of them.

/// Forwards the other methods of a log that wraps another log.
macro_rules! handed_on_to {
    ($log:tt) => {
        fn head(&self, plan: &PlanId) -> Result<Head, Error> {
            self.$log.head(plan)
        }

        fn read_placed(
            &self,
            query: &Query,
            each: &mut dyn FnMut(Cursor, SealedEvent) -> ControlFlow<()>,
        ) -> Result<(), Error> {
            self.$log.read_placed(query, each)
        }

        fn wait(&self, after: Cursor, timeout: Duration) -> Result<Cursor, Error> {
            self.$log.wait(after, timeout)
        }

        fn cursor(&self) -> Result<Cursor, Error> {
            self.$log.cursor()
        }

        fn unarchived_plans(&self) -> Result<Vec<PlanId>, Error> {
            self.$log.unarchived_plans()
        }

        fn take_wakes(&self) -> Result<Vec<PlanId>, Error> {
            self.$log.take_wakes()
        }

        fn holder(&self, name: &str) -> Result<Option<Holder>, Error> {
            self.$log.holder(name)
        }
    };
}

#[path = "crowd.rs"]
mod crowd;
#[path = "cut.rs"]
mod cut;

use provost_engine::journal;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use provost_core::model::approved_spec::Binding;
use provost_core::model::chain::{Auditor, Head, PlanId, SealedEvent};
use provost_core::model::escalation::EscalationCause;
use provost_core::model::event::{
    AttemptEnd, BudgetScope, CheckSubject, Choice, EndedAttempt, Event, StartTree,
};
use provost_core::model::plan::StepNumber;
use provost_core::model::run_policy::RunPolicy;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::{Amount, Resource, Usage};
use provost_core::model::verdict::{CheckOutcome, Excerpt, Isolation, Tree, Verdict};
use provost_core::rules::command::{AgentCommand, HarnessCommand, HumanCommand};
use provost_core::rules::recover::recipe::Recipes;
use provost_core::rules::schedule::Action;
use provost_core::rules::{budget, decide, inbox};
use provost_core::state::run::{Run, Stage, StepState};
use provost_engine::run_loop::world::{TaskOutcome, World};
use provost_engine::run_loop::{Drive, Rest};
use provost_store::{Append, Cursor, Error, Holder, Lease, Log, LogEntry, Memory, Query};

/// A small generator whose whole state is the seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The real state of the simulated workspace, independent of what agents claim.
#[derive(Default)]
struct Truth {
    done: BTreeSet<u32>,
    /// Steps whose work was done at least once, even if it was undone later.
    ever: BTreeSet<u32>,
    /// Every dispatch that reached an agent, in order.
    dispatched: Vec<(u32, u32)>,
    /// The tree that each step started with. It is on the disk, so it survives the harness.
    bases: BTreeMap<u32, String>,
    clock: u64,
    /// How often the harness had to wait.
    waits: u64,
}

struct SimWorld {
    /// The harness may also die while an agent works.
    deadly: bool,
    /// The clock never jumps, so that times in the log can be checked.
    steady: bool,
    /// The harness has trees of its own, so that a contract can be checked without the work.
    has_trees: bool,
    recipes: Recipes,
    truth: Mutex<Truth>,
    dice: Mutex<Dice>,
    law_edit: Mutex<bool>,
}

impl SimWorld {
    fn with<T>(&self, act: impl FnOnce(&mut Truth, &mut Dice) -> T) -> T {
        act(&mut self.truth(), &mut self.dice.lock().unwrap())
    }

    fn truth(&self) -> std::sync::MutexGuard<'_, Truth> {
        self.truth.lock().unwrap()
    }

    fn verdict(&self, held: bool) -> Verdict {
        let (odd, words) = self.with(|_, dice| (dice.below(20), dice.below(12)));
        // One failure of each class, or no output.
        let stderr = match words {
            _ if held => "",
            0 => "curl: (6) Could not resolve host: registry.example",
            1 => "HTTP/1.1 429 Too Many Requests\nRetry-After: 90",
            2 => "fatal: could not read Username for 'https://host.example'",
            3 => "bash: line 1: frobnicate: command not found",
            4 => "test result: FAILED. 1 passed; 1 failed",
            5 => "test result: FAILED. 3 passed; 2 failed\nanother message",
            6 => "cat: out.txt: No such file or directory",
            7 => "",
            _ => "evidence",
        };
        let outcome = match (held, odd) {
            (true, _) => CheckOutcome::Held,
            (false, 0) => CheckOutcome::TimedOut { after_ms: 60_000 },
            (false, 1) => CheckOutcome::Killed { signal: 9 },
            (false, 2) => CheckOutcome::NotRun { reason: "no bash".to_owned() },
            (false, _) => CheckOutcome::Broke { exit_code: 1 },
        };
        Verdict {
            duration_ms: 3,
            stderr: Excerpt::whole(stderr),
            ..Verdict::bare(Isolation::InPlace, outcome)
        }
    }
}

/// The harness dies here. The test catches this and starts again, as after `kill -9`.
struct Died;

fn die() -> ! {
    std::panic::resume_unwind(Box::new(Died))
}

impl World for SimWorld {
    /// Includes the tree that the check runs on, and whether other steps have passed since the work
    /// started.
    type Order = (Action, u32, String, bool);

    fn now(&self) -> Timestamp {
        // Clocks jump, forwards and backwards.
        self.with(|truth, dice| {
            let jumps = !self.steady && dice.chance(5);
            truth.clock = if jumps { dice.below(1 << 40) } else { truth.clock + dice.below(50) };
            Timestamp(truth.clock)
        })
    }

    /// Does not sleep: moves the clock forward, sometimes not far enough.
    fn wait(&self, until: Timestamp) {
        self.with(|truth, dice| {
            let left = until.0.saturating_sub(truth.clock);
            truth.clock += if dice.chance(30) { left / 2 } else { left };
            truth.waits += 1;
        });
    }

    fn recipes(&self) -> &Recipes {
        &self.recipes
    }

    fn law_changes(&self, _: &Run) -> Option<Vec<String>> {
        let edited = std::mem::take(&mut *self.law_edit.lock().unwrap());
        edited.then(|| vec!["somebody edited the file".to_owned()])
    }

    fn interrupted(&self) -> bool {
        self.with(|_, dice| dice.chance(1))
    }

    fn order(&self, run: &Run, action: Action) -> Self::Order {
        let attempt = match action {
            Action::Dispatch { step } => run.step(step).map_or(0, |step| step.attempts),
            Action::Judge { .. }
            | Action::JudgeLost { .. }
            | Action::TakeUp { .. }
            | Action::Hold { .. }
            | Action::OverBudget { .. }
            | Action::End => 0,
        };
        let now = run.tree.clone().unwrap_or_else(|| "t".to_owned());
        let step = match action {
            Action::Judge { subject: CheckSubject::Contract(step) } | Action::JudgeLost { step, .. } => {
                Some(step)
            }
            _ => None,
        };
        let mut truth = self.truth();
        if let Action::Dispatch { step } = action {
            truth.bases.insert(step.0, now.clone());
        }
        let began_with = step.and_then(|step| truth.bases.get(&step.0));
        let together = began_with.is_some_and(|began_with| *began_with != now);
        (action, attempt, now, together)
    }

    fn start(&self, run: &Run, _: StepNumber) -> Result<Option<StartTree>, String> {
        let tree = run.tree.clone().unwrap_or_else(|| "t".to_owned());
        Ok(self.has_trees.then_some(StartTree { tree, others: Vec::new() }))
    }

    fn perform(&self, (action, attempt, base, together): Self::Order) -> Vec<TaskOutcome> {
        // Two steps may have changed the same file. The id of a tree lists the steps whose work it
        // contains.
        let on_tree = |step: StepNumber, verdict: Verdict| {
            if verdict.held() && together && self.with(|_, dice| dice.chance(20)) {
                let files = vec!["shared".to_owned()];
                return Verdict { outcome: CheckOutcome::Conflict { files }, ..verdict };
            }
            let tree = Tree { id: format!("{base}+{step}"), base: base.clone(), ..Tree::default() };
            Verdict { tree: verdict.held().then(|| Box::new(tree)), ..verdict }
        };
        match action {
            Action::Dispatch { step } => self.agent(step, attempt),
            Action::Judge { subject } => {
                let held = match subject {
                    CheckSubject::Contract(step) | CheckSubject::Final(step) => {
                        self.truth().done.contains(&step.0)
                    }
                    CheckSubject::Control(_) => false,
                    CheckSubject::Precondition(_) => !self.with(|_, dice| dice.chance(10)),
                    CheckSubject::Postcondition(_) => true,
                };
                let verdict = match subject {
                    CheckSubject::Contract(step) => on_tree(step, self.verdict(held)),
                    _ => self.verdict(held),
                };
                vec![TaskOutcome::Harness(HarnessCommand::Judged { subject, verdict })]
            }
            Action::JudgeLost { step, .. } => {
                let held = self.truth().done.contains(&step.0);
                let verdict = on_tree(step, self.verdict(held));
                vec![TaskOutcome::Harness(HarnessCommand::JudgedLost { step, verdict, max_losses: 3 })]
            }
            Action::TakeUp { .. } | Action::Hold { .. } | Action::OverBudget { .. } | Action::End => {
                Vec::new()
            }
        }
    }
}

impl SimWorld {
    /// Plays an agent: it obeys, lies, stalls, breaks another step's work, crashes, or claims for others.
    fn agent(&self, step: StepNumber, attempt: u32) -> Vec<TaskOutcome> {
        let (mood, end, report, dies) = self.with(|truth, dice| {
            truth.dispatched.push((step.0, attempt));
            let mood = dice.below(10);
            if mood <= 5 {
                truth.done.insert(step.0);
                truth.ever.insert(step.0);
                // Sometimes it also breaks the work of the step before.
                if mood == 4 && dice.chance(40) {
                    truth.done.remove(&(step.0 - 1));
                }
            }
            let end = match dice.below(8) {
                0 => AttemptEnd::TimedOut,
                1 => AttemptEnd::Signalled { signal: 11 },
                2 => AttemptEnd::Exited { exit_code: 1 },
                3 if mood > 6 => AttemptEnd::NotStarted { reason: "no such program".to_owned() },
                _ => AttemptEnd::Exited { exit_code: 0 },
            };
            // The error of the model's API, if the attempt ended badly.
            let report = match dice.below(6) {
                _ if end == (AttemptEnd::Exited { exit_code: 0 }) => "",
                0 => "API Error: 429 rate_limit_error; please try again in 20s",
                1 => "Error: your credit balance is too low",
                2 => "Error: MODEL_API_KEY is not set",
                _ => "",
            };
            (mood, end, report.to_owned(), matches!(mood, 5 | 6) && dice.chance(30))
        });
        // The harness dies while the agent ends; the work may be done or not.
        if dies && self.deadly {
            die();
        }
        let notes = Vec::new();
        let ended = HarnessCommand::AttemptEnded(EndedAttempt {
            duration_ms: 9,
            report,
            notes,
            usage: self.with(|_, dice| used(dice)),
            ..EndedAttempt::new(step, attempt, end)
        });
        let claim =
            |step| TaskOutcome::Agent(AgentCommand::Claim { step, evidence: "all tests pass".to_owned() });
        match mood {
            // Claims another step and the end of the plan: both are refused or ignored.
            7 => vec![
                TaskOutcome::Harness(ended),
                claim(StepNumber(step.0 + 1)),
                TaskOutcome::Agent(AgentCommand::Finish),
            ],
            8 => vec![claim(step), TaskOutcome::Harness(ended)],
            _ => vec![TaskOutcome::Harness(ended), claim(step)],
        }
    }
}

/// Returns the reported usage: all, a part, or nothing.
fn used(dice: &mut Dice) -> Usage {
    let tokens = dice.below(40_000);
    Usage {
        input_tokens: dice.chance(70).then_some(tokens),
        output_tokens: Some(dice.below(1_000)),
        micro_usd: dice.chance(50).then_some(tokens * 3),
        ..Usage::default()
    }
}

/// A log that kills the harness before or after an append.
struct Mortal<'a> {
    log: &'a Memory,
    fate: Mutex<Fate>,
}

enum Fate {
    /// Dies at random.
    Chance { dice: Dice, percent: u64 },
    /// Dies at exactly this append; counts down.
    At { left: u32, after: bool },
}

impl Fate {
    /// Returns whether the harness dies before this append, and whether after it.
    fn strikes(&mut self) -> (bool, bool) {
        match self {
            Fate::Chance { dice, percent } => (dice.chance(*percent), dice.chance(*percent)),
            Fate::At { left, after } => {
                let now = *left == 0;
                *left = left.wrapping_sub(1);
                (now && !*after, now && *after)
            }
        }
    }
}

impl Log for Mortal<'_> {
    fn append(&self, append: Append<'_>) -> Result<Vec<SealedEvent>, Error> {
        let (before, after) = self.fate.lock().unwrap().strikes();
        if before {
            die();
        }
        let sealed = self.log.append(append)?;
        if after {
            die();
        }
        Ok(sealed)
    }

    handed_on_to!(log);

    fn lease(&self, name: &str, holder: &Holder) -> Result<Lease, Error> {
        self.log.lease(name, holder)
    }
}

/// Makes a random plan: chains, independent steps, preconditions, every kind of `on_fail`.
fn plan_text(dice: &mut Dice, steady: bool) -> String {
    let steps = 1 + dice.below(6);
    let mut text = String::from("---\ntype: plan\nstatus: draft\nowner: sim\n---\n# Simulated\n\n");
    match dice.below(5) {
        0 => text.push_str(&format!("**Budget:** {} tokens\n", 5_000 + dice.below(150_000))),
        1 => text.push_str("**Budget:** 100k tokens, $0.20\n"),
        // A time limit makes no sense if the clock jumps.
        2 if steady => text.push_str("**Budget:** 2 minutes\n"),
        _ => {}
    }
    text.push_str("\n## Steps\n");
    for number in 1..=steps {
        text.push_str(&format!("\n### {number}. Step {number}\n**target:** agent\n"));
        match dice.below(4) {
            0 => text.push_str("**needs:** none\n"),
            1 if number > 1 => text.push_str(&format!("**needs:** {}\n", 1 + dice.below(number - 1))),
            _ => {}
        }
        // Most steps declare their own path; some share one, and some declare none.
        match dice.below(5) {
            0 => {}
            1 => text.push_str("**touches:** shared\n"),
            _ => text.push_str(&format!("**touches:** out/{number}\n")),
        }
        if dice.chance(15) {
            text.push_str("**budget:** 30k tokens\n");
        }
        if dice.chance(15) {
            text.push_str("**precondition:**\n```shell\ntest -d src\n```\n");
        }
        text.push_str(&format!("**task:**\nDo {number}.\n**contract:**\n```shell\ntest -f {number}\n```\n"));
        text.push_str(match dice.below(5) {
            0 => "**on_fail:** escalate\n",
            1 => "**on_fail:** retry(1), then abort\n",
            2 => "**on_fail:** retry(3), then skip\n",
            _ => "**on_fail:** retry(2), then escalate\n",
        });
    }
    if dice.chance(50) {
        text.push_str("\n## Postconditions\n1. It works\n   ```shell\n   make test\n   ```\n");
    }
    text
}

fn say(log: &Memory, plan: &PlanId, decision: impl Fn(&Run) -> Vec<Event>) {
    let run = journal::read(log, plan).unwrap();
    let events = decision(&run);
    let entries: Vec<LogEntry<'_>> = events.iter().map(|event| LogEntry { event, task_name: None }).collect();
    if !entries.is_empty() {
        let append = Append {
            plan,
            expected_seq: run.seq,
            at: Timestamp(0),
            fence: None,
            events: &entries,
            effects: &[],
        };
        log.append(append).unwrap();
    }
}

fn harness(log: &Memory, plan: &PlanId, command: impl Fn(&Run) -> HarnessCommand) {
    say(log, plan, |run| decide::harness(run, command(run)).unwrap_or_default());
}

fn human(log: &Memory, plan: &PlanId, command: impl Fn(&Run) -> HumanCommand) {
    say(log, plan, |run| decide::human(run, command(run)).unwrap_or_default());
}

/// Checks all invariants of a log.
fn check(log: &Memory, plan: &PlanId, truth: &Truth, seed: u64, steady: bool, jobs: usize) -> Run {
    let mut auditor = Auditor::default();
    let mut run = Run::default();
    let mut passed = BTreeSet::new();
    let mut held: BTreeMap<u32, bool> = BTreeMap::new();
    let mut bases: BTreeMap<u32, Option<String>> = BTreeMap::new();
    let mut started = BTreeSet::new();
    let mut ends = 0;
    let mut recovery = Recovery { steady, ..Recovery::default() };
    log.read(&Query::plan(plan), &mut |sealed| {
        auditor.next(&sealed).unwrap_or_else(|found| panic!("seed {seed}: {found}"));
        let event = sealed.event().unwrap();
        recovery.hear(&sealed, &event, seed);
        match &event {
            Event::Judged { subject: CheckSubject::Contract(step), verdict, .. } => {
                held.insert(step.0, verdict.held());
                bases.insert(step.0, verdict.base_id().map(str::to_owned));
            }
            Event::Judged { subject: CheckSubject::Final(step), verdict, .. } => {
                assert!(passed.contains(&step.0), "seed {seed}: looked at last without having passed");
                if !verdict.held() {
                    passed.remove(&step.0);
                }
            }
            Event::StepStarted { step, attempt, .. } => {
                assert!(!passed.contains(&step.0), "seed {seed}: a passed step was started again");
                assert!(
                    matches!(run.stage, Stage::Approved | Stage::InProgress),
                    "seed {seed}: started unapproved"
                );
                assert!(started.insert((step.0, *attempt)), "seed {seed}: attempt {attempt} announced twice");
                held.remove(&step.0);
                let mut beside = run.under_way().filter(|other| !run.is_being_confirmed(*other));
                let met = beside.find(|other| jobs > 1 && run.overlap(*step, *other).is_some());
                assert_eq!(met, None, "seed {seed}: begun beside one that may change the same");
                let waits = run.is_ready(*step);
                assert!(waits, "seed {seed}: step {step} was begun before what it needs");
            }
            Event::StepPassed { step, .. } => {
                assert_eq!(held.get(&step.0), Some(&true), "seed {seed}: passed without a verdict");
                assert!(truth.ever.contains(&step.0), "seed {seed}: passed without the work being done");
                assert!(passed.insert(step.0), "seed {seed}: passed twice");
                // A step passes only on the tree that contains everything that passed before.
                let base = bases.get(&step.0).cloned().flatten();
                let together = run.tree.is_none() || base == run.tree;
                assert!(together, "seed {seed}: passed on {base:?} instead of {:?}", run.tree);
                let is_controlled = run.step(*step).is_some_and(|step| step.held_before.is_some());
                assert!(
                    is_controlled || !run.has_clean_tree(),
                    "seed {seed}: never checked without the work"
                );
            }
            Event::RunEnded { .. } => ends += 1,
            _ => {}
        }
        run.apply_at(&event, sealed.at);
        let left = run.steps().map(|(step, _)| run.attempts_left_at(step.number)).sum::<u64>();
        assert_eq!(run.attempts_left(), left, "seed {seed}: attempts that may still be made");
        money(&run, &event, seed);
        ControlFlow::Continue(())
    })
    .unwrap();
    let mut seen = BTreeSet::new();
    for dispatch in &truth.dispatched {
        assert!(started.contains(dispatch), "seed {seed}: {dispatch:?} dispatched before it was durable");
        assert!(seen.insert(*dispatch), "seed {seed}: {dispatch:?} dispatched twice");
    }
    if run.stage == Stage::Done {
        assert!(run.all_settled() && ends >= 1, "seed {seed}: done with open steps");
        let undone = passed.iter().find(|step| !truth.done.contains(step));
        assert_eq!(undone, None, "seed {seed}: done, and the work of a step is not");
    }
    run
}

/// Checks that no attempt starts that does not fit its budget, also in parallel and after crashes.
fn money(run: &Run, event: &Event, seed: u64) {
    let Event::StepStarted { step, reserved, .. } = event else { return };
    let (plan, own) = (budget::of_plan(run), budget::of_step(run, *step));
    for resource in [Resource::Tokens, Resource::Usd] {
        let limited = plan.of(resource).or(own.of(resource)).is_some();
        assert_eq!(limited, reserved.of(resource).is_some(), "seed {seed}: {resource:?} held");
        let whole = run.ledger.committed(resource, Timestamp(0));
        assert!(plan.of(resource).is_none_or(|limit| whole <= limit), "seed {seed}: begun with {whole}");
        let by_step = run.ledger.committed_by(*step, resource);
        assert!(own.of(resource).is_none_or(|limit| by_step <= limit), "seed {seed}: begun with {by_step}");
    }
}

/// Checks the invariants of recovery.
#[derive(Default)]
struct Recovery {
    steady: bool,
    /// By step: the failure being handled, and how often in a row it was the same.
    same: BTreeMap<u32, (Option<String>, u32)>,
    waits: BTreeMap<u32, u64>,
    halted: BTreeSet<String>,
    before: Option<Event>,
}

impl Recovery {
    fn hear(&mut self, sealed: &SealedEvent, event: &Event, seed: u64) {
        let after_detected = matches!(self.before, Some(Event::FailureDetected { .. }));
        assert_eq!(
            after_detected,
            matches!(event, Event::FailureClassified { .. }),
            "seed {seed}: {} after {:?}",
            event.name(),
            self.before
        );
        if matches!(self.before, Some(Event::FailureClassified { .. })) {
            let answers = matches!(
                event,
                Event::RecoveryApplied { .. }
                    | Event::Escalated { .. }
                    | Event::PermissionRequired { .. }
                    | Event::StepFailed { .. }
                    | Event::StepWaived { .. }
            );
            assert!(answers, "seed {seed}: a failure was answered with {}", event.name());
        }
        match event {
            Event::FailureDetected { step, fingerprint, .. } => {
                let (last, times) = self.same.entry(step.0).or_default();
                let alike = fingerprint.is_some() && last == fingerprint;
                *times = if alike { *times + 1 } else { 1 };
                last.clone_from(fingerprint);
            }
            Event::RecoveryApplied { step, not_before, role, .. } => {
                let times = self.same.get(&step.0).map_or(0, |(_, times)| *times);
                let otherwise = not_before.is_some() || role.is_some();
                assert!(times < 2 || otherwise, "seed {seed}: the same failure, tried again the same way");
                self.waits.remove(&step.0);
                self.waits.extend(not_before.map(|until| (step.0, until.0)));
            }
            Event::StepStarted { step, target, .. } => {
                assert!(!self.halted.contains(target), "seed {seed}: {target} has nothing left to spend");
                self.waited(step.0, sealed, seed);
            }
            Event::Judged { subject: CheckSubject::Contract(step), .. } => self.waited(step.0, sealed, seed),
            Event::FailureClassified { halts, .. } => self.halted.extend(halts.clone()),
            // A pass ends the series of equal failures.
            Event::StepPassed { step, .. } => {
                self.same.remove(&step.0);
            }
            Event::Answered { step: Some(step), choice: Choice::Retry, .. } => {
                self.halted.clear();
                self.same.remove(&step.0);
            }
            _ => {}
        }
        self.before = Some(event.clone());
    }

    fn waited(&mut self, step: u32, sealed: &SealedEvent, seed: u64) {
        if let (Some(until), true) = (self.waits.remove(&step), self.steady) {
            assert!(sealed.at.0 >= until, "seed {seed}: tried again {} ms too soon", until - sealed.at.0);
        }
    }
}

/// Runs one life of the harness, until it stops or dies.
fn live(
    log: &Memory,
    plan: &PlanId,
    world: &SimWorld,
    jobs: usize,
    fate: Fate,
) -> std::thread::Result<(Run, Rest)> {
    let mortal = Mortal { log, fate: Mutex::new(fate) };
    // Runs every other plan as if many processes shared it.
    if jobs == 1 && plan.0.ends_with(['0', '2', '4', '6', '8']) {
        return catch_unwind(AssertUnwindSafe(|| cut::live(&mortal, plan, world)));
    }
    catch_unwind(AssertUnwindSafe(|| {
        Drive { log: &mortal, plan, fence: None, world, jobs, watch: &mut |_, _, _| {} }
            .run()
            .unwrap_or_else(|error| panic!("{plan}: {error}"))
    }))
}

/// Silences the message of a simulated death; other panics are printed.
fn expect_deaths() {
    std::panic::set_hook(Box::new(|info| {
        if !info.payload().is::<Died>() {
            eprintln!("{info}");
        }
    }));
}

/// Records what a machine with trees of its own attests.
fn attested(log: &Memory, plan: &PlanId) {
    harness(log, plan, |_| HarnessCommand::Attested {
        level: Isolation::Clean,
        require_red: false,
        probes: Vec::new(),
        kernel: String::new(),
        bubblewrap: None,
        agent_outside: false,
        took_over: None,
    });
}

fn approved(log: &Memory, plan: &PlanId, text: &str, fallback: Option<&str>) {
    let fallback = fallback.map(|other| ("agent".to_owned(), other.to_owned())).into_iter().collect();
    let binding = Binding { terms: RunPolicy { fallback, ..RunPolicy::default() }, ..Binding::default() };
    let record = HarnessCommand::Record { text: text.to_owned(), binding, author: None };
    harness(log, plan, |_| record.clone());
    harness(log, plan, |run| HarnessCommand::Verified { revision: run.revision.clone(), warnings: 0 });
    human(log, plan, |run| HumanCommand::Approve {
        revision: run.revision.clone(),
        by: "person".to_owned(),
        modifications: Vec::new(),
    });
}

/// Returns how the run ended, how often the harness died and waited, and how often a budget stopped it.
fn simulate(seed: u64) -> (Stage, usize, u64, usize) {
    let mut dice = Dice(seed);
    let steady = dice.chance(50);
    let plan = PlanId(format!("sim-{seed}"));
    let log = Memory::default();
    let fallback = dice.chance(30).then_some("other");
    approved(&log, &plan, &plan_text(&mut dice, steady), fallback);
    let has_trees = seed.is_multiple_of(3);
    if has_trees {
        attested(&log, &plan);
    }
    let world = SimWorld {
        has_trees,
        deadly: true,
        truth: Mutex::default(),
        dice: Mutex::new(Dice(seed ^ 0xa5a5)),
        law_edit: Mutex::new(dice.chance(10)),
        steady,
        recipes: Recipes::default(),
    };
    let jobs = 1 + dice.below(3) as usize;
    let (mut deaths, mut breaches) = (0, 0);
    for life in 0..400u64 {
        let fate = Fate::Chance { dice: Dice(seed ^ (life << 20)), percent: 8 };
        let lived = live(&log, &plan, &world, jobs, fate);
        let run = check(&log, &plan, &world.truth(), seed, steady, jobs);
        match lived {
            Err(panic) if panic.is::<Died>() => deaths += 1,
            Err(panic) => std::panic::resume_unwind(panic),
            Ok((_, Rest::LawChanged(_) | Rest::OverBudget(_) | Rest::Interrupted)) => {}
            Ok((_, Rest::Nothing)) if matches!(run.stage, Stage::Done | Stage::Failed) => {
                return (run.stage, deaths, world.truth().waits, breaches);
            }
            Ok((_, Rest::Nothing)) => {
                breaches += usize::from(run.steps().any(|(_, step)| step.over_budget.is_some()));
                if dice.chance(30) {
                    silence(&log, &plan, &world, jobs, seed);
                }
                // Some people never answer.
                if dice.chance(2) {
                    return (run.stage, deaths, world.truth().waits, breaches);
                }
                answer(&log, &plan, &run, &mut dice, seed);
            }
        }
    }
    panic!("seed {seed}: no end after 400 lives");
}

/// Lets ten years pass without an answer. Reminders are sent and the harness starts again, but nothing else
/// happens.
fn silence(log: &Memory, plan: &PlanId, world: &SimWorld, jobs: usize, seed: u64) {
    let before = inbox::waiting(&journal::read(log, plan).unwrap());
    assert!(!before.is_empty(), "seed {seed}: at rest, and the inbox is empty");
    world.truth().clock += 10 * 365 * 24 * 3600 * 1000;
    let reason = format!("{}the escalation", EscalationCause::Overdue.words());
    harness(log, plan, |_| HarnessCommand::Remind { reason: reason.clone() });
    let head = log.head(plan).unwrap();
    let lived = live(log, plan, world, jobs, Fate::At { left: u32::MAX, after: false });
    assert!(
        matches!(lived, Ok((_, Rest::Nothing | Rest::Interrupted))),
        "seed {seed}: silence did something"
    );
    let mut since = Vec::new();
    let query = Query { after_seq: Some(head.seq), ..Query::plan(plan) };
    log.read(&query, &mut |sealed| {
        since.extend(sealed.event());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(since.is_empty(), "seed {seed}: something answered by itself: {since:?}");
    assert_eq!(inbox::waiting(&journal::read(log, plan).unwrap()), before, "seed {seed}");
}

/// Answers as a person, at random.
fn answer(log: &Memory, plan: &PlanId, run: &Run, dice: &mut Dice, seed: u64) {
    let answer = answer_to(run, dice, seed);
    human(log, plan, |_| answer.clone());
}

fn answer_to(run: &Run, dice: &mut Dice, seed: u64) -> HumanCommand {
    let waiting = run.steps().find(|(_, step)| matches!(step.state, StepState::Blocked { .. }));
    let Some((step, state)) = waiting else {
        panic!("seed {seed}: at rest, and nobody is waited for: {:?}", run.stage)
    };
    let choice = match dice.below(10) {
        0 => Choice::Abort,
        1 | 2 => Choice::Skip,
        _ => Choice::Retry,
    };
    let number = step.number;
    if let (Some(scope), Choice::Retry, true) =
        (state.over_budget.as_ref().map(|breach| breach.scope), choice, dice.chance(70))
    {
        let limits = match scope {
            BudgetScope::Plan => budget::of_plan(run),
            BudgetScope::Step => budget::of_step(run, number),
        };
        let committed = |resource| run.ledger.committed(resource, Timestamp(0));
        let more = |resource| limits.of(resource).map(|limit| limit.max(committed(resource)) * 2);
        let (budget, by) = (Amount::each(more), "person".to_owned());
        return HumanCommand::Raise { step: number, budget, note: String::new(), by };
    }
    HumanCommand::Answer { step: Some(number), choice, note: String::new(), by: "person".to_owned() }
}

/// Dies before or after each append of a run, one at a time.
#[test]
fn a_death_before_or_after_any_append_loses_and_repeats_nothing() {
    expect_deaths();
    let mut died = 0;
    for seed in 0..12 {
        // In parallel the order differs each time, but the invariants are the same.
        let jobs = if seed < 8 { 1 } else { 3 };
        for after in [false, true] {
            for at in 0..1000 {
                let plan = PlanId(format!("at-{seed}-{at}-{after}"));
                let log = Memory::default();
                approved(&log, &plan, &plan_text(&mut Dice(seed), false), Some("other"));
                let has_trees = seed % 2 == 1;
                if has_trees {
                    attested(&log, &plan);
                }
                let world = SimWorld {
                    has_trees,
                    deadly: false,
                    truth: Mutex::default(),
                    dice: Mutex::new(Dice(seed)),
                    law_edit: Mutex::new(false),
                    steady: false,
                    recipes: Recipes::default(),
                };
                let first = live(&log, &plan, &world, jobs, Fate::At { left: at, after });
                check(&log, &plan, &world.truth(), seed, false, jobs);
                // The run ended before that append, so all appends were tried.
                if first.is_ok() {
                    break;
                }
                died += 1;
                let _ = live(&log, &plan, &world, jobs, Fate::At { left: u32::MAX, after });
                check(&log, &plan, &world.truth(), seed, false, jobs);
            }
        }
    }
    assert!(died > 100, "only {died} deaths");
}

#[test]
fn no_lie_and_no_crash_makes_a_step_pass_that_is_not_done() {
    expect_deaths();
    if let Ok(seed) = std::env::var("PROVOST_SIM_SEED") {
        println!("{:?}", simulate(seed.parse().expect("a number")));
        return;
    }
    let seeds: u64 = std::env::var("PROVOST_SIM_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let ends: Vec<(Stage, usize, u64, usize)> = std::thread::scope(|scope| {
        let halves: Vec<_> = [0, 1]
            .map(|half| scope.spawn(move || (half..seeds).step_by(2).map(simulate).collect::<Vec<_>>()))
            .into_iter()
            .collect();
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    let done = ends.iter().filter(|(stage, ..)| *stage == Stage::Done).count();
    let deaths: usize = ends.iter().map(|(_, deaths, ..)| deaths).sum();
    let breaches: usize = ends.iter().map(|(.., breaches)| breaches).sum();
    let waits: u64 = ends.iter().map(|(_, _, waits, _)| waits).sum();
    println!(
        "{seeds} seeds: {done} done, {} failed, {deaths} deaths, {waits} waits, {breaches} breaches",
        ends.len() - done
    );
    // A simulation in which nothing goes wrong proves nothing.
    assert!(
        done > ends.len() / 4 && done < ends.len() && deaths > ends.len() && waits > ends.len() as u64 / 4
    );
    assert!(breaches > ends.len() / 20, "only {breaches} breaches");
}
