//! Reads a plan's steps and postconditions, each with its attempts and verdicts.

use provost_core::model::event::CheckSubject;
use provost_core::model::pass::Pass;
use provost_core::model::plan::{Check, Contract, Needs, Step, StepNumber};
use provost_core::model::verdict::Verdict;
use provost_core::state::run::{PostState, Run, StepRun, StepState};
use provost_engine::observe::overview::{AttemptRecord, TimedVerdict};

use crate::watch::known::{Part, PlanRow, Said, Sheet, Tone};
use crate::watch::text;

/// Number of lines of live output that are shown.
const OUTPUT: usize = 12;

/// Returns the live output of a step's attempt.
type Output<'o> = &'o dyn Fn(StepNumber) -> Option<String>;

pub fn sheet(row: PlanRow, run: &Run, attempts: &[AttemptRecord], output: Output<'_>) -> Sheet {
    let steps = run.steps().map(|(step, state)| {
        let own: Vec<&AttemptRecord> =
            attempts.iter().filter(|attempt| attempt.step == step.number).collect();
        of_step(run, step, state, &own, output)
    });
    let posts = run.postconditions().map(|(post, state)| of_post(run, post, state));
    Sheet {
        row,
        revision: text::line(run.revision.short()),
        approved_by: run.approved_by.as_ref().map(|by| text::line(&by.to_string())),
        parts: steps.chain(posts).collect(),
    }
}

fn of_step(run: &Run, step: &Step, state: &StepRun, attempts: &[&AttemptRecord], output: Output<'_>) -> Part {
    let is_running = matches!(state.state, StepState::Running { .. });
    let output = output(step.number).filter(|_| is_running);
    Part {
        number: step.number.to_string(),
        mark: run.mark(step.number).map_or("·", |mark| mark.symbol()),
        title: text::line(&step.title),
        state: run.word(step.number),
        tone: match state.state {
            StepState::Pending => Tone::Plain,
            StepState::Running { .. } | StepState::Ended { .. } => Tone::Busy,
            StepState::Passed if run.pass(step.number) == Some(Pass::Verified) => Tone::Good,
            StepState::Passed => Tone::Wait,
            StepState::Failed => Tone::Bad,
            StepState::Blocked { .. } => Tone::Wait,
            StepState::Waived { .. } => Tone::Quiet,
        },
        attempts: state.attempts,
        since: attempts.last().filter(|_| is_running).map(|attempt| attempt.begun),
        page: page(run, step, state, attempts, output.as_deref()),
    }
}

fn page(
    run: &Run,
    step: &Step,
    state: &StepRun,
    attempts: &[&AttemptRecord],
    output: Option<&str>,
) -> Vec<Said> {
    let mut page = vec![Said::strong(format!("{}. {}", step.number, step.title))];
    let who = match step.carried_by() {
        Some(plan) => format!("the plan {plan}"),
        None => format!("by {}", run.role(step.number)),
    };
    let needs = match &step.needs {
        Needs::Steps(steps) if !steps.is_empty() => {
            let numbers: Vec<String> = steps.iter().map(|step| step.value.to_string()).collect();
            format!(" · needs {}", numbers.join(", "))
        }
        _ => String::new(),
    };
    let state_word = run.word(step.number);
    page.push(Said::quiet(format!("{state_word} · {who}{needs} · on_fail {}", run.on_fail(step.number))));
    match &state.state {
        StepState::Blocked { reason, .. } => {
            page.push(Said::new(Tone::Wait, format!("waits for a person: {reason} (i opens the inbox)")));
        }
        StepState::Waived { by } => page.push(Said::new(Tone::Wait, format!("waived by {by}"))),
        StepState::Passed => {
            let why = run.pass(step.number).and_then(Pass::explanation);
            page.extend(why.map(|why| Said::new(Tone::Wait, why)));
            let uncontrolled = state.verdict.as_ref().and_then(|verdict| verdict.uncontrolled.as_ref());
            page.extend(uncontrolled.map(|why| Said::new(Tone::Wait, format!("uncontrolled: {why}"))));
        }
        StepState::Ended { .. } if run.confirmed_by_person(step.number) => {
            page.push(Said::new(Tone::Wait, "a person confirms it (i opens the inbox)"));
        }
        StepState::Ended { .. } => page.push(Said::new(Tone::Busy, "provost runs the check")),
        _ => {}
    }
    if let Some(wait) = &state.wait {
        page.push(Said::quiet(format!("not tried again before {}", wait.until)));
    }
    if let Some(output) = output {
        // The newest lines matter most.
        let end: Vec<&str> = output.lines().rev().take(OUTPUT).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        page.extend([
            Said::gap(),
            Said::new(Tone::Busy, "Live output"),
            Said::indented(Tone::Plain, end.join("\n")),
        ]);
    }
    for attempt in attempts.iter().rev() {
        of_attempt(&mut page, attempt);
    }
    if let Some(task) = &step.task {
        page.extend([Said::gap(), Said::strong("Task"), Said::indented(Tone::Plain, task.value.trim())]);
    }
    contract(&mut page, "Precondition", step.precondition.as_ref());
    contract(&mut page, "Contract", step.contract.as_ref());
    page
}

