//! Reads the plan file: parses it, binds it to its surroundings and, on request, verifies it.
//!
//! The gate shows a person only what comes from a reading, so that the approved text is the one that was
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use provost_core::language::diagnostic::{Diagnostic, Severity};
use provost_core::language::{facts, named_checks, parse, plan_writer, shell, verify};
use provost_core::model::approved_spec::{self, Binding, Law};
use provost_core::model::event::{IncludedFile, Revision};
use provost_core::model::hash::Hash;
use provost_core::model::plan::{Check, Plan, Step};
use provost_core::model::run_policy::{RunPolicy, Unstoppable};
use provost_core::model::usage::Usage;
use provost_core::model::verdict::Isolation;
use provost_core::state::run::Run;
use provost_host::agent::instructions;
use provost_host::check::judge::CheckTools;
use provost_host::check::visible_paths::VisiblePaths;
use provost_host::config::{Demand, Driver, Role, Speaks};
use provost_host::egress::prices;
use provost_host::{config, files, git, process, sandbox, survey};

use crate::plan::plan_context::PlanContext;
use crate::uncommitted_files;

#[derive(Clone, Debug)]
pub struct BoundPlan {
    pub text: String,
    pub plan: Plan,
    pub revision: Revision,
    pub binding: Binding,
    pub diagnostics: Vec<Diagnostic>,
}

impl BoundPlan {
    pub fn errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    pub fn warnings(&self) -> u32 {
        let warning = |diagnostic: &&Diagnostic| diagnostic.severity == Severity::Warning;
        self.diagnostics.iter().filter(warning).count() as u32
    }

    /// Parses a text and binds it to its surroundings.
    pub fn of(site: &PlanContext, bytes: &[u8]) -> Self {
        let (text, unreadable) = parse::bytes(bytes);
        let text = text.into_owned();
        // Bytes that are not valid text are shown, not parsed.
        let mut parsed = match unreadable {
            Some(diagnostic) => parse::ParseResult { plan: Plan::default(), diagnostics: vec![diagnostic] },
            None => parse::plan(&text),
        };
        named_checks::apply(&mut parsed.plan, &site.config.checks);
        let law = approved_spec::digest(&text, &parsed.plan);
        let binding = binding(site, &parsed.plan, Vec::new());
        Self {
            revision: approved_spec::revision(law, &binding),
            text,
            plan: parsed.plan,
            binding,
            diagnostics: parsed.diagnostics,
        }
    }

    /// Adds these files to the base although they are not in the commit.
    pub fn including(mut self, included: Vec<IncludedFile>) -> Self {
        self.binding.included = included;
        self.revision = approved_spec::revision(approved_spec::digest(&self.text, &self.plan), &self.binding);
        self
    }

    /// Adds the results of the static checks.
    pub fn verified(mut self, site: &PlanContext) -> Self {
        let place = survey::SurveyContext {
            workspace: site.place.workspace.clone(),
            plan_dir: site.place.dir.clone(),
            slug: site.place.slug.clone(),
            targets: targets(site, &self.plan),
            git: self.binding.base.is_some() || site.place.workspace.join(".git").exists(),
            in_sight: in_sight(site, &self.plan),
            judge: site.config.judge.role.clone(),
            judge_within: judge_within(site),
            judges_models: judges_models(site),
            not_startable: not_startable(site),
            sight: VisiblePaths::of_checks(
                &CheckTools::of_person(&site.place.workspace),
                &site.config.verify.folders,
            ),
            secrets: site.config.verify.secrets.iter().cloned().collect(),
        };
        let facts = survey::answer(&facts::questions(&self.plan), &place);
        self.diagnostics.extend(verify::plan(&self.text, &self.plan, &facts));
        self.diagnostics.extend(site.redactor.diagnose(&self.text));
        self.diagnostics.sort_by_key(|diagnostic| (diagnostic.span, diagnostic.code));
        self
    }

    pub fn law(&self) -> Law<'_> {
        Law { text: &self.text, plan: &self.plan, binding: Some(&self.binding) }
    }
}

/// Returns the roles of the configuration, and the role of external sessions if the plan was made for one.
fn targets(site: &PlanContext, plan: &Plan) -> BTreeSet<String> {
    let mut targets: BTreeSet<String> = site.config.agents.keys().cloned().collect();
    let is_session =
        |step: &Step| step.target.as_ref().is_some_and(|target| target.value == plan_writer::ROLE);
    if plan.steps.iter().any(is_session) {
        targets.insert(plan_writer::ROLE.to_owned());
    }
    targets
}

/// Returns the revision that the recorded spec would have now, in its current surroundings.
pub fn revision_now(site: &PlanContext, run: &Run) -> Revision {
    let included = uncommitted_files::still_included(&site.place.workspace, run);
    run.law.map(|law| approved_spec::revision(law, &binding(site, &run.plan, included))).unwrap_or_default()
}

