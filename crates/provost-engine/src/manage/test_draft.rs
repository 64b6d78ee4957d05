//! Has the planner draft a failing test for a goal, and runs it on the last commit, until it fails as it should
//! or the rounds are used up.
//!
//! **Invariant:** nothing is written to the workspace. What the agent wrote runs only in a sandbox.

use std::path::Path;
use std::time::Duration;

use provost_core::model::plan::StepNumber;
use provost_core::model::usage::Amount;
use provost_core::model::verdict::Verdict;
use provost_core::rules::command::Refusal;
use provost_core::text::test_draft::{self, DraftedTest};
use provost_host::check::judge;
use provost_host::exec::environment::{self, ExecEnv, FileEdit, RunPaths};
use provost_host::{Interrupted, files};

use super::planner_env::PlannerEnv;
use crate::Error;
use crate::exec::approved_base::on_the_base;
use crate::exec::check_trial::as_plan;
use crate::exec::consult::{self, ConsultRequest};
use crate::exec::executor::Executor;
use crate::exec::metering::RunMetering;
use crate::exec::proof_map::VariedContract as _;
use crate::plan::harness::Harness;

/// File that the planner may write instead of printing its answer.
const ANSWER: &str = "TEST.md";
const ANSWER_BYTES: usize = 512 * 1024;
/// Longest run of the test.
const LIMIT: Duration = Duration::from_secs(600);

/// What came of the rounds.
pub enum TestDraft {
    /// A test that fails on the last commit, and its verdict there.
    Red(Box<(DraftedTest, Verdict)>),
    Nothing {
        why: String,
    },
}

/// Has a failing test drafted, in at most `rounds` rounds. `commands` run the tests of the project; `watch`
/// hears the number of a round and why its test is sent back.
pub fn draft(
    harness: &Harness,
    goal: &str,
    commands: &[String],
    rounds: u32,
    watch: &mut dyn FnMut(u32, Option<&str>),
) -> Result<TestDraft, Error> {
    let env = PlannerEnv::prepare(harness, "draft a test")?;
    if !env.level.has_fence() || !env.level.has_clean_tree() {
        return Err(Refusal::NoOwnTree { level: env.level }.into());
    }
    let planner = Planner { harness, ground: &env.ground, desk: env.desk.path(), goal, commands };
    let metering = RunMetering::default();
    let mut returned: Option<(String, String)> = None;
    for round in 1..=rounds.max(1) {
        let answer = match planner.ask(&metering, round, returned.as_ref())? {
            Ok(answer) => answer,
            Err(why) => return Ok(TestDraft::Nothing { why }),
        };
        let reason = match test_draft::found_in(&answer) {
            Err(reason) => reason,
            Ok(test) if harness.place().workspace.join(&test.path).exists() => {
                format!("{} exists already; name a new file", test.path)
            }
            Ok(test) => {
                // A check needs no key that signs proofs.
                let verdict = on_base(harness, &test, &RunPaths { secrets: &[], ..env.paths(harness) })?;
                match test_draft::objection(&test, &verdict) {
                    Some(reason) => reason,
                    None => {
                        watch(round, None);
                        return Ok(TestDraft::Red(Box::new((test, verdict))));
                    }
                }
            }
        };
        watch(round, Some(&reason));
        returned = Some((answer, reason));
    }
    let why = returned.map(|(_, reason)| reason).unwrap_or_default();
    Ok(TestDraft::Nothing { why })
}

struct Planner<'a> {
    harness: &'a Harness,
    ground: &'a ExecEnv,
    desk: &'a Path,
    goal: &'a str,
    commands: &'a [String],
}

impl Planner<'_> {
    /// Returns the planner's answer, or why there is none.
    fn ask(
        &self,
        metering: &RunMetering,
        round: u32,
        returned: Option<&(String, String)>,
    ) -> Result<Result<String, String>, Error> {
        let config = self.harness.config();
        let answer = self.desk.join(ANSWER);
        let returned = returned.map(|(answer, reason)| (answer.as_str(), reason.as_str()));
        let file = answer.to_string_lossy();
        let request = ConsultRequest {
            role: &config.plan.role,
            prompt: &test_draft::ask(self.goal, self.commands, &file, returned),
            round,
            step: StepNumber(0),
            timeout: config.run.step_timeout,
            tag: &format!("{}/test/{round}", self.harness.id()),
            sees: &self.harness.place().workspace,
            answers: Some(self.desk),
            answer_schema: None,
            limit: Amount::default(),
        };
        let said = match consult::ask(self.harness.site(), self.ground, metering, &request) {
            Err(Interrupted) => return Err(Error::Interrupted),
            Ok(Err(why)) => return Ok(Err(why)),
            Ok(Ok(said)) => said,
        };
        let written = files::beginning(self.desk, &answer, ANSWER_BYTES).ok();
        let _ = std::fs::remove_file(&answer);
        let written = written.map(|text| self.harness.redactor().text(&text).into_owned());
        let text = written.unwrap_or_else(|| said.report.clone());
        match text.trim().is_empty() {
            true => Ok(Err(format!("the planner gave no answer: {}", consult::end_of(&said)))),
            false => Ok(Ok(text)),
        }
    }
}

/// Runs the test on the last commit, in a sandbox.
fn on_base(harness: &Harness, test: &DraftedTest, paths: &RunPaths<'_>) -> Result<Verdict, Error> {
    let run = as_plan(harness, std::iter::once(test.command.as_str()))?;
    let (features, seen) = environment::attest(harness.config().verify.isolation, paths)?;
    if !seen.level.has_fence() {
        return Err(Refusal::NoOwnTree { level: seen.level }.into());
    }
    let executor = Executor::new(harness.site(), on_the_base(harness, &run, features, seen.level, paths)?);
    let no_command = || Error::from(Refusal::NoCommand { step: StepNumber(1) });
    let order = executor.order_of(&run, StepNumber(1)).ok_or_else(no_command)?;
    let tree = executor.standing_tree(&run).ok_or_else(no_command)?;
    let contract = executor.on_tree(&order, &tree).ok_or_else(no_command)?;
    let edit = FileEdit { path: Path::new(&test.path), text: Some(&test.text) };
    let verdict = contract.varied(&edit, LIMIT, 0).map_err(|Interrupted| Error::Interrupted);
    judge::leave();
    verdict
}
