//! Describes an event in one line.

use std::fmt::Write as _;

use crate::model::escalation::EscalationCause;
use crate::model::event::{
    AttemptEnd, CheckSubject, Choice, EndedAttempt, Event, Landing, Probe, RunOutcome, Summary,
};
use crate::model::pass::Pass;
use crate::model::plan::Step;
use crate::model::usage::Cost;
use crate::model::verdict::{CheckOutcome, Isolation, Teeth, Verdict};
use crate::state::run::Run;

/// Describes an event in one line.
pub fn event(run: &Run, event: &Event) -> EventLine {
    let (mut symbol, mut words) = meaning(event);
    if let Event::StepPassed { step, .. } = event {
        symbol = Symbol::Passed(run.step(*step).and_then(|step| step.pass).unwrap_or(Pass::Verified));
    }
    if let Event::RunEnded { outcome, summary, train: None, .. } = event {
        (symbol, words) = run_ended(run, *outcome, summary);
    }
    if let Event::Judged { subject: CheckSubject::Contract(number), verdict, .. } = event
        && run.plan.step(*number).is_some_and(Step::is_hidden)
    {
        // Agents can read the progress file.
        words = format!("checked: contract {}{}", verdict.outcome, left_behind(verdict));
    }
    if let Event::Judged { subject: CheckSubject::Contract(number), verdict, .. } = event
        && verdict.held()
        && run.is_held_apart(*number)
    {
        words.push_str(" on its own tree; it runs again with the changes of other steps");
    }
    let total = run.plan.steps.len() as u32;
    let step = event.step().map(|number| (number.0, run.title(number).unwrap_or_default().to_owned()));
    EventLine { symbol, step, total, words, told_elsewhere: told_elsewhere(event) }
}

/// Describes what the verdicts of this run are worth, and what limits them.
fn isolation(level: Isolation, probes: &[Probe]) -> String {
    let meaning = match level {
        Isolation::Clean => "checks run in a sandbox, on the approved base and the files the plan may touch",
        Isolation::Landlock => {
            "checks run under Landlock, on the approved base and the files the plan may touch; the agent \
             can write the repository, and its network is confined only if it is off"
        }
        Isolation::Uid => {
            "checks ran as another user, on the approved base and the files the plan may touch; the agent was \
             another user too"
        }
        Isolation::GuardClean => {
            "checks run on the approved base and the files the plan may touch, without a sandbox; the \
             agent's network, git and home are not confined"
        }
        Isolation::InPlace | Isolation::None => {
            "checks run in the workspace as the agent left it; the agent's network, git and \
             home are not confined"
        }
    };
    let missing: Vec<&str> =
        probes.iter().filter(|probe| !probe.held).map(|probe| probe.detail.as_str()).collect();
    match missing.first() {
        Some(first) => format!("isolation {level}: {meaning}; for `clean`: {first}"),
        None => format!("isolation {level}: {meaning}"),
    }
}

/// Describes the check before the work; it should fail there.
fn control(verdict: &Verdict) -> String {
    match &verdict.outcome {
        CheckOutcome::Held => {
            "the contract holds before the work already: it cannot show that the work was done".to_owned()
        }
        CheckOutcome::NotRun { .. } => format!("before the work the contract {}", verdict.outcome),
        CheckOutcome::Killed { .. } => format!("before the work the contract was {}", verdict.outcome),
        outcome => format!("before the work the contract {outcome}, as it should"),
    }
}

/// Recognises events that another line of the same moment already covers.
fn told_elsewhere(event: &Event) -> bool {
    match event {
        Event::Judged { subject: CheckSubject::Contract(_), verdict, .. } => verdict.held(),
        Event::AttemptEnded(EndedAttempt { end, notes, rewrites, outside, .. }) => {
            let is_bare = notes.is_empty() && rewrites.is_empty() && outside.is_empty();
            *end == AttemptEnd::Exited { exit_code: 0 } && is_bare
        }
        Event::Judged { subject: CheckSubject::Control(_), verdict, .. } => !verdict.held(),
        Event::Judged { subject: CheckSubject::Final(_), verdict, .. } => verdict.held() && verdict.cached,
        Event::FailureDetected { .. } => true,
        _ => false,
    }
}

