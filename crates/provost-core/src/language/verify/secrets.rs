//! Checks whether the checks of a step can get the secrets it names.

use crate::language::diagnostic::say;
use crate::language::facts::Facts;
use crate::language::parse::Sink;
use crate::model::plan::Plan;

pub(super) fn check(plan: &Plan, facts: &Facts, sink: &mut Sink) {
    for step in &plan.steps {
        for secret in &step.secrets {
            if !step.network.as_ref().is_some_and(|network| network.value) {
                sink.push(say::secret_without_network(secret.span, &secret.value));
            } else if !facts.secrets.contains(&secret.value) {
                sink.push(say::secret_undeclared(secret.span, &secret.value));
            }
        }
    }
}
