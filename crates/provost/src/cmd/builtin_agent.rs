use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args as _, FromArgMatches as _};
use provost_agent::agent::Compaction;
use provost_agent::budget::{LoopBudget, TokenPrices};
use provost_agent::builtin::{self, BuiltinOptions};
use provost_agent::provider::api::ThinkingEffort;
use provost_agent::tool::mcp_server::McpServer;
use provost_core::model::usage::Amount;

use crate::failure::Failure;
use crate::outcome::Answer;

/// Work on a prompt with a model's API (internal: provost starts it)
///
/// Reads the prompt from stdin and works in the current folder. Prints what it does, one JSON object per
/// line; the last line is `{"report": …, "usage": …}`. MODEL_BASE_URL and MODEL_API_KEY override the options.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[arg(long)]
    model: String,
    /// anthropic, openai, chat, gemini or ollama
    #[arg(long)]
    provider: Option<String>,
    #[arg(long)]
    base_url: Option<String>,
    /// Environment variable with the API key
    #[arg(long)]
    key_env: Option<String>,
    /// Command that prints the API key; repeat the option for each word
    #[arg(long)]
    key_command: Vec<String>,
    #[arg(long)]
    max_turns: Option<u32>,
    #[arg(long)]
    context_tokens: Option<usize>,
    /// Most tokens of the map of the repository
    #[arg(long)]
    map_tokens: Option<usize>,
    /// How much the model thinks: none, minimal, low, medium, high, xhigh or max
    #[arg(long, value_parser = effort)]
    effort: Option<ThinkingEffort>,
    /// Folder with the topics
    #[arg(long)]
    topics: Option<PathBuf>,
    /// MCP server whose tools the model gets, as JSON; repeat the option for each
    #[arg(long, value_name = "JSON", value_parser = server)]
    mcp: Vec<McpServer>,
    /// File to keep the conversation in, if it ends well
    #[arg(long)]
    conversation: Option<PathBuf>,
    /// Go on in the conversation of that file; the prompt is the next message
    #[arg(long, requires = "conversation")]
    resume: bool,
    /// Have the model write a summary when its context is full
    #[arg(long)]
    summarise: bool,
    /// Read tool calls from the model's text, for a model without calls of its own
    #[arg(long)]
    text_tools: bool,
    /// Offer a tool that reads pages of the web
    #[arg(long)]
    web: bool,
    /// JSON Schema of the final answer
    #[arg(long, value_name = "JSON", value_parser = schema)]
    answer_schema: Option<serde_json::Value>,
    /// Command to run after edits; the model gets its output
    #[arg(long)]
    after_edit: Option<String>,
    /// Most tokens to use
    #[arg(long)]
    max_tokens: Option<u64>,
    /// Most money to spend, in millionths of a dollar
    #[arg(long, requires = "prices")]
    max_micro_usd: Option<u64>,
    /// Prices of a million tokens in millionths of a dollar: input,output,cache_read,cache_write
    #[arg(long, value_parser = TokenPrices::parse)]
    prices: Option<TokenPrices>,
}

fn effort(word: &str) -> Result<ThinkingEffort, String> {
    let words = || ThinkingEffort::ALL.map(ThinkingEffort::word).join(", ");
    ThinkingEffort::from_word(word).ok_or_else(|| format!("use one of: {}", words()))
}

fn schema(text: &str) -> Result<serde_json::Value, serde_json::Error> {
    serde_json::from_str(text)
}

fn server(text: &str) -> Result<McpServer, serde_json::Error> {
    serde_json::from_str(text)
}

/// Reads options as the command line does.
pub(super) fn read(options: Vec<OsString>) -> Result<BuiltinOptions, Failure> {
    let command = Args::augment_args(clap::Command::new("builtin-agent").no_binary_name(true));
    let read = command.try_get_matches_from(options).and_then(|found| Args::from_arg_matches(&found));
    read.map(BuiltinOptions::from)
        .map_err(|error| Failure::usage(error.to_string(), "`provost doctor` checks the configuration."))
}

impl From<Args> for BuiltinOptions {
    fn from(args: Args) -> Self {
        Self {
            model: args.model,
            provider: args.provider,
            base_url: args.base_url,
            key_env: args.key_env,
            key_command: args.key_command,
            max_turns: args.max_turns,
            context_tokens: args.context_tokens,
            map_tokens: args.map_tokens,
            effort: args.effort,
            topics: args.topics,
            servers: args.mcp,
            conversation: args.conversation,
            resume: args.resume,
            compaction: if args.summarise { Compaction::Summary } else { Compaction::Deterministic },
            text_tools: args.text_tools,
            web: args.web,
            answer_schema: args.answer_schema,
            after_edit: args.after_edit,
            launcher: Vec::new(),
            budget: LoopBudget {
                amount: Amount { tokens: args.max_tokens, micro_usd: args.max_micro_usd, wall_ms: None },
                prices: args.prices,
            },
        }
    }
}

pub(super) fn obey(args: Args) -> Answer {
    let io = |what: &str| {
        let what = what.to_owned();
        move |source| Failure::Io { what, source }
    };
    let mut prompt = String::new();
    std::io::stdin().lock().read_to_string(&mut prompt).map_err(io("read the prompt"))?;
    let here = std::env::current_dir().map_err(io("find the current folder"))?;
    let orders = BuiltinOptions::from(args);
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let done = builtin::perform(&orders, &prompt, &here, &environment, &mut std::io::stdout());
    std::process::exit(done.unwrap_or_else(|error| {
        eprintln!("builtin agent: {error}");
        builtin::BAD_ORDERS
    }))
}
