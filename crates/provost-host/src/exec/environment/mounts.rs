//! Mounts for a check besides its tree: dependencies provisioned from lock files, and build caches.
//!
//! At `guard+clean` no sandbox keeps a check from writing them. So provisioned dependencies are copied for
//! each check, and there are no build caches.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use provost_core::model::verdict::{CheckOutcome, Verdict};
use tempfile::TempDir;

use crate::check::build_cache::{Builds, CodeOrigin, Loan};
use crate::check::judge::{CheckTools, SuppliedTools};
use crate::check::project_tools;
use crate::check::provision::{
    CheckSupplies, InstallEnvironment, MissingSupply, PreparedSupplies, Supplies, View,
};
use crate::files::folder;
use crate::sandbox::{CheckMount, MountWrites, SandboxFeatures, What};
use crate::tree::{Base, Layer};

use super::RunPaths;

pub(super) struct Outfit {
    supplies: Supplies,
    prepared: OnceLock<PreparedSupplies>,
    builds: Option<Builds>,
    /// Id of the approved base.
    approved: String,
    running: PathBuf,
}

/// The mounts of one check, and the variables that lead its tools to them.
pub(super) struct CheckMounts {
    given: CheckSupplies,
    places: Vec<PathBuf>,
    // Each holds one folder of `given`.
    folders: Vec<TempDir>,
    loan: Option<Loan>,
    pub env: Vec<(OsString, OsString)>,
}

impl Outfit {
    pub(super) fn new(
        estate: &RunPaths<'_>,
        wanted: &super::CheckSettings<'_>,
        base: &Base,
        (tools, newer): (&CheckTools, Vec<String>),
    ) -> Self {
        let builds = wanted.build_caches.then(|| Builds::open(estate.state, estate.workspace).ok());
        Self {
            supplies: Supplies::new(estate.state, tools, wanted.provision, newer),
            prepared: OnceLock::new(),
            builds: builds.flatten(),
            approved: base.id.clone(),
            running: estate.state.join("provision/running"),
        }
    }

    /// Provisions the dependencies of the approved base.
    pub(super) fn prepare(&self, approved: &View<'_>, means: &InstallEnvironment<'_>) {
        self.prepared.get_or_init(|| self.supplies.prepare(approved, means));
    }

    /// Returns the dependencies for a check on this tree; provisions them now if they are missing.
    pub(super) fn given(
        &self,
        view: &View<'_>,
        base: &Base,
        layer: &Layer,
        means: &InstallEnvironment<'_>,
    ) -> Result<CheckSupplies, MissingSupply> {
        let Some(prepared) = self.prepared.get() else { return Ok(CheckSupplies::default()) };
        let has_lock = |path: &Path| self.supplies.locks().any(|lock| Path::new(lock) == path);
        let is_changed = layer.changed_paths().chain(layer.deleted_paths()).any(has_lock);
        // Once the step has passed, its tree is the base and has the same id.
        let scope = if is_changed { &layer.id } else { &base.id };
        self.supplies.given(prepared, view, scope, means)
    }

    /// Prepares the mounts of a sandboxed check.
    pub(super) fn fenced(
        &self,
        offer: &SandboxFeatures,
        scratch: &Path,
        (base, layer): (&Base, &Layer),
        view: &View<'_>,
        means: &InstallEnvironment<'_>,
        network: bool,
    ) -> Result<CheckMounts, MissingSupply> {
        let given = self.given(view, base, layer, means)?;
        let mut env = Vec::new();
        let (mut places, mut folders) = (Vec::new(), Vec::new());
        for ready in &given.ready {
            folders.push(self.room()?);
            env.extend(ready.environment(&self.supplies.workspace().join(ready.at()), network));
            places.push(ready.at());
        }
        let origin = if base.id == self.approved { CodeOrigin::Approved } else { CodeOrigin::Passed };
        let builds =
            self.builds.as_ref().filter(|builds| Builds::are_for(view) && builds.work(offer, scratch));
        let loan = builds.and_then(|builds| builds.lend(view, &base.id, origin).ok());
        env.extend(loan.iter().flat_map(Loan::environment));
        Ok(CheckMounts { given, places, folders, loan, env })
    }

