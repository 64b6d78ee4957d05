//! What the first run found and did: lines for people as it goes on, or one document for programs at its end.

use std::path::{Path, PathBuf};

use provost_core::language::shell_word::quoted;
use provost_core::model::verdict::Verdict;
use provost_engine::exec::check_trial::TriedCheck;
use provost_engine::project::{Language, Project};
use serde_json::{Value, json};

use super::result_words;
use super::roles::Roles;
use crate::failure::Failure;
use crate::here::{self, NextCommand};
use crate::open_plan::Global;
use crate::outcome::Outcome;
use crate::plan_document::ShownPlan;
use crate::terminal;

/// Most folders of other projects that are named.
const SHOWN: usize = 5;

pub(super) struct StartReport<'g> {
    global: &'g Global,
    workspace: PathBuf,
    document: Value,
    written: Vec<String>,
    plan: Option<ShownPlan>,
}

impl<'g> StartReport<'g> {
    pub(super) fn new(global: &'g Global, workspace: &Path) -> Self {
        let document = json!({ "workspace": workspace, "agents": [], "checks": [] });
        Self { global, workspace: workspace.to_owned(), document, written: Vec::new(), plan: None }
    }

    /// Writes a line for people.
    pub(super) fn say(&self, text: &str) {
        if !self.global.json {
            terminal::talk(text);
        }
    }

    /// Writes a line that only a person who waits needs.
    pub(super) fn progress(&self, text: &str) {
        if terminal::is_interactive() {
            self.say(text);
        }
    }

    /// Writes a text that is the result of the command.
    pub(super) fn show(&self, text: &str) {
        if !self.global.json {
            let _ = terminal::print(text);
        }
    }

    pub(super) fn project(&mut self, project: &Project) {
        let language = project.language.map_or("unknown language", Language::title);
        let mut parts = vec![match project.manager {
            Some(manager) => format!("{language} ({manager})"),
            None => language.to_owned(),
        }];
        parts.extend((!project.has_tests && project.language.is_some()).then(|| "no tests yet".to_owned()));
        parts.extend(project.ci.first().map(|ci| format!("CI in {ci}")));
        let others: Vec<&str> = project.others.iter().map(|other| other.word()).collect();
        parts.extend((!others.is_empty()).then(|| format!("also {} (--language)", others.join(", "))));
        let (what, place) = match project.folder.trim_end_matches('/') {
            "" => ("Repository", self.workspace.clone()),
            folder => ("Project", self.workspace.join(folder)),
        };
        self.say(&format!("{what}: {}, {}", place.display(), parts.join(", ")));
        if let [first, ..] = project.elsewhere.as_slice() {
            let folders: Vec<&str> =
                project.elsewhere.iter().map(|folder| folder.trim_end_matches('/')).take(SHOWN).collect();
            let more = if project.elsewhere.len() > SHOWN { ", …" } else { "" };
            let place = quoted(&self.workspace.join(first.trim_end_matches('/')).to_string_lossy());
            let folders = folders.join(", ");
            self.say(&format!("  other projects: {folders}{more} (`provost start --dir {place}`)"));
        }
        self.document["project"] = json!({
            "language": project.language.map(Language::word), "manager": project.manager, "ci": project.ci,
            "has_tests": project.has_tests, "others": others, "folder": project.folder.trim_end_matches('/'),
            "elsewhere": project.elsewhere,
        });
    }

    pub(super) fn agents(&mut self, roles: &Roles) {
        let names: Vec<&str> = roles.installed.iter().map(|agent| agent.name.as_str()).collect();
        let found = if names.is_empty() { "none on PATH".to_owned() } else { names.join(", ") };
        self.say(&match &roles.chosen {
            Some(chosen) => format!("Agents: {found}; {} works as `coder`", chosen.name),
            None => format!("Agents: {found}; provost.toml has the role `{}`", roles.worker),
        });
        let agents =
            roles.installed.iter().map(|agent| json!({ "name": agent.name, "program": agent.program }));
        self.document["agents"] = agents.collect();
        self.document["chosen"] = json!(roles.chosen.as_ref().map(|agent| &agent.name));
    }

