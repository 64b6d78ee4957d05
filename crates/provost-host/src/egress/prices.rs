//! Computes the cost of tokens: by the configuration, else by the list prices of this version.
//!
//! The list is that of the crate `genai-prices`, pinned to one release; nothing is looked up over the
//! network. Costs are in micro-dollars, rounded up.
//!
//! **Invariant:** a model in neither list has no price, which is not a price of zero.

use std::collections::BTreeMap;
use std::fmt;
use std::time::SystemTime;

use genai_prices::{Calculator, PriceRequest, UsageKey};
use provost_core::model::usage::Usage;

/// Price of a million tokens, in micro-dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    pub input: u64,
    pub output: u64,
    /// The price of input, if `None`.
    pub cache_read: Option<u64>,
    pub cache_write: Option<u64>,
}

/// The text that the gate shows.
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usd = |micro: u64| format!("${}", micro as f64 / 1e6);
        write!(f, "{} in, {} out", usd(self.input), usd(self.output))?;
        for (price, what) in [(self.cache_read, "read from a cache"), (self.cache_write, "written to one")] {
            if let Some(price) = price {
                write!(f, ", {} {what}", usd(price))?;
            }
        }
        f.write_str(" for a million tokens")
    }
}

/// Prices by the model's name; a name that ends in `*` is a prefix.
pub type ModelPrices = BTreeMap<String, Price>;

/// Returns the usage with its cost, if the client did not report it and it can be computed.
pub fn priced(own: &ModelPrices, role_model: Option<&str>, usage: Usage) -> Usage {
    let used = Usage { model: usage.model.or_else(|| role_model.map(str::to_owned)), ..usage };
    // Nothing was counted; with the model's name it would look as if something was.
    if used.tokens().is_none() && used.micro_usd.is_none() {
        return Usage { model: None, ..used };
    }
    let micro_usd = used.micro_usd.or_else(|| cost(own, &used));
    Usage { micro_usd, ..used }
}

fn cost(own: &ModelPrices, usage: &Usage) -> Option<u64> {
    let model = usage.model.as_deref()?;
    match find(own, model) {
        Some(price) => by_price(price, usage),
        None => by_list(model, usage),
    }
}

/// Returns the price of the exact name, else that of the longest prefix.
fn find<'p>(own: &'p ModelPrices, model: &str) -> Option<&'p Price> {
    let begins = |name: &&String| name.strip_suffix('*').is_some_and(|begin| model.starts_with(begin));
    own.get(model)
        .or_else(|| own.keys().filter(begins).max_by_key(|name| name.len()).and_then(|name| own.get(name)))
}

/// Returns the size of a model's context window in tokens, if the list has it.
pub fn context_window(model: &str) -> Option<u64> {
    // Only a calculation finds a model by all of its names.
    let used = genai_prices::Usage::from([(UsageKey::INPUT_TOKENS, 1.0), (UsageKey::OUTPUT_TOKENS, 1.0)]);
    let request = PriceRequest::new(model, &used).with_timestamp(SystemTime::now());
    let found = genai_prices::calculate(&request).ok()?;
    let list = Calculator::bundled();
    let provider = list.providers().find(|provider| provider.id() == found.provider_id)?;
    provider.models().find(|model| model.id() == found.model_id)?.context_window()
}

fn by_price(price: &Price, usage: &Usage) -> Option<u64> {
    let (input, output) = (usage.input_tokens?, usage.output_tokens?);
    let read = usage.cache_read_tokens.unwrap_or(0).min(input);
    let written = usage.cache_write_tokens.unwrap_or(0).min(input - read);
    let parts = [
        (input - read - written, price.input),
        (read, price.cache_read.unwrap_or(price.input)),
        (written, price.cache_write.unwrap_or(price.input)),
        (output, price.output),
    ];
    let sum: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
    u64::try_from(sum.div_ceil(1_000_000)).ok()
}

