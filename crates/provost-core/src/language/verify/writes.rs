//! Reports steps that write their own checks, and hidden contracts that agents can see.

use std::collections::HashSet;

use crate::language::diagnostic::say;
use crate::language::facts::{self, Facts};
use crate::language::parse::Sink;
use crate::language::{runner, test_files};
use crate::model::plan::{Check, Plan};

pub(super) fn check(plan: &Plan, facts: &Facts, sink: &mut Sink) {
    // Tests that an earlier step may have written are not this step's own.
    let mut earlier: HashSet<String> = HashSet::new();
    let mut are_written = false;
    for step in &plan.steps {
        if let (Some(why), Some(hidden)) =
            (&facts.in_sight, step.hidden.as_ref().filter(|hidden| hidden.value))
        {
            sink.push(say::hidden_in_sight(hidden.span, why));
        }
        are_written |= step.writes_tests();
        let Some(contract) = &step.contract else { continue };
        let Check::Shell(shell) = &contract.check else { continue };
        let started = runner::started(&shell.command);
        let is_to_fail = shell.is_meant_to_fail() || started.iter().any(|each| each.negated);
        let first = started.first().map(|each| each.runner.word()).filter(|_| is_to_fail);
        let files = facts::files_of(started);
        let is_new = |path: &String| {
            test_files::is_test(path) && !facts.files.contains(path) && !earlier.contains(path)
        };
        let why = match (first, files.first()) {
            _ if step.writes_tests() => None,
            (Some(runner), _) => Some(format!("{runner} is meant to fail")),
            (None, Some(file)) if !are_written && files.iter().all(is_new) => {
                Some(format!("{file} does not exist yet"))
            }
            (None, _) => None,
        };
        if let Some(why) = why {
            sink.push(say::writes_tests(contract.span, &why));
        }
        earlier.extend(files);
    }
}
