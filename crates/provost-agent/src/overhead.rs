//! Measures what planning costs and gains: runs the same tasks with and without plan tools, with a mock
//! model that stops early at a given rate.
//!
//! The model is a script with a random generator; the loop, the tools and the files are real. The files
//! show whether the work was done.
//!
//! **Invariant:** the same settings give the same numbers.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use provost_core::model::usage::Usage;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Future;
use crate::agent::{Agent, RunEnd, Settings, Stop};
use crate::call_log::CallLog;
use crate::plan_state::PlanHolder;
use crate::provider::{Ask, Failure, Listener, Provider, Reply};
use crate::tool::Catalogue;
use crate::tool::files::Workspace;
use crate::transcript::{Call, Message, estimate};

/// The settings of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OverheadSettings {
    pub tasks: u32,
    /// Number of files that each task asks for.
    pub parts: u32,
    /// Probability at each turn that the model claims to be done too early: 0 to 1.
    pub stop_rate: f64,
    pub seed: u64,
    /// Dollars per million input and output tokens.
    pub usd_in: f64,
    pub usd_out: f64,
}

/// Totals over all tasks of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sum {
    pub turns: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub usd: f64,
    /// Refused final answers.
    pub refusals: u64,
    /// The loop accepted the answer, and the work was done.
    pub completed: u64,
    /// The loop accepted the answer, but the work was not done.
    pub false_completions: u64,
    /// The run ended in another way, such as at a limit.
    pub unfinished: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OverheadResult {
    pub order: OverheadSettings,
    pub without_plan: Sum,
    pub with_plan: Sum,
}

/// Runs every task twice, each in an empty folder below `folder`.
pub fn measure(order: OverheadSettings, folder: &Path) -> io::Result<OverheadResult> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut sums = [Sum::default(); 2];
    for task in 0..order.tasks {
        for (plans, sum) in [false, true].into_iter().zip(&mut sums) {
            let place = folder.join(format!("{task}-{plans}"));
            std::fs::create_dir_all(&place)?;
            runtime.block_on(exercise(&order, task, plans, &place, sum))?;
        }
    }
    let [without_plan, with_plan] = sums;
    Ok(OverheadResult { order, without_plan, with_plan })
}

async fn exercise(
    order: &OverheadSettings,
    task: u32,
    plans: bool,
    place: &Path,
    sum: &mut Sum,
) -> io::Result<()> {
    let hasty = Hasty {
        parts: order.parts,
        rate: order.stop_rate,
        plans,
        // The same random numbers with and without a plan.
        state: Mutex::new(State { dice: dice(order.seed, task), ..State::default() }),
    };
    let (holder, ledger) = (PlanHolder::default(), CallLog::default());
    let workspace = Workspace::new(place)?;
    let standard = Catalogue::standard(&workspace, &ledger);
    let catalogue = if plans { standard.with_plan(&holder, &ledger) } else { standard };
    let agent = Agent { provider: &hasty, catalogue, holder, ledger, settings: Settings::default() };
    let words =
        format!("Write the files part-1.txt to part-{}.txt, each with its own number in it.", order.parts);
    let run = agent.run(&words, &Stop::default(), &mut |_| {}).await;
    let is_there =
        |part: u32| std::fs::read_to_string(place.join(name(part))).is_ok_and(|text| text == content(part));
    let all = (1..=order.parts).all(is_there);
    let (read, written) = (run.usage.input_tokens.unwrap_or(0), run.usage.output_tokens.unwrap_or(0));
    sum.turns += u64::from(run.turns);
    sum.refusals += u64::from(run.refusals);
    sum.input_tokens += read;
    sum.output_tokens += written;
    sum.usd += (read as f64 * order.usd_in + written as f64 * order.usd_out) / 1e6;
    match run.outcome {
        RunEnd::Finished { .. } if all => sum.completed += 1,
        RunEnd::Finished { .. } => sum.false_completions += 1,
        _ => sum.unfinished += 1,
    }
    Ok(())
}

fn name(part: u32) -> String {
    format!("part-{part}.txt")
}

fn content(part: u32) -> String {
    format!("{part}\n")
}

/// Returns a seed that is never zero, because the generator would stay at zero.
fn dice(seed: u64, task: u32) -> u64 {
    (seed ^ (u64::from(task) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1
}

/// A mock model that works, but claims too early to be done.
struct Hasty {
    parts: u32,
    rate: f64,
    plans: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    dice: u64,
    has_planned: bool,
    written: u32,
    reported: u32,
    has_verified: bool,
    /// Number of tool calls so far; evidence cites calls by number.
    calls: u32,
    last_write: u32,
}

impl State {
    fn throws(&mut self) -> f64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) as f64 / (1u64 << 53) as f64
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        self.calls += 1;
        let call = Call { id: format!("c{}", self.calls), tool: tool.to_owned(), arguments };
        Reply { calls: vec![call], ..Reply::default() }
    }
}

impl Hasty {
    fn next(&self) -> Reply {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = self.parts;
        if self.plans && !state.has_planned {
            state.has_planned = true;
            let steps: Vec<String> = (1..=parts).map(|part| format!("write {}", name(part))).collect();
            let plan = json!({ "objective": "write the files", "steps": steps, "postconditions": ["all files are there"] });
            return state.call("plan_create", plan);
        }
        if self.plans && state.reported < state.written {
            state.reported += 1;
            let evidence = format!("call:{}", state.last_write);
            let done = json!({ "step_number": state.reported, "status": "done", "evidence": evidence });
            return state.call("step_update", done);
        }
        if state.written < parts {
            if state.throws() < self.rate {
                return Reply { text: "All files are written.".to_owned(), ..Reply::default() };
            }
            state.written += 1;
            let (path, content) = (name(state.written), content(state.written));
            let reply = state.call("write_file", json!({ "path": path, "content": content }));
            state.last_write = state.calls;
            return reply;
        }
        if self.plans && !state.has_verified {
            state.has_verified = true;
            let evidence = format!("the last one is written, call:{}", state.last_write);
            return state
                .call("postcondition_verify", json!({ "postcondition_number": 1, "evidence": evidence }));
        }
        Reply { text: "All files are written.".to_owned(), ..Reply::default() }
    }
}

impl Provider for Hasty {
    fn model(&self) -> &str {
        "scripted"
    }

    fn answer<'a>(&'a self, ask: Ask<'a>, _: Listener<'a>) -> Future<'a, Result<Reply, Failure>> {
        let mut reply = self.next();
        let tools: usize = ask
            .tools
            .iter()
            .map(|tool| tool.name.len() + tool.description.len() + tool.schema.to_string().len())
            .sum();
        let read: usize = ask.messages.iter().map(Message::size).sum();
        let said: usize =
            reply.calls.iter().map(|call| call.tool.len() + call.arguments.to_string().len()).sum();
        reply.usage = Usage {
            calls: Some(1),
            input_tokens: Some(estimate(read + ask.system.len() + tools) as u64),
            output_tokens: Some(estimate(reply.text.len() + said) as u64),
            ..Usage::default()
        };
        Box::pin(async move { Ok(reply) })
    }
}
