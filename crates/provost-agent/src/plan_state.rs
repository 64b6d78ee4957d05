//! Holds the plan during a run, and applies what the model says about it.
//!
//! Each statement of the model is a method; a refusal tells the model what to do instead. The tools and the
//! loop share one holder.
//!
//! **Invariant:** a step or postcondition with a contract becomes done or verified only through [`Judge`].
//! Without a judge it stays a claim.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::call_log::{CallLog, Doubt};
use crate::event::AgentEvent;
use crate::plan::{AgentPlan, PlanAnswer, PlanStep, StepPostcondition, StepStatus};
use crate::{Future, truncate};

/// Most steps or postconditions, and most bytes of a text: the plan is sent again and again, so it has to
/// be short.
const PARTS: usize = 100;
const WORDS: usize = 1000;

/// Decides whether a contract holds. The model is never asked.
pub trait Judge: Send + Sync {
    fn judge<'a>(&'a self, contract: &'a str, evidence: &'a str) -> Future<'a, Judgement>;
}

/// A judge's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    Held,
    /// With the information that the model needs.
    Broke(String),
}

/// Why a statement of the model was refused, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanRefusal {
    #[error("no active plan; call plan_create first")]
    NoPlan,
    #[error("a plan needs an objective and at least one step; say what you will do, one step each")]
    EmptyPlan,
    #[error("{0} is empty; describe each step and each postcondition in a sentence")]
    EmptyPart(String),
    #[error("a plan has at most {PARTS} steps and as many postconditions; put small ones together")]
    TooManyParts,
    #[error(
        "this plan was given to you with its checks and cannot be replaced; mark a step 'blocked' with a reason if it cannot be done"
    )]
    Given,
    #[error("step_number {number} out of range (1..{count})")]
    NoSuchStep { number: u64, count: usize },
    #[error("postcondition_number {number} out of range (1..{count})")]
    NoSuchPostcondition { number: u64, count: usize },
    #[error("invalid status '{0}'; use pending/in_progress/done/blocked")]
    NoSuchStatus(String),
    #[error(
        "marking a step 'done' requires evidence. Describe what proved the step complete (for example 'wrote the file and read it back; content matches, call:7')"
    )]
    NoEvidence,
    #[error("marking a step 'blocked' requires a reason in evidence or notes: what is in the way?")]
    NoReason,
    #[error("evidence is required to verify a postcondition")]
    NoProof,
    #[error(
        "there is no call:{0}; cite the number at the start of a tool's answer, or describe what you saw"
    )]
    NoSuchCall(u64),
    #[error(
        "call:{call} does not show that: it answered `{answer}`; do what is missing, then cite a call that shows it"
    )]
    CallFailed { call: u64, answer: String },
    #[error(
        "call:{call} did not answer `{words}`: it answered `{answer}`; say what it showed, or cite another call"
    )]
    NotSaid { call: u64, words: String, answer: String },
    #[error("the check did not hold, so this is not done:\n{0}")]
    Broke(String),
}

impl From<Doubt> for PlanRefusal {
    fn from(doubt: Doubt) -> Self {
        match doubt {
            Doubt::NoSuchCall(call) => PlanRefusal::NoSuchCall(call),
            Doubt::Failed { call, answer } => PlanRefusal::CallFailed { call, answer },
            Doubt::NotSaid { call, words, answer } => PlanRefusal::NotSaid { call, words, answer },
        }
    }
}

/// The plan of one run, shared between its tools and its loop.
#[derive(Clone, Default)]
pub struct PlanHolder {
    plan: Arc<Mutex<Option<AgentPlan>>>,
    judge: Option<Arc<dyn Judge>>,
    events: Arc<Mutex<Vec<AgentEvent>>>,
}

impl PlanHolder {
    /// Creates a holder with a plan that exists before the first turn and is not the model's own.
    pub fn given(plan: AgentPlan) -> Self {
        Self { plan: Arc::new(Mutex::new(Some(plan))), ..Self::default() }
    }

    #[must_use]
    pub fn with_judge(mut self, judge: impl Judge + 'static) -> Self {
        self.judge = Some(Arc::new(judge));
        self
    }

    pub fn plan(&self) -> Option<AgentPlan> {
        self.lock().clone()
    }

    pub fn render(&self) -> Result<String, PlanRefusal> {
        self.lock().as_ref().map(AgentPlan::render).ok_or(PlanRefusal::NoPlan)
    }

