//! Checks the plans that must be done first and the sub-plans: do they exist, and do they wait for this one?

use std::collections::HashMap;

use crate::language::diagnostic::say;
use crate::language::facts::Facts;
use crate::language::parse::Sink;
use crate::model::plan::Plan;
use crate::model::suggest;

pub(super) fn check(plan: &Plan, facts: &Facts, sink: &mut Sink) {
    let carrying = plan.steps.iter().filter_map(|step| step.plan.as_ref());
    for slug in plan.depends_on.iter().chain(carrying) {
        if slug.value == facts.slug {
            sink.push(say::plan_cycle(slug.span, &[slug.value.clone(), slug.value.clone()]));
        } else if !facts.plans.contains_key(&slug.value) {
            let nearest = suggest::suggestion(&slug.value, facts.plans.keys().map(String::as_str));
            sink.push(say::plan_unknown(slug.span, &slug.value, nearest));
        } else if let Some(round) = way_back(&slug.value, facts) {
            sink.push(say::plan_cycle(slug.span, &round));
        }
    }
}

/// Returns the path from `slug` back to the plan itself.
fn way_back(slug: &str, facts: &Facts) -> Option<Vec<String>> {
    let mut came_from: HashMap<&str, &str> = HashMap::new();
    let mut open = vec![slug];
    while let Some(here) = open.pop() {
        for next in facts.plans.get(here).into_iter().flatten() {
            if *next == facts.slug {
                return Some(path(here, slug, &came_from, &facts.slug));
            }
            if next != slug && !came_from.contains_key(next.as_str()) {
                came_from.insert(next, here);
                open.push(next);
            }
        }
    }
    None
}

fn path(last: &str, first: &str, came_from: &HashMap<&str, &str>, this: &str) -> Vec<String> {
    let mut round = vec![this.to_string(), last.to_string()];
    let mut here = last;
    while here != first
        && let Some(before) = came_from.get(here)
    {
        here = before;
        round.push(here.to_string());
    }
    round.push(this.to_string());
    round.reverse();
    round
}
