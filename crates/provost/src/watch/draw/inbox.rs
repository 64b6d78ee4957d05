//! The inbox screen: what waits for a person, with details for the decision.

use ratatui::layout::Rect;

use super::{Sheet, ago};
use crate::watch::known::{Known, Said, Tone, Waits};
use crate::watch::view::{Areas, View};

pub(super) fn draw(sheet: &mut Sheet<'_>, area: Rect, known: &Known, view: &View, areas: &mut Areas) {
    let Some(chosen) = view.chosen_item(known) else {
        sheet.page(area, &[Said::plain("Nothing waits for a person.")], 0);
        return;
    };
    let (list, page) = sheet.halves(area, known.waiting.len());
    areas.list =
        Some(sheet.list(list, known.waiting.len(), view.inbox.at, |at| row(&known.waiting[at], known)));
    areas.page = Some(sheet.page(page, &chosen.page, view.scroll));
}

fn row(waits: &Waits, known: &Known) -> Vec<(Tone, String)> {
    let item = &waits.item;
    let step = item.step.map(|step| format!(" step {step}")).unwrap_or_default();
    vec![
        (Tone::Wait, format!("{:<13} ", item.kind.word())),
        (Tone::Strong, format!("{}{step}", item.name)),
        (Tone::Quiet, format!(" · {} · ", ago(known.now, item.since))),
        (Tone::Plain, item.reason.clone()),
    ]
}
