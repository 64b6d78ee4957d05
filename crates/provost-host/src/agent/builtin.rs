//! Driver of provost's own agent, which runs the plan-aware loop on a model's API in a separate process.
//!
//! The driver starts `<program> builtin-agent` with its options as arguments and the prompt on stdin. The
//! agent reports as `json`: the last line it prints is `{"report": …, "usage": …}`.

use std::ffi::OsString;
use std::path::Path;

use crate::agent::{AgentDriver, AttemptInput, AttemptReport, Launch, start};
use crate::config::Speaks;
use crate::{Interrupted, config};

/// The hidden subcommand that runs the agent.
pub const COMMAND: &str = "builtin-agent";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltinDriver {
    /// The program with this subcommand.
    pub program: OsString,
    pub orders: config::BuiltinConfig,
}

impl BuiltinDriver {
    /// Returns the command line. `topics` is the folder for the attempt's topics, if its step declares
    /// some.
    fn arguments(&self, topics: Option<&Path>) -> Vec<OsString> {
        let orders = &self.orders;
        let mut words: Vec<OsString> = vec![COMMAND.into()];
        let mut say = |name: &str, value: OsString| {
            // `--name=value` in one argument, so that a value may begin with a dash.
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            words.push(word);
        };
        say("model", orders.model.as_str().into());
        let texts =
            [("provider", &orders.provider), ("base-url", &orders.base_url), ("key-env", &orders.key_env)];
        texts.into_iter().for_each(|(name, value)| value.iter().for_each(|value| say(name, value.into())));
        orders.key_command.iter().for_each(|word| say("key-command", word.into()));
        orders.max_turns.iter().for_each(|turns| say("max-turns", turns.to_string().into()));
        orders.context_tokens.iter().for_each(|tokens| say("context-tokens", tokens.to_string().into()));
        topics.iter().for_each(|folder| say("topics", (*folder).into()));
        words
    }
}

impl AgentDriver for BuiltinDriver {
    fn attempt(&self, work: &AttemptInput<'_>) -> Result<AttemptReport, Interrupted> {
        let args = self.arguments(work.outbox.map(|outbox| outbox.folder));
        let launch = Launch { program: &self.program, args: &args, env: &[] };
        start(launch, work.prompt.as_bytes(), Speaks::Json, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_become_words_without_a_key() {
        let orders = config::BuiltinConfig {
            model: "m".to_owned(),
            provider: Some("chat".to_owned()),
            key_command: vec!["pass".to_owned(), "-c".to_owned()],
            max_turns: Some(7),
            ..config::BuiltinConfig::default()
        };
        let builtin = BuiltinDriver { program: "provost".into(), orders };
        let words: Vec<String> = builtin
            .arguments(Some(Path::new("/p/topics")))
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let expected = [
            "builtin-agent",
            "--model=m",
            "--provider=chat",
            "--key-command=pass",
            "--key-command=-c",
            "--max-turns=7",
            "--topics=/p/topics",
        ];
        assert_eq!(words, expected);
    }
}
