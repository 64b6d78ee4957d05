//! Checks whether an agent is configured for each target.

use std::collections::BTreeSet;

use crate::language::diagnostic::say;
use crate::language::facts::Facts;
use crate::language::parse::Sink;
use crate::model::plan::Plan;
use crate::model::suggest;

pub(super) fn check(plan: &Plan, facts: &Facts, sink: &mut Sink) {
    let mut reported = BTreeSet::new();
    for target in plan.steps.iter().filter_map(|step| step.target.as_ref()) {
        if let Some(why) = facts.not_startable.get(&target.value)
            && reported.insert(&target.value)
        {
            sink.push(say::agent_not_startable(target.span, &target.value, why));
        }
    }
    let mut targets = plan.steps.iter().filter_map(|step| step.target.as_ref());
    if facts.targets.is_empty() {
        // No role is configured at all: one hint helps more than one error per step.
        if let Some(target) = targets.next() {
            sink.push(say::no_targets(target.span, &target.value));
        }
        return;
    }
    let roles: Vec<&str> = facts.targets.iter().map(String::as_str).collect();
    for target in targets.filter(|target| !facts.targets.contains(&target.value)) {
        let nearest = suggest::suggestion(&target.value, roles.iter().copied());
        sink.push(say::target_unknown(target.span, &target.value, &roles, nearest));
    }
}
