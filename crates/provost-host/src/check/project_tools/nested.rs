//! Finds the environments of projects in folders of a workspace, as a monorepo has them.

use std::fs;
use std::path::{Path, PathBuf};

use super::VIRTUAL;

/// Deepest folder of a project, counted from the workspace.
const DEPTH_MAX: usize = 4;
/// Most folders that are read.
const FOLDERS_MAX: usize = 10_000;
const PACKAGES: &str = "node_modules";
/// Folders that hold no project: results of builds and copies of other projects.
const SKIPPED: [&str; 8] = [PACKAGES, "target", "vendor", "venv", "dist", "build", "coverage", "__pycache__"];

/// Returns the environments below the folders of a workspace, relative to it and sorted: virtual
/// environments, and packages of node beside their `package.json`. Those at the top are not among them.
pub(crate) fn below(workspace: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = folders_in(workspace, Path::new(""));
    let mut looked = 0;
    for _ in 0..DEPTH_MAX {
        let mut next = Vec::new();
        for folder in folders {
            looked += 1;
            if looked > FOLDERS_MAX {
                break;
            }
            let place = workspace.join(&folder);
            let is_virtual = |name: &&&str| place.join(name).join("pyvenv.cfg").is_file();
            found.extend(VIRTUAL.iter().filter(is_virtual).map(|name| folder.join(name)));
            if place.join("package.json").is_file() && place.join(PACKAGES).is_dir() {
                found.push(folder.join(PACKAGES));
            }
            next.extend(folders_in(workspace, &folder));
        }
        folders = next;
    }
    found.sort();
    found
}

/// Returns the folders in a folder that may hold projects. Links are not followed.
fn folders_in(workspace: &Path, folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace.join(folder)).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| !name.starts_with('.') && !SKIPPED.contains(&name.as_str()));
    let mut paths: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn projects_in_folders_have_their_own_environments() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        for path in [
            ".venv/pyvenv.cfg",
            "backend/.venv/pyvenv.cfg",
            "packages/web/package.json",
            "packages/web/node_modules/.bin/jest",
            "packages/web/node_modules/jest/package.json",
            "packages/web/node_modules/jest/node_modules/x/index.js",
            "lib/node_modules/x/index.js",
            "target/copy/.venv/pyvenv.cfg",
        ] {
            write(path);
        }
        let found: Vec<_> = below(folder.path()).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(found, ["backend/.venv", "packages/web/node_modules"]);
    }
}
