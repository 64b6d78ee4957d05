//! Draws the steps of a plan as a graph, with a map of a large one.
//!
//! Everything shown by colour is also said in words. A step links to its page; the links of the map lead to a
//! part of the graph, and `assets/page.js` shows there what is in sight.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use maud::{Markup, html};
use provost_core::model::plan::StepNumber;
use provost_core::state::run::Run;
use provost_engine::observe::overview::AttemptRecord;

use super::drawing::{short, tenths};
use super::status::look_in_run;
use super::text::T;
use crate::layout::graph::{Edge, GraphLayout, HEIGHT, PlacedNode, WIDTH};
use crate::layout::graph_cache::GraphCache;
use crate::partial::part;

/// Maximum number of letters in a step.
const LETTERS: usize = 23;
/// The same for its state, beside its number.
const STATE_LETTERS: usize = 19;
/// Height of a drawing from which on it has a map.
const MAP_FROM: f64 = 700.0;
/// Height of the map, its least and its largest width, and the number of its links.
const MAP_HEIGHT: f64 = 480.0;
const MAP_WIDTH: (f64, f64) = (44.0, 96.0);
const MAP_LINKS: usize = 10;

/// Renders every step with its dependencies and state. Steps link to `place` followed by their number.
pub(super) fn graph(graphs: &GraphCache, run: &Run, attempts: &[AttemptRecord], place: &str) -> Markup {
    let drawing = graphs.layout(run);
    let box_of = format!("0 0 {} {}", drawing.width, drawing.height);
    let took = measured(attempts);
    // A step that was not tried yet counts as much as the others on average.
    let usual = if took.is_empty() { 1.0 } else { took.values().sum::<f64>() / took.len() as f64 };
    let critical = drawing.critical_path(|step| took.get(&step).copied().unwrap_or(usual));
    let pairs: BTreeSet<(u32, u32)> = critical.windows(2).map(|pair| (pair[0], pair[1])).collect();
    // One path for all lines of a kind: a browser takes a while for each element.
    let (critical_edges, edges): (Vec<&Edge>, Vec<&Edge>) =
        drawing.edges.iter().partition(|edge| pairs.contains(&(edge.from, edge.to)));
    let lines = |edges: &[&Edge]| edges.iter().map(|edge| path(edge)).collect::<String>();
    html! {
        div class="actions" {
            // Only scripts can zoom, so they show these buttons.
            @for (zoom, name) in [("fit", "Fit"), ("in", "Larger"), ("out", "Smaller")] {
                button class="copy scripted" type="button" data-zoom=(zoom) { (name) }
            }
            (part(html! { span class="quiet small" { @if !critical.is_empty() {
                span class="key critical" { "critical path: " @if took.is_empty() { "the longest chain" } @else { "the chain that takes longest" } " (" (critical.len()) " steps)" }
            } } }))
        }
        div class="mapped" {
            div class="scroll graph" tabindex="0" role="region" aria-label="Graph of the steps" {
                svg width=(drawing.width) height=(drawing.height) viewBox=(box_of) role="group" aria-label="Steps" {
                    (part(html! { g aria-hidden="true" { path class="edge" d=(lines(&edges)) {} path class="edge critical" d=(lines(&critical_edges)) {} } }))
                    @for node in &drawing.nodes { (part(step(run, node, place, critical.contains(&node.id)))) }
                }
            }
            @if drawing.height > MAP_FROM { (map(&drawing, run)) }
        }
    }
}

/// Returns the time that the ended attempts at each step took, in milliseconds.
fn measured(attempts: &[AttemptRecord]) -> BTreeMap<u32, f64> {
    let mut took = BTreeMap::new();
    for attempt in attempts {
        if let Some(ended) = attempt.ended {
            *took.entry(attempt.step.0).or_insert(0.0) += ended.0.saturating_sub(attempt.begun.0) as f64;
        }
    }
    took
}

