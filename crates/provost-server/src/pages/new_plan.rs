//! The page that makes a plan: from a template, or from a goal that the planner drafts.
//!
//! Both do what `provost new` does in the folder of the server. A draft waits at its gate.
//!
//! **Invariant:** a caller needs the same rights as for a decision, and nothing is approved.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use provost_core::language::template::{self, Template};
use provost_engine::manage::draft::{self, NamedTemplate};
use provost_engine::manage::start;
use provost_engine::plan::{commands, recording};
use serde::Deserialize;

use super::frame::{HtmlPage, Section, form_key, segment};
use super::text::{T, Ticks};
use super::times::instant;
use crate::principal::{Principal, Viewer};
use crate::problem::{Answer, Problem};
use crate::request::PageForm;
use crate::state::{AppState, DraftStatus, SharedState, ask};

/// Fields of a form that are parameters of a template begin with this.
const PARAMETER: &str = "set-";

pub(super) async fn show(State(app): State<SharedState>, Viewer(principal): Viewer) -> Answer<Response> {
    principal.must_see_folder(&app)?;
    ask(&app, move |app| {
        let known = draft::templates(&app.overview.settings().cwd);
        let body = body(&known, &app.drafts.all(), &principal).into();
        let live = Some(String::new());
        let page = HtmlPage { title: "New plan".to_owned(), room: Section::Elsewhere, live, body };
        Ok(page.shown(app, &principal, app.overview.cursor()?.0))
    })
    .await
}

/// Content of one of the forms.
#[derive(Deserialize)]
pub(super) struct NewPlan {
    name: String,
    /// The name of a template, if there is no goal.
    #[serde(default)]
    template: String,
    #[serde(default)]
    goal: String,
    /// Parameters of the template.
    #[serde(flatten)]
    others: BTreeMap<String, String>,
}

pub(super) async fn make(
    State(app): State<SharedState>,
    PageForm { by, said }: PageForm<NewPlan>,
) -> Answer<Response> {
    by.must_see_folder(&app)?;
    ask(&app, move |app| {
        let onward = match said.goal.trim().is_empty() {
            true => from_template(app, &by, &said)?,
            false => from_goal(app, &by, &said)?,
        };
        Ok(Redirect::to(&onward).into_response())
    })
    .await
}

/// Makes the plan and returns the address of its gate.
fn from_template(app: &AppState, by: &Principal, said: &NewPlan) -> Answer<String> {
    let harness = app.overview.upcoming(&said.name, by.who(app))?.named(by.name());
    commands::only_people(&harness)?;
    let template = find(app, &said.template)?;
    let given = said.others.iter().filter(|(_, value)| !value.is_empty());
    let values =
        given.filter_map(|(name, value)| Some((name.strip_prefix(PARAMETER)?.to_owned(), value.clone())));
    let text =
        template.fill(&said.name, &values.collect()).map_err(|problem| Problem::bad(problem.to_string()))?;
    let text = harness.redactor().text(&text).into_owned();
    let reading = recording::check_text(&harness, text.into_bytes())?;
    draft::found(&harness, &reading.text)?;
    draft::record_template(&harness, &said.template)?;
    // A plan with errors is in its file, and not in the log.
    match reading.errors() {
        true => Err(Problem::bad("the plan was made, and has errors")
            .hint(format!("Edit it, then run `provost verify {}`.", said.name))),
        false => Ok(format!("/plans/{}/gate", segment(&harness.id().0).0)),
    }
}

fn find(app: &AppState, wanted: &str) -> Answer<Template> {
    let known = draft::templates(&app.overview.settings().cwd);
    match known.into_iter().find(|each| each.name == wanted).map(|each| each.template) {
        Some(Ok(template)) => Ok(template),
        Some(Err(problem)) => Err(Problem::bad(format!("template `{wanted}` cannot be used: {problem}"))),
        None => Err(Problem::unknown(format!("there is no template `{wanted}`"))),
    }
}

