use std::io::Read as _;

use provost_core::redact::Redactor;
use serde::Deserialize;
use serde_json::json;

use crate::failure::Failure;
use crate::outcome::{Answer, Outcome};
use crate::place::Global;
use crate::terminal;

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

#[derive(Deserialize)]
struct Row {
    id: serde_json::Value,
    #[serde(default)]
    text: String,
}

pub fn obey(global: &Global, args: Args) -> Answer {
    let mut input = Vec::new();
    std::io::stdin()
        .read_to_end(&mut input)
        .map_err(|source| Failure::Io { what: "read standard input".to_owned(), source })?;
    let input = String::from_utf8_lossy(&input);
    let redactor = Redactor::new(std::iter::empty::<(&str, &str)>());
    if args.jsonl {
        return lines(&redactor, &input);
    }
    let text = redactor.text(&input);
    match global.json {
        true => terminal::print(&format!("{}\n", json!({ "text": text })))?,
        false => terminal::print(&text)?,
    }
    Ok(Outcome::Done)
}

fn lines(redactor: &Redactor, input: &str) -> Answer {
    let mut out = String::new();
    for (number, line) in input.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row: Row = serde_json::from_str(line).map_err(|error| Failure::Usage {
            message: format!("line {} of standard input is no row: {error}", number + 1),
            hint: Some("each line is an object with `id` and `text`".to_owned()),
        })?;
        out.push_str(&format!("{}\n", json!({ "id": row.id, "text": redactor.text(&row.text) })));
    }
    terminal::print(&out)?;
    Ok(Outcome::Done)
}
