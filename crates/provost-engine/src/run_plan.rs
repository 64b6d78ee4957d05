//! Runs a plan until it stops: takes the leases, attests the execution environment, runs the loop, cleans up.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use provost_core::model::chain::{Head, SealedEvent};
use provost_core::model::event::{Event, Probe};
use provost_core::model::plan::StepNumber;
use provost_core::model::verdict::{Isolation, Verdict};
use provost_core::rules::command::{HarnessCommand, Refusal};
use provost_core::rules::decide;
use provost_core::state::run::{Run, Stage, StepState};
use provost_host::agent::home;
use provost_host::check::judge;
use provost_host::config::Demand;
use provost_host::exec::environment::{self, ApprovedFiles, CheckSettings, ExecEnv, RunPaths};
use provost_host::plans::plan_file;
use provost_host::sandbox::{Attestation, SandboxFeatures};
use provost_host::tree::ImportLimits;
use provost_host::{process, sandbox};
use provost_store::{Error as StoreError, Fence, Holder, Lease, Log};

use crate::drive::{Drive, Rest};
use crate::executor::Executor;
use crate::projections::{DelayedWriter, Projector};
use crate::shared_folder_lock::SharedFolderLock;
use crate::tamper_watch::TamperWatch;
use crate::worker::Worker;
use crate::{Error, confined, drive, plan_context, projections, remote_tree, work_items};

use crate::harness::Harness;

/// A recorded verdict and the same check run again.
pub struct Recheck {
    pub recorded: Verdict,
    /// `None` if the check was interrupted.
    pub now: Option<Verdict>,
}

impl Harness {
    /// Runs the plan until it stops. There is one run per workspace and one per plan.
    pub fn drive(
        &self,
        jobs: usize,
        watch: &mut dyn FnMut(&Run, &SealedEvent, &Event),
    ) -> Result<(Run, Rest), Error> {
        self.drive_for(&Worker::Agents { jobs: jobs.max(1) }, watch)
    }

    /// Checks what a session of `client` has left: every check that is due, once each, until one does not
    /// hold.
    pub fn look(&self, client: &str) -> Result<(Run, Rest), Error> {
        self.drive_for(&Worker::Look { client }, &mut |_, _, _| {})
    }

    /// Escalates to a person after a session was sent back often enough. Fails if a run holds the lease; that
    /// run decides then.
    pub fn let_session_go(&self, reason: &str) -> Result<Run, Error> {
        let holder = Holder::here(format!("plan {}", self.id()), plan_context::now());
        let patience = self.config().run.lease_timeout;
        let _workspace = self.lease(&self.workspace_lease(), &holder, patience)?;
        let _plan = self.lease(&format!("plan {}", self.id()), &holder, patience)?;
        let run = self.harness(|_| HarnessCommand::LetGo { reason: reason.to_owned() })?;
        let _ = projections::marks(&self.site, &run);
        Ok(run)
    }

    pub(crate) fn drive_for(
        &self,
        worker: &Worker<'_>,
        watch: &mut dyn FnMut(&Run, &SealedEvent, &Event),
    ) -> Result<(Run, Rest), Error> {
        let trailing = DelayedWriter::default();
        std::thread::scope(|scope| {
            scope.spawn(|| trailing.attend(&self.site));
            let _over = trailing.until_dropped();
            self.drive_shown(worker, watch, &trailing)
        })
    }

