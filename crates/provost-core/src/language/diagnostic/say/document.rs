//! Texts about the file, its frontmatter and its headings.

use super::{Code, D, list, new};
use crate::model::plan::{FRONTMATTER_KEYS, STATUSES, Span, StepNumber};
use crate::model::suggest;

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
