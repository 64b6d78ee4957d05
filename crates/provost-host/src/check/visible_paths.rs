//! Decides which paths of the machine a check can see.
//!
//! At `clean` a check sees the system's folders, its tree at the workspace's path, the folders that `PATH`
//! needs and those that the configuration declares. Its `/tmp`, `/run` and home are its own and empty. A
//! path that exists but cannot be seen must not count as missing, so a check that names one is not run.

use std::path::{Component, Path, PathBuf};

use provost_core::language::shell::OuterPath;

use crate::check::judge::CheckTools;
use crate::config::Folders;

/// Folders that every check sees.
const SYSTEM: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/nix/store",
    "/gnu/store",
    "/proc",
];
/// Devices that every check sees.
const DEVICES: [&str; 12] =
    ["null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout", "stderr", "pts", "ptmx"];
/// Folders of the check's own, empty at its start; the check may create anything in them.
const OWN: [&str; 5] = ["/tmp", "/var/tmp", "/run", "/var/run", "/dev/shm"];

/// The paths that the checks of a workspace see.
#[derive(Clone, Debug)]
pub struct VisiblePaths {
    workspace: PathBuf,
    shown: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl VisiblePaths {
    pub fn of_checks(tools: &CheckTools, folders: &Folders) -> Self {
        let shown = tools.folders().iter().cloned();
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        Self {
            workspace: tools.workspace().to_path_buf(),
            shown: shown.chain(folders.all().map(Path::to_path_buf)).collect(),
            home,
        }
    }

    /// Adds a visible path.
    pub fn also(mut self, place: &str) -> Self {
        self.shown.push(PathBuf::from(place));
        self
    }

    /// Returns the real path, if it exists on this machine and a check cannot see it.
    pub fn hides(&self, named: &OuterPath) -> Option<PathBuf> {
        self.hidden_place(&named.path, named.looked_at).filter(|path| path.symlink_metadata().is_ok())
    }

    /// Returns the same answer before the work is done; the path may also be created later, in a folder
    /// that exists.
    pub fn would_hide(&self, path: &str, looked_at: bool) -> bool {
        let Some(place) = self.hidden_place(path, looked_at) else { return false };
        // The folder from which a relative path starts is not certain.
        let folder =
            place.parent().filter(|folder| folder.components().count() > 1 && !path.starts_with(".."));
        place.symlink_metadata().is_ok() || folder.is_some_and(|folder| folder.is_dir() && !is_own(folder))
    }

    fn hidden_place(&self, path: &str, looked_at: bool) -> Option<PathBuf> {
        let (place, is_home) = match path.strip_prefix('~') {
            Some(rest) => (plain(&self.home.as_ref()?.join(rest.trim_start_matches('/'))), true),
            None => (plain(&self.workspace.join(path)), false),
        };
        if place.starts_with(&self.workspace) || self.shown.iter().any(|shown| place.starts_with(shown)) {
            // Written with `~`, it would be searched in the check's own home.
            return is_home.then_some(place).filter(|_| looked_at);
        }
        if is_home || is_own(&place) {
            return looked_at.then_some(place);
        }
        let is_system = SYSTEM.iter().any(|system| place.starts_with(system));
        let is_device = place.strip_prefix("/dev").is_ok_and(|within| {
            within
                .components()
                .next()
                .is_none_or(|first| DEVICES.iter().any(|device| first == Component::Normal(device.as_ref())))
        });
        (!is_system && !is_device).then_some(place)
    }
}

fn is_own(place: &Path) -> bool {
    OWN.iter().any(|own| place.starts_with(own))
}

/// Removes `.` and `..` lexically.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use provost_core::language::shell::outer_paths;

    use super::VisiblePaths;
    use crate::check::judge::CheckTools;
    use crate::config::Folders;

    #[test]
    fn what_is_here_and_cannot_be_seen_is_named_and_all_else_is_not() {
        let folder = tempfile::tempdir_in("/var").or_else(|_| tempfile::tempdir());
        let folder = folder.expect("a folder");
        let here = folder.path().join("here");
        std::fs::write(&here, "").expect("a file");
        let hides = |text: &str, read: &[&Path]| {
            let folders =
                Folders { read: read.iter().map(|path| path.to_path_buf()).collect(), write: vec![] };
            let sight = VisiblePaths::of_checks(&CheckTools::of_person(Path::new("/work-space")), &folders);
            outer_paths(text).iter().any(|path| sight.hides(path).is_some())
        };
        let test = format!("test ! -e {}", here.display());
        assert!(hides(&test, &[]));
        assert!(!hides(&test, &[folder.path()]), "declared");
        assert!(!hides(&format!("{test}-not"), &[]), "absent");
        for seen in ["test -d /usr/bin", "cat /etc/passwd > /dev/null", "ls /proc/self", "ls /work-space/x"] {
            assert!(!hides(seen, &[]), "{seen}");
        }
        let beside = folder.path().join("project");
        let sight = VisiblePaths::of_checks(&CheckTools::of_person(&beside), &Folders::default());
        let leaves = |text: &str| outer_paths(text).iter().any(|path| sight.hides(path).is_some());
        assert!(leaves("test ! -e ../here") && leaves("cd a && test ! -e ../../here"));
        assert!(!leaves("test ! -e ../not-here") && !leaves("cd a && test ! -e ../b"));
        let own = tempfile::NamedTempFile::new_in("/tmp").expect("a file");
        let own = own.path().display();
        assert!(hides(&format!("test ! -e {own}"), &[]), "it only looks there");
        assert!(!hides(&format!("./run > {own} && grep ok {own}"), &[]), "it makes it itself");
    }
}
