//! A budget of all plans of a log, for example of a team.

use crate::model::usage::{Amount, Resource};

/// The limits, and what all plans have used and reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogBudget {
    /// Name of the project whose plans these are, if the database has several.
    pub project: Option<String>,
    /// Without limits there is no budget. Only tokens and money are limited.
    pub limit: Amount,
    pub used: Amount,
}

impl LogBudget {
    /// Returns whether no attempt may begin.
    pub fn is_used_up(&self) -> bool {
        Resource::ALL.into_iter().any(|resource| self.is_reached(resource))
    }

    /// Returns what was used of the limited resources.
    pub fn used_of_limited(&self) -> Amount {
        Amount::each(|resource| self.limit.of(resource).and(self.used.of(resource)))
    }

    /// Writes why no attempt may begin, and how to let one begin.
    pub fn refusal(&self) -> String {
        format!(
            "{} of {} is used up: {} used; raise it with `provost cluster budget 'max {}'`",
            self.name(),
            self.limit,
            self.used_of_limited(),
            self.more()
        )
    }

    /// Writes whose budget it is.
    pub fn name(&self) -> String {
        match &self.project {
            Some(project) => format!("the budget of the project `{project}`"),
            None => "the budget of all plans".to_owned(),
        }
    }

    fn is_reached(&self, resource: Resource) -> bool {
        self.limit.of(resource).is_some_and(|limit| self.used.of(resource).unwrap_or(0) >= limit)
    }

    /// Returns limits under which attempts begin: twice what was used, where a limit is reached.
    fn more(&self) -> Amount {
        Amount::each(|resource| {
            let limit = self.limit.of(resource)?;
            let used = self.used.of(resource).unwrap_or(0);
            Some(if used >= limit { used.max(1).saturating_mul(2) } else { limit })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LogBudget;
    use crate::language::parse;
    use crate::model::usage::Amount;

    fn budget(limit: &str, tokens: u64, micro_usd: u64) -> LogBudget {
        let limit = parse::budget(limit).map(Amount::from).expect(limit);
        LogBudget {
            limit,
            used: Amount { tokens: Some(tokens), micro_usd: Some(micro_usd), wall_ms: None },
            project: None,
        }
    }

    #[test]
    fn a_budget_is_used_up_when_one_of_its_limits_is_reached() {
        for (limit, tokens, micro_usd, is_used_up) in [
            ("max $5, 1k tokens", 999, 4_999_999, false),
            ("max $5, 1k tokens", 1_000, 0, true),
            ("max $5, 1k tokens", 0, 5_000_000, true),
            ("max 1k tokens", 0, 9_000_000, false),
            ("max 0 tokens", 0, 0, true),
        ] {
            assert_eq!(budget(limit, tokens, micro_usd).is_used_up(), is_used_up, "{limit}");
        }
        assert!(!LogBudget { limit: Amount::default(), ..budget("max $1", 9, 9) }.is_used_up());
    }

    #[test]
    fn it_says_what_was_used_and_a_command_that_is_enough() {
        let web = LogBudget { project: Some("web".to_owned()), ..budget("max $5, 1k tokens", 1_500, 20_000) };
        assert_eq!(
            web.refusal(),
            "the budget of the project `web` of 1k tokens, $5.00 is used up: 1,500 tokens, $0.02 used; raise it \
             with `provost cluster budget 'max 3k tokens, $5.00'`"
        );
        let none = budget("max $5", 0, 5_200_000);
        assert!(none.refusal().starts_with("the budget of all plans of $5.00 is used up: $5.20 used"));
        let limit = parse::budget("max 3k tokens, $5.00").map(Amount::from).expect("a budget");
        assert!(!LogBudget { limit, ..web }.is_used_up());
    }
}
