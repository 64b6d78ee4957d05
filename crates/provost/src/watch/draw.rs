//! Draws the view: a head with the tabs, the screen, and a line with the available keys.
//!
//! Each screen has a module in `draw/`. It gets the data and the view state and writes cells; the positions
//! of lists and pages are returned to the view, for the mouse.
//!
//! **Invariant:** everything is readable without colour, and sixteen colours are enough.

mod agenda;
mod help;
mod inbox;
mod log;
mod plan;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget as _};

use provost_core::model::timestamp::Timestamp;

use super::known::{Known, Said, Tone, Waits};
use super::text;
use super::view::{Areas, Dialog, Screen, TABS, View};

/// Minimum width for two columns; narrower screens stack them.
const WIDE: u16 = 96;
/// Minimum size of a readable screen.
const LEAST: (u16, u16) = (30, 6);

/// Whether colours are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ink {
    pub colour: bool,
}

impl Ink {
    pub(super) fn of(self, tone: Tone) -> Style {
        let style = Style::new();
        let hue = |colour: Color| if self.colour { style.fg(colour) } else { style };
        match tone {
            Tone::Plain => style,
            Tone::Quiet => style.add_modifier(Modifier::DIM),
            Tone::Strong => style.add_modifier(Modifier::BOLD),
            Tone::Good => hue(Color::Green),
            Tone::Bad => hue(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Wait => hue(Color::Yellow),
            Tone::Busy => hue(Color::Cyan),
        }
    }
}

/// A drawing surface.
pub(super) struct Sheet<'b> {
    pub buf: &'b mut Buffer,
    pub ink: Ink,
}

pub(super) fn screen(buf: &mut Buffer, known: &Known, view: &View, ink: Ink) -> Areas {
    let area = buf.area;
    let mut sheet = Sheet { buf, ink };
    let mut areas = Areas::default();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        sheet.line(area, 0, &[(Tone::Wait, "too small".to_owned())]);
        return areas;
    }
    areas.tabs = head(&mut sheet, area, known, view);
    let body = Rect { y: area.y + 1, height: area.height - 3, ..area };
    match view.screen() {
        Screen::Agenda => agenda::draw(&mut sheet, body, known, view, &mut areas),
        Screen::Inbox => inbox::draw(&mut sheet, body, known, view, &mut areas),
        Screen::Log => log::draw(&mut sheet, body, known, view, &mut areas),
        Screen::Plan(_) => plan::draw(&mut sheet, body, known, view, &mut areas),
        Screen::Gate(_) => match &known.gate {
            Some(gate) => areas.page = Some(sheet.page(body, &gate.page, view.scroll)),
            None => sheet.line(body, 0, &[(Tone::Quiet, "reading the plan …".to_owned())]),
        },
        Screen::Changes(..) | Screen::Transcript(..) => match &known.work {
            Some(page) => areas.page = Some(sheet.page(body, page, view.scroll)),
            None => sheet.line(body, 0, &[(Tone::Quiet, "reading …".to_owned())]),
        },
        Screen::Event(page) => areas.page = Some(sheet.page(body, page, view.scroll)),
        Screen::Help => areas.page = Some(sheet.page(body, &help::page(), view.scroll)),
    }
    foot(&mut sheet, area, known, view);
    if let Some(dialog) = &view.dialog {
        ask(&mut sheet, area, dialog);
    }
    areas
}

/// Draws the program name, the tabs, and the open plan.
fn head(sheet: &mut Sheet<'_>, area: Rect, known: &Known, view: &View) -> Vec<Rect> {
    let waiting: usize = known.plans.iter().map(|plan| plan.waiting).sum();
    sheet.buf.set_style(Rect { height: 1, ..area }, Style::new().add_modifier(Modifier::REVERSED));
    let mut x = area.x;
    let mut put = |sheet: &mut Sheet<'_>, words: &str, style: Style| {
        let room = area.right().saturating_sub(x);
        let (end, _) = sheet.buf.set_stringn(x, area.y, words, usize::from(room), style);
        let used = Rect { x, y: area.y, width: end - x, height: 1 };
        x = end;
        used
    };
    let plain = Style::new().add_modifier(Modifier::REVERSED);
    put(sheet, " provost ", plain.add_modifier(Modifier::BOLD));
    let mut tabs = Vec::new();
    for (at, name) in TABS.iter().enumerate() {
        let count = if at == 1 && waiting > 0 { format!(" ({waiting})") } else { String::new() };
        // The open tab is marked by more than its colour.
        let (words, style) = match view.tab() == at {
            true => (format!("[{} {name}{count}]", at + 1), Style::new().add_modifier(Modifier::BOLD)),
            false => (format!(" {} {name}{count} ", at + 1), plain),
        };
        tabs.push(put(sheet, &words, style));
    }
    let open = match view.screen() {
        Screen::Plan(id) | Screen::Gate(id) | Screen::Changes(id, _) | Screen::Transcript(id, _) => {
            let name =
                known.plans.iter().find(|plan| plan.id == *id).map_or(id.0.as_str(), |plan| &plan.name);
            let what = match view.screen() {
                Screen::Gate(_) => " at the gate".to_owned(),
                Screen::Changes(_, step) => format!(" › changes of step {step}"),
                Screen::Transcript(_, step) => format!(" › transcript of step {step}"),
                _ => String::new(),
            };
            format!(" › {name}{what}")
        }
        Screen::Event(_) => " › event".to_owned(),
        Screen::Help => " › help".to_owned(),
        Screen::Log if view.tab() != 2 => " › log".to_owned(),
        Screen::Agenda | Screen::Inbox | Screen::Log => String::new(),
    };
    put(sheet, &open, plain);
    tabs
}

