//! Tests a cluster behind a pooler in transaction mode: pgbouncer, with few connections to the server.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::sync::mpsc;

use provost_store::postgres::cluster::{Cluster, PASSWORD, USER, text};

use super::bouncer::{Bouncer, SHARED};
use super::field::Field;
use super::{Fleet, PATIENCE};
use crate::env::{Env, HONEST, plan};
use crate::serve::{Server, token};

const AGENT: &str = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out\n\
                     echo \"$PWD $part $PROVOST_ATTEMPT\" >> ../ledger; sleep 0.5; touch out/$part; echo did\n";
/// Sessions that listen; a pooler would have given theirs to another client since. The one of a worker sends its
/// heartbeats too.
const LISTENERS: &str = "SELECT count(*)::text FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
                         AND (query LIKE 'LISTEN %' OR query LIKE '%provost_cluster.beat(%')";
const SESSIONS: &str = "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND \
                        pid <> pg_backend_pid()";

/// A server of its own, which is never freed: the tests of a process end with it.
fn own_server() -> Option<&'static Cluster> {
    Cluster::start().map(|own| &*Box::leak(Box::new(own)))
}

fn number(cluster: &Cluster, database: &str, question: &str) -> usize {
    text(&cluster.sql(&cluster.url(database), question)[0]).parse().expect("a number")
}

