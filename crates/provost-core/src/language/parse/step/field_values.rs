//! Reads the values of fields: one value on a line, or a list of them.

use std::borrow::Cow;

use super::super::blocks::{ItemPart, ListItem};
use super::super::field::Field;
use super::super::{Sink, characters, heading, values, visible_text};
use super::StepDraft;
use crate::language::diagnostic::say;
use crate::model::plan::{AgentNetwork, GitPolicy, Needs, Span, Spanned, StepNumber, Subscription, Writes};

impl StepDraft {
    /// Reads a value on one line.
    pub(super) fn single(
        &mut self,
        text: &str,
        field: Field,
        value: &str,
        span: Span,
        name: Span,
        sink: &mut Sink,
    ) {
        let at = if span.is_empty() { name } else { span };
        let read = match field {
            Field::Target => word(value).map(|value| {
                characters::ascii(text, span, "a target", sink);
                self.step.target = Some(Spanned::new(value, span));
            }),
            Field::Plan => word(value).map(|value| self.step.plan = Some(Spanned::new(value, span))),
            Field::Needs => needs(value, span.start).map(|needs| self.step.needs = Needs::Steps(needs)),
            Field::Timeout => {
                values::duration(value).map(|value| self.step.timeout = Some(Spanned::new(value, span)))
            }
            Field::ContractTimeout => values::duration(value)
                .map(|value| self.step.contract_timeout = Some(Spanned::new(value, span))),
            Field::Network => {
                values::switch(value).map(|value| self.step.network = Some(Spanned::new(value, span)))
            }
            Field::AgentNetwork => AgentNetwork::named(value)
                .map(|value| self.step.agent_network = Some(Spanned::new(value, span))),
            Field::Git => {
                GitPolicy::named(value).map(|value| self.step.git = Some(Spanned::new(value, span)))
            }
            Field::Hidden => {
                values::switch(value).map(|value| self.step.hidden = Some(Spanned::new(value, span)))
            }
            Field::Lasting => {
                values::switch(value).map(|value| self.step.lasting = Some(Spanned::new(value, span)))
            }
            Field::Guard => {
                values::switch(value).map(|value| self.step.guard = Some(Spanned::new(value, span)))
            }
            Field::Prove => {
                values::switch(value).map(|value| self.step.prove = Some(Spanned::new(value, span)))
            }
            Field::Writes => value
                .eq_ignore_ascii_case("tests")
                .then(|| self.step.writes = Some(Spanned::new(Writes::Tests, span))),
            Field::VerifyRuns => value
                .parse::<u32>()
                .ok()
                .filter(|runs| (1..=100).contains(runs))
                .map(|runs| self.step.verify_runs = Some(Spanned::new(runs, span))),
            Field::OnFail => {
                values::on_fail(value).map(|value| self.step.on_fail = Some(Spanned::new(value, span)))
            }
            Field::Budget => {
                values::budget(value).ok().map(|value| self.step.budget = Some(Spanned::new(value, span)))
            }
            Field::Subscriptions
            | Field::Task
            | Field::Precondition
            | Field::Contract
            | Field::Protect
            | Field::Touches
            | Field::Secrets
            | Field::Publishes => Some(()),
        };
        if read.is_none() {
            sink.push(say::field_value(at, field.name(), value, field.form()));
        }
    }

    /// Reads several values on one line, separated by commas.
    pub(super) fn split(&mut self, text: &str, field: Field, value: &str, span: Span, sink: &mut Sink) {
        let mut at = span.start;
        for part in between_commas(value) {
            let start = at + (part.len() - part.trim_start().len());
            let part_end = start + part.trim().len();
            if !part.trim().is_empty() && part.trim() != "none" {
                self.entry(text, field, part.trim(), Span::new(start, part_end), sink);
            }
            at += part.len() + 1;
        }
    }

