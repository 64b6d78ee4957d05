//! Schedules a graph with known run times: `cargo run --example schedule -- GRAPH.json JOBS`.
//!
//! `GRAPH.json` is `{"nodes": [{"id", "dur"}], "edges": [[before, after]]}`; the default of `dur` is 1.
//! The graph becomes a plan whose steps may all run in parallel, and the same `schedule` and `decide` as
//! for any other plan run it; only time is simulated. Prints `[{"id", "start", "end"}]`; a graph with a
//! cycle is refused with the message of `provost verify`, which names the cycle.

// A test includes this file as a module.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, unreachable_pub)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt::Write as _;
use std::process::ExitCode;

use provost_core::language::parse;
use provost_core::model::approved_spec::Binding;
use provost_core::model::event::{AttemptEnd, CheckSubject, EndedAttempt, Event};
use provost_core::model::graph::Graph;
use provost_core::model::plan::{Plan, StepNumber};
use provost_core::model::timestamp::Timestamp;
use provost_core::model::verdict::{CheckOutcome, Isolation, Verdict};
use provost_core::rules::command::{HarnessCommand, HumanCommand};
use provost_core::rules::decide;
use provost_core::rules::schedule::{self, Action, InHand};
use provost_core::state::run::Run;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
pub struct Dag {
    nodes: Vec<Node>,
    edges: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    #[serde(default = "one")]
    dur: f64,
}

fn one() -> f64 {
    1.0
}

/// Start and end of a step.
#[derive(Clone, Debug, Serialize)]
pub struct Slot {
    pub id: String,
    pub start: f64,
    pub end: f64,
}

pub fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, jobs] = args.as_slice() else {
        eprintln!("usage: schedule GRAPH.json JOBS");
        return ExitCode::from(2);
    };
    let dag = std::fs::read(file).map_err(|error| error.to_string());
    let dag = dag.and_then(|bytes| serde_json::from_slice::<Dag>(&bytes).map_err(|error| error.to_string()));
    let (Ok(dag), Ok(jobs @ 1..)) = (dag, jobs.parse::<usize>()) else {
        eprintln!("{file} is no graph, or {jobs} no number of jobs");
        return ExitCode::from(2);
    };
    match simulate(&dag, jobs) {
        Ok(slots) => {
            println!("{}", serde_json::to_string(&slots).unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(cycle) => {
            eprintln!("steps wait for each other: {}", cycle.join(" -> "));
            ExitCode::from(3)
        }
    }
}

/// Runs the graph, or returns a cycle in it.
pub fn simulate(dag: &Dag, jobs: usize) -> Result<Vec<Slot>, Vec<String>> {
    let text = plan_text(dag);
    let plan = parse::plan(&text).plan;
    if let Some(cycle) = cycle(dag, &plan) {
        return Err(cycle);
    }
    let mut run = approved(text);
    let mut slots: Vec<Option<Slot>> = vec![None; dag.nodes.len()];
    // Running steps, by their end time as an integer.
    let mut ends: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    let mut in_hand = InHand::default();
    let mut now = 0.0_f64;
    while !run.all_settled() {
        let actions = schedule::next(&run, &in_hand, jobs, Timestamp(0));
        let due: Vec<StepNumber> = actions.iter().filter_map(|action| judged(*action)).collect();
        // A check takes no time here, so ask for the next actions at once.
        if !due.is_empty() {
            due.into_iter().for_each(|step| say(&mut run, holds(step)));
            continue;
        }
        for action in actions {
            let Action::Dispatch { step } = action else { continue };
            say(&mut run, HarnessCommand::Start { step });
            in_hand.take(action);
            let place = step.0 as usize - 1;
            let end = now + dag.nodes[place].dur;
            slots[place] = Some(Slot { id: dag.nodes[place].id.clone(), start: now, end });
            // The bits of non-negative floats have the same order as the numbers.
            ends.push(Reverse((end.to_bits(), step.0)));
        }
        // Ends all steps that end now, before others start.
        let Some(Reverse((soonest, _))) = ends.peek().copied() else { continue };
        now = f64::from_bits(soonest);
        while let Some(Reverse((_, step))) = ends.peek().copied().filter(|Reverse((at, _))| *at == soonest) {
            ends.pop();
            let step = StepNumber(step);
            say(&mut run, ended(step));
            in_hand.done(Action::Dispatch { step });
        }
    }
    Ok(slots.into_iter().flatten().collect())
}

fn judged(action: Action) -> Option<StepNumber> {
    match action {
        Action::Judge { subject: CheckSubject::Contract(step) } => Some(step),
        _ => None,
    }
}

fn ended(step: StepNumber) -> HarnessCommand {
    HarnessCommand::AttemptEnded(EndedAttempt::new(step, 1, AttemptEnd::Exited { exit_code: 0 }))
}

fn holds(step: StepNumber) -> HarnessCommand {
    let verdict = Verdict::bare(Isolation::InPlace, CheckOutcome::Held);
    HarnessCommand::Judged { subject: CheckSubject::Contract(step), verdict }
}

fn apply(run: &mut Run, events: Vec<Event>) {
    events.iter().for_each(|event| run.apply(event));
}

fn say(run: &mut Run, command: HarnessCommand) {
    let events = decide::harness(run, command).unwrap_or_else(|refusal| panic!("{refusal}"));
    apply(run, events);
}

/// Returns a plan with one step per node. The step's timeout is its run time times 1,000, so that no digit
/// is lost.
fn plan_text(dag: &Dag) -> String {
    let places: HashMap<&str, usize> =
        dag.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect();
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); dag.nodes.len()];
    for (before, after) in &dag.edges {
        if let (Some(before), Some(after)) = (places.get(before.as_str()), places.get(after.as_str())) {
            needs[*after].push(before + 1);
        }
    }
    let mut text = String::from("---\ntype: plan\nstatus: draft\nowner: example\n---\n# Graph\n\n## Steps\n");
    for (at, node) in dag.nodes.iter().enumerate() {
        let list: Vec<String> = needs[at].iter().map(ToString::to_string).collect();
        let needs = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
        let number = at + 1;
        let _ = write!(
            text,
            "\n### {number}. Node {number}\n**target:** sim\n**needs:** {needs}\n\
             **timeout:** {:.3} seconds\n**touches:** n{number}\n**task:**\nRun.\n\
             **contract:**\n```shell\ntest -e n{number}\n```\n",
            node.dur * 1000.0
        );
    }
    text
}

/// Returns the first cycle, by names; a node that needs itself is one.
fn cycle(dag: &Dag, plan: &Plan) -> Option<Vec<String>> {
    if let Some((own, _)) = dag.edges.iter().find(|(before, after)| before == after) {
        return Some(vec![own.clone(), own.clone()]);
    }
    let mut cycle = Graph::of(plan).cycles(1).into_iter().next()?;
    cycle.extend(cycle.first().copied());
    Some(cycle.into_iter().map(|at| dag.nodes[at].id.clone()).collect())
}

fn approved(text: String) -> Run {
    let mut run = Run::default();
    say(&mut run, HarnessCommand::Record { text, binding: Binding::default(), author: None });
    let revision = run.revision.clone();
    say(&mut run, HarnessCommand::Verified { revision: revision.clone(), warnings: 0 });
    let approve = HumanCommand::Approve { revision, by: "example".to_owned(), modifications: Vec::new() };
    let events = decide::human(&run, approve).unwrap_or_else(|refusal| panic!("{refusal}"));
    apply(&mut run, events);
    run
}
