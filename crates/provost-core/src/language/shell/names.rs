//! Finds the programs a script calls and the files it names.
//!
//! Explicit rules look through wrappers such as `env` or `timeout`; words that are not literal are left out,
//! because they cannot be known.

use std::borrow::Cow;

use super::{ShellCommand, ShellScript, Word, read};
use crate::language::recipes;

/// A program that the script calls by name, with its position. Inside `bash -c '…'` the position is that of
/// the whole word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledProgram<'t> {
    pub name: Cow<'t, str>,
    pub start: usize,
    pub end: usize,
}

/// Returns every program that must be on PATH for the script to work, without builtins and the script's own
/// functions.
pub fn tools<'t>(text: &'t str, script: &ShellScript) -> Vec<CalledProgram<'t>> {
    let mut found: Vec<CalledProgram<'t>> = Vec::new();
    for command in &script.commands {
        called(text, script, command, &mut found);
    }
    if !script.functions.is_empty() {
        let own: std::collections::HashSet<&str> =
            script.functions.iter().filter_map(|(start, end)| text.get(*start..*end)).collect();
        found.retain(|tool| !own.contains(tool.name.as_ref()));
    }
    found
}

fn called<'t>(
    text: &'t str,
    script: &ShellScript,
    command: &ShellCommand,
    found: &mut Vec<CalledProgram<'t>>,
) {
    let mut words = script.words_of(command);
    while let Some((first, rest)) = words.split_first() {
        if is_assignment(first.raw(text)) {
            words = rest;
            continue;
        }
        let Some(name) = first.literal(text) else { return };
        let wrapped = wrapped(&name, text, rest);
        if is_tool(&name) && !is_builtin(&name) {
            found.push(CalledProgram { name: name.clone(), start: first.start, end: first.end });
        }
        match wrapped {
            WrappedCommand::Nothing => return,
            WrappedCommand::Command(inner) => words = inner,
            WrappedCommand::Script(inner) => {
                if let Some(source) = inner.literal(text) {
                    // One level is enough; contracts do not nest scripts more deeply.
                    let nested = read(&source);
                    for tool in shallow(&source, &nested) {
                        found.push(CalledProgram {
                            name: Cow::Owned(tool),
                            start: inner.start,
                            end: inner.end,
                        });
                    }
                }
                return;
            }
        }
    }
}

/// Returns the tools of an inner script, by name only.
fn shallow(source: &str, script: &ShellScript) -> Vec<String> {
    let mut names = Vec::new();
    for command in &script.commands {
        let first = script.words_of(command).iter().find(|word| !is_assignment(word.raw(source)));
        if let Some(name) = first.and_then(|word| word.literal(source))
            && is_tool(&name)
            && !is_builtin(&name)
        {
            names.push(name.into_owned());
        }
    }
    names
}

/// The command or script that a command runs in turn.
pub(crate) enum WrappedCommand<'w> {
    Nothing,
    Command(&'w [Word]),
    Script(&'w Word),
}

/// Returns what a wrapper runs.
pub(crate) fn wrapped<'w>(name: &str, text: &str, rest: &'w [Word]) -> WrappedCommand<'w> {
    let after = |with_value: &[&str], operands: usize| {
        let mut at = 0;
        let mut operands = operands;
        while let Some(word) = rest.get(at) {
            let raw = word.raw(text);
            if with_value.contains(&raw) {
                at += 2;
            } else if raw.starts_with('-') && raw.len() > 1 {
                at += 1;
            } else if operands > 0 {
                operands -= 1;
                at += 1;
            } else {
                break;
            }
        }
        WrappedCommand::Command(rest.get(at..).unwrap_or(&[]))
    };
    match name {
        "env" => after(&["-u", "-C", "--unset", "--chdir"], 0),
        "timeout" => after(&["-s", "-k", "--signal", "--kill-after"], 1),
        "nice" => after(&["-n", "--adjustment"], 0),
        "xargs" => after(&["-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E"], 0),
        "sudo" => after(&["-u", "-g", "-C", "-h", "-p"], 0),
        "stdbuf" => after(&["-i", "-o", "-e"], 0),
        "time" | "nohup" | "exec" | "builtin" | "setsid" | "chronic" => after(&[], 0),
        // `command -v x` only looks up x and does not call it.
        "command" if rest.first().is_none_or(|word| !word.raw(text).starts_with('-')) => after(&[], 0),
        "bash" | "sh" | "dash" => {
            let flag = rest.iter().position(|word| is_command_flag(word.raw(text)));
            match flag.and_then(|at| rest.get(at + 1)) {
                Some(script) => WrappedCommand::Script(script),
                None => WrappedCommand::Nothing,
            }
        }
        recipes::PROGRAM => match rest.iter().position(|word| word.raw(text) == "--") {
            Some(at) => WrappedCommand::Command(rest.get(at + 1..).unwrap_or(&[])),
            None => WrappedCommand::Nothing,
        },
        _ => WrappedCommand::Nothing,
    }
}

