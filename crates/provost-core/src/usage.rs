//! What an attempt used, as its driver or the proxy reported it.
//!
//! **Invariant:** a part nobody reported is unknown, and stays unknown in every sum it enters. It is
//! never taken for nothing.

use serde::{Deserialize, Serialize};

/// Tokens and money; each part is there only where somebody counted it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// The model that answered, by its provider's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How often a model was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// All that was read, what came from a cache included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// All that was written, thinking included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Of the input, what was read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Of the input, what was written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// In millionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
}

impl Usage {
    /// Nobody counted anything.
    pub fn is_unknown(&self) -> bool {
        *self == Usage::default()
    }

    /// Input and output together, where both are known.
    pub fn tokens(&self) -> Option<u64> {
        Some(self.input_tokens?.saturating_add(self.output_tokens?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_count_is_no_count() {
        let half = Usage { input_tokens: Some(7), ..Usage::default() };
        assert_eq!(half.tokens(), None);
        assert_eq!(Usage { output_tokens: Some(5), ..half }.tokens(), Some(12));
    }
}
