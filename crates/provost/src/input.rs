//! Reads standard input: a text, or one JSON object per line.

use std::io::Read as _;

use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;

/// One object of a line.
#[derive(Deserialize)]
pub(crate) struct Row {
    pub id: Value,
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub exit_code: Option<i32>,
}

/// Reads everything; invalid UTF-8 is replaced.
pub(crate) fn all() -> Result<String, Failure> {
    let mut input = Vec::new();
    std::io::stdin()
        .read_to_end(&mut input)
        .map_err(|source| Failure::Io { what: "read standard input".to_owned(), source })?;
    Ok(String::from_utf8_lossy(&input).into_owned())
}

/// Returns one output line for each row.
pub(crate) fn answer_each(input: &str, answer: impl Fn(Row) -> Value) -> Result<String, Failure> {
    let mut out = String::new();
    for (number, line) in input.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row = serde_json::from_str(line).map_err(|error| {
            Failure::usage(
                format!("cannot read line {} of standard input: {error}", number + 1),
                "Each line must be a JSON object with `id`, `text` and, if known, `exit_code`.",
            )
        })?;
        out.push_str(&format!("{}\n", answer(row)));
    }
    Ok(out)
}
