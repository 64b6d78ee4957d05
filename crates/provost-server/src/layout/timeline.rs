//! Computes the timeline of a plan: attempts, checks and waits on one scale.
//!
//! A plan may rest for a night between two attempts of a minute. Idle time is shortened, and the cut is shown
//! with its length.
//!
//! **Invariant:** every span has a place inside the scale, in chronological order.

/// Kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Attempt {
        number: u32,
    },
    Check {
        held: bool,
    },
    /// Between an attempt and the next one of the same step.
    Wait,
}

/// A span of time; `from` and `to` are in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct TimelineSpan {
    pub step: u32,
    pub kind: SpanKind,
    pub from: u64,
    pub to: u64,
}

/// A span on a scale from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub step: u32,
    pub kind: SpanKind,
    pub from: f64,
    pub to: f64,
    pub lasted_ms: u64,
}

/// A cut of the scale, and the length of the removed time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cut {
    pub at: f64,
    pub to: f64,
    pub lasted_ms: u64,
}

/// A mark of the axis, and the time since the first instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub at: f64,
    pub since_ms: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    pub bars: Vec<Bar>,
    pub cuts: Vec<Cut>,
    pub ticks: Vec<Tick>,
    /// The first and the last instant.
    pub from: u64,
    pub to: u64,
    /// Total time in which work or checks ran.
    pub busy_ms: u64,
}

/// Idle time longer than `REST_MAX` of the busy time is shortened to `REST` of it.
const REST_MAX: f64 = 0.5;
const REST: f64 = 0.06;

/// Distances between two marks of the axis, in milliseconds; beyond the last one, its multiples.
const DISTANCES: [u64; 14] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 900_000, 1_800_000,
    3_600_000,
];
/// Number of marks that the axis has at most, about.
const TICKS: u64 = 8;

/// A stretch of time and its place on the scale.
struct Piece {
    from: u64,
    to: u64,
    at: f64,
    length: f64,
}

pub(crate) fn drawn(spans: &[TimelineSpan]) -> Timeline {
    let mut busy: Vec<(u64, u64)> = Vec::new();
    let mut work: Vec<(u64, u64)> = spans
        .iter()
        .filter(|span| span.kind != SpanKind::Wait)
        .map(|span| (span.from, span.to.max(span.from)))
        .collect();
    work.sort_unstable();
    for (from, to) in work {
        match busy.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => busy.push((from, to)),
        }
    }
    let (Some(first), Some(last)) = (busy.first().copied(), busy.last().copied()) else {
        return Timeline::default();
    };
    let busy_ms: u64 = busy.iter().map(|(from, to)| to - from).sum();
    // A span without duration has a place too.
    let part = |part: f64| (busy_ms as f64 * part).max(1.0);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = 0.0;
    for (from, to) in busy {
        if let Some(before) = pieces.last().map(|piece| piece.to) {
            let rest = (from - before) as f64;
            let length = if rest > part(REST_MAX) { part(REST) } else { rest };
            pieces.push(Piece { from: before, to: from, at, length });
            at += length;
        }
        let length = ((to - from) as f64).max(part(REST) / 10.0);
        pieces.push(Piece { from, to, at, length });
        at += length;
    }
    let whole = at;
    let place = |instant: u64| {
        let piece = pieces.iter().find(|piece| instant <= piece.to).or(pieces.last());
        piece.map_or(0.0, |piece| {
            let part = instant.saturating_sub(piece.from) as f64 / (piece.to - piece.from).max(1) as f64;
            ((piece.at + part.min(1.0) * piece.length) / whole).clamp(0.0, 1.0)
        })
    };
    let bar = |span: &TimelineSpan| {
        let (from, to) = (place(span.from), place(span.to.max(span.from)));
        let lasted_ms = span.to.saturating_sub(span.from);
        Bar { step: span.step, kind: span.kind, from, to: to.max(from), lasted_ms }
    };
    let is_cut = |piece: &&Piece| (piece.to - piece.from) as f64 > piece.length + 0.5;
    let ticks = ticks(pieces.iter().filter(|piece| !is_cut(piece)), first.0, busy_ms, place);
    let cuts = pieces.iter().filter(is_cut).map(|piece| Cut {
        at: piece.at / whole,
        to: (piece.at + piece.length) / whole,
        lasted_ms: piece.to - piece.from,
    });
    Timeline {
        bars: spans.iter().map(bar).collect(),
        cuts: cuts.collect(),
        ticks,
        from: first.0,
        to: last.1,
        busy_ms,
    }
}

