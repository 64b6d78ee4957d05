//! Renders differences: the files of a change with their numbers of lines, unified or side by side.

use maud::{Markup, html};
use provost_core::model::plan::StepNumber;
use provost_core::model::proof_map::{HunkMark, LineChange, ProofMap};
use provost_core::rules::command::Refusal;
use provost_engine::Error;
use provost_engine::exec::proof_map;
use provost_engine::observe::overview::PlanSnapshot;
use provost_engine::observe::view::AttemptView;
use provost_engine::plan::human_check::Who;
use provost_engine::plan::step_changes::{self, FileComparison, StepChanges};
use provost_engine::settings::Access;
use serde::Deserialize;

use super::highlight::{self, Colour, Syntax, coloured};
use super::status::word;
use super::text::T;
use crate::layout::diff::{Difference, Line, Side, Stretch};
use crate::state::AppState;

/// Maximum number of lines of all files together, so that a page stays small.
const LINES_MAX: usize = 1200;
/// The same for lines with colours, which are longer.
const COLOURED_MAX: usize = 500;

/// How differences are shown: the value of `diff` in a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DiffView {
    #[default]
    Unified,
    Split,
}

/// Renders the difference of two texts.
pub(super) fn texts(difference: &Difference) -> Markup {
    lines(difference, DiffView::Unified, false, (&mut |_| html! {}, &FileColours::default()))
}

/// Renders what the last attempt of a step changed, or why it cannot be shown; `None` before the first attempt.
/// `place` is the address of the page.
pub(super) fn of_step(
    app: &AppState,
    seen: &PlanSnapshot,
    number: StepNumber,
    view: DiffView,
    place: &str,
) -> Option<Markup> {
    let step = seen.run.step(number).filter(|step| step.attempts > 0)?;
    let tree = step.verdict.as_ref().and_then(|verdict| verdict.tree.as_ref());
    if tree.is_none() && step.left.is_none() {
        return None;
    }
    let harness = app.overview.harness(seen, Access::Read, Who::Here);
    let work = harness.and_then(|harness| {
        let map = proof_map::known(&harness, number).unwrap_or_default();
        Ok((step_changes::look(&harness, number)?, map))
    });
    Some(html! {
        @match work {
            Ok((work, map)) => (changes(&work, &map, view, &Anchor { place, id: "changed" })),
            Err(Error::Refused(Refusal::NoTree)) => @match tree {
                Some(tree) => {
                    p { "provost no longer has this tree; these are the names of its changed files:" }
                    ul { @for file in &tree.files { li { code { (T(file)) } } } }
                }
                None => p class="quiet" { "provost keeps no tree at this isolation level. Run " code { "git diff" } " in the workspace." }
            }
            Err(error) => p class="note wait" { "provost cannot show the changes: " (T(&error.to_string())) }
        }
        @if let Some(tree) = tree {
            p class="quiet small" { "Tree " code { (short(&tree.id)) } " on " code { (short(&tree.base)) } ", as the check saw it." }
        }
    })
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Renders what changed between the trees that two attempts left; the names if the trees are gone.
pub(super) fn between(
    app: &AppState,
    seen: &PlanSnapshot,
    (before, after): (&AttemptView, &AttemptView),
    view: DiffView,
    place: &str,
) -> Option<Markup> {
    let trees = before.left.as_deref().zip(after.left.as_deref());
    let work = trees.filter(|(old, new)| old != new).map(|(old, new)| {
        let harness = app.overview.harness(seen, Access::Read, Who::Here)?;
        step_changes::between(&harness, old, new)
    });
    let names = |attempt: &AttemptView| attempt.verdicts.last().map(|verdict| verdict.files.clone());
    Some(match (trees, work) {
        (Some(_), None) => html! { p class="quiet" { "It left the same files." } },
        (_, Some(Ok(files))) if files.is_empty() => html! { p class="quiet" { "It left the same files." } },
        (_, Some(Ok(files))) => {
            self::files(&files, &ProofMap::default(), view, &Anchor { place, id: "since" })
        }
        (_, Some(Err(_)) | None) => {
            let (old, new) = names(before).zip(names(after))?;
            html! {
                p class="quiet" { "provost does not have both trees. These are the names of the files that each attempt had changed:" }
                @for (attempt, files) in [(before, old), (after, new)] {
                    p { "Attempt " (attempt.number) ": " @if files.is_empty() { "none" } @else { code { (T(&files.join(", "))) } } }
                }
            }
        }
    })
}

/// The page of a difference, and its id there.
struct Anchor<'a> {
    place: &'a str,
    id: &'a str,
}

fn changes(work: &StepChanges, map: &ProofMap, view: DiffView, place: &Anchor<'_>) -> Markup {
    html! {
        @if work.files.is_empty() { p class="quiet" { "The attempt changed no file." } }
        @else { (files(&work.files, map, view, place)) }
        @if !work.others.is_empty() {
            p { "These files had changed before the attempt began; they are not counted as its work:" }
            ul { @for file in &work.others { li { code { (T(file)) } } } }
        }
        @for line in &work.refused { p class="bad" { "Not taken over: " (T(line)) } }
    }
}

