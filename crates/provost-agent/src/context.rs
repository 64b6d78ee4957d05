//! Keeps the transcript within the model's context window, by leaving out old parts.
//!
//! Sizes are estimated in bytes and corrected by the provider's counts. Old output of tools is left out
//! first, then whole old turns; the task, the plan, open items and the last failures stay.
//!
//! **Invariant:** a turn of the model and the results of its calls stay or go together, because providers
//! refuse one without the other.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::plan::AgentPlan;
use crate::transcript::{Message, ToolResult, Transcript};
use crate::truncate;

/// Most failures that are kept, and most bytes of each.
const FAILURES: usize = 3;
const FAILURE: usize = 800;
/// Most lines about omitted turns.
const LINES: usize = 40;
const LINE: usize = 120;
/// Most bytes of a summary.
const SUMMARY: usize = 8000;
/// Latest messages whose output is kept while something older can go.
const RECENT: usize = 6;
/// Output up to this length is kept.
const SHORT: usize = 300;
/// Initial estimate of bytes per token.
const BYTES_PER_TOKEN: f64 = 3.5;

/// The model's context window, and the state that is needed to keep within it.
#[derive(Debug)]
pub(crate) struct Context {
    /// Tokens for input.
    window: usize,
    bytes_per_token: f64,
    task: String,
    failures: VecDeque<String>,
    lines: VecDeque<String>,
    /// The model's own summary of what was left out.
    summary: Option<String>,
}

impl Context {
    pub(crate) fn new(window: usize, task: &str) -> Self {
        Self {
            window,
            bytes_per_token: BYTES_PER_TOKEN,
            task: task.to_owned(),
            failures: VecDeque::new(),
            lines: VecDeque::new(),
            summary: None,
        }
    }

    /// Returns the task: the first message without what it says about left out turns, and the question that
    /// an earlier conversation goes on with.
    pub(crate) fn task_of(messages: &[Message]) -> String {
        let text = |message: &Message| match message {
            Message::User(text) => text.clone(),
            _ => String::new(),
        };
        let first = messages.first().map(text).unwrap_or_default();
        let left_out = include_str!("prompt/left_out.md");
        let task = first.split_once(left_out).map_or(first.as_str(), |(task, _)| task.trim_end());
        match messages {
            [_, .., last @ Message::User(_)] => format!("{task}\n\n{}", text(last)),
            _ => task.to_owned(),
        }
    }

    pub(crate) fn tokens(&self, bytes: usize) -> usize {
        (bytes as f64 / self.bytes_per_token) as usize
    }

    fn bytes(&self, tokens: usize) -> usize {
        (tokens as f64 * self.bytes_per_token) as usize
    }

    /// Corrects the estimate with the provider's count.
    pub(crate) fn counted(&mut self, bytes: usize, tokens: u64) {
        // For a short text, most of the counted tokens are not in our bytes.
        if bytes >= 2000 && tokens > 0 {
            self.bytes_per_token = (bytes as f64 / tokens as f64).clamp(1.0, 6.0);
        }
    }

    /// Returns the most bytes for one of several answers in a turn, so that together they leave space for
    /// others.
    pub(crate) fn room_for_answer(&self, answers: usize) -> usize {
        (self.bytes(self.window) / 6 / answers.max(1)).clamp(500, 16 * 1024)
    }

    pub(crate) fn is_full(&self, bytes: usize) -> bool {
        self.tokens(bytes) > self.window / 100 * 85
    }

    /// Remembers a failure; the last few are kept when messages are left out.
    pub(crate) fn saw(&mut self, result: &ToolResult) {
        let text = result.text.split_once('\n').map_or("", |(_, text)| text);
        let is_bad_end = text.starts_with("ended by signal")
            || text.strip_prefix("exit code ").is_some_and(|code| !code.starts_with('0'));
        if result.failed || is_bad_end {
            let shown = truncate::middle(result.text.trim(), FAILURE, "read_output shows it");
            keep(&mut self.failures, format!("{}: {shown}", result.tool), FAILURES);
        }
    }

    /// Shortens the transcript to about half the window. `fixed` are the bytes that are sent besides.
    pub(crate) fn compact(&mut self, transcript: &mut Transcript, plan: Option<&AgentPlan>, fixed: usize) {
        let target = self.bytes(self.window / 2).saturating_sub(fixed);
        self.shorten(transcript, plan, target);
    }

