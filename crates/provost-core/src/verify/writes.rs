//! Steps that write their own checks, and contracts that are hidden where nothing can be.

use crate::diagnostic::say;
use crate::facts::{self, Facts};
use crate::oracle;
use crate::parse::Sink;
use crate::plan::{Check, Plan, Step};
use crate::runner;

pub fn check(text: &str, plan: &Plan, facts: &Facts, sink: &mut Sink) {
    for (index, step) in plan.steps.iter().enumerate() {
        if let (Some(why), Some(hidden)) =
            (&facts.in_sight, step.hidden.as_ref().filter(|_| step.is_hidden()))
        {
            sink.push(say::hidden_in_sight(hidden.span, why));
        }
        let Some(contract) = step.contract.as_ref().filter(|_| !step.writes_tests()) else { continue };
        let before = &plan.steps[..index];
        if let Some(why) = its_own(text, step, before, facts) {
            sink.push(say::writes_tests(contract.span, &why));
        }
    }
}

fn its_own(text: &str, step: &Step, before: &[Step], facts: &Facts) -> Option<String> {
    let Some(Check::Shell(shell)) = step.contract.as_ref().map(|contract| &contract.check) else {
        return None;
    };
    let started = runner::started(&shell.command);
    let is_to_fail = runner::is_meant_to_fail(shell) || started.iter().any(|each| each.negated);
    if let Some(first) = started.first().filter(|_| is_to_fail) {
        return Some(format!("{} is meant to fail", first.runner.word()));
    }
    let files = facts::files_of(started);
    let is_made_here = |path: &String| {
        oracle::is_test(path)
            && !facts.files.contains(path)
            && !before.iter().any(|step| step.section.of(text).contains(path.as_str()))
    };
    let first = files.first().filter(|_| files.iter().all(is_made_here))?;
    Some(format!("{first} does not exist yet"))
}