/// Draws the result of the last action, and the keys of this screen.
fn foot(sheet: &mut Sheet<'_>, area: Rect, known: &Known, view: &View) {
    let note = match (&known.trouble, &view.note) {
        (Some(trouble), _) => (Tone::Bad, trouble.clone()),
        (None, Some((tone, note))) => (*tone, note.clone()),
        (None, None) => (Tone::Plain, String::new()),
    };
    // A long note covers the end of the screen.
    let lines = text::wrap(&note.1, usize::from(area.width));
    let height = u16::try_from(lines.len()).unwrap_or(1).clamp(1, 3);
    let place = Rect { y: area.bottom() - 1 - height, height, ..area };
    if height > 1 {
        Clear.render(place, sheet.buf);
    }
    for (row, line) in lines.into_iter().enumerate() {
        sheet.line(place, row, &[(note.0, line)]);
    }
    let bottom = Rect { y: area.bottom() - 1, height: 1, ..area };
    let keys: Vec<String> = match view.screen() {
        Screen::Inbox => of_item(view.chosen_item(known)),
        screen => of_screen(screen).iter().map(|key| (*key).to_owned()).collect(),
    };
    // Keys that do not fit are in the help.
    let mut line = "? help  q quit".to_owned();
    for key in keys {
        if text::width(&line) + text::width(&key) + 2 <= usize::from(area.width) {
            line = format!("{line}  {key}");
        }
    }
    sheet.line(bottom, 0, &[(Tone::Quiet, line)]);
}

fn of_screen(screen: &Screen) -> &'static [&'static str] {
    match screen {
        Screen::Agenda => &["Enter open", "g gate", "l log", "↑↓ choose", "Tab next"],
        Screen::Inbox => &["↑↓ choose"],
        Screen::Log => &["/ filter", "f follow", "Enter whole event", "a all", "↑↓ choose"],
        Screen::Plan(_) => {
            &["Esc back", "↑↓ step", "d diff", "t transcript", "PgDn scroll", "g gate", "l log", "i inbox"]
        }
        Screen::Gate(_) => &["a approve", "r reject", "b ask", "Esc back", "↑↓ scroll"],
        Screen::Changes(..) | Screen::Transcript(..) => &["Esc back", "↑↓ scroll", "End last line"],
        Screen::Event(_) | Screen::Help => &["Esc back", "↑↓ scroll"],
    }
}

fn of_item(item: Option<&Waits>) -> Vec<String> {
    let Some(item) = item else { return vec!["Tab next".to_owned()] };
    if item.item.kind.is_at_gate() {
        return ["Enter gate", "l log", "↑↓ choose"].map(str::to_owned).to_vec();
    }
    let answers = item.answers.iter().map(|answer| format!("{} {}", answer.key(), answer.choice.word()));
    let diff = item.item.step.map(|_| "d diff".to_owned());
    answers.chain(diff).chain(["Enter plan", "PgDn scroll"].map(str::to_owned)).collect()
}