    /// Replaces all but the last turns by the model's summary of them.
    pub(crate) fn compact_to_summary(
        &mut self,
        transcript: &mut Transcript,
        plan: Option<&AgentPlan>,
        (summary, fixed): (String, usize),
    ) {
        self.summary = Some(truncate::middle(&summary, SUMMARY, "the summary was too long"));
        // The summary says what these lines would say.
        self.lines.clear();
        let target = self.bytes(self.window / 4).saturating_sub(fixed);
        let mut messages = transcript.messages().to_vec();
        self.leave_out_turns(&mut messages, plan, target);
        self.lines.clear();
        transcript.replace(messages);
    }

    /// Halves the transcript, after the provider has rejected it as too long.
    pub(crate) fn compact_hard(&mut self, transcript: &mut Transcript, plan: Option<&AgentPlan>) {
        let target = transcript.size() / 2;
        self.shorten(transcript, plan, target);
    }

    fn shorten(&mut self, transcript: &mut Transcript, plan: Option<&AgentPlan>, target: usize) {
        let mut messages = transcript.messages().to_vec();
        let recent = messages.len().saturating_sub(RECENT).max(1);
        let mut size = transcript.size();
        for message in &mut messages[1..recent] {
            if size <= target {
                break;
            }
            let before = message.size();
            leave_out_output(message);
            size -= before - message.size();
        }
        if size > target {
            self.leave_out_turns(&mut messages, plan, target);
        }
        transcript.replace(messages);
    }

    /// Replaces the oldest turns by lines in the first message.
    fn leave_out_turns(&mut self, messages: &mut Vec<Message>, plan: Option<&AgentPlan>, target: usize) {
        let first = self.first(plan).len() + LINES * LINE / 2;
        let sizes: Vec<usize> = messages.iter().map(Message::size).collect();
        let mut left = first + sizes[1..].iter().sum::<usize>();
        let mut cut = 1;
        // The last turn always stays.
        for at in 1..messages.len() {
            let begins_turn = matches!(messages[at], Message::Assistant { .. });
            if begins_turn {
                cut = at;
                if left <= target {
                    break;
                }
            }
            left -= sizes[at];
        }
        for message in &messages[1..cut] {
            self.describe(message);
        }
        let first = Message::User(self.first(plan));
        messages.splice(..cut, [first]);
    }

    fn describe(&mut self, message: &Message) {
        match message {
            Message::User(_) | Message::Images(_) => {}
            Message::Assistant { text, calls, .. } => {
                if calls.is_empty() && !text.trim().is_empty() {
                    keep(&mut self.lines, format!("you said: {}", truncate::line(text, LINE)), LINES);
                }
            }
            Message::Results(results) => {
                for result in results {
                    let text = result.text.lines().nth(1).unwrap_or_default();
                    let line =
                        format!("call:{} {}: {}", result.call, result.tool, truncate::line(text, LINE));
                    keep(&mut self.lines, line, LINES);
                }
            }
        }
    }

    /// Returns the first message: the task, and a summary of what was left out.
    fn first(&self, plan: Option<&AgentPlan>) -> String {
        let mut out = format!("{}\n\n{}", self.task, include_str!("prompt/left_out.md"));
        if let Some(plan) = plan {
            let _ = write!(out, "\n{}\n", plan.render());
            let missing = plan.missing();
            if !missing.is_empty() {
                let _ = write!(out, "\nOpen: {}.\n", missing.join("; "));
            }
        }
        if let Some(summary) = &self.summary {
            let _ = write!(out, "\n## Your summary\n{summary}\n");
        }
        for (title, lines) in [("The last failures", &self.failures), ("Your work so far", &self.lines)] {
            if !lines.is_empty() {
                let _ = write!(out, "\n## {title}\n");
                lines.iter().for_each(|line| _ = writeln!(out, "- {line}"));
            }
        }
        out.push_str("\nread_output shows the answer of a call again.\n");
        out
    }
}

fn keep(lines: &mut VecDeque<String>, line: String, most: usize) {
    lines.push_back(line);
    while lines.len() > most {
        lines.pop_front();
    }
}

