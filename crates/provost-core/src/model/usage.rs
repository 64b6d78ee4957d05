//! Usage of an attempt, as its driver or the proxy reported it, and amounts.
//!
//! **Invariant:** a part that was not reported is unknown, and every sum with it is unknown. It never counts
//! as zero.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::plan::Budget;

/// Tokens and money; a part is `None` if it was not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// The provider's name of the model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Number of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// All input tokens, cached ones included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// All output tokens, thinking included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Input tokens read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Input tokens written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// In millionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
}

impl Usage {
    /// Returns whether nothing was counted.
    pub fn is_unknown(&self) -> bool {
        *self == Usage::default()
    }

    /// Adds both; a part that is unknown in one is unknown in the sum.
    pub fn and(&self, other: &Usage) -> Usage {
        let model = self.model.clone().filter(|_| self.model == other.model);
        Usage { model, ..self.with(other, u64::saturating_add) }
    }

    /// Subtracts a part.
    pub fn less(&self, part: &Usage) -> Usage {
        Usage { model: self.model.clone(), ..self.with(part, u64::saturating_sub) }
    }

    fn with(&self, other: &Usage, rule: fn(u64, u64) -> u64) -> Usage {
        let both = |one: Option<u64>, other: Option<u64>| Some(rule(one?, other?));
        Usage {
            model: None,
            calls: both(self.calls, other.calls),
            input_tokens: both(self.input_tokens, other.input_tokens),
            output_tokens: both(self.output_tokens, other.output_tokens),
            cache_read_tokens: both(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: both(self.cache_write_tokens, other.cache_write_tokens),
            micro_usd: both(self.micro_usd, other.micro_usd),
        }
    }

    /// Returns input and output tokens together if both are known.
    pub fn tokens(&self) -> Option<u64> {
        Some(self.input_tokens?.saturating_add(self.output_tokens?))
    }
}

/// A limited resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    Tokens,
    Usd,
    WallClock,
}

impl Resource {
    pub const ALL: [Resource; 3] = [Resource::Tokens, Resource::Usd, Resource::WallClock];

    /// Formats an amount of it: `$1.50`, `20k tokens`, `5m`.
    pub fn say(self, count: u64) -> String {
        match self {
            Resource::Tokens => format!("{} tokens", thousands(count)),
            Resource::Usd => dollars(count),
            Resource::WallClock => time(count),
        }
    }
}

/// An amount of each resource; a missing part is unlimited or unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// In millionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
}

impl Amount {
    pub fn is_empty(&self) -> bool {
        *self == Amount::default()
    }

    pub fn of(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Tokens => self.tokens,
            Resource::Usd => self.micro_usd,
            Resource::WallClock => self.wall_ms,
        }
    }

    /// Computes each part with `rule`.
    pub fn each(rule: impl Fn(Resource) -> Option<u64>) -> Self {
        Self {
            tokens: rule(Resource::Tokens),
            micro_usd: rule(Resource::Usd),
            wall_ms: rule(Resource::WallClock),
        }
    }

    /// Takes the parts that `self` lacks from `other`.
    pub fn or(&self, other: &Amount) -> Self {
        Self::each(|resource| self.of(resource).or(other.of(resource)))
    }
}

impl From<Budget> for Amount {
    fn from(budget: Budget) -> Self {
        let ms = |wall: Duration| u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Self { tokens: budget.tokens, micro_usd: budget.micro_usd, wall_ms: budget.wall.map(ms) }
    }
}

/// Writes `200k tokens, $1.50, 20m`, the form of a plan's budget.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = Resource::ALL.into_iter();
        let parts: Vec<String> =
            parts.filter_map(|resource| Some(resource.say(self.of(resource)?))).collect();
        f.write_str(&parts.join(", "))
    }
}

/// The cost of a run or a step. A part is unknown if it is unknown for any attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    pub tokens: Option<u64>,
    pub micro_usd: Option<u64>,
    /// Number of attempts that did not report their tokens or their money.
    #[serde(default)]
    pub unknown: u32,
    /// Time that provost worked on it, in milliseconds.
    #[serde(default)]
    pub wall_ms: u64,
}

impl Cost {
    /// Returns whether no attempt was started.
    pub fn is_none(&self) -> bool {
        *self == Cost::default()
    }
}

/// Writes `12,345 tokens, $0.07, 3m 2s`; unknown parts are called unknown.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.tokens.map_or("tokens unknown".to_owned(), |tokens| Resource::Tokens.say(tokens));
        let money = self.micro_usd.map_or("cost unknown".to_owned(), dollars);
        write!(f, "{tokens}, {money}, {}", time(self.wall_ms))
    }
}

fn thousands(count: u64) -> String {
    match count {
        0 => "0".to_owned(),
        n if n.is_multiple_of(1_000_000) => format!("{}m", n / 1_000_000),
        n if n.is_multiple_of(1_000) => format!("{}k", n / 1_000),
        n => {
            let digits = n.to_string();
            let lead = digits.len() % 3;
            let mut shown = digits[..lead].to_owned();
            for (index, group) in digits.as_bytes()[lead..].chunks(3).enumerate() {
                if index > 0 || lead > 0 {
                    shown.push(',');
                }
                shown.push_str(&String::from_utf8_lossy(group));
            }
            shown
        }
    }
}

/// Rounds up to a cent, or to a tenth of one for small amounts.
fn dollars(micro: u64) -> String {
    let cents = micro.div_ceil(10_000);
    match micro {
        0 => "$0".to_owned(),
        1..1_000 => "less than $0.001".to_owned(),
        1_000..100_000 if !micro.is_multiple_of(10_000) => format!("$0.{:03}", micro.div_ceil(1_000)),
        _ => format!("${}.{:02}", cents / 100, cents % 100),
    }
}

fn time(ms: u64) -> String {
    let whole = if ms < 1_000 { ms } else { ms / 1_000 * 1_000 };
    humantime::format_duration(Duration::from_millis(whole)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_said_as_people_write_them() {
        let said = |tokens, micro_usd, wall_ms| Amount { tokens, micro_usd, wall_ms }.to_string();
        assert_eq!(said(Some(200_000), Some(1_500_000), Some(1_200_000)), "200k tokens, $1.50, 20m");
        assert_eq!(said(Some(1_234_567), Some(4_380), Some(61_500)), "1,234,567 tokens, $0.005, 1m 1s");
        assert_eq!(said(Some(12), Some(900), None), "12 tokens, less than $0.001");
        assert_eq!(said(Some(0), Some(0), Some(0)), "0 tokens, $0, 0s");
    }

    #[test]
    fn what_is_said_can_be_read_again() {
        for text in ["200k tokens, $1.50, 20m", "1,234,567 tokens", "3m tokens, $0.03", "999 tokens, 1h 30m"]
        {
            let read = crate::language::parse::budget(text).map(Amount::from).expect(text);
            assert_eq!(
                crate::language::parse::budget(&read.to_string()).map(Amount::from),
                Ok(read),
                "{text}"
            );
        }
    }

    #[test]
    fn half_a_count_is_no_count() {
        let half = Usage { input_tokens: Some(7), ..Usage::default() };
        assert_eq!(half.tokens(), None);
        assert_eq!(Usage { output_tokens: Some(5), ..half }.tokens(), Some(12));
    }
}
