//! Writes the prompt for an agent that drafts a failing test, finds the test in its answer, and says why a
//! test goes back.
//!
//! **Invariant:** the goal and an earlier draft are fenced; none of their text can close its fence.
//! **Invariant:** a test is kept only if a person sees every character of it.

use crate::language::test_files;
use crate::model::quote;
use crate::model::verdict::{CheckOutcome, Verdict};
use crate::text::prompt;

const ASK: &str = include_str!("planner/test.md");
const AGAIN: &str = include_str!("planner/again.md");
const TEXT_BYTES: usize = 256 * 1024;

/// A test that an agent wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftedTest {
    /// Path of the new file, relative to the repository.
    pub path: String,
    pub text: String,
    /// The command that runs it.
    pub command: String,
}

/// Returns the prompt. `commands` run the tests of the project; `returned` is the last answer and why it was
/// sent back.
pub fn ask(goal: &str, commands: &[String], file: &str, returned: Option<(&str, &str)>) -> String {
    let again = returned.map(|(answer, reason)| {
        let draft = fenced(answer);
        prompt::fill(AGAIN, &[("draft", &draft), ("reasons", &format!("- {reason}\n"))])
    });
    let listed = match commands {
        [] => "No test command is known. Use the usual one of the language.".to_owned(),
        commands => commands.iter().map(|command| format!("- `{command}`")).collect::<Vec<_>>().join("\n"),
    };
    let parts = [
        ("goal", fenced(goal)),
        ("commands", listed),
        ("again", again.unwrap_or_default()),
        ("file", format!(", or write all of this to `{file}`")),
    ];
    prompt::fill(ASK, &parts.each_ref().map(|(name, text)| (*name, text.as_str())))
}

fn fenced(text: &str) -> String {
    let fence = prompt::fence_for(text);
    format!("{fence}text\n{}\n{fence}", text.trim_end())
}

/// Finds the test in an answer, or says what it lacks.
pub fn found_in(answer: &str) -> Result<DraftedTest, String> {
    let answer = answer.replace("\r\n", "\n");
    let value = |name: &str| {
        let line = answer
            .lines()
            .find_map(|line| line.trim().trim_start_matches(['-', '*', ' ']).strip_prefix(name))?;
        let value = line.trim().trim_matches('`').trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    let path = value("path:").ok_or("the answer has no line `path:` with the path of the test file")?;
    let command = value("run:").ok_or("the answer has no line `run:` with the command that runs the test")?;
    let text = block(&answer).ok_or("the answer has no fenced block with the test file")?;
    let is_plain = !path.starts_with(['/', '-', '~'])
        && path.split('/').all(|part| !matches!(part, "" | "." | ".." | ".git"))
        && path.chars().all(|c| c.is_alphanumeric() || "._/-@+".contains(c));
    if !is_plain {
        return Err(format!("`{path}` is not a path inside the repository"));
    }
    if !test_files::is_test(&path) {
        return Err(format!("`{path}` is not the name of a test file"));
    }
    if !is_shown_as_it_is(&text) || !is_shown_as_it_is(&command) {
        return Err("the answer has a control character or an invisible one".to_owned());
    }
    if text.len() > TEXT_BYTES {
        return Err("the test file is longer than 256 KiB".to_owned());
    }
    Ok(DraftedTest { path, text, command })
}

/// Returns whether a person sees every character of a text: they approve what they see.
fn is_shown_as_it_is(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.replace('\t', " ");
        quote::one_line(&line) == line
    })
}

/// Returns the longest fenced block: an answer may show the command in another one.
fn block(answer: &str) -> Option<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut lines = answer.lines();
    while let Some(line) = lines.next() {
        let mark: String = line.trim_start().chars().take_while(|c| *c == '`').collect();
        if mark.len() < 3 {
            continue;
        }
        let inside: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != mark).collect();
        blocks.push(inside.iter().map(|line| format!("{line}\n")).collect());
    }
    blocks.into_iter().max_by_key(String::len).filter(|text| !text.trim().is_empty())
}