    /// Prepares the files of a check in a folder. It gets copies, since nothing keeps it from writing.
    pub(super) fn in_folder(
        &self,
        tree: &Path,
        given: CheckSupplies,
        network: bool,
    ) -> Result<CheckMounts, MissingSupply> {
        let (mut env, mut folders) = (Vec::new(), Vec::new());
        for ready in &given.ready {
            let place = match ready.in_tree() {
                Some(into) => tree.join(into),
                None => {
                    folders.push(self.room()?);
                    let room: &TempDir = &folders[folders.len() - 1];
                    room.path().join(ready.folder.file_name().unwrap_or_default())
                }
            };
            let put = || -> io::Result<()> {
                folder::remove(&place);
                fs::create_dir_all(place.parent().unwrap_or(tree))?;
                folder::copy(&ready.folder, &place)
            };
            put().map_err(MissingSupply::not_placed)?;
            if ready.in_tree().is_some() {
                project_tools::move_programs(&place).map_err(MissingSupply::not_placed)?;
            }
            env.extend(ready.environment(&place, network));
        }
        Ok(CheckMounts { given, places: Vec::new(), folders, loan: None, env })
    }

    /// Creates an empty folder for one check.
    pub(super) fn room(&self) -> Result<TempDir, MissingSupply> {
        let made = folder::make_private(&self.running).and_then(|()| tempfile::tempdir_in(&self.running));
        made.map_err(MissingSupply::not_placed)
    }

    /// Keeps the build caches of a check if that is allowed, and adds to the verdict what was provisioned
    /// again.
    pub(super) fn after(&self, fitted: CheckMounts, layer: &Layer, verdict: Verdict) -> Verdict {
        let may_keep = match (layer.id == self.approved, &verdict.outcome) {
            _ if layer.is_control => None,
            // Only approved files took part, so the result does not matter.
            (true, CheckOutcome::Held | CheckOutcome::Broke { .. }) => Some(CodeOrigin::Approved),
            (false, CheckOutcome::Held) => Some(CodeOrigin::Passed),
            _ => None,
        };
        if let (Some(builds), Some(loan), Some(origin)) = (&self.builds, &fitted.loan, may_keep) {
            // A cache that cannot be kept costs only time.
            let _ = builds.keep(loan, &layer.id, origin);
        }
        Verdict { provisioned: fitted.given.again, ..verdict }
    }
}

impl CheckMounts {
    /// Adds a folder that the check may write; removed with the check.
    pub(super) fn add_place(&mut self, folder: TempDir) {
        self.folders.push(folder);
    }

    /// Returns the folders outside of the tree, for a check in a folder.
    pub(super) fn places(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(TempDir::path)
    }

    /// Returns the folders of programs that provost adds: first the machine's own programs, if there are
    /// any to keep, with their path in the check and on the machine.
    pub(super) fn supplied(&self, machine: Option<(&Path, &Path)>) -> Vec<SuppliedTools> {
        let machine = machine.map(|(at, kept)| SuppliedTools {
            is_python: false,
            programs: at.to_owned(),
            kept: kept.to_owned(),
        });
        machine.into_iter().chain(self.given.supplied()).collect()
    }

    /// Returns the programs that a changed lock file brings and the approved one did not.
    pub(super) fn new_programs(&self) -> Vec<OsString> {
        self.given.new_programs()
    }

    pub(super) fn kept(&self) -> Vec<CheckMount<'_>> {
        let ready = self.given.ready.iter().zip(self.places.iter().zip(&self.folders));
        let given = ready.map(|(ready, (at, folder))| CheckMount {
            at,
            what: What::Layered {
                lowers: std::slice::from_ref(&ready.folder),
                folder: folder.path(),
                writes: MountWrites::Forgotten,
            },
        });
        given.chain(self.loan.iter().flat_map(Loan::kept)).collect()
    }
}