/// A process that prints lines; it is killed with the test.
struct Follower {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Follower {
    fn start(fleet: &Fleet, place: usize) -> Self {
        let mut command = fleet.command(place, &["log", "--follow", "--json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("provost");
        let out = BufReader::new(child.stdout.take().expect("its output"));
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, lines }
    }

    #[track_caller]
    fn until(&self, sign: &str) {
        while !self.lines.recv_timeout(PATIENCE).expect("a line").contains(sign) {}
    }
}

#[test]
fn a_cluster_works_through_a_pooler_and_listens_at_the_server() {
    let Some(cluster) = own_server() else { return };
    let database = "log_0";
    cluster.database();
    let authority = cluster.use_tls();
    let at = cluster.folder().display();
    let secured = format!(
        "auth_type = scram-sha-256\nclient_tls_sslmode = require\nclient_tls_cert_file = {at}/server.crt\n\
         client_tls_key_file = {at}/server.key\nserver_tls_sslmode = verify-ca\n\
         server_tls_ca_file = {}",
        authority.display()
    );
    let Some(bouncer) = Bouncer::start(cluster, &secured) else { return };
    let url = format!(
        "postgres://{USER}@localhost:{}/{database}?sslmode=verify-full&sslrootcert={}&direct=localhost:{}",
        bouncer.port,
        authority.display(),
        cluster.port()
    );
    let field = Field::new(6, &plan(&["test -e out/1", "test -e out/2"], "abort"), AGENT, "");
    let passwords = field.env.folder().join("home/.pgpass");
    std::fs::write(&passwords, format!("localhost:*:*:*:{PASSWORD}\n")).expect("a file");
    std::fs::set_permissions(&passwords, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    field.env.provost(&["migrate", "--to", &url]).exits(0);
    let fleet = Fleet { field, cluster, url, lease: "5s" };

    let mut workers: Vec<_> = (0..3).map(|_| fleet.worker(&["--jobs", "2"])).collect();
    fleet.approve(0);
    let follower = Follower::start(&fleet, 0);
    let server = Server::start(&fleet.env);
    let mut live = server.subscribe("?after=0", &token(&fleet.env, "view"), None);
    (1..fleet.places.len()).for_each(|place| fleet.approve(place));
    fleet.until("agents work", PATIENCE, || fleet.ledger().len() > 2);
    workers[0].kill();
    fleet.until("agents work on", PATIENCE, || fleet.ledger().len() > 5);
    // The five that listen notice nothing of it.
    bouncer.stop();
    bouncer.run();
    fleet.until_done(PATIENCE);
    (0..fleet.places.len()).for_each(|place| fleet.is_sound(place, 2));
    fleet.gave_nothing_twice();
    follower.until("EXECUTION_COMPLETE");
    while !live.next().expect("an event").2.to_string().contains("EXECUTION_COMPLETE") {}
    // A session that has ended is there for another moment.
    fleet.until("two workers, a follower and a server listen", PATIENCE, || {
        number(cluster, database, LISTENERS) == 4
    });
    fleet.until("the others share few sessions", PATIENCE, || {
        number(cluster, database, SESSIONS) <= SHARED + 4
    });
}

#[test]
fn a_pooler_that_cannot_be_used_is_refused_with_the_next_step() {
    let Some(cluster) = own_server() else { return };
    let Some(bouncer) = Bouncer::start(cluster, "") else { return };
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST);
    let (name, plain) = ("log_0", bouncer.plain_url("log_0"));
    cluster.database();
    let refused = |url: &str, next: &str| {
        let refused = env.provost(&["migrate", "--to", url]).exits(70);
        assert!(refused.err.contains(next), "{}", refused.err);
    };
    let with = |settings: &str| {
        bouncer.stop();
        bouncer.configure(settings);
        bouncer.run();
    };
    refused(&plain, "?direct=HOST:PORT");
    with("ignore_startup_parameters = extra_float_digits,options");
    refused(&plain, "?direct=HOST:PORT");
    with("ignore_startup_parameters =");
    refused(&bouncer.url(name), "ignore_startup_parameters = extra_float_digits");
    with("");
    for (setting, wrong) in [("synchronous_commit", "off"), ("default_transaction_isolation", "serializable")]
    {
        cluster.sql(&cluster.url(name), &format!("ALTER DATABASE {name} SET {setting} = {wrong}"));
        with("");
        refused(&bouncer.url(name), &format!("ALTER DATABASE {name} SET {setting}"));
        cluster.sql(&cluster.url(name), &format!("ALTER DATABASE {name} RESET {setting}"));
    }
    // The second connection meets the statements of the first.
    with("max_prepared_statements = 0");
    let _ = env.provost(&["migrate", "--to", &bouncer.url(name)]);
    refused(&bouncer.url(name), "max_prepared_statements = 200");
    with("");
    env.provost(&["migrate", "--to", &bouncer.url(name)]).exits(0);
}

/// Prints how many sessions of the server 1, 4 and 8 workers use, with and without a pooler.
#[test]
#[ignore = "takes minutes; prints a table"]
fn how_many_sessions_workers_need() {
    let Some(cluster) = own_server() else { return };
    let Some(bouncer) = Bouncer::start(cluster, "default_pool_size = 20\nmax_db_connections = 20") else {
        return;
    };
    println!("| workers | pooler | at rest | at work, at most |\n| ---: | --- | ---: | ---: |");
    for workers in [1, 4, 8] {
        for has_pooler in [false, true] {
            let direct = cluster.database();
            let name = direct.split(['/', '?']).nth(3).expect("a name").to_owned();
            let url = if has_pooler { bouncer.url(&name) } else { direct };
            let text = plan(&["test -e out/1", "test -e out/2"], "abort");
            let plans = 4 * workers;
            let mut fleet = Fleet::at(cluster, url, plans, &text, AGENT, "");
            fleet.lease = "30s";
            let _workers: Vec<_> = (0..workers).map(|_| fleet.worker(&["--jobs", "4"])).collect();
            // A worker polls for a while after it has joined, and closes what it does not use.
            std::thread::sleep(std::time::Duration::from_secs(25));
            let rest = number(cluster, &name, SESSIONS);
            let (done, mut most) = (std::sync::atomic::AtomicBool::new(false), 0);
            std::thread::scope(|scope| {
                let look = scope.spawn(|| {
                    let mut most = 0;
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        most = most.max(number(cluster, &name, SESSIONS));
                        std::thread::sleep(std::time::Duration::from_millis(100));
                    }
                    most
                });
                fleet.approve_all();
                let ended = "SELECT count(*)::text FROM provost.event WHERE name = 'EXECUTION_COMPLETE'";
                fleet.until("done", PATIENCE, || number(cluster, &name, ended) == plans);
                done.store(true, std::sync::atomic::Ordering::Relaxed);
                most = look.join().expect("a number");
            });
            (0..plans).for_each(|place| fleet.is_sound(place, 2));
            println!("| {workers} | {} | {rest} | {most} |", if has_pooler { "yes" } else { "no" });
        }
    }
}
