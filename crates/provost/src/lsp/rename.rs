//! Rename: the number of a step, its title, or a topic.
//!
//! Numbers identify steps and follow their order, so that a step with another number is a step at another
//! place: it moves there, and every reference to a step follows.

use provost_core::language::patch;
use provost_core::model::plan::{Needs, Span, Step, StepNumber, Subscription};
use serde_json::{Value, json};

use super::documents::Document;

/// Something that can be renamed, with the bytes of its name.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    Number(StepNumber, Span),
    Title(Span),
    Topic(String, Span),
}

impl Target {
    fn span(&self) -> Span {
        match self {
            Target::Number(_, span) | Target::Title(span) | Target::Topic(_, span) => *span,
        }
    }
}

/// Returns the name at an offset, or `None` if nothing there can be renamed.
pub(super) fn prepare(document: &Document, offset: usize) -> Option<Value> {
    let span = find(document, offset)?.span();
    Some(json!({ "range": document.range(span), "placeholder": span.of(&document.text) }))
}

/// Returns the edits for a new name, or why it cannot be that.
pub(super) fn edits(document: &Document, offset: usize, name: &str) -> Result<Value, String> {
    let name = name.trim();
    let target =
        find(document, offset).ok_or("only the number and the title of a step, and topics can be renamed")?;
    let edits = match target {
        Target::Number(step, _) => {
            let count = document.plan().steps.len();
            let to = name.parse().ok().filter(|number| (1..=count).contains(&(*number as usize)));
            let to = to.ok_or_else(|| format!("the number of a step is between 1 and {count}"))?;
            let moved = patch::moved(&document.text, document.plan(), step, StepNumber(to));
            let (span, text) = moved.ok_or(
                "the steps are not numbered 1, 2, 3 … or have other text between them; correct that first",
            )?;
            vec![document.edit(span, &text)]
        }
        Target::Title(span) => {
            if name.is_empty() || name.contains(['\n', '\r']) || name.to_lowercase().contains("(depends on") {
                return Err("a title is one line of text".to_owned());
            }
            vec![document.edit(span, name)]
        }
        Target::Topic(topic, _) => {
            let is_word = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
            if name.is_empty() || !name.chars().all(is_word) {
                return Err("a topic is one word of letters, digits, `-`, `_` and `.`".to_owned());
            }
            let same = topics(document).into_iter().filter(|(known, _)| *known == topic);
            same.map(|(_, span)| document.edit(span, name)).collect()
        }
    };
    Ok(document.workspace_edit(edits))
}

fn find(document: &Document, offset: usize) -> Option<Target> {
    let within = |span: Span| span.start <= offset && offset <= span.end;
    if let Some((topic, span)) = topics(document).into_iter().find(|(_, span)| within(*span)) {
        return Some(Target::Topic(topic, span));
    }
    let step = document.step_at(offset)?;
    if let Some((number, span)) = reference_at(step, offset) {
        return Some(Target::Number(number, span));
    }
    let number = Span::new(step.heading.start, step.heading.start + step.number.to_string().len());
    let title = title(&document.text, step);
    match offset {
        _ if within(number) => Some(Target::Number(step.number, number)),
        _ if within(title) => Some(Target::Title(title)),
        _ => None,
    }
}

/// Returns the number of another step that a step names at an offset.
pub(super) fn reference_at(step: &Step, offset: usize) -> Option<(StepNumber, Span)> {
    let Needs::Steps(needs) = &step.needs else { return None };
    let found = needs.iter().find(|need| need.span.start <= offset && offset <= need.span.end)?;
    Some((found.value, found.span))
}

/// Returns the bytes of a title, without the mark before it and the note about other steps after it.
fn title(text: &str, step: &Step) -> Span {
    let whole = Span::new(step.mark.span.end, step.heading.end);
    let shown = whole.of(text);
    let note = shown.to_ascii_lowercase().rfind("(depends on");
    let has_note = matches!(&step.needs, Needs::Steps(needs)
        if needs.first().is_some_and(|need| need.span.start < step.heading.end));
    let shown = note.filter(|_| has_note).map_or(shown, |at| &shown[..at]).trim_end();
    Span::new(whole.start, whole.start + shown.len())
}

