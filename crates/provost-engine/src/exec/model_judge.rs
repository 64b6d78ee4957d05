//! Runs contracts that a model judges: first the shell block of the rubric, then a role other than the
//! worker's.
//!
//! **Invariant:** the model is asked only if the shell block held. Its answer counts only in the form that
//! `judgement.rs` reads; any other answer means that the check did not run.

use std::time::{Duration, Instant};

use provost_core::model::event::AttemptEnd;
use provost_core::model::plan::StepNumber;
use provost_core::model::usage::{Amount, Usage};
use provost_core::model::verdict::{CheckOutcome, Excerpt, Isolation, ModelJudgement, Verdict};
use provost_core::text::judgement::{self, ChangedFiles};
use provost_host::Interrupted;
use provost_host::exec::environment::{CheckSpec, ExecEnv};

use crate::exec::consult::{self, ConsultRequest};
use crate::exec::metering::RunMetering;
use crate::plan::plan_context::PlanContext;
use crate::plan::reading;

/// Maximum number of requests until an answer counts.
const ROUNDS: u32 = 3;

/// Request for a judgement: the rubric, the step and the limits.
pub struct JudgeRequest<'a> {
    pub site: &'a PlanContext,
    pub ground: &'a ExecEnv,
    pub metering: &'a RunMetering,
    pub step: StepNumber,
    /// Role that did the work.
    pub worker: &'a str,
    pub rubric: &'a str,
    pub tag: &'a str,
    pub timeout: Duration,
    /// The most it may use.
    pub limit: Amount,
}

impl JudgeRequest<'_> {
    pub fn judge(&self, case: &CheckSpec<'_>) -> Result<Verdict, Interrupted> {
        let config = &self.site.config;
        let level = self.ground.level;
        let Some(role) = config.judge.role.as_deref() else {
            return Ok(Verdict::not_run(level, "no judge is configured; add [judge] to provost.toml"));
        };
        if let Some(why) = self.unfit(role) {
            return Ok(Verdict::not_run(level, why));
        }
        let begun = Instant::now();
        let verdict =
            self.ground.exhibit(case, |exhibit| self.rounds(role, &exhibit.changes, exhibit.folder))?;
        Ok(Verdict { duration_ms: begun.elapsed().as_millis() as u64, ..verdict })
    }

    /// Returns why a role must not judge. A step may have been done by another role than its target.
    fn unfit(&self, role: &str) -> Option<String> {
        let model = |name: &str| self.site.config.agents.get(name)?.asks();
        if role == self.worker {
            return Some(format!("`{role}` did the work and cannot judge it"));
        }
        if let Some(file) = reading::judge_within(self.site) {
            return Some(format!("the judge `{role}` is started from `{file}`, which agents can write"));
        }
        let same = model(role).is_some() && model(role) == model(self.worker);
        same.then(|| format!("`{role}` asks the same model as `{}`, which did the work", self.worker))
    }

    fn rounds(
        &self,
        role: &str,
        changes: &ChangedFiles,
        folder: &std::path::Path,
    ) -> Result<Verdict, Interrupted> {
        let mut used: Option<Usage> = None;
        let verdict = self.asked(role, changes, folder, &mut used)?;
        Ok(Verdict { usage: used.map(Box::new), ..verdict })
    }

    /// Asks the model. `used` receives the total usage of all rounds that were run.
    fn asked(
        &self,
        role: &str,
        changes: &ChangedFiles,
        folder: &std::path::Path,
        used: &mut Option<Usage>,
    ) -> Result<Verdict, Interrupted> {
        let level = self.ground.level;
        let schema = judgement::answer_schema();
        let mut again: Option<String> = None;
        for round in 1..=ROUNDS {
            let prompt = judgement::ask(self.rubric, changes, again.as_deref());
            let tag = format!("{}/judge/{round}", self.tag);
            let question = ConsultRequest {
                role,
                prompt: &prompt,
                round,
                step: self.step,
                timeout: self.timeout,
                tag: &tag,
                sees: folder,
                answers: None,
                answer_schema: Some(&schema),
                limit: self.limit,
            };
            let said = match consult::ask(self.site, self.ground, self.metering, &question)? {
                Ok(said) => said,
                Err(why) => return Ok(Verdict::not_run(level, why)),
            };
            let is_asked = !matches!(said.end, AttemptEnd::NotStarted { .. });
            if is_asked {
                *used = Some(match used.take() {
                    Some(before) => before.and(&said.usage),
                    None => said.usage.clone(),
                });
            }
            let ended = match &said.end {
                AttemptEnd::Exited { exit_code: 0 } => Ok(()),
                AttemptEnd::NotStarted { reason } => {
                    return Ok(Verdict::not_run(level, format!("the judge could not be asked: {reason}")));
                }
                _ => Err(format!("it ended badly: {}", consult::end_of(&said))),
            };
            match ended.and_then(|()| judgement::read(&said.report, changes)) {
                Ok(answer) => {
                    let named =
                        self.site.config.agents.get(role).and_then(|role| role.asks().map(str::to_owned));
                    let model = said.usage.model.or(named);
                    let judgement = ModelJudgement {
                        role: role.to_owned(),
                        model,
                        reasons: answer.reasons,
                        citations: answer.citations,
                    };
                    return Ok(verdict(level, answer.holds, judgement));
                }
                Err(why) => again = Some(why),
            }
        }
        let why = again.unwrap_or_default();
        Ok(Verdict::not_run(
            level,
            format!("the judge `{role}` gave no answer that counts in {ROUNDS} tries: {why}"),
        ))
    }
}

fn verdict(level: Isolation, holds: bool, judgement: ModelJudgement) -> Verdict {
    let outcome = if holds { CheckOutcome::Held } else { CheckOutcome::Broke { exit_code: 1 } };
    // The next attempt reads the output of a check: here, the reasons.
    let stdout = Excerpt::whole(judgement.reasons.join("\n"));
    let unmet = if holds { Vec::new() } else { vec![judgement.by()] };
    Verdict { unmet, stdout, judged: Some(Box::new(judgement)), ..Verdict::bare(level, outcome) }
}
