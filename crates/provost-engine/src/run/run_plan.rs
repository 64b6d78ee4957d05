//! Runs a plan until it stops: takes the leases, prepares the execution environment, enters the loop, and
//! cleans up.
//!
//! If several processes share the plan, one of them may perform a task without the leases: it gives them back
//! meanwhile, and then takes them and reads the log again.
//!
//! **Invariant:** a process that does not share the plan starts nothing while another one performs a task of it.

use std::cell::OnceCell;
use std::sync::Arc;

use provost_core::model::chain::{Head, SealedEvent};
use provost_core::model::event::Event;
use provost_core::model::plan::StepNumber;
use provost_core::model::verdict::Verdict;
use provost_core::rules::command::{HarnessCommand, Refusal};
use provost_core::rules::decide;
use provost_core::state::run::{Run, Stage, StepState};
use provost_host::agent::home;
use provost_host::check::judge;
use provost_host::config::Demand;
use provost_host::exec::environment::{self, ExecEnv};
use provost_host::process;
use provost_store::{Error as StoreError, Fence, Holder, Lease};

use crate::exec::approved_base::{PlanPaths, on_the_base_with};
use crate::exec::executor::Executor;
use crate::journal::lease;
use crate::plan::harness::{Harness, step_lease};
use crate::plan::projections::{self, DelayedWriter, Projector};
use crate::plan::prove::{KeySeed, ProofWriter};
use crate::plan::subplan::SubplanRunner as _;
use crate::plan::tamper_watch::TamperWatch;
use crate::plan::{kept_trees, plan_context};
use crate::run::run_environment::{self, can_see_the_work};
use crate::run::run_strategy::{Agents, ProgressListener, RunResult, RunStrategy, StoppedSession};
use crate::run::shared_folder_lock::{self, SharedFolderLock};
use crate::run::withdrawal;
use crate::run_loop::world::World as _;
use crate::run_loop::{Drive, Rest};
use crate::{Error, journal};

/// A recorded verdict and the same check run again.
pub struct Recheck {
    pub recorded: Verdict,
    /// `None` if the check was interrupted.
    pub now: Option<Verdict>,
}

/// Runs the plan until it stops. There is one run per workspace and one per plan.
pub fn drive(
    harness: &Harness,
    jobs: usize,
    watch: &mut dyn FnMut(&Run, &SealedEvent, &Event),
) -> Result<(Run, Rest), Error> {
    let agents = Agents { jobs: jobs.max(1) };
    let (run, rest) = withdrawal::watching(harness, || drive_for(harness, &agents, watch))?;
    // A person interrupted it by a decision, so nothing is left to do.
    let withdrawn = rest == Rest::Interrupted && matches!(run.stage, Stage::Draft | Stage::Failed);
    Ok((run, if withdrawn { Rest::Nothing } else { rest }))
}

/// Checks what a session of `client` has left: every check that is due, once each, until one does not
/// hold.
pub fn look(harness: &Harness, client: &str) -> Result<(Run, Rest), Error> {
    drive_for(harness, &StoppedSession { client }, &mut |_, _, _| {})
}

/// Escalates to a person after a session was sent back often enough. Fails if a run holds the lease; that
/// run decides then.
pub fn let_session_go(harness: &Harness, reason: &str) -> Result<Run, Error> {
    let holder = Holder::here(format!("plan {}", harness.id()), plan_context::now());
    let patience = harness.config().run.lease_timeout;
    let _workspace = crate::plan::harness::lease(harness, &harness.workspace_lease(), &holder, patience)?;
    let _plan = crate::plan::harness::lease(harness, &format!("plan {}", harness.id()), &holder, patience)?;
    let run = harness.own_command(|_| HarnessCommand::LetGo { reason: reason.to_owned() })?;
    let _ = projections::marks(harness.site(), &run);
    Ok(run)
}