/// Returns the symbol and the words of an event.
fn meaning(event: &Event) -> (Symbol, String) {
    match event {
        Event::PlanCreated { .. }
        | Event::PlanRewritten { .. }
        | Event::PlanVerified { .. }
        | Event::ApprovalRequested { .. }
        | Event::Approved { .. }
        | Event::Rejected { .. }
        | Event::QuestionAsked { .. }
        | Event::IsolationAttested { .. } => before_the_work(event),
        Event::StepStarted { .. }
        | Event::StepClaimed { .. }
        | Event::AttemptEnded(_)
        | Event::AttemptLost { .. }
        | Event::Judged { .. }
        | Event::StepPassed { .. }
        | Event::StepFailed { .. }
        | Event::StepWaived { .. } => of_the_work(event),
        Event::FailureDetected { error_message, .. } => (Symbol::Bad, error_message.clone()),
        Event::FailureClassified { failure_type, rule, .. } => {
            (Symbol::Note, format!("classified as {}: {rule}", failure_type.word()))
        }
        Event::RecoveryApplied { outcome, .. } => (Symbol::Note, outcome.clone()),
        Event::PermissionRequired { configure, .. } => {
            (Symbol::Note, format!("to configure outside of the run: {}", configure.join(", ")))
        }
        Event::Escalated { cause: Some(EscalationCause::Overdue), reason, .. } => {
            (Symbol::Waiting, reason.clone())
        }
        Event::Escalated { reason, .. } => (Symbol::Blocked, format!("waits for a person: {reason}")),
        Event::BudgetExceeded { breach, .. } => (Symbol::Blocked, format!("waits for a person: {breach}")),
        Event::Answered { choice, by, note, budget, .. } => {
            let limits =
                if budget.is_empty() { String::new() } else { format!(", with a budget of {budget}") };
            (Symbol::Note, format!("{}{limits}", answered(*choice, by, note)))
        }
        Event::LawChanged { changes } => {
            (Symbol::Bad, format!("the plan file is not what was approved: {}", list(changes)))
        }
        Event::TamperDetected { what, .. } => (Symbol::Bad, format!("tampering: {what}")),
        Event::LeaseBroken { lease, held_by, by } => {
            (Symbol::Note, format!("{by} broke the lease `{lease}`, which {held_by} held"))
        }
        Event::TrainStarted { target, base, plans } => {
            let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
            let base = base.get(..12).unwrap_or(base);
            (Symbol::Begun, format!("a merge train for {target} at {base}: {}", names.join(", ")))
        }
        Event::PlanLanded { plan, target, commit, .. } => (
            Symbol::Passed(Pass::Verified),
            format!("{plan} landed on {target} as {}", commit.get(..12).unwrap_or(commit)),
        ),
        Event::RunEnded { train: Some(train), .. } => train_ended(train),
        // Only the run knows the kinds of the passes.
        Event::RunEnded { .. } => (Symbol::Note, String::new()),
    }
}

/// Describes events about the plan, its gate and the start of a run.
fn before_the_work(event: &Event) -> (Symbol, String) {
    match event {
        Event::PlanCreated { task_count, .. } => {
            (Symbol::Note, format!("plan recorded, {}", counted(*task_count, "step")))
        }
        Event::PlanRewritten { changes, .. } => (Symbol::Note, format!("plan changed: {}", list(changes))),
        Event::PlanVerified { warnings: 0, .. } => (Symbol::Note, "static checks passed".to_owned()),
        Event::PlanVerified { warnings, .. } => {
            (Symbol::Note, format!("static checks passed, {}", counted(*warnings, "warning")))
        }
        Event::ApprovalRequested { .. } => (Symbol::Waiting, "waits for approval".to_owned()),
        Event::Approved { by, revision, missing: 0, .. } => {
            (Symbol::Note, format!("revision {} approved by {by}", revision.short()))
        }
        Event::Approved { by, revision, missing, .. } => (
            Symbol::Waiting,
            format!("revision {} approved by {by}; {missing} more needed", revision.short()),
        ),
        Event::Rejected { reason, by, .. } => (Symbol::Bad, format!("rejected by {by}: {reason}")),
        Event::QuestionAsked { question, by, step: None, .. } => {
            (Symbol::Waiting, format!("{by} asks: {question}"))
        }
        Event::QuestionAsked { question, by, step: Some(step), .. } => {
            (Symbol::Waiting, format!("{by} asks about step {step}: {question}"))
        }
        Event::IsolationAttested { level, probes, agent_outside: true, .. } => {
            let words = format!(
                "{}; the agent works in its own client, without a sandbox",
                isolation(*level, probes)
            );
            (Symbol::Note, words)
        }
        Event::IsolationAttested { level, probes, took_over: Some(before), .. } => {
            let words = format!("{}; the plan was taken over: {before}", isolation(*level, probes));
            (Symbol::Note, words)
        }
        Event::IsolationAttested { level, probes, .. } => (Symbol::Note, isolation(*level, probes)),
        _ => (Symbol::Note, String::new()),
    }
}

