//! The budget of all plans of a log, for example of a team, and what they have used.
//!
//! Every writer says with its events what its plan has used so far, as the plan's own budget counts it. The database
//! adds these amounts up. So provost need not read the logs of all plans before an attempt begins.
//!
//! **Invariant:** the database decides who sets a budget; these functions only ask it.

use provost_core::model::chain::PlanId;
use provost_core::model::log_budget::LogBudget;
use provost_core::model::usage::Amount;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::{Postgres, rows};
use crate::Error;

/// A budget as it is in the database, with who set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRecord {
    /// Without limits there is no budget.
    pub budget: LogBudget,
    /// The login that set the newest budget, or took it away.
    pub set_by: Option<String>,
    /// When, in milliseconds since 1970.
    pub set_at_ms: Option<i64>,
}

/// What counts of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedPlan {
    pub plan: PlanId,
    /// The last event that this includes.
    pub seq: u64,
    pub used: Amount,
}

const BUDGET: &str = "
SELECT b.tokens, b.micro_usd, least(u.tokens, 9223372036854775807)::bigint,
    least(u.micro_usd, 9223372036854775807)::bigint, b.login, (extract(epoch FROM b.at) * 1000)::bigint
FROM provost.used u LEFT JOIN (SELECT * FROM provost.budget ORDER BY id DESC LIMIT 1) b ON true";

impl Postgres {
    /// Returns the budget of all plans and what they have used.
    pub fn budget(&self) -> Result<BudgetRecord, Error> {
        self.with("read the budget", async |connection| {
            let row = self.project().query(BUDGET).fetch_one(connection).await?;
            Ok(BudgetRecord {
                budget: LogBudget {
                    project: self.project().name().map(str::to_owned),
                    limit: amount(&row, 0)?,
                    used: amount(&row, 2)?,
                },
                set_by: row.try_get(4)?,
                set_at_ms: row.try_get(5)?,
            })
        })
    }

    /// Sets the budget in tokens and money; without limits there is none. Plans that waited for it go on.
    pub fn set_budget(&self, limit: &Amount) -> Result<(), Error> {
        let (tokens, micro_usd) = (limit.tokens.map(rows::bounded), limit.micro_usd.map(rows::bounded));
        self.with("set the budget", async |connection| {
            let call = self.project().query("SELECT provost.set_budget($1, $2)");
            call.bind(tokens).bind(micro_usd).execute(connection).await.map(drop)
        })
    }

    /// Returns the plans that do not count up to their last event: an earlier program or a move of the log wrote it.
    pub fn uncounted_plans(&self) -> Result<Vec<PlanId>, Error> {
        self.with("find the plans that do not count yet", async |connection| {
            let sql = "SELECT name FROM provost.plan WHERE counted_seq < seq ORDER BY id";
            let rows = self.project().query(sql).fetch_all(connection).await?;
            rows.iter().map(|row| rows::plan(row.try_get(0)?)).collect()
        })
    }

    /// Counts these plans, except those that went on meanwhile.
    pub fn count_plans(&self, plans: &[CountedPlan]) -> Result<(), Error> {
        let names: Vec<String> = plans.iter().map(|counted| rows::quoted(&counted.plan.0)).collect();
        let each = |of: fn(&CountedPlan) -> u64| -> Vec<i64> {
            plans.iter().map(|counted| rows::bounded(of(counted))).collect()
        };
        self.with("count what plans have used", async |connection| {
            self.project()
                .query("SELECT provost.count_plans($1, $2, $3, $4)")
                .bind(names.clone())
                .bind(each(|counted| counted.seq))
                .bind(each(|counted| counted.used.tokens.unwrap_or(0)))
                .bind(each(|counted| counted.used.micro_usd.unwrap_or(0)))
                .execute(connection)
                .await
                .map(drop)
        })
    }

    /// Returns why no attempt of the plan may begin. The plan is woken when the budget allows it.
    pub(super) fn ask_for_budget(&self, plan: &PlanId) -> Result<Option<String>, Error> {
        let waits: bool = self.with("ask for the budget", async |connection| {
            let call = self.project().query("SELECT provost.waits_for_budget($1)");
            call.bind(rows::quoted(&plan.0)).fetch_one(connection).await?.try_get(0)
        })?;
        if waits { Ok(Some(self.budget()?.budget.refusal())) } else { Ok(None) }
    }
}

/// Reads tokens and money from two columns.
fn amount(row: &PgRow, column: usize) -> sqlx::Result<Amount> {
    Ok(Amount { tokens: part(row, column)?, micro_usd: part(row, column + 1)?, wall_ms: None })
}

fn part(row: &PgRow, column: usize) -> sqlx::Result<Option<u64>> {
    let found: Option<i64> = row.try_get(column)?;
    Ok(found.map(|found| found.max(0).cast_unsigned()))
}
