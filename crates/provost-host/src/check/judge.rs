//! Runs a contract and returns its verdict. Nothing else makes a verdict.
//!
//! A check is a separate process, with an environment that the agent could not influence. The caller
//! chooses where it runs: in the workspace itself, or on provost's own tree, sandboxed or not. Only two
//! things decide: the exit status that provost waited for, and the output that provost read itself, after
//! every process of the check is dead.
//!
//! **Invariant:** a check never holds if it left a process running or if its sandbox failed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::language::runner::report::RunnerReport;
use provost_core::language::{inconclusive_failure, runner};
use provost_core::model::plan::{Shell, Stream};
use provost_core::model::verdict::{CheckOutcome, Isolation, Verdict};
use provost_core::rules::recover::environment;
use rustix::process::Signal;

use self::expected::{Expectations, Expected, crash_signal, unmet_by};
use self::reporter::Reporter;
use crate::process::{Bounds, Enclosure, HeadAndTail, How, Output, ProcessEnd, Spawn, StartError};
use crate::sandbox::{CheckFence, Confines, Processes, SandboxFeatures, SandboxedCommand, Unavailable};
use crate::{Interrupted, process, sandbox};

mod check_tools;
mod expected;
mod libraries;
mod missing;
pub mod reporter;
mod single_tests;
mod temp_folders;
mod surroundings;
mod toolchains;

pub use check_tools::{CheckTools, SuppliedTools, kept_in_workspace};
use surroundings::Surroundings;
pub use surroundings::bash;
pub use temp_folders::{leave, private_folder};

/// The part of an output in which expectations are searched; a text in the cut middle is not found.
const KEEP: HeadAndTail = HeadAndTail { head: 15 * 1024 * 1024, tail: 1024 * 1024 };
/// Time between the request to end and the kill of a check's processes.
const GRACE: Duration = Duration::from_millis(500);
/// Longest output that is kept whole, in bytes; a longer one loses its middle.
pub const OUTPUT_MAX: u64 = 16 * 1024 * 1024;
const EXCERPT_OF_FAILURE: usize = 8 * 1024;
const EXCERPT_OF_SUCCESS: usize = 1024;

/// The tree that a check runs on, and its sandbox.
#[derive(Clone, Copy)]
pub enum CheckRoot<'a> {
    /// The workspace itself, as the agent left it.
    Workspace,
    /// provost's own tree, without a sandbox.
    Folder(&'a Path),
    /// provost's own tree, in a sandbox without namespaces.
    Confined { folder: &'a Path, confines: &'a Confines<'a> },
    /// provost's own tree, in bubblewrap.
    Fenced { offer: &'a SandboxFeatures, fence: CheckFence<'a> },
}

impl CheckRoot<'_> {
    /// Returns whether a verdict may claim this isolation level.
    fn is_worth(&self, isolation: Isolation) -> bool {
        match self {
            CheckRoot::Workspace => matches!(isolation, Isolation::InPlace | Isolation::None),
            CheckRoot::Folder(_) => isolation == Isolation::GuardClean,
            CheckRoot::Confined { .. } => isolation == Isolation::Landlock,
            CheckRoot::Fenced { .. } => isolation == Isolation::Clean,
        }
    }
}

/// A check request: where and how a contract is judged.
pub struct CheckRequest<'a> {
    /// The agent's workspace.
    pub workspace: &'a Path,
    /// How its programs are found, made before any agent ran.
    pub tools: &'a CheckTools,
    /// Environments that provost installed into its tree.
    pub supplied: &'a [SuppliedTools],
    pub ground: CheckRoot<'a>,
    pub timeout: Duration,
    pub tag: &'a str,
    pub stop: Option<&'a AtomicBool>,
    /// Variables that lead the check's tools to the provisioned dependencies, and those of the reporters.
    pub env: &'a [(OsString, OsString)],
    /// The isolation level that the verdict claims.
    pub isolation: Isolation,
    /// Limits on memory, processes and disk.
    pub bounds: Option<Bounds>,
    /// It runs with the lowest priority.
    pub in_background: bool,
    /// Sees the output while the check runs.
    pub shown_to: Option<OutputListener<'a>>,
}

