//! Checks the shell text of contracts: an exit code that is discarded, a check that cannot fail, a missing
//! tool.
//!
//! **Invariant:** only the outermost list of commands is judged; a loop or a group counts as one command that
//! the author chose on purpose.

use std::collections::HashSet;

use crate::language::diagnostic::say;
use crate::language::facts::Facts;
use crate::language::parse::Sink;
use crate::language::recipes;
use crate::language::runner::expectations::only_runs_tests;
use crate::language::shell::{self, Join, ShellCommand, ShellScript, is_assignment};
use crate::model::plan::{Check, Contract, Expectation, Plan, Shell, Span};

/// Commands that pass on their input and nearly always succeed.
const FILTERS: [&str; 16] = [
    "tee", "cat", "head", "tail", "sort", "uniq", "tr", "cut", "column", "less", "more", "sed", "wc", "tac",
    "nl", "fold",
];

/// Commands that only prepare something; an ignored failure of one seldom matters.
const SETTING_UP: [&str; 17] = [
    "cd", "echo", "printf", "set", "export", "source", ".", "shopt", "trap", "local", "readonly", "unset",
    "declare", "mkdir", "sleep", "exit", "umask",
];

pub(super) fn check(text: &str, plan: &Plan, facts: &Facts, sink: &mut Sink) {
    let mut reported: HashSet<String> = HashSet::new();
    let mut any = None;
    for step in &plan.steps {
        for (contract, gate) in
            step.precondition.iter().map(|c| (c, true)).chain(step.contract.iter().map(|c| (c, false)))
        {
            any = any.or(Some(contract.span));
            one(text, contract, gate, facts, &mut reported, sink);
        }
        let is_last = plan.steps.last().is_some_and(|last| last.number == step.number);
        if let (Some(contract), None, false) = (&step.contract, &step.lasting, is_last) {
            lasting(text, contract, sink);
        }
    }
    for contract in plan.postconditions.iter().filter_map(|postcondition| postcondition.contract.as_ref()) {
        any = any.or(Some(contract.span));
        one(text, contract, false, facts, &mut reported, sink);
    }
    needs(plan, facts, &mut reported, sink);
    if let Some(span) = any.filter(|_| facts.no_bash) {
        sink.push(say::no_bash(span));
    }
}

/// Reports the missing programs that named checks need besides those that their commands name.
fn needs(plan: &Plan, facts: &Facts, reported: &mut HashSet<String>, sink: &mut Sink) {
    let of_steps = plan.steps.iter().flat_map(|step| [&step.precondition, &step.contract]);
    let all = of_steps.chain(plan.postconditions.iter().map(|post| &post.contract)).flatten();
    for contract in all {
        let Check::Shell(shell) = &contract.check else { continue };
        let named = plan.named_checks.values().filter(|check| check.command == shell.command);
        for tool in named.flat_map(|check| &check.needs) {
            if facts.missing_tools.contains(tool) && reported.insert(tool.clone()) {
                sink.push(say::tool_missing(shell.body, tool));
            }
        }
    }
}

fn one(
    text: &str,
    contract: &Contract,
    gate: bool,
    facts: &Facts,
    reported: &mut HashSet<String>,
    sink: &mut Sink,
) {
    let Check::Shell(check) = &contract.check else { return };
    let place = Place::new(text, check);
    if let Some(name) = check.check_name() {
        return sink.push(say::check_unknown(check.body, name));
    }
    if let Some(why) = facts.broken_scripts.get(&check.command) {
        sink.push(say::shell_syntax(place.whole(), why));
    }
    let script = shell::read(&check.command);
    for (start, end) in &script.placeholders {
        let raw = check.command.get(*start..*end).unwrap_or("");
        sink.push(say::placeholder(place.of(*start, *end), raw));
    }
    if !facts.missing_tools.is_empty() {
        for tool in shell::tools(&check.command, &script) {
            if facts.missing_tools.contains(tool.name.as_ref()) && reported.insert(tool.name.to_string()) {
                sink.push(say::tool_missing(place.of(tool.start, tool.end), &tool.name));
            }
        }
    }
    unknown_recipes(&check.command, &script, &place, sink);
    if !facts.unseen.is_empty() {
        for path in shell::outer_paths(&check.command) {
            if facts.unseen.contains(&path.path) && reported.insert(path.path.clone()) {
                sink.push(say::path_unseen(place.of(path.start, path.end), &path.path));
            }
        }
    }
    let look = Look { source: &check.command, script: &script, place };
    let reads_output = check.expectations.iter().any(|expectation| match &expectation.value {
        Expectation::Contains { .. } | Expectation::Matches { .. } | Expectation::Empty { .. } => true,
        Expectation::ExitIs(_)
        | Expectation::ExitIsNot(_)
        | Expectation::TestsFixed { .. }
        | Expectation::NoNewFailures
        | Expectation::TestsPassed { .. }
        | Expectation::NoTestRemoved => false,
    });
    let is_exit = |each: &Expectation| matches!(each, Expectation::ExitIs(_) | Expectation::ExitIsNot(_));
    let names_exit = check.expectations.iter().any(|each| is_exit(&each.value));
    let may_fail = check
        .expectations
        .iter()
        .find(|each| matches!(each.value, Expectation::NoNewFailures | Expectation::TestsFixed { .. }));
    if let Some(expectation) = may_fail.filter(|_| !names_exit && !only_runs_tests(&check.command)) {
        sink.push(say::other_commands(expectation.span, &expectation.value.to_string()));
    }
    // If the output decides, the exit code may be discarded.
    let masked = !reads_output && look.exit_code(sink);
    if !masked && !gate && !reads_output {
        look.strength(sink);
    }
}

