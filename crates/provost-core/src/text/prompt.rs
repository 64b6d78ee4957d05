//! Writes the prompts of agents: the task, the subscriptions and, on a retry, the last verdict; and the
//! messages for a session that wants to stop too early.
//!
//! The texts are the Markdown files in `prompt/`; this module only fills them in.
//!
//! **Invariant:** nothing of another step reaches a prompt, and a hidden contract never does.

use std::fmt::Write as _;

use crate::model::plan::{Check, Plan, Span, Step, StepNumber, Stream};
use crate::model::quote;
use crate::model::usage::Resource;
use crate::model::verdict::{CheckOutcome, Excerpt, Verdict};
use crate::rules::budget;
use crate::state::run::{PostState, Run, Stage};

const STEP: &str = include_str!("prompt/step.md");
const CONTEXT: &str = include_str!("prompt/context.md");
const CHECK: &str = include_str!("prompt/check.md");
const INSTRUCTIONS: &str = include_str!("prompt/instructions.md");
const LIMITS: &str = include_str!("prompt/limits.md");
const OPEN_PLAN: &str = include_str!("prompt/open_plan.md");
const PUBLISH: &str = include_str!("prompt/publish.md");
const ALLOWED: &str = include_str!("prompt/allowed.md");
const RESUME: &str = include_str!("prompt/resume.md");
const RETRY: &str = include_str!("prompt/retry.md");
const TIME: &str = include_str!("prompt/time.md");
const TOUCHES: &str = include_str!("prompt/touches.md");
const UNFINISHED: &str = include_str!("prompt/unfinished.md");
/// Replaces a hidden contract.
const VEIL: &str = "**contract:** (hidden)";
/// Most tests of one kind that a prompt names.
const TESTS_MAX: usize = 30;
const REFUSED_MAX: usize = 10;
/// The name of a plan without a name.
const UNNAMED: &str = "PLAN.md";

/// A resolved subscription.
pub struct PromptContext {
    /// `file:src/a.rs` or `topic:name`.
    pub name: String,
    /// The content, or why it is missing.
    pub content: Result<String, String>,
}

/// Returns the texts that the prompt of an attempt is made of.
pub fn texts() -> [&'static str; 9] {
    [STEP, CONTEXT, PUBLISH, CHECK, RETRY, LIMITS, TIME, TOUCHES, RESUME]
}

/// Returns the whole prompt for the next attempt at a step.
pub fn step(
    run: &Run,
    number: StepNumber,
    context: &[PromptContext],
    instructions: Option<&PromptContext>,
) -> String {
    let Some(step) = run.plan.step(number) else { return String::new() };
    let task = step.task.as_ref().map(|task| task.value.trim()).unwrap_or_default();
    // The command of the check is in its own section.
    let again = again(run, step, unmet);
    let parts = [
        ("task", task),
        ("context", &subscriptions(context)),
        ("instructions", &instructions.map(project).unwrap_or_default()),
        ("publish", &publishing(step)),
        ("check", &checking(step)),
        ("retry", &again.unwrap_or_default()),
        ("limits", &limits(run, number)),
        ("touches", &touches(run, step)),
    ];
    fill(STEP, &parts)
}

/// Shows the contract, unless it is hidden.
fn checking(step: &Step) -> String {
    let Some(contract) = step.contract.as_ref().filter(|_| !step.is_hidden()) else { return String::new() };
    let how = match &contract.check {
        Check::Shell(shell) => {
            let expected: Vec<String> =
                shell.expectations.iter().map(|each| format!("- {}", each.value)).collect();
            let expected = match expected.is_empty() {
                true => String::new(),
                false => format!("\nIt holds if all of this is so:\n\n{}", expected.join("\n")),
            };
            format!("After you exit, this is run:\n{}{expected}", fenced("shell", &shell.command))
        }
        Check::Human => "After you exit, a person looks at your work and decides.".to_owned(),
        Check::Judge { rubric } => {
            format!(
                "After you exit, a model reads your work and decides by this text:\n{}",
                fenced("", rubric)
            )
        }
    };
    fill(CHECK, &[("how", how.trim_end())])
}