/// Runs the plan with this strategy until it stops.
pub fn drive_for(
    harness: &Harness,
    strategy: &dyn RunStrategy,
    watch: &mut ProgressListener<'_>,
) -> RunResult {
    let delayed = DelayedWriter::default();
    std::thread::scope(|scope| {
        scope.spawn(|| delayed.attend(harness.site()));
        let _over = delayed.until_dropped();
        drive_shown(harness, strategy, watch, &delayed)
    })
}

/// Runs the plan with this strategy until it stops; `delayed` writes marks that were held back.
fn drive_shown(
    harness: &Harness,
    strategy: &dyn RunStrategy,
    watch: &mut ProgressListener<'_>,
    delayed: &DelayedWriter,
) -> RunResult {
    // Orphans of an attempt are reparented to this process, which can kill them.
    process::become_subreaper().map_err(|source| Error::Io {
        what: "take in orphans in",
        path: "/proc/self".into(),
        source,
    })?;
    let tampering = OnceCell::new();
    let executor = OnceCell::new();
    loop {
        let leases = Leases::take(harness, strategy)?;
        let fence = &leases.plan.fence().clone();
        if let Some(over) = strategy.begin(harness, fence)? {
            return Ok((over, Rest::Nothing));
        }
        refuse_disproved(harness)?;
        let secret = harness.prover().secret()?;
        let proofs = harness.prover().begin(&secret)?;
        let tampering = tampering.get_or_init(|| tamper_watch(harness, strategy, secret));
        let seq = harness.log().head(harness.id())?.seq;
        let projector = Projector::new(harness.site(), tampering.clone(), delayed, seq);
        let mut observers = Observers { projector, proofs, watch: &mut *watch, head: Head::START };
        let mut run = observers.replay(harness)?;
        can_see_the_work(harness, &run)?;
        refuse_steps_at_work(harness, strategy, &run)?;
        if executor.get().is_none() {
            let told =
                &mut |run: &Run, sealed: &SealedEvent, event: &Event| observers.hear(run, sealed, event);
            let took_over = leases.took_over();
            let environment = run_environment::prepare(harness, strategy, took_over, &mut run, fence, told)?;
            resume_steps(harness, strategy, &mut run, fence, told)?;
            let _ = executor.set(make_executor(harness, strategy, environment, tampering, fence.epoch));
        }
        let executor = executor.get().expect("it was just made");
        let driven = enter_loop(harness, strategy, executor, &leases, run, &mut observers);
        let (run, rest) = end_turn(harness, strategy, driven, leases, observers, (executor, tampering))?;
        let Some(order) = strategy.aside() else { return Ok((run, rest)) };
        strategy.comes_back(executor.perform(order));
    }
}

