//! Computes the approved spec that an approval covers, and the difference between two specs.
//!
//! The spec is the raw bytes of the plan without the two parts that provost writes itself: the `status` word
//! and the mark of each step. Nothing is normalised. An approval is bound to a [`Revision`]: the digest of
//! the spec together with its [`Binding`].
//!
//! **Invariant:** marking a file never changes its spec, and removing the marks restores the same bytes.

use std::collections::{HashMap, HashSet};

use sha2::{Digest as _, Sha256};

use crate::model::event::{IncludedFile, NamedFile, Revision};
use crate::model::graph;
use crate::model::hash::Hash;
use crate::model::plan::{
    Budget, Check, Contract, Mark, Needs, Plan, Shell, Span, Spanned, Step, StepNumber,
};
use crate::model::run_policy::RunPolicy;
use crate::model::usage::Amount;

/// Approval inputs besides the text of the plan: base commit, files, run policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// The commit the plan was read at; `None` without a repository.
    pub base: Option<String>,
    /// Files that the contracts name and that existed at that time.
    pub files: Vec<NamedFile>,
    pub terms: RunPolicy,
    /// Files that differ from the base commit and that a person included on purpose; they are part of the
    /// base.
    pub included: Vec<IncludedFile>,
}

/// Returns the digest of the spec text alone.
pub fn digest(text: &str, plan: &Plan) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(b"provost law 1\n");
    feed(&mut hasher, text, Span::new(0, text.len()), &owned(plan));
    Hash(hasher.finalize().into())
}

/// Returns the digest that an approval is bound to.
pub fn revision(law: Hash, binding: &Binding) -> Revision {
    let base = binding.base.as_deref().unwrap_or("none");
    let mut text = format!("provost revision 2\nlaw {law}\nbase {base}\n");
    for line in binding.terms.lines() {
        text.push_str(&format!("terms {} {line}\n", line.len()));
    }
    for file in &binding.files {
        // The path goes last and is length-prefixed, so that no file name can imitate another line.
        text.push_str(&format!("file {} {} {}\n", file.sha256, file.path.len(), file.path));
    }
    for file in &binding.included {
        let digest = file.sha256.as_deref().unwrap_or("deleted");
        text.push_str(&format!("included {digest} {} {}\n", file.path.len(), file.path));
    }
    Revision(Hash::of(text.as_bytes()).to_string())
}

/// Returns the digest of what a step's results were found with: its own text, and the commands and `touches` that its
/// named checks give it. While it is unchanged, the step keeps its results.
pub fn results_digest(text: &str, step: &Step) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(step_digest(text, step).0);
    for contract in [&step.precondition, &step.contract].into_iter().flatten() {
        if let Check::Shell(shell) = &contract.check {
            hasher.update(check_digest(shell).0);
        }
    }
    for glob in step.touches.iter().flatten() {
        hasher.update([0xff]);
        hasher.update(glob.value.as_bytes());
    }
    Hash(hasher.finalize().into())
}

/// Returns the digest of one step's own text.
pub fn step_digest(text: &str, step: &Step) -> Hash {
    let mut hasher = Sha256::new();
    feed(&mut hasher, text, step.section, &[step.mark.span]);
    Hash(hasher.finalize().into())
}

/// Returns the digest of a step without its heading and the step numbers in `needs`: both change when other
/// steps are inserted or removed.
fn body_digest(text: &str, step: &Step) -> Hash {
    let needs: Vec<Span> = match &step.needs {
        Needs::Before => Vec::new(),
        Needs::Steps(needs) => needs.iter().map(|need| need.span).collect(),
    };
    let from = step.heading.end;
    let cuts: Vec<Span> = needs.into_iter().filter(|span| span.start >= from).collect();
    let mut hasher = Sha256::new();
    feed(&mut hasher, text, Span::new(from, step.section.end), &cuts);
    Hash(hasher.finalize().into())
}

/// Returns the digest of a check's command and expectations.
pub fn check_digest(shell: &Shell) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update((shell.command.len() as u64).to_le_bytes());
    hasher.update(shell.command.as_bytes());
    for expectation in &shell.expectations {
        hasher.update([0xff]);
        hasher.update(expectation.value.to_string().as_bytes());
    }
    Hash(hasher.finalize().into())
}