/// Draws a dialog over the lower part of the screen.
fn ask(sheet: &mut Sheet<'_>, area: Rect, dialog: &Dialog) {
    let room = usize::from(area.width.saturating_sub(4));
    let mut lines: Vec<(Tone, String)> = Vec::new();
    let mut say = |tone: Tone, words: &str| {
        lines.extend(text::wrap(words, room).into_iter().map(|line| (tone, line)));
    };
    match dialog {
        Dialog::Words { asks, text, .. } => {
            say(Tone::Strong, asks);
            say(Tone::Plain, &format!("> {}▏", text::line_as_typed(text)));
            say(Tone::Quiet, "Enter continues, Esc cancels");
        }
        Dialog::Sure { question, .. } => {
            say(Tone::Strong, question);
            say(Tone::Wait, "y: yes · any other key: no");
        }
    }
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2).min(area.height);
    let place = Rect { y: area.bottom() - height, height, ..area };
    Clear.render(place, sheet.buf);
    let block = Block::bordered();
    let inside = block.inner(place).inner(ratatui::layout::Margin { horizontal: 1, vertical: 0 });
    block.render(place, sheet.buf);
    // The prompt is at the end.
    let first = lines.len().saturating_sub(usize::from(inside.height));
    for (row, said) in lines.into_iter().skip(first).enumerate() {
        sheet.line(inside, row, &[said]);
    }
}

impl Sheet<'_> {
    /// Draws one line of an area from parts, cut at its end.
    pub(super) fn line(&mut self, area: Rect, row: usize, parts: &[(Tone, String)]) {
        let Some(y) = u16::try_from(row).ok().filter(|row| *row < area.height) else { return };
        let mut room = usize::from(area.width);
        let spans = parts.iter().map(|(tone, words)| {
            let words = text::cut(words, room);
            room -= text::width(&words);
            Span::styled(words, self.ink.of(*tone))
        });
        let line = Line::from_iter(spans);
        self.buf.set_line(area.x, area.y + y, &line, area.width);
    }

    /// Draws the rows of a list around the selected one, which is marked. Returns its area and its first row.
    pub(super) fn list(
        &mut self,
        area: Rect,
        count: usize,
        at: usize,
        row: impl Fn(usize) -> Vec<(Tone, String)>,
    ) -> (Rect, usize) {
        let height = usize::from(area.height);
        let first = at.saturating_sub(height / 2).min(count.saturating_sub(height));
        for line in 0..height.min(count - first) {
            let is_chosen = first + line == at;
            let mut parts = vec![(Tone::Plain, if is_chosen { "▸" } else { " " }.to_owned())];
            parts.extend(row(first + line));
            self.line(area, line, &parts);
            if is_chosen {
                let y = area.y + u16::try_from(line).unwrap_or(0);
                let mark = Style::new().add_modifier(Modifier::REVERSED);
                self.buf.set_style(Rect { y, height: 1, ..area }, mark);
            }
        }
        (area, first)
    }

    /// Draws paragraphs, wrapped to the width, from a line on. Returns the area and the number of lines.
    pub(super) fn page(&mut self, area: Rect, page: &[Said], scroll: usize) -> (Rect, usize) {
        let room = usize::from(area.width.saturating_sub(1));
        let lines: Vec<(Tone, String)> = page
            .iter()
            .flat_map(|said| text::wrap(&said.text, room).into_iter().map(|line| (said.tone, line)))
            .collect();
        let height = usize::from(area.height);
        let first = scroll.min(lines.len().saturating_sub(height));
        for (row, line) in lines.iter().skip(first).take(height).enumerate() {
            self.line(area, row, std::slice::from_ref(line));
        }
        let below = lines.len().saturating_sub(first + height);
        if below > 0 && area.height > 0 {
            let words = format!(" ↓ {below} more ");
            let width = u16::try_from(text::width(&words)).unwrap_or(0).min(area.width);
            let corner = Rect { x: area.right() - width, y: area.bottom() - 1, width, height: 1 };
            self.line(corner, 0, &[(Tone::Wait, words)]);
        }
        (area, lines.len())
    }

    /// Splits an area for a list and a page: side by side if it is wide enough.
    pub(super) fn halves(&mut self, area: Rect, rows: usize) -> (Rect, Rect) {
        if area.width >= WIDE {
            let left = Rect { width: area.width * 2 / 5, ..area };
            let right = Rect { x: left.right() + 2, width: area.width - left.width - 2, ..area };
            for y in area.top()..area.bottom() {
                self.buf.set_string(left.right(), y, "│", self.ink.of(Tone::Quiet));
            }
            return (left, right);
        }
        let most = (area.height / 2).saturating_sub(1).max(1);
        let height = u16::try_from(rows).unwrap_or(u16::MAX).clamp(1, most);
        let top = Rect { height, ..area };
        if top.bottom() < area.bottom() {
            let rule = "─".repeat(usize::from(area.width));
            self.buf.set_string(area.x, top.bottom(), rule, self.ink.of(Tone::Quiet));
        }
        let under = top.bottom() + 1;
        (top, Rect { y: under, height: area.bottom().saturating_sub(under), ..area })
    }
}

/// Returns how long ago that was, in one unit.
pub(super) fn ago(now: Timestamp, then: Timestamp) -> String {
    match now.0.saturating_sub(then.0) / 1000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests;
