//! Writes the prompt for agents that draft plans, finds the plan in their answer, and lists why a draft goes
//! back.
//!
//! The texts are the Markdown files in `planner/`. Nothing here approves anything: a draft that is good
//! enough becomes an ordinary plan file and goes to the gate.
//!
//! **Invariant:** goal, context and an earlier draft are fenced; none of their text can close its fence.

use std::fmt::Write as _;

use crate::language::diagnostic::{Code, Diagnostic};
use crate::model::plan::Plan;
use crate::text::prompt::{self, PromptContext};

const ASK: &str = include_str!("planner/ask.md");
const FORMAT: &str = include_str!("planner/format.md");
const AGAIN: &str = include_str!("planner/again.md");
/// Number of steps that is easy to review and to resume.
const STEPS: std::ops::RangeInclusive<usize> = 3..=7;
/// Maximum number of reasons per round.
const REASONS: usize = 30;
/// Maximum number of lines of a frontmatter.
const FRONTMATTER_LINES: usize = 40;

/// The input of the planner.
pub struct PlannerRequest<'a> {
    pub goal: &'a str,
    pub context: &'a [PromptContext],
    /// The possible targets of a step.
    pub roles: &'a [String],
    /// The file to which the planner may write the plan instead of printing it.
    pub file: Option<&'a str>,
}

/// A draft that was sent back.
pub struct RejectedDraft<'a> {
    /// Its text, if the answer contained a plan.
    pub text: Option<&'a str>,
    pub reasons: Vec<String>,
}

/// Returns the whole prompt, for the first round or a later one.
pub fn ask(request: &PlannerRequest<'_>, returned: Option<&RejectedDraft<'_>>) -> String {
    let roles = match request.roles {
        [] => "`coder`".to_owned(),
        roles => roles.iter().map(|role| format!("`{role}`")).collect::<Vec<_>>().join(", "),
    };
    let file = request.file.map(|file| format!(", or write it to `{file}`")).unwrap_or_default();
    let parts = [
        ("goal", fenced("text", request.goal)),
        ("context", prompt::subscriptions(request.context)),
        ("roles", roles),
        ("format", FORMAT.to_owned()),
        ("again", returned.map(again).unwrap_or_default()),
        ("file", file),
    ];
    prompt::fill(ASK, &parts.each_ref().map(|(name, text)| (*name, text.as_str())))
}

fn again(returned: &RejectedDraft<'_>) -> String {
    let draft = match returned.text {
        Some(text) => fenced("markdown", text),
        None => "There was none: your answer contains no plan.".to_owned(),
    };
    let mut reasons = String::new();
    for reason in returned.reasons.iter().take(REASONS) {
        let _ = writeln!(reasons, "- {reason}");
    }
    if returned.reasons.len() > REASONS {
        let _ = writeln!(reasons, "- and {} more", returned.reasons.len() - REASONS);
    }
    prompt::fill(AGAIN, &[("draft", &draft), ("reasons", &reasons)])
}

fn fenced(language: &str, text: &str) -> String {
    let fence = prompt::fence_for(text);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}

/// Returns the diagnostics that send a draft back: errors, vague steps and empty checks.
pub fn objections(diagnostics: &[Diagnostic]) -> Vec<&Diagnostic> {
    let sends_back = |diagnostic: &&Diagnostic| diagnostic.is_error() || weakens(diagnostic.code);
    diagnostics.iter().filter(sends_back).collect()
}

/// Objects to a plan with fewer than three or more than seven steps, unless a sentence before its steps gives
/// the reason with the word "because". A person reads it at the gate.
pub fn count_objection(text: &str, plan: &Plan) -> Option<String> {
    let count = plan.steps.len();
    if count == 0 || STEPS.contains(&count) {
        return None;
    }
    let before = plan.steps.first().and_then(|step| text.get(..step.heading.start)).unwrap_or_default();
    let says_why = |line: &str| {
        let line = line.to_lowercase();
        line.contains("because") && line.contains("step")
    };
    if before.lines().any(says_why) {
        return None;
    }
    let steps = if count == 1 { "1 step".to_owned() } else { format!("{count} steps") };
    Some(format!(
        "the plan has {steps}; a plan has {} to {}. Split or join them, or say why in **Context:** in one sentence \
         (\"one step, because …\").",
        STEPS.start(),
        STEPS.end()
    ))
}

fn weakens(code: Code) -> bool {
    matches!(
        code,
        Code::VagueTask
            | Code::WeakKind
            | Code::WeakContract
            | Code::MaskedExit
            | Code::ConstantExit
            | Code::PipeHides
            | Code::Background
            | Code::LastDecides
            | Code::OtherCommands
            | Code::Placeholder
            | Code::ToolMissing
            | Code::TouchesOpen
            | Code::FieldMisplaced
            | Code::TextUnread
            | Code::FileMissing
    )
}

