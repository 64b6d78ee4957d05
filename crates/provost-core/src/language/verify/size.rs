//! Gives advice: number of steps, clarity of each task, behaviour on failure.

use crate::language::diagnostic::say;
use crate::language::parse::Sink;
use crate::model::plan::{Plan, Span};

/// Verbs that are vague without an object.
const VAGUE: [&str; 9] =
    ["improve", "clean", "optimize", "optimise", "refactor", "enhance", "polish", "tidy", "simplify"];

/// Objects that are vague.
const NOTHING: [&str; 9] = ["it", "this", "that", "things", "everything", "stuff", "code", "better", "bugs"];

pub(super) fn check(plan: &Plan, sink: &mut Sink) {
    let count = plan.steps.len();
    if count > 0 && !(3..=7).contains(&count) {
        sink.push(say::step_count(plan.steps[0].heading, count));
    }
    for step in &plan.steps {
        if let Some(task) = &step.task
            && is_vague(&task.value)
        {
            sink.push(say::vague_task(Span::new(task.span.start, task.span.end), task.value.trim()));
        }
    }
    // Reported once: the default is the same for every step.
    if let Some(step) = plan.steps.iter().find(|step| step.on_fail.is_none()) {
        sink.push(say::no_on_fail(step.heading));
    }
}

/// Recognises a short task without anything concrete: no path, name, number or quotation.
fn is_vague(task: &str) -> bool {
    let task = task.trim_end_matches(['.', '!']);
    let concrete = |c: char| c.is_ascii_digit() || matches!(c, '`' | '"' | '/' | '.' | '_' | '#' | '\n');
    if task.len() > 40 || task.contains(concrete) {
        return false;
    }
    let is = |list: &[&str], word: &str| list.iter().any(|known| known.eq_ignore_ascii_case(word));
    match task.split_whitespace().collect::<Vec<_>>().as_slice() {
        [] => false,
        [_] => true,
        [verb, rest @ ..] => is(&VAGUE, verb) && rest.len() <= 2 || rest.len() <= 2 && is(&NOTHING, rest[0]),
    }
}
