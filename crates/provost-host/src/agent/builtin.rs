//! Driver of provost's own agent, which runs the plan-aware loop on a model's API in a separate process.
//!
//! The driver starts `<program> builtin-agent` with its options as arguments and the prompt on stdin. The
//! agent reports as `json`: the last line it prints is `{"report": …, "usage": …}`. It saves its
//! conversation in the step's folder, and the next attempt goes on in it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use provost_core::model::event::AttemptEnd;
use provost_core::model::usage::Usage;

use crate::agent::{AgentDriver, AttemptInput, AttemptReport, Launch, SpendLimit, start};
use crate::config::Speaks;
use crate::{Interrupted, config};

/// The hidden subcommand that runs the agent.
pub const COMMAND: &str = "builtin-agent";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltinDriver {
    /// The program with this subcommand.
    pub program: OsString,
    pub orders: config::BuiltinConfig,
    /// The role has network access beyond its model, so that its agent can read pages of the web.
    pub has_web: bool,
}

impl BuiltinDriver {
    /// Returns the options of the agent's command, without those of an attempt.
    pub fn options(&self) -> Vec<OsString> {
        self.arguments(None, None).split_off(1)
    }

    /// Returns the command line. `topics` is the folder for the attempt's topics, if its step declares
    /// some.
    fn arguments(&self, topics: Option<&Path>, limit: Option<SpendLimit<'_>>) -> Vec<OsString> {
        let orders = &self.orders;
        let mut words: Vec<OsString> = vec![COMMAND.into()];
        let mut say = |name: &str, value: OsString| {
            // `--name=value` in one argument, so that a value may begin with a dash.
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            words.push(word);
        };
        say("model", orders.model.as_str().into());
        let texts = [
            ("provider", &orders.provider),
            ("base-url", &orders.base_url),
            ("key-env", &orders.key_env),
            ("effort", &orders.effort),
            ("after-edit", &orders.after_edit),
        ];
        texts.into_iter().for_each(|(name, value)| value.iter().for_each(|value| say(name, value.into())));
        orders.key_command.iter().for_each(|word| say("key-command", word.into()));
        orders.max_turns.iter().for_each(|turns| say("max-turns", turns.to_string().into()));
        orders.window().iter().for_each(|tokens| say("context-tokens", tokens.to_string().into()));
        orders.map_tokens.iter().for_each(|tokens| say("map-tokens", tokens.to_string().into()));
        topics.iter().for_each(|folder| say("topics", (*folder).into()));
        orders.mcp.iter().for_each(|(name, server)| say("mcp", server.to_json(name).to_string().into()));
        if let Some(limit) = limit {
            limit.amount.tokens.iter().for_each(|tokens| say("max-tokens", tokens.to_string().into()));
            if let (Some(most), Some(prices)) = (limit.amount.micro_usd, prices(&orders.model, limit)) {
                say("max-micro-usd", most.to_string().into());
                say("prices", prices.into());
            }
        }
        let flags =
            [("summarise", orders.summarises), ("text-tools", orders.text_tools), ("web", self.has_web)];
        let given = flags.into_iter().filter(|(_, is_given)| *is_given);
        words.extend(given.map(|(name, _)| OsString::from(format!("--{name}"))));
        words
    }
}

/// Returns the prices of a million tokens as the option has them; `None` if the model has no price.
fn prices(model: &str, limit: SpendLimit<'_>) -> Option<String> {
    // Some models cost more in calls that are longer than this.
    const SAMPLE: u64 = 100_000;
    let used = |input, output, cache_read, cache_write| Usage {
        model: Some(model.to_owned()),
        calls: Some(1),
        input_tokens: Some(input),
        output_tokens: Some(output),
        cache_read_tokens: Some(cache_read),
        cache_write_tokens: Some(cache_write),
        micro_usd: None,
    };
    let samples = [
        used(SAMPLE, 0, 0, 0),
        used(0, SAMPLE, 0, 0),
        used(SAMPLE, 0, SAMPLE, 0),
        used(SAMPLE, 0, 0, SAMPLE),
    ];
    let million = |cost: u64| (cost * (1_000_000 / SAMPLE)).to_string();
    let all: Option<Vec<String>> = samples.iter().map(|used| (limit.cost)(used).map(million)).collect();
    Some(all?.join(","))
}

/// The conversation of an attempt, in a file of the step's folder.
struct Conversation {
    name: String,
    file: PathBuf,
    is_resumed: bool,
}

impl Conversation {
    /// Returns the conversation that the attempt goes on in, or a new one.
    fn of(work: &AttemptInput<'_>) -> Option<Self> {
        let home = work.home?;
        let at = |name: &str| home.join(format!("{name}.json"));
        let resumed = work.resume.map(|resume| resume.session).filter(|name| at(name).is_file());
        let name = resumed.map_or_else(|| format!("builtin-{}-{}", work.step, work.attempt), str::to_owned);
        Some(Self { file: at(&name), name, is_resumed: resumed.is_some() })
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut file = OsString::from("--conversation=");
        file.push(&self.file);
        std::iter::once(file).chain(self.is_resumed.then(|| "--resume".into())).collect()
    }
}

impl AgentDriver for BuiltinDriver {
    fn attempt(&self, work: &AttemptInput<'_>) -> Result<AttemptReport, Interrupted> {
        let mut args = self.arguments(work.outbox.map(|outbox| outbox.folder), work.limit);
        let kept = Conversation::of(work);
        let prompt = match (&kept, work.resume) {
            (Some(kept), Some(resume)) if kept.is_resumed => resume.prompt,
            _ => work.prompt,
        };
        args.extend(work.answer_schema.map(|schema| format!("--answer-schema={schema}").into()));
        args.extend(kept.iter().flat_map(Conversation::arguments));
        let launch = Launch { program: &self.program, args: &args, env: &[] };
        let report = start(launch, prompt.as_bytes(), Speaks::Json, work)?;
        let has_ended_well = report.end == (AttemptEnd::Exited { exit_code: 0 });
        let session = kept.filter(|kept| has_ended_well && kept.file.is_file()).map(|kept| kept.name);
        Ok(AttemptReport { session, ..report })
    }

    /// The loop keeps its conversations in the folder.
    fn has_client(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use provost_core::model::usage::Amount;

    use super::*;

    #[test]
    fn orders_become_words_without_a_key() {
        let orders = config::BuiltinConfig {
            model: "m".to_owned(),
            provider: Some("chat".to_owned()),
            key_command: vec!["pass".to_owned(), "-c".to_owned()],
            max_turns: Some(7),
            effort: Some("high".to_owned()),
            ..config::BuiltinConfig::default()
        };
        let builtin = BuiltinDriver { program: "provost".into(), orders, has_web: true };
        let amount = Amount { tokens: Some(9000), micro_usd: Some(500_000), wall_ms: None };
        let limit = SpendLimit { amount, cost: &|usage| usage.tokens() };
        let words: Vec<String> = builtin
            .arguments(Some(Path::new("/p/topics")), Some(limit))
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let expected = [
            "builtin-agent",
            "--model=m",
            "--provider=chat",
            "--effort=high",
            "--key-command=pass",
            "--key-command=-c",
            "--max-turns=7",
            "--topics=/p/topics",
            "--max-tokens=9000",
            "--max-micro-usd=500000",
            "--prices=1000000,1000000,1000000,1000000",
            "--web",
        ];
        assert_eq!(words, expected);
    }
}
