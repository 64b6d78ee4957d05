//! The budget of all plans of a log: shows it, sets it, and counts plans that do not count yet.

use provost_core::model::log_budget::LogBudget;
use provost_core::model::usage::Amount;
use provost_core::rules::budget;
use provost_engine::journal;
use provost_engine::journal::log_locator;
use provost_engine::settings::EngineSettings;
use provost_store::postgres::CountedPlan;
use provost_store::{Error as StoreError, Postgres, archive};

use crate::Error;

/// Plans that are counted in one transaction.
const AT_ONCE: usize = 200;

/// A budget with what it does not include.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetStatus {
    pub budget: LogBudget,
    /// The login that set the newest budget, or took it away.
    pub set_by: Option<String>,
    /// When, in milliseconds since 1970.
    pub set_at_ms: Option<i64>,
    /// Plans whose use is not counted: this login may not count them, or their log cannot be read here.
    pub uncounted: usize,
}

/// Returns the budget and what all plans have used.
pub fn show(settings: &EngineSettings) -> Result<BudgetStatus, Error> {
    status(&open(settings)?)
}

/// Sets the budget; without limits there is none. Plans that waited for it go on.
pub fn set(settings: &EngineSettings, limit: &Amount) -> Result<BudgetStatus, Error> {
    let log = open(settings)?;
    // Plans count before the budget does, so that none begins an attempt in between.
    let _ = count(&log)?;
    log.set_budget(limit)?;
    status(&log)
}

fn open(settings: &EngineSettings) -> Result<Postgres, Error> {
    let address = log_locator::database(&settings.state)?.ok_or(Error::NotShared)?;
    Ok(Postgres::open(&address)?.with_cold_folder(settings.state.join(archive::FOLDER)))
}

fn status(log: &Postgres) -> Result<BudgetStatus, Error> {
    let uncounted = count(log)?;
    let record = log.budget()?;
    Ok(BudgetStatus { budget: record.budget, set_by: record.set_by, set_at_ms: record.set_at_ms, uncounted })
}

/// Counts the plans that do not count up to their last event. Returns how many are left.
fn count(log: &Postgres) -> Result<usize, Error> {
    let plans = log.uncounted_plans()?;
    for plans in plans.chunks(AT_ONCE) {
        let counted: Vec<CountedPlan> = plans
            .iter()
            .filter_map(|plan| {
                let run = journal::read(log, plan).ok()?;
                Some(CountedPlan { plan: plan.clone(), seq: run.seq, used: budget::of_all_plans(&run) })
            })
            .collect();
        match log.count_plans(&counted) {
            // Only an operator counts them; others see how many are left.
            Err(StoreError::NotAllowed { .. }) => break,
            counted => counted?,
        }
    }
    Ok(log.uncounted_plans()?.len())
}