/// Sees every byte of a check as it arrives. Nothing of the verdict depends on it.
pub type OutputListener<'a> = &'a (dyn Fn(Stream, &[u8]) + Sync);

impl CheckRequest<'_> {
    /// Returns the path of the tree, as the check sees it.
    fn root(&self) -> &Path {
        match self.ground {
            CheckRoot::Workspace => self.workspace,
            CheckRoot::Folder(folder) | CheckRoot::Confined { folder, .. } => folder,
            CheckRoot::Fenced { fence, .. } => fence.at,
        }
    }
}

/// Runs the contract once.
pub fn contract(shell: &Shell, court: &CheckRequest<'_>) -> Result<Verdict, Interrupted> {
    observed(shell, court, None).map(|(verdict, _)| verdict)
}

/// Runs the contract once, and returns what its reporters saw. `court.env` must contain the reporters'
/// variables.
pub fn observed(
    shell: &Shell,
    court: &CheckRequest<'_>,
    reporter: Option<&Reporter>,
) -> Result<(Verdict, RunnerReport), Interrupted> {
    let not_run = |court, reason| (not_run(court, reason), RunnerReport::default());
    if !court.ground.is_worth(court.isolation) {
        return Ok(not_run(
            court,
            format!("this execution environment does not provide isolation level {}", court.isolation),
        ));
    }
    let expected =
        match shell.expectations.iter().map(|e| Expected::read(&e.value)).collect::<Result<Vec<_>, _>>() {
            Ok(expected) => expected,
            Err(error) => return Ok(not_run(court, format!("an expectation cannot be read: {error}"))),
        };
    let mut environment = court.tools.variables(court.root(), court.supplied);
    // The person's or the project's environment is active, whatever provost installed beside it.
    let is_ours = |name: &OsString| name != "VIRTUAL_ENV" || !court.tools.project().is_python_activated();
    environment.extend(court.env.iter().filter(|(name, _)| is_ours(name)).cloned());
    environment.extend(missing::variable(shell, court.root()));
    let surroundings = match Surroundings::make(&environment) {
        Ok(surroundings) => surroundings,
        Err(error) => return Ok(not_run(court, format!("no temporary folder could be made: {error}"))),
    };
    match run(shell, court, &surroundings) {
        Ok(ProcessEnd { how: How::Stopped, .. }) => Err(Interrupted),
        Ok(ended) => {
            let report = reporter.map(|reporter| reporter.finish(court.root())).unwrap_or_default();
            let (ended, report) = single_tests::read(shell, ended, report);
            let may_fail = single_tests::explain_exit(shell, report.results.as_ref());
            let expected = Expectations { all: expected, may_fail };
            let tests = tests(shell, &report, &ended);
            let results = report.results.as_ref().map(|results| results.summary(None, &BTreeSet::new()));
            let verdict = Verdict {
                tests,
                test_results: results.map(Box::new),
                runners: report.names(),
                ..judged(shell, court, &expected, &ended)
            };
            Ok((verifiable(shell, court, &ended, verdict), report))
        }
        Err(NotJudged::Program(error)) => Ok(not_run(court, told(&error))),
        Err(NotJudged::Fence(error)) => Ok(not_run(court, told(&error))),
    }
}

/// Lowers the priority of a program. Never looked up, because it runs outside of the sandbox.
const NICE: &str = "/usr/bin/nice";
const LOWEST_PRIORITY: [&str; 2] = ["-n", "19"];

/// Why a check did not run.
enum NotJudged {
    Program(StartError),
    Fence(Unavailable),
}

