//! Prepares what an agent may access besides its workspace, for one attempt: its model, the repository, its
//! home.
//!
//! The run policy has a word for each; this module turns them into a proxy, mounts and folders, and into
//! notes for people.
//!
//! **Invariant:** nothing here weakens the sandbox: if something cannot be prepared, that is an error and
//! the attempt does not begin.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;
use provost_core::model::plan::{AgentNetwork, GitPolicy};
use provost_core::model::run_policy::{AgentAccess, HomeAccess};

use crate::config::Folders;
use crate::egress::proxy::{Address, AllowedHosts, Proxy, Upstream};
use crate::sandbox::{ForwarderMount, Outlet, SandboxFeatures};
use crate::tree;

mod layer;
mod repository;

pub use layer::HomeLayer;
pub use repository::{RepositoryMounts, WorkspaceRepository};

/// The access that an attempt is granted.
#[derive(Clone, Copy, Debug)]
pub struct Grant<'a> {
    pub role: &'a str,
    pub reach: AgentAccess,
    /// Paths outside of the workspace that the configuration declares.
    pub folders: Option<&'a Folders>,
    /// Addresses that count as the model's, besides the well-known ones.
    pub api: &'a [String],
    /// The command that starts the sandbox forwarder.
    pub launcher: &'a [OsString],
    /// Address of the metering proxy, if the role is metered; then the only way to the model.
    pub meter: Option<SocketAddr>,
}

/// The paths that are needed to prepare it.
#[derive(Clone, Copy, Debug)]
pub struct AccessPaths<'a> {
    pub workspace: &'a Path,
    pub state: &'a Path,
    pub scratch: &'a Path,
    /// The repository as it was before any agent ran.
    pub repository: &'a WorkspaceRepository,
    /// The clone of this run, if one is needed and there is a commit to clone.
    pub clone: Option<&'a Path>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("provost could not open the proxy to the model")]
    Proxy { source: io::Error },
    #[error("provost could not make the agent's layer over your home at {}", .path.display())]
    Layer { path: PathBuf, source: io::Error },
    #[error("provost could not protect the repository at {}", .path.display())]
    Guard { path: PathBuf, source: io::Error },
    #[error("provost could not clone the repository for the agent")]
    Clone { source: tree::Error },
}

/// The prepared access; it ends with the attempt.
pub struct PreparedAccess<'a> {
    launcher: &'a [OsString],
    network: AgentNetwork,
    proxy: Option<Proxy>,
    direct: Vec<String>,
    pub layer: Option<HomeLayer>,
    pub sight: RepositoryMounts,
    notes: Vec<String>,
}

impl<'a> PreparedAccess<'a> {
    pub fn make(
        offer: &SandboxFeatures,
        grant: &Grant<'a>,
        place: &AccessPaths<'_>,
        environment: &[(OsString, OsString)],
    ) -> Result<Self, Error> {
        let allowed = match grant.meter {
            Some(meter) => AllowedHosts::only(meter, grant.api),
            None => AllowedHosts::new(environment, grant.api),
        };
        let direct = allowed.loopback().map(Address::to_string).collect();
        let proxy = match grant.reach.network {
            AgentNetwork::Model => {
                let opened = Proxy::open(place.scratch, allowed, Upstream::of(environment));
                Some(opened.map_err(|source| Error::Proxy { source })?)
            }
            AgentNetwork::On | AgentNetwork::Off => None,
        };
        let mut notes = Vec::new();
        let layer = match (grant.reach.home, &offer.overlay) {
            (HomeAccess::Shared, _) => None,
            (HomeAccess::Private, overlay) => {
                if let Err(missing) = overlay {
                    notes.push(format!("the agent could not write to its home: {}", missing.why));
                }
                let workspace = Hash::of(place.workspace.as_os_str().as_encoded_bytes()).to_string();
                let homes = place.state.join("homes").join(&workspace[..16]);
                let made = HomeLayer::take(&homes, grant.role);
                Some(made.map_err(|source| Error::Layer { path: homes, source })?)
            }
        };
        let sight = match grant.reach.git {
            GitPolicy::Shared => place.repository.shared()?,
            GitPolicy::None => place.repository.hidden(),
            GitPolicy::Clone => match place.clone {
                Some(clone) => place.repository.instead(clone, place.scratch)?,
                // Without a commit there is nothing to clone.
                None => place.repository.hidden(),
            },
        };
        let network = grant.reach.network;
        Ok(Self { launcher: grant.launcher, network, proxy, direct, layer, sight, notes })
    }

    pub fn outlet(&self) -> Outlet<'_> {
        match (&self.proxy, self.network) {
            (Some(proxy), _) => Outlet::Portal(ForwarderMount {
                launcher: self.launcher,
                folder: proxy.folder(),
                direct: &self.direct,
            }),
            (None, AgentNetwork::On) => Outlet::On,
            (None, AgentNetwork::Off | AgentNetwork::Model) => Outlet::Off,
        }
    }

    /// Ends the access and returns notes for people.
    pub fn close(self) -> Vec<String> {
        let mut notes = self.notes;
        let refused = self.proxy.map(Proxy::close).unwrap_or_default();
        if !refused.is_empty() {
            notes.push(format!("blocked by the proxy: {}", refused.join(", ")));
        }
        notes.extend(self.sight.restore());
        notes
    }
}
