//! Shows the output that a contract hides.
//!
//! `! make test >/dev/null 2>&1` holds for any failure, also if a tool is missing. provost runs such a contract
//! once more with its output shown, and reads there why a command failed.
//!
//! **Invariant:** the text that is returned differs only in redirections to `/dev/null`.

use crate::language::{inconclusive_failure, shell};
use crate::model::plan::{Expectation, Shell};

/// Returns the contract without its redirections to `/dev/null`, if it has any and may hold although a command
/// failed. A contract that expects a certain output shows why it fails.
pub fn shown(contract: &Shell) -> Option<Shell> {
    if contract.names_its_failure() || !inconclusive_failure::may_swallow(contract) {
        return None;
    }
    let text = &contract.command;
    let script = shell::read(text);
    let hidden = script.words.iter().filter(|word| word.literal(text).as_deref() == Some("/dev/null"));
    let mut places: Vec<(usize, usize, &str)> =
        hidden.filter_map(|word| redirection(text, word.start).map(|(at, to)| (at, word.end, to))).collect();
    places.retain(|(at, _, _)| !is_of_source(text, *at));
    if places.is_empty() {
        return None;
    }
    places.sort_unstable();
    places.dedup();
    let (mut command, mut from) = (String::with_capacity(text.len()), 0);
    for (start, end, instead) in places {
        command.push_str(text.get(from..start)?);
        command.push_str(instead);
        from = end;
    }
    command.push_str(text.get(from..)?);
    let is_exit = |each: &Expectation| matches!(each, Expectation::ExitIs(_) | Expectation::ExitIsNot(_));
    let expectations = contract.expectations.iter().filter(|each| is_exit(&each.value)).cloned().collect();
    Some(Shell { command, expectations, ..contract.clone() })
}

/// Returns whether the contract holds because a command fails: it is negated, or its success ends the contract
/// with a failure. A failure that is only tolerated (`make clean || true`) may have any reason.
pub fn is_negated(contract: &Shell) -> bool {
    let words: Vec<&str> = contract.command.split_whitespace().collect();
    let fails = |word: &str| matches!(word.trim_end_matches([';', ')', '}']), "exit" | "false" | "return");
    let ends = |pair: &[&str]| matches!(pair[0], "&&" | "then") && fails(pair[1]);
    contract.is_meant_to_fail() || words.contains(&"!") || words.windows(2).any(ends)
}

/// Returns whether the redirection belongs to a command that reads settings (`source .env 2>/dev/null`).
fn is_of_source(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let command = before.rsplit([';', '|', '&', '\n', '(', '{']).next().unwrap_or_default().trim_start();
    command.starts_with("source ") || command.starts_with(". ")
}

/// Returns where the redirection of an output to this target begins, and one that leaves the output where it
/// is.
fn redirection(text: &str, target: usize) -> Option<(usize, &'static str)> {
    let before = text.get(..target)?.trim_end_matches([' ', '\t']);
    let before = before.strip_suffix(['|', '&']).unwrap_or(before);
    let before = before.strip_suffix('>')?;
    let before = before.strip_suffix('>').unwrap_or(before);
    if let Some(both) = before.strip_suffix('&') {
        return Some((both.len(), ">&1"));
    }
    let word = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_number = word.is_empty() || word.ends_with(|letter: char| " \t\n;|&()".contains(letter));
    match &before[word.len()..] {
        "2" if is_number => Some((word.len(), "2>&2")),
        "1" if is_number => Some((word.len(), ">&1")),
        number if number.is_empty() || !is_number => Some((before.len(), ">&1")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::Span;

    fn shown_text(command: &str) -> Option<String> {
        let contract = Shell { command: command.to_owned(), body: Span::default(), expectations: Vec::new() };
        shown(&contract).map(|shell| shell.command)
    }

    #[test]
    fn what_goes_to_dev_null_is_shown() {
        for (command, wanted) in [
            ("! make t >/dev/null 2>&1", "! make t >&1 2>&1"),
            ("! make t > /dev/null 2>/dev/null", "! make t >&1 2>&2"),
            ("! make t &>/dev/null", "! make t >&1"),
            ("! make t &>> /dev/null", "! make t >&1"),
            ("! make t >& /dev/null", "! make t >&1"),
            ("! make t1>/dev/null", "! make t1>&1"),
            ("! { make t; } 1>\"/dev/null\" 2>&1", "! { make t; } >&1 2>&1"),
            ("exec >/dev/null 2>&1; ! make t", "exec >&1 2>&1; ! make t"),
            ("make t >/dev/null 2>&1 || true", "make t >&1 2>&1 || true"),
            ("! make t </dev/null >/dev/null", "! make t </dev/null >&1"),
        ] {
            assert_eq!(shown_text(command).as_deref(), Some(wanted), "{command}");
        }
    }

    #[test]
    fn a_contract_that_hides_nothing_stays_as_it_is() {
        for command in [
            "make t >/dev/null 2>&1",
            "! make t",
            "! diff /dev/null x",
            "! make t </dev/null",
            "! make t 3>/dev/null",
            "! grep -q '>/dev/null' x",
            ". .venv/bin/activate 2>/dev/null || true; ! grep -q TODO src",
        ] {
            assert_eq!(shown_text(command), None, "{command}");
        }
    }

    #[test]
    fn a_failure_that_is_only_tolerated_is_not_meant() {
        let is_negated = |command: &str| {
            is_negated(&Shell {
                command: command.to_owned(),
                body: Span::default(),
                expectations: Vec::new(),
            })
        };
        for command in ["! make t", "if ! make t; then exit 0; fi", "make t && exit 1; true", "! { make t; }"]
        {
            assert!(is_negated(command), "{command}");
        }
        for command in ["make clean || true; make t", "make clean; make t"] {
            assert!(!is_negated(command), "{command}");
        }
    }
}
