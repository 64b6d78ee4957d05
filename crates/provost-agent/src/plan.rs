//! The agent's own plan: steps to do, and postconditions that must hold at the end.
//!
//! The plan lives outside the transcript, so shortening the transcript cannot lose it. The model changes it
//! through tools only, by the rules of [`crate::plan_state`].
//!
//! **Invariant:** a plan is ready if every step is over and every postcondition is answered. Only this
//! module computes that.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Progress of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepStatus {
    Pending,
    InProgress,
    /// The model claims that it is done; provost judges it after the run.
    Claimed,
    Done,
    Blocked,
}

impl StepStatus {
    pub fn word(self) -> &'static str {
        match self {
            StepStatus::Pending => "pending",
            StepStatus::InProgress => "in_progress",
            StepStatus::Claimed => "claimed",
            StepStatus::Done => "done",
            StepStatus::Blocked => "blocked",
        }
    }

    fn mark(self) -> &'static str {
        match self {
            StepStatus::Pending => "[ ]",
            // Not done until it is judged.
            StepStatus::InProgress | StepStatus::Claimed => "[.]",
            StepStatus::Done => "[x]",
            StepStatus::Blocked => "[!]",
        }
    }

    /// Returns whether the model has nothing more to do for the step.
    pub fn is_over(self) -> bool {
        match self {
            StepStatus::Claimed | StepStatus::Done | StepStatus::Blocked => true,
            StepStatus::Pending | StepStatus::InProgress => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    pub description: String,
    pub status: StepStatus,
    /// The evidence that the step is done, or the reason why it is blocked.
    pub evidence: String,
    pub notes: String,
    /// A check that decides: with one, the judge marks the step as done, not the model.
    pub contract: Option<String>,
}

impl PlanStep {
    pub fn new(description: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            status: StepStatus::Pending,
            evidence: String::new(),
            notes: String::new(),
            contract: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPostcondition {
    pub description: String,
    pub answer: PlanAnswer,
    pub evidence: String,
    pub contract: Option<String>,
}

/// The model's answer to a postcondition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanAnswer {
    Open,
    /// The model claims that it holds; it is judged after the run.
    Claimed,
    Verified,
    /// The model says that it does not hold, and why: an honest end, but not a success.
    Unmet,
}

impl StepPostcondition {
    pub fn new(description: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            answer: PlanAnswer::Open,
            evidence: String::new(),
            contract: None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPlan {
    pub objective: String,
    pub steps: Vec<PlanStep>,
    pub postconditions: Vec<StepPostcondition>,
}

/// State of a plan, as the gate sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Steps are open or postconditions unanswered.
    Open,
    /// Everything is answered, but something could not be done.
    Blocked,
    Ready,
}

impl AgentPlan {
    pub fn new(objective: impl Into<String>) -> Self {
        Self { objective: objective.into(), ..Self::default() }
    }

    /// Opens the postconditions again, because a check has shown that the work is not done.
    #[must_use]
    pub(crate) fn reopened(mut self) -> Self {
        for post in &mut self.postconditions {
            (post.answer, post.evidence) = (PlanAnswer::Open, String::new());
        }
        self
    }

    #[must_use]
    pub fn step(mut self, description: impl Into<String>) -> Self {
        self.steps.push(PlanStep::new(description));
        self
    }

    /// Adds a step that the model cannot mark as done by itself.
    #[must_use]
    pub fn step_with_contract(mut self, description: impl Into<String>, contract: impl Into<String>) -> Self {
        self.steps.push(PlanStep { contract: Some(contract.into()), ..PlanStep::new(description) });
        self
    }

    #[must_use]
    pub fn postcondition(mut self, description: impl Into<String>) -> Self {
        self.postconditions.push(StepPostcondition::new(description));
        self
    }

    /// Adds a postcondition that the model cannot verify by itself.
    #[must_use]
    pub fn postcondition_with_contract(
        mut self,
        description: impl Into<String>,
        contract: impl Into<String>,
    ) -> Self {
        let contract = Some(contract.into());
        self.postconditions.push(StepPostcondition { contract, ..StepPostcondition::new(description) });
        self
    }

    /// Returns whether the plan has contracts: then it was given to the model, which must not replace it.
    pub fn has_contracts(&self) -> bool {
        let of_steps = self.steps.iter().map(|step| &step.contract);
        of_steps.chain(self.postconditions.iter().map(|post| &post.contract)).any(Option::is_some)
    }

    pub fn readiness(&self) -> Readiness {
        let is_open = self.steps.iter().any(|step| !step.status.is_over())
            || self.postconditions.iter().any(|post| post.answer == PlanAnswer::Open);
        let is_blocked = self.steps.iter().any(|step| step.status == StepStatus::Blocked)
            || self.postconditions.iter().any(|post| post.answer == PlanAnswer::Unmet);
        match (is_open, is_blocked) {
            (true, _) => Readiness::Open,
            (false, true) => Readiness::Blocked,
            (false, false) => Readiness::Ready,
        }
    }

    /// Returns what keeps a final answer from being accepted, one phrase each.
    pub fn missing(&self) -> Vec<String> {
        let steps = self.steps.iter().zip(1..).filter(|(step, _)| !step.status.is_over());
        let posts = self.postconditions.iter().zip(1..).filter(|(post, _)| post.answer == PlanAnswer::Open);
        let steps = steps.map(|(step, number)| format!("step {number} is {}", step.status.word()));
        steps.chain(posts.map(|(_, number)| format!("postcondition {number} is not verified"))).collect()
    }

    /// Returns the plan as the model reads it.
    pub fn render(&self) -> String {
        let mut out = format!("# Plan: {}\n\n## Steps", self.objective);
        for (step, number) in self.steps.iter().zip(1..) {
            let _ = write!(out, "\n{number}. {} {}", step.status.mark(), step.description);
            match step.status {
                _ if step.evidence.is_empty() => {}
                StepStatus::Claimed => _ = write!(out, "\n   claimed: {}", step.evidence),
                _ => _ = write!(out, "\n   evidence: {}", step.evidence),
            }
            if !step.notes.is_empty() {
                let _ = write!(out, "\n   notes: {}", step.notes);
            }
        }
        out.push_str("\n\n## Postconditions");
        for (post, number) in self.postconditions.iter().zip(1..) {
            let mark = match post.answer {
                PlanAnswer::Open => "[ ]",
                PlanAnswer::Claimed => "[.]",
                PlanAnswer::Verified => "[x]",
                PlanAnswer::Unmet => "[!]",
            };
            let _ = write!(out, "\n{number}. {mark} {}", post.description);
            match post.answer {
                _ if post.evidence.is_empty() => {}
                PlanAnswer::Claimed => _ = write!(out, "\n   claimed: {}", post.evidence),
                _ => _ = write!(out, "\n   evidence: {}", post.evidence),
            }
        }
        out
    }

    /// Returns the lines that another plan removes and adds.
    pub fn diff(&self, new: &AgentPlan) -> Vec<String> {
        let mut out = Vec::new();
        if self.objective != new.objective {
            out.push(format!("- objective: {}", self.objective));
            out.push(format!("+ objective: {}", new.objective));
        }
        let old_steps = self.steps.iter().map(|step| (step.description.as_str(), step.status.word()));
        let new_steps = new.steps.iter().map(|step| step.description.as_str());
        difference("step", old_steps, new_steps, &mut out);
        let old_posts = self.postconditions.iter().map(|post| {
            (post.description.as_str(), if post.answer == PlanAnswer::Open { "open" } else { "answered" })
        });
        let new_posts = new.postconditions.iter().map(|post| post.description.as_str());
        difference("postcondition", old_posts, new_posts, &mut out);
        out
    }
}

/// Adds the entries that are in only one of two lists, compared by their text; removed ones with their
/// progress.
fn difference<'p>(
    kind: &str,
    old: impl Iterator<Item = (&'p str, &'p str)>,
    new: impl Iterator<Item = &'p str>,
    out: &mut Vec<String>,
) {
    let mut added: Vec<&str> = new.collect();
    for (description, how_far) in old {
        match added.iter().position(|each| *each == description) {
            Some(at) => _ = added.remove(at),
            None => out.push(format!("- {kind} ({how_far}): {description}")),
        }
    }
    out.extend(added.into_iter().map(|description| format!("+ {kind}: {description}")));
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_plan_reads_as_the_model_is_told() {
        let mut plan = AgentPlan::new("weigh three files")
            .step("weigh a")
            .step("weigh b")
            .step("weigh c")
            .step_with_contract("write the summary", "test -s summary.md")
            .postcondition("the largest is named")
            .postcondition("nothing was changed");
        plan.steps[0].status = StepStatus::Done;
        plan.steps[0].evidence = "12 bytes, call:1".to_owned();
        plan.steps[1].status = StepStatus::Blocked;
        plan.steps[1].notes = "no such file".to_owned();
        plan.steps[2].status = StepStatus::InProgress;
        plan.steps[3].status = StepStatus::Claimed;
        plan.steps[3].evidence = "written".to_owned();
        plan.postconditions[0].answer = PlanAnswer::Verified;
        plan.postconditions[0].evidence = "a".to_owned();
        expect![[r#"
            # Plan: weigh three files

            ## Steps
            1. [x] weigh a
               evidence: 12 bytes, call:1
            2. [!] weigh b
               notes: no such file
            3. [.] weigh c
            4. [.] write the summary
               claimed: written

            ## Postconditions
            1. [x] the largest is named
               evidence: a
            2. [ ] nothing was changed"#]]
        .assert_eq(&plan.render());
        assert_eq!(plan.missing(), ["step 3 is in_progress", "postcondition 2 is not verified"]);
    }

    #[test]
    fn ready_is_when_nothing_is_open_and_blocked_is_said_so() {
        let mut plan = AgentPlan::new("x").step("a").postcondition("p");
        assert_eq!(plan.readiness(), Readiness::Open);
        plan.steps[0].status = StepStatus::Done;
        assert_eq!(plan.readiness(), Readiness::Open);
        plan.postconditions[0].answer = PlanAnswer::Verified;
        assert_eq!(plan.readiness(), Readiness::Ready);
        plan.steps[0].status = StepStatus::Blocked;
        assert_eq!(plan.readiness(), Readiness::Blocked);
    }

    #[test]
    fn a_rewrite_shows_what_went_and_how_far_it_was() {
        let mut old = AgentPlan::new("x").step("a").step("b").postcondition("p");
        old.steps[1].status = StepStatus::InProgress;
        let new = AgentPlan::new("x").step("a").step("c").step("a");
        expect![[r#"
            - step (in_progress): b
            + step: c
            + step: a
            - postcondition (open): p"#]]
        .assert_eq(&old.diff(&new).join("\n"));
        assert!(old.diff(&old).is_empty());
    }
}
