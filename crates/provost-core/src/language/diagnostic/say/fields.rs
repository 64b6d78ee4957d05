//! Texts about the fields of a step.

use super::{Code, D, clip, new};
use crate::model::plan::{Span, StepNumber};

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

pub fn field_elsewhere(span: Span, name: &str, known: &str) -> D {
    new(Code::TextUnread, span, format!("`{name}` is not a field, so provost does not read this line"))
        .hint(format!("Did you mean `**{known}:**`?"))
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
