//! Verifies a plan against facts and reports what its author and approvers should know.
//!
//! Each check is a file in `verify/` that does not use the others; this file lists them. `parse` has already
//! reported what the text alone shows (missing parts, numbering, form).
//!
//! **Invariant:** the same plan and the same facts give the same diagnostics.

use crate::language::diagnostic::Diagnostic;
use crate::language::facts::Facts;
use crate::language::parse::Sink;
use crate::model::plan::Plan;

mod budget;
mod context;
mod contracts;
mod order;
mod plans;
mod secrets;
mod size;
mod strength;
mod targets;
mod touches;
mod traits;
mod writes;

pub use traits::TraitsByCommand;

/// Returns all diagnostics that need no run, in the order of the text.
pub fn plan(text: &str, plan: &Plan, facts: &Facts) -> Vec<Diagnostic> {
    let mut sink = Sink::default();
    touches::check(plan, facts, &mut sink);
    plans::check(plan, facts, &mut sink);
    budget::check(plan, &mut sink);
    size::check(plan, &mut sink);
    targets::check(plan, facts, &mut sink);
    order::check(plan, &mut sink);
    context::check(plan, facts, &mut sink);
    strength::check(plan, facts, &mut sink);
    writes::check(plan, facts, &mut sink);
    secrets::check(plan, facts, &mut sink);
    contracts::check(text, plan, facts, &mut sink);
    sink.finish()
}

/// Returns the diagnostics of contracts that were run.
pub fn contracts_that_ran(plan: &Plan, traits: &TraitsByCommand) -> Vec<Diagnostic> {
    let mut sink = Sink::default();
    traits::check(plan, traits, &mut sink);
    sink.finish()
}
