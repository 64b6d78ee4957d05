//! The agent loop: asks the model, runs its tool calls, and accepts its final answer only if the plan is
//! complete.
//!
//! **Invariant:** [`RunEnd::Finished`] is never returned while a step is open or a postcondition is not
//! verified. A premature answer is added to the transcript with a message that shows the plan, and the loop
//! continues within its limits; reaching a limit is an outcome.

mod bound;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use provost_core::model::usage::Usage;
use serde_json::json;
use tokio::sync::watch;

use crate::answer_form::AnswerForm;
use crate::call_log::CallLog;
use crate::context::Context;
use crate::event::AgentEvent;
use crate::plan::{AgentPlan, Readiness};
use crate::plan_state::PlanHolder;
use crate::provider::{Ask, Failure, Piece, Provider, Reply};
use crate::tally::Tally;
use crate::tool::{Catalogue, Spec};
use crate::transcript::{Call, Message, ToolResult, Transcript};
use crate::{tool, truncate};

pub use bound::Bound;
pub use settings::{Compaction, PlanRequirement, Settings};

/// Number of turns before the last that are announced to the model.
const WARNING: u32 = 3;
/// Most answers in a row that are cut off because they are too long.
const CUTS_MAX: u32 = 3;
/// Most tokens of a summary, thoughts included.
const SUMMARY_TOKENS: u32 = 4000;

pub type Observer<'a> = &'a mut (dyn FnMut(AgentEvent) + Send);

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Every step is over, and every postcondition is answered, none of them negatively.
    Finished { answer: String },
    /// The model says what it could not do.
    Blocked { answer: String },
    /// A limit was reached first.
    Unfinished { bound: Bound, missing: Vec<String>, answer: String },
    /// The caller stopped it.
    Stopped,
    /// The model could not be reached.
    Failed(Failure),
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct AgentRun {
    pub outcome: RunEnd,
    pub usage: Usage,
    /// The usage as it counts towards a limit, with estimates of what the API did not report.
    pub counted: Usage,
    pub turns: u32,
    /// Number of refused final answers.
    pub refusals: u32,
    /// The changes of each rewrite of the plan.
    pub rewrites: Vec<Vec<String>>,
    pub plan: Option<AgentPlan>,
    pub transcript: Transcript,
}

/// Ends a run from outside, also in the middle of an answer.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    async fn stopped(&self) {
        // The sender belongs to `self`, so the channel is never closed.
        let _ = self.0.subscribe().wait_for(|stop| *stop).await;
    }
}

/// A model with its tools and its plan.
pub struct Agent<'a> {
    pub provider: &'a dyn Provider,
    pub catalogue: Catalogue,
    pub holder: PlanHolder,
    pub ledger: CallLog,
    pub settings: Settings,
}

/// The mutable state of a run; it survives when the loop is stopped.
struct State {
    transcript: Transcript,
    context: Context,
    tally: Tally,
    turns: u32,
    refusals: u32,
    refusals_in_row: u32,
    cuts_in_row: u32,
    rewrites: Vec<Vec<String>>,
    /// The model was told that little of its budget is left.
    is_warned: bool,
    /// Bytes that are sent besides the transcript.
    fixed: usize,
}

