//! Walks the blocks of a plan and passes each to the part it belongs to.
//!
//! There are four parts: the preamble before the steps, the steps, the postconditions, and prose for people.
//!
//! **Invariant:** only blocks at the top level open fields; lists, quotations and code never do.

use self::name::{Name, name, spaced_name};
use super::Sink;
use super::blocks::{Block, BlockKind, Blocks, ItemPart, ParagraphLine, Strong};
use super::check;
use super::field::Field;
use super::free::Free;
use super::step::{Open, StepDraft};
use crate::language::diagnostic::say;
use crate::model::plan::{Check, Contract, Plan, Span};

mod headings;
mod name;
mod postconditions;
mod preamble;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Steps,
    /// Under a heading inside the steps that is not a step: not read, and already reported.
    Unread,
    Postconditions,
    Prose,
}

struct Reader<'a, 't> {
    text: &'t str,
    plan: &'a mut Plan,
    sink: &'a mut Sink,
    part: Place,
    steps_at: Option<Span>,
    steps_level: u8,
    step_level: Option<u8>,
    postconditions_at: Option<Span>,
    postconditions_level: u8,
    draft: Option<StepDraft>,
    /// The expected number of the next step; unknown after a heading for several steps.
    next: Option<u32>,
    /// After a wrong number: the next number if only that one is wrong.
    skipped: Option<u32>,
    numbers: std::collections::HashSet<u32>,
    malformed: bool,
    context: Option<Free>,
    seen_preamble: [bool; 3],
    warned_outside: bool,
}

/// Reads the body of a plan, from byte `from` on.
pub(super) fn read(text: &str, from: usize, piece: usize, plan: &mut Plan, sink: &mut Sink) {
    let mut reader = Reader {
        text,
        plan,
        sink,
        part: Place::Before,
        steps_at: None,
        steps_level: 2,
        step_level: None,
        postconditions_at: None,
        postconditions_level: 2,
        draft: None,
        next: Some(1),
        skipped: None,
        numbers: Default::default(),
        malformed: false,
        context: None,
        seen_preamble: [false; 3],
        warned_outside: false,
    };
    let mut blocks = Blocks::new(text, from, piece);
    let mut block = Block::default();
    while blocks.next(&mut block) {
        reader.block(&mut block);
    }
    reader.finish(from);
}

