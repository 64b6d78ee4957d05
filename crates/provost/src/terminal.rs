//! Terminal output: lines, colours, a pager, and the gate.
//!
//! stdout is data, stderr is messages. Everything is readable without colour.

use provost_engine::exec::base_look;
use provost_engine::plan::{commands, outside, queries, recording};
use std::borrow::Cow;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use provost_core::model::pass::Pass;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::command::HumanCommand;
use provost_core::rules::gate::{self, GateAnswer};
use provost_core::rules::quorum::ApprovalCount;
use provost_core::state::run::Run;
use provost_core::text::render;
use provost_engine::observe::view::{PlanState, StepView};
use provost_engine::plan::audit::Audit;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::reading::BoundPlan;
use provost_engine::plan::{human_check, uncommitted};

use crate::failure::Failure;
use crate::visible_text::visible_in_colour;
use crate::{activity_line, diagnose, hints};

/// Writes data to stdout. On a terminal, what others wrote can colour it and do nothing else to it.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let shown = if out.is_terminal() { visible_in_colour(text).into() } else { Cow::Borrowed(text) };
    let written = out.write_all(shown.as_bytes()).and_then(|()| out.flush());
    written.map_err(|source| Failure::Io { what: "write to standard output".to_owned(), source })
}

/// Writes data to stdout; on a terminal, a text that does not fit goes through the pager.
pub(crate) fn page(text: &str) -> Result<(), Failure> {
    if shows_in_pager(text) { Ok(()) } else { print(text) }
}

/// Shows a text that does not fit the terminal in `$PAGER`, or in `less`. Returns false if it was not shown.
fn shows_in_pager(text: &str) -> bool {
    let rows = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_row));
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !is_terminal || rows == 0 || text.lines().count() < rows {
        return false;
    }
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    // As git does: quit at the end of a short text, keep colours, leave the text on the screen.
    let options = std::env::var_os("LESS").unwrap_or_else(|| "FRX".into());
    let started = Command::new("sh").args(["-c", &pager]).env("LESS", options).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = started else { return false };
    if let Some(mut input) = child.stdin.take() {
        // A person may leave the pager before the end.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().is_ok_and(|ended| ended.success())
}

/// Writes a document for programs to stdout. A key of a document replaces the same key of what it flattens.
pub(crate) fn print_json(document: &impl serde::Serialize) -> Result<(), Failure> {
    let value = serde_json::to_value(document).map_err(|error| Failure::Io {
        what: "write a name that is not UTF-8 as JSON".to_owned(),
        source: error.into(),
    })?;
    print(&format!("{value}\n"))
}

/// Writes a message to stderr; write errors are ignored.
pub(crate) fn talk(text: &str) {
    let mut err = std::io::stderr().lock();
    let shown = if err.is_terminal() { visible_in_colour(text).into() } else { Cow::Borrowed(text) };
    let _ = writeln!(err, "{}", shown.trim_end_matches('\n'));
}

/// Writes a message that names commands; they work when they are pasted.
pub(crate) fn advise(text: &str) {
    talk(&hints::complete(text));
}

/// Prints an error with its causes and a hint.
pub(crate) fn complain(failure: &Failure, hint: Option<&str>) {
    if let Failure::Io { source, .. } = failure
        && source.kind() == std::io::ErrorKind::BrokenPipe
    {
        return;
    }
    let mut text = hints::complete(&format!("error: {failure}"));
    let mut cause = std::error::Error::source(failure);
    while let Some(error) = cause {
        let words = error.to_string();
        // A transparent error repeats its source.
        if !text.ends_with(&words) {
            text.push_str(&format!("\n  because: {words}"));
        }
        cause = error.source();
    }
    if let Failure::Engine(provost_engine::Error::Diagnosed { path, text: plan, diagnostics }) = failure {
        let name = diagnose::file_name(path);
        text = format!("{}{text}", diagnose::terminal(plan, &name, diagnostics, colour_on_stderr()));
    }
    if let Some(hint) = hint {
        text.push_str(&format!("\nhint: {}", hints::complete(hint)));
    }
    talk(&text);
}

pub(crate) fn colour_on_stdout() -> bool {
    std::io::stdout().is_terminal() && colour_wanted()
}

pub(crate) fn colour_on_stderr() -> bool {
    std::io::stderr().is_terminal() && colour_wanted()
}

