//! The plan screen: its steps, and the attempts and verdicts of the selected one.

use ratatui::layout::Rect;

use super::{Sheet, ago};
use crate::watch::known::{self, Known, Part, Said, Tone, tone};
use crate::watch::text::{cut, fit, width};
use crate::watch::view::{Areas, View};

pub(super) fn draw(sheet: &mut Sheet<'_>, area: Rect, known: &Known, view: &View, areas: &mut Areas) {
    let Some(open) = &known.sheet else {
        sheet.page(area, &[Said::plain("This plan is not in the log.")], 0);
        return;
    };
    sheet.line(area, 0, &[(Tone::Strong, open.card.title.clone())]);
    sheet.line(area, 1, &about(open));
    let body = Rect { y: area.y + 2, height: area.height.saturating_sub(2), ..area };
    let (list, page) = sheet.halves(body, open.parts.len());
    let row = |at: usize| row(&open.parts[at], known, list.width);
    areas.list = Some(sheet.list(list, open.parts.len(), view.parts.at, row));
    if let Some(part) = open.parts.get(view.parts.at) {
        areas.page = Some(sheet.page(page, &part.page, view.scroll));
    }
}

fn about(open: &known::Sheet) -> Vec<(Tone, String)> {
    let card = &open.card;
    let mut parts = vec![(tone(card), card.state.word().to_owned())];
    if card.waits_for_person {
        parts.push((Tone::Wait, format!(" · ⚑ {} for you", card.waiting)));
    }
    let mut more = format!(" · {} steps", card.progress());
    let cost = card.cost.short();
    if !cost.is_empty() {
        more.push_str(&format!(" · {cost}"));
    }
    more.push_str(&format!(" · revision {}", card.revision.short()));
    if let Some(by) = &card.approved_by {
        more.push_str(&format!(" · approved by {by}"));
    }
    parts.push((Tone::Quiet, more));
    if let Some(trouble) = &card.trouble {
        parts.insert(0, (Tone::Bad, format!("{trouble} · ")));
    }
    parts
}

fn row(part: &Part, known: &Known, room: u16) -> Vec<(Tone, String)> {
    let attempts = if part.attempts > 1 { format!(" ×{}", part.attempts) } else { String::new() };
    let since = part.since.map(|since| format!(" {}", ago(known.now, since))).unwrap_or_default();
    let end = format!(" {}{attempts}{since}", part.state);
    let begin = format!("{}{}. ", fit(part.mark, 3), part.number);
    let left = usize::from(room).saturating_sub(1 + width(&begin) + width(&end));
    vec![(part.tone, begin), (Tone::Plain, fit(&cut(&part.title, left), left)), (part.tone, end)]
}
