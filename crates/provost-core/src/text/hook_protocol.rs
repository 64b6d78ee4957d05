//! Reads the stop hooks of each client and writes the answers.
//!
//! Clients differ in names and forms, not in substance: a session, a folder, a moment. Each needs its own
//! wording, and each lets a session stop if the hook fails, so an answer is never an error.
//!
//! **Invariant:** no answer ends with exit code 1, which every client treats as a broken hook.

use serde_json::{Value, json};

/// The client of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookClient {
    Claude,
    Codex,
    Gemini,
    Qwen,
    Copilot,
    Opencode,
    Cursor,
    GitPrePush,
}

impl HookClient {
    pub const ALL: [HookClient; 8] = [
        HookClient::Claude,
        HookClient::Codex,
        HookClient::Gemini,
        HookClient::Qwen,
        HookClient::Copilot,
        HookClient::Opencode,
        HookClient::Cursor,
        HookClient::GitPrePush,
    ];

    /// Returns the word as a person types it.
    pub fn word(self) -> &'static str {
        match self {
            HookClient::Claude => "claude",
            HookClient::Codex => "codex",
            HookClient::Gemini => "gemini",
            HookClient::Qwen => "qwen",
            HookClient::Copilot => "copilot",
            HookClient::Opencode => "opencode",
            HookClient::Cursor => "cursor",
            HookClient::GitPrePush => "git-pre-push",
        }
    }

    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.word() == word)
    }
}

/// The question of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookQuestion {
    pub moment: Moment,
    pub session: Option<String>,
    /// The folder the session works in.
    pub cwd: Option<String>,
    /// Number of tools used so far, for clients that ask after every message and not only at the end.
    pub tools: u64,
    /// A session that the client does not keep, mostly a thread that finds a title.
    pub is_fleeting: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The session begins, or begins again.
    Begin,
    /// It wants to stop.
    Stop,
    /// A helper of the session wants to stop, or a person stopped it: provost does not hold it.
    Other,
}

/// provost's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// It may stop; `words` is an optional message for the person.
    LetGo { words: String },
    /// It may not stop; `words` is for the agent.
    Refuse { words: String },
    /// A beginning session gets this text.
    Tell { words: String },
}

/// Output and exit code of the hook's process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookOutput {
    pub stdout: String,
    pub stderr: String,
    pub exit_code: u8,
}

/// Reads the input that a client gives its hook.
pub fn read(client: HookClient, input: &str) -> Result<HookQuestion, String> {
    if client == HookClient::GitPrePush {
        // The input lists refs; which ones does not matter.
        return Ok(HookQuestion {
            moment: Moment::Stop,
            session: None,
            cwd: None,
            tools: 0,
            is_fleeting: false,
        });
    }
    let value: Value =
        serde_json::from_str(input).map_err(|error| format!("the input of the hook is not JSON: {error}"))?;
    if !value.is_object() {
        return Err("the input of the hook is not an object".to_owned());
    }
    let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let root = value.pointer("/workspace_roots/0").and_then(Value::as_str);
    Ok(match client {
        HookClient::Cursor => HookQuestion {
            // A person ended it, or it failed: there is no agent to send back.
            moment: if matches!(text("status"), None | Some("completed")) {
                Moment::Stop
            } else {
                Moment::Other
            },
            session: owned(text("conversation_id")),
            cwd: owned(text("cwd").or(root)),
            tools: 0,
            is_fleeting: false,
        },
        // A helper stops inside a session; that session itself is not asking.
        _ if text("agent_id").is_some() => HookQuestion {
            moment: Moment::Other,
            session: owned(text("session_id")),
            cwd: owned(text("cwd")),
            tools: 0,
            is_fleeting: true,
        },
        _ => HookQuestion {
            moment: moment(text("hook_event_name")),
            session: owned(text("session_id").or(text("sessionID")).or(text("sessionId"))),
            cwd: owned(text("cwd").or(text("directory"))),
            tools: value.get("tools").and_then(Value::as_u64).unwrap_or(0),
            is_fleeting: client == HookClient::Codex && value.get("transcript_path") == Some(&Value::Null),
        },
    })
}

