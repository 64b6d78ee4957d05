use provost_engine::settings;
use serde_json::json;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{input, terminal};

/// Remove secrets from a text, as provost does before it logs anything
///
/// Reads standard input. In a run, provost also removes the exact values of the secrets it passes on; here it
/// knows only the shapes of secrets and the names next to them, and those of `[redact]` in provost.toml.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost redact < build.log
  provost redact --jsonl < all.jsonl  one {\"id\",\"text\"} per line")]
pub(super) struct Args {
    /// Read one object per line, with `id` and `text`, and answer each with a line
    #[arg(long)]
    jsonl: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let input = input::all()?;
    let redactor = settings::redactor_in(&global.settings_without_signals(None)?.cwd)?;
    if args.jsonl {
        let answered =
            input::answer_each(&input, |row| json!({ "id": row.id, "text": redactor.text(&row.text) }))?;
        terminal::print(&answered)?;
        return Ok(Outcome::Done);
    }
    let text = redactor.text(&input);
    match global.json {
        true => terminal::print(&format!("{}\n", json!({ "text": text })))?,
        false => terminal::print(&text)?,
    }
    Ok(Outcome::Done)
}
