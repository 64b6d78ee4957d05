use std::path::PathBuf;

use crate::chat::{self, ChatOptions, OptionReader};
use crate::open_plan::Global;
use crate::outcome::Answer;

/// Work with the built-in agent in the terminal
///
/// Opens a conversation in this folder. You are asked before the agent changes a file or runs a command.
/// Every plan it makes waits for your approval, and its steps pass only when provost has run their checks.
/// Type `/help` for the commands of the conversation; Ctrl-C interrupts the agent, Ctrl-D ends it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost chat                                 with the role of provost.toml that is built in
  provost chat --model claude-sonnet-5         without a configuration; needs ANTHROPIC_API_KEY
  provost chat --resume                        continue the last conversation in this folder
  provost chat -p \"what does src/parse.rs do?\"  one question, one answer")]
pub(super) struct Args {
    /// First message
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Answer this message and end; what needs your permission is refused
    #[arg(short = 'p', long = "print", value_name = "TEXT", conflicts_with = "text")]
    print: Option<String>,
    /// Give the answer as JSON that fits the JSON Schema in this file
    #[arg(long, value_name = "FILE", requires = "print")]
    answer_schema: Option<PathBuf>,
    /// Role of provost.toml with `driver = "builtin"`
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Model, instead of the role's
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Allow every change and every command without a question; plans still wait for you
    #[arg(long)]
    yes: bool,
    /// Continue the last conversation in this folder
    #[arg(long)]
    resume: bool,
}

pub(super) fn obey(global: &Global, args: Args, read_options: OptionReader) -> Answer {
    let options = ChatOptions {
        once: args.print.is_some(),
        first: args.print.or(args.text),
        role: args.role,
        model: args.model,
        allow_all: args.yes,
        resume: args.resume,
        answer_schema: args.answer_schema,
    };
    chat::open(global, options, read_options)
}
