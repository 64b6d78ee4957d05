//! The budget of all plans of a shared log: shows and sets it.

use provost_core::language::parse;
use provost_core::model::usage::Amount;

#[cfg(feature = "cluster")]
use crate::failure::Failure;

/// Parses the limits of a budget of all plans.
pub(super) fn limits(text: &str) -> Result<Amount, String> {
    let form = "write them as `max $500, 40m tokens`";
    let limits =
        parse::budget(text).map(Amount::from).map_err(|part| format!("cannot read `{part}`; {form}"))?;
    match limits.wall_ms {
        Some(_) => Err(format!("time is limited by the budget of each plan; {form}")),
        None => Ok(limits),
    }
}

/// Shows the budget, after it was set if `limits` are given.
#[cfg(feature = "cluster")]
pub(super) fn obey(
    global: &crate::open_plan::Global,
    settings: &provost_engine::settings::EngineSettings,
    limits: Option<Amount>,
) -> Result<(), Failure> {
    use provost_dbos::budget;
    use provost_engine::observe::overview::Overview;
    use provost_engine::plan::human_check::Who;

    let status = match limits {
        Some(limits) => {
            Overview::open(settings.clone())?.only_people(&Who::Here)?;
            budget::set(settings, &limits)?
        }
        None => budget::show(settings)?,
    };
    let text = if global.json { format!("{}\n", json(&status)) } else { text(&status) };
    crate::terminal::print(&text)
}

#[cfg(feature = "cluster")]
fn json(status: &provost_dbos::budget::BudgetStatus) -> serde_json::Value {
    let dollars = |micro: u64| micro as f64 / 1e6;
    let amount = |amount: &Amount| serde_json::json!({ "tokens": amount.tokens, "usd": amount.micro_usd.map(dollars) });
    let budget = &status.budget;
    serde_json::json!({
        "project": budget.project,
        "limit": (!budget.limit.is_empty()).then(|| amount(&budget.limit)),
        "used": amount(&budget.used),
        "used_up": budget.is_used_up(),
        "set_by": status.set_by,
        "set_at_ms": status.set_at_ms,
        "uncounted_plans": status.uncounted,
    })
}

#[cfg(feature = "cluster")]
fn text(status: &provost_dbos::budget::BudgetStatus) -> String {
    use crate::visible_text::line;

    let budget = &status.budget;
    let mut text = match budget.limit.is_empty() {
        true => format!("{}: none\n", budget.name()),
        false => format!("{}: {}\n", budget.name(), budget.limit),
    };
    text.push_str(&format!("used: {}\n", budget.used));
    if let Some(login) = &status.set_by {
        text.push_str(&format!("set by {}\n", line(login)));
    }
    if budget.is_used_up() {
        text.push_str("no new attempt begins until it is raised\n");
    }
    if status.uncounted > 0 {
        text.push_str(&format!(
            "{} not counted yet: their owner or an operator counts them with the same command, where their archive is\n",
            crate::terminal::count(status.uncounted as u64, "plan")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::limits;

    #[test]
    fn limits_are_tokens_and_dollars() {
        let read = limits("max $500, 40m tokens").expect("a budget");
        assert_eq!((read.micro_usd, read.tokens), (Some(500_000_000), Some(40_000_000)));
        assert!(limits("max $5, 20 minutes").unwrap_err().contains("time"));
        assert!(limits("a lot").unwrap_err().contains("max $500, 40m tokens"));
    }
}
