//! The view of the gate: what an approval covers, and what speaks against it.

use std::time::Duration;

use provost_core::language::diagnostic::{Diagnostic, Severity};
use provost_core::model::hash::Hash;
use provost_core::model::plan::{Spanned, Step};
use provost_core::model::usage::Resource;
use provost_core::model::verdict::Verdict;
use provost_core::rules::budget;
use provost_core::state::run::{Run, Stage};
use provost_core::text::render::{self, base::BaseLook};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ApprovalsView, CheckView, QuestionView};
use crate::Error;
use crate::exec::base_look::{self, OnBase};
use crate::observe::overview::{Overview, PlanSnapshot, SpecChanges};
use crate::plan::harness::Harness;
use crate::plan::human_check::Who;
use crate::plan::uncommitted::{self, UncommittedFile, UncommittedFiles};
use crate::plan::{outside, recording};
use crate::settings::Access;

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Gate)]
pub struct GateView {
    pub plan: String,
    pub name: String,
    pub title: String,
    #[schema(value_type = String, example = "verified")]
    pub stage: Stage,
    /// The revision that an approval has to name.
    pub revision: String,
    /// It can be approved as it is.
    pub open: bool,
    /// The plan file has changed since the log last saw it.
    pub changed: bool,
    pub question: Option<String>,
    pub rejected: Option<String>,
    /// How far the approvals of this revision have come.
    pub approvals: ApprovalsView,
    /// The revision that was approved last, and its approver; null if none was.
    pub approved: Option<String>,
    pub approved_by: Option<String>,
    /// Changes in the spec since then, a line each.
    pub changes: Vec<String>,
    /// The plan as it was then.
    pub approved_text: Option<String>,
    pub diagnostics: Vec<DiagnosticView>,
    /// Files inside `touches` that are not committed: they are committed, put away or included before an
    /// approval.
    pub uncommitted: Vec<UncommittedView>,
    /// The revision that an approval names if it includes them; null if there are none.
    pub revision_with_uncommitted: Option<String>,
    /// Uncommitted files outside of `touches`: no check sees them.
    pub not_checked: Vec<UncommittedView>,
    /// Both lists in words, with what to do, a line each.
    pub uncommitted_lines: Vec<String>,
    /// Globs the plan may change; null if the plan declares none.
    pub touches: Option<Vec<String>>,
    /// Additions of the configuration to the approved spec, a line each, and which of them only a sandbox
    /// enforces.
    pub terms: Vec<String>,
    pub caveat: Option<String>,
    /// Results of the checks on the base, before the work, a line each; empty if they were not run yet.
    pub on_base: Vec<String>,
    /// The checks are being tried on the base: ask again in a moment.
    pub on_base_under_way: bool,
    /// How many of the checks hold on the base already.
    pub already_hold: usize,
    /// Each step: its agent, its checks, its limits.
    pub intents: Vec<IntentView>,
    /// Checks that run when every step is over.
    pub postconditions: Vec<PromiseView>,
    /// The plan in words: what runs, with which network and files.
    pub shown: String,
    /// The plan file as it is.
    pub text: String,
    /// Of that text; an amendment has to name it.
    pub digest: String,
    /// The diagnostics with their places in the text, for a terminal.
    #[serde(skip)]
    #[schema(ignore)]
    pub found: Vec<Diagnostic>,
}

