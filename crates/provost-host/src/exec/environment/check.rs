//! Runs a check at the isolation level: builds its tree, runs it and its negative controls, and keeps the
//! tree.
//!
//! **Invariant:** a tree is kept only after the check held on it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use provost_core::language::runner::report::RunnerReport;
use provost_core::language::{hidden_output, inconclusive_failure, test_files};
use provost_core::model::quote;
use provost_core::model::verdict::{CheckOutcome, Isolation, Tree, Verdict};

use super::check_helper::HelperFolder;
use super::check_request::{CheckSpec, Comparison};
use super::control_beside::FirstControl;
use super::hidden_paths::left_at_home;
use super::mounts::CheckMounts;
use super::moved_paths::moved;
use super::test_comparison::{Before, held_against, not_comparable, weakened};
use super::{ApprovedTree, CheckHelper, ExecEnv, gone, told, view};
use crate::check::judge::reporter::{Control, Places, Reporter};
use crate::check::judge::{self, CheckRequest, SuppliedTools};
use crate::check::negative_control::{self, ControlRequest, ControlRun};
use crate::check::project_tools;
use crate::check::provision::MissingSupply;
use crate::sandbox::{CheckFence, CheckMount, CheckTree, Network, SandboxFeatures, USUAL_SIZE, What};
use crate::tree::{Base, ExclusionReason, Layer, Touches};
use crate::{Interrupted, tree};

/// Most file names in a verdict; the tree's id covers all files.
const NAMES: usize = 40;

impl ExecEnv {
    /// Runs a check and its negative controls, and returns the verdict.
    pub fn judge(&self, case: &CheckSpec<'_>) -> Result<Verdict, Interrupted> {
        let Some(approved) = &self.trees else {
            return self.judge_in_place(case);
        };
        let (base, layer) = match approved.look(case) {
            Ok(found) => found,
            Err(error) => return Ok(self.unseen(error)),
        };
        let file = self.verdict_file(approved, case, &layer);
        let known = file.as_deref().filter(|_| case.reuses).and_then(|file| self.recent_verdict(file));
        if let Some(known) = known {
            self.remember_versions(&known);
            return Ok(Verdict { cached: true, ..known });
        }
        let begun = SystemTime::now();
        let verdict = self.judge_tree(approved, case, base, layer, begun)?;
        if let Some(file) = file {
            self.keep_verdict(&file, &verdict, begun);
        }
        Ok(verdict)
    }

