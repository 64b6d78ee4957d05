//! Holds the texts of all diagnostics.
//!
//! Messages are lowercase fragments that name the subject; hints are sentences that say what to do. There is
//! one function per finding, so that two checks never describe the same mistake differently.

use super::{Code, Diagnostic};
use crate::model::plan::{FRONTMATTER_KEYS, STATUSES, Span, StepNumber};
use crate::model::suggest;

type D = Diagnostic;

fn new(code: Code, span: Span, message: impl Into<String>) -> D {
    Diagnostic::new(code, span, message)
}

// The file as bytes.

pub fn too_large(bytes: usize) -> D {
    new(Code::TooLarge, Span::at(0), format!("the plan has {bytes} bytes; more than 16 MiB are not read"))
        .hint("Move long material into files and subscribe to them with `file:`.")
}

pub fn not_text(at: usize) -> D {
    new(Code::NotText, Span::at(0), format!("the plan is not UTF-8 text: byte {at} is not valid"))
        .hint("Save the file as UTF-8, or check that it is a plan at all.")
}

pub fn control(span: Span, c: char) -> D {
    new(Code::Invisible, span, format!("control character U+{:04X}", u32::from(c)))
        .hint("Delete it: it can hide text on a terminal.")
        .fix(span, "")
}

pub fn invisible(span: Span, c: char) -> D {
    new(Code::Invisible, span, format!("invisible character U+{:04X}", u32::from(c)))
        .hint("Delete it: a person must see exactly what they approve.")
        .fix(span, "")
}

pub fn non_ascii(span: Span, c: char, what: &str) -> D {
    new(Code::NonAscii, span, format!("`{c}` (U+{:04X}) in {what} is not ASCII", u32::from(c)))
        .hint("If a look-alike slipped in, type the plain character.")
}

pub fn hidden_html(span: Span) -> D {
    new(Code::HiddenHtml, span, "provost does not read HTML and comments in a step")
        .hint("Write it in plain Markdown, or delete it: no agent and no check sees it.")
}

pub fn empty() -> D {
    new(Code::Empty, Span::at(0), "the plan is empty").hint("docs/plan-format.md shows the form.")
}

pub fn secret(span: Span, kind: &str) -> D {
    new(Code::Secret, span, format!("this looks like a secret ({kind})")).hint(
        "Remove it: the log keeps the text of a plan for ever. Let the step read \
             the secret from its environment.",
    )
}

// Frontmatter.

pub fn no_frontmatter(at: usize) -> D {
    new(Code::NoFrontmatter, Span::at(at), "the plan does not start with frontmatter")
        .hint("Put `---`, `type: plan`, `status: draft`, `---` on the first four lines.")
        .fix(Span::at(at), "---\ntype: plan\nstatus: draft\n---\n\n")
}

pub fn frontmatter_open(span: Span) -> D {
    new(Code::FrontmatterOpen, span, "the frontmatter has no closing `---` line")
        .hint("Close it with a line that holds only `---`.")
}

pub fn frontmatter_invalid(span: Span, why: &str) -> D {
    new(Code::FrontmatterInvalid, span, format!("the frontmatter is not valid YAML: {why}"))
        .hint("Write one `key: value` on each line; lists are `[a, b]`; put globs in quotes.")
}

pub fn frontmatter_unknown(span: Span, key: &str) -> D {
    let d = new(Code::FrontmatterUnknown, span, format!("unknown key `{key}` in the frontmatter"));
    match suggest::suggestion(key, FRONTMATTER_KEYS) {
        Some(known) => d.hint(format!("Did you mean `{known}`?")).fix(span, known),
        None => d.hint(format!("Known keys are {}.", list(FRONTMATTER_KEYS))),
    }
}

pub fn not_a_plan(span: Span, kind: &str) -> D {
    new(Code::FrontmatterValue, span, format!("type is `{kind}`, not `plan`"))
        .hint("provost runs only files of `type: plan`.")
        .fix(span, "plan")
}

pub fn bad_require_red(span: Span, value: &str) -> D {
    new(Code::FrontmatterValue, span, format!("require_red `{value}` is neither `true` nor `false`"))
        .hint("Write `require_red: true` or `require_red: false`.")
}

pub fn bad_status(span: Span, status: &str) -> D {
    let d = new(Code::FrontmatterValue, span, format!("status `{status}` is not one of the stages"))
        .hint(format!("Write one of {} as a plain word; a new plan is `draft`.", list(STATUSES)));
    match suggest::suggestion(status, STATUSES) {
        Some(known) => d.fix(span, known),
        None => d,
    }
}

pub fn frontmatter_doubled(span: Span) -> D {
    new(Code::FrontmatterDoubled, span, "provost does not read a second frontmatter")
        .hint("Merge its keys into the first one.")
}

