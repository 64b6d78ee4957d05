//! Reads the preamble before the steps: context, budget and priority.

use super::super::blocks::Block;
use super::super::field::Field;
use super::super::free::Free;
use super::super::{values, visible_text};
use super::Reader;
use super::name::{Bold, bold_name};
use crate::language::diagnostic::say;
use crate::model::plan::{Span, Spanned};
use crate::model::suggest;

const PREAMBLE: [&str; 3] = ["context", "budget", "priority"];

impl<'t> Reader<'_, 't> {
    pub(super) fn preamble(&mut self, block: &Block<'t>) {
        for line in &block.lines {
            let found = line.strong.as_ref().and_then(|strong| bold_name(self.text, strong, line.span));
            let known = found.as_ref().and_then(|found| {
                PREAMBLE
                    .iter()
                    .position(|known| known.eq_ignore_ascii_case(found.shown.trim()))
                    .map(|at| (at, found))
            });
            match (known, &found) {
                (Some((at, found)), _) => self.preamble_field(at, found, line.span, &block.hidden),
                (None, Some(found)) => {
                    self.close_context();
                    self.preamble_stranger(found);
                }
                (None, None) => {
                    if let Some(context) = &mut self.context {
                        context.visible.push(line.span);
                    }
                }
            }
        }
        if let Some(context) = &mut self.context {
            let from = context.hidden.last().map_or(0, |cut| cut.end);
            context.hidden.extend(block.hidden.iter().filter(|cut| cut.start >= from));
        }
    }

    fn preamble_field(&mut self, at: usize, found: &Bold<'_>, line: Span, hidden: &[Span]) {
        self.close_context();
        if std::mem::replace(&mut self.seen_preamble[at], true) {
            self.sink.push(say::field_doubled(found.span, PREAMBLE[at]));
            return;
        }
        let value = Span::new(found.value, line.end.max(found.value));
        let shown = visible_text(self.text, value, hidden);
        let shown = shown.trim();
        match PREAMBLE[at] {
            "context" => self.context = Some(Free { start: None, visible: vec![value], hidden: Vec::new() }),
            "priority" => {
                self.plan.priority = Some(values::uncommented(shown).to_string()).filter(|p| !p.is_empty())
            }
            _ => match values::budget(values::uncommented(shown)) {
                Ok(budget) => self.plan.budget = Some(Spanned::new(budget, value)),
                Err(part) => {
                    let form = "Write it as `max 200k tokens, $1.50, 20 minutes`.";
                    self.sink.push(say::field_value(value, "budget", &part, form));
                }
            },
        }
    }

    /// Handles another bold name: a misspelt one, a field of a step, or (mostly) prose.
    fn preamble_stranger(&mut self, found: &Bold<'_>) {
        if let Some(field) = Field::named(found.shown.trim()) {
            // `**Plan:**` and `**Target:**` are ordinary words before the steps.
            if matches!(field, Field::Contract | Field::Precondition | Field::OnFail) {
                self.say_outside(found.span, field);
            }
        } else if let Some(known) = suggest::suggestion(found.shown.trim(), PREAMBLE) {
            self.sink.push(say::field_unknown(found.name, found.shown.trim(), known));
        }
    }

    pub(super) fn close_context(&mut self) {
        if let Some(context) = self.context.take() {
            self.plan.context = Some(context.build(self.text)).filter(|context| !context.is_empty());
        }
    }
}
