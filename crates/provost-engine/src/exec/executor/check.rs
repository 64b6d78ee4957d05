//! Runs a check: which command, on which tree, with which verdict.
//!
//! **Invariant:** the contract that is run is the one of the revision in the log, never the one of a file.

use std::ffi::OsString;
use std::time::Duration;

use provost_core::model::event::{CheckSubject, StartTree};
use provost_core::model::plan::{Check, Shell, Span, Step, StepNumber};
use provost_core::model::rubric;
use provost_core::model::usage::Amount;
use provost_core::model::verdict::{CheckOutcome, Excerpt, Verdict};
use provost_core::rules::command::HarnessCommand;
use provost_core::rules::{budget, decide};
use provost_core::state::run::Run;
use provost_host::check::negative_control::{BaseResult, Doubts};
use provost_host::exec::environment::{CheckExtras, CheckSpec, Comparison, OutputListener};
use provost_host::process::Survivor;
use provost_host::sandbox::Processes;
use provost_host::tree::Apart;
use provost_host::{Interrupted, process, tree};

use super::check_facts::{checked, compared_with, doubts, held_apart, is_known, min_proved, takes_work};
use super::step_worktree::{WorkspaceSync, globs, not_home, place, told};
use super::{Executor, TaskInput};
use crate::exec::model_judge::JudgeRequest;
use crate::run_loop::world::TaskOutcome;

pub struct CheckOrder {
    pub(super) subject: CheckSubject,
    pub(super) check: Option<Check>,
    pub(super) timeout: Duration,
    pub(super) attempt: u32,
    /// The attempt was running when provost died.
    pub(super) lost: bool,
    /// Tree that the previous steps left.
    pub(super) tree: Option<String>,
    /// Tree the attempt started with, if it is kept.
    pub(super) start: Option<StartTree>,
    /// Tree whose test results those of this check are compared with; the outer `None` compares nothing, the
    /// inner one means the approved base.
    pub(super) compare: Option<Option<String>>,
    /// Tree that the plan's work started with; the approved one, if it is not kept.
    pub(super) before: Option<String>,
    /// The agent's changes take part.
    pub(super) with_work: bool,
    /// The check is known to hold on this tree.
    pub(super) known: bool,
    pub(super) protect: Vec<String>,
    pub(super) network: bool,
    pub(super) processes: Processes,
    /// Secrets that the step names, with their values.
    pub(super) secrets: Vec<(OsString, OsString)>,
    pub(super) runs: u32,
    /// Share of the changed code that the contract has to prove, in percent.
    pub(super) min_proved: Option<u8>,
    /// The agent writes the tests that the check runs.
    pub(super) writes_tests: bool,
    pub(super) doubts: Doubts,
    /// Verdict of the step's own worktree, if it held there; its negative controls are not run twice.
    pub(super) held_apart: Option<Verdict>,
    /// A result that is known for the tree without the work counts.
    pub(super) reuses: bool,
    /// The agent that did the work of the step.
    pub(super) worker: String,
    /// Worktree of that work, if it was not the workspace. Its changes are judged together with what other
    /// steps left meanwhile.
    pub(super) apart: Option<Apart>,
    /// Globs the step may change, if it declares any.
    pub(super) touches: Option<Vec<String>>,
    pub(super) home: Option<WorkspaceSync>,
    /// Why it cannot be judged: missing trees, or a secret that cannot be given.
    pub(super) unseen: Option<String>,
    /// The most that a judging model may use.
    pub(super) limit: Amount,
}

impl CheckOrder {
    pub(super) fn step(&self) -> StepNumber {
        match self.subject {
            CheckSubject::Precondition(step)
            | CheckSubject::Control(step)
            | CheckSubject::Contract(step)
            | CheckSubject::Final(step) => step,
            CheckSubject::Postcondition(_) => StepNumber(0),
        }
    }
}

