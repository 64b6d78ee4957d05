//! Reads `[budget]` and `[prices]`: default budgets of plans and steps, and prices of tokens.

use provost_core::language::parse;
use provost_core::model::usage::Amount;

use super::Wrong;
use super::reading::Section;
use crate::egress::prices::{ModelPrices, Price};

/// Budgets of plans and steps that declare none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultBudgets {
    pub plan: Amount,
    pub step: Amount,
}

pub(super) fn budget(top: &Section<'_, '_>) -> Result<DefaultBudgets, Wrong> {
    let Some(section) = top.section("budget", &["plan", "step"])? else {
        return Ok(DefaultBudgets::default());
    };
    Ok(DefaultBudgets { plan: amount(&section, "plan")?, step: amount(&section, "step")? })
}

/// Reads an amount, written as in a plan; empty if the key is missing.
pub(super) fn amount(section: &Section<'_, '_>, key: &str) -> Result<Amount, Wrong> {
    let Some(text) = section.string(key)? else { return Ok(Amount::default()) };
    let read = parse::budget(&text).map(Amount::from).map_err(|part| {
        let message =
            format!("cannot read `{part}`: write `{key}` as \"max 200k tokens, $1.50, 20 minutes\"");
        section.wrong(key, message)
    })?;
    if [read.tokens, read.micro_usd, read.wall_ms].contains(&Some(0)) {
        return Err(section.wrong(key, format!("`{key}` has a limit of zero; leave that part out")));
    }
    Ok(read)
}

/// Reads dollars per million tokens, by the model's name or a prefix with `*`.
pub(super) fn prices(top: &Section<'_, '_>) -> Result<ModelPrices, Wrong> {
    let price = |section: &Section<'_, '_>| {
        section.only(&["input", "output", "cache_read", "cache_write"])?;
        let wanted = |key| section.micro_usd(key)?.ok_or_else(|| section.missing(key));
        Ok(Price {
            input: wanted("input")?,
            output: wanted("output")?,
            cache_read: section.micro_usd("cache_read")?,
            cache_write: section.micro_usd("cache_write")?,
        })
    };
    top.named("prices")?.map(|(name, section)| Ok((name, price(&section)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::{Config, Speaks, parse};

    fn parsed(text: &str) -> Result<Config, String> {
        parse(Path::new("provost.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn budgets_prices_and_what_a_client_speaks_are_read() {
        let text = r#"
[agents.coder]
driver = "command"
command = ["codex", "exec", "--json"]
speaks = "codex"
model = "gpt-5"
estimate = "40k tokens, $0.30"
[budget]
plan = "max 200k tokens, $1.50, 20 minutes"
step = "$0.50"
[prices."qwen3:*"]
input = 0
output = 0
[prices."own-model"]
input = 0.15
output = 2
cache_read = 0.01
"#;
        let config = parsed(text).expect("read");
        let coder = &config.agents["coder"];
        assert_eq!((coder.speaks, coder.model.as_deref()), (Speaks::Codex, Some("gpt-5")));
        assert_eq!(coder.estimate.to_string(), "40k tokens, $0.30");
        assert_eq!(config.budget.plan.to_string(), "200k tokens, $1.50, 20m");
        assert_eq!(config.budget.step.to_string(), "$0.50");
        let own = config.prices["own-model"];
        assert_eq!((own.input, own.output, own.cache_read), (150_000, 2_000_000, Some(10_000)));
        assert_eq!(config.prices["qwen3:*"].input, 0);
    }

    #[test]
    fn what_cannot_be_meant_is_shown() {
        let agent = "[agents.a]\ndriver = \"command\"\ncommand = [\"x\"]\n";
        for (text, said) in [
            ("[budget]\nplan = \"much\"\n".to_owned(), "cannot read `much`"),
            ("[budget]\nplan = \"$0\"\n".to_owned(), "a limit of zero"),
            ("[budget]\nplans = \"$1\"\n".to_owned(), "did you mean `plan`?"),
            ("[prices.m]\ninput = 1\n".to_owned(), "has no `output`"),
            (format!("{agent}speaks = \"claud\"\n"), "did you mean `claude`?"),
            ("[agents.a]\ndriver = \"human\"\nspeaks = \"text\"\n".to_owned(), "has no `speaks`"),
        ] {
            let error = parsed(&text).expect_err(&text);
            assert!(error.contains(said), "{error}");
        }
    }
}
