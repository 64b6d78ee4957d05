use std::io::Read as _;
use std::path::PathBuf;

use provost_agent::builtin::{self, BuiltinOptions};

use crate::failure::Failure;
use crate::outcome::Answer;

/// Work on a prompt with a model's API (internal: provost starts it)
///
/// Reads the prompt from stdin and works in the current folder. Logs to stderr; the last line of stdout is
/// `{"report": …, "usage": …}`. MODEL_BASE_URL and MODEL_API_KEY override the options.
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
    /// Folder with the topics
    #[arg(long)]
    topics: Option<PathBuf>,
}

pub(super) fn obey(args: Args) -> Answer {
    let io = |what: &str| {
        let what = what.to_owned();
        move |source| Failure::Io { what, source }
    };
    let mut prompt = String::new();
    std::io::stdin().lock().read_to_string(&mut prompt).map_err(io("read the prompt"))?;
    let here = std::env::current_dir().map_err(io("find the current folder"))?;
    let Args { model, provider, base_url, key_env, key_command, max_turns, context_tokens, topics } = args;
    let orders =
        BuiltinOptions { model, provider, base_url, key_env, key_command, max_turns, context_tokens, topics };
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let done = builtin::perform(&orders, &prompt, &here, &environment, &mut std::io::stdout().lock());
    std::process::exit(done.unwrap_or_else(|error| {
        eprintln!("builtin agent: {error}");
        builtin::BAD_ORDERS
    }))
}
