//! Tests the cluster's metrics, parsed as a collector would.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use provost_store::postgres::cluster::Cluster;

use super::{Fleet, PATIENCE};
use crate::env::{HONEST, plan};
use crate::serve::{Server, token};

/// Every attempt waits until the test lets it continue.
const WAITS: &str =
    "mkdir -p out; touch ../begun\nwhile [ ! -e ../go ]; do sleep 0.05; done; touch out/1; echo did\n";

/// Prometheus text: every sample by its name and its labels.
pub(super) struct Page(BTreeMap<(String, String), f64>);

impl Page {
    /// Parses the text and checks the format: a family is described once, before its samples, which have
    /// its name.
    #[track_caller]
    fn read(text: &str) -> Self {
        let (mut helped, mut typed, mut samples) = (Vec::new(), Vec::new(), BTreeMap::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').expect("a help");
                assert!(!helped.contains(&name) && !words.is_empty(), "{line}");
                helped.push(name);
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a type");
                assert!(helped.last() == Some(&name) && ["gauge", "counter"].contains(&kind), "{line}");
                typed.push(name);
            } else {
                let (series, value) = line.rsplit_once(' ').expect("a sample");
                let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
                let labels = labels.strip_suffix('}').expect("the end of the labels");
                assert_eq!(typed.last(), Some(&name), "{line}");
                let is_word = |c: char| c.is_ascii_lowercase() || c == '_';
                assert!(name.starts_with("provost_") && name.chars().all(is_word), "{line}");
                let pairs = labels.split("\",").filter(|pair| !pair.is_empty());
                assert!(pairs.clone().all(|pair| pair.contains("=\"")), "{line}");
                let value = value.parse().expect("a number");
                let again = samples.insert((name.to_owned(), labels.to_owned()), value);
                assert_eq!(again, None, "{line}");
            }
        }
        Self(samples)
    }

    pub(super) fn of(&self, name: &str, labels: &str) -> Option<f64> {
        self.0.get(&(format!("provost_{name}"), labels.to_owned())).copied()
    }

    pub(super) fn sum(&self, name: &str, label: &str) -> f64 {
        let fits = |(found, labels): &(String, String)| {
            *found == format!("provost_{name}") && labels.contains(label)
        };
        self.0.iter().filter(|(series, _)| fits(series)).map(|(_, value)| value).sum()
    }

    /// Returns the names and labels of all samples.
    pub(super) fn series(&self) -> impl Iterator<Item = &(String, String)> {
        self.0.keys()
    }

    fn has(&self, prefix: &str) -> bool {
        self.0.keys().any(|(name, _)| name.starts_with(prefix))
    }
}

pub(super) fn page(server: &Server, token: &str) -> Page {
    Page::read(&server.get("/metrics", token).is(200).body)
}

