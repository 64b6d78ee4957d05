//! Tests parsing and verification of plan texts, from outside of the crate.

mod attacks;
mod carried;
mod cases;
mod classes;
mod codes;
mod docs;
mod forms;
mod graphs;
mod hostile;
mod property;
mod sent_trees;

#[path = "../../../provost-rehearsal/src/skip.rs"]
mod skip;

use std::time::Duration;

use provost_core::language::diagnostic::Diagnostic;
use provost_core::language::facts::{Facts, questions};
use provost_core::language::{parse, verify};
use provost_core::model::plan::{Check, Contract, Needs, Plan};

/// The judge is a role that does none of the work.
const JUDGE: &str = "judge-of-all";

/// Returns facts in which everything that the plan asks for exists.
pub fn permissive(plan: &Plan) -> Facts {
    let questions = questions(plan);
    Facts {
        slug: "this".into(),
        targets: plan
            .steps
            .iter()
            .filter_map(|step| step.target.as_ref())
            .map(|t| t.value.clone())
            .chain([JUDGE.to_owned()])
            .collect(),
        judge: Some(JUDGE.to_owned()),
        files: questions.files,
        topics: questions.topics,
        plans: questions.plans.into_iter().map(|slug| (slug, Vec::new())).collect(),
        ..Facts::default()
    }
}

/// CPU time that this thread spends on `work`. Wall time would count other processes, too.
#[allow(clippy::disallowed_methods)]
pub fn cpu_time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let used = || {
        // The kernel updates the number when the thread yields.
        std::thread::yield_now();
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the time of this thread");
        let nanoseconds = stat.split(' ').next().and_then(|first| first.parse().ok());
        Duration::from_nanos(nanoseconds.expect("nanoseconds"))
    };
    let before = used();
    let answer = work();
    (answer, used() - before)
}

/// Returns all diagnostics of a plan with these facts.
pub fn diagnose(text: &str, facts: impl Fn(&Plan) -> Facts) -> Vec<Diagnostic> {
    let parsed = parse::plan(text);
    let facts = facts(&parsed.plan);
    let mut all = parsed.diagnostics;
    all.extend(verify::plan(text, &parsed.plan, &facts));
    all.extend(provost_core::redact::Redactor::new([("", ""); 0]).diagnose(text));
    all
}

/// Returns a plan and its diagnostics, short enough for a snapshot.
pub fn outline(text: &str) -> String {
    let parsed = parse::plan(text);
    let mut out = String::new();
    for step in &parsed.plan.steps {
        let word = |value: &Option<provost_core::model::plan::Spanned<String>>| {
            value.as_ref().map(|v| v.value.clone())
        };
        out.push_str(&format!("{}. {:?}", step.number, step.title));
        if let Some(mark) = step.mark.mark {
            out.push_str(&format!(" mark={mark:?}"));
        }
        if let Needs::Steps(needs) = &step.needs {
            out.push_str(&format!(" needs={:?}", needs.iter().map(|need| need.value.0).collect::<Vec<_>>()));
        }
        if let Some(target) = word(&step.target) {
            out.push_str(&format!(" target={target}"));
        }
        if let Some(task) = word(&step.task) {
            out.push_str(&format!(" task={task:?}"));
        }
        for subscription in &step.subscriptions {
            out.push_str(&format!(" {:?}", subscription.value));
        }
        if let Some(contract) = &step.contract {
            out.push_str(&format!(" contract={}", shown(contract)));
        }
        if let Some(on_fail) = &step.on_fail {
            out.push_str(&format!(" on_fail={}", on_fail.value));
        }
        out.push('\n');
    }
    for postcondition in &parsed.plan.postconditions {
        let contract = postcondition.contract.as_ref().map(shown).unwrap_or_default();
        out.push_str(&format!("post {}. {:?} {contract}\n", postcondition.number, postcondition.description));
    }
    for diagnostic in &parsed.diagnostics {
        let at: String = diagnostic.span.of(text).chars().take(30).collect();
        out.push_str(&format!("{} {at:?}: {}\n", diagnostic.code, diagnostic.message));
    }
    out
}

fn shown(contract: &Contract) -> String {
    match &contract.check {
        Check::Shell(shell) => {
            let expectations: Vec<String> = shell.expectations.iter().map(|e| e.value.to_string()).collect();
            format!(
                "{:?}{}",
                shell.command,
                if expectations.is_empty() {
                    String::new()
                } else {
                    format!(" [{}]", expectations.join("; "))
                }
            )
        }
        Check::Human => "human".into(),
        Check::Judge { rubric } => format!("judge {rubric:?}"),
    }
}

/// A plan with one good step; tests insert the part that they test.
pub const GOOD: &str = "\
---
type: plan
status: draft
owner: me
touches: [\"src/**\"]
---

# Teach the parser tabs

**Context:** Tabs are refused today.
**Budget:** max 200k tokens, $1.50, 20 minutes
**Priority:** high

## Steps

### 1. Write a failing test
**target:** coder
**subscriptions:**
- file:src/parser.rs
- topic:tabs
**task:**
Add a test with a tab to `src/parser.rs`.
**contract:**
```shell
cargo test tabs 2>&1 | grep -q FAILED
```
exit_code == 0
**on_fail:** retry(2), then escalate

### 2. Make it pass
**target:** coder
**task:** Let the parser in `src/parser.rs` accept tabs.
**contract:**
```shell
cargo test
```
**on_fail:** retry(1), then abort

### 3. Say so
**target:** writer
**needs:** 1, 2
**task:** Add a line about tabs to `CHANGES.md`.
**contract:**
```shell
./scripts/changes-mention tabs
```
**on_fail:** escalate

## Postconditions
1. The whole suite is green
   ```shell
   cargo test --workspace
   ```
";