fn is_command_flag(raw: &str) -> bool {
    raw.starts_with('-') && !raw.starts_with("--") && raw.ends_with('c')
}

/// Recognises `NAME=value`, `NAME+=value`, `NAME[0]=value`.
pub fn is_assignment(raw: &str) -> bool {
    let Some((name, _)) = raw.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split('[').next().unwrap_or(name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Recognises a plain name; a path is resolved in the workspace, not on PATH.
fn is_tool(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+'))
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Returns words of a check that look like files of the workspace. An approval binds those that exist.
pub fn named_files(command: &str) -> Vec<String> {
    files(command, &read(command))
}

/// The same for a script that was already read.
pub fn files(text: &str, script: &ShellScript) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in &script.words {
        let Some(literal) = word.literal(text) else { continue };
        let value = match literal.split_once('=') {
            Some((option, value)) if option.starts_with('-') || is_assignment(&literal) => value,
            _ => literal.as_ref(),
        };
        if let Some(path) = relative_path(value) {
            found.push(path.to_string());
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Accepts a word that looks like a relative path: it has a folder or an extension.
pub fn relative_path(value: &str) -> Option<&str> {
    let has_folder = value.contains('/') && value.bytes().any(|b| b.is_ascii_alphabetic());
    let value = value.trim_start_matches("./").trim_end_matches('/');
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'+' | b'@' | b',')
            || byte >= 0x80
    };
    if value.is_empty()
        || value.len() > 300
        || value.starts_with(['/', '-', '~', '@'])
        || !value.bytes().all(plain)
    {
        return None;
    }
    if value.contains("//") || value.split('/').any(|part| part == "..") {
        return None;
    }
    let last = value.rsplit('/').next().unwrap_or(value);
    let extension = last.rsplit_once('.').map(|(_, extension)| extension);
    let has_extension = extension.is_some_and(|e| {
        (1..=8).contains(&e.len())
            && e.bytes().all(|b| b.is_ascii_alphanumeric())
            && e.bytes().any(|b| b.is_ascii_alphabetic())
    });
    (has_extension || has_folder).then_some(value)
}

/// Recognises builtins and keywords of bash.
fn is_builtin(name: &str) -> bool {
    matches!(
        name,
        "." | ":"
            | "["
            | "[["
            | "]]"
            | "alias"
            | "bg"
            | "bind"
            | "break"
            | "builtin"
            | "caller"
            | "cd"
            | "command"
            | "compgen"
            | "complete"
            | "compopt"
            | "continue"
            | "declare"
            | "dirs"
            | "disown"
            | "echo"
            | "enable"
            | "eval"
            | "exec"
            | "exit"
            | "export"
            | "false"
            | "fc"
            | "fg"
            | "getopts"
            | "hash"
            | "help"
            | "history"
            | "jobs"
            | "kill"
            | "let"
            | "local"
            | "logout"
            | "mapfile"
            | "popd"
            | "printf"
            | "pushd"
            | "pwd"
            | "read"
            | "readarray"
            | "readonly"
            | "return"
            | "set"
            | "shift"
            | "shopt"
            | "source"
            | "suspend"
            | "test"
            | "time"
            | "times"
            | "trap"
            | "true"
            | "type"
            | "typeset"
            | "ulimit"
            | "umask"
            | "unalias"
            | "unset"
            | "wait"
    )
}