/// Returns what neither the sandbox nor a budget enforces, and the instructions that agents read.
fn caveat(run: &Run) -> Option<String> {
    let terms = &run.binding.terms;
    let caveats = terms.caveat().into_iter().chain(terms.instruction_lines()).chain(budget::caveats(run));
    let all: Vec<String> = caveats.collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// A file that differs from the base commit.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Loose)]
pub struct UncommittedView {
    pub path: String,
    #[schema(example = "modified")]
    pub change: String,
    /// The person or agent that left it there.
    #[schema(example = "yours")]
    pub whose: String,
}

impl UncommittedView {
    pub fn all(files: &[UncommittedFile]) -> Vec<Self> {
        let each = |file: &UncommittedFile| Self {
            path: file.path.clone(),
            change: file.change.word().to_owned(),
            whose: file.whose.to_string(),
        };
        files.iter().map(each).collect()
    }
}

/// The part of an approval that covers one step.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Intent)]
pub struct IntentView {
    pub number: u32,
    pub title: String,
    /// The role that works, and its access rights.
    pub target: Option<String>,
    /// The command that provost starts for it, and its model; null if the configuration names none.
    pub program: Option<String>,
    pub reach: String,
    pub task: Option<String>,
    pub precondition: Option<CheckView>,
    pub contract: Option<CheckView>,
    /// The result of the contract on the base, before the work; null if it was not tried.
    pub on_base: Option<String>,
    /// Checks of this step may use the network.
    pub check_network: bool,
    /// Inside `touches`, and put back before it is judged.
    pub protect: Vec<String>,
    /// How long an attempt, and how long a check, may take, if the plan says it.
    pub attempt_limit: Option<String>,
    pub check_limit: Option<String>,
    pub on_fail: String,
    pub budget: Option<String>,
    pub hidden: bool,
    pub writes_tests: bool,
    /// Questions that people asked about the step, oldest first.
    pub questions: Vec<QuestionView>,
}

/// A postcondition that will be run.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Promise)]
pub struct PromiseView {
    pub number: u32,
    pub description: String,
    pub contract: Option<CheckView>,
    /// Its result on the base, before the work; null if it was not tried.
    pub on_base: Option<String>,
}

/// Describes the result of a check on the base.
fn on_base(verdict: Option<&Verdict>) -> Option<String> {
    verdict.map(|verdict| render::base::words(&verdict.outcome))
}

impl IntentView {
    fn of(run: &Run, step: &Step, look: Option<&BaseLook>) -> Self {
        let program = run.binding.terms.programs.get(run.role(step.number)).cloned();
        let limit = |limit: &Option<Spanned<Duration>>| {
            let ms = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            limit.as_ref().map(|limit| Resource::WallClock.say(ms(limit.value)))
        };
        let budget = budget::of_step(run, step.number);
        Self {
            number: step.number.0,
            title: step.title.clone(),
            target: step.target.as_ref().map(|target| target.value.clone()),
            program,
            reach: run.binding.terms.for_step(step).to_string(),
            task: step.task.as_ref().map(|task| task.value.clone()),
            precondition: step.precondition.as_ref().map(CheckView::of),
            contract: step.contract.as_ref().map(CheckView::of),
            on_base: on_base(look.and_then(|look| look.steps.get(&step.number))),
            check_network: step.network.as_ref().is_some_and(|network| network.value),
            protect: step.protect.iter().map(|glob| glob.value.clone()).collect(),
            attempt_limit: limit(&step.timeout),
            check_limit: limit(&step.contract_timeout),
            on_fail: run.on_fail(step.number).to_string(),
            budget: (!budget.is_empty()).then(|| budget.to_string()),
            hidden: step.is_hidden(),
            writes_tests: step.writes_tests(),
            questions: QuestionView::about(run, step.number),
        }
    }
}

impl GateView {
    pub fn of(overview: &Overview, seen: &PlanSnapshot) -> Result<Self, Error> {
        let harness = overview.harness(seen, Access::Read, Who::Here)?;
        let (run, changed) = recording::preview(&harness)?;
        let reading = recording::check(&harness)?;
        let look = base_look::on_base(&harness, &run);
        let known = match &look {
            OnBase::Known(look) => Some(look),
            OnBase::UnderWay | OnBase::NotTried => None,
        };
        let since = overview.changes_since_approval(&seen.id, &run)?;
        let rejected = run.rejection.as_ref().filter(|(revision, _)| *revision == run.revision);
        let touches = run.plan.touches.as_ref();
        let waits = matches!(run.stage, Stage::Draft | Stage::Verified);
        let found = if waits {
            uncommitted::uncommitted(&harness, &run).unwrap_or_default()
        } else {
            UncommittedFiles::default()
        };
        let with = if found.inside.is_empty() || run.started() {
            None
        } else {
            uncommitted::include_uncommitted(&harness);
            Some(recording::preview(&harness)?.0.revision.0)
        };
        Ok(Self {
            uncommitted: UncommittedView::all(&found.inside),
            revision_with_uncommitted: with,
            not_checked: UncommittedView::all(&found.outside),
            uncommitted_lines: found.lines(),
            plan: seen.id.0.clone(),
            name: seen.name().to_owned(),
            title: run.plan.title.clone(),
            stage: run.stage,
            revision: run.revision.0.clone(),
            open: waits && !reading.errors() && rejected.is_none() && run.forged_from.is_none(),
            changed,
            question: run.question.clone(),
            rejected: rejected.map(|(_, reason)| reason.clone()),
            approvals: ApprovalsView::of(&run),
            approved: since.as_ref().map(|since| since.from.0.clone()),
            approved_by: since.as_ref().map(|since| since.by.to_string()),
            changes: changes(&harness, &run, since.as_ref()),
            approved_text: since.map(|since| since.text),
            touches: touches.map(|globs| globs.iter().map(|glob| glob.value.clone()).collect()),
            terms: run.binding.terms.lines(),
            caveat: caveat(&run),
            on_base_under_way: look == OnBase::UnderWay,
            already_hold: known.map_or(0, BaseLook::holding),
            on_base: known.map(|look| render::base::lines(&run.plan, look)).unwrap_or_default(),
            intents: run.plan.steps.iter().map(|step| IntentView::of(&run, step, known)).collect(),
            postconditions: run
                .plan
                .postconditions
                .iter()
                .map(|post| PromiseView {
                    number: post.number,
                    description: post.description.clone(),
                    contract: post.contract.as_ref().map(CheckView::of),
                    on_base: on_base(known.and_then(|look| look.postconditions.get(&post.number))),
                })
                .collect(),
            diagnostics: DiagnosticView::all(&reading.text, &reading.diagnostics),
            shown: render::plan(&run),
            digest: Hash::of(reading.text.as_bytes()).to_string(),
            text: reading.text,
            found: reading.diagnostics,
        })
    }
}

/// Lists changes since the last approval, with the attempt that made them if one did.
fn changes(harness: &Harness, run: &Run, since: Option<&SpecChanges>) -> Vec<String> {
    let mut lines = since.map(|since| since.lines.clone()).unwrap_or_default();
    for line in run.changed_since_approval().into_iter().chain(outside::changed_caches(harness, run)) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// One finding of the static checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Found)]
pub struct DiagnosticView {
    pub code: String,
    #[schema(example = "error")]
    pub severity: &'static str,
    pub line: usize,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hint: Option<String>,
}

impl DiagnosticView {
    pub fn all(text: &str, diagnostics: &[Diagnostic]) -> Vec<Self> {
        let each = |diagnostic: &Diagnostic| Self {
            code: diagnostic.code.to_string(),
            severity: match diagnostic.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Advice => "advice",
            },
            line: 1 + text.get(..diagnostic.span.start).unwrap_or_default().matches('\n').count(),
            message: diagnostic.message.clone(),
            hint: diagnostic.hint.clone(),
        };
        diagnostics.iter().map(each).collect()
    }
}
