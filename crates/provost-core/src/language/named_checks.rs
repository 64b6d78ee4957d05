//! Replaces `check:NAME` in a plan by the check of that name in the configuration.

use std::collections::BTreeMap;

use crate::language::globs::containment::contains;
use crate::model::named_check::NamedCheck;
use crate::model::plan::{Check, Contract, Plan, Span, Spanned};

/// Replaces `check:NAME` by the command of that check. A name that is not known stays; bash finds no such
/// command. If the check has `touches`, it judges only changes inside them: those of the step become narrower.
pub fn apply(plan: &mut Plan, checks: &BTreeMap<String, NamedCheck>) {
    let of_plan = plan.touches.clone();
    for step in &mut plan.steps {
        for contract in [&mut step.precondition, &mut step.contract].into_iter().flatten() {
            let Some((name, span)) = name(contract) else { continue };
            let Some(check) = checks.get(&name) else { continue };
            command(contract, check);
            let outer = step.touches.as_deref().or(of_plan.as_deref());
            if !check.touches.is_empty() {
                step.touches = Some(narrowed(outer, &check.touches, span));
            }
            plan.named_checks.insert(name, check.clone());
        }
    }
    for contract in plan.postconditions.iter_mut().filter_map(|post| post.contract.as_mut()) {
        let Some((name, _)) = name(contract) else { continue };
        let Some(check) = checks.get(&name) else { continue };
        command(contract, check);
        plan.named_checks.insert(name, check.clone());
    }
}

/// Returns whether a check with these `touches` judges all that may change.
pub fn covers(check: &NamedCheck, touches: Option<&[Spanned<String>]>) -> bool {
    let inside = |glob: &Spanned<String>| check.touches.iter().any(|outer| contains(outer, &glob.value));
    check.touches.is_empty() || touches.is_some_and(|globs| globs.iter().all(inside))
}

fn name(contract: &Contract) -> Option<(String, Span)> {
    let Check::Shell(shell) = &contract.check else { return None };
    Some((shell.check_name()?.to_owned(), shell.body))
}

fn command(contract: &mut Contract, check: &NamedCheck) {
    if let Check::Shell(shell) = &mut contract.check {
        shell.command.clone_from(&check.command);
    }
}

/// Returns the globs of both lists that lie within one of the other list.
fn narrowed(outer: Option<&[Spanned<String>]>, of_check: &[String], span: Span) -> Vec<Spanned<String>> {
    let spanned = |value: &String| Spanned { value: value.clone(), span };
    let Some(outer) = outer else { return of_check.iter().map(spanned).collect() };
    let within = |outer: &str, inner: &str| outer == "**" || contains(outer, inner);
    let mut kept: Vec<Spanned<String>> = outer
        .iter()
        .filter(|glob| of_check.iter().any(|check| within(check, &glob.value)))
        .cloned()
        .collect();
    let of_check = of_check.iter().filter(|check| outer.iter().any(|glob| within(&glob.value, check)));
    for glob in of_check {
        if kept.iter().all(|known| known.value != *glob) {
            kept.push(spanned(glob));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::parse;

    fn steps(front: &str, step: &str) -> Plan {
        let text = format!(
            "---\ntype: plan\nstatus: draft\nowner: a\n{front}---\n\n# T\n\n## Steps\n\n### 1. A\n\n**target:** coder\n\n\
             **task:**\nDo it.\n\n{step}**contract:** check:unit\nexit_code == 0\n**on_fail:** escalate\n"
        );
        let mut plan = parse::plan(&text).plan;
        let check = NamedCheck {
            command: "make test".to_owned(),
            touches: vec!["src/**".to_owned(), "docs/a.md".to_owned()],
            needs: Vec::new(),
        };
        apply(&mut plan, &BTreeMap::from([("unit".to_owned(), check)]));
        plan
    }

    fn touches(front: &str, step: &str) -> Vec<String> {
        let plan = steps(front, step);
        plan.steps[0].touches.iter().flatten().map(|glob| glob.value.clone()).collect()
    }

    #[test]
    fn the_command_takes_the_place_of_the_name() {
        let plan = steps("", "");
        let Some(Check::Shell(shell)) = plan.steps[0].contract.as_ref().map(|contract| &contract.check)
        else {
            panic!("no command")
        };
        assert_eq!(shell.command, "make test");
        assert!(plan.named_checks.contains_key("unit"));
    }

    #[test]
    fn a_check_with_touches_makes_those_of_the_step_narrower() {
        assert_eq!(touches("", ""), ["src/**", "docs/a.md"]);
        assert_eq!(touches("touches: [\"**\"]\n", ""), ["src/**", "docs/a.md"]);
        assert_eq!(touches("touches: [\"src/x/**\", \"tests/**\"]\n", ""), ["src/x/**"]);
        assert_eq!(touches("", "**touches:** docs/**, src/a.rs\n"), ["src/a.rs", "docs/a.md"]);
        assert!(touches("touches: [\"tests/**\"]\n", "").is_empty());
    }
}