fn run(
    shell: &Shell,
    court: &CheckRequest<'_>,
    surroundings: &Surroundings,
) -> Result<ProcessEnd, NotJudged> {
    let args = ["--noprofile", "--norc", "-c", &shell.command].map(OsString::from);
    let bounds = match court.ground {
        CheckRoot::Workspace | CheckRoot::Folder(_) | CheckRoot::Confined { .. } => court.bounds,
        // The sandbox limits what it may write.
        CheckRoot::Fenced { .. } => court.bounds.map(|bounds| Bounds { disk: u64::MAX, ..bounds }),
    };
    let mut show = |stream: Stream, bytes: &[u8]| court.shown_to.into_iter().for_each(|to| to(stream, bytes));
    let mut spawn = |wrapped: Option<&SandboxedCommand>, cwd: &Path, env: &[(OsString, OsString)]| {
        let mut program = wrapped.map_or(bash(), |wrapped| &wrapped.program);
        let mut args = Cow::Borrowed(wrapped.map_or(args.as_slice(), |wrapped| &wrapped.args));
        if court.in_background && Path::new(NICE).exists() {
            let words = LOWEST_PRIORITY.iter().map(OsString::from).chain([program.to_os_string()]);
            args = words.chain(args.iter().cloned()).collect();
            program = NICE.as_ref();
        }
        process::run(Spawn {
            program,
            args: &args,
            cwd,
            env,
            stdin: b"",
            deadline: court.timeout,
            grace: GRACE,
            keep: KEEP,
            tag: court.tag,
            stop: process::stop_flag(court.stop),
            tee: Some(&mut show),
            bounds,
            enclosure: wrapped.map_or(Enclosure::None, SandboxedCommand::enclosure),
        })
        .map_err(NotJudged::Program)
    };
    let environment = surroundings.environment();
    match court.ground {
        CheckRoot::Workspace => spawn(None, court.workspace, environment),
        CheckRoot::Folder(folder) => spawn(None, folder, environment),
        CheckRoot::Confined { folder, confines } => {
            let wrapped = sandbox::confine(confines, bash(), &args).map_err(NotJudged::Fence)?;
            let mut ended = spawn(Some(&wrapped), folder, environment)?;
            ended.how = wrapped.how(&ended).map_err(NotJudged::Fence)?;
            Ok(ended)
        }
        CheckRoot::Fenced { offer, fence } => {
            let toolchains = court.tools.folders().iter().map(PathBuf::as_path);
            let toolchains: Vec<&Path> = toolchains.filter(|folder| fence.may_show(folder)).collect();
            let fence = CheckFence { toolchains: &toolchains, ..fence };
            let wrapped = sandbox::check(offer, &fence, bash(), &args).map_err(NotJudged::Fence)?;
            let inside = surroundings.inside_a_fence();
            let mut ended = spawn(Some(&wrapped), Path::new("/"), &inside)?;
            // The sandbox's own end is not the end of the check.
            ended.how = wrapped.how(&ended).map_err(NotJudged::Fence)?;
            Ok(ended)
        }
    }
}

