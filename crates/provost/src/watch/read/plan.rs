//! Lays out a plan's steps and postconditions, each with its attempts and verdicts.

use provost_core::model::pass::Pass;
use provost_engine::observe::view::{
    AttemptView, CheckView, PlanState, PlanView, PostconditionView, StepView, VerdictView,
};

use crate::watch::known::{Part, Said, Sheet, Tone, drawable};
use crate::watch::text;

/// Number of lines of live output that are shown.
const OUTPUT: usize = 12;

/// Returns the live output of a step's attempt.
type Output<'o> = &'o dyn Fn(u32) -> Option<String>;

/// `busy` says what provost itself is busy with.
pub(super) fn sheet(view: PlanView, output: Output<'_>, busy: Option<String>) -> Sheet {
    let busy = busy.filter(|_| view.card.state == PlanState::Running);
    let steps = view.steps.iter().map(|step| of_step(step, output, busy.as_deref()));
    let parts = steps.chain(view.postconditions.iter().map(of_post)).collect();
    Sheet { card: drawable(view.card), parts }
}

fn of_step(step: &StepView, output: Output<'_>, busy: Option<&str>) -> Part {
    let running = running(step);
    let output = running.and_then(|_| output(step.number));
    Part {
        number: step.number.to_string(),
        mark: step.symbol(),
        title: text::line(&step.title),
        state: step.word.clone(),
        tone: match (step.state, step.pass) {
            ("passed", Some(Pass::Verified)) => Tone::Good,
            ("passed" | "blocked", _) => Tone::Wait,
            ("failed", _) => Tone::Bad,
            ("waived", _) => Tone::Quiet,
            ("in_progress" | "claimed", _) => Tone::Busy,
            _ => Tone::Plain,
        },
        attempts: step.attempt_count,
        since: running.map(|attempt| attempt.begun),
        page: page(step, output.as_deref(), busy),
    }
}

/// Returns the attempt that is under way.
fn running(step: &StepView) -> Option<&AttemptView> {
    step.attempts.last().filter(|attempt| step.state == "in_progress" && attempt.ended.is_none())
}

