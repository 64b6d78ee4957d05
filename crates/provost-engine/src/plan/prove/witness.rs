//! Makes the statements of proofs from the events of a log.

use std::collections::BTreeMap;

use provost_core::model::chain::SealedEvent;
use provost_core::model::event::{CheckSubject as Judged, EndedAttempt, Event};
use provost_core::model::pass::Pass;
use provost_core::model::plan::{Check, StepNumber};
use provost_core::model::proof::{ProofStatement, ProofSubject};
use provost_core::model::usage::Cost;
use provost_core::model::verdict::Verdict;
use provost_core::state::run::{Run, StepState};
use serde_json::{Value, json};

/// Follows the log and makes the statement of each step that passes.
#[derive(Default)]
pub(super) struct Witness {
    verdicts: BTreeMap<StepNumber, Verdict>,
    costs: BTreeMap<StepNumber, Times>,
    whole: Times,
    attested: Value,
    head: Option<SealedEvent>,
}

impl Witness {
    pub(super) fn hear(&mut self, run: &Run, sealed: &SealedEvent, event: &Event) -> Option<ProofStatement> {
        self.head = Some(SealedEvent { details: String::new(), ..sealed.clone() });
        self.count(event);
        match event {
            Event::Judged { subject: Judged::Contract(step), verdict, .. } => {
                self.verdicts.insert(*step, verdict.clone());
                None
            }
            Event::IsolationAttested { .. } => {
                self.attested =
                    serde_json::to_value(event).map(|mut value| value["details"].take()).unwrap_or_default();
                None
            }
            Event::StepPassed { step, result, tree, .. } => {
                Some(self.step(run, sealed, *step, result, tree.as_deref()))
            }
            _ => None,
        }
    }

    fn count(&mut self, event: &Event) {
        let Some(number) = event.step() else { return };
        for cost in [self.costs.entry(number).or_default(), &mut self.whole] {
            match event {
                Event::AttemptEnded(EndedAttempt { duration_ms, .. }) => {
                    cost.attempts += 1;
                    cost.agent_ms += duration_ms;
                }
                Event::Judged { verdict, .. } => cost.check_ms += verdict.duration_ms,
                _ => {}
            }
        }
    }

    fn step(
        &mut self,
        run: &Run,
        sealed: &SealedEvent,
        number: StepNumber,
        result: &str,
        tree: Option<&str>,
    ) -> ProofStatement {
        let mut predicate = self.about(run, sealed);
        predicate["step"] = json!({ "number": number, "title": run.title(number) });
        predicate["contract"] = contract(run, number);
        predicate["verdict"] = json!(self.verdicts.remove(&number));
        predicate["result"] = json!(result);
        predicate["pass"] = json!(run.pass(number));
        predicate["check_by"] = json!(run.check_author(number).map(|author| author.to_string()));
        let times = self.costs.get(&number).copied().unwrap_or_default();
        predicate["cost"] = times.told(run.ledger.cost_of(number));
        predicate["timestamp"] = json!(sealed.at.to_string());
        ProofStatement::new(subjects(&sealed.hash.to_string(), tree), predicate)
    }

    /// Returns the statement about the plan, with the head of its log.
    pub(super) fn plan(&self, run: &Run) -> Option<ProofStatement> {
        let head = self.head.as_ref()?;
        let mut predicate = self.about(run, head);
        predicate["stage"] = json!(run.stage.word());
        predicate["summary"] = json!(run.summary());
        predicate["waived"] = waived(run);
        predicate["passes"] = passes(run);
        predicate["postconditions"] = postconditions(run);
        predicate["cost"] = self.whole.told(run.ledger.cost());
        Some(ProofStatement::new(subjects(&head.hash.to_string(), run.tree.as_deref()), predicate))
    }

    /// Returns a statement about the head of the log only.
    pub(super) fn stopped(&self) -> Option<ProofStatement> {
        let head = self.head.as_ref()?;
        let log = json!({ "seq": head.seq, "hash": head.hash.to_string() });
        let predicate =
            json!({ "plan": head.plan, "stage": "stopped", "isolation": self.attested, "log": log });
        Some(ProofStatement::new(subjects(&head.hash.to_string(), None), predicate))
    }

    fn about(&self, run: &Run, at: &SealedEvent) -> Value {
        json!({
            "plan": at.plan,
            "title": run.plan.title,
            "revision": run.revision,
            "base": run.binding.base,
            "approver": run.approvers(),
            "isolation": self.attested,
            "log": { "seq": at.seq, "hash": at.hash.to_string() },
        })
    }
}

/// Effort, as far as it is known; uncounted is not the same as zero.
#[derive(Clone, Copy, Default)]
struct Times {
    attempts: u32,
    agent_ms: u64,
    check_ms: u64,
}

impl Times {
    fn told(self, cost: Cost) -> Value {
        json!({
            "attempts": self.attempts,
            "agentMs": self.agent_ms,
            "checkMs": self.check_ms,
            "tokens": cost.tokens.filter(|_| self.attempts > 0),
            "usd": cost.micro_usd.filter(|_| self.attempts > 0).map(|micro| micro as f64 / 1e6),
        })
    }
}

/// Returns the number of passed steps by kind of pass.
fn passes(run: &Run) -> Value {
    let passes = run.passes_by_kind();
    Pass::ALL.into_iter().map(|pass| (pass.key().to_owned(), json!(passes.count(pass)))).collect()
}

/// Returns the postconditions that held, with the kind of pass; one that held before the work proves nothing
/// about it.
fn postconditions(run: &Run) -> Value {
    let held = run.postconditions().filter_map(|(post, _)| {
        let pass = run.post_pass(post.number)?;
        let uncontrolled = run.post_uncontrolled(post.number);
        Some(json!({
            "number": post.number, "description": post.description, "pass": pass, "uncontrolled": uncontrolled,
        }))
    });
    held.collect()
}

/// Returns the waived steps and who waived them; every proof of a plan contains them.
fn waived(run: &Run) -> Value {
    let waived = run.steps().filter_map(|(step, state)| match &state.state {
        StepState::Waived { by } => Some(json!({ "number": step.number, "title": step.title, "by": by })),
        _ => None,
    });
    waived.collect()
}

fn contract(run: &Run, number: StepNumber) -> Value {
    let contract = run.plan.step(number).and_then(|step| step.contract.as_ref());
    match contract.map(|contract| &contract.check) {
        Some(Check::Shell(shell)) => {
            let expectations: Vec<String> = shell.expectations.iter().map(|e| e.value.to_string()).collect();
            json!({ "kind": "shell", "command": shell.command, "expectations": expectations })
        }
        Some(Check::Human) => json!({ "kind": "human" }),
        Some(Check::Judge { rubric }) => json!({ "kind": "judge", "rubric": rubric }),
        None => Value::Null,
    }
}

fn subjects(log: &str, tree: Option<&str>) -> Vec<ProofSubject> {
    let mut subjects = vec![ProofSubject::new("log", log)];
    subjects.extend(tree.map(|tree| ProofSubject::new("tree", tree)));
    subjects
}