fn files(files: &[FileComparison], map: &ProofMap, view: DiffView, at: &Anchor<'_>) -> Markup {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut room = LINES_MAX;
    let each = |file| {
        let file: &FileComparison = file;
        let diff = Difference::of(&text(&file.old), &text(&file.new));
        let fits = diff.shown() <= room;
        room -= if fits { diff.shown() } else { 0 };
        (file, diff, fits)
    };
    let all: Vec<(&FileComparison, Difference, bool)> = files.iter().map(each).collect();
    let is_coloured = LINES_MAX - room <= COLOURED_MAX;
    let sum = |count: fn(&Difference) -> usize| all.iter().map(|(_, diff, _)| count(diff)).sum::<usize>();
    html! {
        div class="actions" {
            strong { (all.len()) @if all.len() == 1 { " file" } @else { " files" } " changed" }
            (counts(sum(|diff| diff.added), sum(|diff| diff.removed)))
            span class="switch" {
                @for (each, name, query) in [(DiffView::Unified, "Unified", "diff=unified"), (DiffView::Split, "Side by side", "diff=split")] {
                    @let sign = if at.place.contains('?') { "&" } else { "?" };
                    a href={ (at.place) (sign) (query) "#" (at.id) } aria-current=[(each == view).then_some("true")] { (name) }
                }
            }
        }
        @if !map.hunks.is_empty() { (shares(map)) }
        @if all.len() > 3 {
            ul class="files" {
                @for (number, (file, diff, _)) in all.iter().enumerate() {
                    li { a href={ "#" (at.id) "-" (number + 1) } { (T(&file.path)) } (counts(diff.added, diff.removed)) }
                }
            }
        }
        @for (number, (file, diff, fits)) in all.iter().enumerate() {
            details class="file" id={ (at.id) "-" (number + 1) } open[*fits] {
                summary { code { (T(&file.path)) } (word(file.kind.word())) (counts(diff.added, diff.removed)) }
                @if let Some(why) = file.unshown { p class="quiet" { "Not shown: " (why) "." } }
                @else if diff.is_empty() { p class="quiet" { "The file is empty or unchanged." } }
                @else if !fits { p class="quiet" { "The page has no room for its " (diff.shown()) " lines. " code { "provost changes" } " shows all of them." } }
                @else { (lines(diff, view, !map.hunks.is_empty(), (&mut margin(file, map), &FileColours::of(file, is_coloured)))) }
            }
        }
    }
}

fn counts(added: usize, removed: usize) -> Markup {
    html! { span { span class="plus" { "+" (added) } " " span class="minus" { "−" (removed) } } }
}

/// Says how much of the change the contract proves, and what the marks mean.
fn shares(map: &ProofMap) -> Markup {
    let signs = [HunkMark::Proved, HunkMark::Unproved, HunkMark::NotBuildable, HunkMark::NotTried];
    let meaning: Vec<String> = signs.iter().map(|mark| format!("{} {}", mark.sign(), mark.words())).collect();
    html! {
        p id="proved" { (map.share().to_string()) ", as far as " code { "provost proved" } " has found out. "
            span class="quiet" { (meaning.join(" · ")) } }
    }
}

/// Returns the mark of the hunk that each line of a diff belongs to.
fn margin<'m>(file: &'m FileComparison, map: &'m ProofMap) -> impl FnMut(&Line) -> Markup + 'm {
    // The line of the judged tree that follows.
    let mut next = 1;
    move |line| {
        let hunk = match (line.side, line.new) {
            (Side::Come, Some(number)) => map.of_line(&file.path, number, LineChange::Added),
            (Side::Gone, _) => map.of_line(&file.path, next, LineChange::Removed),
            (Side::Come | Side::Same, _) => None,
        };
        if let Some(number) = line.new {
            next = number + 1;
        }
        match hunk {
            Some(hunk) => {
                let why = format!("{}: {}", hunk.mark.words(), hunk.why);
                html! { i title=(T(&why)) { (hunk.mark.sign().to_string()) } }
            }
            None if map.hunks.is_empty() => html! {},
            None => html! { i {} },
        }
    }
}

type Margin<'m> = dyn FnMut(&Line) -> Markup + 'm;
/// What stands before a line, and its colours.
type LineLook<'m> = (&'m mut Margin<'m>, &'m FileColours);

/// Colours of the lines of a file, before and after.
#[derive(Default)]
struct FileColours {
    old: Vec<Vec<Colour>>,
    new: Vec<Vec<Colour>>,
}

impl FileColours {
    fn of(file: &FileComparison, is_coloured: bool) -> Self {
        let Some(syntax) = Syntax::of(&file.path).filter(|_| is_coloured) else { return Self::default() };
        let side = |text: &Option<String>| {
            text.as_ref().map(|text| highlight::lines(text, syntax)).unwrap_or_default()
        };
        Self { old: side(&file.old), new: side(&file.new) }
    }

