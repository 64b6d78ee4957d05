//! The state of the view: the screen, the selected line, the open dialog. Nothing here reads or writes.
//!
//! [`View::hear`] takes an intent of the person and returns what to do.
//!
//! **Invariant:** a [`Wish::Decide`] only follows a yes to a question that named the decision.

mod dialog;
mod pick;

use provost_core::model::chain::PlanId;
use provost_engine::observe::view::PlanCard;
use ratatui::layout::{Position, Rect};

use super::decide::Decision;
use super::keys::{Intent, Mode};
use super::known::{Gate, Known, LogLine, Said, Tone, Waits};

pub(super) use dialog::Dialog;
pub(super) use pick::Pick;
use pick::{busiest, event_keys, item_keys, part_keys, plan_keys};

/// Screens that one key opens from anywhere.
pub(super) const TABS: [&str; 3] = ["Agenda", "Inbox", "Log"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    Agenda,
    Inbox,
    Log,
    Plan(PlanId),
    Gate(PlanId),
    /// What a step changed.
    Changes(PlanId, u32),
    /// What the agent said and did in the last attempt at a step.
    Transcript(PlanId, u32),
    /// One whole event.
    Event(Vec<Said>),
    Help,
}

/// Positions of the drawn elements, for the mouse and for scrolling.
#[derive(Clone, Debug, Default)]
pub(super) struct Areas {
    pub tabs: Vec<Rect>,
    /// Area of a list, and its first visible row.
    pub list: Option<(Rect, usize)>,
    /// Area of a page, and its number of lines.
    pub page: Option<(Rect, usize)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    /// Another screen is shown, so its data must be read.
    Read,
    Decide(Decision),
    Mouse,
    Redraw,
    Suspend,
    Quit,
}

pub(super) struct View {
    screens: Vec<Screen>,
    pub agenda: Pick,
    pub inbox: Pick,
    pub parts: Pick,
    pub log: Pick,
    /// Number of lines of the page above the screen.
    pub scroll: usize,
    /// Only events with this text.
    pub filter: String,
    /// Only events of this plan.
    pub log_of: Option<PlanId>,
    /// The newest event stays visible.
    pub follow: bool,
    pub dialog: Option<Dialog>,
    /// Result of the last action.
    pub note: Option<(Tone, String)>,
    pub areas: Areas,
}

impl View {
    pub(super) fn new(first: Option<PlanId>) -> Self {
        let mut screens = vec![Screen::Agenda];
        screens.extend(first.map(Screen::Plan));
        Self {
            screens,
            agenda: Pick::default(),
            inbox: Pick::default(),
            parts: Pick::default(),
            log: Pick::default(),
            scroll: 0,
            filter: String::new(),
            log_of: None,
            follow: true,
            dialog: None,
            note: None,
            areas: Areas::default(),
        }
    }

    pub(super) fn screen(&self) -> &Screen {
        self.screens.last().unwrap_or(&Screen::Agenda)
    }

    /// Returns the tab that the current screen was opened from.
    pub(super) fn tab(&self) -> usize {
        match self.screens.first() {
            Some(Screen::Inbox) => 1,
            Some(Screen::Log) => 2,
            _ => 0,
        }
    }

    /// Returns the plan that must be read for the current screen.
    pub(super) fn open_plan(&self) -> Option<&PlanId> {
        match self.screen() {
            Screen::Plan(plan) => Some(plan),
            _ => None,
        }
    }

    /// Returns the plan whose gate must be read for the current screen.
    pub(super) fn open_gate(&self) -> Option<&PlanId> {
        match self.screen() {
            Screen::Gate(plan) => Some(plan),
            _ => None,
        }
    }

    /// Returns the step of the current screen, if it shows the work on one.
    pub(super) fn open_work(&self) -> Option<(&PlanId, u32)> {
        match self.screen() {
            Screen::Changes(plan, step) | Screen::Transcript(plan, step) => Some((plan, *step)),
            _ => None,
        }
    }

    /// Returns the selected step, in a plan or in the inbox.
    fn chosen_step(&self, known: &Known) -> Option<u32> {
        match self.screen() {
            Screen::Plan(_) => known.sheet.as_ref()?.parts.get(self.parts.at)?.number.parse().ok(),
            Screen::Inbox => self.chosen_item(known)?.item.step,
            _ => None,
        }
    }