fn step(run: &Run, node: &PlacedNode, place: &str, is_critical: bool) -> Markup {
    let number = StepNumber(node.id);
    let title = run.title(number).unwrap_or_default();
    // "passed, uncontrolled" is wider than the box.
    let shown = run.word(number).replace('_', " ");
    let shown = short(shown.strip_prefix("passed, ").unwrap_or(&shown), STATE_LETTERS);
    let (tone, sign) = look_in_run(run, number);
    let after: Vec<String> = node.after.iter().map(ToString::to_string).collect();
    let after = if after.is_empty() { String::new() } else { format!("; after {}", after.join(", ")) };
    let critical = if is_critical { "; on the critical path" } else { "" };
    // It starts with the visible text, for people who use voice control.
    let words = format!("{} {} {shown} {title}{after}{critical}", node.id, sign);
    let class = format!("node {}{}", tone.class(), if is_critical { " critical" } else { "" });
    html! {
        a id={ "node-" (node.id) } href={ (place) (node.id) } class=(class) {
            title { (T(&words)) }
            rect x=(node.x) y=(node.y) width=(WIDTH) height=(HEIGHT) rx="6" {}
            text x=(node.x + 10.0) y=(node.y + 18.0) class="state" { (node.id) " " (sign) " " (shown) }
            text x=(node.x + 10.0) y=(node.y + 35.0) { (T(&short(title, LETTERS))) }
        }
    }
}

/// Renders the whole graph as a small picture; its links lead to a part of the graph.
fn map(drawing: &GraphLayout, run: &Run) -> Markup {
    let width = (drawing.width * MAP_HEIGHT / drawing.height).clamp(MAP_WIDTH.0, MAP_WIDTH.1);
    let (across, down) = (width / drawing.width, MAP_HEIGHT / drawing.height);
    let mut blocks: BTreeMap<&str, String> = BTreeMap::new();
    for node in &drawing.nodes {
        let (x, y) = (tenths(node.x * across), tenths(node.y * down));
        let (wide, high) = (tenths(WIDTH * across), tenths((HEIGHT * down).max(1.0)));
        let class = look_in_run(run, StepNumber(node.id)).0.class();
        let _ = write!(blocks.entry(class).or_default(), "M{x} {y}h{wide}v{high}h-{wide}z");
    }
    let band = drawing.height / MAP_LINKS as f64;
    let inside = |at: usize| {
        let (from, to) = (at as f64 * band, (at + 1) as f64 * band);
        let steps = drawing.nodes.iter().filter(move |node| node.y >= from && node.y < to);
        steps.min_by(|one, other| one.y.total_cmp(&other.y).then(one.id.cmp(&other.id)))
    };
    html! {
        nav class="map" aria-label="Map of the graph" {
            svg width=(tenths(width)) height=(MAP_HEIGHT) viewBox={ "0 0 " (tenths(width)) " " (MAP_HEIGHT) } role="group" aria-label="Map" {
                (part(html! { g aria-hidden="true" { @for (class, path) in &blocks { path class=(class) d=(path) {} } } }))
                rect class="window scripted" x="0" y="0" width=(tenths(width)) height="0" {}
                @for at in 0..MAP_LINKS {
                    @if let Some(first) = inside(at) {
                        a href={ "#node-" (first.id) } {
                            title { "To step " (first.id) }
                            rect x="0" y=(tenths(at as f64 * band * down)) width=(tenths(width)) height=(tenths(band * down)) {}
                        }
                    }
                }
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::path;
    use crate::layout::graph::Edge;

    #[test]
    fn a_line_is_bent_between_layers_and_straight_where_it_passes_one() {
        let points = vec![(5.0, 10.0), (9.0, 20.0), (9.0, 30.0), (1.0, 40.0)];
        let drawn = path(&Edge { from: 1, to: 2, points });
        assert_eq!(drawn, "M5 10C5 15 9 15 9 20L9 30C9 35 1 35 1 40");
    }
}