/// Describes events about attempts, checks and the results of steps.
fn of_the_work(event: &Event) -> (Symbol, String) {
    match event {
        Event::StepStarted { attempt: 1, target, .. } => (Symbol::Begun, format!("given to {target}")),
        Event::StepStarted { attempt, target, .. } => {
            (Symbol::Begun, format!("given to {target}, attempt {attempt}"))
        }
        Event::StepClaimed { evidence, .. } => {
            (Symbol::Claim, format!("the agent claims “{}”", one_line(evidence)))
        }
        Event::AttemptEnded(EndedAttempt { end, report, notes, rewrites, outside, .. }) => {
            let mut words = ended(end, report, notes);
            if !outside.is_empty() {
                let changes: Vec<String> = outside.iter().map(ToString::to_string).collect();
                let _ = write!(words, "; changed outside of `touches`: {}", changes.join(", "));
            }
            match rewrites.len() {
                0 => (Symbol::Note, words),
                times => (Symbol::Note, format!("{words}; it {}", rewritten(times, rewrites))),
            }
        }
        Event::AttemptLost { attempt, .. } => {
            (Symbol::Bad, format!("provost was interrupted during attempt {attempt}; it uses up no retry"))
        }
        Event::Judged { subject, verdict, plan, .. } => judged(subject, verdict, plan.as_deref()),
        Event::StepPassed { result, pass, .. } => {
            (Symbol::Passed(pass.unwrap_or(Pass::Verified)), result.clone())
        }
        Event::StepFailed { error, .. } => (Symbol::Failed, error.clone()),
        Event::StepWaived { by, reason, .. } => (Symbol::Waived, format!("waived by {by}: {reason}")),
        _ => (Symbol::Note, String::new()),
    }
}

fn judged(subject: &CheckSubject, verdict: &Verdict, plan: Option<&str>) -> (Symbol, String) {
    let what = match subject {
        CheckSubject::Precondition(_) => "precondition".to_owned(),
        CheckSubject::Control(_) => return (Symbol::Note, control(verdict)),
        CheckSubject::Contract(_) => "contract".to_owned(),
        CheckSubject::Final(_) if verdict.held() => "at the end: contract".to_owned(),
        CheckSubject::Final(_) => "a later change undid it: contract".to_owned(),
        CheckSubject::Postcondition(number) => format!("postcondition {number}"),
    };
    let what = match (plan, subject) {
        (Some(plan), CheckSubject::Final(step)) => {
            format!("contract {step} of {plan} on the combined tree")
        }
        (Some(plan), _) => format!("{what} of {plan} on the combined tree"),
        (None, _) => what,
    };
    let symbol = if verdict.held() { Symbol::Good } else { Symbol::Bad };
    let tried = tried(verdict).filter(|_| verdict.held()).map(|teeth| format!("; {teeth}"));
    let tried: String = tried.into_iter().collect();
    let by = verdict.judged.iter().map(|judgement| format!("; {}", judgement.by()));
    let tried: String = by.chain(std::iter::once(tried)).collect();
    let missing = left_behind(verdict);
    let tests = verdict.test_results.as_ref().filter(|results| results.has_changes());
    let tests: String = tests.iter().map(|results| format!("; tests: {}", results.counts())).collect();
    let worth =
        if matches!(subject, CheckSubject::Postcondition(_)) { worth(verdict) } else { String::new() };
    let words = format!("checked: {what} {}{}{tried}{missing}{worth}", verdict.outcome, because(verdict));
    (symbol, format!("{words}{tests}"))
}

/// Describes how far a held postcondition can be trusted.
fn worth(verdict: &Verdict) -> String {
    let held_before = if verdict.held_before == Some(true) { "; it held before the work too" } else { "" };
    let uncontrolled = verdict.uncontrolled.iter().map(|why| format!("; uncontrolled: {why}"));
    format!("{held_before}{}", uncontrolled.collect::<String>())
}

/// Returns, for example, `plan done: 3 verified, 1 held before; 2 uncontrolled`.
fn run_ended(run: &Run, outcome: RunOutcome, summary: &Summary) -> (Symbol, String) {
    let (symbol, word) = match outcome {
        // A waived step was not verified: the plan has ended, but is not green.
        RunOutcome::Done if summary.skipped > 0 => (Symbol::Waived, "done, with steps waived"),
        RunOutcome::Done => (Symbol::Passed(run.plan_pass()), "done"),
        RunOutcome::Failed => (Symbol::Failed, "failed"),
    };
    let mut words = format!("plan {word}: {}", run.passes_by_kind());
    for (count, what) in [(summary.failed, "failed"), (summary.skipped, "skipped")] {
        if count > 0 {
            let _ = write!(words, ", {count} {what}");
        }
    }
    for reservation in run.reservations() {
        let _ = write!(words, "; {reservation}");
    }
    words.push_str(&cost(&summary.cost));
    (symbol, words)
}

