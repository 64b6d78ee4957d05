//! Sample data for tests.

use provost_core::model::chain::PlanId;
use provost_core::model::event::Choice;
use provost_core::model::plan::StepNumber;
use provost_core::model::timestamp::Timestamp;
use provost_core::rules::inbox::{DecisionKind, ItemId};
use provost_core::state::run::Stage;

use super::{Answer, Gate, Known, LogLine, Part, PlanRow, Said, Sheet, Tone, Waits};
use crate::watch::text;

const NOW: u64 = 1_800_000_000_000;

fn row(name: &str, stage: Stage, done: u32, waiting: usize) -> PlanRow {
    PlanRow {
        id: PlanId(format!("{name}-1a2b")),
        name: name.to_owned(),
        title: format!("What {name} is about, in so many words"),
        stage,
        done,
        total: 3,
        waiting,
        cost: String::new(),
        at_work: Vec::new(),
        moved: Timestamp(NOW - 90_000),
        trouble: None,
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

pub fn known() -> Known {
    let mut auth = row("auth", Stage::InProgress, 1, 1);
    auth.cost = "$0.12 of $1.50".to_owned();
    let mut docs = row("docs", Stage::InProgress, 0, 0);
    docs.at_work = vec![StepNumber(1)];
    let gate = row("gate", Stage::Verified, 0, 1);
    let escalation = Waits {
        id: ItemId { plan: auth.id.clone(), seq: 12 },
        plan: auth.id.clone(),
        kind: DecisionKind::Escalation,
        name: "auth".to_owned(),
        step: Some(StepNumber(2)),
        since: Timestamp(NOW - 60_000),
        reason: "the contract broke twice".to_owned(),
        answers: vec![
            Answer { choice: Choice::Retry, does: "try again, with fresh retries" },
            Answer { choice: Choice::Skip, does: "let the step go, in your name" },
        ],
        limits: None,
        page: vec![Said::strong("escalation"), Said::plain("what was tried")],
    };
    let approval = Waits {
        id: ItemId { plan: gate.id.clone(), seq: 2 },
        plan: gate.id.clone(),
        kind: DecisionKind::Approval,
        name: "gate".to_owned(),
        step: None,
        since: Timestamp(NOW - 5_000),
        reason: "the plan is not approved".to_owned(),
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
            row: auth.clone(),
            revision: "3f9a1c02be77".to_owned(),
            approved_by: Some("ada".to_owned()),
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
