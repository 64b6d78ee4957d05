//! The real world: the workspace, its plan file, its agents and the judge.
//!
//! An order carries everything a deed needs, taken from the run on the loop's thread; carrying it out
//! touches the machine and nothing of the run.
//!
//! **Invariant:** the contract that is run is the one of the revision in the log, never of a file.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use provost_core::chain::{Hash, PlanId, Timestamp};
use provost_core::command::{AgentCommand, HarnessCommand};
use provost_core::event::{AttemptEnd, Subject};
use provost_core::law::{self, Law};
use provost_core::parse;
use provost_core::plan::{Check, Contract, Shell, StepNumber, Subscription};
use provost_core::prompt::{self, Context};
use provost_core::redact::Redactor;
use provost_core::run::Run;
use provost_core::schedule::Action;
use provost_core::verdict::{Excerpt, Isolation, Verdict};
use provost_host::agent::Work;
use provost_host::config::Config;
use provost_host::judge::{self, Court};
use provost_host::plan_file::{self, PlanPlace, Stamp};
use provost_host::{files, process, roster};

use crate::world::{Said, World};

/// At most this much of a subscribed file reaches a prompt.
const CONTEXT_BYTES: usize = 64 * 1024;

pub struct Site {
    pub place: PlanPlace,
    pub id: PlanId,
    pub config: Config,
    pub redactor: Redactor,
    /// How the scripted agent is started: this program with a hidden subcommand.
    pub launcher: Vec<OsString>,
    pub stop: Arc<AtomicBool>,
    /// The plan file as it was when its law was last found to be this one.
    lawful: Mutex<Option<(Stamp, Hash)>>,
}

/// A deed to be done.
pub enum Order {
    Attempt { step: StepNumber, attempt: u32, target: String, prompt: String, timeout: Duration },
    Check { subject: Subject, check: Option<Check>, timeout: Duration, attempt: u32, lost: bool },
    Nothing,
}

impl Site {
    pub fn new(
        place: PlanPlace,
        config: Config,
        redactor: Redactor,
        launcher: Vec<OsString>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let id = plan_file::id(&place);
        Self { place, id, config, redactor, launcher, stop, lawful: Mutex::new(None) }
    }

    /// The plan file holds the run's law: no need to read it again until it moves.
    pub fn now_lawful(&self, stamp: Stamp, run: &Run) {
        let mut lawful = self.lawful.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *lawful = run.law.map(|law| (stamp, law));
    }

    /// The plan file has not moved since it was found to hold the run's law.
    pub fn is_lawful(&self, stamp: Stamp, run: &Run) -> bool {
        let lawful = *self.lawful.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        lawful.is_some_and(|(known, law)| known == stamp && run.law == Some(law))
    }

    fn tag(&self, step: StepNumber, attempt: u32) -> String {
        format!("{}/{step}/{attempt}", self.id)
    }

    fn contract_timeout(&self, run: &Run, step: Option<StepNumber>) -> Duration {
        let own = step.and_then(|step| run.plan.step(step)).and_then(|step| step.contract_timeout.as_ref());
        own.map_or(self.config.verify.contract_timeout, |timeout| timeout.value)
    }

    fn attempt_order(&self, run: &Run, number: StepNumber) -> Order {
        let Some(step) = run.plan.step(number) else { return Order::Nothing };
        let context: Vec<Context> =
            step.subscriptions.iter().map(|subscription| self.context(&subscription.value)).collect();
        let prompt = prompt::step(run, number, &context);
        let target = step.target.as_ref().map(|target| target.value.clone()).unwrap_or_default();
        let role = self.config.agents.get(&target).and_then(|role| role.timeout);
        let timeout = step.timeout.as_ref().map(|timeout| timeout.value).or(role);
        Order::Attempt {
            step: number,
            attempt: run.step(number).map_or(1, |step| step.attempts),
            target,
            prompt: self.redactor.text(&prompt).into_owned(),
            timeout: timeout.unwrap_or(self.config.run.step_timeout),
        }
    }

    fn check_order(&self, run: &Run, subject: Subject, lost: bool) -> Order {
        let (contract, step): (Option<&Contract>, _) = match subject {
            Subject::Precondition(number) => {
                (run.plan.step(number).and_then(|step| step.precondition.as_ref()), Some(number))
            }
            Subject::Contract(number) | Subject::Control(number) => {
                (run.plan.step(number).and_then(|step| step.contract.as_ref()), Some(number))
            }
            Subject::Postcondition(number) => {
                let found = run.plan.postconditions.iter().find(|post| post.number == number);
                (found.and_then(|post| post.contract.as_ref()), None)
            }
        };
        Order::Check {
            subject,
            check: contract.map(|contract| contract.check.clone()),
            timeout: self.contract_timeout(run, step),
            attempt: step.and_then(|step| run.step(step)).map_or(0, |step| step.attempts),
            lost,
        }
    }

    fn context(&self, subscription: &Subscription) -> Context {
        let (name, path) = match subscription {
            Subscription::File(path) => (format!("file:{path}"), self.place.workspace.join(path)),
            Subscription::Topic(topic) => {
                (format!("topic:{topic}"), self.place.dir.join("topics").join(format!("{topic}.md")))
            }
        };
        let content = files::beginning(&path, CONTEXT_BYTES).map_err(|error| error.to_string());
        Context { name, content }
    }

