//! Adds to a verdict which versions of tools its contract called, and the digests of the lock files in its
//! tree.
//!
//! The versions are asked for once in a run, in the sandbox of a check, on the approved base: no file of an
//! agent takes part. Some tools need as long for their version as for a check, so this happens beside the first check
//! if a core is free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use provost_core::language::{recipes, shell, tool_names};
use provost_core::model::hash::Hash;
use provost_core::model::plan::{Shell, Span};
use provost_core::model::verdict::{CheckOutcome, Isolation, ToolVersion, Verdict};

use super::check_request::CheckSpec;
use super::control_beside::UsedCore;
use super::kept_results::sees_tree_only;
use super::{ApprovedTree, CheckHelper, ExecEnv, gone, view};
use crate::Interrupted;
use crate::check::negative_control::Doubts;
use crate::tree::{Base, Layer, Touches};

/// Time limit for all versions of one contract.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest version that is kept, in characters.
const VERSION_MAX: usize = 120;
/// Lock files whose digests a verdict has.
const LOCKS: [&str; 13] = [
    "Cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "requirements.txt",
    "environment.yml",
    "go.sum",
    "Gemfile.lock",
];

impl ExecEnv {
    /// Adds tools and lock files to the environment of a verdict.
    pub(super) fn with_versions(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        (base, layer): (&Base, &Layer),
        mut verdict: Verdict,
    ) -> Result<Verdict, Interrupted> {
        let Some(environment) = verdict.environment.take() else { return Ok(verdict) };
        let mut environment = Arc::unwrap_or_clone(environment);
        let deleted = gone(base, layer);
        let view = view(base, layer, &deleted);
        let digests = LOCKS.iter().filter_map(|name| Some((name, view.read(name)?)));
        environment.locks =
            digests.map(|(name, bytes)| ((*name).to_owned(), Hash::of(&bytes).to_string())).collect();
        let names = called(&case.shell.command);
        let helper = self.helper.as_ref().filter(|_| names.contains(recipes::PROGRAM));
        environment.tools = self.versions(approved, case, names)?;
        let helper = helper.and_then(CheckHelper::version);
        environment.tools.extend(helper.map(|version| (recipes::PROGRAM.to_owned(), version)));
        let mut parts = environment.sha256.clone();
        for (name, tool) in &environment.tools {
            parts.push_str(&format!("\n{name} {} {}", tool.path, tool.version));
        }
        for (name, digest) in &environment.locks {
            parts.push_str(&format!("\n{name} {digest}"));
        }
        environment.sha256 = Hash::of(parts.as_bytes()).to_string();
        verdict.environment = Some(Arc::new(environment));
        Ok(verdict)
    }

    /// Adds `provost-check` to the environment of a verdict without other versions, if the contract calls it.
    pub(super) fn with_helper_version(&self, case: &CheckSpec<'_>, mut verdict: Verdict) -> Verdict {
        let is_called = called(&case.shell.command).contains(recipes::PROGRAM);
        let version = self.helper.as_ref().filter(|_| is_called).and_then(CheckHelper::version);
        if let (Some(environment), Some(version)) = (&mut verdict.environment, version) {
            let environment = Arc::make_mut(environment);
            let parts = format!("{}\n{} {}", environment.sha256, version.path, version.version);
            environment.sha256 = Hash::of(parts.as_bytes()).to_string();
            environment.tools.insert(recipes::PROGRAM.to_owned(), version);
        }
        verdict
    }

    /// Runs a check. Meanwhile asks for the versions of its tools, if they are not known and a core is free.
    pub(super) fn with_versions_beside<T>(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        check: impl FnOnce() -> T,
    ) -> T {
        // A second core serves the negative control better.
        let is_apart = self.level == Isolation::Clean && sees_tree_only(case) && !self.expects_control(case);
        let names = called(&case.shell.command);
        if !is_apart || self.unknown(&names).is_empty() {
            return check();
        }
        let Some(second_core) = UsedCore::take_second() else { return check() };
        let asking = CheckSpec { in_background: true, ..case.clone() };
        thread::scope(|scope| {
            let asks = move || {
                let _core = second_core;
                // What is not known after the check is asked for again then.
                let _ = self.versions(approved, &asking, names);
            };
            let _ = thread::Builder::new().name("provost-versions".to_owned()).spawn_scoped(scope, asks);
            check()
        })
    }

