//! Tests which logins of the database can make a step pass, and what an operator can take away from a worker.

use std::path::PathBuf;
use std::process::Command;

use super::suite::{STALLS, TWO, WORKS};
use super::{Fleet, PATIENCE};
use crate::env::{HONEST, answer};

impl Fleet {
    /// Makes a login with this role and a state folder that uses it.
    pub(super) fn login(&self, name: &str, role: &str) -> PathBuf {
        // Logins belong to the server, which other tests use too.
        let name = format!("{name}_{}", self.database());
        self.cluster.sql(&self.url, &format!("CREATE ROLE {name} LOGIN; GRANT {role} TO {name}"));
        let url = self.url.replacen("postgres://olga@", &format!("postgres://{name}@"), 1);
        assert_ne!(url, self.url);
        let state = self.env.folder().join(format!("state-{name}"));
        let joins = self.command(0, &["migrate", "--to", &url]).env("PROVOST_STATE", &state).output();
        answer(joins.expect("provost")).exits(0);
        state
    }

    /// Starts a worker that is refused; returns what it says.
    fn refused(&self, state: &std::path::Path, arguments: &[&str]) -> String {
        let mut command: Command = self.worker_command(state, arguments);
        answer(command.output().expect("provost")).exits(2).err
    }
}

#[test]
fn checks_of_a_workers_login_count_only_with_a_key_that_a_person_trusts() {
    let Some(fleet) = Fleet::new(1, &TWO, HONEST) else { return };
    let _looks = fleet.worker(&["--ticks-only"]);
    let hand = fleet.login("hand", "provost_worker");
    let refused = fleet.refused(&hand, &WORKS);
    let (_, rest) = refused.split_once("provost cluster trust ").unwrap_or_else(|| panic!("{refused}"));
    let key: String = rest.chars().filter(char::is_ascii_hexdigit).take(64).collect();
    // A worker's login does not trust itself.
    let own = fleet.command(0, &["cluster", "trust", &key]).env("PROVOST_STATE", &hand).output();
    answer(own.expect("provost")).exits(70);
    fleet.provost(0, &["cluster", "trust", &key, "--name", "build7"]).exits(0);
    let listed = fleet.provost(0, &["cluster", "trust", "--json"]).exits(0).json();
    assert_eq!((&listed[0]["key"], &listed[0]["name"]), (&key.clone().into(), &"build7".into()));
    let _hand = fleet.worker_of(&hand, &WORKS);
    fleet.approve(0);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
    let signed =
        "SELECT DISTINCT login FROM provost.event WHERE name = 'TASK_COMPLETED' AND seal IS NOT NULL";
    assert_eq!(fleet.cluster.sql(&fleet.url, signed).len(), 1);
    // A person removes the key. From then on provost believes no verdict that it signed.
    fleet.provost(0, &["cluster", "trust", &key, "--revoke"]).exits(0);
    let audit = fleet.provost(0, &["audit"]).exits(70);
    assert!(audit.out.contains("not signed by a trusted key"), "{}{}", audit.out, audit.err);
    let status = fleet.provost(0, &["status"]);
    assert!(!status.out.contains('✅') && status.out.contains("audit"), "{}", status.out);
}

#[test]
fn a_worker_that_only_runs_agents_has_a_login_that_cannot_judge() {
    let Some(fleet) = Fleet::new(1, &TWO, HONEST) else { return };
    let _judges = fleet.worker(&["--roles", "reviewer"]);
    let fingers = fleet.login("fingers", "provost_agents");
    let refused = fleet.refused(&fingers, &WORKS);
    assert!(refused.contains("--no-checks"), "{refused}");
    let _fingers = fleet.worker_of(&fingers, &["--no-ticks", "--no-checks", "--roles", "coder"]);
    fleet.approve(0);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
    let by = "SELECT DISTINCT writer FROM provost.event WHERE name = 'ATTEMPT_ENDED'";
    assert_eq!(sqlx_text(&fleet, by), ["worker"]);
    let by = "SELECT DISTINCT writer FROM provost.event WHERE name IN ('CONTRACT_JUDGED', 'TASK_COMPLETED')";
    assert_eq!(sqlx_text(&fleet, by), ["owner"]);
}

fn sqlx_text(fleet: &Fleet, question: &str) -> Vec<String> {
    use provost_store::postgres::cluster::text;
    fleet.cluster.sql(&fleet.url, question).iter().map(text).collect()
}

#[test]
fn two_approvals_need_two_logins() {
    let text = crate::env::plan(&["test -e out/1"], "abort");
    let quorum = "[gate]\napprovals = 2\n";
    let Some(fleet) = Fleet::with(1, &text, HONEST, quorum) else { return };
    fleet.provost(0, &["verify"]).exits(0);
    let (ada, bob) = (fleet.login("ada", "provost_person"), fleet.login("bob", "provost_person"));
    let revision = fleet.provost(0, &["show", "--json"]).exits(0).json()["revision"].clone();
    let revision = revision.as_str().expect("a revision");
    let approve = |state: &PathBuf, user: &str| {
        let mut command = fleet.command(0, &["approve", "--revision", revision]);
        answer(command.env("PROVOST_STATE", state).env("USER", user).output().expect("provost"))
    };
    approve(&ada, "ada").exits(4);
    let again = approve(&ada, "carol");
    assert_ne!(again.code, 0, "one login approved twice: {}", again.out);
    assert_ne!(fleet.stage(0), "approved");
    approve(&bob, "ada").exits(0);
    assert_eq!(fleet.stage(0), "approved");
}

#[test]
fn an_operator_takes_a_plan_away_from_a_worker_that_keeps_it() {
    let Some(fleet) = Fleet::new(1, &TWO, STALLS) else { return };
    let keeps = fleet.worker(&["--lease", "1h"]);
    fleet.approve(0);
    fleet.until("begun", PATIENCE, || fleet.has("begun"));
    keeps.signal("STOP");
    let petra = fleet.login("petra", "provost_person");
    let hand = fleet.login("thief", "provost_worker");
    let breaks = |state: &PathBuf| {
        let mut command = fleet.command(0, &["cluster", "break-lease", "--workspace"]);
        answer(command.env("PROVOST_STATE", state).output().expect("provost"))
    };
    breaks(&hand).exits(70);
    breaks(&petra).exits(0);
    assert_eq!(fleet.names(0).iter().filter(|name| *name == "LEASE_BROKEN").count(), 2);
    let _next = fleet.worker(&[]);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
}

#[test]
fn what_others_wrote_does_not_control_the_terminal() {
    let Some(fleet) = Fleet::new(1, &TWO, HONEST) else { return };
    let _worker = fleet.worker(&[]);
    fleet.cluster.sql(
        &fleet.url,
        "INSERT INTO provost_cluster.trouble (plan, worker, what) \
         VALUES (E'a\\x1b[2J', 'w', E'\\x1b]0;title\\x07 stuck')",
    );
    let status = fleet.provost(0, &["cluster", "status"]).exits(0).out;
    assert!(
        status.contains("stuck") && !status.contains('\u{1b}') && !status.contains('\u{7}'),
        "{status:?}"
    );
}
