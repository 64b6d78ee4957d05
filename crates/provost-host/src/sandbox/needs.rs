//! Finds what an agent's program needs besides the system's folders, its home and its workspace.
//!
//! There are four sources: `PATH`, the other variables of its environment, its own command line, and
//! symbolic links on the path to any of these. A person wrote all of them before the agent ran.
//!
//! **Invariant:** no text that an agent could have written is used: the prompt is not part of the command.
//! **Invariant:** only folders and regular files can be needed, never a socket or a pipe.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Paths that an agent sees in addition to what every agent sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentPaths {
    /// Readable, at their own paths.
    pub read: BTreeSet<PathBuf>,
    /// Files the program is started from: an earlier attempt must not have changed them.
    pub program: BTreeSet<PathBuf>,
    /// The person's temporary folders: the agent gets its own, empty folders there.
    pub temporary: BTreeSet<PathBuf>,
    /// Symbolic links on the path, and their targets.
    pub links: BTreeSet<(PathBuf, PathBuf)>,
}

/// No additional paths.
pub const NO_NEEDS: &AgentPaths = &AgentPaths {
    read: BTreeSet::new(),
    program: BTreeSet::new(),
    temporary: BTreeSet::new(),
    links: BTreeSet::new(),
};

const TEMPORARY: [&str; 4] = ["TMPDIR", "TMP", "TEMP", "TEMPDIR"];
/// Variables that do not name a tool: the person's current folders, and places of session sockets.
const NO_TOOLS: [&str; 5] = ["HOME", "PWD", "OLDPWD", "XDG_RUNTIME_DIR", "MAIL"];
/// Folders beside a folder of programs, used if their parent holds too much.
const LIBRARIES: [&str; 5] = ["lib", "lib64", "libexec", "include", "share"];
/// Programs that are often links into the installation they belong to.
const INTERPRETERS: [&str; 5] = ["python3", "python", "node", "ruby", "java"];
/// Folders that many programs share: never added as a whole.
const SHARED: [&str; 9] =
    ["/tmp", "/var/tmp", "/run", "/home", "/var/lib", "/var/cache", "/usr", "/etc", "/dev/shm"];

/// A program with its command line, as the person configured it.
#[derive(Clone, Copy, Debug)]
pub struct CommandLine<'a> {
    pub program: &'a OsStr,
    pub args: &'a [OsString],
    /// The working folder.
    pub folder: &'a Path,
    pub environment: &'a [(OsString, OsString)],
}

impl AgentPaths {
    pub fn from_command(command: &CommandLine<'_>) -> Self {
        let mut needs = Self::default();
        let home = variable(command.environment, "HOME").map(PathBuf::from);
        for (name, value) in command.environment {
            let name = name.to_string_lossy();
            if TEMPORARY.contains(&name.as_ref()) {
                let place = Path::new(value).canonicalize().ok();
                needs.temporary.extend(place.filter(|path| path.is_dir() && !is_shared(path)));
                needs.add_links(Path::new(value));
            } else if name == "PATH" {
                env::split_paths(value).for_each(|folder| needs.add_programs(&folder));
            } else if !NO_TOOLS.contains(&name.as_ref()) {
                env::split_paths(value).for_each(|path| needs.add(&path));
            }
        }
        if let Some(program) = find_program(command.program, command.folder, command.environment) {
            needs.add_program(&program);
        }
        for word in command.args.iter().flat_map(|arg| paths_in(arg)) {
            needs.add_file(&word);
        }
        for path in [Some(command.folder.to_path_buf()), home].into_iter().flatten() {
            needs.add_links(&path);
        }
        needs
    }

    /// Adds a folder or a regular file by its real path.
    fn add(&mut self, path: &Path) {
        if !is_plain(path) || is_shared(path) {
            return;
        }
        let Ok(real) = path.canonicalize() else { return };
        if is_shared(&real) || !fs::metadata(&real).is_ok_and(|found| found.is_dir() || found.is_file()) {
            return;
        }
        self.add_links(path);
        self.read.insert(real);
    }

    /// Adds a file and its folder: a script reads the files beside it.
    fn add_file(&mut self, path: &Path) {
        self.add(path);
        if let Some(folder) = path.parent().filter(|_| path.is_file()) {
            self.add(folder);
        }
    }

    /// Adds a folder of programs, with the libraries of the installation it belongs to.
    fn add_programs(&mut self, folder: &Path) {
        if !folder.is_absolute() || !folder.is_dir() {
            return;
        }
        self.add_installation(folder);
        for name in INTERPRETERS {
            let program = folder.join(name);
            if let (true, Ok(real)) = (program.is_symlink(), program.canonicalize()) {
                real.parent().into_iter().for_each(|folder| self.add_installation(folder));
            }
        }
    }

    fn add_installation(&mut self, folder: &Path) {
        self.add(folder);
        let is_programs = ["bin", "sbin", "shims"].iter().any(|name| folder.ends_with(name));
        let Some(parent) = folder.parent().filter(|_| is_programs) else { return };
        match is_shared(parent) {
            true => LIBRARIES.iter().for_each(|name| self.add(&parent.join(name))),
            false => self.add(parent),
        }
    }