    /// Takes over the versions that a kept verdict names: it was found with the same programs.
    pub(super) fn remember_versions(&self, verdict: &Verdict) {
        let named = verdict.environment.iter().flat_map(|environment| environment.tools.clone());
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).extend(named);
    }

    /// Returns the programs whose versions provost has not asked for in this run.
    fn unknown<'n>(&self, names: &'n BTreeSet<String>) -> Vec<&'n String> {
        let known = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unknown = |name: &&String| tool_names::is_program(name) && !known.contains_key(name.as_str());
        names.iter().filter(is_unknown).collect()
    }

    fn versions(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        mut names: BTreeSet<String>,
    ) -> Result<BTreeMap<String, ToolVersion>, Interrupted> {
        names.retain(|name| tool_names::is_program(name));
        let known = || self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = self.unknown(&names);
        if !unknown.is_empty() {
            let found = self.asked(approved, case, &unknown)?;
            let all = unknown
                .iter()
                .map(|name| ((*name).to_owned(), found.get(*name).cloned().unwrap_or_default()));
            known().extend(all);
        }
        let known = known();
        let found = names.into_iter().filter_map(|name| {
            let tool = known.get(&name)?.clone();
            Some((name, tool))
        });
        Ok(found.filter(|(_, tool)| !tool.path.is_empty()).collect())
    }

    /// Asks these tools for their versions.
    fn asked(
        &self,
        approved: &ApprovedTree,
        case: &CheckSpec<'_>,
        names: &[&String],
    ) -> Result<BTreeMap<String, ToolVersion>, Interrupted> {
        let nothing: &[&str] = &[];
        let none = Touches::new(nothing).ok();
        let layer = none
            .and_then(|none| approved.trees.take_over(&approved.base, &none, &none, &approved.limits).ok());
        let Some(mut layer) = layer else { return Ok(BTreeMap::new()) };
        // The build cache of this tree is that of a check.
        layer.is_control = true;
        let command = format!(
            "for tool in {}; do place=$(command -v \"$tool\") || continue; case $tool in go) \
             version=$(go version 2>/dev/null);; *) version=$(\"$tool\" --version 2>/dev/null </dev/null);; \
             esac; printf '%s\\t%s\\t%s\\n' \"$tool\" \"$place\" \"${{version%%$'\\n'*}}\"; done; true",
            names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
        );
        let shell = Shell { command, body: Span::default(), expectations: Vec::new() };
        let asking = CheckSpec {
            shell: &shell,
            timeout: PATIENCE,
            with_work: false,
            apart: None,
            network: false,
            doubts: Doubts::default(),
            reuses: false,
            shown_to: None,
            ..case.clone()
        };
        let (asked, _) = self.once(approved, &asking, &approved.base, &layer, None)?;
        if asked.outcome != CheckOutcome::Held {
            return Ok(BTreeMap::new());
        }
        let text = asked.stdout.to_string();
        let lines = text.lines().filter_map(|line| {
            let mut parts = line.splitn(3, '\t');
            let (name, path, version) = (parts.next()?, parts.next()?, parts.next()?);
            let version = version.chars().take(VERSION_MAX).collect();
            Some((name.to_owned(), ToolVersion { path: path.to_owned(), version }))
        });
        Ok(lines.collect())
    }
}

/// Returns the names of the programs that a contract calls.
fn called(command: &str) -> BTreeSet<String> {
    let script = shell::read(command);
    shell::tools(command, &script).into_iter().map(|tool| tool.name.to_string()).collect()
}
