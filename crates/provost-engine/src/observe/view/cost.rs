//! The cost of a plan and of its steps so far, and the limits.

use provost_core::model::plan::StepNumber;
use provost_core::model::usage::{Amount, Cost, Resource};
use provost_core::rules::budget;
use provost_core::state::run::Run;
use serde::Serialize;
use utoipa::ToSchema;

/// The cost so far and its limits. An amount that was not counted is null, which is not zero.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = Cost)]
pub struct CostView {
    pub tokens: Option<u64>,
    pub usd: Option<f64>,
    pub wall_ms: Option<u64>,
    pub limit_tokens: Option<u64>,
    pub limit_usd: Option<f64>,
    pub limit_wall_ms: Option<u64>,
    /// Attempts that did not report their usage completely.
    pub unknown_attempts: u32,
    /// The reported part.
    pub at_least: KnownCostView,
    /// The limits once more, as one object.
    pub limit: LimitView,
    /// The exact amounts, for words.
    #[serde(skip)]
    #[schema(ignore)]
    spent: Cost,
    #[serde(skip)]
    #[schema(ignore)]
    limits: Amount,
}

/// The part of the cost that is known.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = KnownCost)]
pub struct KnownCostView {
    pub tokens: u64,
    pub usd: f64,
}

/// The limits of a plan; null is no limit.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = CostLimit)]
pub struct LimitView {
    pub tokens: Option<u64>,
    pub usd: Option<f64>,
    pub wall_ms: Option<u64>,
}

/// The cost of the attempts at a step.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = StepCost)]
pub struct StepCostView {
    pub tokens: Option<u64>,
    pub usd: Option<f64>,
    /// Time of its agents.
    pub agent_ms: u64,
}

fn dollars(micro: u64) -> f64 {
    micro as f64 / 1e6
}

impl StepCostView {
    pub fn of(run: &Run, step: StepNumber) -> Self {
        let cost = run.ledger.cost_of(step);
        Self { tokens: cost.tokens, usd: cost.micro_usd.map(dollars), agent_ms: cost.wall_ms }
    }
}

impl CostView {
    pub fn of(run: &Run) -> Self {
        let at_least = KnownCostView {
            tokens: run.ledger.known(Resource::Tokens),
            usd: dollars(run.ledger.known(Resource::Usd)),
        };
        Self::new(run.ledger.cost(), budget::of_plan(run), at_least)
    }

    pub fn new(cost: Cost, limits: Amount, at_least: KnownCostView) -> Self {
        let limit =
            LimitView { tokens: limits.tokens, usd: limits.micro_usd.map(dollars), wall_ms: limits.wall_ms };
        Self {
            tokens: cost.tokens,
            usd: cost.micro_usd.map(dollars),
            wall_ms: (cost.wall_ms > 0).then_some(cost.wall_ms),
            limit_tokens: limit.tokens,
            limit_usd: limit.usd,
            limit_wall_ms: limit.wall_ms,
            unknown_attempts: cost.unknown,
            at_least,
            limit,
            spent: cost,
            limits,
        }
    }

    fn spent(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Tokens => self.spent.tokens,
            Resource::Usd => self.spent.micro_usd,
            Resource::WallClock => self.wall_ms,
        }
    }

    /// Describes one resource: `$0.12 of $1.50`; `None` if it is neither counted nor limited.
    fn of_resource(&self, resource: Resource) -> Option<String> {
        let used = self.spent(resource).map(|used| resource.say(used));
        match (used, self.limits.of(resource).map(|limit| resource.say(limit))) {
            (Some(used), Some(limit)) => Some(format!("{used} of {limit}")),
            (Some(used), None) => Some(used),
            (None, Some(limit)) => Some(format!("unknown of {limit}")),
            (None, None) => None,
        }
    }

    /// Returns every resource in one line, for people.
    pub fn words(&self) -> String {
        let all = [Resource::Usd, Resource::Tokens, Resource::WallClock];
        all.into_iter().filter_map(|each| self.of_resource(each)).collect::<Vec<_>>().join(" · ")
    }

    /// Returns the money if some was spent, otherwise the tokens; empty if neither is known.
    pub fn short(&self) -> String {
        let is_spent = |resource: &Resource| self.spent(*resource).is_some_and(|used| used > 0);
        let found = [Resource::Usd, Resource::Tokens].into_iter().find(is_spent);
        found.and_then(|resource| self.of_resource(resource)).unwrap_or_default()
    }

    /// Returns the line of `provost status`, with attempts that did not report; `None` before any cost or
    /// limit.
    pub fn line(&self) -> Option<String> {
        let (cost, limits) = (&self.spent, &self.limits);
        if cost.is_none() && limits.is_empty() {
            return None;
        }
        let of = if limits.is_empty() { String::new() } else { format!(" · budget {limits}") };
        let unknown = match cost.unknown {
            0 => String::new(),
            1 => " (1 attempt reported its usage incompletely)".to_owned(),
            n => format!(" ({n} attempts reported their usage incompletely)"),
        };
        Some(format!("cost: {cost}{unknown}{of}"))
    }
}