    /// Runs a check and its negative controls on a tree.
    fn judge_tree(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        base: Base,
        layer: Layer,
        begun: SystemTime,
    ) -> Result<Verdict, Interrupted> {
        let tree = Some(Box::new(approved.told(case, seen(&base, &layer))));
        if let Some(verdict) = self.not_judged(case, &base, &layer) {
            return Ok(Verdict { tree, ..verdict });
        }
        let before = self.results_before(approved, case)?;
        let of_step = case.touches.and_then(|globs| Touches::new(globs).ok());
        let first_control = Mutex::new(None::<FirstControl>);
        let unseen = CheckSpec { shown_to: None, ..case.clone() };
        let bench = ControlRequest {
            level: self.level,
            shell: case.shell,
            doubts: &case.doubts,
            trees: &approved.trees,
            base: &base,
            layer: &layer,
            touches: of_step.as_ref().unwrap_or(&approved.touches),
            seed: negative_control::seed(),
            run: &|own: &Layer, how| {
                let mut first = first_control.lock().unwrap_or_else(PoisonError::into_inner);
                let known = first.take_if(|first| first.tree == own.id && first.control == how);
                drop(first);
                known.map_or_else(
                    || self.on(approved, &unseen, &base, own, how, &before),
                    |first| Ok(first.run),
                )
            },
        };
        let run = |case: &CheckSpec<'_>| {
            let _activity = case.activity();
            self.on(approved, case, &base, &layer, Control::AsTheyAre, &before)
        };
        let control = |case: &CheckSpec<'_>| self.first_control(approved, case, &bench, &before);
        let (observed, first) =
            self.with_versions_beside(approved, case, || self.with_control_beside(case, &run, &control))?;
        *first_control.lock().unwrap_or_else(PoisonError::into_inner) = first;
        self.keep_results(approved, case, &layer, &observed, begun);
        let ControlRun { verdict, report } =
            self.without_flaky(approved, case, (&base, &layer), observed, &before)?;
        let verdict = with_output_shown(case, verdict, |case| Ok(run(case)?.verdict))?;
        let verdict = self.with_versions(approved, case, (&base, &layer), verdict)?;
        let observed = ControlRun { verdict, report };
        if !observed.verdict.held() {
            let broke = matches!(observed.verdict.outcome, CheckOutcome::Broke { .. });
            let mut unmet = observed.verdict.unmet;
            if self.level == Isolation::Clean && broke {
                unmet.extend(left_at_home(&case.shell.command, &self.tools));
            }
            return Ok(Verdict { tree, unmet, ..observed.verdict });
        }
        let now = observed.report.results.clone();
        let verdict = weakened(&before, now.as_ref(), bench.doubt(observed)?);
        // A tree on which the check held is kept even if a negative control failed, because it is the next
        // step's base.
        if let Err(error) = approved.trees.advance(&base, layer) {
            return Ok(Verdict::not_run(self.level, told(&error)));
        }
        Ok(Verdict { tree, ..verdict })
    }

    /// Returns the verdict on a tree that no check runs on: something is missing, or was changed that must not be.
    fn not_judged(&self, case: &CheckSpec<'_>, base: &Base, layer: &Layer) -> Option<Verdict> {
        if let Some(reason) = case.given.missing().or_else(|| self.out_of_sight(case, base, layer)) {
            return Some(Verdict::not_run(self.level, reason));
        }
        if let Some(first) = layer.protected_changed.first() {
            let what = format!("{} is protected and was changed", quote::one_line(first));
            return Some(Verdict::bare(self.level, CheckOutcome::Tampered { what }));
        }
        let is_cut =
            |why: &ExclusionReason| matches!(why, ExclusionReason::TooMany | ExclusionReason::OverTotal);
        let cut = layer.refused.iter().find(|refused| is_cut(&refused.why))?;
        let reason = format!("provost could not take over everything inside `touches`: {cut}");
        Some(Verdict::not_run(self.level, reason))
    }

    /// Runs a check in the workspace itself.
    fn judge_in_place(&self, case: &CheckSpec<'_>) -> Result<Verdict, Interrupted> {
        let ground = judge::CheckRoot::Workspace;
        let helper = self.helper.as_ref().map(CheckHelper::in_folder);
        let programs = helper.as_ref().and_then(HelperFolder::path);
        let env = self.with_helper(&[], programs, (&self.workspace, &[]));
        let compares = !matches!(case.compare, Comparison::Nothing);
        if let Some(reason) = not_comparable(case.shell, self.level).filter(|_| compares) {
            return Ok(Verdict::not_run(self.level, reason));
        }
        let _activity = case.activity();
        let (verdict, report) = self.in_court_with(case, ground, &env, (&[], None))?;
        let observed = ControlRun { verdict, report };
        let ControlRun { verdict, report } =
            held_against(case, &Before::NotNeeded, &BTreeSet::new(), observed);
        let verdict = negative_control::counted(&case.doubts, ControlRun { verdict, report }).verdict;
        let again = |case: &CheckSpec<'_>| Ok(self.in_court_with(case, ground, &env, (&[], None))?.0);
        let verdict = self.with_helper_version(case, with_output_shown(case, verdict, again)?);
        let is_open = verdict.held() && case.doubts.bite && test_files::lets_code_decide(&case.shell.command);
        let why = || format!("at {} provost has no tree of its own to try it on", self.level);
        Ok(Verdict { uncontrolled: is_open.then(why), ..verdict })
    }

    /// Returns the verdict for a tree that could not be built.
    pub(super) fn unseen(&self, error: tree::Error) -> Verdict {
        match error {
            tree::Error::Conflict { files } => {
                let files = files.iter().map(|file| quote::one_line(file).into_owned()).collect();
                Verdict::bare(self.level, CheckOutcome::Conflict { files })
            }
            error => Verdict::not_run(self.level, told(&error)),
        }
    }

    /// Runs the check once on base and layer, and compares its tests with those before the work.
    pub(super) fn on(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        base: &Base,
        layer: &Layer,
        control: Control,
        before: &Before,
    ) -> Result<ControlRun, Interrupted> {
        // The check also runs if the reporters cannot be started; the verdict then knows less about its
        // tests.
        let is_watched = !test_files::only_looks(&case.shell.command) && self.confining().is_none();
        let (verdict, report) = self.once(approved, case, base, layer, is_watched.then_some(control))?;
        let observed = ControlRun { verdict, report };
        let observed = held_against(case, before, &BTreeSet::new(), observed);
        Ok(if control == Control::AsTheyAre {
            negative_control::counted(&case.doubts, observed)
        } else {
            observed
        })
    }

    /// Runs the check once, with reporters if a control is given.
    pub(super) fn once(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        base: &Base,
        layer: &Layer,
        control: Option<Control>,
    ) -> Result<(Verdict, RunnerReport), Interrupted> {
        match &self.offer {
            Some(offer) if self.level == Isolation::Clean => self.fenced(offer, case, base, layer, control),
            _ => self.unfenced(case, approved, base, layer, control),
        }
    }

    fn fenced(
        &self,
        offer: &SandboxFeatures,
        case: &CheckSpec<'_>,
        base: &Base,
        layer: &Layer,
        control: Option<Control>,
    ) -> Result<(Verdict, RunnerReport), Interrupted> {
        let not_run = |reason: &str| Ok((Verdict::not_run(self.level, reason), RunnerReport::default()));
        let Some(approved) = &self.trees else { return not_run("provost has no tree of its own") };
        let deleted = gone(base, layer);
        let view = view(base, layer, &deleted);
        let fitted = self.with_means(approved, base, layer, case.stop, |means| {
            approved.outfit.fenced(offer, &self.scratch, (base, layer), &view, means, case.network)
        });
        let fitted = match fitted {
            Ok(fitted) => fitted,
            Err(MissingSupply::Interrupted) => return Err(Interrupted),
            Err(missing) => return not_run(&missing.to_string()),
        };
        // Folder for what the check writes to its repository.
        let room = match approved.repository.as_ref().map(|_| approved.outfit.room()).transpose() {
            Ok(room) => room,
            Err(missing) => return not_run(&missing.to_string()),
        };
        let kept = match self.kept_programs(approved, &fitted, &self.workspace) {
            Ok(kept) => kept,
            Err(error) => return not_run(&error.to_string()),
        };
        let supplied = kept.in_fence(&fitted);
        let reporter = self.reporter(approved, case, control, &supplied);
        let places = Places::fenced();
        let mut keep = fitted.kept();
        if let (Some(repository), Some(room)) = (&approved.repository, &room) {
            keep.extend(repository.kept(room.path()));
        }
        let declared = case.given.kept();
        keep.extend(&declared);
        keep.extend(kept.mount());
        if let Some(reporter) = &reporter {
            keep.push(CheckMount { at: &places.tools, what: What::ReadOnly(reporter.tools()) });
            keep.push(CheckMount { at: &places.pipe, what: What::ReadOnly(reporter.pipe_folder()) });
        }
        let (helper, root) = (self.helper.as_ref().filter(|helper| helper.is_there()), &*self.workspace);
        let at = CheckHelper::fenced();
        keep.extend(helper.map(|helper| helper.mount(&at)));
        let env = self.with_helper(&fitted.env, helper.and(at.parent()), (root, &supplied));
        let env = self.with_reporter(&env, reporter.as_ref(), &places, (root, &supplied));
        let fence = CheckFence {
            tree: CheckTree::Overlay {
                lower: &base.path,
                over: base.over.as_deref(),
                layer: &layer.path,
                deleted: &deleted,
            },
            at: &self.workspace,
            size: USUAL_SIZE,
            network: if case.network { Network::On } else { Network::Off },
            processes: case.processes,
            toolchains: &[],
            keep: &keep,
            hidden: &[&self.state],
            scratch: &self.scratch,
        };
        let ground = judge::CheckRoot::Fenced { offer, fence };
        let (verdict, report) = self.in_court_with(case, ground, &env, (&supplied, reporter.as_ref()))?;
        drop(keep);
        Ok((approved.outfit.after(fitted, layer, verdict), report))
    }

    fn unfenced(
        &self,
        case: &CheckSpec<'_>,
        approved: &ApprovedTree,
        base: &Base,
        layer: &Layer,
        control: Option<Control>,
    ) -> Result<(Verdict, RunnerReport), Interrupted> {
        let deleted = gone(base, layer);
        let view = view(base, layer, &deleted);
        // Before the tree is assembled, because a command may need the tree.
        let given = self.with_means(approved, base, layer, case.stop, |means| {
            approved.outfit.given(&view, base, layer, means)
        });
        let bare = |outcome| Ok((Verdict::bare(self.level, outcome), RunnerReport::default()));
        let tampered = |what: String| bare(CheckOutcome::Tampered { what });
        let not_run = |reason: String| bare(CheckOutcome::NotRun { reason });
        let assembled = match approved.trees.assemble(base, layer) {
            Ok(assembled) => assembled,
            Err(error @ tree::Error::Altered { .. }) => return tampered(error.to_string()),
            Err(error) => return not_run(told(&error)),
        };
        let above = approved.above.as_ref();
        if let Some(path) = above.and_then(|above| above.changed(&approved.trees.assembles_in())) {
            let path = path.display();
            return tampered(format!(
                "a configuration file above the tree of the check appeared or changed: {path}"
            ));
        }
        let fitted = given.and_then(|given| approved.outfit.in_folder(&assembled.path, given, case.network));
        let fitted = fitted.and_then(|mut fitted| {
            if let Some(repository) = &approved.repository {
                let room = approved.outfit.room()?;
                repository.lay(&assembled.path, room.path()).map_err(MissingSupply::not_placed)?;
                fitted.add_place(room);
            }
            Ok(fitted)
        });
        match fitted {
            Ok(fitted) => {
                let moved = self.tools.project().in_tree();
                let mut moved = moved.map(|root| project_tools::move_programs(&assembled.path.join(root)));
                let machine = match moved.find_map(Result::err) {
                    Some(error) => Err(error),
                    None => self.kept_programs(approved, &fitted, &assembled.path),
                };
                let machine = match machine {
                    Ok(machine) => machine,
                    Err(error) => return not_run(error.to_string()),
                };
                let supplied = machine.in_folder(&fitted);
                let reporter = self.reporter(approved, case, control, &supplied);
                let tools = (supplied.as_slice(), reporter.as_ref());
                let (verdict, report) = self.in_folder(case, &assembled.path, &fitted, tools)?;
                Ok((approved.outfit.after(fitted, layer, verdict), report))
            }
            Err(MissingSupply::Interrupted) => Err(Interrupted),
            Err(missing) => not_run(missing.to_string()),
        }
    }

    /// Runs the check in a folder, in the sandbox of the level if it has one.
    fn in_folder(
        &self,
        case: &CheckSpec<'_>,
        folder: &Path,
        fitted: &CheckMounts,
        (supplied, reporter): (&[SuppliedTools], Option<&Reporter>),
    ) -> Result<(Verdict, RunnerReport), Interrupted> {
        let helper = self.helper.as_ref().map(CheckHelper::in_folder);
        let programs = helper.as_ref().and_then(HelperFolder::path);
        let Some(offer) = self.confining() else {
            let places = reporter.map_or_else(Places::fenced, Reporter::places);
            let env = self.with_helper(&fitted.env, programs, (folder, supplied));
            let env = self.with_reporter(&env, reporter, &places, (folder, supplied));
            return self.in_court_with(case, judge::CheckRoot::Folder(folder), &env, (supplied, reporter));
        };
        match self.confined_check(offer, folder, fitted, case) {
            Ok(mut check) => {
                let added = supplied.iter().map(|supplied| supplied.programs.clone());
                check.confines.rules.read.extend(added.filter(|programs| programs.is_absolute()));
                let program = self.helper.as_ref().map(CheckHelper::program);
                let added = programs.into_iter().chain(program).map(Path::to_path_buf);
                check.confines.rules.read.extend(added);
                let env = self.with_helper(&check.env, programs, (folder, supplied));
                let confines = &check.confines;
                let ground = judge::CheckRoot::Confined { folder, confines };
                self.in_court_with(case, ground, &env, (supplied, None))
            }
            Err(error) => Ok((Verdict::not_run(self.level, told(&error)), RunnerReport::default())),
        }
    }

    fn reporter(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        control: Option<Control>,
        supplied: &[SuppliedTools],
    ) -> Option<Reporter> {
        let folders = self.tools.places(Some(&approved.base.path), supplied);
        let reporter = Reporter::start(&folders, control?, case.shell.expects_tests()).ok()?;
        Some(reporter.for_contract(&case.shell.command))
    }

    /// Returns the environment with the reporters' variables, for a tree at this path.
    fn with_reporter(
        &self,
        env: &[(OsString, OsString)],
        reporter: Option<&Reporter>,
        places: &Places,
        (root, supplied): (&Path, &[SuppliedTools]),
    ) -> Vec<(OsString, OsString)> {
        let mut given = self.tools.variables(root, supplied);
        given.extend_from_slice(env);
        let more = reporter.map(|reporter| reporter.environment(places, &given));
        env.iter().cloned().chain(more.into_iter().flatten()).collect()
    }

    fn in_court_with(
        &self,
        case: &CheckSpec<'_>,
        ground: judge::CheckRoot<'_>,
        env: &[(OsString, OsString)],
        (supplied, reporter): (&[SuppliedTools], Option<&Reporter>),
    ) -> Result<(Verdict, RunnerReport), Interrupted> {
        let secrets = case.given.secrets.iter().filter(|_| case.network);
        let env: Vec<_> = env.iter().chain(secrets).cloned().collect();
        let elsewhere = match ground {
            judge::CheckRoot::Folder(folder) | judge::CheckRoot::Confined { folder, .. } => {
                moved(case.shell, &self.workspace, folder)
            }
            judge::CheckRoot::Workspace | judge::CheckRoot::Fenced { .. } => None,
        };
        let court = CheckRequest {
            workspace: &self.workspace,
            tools: &self.tools,
            supplied,
            ground,
            timeout: case.timeout,
            tag: case.tag,
            stop: case.stop,
            env: &env,
            isolation: self.level,
            bounds: case.bounds,
            in_background: case.in_background,
            shown_to: case.shown_to,
        };
        judge::observed(elsewhere.as_ref().unwrap_or(case.shell), &court, reporter)
    }
}

