//! The page that compares two runs: what each step used, how it ended, and how the plans differ.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use provost_engine::observe::overview::PlanSnapshot;
use serde::Deserialize;

use super::difference;
use super::frame::{HtmlPage, Section, segment};
use super::status::word;
use super::text::T;
use crate::api::lives_of;
use crate::layout::diff::Difference;
use crate::layout::timeline::lasted;
use crate::principal::Viewer;
use crate::problem::{Answer, Problem};
use crate::request::UrlQuery;
use crate::state::{AppState, SharedState, ask};
use provost_engine::observe::view::{PlanView, StepView};

#[derive(Deserialize)]
pub(super) struct CompareForm {
    #[serde(default)]
    one: String,
    #[serde(default)]
    other: String,
}

pub(super) async fn show(
    State(app): State<SharedState>,
    Viewer(principal): Viewer,
    UrlQuery(form): UrlQuery<CompareForm>,
) -> Answer<Response> {
    ask(&app, move |app| {
        let after = app.overview.cursor()?.0;
        let plans = app.overview.plans()?;
        let form = form.told_apart();
        let sides = match form.one.is_empty() || form.other.is_empty() {
            true => None,
            false => Some([Side::of(app, &form.one)?, Side::of(app, &form.other)?]),
        };
        let body = html! {
            h1 { "Compare runs" }
            form class="row" method="get" action="/compare" {
                (choice("one", "One", &plans, &form.one))
                (choice("other", "Other", &plans, &form.other))
                button { "Compare" }
            }
            @match &sides {
                None => p class="quiet" { "Choose two plans, or the same twice to compare its revisions." }
                Some(sides) => {
                    (revisions("One", &sides[0], |life| (life.to_owned(), form.other.clone())))
                    (revisions("Other", &sides[1], |life| (form.one.clone(), life.to_owned())))
                    (compared(sides[0].life()?, sides[1].life()?))
                }
            }
        };
        let page = HtmlPage {
            title: "Compare".to_owned(),
            room: Section::Compare,
            live: Some(String::new()),
            body: body.into(),
        };
        Ok(page.shown(app, &principal, after))
    })
    .await
}

impl CompareForm {
    /// If both sides are the same plan, compares it with its previous revision.
    fn told_apart(mut self) -> Self {
        if self.one == self.other && !self.one.is_empty() && !self.one.contains('@') {
            self.one.push_str("@before");
        }
        self
    }
}

/// A plan with its history by revision, and the selected one: `PLAN`, `PLAN@REVISION` or `PLAN@before`.
struct Side {
    lives: Vec<PlanView>,
    chosen: usize,
}

impl Side {
    fn of(app: &AppState, asked: &str) -> Answer<Self> {
        let (id, revision) = asked.rsplit_once('@').unwrap_or((asked, ""));
        let lives = lives_of(&app.overview, id)?.items;
        let last = lives.len().saturating_sub(1);
        let chosen = match revision {
            "" => last,
            "before" => last.saturating_sub(1),
            start => {
                let named = |plan: &PlanView| plan.card.revision.0.starts_with(start);
                let none = || Problem::unknown(format!("no attempt was made under a revision {start}"));
                lives.iter().rposition(named).ok_or_else(none)?
            }
        };
        Ok(Self { lives, chosen })
    }

    fn life(&self) -> Answer<&PlanView> {
        self.lives.get(self.chosen).ok_or_else(|| Problem::unknown("there is no such plan"))
    }
}

/// Renders the revisions of a plan, each as a link that selects it.
fn revisions(name: &str, side: &Side, instead: impl Fn(&str) -> (String, String)) -> Markup {
    html! {
        @if side.lives.len() > 1 {
            nav class="rooms" aria-label={ "Revisions of " (name) } {
                span class="quiet" { (name) ", by revision: " }
                @for (at, life) in side.lives.iter().enumerate() {
                    @let revision = life.card.revision.short();
                    @let (one, other) = instead(&format!("{}@{revision}", life.card.id));
                    a href={ "/compare?one=" (segment(&one)) "&other=" (segment(&other)) } aria-current=[(at == side.chosen).then_some("true")] {
                        (T(revision)) " (" (life.card.stage.word()) ", " (life.card.progress()) ")"
                    }
                }
            }
        }
    }
}