/// Reports calls of `provost-check` without a recipe that it has.
fn unknown_recipes(text: &str, script: &ShellScript, place: &Place, sink: &mut Sink) {
    for command in &script.commands {
        let words = script.words_of(command);
        let at = words.iter().position(|word| !is_assignment(word.raw(text)));
        let Some((first, rest)) = at.and_then(|at| words[at..].split_first()) else { continue };
        // A word that the shell expands is not known here.
        let recipe = match rest.first().map(|word| word.literal(text)) {
            Some(None) => continue,
            Some(recipe) => recipe,
            None => None,
        };
        let why = recipes::objection(recipe.as_deref()).filter(|_| first.raw(text) == recipes::PROGRAM);
        if let Some(why) = why {
            sink.push(say::recipe_unknown(place.of(first.start, first.end), &why));
        }
    }
}

/// Reports a check that expects a program to fail, before a step that may fix it. A search that expects to
/// find nothing is not reported: its result lasts.
fn lasting(text: &str, contract: &Contract, sink: &mut Sink) {
    const SEARCHES: [&str; 9] = ["grep", "rg", "test", "[", "[[", "diff", "cmp", "find", "git"];
    let Check::Shell(check) = &contract.check else { return };
    let script = shell::read(&check.command);
    let look = Look { source: &check.command, script: &script, place: Place::new(text, check) };
    let fails = script
        .top()
        .find(|command| command.negated && !command.compound && !SEARCHES.contains(&look.name(command)));
    if let Some(command) = fails {
        sink.push(say::passing(look.span(command)));
    }
}

/// Maps bytes of the command to positions in the plan.
struct Place {
    body: Span,
    /// The plan contains the command byte for byte, not indented and without CRLF.
    verbatim: bool,
    first_line: usize,
}

impl Place {
    fn new(text: &str, check: &Shell) -> Self {
        let raw = check.body.of(text);
        let first_line = raw.lines().next().map_or(0, |line| line.trim_end().len());
        Self { body: check.body, verbatim: raw.starts_with(check.command.as_str()), first_line }
    }

    fn of(&self, start: usize, end: usize) -> Span {
        if self.verbatim { Span::new(self.body.start + start, self.body.start + end) } else { self.whole() }
    }

    fn whole(&self) -> Span {
        Span::new(self.body.start, self.body.start + self.first_line)
    }
}

struct Look<'c> {
    source: &'c str,
    script: &'c ShellScript,
    place: Place,
}

