use provost_core::redact::Redactor;
use serde_json::json;

use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{input, terminal};

/// Take secrets out of a text, as it is done before anything is logged
///
/// Reads standard input. Values the harness hands out itself are known by heart in a run; here only
/// their shapes and the names beside them can be known.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost redact < build.log
  provost redact --jsonl < all.jsonl  {\"id\",\"text\"} a line, the same back without secrets")]
pub struct Args {
    /// Read an object a line, with `id` and `text`, and answer each with a line
    #[arg(long)]
    jsonl: bool,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let input = input::all()?;
    let redactor = Redactor::new(std::iter::empty::<(&str, &str)>());
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
