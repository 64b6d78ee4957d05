//! Texts of the tools' answers: the plan, the next thing to do, a verdict, in words for a model.
//!
//! **Invariant:** no answer contains a contract that is hidden from agents, or its output.

use std::fmt::Write as _;

use provost_core::language::parse;
use provost_core::model::approved_spec;
use provost_core::model::pass::Pass;
use provost_core::model::plan::{Step, StepNumber};
use provost_core::model::verdict::Verdict;
use provost_core::state::run::{PostState, Run, Stage, StepRun, StepState};
use provost_core::text::prompt;
use provost_core::text::render::base;
use provost_engine::observe::view::{CheckView, PostconditionView, StepView, VerdictView};
use provost_engine::session::agent_session::{CreateResult, SessionDecision};

use super::Reply;
use super::judging::CheckJobResult;

/// Maximum size of a check's output; more would only fill the context.
const OUTPUT_MAX: usize = 6000;

/// Describes the current state of the plan.
pub(super) fn plan(run: &Run, name: &str) -> String {
    let mut out = state(run, name);
    let _ = writeln!(out, "\n{}", next(run));
    out
}

/// Describes a plan that another session may work on, without what to do next.
pub(super) fn other_plan(run: &Run, name: &str) -> String {
    let take = "This is not the plan of this session. To carry it out, call plan_take with its name.";
    format!("{}\n{take}\n", state(run, name))
}

pub(super) fn state(run: &Run, name: &str) -> String {
    let (done, total) = run.progress();
    let mut out = format!("Plan {name}: {}\n", run.plan.title);
    let _ = writeln!(out, "{} · {done} of {total} steps passed", run.stage.word());
    if let Some(by) = run.approvers() {
        let _ = writeln!(out, "approved by {by}");
    }
    for (step, state) in run.steps() {
        let step = StepView::of(run, step, state, &[]);
        let _ = writeln!(out, "{} {}. {} ({})", step.symbol(), step.number, step.title, step.word);
        if let Some(check) = &step.contract {
            let _ = writeln!(out, "   {}", checked_by(check, step.hidden));
        }
        open_matter(&mut out, &step);
    }
    for post in PostconditionView::all(run) {
        let _ = writeln!(
            out,
            "{} postcondition {}. {} ({})",
            post.mark, post.number, post.description, post.word
        );
        if let Some(check) = &post.contract {
            let _ = writeln!(out, "   {}", checked_by(check, false));
        }
    }
    out
}

fn open_matter(out: &mut String, step: &StepView) {
    if let Some(reason) = &step.blocked {
        let _ = writeln!(out, "   waits for a person: {reason}");
    } else if let Some(seen) = last_check(step) {
        let _ = writeln!(out, "   the last check: {seen}");
    }
}

/// Describes the last check of an open step, if it did not hold.
pub(super) fn last_check(step: &StepView) -> Option<String> {
    let broke = step.verdict.as_ref().filter(|verdict| !verdict.held())?;
    matches!(step.state, "pending" | "in_progress" | "claimed").then(|| seen(broke, step.hidden))
}

fn checked_by(check: &CheckView, hidden: bool) -> String {
    match (check.kind, &check.command) {
        _ if hidden => "check: hidden from you".to_owned(),
        (_, Some(command)) => format!("check: {}", command.trim().replace('\n', "\n          ")),
        ("judge", None) => "check: a model judges it".to_owned(),
        (_, None) => "check: a person confirms it".to_owned(),
    }
}

/// Returns the text of the plan as an agent may see it.
pub(super) fn text(run: &Run) -> String {
    let marked = approved_spec::mark(&run.text, &run.plan, run.stage.word(), |step| run.mark(step));
    match run.hides {
        true => prompt::veiled(&marked, &parse::plan(&marked).plan).unwrap_or_default(),
        false => marked,
    }
}