pub fn no_status(at: Span) -> D {
    new(Code::NoStatus, at, "the frontmatter has no status")
        .hint("Add `status: draft`; from then on provost updates it.")
        .fix(at, "status: draft\n")
}

// Headings.

pub fn no_title(at: Span) -> D {
    new(Code::NoTitle, at, "the plan has no title").hint("Write `# What the plan achieves` before the steps.")
}

pub fn no_steps_section(at: Span) -> D {
    new(Code::NoSteps, at, "there is no `## Steps` section")
        .hint("Put the steps under `## Steps`, each as `### 1. Title of the step`.")
}

pub fn no_steps(at: Span) -> D {
    new(Code::NoSteps, at, "there is no step under `## Steps`")
        .hint("Write each step as `### 1. Title of the step`.")
}

pub fn step_range(span: Span, label: &str) -> D {
    new(Code::StepRange, span, format!("the heading `{label}.` names several steps"))
        .hint("Expand the range into one numbered step each; every step needs its own contract.")
}

pub fn step_heading(span: Span, next: u32, fix: Option<(Span, String)>) -> D {
    let d = new(Code::StepHeading, span, "this heading is not a step, so provost runs nothing under it")
        .hint(format!("Write `### {next}. Title`: a number, a dot, a space, the title."));
    match fix {
        Some((at, replacement)) => d.fix(at, replacement),
        None => d,
    }
}

pub fn step_doubled(span: Span, number: StepNumber) -> D {
    new(Code::StepNumber, span, format!("two steps have the number {number}"))
        .hint("Number the steps 1, 2, 3 … from top to bottom.")
}

pub fn step_gap(span: Span, expected: u32, found: StepNumber) -> D {
    new(Code::StepNumber, span, format!("expected step {expected} here, found {found}"))
        .hint("Number the steps 1, 2, 3 … from top to bottom.")
        .fix(span, expected.to_string())
}

pub fn section_doubled(span: Span, name: &str) -> D {
    new(Code::SectionDoubled, span, format!("provost does not read a second `{name}` section"))
        .hint("Move its content into the first one.")
}

pub fn underlined(span: Span, underline: usize) -> D {
    new(Code::Underlined, span, "the line below turns this text into a heading")
        .hint("Leave an empty line before the `---` or `===`.")
        .fix(Span::at(underline), "\n")
}

pub fn step_level(span: Span, steps: u8, here: u8) -> D {
    let (steps, here) = ("#".repeat(steps.into()), "#".repeat(here.into()));
    new(Code::StepLevel, span, format!("numbered like a step, but `{here}` is not the level of the steps"))
        .hint(format!("Write `{steps}` if it is a step; otherwise it belongs to the step above."))
}

pub fn fence_open(span: Span) -> D {
    new(Code::FenceOpen, span, "this fence is never closed, so everything after it belongs to it")
        .hint("Close it with a line of as many backticks or tildes.")
}

// Fields.

pub fn field_unknown(span: Span, name: &str, known: &str) -> D {
    new(Code::FieldUnknown, span, format!("unknown field `{name}`"))
        .hint(format!("Did you mean `{known}`? If it is not a field, write it without the colon."))
        .fix(span, known)
}

pub fn field_doubled(span: Span, name: &str) -> D {
    new(Code::FieldDoubled, span, format!("`{name}` appears twice"))
        .hint("Keep one of them; provost reads the first.")
}

pub fn field_value(span: Span, name: &str, value: &str, form: &str) -> D {
    let message = match value {
        "" => format!("`{name}` has no value"),
        value => format!("`{name}` cannot be read: {}", clip(value)),
    };
    new(Code::FieldValue, span, message).hint(form)
}

pub fn needs_twice(span: Span) -> D {
    new(Code::FieldDoubled, span, "`needs` and \"(depends on …)\" both say what the step waits for")
        .hint("Keep one of them.")
}

pub fn field_in_container(span: Span, name: &str) -> D {
    new(Code::FieldMisplaced, span, format!("provost does not read `{name}` in a list or a quotation"))
        .hint("Put the field at the start of its own line.")
}

pub fn field_outside(span: Span, name: &str) -> D {
    new(Code::FieldMisplaced, span, format!("`{name}` is outside of every step, so provost does not read it"))
        .hint("Move it under the step it belongs to.")
}

pub fn text_unread(span: Span) -> D {
    new(Code::TextUnread, span, "this text belongs to no field, so no agent gets it")
        .hint("Put what the agent should know after `**task:**`.")
}

pub fn field_form(span: Span, name: &str, fix: Option<(Span, String)>) -> D {
    let d = new(
        Code::FieldForm,
        span,
        format!("`{name}` is not written as a field, so provost does not read it"),
    )
    .hint(format!("Write `**{name}:** value`."));
    match fix {
        Some((at, replacement)) => d.fix(at, replacement),
        None => d,
    }
}

