//! Tests workers of two versions on one database, as during a rolling upgrade. The earlier program is the one that
//! `PROVOST_TEST_EARLIER` names; `./test --full` builds one from the history of this repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use provost_store::postgres::cluster::{Cluster, text};

use super::field::Field;
use super::{Fleet, PATIENCE};
use crate::env::{answer, plan};

const AGENT: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out\n\
                     echo \"$PWD $part $PROVOST_ATTEMPT\" >> ../ledger; sleep 0.5; touch out/$part; echo did\n";
const PLANS: usize = 6;

/// Returns an earlier program. Without one, counts the test as skipped.
fn earlier() -> Option<PathBuf> {
    let program = std::env::var_os("PROVOST_TEST_EARLIER").map(PathBuf::from).filter(|path| path.exists());
    if program.is_none() {
        provost_rehearsal::skip::full("workers of an earlier version, which it builds from the history");
    }
    program
}

/// Returns the same command of another program.
fn by(program: &Path, command: &Command) -> Command {
    let mut other = Command::new(program);
    other.args(command.get_args()).env_clear().stdin(std::process::Stdio::null());
    other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.get_current_dir().map(|folder| other.current_dir(folder));
    other
}

#[test]
fn workers_of_two_versions_carry_out_plans_beside_each_other() {
    let Some(earlier) = earlier() else { return };
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let field = Field::new(PLANS, &plan(&["test -e out/1", "test -e out/2"], "abort"), AGENT, "");
    let fleet = Fleet { field, cluster, url, lease: "5s" };
    // The earlier program makes the log and the cluster.
    let old = |place: usize, arguments: &[&str]| {
        answer(by(&earlier, &fleet.command(place, arguments)).output().expect("the earlier program"))
    };
    old(0, &["migrate", "--to", &fleet.url]).exits(0);
    old(0, &["cluster", "prepare"]).exits(0);
    let state = fleet.env.state();
    let mut olds: Vec<_> =
        (0..2).map(|_| fleet.join(by(&earlier, &fleet.worker_command(&state, &["--jobs", "2"])))).collect();
    for place in 0..PLANS / 2 {
        let shown = old(place, &["show", "--json"]).exits(0).json();
        old(place, &["approve", "--revision", shown["revision"].as_str().expect("a revision")]).exits(0);
    }
    fleet.until("the earlier workers work", PATIENCE, || fleet.ledger().len() > 1);
    // The new version brings the tables up to date while they work.
    fleet.provost(0, &["migrate", "--to", &fleet.url]).exits(0);
    fleet.provost(0, &["cluster", "prepare"]).exits(0);
    let _new = fleet.worker(&["--jobs", "2"]);
    fleet.until("both versions work", PATIENCE, || fleet.workers() == 3);
    olds[0].signal("TERM");
    fleet.until("an earlier worker leaves", PATIENCE, || olds[0].has_left());
    (PLANS / 2..PLANS).for_each(|place| fleet.approve(place));
    let before = fleet.ledger().len();
    fleet.until("they go on", PATIENCE, || fleet.ledger().len() > before);
    olds[1].kill();
    fleet.until_done(PATIENCE);
    (0..PLANS).for_each(|place| fleet.is_sound(place, 2));
    fleet.gave_nothing_twice();
}

#[test]
fn an_earlier_program_refuses_a_log_of_a_later_one() {
    let Some(earlier) = earlier() else { return };
    let Some(fleet) = Fleet::new(1, &["test -e out/1"], AGENT) else { return };
    fleet.cluster.sql(
        &fleet.url,
        "INSERT INTO provost.migration (version) SELECT max(version) + 1 FROM provost.migration",
    );
    for arguments in [&["status"][..], &["worker"]] {
        let said = by(&earlier, &fleet.command(0, arguments)).output().expect("the earlier program");
        let refused = answer(said).exits(70);
        assert!(refused.err.contains("newer provost") && refused.err.contains("upgrade"), "{}", refused.err);
    }
    let count = "SELECT count(*)::text FROM provost.event WHERE name = 'TASK_STARTED'";
    assert_eq!(text(&fleet.cluster.sql(&fleet.url, count)[0]), "0");
}
