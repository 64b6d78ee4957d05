//! Go to definition: from the number of a step to its heading, from names to their files and sections.

use std::path::Path;

use provost_core::model::plan::{Span, Spanned, Subscription};
use provost_engine::plan::harness::Harness;
use serde_json::{Value, json};

use super::documents::{Document, uri_of};
use super::positions::Lines;
use super::rename;

/// Returns the place that the name at an offset means. `open` is asked for only if it may be in another file.
pub(super) fn find(
    document: &Document,
    offset: usize,
    open: impl FnOnce() -> Option<Harness>,
) -> Option<Value> {
    let plan = document.plan();
    let is_at = |span: Span| span.start <= offset && offset <= span.end;
    let at = |name: &&Spanned<String>| is_at(name.span);
    let slug = plan.depends_on.iter().chain(plan.steps.iter().filter_map(|step| step.plan.as_ref())).find(at);
    if let Some(slug) = slug {
        return file(&open()?.place().dir.join(format!("PLAN-{}.md", slug.value)));
    }
    let step = document.step_at(offset)?;
    if let Some((number, _)) = rename::reference_at(step, offset) {
        let heading = plan.step(number)?.heading;
        return Some(json!({ "uri": document.uri, "range": document.range(heading) }));
    }
    if let Some(role) = step.target.as_ref().filter(at) {
        return section(open()?.config().path.as_deref()?, &format!("[agents.{}]", role.value));
    }
    let subscription = step.subscriptions.iter().find(|each| is_at(each.span))?;
    match &subscription.value {
        Subscription::File(path) => file(&open()?.place().workspace.join(path)),
        Subscription::Topic(topic) => file(&open()?.place().dir.join("topics").join(format!("{topic}.md"))),
    }
}

fn file(path: &Path) -> Option<Value> {
    let start = json!({ "line": 0, "character": 0 });
    path.is_file().then(|| json!({ "uri": uri_of(path), "range": { "start": start, "end": start } }))
}

/// Returns the line of a configuration file that opens a section.
fn section(path: &Path, name: &str) -> Option<Value> {
    let text = std::fs::read_to_string(path).ok()?;
    let starts_line = |at: &usize| text[..*at].ends_with('\n') || *at == 0;
    let at = text.match_indices(name).map(|(at, _)| at).find(starts_line)?;
    let range = Lines::new(&text).range(&text, Span::new(at, at + name.len()));
    Some(json!({ "uri": uri_of(path), "range": range }))
}
