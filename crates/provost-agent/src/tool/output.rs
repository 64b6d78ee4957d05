//! Reads more of the answer of an earlier call, if it was too long to show or was left out later.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Tool, ToolAnswer};
use crate::call_log::CallLog;
use crate::truncate;

const PAGE: usize = 12 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadOutput {
    /// The number after `call:` at the head of the answer.
    call: u64,
    /// Byte to begin at. Default 0.
    #[serde(default)]
    from: usize,
}

pub fn tool(ledger: &CallLog) -> Tool {
    let ledger = ledger.clone();
    let description = "Shows the answer of an earlier call again, page by page.";
    let run = move |ask: ReadOutput| std::future::ready(read_output(&ledger, &ask));
    Tool::new("read_output", description, run).reading_only()
}

fn read_output(ledger: &CallLog, ask: &ReadOutput) -> ToolAnswer {
    let Some(text) = ledger.output(ask.call) else {
        return Err(format!("the answer of call:{} is not kept; call the tool again", ask.call));
    };
    let from = truncate::floor(&text, ask.from);
    let to = truncate::floor(&text, from + PAGE);
    if from >= text.len() && !text.is_empty() {
        return Err(format!("call:{} answered {} bytes; {from} is after its end", ask.call, text.len()));
    }
    let page = &text[from..to];
    match to < text.len() {
        true => Ok(format!("{page}\n[bytes {from}–{to} of {}; read on with from = {to}]", text.len())),
        false => Ok(page.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_join_to_the_whole() {
        let ledger = CallLog::default();
        let text = "äb".repeat(10_000);
        ledger.end(ledger.begin(), &text);
        let (mut whole, mut from) = (String::new(), 0);
        loop {
            let page = read_output(&ledger, &ReadOutput { call: 1, from }).expect("a page");
            match page.rsplit_once("\n[bytes ") {
                Some((part, _)) => whole.push_str(part),
                None => {
                    whole.push_str(&page);
                    break;
                }
            }
            from = whole.len();
        }
        assert_eq!(whole, text);
        let gone = read_output(&ledger, &ReadOutput { call: 2, from: 0 }).expect_err("an error");
        assert!(gone.contains("call:2 is not kept"), "{gone}");
    }
}
