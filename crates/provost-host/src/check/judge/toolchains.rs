//! Finds the folders that programs on `PATH` need, so that a check can see them read-only.
//!
//! A folder of `PATH` is rarely enough: the `node` of a version manager needs the prefix above its `bin`, a
//! virtual environment needs the Python it was made with, a command installed by pipx is a link into
//! another folder. So links and `#!` lines are followed, and for each path that is reached, the smallest
//! folder with a whole installation is taken.
//!
//! **Invariant:** the result contains nothing inside the workspace, and no folder that contains the
//! workspace or the user's home.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Folders that every check sees.
const SYSTEM: [&str; 10] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/nix/store", "/gnu/store"];
/// Folders of programs in an installation.
const BINARIES: [&str; 3] = ["bin", "sbin", "libexec"];
/// Entries beside the folder of programs in an installation.
const BESIDE: [&str; 7] = ["pyvenv.cfg", "lib", "lib64", "libexec", "include", "share", "jmods"];
/// Folders of a home that hold several installations, and private files.
const SHARED: [&str; 5] = [".local", ".local/share", ".config", ".cache", ".cargo"];
/// Most entries of a folder, most links in a row, and most bytes of a file that are looked at.
const ENTRIES: usize = 5_000;
const HOPS: usize = 8;
const LINE: u64 = 512;

/// Paths that no folder of the result may contain.
#[derive(Clone, Copy)]
pub(super) struct ForbiddenPaths<'a> {
    pub workspace: &'a Path,
    pub home: Option<&'a Path>,
}

/// Returns the folders, or single files if no folder fits, that a check needs for the programs in `path`.
/// `more` are folders that are needed whole.
pub(super) fn folders(path: &[PathBuf], more: &[PathBuf], outside: ForbiddenPaths<'_>) -> Vec<PathBuf> {
    let mut search = Search { outside, found: more.iter().cloned().collect(), looked: BTreeSet::new() };
    for folder in path {
        search.programs(folder);
    }
    let mut places: Vec<PathBuf> = search.found.into_iter().filter(|place| !is_system(place)).collect();
    // The list is sorted, so a path inside another follows it and is dropped. Paths are compared as text,
    // so a link and its target both stay.
    places.dedup_by(|inner, outer| inner.starts_with(&*outer));
    places
}

/// Returns the folder of the workspace that must be copied for checks to use the programs in `folder`: a
/// virtual environment, or the packages of node.
pub(super) fn kept_in_workspace(folder: &Path, workspace: &Path) -> Option<PathBuf> {
    let prefix = folder.parent()?;
    let is_environment = folder.ends_with("bin") && prefix.join("pyvenv.cfg").is_file();
    let is_packages = folder.ends_with("node_modules/.bin");
    if !(is_environment || is_packages) || !folder.is_dir() {
        return None;
    }
    let within = prefix.strip_prefix(workspace).ok()?;
    is_plain(within).then(|| within.to_path_buf())
}

/// Returns whether this is the path of a folder below another one.
pub(super) fn is_plain(within: &Path) -> bool {
    let is_name = |part| matches!(part, Component::Normal(_));
    !within.as_os_str().is_empty() && within.components().all(is_name)
}

struct Search<'a> {
    outside: ForbiddenPaths<'a>,
    found: BTreeSet<PathBuf>,
    looked: BTreeSet<PathBuf>,
}

