//! The log screen: all events, newest last.

use ratatui::layout::Rect;

use super::Sheet;
use crate::watch::known::{Known, LogLine, Tone};
use crate::watch::text::{cut, fit, width};
use crate::watch::view::{Areas, View};

pub(super) fn draw(sheet: &mut Sheet<'_>, area: Rect, known: &Known, view: &View, areas: &mut Areas) {
    let events = view.events(known);
    sheet.line(area, 0, &about(known, view, events.len()));
    let rows = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let names = events.iter().map(|line| width(&line.plan_name)).max().unwrap_or(0).min(16);
    // The events of a single plan need no column for its name.
    let names = if view.log_of.is_some() { 0 } else { names };
    let row = |at: usize| row(events[at], names, area.width);
    areas.list = Some(sheet.list(rows, events.len(), view.log.at, row));
}

fn about(known: &Known, view: &View, count: usize) -> Vec<(Tone, String)> {
    let follow = if view.follow { (Tone::Good, "following") } else { (Tone::Wait, "not following") };
    let plan = match &view.log_of {
        None => "all plans".to_owned(),
        Some(id) => {
            known.plans.iter().find(|plan| plan.id == *id).map_or(id.0.clone(), |plan| plan.name.clone())
        }
    };
    let filter = match view.filter.as_str() {
        "" => format!(" · {plan} · {}", crate::terminal::count(count, "event")),
        words => format!(" · {plan} · {count} with “{}”", crate::watch::text::line(words)),
    };
    vec![(Tone::Plain, " ".to_owned()), (follow.0, follow.1.to_owned()), (Tone::Quiet, filter)]
}

fn row(line: &LogLine, names: usize, width: u16) -> Vec<(Tone, String)> {
    let at = line.at.to_string();
    let mut parts = vec![(Tone::Quiet, format!("{} ", at.get(11..19).unwrap_or(&at)))];
    if names > 0 {
        parts.push((Tone::Strong, format!("{} ", fit(&cut(&line.plan_name, names), names))));
    }
    if width >= 110 {
        parts.push((Tone::Quiet, format!("{:<24} ", line.event)));
    }
    parts.push((line.tone, line.words.clone()));
    parts
}
