//! Reads `[budget]` and `[prices]`: default budgets of plans and steps, and prices of tokens.

use provost_core::model::usage::Amount;
use serde::{Deserialize, Deserializer};

use super::values::{amount, micro_usd, named};
use crate::egress::prices::{ModelPrices, Price};

/// Budgets of plans and steps that declare none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct DefaultBudgets {
    #[serde(deserialize_with = "amount")]
    pub plan: Amount,
    #[serde(deserialize_with = "amount")]
    pub step: Amount,
}

/// Dollars per million tokens, of a model by its name or a prefix with `*`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
struct PriceKeys {
    #[serde(deserialize_with = "micro_usd")]
    input: u64,
    #[serde(deserialize_with = "micro_usd")]
    output: u64,
    #[serde(default, deserialize_with = "micro_usd")]
    cache_read: Option<u64>,
    #[serde(default, deserialize_with = "micro_usd")]
    cache_write: Option<u64>,
}

pub(super) fn prices<'de, D: Deserializer<'de>>(from: D) -> Result<ModelPrices, D::Error> {
    let all: Vec<(String, PriceKeys)> = named(from)?;
    let price = |PriceKeys { input, output, cache_read, cache_write }| Price {
        input,
        output,
        cache_read,
        cache_write,
    };
    Ok(all.into_iter().map(|(model, keys)| (model, price(keys))).collect())
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
            ("[agents.a]\ndriver = \"gemini\"\nspeaks = \"text\"\n".to_owned(), "has no `speaks`"),
        ] {
            let error = parsed(&text).expect_err(&text);
            assert!(error.contains(said), "{error}");
        }
    }
}
