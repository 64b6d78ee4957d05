//! Checks whether the files and topics a step subscribes to will exist when the step starts.
//!
//! The step that makes a file is guessed from words: a contract that names it, a task that says to write it.
//! The guess is generous for earlier steps and strict for later ones, so that an error is never about style.

use std::collections::{HashMap, HashSet};

use crate::language::diagnostic::say;
use crate::language::facts::Facts;
use crate::language::parse::Sink;
use crate::language::shell;
use crate::model::plan::{Check, Plan, Spanned, Step, Subscription};

/// Verbs that announce a file in a task.
const MAKING: [&str; 8] = ["write", "create", "output", "save", "generate", "produce", "record", "dump"];

/// Subscriptions and publications, in the order of the steps.
enum Seen<'p> {
    Wanted(&'p Spanned<Subscription>),
    Published(&'p str),
}

pub(super) fn check(plan: &Plan, facts: &Facts, sink: &mut Sink) {
    let mut missing: HashSet<&str> = HashSet::new();
    let mut unknown: HashSet<&str> = HashSet::new();
    let mut published: HashSet<&str> = HashSet::new();
    let subscriptions = plan.steps.iter().flat_map(|step| {
        let own = step.publishes.iter().map(|topic| Seen::Published(&topic.value));
        step.subscriptions.iter().map(Seen::Wanted).chain(own)
    });
    for seen in subscriptions {
        let subscription = match seen {
            Seen::Wanted(subscription) => subscription,
            Seen::Published(topic) => {
                published.insert(topic);
                continue;
            }
        };
        match &subscription.value {
            Subscription::File(path) if !facts.files.contains(path) => {
                missing.insert(path);
            }
            Subscription::File(_) => {}
            Subscription::Topic(topic) => {
                let is_kept = facts.topics.contains(topic) || published.contains(topic.as_str());
                if !is_kept && unknown.insert(topic) {
                    sink.push(say::topic_missing(subscription.span, topic));
                }
            }
        }
    }
    if missing.is_empty() {
        return;
    }
    let (named, made) = mentions(plan, &missing);
    let mut said: HashSet<&str> = HashSet::new();
    for (at, step) in plan.steps.iter().enumerate() {
        for subscription in &step.subscriptions {
            let Subscription::File(path) = &subscription.value else { continue };
            if !missing.contains(path.as_str()) || named.get(path.as_str()).is_some_and(|first| *first < at) {
                continue;
            }
            match made.get(path.as_str()) {
                Some(last) if *last > at => {
                    sink.push(say::file_later(subscription.span, path, plan.steps[*last].number));
                }
                // Many steps may read the same file; report it once.
                Some(_) | None if said.insert(path) => sink.push(say::file_missing(subscription.span, path)),
                Some(_) | None => {}
            }
        }
    }
}

type Steps<'p> = HashMap<&'p str, usize>;

/// Returns for each missing file the first step that mentions it, and the last one that surely makes it.
fn mentions<'p>(plan: &'p Plan, missing: &HashSet<&'p str>) -> (Steps<'p>, Steps<'p>) {
    let (mut named, mut made) = (Steps::new(), Steps::new());
    for (at, step) in plan.steps.iter().enumerate() {
        for path in contract_files(step) {
            if let Some(path) = missing.get(path.as_str()) {
                named.entry(path).or_insert(at);
            }
        }
        let Some(task) = &step.task else { continue };
        let mut making = false;
        for word in task.value.split_whitespace() {
            let bare = word.trim_matches(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '_' | '-')));
            let bare = bare.trim_start_matches("./");
            let lower = bare.to_ascii_lowercase();
            making |= MAKING.iter().any(|verb| lower.strip_prefix(verb).is_some_and(|rest| rest.len() <= 2));
            if let Some(path) = missing.get(bare) {
                named.entry(path).or_insert(at);
                if making {
                    made.insert(path, at);
                }
            }
            // A new sentence is about something else.
            if word.ends_with(['.', ';', '!']) {
                making = false;
            }
        }
    }
    (named, made)
}

fn contract_files(step: &Step) -> Vec<String> {
    match step.contract.as_ref().map(|contract| &contract.check) {
        Some(Check::Shell(shell)) => shell::named_files(&shell.command),
        Some(Check::Human | Check::Judge { .. }) | None => Vec::new(),
    }
}