fn leave_out_output(message: &mut Message) {
    if let Message::Images(images) = message {
        let names: Vec<&str> = images.iter().map(|image| image.name.as_str()).collect();
        *message = Message::User(format!("[{} left out; view_image shows it again]", names.join(", ")));
        return;
    }
    let Message::Results(results) = message else { return };
    for result in results.iter_mut().filter(|result| result.text.len() > SHORT) {
        let head = result.text.lines().next().unwrap_or_default();
        result.text = format!(
            "{head}\n[{} bytes left out; read_output with call = {} shows them]",
            result.text.len(),
            result.call
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Call;

    fn turn(transcript: &mut Transcript, call: u64, output: &str) {
        let asked =
            Call { id: format!("c{call}"), tool: "shell".to_owned(), arguments: serde_json::json!({}) };
        transcript.push(Message::Assistant { text: String::new(), calls: vec![asked], replay: None });
        let text = format!("call:{call} ok\n{output}");
        transcript.push(Message::Results(vec![ToolResult {
            id: format!("c{call}"),
            call,
            tool: "shell".to_owned(),
            text,
            failed: false,
        }]));
    }

    /// Checks that every result has its call before it, and that the first message is the task.
    fn is_sound(transcript: &Transcript) -> bool {
        let messages = transcript.messages();
        let pairs = messages.windows(2).all(|pair| match &pair[1] {
            Message::Results(results) => match &pair[0] {
                Message::Assistant { calls, .. } => {
                    calls.iter().map(|call| &call.id).eq(results.iter().map(|result| &result.id))
                }
                _ => false,
            },
            _ => true,
        });
        pairs && matches!(&messages[0], Message::User(text) if text.starts_with("the task"))
    }

    #[test]
    fn old_output_goes_before_old_turns() {
        let mut context = Context::new(8000, "the task");
        let mut transcript = Transcript::default();
        transcript.push(Message::User("the task".to_owned()));
        (1..=10).for_each(|call| turn(&mut transcript, call, &"x".repeat(2000)));
        assert!(!context.is_full(transcript.size()));
        (11..=14).for_each(|call| turn(&mut transcript, call, &"x".repeat(2000)));
        assert!(context.is_full(transcript.size()));
        context.compact(&mut transcript, None, 0);
        assert!(is_sound(&transcript));
        assert_eq!(transcript.messages().len(), 29, "no turn had to go");
        assert!(context.tokens(transcript.size()) <= 4000);
        let Message::Results(results) = &transcript.messages()[2] else { panic!("no results") };
        assert!(results[0].text.contains("read_output with call = 1"), "{}", results[0].text);
    }

    #[test]
    fn what_matters_outlives_the_turns() {
        let plan = AgentPlan::new("o").step("weigh a").step("weigh b");
        let mut context = Context::new(4000, "the task");
        let mut transcript = Transcript::default();
        transcript.push(Message::User("the task".to_owned()));
        for call in 1..=200 {
            let output = if call == 150 { "exit code 1\n3 tests failed" } else { "exit code 0\nfine" };
            turn(&mut transcript, call, output);
            if let Some(Message::Results(results)) = transcript.messages().last().cloned() {
                results.iter().for_each(|result| context.saw(result));
            }
            if context.is_full(transcript.size()) {
                context.compact(&mut transcript, Some(&plan), 0);
                assert!(is_sound(&transcript), "after call {call}");
                assert!(context.tokens(transcript.size()) <= 2300, "{}", context.tokens(transcript.size()));
            }
        }
        let Message::User(first) = &transcript.messages()[0] else { panic!("no task") };
        assert!(first.contains("2. [ ] weigh b") && first.contains("Open: step 1 is pending"), "{first}");
        assert!(first.contains("3 tests failed"), "{first}");
        assert_eq!(first.matches("left out to make room").count(), 1, "{first}");
    }

    #[test]
    fn the_question_that_a_conversation_goes_on_with_belongs_to_the_task() {
        let mut transcript = Transcript::default();
        transcript.push(Message::User("the task".to_owned()));
        assert_eq!(Context::task_of(transcript.messages()), "the task");
        (1..=200).for_each(|call| turn(&mut transcript, call, &"x".repeat(200)));
        let mut context = Context::new(4000, "the task");
        context.compact(&mut transcript, None, 0);
        assert!(transcript.messages().len() < 400, "turns were left out");
        transcript.push(Message::User("the check failed".to_owned()));
        assert_eq!(Context::task_of(transcript.messages()), "the task\n\nthe check failed");
    }

    #[test]
    fn the_provider_knows_better_how_much_a_token_is() {
        let mut context = Context::new(1000, "");
        assert_eq!(context.tokens(3500), 1000);
        context.counted(7000, 3500);
        assert_eq!(context.tokens(3500), 1750);
        context.counted(100, 90);
        assert_eq!(context.tokens(3500), 1750);
    }
}
