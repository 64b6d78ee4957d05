//! Runs every contract of a plan on the base and watches it, for `provost verify --deep`.
//!
//! **Invariant:** nothing is recorded. No check gets secrets here. A plan that no person has approved runs only
//! in a sandbox, and without network.

use std::collections::BTreeMap;

use provost_core::model::contract_traits::ContractTraits;
use provost_core::model::event::CheckSubject;
use provost_core::model::plan::{Check, Contract};
use provost_core::model::verdict::{Isolation, Verdict};
use provost_core::state::run::Run;
use provost_host::Interrupted;
use provost_host::check::judge;
use serde::Serialize;

use crate::Error;
use crate::exec::executor::Executor;
use crate::exec::proof_map::VariedContract as _;
use crate::exec::trial::{executor, rating, run_to_try, why_not};
use crate::plan::harness::Harness;

/// One contract of a plan, as it ran on the base.
#[derive(Debug, Serialize)]
pub struct DeepRow {
    /// "step 2", "postcondition 1".
    pub place: String,
    pub command: String,
    pub verdict: Verdict,
    pub traits: ContractTraits,
    /// Sentences about what was not tried.
    pub untried: Vec<String>,
}

impl DeepRow {
    /// Returns the traits by commands, for diagnostics.
    pub fn traits_of(rows: &[DeepRow]) -> BTreeMap<String, ContractTraits> {
        rows.iter().map(|row| (row.command.clone(), row.traits.clone())).collect()
    }
}

/// Runs the contracts of all steps and the postconditions, one after the other.
pub fn look(harness: &Harness, watch: &mut dyn FnMut(&DeepRow)) -> Result<Vec<DeepRow>, Error> {
    let run = run_to_try(harness)?;
    let (executor, level) = executor(harness, &run)?;
    let mut rows = Vec::new();
    let steps = run.plan.steps.iter().map(|step| {
        let place = format!("step {}", step.number);
        (place, CheckSubject::Final(step.number), Some(step), step.contract.as_ref())
    });
    let after = run.plan.postconditions.iter().map(|post| {
        let place = format!("postcondition {}", post.number);
        (place, CheckSubject::Postcondition(post.number), None, post.contract.as_ref())
    });
    for (place, subject, step, contract) in steps.chain(after) {
        let Some(Contract { check: Check::Shell(shell), .. }) = contract else { continue };
        let (verdict, traits, untried) = match why_not(&run, step, level) {
            Some(reason) => untried(level, reason),
            None => on_base(&executor, &run, subject, level).map_err(|Interrupted| Error::Interrupted)?,
        };
        let row = DeepRow { place, command: shell.command.clone(), verdict, traits, untried };
        watch(&row);
        rows.push(row);
    }
    judge::leave();
    Ok(rows)
}

type Found = (Verdict, ContractTraits, Vec<String>);

/// A contract that must not be run yet has no traits.
fn untried(level: Isolation, reason: &str) -> Found {
    (Verdict::not_run(level, reason), ContractTraits::default(), vec![format!("It was not run: {reason}.")])
}

fn on_base(
    executor: &Executor<'_>,
    run: &Run,
    subject: CheckSubject,
    level: Isolation,
) -> Result<Found, Interrupted> {
    let tree = executor.standing_tree(run);
    let order = executor.order_for(run, subject);
    let contract = order.as_ref().and_then(|order| executor.on_tree(order, tree.as_deref()?));
    let Some(contract) = contract else {
        return Ok(untried(level, "at this level provost has no base of its own"));
    };
    let verdict = contract.control()?;
    let mut untried = Vec::new();
    let (traits, _) = rating::of_contract(executor, &contract, tree.as_deref(), &verdict, &mut untried)?;
    Ok((verdict, traits, untried))
}