    /// Runs the plan for a worker until it stops; `trailing` writes marks that were held back.
    fn drive_shown(
        &self,
        worker: &Worker<'_>,
        watch: &mut dyn FnMut(&Run, &SealedEvent, &Event),
        trailing: &DelayedWriter,
    ) -> Result<(Run, Rest), Error> {
        // Orphans of an attempt are reparented to this process, which can kill them.
        process::become_subreaper().map_err(|source| Error::Io {
            what: "take in orphans in",
            path: "/proc/self".into(),
            source,
        })?;
        let what = match worker {
            Worker::Agents { .. } | Worker::Share(_) => format!("plan {}", self.id()),
            Worker::Look { client } => format!("{LOOKING}{client}, at plan {}", self.id()),
            Worker::Session { .. } => format!("{LOOKING}an MCP client, at plan {}", self.id()),
        };
        let holder = Holder::here(what, plan_context::now());
        let patience = worker.patience(self.config().run.lease_timeout);
        // The parent plan already holds the workspace lease.
        let alone = self.within.is_none();
        let workspace = || self.lease(&self.workspace_lease(), &holder, patience);
        let _workspace = alone.then(workspace).transpose()?;
        let lease = self.lease(&format!("plan {}", self.id()), &holder, patience)?;
        let sharing = self.share(&holder.what, patience)?;
        if let Worker::Share(share) = worker
            && let Some(over) = self.take_share(share, lease.fence())?
        {
            return Ok((over, Rest::Nothing));
        }
        self.still_proved()?;
        let secret = self.prover().secret()?;
        let mut proving = self.prover().begin(&secret)?;
        let watched = Arc::new(TamperWatch::new(&self.site, &self.state, self.prover().file(), secret));
        let head = self.log.head(self.id())?.seq;
        let mut projector = Projector::new(&self.site, watched.clone(), trailing, head);
        // Project lines again that a crash kept out of the progress file.
        let (mut run, head) = journal::replay(&*self.log, self.id(), &mut |run, sealed, event| {
            projector.event(run, sealed, event);
            proving.hear(run, sealed, event);
        })?;
        if let Some(from_seq) = run.forged_from {
            return Err(self.forged(from_seq));
        }
        self.can_see_the_work(&run)?;
        let head = Cell::new(head);
        let mut both = |run: &Run, sealed: &SealedEvent, event: &Event| {
            head.set(Head { seq: sealed.seq, hash: sealed.hash });
            projector.event(run, sealed, event);
            if matches!(event, Event::StepStarted { .. }) {
                projector.before_an_attempt(run);
            }
            projector.catch_up(run);
            proving.hear(run, sealed, event);
            watch(run, sealed, event);
        };
        let took_over = sharing.as_ref().and_then(|sharing| sharing.took_over.clone());
        let ground = self.ground(worker, took_over, &mut run, Some(lease.fence()), &mut both)?;
        if let Worker::Agents { .. } = worker {
            while let Some(step) = self.plan_goes_on(&run) {
                let events = decide::harness(&run, HarnessCommand::PlanGoesOn { step })?;
                self.tell(&mut run, &events, &mut both)?;
            }
        }
        let hands = Executor::new(&self.site, ground).watched(&watched).for_worker(worker);
        let hands = hands.knowing(self.base_look(&run));
        let hands = hands.delegating(self).within(self.within.as_ref());
        let hands = hands.carrying(self.carrying.as_ref(), lease.fence().epoch);
        let mut go_on = |run: Run, both: &mut dyn FnMut(&Run, &SealedEvent, &Event)| {
            let drive = Drive {
                log: &*self.log,
                plan: self.id(),
                fence: Some(lease.fence().clone()),
                world: &hands,
                jobs: worker.jobs(),
                watch: both,
            };
            match worker {
                Worker::Share(share) => share.done_by(drive, run, head.get()),
                _ => drive.go_on(run, head.get()),
            }
        };
        let driven = match worker {
            Worker::Agents { .. } | Worker::Look { .. } | Worker::Share(_) => go_on(run, &mut both),
            Worker::Session { words } => self.hear_session(words, run, &mut both, &mut go_on),
        };
        let planted = watched.at_the_end();
        // If another machine has taken the plan over, this one writes nothing more of it.
        let kept = sharing.map_or(Ok(()), SharedFolderLock::end);
        let (mut run, rest) = match driven.and_then(|driven| kept.map(|()| driven)) {
            Ok(driven) => driven,
            // The process that took over keeps the proofs.
            Err(error @ Error::Store(StoreError::Fenced { .. })) => return Err(error),
            Err(error) => {
                // Prove the events this process knew; another writer of the log cannot change those.
                let _ = proving.stop();
                return Err(error);
            }
        };
        for what in planted {
            let events = decide::harness(&run, HarnessCommand::Tampered { step: None, what })?;
            self.tell(&mut run, &events, &mut both)?;
        }
        let left = hands.leave(&run);
        projector.write(&run);
        proving.finish(&run)?;
        left.map_err(environment::Error::Trees)?;
        if matches!(run.stage, Stage::Done | Stage::Failed) {
            home::forget(&self.state, &self.id().to_string());
        }
        if run.stage == Stage::Done {
            environment::forget_apart(&self.state, &self.id().to_string());
        }
        // A worker that performs many items may still run checks in these folders.
        if alone && !matches!(worker, Worker::Share(_)) {
            judge::leave();
        }
        Ok((run, rest))
    }

    /// Refuses if the trees of the plan travel and none can be fetched here: the workspace does not show the
    /// work.
    pub(crate) fn can_see_the_work(&self, run: &Run) -> Result<(), Error> {
        match (&run.work, &self.carrying) {
            (Some(_), None) => Err(Error::CarriedElsewhere { plan: self.id().clone() }),
            _ => Ok(()),
        }
    }

