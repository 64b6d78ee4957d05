//! Lists the fields of a step and their names.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Target,
    Needs,
    Subscriptions,
    Task,
    Precondition,
    Contract,
    Timeout,
    ContractTimeout,
    Protect,
    Network,
    AgentNetwork,
    Git,
    Hidden,
    Writes,
    VerifyRuns,
    Lasting,
    Guard,
    Prove,
    Publishes,
    Plan,
    OnFail,
    Budget,
    Touches,
    Secrets,
}

impl Field {
    pub(super) const ALL: [Field; 24] = [
        Field::Target,
        Field::Needs,
        Field::Subscriptions,
        Field::Task,
        Field::Precondition,
        Field::Contract,
        Field::Timeout,
        Field::ContractTimeout,
        Field::Protect,
        Field::Network,
        Field::AgentNetwork,
        Field::Git,
        Field::Hidden,
        Field::Writes,
        Field::VerifyRuns,
        Field::Lasting,
        Field::Guard,
        Field::Prove,
        Field::Publishes,
        Field::Plan,
        Field::OnFail,
        Field::Budget,
        Field::Touches,
        Field::Secrets,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Field::Target => "target",
            Field::Needs => "needs",
            Field::Subscriptions => "subscriptions",
            Field::Task => "task",
            Field::Precondition => "precondition",
            Field::Contract => "contract",
            Field::Timeout => "timeout",
            Field::ContractTimeout => "contract_timeout",
            Field::Protect => "protect",
            Field::Network => "network",
            Field::AgentNetwork => "agent_network",
            Field::Git => "git",
            Field::Hidden => "hidden",
            Field::Writes => "writes",
            Field::VerifyRuns => "verify_runs",
            Field::Lasting => "lasting",
            Field::Guard => "guard",
            Field::Prove => "prove",
            Field::Publishes => "publishes",
            Field::Plan => "plan",
            Field::OnFail => "on_fail",
            Field::Budget => "budget",
            Field::Touches => "touches",
            Field::Secrets => "secrets",
        }
    }

    pub(super) fn named(name: &str) -> Option<Field> {
        let same = |field: &&Field| {
            // Compare length and first letter first: nearly all names differ there.
            name.len() == field.name().len()
                && name.as_bytes().first().is_some_and(|a| a | 0x20 == field.name().as_bytes()[0])
                && name.bytes().zip(field.name().bytes()).all(|(a, b)| match a {
                    b' ' | b'-' => b == b'_',
                    a => a.to_ascii_lowercase() == b,
                })
        };
        Field::ALL.iter().find(same).copied()
    }

    /// Returns the field that other tools call by this name.
    pub(super) fn known_elsewhere_as(name: &str) -> Option<Field> {
        let field = match name.trim().to_lowercase().replace([' ', '-'], "_").as_str() {
            "agent" | "role" | "assignee" | "executor" | "worker" => Field::Target,
            "check"
            | "checks"
            | "verify"
            | "verification"
            | "test"
            | "tests"
            | "acceptance"
            | "acceptance_criteria"
            | "done_when"
            | "validation" => Field::Contract,
            "description" | "goal" | "prompt" | "instructions" | "objective" | "what" => Field::Task,
            "depends" | "depends_on" | "after" | "requires" | "dependencies" => Field::Needs,
            "retry" | "retries" | "on_failure" | "on_error" => Field::OnFail,
            "files" | "scope" | "paths" => Field::Touches,
            _ => return None,
        };
        Some(field)
    }

    /// Explains the form of the value, for a person who wrote it in another form.
    pub(super) fn form(self) -> &'static str {
        match self {
            Field::Target => "Write one role, such as `coder`.",
            Field::Plan => "Write the slug of one plan.",
            Field::Needs => "Write step numbers such as `1, 2`, or `none`.",
            Field::Timeout | Field::ContractTimeout => {
                "Write a time such as `10 minutes`, `90s` or `1h 30m`."
            }
            Field::Network => "Write `on` or `off`.",
            Field::Secrets => "Write names of environment variables, such as `GH_TOKEN`.",
            Field::Hidden | Field::Lasting | Field::Guard | Field::Prove => "Write `yes` or `no`.",
            Field::Writes => "Write `tests`, or leave it out.",
            Field::AgentNetwork => "Write `model`, `on` or `off`.",
            Field::Git => "Write `clone`, `none` or `shared`.",
            Field::VerifyRuns => "Write how often the check is run, from 1 to 100.",
            Field::Budget => "Write it as `max 50k tokens, $0.40, 5 minutes`; each part may be left out.",
            Field::OnFail => {
                "Write `retry(2), then escalate`; the words are retry(N), escalate, abort and skip."
            }
            Field::Subscriptions
            | Field::Task
            | Field::Precondition
            | Field::Contract
            | Field::Protect
            | Field::Touches
            | Field::Publishes => "Give it a value.",
        }
    }
}
