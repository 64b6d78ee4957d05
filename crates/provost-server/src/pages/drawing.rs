//! Draws the steps of a plan as a graph and its attempts as a timeline, in SVG.
//!
//! Everything shown by colour is also said in words. A step links to its section of the page; the title of a
//! bar has the details. The stylesheet has all styles, also for print and dark mode.

use std::fmt::Write as _;

use maud::{Markup, html};
use provost_core::model::timestamp::Timestamp;
use provost_core::state::run::Run;
use provost_engine::observe::overview::AttemptRecord;

use super::status::look_in_run;
use super::text::T;
use super::times::instant;
use crate::layout::graph::{Edge, HEIGHT, PlacedNode, WIDTH};
use crate::layout::graph_cache::GraphCache;
use crate::layout::timeline::{self, Bar, SpanKind, TimelineSpan, lasted};
use crate::partial::part;

/// Maximum number of letters in a step.
const LETTERS: usize = 23;
/// The same for its state, beside its number.
const STATE_LETTERS: usize = 19;
/// Timeline: start of the bars, their width, and the row height.
const NAMES: f64 = 190.0;
const BARS: f64 = 760.0;
const ROW: f64 = 26.0;
const TOP: f64 = 22.0;

/// Renders every step with its dependencies and state. Steps link to `place` followed by their number.
pub(super) fn graph(graphs: &GraphCache, run: &Run, place: &str) -> Markup {
    let drawing = graphs.layout(run);
    let box_of = format!("0 0 {} {}", drawing.width, drawing.height);
    html! {
        div class="scroll graph" {
            svg width=(drawing.width) height=(drawing.height) viewBox=(box_of) role="group" aria-label="Graph of the steps" {
                (part(html! { g aria-hidden="true" { @for edge in &drawing.edges { path class="edge" d=(path(edge)) {} } } }))
                @for node in &drawing.nodes { (part(step(run, node, place))) }
            }
        }
    }
}

fn step(run: &Run, node: &PlacedNode, place: &str) -> Markup {
    let number = provost_core::model::plan::StepNumber(node.id);
    let title = run.title(number).unwrap_or_default();
    // "passed, uncontrolled" is wider than the box.
    let shown = run.word(number).replace('_', " ");
    let shown = short(shown.strip_prefix("passed, ").unwrap_or(&shown), STATE_LETTERS);
    let (tone, sign) = look_in_run(run, number);
    let after: Vec<String> = node.after.iter().map(ToString::to_string).collect();
    let after = if after.is_empty() { String::new() } else { format!("; after {}", after.join(", ")) };
    // It starts with the visible text, for people who use voice control.
    let words = format!("{} {} {shown} {title}{after}", node.id, sign);
    html! {
        a href={ (place) (node.id) } class={ "node " (tone.class()) } {
            title { (T(&words)) }
            rect x=(node.x) y=(node.y) width=(WIDTH) height=(HEIGHT) rx="6" {}
            text x=(node.x + 10.0) y=(node.y + 18.0) class="state" { (node.id) " " (sign) " " (shown) }
            text x=(node.x + 10.0) y=(node.y + 35.0) { (T(&short(title, LETTERS))) }
        }
    }
}

/// Cuts a text to the available width; wide characters count twice.
fn short(text: &str, letters: usize) -> String {
    let text = super::text::visible(text).replace(['\n', '\t'], " ");
    let width = |sign: char| if u32::from(sign) >= 0x1100 { 2 } else { 1 };
    if text.chars().map(width).sum::<usize>() <= letters {
        return text;
    }
    let mut room = letters - 1;
    let kept = text.chars().take_while(|sign| {
        let fits = width(*sign) <= room;
        room = room.saturating_sub(width(*sign));
        fits
    });
    format!("{}…", kept.collect::<String>().trim_end())
}

/// Returns the path: curves between layers, straight lines through them.
fn path(edge: &Edge) -> String {
    let mut out = String::new();
    let mut last: Option<(f64, f64)> = None;
    for (index, (x, y)) in edge.points.iter().copied().enumerate() {
        let _ = match last {
            None => write!(out, "M{x} {y}"),
            Some((_, above)) if index % 2 == 1 => {
                let middle = (above + y) / 2.0;
                write!(out, "C{} {middle} {x} {middle} {x} {y}", last.map_or(x, |(x, _)| x))
            }
            Some(_) => write!(out, "L{x} {y}"),
        };
        last = Some((x, y));
    }
    out
}

