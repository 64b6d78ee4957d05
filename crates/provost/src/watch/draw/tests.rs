//! Snapshots of the screens, and properties that hold for every screen.

use expect_test::{Expect, expect};
use provost_core::model::chain::PlanId;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::*;
use crate::watch::keys::Intent;
use crate::watch::known::sample;

fn terminal(known: &Known, view: &View, size: (u16, u16), colour: bool) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a terminal");
    let ink = Ink { colour };
    terminal.draw(|frame| drop(screen(frame.buffer_mut(), known, view, ink))).expect("drawn");
    terminal
}

fn picture(known: &Known, view: &View, size: (u16, u16)) -> String {
    let drawn = terminal(known, view, size, false).backend().to_string();
    let lines = drawn.lines().map(|line| {
        // The test terminal appends this note for wide characters, which cover the next cell.
        let cells = line.split(" Hidden by").next().unwrap_or_default();
        format!("{}\n", cells.trim_matches('"').trim_end())
    });
    lines.collect()
}

fn check(known: &Known, view: &View, size: (u16, u16), expected: Expect) {
    expected.assert_eq(&picture(known, view, size));
}

fn started(known: &Known, intents: &[Intent]) -> View {
    let mut view = View::new(None);
    view.settle(known);
    for intent in intents {
        view.hear(intent.clone(), known);
    }
    view
}

#[test]
fn the_agenda_narrow_and_wide() {
    let known = sample::known();
    let view = started(&known, &[]);
    check(
        &known,
        &view,
        (60, 8),
        expect![[r#"
             provost [1 Agenda] 2 Inbox (2)  3 Log
             PLAN    STATE           STEPS   WAITS    TITLE
            ▸auth    waiting for you 1/3     ⚑ 1      What auth is abou…
             gate    waiting for you 0/3     ⚑ 1      What gate is abou…
             docs    running         0/3     step 1   What docs is abou…


            ? help  q quit  Enter open  g gate  l log  ↑↓ choose
        "#]],
    );
    check(
        &known,
        &view,
        (120, 8),
        expect![[r#"
             provost [1 Agenda] 2 Inbox (2)  3 Log
             PLAN    STATE           STEPS               WAITS    COST            MOVED    TITLE
            ▸auth    waiting for you 1/3     ███░░░░░░░  ⚑ 1      $0.12 of $1.50  1 min    What auth is about, as a sentence
             gate    waiting for you 0/3     ░░░░░░░░░░  ⚑ 1                      1 min    What gate is about, as a sentence
             docs    running         0/3     ░░░░░░░░░░  step 1                   1 min    What docs is about, as a sentence


            ? help  q quit  Enter open  g gate  l log  ↑↓ choose  Tab next
        "#]],
    );
}

#[test]
fn a_plan_has_its_steps_above_or_beside_what_was_seen() {
    let known = sample::known();
    let mut view = View::new(Some(PlanId("auth-1a2b".to_owned())));
    view.settle(&known);
    view.hear(Intent::Move(1), &known);
    check(
        &known,
        &view,
        (60, 14),
        expect![[r#"
             provost [1 Agenda] 2 Inbox (2)  3 Log  › auth
            What auth is about, as a sentence
            waiting for you · ⚑ 1 for you · 1/3 steps · $0.12 of $1.50 …
             ✅ 1. Part 1                                         passed
             ⛔ 2. Part 2                                        blocked
            ▸·  post 1. Part post 1                                 open
            ────────────────────────────────────────────────────────────
            line 1 of part post 1
            line 2 of part post 1
            line 3 of part post 1
            line 4 of part post 1
            line 5 of part post 1                             ↓ 25 more

            ? help  q quit  Esc back  ↑↓ step  d diff  t transcript
        "#]],
    );
    check(
        &known,
        &view,
        (100, 10),
        expect![[r#"
             provost [1 Agenda] 2 Inbox (2)  3 Log  › auth
            What auth is about, as a sentence
            waiting for you · ⚑ 1 for you · 1/3 steps · $0.12 of $1.50 · revision 3f9a1c02be77 · approved by ada
             ✅ 1. Part 1                     passed│ line 1 of part post 1
             ⛔ 2. Part 2                    blocked│ line 2 of part post 1
            ▸·  post 1. Part post 1             open│ line 3 of part post 1
                                                    │ line 4 of part post 1
                                                    │ line 5 of part post 1                           ↓ 25 more

            ? help  q quit  Esc back  ↑↓ step  d diff  t transcript  PgDn scroll  g gate  l log  i inbox
        "#]],
    );
}

#[test]
fn what_is_decided_is_asked_in_a_box() {
    let known = sample::known();
    let view = started(
        &known,
        &[Intent::Tab(1), Intent::Press('s'), Intent::Type("by hand".to_owned()), Intent::Submit],
    );
    check(
        &known,
        &view,
        (60, 12),
        expect![[r#"
             provost  1 Agenda [2 Inbox (2)] 3 Log
            ▸escalation    auth step 2 · 1 min · the contract broke twi…
             approval      gate · 5 s · the plan is not approved
            ────────────────────────────────────────────────────────────
            escalation
            what was tried

            ┌──────────────────────────────────────────────────────────┐
            │ Answer skip to auth, step 2, as ada: let the step go,    │
            │ in your name?                                            │
            │ y: yes · any other key: no                               │
            └──────────────────────────────────────────────────────────┘
        "#]],
    );
}

#[test]
fn nothing_hostile_reaches_the_screen() {
    let known = sample::known();
    let view = started(&known, &[Intent::Tab(2)]);
    let drawn = picture(&known, &view, (100, 8));
    assert!(drawn.contains("␛[2Jcontract <U+202E>broke"), "{drawn}");
    assert!(drawn.chars().all(|sign| sign == '\n' || !sign.is_control()), "{drawn:?}");
}

#[test]
fn without_colour_there_is_none_and_with_it_sixteen_are_enough() {
    let known = sample::known();
    let plain = |colour: Color| colour == Color::Reset;
    let basic = |colour: Color| !matches!(colour, Color::Rgb(..) | Color::Indexed(_));
    for tab in 0..3 {
        let view = started(&known, &[Intent::Tab(tab)]);
        let cells =
            |colour: bool| terminal(&known, &view, (100, 20), colour).backend().buffer().content.clone();
        assert!(cells(false).iter().all(|cell| plain(cell.fg) && plain(cell.bg)), "tab {tab}");
        assert!(cells(true).iter().all(|cell| basic(cell.fg) && basic(cell.bg)), "tab {tab}");
        assert!(cells(true).iter().any(|cell| !plain(cell.fg)), "tab {tab} has no colour at all");
    }
}

#[test]
fn any_size_can_be_drawn_on() {
    let known = sample::known();
    for intents in [
        &[][..],
        &[Intent::Open],
        &[Intent::Tab(1)],
        &[Intent::Tab(1), Intent::Press('s')],
        &[Intent::Tab(2)],
        &[Intent::Move(1), Intent::Press('g'), Intent::Press('a')],
        &[Intent::Help],
    ] {
        let view = started(&known, intents);
        for width in (0..12).chain([29, 30, 59, 60, 95, 96, 109, 110, 250]) {
            for height in (0..10).chain([40]) {
                let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
                screen(&mut buffer, &known, &view, Ink { colour: true });
            }
        }
    }
}