fn page(step: &StepView, output: Option<&str>, busy: Option<&str>) -> Vec<Said> {
    let mut page = vec![Said::strong(format!("{}. {}", step.number, step.title))];
    let who = match &step.plan {
        Some(plan) => format!("the plan {plan}"),
        None => format!("by {}", step.role),
    };
    // A step that needs the one before it is the ordinary case.
    let needs = match step.depends_on.as_slice() {
        [] => String::new(),
        [before] if before + 1 == step.number => String::new(),
        several => {
            let numbers: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!(" · needs {}", numbers.join(", "))
        }
    };
    page.push(Said::quiet(format!("{} · {who}{needs} · on_fail {}", step.word, step.on_fail)));
    if let Some(reason) = &step.blocked {
        page.push(Said::new(Tone::Wait, format!("waits for a person: {reason} (i opens the inbox)")));
    }
    page.extend(step.waived_by.iter().map(|by| Said::new(Tone::Wait, format!("waived by {by}"))));
    weaknesses(&mut page, step.weaker, step.uncontrolled.as_deref());
    match step.state {
        "claimed" => page.push(Said::new(Tone::Wait, "a person confirms it (i opens the inbox)")),
        "in_progress" if running(step).is_none() => {
            let busy = busy.map_or("provost runs the check".to_owned(), |busy| format!("provost: {busy}"));
            page.push(Said::new(Tone::Busy, busy));
        }
        _ => {}
    }
    if let Some(until) = step.not_before {
        page.push(Said::quiet(format!("not tried again before {until}")));
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
    for attempt in step.attempts.iter().rev() {
        of_attempt(&mut page, attempt);
    }
    if let Some(task) = &step.task {
        page.extend([Said::gap(), Said::strong("Task"), Said::indented(Tone::Plain, task.trim())]);
    }
    contract(&mut page, "Precondition", step.precondition.as_ref());
    contract(&mut page, "Contract", step.contract.as_ref());
    page
}

/// Says why a pass is weaker than verified.
fn weaknesses(page: &mut Vec<Said>, weaker: Option<&str>, uncontrolled: Option<&str>) {
    page.extend(weaker.map(|why| Said::new(Tone::Wait, why)));
    page.extend(uncontrolled.map(|why| Said::new(Tone::Wait, format!("uncontrolled: {why}"))));
}

fn of_attempt(page: &mut Vec<Said>, attempt: &AttemptView) {
    let how = match &attempt.end {
        Some(end) => format!("{}{end}", took(attempt.duration_ms)),
        None => "running".to_owned(),
    };
    page.push(Said::gap());
    page.push(Said::strong(format!("Attempt {} by {}: {how}", attempt.number, attempt.target)));
    for judged in attempt.verdicts.iter().rev() {
        verdict(page, judged);
    }
    let is_seen = attempt.verdicts.iter().any(|judged| !judged.is_control() && !judged.held());
    // The verdict above already says this in more detail.
    if let Some(failure) = attempt.failure.as_ref().filter(|_| !is_seen) {
        page.push(Said::indented(Tone::Bad, failure));
    }
    if let Some(class) = attempt.class {
        page.push(Said::indented(Tone::Plain, format!("classified as {class}")));
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

fn verdict(page: &mut Vec<Said>, judged: &VerdictView) {
    let what = match judged.subject {
        Some("control") => "before the work, contract",
        Some("final") => "at the end, contract",
        other => other.unwrap_or("it"),
    };
    let tone = match (judged.is_control(), judged.held()) {
        (true, _) => Tone::Quiet,
        (false, true) => Tone::Good,
        (false, false) => Tone::Bad,
    };
    let by = judged.judged_by.iter().map(|by| format!(", {by}")).collect::<String>();
    let took = took(Some(judged.duration_ms));
    page.push(Said::indented(tone, format!("{what} {} ({took}{}{by})", judged.words, judged.isolation)));
    for unmet in &judged.unmet {
        page.push(Said::indented(tone, format!("not met: {unmet}")));
    }
    for (stream, output) in [("stdout", &judged.stdout), ("stderr", &judged.stderr)] {
        if !output.is_empty() && tone != Tone::Quiet {
            page.push(Said::indented(Tone::Quiet, format!("{stream}:")));
            let lines: String = output.lines().map(|line| format!("  {line}\n")).collect();
            page.push(Said::indented(Tone::Plain, lines));
        }
    }
}

fn contract(page: &mut Vec<Said>, name: &str, contract: Option<&CheckView>) {
    let Some(contract) = contract else { return };
    let kind = match contract.kind {
        "human" => " (a person confirms)",
        "judge" => " (a model judges)",
        _ => "",
    };
    let text = contract.text.as_deref().unwrap_or_default().trim_end();
    let text = format!("{text}\n{}", contract.expectations.join("\n"));
    page.extend([Said::gap(), Said::strong(format!("{name}{kind}")), Said::indented(Tone::Plain, text)]);
}

fn of_post(post: &PostconditionView) -> Part {
    let mut page =
        vec![Said::strong(format!("Postcondition {}", post.number)), Said::plain(&post.description)];
    page.push(Said::quiet(&post.word));
    weaknesses(&mut page, post.weaker, post.uncontrolled.as_deref());
    post.verdict.iter().for_each(|broke| verdict(&mut page, broke));
    contract(&mut page, "Contract", post.contract.as_ref());
    Part {
        number: format!("post {}", post.number),
        mark: post.mark,
        title: text::line(&post.description),
        state: post.word.clone(),
        tone: match (post.state, post.pass) {
            ("broke", _) => Tone::Bad,
            (_, Some(Pass::Verified)) => Tone::Good,
            (_, Some(_)) => Tone::Wait,
            (_, None) => Tone::Plain,
        },
        attempts: 0,
        since: None,
        page,
    }
}