    pub(super) fn mode(&self) -> Mode {
        match &self.dialog {
            None => Mode::Looking,
            Some(Dialog::Words { .. }) => Mode::Typing,
            Some(Dialog::Sure { .. }) => Mode::Confirming,
        }
    }

    pub(super) fn events<'k>(&self, known: &'k Known) -> Vec<&'k LogLine> {
        let of_plan = |line: &&LogLine| self.log_of.as_ref().is_none_or(|plan| *plan == line.plan);
        known.log.iter().filter(of_plan).filter(|line| line.matches(&self.filter)).collect()
    }

    pub(super) fn chosen_plan<'k>(&self, known: &'k Known) -> Option<&'k PlanCard> {
        known.plans.get(self.agenda.at)
    }

    pub(super) fn chosen_item<'k>(&self, known: &'k Known) -> Option<&'k Waits> {
        known.waiting.get(self.inbox.at)
    }

    /// Keeps the same lines selected after a read.
    pub(super) fn settle(&mut self, known: &Known) {
        self.agenda.settle(&plan_keys(known));
        self.inbox.settle(&item_keys(known));
        if self.parts.key.is_empty() {
            self.parts.at = busiest(known);
        }
        self.parts.settle(&part_keys(known));
        let events = event_keys(&self.events(known));
        if self.follow {
            self.log.put(usize::MAX, &events);
        } else {
            self.log.settle(&events);
        }
    }

    pub(super) fn hear(&mut self, intent: Intent, known: &Known) -> Wish {
        match intent {
            Intent::Quit => return Wish::Quit,
            Intent::Suspend => return Wish::Suspend,
            Intent::Redraw => return Wish::Redraw,
            _ => {}
        }
        if self.dialog.is_some() {
            return self.answer(intent, known);
        }
        self.note = None;
        match intent {
            Intent::Move(by) => self.go(by, known),
            Intent::First => self.jump(0, known),
            Intent::Last => self.jump(usize::MAX, known),
            Intent::Scroll(by) => self.scroll_by(by),
            Intent::Page(by) => self.page(by, known),
            Intent::Open => return self.open(known),
            Intent::Back => return self.back(),
            Intent::Tab(at) => return self.show_tab(at),
            Intent::NextTab => return self.show_tab((self.tab() + 1) % TABS.len()),
            Intent::Help => self.push(Screen::Help),
            Intent::Press(key) => return self.press(key, known),
            Intent::Click { x, y } => return self.click(x, y, known),
            Intent::Wheel { x, y, by } => self.wheel(x, y, by, known),
            Intent::Mouse => return Wish::Mouse,
            Intent::Type(_) | Intent::Erase | Intent::EraseAll => {}
            Intent::Submit | Intent::Cancel | Intent::Yes => {}
            Intent::Quit | Intent::Suspend | Intent::Redraw => {}
        }
        Wish::Nothing
    }

    fn push(&mut self, screen: Screen) {
        if *self.screen() != screen {
            self.screens.push(screen);
            self.scroll = 0;
        }
    }

    fn back(&mut self) -> Wish {
        if self.screens.len() > 1 {
            self.screens.pop();
            self.scroll = 0;
        }
        Wish::Read
    }

    fn show_tab(&mut self, at: usize) -> Wish {
        self.screens = vec![[Screen::Agenda, Screen::Inbox, Screen::Log][at.min(2)].clone()];
        self.scroll = 0;
        if at == 2 {
            self.log_of = None;
        }
        Wish::Read
    }

    /// Returns the list of this screen, if it has one, and its keys.
    fn list(&mut self, known: &Known) -> Option<(&mut Pick, Vec<String>)> {
        match self.screen() {
            Screen::Agenda => Some((&mut self.agenda, plan_keys(known))),
            Screen::Inbox => Some((&mut self.inbox, item_keys(known))),
            Screen::Plan(_) => Some((&mut self.parts, part_keys(known))),
            Screen::Log => {
                let keys = event_keys(&self.events(known));
                Some((&mut self.log, keys))
            }
            Screen::Gate(_) | Screen::Event(_) | Screen::Help => None,
            Screen::Changes(..) | Screen::Transcript(..) => None,
        }
    }

    fn go(&mut self, by: i32, known: &Known) {
        match self.list(known) {
            None => self.scroll_by(by),
            Some((pick, _)) => {
                let at = pick.at.saturating_add_signed(by as isize);
                self.jump(at, known);
            }
        }
    }

    fn jump(&mut self, at: usize, known: &Known) {
        let Some((pick, keys)) = self.list(known) else {
            let by = if at == 0 { i32::MIN } else { i32::MAX };
            return self.scroll_by(by);
        };
        let before = pick.clone();
        pick.put(at, &keys);
        let (moved, is_last) = (*pick != before, pick.at + 1 >= keys.len());
        if moved {
            self.scroll = 0;
        }
        if *self.screen() == Screen::Log {
            self.follow = is_last;
        }
    }

    fn scroll_by(&mut self, by: i32) {
        let Some((area, lines)) = self.areas.page else { return };
        let most = lines.saturating_sub(usize::from(area.height));
        self.scroll = self.scroll.saturating_add_signed(by as isize).min(most);
    }

    fn page(&mut self, by: i32, known: &Known) {
        match (self.areas.page, self.areas.list) {
            (Some((area, _)), _) => self.scroll_by(by * i32::from(area.height.saturating_sub(1).max(1))),
            (None, Some((area, _))) => self.go(by * i32::from(area.height.saturating_sub(1).max(1)), known),
            (None, None) => {}
        }
    }

    fn wheel(&mut self, x: u16, y: u16, by: i32, known: &Known) {
        let at = Position { x, y };
        match self.areas.page {
            Some((area, _)) if area.contains(at) => self.scroll_by(by),
            _ => self.go(by.signum(), known),
        }
    }

    fn click(&mut self, x: u16, y: u16, known: &Known) -> Wish {
        let at = Position { x, y };
        if let Some(tab) = self.areas.tabs.iter().position(|tab| tab.contains(at)) {
            return self.show_tab(tab);
        }
        let Some((area, first)) = self.areas.list.filter(|(area, _)| area.contains(at)) else {
            return Wish::Nothing;
        };
        let row = first + usize::from(y - area.y);
        let Some((pick, keys)) = self.list(known) else { return Wish::Nothing };
        if row >= keys.len() {
            return Wish::Nothing;
        }
        // A second click on the same line opens it.
        if pick.at == row {
            return self.open(known);
        }
        self.jump(row, known);
        Wish::Nothing
    }

    fn open(&mut self, known: &Known) -> Wish {
        match self.screen() {
            Screen::Agenda => match self.chosen_plan(known).map(|plan| plan.id.clone()) {
                Some(plan) => self.open_the_plan(plan),
                None => Wish::Nothing,
            },
            Screen::Inbox => match self.chosen_item(known).map(|waits| &waits.item) {
                Some(item) if item.kind.is_at_gate() => self.open_the_gate(item.plan.clone()),
                Some(item) => self.open_the_plan(item.plan.clone()),
                None => Wish::Nothing,
            },
            Screen::Log => {
                let whole = self.events(known).get(self.log.at).map(|line| line.whole.clone());
                if let Some(whole) = whole {
                    self.push(Screen::Event(laid_out(&whole)));
                }
                Wish::Nothing
            }
            Screen::Plan(_) | Screen::Gate(_) | Screen::Event(_) | Screen::Help => Wish::Nothing,
            Screen::Changes(..) | Screen::Transcript(..) => Wish::Nothing,
        }
    }

    fn open_the_plan(&mut self, plan: PlanId) -> Wish {
        self.parts = Pick::default();
        self.push(Screen::Plan(plan));
        Wish::Read
    }

    fn open_the_transcript(&mut self, plan: PlanId, step: u32) -> Wish {
        self.push(Screen::Transcript(plan, step));
        Wish::Read
    }

    fn open_the_gate(&mut self, plan: PlanId) -> Wish {
        self.push(Screen::Gate(plan));
        Wish::Read
    }

    fn press(&mut self, key: char, known: &Known) -> Wish {
        let chosen = match self.screen() {
            Screen::Agenda => self.chosen_plan(known).map(|plan| plan.id.clone()),
            Screen::Plan(plan) | Screen::Gate(plan) => Some(plan.clone()),
            Screen::Changes(plan, _) | Screen::Transcript(plan, _) => Some(plan.clone()),
            Screen::Inbox => self.chosen_item(known).map(|waits| waits.item.plan.clone()),
            Screen::Log | Screen::Event(_) | Screen::Help => None,
        };
        match (self.screen().clone(), key, chosen) {
            (Screen::Agenda | Screen::Plan(_) | Screen::Inbox, 'g', Some(plan)) => self.open_the_gate(plan),
            (_, 'l', Some(plan)) => {
                self.log_of = Some(plan);
                self.follow = true;
                self.push(Screen::Log);
                Wish::Read
            }
            (Screen::Plan(_) | Screen::Inbox, 'd' | 't', Some(plan)) => match self.chosen_step(known) {
                Some(step) if key == 't' => self.open_the_transcript(plan, step),
                Some(step) => {
                    self.push(Screen::Changes(plan, step));
                    Wish::Read
                }
                None => Wish::Nothing,
            },
            (Screen::Plan(_), 'i', Some(plan)) => {
                let wish = self.show_tab(1);
                let at = known.waiting.iter().position(|waits| waits.item.plan == plan);
                self.inbox.put(at.unwrap_or(self.inbox.at), &item_keys(known));
                wish
            }
            (Screen::Gate(_), key, _) => self.at_gate(key, known.gate.as_ref(), &known.by),
            (Screen::Inbox, key, _) => self.about_item(key, known),
            (Screen::Log, '/', _) => {
                self.dialog = Some(Dialog::filter(&self.filter));
                Wish::Nothing
            }
            (Screen::Log, 'f', _) => {
                self.follow = !self.follow;
                self.settle(known);
                Wish::Nothing
            }
            (Screen::Log, 'a', _) => {
                (self.log_of, self.filter) = (None, String::new());
                self.settle(known);
                Wish::Nothing
            }
            _ => Wish::Nothing,
        }
    }

    fn at_gate(&mut self, key: char, gate: Option<&Gate>, by: &str) -> Wish {
        let Some(gate) = gate else { return Wish::Nothing };
        match key {
            'a' if gate.open => self.dialog = Some(Dialog::approve(gate, by)),
            'a' => self.note = Some((Tone::Wait, "the plan cannot be approved now".to_owned())),
            'r' => self.dialog = Some(Dialog::reject(gate)),
            'b' => self.dialog = Some(Dialog::ask(gate)),
            _ => {}
        }
        Wish::Nothing
    }

    fn about_item(&mut self, key: char, known: &Known) -> Wish {
        let Some(item) = self.chosen_item(known) else { return Wish::Nothing };
        if let Some(answer) = item.answers.iter().find(|answer| answer.key() == key) {
            self.dialog = Some(Dialog::answer(item, *answer));
        }
        Wish::Nothing
    }

    /// Handles an intent in a dialog.
    fn answer(&mut self, intent: Intent, known: &Known) -> Wish {
        match (self.dialog.take(), intent) {
            (Some(Dialog::Words { asks, text, then }), intent) => {
                let text = match intent {
                    Intent::Type(more) => text + &more,
                    Intent::Erase => {
                        let mut text = text;
                        text.pop();
                        text
                    }
                    Intent::EraseAll => String::new(),
                    Intent::Cancel => return Wish::Nothing,
                    Intent::Submit => return self.said(then, text.trim(), known),
                    _ => text,
                };
                self.dialog = Some(Dialog::Words { asks, text, then });
                Wish::Nothing
            }
            (Some(Dialog::Sure { decision, .. }), Intent::Yes) => Wish::Decide(decision),
            (Some(Dialog::Sure { .. }), _) => {
                self.note = Some((Tone::Quiet, "nothing was decided".to_owned()));
                Wish::Nothing
            }
            (None, _) => Wish::Nothing,
        }
    }

    fn said(&mut self, then: dialog::Then, words: &str, known: &Known) -> Wish {
        match then.follow(words, &known.by) {
            dialog::Followed::Filter(words) => {
                self.filter = words;
                self.settle(known);
            }
            dialog::Followed::Dialog(next) => self.dialog = Some(next),
            dialog::Followed::Not(why) => self.note = Some((Tone::Wait, why.to_owned())),
        }
        Wish::Nothing
    }

    /// Shows the result of a decision, and leaves the gate if it succeeded.
    pub(super) fn decided(&mut self, note: (Tone, String)) {
        if note.0 == Tone::Good && matches!(self.screen(), Screen::Gate(_)) {
            let _ = self.back();
        }
        self.note = Some(note);
    }
}

/// Formats an event as indented JSON.
fn laid_out(whole: &str) -> Vec<Said> {
    let value: Result<serde_json::Value, _> = serde_json::from_str(whole);
    let text =
        value.and_then(|value| serde_json::to_string_pretty(&value)).unwrap_or_else(|_| whole.to_owned());
    text.lines().map(Said::plain).collect()
}

#[cfg(test)]
mod tests;
