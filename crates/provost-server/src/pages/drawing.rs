//! Draws the steps of a plan as a strip, its attempts as a timeline, and the steps of each day, in SVG.
//!
//! Everything shown by colour is also said in words. A step links to its section of the page; the title of a
//! bar has the details. The stylesheet has all styles, also for print and dark mode.

use maud::{Markup, html};
use provost_core::model::timestamp::Timestamp;
use provost_core::state::run::Run;
use provost_engine::observe::overview::AttemptRecord;

use super::status::{Tone, look_in_run};
use super::text::T;
use super::times::exact;
use crate::layout::timeline::{self, Bar, SpanKind, TimelineSpan, lasted};
use crate::partial::part;

/// Maximum number of letters in a step.
const LETTERS: usize = 23;
/// Maximum width of a strip of steps, and the maximum number of steps with gaps between them.
const STRIP: f64 = 160.0;
const GAPS_MAX: usize = 40;
/// Columns of days: their number, width and height.
const DAYS_MAX: usize = 24;
const DAY: f64 = 48.0;
const DAYS_HEIGHT: f64 = 140.0;
/// Width of the numbers beside them.
const AXIS: f64 = 64.0;
/// Timeline: start of the bars, their width, and the row height.
const NAMES: f64 = 190.0;
const BARS: f64 = 1000.0;
const ROW: f64 = 26.0;
const TOP: f64 = 22.0;

/// Renders the steps of a plan as a strip of small blocks. Neighbours of the same colour are one block if
/// there are many steps.
pub(super) fn strip(run: &Run) -> Markup {
    let looks: Vec<Tone> = run.steps().map(|(step, _)| look_in_run(run, step.number).0).collect();
    let gap = if looks.len() > GAPS_MAX { 0.0 } else { 2.0 };
    let width = STRIP.min(looks.len() as f64 * 14.0);
    let each = width / looks.len().max(1) as f64;
    let mut blocks: Vec<(usize, usize, Tone)> = Vec::new();
    for (at, tone) in looks.iter().enumerate() {
        match blocks.last_mut() {
            Some((_, count, last)) if gap == 0.0 && last == tone => *count += 1,
            _ => blocks.push((at, 1, *tone)),
        }
    }
    let (done, total) = run.progress();
    html! {
        svg class="strip" width=(width) height="14" role="img" aria-label={ (done) " of " (total) " steps are over" } {
            @for (at, count, tone) in blocks {
                rect class=[Some(tone.class()).filter(|class| !class.is_empty())] x=(tenths(at as f64 * each)) width=(tenths((count as f64 * each - gap).max(1.0))) height="14" {}
            }
        }
    }
}

/// A chart with a column for each day, of up to three parts.
pub(super) struct Columns {
    pub title: &'static str,
    /// The class and the name of each part; an empty name for none.
    pub legend: [(&'static str, &'static str); 3],
    /// Each day with its parts.
    pub rows: Vec<(String, [u64; 3])>,
    /// Tells an amount.
    pub words: fn(u64) -> String,
}

/// Renders a column for each of the last days. The table below has the numbers too.
pub(super) fn columns(chart: &Columns) -> Markup {
    let shown = &chart.rows[chart.rows.len().saturating_sub(DAYS_MAX)..];
    let most = shown.iter().map(|(_, parts)| parts.iter().sum::<u64>()).max().unwrap_or(0).max(1);
    let height = |count: u64| tenths(count as f64 * DAYS_HEIGHT / most as f64);
    let named = || chart.legend.iter().enumerate().filter(|(_, (_, name))| !name.is_empty());
    let told = |parts: &[u64; 3]| {
        let each = named().map(|(at, (_, name))| format!("{} {name}", (chart.words)(parts[at])));
        each.collect::<Vec<_>>().join(", ")
    };
    html! {
        figure class="chart" {
            figcaption { strong { (chart.title) } " " @for (_, (class, name)) in named() { span class={ "key " (class) } { (name) } } }
            div class="scroll" tabindex="0" role="region" aria-label=(chart.title) {
                svg class="days" width=(shown.len() as f64 * DAY + AXIS) height=(DAYS_HEIGHT + 24.0) role="img" aria-label={ (chart.title) " by day; the table has the numbers" } {
                    text x=(AXIS - 6.0) y="12" text-anchor="end" { ((chart.words)(most)) }
                    text x=(AXIS - 6.0) y=(DAYS_HEIGHT) text-anchor="end" { "0" }
                    @for (at, (day, parts)) in shown.iter().enumerate() {
                        @let x = AXIS + at as f64 * DAY;
                        g {
                            title { (day) ": " (told(parts)) }
                            @for (part, (class, _)) in named() {
                                @let below: f64 = parts[..part].iter().map(|count| height(*count)).sum();
                                rect class=(class) x=(x) y=(tenths(DAYS_HEIGHT - below - height(parts[part]))) width=(DAY - 6.0) height=(height(parts[part])) {}
                            }
                            text x=(x + (DAY - 6.0) / 2.0) y=(DAYS_HEIGHT + 16.0) text-anchor="middle" { (day.get(5..).unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}

/// Rounds to a tenth of a pixel, so that numbers stay short.
pub(super) fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Cuts a text to the available width; wide characters count twice.
pub(super) fn short(text: &str, letters: usize) -> String {
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

/// Renders when each step was worked on, and for how long; `None` before the first attempt.
pub(super) fn timeline(run: &Run, attempts: &[AttemptRecord], now: u64, place: &str) -> Option<Markup> {
    let drawn = timeline::drawn(&spans(attempts, now));
    if drawn.bars.is_empty() {
        return None;
    }
    let mut steps: Vec<u32> = drawn.bars.iter().map(|bar| bar.step).collect();
    steps.sort_unstable();
    steps.dedup();
    let row = |step: u32| steps.iter().position(|each| *each == step).unwrap_or(0) as f64;
    let height = TOP + steps.len() as f64 * ROW + 4.0;
    let width = NAMES + BARS + 10.0;
    Some(part(html! { section aria-label="Timeline" {
        p class="quiet" {
            "From " (exact(Timestamp(drawn.from))) " to " (exact(Timestamp(drawn.to))) ", "
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
                @for tick in &drawn.ticks {
                    g class="axis" aria-hidden="true" {
                        line x1=(across(tick.at)) x2=(across(tick.at)) y1=(TOP - 4.0) y2=(height) {}
                        text x=(across(tick.at)) y="13" text-anchor="middle" { (lasted(tick.since_ms)) }
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
    } }))
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
    use super::short;

    #[test]
    fn titles_are_cut_to_the_room_there_is() {
        assert_eq!(short("a short one", 23), "a short one");
        assert_eq!(short("a title that is much too long", 10), "a title t…");
        assert_eq!(short("計画計画計画計画", 9), "計画計画…");
        assert_eq!(short("two\nlines\u{202e}", 23), "two lines<U+202E>");
    }
}