impl Search<'_> {
    /// Adds a folder of programs, and everything that its entries need.
    fn programs(&mut self, folder: &Path) {
        if !self.looked.insert(folder.to_path_buf()) {
            return;
        }
        if !is_system(folder) {
            let prefix = self.installation(folder);
            self.take(prefix);
            if let Ok(real) = folder.canonicalize() {
                let prefix = self.installation(&real);
                self.take(prefix);
            }
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES);
        for entry in entries {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_symlink() {
                self.link(&entry.path());
            } else if kind.is_file() && !is_system(folder) {
                self.interpreter(&entry.path());
            }
        }
    }

    /// Adds every path that a link leads through.
    fn link(&mut self, link: &Path) {
        let mut at = link.to_path_buf();
        for _ in 0..HOPS {
            let Ok(target) = fs::read_link(&at) else { break };
            let Some(next) = at.parent().and_then(|folder| followed(folder, &target)) else { break };
            if is_system(&next) && is_system(&at) {
                at = next;
                continue;
            }
            self.file(&next);
            at = next;
        }
        if let Ok(real) = at.canonicalize() {
            self.file(&real);
        }
    }

    /// Adds a program.
    fn file(&mut self, program: &Path) {
        if is_system(program)
            || !program.exists()
            || self.found.iter().any(|place| program.starts_with(place))
        {
            return;
        }
        let Some(folder) = program.parent() else { return };
        let place = self.installation(folder);
        match self.is_too_wide(&place) || is_top(&place) {
            true => self.take(program.to_path_buf()),
            false => self.take(place),
        }
        if program.is_file() && !program.is_symlink() {
            self.interpreter(program);
        }
    }

    /// Adds the interpreter of a script.
    fn interpreter(&mut self, script: &Path) {
        let Some(interpreter) = first_word_after_shebang(script) else { return };
        if interpreter.is_absolute() && !is_system(&interpreter) {
            self.file(&interpreter);
            self.link(&interpreter);
        }
    }

    fn take(&mut self, place: PathBuf) {
        if self.is_too_wide(&place) || is_system(&place) || !self.found.insert(place.clone()) {
            return;
        }
        // A virtual environment names the folder of the Python it was made with.
        let settings = fs::read_to_string(place.join("pyvenv.cfg")).unwrap_or_default();
        let lines = settings.lines().filter_map(|line| line.split_once('='));
        let homes =
            lines.filter(|(name, _)| name.trim() == "home").map(|(_, home)| PathBuf::from(home.trim()));
        for home in homes.filter(|home| home.is_absolute() && home.is_dir()).collect::<Vec<_>>() {
            self.programs_of_base(&home);
        }
        for program in ["python", "python3"].map(|name| place.join("bin").join(name)) {
            if program.is_symlink() && !settings.is_empty() {
                self.link(&program);
            }
        }
    }

    fn programs_of_base(&mut self, folder: &Path) {
        if is_system(folder) {
            return;
        }
        for folder in [Some(folder.to_path_buf()), folder.canonicalize().ok()].into_iter().flatten() {
            let prefix = self.installation(&folder);
            self.take(prefix);
        }
    }

    /// Returns the whole installation that a folder of programs belongs to, or else the folder itself.
    fn installation(&self, folder: &Path) -> PathBuf {
        let Some(prefix) = folder.parent() else { return folder.to_path_buf() };
        let is_binaries = BINARIES.iter().any(|name| folder.ends_with(name));
        let is_whole = is_binaries && BESIDE.iter().any(|name| prefix.join(name).exists())
            || folder.ends_with("node_modules/.bin");
        match is_whole && !self.is_too_wide(prefix) && !is_top(prefix) {
            true => prefix.to_path_buf(),
            false => folder.to_path_buf(),
        }
    }

    fn is_too_wide(&self, place: &Path) -> bool {
        let ForbiddenPaths { workspace, home } = self.outside;
        let holds = |path: &Path| path.starts_with(place);
        let is_shared = home.is_some_and(|home| SHARED.iter().any(|name| home.join(name) == place));
        holds(workspace) || place.starts_with(workspace) || home.is_some_and(holds) || is_shared
    }
}

/// Returns whether a path is a top folder such as `/opt`, which holds many installations.
fn is_top(place: &Path) -> bool {
    place.components().count() <= 2
}

