//! Describes the current plan: its head, its steps with their checks and states, its postconditions.

use std::fmt::Write as _;

use super::event_line::tried;
use super::graph;
use crate::model::check_author::CheckAuthor;
use crate::model::pass::Pass;
use crate::model::plan::{Check, Contract, Needs, Postcondition, Step};
use crate::model::run_policy::AgentAccess;
use crate::model::verdict::Verdict;
use crate::rules::budget;
use crate::rules::quorum::ApprovalCount;
use crate::state::run::{Run, StepRun, StepState};

/// Returns the current plan as text.
pub fn plan(run: &Run) -> String {
    let mut out = String::new();
    head(&mut out, run);
    terms(&mut out, run);
    out.push_str(&graph::drawing(run));
    for (step, state) in run.steps() {
        self::step(&mut out, run, step, state);
        outcome(&mut out, run, step, state);
    }
    for (post, _) in run.postconditions() {
        postcondition(&mut out, run, post);
    }
    out
}

/// Describes where the plan stands.
fn head(out: &mut String, run: &Run) {
    let (done, total) = run.progress();
    let _ = writeln!(out, "{}", run.plan.title);
    let _ = writeln!(
        out,
        "stage {} · {done}/{total} steps · revision {}",
        run.stage.word(),
        run.revision.short()
    );
    if let Some(by) = run.approvers() {
        let _ = writeln!(out, "approved by {by}");
    }
    if let Some(tally) = ApprovalCount::open(run) {
        let _ = writeln!(out, "{tally}");
    }
    if let Some(question) = &run.question {
        let _ = writeln!(out, "question open: {question}");
    }
    match run.plan.touches.as_deref() {
        None => out.push_str("touches: not declared: the agent could edit its own checks\n"),
        Some(globs) => {
            let globs: Vec<&str> = globs.iter().map(|glob| glob.value.as_str()).collect();
            let _ = writeln!(out, "touches: {}", globs.join(", "));
        }
    }
}

/// Describes what an approval covers besides the text: budget, run policy, included files.
fn terms(out: &mut String, run: &Run) {
    let limits = budget::of_plan(run);
    if !limits.is_empty() {
        let raised = if run.ledger.raised(None).is_empty() { "" } else { ", as a person raised it" };
        let _ = writeln!(out, "budget: {limits}{raised}");
    }
    let terms = &run.binding.terms;
    let _ = writeln!(out, "terms: {}", terms.lines().join("; "));
    if let Some(caveat) = terms.caveat().filter(|_| !terms.roles.is_empty()) {
        let _ = writeln!(out, "       {caveat}");
    }
    for caveat in terms.instruction_lines().chain(budget::caveats(run)) {
        let _ = writeln!(out, "       {caveat}");
    }
    for line in run.changed_since_approval() {
        let _ = writeln!(out, "changed since the last approval: {line}");
    }
    if !run.binding.included.is_empty() {
        out.push_str("included in the base, but not committed:\n");
        for file in &run.binding.included {
            let gone = if file.sha256.is_none() { " (deleted)" } else { "" };
            let _ = writeln!(out, "  {}{gone}", file.path);
        }
    }
}

/// Describes a step and its checks.
fn step(out: &mut String, run: &Run, step: &Step, state: &StepRun) {
    let mark = run.mark(step.number).map_or("·", |mark| mark.symbol());
    let _ = writeln!(out, "\n{mark} {}. {}", step.number, step.title);
    if let Some(plan) = step.carried_by() {
        let _ = writeln!(out, "   carried out by the plan {plan}{}", needs(&step.needs));
    } else {
        let target = step.target.as_ref().map_or("-", |target| target.value.as_str());
        let reach = reach(&run.binding.terms.for_step(step));
        let _ = writeln!(out, "   target {target}{}{reach}", needs(&step.needs));
    }
    if let Some(globs) = &step.touches {
        let globs: Vec<&str> = globs.iter().map(|glob| glob.value.as_str()).collect();
        let _ = writeln!(
            out,
            "   touches {}",
            if globs.is_empty() { "nothing".into() } else { globs.join(", ") }
        );
    }
    if let Some(task) = &step.task {
        for line in task.value.trim().lines() {
            let _ = writeln!(out, "   {line}");
        }
    }
    for (name, check) in [("precondition", &step.precondition), ("contract", &step.contract)] {
        if let Some(check) = check {
            contract(out, name, check);
        }
    }
    if step.is_hidden() {
        out.push_str("   the contract is hidden from agents\n");
    }
    if step.is_guard() {
        out.push_str("   this step is a guard: its contract is meant to hold before the work too\n");
    }
    match step.prove.as_ref().map(|prove| prove.value) {
        Some(true) => out.push_str("   the contract must prove all changed code\n"),
        Some(false) => out.push_str("   the contract need not prove the changed code\n"),
        None => {}
    }
    match run.check_author(step.number) {
        Some(CheckAuthor::Agent) if step.writes_tests() => {
            out.push_str("   this step writes its own checks\n");
        }
        author => written_by(out, author),
    }
    if let Some(teeth) = state.verdict.as_ref().and_then(tried) {
        let _ = writeln!(out, "   {teeth}");
    }
    if let Some(results) = state.verdict.as_ref().and_then(|verdict| verdict.test_results.as_ref())
        && results.has_changes()
    {
        let _ = writeln!(out, "   tests: {}", results.counts());
    }
    for remark in state.verdict.iter().flat_map(Verdict::remarks) {
        let _ = writeln!(out, "   {remark}");
    }
    let limits = budget::of_step(run, step.number);
    if !limits.is_empty() {
        let _ = writeln!(out, "   budget {limits}");
    }
    let _ = writeln!(out, "   on_fail {}", run.on_fail(step.number));
}