fn binding(site: &PlanContext, plan: &Plan, included: Vec<IncludedFile>) -> Binding {
    Binding {
        base: git::head(&site.place.workspace),
        files: files::digests(&site.place.workspace, &named_files(plan)),
        terms: terms(site, plan),
        included,
    }
}

/// Returns the run policy: what the configuration says about the roles of this plan.
pub fn terms(site: &PlanContext, plan: &Plan) -> RunPolicy {
    let verify = &site.config.verify;
    let targets = plan.steps.iter().filter_map(|step| step.target.as_ref()).map(|target| &target.value);
    let other = |name: &String| Some((name.clone(), site.config.agents.get(name)?.fallback.clone()?));
    let fallback: BTreeMap<String, String> = targets.clone().filter_map(other).collect();
    // A fallback role also works under an approved policy.
    let judge = judge(site, plan);
    let judging = site.config.judge.role.as_ref().filter(|_| judge.is_some());
    let named = targets.chain(fallback.values()).chain(judging);
    let estimated = named.clone();
    let folders = named.clone().filter_map(|name| {
        let folders = site.config.agents.get(name)?.folders.terms();
        (!folders.is_empty()).then(|| (name.clone(), folders))
    });
    let folders = folders.collect();
    let roles = named.clone().filter_map(|name| Some((name.clone(), site.config.agents.get(name)?.reach)));
    let programs = named.clone().filter_map(|name| Some((name.clone(), program(site, name)?))).collect();
    let isolation = match verify.isolation {
        Demand::Auto => None,
        Demand::Exactly(level) => Some(level),
    };
    let metered =
        |name: &String| Some((name.clone(), site.config.agents.get(name)?.meter.as_ref()?.to_string()));
    let meter = named.clone().filter_map(metered).collect();
    let unstoppable =
        named.clone().filter_map(|name| Some((name.clone(), unstoppable(site, name)?))).collect();
    let workspace = &site.place.workspace;
    let instructions = named.clone().filter_map(|name| {
        let file = instructions::of(&site.config.agents.get(name)?.driver, workspace)?;
        Some((name.clone(), file.with_digest(workspace)?))
    });
    let instructions = instructions.collect();
    let api = named.filter_map(|name| Some((name.clone(), site.config.agents.get(name)?.api.clone())));
    let api = api.filter(|(_, hosts)| !hosts.is_empty()).collect();
    let roles = roles.collect();
    let estimate = |name: &String| Some((name.clone(), site.config.agents.get(name)?.estimate));
    let estimates = estimated.filter_map(estimate).filter(|(_, each)| !each.is_empty()).collect();
    let config::DefaultBudgets { plan: budget, step: step_budget } = site.config.budget;
    let prices = site.config.prices.iter().map(|(model, price)| (model.clone(), price.to_string())).collect();
    let require_red = verify.require_red;
    // As the configuration says now: the plan may be the approved one.
    let check = |name: &String| Some((name.clone(), site.config.checks.get(name)?.clone()));
    let checks = plan.named_checks.keys().filter_map(check).collect();
    // Redacted like in the log, because it is compared with the recorded policy.
    site.redactor.value(RunPolicy {
        isolation,
        require_red,
        checks,
        min_proved: verify.min_proved,
        trace: verify.trace,
        max_file: (verify.max_file != config::Config::default().verify.max_file)
            .then(|| process::size(verify.max_file)),
        roles,
        programs,
        folders,
        check_folders: verify.folders.terms(),
        secrets: secrets(plan),
        api,
        fallback,
        budget,
        step_budget,
        estimates,
        prices,
        meter,
        unstoppable,
        instructions,
        judge,
        quorum: site.config.gate.quorum,
    })
}

/// Returns the roles whose program an attempt would not find, by the caller's environment.
fn not_startable(site: &PlanContext) -> BTreeMap<String, String> {
    let own: Vec<_>;
    let environment = match site.environment.iter().any(|(name, _)| name == "PATH") {
        true => &site.environment,
        false => {
            own = std::env::vars_os().collect();
            &own
        }
    };
    let why = |role: &Role| {
        let program = match &role.driver {
            Driver::Command { command } | Driver::Acp { command, .. } => OsStr::new(command.first()?),
            Driver::Client { client, program, .. } => OsStr::new(program.as_deref().unwrap_or(client.word())),
            Driver::Scripted { .. } | Driver::Builtin(_) => return None,
        };
        match sandbox::find_program(program, &site.place.workspace, environment) {
            Some(_) => None,
            None => Some(format!("there is no program `{}`", program.display())),
        }
    };
    let agents = site.config.agents.iter();
    agents.filter_map(|(name, role)| Some((name.clone(), why(role)?))).collect()
}

