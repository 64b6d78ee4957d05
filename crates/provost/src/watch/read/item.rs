//! Reads an item that waits for a person, with details for the decision.

use provost_core::model::event::Choice;
use provost_core::rules::inbox::InboxItem;
use provost_core::state::run::Run;
use provost_engine::observe::view::{self, InboxItemView};

use crate::watch::known::{Answer, Said, Tone, Waits};
use crate::watch::text;

const CHOICES: [Choice; 5] = [Choice::Retry, Choice::Skip, Choice::Abort, Choice::Revise, Choice::Confirm];

pub(super) fn waits(item: &InboxItem, run: &Run) -> Waits {
    let answer = |offer: &provost_core::rules::inbox::ChoiceOffer| {
        let choice = CHOICES.into_iter().find(|choice| choice.word() == offer.choice)?;
        Some(Answer { choice, does: offer.does })
    };
    let breach = item.step.and_then(|step| run.step(step)?.over_budget.as_ref()?.enough());
    let answers: Vec<Answer> = item.choices.iter().filter_map(answer).collect();
    let view = InboxItemView::from(item);
    Waits {
        page: page(&view, &answers),
        item: InboxItemView { name: text::line(&view.name), reason: text::line(&view.reason), ..view },
        answers,
        limits: breach.map(|enough| enough.to_string()),
    }
}

fn page(item: &InboxItemView, answers: &[Answer]) -> Vec<Said> {
    let mut page = vec![Said::strong(format!("{} · {}", item.kind.word(), item.title))];
    if let (Some(step), Some(title)) = (item.step, &item.step_title) {
        page.push(Said::plain(format!("step {step}. {title}")));
    }
    page.push(Said::new(Tone::Wait, &item.reason));
    page.push(Said::gap());
    if item.kind.is_at_gate() {
        page.push(Said::plain("Enter opens the gate, where you approve or reject the plan."));
    }
    for answer in answers {
        let words = format!("{}  {:<8} {}", answer.key(), answer.choice.word(), answer.does);
        page.push(Said::indented(Tone::Plain, words));
    }
    let context = &item.context;
    if !context.configure.is_empty() {
        let names: Vec<&str> = context.configure.iter().map(String::as_str).collect();
        page.extend([Said::gap(), Said::strong("Configure outside of the run")]);
        page.push(Said::indented(Tone::Plain, names.join(", ")));
    }
    if let Some(said) = &context.said {
        page.extend([
            Said::gap(),
            Said::strong("Last words of the agent"),
            Said::indented(Tone::Plain, said),
        ]);
    }
    if let Some(output) = &context.output {
        page.extend([Said::gap(), Said::strong("Last output"), Said::indented(Tone::Plain, output)]);
    }
    if !context.changed.is_empty() {
        page.extend([Said::gap(), Said::strong("Changed files")]);
        page.extend(context.changed.iter().map(|file| Said::indented(Tone::Plain, file)));
    }
    if let Some(diff) = &context.diff {
        page.extend([Said::gap(), Said::indented(Tone::Plain, diff)]);
    }
    if let Some(claim) = &context.claim {
        page.extend([Said::gap(), Said::strong("The agent claims"), Said::indented(Tone::Quiet, claim)]);
    }
    if !context.tried.is_empty() {
        page.extend([Said::gap(), Said::strong("Tried")]);
        page.extend(context.tried.iter().map(|tried| Said::indented(Tone::Plain, view::attempt(tried))));
    }
    page
}
