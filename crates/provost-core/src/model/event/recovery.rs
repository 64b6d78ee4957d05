//! Parts of the events about failures: their classes, exhausted budgets, and answers of a person.

use serde::{Deserialize, Serialize};

use super::none;
use crate::model::plan::StepNumber;
use crate::model::usage::{Amount, Resource};

/// The limit that an attempt does not fit: the plan's or the step's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    Plan,
    Step,
}

/// The exhausted budget, and what the next attempt would need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    pub scope: BudgetScope,
    pub resource: Resource,
    /// The limits of the plan or of the step.
    pub limit: Amount,
    /// The amount that counts as spent.
    pub spent: Amount,
    /// Estimated need of the next attempt.
    pub needed: Amount,
    /// Number of attempts that count with their reserved amount, because their use was not reported.
    #[serde(default, skip_serializing_if = "none")]
    pub unknown: u32,
    /// The steps that have not ended.
    pub left: Vec<StepNumber>,
    /// Estimated cost of these steps, if past attempts allow an estimate.
    #[serde(default, skip_serializing_if = "Amount::is_empty")]
    pub estimate: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    Transient,
    Permission,
    InvalidInput,
    Logic,
    Unrecoverable,
    Unknown,
}

impl FailureClass {
    pub const ALL: [FailureClass; 6] = [
        FailureClass::Transient,
        FailureClass::Permission,
        FailureClass::InvalidInput,
        FailureClass::Logic,
        FailureClass::Unrecoverable,
        FailureClass::Unknown,
    ];

    pub fn word(self) -> &'static str {
        match self {
            FailureClass::Transient => "transient",
            FailureClass::Permission => "permission",
            FailureClass::InvalidInput => "invalid_input",
            FailureClass::Logic => "logic",
            FailureClass::Unrecoverable => "unrecoverable",
            FailureClass::Unknown => "unknown",
        }
    }
}

/// A person's answer to an escalation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    Retry,
    /// A waiver by a named person; always shown as a waiver.
    Skip,
    Abort,
    /// The plan becomes a draft again.
    Revise,
    /// The person confirms that a `human` contract holds.
    Confirm,
}

impl Choice {
    /// Returns the word as a person types it.
    pub fn word(self) -> &'static str {
        match self {
            Choice::Retry => "retry",
            Choice::Skip => "skip",
            Choice::Abort => "abort",
            Choice::Revise => "revise",
            Choice::Confirm => "confirm",
        }
    }
}
