//! Detects the test runners that a check starts, directly or not, and makes their tests fail on request.
//!
//! A check gets a folder of reporters: one for Python (every interpreter loads it, because the folder is on
//! `PYTHONPATH`), one for node (loaded by `NODE_OPTIONS`), one for Ruby (`RUBYOPT`), one for PHP
//! (`PHP_INI_SCAN_DIR`), and wrappers before the real programs on `PATH`.
//! They write records to a named pipe that provost reads while the check runs. Nothing can be removed from
//! the pipe afterwards, and it needs no disk space.
//!
//! Code under test runs in the process of its runner, so code that knows these reporters can call them or
//! keep them from loading. If a runner was seen before the work and is not seen afterwards, the check does
//! not hold.
//!
//! **Invariant:** a reporter that cannot be created or loaded does not change the check itself.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use provost_core::language::runner::report::RunnerReport;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use tempfile::TempDir;

use super::private_folder;
use crate::process;
use crate::sandbox::CACHES;

const PYTHON: &str = include_str!("reporter/sitecustomize.py");
const NODE: &str = include_str!("reporter/reporter.cjs");
const JEST: &str = include_str!("reporter/jest.cjs");
const VITEST: &str = include_str!("reporter/vitest.mjs");
const NODE_TEST: &str = include_str!("reporter/node_test.mjs");
const RSPEC: &str = include_str!("reporter/rspec.rb");
const PHPUNIT: &str = include_str!("reporter/phpunit.php");
const PHP_INI: &str = "auto_prepend_file = ${PROVOST_PHP}\n";
const GRADLE: &str = include_str!("reporter/init.gradle");
const SHIM: &str = include_str!("reporter/shim.sh");

/// Programs that get a wrapper if they are on `PATH`.
const PROGRAMS: [&str; 35] = [
    "python",
    "python3",
    "python3.8",
    "python3.9",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
    "pypy3",
    "pytest",
    "py.test",
    "coverage",
    "tox",
    "nox",
    "uv",
    "poetry",
    "pipenv",
    "pdm",
    "hatch",
    "node",
    "nodejs",
    "cargo",
    "go",
    "ctest",
    "jest",
    "vitest",
    "mocha",
    // Not `rspec`: `ruby -S` looks for a Ruby script on PATH.
    "ruby",
    "php",
    "phpunit",
    "composer",
    "mvn",
    "gradle",
    "dotnet",
];

/// Most bytes of records that are kept: about 200,000 tests.
const KEPT: usize = 32 * 1024 * 1024;

/// The forced result of a check's tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// Tests run normally.
    #[default]
    AsTheyAre,
    /// Every test fails.
    Fail,
    /// Every test passes.
    Pass,
}

/// The bytes of the pipe, and whether some were dropped.
type Records = (Vec<u8>, bool);

/// The reporters of one run of a check.
pub struct Reporter {
    tools: Arc<TempDir>,
    folder: TempDir,
    control: Control,
    /// Runners run every test, also after a failed one.
    runs_all: bool,
    /// Also `java` has a wrapper.
    wraps_java: bool,
    done: Arc<AtomicBool>,
    wake: File,
    reader: Mutex<Option<JoinHandle<Records>>>,
}

impl Drop for Reporter {
    /// Stops the reader thread.
    fn drop(&mut self) {
        self.stop();
    }
}

/// The two folders of a reporter, as the check sees them.
pub struct Places {
    pub tools: PathBuf,
    pub pipe: PathBuf,
}

impl Places {
    /// Returns their paths inside the sandbox of a check.
    pub fn fenced() -> Self {
        let within = |name: &str| Path::new(CACHES).join(name);
        Self { tools: within("reporters"), pipe: within("report") }
    }
}

impl Reporter {
    /// Prepares the reporters and starts the reader thread. `folders` are those of the check's `PATH`, where
    /// provost can read them.
    pub fn start(folders: &[PathBuf], control: Control, runs_all: bool) -> io::Result<Self> {
        let tools = tools(folders)?;
        let folder = tempfile::Builder::new().prefix("report-").tempdir_in(private_folder()?)?;
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Opened for reading and writing, so that a writer always finds a reader and the reader sees no end
        // of file.
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let pipe = OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(&path)?;
        let (done, wake) = (Arc::new(AtomicBool::new(false)), pipe.try_clone()?);
        let is_done = done.clone();
        let reader =
            std::thread::Builder::new().name("reporter".to_owned()).spawn(move || listen(pipe, &is_done))?;
        let (wraps_java, reader) = (false, Mutex::new(Some(reader)));
        Ok(Self { tools, folder, control, runs_all, wraps_java, done, wake, reader })
    }

    /// Puts a wrapper before `java` too, if the contract calls the wrapper script of gradle or maven. Other
    /// programs may find their Java by the place of `java`.
    pub fn for_contract(mut self, command: &str) -> Self {
        self.wraps_java = ["gradlew", "mvnw"].iter().any(|name| command.contains(name));
        self
    }

    pub fn tools(&self) -> &Path {
        self.tools.path()
    }

    pub fn pipe_folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the paths of both folders without a sandbox.
    pub fn places(&self) -> Places {
        Places { tools: self.tools().to_owned(), pipe: self.pipe_folder().to_owned() }
    }

