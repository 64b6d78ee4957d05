//! Measures a cold start (G20, goal 9): `--version` against a program that does nothing, `status` against
//! one that opens the same log read-only; and `hook` with nothing to judge (goal 3) against the same.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Asked;
use crate::measure::{folder, interleaved, time};
use crate::step::Bed;
use crate::table::{Kind, Row, Table};

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");
const BATCH: usize = 3;
const ROUNDS: usize = 100;

pub(crate) fn measure(_: &Asked, table: &mut Table) {
    let Some([noop, sqlite]) = floors() else {
        return table.note("start", "the floor programs could not be built");
    };
    let bed = Bed::make(&folder("start"), 3, "/bin/true");
    bed.run();
    let log = bed.state.join("log.db");
    let times = |program: &Path, args: &[&str]| {
        for _ in 0..BATCH {
            let mut command = Command::new(program);
            command.args(args).env("PROVOST_STATE", &bed.state).current_dir(&bed.workspace);
            let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
            assert!(status.is_ok_and(|status| status.success()), "{} {args:?}", program.display());
        }
    };
    let provost = Path::new(PROVOST);
    let asked = bed.state.join("asked.json");
    let input = format!(
        "{{\"session_id\":\"a\",\"hook_event_name\":\"Stop\",\"cwd\":\"{}\"}}",
        bed.workspace.display()
    );
    std::fs::write(&asked, input).expect("what a client asks");
    let asks = || {
        for _ in 0..BATCH {
            let mut command = Command::new(provost);
            command.args(["hook", "claude"]).env("PROVOST_STATE", &bed.state).env("PROVOST_PLAN", "PLAN.md");
            let input = std::fs::File::open(&asked).expect("what a client asks");
            let answer = command.current_dir(&bed.workspace).stdin(input).output().expect("an answer");
            assert!(answer.status.success() && answer.stdout == b"{}\n", "{answer:?}");
        }
    };
    let log = log.to_string_lossy();
    let [version, status, hook, noop, again, sqlite] = interleaved(
        ROUNDS,
        [
            &mut || times(provost, &["--version"]),
            &mut || times(provost, &["status", "PLAN.md"]),
            &mut || asks(),
            &mut || times(&noop, &[]),
            &mut || times(&noop, &[]),
            &mut || times(&sqlite, &[&log]),
        ],
    );
    table.guard("no-op program against itself", again.cpu_over(&noop));
    for (what, subject, floor, goal) in [
        ("start: --version, against a no-op program", &version, &noop, 1.5),
        ("start: status, against opening the log", &status, &sqlite, 2.0),
        ("hook: nothing to judge, against opening the log", &hook, &sqlite, 1.5),
    ] {
        table.row(Row {
            what,
            subject: time(subject.cpu_median() / BATCH as f64),
            floor: time(floor.cpu_median() / BATCH as f64),
            figure: subject.cpu_over(floor),
            unit: "×",
            goal,
            kind: Kind::Cpu,
        });
    }
}

/// Builds the floor programs, because Cargo builds no examples for a bench.
fn floors() -> Option<[PathBuf; 2]> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--examples", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(Path::new(PROVOST).parent()?.parent()?)
        .status();
    let folder = Path::new(PROVOST).parent()?.join("examples");
    built
        .is_ok_and(|status| status.success())
        .then(|| ["floor_noop", "floor_sqlite"].map(|name| folder.join(name)))
}