impl Look<'_> {
    fn span(&self, command: &ShellCommand) -> Span {
        self.place.of(command.start, command.end)
    }

    /// Returns the literal words of a command, without assignments; other words are empty.
    fn words(&self, command: &ShellCommand) -> Vec<std::borrow::Cow<'_, str>> {
        let words = self.script.words_of(command).iter();
        let words = words.skip_while(|word| !word.quoted && is_assignment(word.raw(self.source)));
        words.map(|word| word.literal(self.source).unwrap_or_default()).collect()
    }

    fn name(&self, command: &ShellCommand) -> &str {
        let words = self.script.words_of(command).iter();
        let mut words = words.skip_while(|word| is_assignment(word.raw(self.source)));
        words.next().map_or("", |word| word.raw(self.source))
    }

    fn succeeds_always(&self, command: &ShellCommand) -> bool {
        match self.name(command) {
            "true" | ":" | "echo" | "printf" => !command.negated,
            "exit" => self.words(command).get(1).is_some_and(|code| code == "0"),
            _ => false,
        }
    }

    /// Checks what determines the exit code; returns whether it is meaningless.
    fn exit_code(&self, sink: &mut Sink) -> bool {
        let top: Vec<&ShellCommand> = self.script.top().collect();
        let Some(last) = top.last() else { return false };
        let mut found = false;
        if last.then == Join::Background {
            sink.push(say::background(self.span(last)));
            found = true;
        }
        let before = top.len().checked_sub(2).map(|at| top[at]);
        if self.succeeds_always(last) {
            match before.map(|command| command.then) {
                // Everything before it is constant too, or there is nothing before it.
                _ if top.iter().all(|command| self.succeeds_always(command)) => {
                    sink.push(say::constant_exit(self.span(last)));
                    return true;
                }
                Some(Join::Or) => {
                    sink.push(say::masked_exit(self.span(last), &format!("|| {}", self.name(last))));
                    return true;
                }
                Some(Join::Next | Join::Background) if !self.stops_at_errors(&top) => {
                    sink.push(say::masked_exit(self.span(last), self.name(last)));
                    return true;
                }
                Some(Join::Pipe) => {
                    sink.push(say::masked_exit(self.span(last), &format!("| {}", self.name(last))));
                    return true;
                }
                Some(Join::And | Join::Next | Join::Background | Join::End) | None => {}
            }
        }
        for command in top.iter().filter(|command| self.name(command) == "set") {
            if self.words(command).iter().any(|word| word.starts_with("+") && word.contains('e')) {
                sink.push(say::masked_exit(self.span(command), "set +e"));
                found = true;
            }
        }
        found |= self.pipes(&top, sink);
        found | self.sequence(&top, sink)
    }

    fn sets(&self, top: &[&ShellCommand], short: char, long: &str) -> bool {
        top.iter().filter(|command| self.name(command) == "set").any(|command| {
            self.words(command).iter().skip(1).any(|word| {
                word == long || word.starts_with('-') && !word.starts_with("--") && word.contains(short)
            })
        })
    }

    fn stops_at_errors(&self, top: &[&ShellCommand]) -> bool {
        self.sets(top, 'e', "errexit")
    }

    fn pipes(&self, top: &[&ShellCommand], sink: &mut Sink) -> bool {
        if !top.iter().any(|command| command.then == Join::Pipe) || self.sets(top, '\0', "pipefail") {
            return false;
        }
        let mut found = false;
        for pair in top.windows(2) {
            let [from, to] = pair else { continue };
            if from.then == Join::Pipe && to.then != Join::Pipe && FILTERS.contains(&self.name(to)) {
                sink.push(say::pipe_hides(self.span(to), self.name(to)));
                found = true;
            }
        }
        found
    }

    /// Checks commands on separate lines, of which only the last one decides.
    fn sequence(&self, top: &[&ShellCommand], sink: &mut Sink) -> bool {
        if self.stops_at_errors(top) {
            return self.not_stopped_at(top, sink);
        }
        let Some((_, before)) = top.split_last() else { return false };
        let unseen = before.iter().find(|command| {
            command.then == Join::Next
                && !command.compound
                && !self.words(command).is_empty()
                && !SETTING_UP.contains(&self.name(command))
        });
        match unseen {
            Some(command) => {
                sink.push(say::last_decides(self.span(command)));
                true
            }
            None => false,
        }
    }

    /// Checks lists of commands in the middle at which bash does not stop in spite of `set -e`: with `!`, and
    /// all but the last command of `a && b`.
    fn not_stopped_at(&self, top: &[&ShellCommand], sink: &mut Sink) -> bool {
        let mut rest = top;
        let mut found = false;
        while let Some(end) = rest.iter().position(|command| command.then == Join::Next) {
            let (list, after) = rest.split_at(end + 1);
            let is_seen = list.iter().any(|command| matches!(command.then, Join::Or | Join::Background));
            let unseen = list.iter().find(|command| command.negated || command.then == Join::And);
            if let Some(command) = unseen.filter(|_| !is_seen && !after.is_empty()) {
                sink.push(say::not_stopped_at(self.span(command)));
                found = true;
            }
            rest = after;
        }
        found
    }

    /// Reports checks that an agent can satisfy without doing the work.
    fn strength(&self, sink: &mut Sink) {
        let top: Vec<&ShellCommand> = self.script.top().collect();
        let Some(first) = top.first() else { return };
        if top.iter().any(|command| command.compound) || self.script.commands.len() != top.len() {
            return;
        }
        let span = Span::new(self.span(first).start, top.last().map_or(0, |last| self.span(last).end));
        let kinds: Vec<Kind> = top.iter().map(|command| self.kind(command)).collect();
        if kinds.contains(&Kind::Time) {
            sink.push(say::weak_contract(span, "compares file times"));
        } else if kinds.iter().all(|kind| *kind == Kind::Existence) {
            sink.push(say::weak_contract(span, "looks whether a file exists"));
        } else if kinds.iter().all(|kind| matches!(kind, Kind::Existence | Kind::Word)) {
            sink.push(say::weak_contract(span, "looks for a word in a file"));
        }
    }

    fn kind(&self, command: &ShellCommand) -> Kind {
        // Most commands are none of these; skip unquoting their words.
        if !matches!(self.name(command), "test" | "[" | "[[" | "find" | "ls" | "stat" | "grep" | "rg") {
            return Kind::Real;
        }
        let words = self.words(command);
        let has = |flags: &[&str]| words.iter().any(|word| flags.contains(&word.as_ref()));
        match words.first().map_or("", |word| word.as_ref()) {
            "test" | "[" | "[[" if has(&["-nt", "-ot", "-N"]) => Kind::Time,
            "find" if has(&["-newer", "-mmin", "-mtime", "-newermt"]) => Kind::Time,
            "test" | "[" | "[[" if has(&["-f", "-e", "-d", "-s", "-r", "-x"]) => Kind::Existence,
            "ls" | "stat" => Kind::Existence,
            "grep" | "rg"
                if !command.negated && words.iter().any(|word| shell::relative_path(word).is_some()) =>
            {
                Kind::Word
            }
            _ => Kind::Real,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Existence,
    Word,
    Time,
    Real,
}