/// Returns every topic that the steps name, with the bytes of its name.
fn topics(document: &Document) -> Vec<(String, Span)> {
    let text = &document.text;
    let name_in = |span: Span, topic: &str| {
        let start = span.of(text).rfind(topic).map(|at| span.start + at)?;
        Some((topic.to_owned(), Span::new(start, start + topic.len())))
    };
    let of_step = |step: &Step| {
        let read = step.subscriptions.iter().filter_map(|each| match &each.value {
            Subscription::Topic(topic) => name_in(each.span, topic),
            Subscription::File(_) => None,
        });
        let written = step.publishes.iter().filter_map(|each| name_in(each.span, &each.value));
        read.chain(written).collect::<Vec<_>>()
    };
    document.plan().steps.iter().flat_map(of_step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "---\nstatus: draft\n---\n# P\n## Steps\n### 1. ✅ Öl 😀\n**target:** a\n**task:** x\n**publishes:** notes\n**contract:** human\n\n\
        ### 2. Two (depends on Task 1)\n**target:** a\n**subscriptions:**\n- topic:notes\n**task:** x\n**contract:** human\n";

    fn document() -> Document {
        Document::new("file:///PLAN.md".to_owned(), 1, TEXT.to_owned())
    }

    /// The text after the rename of what is at `needle`.
    fn renamed(needle: &str, name: &str) -> Result<String, String> {
        let document = document();
        let edit = edits(&document, TEXT.find(needle).unwrap(), name)?;
        let edits = edit["changes"]["file:///PLAN.md"].as_array().unwrap().iter().rev();
        let changes = edits.map(|edit| {
            serde_json::from_value(json!({ "range": edit["range"], "text": edit["newText"] })).unwrap()
        });
        Ok(document.changed(2, changes.collect()).text)
    }

    #[test]
    fn a_step_with_another_number_moves_there() {
        let moved = renamed("2. Two", "1").unwrap();
        assert!(
            moved.contains("### 1. Two (depends on Task 2)") && moved.contains("### 2. ✅ Öl 😀"),
            "{moved}"
        );
        assert_eq!(renamed("1)", "2").unwrap(), moved, "a reference is the step it names");
        assert_eq!(renamed("2. Two", "3"), Err("the number of a step is between 1 and 2".to_owned()));
        assert!(renamed("2. Two", "one").is_err());
    }

    #[test]
    fn a_title_keeps_its_mark_and_its_note() {
        assert!(renamed("Öl", "Größe").unwrap().contains("### 1. ✅ Größe\n"));
        assert!(renamed("Two", "Three").unwrap().contains("### 2. Three (depends on Task 1)\n"));
        assert!(renamed("Two", "").is_err());
    }

    #[test]
    fn a_topic_is_renamed_everywhere() {
        for needle in ["notes\n**contract", "notes\n**task"] {
            let text = renamed(needle, "facts").unwrap();
            assert!(text.contains("**publishes:** facts\n") && text.contains("- topic:facts\n"), "{text}");
        }
        assert!(renamed("notes\n", "two words").is_err());
    }

    #[test]
    fn other_places_cannot_be_renamed() {
        assert_eq!(prepare(&document(), TEXT.find("human").unwrap()), None);
        assert_eq!(prepare(&document(), 0), None);
        let number = prepare(&document(), TEXT.find("2. Two").unwrap()).unwrap();
        assert_eq!(number["placeholder"], "2");
        let title = prepare(&document(), TEXT.find("Öl").unwrap()).unwrap();
        assert_eq!(
            (&title["placeholder"], &title["range"]["start"]["character"]),
            (&json!("Öl 😀"), &json!(9))
        );
    }
}
