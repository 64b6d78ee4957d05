//! The agenda screen: the progress of all plans, their cost, and what waits.

use provost_engine::observe::view::PlanCard;
use ratatui::layout::Rect;

use super::{Sheet, ago};
use crate::watch::known::{Known, Said, Tone, tone};
use crate::watch::text::{cut, fit, width};
use crate::watch::view::{Areas, View};

pub(super) fn draw(sheet: &mut Sheet<'_>, area: Rect, known: &Known, view: &View, areas: &mut Areas) {
    if known.plans.is_empty() {
        let none = [
            Said::plain("No plan is in the log yet."),
            Said::quiet("`provost new NAME` creates one, `provost verify` records it."),
        ];
        sheet.page(area, &none, 0);
        return;
    }
    let columns = Columns::of(known, area.width);
    sheet.line(area, 0, &[(Tone::Quiet, columns.head())]);
    let rows = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let row = |at: usize| columns.row(&known.plans[at], known);
    areas.list = Some(sheet.list(rows, known.plans.len(), view.agenda.at, row));
}

/// Column widths; columns without room are left out.
struct Columns {
    name: usize,
    cost: usize,
    moved: usize,
    has_bar: bool,
    title: usize,
}

const STATE: usize = 16;
const STEPS: usize = 8;
const WAITS: usize = 9;
const BAR: usize = 10;

impl Columns {
    fn of(known: &Known, all: u16) -> Self {
        let all = usize::from(all);
        let widest = |part: fn(&PlanCard) -> usize, least: usize, most: usize| {
            known.plans.iter().map(|plan| part(plan) + 2).max().unwrap_or(0).clamp(least, most)
        };
        let name = widest(|plan| width(&plan.name), 8, if all < 80 { 16 } else { 26 });
        let cost = if all < 90 { 0 } else { widest(|plan| width(&plan.cost.short()), 6, 30) };
        let moved = if all < 72 { 0 } else { 9 };
        let has_bar = all >= 110;
        let bar = if has_bar { BAR + 2 } else { 0 };
        let title = all.saturating_sub(1 + name + STATE + STEPS + bar + WAITS + cost + moved);
        Self { name, cost, moved, has_bar, title }
    }

    fn head(&self) -> String {
        let bar = if self.has_bar { fit("", BAR + 2) } else { String::new() };
        format!(
            " {}{}{}{bar}{}{}{}{}",
            fit("PLAN", self.name),
            fit("STATE", STATE),
            fit("STEPS", STEPS),
            fit("WAITS", WAITS),
            fit("COST", self.cost),
            fit("MOVED", self.moved),
            cut("TITLE", self.title)
        )
    }

    fn row(&self, plan: &PlanCard, known: &Known) -> Vec<(Tone, String)> {
        let waits = match (plan.waiting, plan.at_work.as_slice()) {
            (0, []) => String::new(),
            (0, [step]) => format!("step {step}"),
            (0, steps) => cut(&format!("steps {}", numbers(steps)), WAITS - 1),
            (count, _) => format!("⚑ {count}"),
        };
        let waits_tone = if plan.waits_for_person { Tone::Wait } else { Tone::Busy };
        let title = match &plan.trouble {
            Some(trouble) => (Tone::Bad, trouble),
            None => (Tone::Plain, &plan.title),
        };
        let moved = plan.moved.filter(|_| self.moved > 0);
        let mut parts = vec![
            (Tone::Strong, fit(&cut(&plan.name, self.name - 1), self.name)),
            (tone(plan), fit(plan.state.word(), STATE)),
            (Tone::Plain, fit(&plan.progress(), STEPS)),
        ];
        if self.has_bar {
            parts.push((tone(plan), fit(&bar(plan.done, plan.total), BAR + 2)));
        }
        parts.extend([
            (waits_tone, fit(&waits, WAITS)),
            (Tone::Plain, fit(&cut(&plan.cost.short(), self.cost.saturating_sub(1)), self.cost)),
            (Tone::Quiet, moved.map(|moved| fit(&ago(known.now, moved), self.moved)).unwrap_or_default()),
            (title.0, cut(title.1, self.title)),
        ]);
        parts
    }
}

fn numbers(steps: &[u32]) -> String {
    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn bar(done: u32, total: u32) -> String {
    let full = if total == 0 { 0 } else { BAR * done as usize / total as usize };
    "█".repeat(full) + &"░".repeat(BAR - full)
}
