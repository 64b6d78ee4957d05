//! Checks what a plan may change, and whether that includes its own checks.

use std::collections::HashSet;

use crate::language::diagnostic::say;
use crate::language::facts::{self, Facts};
use crate::language::globs;
use crate::language::globs::overlap::GlobSet;
use crate::language::parse::Sink;
use crate::model::plan::{Plan, Span, Spanned};

pub(super) fn check(plan: &Plan, facts: &Facts, sink: &mut Sink) {
    match &plan.touches {
        // Without git there is no base to compare with, so the field would have no effect.
        None if facts.git && !plan.steps.is_empty() => {
            sink.push(say::touches_absent(plan.status.as_ref().map_or(Span::at(0), |status| status.span)));
        }
        None => {}
        Some(globs) => {
            for glob in globs {
                if matches!(glob.value.as_str(), "**" | "*" | "**/*" | "." | "./**") {
                    sink.push(say::touches_everything(glob.span));
                }
            }
        }
    }
    let reach = plan.touches.as_ref().map(|globs| GlobSet::new(&values(globs)));
    for glob in plan.steps.iter().flat_map(|step| step.touches.iter().flatten()) {
        let own = || GlobSet::new(&[&glob.value]);
        if refusal(glob).is_none() && reach.as_ref().is_some_and(|reach| reach.meets(&own()).is_none()) {
            sink.push(say::touches_outside(glob.span, &glob.value));
        }
    }
    for glob in facts::globs_of(plan).filter(|glob| facts.ignored_globs.contains(&glob.value)) {
        sink.push(say::touches_ignored(glob.span, &glob.value));
    }
    let mut known: HashSet<&str> = HashSet::new();
    let of_steps =
        plan.steps.iter().flat_map(|step| step.protect.iter().chain(step.touches.iter().flatten()));
    for glob in plan.touches.iter().flatten().chain(of_steps) {
        if known.insert(&glob.value)
            && let Some(why) = refusal(glob)
        {
            sink.push(say::glob_invalid(glob.span, &glob.value, &why));
        }
    }
}

fn values(globs: &[Spanned<String>]) -> Vec<&str> {
    globs.iter().map(|glob| glob.value.as_str()).collect()
}

fn refusal(glob: &Spanned<String>) -> Option<String> {
    if glob.value.trim().is_empty() {
        return Some("it is empty".into());
    }
    if glob.value.starts_with('/') || glob.value.split('/').any(|part| part == "..") {
        return Some("it is outside of the workspace".into());
    }
    globs::glob(&glob.value).err()
}
