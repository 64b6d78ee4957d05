//! Reads a fenced block as a check with its expectations.

use super::blocks::CodeFence;
use super::values::{self, Misread};
use super::{Sink, characters};
use crate::language::diagnostic::say;
use crate::model::plan::{Check, Contract, Shell, Span, Spanned};

/// Returns the check of a fenced block, if it is one.
pub(super) fn shell(text: &str, fence: CodeFence, sink: &mut Sink) -> Option<Shell> {
    let opening = first_line(text, fence.span);
    if !fence.closed {
        sink.push(say::fence_open(opening));
        return None;
    }
    let language = fence.info.of(text);
    if !language.is_empty()
        && !["shell", "bash", "sh"].iter().any(|known| known.eq_ignore_ascii_case(language))
    {
        sink.push(say::contract_language(opening, language));
        return None;
    }
    let comments_only = fence.command.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#')
    });
    if comments_only {
        sink.push(say::contract_empty(fence.span));
        return None;
    }
    characters::ascii(text, fence.body, "a contract", sink);
    Some(Shell { command: fence.command, body: fence.body, expectations: Vec::with_capacity(1) })
}

pub(super) fn first_line(text: &str, span: Span) -> Span {
    let line = span.of(text).lines().next().unwrap_or("");
    Span::new(span.start, span.start + line.trim_end().len())
}

/// Adds an expectation to a check; returns `false` if the line is not one.
pub(super) fn expect(contract: &mut Contract, line: &str, span: Span, sink: &mut Sink) -> bool {
    let Check::Shell(shell) = &mut contract.check else { return false };
    match values::expectation(line) {
        Ok(expectation) => {
            shell.expectations.push(Spanned::new(expectation, span));
            contract.span.end = contract.span.end.max(span.end);
            true
        }
        Err(Misread::Form) => {
            sink.push(say::expectation(span, line.trim()));
            true
        }
        Err(Misread::Pattern(why)) => {
            sink.push(say::regex_invalid(span, &why));
            true
        }
        Err(Misread::Other) => false,
    }
}
