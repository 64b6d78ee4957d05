//! Measures prompts: runs small tasks with scripted models that lie, and with a real one, and counts what the
//! checks say.
//!
//! A task goes through the rules of a run: a prompt, the loop, a claim, a check, the prompt of the next attempt.
//! The tools are those for files, so a real model cannot run programs here.
//!
//! **Invariant:** with scripted models, the same prompts give the same numbers.

mod tasks;

use std::io;
use std::path::Path;
use std::process::Command;

use provost_core::model::approved_spec::Binding;
use provost_core::model::event::{AttemptEnd, CheckSubject, EndedAttempt};
use provost_core::model::hash::Hash;
use provost_core::model::plan::StepNumber;
use provost_core::model::verdict::{CheckOutcome, Excerpt, Isolation, Verdict};
use provost_core::rules::command::{HarnessCommand, HumanCommand, Refusal};
use provost_core::rules::decide;
use provost_core::state::run::{Run, StepState};
use provost_core::text::prompt;
use serde::Serialize;
use serde_json::json;

use crate::agent::{Agent, AgentRun, RunEnd, Settings, Stop};
use crate::call_log::CallLog;
use crate::plan_state::PlanHolder;
use crate::provider::scripted::ScriptedProvider;
use crate::provider::{Failure, Provider};
use crate::tool::files::Workspace;
use crate::tool::{Catalogue, files};
use tasks::{SmallTask, TASKS};

/// Number of tasks.
pub const TASK_COUNT: usize = TASKS.len();
/// Most turns of an attempt; a task takes about five.
const MAX_TURNS: u32 = 10;
/// Longest answer of the model. The tasks need a few lines; a small model may repeat itself without end.
const MAX_OUTPUT_TOKENS: u32 = 256;

/// The fixed texts of the loop, besides its system prompt.
const OF_THE_LOOP: [&str; 6] = [
    include_str!("prompt/cut.md"),
    include_str!("prompt/empty.md"),
    include_str!("prompt/form.md"),
    include_str!("prompt/left_out.md"),
    include_str!("prompt/no_plan.md"),
    include_str!("prompt/unfinished.md"),
];

/// A set of prompts.
#[derive(Clone, Debug)]
pub struct PromptVersion {
    /// Name for people.
    pub name: String,
    /// System prompt of the loop.
    pub system: String,
}

impl PromptVersion {
    /// Returns the prompts of this program.
    pub fn built_in() -> Self {
        Self { name: "built-in".to_owned(), system: Settings::default().system }
    }

    /// Returns a short digest of all texts.
    pub fn digest(&self) -> String {
        let texts: Vec<&str> =
            [self.system.as_str()].into_iter().chain(OF_THE_LOOP).chain(prompt::texts()).collect();
        Hash::of(texts.join("\0").as_bytes()).to_string().chars().take(8).collect()
    }
}

/// A scripted model, by how it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Liar {
    /// Works, and claims afterwards.
    Honest,
    /// Claims first, and works when it is asked again.
    Hasty,
    /// Makes a plan, claims before it has worked, and works when the loop refuses the claim.
    Eager,
    /// Writes a wrong file and claims it. Corrects the file when the prompt shows that the check failed.
    Sloppy,
    /// Always claims, and never works.
    Stubborn,
}

impl Liar {
    const ALL: [Liar; 5] = [Liar::Honest, Liar::Hasty, Liar::Eager, Liar::Sloppy, Liar::Stubborn];

    fn word(self) -> &'static str {
        match self {
            Liar::Honest => "honest",
            Liar::Hasty => "hasty",
            Liar::Eager => "eager",
            Liar::Sloppy => "sloppy",
            Liar::Stubborn => "stubborn",
        }
    }

    fn script(self, task: &SmallTask, attempt: u32) -> ScriptedProvider {
        let script = ScriptedProvider::default();
        match self {
            Liar::Stubborn => script.says("It is done."),
            Liar::Hasty if attempt == 1 => script.says("It is done."),
            Liar::Eager => works(plans(script, task).says("It is done."), task, task.right),
            Liar::Sloppy if attempt == 1 => works(plans(script, task), task, "something else\n"),
            Liar::Honest | Liar::Hasty | Liar::Sloppy => works(plans(script, task), task, task.right),
        }
    }
}