fn choice(name: &str, words: &str, plans: &[PlanSnapshot], chosen: &str) -> Markup {
    html! {
        div {
            label for=(name) { (words) }
            select id=(name) name=(name) {
                option value="" { "–" }
                @for seen in plans {
                    option value=(seen.id.0) selected[chosen.split('@').next() == Some(seen.id.0.as_str())] { (T(&seen.run.plan.title)) " (" (T(&seen.id.0)) ")" }
                }
            }
        }
    }
}

/// Attempts, time and tokens of one step or of all.
#[derive(Default)]
struct Took {
    attempts: usize,
    agent_ms: u64,
    check_ms: u64,
    /// `None` if one attempt was not counted.
    tokens: Option<u64>,
}

impl Took {
    fn of<'a>(steps: impl Iterator<Item = &'a StepView>) -> Self {
        let mut took = Self { tokens: Some(0), ..Self::default() };
        for attempt in steps.flat_map(|step| &step.attempts) {
            took.attempts += 1;
            took.agent_ms += attempt.duration_ms.unwrap_or(0);
            took.check_ms += attempt.verdicts.iter().map(|verdict| verdict.duration_ms).sum::<u64>();
            took.tokens = took.tokens.zip(attempt.tokens).map(|(all, own)| all + own);
        }
        took
    }

    fn words(&self) -> String {
        if self.attempts == 0 {
            return "not tried".to_owned();
        }
        let attempts = if self.attempts == 1 { "attempt" } else { "attempts" };
        let tokens = self.tokens.map_or("tokens unknown".to_owned(), |tokens| format!("{tokens} tokens"));
        let (agent, checks) = (lasted(self.agent_ms), lasted(self.check_ms));
        format!("{} {attempts} · agents {agent} · checks {checks} · {tokens}", self.attempts)
    }
}

fn compared(one: &PlanView, other: &PlanView) -> Markup {
    let both = [one, other];
    let most = both.iter().flat_map(|plan| plan.steps.iter().map(|step| step.number)).max().unwrap_or(0);
    let lines = Difference::of(&one.text, &other.text);
    html! {
        div class="scroll" {
            table {
                thead {
                    tr { td {} @for plan in both { th scope="col" { a href={ "/plans/" (segment(&plan.card.id.0)) } { (T(&plan.card.title)) } } } }
                }
                tbody {
                    tr { th scope="row" { "Stage" } @for plan in both { td { (word(plan.card.stage.word())) " " (plan.card.progress()) } } }
                    tr { th scope="row" { "Took" } @for plan in both { td { (Took::of(plan.steps.iter()).words()) } } }
                    tr { th scope="row" { "Cost" } @for plan in both { td { (T(&plan.card.cost.words())) } } }
                    tr { th scope="row" { "Revision" } @for plan in both { td { code { (T(plan.card.revision.short())) } } } }
                    @for number in 1..=most {
                        tr { th scope="row" { "Step " (number) } @for plan in both { td { (step(plan, number)) } } }
                    }
                }
            }
        }
        h2 { "Differences of the texts" }
        @if lines.is_empty() { p { "The texts are equal." } } @else { (difference::texts(&lines)) }
    }
}

fn step(plan: &PlanView, number: u32) -> Markup {
    let found = plan.steps.iter().find(|step| step.number == number);
    html! {
        @if let Some(step) = found {
            a href={ "/plans/" (segment(&plan.card.id.0)) "/steps/" (number) } { (T(&step.title)) } " " (word(step.state))
            div class="quiet" {
                (Took::of(std::iter::once(step)).words())
                @if let Some(seen) = &step.verdict { " · " (T(&seen.words)) " at " (T(&seen.isolation)) }
            }
        } @else { span class="quiet" { "no such step" } }
    }
}