    fn add_program(&mut self, program: &Path) {
        self.add_file(program);
        let Ok(real) = program.canonicalize() else { return };
        self.add_file(&real);
        self.add_packages(program);
        self.add_packages(&real);
        self.program.insert(real.clone());
        let Some(interpreter) = interpreter(&real) else { return };
        // A script is usually part of a package.
        self.program.extend(real.parent().filter(|folder| !is_shared(folder)).map(Path::to_path_buf));
        self.add(&interpreter);
        let folders = [interpreter.clone()].into_iter().chain(interpreter.canonicalize());
        for folder in folders.filter_map(|path| path.parent().map(Path::to_path_buf)) {
            self.add_installation(&folder);
        }
    }

    /// Adds the folder of packages in which a program is installed: the program loads other packages from
    /// it.
    fn add_packages(&mut self, program: &Path) {
        let packages = program.ancestors().filter(|folder| folder.ends_with("node_modules"));
        packages.last().into_iter().for_each(|folder| self.add(folder));
        program.parent().into_iter().for_each(|folder| self.add_installation(folder));
    }

    /// Adds each symbolic link on the path, and those on the path to its target.
    fn add_links(&mut self, path: &Path) {
        let mut at = PathBuf::new();
        for part in path.components() {
            at.push(part);
            let Ok(target) = fs::read_link(&at) else { continue };
            if self.links.insert((at.clone(), target.clone())) {
                let rest = path.strip_prefix(&at).unwrap_or(Path::new(""));
                self.add_links(&at.parent().unwrap_or(Path::new("/")).join(target).join(rest));
            }
            return;
        }
    }
}

/// Returns the path of the program that this name starts.
pub fn find_program(program: &OsStr, folder: &Path, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(folder.join(program)).filter(|path| path.exists());
    }
    let path = variable(environment, "PATH")?;
    env::split_paths(path).map(|entry| folder.join(entry).join(program)).find(|path| path.is_file())
}

fn variable<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsString> {
    environment.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// Returns whether the path is absolute and has no `..`.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

/// Returns true for the root, a folder directly below it, and folders that many programs share.
fn is_shared(path: &Path) -> bool {
    path.components().count() <= 2 || SHARED.iter().any(|shared| Path::new(shared) == path)
}

/// Returns the absolute paths in an argument that exist; the argument may be a shell command line.
fn paths_in(arg: &OsStr) -> Vec<PathBuf> {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"'\"`;&|<>()=,".contains(byte);
    let whole = [arg.as_bytes()].into_iter();
    let words = whole.chain(arg.as_bytes().split(ends)).filter(|word| word.starts_with(b"/"));
    words.map(|word| PathBuf::from(OsStr::from_bytes(word))).filter(|path| path.exists()).collect()
}

/// Returns the interpreter that the first line of a script names.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    fs::File::open(script).ok()?.take(512).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(PathBuf::from(OsStr::from_bytes(word))).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::{AgentPaths, CommandLine};

    #[test]
    fn a_command_needs_its_program_its_scripts_and_what_its_variables_name() {
        let place = tempfile::tempdir().expect("a folder");
        let at = |name: &str| place.path().canonicalize().expect("a place").join(name);
        for folder in ["tools/bin", "tools/lib", "scripts", "work", "jdk", "tmp"] {
            fs::create_dir_all(at(folder)).expect("a folder");
        }
        fs::write(at("tools/bin/agent"), "#!/bin/sh\n").expect("a program");
        fs::set_permissions(at("tools/bin/agent"), fs::Permissions::from_mode(0o755)).expect("a mode");
        fs::write(at("scripts/agent.sh"), "").expect("a script");
        symlink(at("tools"), at("link")).expect("a link");
        let variables = [
            ("PATH", at("link/bin").into_os_string()),
            ("JAVA_HOME", at("jdk").into_os_string()),
            ("OLDPWD", at("elsewhere").into_os_string()),
            ("TMPDIR", at("tmp").into_os_string()),
        ];
        let line = format!("cat >/dev/null; . {}", at("scripts/agent.sh").display());
        let needs = AgentPaths::from_command(&CommandLine {
            program: "agent".as_ref(),
            args: &["-c".into(), line.into()],
            folder: &at("work"),
            environment: &variables.map(|(name, value)| (name.into(), value)),
        });
        for needed in ["tools", "tools/bin/agent", "scripts", "scripts/agent.sh", "jdk"] {
            assert!(needs.read.contains(&at(needed)), "{needed}: {needs:?}");
        }
        assert!(!needs.read.contains(&at("work")) && !needs.read.contains(place.path()), "{needs:?}");
        assert!(needs.temporary.contains(&at("tmp")), "{needs:?}");
        assert!(needs.links.contains(&(at("link"), at("tools"))), "{needs:?}");
        assert!(needs.program.contains(&at("tools/bin/agent")), "{needs:?}");
    }
}