/// Hashes the text without the cuts. Each cut leaves a byte that no UTF-8 text contains, so that moving text
/// across a cut changes the digest.
fn feed(hasher: &mut Sha256, text: &str, within: Span, cuts: &[Span]) {
    let bytes = text.as_bytes();
    let mut from = within.start;
    for cut in cuts {
        hasher.update(bytes.get(from..cut.start).unwrap_or_default());
        hasher.update([0xff]);
        from = cut.end;
    }
    hasher.update(bytes.get(from..within.end).unwrap_or_default());
}

/// Returns the spans that provost may write, in order.
fn owned(plan: &Plan) -> Vec<Span> {
    let mut spans: Vec<Span> = plan.steps.iter().map(|step| step.mark.span).collect();
    spans.extend(plan.status.as_ref().map(|status| status.span));
    spans.sort_unstable();
    spans
}

/// Returns the text with the given `status` and marks; every other byte is unchanged.
pub fn mark(text: &str, plan: &Plan, status: &str, marks: impl Fn(StepNumber) -> Option<Mark>) -> String {
    let mut edits: Vec<(Span, &str, &str)> = Vec::with_capacity(plan.steps.len() + 1);
    if let Some(current) = &plan.status {
        edits.push((current.span, status, ""));
    }
    for step in &plan.steps {
        let (mark, space) = marks(step.number).map_or(("", ""), |mark| (mark.symbol(), " "));
        edits.push((step.mark.span, mark, space));
    }
    edits.sort_unstable_by_key(|(span, ..)| *span);
    // Room for a mark at every step, so that a long text is not copied while it grows.
    let mut out = String::with_capacity(text.len() + 8 * edits.len() + 64);
    let mut from = 0;
    for (span, replacement, space) in edits {
        out.push_str(text.get(from..span.start).unwrap_or_default());
        out.push_str(replacement);
        out.push_str(space);
        from = span.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// Returns whether `other` is `text` with other marks or another of the words in `statuses`; it is not parsed. If
/// this returns `false`, the specs can still be the same.
pub fn is_marked(text: &str, plan: &Plan, other: &str, statuses: &[&str]) -> bool {
    let status = plan.status.as_ref().map(|status| status.span);
    let mut rest = other;
    let mut from = 0;
    for cut in owned(plan) {
        let Some(after) = text.get(from..cut.start).and_then(|same| rest.strip_prefix(same)) else {
            return false;
        };
        rest = if Some(cut) == status {
            let Some(after) = statuses.iter().find_map(|word| after.strip_prefix(word)) else { return false };
            after
        } else {
            let symbol = Mark::ALL.iter().find_map(|mark| after.strip_prefix(mark.symbol()));
            symbol.and_then(|after| after.strip_prefix(' ')).unwrap_or(after)
        };
        from = cut.end;
    }
    text.get(from..) == Some(rest)
}

/// One side of a comparison: a plan with its text.
#[derive(Clone, Copy)]
pub struct Law<'a> {
    pub text: &'a str,
    pub plan: &'a Plan,
    /// `None` compares only the texts.
    pub binding: Option<&'a Binding>,
}

/// Lists the changes in meaning, one line each, for the person at the gate.
pub fn diff(old: Law<'_>, new: Law<'_>) -> Vec<String> {
    let mut changes = Vec::new();
    header(old.plan, new.plan, &mut changes);
    let pairs = Pairs::of(old.plan, new.plan);
    for (at, step) in new.plan.steps.iter().enumerate() {
        match pairs.before(at).map(|before| &old.plan.steps[before]) {
            None => changes.push(format!("step {} added: {}", step.number, step.title)),
            Some(before) => steps(old, before, new, step, &pairs, &mut changes),
        }
    }
    for (at, step) in old.plan.steps.iter().enumerate() {
        if !pairs.0.contains(&Some(at)) {
            changes.push(format!("step {} removed: {}", step.number, step.title));
        }
    }
    postconditions(old.plan, new.plan, &mut changes);
    if changes.is_empty() && digest(old.text, old.plan) != digest(new.text, new.plan) {
        changes.push("the text around the fields changed".to_owned());
    }
    if let (Some(old), Some(new)) = (old.binding, new.binding) {
        bindings(old, new, &mut changes);
    }
    changes
}

/// For each step of the new plan, the index of the matching old step: the one with the same title, else the
/// one with the same number. Inserting a step renumbers the later ones but does not make them new.
struct Pairs(Vec<Option<usize>>);

impl Pairs {
    fn of(old: &Plan, new: &Plan) -> Self {
        let mut titles: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, step) in old.steps.iter().enumerate() {
            titles.entry(&step.title).or_default().push(at);
        }
        let mut times: HashMap<&str, usize> = HashMap::new();
        new.steps.iter().for_each(|step| *times.entry(&step.title).or_default() += 1);
        let by_title = |step: &Step| match titles.get(step.title.as_str()).map(Vec::as_slice) {
            Some([only]) if times.get(step.title.as_str()) == Some(&1) => Some(*only),
            _ => None,
        };
        let mut pairs: Vec<Option<usize>> = new.steps.iter().map(by_title).collect();
        let mut taken: HashSet<usize> = pairs.iter().flatten().copied().collect();
        let places = graph::places(old);
        for (step, pair) in new.steps.iter().zip(&mut pairs).filter(|(_, pair)| pair.is_none()) {
            *pair = places.get(&step.number).copied().filter(|at| taken.insert(*at));
        }
        Self(pairs)
    }

    fn before(&self, at: usize) -> Option<usize> {
        self.0.get(at).copied().flatten()
    }

    /// Returns the number that a step of the old plan has in the new plan; the old number if the step is
    /// gone.
    fn now(&self, old: &Plan, new: &Plan, number: StepNumber) -> StepNumber {
        let place = old.steps.iter().position(|step| step.number == number);
        let at = self.0.iter().position(|before| before.is_some() && *before == place);
        at.map_or(number, |at| new.steps[at].number)
    }
}