fn moment(event: Option<&str>) -> Moment {
    match event {
        Some("SessionStart") => Moment::Begin,
        // A client that does not name the event has only one kind of hook.
        Some("Stop" | "AfterAgent") | None => Moment::Stop,
        Some(_) => Moment::Other,
    }
}

/// Writes the answer in the client's form.
pub fn say(client: HookClient, answer: &HookAnswer) -> HookOutput {
    match answer {
        HookAnswer::LetGo { words } => let_go(client, words),
        HookAnswer::Refuse { words } => refuse(client, words),
        HookAnswer::Tell { words } => match client {
            HookClient::Claude | HookClient::Codex | HookClient::Qwen if !words.is_empty() => {
                let context = json!({ "hookEventName": "SessionStart", "additionalContext": words });
                object(json!({ "hookSpecificOutput": context }))
            }
            _ => let_go(client, ""),
        },
    }
}

fn let_go(client: HookClient, words: &str) -> HookOutput {
    match client {
        HookClient::GitPrePush => {
            let stderr = if words.is_empty() { String::new() } else { format!("provost: {words}\n") };
            HookOutput { stderr, ..HookOutput::default() }
        }
        HookClient::Claude | HookClient::Codex | HookClient::Gemini | HookClient::Qwen
            if !words.is_empty() =>
        {
            object(json!({ "systemMessage": format!("provost: {words}") }))
        }
        HookClient::Opencode if !words.is_empty() => object(json!({ "note": words })),
        _ => object(json!({})),
    }
}

fn refuse(client: HookClient, words: &str) -> HookOutput {
    match client {
        HookClient::Claude | HookClient::Codex | HookClient::Qwen | HookClient::Copilot => {
            object(json!({ "decision": "block", "reason": words }))
        }
        HookClient::Gemini => object(json!({ "decision": "deny", "reason": words })),
        HookClient::Opencode => object(json!({ "refuse": words })),
        HookClient::Cursor => object(json!({ "followup_message": words })),
        HookClient::GitPrePush => {
            HookOutput { stderr: format!("{words}\n"), exit_code: 5, ..HookOutput::default() }
        }
    }
}