    /// Attests the isolation of this machine, records it, and prepares the execution environment before any
    /// agent runs.
    fn ground(
        &self,
        worker: &Worker<'_>,
        took_over: Option<String>,
        run: &mut Run,
        fence: Option<&Fence>,
        watch: &mut dyn FnMut(&Run, &SealedEvent, &Event),
    ) -> Result<ExecEnv, Error> {
        let place = self.place();
        let read_only = self.own_files();
        let keys = self.carrying.as_ref().and_then(|carrying| carrying.keys(&self.site.environment));
        let secret = self.config().proof.ssh_key.as_deref();
        let secret = keys.as_deref().filter(|keys| secret.is_none_or(|key| key.starts_with(keys))).or(secret);
        let launcher = confined::launcher(&self.site.launcher);
        let workspace = &self.place().workspace;
        let estate =
            RunPaths { workspace, state: &self.state, read_only: &read_only, secret, launcher: &launcher };
        let verify = &self.config().verify;
        let (offer, seen) = match worker {
            Worker::Share(_) => work_items::attest(verify.isolation, &estate, &place.path)?,
            _ => environment::attest(verify.isolation, &estate)?,
        };
        let level = seen.level;
        if let Some(why) = self.carrying.as_ref().and_then(|_| remote_tree::not_at(level)) {
            return Err(Error::NotCarried { plan: self.id().clone(), why: why.to_owned() });
        }
        self.attested(worker, took_over, run, seen, fence, watch)?;
        self.on_the_base(run, offer, level, &estate)
    }

    pub(crate) fn on_the_base(
        &self,
        run: &Run,
        offer: Option<SandboxFeatures>,
        level: Isolation,
        estate: &RunPaths<'_>,
    ) -> Result<ExecEnv, Error> {
        let verify = &self.config().verify;
        let all = [String::from("**")];
        let touches: Vec<String> = match &run.plan.touches {
            Some(touches) => touches.iter().map(|glob| glob.value.clone()).collect(),
            None => all.to_vec(),
        };
        let approval = ApprovedFiles {
            revision: &run.revision.0,
            commit: run.binding.base.as_deref(),
            files: &run.binding.files,
            included: &run.binding.included,
            touches: &touches,
            caches: remote_tree::caches(self, run),
            limits: ImportLimits {
                as_git: self.carrying.is_some(),
                ..ImportLimits::of_file(verify.max_file)
            },
            wanted: CheckSettings {
                provision: &verify.provision,
                build_caches: verify.build_caches,
                stop: Some(&self.site.stop),
            },
        };
        Ok(ExecEnv::prepare(offer, level, estate, &approval)?)
    }

    /// Runs the contract of a passed step again, on the tree it passed on, and records nothing.
    pub fn recheck(&self, number: StepNumber) -> Result<Recheck, Error> {
        let run = self.run()?;
        let step = run.step(number).ok_or(Refusal::NoSuchStep { step: number })?;
        let recorded = step.verdict.clone().filter(|_| step.state == StepState::Passed);
        let recorded = recorded.ok_or(Refusal::NotPassed { step: number })?;
        let _ = process::become_subreaper();
        let launcher = confined::launcher(&self.site.launcher);
        let workspace = &self.place().workspace;
        let read_only = self.own_files();
        let estate = RunPaths {
            workspace,
            state: &self.state,
            read_only: &read_only,
            secret: None,
            launcher: &launcher,
        };
        let (offer, seen) = environment::attest(Demand::Exactly(recorded.isolation), &estate)?;
        let tree = recorded.tree.as_ref().map(|tree| tree.id.clone());
        if let Some(tree) = &tree {
            remote_tree::kept(self, &run, &environment::trees_of(workspace, &self.state)?, tree)?;
        }
        let hands = Executor::new(&self.site, self.on_the_base(&run, offer, seen.level, &estate)?);
        let now = hands.recheck(&run, number, tree);
        judge::leave();
        Ok(Recheck { recorded, now })
    }

    fn attested(
        &self,
        worker: &Worker<'_>,
        took_over: Option<String>,
        run: &mut Run,
        seen: Attestation,
        fence: Option<&Fence>,
        watch: &mut dyn FnMut(&Run, &SealedEvent, &Event),
    ) -> Result<(), Error> {
        let require_red = self.config().verify.require_red;
        let known = (run.isolation, run.require_red, run.agent_outside);
        if let Worker::Share(share) = worker {
            // Several processes work on one run: record the level again only if it differs.
            if known == (Some(seen.level), require_red, false) {
                return Ok(());
            }
            let events = share.given_back(run)?;
            self.tell_with(run, &events, fence, watch)?;
        }
        let probe = |probe: sandbox::SelfTestProbe| Probe {
            name: probe.name,
            held: probe.held,
            detail: probe.detail,
        };
        let command = HarnessCommand::Attested {
            level: seen.level,
            require_red,
            probes: seen.probes.into_iter().map(probe).collect(),
            kernel: seen.kernel,
            bubblewrap: seen.bubblewrap,
            agent_outside: !worker.starts_agents(),
            took_over,
        };
        let events = decide::harness(run, command)?;
        self.tell_with(run, &events, fence, watch)
    }

    /// Refuses a log that does not fit the proofs; a rebuilt log verifies but does not fit them.
    fn still_proved(&self) -> Result<(), Error> {
        match self.prover().check(&*self.log, self.id())?.into_iter().next() {
            Some(finding) => Err(Error::Disproved { plan: self.id().clone(), finding }),
            None => Ok(()),
        }
    }
}