fn by_list(model: &str, usage: &Usage) -> Option<u64> {
    // Some prices depend on the length of a call, but only the sum of all calls is known.
    let calls = usage.calls.unwrap_or(1).max(1) as f64;
    let each = |tokens: u64| tokens as f64 / calls;
    let mut used = genai_prices::Usage::from([
        (UsageKey::INPUT_TOKENS, each(usage.input_tokens?)),
        (UsageKey::OUTPUT_TOKENS, each(usage.output_tokens?)),
    ]);
    let cache = [
        (UsageKey::CACHE_READ_TOKENS, usage.cache_read_tokens),
        (UsageKey::CACHE_WRITE_TOKENS, usage.cache_write_tokens),
    ];
    for (key, tokens) in cache {
        if let Some(tokens) = tokens.filter(|tokens| *tokens > 0) {
            used.insert(key, each(tokens));
        }
    }
    let request = PriceRequest::new(model, &used).with_timestamp(SystemTime::now());
    let price = genai_prices::calculate(&request).ok()?;
    let micro = (price.total_price * calls * 1e6).ceil();
    (micro.is_finite() && (0.0..1e15).contains(&micro)).then_some(micro as u64)
}

#[cfg(test)]
mod tests {
    use super::{ModelPrices, Price, priced};
    use provost_core::model::usage::Usage;

    fn used(model: &str, input: u64, output: u64) -> Usage {
        Usage {
            model: Some(model.to_owned()),
            input_tokens: Some(input),
            output_tokens: Some(output),
            ..Usage::default()
        }
    }

    fn own(name: &str, input: u64, output: u64) -> ModelPrices {
        [(name.to_owned(), Price { input, output, cache_read: None, cache_write: None })].into()
    }

    #[test]
    fn the_list_knows_the_models_of_the_well_known_clients() {
        // The client itself computed this for the same tokens.
        let claude = priced(&ModelPrices::new(), None, used("claude-sonnet-4-5", 11_110, 260));
        assert_eq!(claude.micro_usd, Some(37_230));
        for model in ["gpt-5", "gemini-2.5-pro"] {
            let cost = priced(&ModelPrices::new(), None, used(model, 11_110, 260)).micro_usd;
            assert!(cost.is_some_and(|cost| (1_000..1_000_000).contains(&cost)), "{model}: {cost:?}");
        }
    }

    #[test]
    fn an_unknown_model_costs_an_unknown_amount_and_a_local_one_nothing_only_where_that_is_said() {
        let cost = |own: &ModelPrices| priced(own, None, used("qwen3:8b", 5_000, 100)).micro_usd;
        assert_eq!(cost(&ModelPrices::new()), None);
        assert_eq!(cost(&own("qwen3:*", 0, 0)), Some(0));
        assert_eq!(cost(&own("other", 0, 0)), None);
    }

    #[test]
    fn the_configuration_has_the_last_word_and_the_longest_name_wins() {
        let mut prices = own("claude-*", 1_000_000, 2_000_000);
        prices.extend(own("claude-sonnet-*", 3_000_000, 1));
        let found = priced(&prices, None, used("claude-sonnet-4-5", 1_000_000, 1));
        assert_eq!(found.micro_usd, Some(3_000_001));
        let cached = Usage { cache_read_tokens: Some(400_000), ..used("claude-x", 1_000_000, 0) };
        assert_eq!(priced(&prices, None, cached.clone()).micro_usd, Some(1_000_000));
        if let Some(price) = prices.get_mut("claude-*") {
            price.cache_read = Some(100_000);
        }
        assert_eq!(priced(&prices, None, cached).micro_usd, Some(640_000));
    }

    #[test]
    fn what_the_client_says_is_not_reckoned_again_and_the_role_names_the_model_otherwise() {
        let said = Usage { micro_usd: Some(7), ..used("gpt-5", 1_000, 1_000) };
        assert_eq!(priced(&ModelPrices::new(), None, said).micro_usd, Some(7));
        let nameless = Usage { model: None, ..used("", 1_000_000, 0) };
        assert_eq!(priced(&own("m", 5, 5), Some("m"), nameless.clone()).micro_usd, Some(5));
        assert_eq!(priced(&own("m", 5, 5), None, nameless).micro_usd, None);
        assert!(priced(&own("m", 5, 5), Some("m"), Usage::default()).is_unknown());
    }
}