/// Ends what was begun with the leases, and gives them back.
fn end_turn(
    harness: &Harness,
    strategy: &dyn RunStrategy,
    driven: RunResult,
    mut leases: Leases,
    mut observers: Observers<'_, '_>,
    (executor, tampering): (&Executor<'_>, &TamperWatch),
) -> RunResult {
    let fence = leases.plan.fence().clone();
    let tampered = tampering.at_the_end();
    // If another machine has taken the plan over, this one writes nothing more of it.
    let (mut run, rest) = match driven.and_then(|driven| leases.end().map(|()| driven)) {
        Ok(driven) => driven,
        // The process that took over keeps the proofs.
        Err(error @ Error::Store(StoreError::Fenced { .. })) => return Err(error),
        Err(error) => {
            // Prove the events this process knew; another writer of the log cannot change those.
            let _ = observers.proofs.stop();
            return Err(error);
        }
    };
    for what in tampered {
        let events = decide::harness(&run, HarnessCommand::Tampered { step: None, what })?;
        harness.tell(&mut run, &events, Some(&fence), &mut |run, sealed, event| {
            observers.hear(run, sealed, event)
        })?;
    }
    let left = executor.leave(&run);
    observers.finish(&run)?;
    left.map_err(environment::Error::Trees)?;
    clean_up(harness, strategy, &run);
    Ok((run, rest))
}

fn tamper_watch(harness: &Harness, strategy: &dyn RunStrategy, secret: KeySeed) -> Arc<TamperWatch> {
    let prover = harness.prover();
    let is_shared = strategy.is_aside();
    Arc::new(TamperWatch::new(harness.site(), harness.state(), prover.file(), secret, is_shared))
}

/// Refuses a plan that this process does not share, while another one performs a task of it.
fn refuse_steps_at_work(harness: &Harness, strategy: &dyn RunStrategy, run: &Run) -> Result<(), Error> {
    let steps = run.at_work.iter().filter(|_| !strategy.is_shared());
    for name in steps.map(|step| step_lease(harness.id(), *step)) {
        if let Some(holder) = harness.log().holder(&name)? {
            return Err(StoreError::LeaseHeld { name, holder: Some(holder) }.into());
        }
    }
    Ok(())
}

/// The leases of a run. They are given back when this is dropped.
struct Leases {
    /// `None` for a sub-plan: its parent already holds the workspace.
    _workspace: Option<Lease>,
    plan: Lease,
    folder: Option<SharedFolderLock>,
}

impl Leases {
    fn take(harness: &Harness, strategy: &dyn RunStrategy) -> Result<Self, Error> {
        let holder = strategy.holder(harness.id(), plan_context::now());
        let patience = strategy.patience(harness.config().run.lease_timeout);
        let patiences = (patience, strategy.last_patience());
        let take = |name: &str| lease::take(harness.log(), name, &holder, patiences, &harness.site().stop);
        let workspace = || take(&harness.workspace_lease());
        Ok(Self {
            _workspace: harness.within.is_none().then(workspace).transpose()?,
            plan: take(&format!("plan {}", harness.id()))?,
            folder: shared_folder_lock::share(harness, &holder.what, patience)?,
        })
    }

    /// Returns the previous holder of a shared folder's claim, if this run took over from it.
    fn took_over(&self) -> Option<String> {
        self.folder.as_ref().and_then(|folder| folder.took_over.clone())
    }

    /// Gives the claim of a shared folder back; an error if it was lost.
    fn end(&mut self) -> Result<(), Error> {
        self.folder.take().map_or(Ok(()), SharedFolderLock::end)
    }
}

/// Everything that hears the events of a run.
struct Observers<'a, 'w> {
    projector: Projector<'a>,
    proofs: ProofWriter,
    watch: &'a mut ProgressListener<'w>,
    /// Newest event that was heard.
    head: Head,
}

impl Observers<'_, '_> {
    /// Folds the log. Lines that a crash kept out of the progress file are projected again.
    fn replay(&mut self, harness: &Harness) -> Result<Run, Error> {
        let (run, head) = journal::replay(harness.log(), harness.id(), &mut |run, sealed, event| {
            self.projector.event(run, sealed, event);
            self.proofs.hear(run, sealed, event);
        })?;
        self.head = head;
        match run.forged_from {
            Some(from_seq) => Err(crate::plan::harness::forged(harness.id(), from_seq)),
            None => Ok(run),
        }
    }

    fn hear(&mut self, run: &Run, sealed: &SealedEvent, event: &Event) {
        self.head = Head { seq: sealed.seq, hash: sealed.hash };
        self.projector.event(run, sealed, event);
        if let Event::StepStarted { step, .. } = event {
            self.projector.before_an_attempt(run, *step);
        }
        self.projector.catch_up(run);
        self.proofs.hear(run, sealed, event);
        (self.watch)(run, sealed, event);
    }

    fn finish(mut self, run: &Run) -> Result<(), Error> {
        self.projector.write(run);
        self.proofs.finish(run)
    }
}

/// Continues the steps that waited for a sub-plan which can continue now.
fn resume_steps(
    harness: &Harness,
    strategy: &dyn RunStrategy,
    run: &mut Run,
    fence: &Fence,
    told: &mut ProgressListener<'_>,
) -> Result<(), Error> {
    while let Some(step) = strategy.resumes_steps().then(|| harness.resumable_step(run)).flatten() {
        let events = decide::harness(run, HarnessCommand::PlanGoesOn { step })?;
        harness.tell(run, &events, Some(fence), told)?;
    }
    Ok(())
}

fn make_executor<'a>(
    harness: &'a Harness,
    strategy: &dyn RunStrategy,
    environment: ExecEnv,
    tampering: &'a TamperWatch,
    epoch: u64,
) -> Executor<'a> {
    let executor = strategy.executor(Executor::new(harness.site(), environment).watched(tampering));
    let executor = executor.delegating(harness).within(harness.within.as_ref());
    executor.at(&*harness.workplace, epoch)
}