    /// Lists the checks that were not run.
    pub(super) fn untried(&mut self, project: &Project) {
        for check in &project.checks {
            let command = check.commands.first().map(String::as_str).unwrap_or_default();
            self.say(&format!("  {}: {command} — not tried", check.name));
        }
        let checks = project.checks.iter().map(
            |check| json!({ "name": check.name, "command": check.commands.first(), "result": "not_tried" }),
        );
        self.document["checks"] = checks.collect();
    }

    pub(super) fn tried(&mut self, tried: &[TriedCheck]) {
        let document = |check: &TriedCheck| {
            let verdict: &Verdict = &check.verdict;
            json!({
                "name": check.name, "command": check.command, "result": result_words::word(verdict),
                "words": result_words::words(verdict), "duration_ms": verdict.duration_ms, "tests": verdict.tests,
                "isolation": verdict.isolation,
            })
        };
        self.document["checks"] = tried.iter().map(document).collect();
    }

    pub(super) fn wrote(&mut self, path: &Path) {
        let path = path.strip_prefix(&self.workspace).unwrap_or(path);
        self.written.push(path.display().to_string());
    }

    pub(super) fn plan(&mut self, plan: ShownPlan) {
        self.plan = Some(plan);
    }

    /// Ends with the files that were written, and the next commands.
    pub(super) fn end(mut self, outcome: Outcome) -> Result<(), Failure> {
        let next = self.next(outcome);
        let changed: Vec<String> = self.plan.iter().flat_map(changed_files).collect();
        if self.global.json {
            self.document["written"] = json!(self.written);
            self.document["changed_by_agent"] = json!(changed);
            self.document["plan"] = match &self.plan {
                Some(plan) => serde_json::to_value(plan.document()).unwrap_or_default(),
                None => Value::Null,
            };
            self.document["next"] = json!(next);
            return terminal::print(&format!("{}\n", self.document));
        }
        if let (Some(step), Outcome::Done) =
            (self.plan.as_ref().and_then(|plan| plan.view.steps.first()), outcome)
        {
            let (mark, pass) = (step.mark.unwrap_or("✓"), step.pass.map(|pass| pass.to_string()));
            let word = pass.unwrap_or_else(|| step.word.clone());
            terminal::talk(&format!(
                "\n{mark} {}: {word}. provost ran the check, not the agent.",
                step.title
            ));
        }
        let mut text = String::new();
        for path in &self.written {
            text.push_str(&format!("  {path}\n"));
        }
        for path in &changed {
            text.push_str(&format!("  {path} (by the agent)\n"));
        }
        if !text.is_empty() {
            terminal::talk(&format!("\nWritten:\n{text}"));
        }
        if !next.is_empty() {
            terminal::talk(&format!("Next:\n{}", here::lines(&next)));
        }
        Ok(())
    }

    fn next(&self, outcome: Outcome) -> Vec<NextCommand> {
        let of = |words: &str, about| NextCommand::new(self.global, words, about);
        match (&self.plan, outcome) {
            (None, _) => Vec::new(),
            (Some(_), Outcome::Done) => vec![
                of("changes first", "show what the agent changed"),
                of("commit first", "commit the judged files to a branch"),
                of("new --list-templates", "list the templates for your next plan"),
                of("init", "check your own agent sessions too"),
                of("", "show where you are"),
            ],
            (Some(_), _) => vec![
                of("inbox", "list what waits for you"),
                of("status first", "show the state of the step"),
                of("start", "continue the plan, after your answer"),
            ],
        }
    }
}

/// Returns the files that the checks took over from the agent.
fn changed_files(plan: &ShownPlan) -> Vec<String> {
    let verdicts = plan.view.steps.iter().filter_map(|step| step.verdict.as_ref());
    verdicts.flat_map(|verdict| verdict.files.clone()).collect()
}