fn written_by(out: &mut String, author: Option<CheckAuthor>) {
    if let Some(author) = author.filter(|author| !author.is_person()) {
        let _ = writeln!(out, "   {author} wrote the check");
    }
}

/// Describes how far a step has come.
fn outcome(out: &mut String, run: &Run, step: &Step, state: &StepRun) {
    match &state.state {
        StepState::Blocked { reason, .. } => {
            let _ = writeln!(out, "   waits for a person: {reason}");
        }
        StepState::Waived { by } => {
            let _ = writeln!(out, "   waived by {by}");
        }
        StepState::Pending | StepState::Running { .. } | StepState::Ended { .. } | StepState::Failed => {}
        StepState::Passed => {
            let pass = run.pass(step.number).unwrap_or(Pass::Verified);
            let why = pass.explanation().map(|why| format!(": {why}")).unwrap_or_default();
            let _ = writeln!(out, "   {pass}{why}");
        }
    }
    if let Some(why) = state.verdict.as_ref().and_then(|verdict| verdict.uncontrolled.as_ref()) {
        let _ = writeln!(out, "   uncontrolled: {why}");
    }
}

fn postcondition(out: &mut String, run: &Run, post: &Postcondition) {
    let (mark, _) = run.post_mark(post.number);
    let _ = writeln!(out, "\n{mark} postcondition {}. {}", post.number, post.description);
    if let Some(check) = &post.contract {
        contract(out, "contract", check);
    }
    written_by(out, run.post_check_author(post.number));
    let pass = run.post_pass(post.number);
    if let Some((pass, why)) = pass.and_then(|pass| Some((pass, pass.explanation()?))) {
        let _ = writeln!(out, "   {pass}: {why}");
    }
    if let Some(why) = run.post_uncontrolled(post.number) {
        let _ = writeln!(out, "   uncontrolled: {why}");
    }
}

fn needs(needs: &Needs) -> String {
    match needs {
        Needs::Before => String::new(),
        Needs::Steps(steps) if steps.is_empty() => " · needs nothing".to_owned(),
        Needs::Steps(steps) => {
            let steps: Vec<String> = steps.iter().map(|step| step.value.to_string()).collect();
            format!(" · needs {}", steps.join(", "))
        }
    }
}

/// Lists the unusual access rights of an agent.
fn reach(reach: &AgentAccess) -> String {
    reach.unusual().into_iter().map(|words| format!(" · {words}")).collect()
}

fn contract(out: &mut String, name: &str, contract: &Contract) {
    match &contract.check {
        Check::Shell(shell) => {
            let mut lines = shell.command.trim_end().lines();
            let _ = writeln!(out, "   {name} $ {}", lines.next().unwrap_or_default());
            for line in lines {
                let _ = writeln!(out, "   {:width$}   {line}", "", width = name.len());
            }
            for expectation in &shell.expectations {
                let _ = writeln!(out, "   {:width$} = {}", "", expectation.value, width = name.len());
            }
        }
        Check::Human => {
            let _ = writeln!(out, "   {name}: a person confirms");
        }
        Check::Judge { rubric } => {
            let _ = writeln!(out, "   {name}: a model judges, weaker than a check, by this rubric:");
            for line in rubric.trim().lines() {
                let _ = writeln!(out, "     {line}");
            }
        }
    }
}
