//! Tests of key sequences as a person types them.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use provost_core::model::event::{Choice, Revision};

use super::*;
use crate::watch::keys;
use crate::watch::known::sample;

/// Types the keys; returns what the last one requested.
fn press(view: &mut View, known: &Known, typed: &str) -> Wish {
    let mut wish = Wish::Nothing;
    for sign in typed.chars() {
        let code = match sign {
            '⏎' => KeyCode::Enter,
            '␛' => KeyCode::Esc,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            sign => KeyCode::Char(sign),
        };
        let event = Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
        let intent = keys::intent(&event, view.mode()).expect("a key that means something");
        wish = view.hear(intent, known);
    }
    wish
}

fn start() -> (View, Known) {
    let known = sample::known();
    let mut view = View::new(None);
    view.settle(&known);
    (view, known)
}

#[test]
fn an_approval_is_asked_for_once_more_and_bound_to_what_is_shown() {
    let (mut view, known) = start();
    assert_eq!(press(&mut view, &known, "↓g"), Wish::Read);
    assert_eq!(*view.screen(), Screen::Gate(PlanId("gate-1a2b".to_owned())));
    assert_eq!(press(&mut view, &known, "a"), Wish::Nothing);
    let Some(Dialog::Sure { question, .. }) = &view.dialog else { panic!("{:?}", view.dialog) };
    assert!(question.contains("3f9a1c02be77") && question.contains("ada"), "{question}");
    // Only `y` confirms; every other key changes nothing.
    for key in ["⏎", "␛", "n", " ", "a"] {
        assert_eq!(press(&mut view, &known, key), Wish::Nothing, "{key}");
        assert!(view.dialog.is_none(), "{key}");
        press(&mut view, &known, "a");
    }
    let revision = Revision("3f9a1c02be77aaaa".to_owned());
    let plan = PlanId("gate-1a2b".to_owned());
    assert_eq!(press(&mut view, &known, "y"), Wish::Decide(Decision::Approve { plan, revision }));
}

#[test]
fn what_cannot_be_approved_is_not_asked_about() {
    let (mut view, mut known) = start();
    known.gate = known.gate.map(|gate| Gate { open: false, ..gate });
    press(&mut view, &known, "↓g");
    assert_eq!(press(&mut view, &known, "ay"), Wish::Nothing);
    assert!(view.dialog.is_none());
}

#[test]
fn an_answer_takes_a_note_and_a_yes() {
    let (mut view, known) = start();
    press(&mut view, &known, "2s");
    assert_eq!(view.mode(), Mode::Typing);
    // Letters that are commands on other screens are text here.
    assert_eq!(press(&mut view, &known, "done q⏎"), Wish::Nothing);
    assert_eq!(view.mode(), Mode::Confirming);
    let Wish::Decide(Decision::Answer { item, choice, note, limits }) = press(&mut view, &known, "y") else {
        panic!("no answer")
    };
    assert_eq!((item.seq, choice, note.as_str(), limits.as_str()), (12, Choice::Skip, "done q", ""));
    // A choice that is not offered does nothing.
    assert_eq!(press(&mut view, &known, "cy"), Wish::Nothing);
    assert!(view.dialog.is_none());
}

#[test]
fn where_a_budget_ran_out_a_retry_asks_for_limits_first() {
    let (mut view, mut known) = start();
    known.waiting[0].limits = Some("$3.00".to_owned());
    press(&mut view, &known, "2r");
    let Some(Dialog::Words { text, .. }) = &view.dialog else { panic!("{:?}", view.dialog) };
    assert_eq!(text, "$3.00");
    press(&mut view, &known, "⏎⏎");
    let Wish::Decide(Decision::Answer { limits, .. }) = press(&mut view, &known, "y") else { panic!("none") };
    assert_eq!(limits, "$3.00");
}

#[test]
fn a_rejection_without_a_reason_is_none() {
    let (mut view, known) = start();
    press(&mut view, &known, "↓gr⏎");
    assert!(view.dialog.is_none());
    assert!(
        matches!(press(&mut view, &known, "rno⏎y"), Wish::Decide(Decision::Reject { reason, .. }) if reason == "no")
    );
}

#[test]
fn the_same_line_stays_chosen_when_others_come() {
    let (mut view, mut known) = start();
    press(&mut view, &known, "↓");
    assert_eq!(view.chosen_plan(&known).map(|plan| plan.name.as_str()), Some("gate"));
    known.plans.rotate_right(1);
    view.settle(&known);
    assert_eq!(view.chosen_plan(&known).map(|plan| plan.name.as_str()), Some("gate"));
    known.plans.truncate(1);
    view.settle(&known);
    assert_eq!(view.agenda.at, 0);
}

