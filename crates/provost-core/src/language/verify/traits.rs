//! Reports what contracts did when they ran on the base, for `provost verify --deep`.

use std::collections::BTreeMap;

use crate::language::diagnostic::say;
use crate::language::parse::Sink;
use crate::model::contract_traits::ContractTraits;
use crate::model::plan::{Check, Contract, Plan};

/// The traits of contracts that were run, by their commands.
pub type TraitsByCommand = BTreeMap<String, ContractTraits>;

pub(super) fn check(plan: &Plan, traits: &TraitsByCommand, sink: &mut Sink) {
    for step in &plan.steps {
        let may_reach = step.network.as_ref().is_some_and(|network| network.value);
        step.contract.iter().for_each(|contract| one(contract, may_reach, traits, sink));
    }
    for contract in plan.postconditions.iter().filter_map(|post| post.contract.as_ref()) {
        one(contract, false, traits, sink);
    }
}

fn one(contract: &Contract, may_reach: bool, traits: &TraitsByCommand, sink: &mut Sink) {
    let Check::Shell(shell) = &contract.check else { return };
    let Some(traits) = traits.get(&shell.command) else { return };
    let span = contract.span;
    if let Some(reason) = &traits.cannot_run {
        sink.push(say::cannot_run(span, reason));
    }
    if let Some(evidence) = traits.network.as_ref().filter(|_| !may_reach) {
        sink.push(say::reaches_network(span, evidence));
    }
    if let Some(evidence) = &traits.chance {
        sink.push(say::uses_chance(span, evidence));
    }
    if let Some(evidence) = &traits.clock {
        sink.push(say::reads_clock(span, evidence));
    }
    if let Some(evidence) = &traits.writes {
        sink.push(say::writes_tree(span, evidence));
    }
    if let Some(evidence) = &traits.git {
        sink.push(say::uses_git(span, evidence));
    }
}