/// Describes what a step may change, if it or the plan declares that.
fn touches(run: &Run, step: &Step) -> String {
    let Some(globs) = step.touches.as_ref().or(run.plan.touches.as_ref()) else { return String::new() };
    let globs: Vec<String> = globs.iter().map(|glob| format!("`{}`", glob.value)).collect();
    let globs = if globs.is_empty() { "nothing".to_owned() } else { globs.join(", ") };
    fill(TOUCHES, &[("globs", &globs)])
}

/// Returns the message for a session that wants to stop too early: progress, what is missing, and the last
/// verdict.
pub fn unfinished(run: &Run) -> String {
    let (done, total) = run.progress();
    let progress = format!("{done} of {total} steps passed");
    let open = run.under_way().chain(run.ready()).next().and_then(|number| run.plan.step(number));
    let missing = match open {
        Some(step) => missing_step(run, step),
        None => missing_postconditions(run),
    };
    fill(UNFINISHED, &[("title", &run.plan.title), ("progress", &progress), ("missing", missing.trim_end())])
}

/// Returns the message for a beginning session about an open plan that it has not taken.
pub fn open_plan(run: &Run, name: &str) -> String {
    let (done, total) = run.progress();
    let progress = format!("{done} of {total} steps passed");
    fill(OPEN_PLAN, &[("title", &run.plan.title), ("progress", &progress), ("name", name), ("name", name)])
}

/// A plan in the list for a session.
pub struct ListedPlan<'a> {
    pub name: &'a str,
    pub stage: Stage,
    /// Number of passed steps, and of all steps.
    pub progress: (u32, u32),
    /// The plan that commands without a plan name mean.
    pub is_active: bool,
}