    /// Returns the events of the plan since the last call.
    pub(crate) fn take_events(&self) -> Vec<AgentEvent> {
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Creates or replaces the plan; a replacement is reported as an event with a diff.
    pub fn create(
        &self,
        objective: String,
        steps: Vec<String>,
        postconditions: Vec<String>,
    ) -> Result<String, PlanRefusal> {
        if objective.trim().is_empty() || steps.is_empty() {
            return Err(PlanRefusal::EmptyPlan);
        }
        if steps.len() > PARTS || postconditions.len() > PARTS {
            return Err(PlanRefusal::TooManyParts);
        }
        let is_empty = |text: &String| text.trim().is_empty();
        if let Some(at) = steps.iter().position(is_empty) {
            return Err(PlanRefusal::EmptyPart(format!("step {}", at + 1)));
        }
        if let Some(at) = postconditions.iter().position(is_empty) {
            return Err(PlanRefusal::EmptyPart(format!("postcondition {}", at + 1)));
        }
        let new = AgentPlan {
            objective: short(&objective),
            steps: steps.iter().map(|step| PlanStep::new(short(step))).collect(),
            postconditions: postconditions.iter().map(|post| StepPostcondition::new(short(post))).collect(),
        };
        let mut plan = self.lock();
        let (steps, posts) = (new.steps.len(), new.postconditions.len());
        let event = match &*plan {
            Some(old) if old.has_contracts() => return Err(PlanRefusal::Given),
            Some(old) => AgentEvent::PlanRewritten { diff: old.diff(&new) },
            None => AgentEvent::PlanCreated { steps, postconditions: posts },
        };
        let verb = if plan.is_some() { "replaced, and the change recorded:" } else { "created with" };
        *plan = Some(new);
        self.tell(event);
        Ok(format!("plan {verb} {} and {}", counted(steps, "step"), counted(posts, "postcondition")))
    }

    pub async fn update_step(
        &self,
        ledger: &CallLog,
        number: u64,
        status: &str,
        evidence: String,
        notes: String,
    ) -> Result<String, PlanRefusal> {
        let contract = self.part(|plan| {
            let count = plan.steps.len();
            let step = find(&mut plan.steps, number).ok_or(PlanRefusal::NoSuchStep { number, count })?;
            Ok(step.contract.clone())
        })?;
        let status = match status {
            "pending" => StepStatus::Pending,
            "in_progress" => StepStatus::InProgress,
            "done" if evidence.trim().is_empty() => return Err(PlanRefusal::NoEvidence),
            "done" => StepStatus::Done,
            "blocked" if evidence.trim().is_empty() && notes.trim().is_empty() => {
                return Err(PlanRefusal::NoReason);
            }
            "blocked" => StepStatus::Blocked,
            other => return Err(PlanRefusal::NoSuchStatus(other.to_owned())),
        };
        match status {
            // A failed call may well be evidence that something is not done.
            StepStatus::Done => ledger.check_proof(&evidence)?,
            _ => ledger.check_citations(&evidence).map_err(PlanRefusal::NoSuchCall)?,
        }
        let status = match (status, contract) {
            (StepStatus::Done, Some(contract)) => match self.judged(&contract, &evidence).await {
                None => StepStatus::Claimed,
                Some(Judgement::Held) => StepStatus::Done,
                Some(Judgement::Broke(saw)) => return Err(PlanRefusal::Broke(saw)),
            },
            (status, _) => status,
        };
        self.part(|plan| {
            let count = plan.steps.len();
            let step = find(&mut plan.steps, number).ok_or(PlanRefusal::NoSuchStep { number, count })?;
            (step.status, step.evidence, step.notes) = (status, short(&evidence), short(&notes));
            Ok(())
        })?;
        self.tell(AgentEvent::StepUpdated { number, status });
        Ok(match status {
            StepStatus::Claimed => {
                format!("step {number}: your claim is noted; it is judged after you finish")
            }
            _ => format!("step {number} → {}", status.word()),
        })
    }

    pub async fn verify_postcondition(
        &self,
        ledger: &CallLog,
        number: u64,
        evidence: String,
        unmet: bool,
    ) -> Result<String, PlanRefusal> {
        let contract = self.part(|plan| {
            let count = plan.postconditions.len();
            let post = find(&mut plan.postconditions, number)
                .ok_or(PlanRefusal::NoSuchPostcondition { number, count })?;
            Ok(post.contract.clone())
        })?;
        if evidence.trim().is_empty() {
            return Err(PlanRefusal::NoProof);
        }
        match unmet {
            true => ledger.check_citations(&evidence).map_err(PlanRefusal::NoSuchCall)?,
            false => ledger.check_proof(&evidence)?,
        }
        let answer = match (unmet, contract) {
            (true, _) => PlanAnswer::Unmet,
            (false, None) => PlanAnswer::Verified,
            (false, Some(contract)) => match self.judged(&contract, &evidence).await {
                None => PlanAnswer::Claimed,
                Some(Judgement::Held) => PlanAnswer::Verified,
                Some(Judgement::Broke(saw)) => return Err(PlanRefusal::Broke(saw)),
            },
        };
        self.part(|plan| {
            let count = plan.postconditions.len();
            let post = find(&mut plan.postconditions, number)
                .ok_or(PlanRefusal::NoSuchPostcondition { number, count })?;
            (post.answer, post.evidence) = (answer, short(&evidence));
            Ok(())
        })?;
        self.tell(AgentEvent::PostconditionAnswered { number, answer });
        Ok(match answer {
            PlanAnswer::Unmet => format!("postcondition {number} is recorded as not met"),
            PlanAnswer::Claimed => {
                format!("postcondition {number}: your claim is noted; it is judged after you finish")
            }
            PlanAnswer::Verified | PlanAnswer::Open => format!("postcondition {number} verified"),
        })
    }

    async fn judged(&self, contract: &str, evidence: &str) -> Option<Judgement> {
        match &self.judge {
            Some(judge) => Some(judge.judge(contract, evidence).await),
            None => None,
        }
    }

    fn part<T>(&self, look: impl FnOnce(&mut AgentPlan) -> Result<T, PlanRefusal>) -> Result<T, PlanRefusal> {
        look(self.lock().as_mut().ok_or(PlanRefusal::NoPlan)?)
    }

    fn tell(&self, event: AgentEvent) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    fn lock(&self) -> MutexGuard<'_, Option<AgentPlan>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn short(text: &str) -> String {
    truncate::middle(text.trim(), WORDS, "too long for a plan")
}

/// Finds a part by its number in the rendered plan.
fn find<T>(parts: &mut [T], number: u64) -> Option<&mut T> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    parts.get_mut(index)
}