fn colour_wanted() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns the word of a plan's state, in its colour on a terminal.
pub(crate) fn state_word(state: PlanState) -> String {
    let code = match state {
        PlanState::Done => "32",
        PlanState::Failed => "31",
        PlanState::WaitingForYou => "33",
        PlanState::Running => "36",
        PlanState::Draft | PlanState::Idle => "2",
    };
    coloured(state.word(), code)
}

/// Returns the line of a step, in the colour of its state on a terminal.
pub(crate) fn step_line(step: &StepView, line: &str) -> String {
    match (step.pass, step.state) {
        (Some(Pass::Verified), _) => coloured(line, "32"),
        (Some(_), _) | (None, "claimed" | "waived" | "blocked") => coloured(line, "33"),
        (None, "failed") => coloured(line, "31"),
        (None, "in_progress") => coloured(line, "36"),
        _ => line.to_owned(),
    }
}

/// Returns the text in a colour, if standard output is a terminal that shows colours.
pub(crate) fn coloured(text: &str, code: &str) -> String {
    if colour_on_stdout() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Returns whether a person can be asked.
pub(crate) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a person at the terminal; only an explicit yes is a yes.
pub(crate) fn agrees(question: &str) -> Result<bool, Failure> {
    Ok(matches!(ask(&format!("{question} [y/N] "))?.to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks a person at the terminal and returns the line that they typed.
pub(crate) fn ask(question: &str) -> Result<String, Failure> {
    let _ = write!(std::io::stderr().lock(), "{question}");
    let mut said = String::new();
    std::io::stdin()
        .read_line(&mut said)
        .map_err(|source| Failure::Io { what: "read from the terminal".to_owned(), source })?;
    Ok(said.trim().to_owned())
}

/// Returns a number with its noun: `1 step`, `2 steps`.
pub(crate) fn count(number: impl std::fmt::Display, noun: &str) -> String {
    match number.to_string().as_str() {
        "1" => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Returns how long ago that was, in one unit.
pub(crate) fn age(since: Timestamp) -> String {
    let seconds = now().0.saturating_sub(since.0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// Returns the name under which a decision is recorded.
pub(crate) fn user() -> String {
    ["USER", "LOGNAME"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|name| !name.is_empty())
        .unwrap_or_else(human_check::account)
}

/// Result of the gate at the terminal.
pub(crate) enum Gate {
    Approved(Box<Run>),
    Rejected,
    Waiting,
}

/// Prints which checks already hold on the base, before any work; runs them if there is no result yet.
pub(crate) fn tell_of_base(harness: &Harness, run: &Run) {
    if let Some(look) = activity_line::during(|| base_look::look_at_base(harness, run)) {
        render::base::lines(&run.plan, &look).iter().for_each(|line| talk(line));
    }
}

/// Shows the plan and asks the person. No answer is never an approval.
pub(crate) fn gate(
    harness: &Harness,
    run: &Run,
    reading: Option<&BoundPlan>,
    by: String,
) -> Result<Gate, Failure> {
    let found = show_at_gate(harness, run, reading)?;
    let short = run.revision.short();
    let ways = if found.inside.is_empty() {
        "yes · no, because … · or a question"
    } else {
        "include: yes, with the uncommitted files as part of the base · no, because … · or a question"
    };
    eprint!("\nApprove revision {short}? ({ways}) > ");
    let mut said = String::new();
    let read = std::io::stdin().lock().read_line(&mut said);
    if !matches!(read, Ok(length) if length > 0) {
        talk("\nno answer: the plan waits");
        return Ok(Gate::Waiting);
    }
    let clean = |text: &str| harness.redactor().text(text).into_owned();
    if !found.inside.is_empty() && said.trim().eq_ignore_ascii_case("include") {
        return include(harness, &found, by);
    }
    match gate::hear(&said) {
        GateAnswer::Approval => {
            let run = commands::approve(harness, run, run.revision.clone(), by)?;
            Ok(approved(run))
        }
        GateAnswer::Rejection(reason) => {
            let reason = if reason.is_empty() { "no reason given".to_owned() } else { clean(&reason) };
            provost_engine::plan::commands::human(harness, HumanCommand::Reject { reason, by })?;
            advise("rejected: the plan is a draft again; change it with `provost amend`");
            Ok(Gate::Rejected)
        }
        GateAnswer::Question(question) if is_a_slip(&question) => {
            talk("not understood, and not recorded: the plan waits; answer yes or no, or ask a question");
            Ok(Gate::Waiting)
        }
        GateAnswer::Question(question) => {
            provost_engine::plan::commands::human(
                harness,
                HumanCommand::Ask { question: clean(&question), by, step: None },
            )?;
            advise(
                "recorded as a question: the plan waits; answer with `provost amend` or `provost approve`",
            );
            Ok(Gate::Waiting)
        }
        GateAnswer::Nothing => {
            talk("no answer: the plan waits");
            Ok(Gate::Waiting)
        }
    }
}

/// Shows the plan, what changed in it, and the uncommitted files, which it returns.
fn show_at_gate(
    harness: &Harness,
    run: &Run,
    reading: Option<&BoundPlan>,
) -> Result<uncommitted::UncommittedFiles, Failure> {
    let changes = queries::last_changes(harness, run)?;
    let shown = render::plan(run);
    if !shows_in_pager(&shown) {
        talk(&shown);
    }
    if run.started() {
        advise("`provost changes` shows what the steps have changed so far");
    }
    if let Some(reading) = reading.filter(|reading| !reading.diagnostics.is_empty()) {
        let name = &harness.place().name;
        talk(&diagnose::terminal(&reading.text, name, &reading.diagnostics, colour_on_stderr()));
    }
    for change in changes {
        talk(&format!("changed: {change}"));
    }
    for line in outside::changed_caches(harness, run) {
        talk(&line);
    }
    let found = uncommitted::uncommitted(harness, run).unwrap_or_default();
    found.lines().iter().for_each(|line| talk(line));
    Ok(found)
}

/// Returns whether the words are too few for a question: a typing error must not be recorded as one.
fn is_a_slip(question: &str) -> bool {
    !question.contains('?') && question.split_whitespace().count() < 3
}

fn approved(run: Run) -> Gate {
    if run.approved_by.is_none() {
        talk(&format!("your approval is recorded: {}", ApprovalCount::of(&run)));
        return Gate::Waiting;
    }
    Gate::Approved(Box::new(run))
}

/// Approves the plan with the uncommitted files that were shown, if they are still the same.
fn include(harness: &Harness, shown: &uncommitted::UncommittedFiles, by: String) -> Result<Gate, Failure> {
    provost_engine::plan::uncommitted::include_uncommitted(harness);
    let (run, _) = recording::bring_up_to_approve(harness)?;
    if !shown.included().iter().all(|file| run.binding.included.contains(file)) {
        advise(
            "the uncommitted files changed while you read; the plan waits: read it again with `provost show`",
        );
        return Ok(Gate::Waiting);
    }
    let run = commands::approve(harness, &run, run.revision.clone(), by)?;
    talk("the uncommitted files are part of the base");
    Ok(approved(run))
}

pub(crate) fn audit(audit: &Audit) -> String {
    if audit.is_empty() && audit.finds_nothing() {
        return "nothing to audit: the log has no event of this plan; start it with `provost run`\n"
            .to_owned();
    }
    let events = count(audit.head.seq, "event");
    let mut text = match &audit.broken {
        None if audit.lost.is_some() => {
            let lost = audit.lost.as_deref().unwrap_or_default();
            format!("archive: LOST after event {}: {lost}\n", audit.head.seq)
        }
        None => format!("chain: {events}, unbroken, head {}\n", audit.head.hash),
        Some(found) => format!("chain: BROKEN after event {}: {found}\n", audit.head.seq),
    };
    let is_whole = audit.broken.is_none() && audit.lost.is_none();
    if is_whole && audit.unfounded.is_empty() && audit.passed == 0 {
        text.push_str("verdicts: no step has passed, so nothing is proved\n");
    } else if is_whole && audit.unfounded.is_empty() {
        text.push_str("verdicts: every passed step has a verdict that held (from a command, or from a model that is named) or a person's confirmation\n");
    }
    for finding in &audit.forged {
        text.push_str(&format!("log: FORGED: {finding}\n"));
    }
    for finding in &audit.disproved {
        text.push_str(&format!("proofs: {finding}\n"));
    }
    if let (Some((file, key)), true) = (&audit.proofs, audit.lost.is_none() && audit.disproved.is_empty()) {
        text.push_str(&format!("proofs: good, in {}, signed with key {key}\n", file.display()));
    }
    for finding in &audit.unfounded {
        text.push_str(&format!("verdicts: {finding}\n"));
    }
    text
}
