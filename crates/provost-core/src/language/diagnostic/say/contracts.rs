//! Texts about contracts: how they are written, who decides, and what their shell does.

use super::{Code, D, clip, new};
use crate::language::recipes;
use crate::model::plan::Span;

// Contracts as they are written.

pub fn contract_missing_block(span: Span, name: &str) -> D {
    new(Code::ContractForm, span, format!("no shell block follows `{name}`"))
        .hint("Put the command in a block that starts with ```shell, or write `human`.")
}

pub fn contract_inline(span: Span, name: &str, command: &str) -> D {
    new(Code::ContractForm, span, format!("`{name}` must be a shell block, not a line"))
        .hint("Put the command in a block that starts with ```shell.")
        .fix(span, format!("\n```shell\n{command}\n```"))
}

pub fn contract_language(span: Span, info: &str) -> D {
    new(Code::ContractForm, span, format!("provost cannot run a contract in `{info}`"))
        .hint("A contract is a `shell` block; call the other language from it.")
}

pub fn contract_doubled(span: Span) -> D {
    new(Code::ContractForm, span, "provost does not read a second block for the same check")
        .hint("Join the commands in one block, with `&&` or `set -e`.")
}

pub fn contract_empty(span: Span) -> D {
    new(Code::ContractEmpty, span, "the check is empty and would always hold")
        .hint("Write a command that fails until the work is done.")
}

pub fn expectation(span: Span, line: &str) -> D {
    new(Code::Expectation, span, format!("{} is not an expectation", clip(line))).hint(
        "Write `exit_code == 0`, `exit_code != 0`, `stdout contains \"…\"`, `stdout matches /…/`, `stderr is empty`, \
         `tests fixed: …`, `no new failures`, `tests passed >= 3` or `no test removed or skipped`.",
    )
}

pub fn check_unknown(span: Span, name: &str) -> D {
    new(Code::CheckUnknown, span, format!("provost.toml has no check `{name}`"))
        .hint(format!("Add [checks.{name}] with `run = \"…\"` to provost.toml, or write a shell block."))
}

pub fn other_commands(span: Span, expectation: &str) -> D {
    let words = format!("`{expectation}` needs a check that does nothing else than run tests");
    new(Code::OtherCommands, span, words)
        .hint("Move the other commands to a step or a postcondition of their own, or add `exit_code == 0`.")
}

pub fn regex_invalid(span: Span, why: &str) -> D {
    new(Code::RegexInvalid, span, format!("the regular expression is not valid: {why}"))
        .hint("Escape characters such as `(`, `[` and `*` with a backslash.")
}

pub fn postcondition_check(span: Span) -> D {
    new(Code::PostconditionCheck, span, "this postcondition has no check")
        .hint("Put an indented ```shell block under it.")
}

pub fn postcondition_none(span: Span) -> D {
    new(Code::PostconditionCheck, span, "the `Postconditions` section holds no list of checks")
        .hint("Write `1. Description`, and an indented ```shell block under it.")
}

pub fn human_decides(span: Span) -> D {
    new(Code::WeakKind, span, "a person confirms this, no check does")
        .hint("provost shows this as weaker than a contract that held; a shell check is stronger.")
}

pub fn model_decides(span: Span, judge: &str) -> D {
    new(Code::ModelDecides, span, format!("a model decides this (`{judge}`), no check does"))
        .hint("provost shows this as weaker than a contract that held; a shell check is stronger.")
}

pub fn no_judge(span: Span) -> D {
    new(Code::JudgeUnfit, span, "no role is configured to judge this")
        .hint("Add `[judge]` with `role = \"…\"` to provost.toml, or use a shell contract.")
}

pub fn judge_unknown(span: Span, judge: &str) -> D {
    new(Code::JudgeUnfit, span, format!("no agent is configured for the judge `{judge}`"))
        .hint(format!("Add [agents.{judge}] to provost.toml."))
}

pub fn judges_itself(span: Span, judge: &str, worker: &str, why: &str) -> D {
    new(Code::JudgeUnfit, span, format!("`{judge}` would judge its own work: `{worker}` {why}"))
        .hint("Name a role with another model under `[judge]` in provost.toml.")
}

pub fn judge_within(span: Span, judge: &str, file: &str) -> D {
    new(
        Code::JudgeUnfit,
        span,
        format!("the program of the judge `{judge}` is `{file}`, which agents can write"),
    )
    .hint("Keep the judge's program outside of the workspace, and name it by its absolute path.")
}

