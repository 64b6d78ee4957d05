//! Writes a transcript for people: short lines while an attempt runs, the whole text afterwards, or Markdown.

use std::fmt::Write as _;

use serde_json::Value;

use crate::model::quote;
use crate::model::transcript::TranscriptEntry;
use crate::model::usage::{Resource, Usage};

/// Longest line of a tool call or a result while the attempt runs, in characters.
const BRIEF: usize = 200;

/// Returns an entry as it is shown while the attempt runs: text as it is, everything else on one line.
pub fn brief(entry: &TranscriptEntry) -> String {
    match entry {
        TranscriptEntry::Text { text } => text.clone(),
        TranscriptEntry::ToolResult { ok, text, .. } => {
            let mut lines = text.lines().filter(|line| !line.trim().is_empty());
            let first: String = lines.next().unwrap_or_default().trim().chars().take(BRIEF).collect();
            let more = match lines.count() {
                0 => String::new(),
                1 => " (1 more line)".to_owned(),
                more => format!(" ({more} more lines)"),
            };
            format!("  {} {first}{more}", sign(*ok)).trim_end().to_owned() + "\n"
        }
        other => headline(other) + "\n",
    }
}

/// Returns the whole transcript as text.
pub fn text(entries: &[TranscriptEntry]) -> String {
    let mut out = String::new();
    for entry in entries {
        match entry {
            TranscriptEntry::Text { text } => out.push_str(text),
            TranscriptEntry::ToolResult { ok, text, .. } => {
                let mut lines = text.trim_end().lines();
                out.push_str(format!("  {} {}", sign(*ok), lines.next().unwrap_or_default()).trim_end());
                lines.for_each(|line| _ = write!(out, "\n    {line}"));
            }
            other => out.push_str(&headline(other)),
        }
        if !out.ends_with('\n') && !out.is_empty() {
            out.push('\n');
        }
    }
    out
}

/// Returns the transcript as a Markdown document. Nothing in the texts can end a code block.
pub fn markdown(title: &str, entries: &[TranscriptEntry]) -> String {
    let mut out = format!("# {}\n", quote::one_line(title));
    for entry in entries {
        out.push('\n');
        match entry {
            TranscriptEntry::Text { text } => fenced(&mut out, "text", text.trim_matches('\n')),
            TranscriptEntry::ToolCall { name, summary, arguments, .. } => {
                let _ = writeln!(out, "**{}** {}", quote::code(name), shown(summary));
                if let Some(text) = beyond(summary, arguments) {
                    out.push('\n');
                    fenced(&mut out, "json", &text);
                }
            }
            TranscriptEntry::ToolResult { ok, text, .. } => {
                let _ = writeln!(out, "{}", if *ok { "Result:" } else { "Failed:" });
                if !text.trim().is_empty() {
                    out.push('\n');
                    fenced(&mut out, "text", text.trim_matches('\n'));
                }
            }
            other => _ = writeln!(out, "_{}_", headline(other)),
        }
    }
    out
}

fn sign(ok: bool) -> char {
    if ok { '←' } else { '✗' }
}

fn headline(entry: &TranscriptEntry) -> String {
    match entry {
        TranscriptEntry::ToolCall { name, summary, .. } => {
            let line = format!("→ {name} {summary}");
            quote::one_line(line.trim_end()).chars().take(BRIEF).collect()
        }
        TranscriptEntry::Usage(usage) => format!("used: {}", amount(usage)),
        TranscriptEntry::Omitted { entries, bytes } => {
            format!("[{entries} entries with {bytes} bytes were left out here: the transcript was too long]")
        }
        TranscriptEntry::Text { text } | TranscriptEntry::ToolResult { text, .. } => text.clone(),
    }
}

