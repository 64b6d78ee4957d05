//! Dialogs before a decision: first for text, then for confirmation.

use provost_core::model::chain::PlanId;
use provost_core::model::event::{Choice, Revision};

use crate::watch::decide::Decision;
use crate::watch::known::{Answer, Gate, Waits};
use crate::watch::text;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dialog {
    /// Asks for a line of text.
    Words { asks: String, text: String, then: Then },
    /// Asks for the final confirmation.
    Sure { question: String, decision: Decision },
}

/// Purpose of the entered text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Filter,
    Reject {
        plan: PlanId,
        name: String,
    },
    Ask {
        plan: PlanId,
        name: String,
    },
    /// Limits of a budget are asked before the note.
    Limits(Answering),
    Note(Answering),
}

/// An answer in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answering {
    item: provost_core::rules::inbox::ItemId,
    /// Descriptions of the item and of the choice's effect.
    about: String,
    does: &'static str,
    choice: Choice,
    limits: String,
}

pub(crate) enum Followed {
    Filter(String),
    Dialog(Dialog),
    /// Nothing follows, for this reason.
    Not(&'static str),
}

impl Dialog {
    pub(crate) fn filter(now: &str) -> Self {
        let asks = "Show only events with this text (empty: all)".to_owned();
        Self::Words { asks, text: now.to_owned(), then: Then::Filter }
    }

    /// Asks to approve the revision on the screen.
    pub(crate) fn approve(gate: &Gate, by: &str) -> Self {
        let question = format!(
            "Approve {} at revision {} as {}? The plan can then run.",
            gate.name,
            gate.short,
            text::line(by)
        );
        let revision = Revision(gate.revision.clone());
        Self::Sure { question, decision: Decision::Approve { plan: gate.plan.clone(), revision } }
    }

    pub(crate) fn reject(gate: &Gate) -> Self {
        let then = Then::Reject { plan: gate.plan.clone(), name: gate.name.clone() };
        Self::Words { asks: format!("Why do you reject {}?", gate.name), text: String::new(), then }
    }

    pub(crate) fn ask(gate: &Gate) -> Self {
        let then = Then::Ask { plan: gate.plan.clone(), name: gate.name.clone() };
        Self::Words {
            asks: format!("What do you want to know about {}?", gate.name),
            text: String::new(),
            then,
        }
    }

    pub(crate) fn answer(waits: &Waits, answer: Answer) -> Self {
        let item = &waits.item;
        let step = item.step.map(|step| format!(", step {step}")).unwrap_or_default();
        let answering = Answering {
            item: item.id.clone(),
            about: format!("{}{step}", item.name),
            does: answer.does,
            choice: answer.choice,
            limits: String::new(),
        };
        match &waits.limits {
            Some(limits) if answer.choice == Choice::Retry => Self::Words {
                asks: "New limits (empty: continue with what is left)".to_owned(),
                text: limits.clone(),
                then: Then::Limits(answering),
            },
            _ => Self::note(answering),
        }
    }

    fn note(answering: Answering) -> Self {
        let asks = format!("Reason for {} (optional)", answering.choice.word());
        Self::Words { asks, text: String::new(), then: Then::Note(answering) }
    }
}

impl Then {
    pub(crate) fn follow(self, words: &str, by: &str) -> Followed {
        let by = text::line(by);
        match self {
            Then::Filter => Followed::Filter(words.to_owned()),
            Then::Reject { .. } | Then::Ask { .. } if words.is_empty() => {
                Followed::Not("no text, so nothing was decided")
            }
            Then::Reject { plan, name } => Followed::Dialog(Dialog::Sure {
                question: format!("Send {name} back to draft, as {by}, because “{}”?", text::line(words)),
                decision: Decision::Reject { plan, reason: words.to_owned() },
            }),
            Then::Ask { plan, name } => Followed::Dialog(Dialog::Sure {
                question: format!(
                    "Hold {name} at the gate, as {by}, with the question “{}”?",
                    text::line(words)
                ),
                decision: Decision::Ask { plan, question: words.to_owned() },
            }),
            Then::Limits(answering) => {
                Followed::Dialog(Dialog::note(Answering { limits: words.to_owned(), ..answering }))
            }
            Then::Note(answering) => {
                let Answering { item, about, does, choice, limits } = answering;
                let under =
                    if limits.is_empty() { String::new() } else { format!(" ({})", text::line(&limits)) };
                Followed::Dialog(Dialog::Sure {
                    question: format!("Answer {} to {about}, as {by}: {does}{under}?", choice.word()),
                    decision: Decision::Answer { item, choice, note: words.to_owned(), limits },
                })
            }
        }
    }
}
