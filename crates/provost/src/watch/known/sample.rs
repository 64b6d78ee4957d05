//! Sample data for tests.

use std::path::PathBuf;

use provost_core::model::chain::PlanId;
use provost_core::model::event::{Choice, Revision};
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::model::usage::{Amount, Cost};
use provost_core::rules::inbox::{DecisionKind, InboxItem, ItemContext, ItemId};
use provost_core::state::run::{Run, Stage};
use provost_engine::observe::overview::PlanSnapshot;
use provost_engine::observe::view::{CostView, InboxItemView, KnownCostView, PlanCard, PlanState};
use provost_engine::plan::plan_registry::PlanLocation;

use super::{Answer, Gate, Known, LogLine, Part, Said, Sheet, Tone, Waits};
use crate::watch::text;

const NOW: u64 = 1_800_000_000_000;

fn card(name: &str, stage: Stage, done: u32, waiting: usize) -> PlanCard {
    let folder = PathBuf::from("/plans");
    let place =
        PlanLocation { name: name.to_owned(), path: folder.join(name), workspace: folder, repository: None };
    let seen = PlanSnapshot::of_run(PlanId(format!("{name}-1a2b")), place, Run::default(), waiting);
    PlanCard {
        title: format!("What {name} is about, as a sentence"),
        stage,
        state: match (stage, waiting) {
            (Stage::Verified, _) | (_, 1..) => PlanState::WaitingForYou,
            (Stage::InProgress, 0) => PlanState::Running,
            (Stage::Done, 0) => PlanState::Done,
            (Stage::Failed, 0) => PlanState::Failed,
            (Stage::Draft | Stage::Approved, 0) => PlanState::Idle,
        },
        done,
        total: 3,
        moved: Some(Timestamp(NOW - 90_000)),
        ..PlanCard::of(&seen)
    }
}

fn item(card: &PlanCard, seq: u64, kind: DecisionKind, reason: &str) -> InboxItem {
    InboxItem {
        id: ItemId { plan: card.id.clone(), seq },
        plan: card.id.clone(),
        name: card.name.clone(),
        title: card.title.clone(),
        kind,
        step: None,
        step_title: None,
        since: Timestamp(NOW - 5_000),
        asked: true,
        reason: reason.to_owned(),
        context: ItemContext::default(),
        choices: Vec::new(),
    }
}

fn part(number: &str, mark: &'static str, state: &'static str, tone: Tone) -> Part {
    let page = (1..=30).map(|line| Said::plain(format!("line {line} of part {number}"))).collect();
    let title = format!("Part {number}");
    Part {
        number: number.to_owned(),
        mark,
        title,
        state: state.to_owned(),
        tone,
        attempts: 1,
        since: None,
        page,
    }
}

pub(crate) fn known() -> Known {
    let mut auth = card("auth", Stage::InProgress, 1, 1);
    let spent = Cost { micro_usd: Some(120_000), ..Cost::default() };
    let limits = Amount { micro_usd: Some(1_500_000), ..Amount::default() };
    auth.cost = CostView::new(spent, limits, KnownCostView::default());
    auth.revision = Revision("3f9a1c02be77aaaa".to_owned());
    auth.approved_by = Some("ada".to_owned());
    let mut docs = card("docs", Stage::InProgress, 0, 0);
    docs.at_work = vec![1];
    let gate = card("gate", Stage::Verified, 0, 1);
    let escalated = item(&auth, 12, DecisionKind::Escalation, "the contract broke twice");
    let escalated = InboxItem { step: Some(StepNumber(2)), since: Timestamp(NOW - 60_000), ..escalated };
    let escalation = Waits {
        item: InboxItemView::from(&escalated),
        answers: vec![
            Answer { choice: Choice::Retry, does: "try again, with fresh retries" },
            Answer { choice: Choice::Skip, does: "let the step go, in your name" },
        ],
        limits: None,
        page: vec![Said::strong("escalation"), Said::plain("what was tried")],
    };
    let approval = Waits {
        item: InboxItemView::from(&item(&gate, 2, DecisionKind::Approval, "the plan is not approved")),
        answers: Vec::new(),
        limits: None,
        page: vec![Said::strong("approval")],
    };
    let line = |seq: u64, event: &str, words: &str, tone| LogLine {
        plan: auth.id.clone(),
        plan_name: "auth".to_owned(),
        seq,
        at: Timestamp(NOW + seq * 1000),
        event: event.to_owned(),
        words: text::line(words),
        tone,
        whole: format!("{{\"seq\":{seq},\"event\":\"{event}\"}}"),
    };
    Known {
        now: Timestamp(NOW),
        by: "ada".to_owned(),
        sheet: Some(Sheet {
            card: auth.clone(),
            parts: vec![
                part("1", "✅", "passed", Tone::Good),
                part("2", "⛔", "blocked", Tone::Wait),
                part("post 1", "·", "open", Tone::Plain),
            ],
        }),
        gate: Some(Gate {
            plan: gate.id.clone(),
            name: "gate".to_owned(),
            revision: "3f9a1c02be77aaaa".to_owned(),
            short: "3f9a1c02be77".to_owned(),
            is_looked_at: false,
            open: true,
            page: vec![Said::strong("gate"), Said::plain("An approval binds to revision 3f9a1c02be77aaaa")],
        }),
        work: None,
        log: [
            line(1, "TASK_STARTED", "▶ step 1: given to coder", Tone::Busy),
            line(2, "CONTRACT_JUDGED", "✗ step 1: checked: \u{1b}[2Jcontract \u{202e}broke", Tone::Bad),
            line(3, "TASK_COMPLETED", "✅ step 1: the contract held", Tone::Good),
        ]
        .into(),
        plans: vec![auth, gate, docs],
        waiting: vec![escalation, approval],
        trouble: None,
    }
}