impl Agent<'_> {
    /// Works on the task until the run ends.
    pub async fn run(&self, task: &str, stop: &Stop, tell: Observer<'_>) -> AgentRun {
        let mut transcript = Transcript::default();
        transcript.push(Message::User(task.to_owned()));
        self.go_on(transcript, stop, tell).await
    }

    /// Continues a conversation: the transcript of an earlier [`AgentRun`] with another question at its end. Its
    /// first message is the task.
    pub async fn go_on(&self, transcript: Transcript, stop: &Stop, tell: Observer<'_>) -> AgentRun {
        let task = Context::task_of(transcript.messages());
        let specs = self.catalogue.specs();
        let window = self.settings.context_tokens.saturating_sub(self.settings.max_output_tokens as usize);
        let sized = |spec: &Spec| {
            spec.name.len()
                + spec.description.len()
                + serde_json::to_string(&spec.schema).map_or(0, |s| s.len())
        };
        let mut state = State {
            transcript,
            context: Context::new(window, &task),
            tally: Tally::new(self.provider.model()),
            turns: 0,
            refusals: 0,
            refusals_in_row: 0,
            cuts_in_row: 0,
            rewrites: Vec::new(),
            is_warned: false,
            fixed: self.settings.system.len() + specs.iter().map(sized).sum::<usize>(),
        };
        let outcome = tokio::select! {
            biased;
            () = stop.stopped() => RunEnd::Stopped,
            outcome = self.go(&specs, &mut state, tell) => outcome,
        };
        AgentRun {
            outcome,
            usage: state.tally.usage(),
            counted: state.tally.counted().clone(),
            turns: state.turns,
            refusals: state.refusals,
            rewrites: state.rewrites,
            plan: self.holder.plan(),
            transcript: state.transcript,
        }
    }

    async fn go(&self, specs: &[Spec], state: &mut State, tell: Observer<'_>) -> RunEnd {
        let mut last = String::new();
        while state.turns < self.settings.max_turns {
            if let Some(words) = self.settings.budget.exceeded_by(state.tally.counted()) {
                return self.unfinished(Bound::Budget(words), last);
            }
            state.turns += 1;
            tell(AgentEvent::TurnStarted { turn: state.turns });
            self.make_room(specs, state, tell).await;
            let reply = match self.ask(specs, state, tell).await {
                Ok(reply) => reply,
                Err(failure) => return RunEnd::Failed(failure),
            };
            let Reply { text, calls, cut, replay, .. } = reply;
            state.transcript.push(Message::Assistant { text: text.clone(), calls: calls.clone(), replay });
            if calls.is_empty() {
                match self.judge_text(&text, cut, state, tell) {
                    Verdict::Taken(outcome) => return outcome,
                    Verdict::GoOn(message) => state.transcript.push(Message::User(message)),
                }
                last = text;
                continue;
            }
            (state.refusals_in_row, state.cuts_in_row) = (0, 0);
            let side = self.catalogue.side_account();
            side.set_left(self.settings.budget.after(state.tally.counted()));
            let mut results = self.perform(&calls, state, tell).await;
            side.take().iter().for_each(|(used, counted)| state.tally.add_side(used, counted));
            self.check_edits(&mut results, tell).await;
            if let (Some(left), Some(result)) = (self.warning(state), results.last_mut()) {
                result.text.push_str(&format!("\n[{left} left: finish, or mark what is open as blocked]"));
            }
            results.iter().for_each(|result| state.context.saw(result));
            state.transcript.push(Message::Results(results));
            let images = self.catalogue.take_images();
            if !images.is_empty() {
                state.transcript.push(Message::Images(images));
            }
            if let Some(answer) = self.settings.form.as_ref().and_then(AnswerForm::take) {
                match self.judge_answer(&answer, state, tell) {
                    Verdict::Taken(outcome) => return outcome,
                    Verdict::GoOn(message) => state.transcript.push(Message::User(message)),
                }
                last = answer;
            }
        }
        self.unfinished(Bound::Turns(self.settings.max_turns), last)
    }

    fn unfinished(&self, bound: Bound, answer: String) -> RunEnd {
        let missing = self.holder.plan().map(|plan| plan.missing()).unwrap_or_default();
        RunEnd::Unfinished { bound, missing, answer }
    }

    /// Returns what is left if it is little: of the turns, or once of the budget.
    fn warning(&self, state: &mut State) -> Option<String> {
        let turns = self.settings.max_turns - state.turns;
        if (1..=WARNING).contains(&turns) {
            return Some(format!("{turns} turns"));
        }
        let left = self.settings.budget.little_left(state.tally.counted()).filter(|_| !state.is_warned)?;
        state.is_warned = true;
        Some(left)
    }

    async fn make_room(&self, specs: &[Spec], state: &mut State, tell: Observer<'_>) {
        let before = state.transcript.size() + state.fixed;
        if !state.context.is_full(before) {
            return;
        }
        let summary = match self.settings.compaction {
            Compaction::Deterministic => None,
            Compaction::Summary => self.summary(specs, state).await,
        };
        let plan = self.holder.plan();
        match summary {
            Some(summary) => {
                let summary = (summary, state.fixed);
                state.context.compact_to_summary(&mut state.transcript, plan.as_ref(), summary);
            }
            None => state.context.compact(&mut state.transcript, plan.as_ref(), state.fixed),
        }
        let after = state.transcript.size() + state.fixed;
        let (before, after) = (state.context.tokens(before), state.context.tokens(after));
        tell(AgentEvent::Compacted { before, after });
    }

    /// Asks the model for a summary of the conversation; `None` if it gave none.
    async fn summary(&self, specs: &[Spec], state: &mut State) -> Option<String> {
        let sent = state.transcript.size() + state.fixed;
        let mut messages = state.transcript.messages().to_vec();
        messages.push(Message::User(include_str!("prompt/summary.md").trim_end().to_owned()));
        state.tally.ask();
        // With the same tools, what the API has cached can be used.
        let ask = Ask {
            system: &self.settings.system,
            tools: specs,
            messages: &messages,
            max_output_tokens: self.settings.max_output_tokens.min(SUMMARY_TOKENS),
        };
        match self.provider.answer(ask, &mut |_| {}).await {
            Ok(reply) => {
                state.tally.add(&reply.usage, (state.context.tokens(sent), reply.text.len() / 4));
                Some(reply.text.trim().to_owned()).filter(|text| !text.is_empty())
            }
            Err(failure) => {
                state.tally.failed(&failure, state.context.tokens(sent));
                None
            }
        }
    }

    /// Asks the model, with retries, until it answers or retrying is hopeless.
    async fn ask(&self, specs: &[Spec], state: &mut State, tell: Observer<'_>) -> Result<Reply, Failure> {
        let (mut failures, mut shortened) = (0, false);
        loop {
            let ask = Ask {
                system: &self.settings.system,
                tools: specs,
                messages: state.transcript.messages(),
                max_output_tokens: self.settings.max_output_tokens,
            };
            let mut hear = |piece: Piece<'_>| match piece {
                Piece::Text(text) => tell(AgentEvent::Text(text.to_owned())),
                Piece::Thought(text) => tell(AgentEvent::Thought(text.to_owned())),
            };
            let sent = state.transcript.size() + state.fixed;
            state.tally.ask();
            let failure = match self.provider.answer(ask, &mut hear).await {
                Ok(reply) => {
                    if let Some(tokens) = reply.usage.input_tokens {
                        state.context.counted(state.transcript.size() + state.fixed, tokens);
                    }
                    state.tally.add(&reply.usage, (state.context.tokens(sent), reply.text.len() / 4));
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            state.tally.failed(&failure, state.context.tokens(sent));
            if let (Failure::TooLong { .. }, false) = (&failure, shortened) {
                shortened = true;
                let before = state.context.tokens(state.transcript.size() + state.fixed);
                state.context.compact_hard(&mut state.transcript, self.holder.plan().as_ref());
                let after = state.context.tokens(state.transcript.size() + state.fixed);
                tell(AgentEvent::Compacted { before, after });
                continue;
            }
            let is_rejected = matches!(failure, Failure::Rejected { .. });
            if is_rejected && state.transcript.forget_images() {
                tell(AgentEvent::Retrying { after: Duration::ZERO, why: failure.to_string() });
                continue;
            }
            let Some(pause) = self.settings.patience.pause(failures, &failure) else { return Err(failure) };
            failures += 1;
            tell(AgentEvent::Retrying { after: pause, why: failure.to_string() });
            tokio::time::sleep(pause).await;
        }
    }

    /// Accepts or refuses a final answer that the model wrote as text.
    fn judge_text(&self, text: &str, cut: bool, state: &mut State, tell: Observer<'_>) -> Verdict {
        if cut {
            return self.continue_cut(text, state);
        }
        state.cuts_in_row = 0;
        let read = match &self.settings.form {
            Some(form) => form.read(text),
            None => Ok(text.to_owned()),
        };
        match read {
            Ok(answer) => self.judge_answer(&answer, state, tell),
            Err(why) => {
                let message = include_str!("prompt/form.md").trim_end().replace("{why}", &why);
                self.refuse(text, message, vec!["no answer in the required form".to_owned()], state, tell)
            }
        }
    }

    /// Has the model go on after an answer that was cut off, until this happened too often in a row: a model that
    /// repeats itself would use up all turns.
    fn continue_cut(&self, text: &str, state: &mut State) -> Verdict {
        state.cuts_in_row += 1;
        match state.cuts_in_row < CUTS_MAX {
            true => Verdict::GoOn(include_str!("prompt/cut.md").to_owned()),
            false => Verdict::Taken(self.unfinished(Bound::CutAnswers(CUTS_MAX), text.to_owned())),
        }
    }

    /// Accepts or refuses a final answer.
    fn judge_answer(&self, answer: &str, state: &mut State, tell: Observer<'_>) -> Verdict {
        let answer = answer.to_owned();
        let is_empty = answer.trim().is_empty();
        let (message, missing) = match self.holder.plan() {
            Some(plan) => match plan.readiness() {
                Readiness::Open => (unfinished(&plan), plan.missing()),
                Readiness::Blocked => return Verdict::Taken(RunEnd::Blocked { answer }),
                Readiness::Ready if !is_empty => return Verdict::Taken(RunEnd::Finished { answer }),
                Readiness::Ready => {
                    (include_str!("prompt/empty.md").to_owned(), vec!["no answer".to_owned()])
                }
            },
            None if self.settings.planning == PlanRequirement::Required => {
                (include_str!("prompt/no_plan.md").to_owned(), vec!["no plan".to_owned()])
            }
            None if is_empty => (include_str!("prompt/empty.md").to_owned(), vec!["no answer".to_owned()]),
            None => return Verdict::Taken(RunEnd::Finished { answer }),
        };
        self.refuse(&answer, message, missing, state, tell)
    }

    /// Sends the model back to work, until it was refused too often in a row.
    fn refuse(
        &self,
        answer: &str,
        message: String,
        missing: Vec<String>,
        state: &mut State,
        tell: Observer<'_>,
    ) -> Verdict {
        state.refusals += 1;
        state.refusals_in_row += 1;
        tell(AgentEvent::FinalizationRefused { missing: missing.clone() });
        if state.refusals_in_row >= self.settings.max_refusals {
            let bound = Bound::Refusals(self.settings.max_refusals);
            return Verdict::Taken(RunEnd::Unfinished { bound, missing, answer: answer.to_owned() });
        }
        Verdict::GoOn(message)
    }

    /// Runs the calls of a turn; in parallel if none of them changes anything.
    async fn perform(&self, calls: &[Call], state: &mut State, tell: Observer<'_>) -> Vec<ToolResult> {
        let room = state.context.room_for_answer(calls.len());
        let numbered: Vec<(u64, &Call)> = calls.iter().map(|call| (self.ledger.begin(), call)).collect();
        for (number, call) in &numbered {
            let (tool, arguments) = (call.tool.clone(), call.arguments.clone());
            tell(AgentEvent::Called { call: *number, tool, arguments });
        }
        let only_reads =
            calls.iter().all(|call| self.catalogue.get(&call.tool).is_some_and(|t| t.reads_only));
        let mut results = Vec::new();
        if only_reads {
            let together = numbered.iter().map(|(number, call)| self.perform_one(*number, call, room));
            results = join_all(together).await;
        } else {
            for (number, call) in &numbered {
                results.push(self.perform_one(*number, call, room).await);
            }
        }
        for result in &results {
            let (tool, text) = (result.tool.clone(), result.text.clone());
            tell(AgentEvent::Answered { call: result.call, tool, failed: result.failed, text });
        }
        for event in self.holder.take_events() {
            if let AgentEvent::PlanRewritten { diff } = &event {
                state.rewrites.push(diff.clone());
            }
            tell(event);
        }
        results
    }

    /// Runs the command for changed files and adds its output to the last answer.
    async fn check_edits(&self, results: &mut [ToolResult], tell: Observer<'_>) {
        let edits = |result: &ToolResult| self.catalogue.get(&result.tool).is_some_and(|tool| tool.edits);
        let is_changed = results.iter().any(|result| !result.failed && edits(result));
        let (Some(hook), Some(last)) =
            (self.settings.after_edit.as_ref().filter(|_| is_changed), results.last_mut())
        else {
            return;
        };
        let (call, tool) = (self.ledger.begin(), "after_edit".to_owned());
        tell(AgentEvent::Called {
            call,
            tool: tool.clone(),
            arguments: json!({ "command": hook.command() }),
        });
        let (text, failed) = match hook.run().await {
            Ok(text) => (self.settings.key.hide(&text), false),
            Err(text) => (self.settings.key.hide(&text), true),
        };
        if failed {
            self.ledger.fail(call, &text)
        } else {
            self.ledger.end(call, &text)
        }
        tell(AgentEvent::Answered { call, tool, failed, text: text.clone() });
        last.text.push_str(&hook.shown(call, &text));
    }

    async fn perform_one(&self, number: u64, call: &Call, room: usize) -> ToolResult {
        let answer: tool::ToolAnswer = match self.catalogue.get(&call.tool) {
            Some(tool) => tool.call(call.arguments.clone()).await,
            None => Err(self.catalogue.unknown(&call.tool)),
        };
        let (word, text, failed) = match answer {
            Ok(text) => ("ok", text, false),
            Err(text) => ("error", text, true),
        };
        let text = self.settings.key.hide(&text);
        match failed {
            true => self.ledger.fail(number, &text),
            false => self.ledger.end(number, &text),
        }
        let read_on = format!("read_output with call = {number} shows them");
        let text = format!("call:{number} {word}\n{}", truncate::middle(&text, room, &read_on));
        ToolResult { id: call.id.clone(), call: number, tool: call.tool.clone(), text, failed }
    }
}

enum Verdict {
    Taken(RunEnd),
    GoOn(String),
}

fn unfinished(plan: &AgentPlan) -> String {
    include_str!("prompt/unfinished.md")
        .trim_end()
        .replace("{missing}", &plan.missing().join("; "))
        // Filled in last, so that placeholders inside the plan's text are not replaced.
        .replace("{plan}", &plan.render())
}