/// Returns whether every check sees this path.
pub(super) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Returns the target of a link in `folder`, with `..` resolved.
fn followed(folder: &Path, target: &Path) -> Option<PathBuf> {
    if target.is_absolute() && !target.components().any(|part| part == Component::ParentDir) {
        return Some(target.to_path_buf());
    }
    let joined = folder.canonicalize().ok()?.join(target);
    let mut plain = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::ParentDir => {
                plain = plain.canonicalize().unwrap_or(plain);
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    Some(plain)
}

fn first_word_after_shebang(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(LINE).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let word = line.split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use super::{ForbiddenPaths, folders, kept_in_workspace};

    /// Creates an empty folder for a test's home.
    fn home() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a real path");
        (folder, root)
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn names(root: &Path, path: &[&str]) -> Vec<String> {
        let home = root.join("home");
        let path: Vec<PathBuf> = path.iter().map(|name| root.join(name)).collect();
        let outside = ForbiddenPaths { workspace: &root.join("home/code"), home: Some(&home) };
        let found = folders(&path, &[], outside);
        let within = |place: &PathBuf| place.strip_prefix(root).map(|name| name.display().to_string());
        found.iter().filter_map(|place| within(place).ok()).collect()
    }

    #[test]
    fn a_version_manager_s_program_brings_its_whole_prefix() {
        let (_folder, root) = home();
        write(&root.join("home/.nvm/versions/node/v20/bin/node"), "");
        write(&root.join("home/.nvm/versions/node/v20/lib/node_modules/npm/cli.js"), "");
        assert_eq!(names(&root, &["home/.nvm/versions/node/v20/bin"]), ["home/.nvm/versions/node/v20"]);
    }

    #[test]
    fn a_virtual_environment_brings_the_python_it_was_made_with() {
        let (_folder, root) = home();
        let python = root.join("opt/python/3.12/bin/python3.12");
        write(&python, "");
        write(&root.join("opt/python/3.12/lib/python3.12/os.py"), "");
        let venv = root.join("home/venvs/x");
        write(&venv.join("pyvenv.cfg"), &format!("home = {}\n", python.parent().unwrap().display()));
        fs::create_dir_all(venv.join("bin")).unwrap();
        symlink(&python, venv.join("bin/python")).unwrap();
        assert_eq!(names(&root, &["home/venvs/x/bin"]), ["home/venvs/x", "opt/python/3.12"]);
    }

    #[test]
    fn a_linked_command_brings_where_it_leads_and_a_script_its_interpreter_but_never_all_of_local() {
        let (_folder, root) = home();
        let venv = root.join("home/.local/share/pipx/venvs/black");
        write(&venv.join("pyvenv.cfg"), "home = /usr/bin\n");
        write(&venv.join("bin/black"), "#!/usr/bin/python3\n");
        fs::create_dir_all(root.join("home/.local/bin")).unwrap();
        symlink(venv.join("bin/black"), root.join("home/.local/bin/black")).unwrap();
        write(&root.join("home/.local/share/keyrings/login"), "secret");
        let python = root.join("opt/tools/py/bin/python");
        write(&python, "");
        write(&root.join("opt/tools/py/lib/x"), "");
        write(&root.join("home/.local/bin/tool"), &format!("#!{}\nprint()\n", python.display()));
        let expected = ["home/.local/bin", "home/.local/share/pipx/venvs/black", "opt/tools/py"];
        assert_eq!(names(&root, &["home/.local/bin"]), expected);
    }

    #[test]
    fn a_link_that_leads_through_another_is_seen_by_both_names() {
        let (_folder, root) = home();
        write(&root.join("opt/java/21/bin/java"), "");
        write(&root.join("opt/java/21/lib/modules"), "");
        symlink("21", root.join("opt/java/current")).unwrap();
        assert_eq!(names(&root, &["opt/java/current/bin"]), ["opt/java/21", "opt/java/current"]);
    }

    #[test]
    fn neither_the_home_nor_the_workspace_is_shown_as_a_tool() {
        let (_folder, root) = home();
        write(&root.join("home/bin/tool"), "");
        write(&root.join("home/lib/x"), "");
        write(&root.join("home/code/.venv/pyvenv.cfg"), "home = /usr/bin\n");
        write(&root.join("home/code/.venv/bin/pytest"), "");
        write(&root.join("home/code/src/bin/tool"), "");
        assert_eq!(names(&root, &["home/bin", "home/code/.venv/bin"]), ["home/bin"]);
        let kept = |name: &str| kept_in_workspace(&root.join(name), &root.join("home/code"));
        assert_eq!(kept("home/code/.venv/bin"), Some(PathBuf::from(".venv")));
        assert_eq!(kept("home/code/src/bin"), None);
        assert_eq!(kept("home/bin"), None);
    }
}
