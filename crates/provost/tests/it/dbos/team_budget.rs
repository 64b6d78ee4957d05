//! Tests the budget of all plans: it is reached, raised and taken away, by whom, and what counts.

use provost_store::postgres::cluster::Cluster;
use serde_json::Value;

use super::field::Field;
use super::metrics::page;
use super::suite::TWO;
use super::{Fleet, PATIENCE};
use crate::env::{answer, plan};
use crate::serve::{Server, token};

/// Makes `out/N` for part N, and reports a thousand tokens and a tenth of a cent.
const REPORTS: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out; touch out/$part\n\
    echo '{\"report\": \"did\", \"usage\": {\"input_tokens\": 600, \"output_tokens\": 400, \"micro_usd\": 1000}}'\n";
const SPEAKS: &str = "speaks = \"json\"\n";

impl Fleet {
    fn budget(&self, arguments: &[&str]) -> Value {
        let all = [&["cluster", "budget", "--json"], arguments].concat();
        self.provost(0, &all).exits(0).json()
    }

    /// Returns how many attempts began, in all plans.
    fn begun_attempts(&self) -> usize {
        let count = |place| self.count(place, "TASK_STARTED").values().sum::<usize>();
        (0..self.places.len()).map(count).sum()
    }

    fn waits_for_budget(&self, plans: usize) -> bool {
        let status = self.status();
        let troubles = status["troubles"].as_array().expect("a list");
        let is_budget =
            |trouble: &&Value| trouble["what"].as_str().is_some_and(|what| what.contains("is used up"));
        troubles.iter().filter(is_budget).count() == plans
    }
}

#[test]
fn a_team_waits_at_the_end_of_its_budget_and_goes_on_when_it_is_raised() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = format!("{}&project=web", cluster.database());
    let web = Fleet::at(cluster, url, 1, &plan(&TWO, "abort"), REPORTS, SPEAKS);
    let none = web.provost(0, &["cluster", "budget"]).exits(0).out;
    assert!(none.contains("the budget of the project `web`: none"), "{none}");
    let set = web.budget(&["max 1k tokens"]);
    assert_eq!((&set["limit"]["tokens"], &set["used"]["tokens"]), (&1000.into(), &0.into()), "{set}");
    assert_eq!((&set["set_by"], &set["project"]), (&"olga".into(), &"web".into()), "{set}");
    let _worker = web.worker(&[]);
    web.approve(0);
    web.until("it waits", PATIENCE, || web.waits_for_budget(1));
    assert_eq!(web.begun_attempts(), 1);
    let status = web.provost(0, &["status"]).exits(0).out;
    let says = "the budget of the project `web` of 1k tokens is used up: 1k tokens used; raise it with \
                `provost cluster budget 'max 2k tokens'`";
    assert!(status.contains(says), "{status}");
    web.provost(0, &["cluster", "budget", "max $1, 2k tokens"]).exits(0);
    web.until_done(PATIENCE);
    web.is_sound(0, 2);
    assert!(!web.provost(0, &["status"]).exits(0).out.contains("is used up"));
    web.archives(0);
    let used = web.budget(&[]);
    assert_eq!((&used["used"]["tokens"], &used["used"]["usd"]), (&2000.into(), &0.002.into()), "{used}");
    assert_eq!((&used["used_up"], &used["uncounted_plans"]), (&true.into(), &0.into()), "{used}");
    assert_eq!(web.budget(&["--none"])["limit"], Value::Null);
}

#[test]
fn metrics_name_the_project_and_its_budget() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = format!("{}&project=web", cluster.database());
    let web = Fleet::at(cluster, url, 1, &plan(&TWO, "abort"), REPORTS, SPEAKS);
    let _worker = web.worker(&[]);
    let (server, view) = (Server::start(&web.env), token(&web.env, "view"));
    let of_web = "project=\"web\"";
    let before = page(&server, &view);
    assert_eq!(before.of("cluster_up", of_web), Some(1.0));
    assert_eq!(before.of("cluster_workers", &format!("state=\"alive\",{of_web}")), Some(1.0));
    assert_eq!(before.sum("cluster_budget_waiting_plans", ""), 0.0);
    web.budget(&["max 1k tokens"]);
    web.approve(0);
    web.until("it waits", PATIENCE, || web.waits_for_budget(1));
    web.until("the metrics say so", PATIENCE, || {
        let page = page(&server, &view);
        let tokens = format!("resource=\"tokens\",{of_web}");
        let seen = [page.of("cluster_budget", &tokens), page.of("cluster_budget_used", &tokens)];
        let waiting = page.of("cluster_budget_waiting_plans", of_web);
        assert!(page.of("cluster_budget", &format!("resource=\"dollars\",{of_web}")).is_none());
        (seen, waiting) == ([Some(1000.0); 2], Some(1.0))
    });
}