/// Returns attempts, their checks and the waits between them; running ones end at `now`.
fn spans(attempts: &[AttemptRecord], now: u64) -> Vec<TimelineSpan> {
    let mut spans: Vec<TimelineSpan> = Vec::new();
    for attempt in attempts {
        let step = attempt.step.0;
        let before = spans.iter().rev().find(|span| span.step == step).map(|span| span.to);
        if let Some(from) = before.filter(|from| *from < attempt.begun.0) {
            spans.push(TimelineSpan { step, kind: SpanKind::Wait, from, to: attempt.begun.0 });
        }
        let to = attempt.ended.map_or(now, |ended| ended.0);
        spans.push(TimelineSpan {
            step,
            kind: SpanKind::Attempt { number: attempt.number },
            from: attempt.begun.0,
            to,
        });
        spans.extend(attempt.verdicts.iter().map(|judged| TimelineSpan {
            step,
            kind: SpanKind::Check { held: judged.verdict.held() },
            from: judged.at.0.saturating_sub(judged.verdict.duration_ms),
            to: judged.at.0,
        }));
    }
    spans
}

/// Renders when each step was worked on, and for how long; empty before the first attempt.
pub(super) fn timeline(run: &Run, attempts: &[AttemptRecord], now: u64, place: &str) -> Markup {
    let drawn = timeline::drawn(&spans(attempts, now));
    let mut steps: Vec<u32> = drawn.bars.iter().map(|bar| bar.step).collect();
    steps.sort_unstable();
    steps.dedup();
    let row = |step: u32| steps.iter().position(|each| *each == step).unwrap_or(0) as f64;
    let height = TOP + steps.len() as f64 * ROW + 4.0;
    let width = NAMES + BARS + 10.0;
    let whole = html! { section aria-labelledby="timeline" {
        h2 id="timeline" { "Timeline" }
        p class="quiet" {
            "From " (instant(Timestamp(drawn.from))) " to "
            (instant(Timestamp(drawn.to))) ", "
            (lasted(drawn.busy_ms)) " of work and checks. "
            span class="key attempt" { "attempt" } " " span class="key check" { "check" } " "
            span class="key broke" { "check that did not hold" } " " span class="key pause" { "wait" }
        }
        div class="scroll timeline" {
            svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="group" aria-label="Timeline of the attempts" {
                @for cut in &drawn.cuts {
                    g class="cut" {
                        title { (lasted(cut.lasted_ms)) " in which nothing ran" }
                        rect x=(across(cut.at)) y=(TOP - 4.0) width=(BARS * (cut.to - cut.at)) height=(height - TOP) {}
                        text x=(across((cut.at + cut.to) / 2.0)) y="13" text-anchor="middle" { (lasted(cut.lasted_ms)) }
                    }
                }
                @for each in &steps {
                    a href={ (place) (each) } {
                        text x="4" y=(TOP + row(*each) * ROW + 16.0) {
                            (each) ". " (T(&short(run.title(provost_core::model::plan::StepNumber(*each)).unwrap_or_default(), LETTERS)))
                        }
                    }
                }
                @for each in &drawn.bars { (bar(each, TOP + row(each.step) * ROW)) }
            }
        }
    } };
    if drawn.bars.is_empty() { Markup::default() } else { part(whole) }
}

fn across(part: f64) -> f64 {
    (NAMES + part * BARS).round()
}

fn bar(bar: &Bar, y: f64) -> Markup {
    let width = (across(bar.to) - across(bar.from)).max(2.0);
    let (class, words, inset) = match bar.kind {
        SpanKind::Attempt { number } => ("attempt", format!("attempt {number}"), 3.0),
        SpanKind::Check { held: true } => ("check", "a check held".to_owned(), 7.0),
        SpanKind::Check { held: false } => ("broke", "a check did not hold".to_owned(), 7.0),
        SpanKind::Wait => ("pause", "waited".to_owned(), 11.0),
    };
    html! {
        g class={ "bar " (class) } role="img" aria-label={ "Step " (bar.step) ", " (words) ", " (lasted(bar.lasted_ms)) } {
            title { "Step " (bar.step) ": " (words) ", " (lasted(bar.lasted_ms)) }
            rect x=(across(bar.from)) y=(y + inset) width=(width) height=(ROW - 2.0 * inset) rx="2" {}
            @if let (SpanKind::Attempt { number }, true) = (bar.kind, width > 14.0) {
                text x=(across(bar.from) + 4.0) y=(y + 17.0) { (number) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{path, short};
    use crate::layout::graph::Edge;

    #[test]
    fn titles_are_cut_to_the_room_there_is() {
        assert_eq!(short("a short one", 23), "a short one");
        assert_eq!(short("a title that is much too long", 10), "a title t…");
        assert_eq!(short("計画計画計画計画", 9), "計画計画…");
        assert_eq!(short("two\nlines\u{202e}", 23), "two lines<U+202E>");
    }

    #[test]
    fn a_line_is_bent_between_layers_and_straight_where_it_passes_one() {
        let points = vec![(5.0, 10.0), (9.0, 20.0), (9.0, 30.0), (1.0, 40.0)];
        let drawn = path(&Edge { from: 1, to: 2, points });
        assert_eq!(drawn, "M5 10C5 15 9 15 9 20L9 30C9 35 1 35 1 40");
    }
}