fn train_ended(train: &Landing) -> (Symbol, String) {
    let names: Vec<&str> = train.plans.iter().map(|plan| plan.name.as_str()).collect();
    let left: Vec<String> = train.left_out.iter().map(|out| format!("{} {}", out.name, out.reason)).collect();
    let left = if left.is_empty() { String::new() } else { format!("; left out: {}", left.join("; ")) };
    match &train.commit {
        Some(commit) => {
            let commit = commit.get(..12).unwrap_or(commit);
            (Symbol::Good, format!("will land on {} as {commit}: {}{left}", train.target, names.join(", ")))
        }
        None => (Symbol::Bad, format!("nothing lands on {}{left}", train.target)),
    }
}

/// Describes the cost, if any of it is known.
fn cost(cost: &Cost) -> String {
    let known = cost.tokens.is_some() || cost.micro_usd.is_some();
    if known && !cost.is_none() { format!("; {cost}") } else { String::new() }
}

/// One line about an event, not yet formatted for a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLine {
    pub symbol: Symbol,
    /// Number and title.
    pub step: Option<(u32, String)>,
    pub total: u32,
    pub words: String,
    /// Another line of the same moment says it too: a live view may skip this one.
    pub told_elsewhere: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// The step has ended.
    Passed(Pass),
    Failed,
    Blocked,
    Waived,
    /// Something during the step.
    Begun,
    Claim,
    Good,
    Bad,
    Waiting,
    Note,
}

impl Symbol {
    pub fn text(self) -> &'static str {
        match self {
            Symbol::Passed(pass) => pass.mark(),
            Symbol::Failed => "❌",
            Symbol::Blocked => "⛔",
            Symbol::Waived => "⏭",
            Symbol::Begun => "▶",
            Symbol::Claim => "…",
            Symbol::Good => "✓",
            Symbol::Bad => "✗",
            Symbol::Waiting => "⏳",
            Symbol::Note => "·",
        }
    }
}

/// Writes `[Step 2/4] ✓ Title: words`.
impl std::fmt::Display for EventLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.step {
            Some((number, title)) => {
                write!(f, "[Step {number}/{}] {} {title}: {}", self.total, self.symbol.text(), self.words)
            }
            None => write!(f, "{} {}", self.symbol.text(), self.words),
        }
    }
}

fn ended(end: &AttemptEnd, report: &str, notes: &[String]) -> String {
    let how = end.words();
    let said = if report.is_empty() { how } else { format!("{how}: {}", last_words(report)) };
    if notes.is_empty() { said } else { format!("{said} ({})", one_line(&notes.join("; "))) }
}

/// Describes how many times an agent changed its own task list, and its last change.
fn rewritten(times: usize, rewrites: &[String]) -> String {
    let last = rewrites.last().map(|diff| one_line(diff)).unwrap_or_default();
    match times {
        1 => format!("rewrote its own plan: {last}"),
        times => format!("rewrote its own plan {times} times, last: {last}"),
    }
}

fn answered(choice: Choice, by: &str, note: &str) -> String {
    let word = choice.word();
    if note.is_empty() { format!("{by} answered {word}") } else { format!("{by} answered {word}: {note}") }
}

/// Returns the negative control that was tried. If none was possible, `uncontrolled` says so.
pub(super) fn tried(verdict: &Verdict) -> Option<&Teeth> {
    verdict.teeth.as_deref().filter(|teeth| teeth.planted.is_some() || verdict.uncontrolled.is_none())
}

/// Returns the reason for a failure: the unmet expectations, or the last line that the check printed.
fn because(verdict: &Verdict) -> String {
    if verdict.held() {
        return String::new();
    }
    // provost's own objections appear in no output.
    if matches!(verdict.outcome, CheckOutcome::Broke { exit_code: 0 }) && !verdict.unmet.is_empty() {
        return format!(" — {}", one_line(&verdict.unmet.join(", ")));
    }
    let text = [&verdict.stderr, &verdict.stdout]
        .into_iter()
        .map(|excerpt| if excerpt.tail.is_empty() { &excerpt.head } else { &excerpt.tail })
        .find_map(|text| text.lines().rev().find(|line| !line.trim().is_empty()));
    match text {
        Some(line) => format!(" — {}", one_line(line)),
        None => String::new(),
    }
}

/// Lists the work that a failed check did not get.
fn left_behind(verdict: &Verdict) -> String {
    let tree = verdict.tree.iter().filter(|_| !verdict.held());
    tree.flat_map(|tree| tree.left_behind()).map(|line| format!("; {line}")).collect()
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(200) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

/// Returns the end of a text, where the reason usually is.
fn last_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().rev().nth(199) {
        Some((from, _)) if from > 0 => format!("…{}", &line[from..]),
        _ => line,
    }
}

fn counted(count: u32, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

fn list(changes: &[String]) -> String {
    if changes.is_empty() { "no difference in meaning".to_owned() } else { changes.join("; ") }
}