    /// Reads one subscription, one glob or one topic.
    fn entry(&mut self, text: &str, field: Field, value: &str, span: Span, sink: &mut Sink) {
        let quoted = value.len() > 1
            && ['`', '"'].iter().any(|quote| value.starts_with(*quote) && value.ends_with(*quote));
        let (value, span) = match value.get(1..value.len().saturating_sub(1)) {
            Some(inner) if quoted => (inner, Span::new(span.start + 1, span.end - 1)),
            _ => (value, span),
        };
        if matches!(field, Field::Protect | Field::Touches) {
            characters::ascii(text, span, "a glob", sink);
            let globs = match field {
                Field::Touches => self.step.touches.get_or_insert_default(),
                _ => &mut self.step.protect,
            };
            globs.push(Spanned::new(value.to_string(), span));
            return;
        }
        if field == Field::Secrets {
            match is_variable(value) {
                true => self.step.secrets.push(Spanned::new(value.to_owned(), span)),
                false => sink.push(say::field_value(span, field.name(), value, field.form())),
            }
            return;
        }
        if field == Field::Publishes {
            match topic(value.strip_prefix("topic:").unwrap_or(value).trim()) {
                Some(topic) => self.step.publishes.push(Spanned::new(topic, span)),
                None => sink.push(say::subscription_form(span, value)),
            }
            return;
        }
        let (kind, name) = value.split_once(':').unwrap_or(("", value));
        let name = name.trim();
        let subscription = match kind {
            "file" if !name.is_empty() => {
                characters::ascii(text, span, "a path", sink);
                if name.starts_with(['/', '~']) || name.split(['/', '\\']).any(|part| part == "..") {
                    sink.push(say::subscription_outside(span, name));
                    return;
                }
                Subscription::File(name.strip_prefix("./").unwrap_or(name).to_string())
            }
            "topic" => match topic(name) {
                Some(topic) => Subscription::Topic(topic),
                None => return sink.push(say::subscription_form(span, value)),
            },
            _ => return sink.push(say::subscription_form(span, value)),
        };
        self.step.subscriptions.push(Spanned::new(subscription, span));
    }

    /// Reads a list item that belongs to the open field.
    pub(crate) fn item(
        &mut self,
        text: &str,
        field: Field,
        item: &ListItem,
        hidden: &[Span],
        sink: &mut Sink,
    ) {
        for part in &item.parts {
            match part {
                ItemPart::Text(lines) => {
                    for line in lines {
                        let (shown, span) = single(text, line.span, hidden);
                        if !shown.is_empty() {
                            self.entry(text, field, &shown, span, sink);
                        }
                    }
                }
                ItemPart::Fence(fence) => sink.push(say::text_unread(fence.span)),
            }
        }
    }
}

/// Returns the visible part of a one-line value without its comment, and its span.
pub(super) fn single<'t>(text: &'t str, value: Span, hidden: &[Span]) -> (Cow<'t, str>, Span) {
    match visible_text(text, value, hidden) {
        Cow::Borrowed(shown) => {
            let (from, to) = kept(shown);
            (Cow::Borrowed(&shown[from..to]), Span::new(value.start + from, value.start + to))
        }
        // If something was cut out of the middle, the span covers the whole value.
        Cow::Owned(shown) => {
            let (from, to) = kept(&shown);
            (Cow::Owned(shown[from..to].to_string()), value)
        }
    }
}

/// Splits at commas outside of braces: `src/{a,b}` is one glob.
fn between_commas(value: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    value.split(move |letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

/// Accepts a name that can be a file name.
fn topic(name: &str) -> Option<String> {
    let fits = !name.is_empty() && !name.contains(['/', '\\', ' ']) && !name.starts_with('.');
    fits.then(|| name.to_string())
}

/// Returns the range of a value without comment, trailing backslash and surrounding code marks.
fn kept(shown: &str) -> (usize, usize) {
    let trimmed = shown.trim_start();
    let from = shown.len() - trimmed.len();
    let kept = values::uncommented(trimmed).trim_end_matches('\\').trim_end();
    let to = from + kept.len();
    let code = kept.len() > 2
        && kept.starts_with('`')
        && kept.ends_with('`')
        && !kept[1..kept.len() - 1].contains('`');
    if code { (from + 1, to - 1) } else { (from, to) }
}

fn word(value: &str) -> Option<String> {
    (!value.is_empty() && !value.contains(char::is_whitespace)).then(|| value.to_string())
}

/// Recognises a valid name of an environment variable.
fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn needs(value: &str, base: usize) -> Option<Vec<Spanned<StepNumber>>> {
    if value.eq_ignore_ascii_case("none") {
        return Some(Vec::new());
    }
    heading::numbers(value, base).filter(|needs| !needs.is_empty())
}