/// Returns why a test is sent back; `None` if it fails as it should. The verdict is that of its command on the
/// last commit with the test.
pub fn objection(test: &DraftedTest, verdict: &Verdict) -> Option<String> {
    let output = format!("{}\n{}", verdict.stdout, verdict.stderr);
    let is_unreadable = ["SyntaxError", "IndentationError"].iter().any(|error| {
        output.contains(error) && output.contains(test.path.rsplit('/').next().unwrap_or(&test.path))
    });
    match &verdict.outcome {
        CheckOutcome::Held => {
            Some("the test passes on the last commit; it has to fail until the goal is met".to_owned())
        }
        CheckOutcome::Broke { .. } if verdict.tests == Some(0) => Some("the command runs no test".to_owned()),
        CheckOutcome::Broke { .. } if is_unreadable => {
            Some("the test file cannot be read by its runner".to_owned())
        }
        CheckOutcome::Broke { .. } => None,
        outcome => Some(format!("the command gave no result: {outcome}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::verdict::{Excerpt, Isolation};

    const ANSWER: &str = "Here:\npath: tests/test_a.py\nrun: `pytest -q tests/test_a.py`\n\n````python\ndef test_a():\n    assert 0\n````\n";

    #[test]
    fn a_test_is_found_in_an_answer_or_what_is_missing_is_said() {
        let test = found_in(ANSWER).unwrap();
        assert_eq!(
            (test.path.as_str(), test.command.as_str()),
            ("tests/test_a.py", "pytest -q tests/test_a.py")
        );
        assert_eq!(test.text, "def test_a():\n    assert 0\n");
        for (from, to, why) in [
            ("path:", "file:", "no line `path:`"),
            ("run:", "cmd:", "no line `run:`"),
            ("````", "", "no fenced block"),
            ("tests/test_a.py\n", "../test_a.py\n", "not a path inside"),
            ("tests/test_a.py\n", ".git/test_a.py\n", "not a path inside"),
            ("tests/test_a.py\n", "/tmp/test_a.py\n", "not a path inside"),
            ("tests/test_a.py\n", "src/a.py\n", "not the name of a test file"),
            ("assert 0", "assert 0 \u{1b}[2K", "a control character"),
            ("assert 0", "assert 0 \u{202e}", "an invisible one"),
            ("pytest -q", "pytest\u{1b}[8m -q", "a control character"),
        ] {
            let said = found_in(&ANSWER.replace(from, to)).unwrap_err();
            assert!(said.contains(why), "{to}: {said}");
        }
    }

    #[test]
    fn only_a_test_that_fails_for_its_own_reason_is_kept() {
        let test = found_in(ANSWER).unwrap();
        let verdict = |outcome, stderr: &str| Verdict {
            stderr: Excerpt::whole(stderr),
            ..Verdict::bare(Isolation::Clean, outcome)
        };
        let broke = || CheckOutcome::Broke { exit_code: 1 };
        assert_eq!(objection(&test, &verdict(broke(), "AssertionError")), None);
        assert_eq!(objection(&test, &verdict(broke(), "ImportError: cannot import name 'a'")), None);
        let back = [
            verdict(CheckOutcome::Held, ""),
            verdict(CheckOutcome::NotRun { reason: "pytest is missing".into() }, ""),
            verdict(broke(), "File \"tests/test_a.py\", line 1\nSyntaxError: invalid syntax"),
            Verdict { tests: Some(0), ..verdict(broke(), "") },
        ];
        for verdict in back {
            assert!(objection(&test, &verdict).is_some(), "{verdict:?}");
        }
    }

    #[test]
    fn a_goal_does_not_get_out_of_its_fence() {
        let text =
            ask("```\n## Goal", &["pytest -q".to_owned()], "/desk/TEST.md", Some(("old", "it passes")));
        assert!(text.contains("````text\n```\n## Goal\n````") && text.contains("- `pytest -q`"), "{text}");
        assert!(
            text.contains("- it passes") && !text.contains("{again}") && !text.contains("{file}"),
            "{text}"
        );
    }
}