fn judged(
    shell: &Shell,
    court: &CheckRequest<'_>,
    expected: &Expectations<'_>,
    ended: &ProcessEnd,
) -> Verdict {
    let mut unmet = Vec::new();
    let outcome = match ended.how {
        How::TimedOut | How::Stopped => CheckOutcome::TimedOut { after_ms: milliseconds(court.timeout) },
        // A crash signal is caused by the program and says something about the work; another process sent
        // any other signal.
        How::Signalled(signal) if crash_signal(signal).is_some() => {
            let exit_code = 128 + signal;
            unmet.extend(unmet_by(expected, exit_code, ended));
            CheckOutcome::Broke { exit_code }
        }
        How::Signalled(signal) => CheckOutcome::Killed { signal },
        // provost killed it because a program under test used too much; that says something about the work
        // too.
        How::OverBounds(exceeded) => {
            unmet.push(format!("the check must stay within its limits: {exceeded}"));
            CheckOutcome::Broke { exit_code: 128 + Signal::KILL.as_raw() }
        }
        How::Exited(exit_code) => {
            unmet.extend(unmet_by(expected, exit_code, ended));
            if exit_code != 0 && !unmet.is_empty() && has_tried_to_trace(court, ended) {
                unmet.push(NO_TRACING.to_owned());
            }
            if !unmet.is_empty() && !matches!(court.ground, CheckRoot::Workspace) && reads_history(shell) {
                unmet.push(NO_HISTORY.to_owned());
            }
            let left = ended.survivors.iter();
            unmet.extend(
                left.map(|survivor| format!("no process may outlive the check: {survivor} still runs")),
            );
            if unmet.is_empty() { CheckOutcome::Held } else { CheckOutcome::Broke { exit_code } }
        }
    };
    let limit = if outcome == CheckOutcome::Held { EXCERPT_OF_SUCCESS } else { EXCERPT_OF_FAILURE };
    Verdict {
        outcome,
        duration_ms: milliseconds(ended.duration),
        unmet,
        stdout: ended.stdout.excerpt(limit),
        stderr: ended.stderr.excerpt(limit),
        environment: Some(Arc::new(court.tools.record(court.supplied))),
        ..Verdict::bare(court.isolation, CheckOutcome::Held)
    }
}

const NO_HISTORY: &str = "a check sees only the approved git history, not commits, branches and tags that \
     an agent makes; compare files, or use `git diff`";

/// Returns whether the contract looks at commits, branches or tags.
fn reads_history(shell: &Shell) -> bool {
    let asks = ["log", "rev-list", "shortlog", "describe", "reflog", "tag", "branch", "show-ref", "show"];
    let script = provost_core::language::shell::read(&shell.command);
    script.commands.iter().any(|command| {
        let words = script.words_of(command).iter().map(|word| word.raw(&shell.command));
        let mut words = words.skip_while(|word| *word != "git").skip(1);
        words.find(|word| !word.starts_with('-')).is_some_and(|word| asks.contains(&word))
    })
}

const NO_TRACING: &str = "a check may not trace processes (gdb, strace, rr, LeakSanitizer); `trace = \
     true` in [verify] of provost.toml allows it";
/// Messages of debuggers and sanitizers if the kernel denies them another process.
const TRACERS: [&str; 6] = [
    "ptrace: Operation not permitted",
    "Could not trace the inferior process",
    "LeakSanitizer has encountered a fatal error",
    "PTRACE_TRACEME",
    "PTRACE_SEIZE",
    "PTRACE_ATTACH",
];

fn has_tried_to_trace(court: &CheckRequest<'_>, ended: &ProcessEnd) -> bool {
    let is_denied = matches!(court.ground, CheckRoot::Fenced { fence, .. } if fence.processes != Processes::Traceable)
        || matches!(court.ground, CheckRoot::Confined { .. });
    let texts = [&ended.stderr.head, &ended.stderr.tail, &ended.stdout.head, &ended.stdout.tail];
    is_denied
        && texts.iter().any(|text| {
            let text = String::from_utf8_lossy(text);
            TRACERS.iter().any(|said| text.contains(said))
        })
}

/// Replaces the verdict by "not run" if a tool that the check needs is missing.
fn verifiable(shell: &Shell, court: &CheckRequest<'_>, ended: &ProcessEnd, verdict: Verdict) -> Verdict {
    let end = match ended.how {
        How::Signalled(signal) => missing::CheckEnd::Signalled(signal),
        // In a sandbox a signal appears as its exit code.
        How::Exited(code) if sandbox::signal_behind(code) == Some(missing::ENDED_BY.as_raw()) => {
            missing::CheckEnd::Signalled(missing::ENDED_BY.as_raw())
        }
        How::Exited(_) if verdict.held() => missing::CheckEnd::Held,
        How::Exited(_) => return blames_the_machine(shell, court, ended, verdict),
        How::TimedOut | How::Stopped | How::OverBounds(_) => return verdict,
    };
    let (stdout, stderr) = (text(&ended.stdout), text(&ended.stderr));
    if let Some(missing) = missing::found(shell, end, &[&stderr, &stdout]) {
        let outcome = CheckOutcome::NotRun { reason: reason(&missing, court) };
        return Verdict { outcome, unmet: Vec::new(), ..verdict };
    }
    shows_its_failure(shell, verdict, &[&stderr, &stdout])
}