/// Returns the one thing to do now.
pub(super) fn next(run: &Run) -> String {
    match run.stage {
        Stage::Draft | Stage::Verified => {
            return "Next: the plan waits for a person's approval (`provost approve`). Tell your user, and wait.".to_owned();
        }
        Stage::Done => {
            return format!("{}You may finish.", done(run));
        }
        Stage::Failed => {
            return "The plan has failed and waits for a person (`provost inbox`). Tell your user what is missing.".to_owned();
        }
        Stage::Approved | Stage::InProgress => {}
    }
    let in_state = |wanted: fn(&StepState) -> bool| {
        run.steps().find(|(_, state)| wanted(&state.state)).map(|(step, _)| step)
    };
    if let Some(step) = in_state(|state| matches!(state, StepState::Running { .. })) {
        return format!(
            "Next: continue step {}: {}\nWhen it is done: step_update(step: {}, status: \"done\", evidence: …)",
            step.number,
            task(step),
            step.number
        );
    }
    if let Some(step) = in_state(|state| matches!(state, StepState::Blocked { .. })) {
        return format!(
            "Next: step {} waits for a person (`provost inbox`). Tell your user what is missing; the plan is not done.",
            step.number
        );
    }
    if let Some(number) = run.under_way().find(|number| !run.confirmed_by_person(*number)) {
        return format!(
            "Next: the check of step {number} could not be made yet: call step_update(step: {number}, status: \"done\", evidence: …) again in a while."
        );
    }
    if let Some(step) = run.ready().next().and_then(|number| run.plan.step(number)) {
        return format!(
            "Next: step {}: {}\nBegin with step_update(step: {}, status: \"in_progress\")",
            step.number,
            task(step),
            step.number
        );
    }
    if let Some(number) = run.under_way().next() {
        return format!(
            "Next: step {number} waits for a person to confirm it (`provost inbox`). Tell your user; until then the plan is not done."
        );
    }
    let broke = run.postconditions().find(|(_, state)| matches!(state, PostState::Broke(_)));
    match broke {
        Some((post, _)) => format!(
            "Next: postcondition {} does not hold ({}): fix it, then call postcondition_verify.",
            post.number, post.description
        ),
        None => "Next: every step has passed: call postcondition_verify.".to_owned(),
    }
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn task(step: &Step) -> &str {
    step.task.as_ref().map_or(step.title.as_str(), |task| task.value.trim())
}

pub(super) fn created(created: &CreateResult) -> String {
    let CreateResult { run, name, path, gate, warnings, on_base } = created;
    let mut out = format!(
        "Plan {name} is made ({}): {}, {}.\n",
        path.display(),
        count(run.plan.steps.len(), "step"),
        count(run.plan.postconditions.len(), "postcondition")
    );
    match gate {
        SessionDecision::Open(by) => {
            let _ = writeln!(out, "Verified, and approved by {by}.");
        }
        SessionDecision::Waits(why) => {
            let _ = writeln!(
                out,
                "It waits for a person, because {why}. Tell your user to read and approve it: `provost approve {name}`"
            );
        }
    }
    let by_person: Vec<String> = run
        .plan
        .steps
        .iter()
        .filter(|step| run.confirmed_by_person(step.number))
        .map(|step| step.number.to_string())
        .collect();
    if !by_person.is_empty() {
        let _ = writeln!(
            out,
            "Without a check a person has to confirm: step {}. Call plan_create again with a `check` to have provost decide.",
            by_person.join(", ")
        );
    }
    if let Some(look) = on_base {
        let _ = writeln!(out, "{}", base::lines(&run.plan, look).join("\n"));
        if look.holding() > 0 {
            out.push_str("A check that holds already cannot show that you did the work. Call plan_create again with a check that fails now.\n");
        }
    }
    if !warnings.is_empty() {
        let _ = writeln!(out, "Warnings:\n- {}", warnings.join("\n- "));
    }
    let _ = writeln!(out, "\n{}", next(run));
    out
}

/// Returns the result of an earlier check, followed by `next`.
pub(super) fn after(said: CheckJobResult, next: &str) -> String {
    match said {
        CheckJobResult::Nothing => next.to_owned(),
        CheckJobResult::Still { .. } => still(&said),
        CheckJobResult::Over { outcome, of } => {
            let what = of.unwrap_or_default();
            let words = match outcome.as_ref() {
                Ok(run) => summary(run, &what),
                Err(refused) => refused.clone(),
            };
            format!("The check of {what} has ended. {words}\n\n{next}")
        }
    }
}

fn summary(run: &Run, what: &str) -> String {
    let number = what.split_whitespace().find_map(|word| word.parse().ok()).map(StepNumber);
    match number.and_then(|number| Some((run.plan.step(number)?, run.step(number)?))) {
        Some((step, state)) => verdict_on(run, step, state).text,
        None => whole(run).text,
    }
}

fn still(said: &CheckJobResult) -> String {
    match said {
        CheckJobResult::Still { what, seconds } => format!(
            "Still judging {what} ({seconds} s so far); nothing is decided yet. Call plan_next for the result."
        ),
        CheckJobResult::Nothing | CheckJobResult::Over { .. } => String::new(),
    }
}

/// Returns the answer of a call that ran a check; `done` puts the outcome into words.
fn answer(said: CheckJobResult, done: impl FnOnce(&Run) -> Reply) -> Reply {
    match said {
        CheckJobResult::Nothing => Reply::refusal("no check ran; call it again"),
        CheckJobResult::Still { .. } => Reply::ok(still(&said)),
        CheckJobResult::Over { outcome, of: None } => match outcome.as_ref() {
            Ok(run) => done(run),
            Err(refused) => Reply::refusal(refused.clone()),
        },
        CheckJobResult::Over { outcome, of: Some(what) } => {
            let words = match outcome.as_ref() {
                Ok(run) => format!("{}\n\n{}", summary(run, &what), next(run)),
                Err(refused) => refused.clone(),
            };
            Reply::refusal(format!(
                "A check of {what} was still running; it has ended now. {words}\n\nYour call was not carried out: repeat it if it is still right."
            ))
        }
    }
}

pub(super) fn begun(said: CheckJobResult, step: u32) -> Reply {
    answer(said, |run| {
        let number = StepNumber(step);
        let (Some(step), Some(state)) = (run.plan.step(number), run.step(number)) else {
            return Reply::ok(next(run));
        };
        if let StepState::Blocked { .. } = state.state {
            return verdict_on(run, step, state);
        }
        let control = match state.held_before {
            Some(true) => {
                "\nIts check already holds before the work, so it proves no progress. Use a stronger check."
            }
            Some(false) => "\nIts check fails now, as it should before the work.",
            None => "",
        };
        Reply::ok(format!("Step {number} is in progress.{control}\n{}", next(run)))
    })
}

pub(super) fn claimed(said: CheckJobResult, step: u32) -> Reply {
    answer(said, |run| {
        let number = StepNumber(step);
        match (run.plan.step(number), run.step(number)) {
            (Some(step), Some(state)) => {
                let Reply { mut text, mut refuses, .. } = verdict_on(run, step, state);
                let broke = run.postconditions().any(|(_, state)| matches!(state, PostState::Broke(_)));
                if run.all_settled() && (broke || run.stage == Stage::Done) {
                    let Reply { text: rest, refuses: undone, .. } = whole(run);
                    text = format!("{text}\n\n{rest}");
                    refuses |= undone;
                } else if !refuses {
                    text = format!("{text}\n\n{}", next(run));
                }
                Reply { text, refuses, data: None }
            }
            _ => Reply::ok(next(run)),
        }
    })
}

pub(super) fn verified(said: CheckJobResult) -> Reply {
    answer(said, whole)
}

/// Returns the answer of a person to an agent that was blocked.
pub(super) fn answered(run: &Run, answer: &str) -> String {
    format!("Your user answers: {answer}\n{}", next(run))
}

pub(super) fn blocked(run: &Run, step: u32) -> String {
    format!("Step {step} is blocked and waits for a person.\n{}", next(run))
}

pub(super) fn topics(topics: &[String]) -> String {
    match topics.is_empty() {
        true => "No topic was published yet.".to_owned(),
        false => format!("Topics: {}", topics.join(", ")),
    }
}

/// Describes the outcome of a claim.
fn verdict_on(run: &Run, step: &Step, state: &StepRun) -> Reply {
    let number = step.number;
    let verdict = state.verdict.as_ref();
    let seen = |verdict: &Verdict| seen(&VerdictView::of(verdict), step.is_hidden());
    match &state.state {
        StepState::Passed => {
            let pass = run.pass(number).filter(|pass| *pass != Pass::Verified);
            let mut guard = match (pass, pass.and_then(Pass::explanation)) {
                (Some(pass), Some(why)) => format!(" It counts as {pass}: {why}."),
                _ => String::new(),
            };
            if let Some(why) = verdict.and_then(|verdict| verdict.uncontrolled.as_ref()) {
                let _ = write!(guard, " It is uncontrolled: {why}.");
            }
            let level =
                verdict.map(|verdict| format!(" ({}, {} ms)", verdict.isolation, verdict.duration_ms));
            Reply::ok(format!(
                "Step {number} has passed: its check held{}.{guard}",
                level.unwrap_or_default()
            ))
        }
        StepState::Waived { by } => Reply::ok(format!("Step {number} was waived by {by}.")),
        StepState::Ended { .. } if run.confirmed_by_person(number) => Reply::ok(format!(
            "Step {number} is claimed. No check decides it: a person has to confirm it (`provost inbox`)."
        )),
        StepState::Blocked { reason, .. } => {
            let seen = verdict.filter(|verdict| !verdict.held()).map(seen);
            Reply::refusal(format!(
                "Step {number} is not done, and a person has to look: {reason}\n{}\nTell your user; they answer with `provost inbox`.",
                seen.unwrap_or_default()
            ))
        }
        StepState::Failed => Reply::refusal(format!("Step {number} has failed, and the plan with it.")),
        StepState::Running { .. } => Reply::ok(format!("Step {number} is in progress.")),
        StepState::Ended { .. } => Reply::refusal(format!(
            "The check of step {number} could not be made: {}\nClaim the step again later.",
            verdict.map(seen).unwrap_or_default()
        )),
        StepState::Pending => {
            let left = run.on_fail(number).retries.saturating_add(1).saturating_sub(state.failures) as usize;
            let seen = verdict.map(seen).unwrap_or_default();
            Reply::refusal(format!(
                "Step {number} is NOT done: its check {seen}\nFix the work and claim it again ({} left before provost asks a person).",
                count(left, "claim")
            ))
        }
    }
}

/// Describes how strong the passes of a done plan are.
fn done(run: &Run) -> String {
    let unread = "An agent wrote these checks and no person approved them outside of your client, so the plan ends as self-checked. \
                  Say so to your user; `provost approve` before the work would have made it verified.\n";
    let mut out = match run.weaker_passes() {
        None => "The plan is done: every check held on the final state. ".to_owned(),
        Some(_) => {
            let mut worth = vec![run.passes_by_kind().to_string()];
            worth.extend(run.reservations());
            format!("The plan is done: {}. Every check held on the final state.\n", worth.join("; "))
        }
    };
    if run.checks_unread {
        out.push_str(unread);
    }
    out
}

/// Describes the plan as a whole after all checks have run.
fn whole(run: &Run) -> Reply {
    if run.stage == Stage::Done {
        return Reply::ok(next(run));
    }
    let mut out = String::new();
    for (post, state) in run.postconditions() {
        if let PostState::Broke(verdict) = state {
            let _ = writeln!(
                out,
                "Postcondition {} does NOT hold: {}\nIts check {}",
                post.number,
                post.description,
                seen(&VerdictView::of(verdict), false)
            );
        }
    }
    if out.is_empty() {
        let reopened =
            run.steps().filter(|(_, state)| state.verdict.as_ref().is_some_and(|verdict| !verdict.held()));
        for (step, state) in reopened {
            let _ = writeln!(out, "{}", verdict_on(run, step, state).text);
        }
        return Reply::refusal(format!("The plan is not done.\n{out}\n{}", next(run)));
    }
    Reply::refusal(format!("The plan is NOT done.\n{out}\nFix it, then call postcondition_verify again."))
}

/// Describes a verdict.
pub(super) fn seen(verdict: &VerdictView, hidden: bool) -> String {
    let mut out = verdict.words.clone();
    if hidden {
        return out;
    }
    if !verdict.unmet.is_empty() {
        let _ = write!(out, " (not met: {})", verdict.unmet.join(", "));
    }
    for (name, printed) in [("stdout", &verdict.stdout), ("stderr", &verdict.stderr)] {
        let printed = printed.trim();
        if !printed.is_empty() {
            let _ = write!(out, "\n--- {name}\n{}", shortened(printed));
        }
    }
    out
}

/// Returns the end of the text, where errors usually are.
fn shortened(text: &str) -> String {
    if text.len() <= OUTPUT_MAX {
        return text.to_owned();
    }
    let from = text.len() - OUTPUT_MAX;
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    format!("… {}", &text[from..])
}
