//! Reads headings: sections, steps, and headings that look like steps.

use super::super::blocks::Block;
use super::super::check;
use super::super::heading::{self, Heading};
use super::super::step::{Open, StepDraft};
use super::{Place, Reader};
use crate::language::diagnostic::say;
use crate::model::plan::{Span, StepNumber};

impl<'t> Reader<'_, 't> {
    pub(super) fn heading(&mut self, block: &mut Block<'t>, level: u8, underlined: bool) {
        let in_steps = matches!(self.part, Place::Steps | Place::Unread);
        let section = match block.pieces.first() {
            // A step's heading is not a section; testing this first is faster, since there are many.
            Some((_, piece)) if piece.starts_with(|c: char| c.is_ascii_digit()) => None,
            Some(_) | None => section_name(&heading::shown(&block.pieces)),
        };
        if underlined && in_steps && section.is_none() {
            return self.underlined(block);
        }
        if let Some(section) = section.filter(|_| !in_steps || Some(level) != self.step_level || level <= 2) {
            return self.section(section, block.span, level);
        }
        if in_steps {
            return self.heading_in_steps(block, level);
        }
        if self.part == Place::Postconditions {
            if level <= self.postconditions_level {
                self.part = Place::Prose;
            }
            return;
        }
        if self.part == Place::Before {
            self.close_context();
            if self.plan.title.is_empty() && level == 1 {
                self.plan.title = heading::shown(&block.pieces);
            }
        }
    }

    fn section(&mut self, section: Section, span: Span, level: u8) {
        self.close_step(span.start);
        self.close_context();
        let line = check::first_line(self.text, span);
        match section {
            Section::Steps if self.steps_at.is_some() => {
                self.sink.push(say::section_doubled(line, "Steps"));
                self.part = Place::Prose;
            }
            Section::Steps => {
                self.steps_at = Some(line);
                self.steps_level = level;
                self.part = Place::Steps;
            }
            Section::Postconditions if self.postconditions_at.is_some() => {
                self.sink.push(say::section_doubled(line, "Postconditions"));
                self.part = Place::Prose;
            }
            Section::Postconditions => {
                self.postconditions_at = Some(line);
                self.postconditions_level = level;
                self.part = Place::Postconditions;
            }
        }
    }

    /// Reports a paragraph that a line of `-` or `=` turned into a heading, and reads it as a paragraph.
    fn underlined(&mut self, block: &mut Block<'t>) {
        let end = block.lines.last().map_or(block.span.end, |line| line.span.end);
        let underline = self.text[end..].find('\n').map_or(end, |at| end + at + 1);
        self.sink.push(say::underlined(Span::new(block.span.start, end), underline));
        self.paragraph(block);
    }

    fn heading_in_steps(&mut self, block: &Block<'t>, level: u8) {
        let line = check::first_line(self.text, block.span);
        let read = heading::read(self.text, &block.pieces, line.end);
        let is_step = matches!(read, Heading::Step(_));
        match self.step_level {
            None if is_step => self.step_level = Some(level),
            // The heading level of steps is not known yet; any heading below the section may be meant as one.
            None if level > self.steps_level => {}
            None => {
                self.part = Place::Prose;
                return;
            }
            Some(steps) if level == steps => {}
            Some(steps) if level > steps => {
                if is_step && self.draft.is_some() {
                    self.sink.push(say::step_level(line, steps, level));
                }
                if let Some(draft) = &mut self.draft {
                    match &draft.open {
                        Open::Task(_) | Open::Rubric { .. } | Open::Refused => {
                            draft.line(self.text, block.span, &block.hidden, self.sink);
                        }
                        Open::Check { .. } | Open::Nothing | Open::List(_) => {}
                    }
                }
                return;
            }
            Some(steps) => {
                self.close_step(block.span.start);
                if is_step {
                    self.sink.push(say::step_level(line, steps, level));
                }
                self.part = if level <= self.steps_level { Place::Prose } else { Place::Unread };
                return;
            }
        }
        self.close_step(block.span.start);
        match read {
            Heading::Step(heading) => {
                self.number(heading.number.0, heading.span);
                self.part = Place::Steps;
                self.draft = Some(StepDraft::new(*heading, block.span, self.sink));
            }
            Heading::Range { number } => {
                self.sink.push(say::step_range(line, number.of(self.text)));
                self.unread(None);
            }
            Heading::Other { number, fix } => {
                let next = number.or(self.next).unwrap_or(self.plan.steps.len() as u32 + 1);
                self.sink.push(say::step_heading(line, next, fix));
                self.unread(Some(number.unwrap_or(next).saturating_add(1)));
            }
        }
    }

    /// Marks the following text as under no step; `next` is the number that may follow.
    fn unread(&mut self, next: Option<u32>) {
        self.malformed = true;
        self.part = Place::Unread;
        self.next = next;
    }

    fn number(&mut self, number: u32, heading: Span) {
        let digits = Span::new(heading.start, heading.start + number.to_string().len());
        if !self.numbers.insert(number) {
            self.sink.push(say::step_doubled(digits, StepNumber(number)));
            self.skipped = self.next.map(|expected| expected.saturating_add(1));
            return;
        }
        let skipped = std::mem::take(&mut self.skipped);
        match self.next {
            Some(expected) if expected != number && skipped != Some(number) => {
                self.sink.push(say::step_gap(digits, expected, StepNumber(number)));
                // Either this number is wrong or earlier ones are missing; report it once.
                self.skipped = Some(expected.saturating_add(1));
            }
            Some(_) | None => {}
        }
        self.next = Some(number.saturating_add(1));
    }
}

#[derive(Clone, Copy)]
enum Section {
    Steps,
    Postconditions,
}

fn section_name(name: &str) -> Option<Section> {
    let name = name.trim().trim_end_matches(':');
    if name.eq_ignore_ascii_case("steps") {
        Some(Section::Steps)
    } else if ["postconditions", "post-conditions", "postcondition"]
        .iter()
        .any(|n| n.eq_ignore_ascii_case(name))
    {
        Some(Section::Postconditions)
    } else {
        None
    }
}