impl ApprovedTree {
    /// Adds the tree that the work began with and the files that someone else had changed.
    pub(super) fn told(&self, case: &CheckSpec<'_>, tree: Tree) -> Tree {
        let Some(start) = case.start.filter(|start| start.tree == tree.base) else { return tree };
        let base = case.tree.unwrap_or(&self.base.id);
        if base == start.tree {
            return tree;
        }
        let others = start.others.iter().take(NAMES).cloned().collect();
        Tree { base: base.to_owned(), start: Some(start.tree.clone()), others, ..tree }
    }
}

pub(super) fn seen(base: &Base, layer: &Layer) -> Tree {
    let deleted = layer.deleted.iter().map(|path| format!("{path} (deleted)"));
    let more = |count: usize| count.saturating_sub(NAMES) as u64;
    Tree {
        base: base.id.clone(),
        id: layer.id.clone(),
        files: layer.changed.iter().cloned().chain(deleted).take(NAMES).collect(),
        files_more: more(layer.changed.len() + layer.deleted.len()),
        refused: layer.refused.iter().map(ToString::to_string).take(NAMES).collect(),
        refused_more: more(layer.refused.len() + layer.refused_more),
        ignored: layer.ignored.iter().take(NAMES).cloned().collect(),
        ignored_more: more(layer.ignored.len() + layer.ignored_more),
        ..Tree::default()
    }
}

/// Runs a contract that held again if it hides output in which a failed command says why it failed. If a
/// command could not do its job, its failure shows nothing, and the verdict says so.
fn with_output_shown(
    case: &CheckSpec<'_>,
    verdict: Verdict,
    run: impl FnOnce(&CheckSpec<'_>) -> Result<Verdict, Interrupted>,
) -> Result<Verdict, Interrupted> {
    let Some(shell) = hidden_output::shown(case.shell).filter(|_| verdict.held()) else { return Ok(verdict) };
    let shown = run(&CheckSpec { shell: &shell, ..case.clone() })?;
    if !shown.outcome.is_result() {
        return Ok(Verdict { outcome: shown.outcome, ..verdict });
    }
    let is_told = |line: &String| line.starts_with(inconclusive_failure::NOT_VERIFIABLE);
    let told = shown.unmet.into_iter().find(is_told).filter(|_| hidden_output::is_negated(case.shell));
    Ok(match told {
        Some(unmet) => {
            Verdict { outcome: CheckOutcome::Broke { exit_code: 0 }, unmet: vec![unmet], ..verdict }
        }
        None => verdict,
    })
}
