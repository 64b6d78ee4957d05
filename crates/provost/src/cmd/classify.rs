use provost_core::rules::recover::class::{self, FailureMatch, FailureOutput};
use provost_core::rules::recover::recipe::Recipes;
use provost_engine::plan::plan_context;
use serde_json::json;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{input, terminal};

/// Classify a failure by its output, and name the rule
///
/// Reads the output from standard input. The recipes of provost.toml come first, then the built-in rules.
/// `unknown` means that no rule matches and that provost would ask a person. With `--of-agent` the output is that
/// of an agent that failed, and the rules for what clients and APIs of models say come before the others.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  make 2>&1 | provost classify        class, rule and reason
  provost classify --exit-code 124 < err.txt
  claude -p hi 2>&1 | provost classify --of-agent
  provost classify --jsonl < all.jsonl   one {\"id\",\"text\",\"exit_code\"} per line")]
pub(super) struct Args {
    /// Exit code of the failed command
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    exit_code: Option<i32>,
    /// Classify the output of an agent, not of a check
    #[arg(long)]
    of_agent: bool,
    /// Read one object per line, with `id`, `text` and `exit_code`, and answer each with a line
    #[arg(long, conflicts_with = "exit_code")]
    jsonl: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let input = input::all()?;
    let recipes = plan_context::recipes(&global.cwd()?)?;
    if args.jsonl {
        let answered = input::answer_each(&input, |row| {
            let mut told = told(&classified(&recipes, &row.text, row.exit_code, args.of_agent));
            told["id"] = row.id;
            told
        })?;
        terminal::print(&answered)?;
        return Ok(Outcome::Done);
    }
    let found = classified(&recipes, &input, args.exit_code, args.of_agent);
    if global.json {
        terminal::print(&format!("{}\n", told(&found)))?;
    } else {
        terminal::print(&format!("{}: {} ({})\n", found.class.word(), found.reason, found.rule))?;
        if !found.configure.is_empty() {
            terminal::talk(&format!("to configure: {}", configure(&found)));
        }
    }
    Ok(Outcome::Done)
}

/// Classifies an output. It may be stdout or stderr, so recipes for both streams apply.
fn classified(recipes: &Recipes, text: &str, exit_code: Option<i32>, of_agent: bool) -> FailureMatch {
    let both = FailureOutput { stdout: text, stderr: text, exit_code };
    let own = recipes.recognise(both, if of_agent { "agent" } else { "broke" });
    let by_agent_rule = || class::of_agent(text, exit_code).filter(|_| of_agent);
    let by_rule = || class::of(FailureOutput { stderr: text, exit_code, ..FailureOutput::default() });
    own.or_else(by_agent_rule).unwrap_or_else(by_rule)
}

/// Returns what to configure. Which role an agent has is not known here.
fn configure(found: &FailureMatch) -> String {
    found.configure.replace("role `{role}`", "its role").replace("{role}", "ROLE")
}

fn told(found: &FailureMatch) -> serde_json::Value {
    let mut told = json!({ "class": found.class.word(), "rule": found.rule, "reason": found.reason });
    if !found.configure.is_empty() {
        told["configure"] = json!(configure(found));
    }
    told
}