pub fn subscription_form(span: Span, value: &str) -> D {
    let d = new(Code::SubscriptionForm, span, format!("{} is not a subscription", clip(value)))
        .hint("Write `file:path/in/the/workspace` or `topic:name`.");
    let is_path = !value.contains([' ', ':']) && !value.is_empty();
    if is_path { d.fix(Span::at(span.start), "file:") } else { d }
}

pub fn subscription_outside(span: Span, path: &str) -> D {
    new(Code::SubscriptionForm, span, format!("`{path}` is outside of the workspace"))
        .hint("Name a file by its path inside the workspace, without `..` and without a leading `/`.")
}

pub fn no_task(span: Span, number: StepNumber) -> D {
    new(Code::NoTask, span, format!("step {number} has no task"))
        .hint("Add `**task:**` and say what the agent should do.")
}

pub fn no_target(span: Span, number: StepNumber) -> D {
    new(Code::NoTarget, span, format!("step {number} has no target"))
        .hint("Add `**target:** coder`, or another role of provost.toml.")
}

pub fn no_contract(span: Span, number: StepNumber) -> D {
    new(Code::NoContract, span, format!("step {number} has no contract, so nothing can show that it is done"))
        .hint("Add `**contract:**` and a shell block that fails until the step is done.")
}

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
        "Write `exit_code == 0`, `exit_code != 0`, `stdout contains \"…\"`, `stdout matches /…/` or `stderr is empty`.",
    )
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

pub fn touches_outside(span: Span, glob: &str) -> D {
    new(Code::TouchesOutside, span, format!("`{glob}` is outside of what the plan may change")).hint(
        "Add it to `touches` in the frontmatter, or remove it here: a check sees \
             only files that both allow.",
    )
}

