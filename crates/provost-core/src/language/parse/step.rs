//! Reads the fields of one step, in any order.
//!
//! The name of a field at the start of a line opens it; the field gets the following text until the next
//! field opens.
//!
//! **Invariant:** a second field of the same name never overwrites the first.

use super::blocks::CodeFence;
use super::check::{expect, shell};
use super::field::Field;
use super::free::Free;
use super::heading::StepHeading;
use super::{Sink, values, visible_text};
use crate::language::diagnostic::say;
use crate::model::plan::{Check, Contract, Needs, Shell, Span, Spanned, Step};

mod field_values;

use field_values::single;

/// The field that gets the following text.
pub(super) enum Open {
    /// None: text here is not read.
    Nothing,
    Task(Free),
    /// A check that is `waiting` for its block, or has it and takes expectations.
    Check {
        field: Field,
        at: Span,
        waiting: bool,
    },
    Rubric {
        field: Field,
        at: Span,
        free: Free,
    },
    List(Field),
    /// The field was rejected; its text is dropped without a message.
    Refused,
}

pub(super) struct StepDraft {
    pub step: Step,
    pub open: Open,
    seen: u32,
    /// Fields that were written with a mistake: already reported, so not reported as missing.
    tried: u32,
    warned_text: bool,
}

impl StepDraft {
    pub(super) fn new(heading: StepHeading, section: Span, sink: &mut Sink) -> Self {
        let (needs, seen) = match heading.needs {
            Some(needs) => (Needs::Steps(needs), 1 << Field::Needs as u32),
            None => (Needs::Before, 0),
        };
        if let Some(span) = heading.unread_needs {
            let form = "Write `(depends on Task 1, Task 2)`, or use `**needs:** 1, 2`.";
            sink.push(say::field_value(span, "depends on", "the note in the title", form));
        }
        let step = Step {
            number: heading.number,
            title: heading.title,
            heading: heading.span,
            section,
            mark: heading.mark,
            target: None,
            needs,
            subscriptions: Vec::new(),
            task: None,
            precondition: None,
            contract: None,
            timeout: None,
            budget: None,
            contract_timeout: None,
            protect: Vec::new(),
            touches: None,
            network: None,
            secrets: Vec::new(),
            agent_network: None,
            git: None,
            hidden: None,
            writes: None,
            verify_runs: None,
            lasting: None,
            guard: None,
            prove: None,
            publishes: Vec::new(),
            plan: None,
            on_fail: None,
        };
        Self { step, open: Open::Nothing, seen, tried: 0, warned_text: false }
    }

    fn has_seen(&self, field: Field) -> bool {
        self.seen & (1 << field as u32) != 0
    }

    /// Rejects a field that could not be read; its text is dropped.
    pub(super) fn refuse(&mut self, text: &str, field: Option<Field>, sink: &mut Sink) {
        self.close(text, sink);
        self.tried |= field.map_or(0, |field| 1 << field as u32);
        self.open = Open::Refused;
    }

    /// Opens a field. `name` is the bold name, `value` the rest of its line, `hidden` the invisible bytes.
    pub(super) fn open(
        &mut self,
        text: &str,
        field: Field,
        name: Span,
        value: Span,
        hidden: &[Span],
        sink: &mut Sink,
    ) {
        self.close(text, sink);
        if self.has_seen(field) {
            let titled = field == Field::Needs && name.start > self.step.heading.end;
            let from_title = titled
                && matches!(&self.step.needs, Needs::Steps(steps)
                if steps.first().is_some_and(|step| step.span.start < self.step.heading.end));
            sink.push(if from_title {
                say::needs_twice(name)
            } else {
                say::field_doubled(name, field.name())
            });
            self.open = Open::Refused;
            return;
        }
        self.seen |= 1 << field as u32;
        match field {
            Field::Task => {
                let mut free = Free { start: Some(name.start), ..Free::default() };
                if !value.is_empty() {
                    free.visible.push(value);
                }
                free.hidden
                    .extend(hidden.iter().filter(|cut| cut.start >= value.start && cut.end <= value.end));
                self.open = Open::Task(free);
            }
            Field::Precondition | Field::Contract => self.open_check(text, field, name, value, hidden, sink),
            Field::Subscriptions | Field::Protect | Field::Publishes | Field::Touches | Field::Secrets => {
                if field == Field::Touches {
                    self.step.touches = Some(Vec::new());
                }
                self.open = Open::List(field);
                let (shown, span) = single(text, value, hidden);
                self.split(text, field, &shown, span, sink);
            }
            Field::Target
            | Field::Needs
            | Field::Timeout
            | Field::ContractTimeout
            | Field::Network
            | Field::AgentNetwork
            | Field::Git
            | Field::Hidden
            | Field::Writes
            | Field::VerifyRuns
            | Field::Lasting
            | Field::Guard
            | Field::Prove
            | Field::Plan
            | Field::OnFail
            | Field::Budget => {
                let (shown, span) = single(text, value, hidden);
                self.single(text, field, &shown, span, name, sink);
                self.open = Open::Nothing;
            }
        }
    }

