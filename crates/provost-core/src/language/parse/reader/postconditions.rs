//! Reads the postconditions: numbered sentences about the whole plan, each with its check.

use super::super::blocks::ItemPart;
use super::super::{check, visible_text};
use super::Reader;
use crate::language::diagnostic::say;
use crate::model::plan::{Check, Contract, Postcondition, Span};

impl Reader<'_, '_> {
    pub(super) fn postcondition(&mut self, span: Span, parts: Vec<ItemPart>, hidden: &[Span]) {
        let mut description = String::new();
        let mut contract: Option<Contract> = None;
        let mut tried = false;
        for part in parts {
            match part {
                ItemPart::Text(lines) => {
                    for line in lines {
                        if let Some(strong) = &line.strong {
                            self.misplaced_strong(strong);
                        }
                        let shown = visible_text(self.text, line.span, hidden);
                        let shown = shown.trim();
                        let used = contract
                            .as_mut()
                            .is_some_and(|contract| check::expect(contract, shown, line.span, self.sink));
                        if !used && !tried {
                            if !description.is_empty() && !shown.is_empty() {
                                description.push(' ');
                            }
                            description.push_str(shown);
                        }
                    }
                }
                ItemPart::Fence(fence) if tried => self.sink.push(say::contract_doubled(fence.span)),
                ItemPart::Fence(fence) => {
                    tried = true;
                    contract = check::shell(self.text, fence, self.sink)
                        .map(|shell| Contract { check: Check::Shell(shell), span });
                }
            }
        }
        let number = self.plan.postconditions.len() as u32 + 1;
        self.plan.postconditions.push(Postcondition { number, description, contract, span });
    }

    /// Reads a line after the block of the last postcondition.
    pub(super) fn expect_last(&mut self, line: Span, hidden: &[Span]) {
        if let Some(description) =
            numbered(line.of(self.text)).filter(|_| !self.plan.postconditions.is_empty())
        {
            let number = self.plan.postconditions.len() as u32 + 1;
            let description = description.to_string();
            self.plan.postconditions.push(Postcondition { number, description, contract: None, span: line });
            return;
        }
        let Some(last) = self.plan.postconditions.last_mut() else { return };
        if let Some(contract) = &mut last.contract {
            let shown = visible_text(self.text, line, hidden);
            check::expect(contract, shown.trim(), line, self.sink);
        }
    }
}

/// Reads `2. It stops` directly under a paragraph. Without an empty line, Markdown accepts only a list that
/// starts with 1, but the author meant the next item.
fn numbered(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let description = rest.strip_prefix(". ").filter(|_| (1..4).contains(&(line.len() - rest.len())))?;
    Some(description.trim())
}