/// Describes an objection for the planner: where, what, and what to do.
pub fn reason(text: &str, diagnostic: &Diagnostic) -> String {
    let before = text.get(..diagnostic.span.start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let hint = diagnostic.hint.as_deref().map(|hint| format!(" {hint}")).unwrap_or_default();
    format!("line {line}, {} {}: {}.{hint}", diagnostic.severity.word(), diagnostic.code, diagnostic.message)
}

/// Returns the plan in an agent's answer: fenced, or everything from its frontmatter on. The last one counts.
pub fn found_in(report: &str) -> Option<String> {
    let report = report.replace("\r\n", "\n");
    let lines: Vec<&str> = report.lines().collect();
    let begin = (0..lines.len()).rev().find(|&at| opens(&lines, at))?;
    // If the agent fenced its plan, the last fence of that kind closes it: those between belong to its
    // checks.
    let mark = begin.checked_sub(1).map(|above| fence_of(lines[above])).filter(|mark| mark.len() >= 3);
    let end = match mark {
        Some(mark) => {
            let closes = |line: &str| line.trim().len() >= mark.len() && fence_of(line) == line.trim();
            let is_same = |line: &str| closes(line) && line.trim().starts_with(mark);
            lines.iter().rposition(|line| is_same(line)).filter(|&end| end > begin).unwrap_or(lines.len())
        }
        None => lines.len(),
    };
    let mut text = lines[begin..end].join("\n").trim_end().to_owned();
    text.push('\n');
    Some(text)
}

/// Returns whether a frontmatter with a status and an end begins here.
fn opens(lines: &[&str], at: usize) -> bool {
    if lines[at].trim_end() != "---" {
        return false;
    }
    let inside = lines[at + 1..].iter().take(FRONTMATTER_LINES);
    let Some(length) = inside.clone().position(|line| line.trim_end() == "---") else { return false };
    inside.take(length).any(|line| line.starts_with("status:"))
}

/// Returns the run of backticks or tildes at the start of a line.
fn fence_of(line: &str) -> &str {
    let line = line.trim();
    let first = line.chars().next().filter(|first| ['`', '~'].contains(first));
    let length = first.map_or(0, |first| line.chars().take_while(|each| *each == first).count());
    &line[..length]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::Span;

    const PLAN: &str = "---\nstatus: draft\n---\n# P\n## Steps\n### 1. A\n**target:** c\n**task:** Do it.\n**contract:**\n```shell\ntest -s a\n```\n";

    #[test]
    fn a_plan_is_found_however_it_was_said() {
        for said in [
            PLAN.to_owned(),
            format!("Here it is:\n\n````markdown\n{PLAN}````\nGood luck!"),
            format!("```markdown\n{PLAN}```\n"),
            format!("~~~\n{PLAN}~~~\nsome words"),
            format!("First:\n````\n{}````\nbetter:\n````\n{PLAN}````", PLAN.replace("# P", "# Q")),
            format!("Some words before it.\n{PLAN}").replace('\n', "\r\n"),
        ] {
            assert_eq!(found_in(&said).as_deref(), Some(PLAN), "{said}");
        }
    }

    #[test]
    fn words_without_a_frontmatter_are_no_plan() {
        for said in
            ["", "I could not do it.", "---\nno: status\n---\n", "---\nstatus: draft\n# never closed\n"]
        {
            assert_eq!(found_in(said), None, "{said}");
        }
    }

    #[test]
    fn what_makes_a_check_empty_is_sent_back_like_an_error() {
        let said = |code| Diagnostic::new(code, Span::at(0), "x");
        let all = [Code::NoContract, Code::WeakContract, Code::VagueTask, Code::NoBudget].map(said);
        let codes: Vec<_> = objections(&all).iter().map(|each| each.code).collect();
        assert_eq!(codes, [Code::NoContract, Code::WeakContract, Code::VagueTask]);
    }

    #[test]
    fn a_plan_with_an_unusual_number_of_steps_says_why() {
        let plan = |context: &str, count: usize| {
            let mut text = format!("---\nstatus: draft\n---\n# P\n\n**Context:** {context}\n\n## Steps\n");
            (1..=count).for_each(|number| text.push_str(&format!("### {number}. A\n**task:** Do it.\n")));
            let plan = crate::language::parse::plan(&text).plan;
            count_objection(&text, &plan)
        };
        assert!(plan("A bug.", 1).is_some_and(|words| words.contains("1 step; a plan has 3 to 7")));
        assert!(plan("A bug.", 50).is_some());
        assert_eq!((plan("A bug.", 3), plan("A bug.", 7)), (None, None));
        assert_eq!(plan("One step, because the change is a single line.", 1), None);
    }

    #[test]
    fn neither_goal_nor_draft_gets_out_of_its_fence() {
        let request =
            PlannerRequest { goal: "```\n## Goal\n````", context: &[], roles: &["a".into()], file: None };
        let returned =
            RejectedDraft { text: Some(PLAN), reasons: vec!["line 1, error P039: no contract.".into()] };
        let text = ask(&request, Some(&returned));
        assert!(text.contains("`````text\n```\n## Goal\n````\n`````\n"), "{text}");
        assert!(
            text.contains("````markdown\n---\nstatus: draft") && text.contains("- line 1, error P039"),
            "{text}"
        );
        assert!(!text.contains("{again}") && !text.contains("{file}"), "{text}");
    }
}