    fn open_check(
        &mut self,
        text: &str,
        field: Field,
        name: Span,
        value: Span,
        hidden: &[Span],
        sink: &mut Sink,
    ) {
        let shown = visible_text(text, value, hidden);
        let shown = shown.trim();
        let (word, rest) = shown.split_once([' ', '\t', ':']).unwrap_or((shown, ""));
        let at = Span::new(name.start, value.end.max(name.end));
        match word.trim_matches('`').to_ascii_lowercase().as_str() {
            "human" => {
                self.put(field, Contract { check: Check::Human, span: at });
                self.open = Open::Nothing;
            }
            "judge" => {
                let start = value.end - rest.len().min(value.end - value.start);
                let mut free = Free { start: Some(name.start), ..Free::default() };
                if !rest.trim().is_empty() {
                    free.visible.push(Span::new(start, value.end));
                }
                self.open = Open::Rubric { field, at, free };
            }
            "check" if named_check(shown).is_some() => {
                let command = named_check(shown).unwrap_or_default().to_owned();
                let check = Check::Shell(Shell { command, body: value, expectations: Vec::new() });
                self.put(field, Contract { check, span: at });
                self.open = Open::Check { field, at, waiting: false };
            }
            _ if shown.len() > 2 && shown.starts_with('`') && shown.ends_with('`') => {
                sink.push(say::contract_inline(value, field.name(), shown.trim_matches('`')));
                self.open = Open::Refused;
            }
            _ => {
                if !values::uncommented(shown).is_empty() {
                    sink.push(say::text_unread(value));
                }
                self.open = Open::Check { field, at, waiting: true };
            }
        }
    }

    /// Reads a fenced block, if a check waits for one.
    pub(super) fn fence(&mut self, text: &str, fence: CodeFence, sink: &mut Sink) {
        match &mut self.open {
            Open::Check { field, at, waiting } if *waiting => {
                *waiting = false;
                let (field, span) = (*field, Span::new(at.start, fence.span.end));
                if let Some(shell) = shell(text, fence, sink) {
                    self.put(field, Contract { check: Check::Shell(shell), span });
                }
            }
            Open::Check { .. } => sink.push(say::contract_doubled(fence.span)),
            Open::Task(free) | Open::Rubric { free, .. } => {
                free.visible.push(fence.span);
                if !fence.unseen_info.is_empty() {
                    free.hidden.push(fence.unseen_info);
                }
            }
            Open::Refused => {}
            Open::Nothing | Open::List(_) => self.unread(fence.span, sink),
        }
    }

    /// Reads a line that opens no field.
    pub(super) fn line(&mut self, text: &str, span: Span, hidden: &[Span], sink: &mut Sink) {
        match &mut self.open {
            Open::Check { field, waiting: false, .. } => {
                let field = *field;
                let shown = visible_text(text, span, hidden);
                if shown.trim().is_empty() {
                    return;
                }
                let slot = if field == Field::Contract {
                    &mut self.step.contract
                } else {
                    &mut self.step.precondition
                };
                // If the block was rejected, drop its expectations too.
                if slot.as_mut().is_some_and(|contract| !expect(contract, &shown, span, sink)) {
                    self.unread(span, sink);
                }
            }
            Open::Refused => {}
            Open::Task(free) | Open::Rubric { free, .. } => free.visible.push(span),
            Open::Check { .. } | Open::Nothing | Open::List(_) => {
                let shown = visible_text(text, span, hidden);
                if let Some((name, field)) = field_of_another_tool(&shown) {
                    self.warned_text = true;
                    sink.push(say::field_elsewhere(span, name, field.name()));
                } else if !shown.trim().is_empty() {
                    self.unread(span, sink);
                }
            }
        }
    }

    /// Reports unread text, once per step.
    pub(super) fn unread(&mut self, span: Span, sink: &mut Sink) {
        if !self.warned_text {
            self.warned_text = true;
            sink.push(say::text_unread(span));
        }
    }

    fn put(&mut self, field: Field, contract: Contract) {
        match field {
            Field::Precondition => self.step.precondition = Some(contract),
            _ => self.step.contract = Some(contract),
        }
    }

    /// Closes the open field.
    pub(super) fn close(&mut self, text: &str, sink: &mut Sink) {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Task(free) => {
                let span = free.span();
                let task = free.build(text);
                if task.is_empty() {
                    self.seen &= !(1 << Field::Task as u32);
                } else {
                    self.step.task = Some(Spanned::new(task, span));
                }
            }
            Open::Rubric { field, at, free } => {
                let span = Span::new(at.start, free.span().end.max(at.end));
                let rubric = free.build(text);
                self.put(field, Contract { check: Check::Judge { rubric }, span });
            }
            Open::Check { field, at, waiting: true } => {
                sink.push(say::contract_missing_block(at, field.name()));
            }
            Open::Check { .. } | Open::Nothing | Open::List(_) | Open::Refused => {}
        }
    }

    /// Finishes the step. Missing fields are reported here, because only now all fields have been read.
    pub(super) fn finish(mut self, text: &str, end: usize, sink: &mut Sink) -> Step {
        self.close(text, sink);
        self.step.section.end = end;
        let (at, number) = (self.step.heading, self.step.number);
        let delegated = self.step.plan.is_some();
        self.seen |= self.tried;
        if !self.has_seen(Field::Task) && !delegated {
            sink.push(say::no_task(at, number));
        }
        if !self.has_seen(Field::Target) && !delegated {
            sink.push(say::no_target(at, number));
        }
        if !self.has_seen(Field::Contract) {
            sink.push(say::no_contract(at, number));
        }
        self.step
    }
}

/// Reads `**agent:** coder`: a name that other tools use for a field.
fn field_of_another_tool(shown: &str) -> Option<(&str, Field)> {
    let (bold, after) = shown.trim_start().strip_prefix("**")?.split_once("**")?;
    let name = bold.strip_suffix(':').or_else(|| after.starts_with(':').then_some(bold))?.trim();
    Some((name, Field::known_elsewhere_as(name)?))
}

/// Returns `check:unit`, which names a check of the configuration.
fn named_check(shown: &str) -> Option<&str> {
    let shown = values::uncommented(shown).trim_matches('`');
    let shell = Shell { command: shown.to_owned(), body: Span::default(), expectations: Vec::new() };
    shell.check_name().is_some().then_some(shown)
}