fn plans(script: ScriptedProvider, task: &SmallTask) -> ScriptedProvider {
    let steps = [format!("write {}", task.file)];
    script.calls(
        "plan_create",
        json!({ "objective": task.words, "steps": steps, "postconditions": ["the file is right"] }),
    )
}

/// Writes the file, which is the second call, and completes the plan.
fn works(script: ScriptedProvider, task: &SmallTask, content: &str) -> ScriptedProvider {
    script
        .calls("write_file", json!({ "path": task.file, "content": content }))
        .calls("step_update", json!({ "step_number": 1, "status": "done", "evidence": "call:2" }))
        .calls("postcondition_verify", json!({ "postcondition_number": 1, "evidence": "it is, call:2" }))
        .says("It is done.")
}

/// Counts over all tasks of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PromptCounts {
    pub tasks: u64,
    /// Tasks whose check held in the end.
    pub verified: u64,
    /// Attempts that ended with a claim, and whose check did not hold.
    pub false_claims: u64,
    /// Final answers that the loop refused.
    pub refused: u64,
    pub attempts: u64,
    pub turns: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// The counts of one set of prompts and one model.
#[derive(Clone, Debug, Serialize)]
pub struct PromptResult {
    pub prompts: String,
    pub digest: String,
    pub model: String,
    #[serde(flatten)]
    pub counts: PromptCounts,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum PromptBenchError {
    #[error("a temporary folder cannot be used: {0}")]
    Io(#[from] io::Error),
    #[error("the model cannot be reached: {0}")]
    Model(Failure),
    #[error("a task cannot be run: {0}")]
    Rules(#[from] Refusal),
}

/// Runs the first `tasks` tasks with every scripted model, and with `real` if there is one, each in an empty
/// folder below `folder`. Calls `watch` after each task of the real one, which may take minutes.
pub fn measure(
    version: &PromptVersion,
    real: Option<&dyn Provider>,
    tasks: usize,
    folder: &Path,
    watch: &mut dyn FnMut(&PromptCounts),
) -> Result<Vec<PromptResult>, PromptBenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let models = Liar::ALL.map(Model::Liar).into_iter().chain(real.map(Model::Real));
    let mut results = Vec::new();
    for (number, model) in models.enumerate() {
        let mut counts = PromptCounts::default();
        for (task, place) in TASKS.iter().take(tasks).zip(0..) {
            let place = folder.join(format!("{number}-{place}"));
            std::fs::create_dir_all(&place)?;
            runtime.block_on(carry_out(task, version, model, &place, &mut counts))?;
            if matches!(model, Model::Real(_)) {
                watch(&counts);
            }
        }
        let (prompts, digest, model) = (version.name.clone(), version.digest(), model.name());
        results.push(PromptResult { prompts, digest, model, counts });
    }
    Ok(results)
}

#[derive(Clone, Copy)]
enum Model<'a> {
    Liar(Liar),
    Real(&'a dyn Provider),
}

impl Model<'_> {
    fn name(self) -> String {
        match self {
            Model::Liar(liar) => format!("{} (scripted)", liar.word()),
            Model::Real(provider) => provider.model().to_owned(),
        }
    }
}

const STEP: StepNumber = StepNumber(1);

/// Runs one task until its step is over or waits for a person.
async fn carry_out(
    task: &SmallTask,
    version: &PromptVersion,
    model: Model<'_>,
    place: &Path,
    counts: &mut PromptCounts,
) -> Result<(), PromptBenchError> {
    let mut run = approved(task)?;
    while run.is_ready(STEP) {
        harness(&mut run, HarnessCommand::Start { step: STEP })?;
        let attempt = run.step(STEP).map_or(1, |step| step.attempts);
        let words = prompt::step(&run, STEP, &[], None);
        let worked = match model {
            Model::Liar(liar) => work(&liar.script(task, attempt), version, &words, place).await?,
            Model::Real(provider) => work(provider, version, &words, place).await?,
        };
        counts.attempts += 1;
        counts.turns += u64::from(worked.turns);
        counts.refused += u64::from(worked.refusals);
        counts.input_tokens += worked.usage.input_tokens.unwrap_or(0);
        counts.output_tokens += worked.usage.output_tokens.unwrap_or(0);
        let exit_code = match worked.outcome {
            RunEnd::Finished { .. } => 0,
            // A conversation that the model cannot take is its own fault; nothing else would go better later.
            RunEnd::Failed(failure) if !matches!(failure, Failure::TooLong { .. }) => {
                return Err(PromptBenchError::Model(failure));
            }
            RunEnd::Failed(_) | RunEnd::Blocked { .. } | RunEnd::Unfinished { .. } | RunEnd::Stopped => 1,
        };
        let ended = EndedAttempt::new(STEP, attempt, AttemptEnd::Exited { exit_code });
        harness(&mut run, HarnessCommand::AttemptEnded(ended))?;
        if run.step(STEP).is_some_and(|step| matches!(step.state, StepState::Ended { .. })) {
            let verdict = check(task, place)?;
            counts.false_claims += u64::from(exit_code == 0 && !verdict.held());
            harness(&mut run, HarnessCommand::Judged { subject: CheckSubject::Contract(STEP), verdict })?;
        }
    }
    counts.tasks += 1;
    counts.verified += u64::from(run.step(STEP).is_some_and(|step| step.state == StepState::Passed));
    Ok(())
}

fn harness(run: &mut Run, command: HarnessCommand) -> Result<(), Refusal> {
    decide::harness(run, command)?.iter().for_each(|event| run.apply(event));
    Ok(())
}

/// Returns the task as an approved plan of one step.
fn approved(task: &SmallTask) -> Result<Run, Refusal> {
    let text = format!(
        "---\ntype: plan\nstatus: draft\n---\n\n# A small task\n\n## Steps\n\n### 1. Write {}\n\
         **target:** coder\n**task:**\n{}\n**contract:**\n```shell\n{}\n```\nexit_code == 0\n\
         **on_fail:** retry(2), then escalate\n",
        task.file, task.words, task.check
    );
    let mut run = Run::default();
    harness(&mut run, HarnessCommand::Record { text, binding: Binding::default(), author: None })?;
    let revision = run.revision.clone();
    harness(&mut run, HarnessCommand::Verified { revision: revision.clone(), warnings: 0 })?;
    harness(&mut run, HarnessCommand::RequestApproval { plan_id: "task".to_owned() })?;
    let (by, modifications) = ("bench".to_owned(), Vec::new());
    let approve = HumanCommand::Approve { revision, by, modifications };
    decide::human(&run, approve)?.iter().for_each(|event| run.apply(event));
    Ok(run)
}

async fn work(
    provider: &dyn Provider,
    version: &PromptVersion,
    words: &str,
    place: &Path,
) -> Result<AgentRun, io::Error> {
    let (holder, ledger) = (PlanHolder::default(), CallLog::default());
    let workspace = Workspace::new(place)?;
    let catalogue = Catalogue::default().with_all(files::tools(&workspace)).with_plan(&holder, &ledger);
    let settings = Settings {
        system: version.system.clone(),
        max_turns: MAX_TURNS,
        max_output_tokens: MAX_OUTPUT_TOKENS,
        ..Settings::default()
    };
    let agent = Agent { provider, catalogue, holder, ledger, settings };
    Ok(agent.run(words, &Stop::default(), &mut |_| {}).await)
}

fn check(task: &SmallTask, place: &Path) -> io::Result<Verdict> {
    let output = Command::new("bash").args(["-c", task.check]).current_dir(place).output()?;
    let exit_code = output.status.code().unwrap_or(1);
    let outcome = match exit_code {
        0 => CheckOutcome::Held,
        exit_code => CheckOutcome::Broke { exit_code },
    };
    let unmet = if exit_code == 0 { Vec::new() } else { vec!["exit_code == 0".to_owned()] };
    let excerpt = |bytes: &[u8]| Excerpt::whole(String::from_utf8_lossy(bytes));
    Ok(Verdict {
        unmet,
        stdout: excerpt(&output.stdout),
        stderr: excerpt(&output.stderr),
        ..Verdict::bare(Isolation::InPlace, outcome)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_fails_before_the_work_and_holds_after_it() {
        let folder = tempfile::tempdir().expect("a folder");
        for (number, task) in TASKS.iter().enumerate() {
            let place = folder.path().join(number.to_string());
            let file = place.join(task.file);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            assert!(!check(task, &place).expect("bash").held(), "{} before the work", task.file);
            std::fs::write(&file, task.right).expect("written");
            assert!(check(task, &place).expect("bash").held(), "{} after the work", task.file);
        }
    }
}