fn header(old: &Plan, new: &Plan, changes: &mut Vec<String>) {
    field("title", Some(old.title.clone()), Some(new.title.clone()), changes);
    field("owner", value(&old.owner), value(&new.owner), changes);
    field("context", old.context.clone(), new.context.clone(), changes);
    field("depends_on", Some(list(&old.depends_on)), Some(list(&new.depends_on)), changes);
    field("touches", old.touches.as_deref().map(list), new.touches.as_deref().map(list), changes);
    let red = |plan: &Plan| plan.require_red.as_ref().map(|red| red.value.to_string());
    field("require_red", red(old), red(new), changes);
    field("budget", budget(&old.budget), budget(&new.budget), changes);
}

fn steps(old: Law<'_>, before: &Step, new: Law<'_>, after: &Step, pairs: &Pairs, changes: &mut Vec<String>) {
    if step_digest(old.text, before) == step_digest(new.text, after) {
        return;
    }
    let moved = before.number != after.number;
    if moved {
        changes.push(format!("step {} is step {} now: {}", before.number, after.number, after.title));
    }
    let at = changes.len();
    let named = |what: &str| format!("step {} {what}", after.number);
    field(&named("title"), Some(before.title.clone()), Some(after.title.clone()), changes);
    field(&named("target"), value(&before.target), value(&after.target), changes);
    let renumbered = match &before.needs {
        Needs::Before => Needs::Before,
        Needs::Steps(steps) => {
            let now = |need: &Spanned<StepNumber>| pairs.now(old.plan, new.plan, need.value);
            Needs::Steps(steps.iter().map(|need| Spanned::new(now(need), need.span)).collect())
        }
    };
    field(&named("needs"), Some(needs(&renumbered)), Some(needs(&after.needs)), changes);
    let globs = |step: &Step| step.touches.as_deref().map(list);
    field(&named("touches"), globs(before), globs(after), changes);
    field(&named("protect"), Some(list(&before.protect)), Some(list(&after.protect)), changes);
    field(&named("task"), value(&before.task), value(&after.task), changes);
    field(
        &named("precondition"),
        before.precondition.as_ref().map(contract),
        after.precondition.as_ref().map(contract),
        changes,
    );
    field(
        &named("contract"),
        before.contract.as_ref().map(contract),
        after.contract.as_ref().map(contract),
        changes,
    );
    let writes = |step: &Step| step.writes_tests().then(|| "tests".to_owned());
    field(&named("writes"), writes(before), writes(after), changes);
    let guard = |step: &Step| step.is_guard().then(|| "yes".to_owned());
    field(&named("guard"), guard(before), guard(after), changes);
    let prove =
        |step: &Step| step.prove.as_ref().map(|prove| if prove.value { "yes" } else { "no" }.to_owned());
    field(&named("prove"), prove(before), prove(after), changes);
    let hidden = |step: &Step| step.is_hidden().then(|| "yes".to_owned());
    field(&named("hidden"), hidden(before), hidden(after), changes);
    let network = |step: &Step| step.agent_network.as_ref().map(|network| network.value.word().to_owned());
    field(&named("agent_network"), network(before), network(after), changes);
    let secrets = |step: &Step| Some(list(&step.secrets)).filter(|names| !names.is_empty());
    field(&named("secrets"), secrets(before), secrets(after), changes);
    let git = |step: &Step| step.git.as_ref().map(|git| git.value.word().to_owned());
    field(&named("git"), git(before), git(after), changes);
    field(&named("budget"), budget(&before.budget), budget(&after.budget), changes);
    let text = |step: &Step| step.on_fail.as_ref().map(|on_fail| on_fail.value.to_string());
    field(&named("on_fail"), text(before), text(after), changes);
    if changes.len() == at && !(moved && body_digest(old.text, before) == body_digest(new.text, after)) {
        changes.push(format!("step {}: its text changed", after.number));
    }
}