    /// Returns the variables for the check. `given` is its environment so far; the last entry of a name
    /// counts.
    pub fn environment(&self, places: &Places, given: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let known = |name: &str| {
            let all = given.iter().rev();
            all.into_iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
        };
        let before = |first: OsString, separator: &str, rest: Option<&OsStr>| {
            let mut whole = first;
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                whole.push(separator);
                whole.push(rest);
            }
            whole
        };
        let mut programs = places.tools.join("bin").into_os_string();
        if self.wraps_java {
            programs.push(":");
            programs.push(places.tools.join("java"));
        }
        let mut required = OsString::from("--require=");
        required.push(places.tools.join("reporter.cjs"));
        let mut env: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), before(programs, ":", known("PATH"))),
            ("PYTHONPATH".into(), before(places.tools.join("python").into(), ":", known("PYTHONPATH"))),
            ("PROVOST_REPORT".into(), places.pipe.join("pipe").into()),
            (process::STDOUT.into(), OsString::new()),
            ("PROVOST_PHP".into(), places.tools.join("phpunit.php").into()),
            // An empty name is the folder that PHP was built for.
            (
                "PHP_INI_SCAN_DIR".into(),
                before(
                    known("PHP_INI_SCAN_DIR").unwrap_or_default().to_owned(),
                    ":",
                    Some(places.tools.join("php").as_os_str()),
                ),
            ),
        ];
        if self.runs_all {
            env.push(("PROVOST_TESTS".into(), "all".into()));
        }
        // Entries of NODE_OPTIONS and RUBYOPT are separated by spaces.
        if !places.tools.as_os_str().as_encoded_bytes().contains(&b' ') {
            env.push(("NODE_OPTIONS".into(), before(required, " ", known("NODE_OPTIONS"))));
            let mut required = OsString::from("-r");
            required.push(places.tools.join("rspec.rb"));
            env.push(("RUBYOPT".into(), before(required, " ", known("RUBYOPT"))));
        }
        match self.control {
            Control::AsTheyAre => {}
            Control::Fail => env.push(("PROVOST_CONTROL".into(), "fail".into())),
            Control::Pass => env.push(("PROVOST_CONTROL".into(), "pass".into())),
        }
        env
    }

    /// Returns the records. Call it when every process of the check is dead; `root` is the path of its
    /// tree.
    pub fn finish(&self, root: &Path) -> RunnerReport {
        self.stop();
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (bytes, is_cut) = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
        let mut report = RunnerReport::read(&String::from_utf8_lossy(&bytes), &root.to_string_lossy());
        report.is_cut |= is_cut;
        report
    }

    fn stop(&self) {
        self.done.store(true, Ordering::Release);
        let _ = (&self.wake).write(b"\n");
    }
}

/// Reads until `done` is set and the pipe is empty. The second value is `true` if bytes were dropped.
fn listen(mut pipe: File, done: &AtomicBool) -> (Vec<u8>, bool) {
    let (mut kept, mut is_cut) = (Vec::new(), false);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let is_last = done.load(Ordering::Acquire);
        match pipe.read(&mut buffer) {
            Ok(count) => {
                let room = KEPT - kept.len();
                is_cut |= count > room;
                kept.extend_from_slice(&buffer[..count.min(room)]);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && is_last => return (kept, is_cut),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(&pipe, PollFlags::IN)], None);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return (kept, true),
        }
    }
}

/// Returns the folder of reporters, shared by all checks of this process with the same `PATH`. It is
/// verified before each check, because an unsandboxed agent may have changed it.
fn tools(folders: &[PathBuf]) -> io::Result<Arc<TempDir>> {
    static KNOWN: Mutex<Option<HashMap<OsString, Arc<TempDir>>>> = Mutex::new(None);
    let path = env::join_paths(folders).map_err(io::Error::other)?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(tools) = known.get(&path).filter(|tools| is_as_made(tools.path())) {
        return Ok(tools.clone());
    }
    let made = Arc::new(lay_out(&path)?);
    known.insert(path, made.clone());
    Ok(made)
}

fn lay_out(path: &OsStr) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("reporters-").tempdir_in(private_folder()?)?;
    let at = |name: &str| folder.path().join(name);
    for name in ["bin", "java", "python", "php"] {
        fs::create_dir(at(name))?;
    }
    for (name, text) in files() {
        fs::write(at(name), text)?;
    }
    fs::set_permissions(at("shim.sh"), Permissions::from_mode(0o755))?;
    let is_there = |name: &str| env::split_paths(path).any(|folder| folder.join(name).is_file());
    for name in PROGRAMS.iter().filter(|name| is_there(name)) {
        symlink("../shim.sh", at("bin").join(name))?;
    }
    if is_there("java") {
        symlink("../shim.sh", at("java/java"))?;
    }
    Ok(folder)
}

fn files() -> [(&'static str, &'static str); 10] {
    [
        ("python/sitecustomize.py", PYTHON),
        ("reporter.cjs", NODE),
        ("jest.cjs", JEST),
        ("vitest.mjs", VITEST),
        ("node_test.mjs", NODE_TEST),
        ("rspec.rb", RSPEC),
        ("phpunit.php", PHPUNIT),
        ("php/provost.ini", PHP_INI),
        ("init.gradle", GRADLE),
        ("shim.sh", SHIM),
    ]
}

fn is_as_made(folder: &Path) -> bool {
    let is_same =
        |(name, text): (&str, &str)| fs::read(folder.join(name)).is_ok_and(|own| own == text.as_bytes());
    let is_link = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == Path::new("../shim.sh")))
    };
    let only =
        |name: &str, wanted: usize| fs::read_dir(folder.join(name)).is_ok_and(|own| own.count() == wanted);
    files().into_iter().all(is_same)
        && ["bin", "java"]
            .iter()
            .all(|name| fs::read_dir(folder.join(name)).is_ok_and(|mut entries| entries.all(is_link)))
        && only("python", 1)
        && only("php", 1)
}