/// Returns why a budget cannot end an attempt of a role while it works; `None` if it can.
fn unstoppable(site: &PlanContext, name: &str) -> Option<Unstoppable> {
    let role = site.config.agents.get(name)?;
    let speaks = match &role.driver {
        // The meter refuses what is above the limit.
        _ if role.meter.is_some() => return None,
        Driver::Scripted { .. } => return None,
        Driver::Command { .. } => Some(role.speaks),
        Driver::Client { client, .. } => Some(client.speaks()),
        Driver::Acp { .. } | Driver::Builtin(_) => None,
    };
    let late =
        || "its program reports usage only at its end, or not at all (`meter` changes that)".to_owned();
    let cost_unknown = || {
        let one = Usage { input_tokens: Some(1), output_tokens: Some(1), ..Usage::default() };
        let is_known =
            |model: &str| prices::priced(&site.config.prices, Some(model), one).micro_usd.is_some();
        let model = role.asks().filter(|model| !is_known(model))?;
        Some(format!("the price of `{model}` is unknown (`[prices]` sets it)"))
    };
    let found = match (&role.driver, speaks) {
        (_, Some(Speaks::Claude | Speaks::Opencode)) => Unstoppable { tokens: None, usd: cost_unknown() },
        (_, Some(_)) => Unstoppable { tokens: Some(late()), usd: Some(late()) },
        (Driver::Acp { .. }, None) => {
            let why = "its program reports only what it costs (`meter` changes that)".to_owned();
            Unstoppable { tokens: Some(why), usd: None }
        }
        (_, None) => Unstoppable { tokens: None, usd: cost_unknown() },
    };
    (found != Unstoppable::default()).then_some(found)
}

/// Returns the program of a role. A digest replaces a redacted secret, so that another secret needs a new
/// approval.
fn program(site: &PlanContext, name: &str) -> Option<String> {
    let folder = site.config.path.as_deref().and_then(Path::parent);
    let whole = site.config.agents.get(name)?.program(folder);
    let shown = site.redactor.text(&whole);
    if shown == whole {
        return Some(whole);
    }
    let digest = Hash::of(whole.as_bytes()).to_string();
    Some(format!("{shown} (digest {})", &digest[..12]))
}

/// Returns the secrets of checks, each with the steps that name it.
fn secrets(plan: &Plan) -> BTreeMap<String, Vec<u32>> {
    let mut secrets: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for step in &plan.steps {
        for secret in &step.secrets {
            secrets.entry(secret.value.clone()).or_default().push(step.number.0);
        }
    }
    secrets
}

/// Returns the roles that use the judge's model, if the configuration names it.
fn judges_models(site: &PlanContext) -> BTreeSet<String> {
    let Some(judge) = &site.config.judge.role else { return BTreeSet::new() };
    let agents = &site.config.agents;
    let Some(model) = agents.get(judge).and_then(Role::asks) else { return BTreeSet::new() };
    let same = agents.iter().filter(|(name, role)| *name != judge && role.asks() == Some(model));
    same.map(|(name, _)| name.clone()).collect()
}

/// Returns the part of the judge's program that is inside the workspace, where judged agents can write.
pub fn judge_within(site: &PlanContext) -> Option<String> {
    let role = site.config.agents.get(site.config.judge.role.as_ref()?)?;
    let words: Vec<String> = match &role.driver {
        Driver::Command { command } | Driver::Acp { command, .. } => command.clone(),
        Driver::Client { program, args, .. } => program.iter().chain(args).cloned().collect(),
        Driver::Scripted { script } => vec![script.to_string_lossy().into_owned()],
        Driver::Builtin(_) => Vec::new(),
    };
    let workspace = &site.place.workspace;
    let is_within = |word: &&String| {
        let found = workspace.join(word).canonicalize();
        found.is_ok_and(|path| path.is_file() && path.starts_with(workspace))
    };
    words.iter().find(is_within).cloned()
}

/// Returns the judge, if the plan has a contract that a model judges.
fn judge(site: &PlanContext, plan: &Plan) -> Option<String> {
    let role = site.config.judge.role.clone()?;
    let is_judged = |step: &Step| {
        matches!(step.contract.as_ref().map(|contract| &contract.check), Some(Check::Judge { .. }))
    };
    plan.steps.iter().any(is_judged).then_some(())?;
    Some(match site.config.agents.get(&role).and_then(Role::asks) {
        Some(model) => format!("{role} ({model})"),
        None => role,
    })
}

/// Returns why an agent could read a hidden contract. Checked only if the plan has one.
fn in_sight(site: &PlanContext, plan: &Plan) -> Option<String> {
    if !plan.steps.iter().any(Step::is_hidden) {
        return None;
    }
    let level = match site.config.verify.isolation {
        Demand::Exactly(Isolation::Clean) => None,
        Demand::Exactly(level) => Some(format!("at isolation `{level}` the agent can read the plan file")),
        Demand::Auto => sandbox::survey(&site.place.workspace)
            .lacks()
            .map(|missing| format!("below `clean` the agent can read the plan file; {missing}")),
    };
    let tracked = || {
        git::tracks(&site.place.workspace, &site.place.path)
            .then(|| "the plan file is in the repository, where the agent can read it".to_owned())
    };
    level.or_else(tracked)
}

/// Returns every file that a contract of the plan names, each once.
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