/// Returns the list of all plans for a beginning session; empty if there is at most the unnamed one and no
/// marker that points to a missing plan.
pub fn plans(known: &[ListedPlan<'_>], dangling: Option<&str>) -> String {
    let mut text = String::new();
    if known.iter().any(|plan| plan.name != UNNAMED) {
        text.push_str("\nPlans here:\n");
        for ListedPlan { name, stage, progress: (done, total), is_active } in known {
            let active = if *is_active { ", active here" } else { "" };
            let _ = writeln!(text, "- {name}: {}, {done} of {total} steps passed{active}", stage.word());
        }
    }
    if let Some(why) = dangling {
        let _ = writeln!(text, "\nDANGLING: the marker of this worktree names no plan: {why}");
    }
    text
}

fn missing_step(run: &Run, step: &Step) -> String {
    let mut text = format!("Step {} is open: {}\n", step.number, step.title);
    if let Some(task) = step.task.as_ref().map(|task| task.value.trim()).filter(|task| !task.is_empty()) {
        let _ = writeln!(text, "\n{task}");
    }
    let seen = run.step(step.number).and_then(|step| step.verdict.as_ref());
    if let Some(verdict) = seen.filter(|verdict| !verdict.held()) {
        text.push_str(&seen_words(step.is_hidden(), verdict, &the_check(step, verdict)));
    }
    let after = run.plan.steps.iter().filter(|other| {
        other.number != step.number && matches!(run.state_word(other.number), "pending" | "in_progress")
    });
    let after: Vec<String> = after.map(|step| format!("- {}. {}", step.number, step.title)).collect();
    if !after.is_empty() {
        let _ = write!(text, "\nAlso open:\n{}\n", after.join("\n"));
    }
    text
}

fn missing_postconditions(run: &Run) -> String {
    let mut text = String::new();
    for (post, state) in run.postconditions() {
        let PostState::Broke(verdict) = state else { continue };
        let _ = writeln!(text, "Postcondition {} does not hold: {}", post.number, post.description.trim());
        let check = post.contract.as_ref().map(|contract| &contract.check);
        let shown = match check {
            Some(Check::Shell(shell)) => fenced("shell", &shell.command),
            _ => String::new(),
        };
        text.push_str(&seen_words(false, verdict, &shown));
    }
    if text.is_empty() {
        "Every step has passed; the final checks have not run yet.".to_owned()
    } else {
        text
    }
}

fn seen_words(hidden: bool, verdict: &Verdict, check: &str) -> String {
    match hidden {
        true => format!("\nIts check was run: {}\n", quote::one_line(&bare(verdict))),
        false => {
            let outcome = verdict.outcome.to_string();
            let outcome = quote::one_line(&outcome);
            format!("\nIts check was run: {outcome}\n{check}{}", outputs(verdict))
        }
    }
}

fn fenced(kind: &str, text: &str) -> String {
    let fence = fence_for(text);
    format!("\n{fence}{kind}\n{}\n{fence}\n", text.trim_end())
}

/// Returns the prompt for a resumed conversation: only the last verdict, because the rest is known there.
pub fn resumed(run: &Run, number: StepNumber) -> Option<String> {
    let step = run.step(number)?;
    step.session.as_ref()?;
    if let (Some(allowed), None) = (step.granted.last(), &step.verdict) {
        let allowed = quote::one_line(allowed);
        return Some(fill(ALLOWED, &[("allowed", &allowed), ("limits", &limits(run, number))]));
    }
    let again = again(run, run.plan.step(number)?, the_check)?;
    Some(fill(RESUME, &[("retry", again.trim_start()), ("limits", &limits(run, number))]))
}

fn publishing(step: &Step) -> String {
    if step.publishes.is_empty() {
        return String::new();
    }
    let files = step.publishes.iter().map(|topic| format!("- `$PROVOST_TOPICS/{}.md`", topic.value));
    fill(PUBLISH, &[("files", &files.collect::<Vec<_>>().join("\n"))])
}

/// Returns the section about the last failure; `shown` writes what it shows of the check.
fn again(run: &Run, step: &Step, shown: fn(&Step, &Verdict) -> String) -> Option<String> {
    let known = run.step(step.number)?;
    let seen = known.verdict.as_ref().filter(|verdict| !verdict.held() && known.failures > 0)?;
    Some(retry(step, seen, known.failures, &shown(step, seen)))
}

/// Describes what the attempt may use: all that is left of tokens and money, and the time.
fn limits(run: &Run, number: StepNumber) -> String {
    let left = budget::allows(run, number);
    let time = run.ledger.held(number).and_then(|held| held.wall_ms);
    let left = match left.is_empty() {
        true => String::new(),
        false => fill(LIMITS, &[("limits", &left.to_string())]),
    };
    let time = time.map(|time| fill(TIME, &[("time", &Resource::WallClock.say(time))]));
    let both = format!("{left}{}", time.unwrap_or_default());
    if both.is_empty() { both } else { format!("{both}\n") }
}

pub(crate) fn subscriptions(context: &[PromptContext]) -> String {
    if context.is_empty() {
        return String::new();
    }
    let mut items = String::new();
    for item in context {
        match &item.content {
            Ok(text) => {
                let fence = fence_for(text);
                let _ = write!(items, "\n### {}\n\n{fence}\n{}\n{fence}\n", item.name, text.trim_end());
            }
            Err(why) => {
                let _ = write!(items, "\n### {}\n\n(not available: {})\n", item.name, quote::one_line(why));
            }
        }
    }
    fill(CONTEXT, &[("items", items.trim_end())])
}

/// Shows the project's instructions; a file that cannot be read is left out.
fn project(file: &PromptContext) -> String {
    let Ok(text) = &file.content else { return String::new() };
    let fence = fence_for(text);
    let text = format!("{fence}markdown\n{}\n{fence}", text.trim_end());
    fill(INSTRUCTIONS, &[("file", &file.name), ("text", &text)])
}

fn retry(step: &Step, verdict: &Verdict, attempts: u32, check: &str) -> String {
    let attempts = if attempts == 1 { "The first attempt".to_owned() } else { format!("Attempt {attempts}") };
    let (outcome, check, mut output) = match step.is_hidden() {
        true => (bare(verdict), "", String::new()),
        false => (verdict.outcome.to_string(), check, outputs(verdict)),
    };
    // The agent's own files may be named, even for a hidden contract: the check never saw them.
    let refused = verdict.tree.iter().flat_map(|tree| &tree.refused).take(REFUSED_MAX);
    for (index, path) in refused.enumerate() {
        let heading = if index == 0 { "\nNot taken over from your work:\n" } else { "" };
        let _ = writeln!(output, "{heading}- {}", quote::code(path));
    }
    if let Some(tree) = &verdict.tree {
        let more = tree.refused.len().saturating_sub(REFUSED_MAX) as u64 + tree.refused_more;
        if more > 0 {
            let _ = writeln!(output, "- and {more} more");
        }
        if !tree.ignored.is_empty() {
            let names =
                tree.ignored.iter().take(REFUSED_MAX).map(|name| quote::code(name)).collect::<Vec<_>>();
            let more = tree.ignored.len().saturating_sub(REFUSED_MAX) as u64 + tree.ignored_more;
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let _ =
                writeln!(output, "\nIgnored by git, so the check never saw it: {}{more}", names.join(", "));
        }
    }
    fill(
        RETRY,
        &[
            ("attempts", &attempts),
            ("outcome", &quote::one_line(&outcome)),
            ("check", check),
            ("output", &output),
        ],
    )
}

/// Returns what may be known of a hidden contract: how it ended, but nothing it printed or expected.
fn bare(verdict: &Verdict) -> String {
    let end = match &verdict.outcome {
        outcome @ (CheckOutcome::Broke { .. }
        | CheckOutcome::TimedOut { .. }
        | CheckOutcome::Killed { .. }) => outcome.to_string(),
        outcome => outcome.word().replace('_', " "),
    };
    match verdict.tests {
        Some(1) => format!("{end}, 1 test was run"),
        Some(tests) => format!("{end}, {tests} tests were run"),
        None => end,
    }
}

/// Returns the text of a plan with hidden contracts masked, for agents. `None` if none is hidden.
pub fn veiled(text: &str, plan: &Plan) -> Option<String> {
    let hidden = plan.steps.iter().filter(|step| step.is_hidden());
    let mut spans: Vec<Span> =
        hidden.filter_map(|step| step.contract.as_ref()).map(|contract| contract.span).collect();
    if spans.is_empty() {
        return None;
    }
    spans.sort_unstable();
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for span in spans {
        out.push_str(text.get(from..span.start).unwrap_or_default());
        out.push_str(VEIL);
        from = span.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Some(out)
}

fn the_check(step: &Step, verdict: &Verdict) -> String {
    let Some(Check::Shell(shell)) = step.contract.as_ref().map(|contract| &contract.check) else {
        return String::new();
    };
    format!("{}{}{}", fenced("shell", &shell.command), unmet(step, verdict), red_tests(verdict))
}

/// Lists the tests that the work made fail, and tells them from those that failed before.
fn red_tests(verdict: &Verdict) -> String {
    let mut text = String::new();
    let Some(changes) = verdict.test_results.as_ref().and_then(|results| results.changes.as_ref()) else {
        return text;
    };
    let kinds = [
        ("These tests did not fail before your work and fail now", &changes.broken),
        ("These tests are new and fail", &changes.new_failing),
        ("These tests passed or failed before and are gone", &changes.gone),
        ("These tests ran before and are skipped now", &changes.skipped_now),
        (
            "These tests failed before your work too; leave them unless the task names them",
            &changes.failed_before,
        ),
    ];
    for (what, names) in kinds.into_iter().filter(|(_, names)| !names.is_empty()) {
        let _ = writeln!(text, "\n{what}:\n");
        for name in names.names.iter().take(TESTS_MAX) {
            let _ = writeln!(text, "- {}", quote::code(name));
        }
        let more = (names.count as usize).saturating_sub(TESTS_MAX.min(names.names.len()));
        if more > 0 {
            let _ = writeln!(text, "- and {more} more");
        }
    }
    text
}

/// Names the expectations that were not met.
fn unmet(_: &Step, verdict: &Verdict) -> String {
    match verdict.unmet.is_empty() {
        true => String::new(),
        false => format!("\nNot met: {}\n", verdict.unmet.join(", ")),
    }
}

fn outputs(verdict: &Verdict) -> String {
    let mut text = String::new();
    for (stream, excerpt) in [(Stream::Stdout, &verdict.stdout), (Stream::Stderr, &verdict.stderr)] {
        if !excerpt.is_empty() {
            text.push_str(&output(stream, excerpt));
        }
    }
    if text.is_empty() {
        text.push_str("\nIt printed nothing.\n");
    }
    text
}

fn output(stream: Stream, excerpt: &Excerpt) -> String {
    let text = excerpt.to_string();
    let fence = fence_for(&text);
    format!("\n{stream}:\n\n{fence}\n{}\n{fence}\n", text.trim_end())
}

/// Returns a fence longer than any run of backticks inside, so that no content can close it.
pub fn fence_for(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// Fills each `{name}` once, left to right; inserted text is not searched again.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len() + 256);
    let mut rest = template;
    for (name, value) in values {
        let slot = format!("{{{name}}}");
        let Some((before, after)) = rest.split_once(&slot) else { continue };
        out.push_str(before);
        out.push_str(value);
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
