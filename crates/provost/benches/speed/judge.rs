//! Measures judging (issue "The judge"): everything around a contract at level `clean`, from the agent's
//! end to a kept tree, without the contract's own time, against a bare bubblewrap with the same namespaces
//! that runs nothing.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use provost_core::model::plan::{Shell, Span};
use provost_host::check::negative_control::Doubts;
use provost_host::config::{Config, Demand};
use provost_host::exec::environment::{
    self, ApprovedFiles, CheckExtras, CheckSettings, CheckSpec, Comparison, ExecEnv, RunPaths,
};
use provost_host::tree::{CopyTrust, ImportLimits};

use crate::Asked;
use crate::measure::{interleaved, is_whole, kept, median, time};
use crate::table::{Kind, Row, Table};

const ROUNDS: usize = 40;

pub(crate) fn measure(_: &Asked, table: &mut Table) {
    for (files, what, goal) in [
        (1_000, "judge: one check at clean, 1,000 files", 2.5),
        (50_000, "judge: the same, 50,000 files, one changed", 3.0),
    ] {
        let Some(bench) = Bench::make(files) else {
            return table.note("judge: one check at clean", "no fence here");
        };
        bench.compare(table, what, goal);
    }
}

/// A repository, its approved base and an environment to judge in.
struct Bench {
    workspace: PathBuf,
    state: PathBuf,
    ground: ExecEnv,
    bubblewrap: PathBuf,
}

impl Bench {
    fn make(files: usize) -> Option<Self> {
        let (top, is_there) = kept(&format!("judge-{files}"));
        let (workspace, state) = (top.join("work"), top.join("state"));
        if !is_there {
            repository(&workspace, files);
            fs::create_dir_all(&state).expect("a folder");
            is_whole(&top);
        }
        let head = git(&workspace, &["rev-parse", "HEAD"]);
        let launcher = [env!("CARGO_BIN_EXE_provost"), "fence"].map(OsString::from);
        let estate = RunPaths {
            workspace: &workspace,
            state: &state,
            read_only: &[],
            secrets: &[],
            launcher: &launcher,
        };
        let (offer, seen) = environment::attest(Demand::Auto, &estate).ok()?;
        let bubblewrap = offer.as_ref()?.bubblewrap.as_ref().ok()?.path.clone();
        let touches = ["src/0/**".to_owned()];
        let provision = Config::default().verify.provision;
        let wanted = CheckSettings { provision: &provision, build_caches: false, stop: None };
        let approval = ApprovedFiles {
            revision: "r",
            commit: Some(&head),
            files: &[],
            included: &[],
            touches: &touches,
            caches: &[],
            limits: ImportLimits::default(),
            adopts: false,
            copies: &CopyTrust::new(|| true),
            recorded: None,
            wanted,
        };
        let ground = ExecEnv::prepare(offer, seen.level, &estate, &approval).ok()?;
        (seen.level == provost_core::model::verdict::Isolation::Clean).then_some(())?;
        // Otherwise thousands of new files that are still written to the disk would be measured with the
        // check.
        Command::new("sync").status().ok()?;
        Some(Self { workspace, state, ground, bubblewrap })
    }

    fn compare(&self, table: &mut Table, what: &str, goal: f64) {
        let mut number = 0;
        // The first check includes work that is done only once.
        self.check(number);
        let before = written();
        let kept = kept_bytes(&self.state);
        let [judged, bare, again, own] = interleaved(
            ROUNDS,
            [
                &mut || {
                    number += 1;
                    self.check(number);
                },
                &mut || self.bare(),
                &mut || self.bare(),
                &mut || contract(),
            ],
        );
        let bytes = (written() - before) / ROUNDS as u64;
        let kept = (kept_bytes(&self.state) - kept) / ROUNDS as u64;
        table.guard("bare bubblewrap, against itself", again.cpu_over(&bare));
        // Subtracts the contract's own time.
        let overhead: Vec<f64> = judged.wall.iter().zip(&own.wall).map(|(all, own)| all - own).collect();
        let wall: Vec<f64> = overhead.iter().zip(&bare.wall).map(|(a, b)| a / b).collect();
        table.row(Row {
            what,
            subject: time(median(&overhead)),
            floor: time(median(&bare.wall)),
            figure: median(&wall),
            unit: "×",
            goal,
            kind: Kind::Wall,
        });
        table.note("  the contract's own time, taken off", &time(median(&own.wall)));
        let cpu: Vec<f64> = judged.cpu.iter().zip(&bare.cpu).map(|(a, b)| a / b).collect();
        table.note("  of CPU time", &format!("{} ({:.2}×)", time(median(&judged.cpu)), median(&cpu)));
        table.note("  bytes written for each verdict", &format!("{bytes} B, kept {kept} B"));
    }

    /// Takes over one changed file, judges it on its own tree, and keeps the tree.
    fn check(&self, number: usize) {
        // No earlier run has kept the same tree.
        let change = format!("change {number} of {}\n", std::process::id());
        fs::write(self.workspace.join("src/0/0.txt"), change).expect("a change");
        let shell = Shell { command: "true".to_owned(), body: Span::default(), expectations: Vec::new() };
        let case = CheckSpec {
            shell: &shell,
            timeout: Duration::from_secs(60),
            tag: "judge/1/1",
            stop: None,
            tree: None,
            start: None,
            with_work: true,
            apart: None,
            touches: None,
            protect: &[],
            network: false,
            processes: Default::default(),
            given: CheckExtras::default(),
            bounds: None,
            in_background: false,
            shown_to: None,
            doubts: Doubts::default(),
            compare: Comparison::Nothing,
            reuses: false,
        };
        let Ok(verdict) = self.ground.judge(&case) else { unreachable!("nobody interrupts") };
        assert!(verdict.held(), "{verdict:?}");
    }

    /// Runs the same namespaces with an empty program.
    fn bare(&self) {
        let words = "--unshare-user --disable-userns --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup \
                     --unshare-net --die-with-parent --new-session --cap-drop ALL --ro-bind / / --proc /proc \
                     --dev /dev --tmpfs /tmp -- /bin/true";
        let status = Command::new(&self.bubblewrap)
            .args(words.split_whitespace())
            .stdin(Stdio::null())
            .output()
            .expect("bubblewrap");
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    }
}

fn repository(at: &Path, files: usize) {
    for number in 0..files {
        let path = at.join(format!("src/{}/{number}.txt", number % 100));
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, format!("file {number}\n").repeat(20)).expect("a file");
    }
    for words in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "start"]] {
        git(at, words);
    }
}

/// Runs the contract alone, as the judge starts it.
fn contract() {
    let status = Command::new("bash")
        .args(["--noprofile", "--norc", "-c", "true"])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    assert!(status.status.success());
}

fn git(at: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"])
        .args(words)
        .current_dir(at)
        .output()
        .expect("git");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns the bytes that this process has written so far, to files and pipes.
fn written() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns the size of all files below a folder, each counted once.
fn kept_bytes(folder: &Path) -> u64 {
    let output = Command::new("du").args([OsStr::new("-sb"), folder.as_os_str()]).output().expect("du");
    let said = String::from_utf8_lossy(&output.stdout);
    said.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
