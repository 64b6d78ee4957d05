//! Derives texts from a plan: with its last steps replaced, without its first steps, or with a step moved.
//!
//! **Invariant:** the kept parts stay byte for byte the same, except for step numbers that must change.

use crate::language::parse;
use crate::model::approved_spec::{self, Law};
use crate::model::plan::{Needs, Plan, Span, Step, StepNumber};

/// Replaces all steps from `first` on. A `patch` that is a whole plan is returned unchanged.
pub fn from(text: &str, plan: &Plan, first: StepNumber, patch: &str) -> String {
    let is_whole = patch.lines().any(|line| line.starts_with("# ") || line.starts_with("## Steps"));
    let Some(last) = plan.steps.last().filter(|_| !is_whole) else { return patch.to_owned() };
    let begin = plan.step(first).map_or(last.section.end, |step| step.section.start);
    let (before, after) = (&text[..begin.min(text.len())], &text[last.section.end.min(text.len())..]);
    let gap = if before.ends_with('\n') { "" } else { "\n\n" };
    let end = if after.is_empty() { "\n" } else { "\n\n" };
    format!("{before}{gap}{}{end}{after}", patch.trim())
}

/// Returns the steps that have run and that the new text changes or lacks.
pub fn rewritten<'p>(old: Law<'p>, new: Law<'_>, has_run: impl Fn(StepNumber) -> bool) -> Vec<&'p Step> {
    let is_same = |step: &Step| {
        let after = new.plan.step(step.number);
        after.is_some_and(|after| {
            approved_spec::step_digest(old.text, step) == approved_spec::step_digest(new.text, after)
        })
    };
    old.plan.steps.iter().filter(|step| has_run(step.number) && !is_same(step)).collect()
}

/// Why the rest of a plan cannot be a plan of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("step {0} names in its title what it needs; write it as **needs:** instead")]
    NeedsInTitle(StepNumber),
}

/// Returns the steps from `from` on as a plan of their own, numbered from 1, unmarked, and for another role
/// if one is given. References in `needs` to the removed steps are dropped: those steps are done.
pub fn rest(text: &str, plan: &Plan, from: StepNumber, target: Option<&str>) -> Result<String, Unfit> {
    let text = approved_spec::mark(text, plan, "draft", |_| None);
    let plan = parse::plan(&text).plan;
    let moved = |number: StepNumber| number.0.checked_sub(from.0 - 1).filter(|number| *number > 0);
    let mut edits: Vec<(Span, String)> = Vec::new();
    for step in &plan.steps {
        let Some(number) = moved(step.number) else {
            edits.push((step.section, String::new()));
            continue;
        };
        let heading = step.heading.of(&text);
        let digits = heading.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(0);
        let start = step.heading.start;
        edits.push((Span::new(start, start + digits), number.to_string()));
        if let (Some(written), Some(target)) = (&step.target, target) {
            edits.push((written.span, target.to_owned()));
        }
        if let Needs::Steps(needs) = &step.needs
            && let (Some(first), Some(last)) = (needs.first(), needs.last())
        {
            if first.span.start < step.heading.end {
                return Err(Unfit::NeedsInTitle(step.number));
            }
            let list: Vec<String> =
                needs.iter().filter_map(|need| moved(need.value)).map(|need| need.to_string()).collect();
            let list = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
            edits.push((Span::new(first.span.start, last.span.end), list));
        }
    }
    Ok(edited(&text, Span::new(0, text.len()), edits))
}

/// Returns a part of the text with these edits, which do not overlap.
fn edited(text: &str, part: Span, mut edits: Vec<(Span, String)>) -> String {
    edits.sort_by_key(|(span, _)| *span);
    let mut out = String::with_capacity(part.end.saturating_sub(part.start));
    let mut at = part.start;
    for (span, with) in edits {
        out.push_str(text.get(at..span.start).unwrap_or_default());
        out.push_str(&with);
        at = span.end;
    }
    out.push_str(text.get(at..part.end).unwrap_or_default());
    out
}