#[track_caller]
fn until(server: &Server, token: &str, what: &str, is_so: impl Fn(&Page) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so(&page(server, token)) {
        assert!(Instant::now() < deadline, "{what}: never\n{}", server.get("/metrics", token).body);
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn metrics_say_how_the_cluster_is_and_when_its_database_is_away() {
    let Some(own) = Cluster::start() else { return };
    let own: &'static Cluster = Box::leak(Box::new(own));
    let fleet = Fleet::on(own, 2, &plan(&["test -e out/1"], "abort"), WAITS, "");
    let server = Server::start(&fleet.env);
    let view = token(&fleet.env, "view");
    let alone = page(&server, &view);
    assert_eq!(alone.of("log_up", ""), Some(1.0));
    assert!(!alone.has("provost_cluster"), "nobody has ever joined");

    let worker = fleet.worker(&["--jobs", "1"]);
    fleet.approve_all();
    fleet.until("begun", PATIENCE, || fleet.env.folder().join("begun").exists());
    until(&server, &view, "one is done and the other waits", |page| {
        page.of("cluster_items", "pool=\"coder\",state=\"taken\"") == Some(1.0)
            && page.sum("cluster_items", "state=\"offered\"") == 1.0
            && page.sum("cluster_items_oldest_seconds", "state=\"offered\"") > 0.0
    });
    let busy = page(&server, &view);
    let expected = [
        ("cluster_up", "", 1.0),
        ("cluster_workers", "state=\"alive\"", 1.0),
        ("cluster_workers", "state=\"missing\"", 0.0),
        ("cluster_jobs", "", 1.0),
        ("cluster_jobs_busy", "", 1.0),
        ("cluster_refused_reports_total", "", 0.0),
        ("cluster_queue_foreign", "queue=\"items judge\"", 0.0),
        ("cluster_leases", "state=\"lapsed\"", 0.0),
    ];
    for (name, labels, value) in expected {
        assert_eq!(busy.of(name, labels), Some(value), "{name}{{{labels}}}");
    }
    for name in ["waiting", "delayed", "running", "lag_seconds"] {
        assert!(busy.of(&format!("cluster_queue_{name}"), "queue=\"ticks\"").is_some(), "{name}");
    }
    assert!(busy.of("cluster_leases", "state=\"held\"") >= Some(1.0));
    assert!(busy.sum("queue_wait_seconds", "labels=\"\"") > 0.0, "one item waits");
    assert!(busy.of("plans", "stage=\"in-progress\"") >= Some(1.0));

    // Values are cached for a moment, so some consecutive pages show an old value.
    let mut plans = 0;
    let is_kept = (1..=100).any(|number| {
        plans = number;
        let before = page(&server, &view).of("cluster_troubled_plans", "");
        let row =
            format!("INSERT INTO provost_cluster.trouble (plan, worker, what) VALUES ('{number}', 'y', 'z')");
        own.sql(&fleet.url, &row);
        page(&server, &view).of("cluster_troubled_plans", "") == before
    });
    assert!(is_kept, "the database is asked for every page");
    let all = Some(f64::from(plans));
    until(&server, &view, "the metric follows", |page| page.of("cluster_troubled_plans", "") == all);

    worker.signal("STOP");
    until(&server, &view, "missed", |page| {
        page.of("cluster_workers", "state=\"missing\"") == Some(1.0)
            && page.of("cluster_leases", "state=\"lapsed\"") >= Some(1.0)
            && page.of("cluster_lease_overdue_seconds", "") > Some(0.0)
    });
    worker.signal("CONT");

    own.kill();
    let begun = Instant::now();
    let away = page(&server, &view);
    assert!(begun.elapsed() < Duration::from_secs(120), "it took {:?}", begun.elapsed());
    assert_eq!((away.of("log_up", ""), away.of("cluster_up", "")), (Some(0.0), Some(0.0)));
    assert!(away.has("provost_http_responses_total") && !away.has("provost_plans"));
    server.bare("GET", "/metrics", &[], "").is(401);
    // A probe and a person get an answer while the database is away.
    for (path, bound) in [("/readyz", 10), ("/", 20)] {
        let begun = Instant::now();
        let said = server.get(path, &view);
        println!("{path} after {:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(bound), "{path} took {:?}: {said:?}", begun.elapsed());
    }
    own.run();
    until(&server, &view, "back", |page| {
        (page.of("log_up", ""), page.of("cluster_up", "")) == (Some(1.0), Some(1.0))
    });
    std::fs::write(fleet.env.folder().join("go"), "").expect("a sign");
    fleet.until_done(PATIENCE);
}

/// It is given back twice a second and waits on; only a worker with the label ends the wait.
#[test]
fn the_wait_for_a_worker_that_is_missing_is_a_signal_to_scale() {
    let text = plan(&["test -e out/1"], "abort");
    let Some(fleet) = Fleet::with(1, &text, HONEST, "labels = [\"gpu\"]\n") else { return };
    let server = Server::start(&fleet.env);
    let view = token(&fleet.env, "view");
    let _plain = fleet.worker(&[]);
    let idle = "pool=\"judge\",labels=\"\"";
    until(&server, &view, "idle", |page| page.of("queue_wait_seconds", idle) == Some(0.0));
    fleet.approve(0);
    let waiting = "pool=\"coder\",labels=\"gpu\"";
    until(&server, &view, "it waits", |page| page.of("queue_wait_seconds", waiting) > Some(2.0));
    let _fitting = fleet.worker(&["--label", "gpu"]);
    fleet.until_done(PATIENCE);
    until(&server, &view, "nothing waits", |page| page.of("queue_wait_seconds", waiting).is_none());
}
