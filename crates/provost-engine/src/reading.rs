//! The plan file as it stands: parsed, bound to its surroundings and, if asked for, verified.
//!
//! Everything a person is shown at the gate comes from one of these, so that what is approved is what
//! was read.

use provost_core::diagnostic::{Diagnostic, Severity};
use provost_core::event::{NamedFile, Revision};
use provost_core::facts;
use provost_core::law::{self, Law};
use provost_core::parse;
use provost_core::plan::{Check, Plan};
use provost_core::run::Run;
use provost_core::{shell, verify};
use provost_host::{files, git, survey};

use crate::site::Site;

#[derive(Clone, Debug)]
pub struct Reading {
    pub text: String,
    pub plan: Plan,
    pub revision: Revision,
    pub base: Option<String>,
    pub files: Vec<NamedFile>,
    pub diagnostics: Vec<Diagnostic>,
}

impl Reading {
    pub fn errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    pub fn warnings(&self) -> u32 {
        let warning = |diagnostic: &&Diagnostic| diagnostic.severity == Severity::Warning;
        self.diagnostics.iter().filter(warning).count() as u32
    }

    /// Parses a text and binds it to the base commit and the files its contracts name.
    pub fn of(site: &Site, bytes: &[u8]) -> Self {
        let (text, unreadable) = parse::bytes(bytes);
        let text = text.into_owned();
        // What is no text is shown, not read.
        let parsed = match unreadable {
            Some(diagnostic) => parse::Parsed { plan: Plan::default(), diagnostics: vec![diagnostic] },
            None => parse::plan(&text),
        };
        let law = law::digest(&text, &parsed.plan);
        let base = git::head(&site.place.workspace);
        let files = files::digests(&site.place.workspace, &named_files(&parsed.plan));
        Self {
            revision: law::revision(law, base.as_deref(), &files),
            text,
            plan: parsed.plan,
            base,
            files,
            diagnostics: parsed.diagnostics,
        }
    }

    /// With what the static checks say.
    pub fn verified(mut self, site: &Site) -> Self {
        let place = survey::Place {
            workspace: site.place.workspace.clone(),
            plan_dir: site.place.dir.clone(),
            slug: site.place.slug.clone(),
            targets: site.config.agents.keys().cloned().collect(),
            git: self.base.is_some() || site.place.workspace.join(".git").exists(),
        };
        let facts = survey::answer(&facts::questions(&self.plan), &place);
        self.diagnostics.extend(verify::plan(&self.text, &self.plan, &facts));
        self.diagnostics.extend(site.redactor.diagnose(&self.text));
        self.diagnostics.sort_by_key(|diagnostic| (diagnostic.span, diagnostic.code));
        self
    }

    pub fn law(&self) -> Law<'_> {
        Law { text: &self.text, plan: &self.plan, base: self.base.as_deref(), files: &self.files }
    }
}

/// The revision the law in the log would have now, with the base and the files as they are.
pub fn surroundings(site: &Site, run: &Run) -> Revision {
    let base = git::head(&site.place.workspace);
    let files = files::digests(&site.place.workspace, &named_files(&run.plan));
    run.law.map(|law| law::revision(law, base.as_deref(), &files)).unwrap_or_default()
}

/// Every file a contract of the plan names, each once.
fn named_files(plan: &Plan) -> Vec<String> {
    let of_steps = plan.steps.iter().flat_map(|step| [&step.precondition, &step.contract]);
    let of_plan = plan.postconditions.iter().map(|post| &post.contract);
    let mut names: Vec<String> = of_steps
        .chain(of_plan)
        .flatten()
        .filter_map(|contract| match &contract.check {
            Check::Shell(shell) => Some(shell::named_files(&shell.command)),
            Check::Human | Check::Judge { .. } => None,
        })
        .flatten()
        .collect();
    names.sort();
    names.dedup();
    names
}