/// Returns the part of the text that holds the steps, and its new text with step `from` at the place of step
/// `to`. All steps are numbered again, and every reference to a step follows it. `None` if there is no such
/// step, or if the steps are not numbered 1, 2, 3 … without anything between them.
pub fn moved(text: &str, plan: &Plan, from: StepNumber, to: StepNumber) -> Option<(Span, String)> {
    let steps = &plan.steps;
    let is_numbered = |(step, number): (&Step, u32)| step.number == StepNumber(number);
    let is_whole = steps.iter().zip(1..).all(is_numbered)
        && steps.windows(2).all(|pair| pair[0].section.end == pair[1].section.start);
    let part = Span::new(steps.first()?.section.start, steps.last()?.section.end);
    let (from, to) = (plan.step(from)?.number.0 as usize, plan.step(to)?.number.0 as usize);
    if !is_whole {
        return None;
    }
    let mut order: Vec<&Step> = steps.iter().collect();
    let step = order.remove(from - 1);
    order.insert(to - 1, step);
    let number_now = |old: StepNumber| match order.iter().position(|step| step.number == old) {
        Some(at) => (at + 1).to_string(),
        None => old.to_string(),
    };
    let line_end = if part.of(text).contains("\r\n") { "\r\n" } else { "\n" };
    let sections: Vec<String> = order
        .iter()
        .map(|step| {
            let digits = step.number.to_string().len();
            let heading = Span::new(step.heading.start, step.heading.start + digits);
            let mut edits = vec![(heading, number_now(step.number))];
            if let Needs::Steps(needs) = &step.needs {
                edits.extend(needs.iter().map(|need| (need.span, number_now(need.value))));
            }
            edited(text, step.section, edits).trim_end().to_owned()
        })
        .collect();
    let whole = part.of(text);
    let tail = &whole[whole.trim_end().len()..];
    Some((part, sections.join(&format!("{line_end}{line_end}")) + tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "---\nstatus: in-progress\n---\n# Plan\n\n## Steps\n\n\
        ### 1. ✅ One\n**target:** a\n**task:**\nOne.\n\n\
        ### 2. Two\n**target:** a\n**needs:** 1\n**task:**\nTwo.\n\n\
        ### 3. Three\n**target:** b\n**needs:** 1, 2\n**task:**\nThree.\n\n\
        ## Postconditions\n1. It works\n   ```shell\n   true\n   ```\n";

    #[test]
    fn a_patch_replaces_the_steps_from_one_on_and_nothing_else() {
        let plan = parse::plan(TEXT).plan;
        let patch = "### 2. Other\n**target:** c\n**task:**\nOther.";
        let text = from(TEXT, &plan, StepNumber(2), patch);
        let after = parse::plan(&text).plan;
        let titles: Vec<&str> = after.steps.iter().map(|step| step.title.as_str()).collect();
        assert_eq!((titles.as_slice(), after.postconditions.len()), (["One", "Other"].as_slice(), 1));
        assert!(text.starts_with(&TEXT[..TEXT.find("### 2").unwrap()]));
        // One more at the end.
        let more = from(TEXT, &plan, StepNumber(4), "### 4. Four\n**target:** c\n**task:**\nFour.");
        assert_eq!(parse::plan(&more).plan.steps.len(), 4);
        let law = |text, plan| Law { text, plan, binding: None };
        let has_run = |number: StepNumber| number.0 <= 2;
        let hit = rewritten(law(TEXT, &plan), law(&text, &after), has_run);
        assert_eq!(hit.iter().map(|step| step.title.as_str()).collect::<Vec<_>>(), ["Two"]);
        assert!(rewritten(law(TEXT, &plan), law(&text, &after), |number| number.0 == 1).is_empty());
    }

    #[test]
    fn the_rest_of_a_plan_stands_alone() {
        let plan = parse::plan(TEXT).plan;
        let text = rest(TEXT, &plan, StepNumber(2), Some("other")).unwrap();
        let after = parse::plan(&text).plan;
        let numbers: Vec<u32> = after.steps.iter().map(|step| step.number.0).collect();
        assert_eq!(numbers, [1, 2]);
        assert!(after.steps.iter().all(|step| step.target.as_ref().unwrap().value == "other"));
        let needs = |at: usize| match &after.steps[at].needs {
            Needs::Steps(needs) => needs.iter().map(|need| need.value.0).collect(),
            Needs::Before => vec![99],
        };
        assert_eq!((needs(0), needs(1)), (Vec::new(), vec![1]));
        assert_eq!(after.status.unwrap().value, "draft");
        assert_eq!(after.postconditions.len(), 1);
    }

    #[test]
    fn a_step_moves_and_every_reference_follows_it() {
        let plan = parse::plan(TEXT).plan;
        let (part, steps) = moved(TEXT, &plan, StepNumber(3), StepNumber(1)).unwrap();
        let text = format!("{}{steps}{}", &TEXT[..part.start], &TEXT[part.end..]);
        let after = parse::plan(&text).plan;
        let shown = |step: &Step| {
            let Needs::Steps(needs) = &step.needs else { return format!("{} {}", step.number, step.title) };
            let needs: Vec<String> = needs.iter().map(|need| need.value.to_string()).collect();
            format!("{} {} needs {}", step.number, step.title, needs.join(" "))
        };
        let shown: Vec<String> = after.steps.iter().map(shown).collect();
        assert_eq!(shown, ["1 Three needs 2 3", "2 One", "3 Two needs 2"]);
        assert_eq!(after.postconditions.len(), 1);
        // Back again it is the same text.
        let (part, back) = moved(&text, &after, StepNumber(1), StepNumber(3)).unwrap();
        assert_eq!(format!("{}{back}{}", &text[..part.start], &text[part.end..]), TEXT);
        assert_eq!(moved(TEXT, &plan, StepNumber(4), StepNumber(1)), None);
        let gap = parse::plan("---\nstatus: draft\n---\n# P\n## Steps\n### 1. One\n### 3. Three\n").plan;
        assert_eq!(moved("", &gap, StepNumber(1), StepNumber(3)), None);
    }
}