impl Executor<'_> {
    pub(super) fn check_order(&self, run: &Run, subject: CheckSubject, lost: bool) -> TaskInput {
        let (contract, step) = checked(&run.plan, subject);
        let usual = self.site.config.verify.contract_timeout;
        let own = step.and_then(|step| step.contract_timeout.as_ref());
        let network = step.and_then(|step| step.network.as_ref()).is_some_and(|network| network.value);
        let protect = step.into_iter().flat_map(|step| &step.protect).map(|glob| glob.value.clone());
        let left_alone = !self.at_home().1.is_empty();
        let with_work = takes_work(run, subject, left_alone);
        let sent = self.checked_files(run, subject, with_work);
        let (secrets, withheld) = match self.secrets(step, network) {
            Ok(secrets) => (secrets, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let unseen = sent.as_ref().err().cloned();
        let apart = match subject {
            _ if !self.workplace.is_workspace() => sent.ok().flatten(),
            CheckSubject::Contract(number) if run.works_apart(number) => {
                step.and_then(|step| self.ground.apart(&self.site.id.to_string(), &place(run, step)))
            }
            _ => None,
        };
        let (begins, unkept) = match self.begins_with(run, subject) {
            Ok(begins) => (begins, None),
            Err(error) => (None, Some(told(&error))),
        };
        let unseen = unseen.or(unkept);
        let tree = match &begins {
            // A control before the work runs on the tree that the work starts with.
            Some(start) if apart.is_none() && matches!(subject, CheckSubject::Control(_)) => {
                Some(start.tree.clone())
            }
            _ if apart.is_some() || self.begins_beside(run, subject) => self.tree_beside(run),
            _ => self.tree(run),
        };
        let before = run.began_with.clone().or_else(|| self.within.and_then(|within| within.tree.clone()));
        let compare = compared_with(run, subject, begins.as_ref(), [&tree, &before]);
        TaskInput::Check(Box::new(CheckOrder {
            subject,
            compare,
            check: contract.map(|contract| contract.check.clone()),
            timeout: own.map_or(usual, |timeout| timeout.value),
            attempt: step.and_then(|step| run.step(step.number)).map_or(0, |step| step.attempts),
            lost,
            tree,
            before,
            start: begins.filter(|_| matches!(subject, CheckSubject::Contract(_))),
            with_work,
            known: is_known(run, subject, contract) && !network && !left_alone,
            protect: protect.collect(),
            network,
            processes: self.processes(step),
            secrets,
            runs: step.and_then(|step| step.verify_runs.as_ref()).map_or(1, |runs| runs.value),
            min_proved: min_proved(run, subject),
            writes_tests: matches!(subject, CheckSubject::Contract(_))
                && step.is_some_and(Step::writes_tests),
            doubts: doubts(run, subject),
            held_apart: held_apart(run, subject).cloned(),
            // What lets a step or the plan pass is always run.
            reuses: matches!(subject, CheckSubject::Control(_)),
            worker: step.map(|step| run.role(step.number).to_owned()).unwrap_or_default(),
            apart,
            touches: step.filter(|_| matches!(subject, CheckSubject::Contract(_))).and_then(globs),
            home: self.home(run),
            unseen: unseen.or(withheld),
            limit: step.map(|step| budget::allows(run, step.number)).unwrap_or_default(),
        }))
    }

    /// Returns what the processes of a check may see of each other.
    fn processes(&self, step: Option<&Step>) -> Processes {
        match step.is_some_and(Step::is_hidden) {
            _ if self.site.config.verify.trace => Processes::Traceable,
            true => Processes::Unseen,
            false => Processes::Guarded,
        }
    }

    /// Returns whether this is the check before the work of a step that has a worktree of its own.
    fn begins_beside(&self, run: &Run, subject: CheckSubject) -> bool {
        matches!(subject, CheckSubject::Control(step) if self.side_by_side && run.works_apart(step))
    }

    /// Returns the tree that the attempt under check started with, or will start with.
    fn begins_with(&self, run: &Run, subject: CheckSubject) -> Result<Option<StartTree>, tree::Error> {
        match subject {
            CheckSubject::Contract(number) => Ok(run.step(number).and_then(|step| step.start.clone())),
            CheckSubject::Control(number) => match run.step(number) {
                Some(step) if run.under_way().any(|open| open == number) => Ok(step.start.clone()),
                _ => self.start(run, number),
            },
            CheckSubject::Precondition(_) | CheckSubject::Final(_) | CheckSubject::Postcondition(_) => {
                Ok(None)
            }
        }
    }

    /// Returns the secrets that a step names, with their values, or why its checks cannot have them.
    fn secrets(&self, step: Option<&Step>, network: bool) -> Result<Vec<(OsString, OsString)>, String> {
        let mut secrets = Vec::new();
        for name in step.into_iter().flat_map(|step| &step.secrets).map(|secret| secret.value.as_str()) {
            if !network {
                return Err(format!("{name} is given to a check with **network:** on only"));
            }
            if !self.site.config.verify.secrets.iter().any(|declared| declared == name) {
                return Err(format!(
                    "the step names the secret {name}; add secrets = [\"{name}\"] under [verify] in provost.toml"
                ));
            }
            let known = self.site.environment.iter().find(|(known, _)| known == name);
            let known = known.filter(|(_, value)| !value.is_empty());
            secrets.push(known.cloned().ok_or_else(|| {
                format!("{name} is not set where provost runs; set it (export {name}=…) and run again")
            })?);
        }
        Ok(secrets)
    }

    /// Runs the contract again on a kept tree, without the agent's workspace.
    pub fn recheck(&self, run: &Run, number: StepNumber, tree: Option<String>) -> Option<Verdict> {
        let TaskInput::Check(mut order) = self.check_order(run, CheckSubject::Final(number), false) else {
            return None;
        };
        (order.tree, order.with_work, order.known) = (tree, false, false);
        let shell = match order.check.clone() {
            Some(Check::Shell(shell)) => shell,
            Some(Check::Judge { .. }) => {
                let reason = "a model judged this, and its answer cannot be repeated";
                return Some(Verdict::not_run(self.ground.level, reason));
            }
            Some(Check::Human) | None => return None,
        };
        self.judge(&order, &shell).ok().map(|verdict| self.redacted(verdict))
    }

    /// Runs the contract of a step on the base, at most for `limit`.
    pub fn step_on_base(&self, run: &Run, number: StepNumber, limit: Duration) -> Option<Verdict> {
        self.on_base(self.check_order(run, CheckSubject::Control(number), false), limit)
    }

    /// Runs a postcondition on the base, at most for `limit`.
    pub fn postcondition_on_base(&self, run: &Run, number: u32, limit: Duration) -> Option<Verdict> {
        self.on_base(self.check_order(run, CheckSubject::Postcondition(number), false), limit)
    }

    /// Runs the contract of a step on the tree before its work, and `runs` times on a kept tree, or on the
    /// workspace as it is now. Returns `None` if the check is no command, or was interrupted.
    pub fn trial(
        &self,
        run: &Run,
        number: StepNumber,
        runs: u32,
        tree: Option<&str>,
    ) -> Option<(Verdict, Vec<Verdict>)> {
        let tag = format!("{}/try/{}", self.site.id, std::process::id());
        let judged = |subject, before: Option<BaseResult>| {
            let TaskInput::Check(mut order) = self.check_order(run, subject, false) else { return None };
            let Some(Check::Shell(shell)) = order.check.clone() else { return None };
            if let Some(reason) = &order.unseen {
                return Some(Verdict::not_run(self.ground.level, reason.as_str()));
            }
            (order.reuses, order.known) = (false, false);
            // Files that are in the workspace now are the work that is tried, not the start of an attempt.
            order.tree = if order.with_work { order.tree } else { self.tree(run) };
            if let (CheckSubject::Contract(_), Some(tree)) = (subject, tree) {
                (order.tree, order.with_work) = (Some(tree.to_owned()), false);
                (order.start, order.apart) = (None, None);
            }
            order.doubts.before = before.or(order.doubts.before.take());
            // Not `self.judge`, which ends what an attempt left running: another run may be under way.
            self.ground.judge(&self.case(&order, &shell, &tag)).ok().map(|verdict| self.redacted(verdict))
        };
        let base = match self.ground.level.has_clean_tree() {
            true => judged(CheckSubject::Control(number), None)?,
            false => Verdict::not_run(self.ground.level, "at this level provost has no base of its own"),
        };
        let before = base.outcome.is_result().then(|| BaseResult {
            held: base.held(),
            tests: base.tests,
            runners: base.runners.clone(),
        });
        let workspace = (0..runs.max(1)).map(|_| judged(CheckSubject::Contract(number), before.clone()));
        Some((base, workspace.collect::<Option<_>>()?))
    }

    /// Returns `None` if the check is no command, needs the network, or was interrupted.
    fn on_base(&self, order: TaskInput, limit: Duration) -> Option<Verdict> {
        let TaskInput::Check(mut order) = order else { return None };
        let Some(Check::Shell(shell)) = order.check.clone().filter(|_| !order.network) else { return None };
        order.timeout = order.timeout.min(limit);
        (order.with_work, order.runs, order.known, order.compare) = (false, 1, false, None);
        order.reuses = true;
        self.judge(&order, &shell).ok().map(|verdict| self.redacted(verdict))
    }

    pub(super) fn check(&self, order: &CheckOrder) -> Vec<TaskOutcome> {
        let not_run = |reason: &str| Ok(Verdict::not_run(self.ground.level, reason));
        let verdict = match (self.come_home(order.home.as_ref()), &order.check) {
            (Err(error), _) => not_run(&not_home(&error)),
            (Ok(()), _) if order.unseen.is_some() => not_run(order.unseen.as_deref().unwrap_or_default()),
            (Ok(()), Some(Check::Shell(shell))) => {
                let verdict = self.judge_in_sight(order, shell);
                let verdict = verdict.and_then(|verdict| self.blamed_on_others(order, shell, verdict));
                let verdict = verdict.and_then(|verdict| self.compared(order, shell, verdict));
                let verdict = verdict.and_then(|verdict| self.proved(order, shell, verdict));
                verdict.and_then(|verdict| self.tried_own_tests(order, shell, verdict))
            }
            (Ok(()), Some(Check::Human)) => not_run("a person confirms this step; no command checks it"),
            (Ok(()), Some(Check::Judge { rubric })) => self.judge_by_model(order, rubric),
            (Ok(()), None) => not_run("the approved plan has no such check"),
        };
        // An interrupted check has no verdict; it is due again next time.
        let Ok(verdict) = verdict.and_then(|verdict| self.send_passed(order, verdict)) else {
            return Vec::new();
        };
        let verdict = self.redacted(verdict);
        if let (Some(session), false) = (&self.session, order.lost) {
            let person = matches!(order.check, Some(Check::Human));
            if !verdict.held() && !person && !matches!(order.subject, CheckSubject::Control(_)) {
                session.end();
            }
            return vec![TaskOutcome::Harness(HarnessCommand::Looked {
                subject: order.subject,
                verdict: (!person).then_some(verdict),
                client: session.client.clone(),
            })];
        }
        let max_losses = self.site.config.run.max_lost_attempts;
        vec![TaskOutcome::Harness(if order.lost {
            HarnessCommand::JudgedLost { step: order.step(), verdict, max_losses }
        } else {
            HarnessCommand::Judged { subject: order.subject, verdict }
        })]
    }

    /// Runs the command of the rubric first; asks a model only if the command held.
    fn judge_by_model(&self, order: &CheckOrder, rubric: &str) -> Result<Verdict, Interrupted> {
        let command = rubric::command(rubric).unwrap_or_else(|| "true".to_owned());
        let shell = Shell { command, body: Span::default(), expectations: Vec::new() };
        let first = self.judge(order, &shell)?;
        if !first.held() {
            return Ok(first);
        }
        let tag = self.tag(order.step(), order.attempt);
        let bench = JudgeRequest {
            site: self.site,
            ground: &self.ground,
            metering: &self.metering,
            step: order.step(),
            worker: &order.worker,
            rubric,
            tag: &tag,
            timeout: self.site.config.run.step_timeout,
            limit: order.limit,
        };
        bench.judge(&self.case(order, &shell, &tag))
    }

    pub(super) fn case<'c>(&'c self, order: &'c CheckOrder, shell: &'c Shell, tag: &'c str) -> CheckSpec<'c> {
        CheckSpec {
            shell,
            timeout: order.timeout,
            tag,
            stop: Some(&self.site.stop),
            tree: order.tree.as_deref(),
            start: order.start.as_ref(),
            with_work: order.with_work,
            apart: order.apart.as_ref(),
            touches: order.touches.as_deref(),
            protect: &order.protect,
            network: order.network,
            processes: order.processes,
            given: CheckExtras { folders: Some(&self.site.config.verify.folders), secrets: &order.secrets },
            bounds: Some(self.site.config.run.bounds()),
            doubts: order.doubts.clone(),
            compare: match &order.compare {
                Some(tree) => Comparison::With(tree.as_deref()),
                None => Comparison::Nothing,
            },
            reuses: order.reuses,
            in_background: false,
            shown_to: None,
        }
    }

    pub(super) fn judge(&self, order: &CheckOrder, shell: &Shell) -> Result<Verdict, Interrupted> {
        self.judge_shown_to(order, shell, None)
    }

    /// Judges; `listener` sees the output meanwhile.
    pub(super) fn judge_shown_to(
        &self,
        order: &CheckOrder,
        shell: &Shell,
        listener: Option<OutputListener<'_>>,
    ) -> Result<Verdict, Interrupted> {
        if let (true, Some(tree)) = (order.known, &order.tree) {
            return Ok(Verdict::known(self.ground.level, tree));
        }
        let step = order.step();
        // No process of an attempt may be alive when it is judged.
        let known = self.haunted().get(&step).cloned();
        if self.is_strange(step) || order.lost || known.is_some() {
            let left = process::end_leftovers(&format!("{}/{step}/", self.site.id));
            let named = known.into_iter().flatten().filter(Survivor::is_alive);
            if let Some(survivor) = left.into_iter().chain(named).next() {
                let reason = format!("{survivor} of the attempt is still running and could not be ended");
                return Ok(Verdict::not_run(self.ground.level, reason));
            }
            self.haunted().remove(&step);
        }
        let tag = self.tag(step, order.attempt);
        let case = CheckSpec { shown_to: listener, ..self.case(order, shell, &tag) };
        let first = self.ground.judge(&case)?;
        let again = CheckSpec { doubts: Doubts { bite: false, ..case.doubts.clone() }, ..case };
        for run in 2..=order.runs {
            // A pass must hold in every run; a failure needs no second run.
            if !first.held() {
                break;
            }
            let again = self.ground.judge(&again)?;
            if !again.held() {
                let reason = format!("run {run} of {} disagreed: {}", order.runs, again.outcome);
                return Ok(Verdict { outcome: CheckOutcome::Flaky { reason }, ..again });
            }
        }
        Ok(match order.held_apart.clone().filter(|_| first.held()) {
            None => first,
            Some(Verdict { teeth, uncontrolled, rests_on, proved, .. }) => {
                Verdict { teeth, uncontrolled, rests_on, proved, ..first }
            }
        })
    }

    /// If a contract fails together with what other steps left meanwhile, says whether it holds without that.
    fn blamed_on_others(
        &self,
        order: &CheckOrder,
        shell: &Shell,
        mut verdict: Verdict,
    ) -> Result<Verdict, Interrupted> {
        let broke = matches!(verdict.outcome, CheckOutcome::Broke { .. });
        let own = order.apart.as_ref().map(|apart| apart.base.as_str());
        let own = own.filter(|base| verdict.base_id().is_some_and(|judged| judged != *base));
        let (Some(own), true, None) = (own, broke, &order.held_apart) else { return Ok(verdict) };
        let tag = self.tag(order.step(), order.attempt);
        let doubts = Doubts { bite: false, ..order.doubts.clone() };
        let compare = Comparison::Nothing;
        let case = CheckSpec { tree: Some(own), doubts, compare, ..self.case(order, shell, &tag) };
        if self.ground.judge(&case)?.held() {
            verdict.unmet.push(decide::HOLDS_ALONE.to_owned());
        }
        Ok(verdict)
    }

    /// If a postcondition holds, checks whether it also held before the work; needs a level with a clean
    /// tree.
    fn compared(&self, order: &CheckOrder, shell: &Shell, verdict: Verdict) -> Result<Verdict, Interrupted> {
        let is_due = matches!(order.subject, CheckSubject::Postcondition(_)) && verdict.held();
        if !is_due || !self.ground.level.has_clean_tree() {
            return Ok(verdict);
        }
        let tag = self.tag(order.step(), order.attempt);
        let case = CheckSpec {
            tree: order.before.as_deref(),
            with_work: false,
            compare: Comparison::Nothing,
            reuses: true,
            ..self.case(order, shell, &tag)
        };
        let held_before = match self.ground.judge(&case)?.outcome {
            CheckOutcome::Held => Some(true),
            outcome => outcome.is_result().then_some(false),
        };
        Ok(Verdict { held_before, ..verdict })
    }

    pub(super) fn redacted(&self, verdict: Verdict) -> Verdict {
        let clean = |excerpt: Excerpt| Excerpt {
            head: self.site.redactor.text(&excerpt.head).into_owned(),
            tail: self.site.redactor.text(&excerpt.tail).into_owned(),
            bytes: excerpt.bytes,
        };
        Verdict { stdout: clean(verdict.stdout), stderr: clean(verdict.stderr), ..verdict }
    }
}
