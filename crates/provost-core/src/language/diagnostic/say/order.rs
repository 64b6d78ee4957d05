//! Texts about what a step waits for, reads and is carried out by.

use super::{Code, D, clip_list, list, new};
use crate::model::plan::{Span, StepNumber};

pub fn file_missing(span: Span, path: &str) -> D {
    new(Code::FileMissing, span, format!("`{path}` does not exist and no earlier step names it"))
        .hint("Correct the path, or let an earlier step write the file.")
}

pub fn file_later(span: Span, path: &str, maker: StepNumber) -> D {
    new(Code::FileLater, span, format!("step {maker} makes `{path}`, but comes later"))
        .hint("Put that step first, or drop the subscription.")
}

pub fn topic_missing(span: Span, topic: &str) -> D {
    new(Code::TopicMissing, span, format!("no step publishes the topic `{topic}`"))
        .hint(format!("Write topics/{topic}.md beside the plan, have an earlier step say `**publishes:** {topic}`, or correct the name."))
}

pub fn needs_unknown(span: Span, number: StepNumber, steps: usize) -> D {
    new(Code::NeedsUnknown, span, format!("there is no step {number} to wait for"))
        .hint(format!("The plan has the steps 1 to {steps}."))
}

pub fn needs_itself(span: Span, number: StepNumber) -> D {
    new(Code::NeedsUnknown, span, format!("step {number} waits for itself")).hint("Remove it from `needs`.")
}

pub fn needs_later(span: Span, step: StepNumber, later: StepNumber) -> D {
    new(Code::NeedsLater, span, format!("step {step} needs step {later}, which comes after it"))
        .hint("Order the steps so that each comes after the steps it needs.")
}

pub fn step_cycle(span: Span, cycle: &[StepNumber]) -> D {
    let round: Vec<String> = cycle.iter().map(|step| step.to_string()).collect();
    new(Code::StepCycle, span, format!("steps wait for each other: {}", clip_list(&round)))
        .hint("Remove one of these from `needs`.")
}

pub fn plan_unknown(span: Span, slug: &str, nearest: Option<&str>) -> D {
    let d = new(Code::PlanUnknown, span, format!("there is no plan `{slug}`"));
    match nearest {
        Some(known) => d.hint(format!("Did you mean `{known}`?")).fix(span, known),
        None => d.hint(format!("provost looks for the file PLAN-{slug}.md beside this one.")),
    }
}

pub fn plan_cycle(span: Span, cycle: &[String]) -> D {
    new(Code::PlanCycle, span, format!("plans wait for each other: {}", clip_list(cycle)))
        .hint("Remove one of these from `depends_on`, or from a `**plan:**` field.")
}

pub fn nobody_is_told(span: Span, plan: &str) -> D {
    new(Code::TextUnread, span, format!("no agent gets this task: the plan `{plan}` carries out the step"))
        .hint("Remove `**task:**`, or move it into that plan.")
}

pub fn nobody_works(span: Span, target: &str, plan: &str) -> D {
    new(Code::TextUnread, span, format!("`{target}` gets no task: the plan `{plan}` carries out this step"))
        .hint("Remove `**target:**` or `**plan:**`.")
}

pub fn target_unknown(span: Span, target: &str, roles: &[&str], nearest: Option<&str>) -> D {
    let d = new(Code::TargetUnknown, span, format!("no agent is configured for `{target}`"));
    let known = format!(
        "Known roles are {}. For another one, add [agents.{target}] to provost.toml. There is no `driver \
         = \"human\"`: if a person does the work, make the contract `human`.",
        list(roles.iter().copied())
    );
    match nearest {
        Some(nearest) => d.hint(format!("Did you mean `{nearest}`? {known}")).fix(span, nearest),
        None => d.hint(known),
    }
}

pub fn no_targets(span: Span, target: &str) -> D {
    new(Code::NoTargets, span, format!("no agents are configured, so no agent can work as `{target}`"))
        .hint(format!("Add [agents.{target}] to provost.toml."))
}

pub fn agent_not_startable(span: Span, target: &str, why: &str) -> D {
    new(Code::AgentNotStartable, span, format!("the agent of `{target}` cannot be started: {why}"))
        .hint(format!("Install the program, or correct the command in [agents.{target}] of provost.toml."))
}