impl<'t> Reader<'_, 't> {
    fn block(&mut self, block: &mut Block<'t>) {
        self.unclosed(block);
        let in_step = self.part == Place::Steps && self.draft.is_some();
        if !block.hidden.is_empty() && (in_step || self.part == Place::Postconditions) {
            let shown = block.fence.as_ref().map_or(Span::at(0), |fence| fence.unseen_info);
            if let Some(first) = block.hidden.iter().find(|cut| is_html(self.text, **cut) && **cut != shown) {
                self.sink.push(say::hidden_html(check::first_line(self.text, *first)));
            }
        }
        match block.kind {
            BlockKind::Heading { level, underlined } => self.heading(block, level, underlined),
            BlockKind::Paragraph => self.paragraph(block),
            BlockKind::Fence => self.fence(block),
            BlockKind::List => self.list(block),
            BlockKind::Html => self.html(block),
            BlockKind::Other => self.other(block),
        }
    }

    /// Reports unclosed fences that no check reports itself.
    fn unclosed(&mut self, block: &Block<'t>) {
        let waiting = matches!(&self.draft, Some(StepDraft { open: Open::Check { waiting: true, .. }, .. }));
        let check = block.kind == BlockKind::Fence
            && (self.part == Place::Steps && waiting || self.part == Place::Postconditions);
        if let Some(fence) = block.fence.as_ref().filter(|fence| !fence.closed && !check) {
            self.sink.push(say::fence_open(check::first_line(self.text, fence.span)));
        }
        if self.part == Place::Postconditions {
            return;
        }
        for item in &block.items {
            for part in &item.parts {
                if let ItemPart::Fence(fence) = part
                    && !fence.closed
                {
                    self.sink.push(say::fence_open(check::first_line(self.text, fence.span)));
                }
            }
        }
    }

    fn close_step(&mut self, end: usize) {
        if let Some(draft) = self.draft.take() {
            self.plan.steps.push(draft.finish(self.text, end, self.sink));
        }
    }

    fn paragraph(&mut self, block: &mut Block<'t>) {
        match self.part {
            Place::Before => self.preamble(block),
            Place::Steps => {
                if self.draft.is_some() {
                    for line in &block.lines {
                        self.line_in_step(line, &block.hidden);
                    }
                    self.keep_hidden(block);
                } else {
                    self.outside(&block.lines);
                }
            }
            Place::Unread => {}
            Place::Postconditions => {
                for line in &block.lines {
                    self.expect_last(line.span, &block.hidden);
                }
            }
            Place::Prose => self.outside(&block.lines),
        }
    }

    /// Records hidden bytes of the open free text, which are cut out later.
    fn keep_hidden(&mut self, block: &Block<'t>) {
        if let Some(StepDraft { open: Open::Task(free) | Open::Rubric { free, .. }, .. }) = &mut self.draft {
            let from = free.hidden.last().map_or(0, |cut| cut.end);
            free.hidden.extend(block.hidden.iter().filter(|cut| cut.start >= from));
        }
    }

    /// Reports fields under no step, which are visible but not read.
    fn outside(&mut self, lines: &[ParagraphLine]) {
        for line in lines {
            if let Some(Name::Field(field)) = line.strong.as_ref().and_then(|s| name(self.text, s, line.span))
            {
                self.say_outside(line.span, field.field);
            }
        }
    }

    /// Reports this once per plan: a plan in another format would cause it on every line.
    fn say_outside(&mut self, span: Span, field: Field) {
        if !std::mem::replace(&mut self.warned_outside, true) {
            self.sink.push(say::field_outside(span, field.name()));
        }
    }

    fn line_in_step(&mut self, line: &ParagraphLine, hidden: &[Span]) {
        let found = match &line.strong {
            Some(strong) => name(self.text, strong, line.span),
            None => spaced_name(self.text, line.span),
        };
        let Some(draft) = &mut self.draft else { return };
        match found {
            Some(Name::Field(found)) => {
                draft.open(self.text, found.field, found.name, found.value, hidden, self.sink);
            }
            Some(Name::Near { span, name, known }) => {
                self.sink.push(say::field_unknown(span, &name, known));
                draft.refuse(self.text, Field::named(known), self.sink);
            }
            Some(Name::Form { span, field, fix }) => {
                self.sink.push(say::field_form(span, field.name(), fix));
                draft.refuse(self.text, Some(field), self.sink);
            }
            None => draft.line(self.text, line.span, hidden, self.sink),
        }
    }

    fn fence(&mut self, block: &mut Block<'t>) {
        let Some(fence) = block.fence.take() else { return };
        match self.part {
            Place::Before => {
                if let Some(context) = &mut self.context {
                    context.visible.push(fence.span);
                }
            }
            Place::Steps => {
                if let Some(draft) = &mut self.draft {
                    draft.fence(self.text, fence, self.sink);
                }
            }
            Place::Postconditions => match self.plan.postconditions.last_mut() {
                Some(last) if last.contract.is_none() => {
                    let span = Span::new(last.span.start, fence.span.end);
                    last.contract = check::shell(self.text, fence, self.sink)
                        .map(|shell| Contract { check: Check::Shell(shell), span });
                    last.span = span;
                }
                Some(_) => self.sink.push(say::contract_doubled(fence.span)),
                None => self.sink.push(say::text_unread(fence.span)),
            },
            Place::Unread | Place::Prose => {}
        }
    }

    fn list(&mut self, block: &mut Block<'t>) {
        match self.part {
            Place::Before => {
                if let Some(context) = &mut self.context {
                    context.visible.extend(&block.visible);
                }
            }
            Place::Steps => self.list_in_step(block),
            Place::Postconditions => {
                for item in &mut block.items {
                    let parts = std::mem::take(&mut item.parts);
                    self.postcondition(item.span, parts, &block.hidden);
                }
            }
            Place::Unread | Place::Prose => {}
        }
    }

    fn list_in_step(&mut self, block: &mut Block<'t>) {
        self.misplaced(block);
        for item in &mut block.items {
            let trailing = lazy_lines(self.text, item);
            let Some(draft) = &mut self.draft else { return };
            match &mut draft.open {
                Open::List(field) => {
                    let field = *field;
                    draft.item(self.text, field, item, &block.hidden, self.sink);
                }
                Open::Task(_) | Open::Rubric { .. } | Open::Refused => {}
                Open::Check { .. } | Open::Nothing => {
                    draft.unread(check::first_line(self.text, item.span), self.sink)
                }
            }
            let end = trailing.first().map_or(item.span.end, |line| line.span.start);
            if let Open::Task(free) | Open::Rubric { free, .. } = &mut draft.open {
                let inside = |span: &&Span| span.start >= item.span.start && span.start < end;
                free.visible.extend(spans_within(&block.visible, item.span).iter().filter(inside));
                let from = free.hidden.last().map_or(0, |cut| cut.end);
                let fresh = spans_within(&block.hidden, item.span).iter().filter(|cut| cut.start >= from);
                free.hidden.extend(fresh);
            }
            for line in trailing {
                self.line_in_step(&line, &block.hidden);
            }
        }
    }

    /// Reports fields in lists and quotations, which are visible but not read.
    fn misplaced(&mut self, block: &Block<'t>) {
        for strong in block.strongs() {
            self.misplaced_strong(strong);
        }
        for item in &block.items {
            for part in &item.parts {
                let ItemPart::Text(lines) = part else { continue };
                for (at, line) in lines.iter().enumerate() {
                    if let Some(strong) =
                        line.strong.as_ref().filter(|_| at == 0 || !is_lazy(self.text, line))
                    {
                        self.misplaced_strong(strong);
                    }
                }
            }
        }
    }

    fn misplaced_strong(&mut self, strong: &Strong) {
        if let Some(Name::Field(found)) = name(self.text, strong, strong.span) {
            self.sink.push(say::field_in_container(strong.span, found.field.name()));
        }
    }

    fn html(&mut self, block: &Block<'t>) {
        if self.part == Place::Steps {
            self.keep_hidden(block);
        }
    }

    fn other(&mut self, block: &Block<'t>) {
        match self.part {
            Place::Before => {
                if let Some(context) = &mut self.context {
                    context.visible.extend(&block.visible);
                }
            }
            Place::Steps => {
                self.misplaced(block);
                let Some(draft) = &mut self.draft else { return };
                if let Open::Task(free) | Open::Rubric { free, .. } = &mut draft.open {
                    free.visible.extend(&block.visible);
                }
                let is_rule =
                    block.span.of(self.text).trim_matches([' ', '-', '*', '_', '\n', '\r', '\t']).is_empty();
                match &draft.open {
                    Open::Check { .. } | Open::Nothing | Open::List(_) if !is_rule => {
                        draft.unread(check::first_line(self.text, block.span), self.sink);
                    }
                    Open::Check { .. } | Open::Nothing | Open::List(_) => {}
                    Open::Task(_) | Open::Rubric { .. } | Open::Refused => {}
                }
                self.keep_hidden(block);
            }
            Place::Unread | Place::Postconditions | Place::Prose => {}
        }
    }

    fn finish(&mut self, from: usize) {
        self.close_step(self.text.len());
        self.close_context();
        if self.plan.title.is_empty() {
            self.sink.push(say::no_title(Span::at(from)));
        }
        match self.steps_at {
            None => self.sink.push(say::no_steps_section(Span::at(from))),
            Some(at) if self.plan.steps.is_empty() && !self.malformed => self.sink.push(say::no_steps(at)),
            Some(_) => {}
        }
        for at in 0..self.plan.postconditions.len() {
            let postcondition = &self.plan.postconditions[at];
            if postcondition.contract.is_none() {
                self.sink.push(say::postcondition_check(check::first_line(self.text, postcondition.span)));
            }
        }
        if let Some(at) = self.postconditions_at.filter(|_| self.plan.postconditions.is_empty()) {
            self.sink.push(say::postcondition_none(at));
        }
    }
}