#[test]
fn workers_exceed_a_budget_by_no_more_than_they_have_in_hand() {
    let Some(fleet) = Fleet::with(4, &plan(&TWO, "abort"), REPORTS, SPEAKS) else { return };
    fleet.budget(&["max 2k tokens"]);
    let _workers = [fleet.worker(&["--jobs", "1"]), fleet.worker(&["--jobs", "1"])];
    fleet.approve_all();
    // Two attempts may be those of one plan, which is done then.
    let open = || (0..4).filter(|place| fleet.stage(*place) != "done").count();
    fleet.until("all others wait", PATIENCE, || fleet.waits_for_budget(open()));
    let begun = fleet.begun_attempts();
    assert!((2..=3).contains(&begun), "{begun} attempts");
    assert_eq!(fleet.budget(&[])["used"]["tokens"], begun * 1000);
    let status = fleet.status();
    let why = status["troubles"][0]["what"].as_str().expect("a text");
    assert!(why.contains("the budget of all plans of 2k tokens is used up"), "{why}");
    fleet.budget(&["--none"]);
    fleet.until_done(PATIENCE);
    (0..4).for_each(|place| fleet.is_sound(place, 2));
}

#[test]
fn only_the_owner_and_operators_set_a_budget() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = format!("{}&project=web", cluster.database());
    let web = Fleet::at(cluster, url, 1, &plan(&TWO, "abort"), REPORTS, SPEAKS);
    let sets = |state: &std::path::Path, limits: &str| {
        let mut command = web.command(0, &["cluster", "budget", limits]);
        answer(command.env("PROVOST_STATE", state).output().expect("provost"))
    };
    for role in ["harness", "person", "gateway", "worker", "agents", "reader"] {
        let state = web.login(role, &format!("provost_web_{role}"));
        let refused = sets(&state, "max 1m tokens").exits(70);
        assert!(refused.err.contains("is no operator") || refused.err.contains("denied"), "{}", refused.err);
    }
    let operator = web.login("otto", "provost_web_operator");
    sets(&operator, "max $3").exits(0);
    assert_eq!(web.budget(&[])["limit"]["usd"], 3.0);
    sets(&operator, "max 20 minutes").exits(2);
}

#[test]
fn a_run_on_one_machine_stops_at_the_budget_of_its_log() {
    let Some(fleet) = Fleet::with(1, &plan(&TWO, "abort"), REPORTS, SPEAKS) else { return };
    fleet.budget(&["max 1k tokens"]);
    fleet.approve(0);
    let stopped = fleet.provost(0, &["run"]).exits(4);
    assert!(stopped.err.contains("provost cluster budget 'max 2k tokens'"), "{}", stopped.err);
    assert_eq!(fleet.begun_attempts(), 1);
    fleet.budget(&["max 5k tokens"]);
    fleet.provost(0, &["run"]).exits(0);
    fleet.is_sound(0, 2);
}

#[test]
fn plans_of_a_log_that_was_moved_count_too() {
    let Some(cluster) = Cluster::shared() else { return };
    let field = Field::new(1, &plan(&TWO, "abort"), REPORTS, SPEAKS);
    field.approve(0);
    field.provost(0, &["run"]).exits(0);
    let url = cluster.database();
    field.provost(0, &["migrate", "--to", &url]).exits(0);
    let fleet = Fleet { field, cluster, url, lease: "5s" };
    let reader = fleet.login("rita", "provost_reader");
    let mut shows = fleet.command(0, &["cluster", "budget", "--json"]);
    let shown = answer(shows.env("PROVOST_STATE", reader).output().expect("provost")).exits(0).json();
    assert_eq!((&shown["uncounted_plans"], &shown["used"]["tokens"]), (&1.into(), &0.into()), "{shown}");
    let used = fleet.budget(&[]);
    assert_eq!((&used["uncounted_plans"], &used["used"]["tokens"]), (&0.into(), &2000.into()), "{used}");
}