#[test]
fn the_log_follows_until_somebody_looks_back() {
    let (mut view, mut known) = start();
    press(&mut view, &known, "3");
    assert_eq!((view.log.at, view.follow), (2, true));
    press(&mut view, &known, "↑");
    let mut next = known.log[2].clone();
    next.seq = 4;
    known.log.push_back(next);
    view.settle(&known);
    assert_eq!((view.log.at, view.follow), (1, false));
    press(&mut view, &known, "f");
    assert_eq!((view.log.at, view.follow), (3, true));
    press(&mut view, &known, "/JUDGED⏎");
    assert_eq!(view.events(&known).len(), 1);
    press(&mut view, &known, "a");
    assert_eq!(view.events(&known).len(), 4);
    press(&mut view, &known, "⏎");
    assert!(
        matches!(view.screen(), Screen::Event(page) if page.iter().any(|said| said.text.contains("TASK_COMPLETED")))
    );
}

#[test]
fn a_plan_opens_at_the_step_that_waits() {
    let (mut view, known) = start();
    press(&mut view, &known, "⏎");
    view.settle(&known);
    assert_eq!(view.parts.at, 1);
    press(&mut view, &known, "↑");
    view.settle(&known);
    assert_eq!(view.parts.at, 0);
}

#[test]
fn back_leads_to_where_one_came_from() {
    let (mut view, known) = start();
    press(&mut view, &known, "⏎g?");
    assert_eq!(*view.screen(), Screen::Help);
    press(&mut view, &known, "␛");
    assert!(matches!(view.screen(), Screen::Gate(_)));
    press(&mut view, &known, "␛");
    assert!(matches!(view.screen(), Screen::Plan(_)));
    press(&mut view, &known, "␛␛␛");
    assert_eq!(*view.screen(), Screen::Agenda);
    assert_eq!(press(&mut view, &known, "q"), Wish::Quit);
}

#[test]
fn the_mouse_chooses_opens_and_scrolls() {
    let (mut view, known) = start();
    let rows = Rect { x: 0, y: 2, width: 80, height: 10 };
    view.areas = Areas {
        tabs: vec![Rect::new(9, 0, 10, 1), Rect::new(19, 0, 10, 1)],
        list: Some((rows, 0)),
        page: None,
    };
    assert_eq!(view.hear(Intent::Click { x: 3, y: 3 }, &known), Wish::Nothing);
    assert_eq!(view.agenda.at, 1);
    assert_eq!(view.hear(Intent::Click { x: 3, y: 9 }, &known), Wish::Nothing);
    assert_eq!(view.agenda.at, 1);
    assert_eq!(view.hear(Intent::Click { x: 3, y: 3 }, &known), Wish::Read);
    assert!(matches!(view.screen(), Screen::Plan(_)));
    view.areas.page = Some((Rect::new(40, 2, 40, 10), 30));
    view.hear(Intent::Wheel { x: 50, y: 5, by: 3 }, &known);
    assert_eq!(view.scroll, 3);
    view.hear(Intent::Page(9), &known);
    assert_eq!(view.scroll, 20);
    assert_eq!(view.hear(Intent::Click { x: 20, y: 0 }, &known), Wish::Read);
    assert_eq!(*view.screen(), Screen::Inbox);
}

#[test]
fn the_transcript_of_a_step_opens_from_the_plan_and_scrolls() {
    let (mut view, known) = start();
    press(&mut view, &known, "⏎");
    view.settle(&known);
    assert_eq!(press(&mut view, &known, "t"), Wish::Read);
    let auth = PlanId("auth-1a2b".to_owned());
    assert_eq!(*view.screen(), Screen::Transcript(auth.clone(), 2), "the step that waits is selected");
    assert_eq!(view.open_work(), Some((&auth, 2)));
    assert_eq!(press(&mut view, &known, "␛↓t"), Wish::Nothing, "a postcondition has no agent");
}

#[test]
fn the_changes_of_a_step_open_from_the_plan_and_from_the_inbox() {
    let (mut view, known) = start();
    press(&mut view, &known, "⏎");
    view.settle(&known);
    assert_eq!(press(&mut view, &known, "d"), Wish::Read);
    let auth = PlanId("auth-1a2b".to_owned());
    assert_eq!(*view.screen(), Screen::Changes(auth.clone(), 2), "the step that waits is selected");
    assert_eq!(press(&mut view, &known, "␛↓d"), Wish::Nothing, "a postcondition changes nothing");
    assert_eq!(*view.screen(), Screen::Plan(auth.clone()));
    assert_eq!(press(&mut view, &known, "2d"), Wish::Read);
    assert_eq!(*view.screen(), Screen::Changes(auth, 2));
    assert_eq!(press(&mut view, &known, "␛↓d"), Wish::Nothing, "an approval has no step");
}
