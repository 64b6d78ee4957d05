//! How much a model thinks before it answers, in words that every provider's setting is made from.

use genai::chat::ReasoningEffort;

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl ThinkingEffort {
    pub const ALL: [ThinkingEffort; 7] = [
        ThinkingEffort::None,
        ThinkingEffort::Minimal,
        ThinkingEffort::Low,
        ThinkingEffort::Medium,
        ThinkingEffort::High,
        ThinkingEffort::Xhigh,
        ThinkingEffort::Max,
    ];

    /// Returns the word in a configuration.
    pub fn word(self) -> &'static str {
        match self {
            ThinkingEffort::None => "none",
            ThinkingEffort::Minimal => "minimal",
            ThinkingEffort::Low => "low",
            ThinkingEffort::Medium => "medium",
            ThinkingEffort::High => "high",
            ThinkingEffort::Xhigh => "xhigh",
            ThinkingEffort::Max => "max",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.word() == word)
    }

    /// Returns the most tokens of an answer that leave space for the thoughts.
    pub fn output_tokens(self, usual: u32) -> u32 {
        match self {
            ThinkingEffort::None | ThinkingEffort::Minimal | ThinkingEffort::Low | ThinkingEffort::Medium => {
                usual
            }
            // Older models of Anthropic get 24,000 tokens for their thoughts.
            ThinkingEffort::High | ThinkingEffort::Xhigh | ThinkingEffort::Max => usual.max(32_000),
        }
    }

    pub(super) fn of_genai(self) -> ReasoningEffort {
        match self {
            ThinkingEffort::None => ReasoningEffort::Zero,
            ThinkingEffort::Minimal => ReasoningEffort::Minimal,
            ThinkingEffort::Low => ReasoningEffort::Low,
            ThinkingEffort::Medium => ReasoningEffort::Medium,
            ThinkingEffort::High => ReasoningEffort::High,
            ThinkingEffort::Xhigh => ReasoningEffort::XHigh,
            ThinkingEffort::Max => ReasoningEffort::Max,
        }
    }
}
