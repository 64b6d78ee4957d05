//! Summarises the effort of plans: attempts, failures, time, tokens and money, by step and by agent.
//!
//! It reads a plan event by event and makes one row per step; [`PlansSummary`] adds rows up. Waiting is separate
//! from working: time spent waiting for a person or in a pause costs nothing.
//!
//! **Invariant:** memory grows with steps, agents and recipes, never with events.
//! **Invariant:** a part that was not counted makes a sum unknown; it never counts as zero.

mod hearing;
mod words;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::model::chain::PlanId;
use crate::model::plan::StepNumber;
use crate::model::usage::Usage;

pub use hearing::SummaryReader;

/// Rows of plans, and their total.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlansSummary {
    pub plans: Vec<PlanRow>,
    pub total: Effort,
    agents: BTreeMap<AgentName, AgentRow>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRow {
    pub plan: PlanId,
    pub title: String,
    /// The word used by `status`.
    pub stage: &'static str,
    /// The log is untrusted from this event on; its events are counted anyway.
    pub forged_from: Option<u64>,
    pub steps: Vec<StepRow>,
    /// Effort that belongs to no step: the gate, the postconditions.
    pub itself: Effort,
    pub total: Effort,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRow {
    pub number: StepNumber,
    pub title: String,
    /// The word used by `status`; `confirmed` if a person passed it, `removed` if the current spec no longer
    /// has the step.
    pub state: &'static str,
    pub taken: Effort,
}

/// The effort of something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Attempts that ended, were lost, or are running.
    pub attempts: u32,
    /// Number of failures by class.
    pub classes: BTreeMap<&'static str, u32>,
    /// Number of applications by recipe.
    pub recipes: BTreeMap<String, u32>,
    pub agent_ms: u64,
    pub check_ms: u64,
    /// Time waiting for a person: at the gate, escalated, or to be confirmed.
    pub person_ms: u64,
    /// Time waiting in pauses.
    pub pause_ms: u64,
    pub tokens: PartialSum,
    pub micro_usd: PartialSum,
}

/// A sum with possibly missing parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialSum {
    /// The counted amount.
    pub known: u64,
    /// Number of attempts with and without a count.
    pub counted: u32,
    pub uncounted: u32,
}

/// The agent of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentName {
    pub role: String,
    /// `None` if it was not reported.
    pub model: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentRow {
    /// Steps whose contract held on this agent's last attempt; confirmations by people do not count.
    pub verified: u32,
    pub attempts: u32,
    pub agent_ms: u64,
    pub tokens: PartialSum,
    pub micro_usd: PartialSum,
}

impl PartialSum {
    /// Returns the sum if every part of it is known.
    pub fn total(self) -> Option<u64> {
        (self.uncounted == 0).then_some(self.known)
    }

    fn add(&mut self, part: Option<u64>) {
        match part {
            Some(part) => {
                self.known = self.known.saturating_add(part);
                self.counted += 1;
            }
            None => self.uncounted += 1,
        }
    }

    fn join(&mut self, other: PartialSum) {
        self.known = self.known.saturating_add(other.known);
        self.counted += other.counted;
        self.uncounted += other.uncounted;
    }
}

impl Effort {
    fn attempt(&mut self, agent_ms: u64, usage: &Usage) {
        self.attempts += 1;
        self.agent_ms = self.agent_ms.saturating_add(agent_ms);
        self.tokens.add(usage.tokens());
        self.micro_usd.add(usage.micro_usd);
    }

    fn join(&mut self, other: &Effort) {
        self.attempts += other.attempts;
        for (class, times) in &other.classes {
            *self.classes.entry(class).or_default() += times;
        }
        for (recipe, times) in &other.recipes {
            *self.recipes.entry(recipe.clone()).or_default() += times;
        }
        self.agent_ms = self.agent_ms.saturating_add(other.agent_ms);
        self.check_ms = self.check_ms.saturating_add(other.check_ms);
        self.person_ms = self.person_ms.saturating_add(other.person_ms);
        self.pause_ms = self.pause_ms.saturating_add(other.pause_ms);
        self.tokens.join(other.tokens);
        self.micro_usd.join(other.micro_usd);
    }
}

impl AgentRow {
    fn attempt(&mut self, agent_ms: u64, usage: &Usage) {
        self.attempts += 1;
        self.agent_ms = self.agent_ms.saturating_add(agent_ms);
        self.tokens.add(usage.tokens());
        self.micro_usd.add(usage.micro_usd);
    }

    fn join(&mut self, other: &AgentRow) {
        self.verified += other.verified;
        self.attempts += other.attempts;
        self.agent_ms = self.agent_ms.saturating_add(other.agent_ms);
        self.tokens.join(other.tokens);
        self.micro_usd.join(other.micro_usd);
    }

    /// Returns the whole cost, failed attempts included, per passed step.
    pub fn micro_usd_per_verified(&self) -> Option<u64> {
        self.micro_usd.total()?.checked_div(u64::from(self.verified))
    }

    pub fn ms_per_verified(&self) -> Option<u64> {
        self.agent_ms.checked_div(u64::from(self.verified))
    }

    /// Orders agents: the cheapest first; then those of unknown cost, the quickest first; last those without
    /// a verified step.
    fn rank(&self, other: &AgentRow) -> Ordering {
        let place = |row: &AgentRow| match (row.verified, row.micro_usd_per_verified()) {
            (0, _) => (2, row.attempts.into(), row.agent_ms),
            (_, Some(cost)) => (0, cost, row.ms_per_verified().unwrap_or(u64::MAX)),
            (_, None) => (1, row.ms_per_verified().unwrap_or(u64::MAX), 0),
        };
        place(self).cmp(&place(other))
    }
}

impl PlansSummary {
    /// Returns the agents by cost per verified step, and by time if the cost is unknown.
    pub fn agents(&self) -> Vec<(&AgentName, &AgentRow)> {
        let mut rows: Vec<(&AgentName, &AgentRow)> = self.agents.iter().collect();
        // Stable sort: agents of the same rank stay in the order of their names.
        rows.sort_by(|(_, one), (_, other)| one.rank(other));
        rows
    }

    fn add(&mut self, row: PlanRow, agents: BTreeMap<AgentName, AgentRow>) {
        self.total.join(&row.total);
        self.plans.push(row);
        for (agent, row) in agents {
            self.agents.entry(agent).or_default().join(&row);
        }
    }
}

#[cfg(test)]
mod tests;