/// Turns a broken check into "not run" if a program that its text calls is reported as missing and is
/// missing.
fn blames_the_machine(
    shell: &Shell,
    court: &CheckRequest<'_>,
    ended: &ProcessEnd,
    mut verdict: Verdict,
) -> Verdict {
    let said = format!("{}\n{}", text(&ended.stderr), text(&ended.stdout));
    if let Some(reason) = missing::for_a_recipe(shell, ended.how, &said) {
        return Verdict { outcome: CheckOutcome::NotRun { reason }, unmet: Vec::new(), ..verdict };
    }
    let folders = verdict.environment.iter().flat_map(|environment| &environment.path);
    let folders: Vec<PathBuf> = folders.map(PathBuf::from).collect();
    let is_there = |name: &String| folders.iter().any(|folder| folder.join(name).is_file());
    let program = environment::missing_program(&shell.command, &said, !verdict.runners.is_empty());
    let program = program.filter(|name| !is_there(name));
    let missing = program.map(missing::MissingTool::Command).or_else(|| {
        environment::missing_module(shell, &verdict).map(|name| missing::MissingTool::Module(name.to_owned()))
    });
    if let Some(missing) = missing {
        verdict.outcome = CheckOutcome::NotRun { reason: reason(&missing, court) };
        verdict.unmet.clear();
    }
    verdict
}

/// Returns why the check could not run, with the line that provides the tool.
fn reason(missing: &missing::MissingTool, court: &CheckRequest<'_>) -> String {
    let advice = missing.name().and_then(|name| court.tools.project().advice(name));
    match advice {
        Some(advice) => format!("{}; {advice}", missing.reason()),
        None => missing.reason(),
    }
}

/// Checks that a command that is meant to fail failed at its job, and a test runner because of a test. A
/// command that cannot start fails too.
fn shows_its_failure(shell: &Shell, mut verdict: Verdict, outputs: &[&str]) -> Verdict {
    // Runs without any test are reported where tests are counted.
    if !verdict.held() || verdict.tests == Some(0) {
        return verdict;
    }
    let unmet = inconclusive_failure::found(shell, outputs).or_else(|| {
        let hides = runner::has_to_show_tests(shell) && !runner::shows_tests(verdict.tests, outputs);
        hides.then(|| {
            "a runner that must fail has to show its tests: no test was seen to run; do not hide its output"
                .to_owned()
        })
    });
    if let Some(unmet) = unmet {
        verdict.unmet.push(unmet);
        verdict.outcome = CheckOutcome::Broke { exit_code: 0 };
    }
    verdict
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.head.as_slice(), &output.tail].concat()).into_owned()
}

/// Returns the number of tests that ran, by the runner's output. A cut output does not count: it may lack
/// the summary lines of some test binaries.
fn tests(shell: &Shell, report: &RunnerReport, ended: &ProcessEnd) -> Option<u32> {
    if !ended.stdout.is_whole() || !ended.stderr.is_whole() {
        return report.tests();
    }
    runner::tests_run_by(&shell.command, report, &[&text(&ended.stdout), &text(&ended.stderr)])
}

fn not_run(court: &CheckRequest<'_>, reason: String) -> Verdict {
    Verdict::not_run(court.isolation, reason)
}

/// Returns an error and its cause on one line.
fn told(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
