//! The data of the view: the read model of the engine and paragraphs made from it; only this is drawn.
//!
//! **Invariant:** every text of it that is drawn has passed through [`text::visible`] or [`text::line`].

use std::collections::VecDeque;

use provost_core::model::chain::PlanId;
use provost_core::model::event::{Choice, Revision};
use provost_core::model::timestamp::Timestamp;
use provost_engine::observe::view::{InboxItemView, PlanCard, PlanState};

use super::text;

/// Everything the screen can show at the moment.
#[derive(Default)]
pub(super) struct Known {
    pub now: Timestamp,
    /// Name under which decisions are recorded.
    pub by: String,
    pub plans: Vec<PlanCard>,
    pub waiting: Vec<Waits>,
    /// The open plan, if any.
    pub sheet: Option<Sheet>,
    /// The open gate, if any.
    pub gate: Option<Gate>,
    /// Changes or transcript of the step of the open screen, if they were read.
    pub work: Option<Vec<Said>>,
    /// Oldest first.
    pub log: VecDeque<LogLine>,
    /// Why nothing newer is shown.
    pub trouble: Option<String>,
}

impl Known {
    /// Returns whether an agent works; the clock is then updated often.
    pub(super) fn is_busy(&self) -> bool {
        self.plans.iter().any(PlanCard::is_at_work)
    }
}

/// Meaning of a text, for colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Strong,
    Good,
    Bad,
    Wait,
    Busy,
}

/// A paragraph of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub tone: Tone,
    pub text: String,
}

impl Said {
    pub(super) fn new(tone: Tone, text: impl AsRef<str>) -> Self {
        Self { tone, text: text::visible(text.as_ref()) }
    }

    pub(super) fn plain(text: impl AsRef<str>) -> Self {
        Self::new(Tone::Plain, text)
    }

    pub(super) fn quiet(text: impl AsRef<str>) -> Self {
        Self::new(Tone::Quiet, text)
    }

    pub(super) fn strong(text: impl AsRef<str>) -> Self {
        Self::new(Tone::Strong, text)
    }

    pub(super) fn gap() -> Self {
        Self { tone: Tone::Plain, text: "\n".to_owned() }
    }

    /// Returns a paragraph with indented lines.
    pub(super) fn indented(tone: Tone, text: impl AsRef<str>) -> Self {
        let lines = text::visible(text.as_ref().trim_end());
        Self { tone, text: lines.lines().map(|line| format!("  {line}\n")).collect() }
    }
}

/// Returns the colour of a plan.
pub(super) fn tone(card: &PlanCard) -> Tone {
    match card.state {
        _ if card.trouble.is_some() => Tone::Bad,
        PlanState::WaitingForYou => Tone::Wait,
        PlanState::Running => Tone::Busy,
        PlanState::Done => Tone::Good,
        PlanState::Failed => Tone::Bad,
        PlanState::Draft | PlanState::Idle => Tone::Plain,
    }
}

/// Returns the card with texts that may be drawn.
pub(super) fn drawable(card: PlanCard) -> PlanCard {
    PlanCard {
        name: text::line(&card.name),
        title: text::line(&card.title),
        revision: Revision(text::line(&card.revision.0)),
        approved_by: card.approved_by.map(|by| text::line(&by)),
        trouble: card.trouble.map(|trouble| text::line(&trouble)),
        ..card
    }
}

/// The details of one plan.
#[derive(Clone)]
pub(super) struct Sheet {
    pub card: PlanCard,
    /// The steps, then the postconditions.
    pub parts: Vec<Part>,
}

/// A step or a postcondition.
#[derive(Clone)]
pub(super) struct Part {
    /// `2`, or `post 1`.
    pub number: String,
    pub mark: &'static str,
    pub title: String,
    pub state: String,
    pub tone: Tone,
    pub attempts: u32,
    /// Start of the running attempt.
    pub since: Option<Timestamp>,
    pub page: Vec<Said>,
}

/// An item that waits for a person.
#[derive(Clone)]
pub(super) struct Waits {
    pub item: InboxItemView,
    pub answers: Vec<Answer>,
    /// Limits that would be enough, if a budget ran out.
    pub limits: Option<String>,
    pub page: Vec<Said>,
}

/// One of the possible answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub choice: Choice,
    pub does: &'static str,
}

impl Answer {
    /// Returns the key of this answer.
    pub(super) fn key(self) -> char {
        match self.choice {
            Choice::Retry => 'r',
            Choice::Skip => 's',
            Choice::Abort => 'x',
            Choice::Revise => 'v',
            Choice::Confirm => 'c',
        }
    }
}

/// Data of the gate: what an approval would cover.
#[derive(Clone)]
pub(super) struct Gate {
    pub plan: PlanId,
    pub name: String,
    /// The full revision, which the approval is bound to.
    pub revision: String,
    pub short: String,
    /// It can be approved as it is.
    pub open: bool,
    /// Its checks are being run on the base; their results follow.
    pub is_looked_at: bool,
    pub page: Vec<Said>,
}

/// One event.
#[derive(Clone)]
pub(super) struct LogLine {
    pub plan: PlanId,
    pub plan_name: String,
    pub seq: u64,
    pub at: Timestamp,
    /// Its wire name.
    pub event: String,
    pub words: String,
    pub tone: Tone,
    /// The whole event, for the detail screen.
    pub whole: String,
}

impl LogLine {
    /// Returns whether it contains the filter text, in any case.
    pub(super) fn matches(&self, filter: &str) -> bool {
        let filter = filter.to_lowercase();
        [&self.plan_name, &self.event, &self.words].iter().any(|text| text.to_lowercase().contains(&filter))
    }
}

#[cfg(test)]
pub(super) mod sample;