/// Writes a number with its noun: `1 step`, `2 steps`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(parts: &[&str]) -> Vec<String> {
        parts.iter().map(|part| (*part).to_owned()).collect()
    }

    async fn says(holder: &PlanHolder, number: u64, status: &str, evidence: &str) -> String {
        let ledger = CallLog::default();
        let said = holder.update_step(&ledger, number, status, evidence.to_owned(), String::new()).await;
        said.unwrap_or_else(|refusal| format!("refused: {refusal}"))
    }

    #[tokio::test]
    async fn the_refusals_say_what_to_do() {
        let holder = PlanHolder::default();
        assert_eq!(says(&holder, 1, "done", "x").await, "refused: no active plan; call plan_create first");
        holder.create("o".to_owned(), words(&["a", "b"]), words(&["p"])).expect("a plan");
        assert_eq!(says(&holder, 3, "done", "x").await, "refused: step_number 3 out of range (1..2)");
        assert_eq!(says(&holder, 0, "done", "x").await, "refused: step_number 0 out of range (1..2)");
        assert!(says(&holder, 1, "finished", "x").await.contains("pending/in_progress/done/blocked"));
        assert!(says(&holder, 1, "done", " ").await.contains("requires evidence"));
        assert!(says(&holder, 1, "blocked", "").await.contains("requires a reason"));
        assert!(says(&holder, 1, "done", "see call:4").await.contains("there is no call:4"));
        assert_eq!(says(&holder, 1, "done", "I saw it").await, "step 1 → done");
        assert_eq!(says(&holder, 2, "blocked", "no key").await, "step 2 → blocked");
        let ledger = CallLog::default();
        let empty = holder.verify_postcondition(&ledger, 1, String::new(), false).await;
        assert_eq!(empty, Err(PlanRefusal::NoProof));
        let away = holder.verify_postcondition(&ledger, 2, "x".to_owned(), false).await;
        assert_eq!(away, Err(PlanRefusal::NoSuchPostcondition { number: 2, count: 1 }));
    }

    struct Says(Judgement);

    impl Judge for Says {
        fn judge<'a>(&'a self, _: &'a str, _: &'a str) -> Future<'a, Judgement> {
            Box::pin(async { self.0.clone() })
        }
    }

    #[tokio::test]
    async fn with_a_contract_done_is_the_judges_word() {
        let plan = || AgentPlan::new("o").step_with_contract("a", "make test");
        let broke = PlanHolder::given(plan()).with_judge(Says(Judgement::Broke("1 failed".to_owned())));
        assert!(says(&broke, 1, "done", "all green").await.contains("1 failed"));
        assert_eq!(broke.plan().expect("a plan").steps[0].status, StepStatus::Pending);
        let held = PlanHolder::given(plan()).with_judge(Says(Judgement::Held));
        assert_eq!(says(&held, 1, "done", "all green").await, "step 1 → done");
        let nobody = PlanHolder::given(plan());
        assert!(says(&nobody, 1, "done", "all green").await.contains("judged after you finish"));
        assert_eq!(nobody.plan().expect("a plan").steps[0].status, StepStatus::Claimed);
    }

    #[test]
    fn a_given_plan_cannot_be_replaced_and_an_own_one_leaves_a_trace() {
        let given = PlanHolder::given(AgentPlan::new("o").step_with_contract("a", "true"));
        assert_eq!(given.create("o".to_owned(), words(&["b"]), vec![]), Err(PlanRefusal::Given));
        let own = PlanHolder::default();
        assert_eq!(own.create("o".to_owned(), vec![], vec![]), Err(PlanRefusal::EmptyPlan));
        let many = vec!["a".to_owned(); PARTS + 1];
        assert_eq!(own.create("o".to_owned(), many, vec![]), Err(PlanRefusal::TooManyParts));
        own.create("o".to_owned(), words(&["a"]), vec![]).expect("a plan");
        own.create("o".to_owned(), words(&["b"]), vec![]).expect("a plan");
        let diff = vec!["- step (pending): a".to_owned(), "+ step: b".to_owned()];
        let told = own.take_events();
        assert_eq!(
            told,
            [AgentEvent::PlanCreated { steps: 1, postconditions: 0 }, AgentEvent::PlanRewritten { diff }]
        );
    }
}