fn of_attempt(page: &mut Vec<Said>, attempt: &AttemptRecord) {
    let taken = attempt.ended.map(|ended| ended.0.saturating_sub(attempt.begun.0));
    let how = match (&attempt.end, attempt.lost, taken) {
        (Some(end), _, taken) => format!("{}{}", took(taken), end.words()),
        (None, true, _) => "lost: provost ended before the attempt did".to_owned(),
        (None, false, _) => "running".to_owned(),
    };
    page.push(Said::gap());
    page.push(Said::strong(format!("Attempt {} by {}: {how}", attempt.number, attempt.target)));
    for judged in attempt.verdicts.iter().rev() {
        verdict(page, judged);
    }
    let is_seen = attempt.verdicts.iter().any(|judged| !is_control(judged) && !judged.verdict.held());
    // The verdict above already says this in more detail.
    if let Some(failure) = attempt.failure.as_ref().filter(|_| !is_seen) {
        page.push(Said::indented(Tone::Bad, failure));
    }
    if let Some(class) = attempt.class {
        page.push(Said::indented(Tone::Plain, format!("classified as {}", class.word())));
    }
    page.extend(attempt.followed.iter().map(|line| Said::indented(Tone::Wait, format!("then: {line}"))));
    page.extend(
        attempt.claims.iter().map(|claim| Said::indented(Tone::Quiet, format!("it claims: {claim}"))),
    );
    if !attempt.report.trim().is_empty() {
        page.push(Said::indented(Tone::Quiet, attempt.report.trim()));
    }
    page.extend(attempt.notes.iter().map(|note| Said::indented(Tone::Quiet, note)));
}

fn took(ms: Option<u64>) -> String {
    ms.map(|ms| format!("{:.1} s, ", ms as f64 / 1000.0)).unwrap_or_default()
}

/// Returns whether this is a negative control before any work, which is expected to fail.
fn is_control(judged: &TimedVerdict) -> bool {
    matches!(judged.subject, CheckSubject::Control(_))
}

fn verdict(page: &mut Vec<Said>, judged: &TimedVerdict) {
    let what = match judged.subject {
        CheckSubject::Precondition(_) => "precondition",
        CheckSubject::Control(_) => "before the work, contract",
        CheckSubject::Contract(_) => "contract",
        CheckSubject::Final(_) => "at the end, contract",
        CheckSubject::Postcondition(_) => "postcondition",
    };
    let tone = match (is_control(judged), judged.verdict.held()) {
        (true, _) => Tone::Quiet,
        (false, true) => Tone::Good,
        (false, false) => Tone::Bad,
    };
    seen(page, what, &judged.verdict, tone);
}

fn seen(page: &mut Vec<Said>, what: &str, verdict: &Verdict, tone: Tone) {
    let by = verdict.judged.iter().map(|judgement| format!(", {}", judgement.by())).collect::<String>();
    let took = took(Some(verdict.duration_ms));
    page.push(Said::indented(tone, format!("{what} {} ({took}{}{by})", verdict.outcome, verdict.isolation)));
    for unmet in &verdict.unmet {
        page.push(Said::indented(tone, format!("not met: {unmet}")));
    }
    for (stream, output) in [("stdout", &verdict.stdout), ("stderr", &verdict.stderr)] {
        if !output.is_empty() && tone != Tone::Quiet {
            page.push(Said::indented(Tone::Quiet, format!("{stream}:")));
            let lines: String = output.to_string().lines().map(|line| format!("  {line}\n")).collect();
            page.push(Said::indented(Tone::Plain, lines));
        }
    }
}

fn contract(page: &mut Vec<Said>, name: &str, contract: Option<&Contract>) {
    let Some(contract) = contract else { return };
    let (kind, text) = match &contract.check {
        Check::Shell(shell) => {
            let expected: Vec<String> =
                shell.expectations.iter().map(|each| each.value.to_string()).collect();
            (String::new(), format!("{}\n{}", shell.command.trim_end(), expected.join("\n")))
        }
        Check::Human => (" (a person confirms)".to_owned(), String::new()),
        Check::Judge { rubric } => (" (a model judges)".to_owned(), rubric.clone()),
    };
    page.extend([Said::gap(), Said::strong(format!("{name}{kind}")), Said::indented(Tone::Plain, text)]);
}

fn of_post(run: &Run, post: &provost_core::model::plan::Postcondition, state: &PostState) -> Part {
    let (mark, word) = run.post_mark(post.number);
    let tone = match (state, run.post_pass(post.number)) {
        (PostState::Broke(_), _) => Tone::Bad,
        (_, Some(Pass::Verified)) => Tone::Good,
        (_, Some(_)) => Tone::Wait,
        (_, None) => Tone::Plain,
    };
    let mut page =
        vec![Said::strong(format!("Postcondition {}", post.number)), Said::plain(&post.description)];
    page.push(Said::quiet(word.clone()));
    let why = run.post_pass(post.number).and_then(Pass::explanation);
    page.extend(why.map(|why| Said::new(Tone::Wait, why)));
    let uncontrolled = run.post_uncontrolled(post.number);
    page.extend(uncontrolled.map(|why| Said::new(Tone::Wait, format!("uncontrolled: {why}"))));
    if let PostState::Broke(verdict) = state {
        seen(&mut page, "it", verdict, Tone::Bad);
    }
    contract(&mut page, "Contract", post.contract.as_ref());
    Part {
        number: format!("post {}", post.number),
        mark,
        title: text::line(&post.description),
        state: word,
        tone,
        attempts: 0,
        since: None,
        page,
    }
}