    fn attempt(
        &self,
        step: StepNumber,
        attempt: u32,
        target: &str,
        prompt: &str,
        timeout: Duration,
    ) -> Vec<Said> {
        let tag = self.tag(step, attempt);
        let ended = |end, duration_ms, report| {
            Said::Harness(HarnessCommand::AttemptEnded { step, attempt, end, duration_ms, report })
        };
        let agent = match roster::agent(&self.config, target, &self.launcher) {
            Ok(agent) => agent,
            Err(reason) => {
                return vec![ended(AttemptEnd::NotStarted { reason }, 0, String::new())];
            }
        };
        let work = Work {
            prompt,
            workspace: &self.place.workspace,
            step,
            attempt,
            timeout,
            tag: &tag,
            stop: Some(&self.stop),
        };
        let Ok(done) = agent.attempt(&work) else {
            return vec![Said::Harness(HarnessCommand::AttemptInterrupted { step, attempt })];
        };
        let words = self.redactor.text(done.report.trim()).into_owned();
        let duration_ms = done.duration.as_millis() as u64;
        // The last words of an agent that ended well are its claim; of any other, its report.
        if done.end == (AttemptEnd::Exited { exit_code: 0 }) && !words.is_empty() {
            let claim = Said::Agent(AgentCommand::Claim { step, evidence: words });
            return vec![ended(done.end, duration_ms, String::new()), claim];
        }
        let report = if words.is_empty() {
            self.redactor.text(done.stderr.to_string().trim()).into_owned()
        } else {
            words
        };
        vec![ended(done.end, duration_ms, report)]
    }

    fn check(
        &self,
        subject: Subject,
        check: Option<Check>,
        timeout: Duration,
        attempt: u32,
        lost: bool,
    ) -> Vec<Said> {
        let step = match subject {
            Subject::Precondition(step) | Subject::Control(step) | Subject::Contract(step) => step,
            Subject::Postcondition(_) => StepNumber(0),
        };
        let verdict = match check {
            Some(Check::Shell(shell)) => self.judge(&shell, timeout, step, attempt, lost),
            Some(Check::Human) => Ok(not_run("a person confirms this, no command does")),
            Some(Check::Judge { .. }) => Ok(not_run("no model judges in this version")),
            None => Ok(not_run("the approved plan has no such check")),
        };
        // A check that was interrupted says nothing; it is due again next time.
        let Ok(verdict) = verdict else { return Vec::new() };
        let verdict = self.redacted(verdict);
        vec![Said::Harness(if lost {
            HarnessCommand::JudgedLost { step, verdict, max_losses: self.config.run.max_lost_attempts }
        } else {
            HarnessCommand::Judged { subject, verdict }
        })]
    }

    fn judge(
        &self,
        shell: &Shell,
        timeout: Duration,
        step: StepNumber,
        attempt: u32,
        lost: bool,
    ) -> Result<Verdict, provost_host::Interrupted> {
        if lost {
            let left = process::end_leftovers(&format!("{}/{step}/", self.id));
            if !left.is_empty() {
                return Ok(not_run("processes of the lost attempt could not be ended"));
            }
        }
        judge::contract(
            shell,
            &Court {
                workspace: &self.place.workspace,
                timeout,
                tag: &self.tag(step, attempt),
                stop: Some(&self.stop),
                isolation: Isolation::InPlace,
            },
        )
    }

    fn redacted(&self, verdict: Verdict) -> Verdict {
        let clean = |excerpt: Excerpt| Excerpt {
            head: self.redactor.text(&excerpt.head).into_owned(),
            tail: self.redactor.text(&excerpt.tail).into_owned(),
            bytes: excerpt.bytes,
        };
        Verdict { stdout: clean(verdict.stdout), stderr: clean(verdict.stderr), ..verdict }
    }
}

fn not_run(reason: &str) -> Verdict {
    Verdict::not_run(Isolation::InPlace, reason)
}

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_millis() as u64)
}

impl World for Site {
    type Order = Order;

    fn now(&self) -> Timestamp {
        now()
    }

    fn law_changes(&self, run: &Run) -> Option<Vec<String>> {
        match plan_file::stamp(&self.place.path) {
            Ok(stamp) if self.is_lawful(stamp, run) => return None,
            Ok(_) => {}
            Err(error) => return Some(vec![error.to_string()]),
        }
        let found = match plan_file::read(&self.place.path) {
            Ok(found) => found,
            Err(error) => return Some(vec![error.to_string()]),
        };
        let text = String::from_utf8_lossy(&found.bytes);
        let plan = parse::plan(&text).plan;
        if run.law == Some(law::digest(&text, &plan)) {
            self.now_lawful(found.stamp, run);
            return None;
        }
        let approved = Law { text: &run.text, plan: &run.plan, base: None, files: &[] };
        Some(law::diff(approved, Law { text: &text, plan: &plan, base: None, files: &[] }))
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn order(&self, run: &Run, action: Action) -> Order {
        match action {
            Action::Dispatch { step } => self.attempt_order(run, step),
            Action::Judge { subject } => self.check_order(run, subject, false),
            Action::JudgeLost { step, .. } => self.check_order(run, Subject::Contract(step), true),
            Action::End => Order::Nothing,
        }
    }

    fn perform(&self, order: Order) -> Vec<Said> {
        match order {
            Order::Attempt { step, attempt, target, prompt, timeout } => {
                self.attempt(step, attempt, &target, &prompt, timeout)
            }
            Order::Check { subject, check, timeout, attempt, lost } => {
                self.check(subject, check, timeout, attempt, lost)
            }
            Order::Nothing => Vec::new(),
        }
    }
}
