//! Limits and settings of a run.

use crate::answer_form::AnswerForm;
use crate::budget::LoopBudget;
use crate::provider::Patience;
use crate::provider::api::Key;
use crate::tool::after_edit::AfterEdit;

/// Limits and settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub system: String,
    /// Most calls of the model.
    pub max_turns: u32,
    /// Most final answers in a row that are refused before the run ends.
    pub max_refusals: u32,
    /// The model's context window.
    pub context_tokens: usize,
    pub max_output_tokens: u32,
    pub patience: Patience,
    pub planning: PlanRequirement,
    /// The most it may use.
    pub budget: LoopBudget,
    pub compaction: Compaction,
    /// A command that the loop runs after a turn that changed files, and whose output the model gets.
    pub after_edit: Option<AfterEdit>,
    /// The form of the final answer; without one, it is text.
    pub form: Option<AnswerForm>,
    /// The API key, which is removed from the answers of tools.
    pub key: Key,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            system: include_str!("../prompt/system.md").to_owned(),
            max_turns: 100,
            max_refusals: 8,
            context_tokens: 128_000,
            max_output_tokens: 16_000,
            patience: Patience::default(),
            planning: PlanRequirement::AsNeeded,
            budget: LoopBudget::default(),
            compaction: Compaction::Deterministic,
            after_edit: None,
            form: None,
            key: Key::none(),
        }
    }
}

/// Rule that says if a plan is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanRequirement {
    /// A run without a plan ends with the model's answer.
    AsNeeded,
    Required,
}

/// How the loop makes room in a full context window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compaction {
    /// Leaves out old output, then old turns.
    #[default]
    Deterministic,
    /// Asks the model for a summary of the old turns first.
    Summary,
}
