//! The view of a check and of its verdict.

use std::sync::Arc;

use provost_core::model::plan::{Check as Contracted, Contract};
use provost_core::model::proof_map::ProvedShare;
use provost_core::model::test_results::TestSummary;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::Usage;
use provost_core::model::verdict::{ChangedTests, CheckEnvironment, ModelJudgement, Teeth, Verdict};
use serde::Serialize;
use utoipa::ToSchema;

/// A check: a command that is run, a rubric for a model, or a question to a person.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Check)]
pub struct CheckView {
    #[schema(example = "shell")]
    pub kind: &'static str,
    /// The command, or the rubric a model judges by.
    pub text: Option<String>,
    pub expectations: Vec<String>,
    /// The same as `text`, for the kind `shell`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub command: Option<String>,
    /// The same as `text`, for the kind `judge`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rubric: Option<String>,
}

impl CheckView {
    pub fn of(contract: &Contract) -> Self {
        let bare = Self { kind: "human", text: None, expectations: Vec::new(), command: None, rubric: None };
        match &contract.check {
            Contracted::Shell(shell) => Self {
                kind: "shell",
                text: Some(shell.command.clone()),
                expectations: shell.expectations.iter().map(|each| each.value.to_string()).collect(),
                command: Some(shell.command.clone()),
                ..bare
            },
            Contracted::Human => bare,
            Contracted::Judge { rubric } => {
                Self { kind: "judge", text: Some(rubric.clone()), rubric: Some(rubric.clone()), ..bare }
            }
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Verdict)]
pub struct VerdictView {
    #[schema(value_type = Option<String>)]
    pub at: Option<Timestamp>,
    /// Which check it was.
    #[schema(example = "contract")]
    pub subject: Option<&'static str>,
    #[schema(example = "broke")]
    pub outcome: &'static str,
    pub words: String,
    pub isolation: String,
    pub duration_ms: u64,
    pub unmet: Vec<String>,
    pub stdout: String,
    pub stderr: String,
    pub tests: Option<u32>,
    /// The results of single tests, and what the work changed about them.
    #[schema(value_type = Option<Object>)]
    pub test_results: Option<Box<TestSummary>>,
    /// Why no control showed that it can fail; null if one did.
    pub uncontrolled: Option<String>,
    /// The model that judged.
    pub judged_by: Option<String>,
    /// Notes for a person about a pass.
    #[schema(example = json!(["the agent changed 1 test file: tests/test_login.py"]))]
    pub remarks: Vec<String>,
    pub tree: Option<String>,
    /// Files that were taken over from the agent.
    pub files: Vec<String>,
    /// Number of files beyond the list.
    pub files_more: u64,
    /// Files that were not taken over, and why.
    pub refused: Vec<String>,
    pub refused_more: u64,
    /// Files that git ignores and that were not taken over.
    pub ignored: Vec<String>,
    pub ignored_more: u64,
    /// Not run again: the same check already held on the same tree.
    pub cached: bool,
    /// Dependencies that were installed for this check alone.
    pub provisioned: Vec<String>,
    /// The test runners that reported themselves.
    pub runners: Vec<String>,
    /// The result of the negative control.
    #[schema(value_type = Option<Object>)]
    pub teeth: Option<Box<Teeth>>,
    /// The result of a postcondition before the work, if it was checked.
    pub held_before: Option<bool>,
    /// The test files that the work changed.
    #[schema(value_type = Option<Object>)]
    pub tests_changed: Option<Box<ChangedTests>>,
    /// Configuration that the work changed and without which the check does not hold.
    pub rests_on: Vec<String>,
    /// The judgement of the model.
    #[schema(value_type = Option<Object>)]
    pub judged: Option<Box<ModelJudgement>>,
    /// Usage of the model that judged.
    #[schema(value_type = Option<Object>)]
    pub usage: Option<Box<Usage>>,
    /// The environment that provided the check's programs.
    #[schema(value_type = Option<Object>)]
    pub environment: Option<Arc<CheckEnvironment>>,
    /// Share of the change that the contract proves, if the step demands one.
    #[schema(value_type = Option<Object>)]
    pub proved: Option<Box<ProvedShare>>,
}

impl VerdictView {
    pub fn of(verdict: &Verdict) -> Self {
        let tree = verdict.tree.as_deref();
        Self {
            at: None,
            subject: None,
            outcome: verdict.outcome.word(),
            words: verdict.outcome.to_string(),
            isolation: verdict.isolation.to_string(),
            duration_ms: verdict.duration_ms,
            unmet: verdict.unmet.clone(),
            stdout: verdict.stdout.to_string(),
            stderr: verdict.stderr.to_string(),
            tests: verdict.tests,
            test_results: verdict.test_results.clone(),
            uncontrolled: verdict.uncontrolled.clone(),
            judged_by: verdict.judged.as_ref().map(|judgement| judgement.by()),
            remarks: verdict.remarks(),
            tree: tree.map(|tree| tree.id.clone()),
            files: tree.map(|tree| tree.files.clone()).unwrap_or_default(),
            files_more: tree.map_or(0, |tree| tree.files_more),
            refused: tree.map(|tree| tree.refused.clone()).unwrap_or_default(),
            refused_more: tree.map_or(0, |tree| tree.refused_more),
            ignored: tree.map(|tree| tree.ignored.clone()).unwrap_or_default(),
            ignored_more: tree.map_or(0, |tree| tree.ignored_more),
            cached: verdict.cached,
            provisioned: verdict.provisioned.clone(),
            runners: verdict.runners.clone(),
            teeth: verdict.teeth.clone(),
            held_before: verdict.held_before,
            tests_changed: verdict.tests_changed.clone(),
            rests_on: verdict.rests_on.clone(),
            judged: verdict.judged.clone(),
            usage: verdict.usage.clone(),
            environment: verdict.environment.clone(),
            proved: verdict.proved.clone(),
        }
    }

    pub fn held(&self) -> bool {
        self.outcome == "held"
    }

    /// Returns whether this is the negative control before any work, which is expected to fail.
    pub fn is_control(&self) -> bool {
        self.subject == Some("control")
    }
}