fn amount(usage: &Usage) -> String {
    let count = |what: &str, tokens: Option<u64>| Some(format!("{} {what}", Resource::Tokens.say(tokens?)));
    let parts = [
        count("in", usage.input_tokens),
        count("out", usage.output_tokens),
        usage.micro_usd.map(|micro| Resource::Usd.say(micro)),
        usage.model.as_deref().map(|model| quote::one_line(model).into_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the arguments, unless the summary has all of them.
fn beyond(summary: &str, arguments: &Value) -> Option<String> {
    match arguments {
        Value::Null => None,
        Value::String(text) => (text != summary).then(|| text.clone()),
        Value::Object(fields) if fields.is_empty() => None,
        Value::Object(fields) if fields.len() == 1 && fields.values().any(|only| only == summary) => None,
        other => serde_json::to_string_pretty(other).ok(),
    }
}

fn shown(summary: &str) -> String {
    if summary.is_empty() { String::new() } else { quote::code(summary) }
}

fn fenced(out: &mut String, language: &str, text: &str) {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = writeln!(out, "{fence}{language}\n{text}\n{fence}");
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::{brief, markdown, text};
    use crate::model::transcript::{TranscriptEntry, joined};
    use crate::model::usage::Usage;

    fn entries() -> Vec<TranscriptEntry> {
        let said = |text: &str| TranscriptEntry::Text { text: text.to_owned() };
        let answer =
            |ok, text: &str| TranscriptEntry::ToolResult { id: String::new(), ok, text: text.to_owned() };
        let call = |name: &str, summary: &str, arguments| TranscriptEntry::ToolCall {
            id: "1".to_owned(),
            name: name.to_owned(),
            summary: summary.to_owned(),
            arguments,
        };
        joined([
            said("I will "),
            said("look.\n"),
            call("Bash", "ls -l", json!({ "command": "ls -l" })),
            answer(true, "total 2\na.txt\n``` b.txt\n"),
            call("Write", "a.txt", json!({ "content": "A\n", "file_path": "a.txt" })),
            answer(false, "no\n"),
            TranscriptEntry::Omitted { entries: 3, bytes: 900 },
            said("Done."),
            TranscriptEntry::Usage(Usage {
                input_tokens: Some(11_110),
                output_tokens: Some(260),
                micro_usd: Some(37_230),
                model: Some("m".to_owned()),
                ..Usage::default()
            }),
        ])
    }

    #[test]
    fn it_is_short_while_it_runs_and_whole_afterwards() {
        let entries = entries();
        let live: String = entries.iter().map(brief).collect();
        expect![[r#"
            I will look.
            → Bash ls -l
              ← total 2 (2 more lines)
            → Write a.txt
              ✗ no
            [3 entries with 900 bytes were left out here: the transcript was too long]
            Done.used: 11,110 tokens in, 260 tokens out, $0.038, m
        "#]]
        .assert_eq(&live);
        expect![[r#"
            I will look.
            → Bash ls -l
              ← total 2
                a.txt
                ``` b.txt
            → Write a.txt
              ✗ no
            [3 entries with 900 bytes were left out here: the transcript was too long]
            Done.
            used: 11,110 tokens in, 260 tokens out, $0.038, m
        "#]]
        .assert_eq(&text(&entries));
    }

    #[test]
    fn nothing_in_it_ends_a_block_of_the_markdown() {
        expect![[r#"
            # Step 1, attempt 2

            ```text
            I will look.
            ```

            **`Bash`** `ls -l`

            Result:

            ````text
            total 2
            a.txt
            ``` b.txt
            ````

            **`Write`** `a.txt`

            ```json
            {
              "content": "A\n",
              "file_path": "a.txt"
            }
            ```

            Failed:

            ```text
            no
            ```

            _[3 entries with 900 bytes were left out here: the transcript was too long]_

            ```text
            Done.
            ```

            _used: 11,110 tokens in, 260 tokens out, $0.038, m_
        "#]]
        .assert_eq(&markdown("Step 1, attempt 2", &entries()));
    }

    #[test]
    fn a_line_of_the_file_has_its_kind() {
        let lines: Vec<String> =
            entries().iter().map(|entry| serde_json::to_string(entry).expect("JSON")).collect();
        expect![[r#"
            {"kind":"text","text":"I will look.\n"}
            {"kind":"tool_call","id":"1","name":"Bash","summary":"ls -l","arguments":{"command":"ls -l"}}
            {"kind":"tool_result","ok":true,"text":"total 2\na.txt\n``` b.txt\n"}
            {"kind":"tool_call","id":"1","name":"Write","summary":"a.txt","arguments":{"content":"A\n","file_path":"a.txt"}}
            {"kind":"tool_result","ok":false,"text":"no\n"}
            {"kind":"omitted","entries":3,"bytes":900}
            {"kind":"text","text":"Done."}
            {"kind":"usage","model":"m","input_tokens":11110,"output_tokens":260,"micro_usd":37230}"#]]
        .assert_eq(&lines.join("\n"));
        let read = lines.iter().map(|line| serde_json::from_str(line).expect("an entry"));
        assert_eq!(read.collect::<Vec<TranscriptEntry>>(), entries());
    }
}
