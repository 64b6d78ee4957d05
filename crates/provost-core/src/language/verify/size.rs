//! Size and taste: how many steps, how clear each task, what happens on failure. All of it is advice.

use crate::language::diagnostic::say;
use crate::language::parse::Sink;
use crate::model::plan::{Plan, Span};

/// Verbs that say nothing without an object.
const VAGUE: [&str; 9] =
    ["improve", "clean", "optimize", "optimise", "refactor", "enhance", "polish", "tidy", "simplify"];

/// Objects that say nothing.
const NOTHING: [&str; 9] = ["it", "this", "that", "things", "everything", "stuff", "code", "better", "bugs"];

pub fn check(plan: &Plan, sink: &mut Sink) {
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
    // Said once: it is the same default for every step.
    if let Some(step) = plan.steps.iter().find(|step| step.on_fail.is_none()) {
        sink.push(say::no_on_fail(step.heading));
    }
}

/// A few words and nothing that could be pointed at: no path, no name, no number, no quotation.
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