pub fn touches_ignored(span: Span, glob: &str) -> D {
    new(Code::TouchesIgnored, span, format!("`{glob}` names files that git ignores")).hint(
        "Checks see these files. A commit leaves them out, unless you run `provost commit --with-ignored`.",
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

// Context and order.

pub fn file_missing(span: Span, path: &str) -> D {
    new(Code::FileMissing, span, format!("`{path}` does not exist and no earlier step names it"))
        .hint("Correct the path, or let an earlier step write the file.")
}

pub fn file_later(span: Span, path: &str, maker: StepNumber) -> D {
    new(Code::FileLater, span, format!("step {maker} makes `{path}`, but comes later"))
        .hint("Put that step first, or drop the subscription.")
}

pub fn topic_missing(span: Span, topic: &str) -> D {
    new(Code::TopicMissing, span, format!("no step publishes the topic `{topic}`"))
        .hint(format!("Write topics/{topic}.md beside the plan, have an earlier step say `**publishes:** {topic}`, or correct the name."))
}

pub fn needs_unknown(span: Span, number: StepNumber, steps: usize) -> D {
    new(Code::NeedsUnknown, span, format!("there is no step {number} to wait for"))
        .hint(format!("The plan has the steps 1 to {steps}."))
}

pub fn needs_itself(span: Span, number: StepNumber) -> D {
    new(Code::NeedsUnknown, span, format!("step {number} waits for itself")).hint("Remove it from `needs`.")
}

pub fn needs_later(span: Span, step: StepNumber, later: StepNumber) -> D {
    new(Code::NeedsLater, span, format!("step {step} needs step {later}, which comes after it"))
        .hint("Order the steps so that each comes after the steps it needs.")
}

pub fn step_cycle(span: Span, cycle: &[StepNumber]) -> D {
    let round: Vec<String> = cycle.iter().map(|step| step.to_string()).collect();
    new(Code::StepCycle, span, format!("steps wait for each other: {}", clip_list(&round)))
        .hint("Remove one of these from `needs`.")
}

pub fn plan_unknown(span: Span, slug: &str, nearest: Option<&str>) -> D {
    let d = new(Code::PlanUnknown, span, format!("there is no plan `{slug}`"));
    match nearest {
        Some(known) => d.hint(format!("Did you mean `{known}`?")).fix(span, known),
        None => d.hint(format!("provost looks for the file PLAN-{slug}.md beside this one.")),
    }
}

pub fn plan_cycle(span: Span, cycle: &[String]) -> D {
    new(Code::PlanCycle, span, format!("plans wait for each other: {}", clip_list(cycle)))
        .hint("Remove one of these from `depends_on`, or from a `**plan:**` field.")
}

pub fn nobody_is_told(span: Span, plan: &str) -> D {
    new(Code::TextUnread, span, format!("no agent gets this task: the plan `{plan}` carries out the step"))
        .hint("Remove `**task:**`, or move it into that plan.")
}

pub fn nobody_works(span: Span, target: &str, plan: &str) -> D {
    new(Code::TextUnread, span, format!("`{target}` gets no task: the plan `{plan}` carries out this step"))
        .hint("Remove `**target:**` or `**plan:**`.")
}

pub fn target_unknown(span: Span, target: &str, roles: &[&str], nearest: Option<&str>) -> D {
    let d = new(Code::TargetUnknown, span, format!("no agent is configured for `{target}`"));
    let known = format!(
        "Known roles are {}. For another one, add [agents.{target}] to provost.toml. There is no `driver \
         = \"human\"`: if a person does the work, make the contract `human`.",
        list(roles.iter().copied())
    );
    match nearest {
        Some(nearest) => d.hint(format!("Did you mean `{nearest}`? {known}")).fix(span, nearest),
        None => d.hint(known),
    }
}

pub fn no_targets(span: Span, target: &str) -> D {
    new(Code::NoTargets, span, format!("no agents are configured, so no agent can work as `{target}`"))
        .hint(format!("Add [agents.{target}] to provost.toml."))
}

pub fn agent_not_startable(span: Span, target: &str, why: &str) -> D {
    new(Code::AgentNotStartable, span, format!("the agent of `{target}` cannot be started: {why}"))
        .hint(format!("Install the program, or correct the command in [agents.{target}] of provost.toml."))
}

// Permissions to change files.

pub fn touches_absent(at: Span) -> D {
    new(Code::TouchesOpen, at, "no `touches`: the agent could edit its own checks")
        .hint("Add `touches: [\"src/**\"]` to the frontmatter, without the files the contracts rely on.")
}

pub fn touches_everything(span: Span) -> D {
    new(Code::TouchesOpen, span, "`touches` covers everything: the agent could edit its own checks")
        .hint("Name the folders the plan changes, without the files the contracts rely on.")
}

pub fn glob_invalid(span: Span, glob: &str, why: &str) -> D {
    new(Code::GlobInvalid, span, format!("the glob {} is not valid: {why}", clip(glob)))
        .hint("Write a path relative to the workspace, such as `src/**/*.rs`.")
}

pub fn writes_tests(span: Span, why: &str) -> D {
    new(Code::WritesTests, span, format!("this step seems to write its own checks: {why}")).hint(
        "Add `**writes:** tests`. Without it, provost withholds a pass that only the changed tests explain.",
    )
}

// Money, size and taste.

pub fn no_budget(at: Span) -> D {
    new(Code::NoBudget, at, "the plan has no budget")
        .hint("Add `**Budget:** max 200k tokens, $1.50, 20 minutes` under the title.")
}

pub fn budget_zero(span: Span, what: &str) -> D {
    new(Code::BudgetZero, span, format!("a budget of zero {what} lets no step run"))
        .hint("Give it a value, or leave it out.")
}

pub fn budget_tight(span: Span, what: &str) -> D {
    new(Code::BudgetTight, span, format!("the budget leaves {what} for each step"))
        .hint("Check the unit; agents use more than that on any real task.")
}

pub fn budget_above(span: Span, own: &str, plan: &str) -> D {
    new(Code::BudgetAbove, span, format!("the step may use {own}, and the whole plan {plan}"))
        .hint("Lower it, or raise the plan's budget: the smaller one applies.")
}

pub fn step_count(span: Span, count: usize) -> D {
    let message = match count {
        0..3 => format!("the plan has only {count} step{}", if count == 1 { "" } else { "s" }),
        _ => format!("the plan has {count} steps, which is many for one plan"),
    };
    new(Code::StepCount, span, message)
        .hint("Three to seven steps, each with its own check, are easiest to review and to resume.")
}

pub fn vague_task(span: Span, phrase: &str) -> D {
    new(Code::VagueTask, span, format!("\"{}\" does not say what to change", phrase))
        .hint("Name the files, the behaviour and how to tell that it is done.")
}

pub fn no_on_fail(span: Span) -> D {
    new(Code::NoOnFail, span, "no on_fail: provost retries a failed step twice, then asks a person")
        .hint("Write `**on_fail:** retry(2), then escalate` to make it visible.")
}

fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().take(12).map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

fn clip(value: &str) -> String {
    let line = value.lines().next().unwrap_or("");
    match line.char_indices().nth(60) {
        Some((at, _)) => format!("`{}…`", &line[..at]),
        None => format!("`{line}`"),
    }
}

fn clip_list(words: &[String]) -> String {
    match words.len() {
        0..=12 => words.join(" → "),
        _ => format!("{} → … ({} in all)", words[..10].join(" → "), words.len() - 1),
    }
}