fn object(value: Value) -> HookOutput {
    HookOutput { stdout: format!("{value}\n"), ..HookOutput::default() }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// The input format of the clients as of autumn 2026.
    const INPUTS: &str = include_str!("../../test_data/hooks/inputs.jsonl");

    fn check(client: HookClient, expected: Expect) {
        let mut said = String::new();
        for line in INPUTS.lines() {
            let recorded: Value = serde_json::from_str(line).unwrap();
            if recorded["client"] == client.word() {
                let HookQuestion { moment, session, cwd, is_fleeting, .. } =
                    read(client, &recorded["input"].to_string()).unwrap();
                let fleeting = if is_fleeting { "fleeting " } else { "" };
                said.push_str(&format!(
                    "{fleeting}{moment:?} {} {}\n",
                    session.as_deref().unwrap_or("-"),
                    cwd.as_deref().unwrap_or("-")
                ));
            }
        }
        for answer in [
            HookAnswer::LetGo { words: String::new() },
            HookAnswer::LetGo { words: "it waits".to_owned() },
            HookAnswer::Refuse { words: "step 2 is open".to_owned() },
            HookAnswer::Tell { words: "there is a plan".to_owned() },
        ] {
            let HookOutput { stdout, stderr, exit_code } = say(client, &answer);
            said.push_str(&format!("{exit_code} {}|{}\n", stdout.trim_end(), stderr.trim_end()));
        }
        expected.assert_eq(&said);
    }

    #[test]
    fn claude_code() {
        check(
            HookClient::Claude,
            expect![[r#"
                Stop 0c9dc328-7412-44a1-9be8-9494aeedd693 /home/dev/wt
                Stop 0c9dc328-7412-44a1-9be8-9494aeedd693 /home/dev/wt
                Begin 0c9dc328-7412-44a1-9be8-9494aeedd693 /home/dev/wt
                Other 0c9dc328-7412-44a1-9be8-9494aeedd693 /home/dev/wt
                fleeting Other 0c9dc328-7412-44a1-9be8-9494aeedd693 /home/dev/wt
                0 {}|
                0 {"systemMessage":"provost: it waits"}|
                0 {"decision":"block","reason":"step 2 is open"}|
                0 {"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"there is a plan"}}|
            "#]],
        );
    }

    #[test]
    fn codex() {
        check(
            HookClient::Codex,
            expect![[r#"
                Stop 01a1dc9e-03eb-7e51-ad34-17ec7d9f1e39 /home/dev/wt
                Stop 01a1dc9e-03eb-7e51-ad34-17ec7d9f1e39 /home/dev/wt
                fleeting Stop 01a1dc9e-2222-7e51-ad34-17ec7d9f1e39 /home/dev/wt
                0 {}|
                0 {"systemMessage":"provost: it waits"}|
                0 {"decision":"block","reason":"step 2 is open"}|
                0 {"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"there is a plan"}}|
            "#]],
        );
    }

    #[test]
    fn gemini() {
        check(
            HookClient::Gemini,
            expect![[r#"
            Stop 0d13feed-7bd0-4343-ac8c-2785d0fea3cb /home/dev/wt
            Stop 0d13feed-7bd0-4343-ac8c-2785d0fea3cb /home/dev/wt
            0 {}|
            0 {"systemMessage":"provost: it waits"}|
            0 {"decision":"deny","reason":"step 2 is open"}|
            0 {}|
        "#]],
        );
    }

    #[test]
    fn qwen() {
        check(
            HookClient::Qwen,
            expect![[r#"
                Stop 56815d6d-af62-40c4-8b79-fd8c0302a259 /home/dev/wt
                0 {}|
                0 {"systemMessage":"provost: it waits"}|
                0 {"decision":"block","reason":"step 2 is open"}|
                0 {"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"there is a plan"}}|
            "#]],
        );
    }

    #[test]
    fn copilot() {
        check(
            HookClient::Copilot,
            expect![[r#"
                Stop 08bd6171-ea5d-4c50-86ef-339c9acf1150 /home/dev/wt
                0 {}|
                0 {}|
                0 {"decision":"block","reason":"step 2 is open"}|
                0 {}|
            "#]],
        );
    }

    #[test]
    fn opencode() {
        check(
            HookClient::Opencode,
            expect![[r#"
            Stop ses_5f3a /home/dev/wt
            0 {}|
            0 {"note":"it waits"}|
            0 {"refuse":"step 2 is open"}|
            0 {}|
        "#]],
        );
    }

    #[test]
    fn cursor() {
        check(
            HookClient::Cursor,
            expect![[r#"
            Stop c-17 /home/dev/wt
            Other c-17 /home/dev/wt
            0 {}|
            0 {}|
            0 {"followup_message":"step 2 is open"}|
            0 {}|
        "#]],
        );
    }

    #[test]
    fn git() {
        check(
            HookClient::GitPrePush,
            expect![[r#"
            0 |
            0 |provost: it waits
            5 |step 2 is open
            0 |
        "#]],
        );
    }

    #[test]
    fn what_is_no_input_is_said_and_nothing_breaks() {
        for text in ["", "not json", "[]", "7", "{\"session_id\":"] {
            assert!(read(HookClient::Claude, text).is_err(), "{text}");
        }
        let odd = read(HookClient::Claude, r#"{"session_id":7,"cwd":null,"hook_event_name":[]}"#).unwrap();
        let stop =
            HookQuestion { moment: Moment::Stop, session: None, cwd: None, tools: 0, is_fleeting: false };
        assert_eq!(odd, stop);
    }
}
