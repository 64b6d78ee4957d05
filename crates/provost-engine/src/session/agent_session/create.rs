//! Creates the plan of a session: a normal plan file, verified, and passed through the gate.
//!
//! **Invariant:** a rewrite is compared with the text that was approved last, not with what the agent
//! proposed since.

use crate::exec::base_look;
use crate::plan::{commands, queries, recording, uncommitted};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use provost_core::language::diagnostic::{Diagnostic, Severity};
use provost_core::language::parse;
use provost_core::language::plan_writer::{self, PlanDraft};
use provost_core::model::check_author::CheckAuthor;
use provost_core::model::event::{Approver, Event, SELF_CHECKED_POLICY, SESSION_POLICY};
use provost_core::model::hash::Hash;
use provost_core::model::plan::Plan;
use provost_core::rules::policy::session;
use provost_core::state::run::{Run, Stage};
use provost_core::text::render::base::BaseLook;
use provost_host::config::SessionGate;
use provost_store::Query;

use super::{AgentSessions, Answer, SessionRefusal};
use crate::Error;
use crate::plan::harness::Harness;
use crate::plan::plan_registry::{self, Here};
use crate::plan::reading::BoundPlan;
use crate::plan::sessions::ClientSession;
use crate::settings::Access;

/// Maximum number that is appended to plans of the same name.
const SAME_NAME: u32 = 1000;

/// Result of creating a plan.
pub struct CreateResult {
    pub run: Run,
    pub name: String,
    pub path: PathBuf,
    pub gate: SessionDecision,
    /// Warnings of the static checks, one line each.
    pub warnings: Vec<String>,
    /// Verdicts before the work, if the checks could be run in a short time.
    pub on_base: Option<BaseLook>,
}

pub enum SessionDecision {
    Open(Approver),
    /// A person must read it, for this reason.
    Waits(String),
}

impl AgentSessions {
    /// Creates or rewrites the session's plan.
    pub fn create(&self, session: &ClientSession, draft: &PlanDraft) -> Answer<CreateResult> {
        if self.attempt.is_some() {
            return Err(SessionRefusal::InsideAttempt);
        }
        let text = plan_writer::text(draft)?;
        let harness = match self.own(session)? {
            Some(harness) => rewritten(harness, &text)?,
            None => self.first(&text, &draft.objective)?,
        };
        let place = harness.place().clone();
        self.sessions.bind(session, &place.path)?;
        if !harness.run()?.started() {
            // The session starts with the workspace as it is.
            uncommitted::include_uncommitted(&harness);
        }
        let reading = recording::check(&harness)?;
        without_errors(&reading)?;
        recording::record_text_of(&harness, &reading, CheckAuthor::Agent, &[])?;
        let (run, reading) = recording::bring_up(&harness)?;
        let warnings = reading.map(|reading| lines(&reading, Severity::Warning)).unwrap_or_default();
        let on_base = base_look::look_at_base_briefly(&harness, &run);
        let (run, gate) = self.at_the_gate(&harness, run, on_base.as_ref())?;
        Ok(CreateResult { run, name: place.name, path: place.path, gate, warnings, on_base })
    }

    /// Returns the plan that this session made, if it is not done yet.
    fn own(&self, session: &ClientSession) -> Answer<Option<Harness>> {
        let path = match self.path(session) {
            Ok(path) => path,
            Err(SessionRefusal::NoPlan) => return Ok(None),
            Err(refused) => return Err(refused),
        };
        if !path.is_file() {
            return Ok(None);
        }
        let harness = self.at(&path, Access::Write)?;
        let run = harness.run()?;
        let is_its_own = run.plan.owner.as_ref().is_some_and(|owner| owner.value == plan_writer::ROLE);
        match run.stage {
            Stage::Done => Ok(None),
            _ if run.exists() && !is_its_own => {
                Err(SessionRefusal::NotYours { name: harness.place().name.clone() })
            }
            _ => Ok(Some(harness)),
        }
    }

    /// Writes a new plan file and removes it again if the plan has errors.
    fn first(&self, text: &str, objective: &str) -> Answer<Harness> {
        let workspace = Here::of(&self.settings.cwd).workspace().to_owned();
        let path =
            put(&workspace.join(plan_registry::folder(&workspace)?), &plan_writer::slug(objective), text)?;
        let checked = self.at(&path, Access::Write).and_then(|harness| {
            let reading = recording::check(&harness)?;
            without_errors(&reading).map(|()| harness)
        });
        if checked.is_err() {
            let _ = fs::remove_file(&path);
        }
        checked
    }