fn postconditions(old: &Plan, new: &Plan, changes: &mut Vec<String>) {
    for index in 0..old.postconditions.len().max(new.postconditions.len()) {
        let side = |plan: &Plan| {
            plan.postconditions.get(index).map(|post| {
                format!("{}: {}", post.description, post.contract.as_ref().map(contract).unwrap_or_default())
            })
        };
        field(&format!("postcondition {}", index + 1), side(old), side(new), changes);
    }
}

fn bindings(old: &Binding, new: &Binding, changes: &mut Vec<String>) {
    if old.base != new.base {
        let short = |base: &Option<String>| {
            base.as_ref().map_or("none".to_owned(), |id| id.chars().take(12).collect())
        };
        changes.push(format!("the base commit moved: {} -> {}", short(&old.base), short(&new.base)));
    }
    changes.extend(old.terms.changes(&new.terms));
    for file in &new.files {
        match old.files.iter().find(|before| before.path == file.path) {
            Some(before) if before.sha256 == file.sha256 => {}
            Some(_) => changes.push(format!("a file the contracts name changed: {}", file.path)),
            None => changes.push(format!("a file the contracts name is new: {}", file.path)),
        }
    }
    for file in &old.files {
        if !new.files.iter().any(|after| after.path == file.path) {
            changes.push(format!("a file the contracts name is gone: {}", file.path));
        }
    }
    for file in &new.included {
        match old.included.iter().find(|before| before.path == file.path) {
            Some(before) if before.sha256 == file.sha256 => {}
            Some(_) => changes.push(format!("an included uncommitted file changed: {}", file.path)),
            None => changes.push(format!("an uncommitted file is included: {}", file.path)),
        }
    }
    for file in &old.included {
        if !new.included.iter().any(|after| after.path == file.path) {
            changes.push(format!("an uncommitted file is no longer included: {}", file.path));
        }
    }
}

fn field(name: &str, old: Option<String>, new: Option<String>, changes: &mut Vec<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (None, Some(new)) => changes.push(format!("{name} added: {}", brief(&new))),
        (Some(old), None) => changes.push(format!("{name} removed: {}", brief(&old))),
        (Some(old), Some(new)) => changes.push(format!("{name}: {} -> {}", brief(&old), brief(&new))),
        (None, None) => {}
    }
}

/// Shortens a text to one line for the gate; the full text is in the file.
fn brief(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(160) {
        Some((cut, _)) => format!("`{}…`", &line[..cut]),
        None => format!("`{line}`"),
    }
}

fn list(items: &[crate::model::plan::Spanned<String>]) -> String {
    items.iter().map(|item| item.value.as_str()).collect::<Vec<_>>().join(", ")
}

fn value(field: &Option<crate::model::plan::Spanned<String>>) -> Option<String> {
    field.as_ref().map(|spanned| spanned.value.clone())
}

fn budget(field: &Option<crate::model::plan::Spanned<Budget>>) -> Option<String> {
    field.as_ref().map(|budget| Amount::from(budget.value).to_string())
}

fn needs(needs: &Needs) -> String {
    match needs {
        Needs::Before => "every step before it".to_owned(),
        Needs::Steps(steps) if steps.is_empty() => "none".to_owned(),
        Needs::Steps(steps) => steps.iter().map(|step| step.value.to_string()).collect::<Vec<_>>().join(", "),
    }
}

fn contract(contract: &Contract) -> String {
    match &contract.check {
        Check::Shell(shell) => {
            let expectations: Vec<String> =
                shell.expectations.iter().map(|expectation| expectation.value.to_string()).collect();
            let command = shell.command.trim_end();
            if expectations.is_empty() {
                command.to_owned()
            } else {
                format!("{command} [{}]", expectations.join(", "))
            }
        }
        Check::Human => "human".to_owned(),
        Check::Judge { rubric } => format!("judge: {rubric}"),
    }
}

#[cfg(test)]
mod tests;
