use std::path::PathBuf;

use provost_agent::builtin::BuiltinOptions;
use provost_agent::prompt_bench::{
    self, PromptBenchError, PromptCounts, PromptResult, PromptVersion, TASK_COUNT,
};
use serde_json::json;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Run small tasks with models that lie, and count what their checks say
///
/// Each task goes through the prompts, the built-in loop and a check, with up to two retries. Five scripted models
/// show the mechanism: honest, hasty, eager, sloppy and stubborn. With --model, a real one works too; it gets the
/// tools for files only. The digest names the prompts, so that numbers of two builds can be compared. Tokens of
/// scripted models are estimated from bytes.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost bench prompts
  provost bench prompts --system new-prompt.md --model qwen3:4b --provider ollama
  provost bench prompts --tasks 5 --json")]
pub(super) struct Args {
    /// Number of tasks
    #[arg(long, default_value_t = TASK_COUNT as u32, value_parser = clap::value_parser!(u32).range(1..=TASK_COUNT as i64))]
    tasks: u32,
    /// File with another system prompt, to compare it with the built-in one; may be repeated
    #[arg(long, value_name = "FILE")]
    system: Vec<PathBuf>,
    /// Name of a real model
    #[arg(long)]
    model: Option<String>,
    /// Its API: anthropic, openai, chat, gemini or ollama
    #[arg(long, requires = "model")]
    provider: Option<String>,
    /// Address of its server
    #[arg(long, requires = "model", value_name = "URL")]
    base_url: Option<String>,
    /// Environment variable with its key
    #[arg(long, requires = "model", value_name = "NAME")]
    key_env: Option<String>,
    /// It has no tool calls of its own and writes them as text
    #[arg(long, requires = "model")]
    text_tools: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let versions = versions(&args.system)?;
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let model = args.model.map(|model| {
        let (provider, base_url, key_env) = (args.provider, args.base_url, args.key_env);
        let text_tools = args.text_tools;
        BuiltinOptions { model, provider, base_url, key_env, text_tools, ..BuiltinOptions::default() }
            .connect(&environment)
            .map(|model| model.provider)
    });
    let model = model.transpose().map_err(|why| {
        Failure::usage(why.to_string(), "See `provost bench prompts --help` for the options of a model.")
    })?;
    let broken = |source| Failure::Io { what: "run the benchmark in a temporary folder".to_owned(), source };
    let mut results = Vec::new();
    for version in versions {
        let folder = tempfile::tempdir().map_err(broken)?;
        let real = model.as_deref();
        let mut watch = |counts: &PromptCounts| {
            let (done, verified) = (counts.tasks, counts.verified);
            terminal::talk(&format!(
                "{}: task {done} of {} ended; {verified} verified",
                version.name, args.tasks
            ));
        };
        let measured = prompt_bench::measure(&version, real, args.tasks as usize, folder.path(), &mut watch);
        results.extend(measured.map_err(|why| match why {
            PromptBenchError::Io(source) => broken(source),
            why @ (PromptBenchError::Model(_) | PromptBenchError::Rules(_)) => {
                Failure::usage(why.to_string(), "Check --model, --provider, --base-url and the key.")
            }
        })?);
    }
    match global.json {
        true => terminal::print(&format!("{}\n", json!(results)))?,
        false => terminal::print(&table(&results))?,
    }
    Ok(Outcome::Done)
}

/// Returns the built-in prompts, and one set for each file.
fn versions(files: &[PathBuf]) -> Result<Vec<PromptVersion>, Failure> {
    let mut versions = vec![PromptVersion::built_in()];
    for file in files {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        let system = std::fs::read_to_string(file)
            .map_err(|source| Failure::Io { what: format!("read {}", file.display()), source })?;
        versions.push(PromptVersion { name, system });
    }
    Ok(versions)
}

fn table(results: &[PromptResult]) -> String {
    let named = |result: &PromptResult| format!("{} {}", result.prompts, result.digest);
    let wide = |length: usize, name: &str| length.max(name.chars().count());
    let first = results.iter().fold(7, |length, result| wide(length, &named(result))) + 2;
    let second = results.iter().fold(5, |length, result| wide(length, &result.model)) + 2;
    let mut out = format!(
        "{:first$}{:second$}{:>5}{:>10}{:>14}{:>9}{:>10}{:>7}{:>11}{:>12}\n",
        "prompts",
        "model",
        "tasks",
        "verified",
        "false claims",
        "refused",
        "attempts",
        "turns",
        "tokens in",
        "tokens out"
    );
    for result in results {
        let counts = &result.counts;
        out.push_str(&format!(
            "{:first$}{:second$}{:>5}{:>10}{:>14}{:>9}{:>10}{:>7}{:>11}{:>12}\n",
            named(result),
            result.model,
            counts.tasks,
            counts.verified,
            counts.false_claims,
            counts.refused,
            counts.attempts,
            counts.turns,
            counts.input_tokens,
            counts.output_tokens
        ));
    }
    out
}