    fn at_the_gate(
        &self,
        harness: &Harness,
        run: Run,
        on_base: Option<&BaseLook>,
    ) -> Answer<(Run, SessionDecision)> {
        if let Some(by) = run.approved_by.clone() {
            return Ok((run, SessionDecision::Open(by)));
        }
        let (run, hearing) = commands::ask_policies(harness, &run)?;
        if let Some(by) = hearing.approver {
            return Ok((run, SessionDecision::Open(by)));
        }
        let why = match (self.gate, past(harness)?) {
            (SessionGate::Person, _) => {
                "the configuration requires a person ([mcp] gate = \"person\")".to_owned()
            }
            _ if !run.quorum().lets_policies() => "the configuration requires people ([gate])".to_owned(),
            (_, Past { withheld: true, .. }) => {
                "a person has asked about it or rejected it before".to_owned()
            }
            (gate, past) => {
                let trusted = commands::trusted_checks(harness, &run.plan)?;
                match covers(gate, past.approved.as_ref(), &run.plan, &trusted, on_base) {
                    Ok(()) => {
                        let by = rule(gate, trusted);
                        let run = commands::approve_by_rule(harness, &run, by.clone())?;
                        return Ok((run, SessionDecision::Open(by)));
                    }
                    Err(why) => format!("{why}{}", other_checks(harness)),
                }
            }
        };
        Ok((commands::request_approval(harness)?, SessionDecision::Waits(why)))
    }
}

/// Returns the checks of the configuration, as an agent can name them.
fn other_checks(harness: &Harness) -> String {
    let names: Vec<String> = harness.config().checks.keys().map(|name| format!("check:{name}")).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(". A check of provost.toml can be named instead: {}", names.join(", ")),
    }
}

/// Returns whether the built-in rule approves the plan; `Err` says why a person has to.
fn covers(
    gate: SessionGate,
    before: Option<&Plan>,
    plan: &Plan,
    trusted: &[String],
    on_base: Option<&BaseLook>,
) -> Result<(), String> {
    session::covers(before, plan)?;
    let holds = |step| on_base.and_then(|look| look.steps.get(&step)).is_some_and(|verdict| verdict.held());
    match gate {
        SessionGate::Auto => session::uses_trusted_checks(plan, trusted, holds),
        SessionGate::SelfChecked | SessionGate::Person => Ok(()),
    }
}

/// Returns the built-in rule as an approver. Its text is part of this program, so the digest is that of its
/// name.
fn rule(gate: SessionGate, trusted: Vec<String>) -> Approver {
    let name = match gate {
        SessionGate::SelfChecked => SELF_CHECKED_POLICY,
        SessionGate::Auto | SessionGate::Person => SESSION_POLICY,
    };
    let digest = Hash::of(name.as_bytes()).to_string();
    Approver::Policy { name: name.to_owned(), digest, unread: true, trusted }
}

fn rewritten(harness: Harness, text: &str) -> Answer<Harness> {
    without_errors(&recording::check_text(&harness, text.as_bytes().to_vec())?)?;
    recording::rewrite(&harness, &recording::read(&harness)?, text)?;
    Ok(harness)
}

fn without_errors(reading: &BoundPlan) -> Answer<()> {
    match reading.errors() {
        true => Err(SessionRefusal::Diagnosed { lines: lines(reading, Severity::Error) }),
        false => Ok(()),
    }
}

fn lines(reading: &BoundPlan, severity: Severity) -> Vec<String> {
    let of_it = |diagnostic: &&Diagnostic| diagnostic.severity == severity;
    let line = |diagnostic: &Diagnostic| {
        let step = reading.plan.steps.iter().find(|step| {
            step.section.start <= diagnostic.span.start && diagnostic.span.start < step.section.end
        });
        let place = step.map(|step| format!("step {}: ", step.number)).unwrap_or_default();
        let hint = diagnostic.hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{place}{}{hint}", diagnostic.message)
    };
    reading.diagnostics.iter().filter(of_it).map(line).collect()
}

/// Creates a new file with that name, numbered if it exists.
fn put(folder: &Path, slug: &str, text: &str) -> Answer<PathBuf> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| SessionRefusal::from(Error::Io { what: "write", path, source })
    };
    fs::create_dir_all(folder).map_err(io(folder))?;
    let mut number = 1;
    loop {
        let name = if number == 1 { slug.to_owned() } else { format!("{slug}-{number}") };
        let path = folder.join(format!("PLAN-{name}.md"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).map_err(io(&path))?;
                return Ok(path);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < SAME_NAME => {
                number += 1;
            }
            Err(error) => return Err(io(&path)(error)),
        }
    }
}

/// Earlier decisions about the plan.
#[derive(Default)]
struct Past {
    /// The text that was approved last.
    approved: Option<Plan>,
    /// A person has rejected it or asked a question since.
    withheld: bool,
}

fn past(harness: &Harness) -> Answer<Past> {
    let mut past = Past::default();
    let (mut recorded, mut approved) = (String::new(), None);
    queries::each(harness, &Query::plan(harness.id()), &mut |sealed| {
        match sealed.event() {
            Ok(Event::PlanCreated { text, .. } | Event::PlanRewritten { text, .. }) => recorded = text,
            Ok(Event::Approved { missing: 0, .. }) => {
                approved = Some(recorded.clone());
                past.withheld = false;
            }
            Ok(Event::Rejected { .. } | Event::QuestionAsked { .. }) => past.withheld = true,
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    past.approved = approved.map(|text| parse::plan(&text).plan);
    Ok(past)
}