/// Returns marks at round distances from the first instant, except in time that was cut.
fn ticks<'p>(
    pieces: impl Iterator<Item = &'p Piece>,
    first: u64,
    busy_ms: u64,
    place: impl Fn(u64) -> f64,
) -> Vec<Tick> {
    let wanted = busy_ms / TICKS;
    let hours = wanted.div_ceil(3_600_000).max(1) * 3_600_000;
    let distance = DISTANCES.into_iter().find(|distance| *distance >= wanted).unwrap_or(hours);
    let mut all: Vec<Tick> = Vec::new();
    for piece in pieces {
        let from = (piece.from - first).div_ceil(distance);
        for number in from..=(piece.to - first) / distance {
            let tick = Tick { at: place(first + number * distance), since_ms: number * distance };
            // Labels need room.
            if all.last().is_none_or(|last| tick.at - last.at > 0.06) {
                all.push(tick);
            }
        }
    }
    all
}

/// Formats a duration in its two largest units.
pub(crate) fn lasted(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..=59 => format!("{}.{} s", seconds, ms % 1000 / 100),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::{SpanKind, TimelineSpan, drawn, lasted};

    fn attempt(step: u32, number: u32, from: u64, to: u64) -> TimelineSpan {
        TimelineSpan { step, kind: SpanKind::Attempt { number }, from, to }
    }

    #[test]
    fn a_night_in_between_is_cut_and_shown_as_that() {
        let night = 10 * 3600 * 1000;
        let spans = [
            attempt(1, 1, 1_000, 61_000),
            TimelineSpan { step: 1, kind: SpanKind::Wait, from: 61_000, to: 61_000 + night },
            attempt(1, 2, 61_000 + night, 121_000 + night),
        ];
        let timeline = drawn(&spans);
        assert_eq!(timeline.cuts.len(), 1);
        assert_eq!(timeline.cuts[0].lasted_ms, night);
        assert_eq!(timeline.busy_ms, 120_000);
        let first = &timeline.bars[0];
        assert!(first.from == 0.0 && first.to > 0.45 && first.to < 0.5, "{first:?}");
        assert_eq!(timeline.bars[2].to, 1.0);
        assert_eq!((timeline.bars[1].from, timeline.bars[1].to), (timeline.cuts[0].at, timeline.cuts[0].to));
        let ticks: Vec<u64> = timeline.ticks.iter().map(|tick| tick.since_ms / 1000).collect();
        assert_eq!(ticks[..3], [0, 30, 60]);
        assert!(ticks[3..].iter().all(|second| *second >= night / 1000), "no mark in the cut: {ticks:?}");
    }

    #[test]
    fn what_is_side_by_side_stays_so() {
        let timeline = drawn(&[attempt(1, 1, 0, 100), attempt(2, 1, 50, 200), attempt(3, 1, 200, 200)]);
        assert!(timeline.cuts.is_empty());
        let at: Vec<(f64, f64)> = timeline.bars.iter().map(|bar| (bar.from, bar.to)).collect();
        assert_eq!(at, [(0.0, 0.5), (0.25, 1.0), (1.0, 1.0)]);
    }

    #[test]
    fn nothing_and_an_instant_are_drawn_too() {
        assert!(drawn(&[]).bars.is_empty());
        let timeline = drawn(&[attempt(1, 1, 5, 5), attempt(1, 2, 9, 3)]);
        assert!(timeline.bars.iter().all(|bar| (0.0..=1.0).contains(&bar.from) && bar.to >= bar.from));
    }

    #[test]
    fn times_are_said_in_what_matters() {
        let said = [40, 1_250, 61_000, 3_700_000, 90_000_000].map(lasted);
        assert_eq!(said, ["40 ms", "1.2 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }
}