/// Enters the loop as the strategy does, once or several times.
fn enter_loop(
    harness: &Harness,
    strategy: &dyn RunStrategy,
    executor: &Executor<'_>,
    leases: &Leases,
    run: Run,
    observers: &mut Observers<'_, '_>,
) -> RunResult {
    let head = std::cell::Cell::new(observers.head);
    let mut told = |run: &Run, sealed: &SealedEvent, event: &Event| {
        observers.hear(run, sealed, event);
        head.set(observers.head);
    };
    let mut enter = |run: Run, told: &mut ProgressListener<'_>| {
        let drive = Drive {
            log: harness.log(),
            plan: harness.id(),
            fence: Some(leases.plan.fence().clone()),
            world: executor,
            jobs: strategy.jobs(),
            watch: told,
        };
        strategy.drive(drive, run, head.get())
    };
    strategy.work(harness, run, &mut told, &mut enter)
}

/// Removes what a run that is over no longer needs.
fn clean_up(harness: &Harness, strategy: &dyn RunStrategy, run: &Run) {
    if matches!(run.stage, Stage::Done | Stage::Failed) {
        home::forget(harness.state(), &harness.id().to_string());
    }
    if run.stage == Stage::Done {
        environment::forget_apart(harness.state(), &harness.id().to_string());
    }
    if harness.within.is_none() && !strategy.keeps_check_folders() {
        judge::leave();
    }
}

/// Runs the contract of a passed step again, on the tree it passed on, and records nothing.
pub fn recheck(harness: &Harness, number: StepNumber) -> Result<Recheck, Error> {
    let run = harness.run()?;
    let step = run.step(number).ok_or(Refusal::NoSuchStep { step: number })?;
    let recorded = step.verdict.clone().filter(|_| step.state == StepState::Passed);
    let recorded = recorded.ok_or(Refusal::NotPassed { step: number })?;
    let _ = process::become_subreaper();
    let workspace = &harness.place().workspace;
    let paths = PlanPaths::of(harness);
    let estate = paths.for_checks(harness);
    let (offer, seen) = environment::attest(Demand::Exactly(recorded.isolation), &estate)?;
    let tree = recorded.tree.as_ref().map(|tree| tree.id.clone());
    if let Some(tree) = &tree {
        kept_trees::find(harness, &run, &environment::trees_of(workspace, harness.state())?, tree)?;
    }
    let environment = recorded.environment.as_deref();
    let ground = on_the_base_with(harness, &run, offer, seen.level, &estate, environment)?;
    let hands = Executor::new(harness.site(), ground);
    let now = hands.recheck(&run, number, tree);
    judge::leave();
    Ok(Recheck { recorded, now })
}

/// Refuses a log that does not fit the proofs; a rebuilt log verifies but does not fit them.
fn refuse_disproved(harness: &Harness) -> Result<(), Error> {
    match harness.prover().check(harness.log(), harness.id())?.into_iter().next() {
        Some(finding) => Err(Error::Disproved { plan: harness.id().clone(), finding }),
        None => Ok(()),
    }
}