pub fn no_rubric(span: Span) -> D {
    new(Code::JudgeUnfit, span, "a model judges this, but there is no rubric")
        .hint("After `judge`, write what must be true of the work, one point per line.")
}

pub fn not_carried_out(span: Span, what: &str) -> D {
    new(Code::NotCarriedOut, span, format!("this version does not support {what}"))
        .hint("Use a shell contract or `human` in a step of this plan.")
}

pub fn timeout_zero(span: Span, name: &str) -> D {
    new(Code::TimeoutZero, span, format!("`{name}` of zero lets nothing run"))
        .hint("Write a time such as `10 minutes`, or leave the field out.")
}

pub fn hidden_in_sight(span: Span, why: &str) -> D {
    new(Code::HiddenInSight, span, format!("the contract cannot be hidden: {why}")).hint(
        "Run at isolation `clean`, with a plan file that is not in the repository, or leave `hidden` out.",
    )
}

// Contracts as shell.

pub fn shell_syntax(span: Span, why: &str) -> D {
    new(Code::ShellSyntax, span, format!("bash refuses the check: {}", clip(why)))
        .hint("Run `bash -n` on it to see the place.")
}

pub fn masked_exit(span: Span, by: &str) -> D {
    new(Code::MaskedExit, span, format!("`{by}` makes the check hold even if the commands before it fail"))
        .hint("Remove it, so that the exit code of the check decides.")
}

pub fn constant_exit(span: Span) -> D {
    new(Code::ConstantExit, span, "this check can never fail")
        .hint("Write a command that fails until the work is done.")
}

pub fn pipe_hides(span: Span, last: &str) -> D {
    new(Code::PipeHides, span, format!("`| {last}` decides the exit code, not the command before it"))
        .hint("Put `set -o pipefail` first, or leave the pipe out.")
}

pub fn background(span: Span) -> D {
    new(Code::Background, span, "`&` starts the command and does not wait for its exit code")
        .hint("Remove the `&`, or `wait` for the command.")
}

pub fn last_decides(span: Span) -> D {
    new(Code::LastDecides, span, "only the last command of the check decides; this one may fail unseen")
        .hint("Start with `set -e`, or join the commands with `&&`.")
}

pub fn not_stopped_at(span: Span) -> D {
    new(
        Code::LastDecides,
        span,
        "`set -e` does not stop here: bash ignores a failure in `! a` and before `&&`",
    )
    .hint("Put it on the last line, join all commands with `&&`, or add `|| exit 1`.")
}

pub fn placeholder(span: Span, raw: &str) -> D {
    new(Code::Placeholder, span, format!("`{raw}` looks like a placeholder that was not filled in"))
        .hint("Put the real value in; bash reads `<` and `>` as redirections.")
}

pub fn passing(span: Span) -> D {
    new(Code::Passing, span, "this check expects a failure, and a later step may fix it").hint(
        "provost runs all contracts again at the end of the plan: add `**lasting:** no` if this one \
             need not hold then.",
    )
}

pub fn weak_contract(span: Span, why: &str) -> D {
    new(Code::WeakContract, span, format!("this check only {why}"))
        .hint("Run what was built or test what it does; an agent can satisfy this one without the work.")
}

pub fn tool_missing(span: Span, tool: &str) -> D {
    new(Code::ToolMissing, span, format!("`{tool}` is not on PATH here"))
        .hint("Install it, or let an earlier step do so; until then the check cannot hold.")
}

pub fn recipe_unknown(span: Span, why: &str) -> D {
    new(Code::RecipeUnknown, span, why).hint(format!("The recipes are {}.", recipes::NAMES.join(", ")))
}

pub fn path_unseen(span: Span, path: &str) -> D {
    new(Code::PathUnseen, span, format!("a check cannot see {path}")).hint(format!(
        "Add `read = [\"{path}\"]` under [verify] in provost.toml, or use a path of the workspace. Until \
         then provost does not run the check."
    ))
}

pub fn secret_without_network(span: Span, name: &str) -> D {
    new(Code::SecretUnfit, span, format!("a check gets {name} only if it has a network"))
        .hint("Add `**network:** on` to the step, or remove the secret.")
}

pub fn secret_undeclared(span: Span, name: &str) -> D {
    new(Code::SecretUnfit, span, format!("provost.toml does not allow checks to use {name}"))
        .hint(format!("Add `secrets = [\"{name}\"]` under [verify] in provost.toml."))
}

pub fn no_bash(at: Span) -> D {
    new(Code::NoBash, at, "bash is not installed here, so provost did not check the syntax of any contract")
        .hint("Install bash; provost runs contracts with it.")
}