    fn line(&self, line: &Line) -> &[Colour] {
        let (all, number) = match line.side {
            Side::Gone => (&self.old, line.old),
            Side::Come | Side::Same => (&self.new, line.new),
        };
        number.and_then(|number| all.get(number.checked_sub(1)?)).map_or(&[], Vec::as_slice)
    }
}

fn lines(difference: &Difference, view: DiffView, is_marked: bool, look: LineLook<'_>) -> Markup {
    let (margin, colours) = look;
    let split = if view == DiffView::Split { " split" } else { "" };
    let marked = if is_marked { " marked" } else { "" };
    html! {
        div class={ "diff" (split) (marked) } {
            @for stretch in &difference.stretches {
                @match stretch {
                    Stretch::Shown(lines) if view == DiffView::Split => (beside(lines, margin, colours)),
                    Stretch::Shown(lines) => @for line in lines { (unified(line, margin, colours)) }
                    Stretch::Folded { count, lines } if lines.len() < *count => {
                        div class="cut" { (count) " unchanged lines" }
                    }
                    Stretch::Folded { count, lines } => {
                        details {
                            summary { (count) " unchanged " @if *count == 1 { "line" } @else { "lines" } }
                            @if view == DiffView::Split { (beside(lines, margin, colours)) }
                            @else { @for line in lines { (unified(line, margin, colours)) } }
                        }
                    }
                    Stretch::Cut(count) => div class="cut" { (count) " more lines; " code { "provost changes" } " shows all of them" }
                }
            }
        }
    }
}

/// Renders a line with both numbers.
fn unified(line: &Line, margin: &mut Margin<'_>, colours: &FileColours) -> Markup {
    let inside = html! { (margin(line)) i { (number(line.old)) } i { (number(line.new)) } (text(line, colours.line(line))) };
    element(line, &inside)
}

/// Renders removed lines on the left of the lines that were added in their place.
fn beside(lines: &[Line], margin: &mut Margin<'_>, colours: &FileColours) -> Markup {
    let mut rows: Vec<(Option<Markup>, Option<Markup>)> = Vec::new();
    // The first row whose right side is free, while lines are removed and added.
    let mut free = 0;
    for line in lines {
        let (mark, words) = (margin(line), text(line, colours.line(line)));
        let side =
            |number: Option<usize>| element(line, &html! { (mark) i { (self::number(number)) } (words) });
        match line.side {
            Side::Same => {
                rows.push((Some(side(line.old)), Some(side(line.new))));
                free = rows.len();
            }
            Side::Gone => rows.push((Some(side(line.old)), None)),
            Side::Come => {
                match rows.get_mut(free) {
                    Some(row) => row.1 = Some(side(line.new)),
                    None => rows.push((None, Some(side(line.new)))),
                }
                free += 1;
            }
        }
    }
    let none = || html! { span class="none" {} };
    html! {
        @for (old, new) in rows { div { (old.unwrap_or_else(none)) (new.unwrap_or_else(none)) } }
    }
}

fn element(line: &Line, inside: &Markup) -> Markup {
    match line.side {
        Side::Same => html! { span { (inside) } },
        Side::Gone => html! { del { (inside) } },
        Side::Come => html! { ins { (inside) } },
    }
}

fn text(line: &Line, colours: &[Colour]) -> Markup {
    let part = |range: std::ops::Range<usize>| coloured(&line.text, range, colours);
    let end = line.text.len();
    html! {
        code {
            @match &line.differs {
                Some(differs) => {
                    (part(0..differs.start)) mark { (part(differs.clone())) } (part(differs.end..end))
                }
                None => (part(0..end)),
            }
        }
    }
}

fn number(number: Option<usize>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{DiffView, FileColours, html, lines, texts};
    use crate::layout::diff::Difference;

    #[test]
    fn a_difference_is_unified_or_side_by_side() {
        let difference = Difference::of("a\nkeep\n", "b\nb2\nkeep\n");
        let shown = texts(&difference).into_string();
        assert!(
            shown
                .contains("<del><i>1</i><i></i><code>a</code></del><ins><i></i><i>1</i><code>b</code></ins>"),
            "{shown}"
        );
        let plain = FileColours::default();
        let shown = lines(&difference, DiffView::Split, false, (&mut |_| html! {}, &plain)).into_string();
        let rows: Vec<&str> = shown.split("<div>").skip(1).collect();
        assert_eq!(
            rows[..2],
            [
                "<del><i>1</i><code>a</code></del><ins><i>1</i><code>b</code></ins></div>",
                "<span class=\"none\"></span><ins><i>2</i><code>b2</code></ins></div>"
            ]
        );
        assert!(rows[2].starts_with("<span><i>2</i><code>keep</code></span><span><i>3</i>"), "{}", rows[2]);
    }
}