/// Returns whether a line continues an item only because no empty line separates it: it starts at the margin.
fn is_lazy(text: &str, line: &ParagraphLine) -> bool {
    line.span.start == 0 || text.as_bytes().get(line.span.start - 1) == Some(&b'\n')
}

/// Takes from an item the lines that follow a field name at the margin. Without an empty line in between,
/// Markdown counts them as part of the item, although the author did not mean that.
fn lazy_lines(text: &str, item: &mut super::blocks::ListItem) -> Vec<ParagraphLine> {
    let Some(ItemPart::Text(lines)) = item.parts.last_mut() else { return Vec::new() };
    let at = lines.iter().enumerate().skip(1).position(|(_, line)| {
        let bold = line.strong.as_ref().is_some_and(|strong| name(text, strong, line.span).is_some());
        bold && is_lazy(text, line)
    });
    match at {
        Some(at) => lines.split_off(at + 1),
        None => Vec::new(),
    }
}

/// Returns those of the sorted spans that start inside `within`.
fn spans_within(spans: &[Span], within: Span) -> &[Span] {
    let from = spans.partition_point(|span| span.start < within.start);
    let to = spans.partition_point(|span| span.start < within.end);
    &spans[from..to.max(from)]
}

fn is_html(text: &str, span: Span) -> bool {
    span.of(text).trim_start().starts_with('<')
}