/// Starts the planner and returns the address of the page that tells how far it is.
fn from_goal(app: &AppState, by: &Principal, said: &NewPlan) -> Answer<String> {
    let harness = app.overview.upcoming(&said.name, by.who(app))?.named(by.name());
    commands::only_people(&harness)?;
    let goal = harness.redactor().text(said.goal.trim()).into_owned();
    let drafts = app.drafts.clone();
    drafts.begin(&said.name, &goal);
    let name = said.name.clone();
    let started = start::draft(&harness, &said.name, &goal, move |result| drafts.end(&name, result));
    if let Err(error) = started {
        app.drafts.end(&said.name, Err(error.to_string()));
        return Err(error.into());
    }
    Ok("/new".to_owned())
}

fn body(known: &[NamedTemplate], drafts: &[DraftStatus], principal: &Principal) -> Markup {
    html! {
        h1 { "New plan" }
        p class="quiet" { "The plan is made in the folder that the server was started in. It waits at its gate for an approval." }
        (under_way(drafts))
        @if !principal.token.scope.may_decide() {
            p class="note" { "Your session can look, but not make plans. For a session that can: " code { "provost serve link" } "." }
        } @else {
            section class="sheet" {
                h2 { "From a goal" }
                p class="quiet" { "The planner of " code { "[plan]" } " in provost.toml drafts the steps and their checks. It takes a few minutes and costs tokens." }
                form method="post" action="/new" {
                    (form_key(principal))
                    (name_field("goal"))
                    label for="goal" { "Goal" }
                    textarea id="goal" class="prose" name="goal" required {}
                    div class="actions" { button class="first" { "Draft the plan" } }
                }
            }
            h2 { "From a template" }
            @for each in known { (template_form(each, principal)) }
        }
    }
}

fn name_field(of: &str) -> Markup {
    html! {
        label for={ "name-" (of) } { "Name of the plan (a-z, 0-9, ., _, -)" }
        input id={ "name-" (of) } name="name" required pattern="[a-z0-9._\\-]+" autocomplete="off";
    }
}

fn template_form(known: &NamedTemplate, principal: &Principal) -> Markup {
    html! {
        details class="sheet" id={ "template-" (known.name) } {
            summary { strong { (T(&known.name)) } @if let Ok(template) = &known.template { " " span class="quiet" { (Ticks(&template.about)) } } }
            @match &known.template {
                Err(problem) => p class="bad" { "It cannot be used: " (T(&problem.to_string())) }
                Ok(template) => form method="post" action="/new" {
                    (form_key(principal))
                    input type="hidden" name="template" value=(known.name);
                    (name_field(&known.name))
                    @for parameter in template.parameters.iter().filter(|each| each.name != template::NAME) {
                        @let id = format!("{}-{}", known.name, parameter.name);
                        label for=(id) { (T(&parameter.name)) @if !parameter.about.is_empty() { ": " (T(&parameter.about)) } }
                        input id=(id) name={ (PARAMETER) (parameter.name) } value=(parameter.default.as_deref().unwrap_or_default()) required[parameter.default.is_none()] autocomplete="off";
                    }
                    div class="actions" { button { "Make the plan" } }
                }
            }
        }
    }
}

/// Lists the drafts of this server: which are at work, and which made no plan.
fn under_way(drafts: &[DraftStatus]) -> Markup {
    html! {
        @for draft in drafts {
            @match &draft.result {
                None => p class="note run" { "The planner drafts " strong { (T(&draft.name)) } ": " (T(&draft.goal)) " · " (instant(draft.begun)) }
                Some(Ok(())) => p class="note good" { strong { (T(&draft.name)) } " is drafted. " a href="/" { "It waits on the agenda" } }
                Some(Err(why)) => div class="note bad" { p { strong { (T(&draft.name)) } ": the planner made no plan." } pre class="output" { (T(why)) } }
            }
        }
    }
}
