//! Tests what an orchestrator relies on: probes, leaving in time, and secrets from files.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use provost_store::postgres::cluster::{Cluster, PASSWORD, USER};

use super::suite::{STALLS, TWO, WAITS};
use super::{Fleet, PATIENCE};
use crate::env::{HONEST, answer, plan};
use crate::otel::certified;
use crate::serve::Server;

/// Returns the status and the words of an answer to a probe; 0 if nothing listens.
fn probe(address: &str, path: &str) -> (u16, String) {
    let mut text = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut text));
    }
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, text.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
}

fn is_ready(address: &str) -> bool {
    probe(address, "/readyz").0 == 200
}

#[test]
fn probes_answer_at_once_while_the_database_is_away() {
    let Some(own) = Cluster::start() else { return };
    let own: &'static Cluster = Box::leak(Box::new(own));
    let fleet = Fleet::on(own, 1, &plan(&["test -e out/1"], "abort"), HONEST, "");
    let server = Server::start(&fleet.env);
    let worker = fleet.worker_command(&fleet.env.state(), &["--probes", "127.0.0.1:0"]);
    let (_worker, said) = fleet.joined(worker).expect("joined");
    let probes = said["probes"].as_str().expect("an address");
    server.bare("GET", "/readyz", &[], "").is(200);
    assert_eq!(probe(probes, "/readyz"), (200, "ok\n".to_owned()));
    assert_eq!(probe(probes, "/other").0, 404);

    own.kill();
    // An answer is good for a second.
    fleet.until("the server is not ready", PATIENCE, || !is_ready(server.address()));
    for _ in 0..3 {
        let begun = Instant::now();
        server.bare("GET", "/readyz", &[], "").is(503);
        // The limit is 1.5 s; the log itself is asked for half a minute.
        assert!(begun.elapsed() < Duration::from_secs(10), "it took {:?}", begun.elapsed());
    }
    server.bare("GET", "/healthz", &[], "").is(200);
    fleet.until("the worker is not ready", PATIENCE, || !is_ready(probes));
    let (status, words) = probe(probes, "/readyz");
    assert!(status == 503 && words.contains("the database has not answered"), "{status} {words}");
    assert_eq!(probe(probes, "/healthz").0, 200);

    own.run();
    fleet.until("the worker is ready again", PATIENCE, || is_ready(probes));
    fleet.until("the server is ready again", PATIENCE, || is_ready(server.address()));
}

#[test]
fn a_worker_that_leaves_is_alive_and_not_ready() {
    let Some(fleet) = Fleet::new(1, &TWO, WAITS) else { return };
    let worker = fleet.worker_command(&fleet.env.state(), &["--probes", "127.0.0.1:0"]);
    let (mut worker, said) = fleet.joined(worker).expect("joined");
    let probes = said["probes"].as_str().expect("an address");
    fleet.approve(0);
    fleet.until("begun", PATIENCE, || fleet.has("begun"));
    worker.signal("TERM");
    fleet.until("it is not ready", PATIENCE, || !is_ready(probes));
    let (status, words) = probe(probes, "/readyz");
    assert!(status == 503 && words.contains("leaves"), "{status} {words}");
    assert_eq!(probe(probes, "/healthz").0, 200);
    fleet.go();
    fleet.until("it has left", PATIENCE, || worker.has_left());
}

/// An agent that would take ten minutes does not delay the end of its worker, and nothing is lost with it.
#[test]
fn a_worker_leaves_within_its_grace_and_another_goes_on() {
    let Some(fleet) = Fleet::new(1, &TWO, STALLS) else { return };
    let mut worker = fleet.worker(&["--grace", "1s"]);
    fleet.approve(0);
    fleet.until("begun", PATIENCE, || fleet.has("begun"));
    worker.signal("TERM");
    fleet.until("it has left", PATIENCE, || worker.has_left());
    assert_eq!(worker.child.wait().expect("ended").code(), Some(0), "{}", fleet.said());
    assert!(fleet.said().contains("the time to finish is over"), "{}", fleet.said());
    assert_eq!(fleet.workers(), 0);
    let names = fleet.names(0);
    assert!(
        names.ends_with(&["ATTEMPT_LOST".to_owned()]),
        "it did not record how the attempt ended: {names:?}"
    );
    let _next = fleet.worker(&[]);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
    fleet.gave_nothing_twice();
}

/// Makes the server speak TLS with a certificate of its own authority, and accept nothing else over the network.
fn with_tls(own: &Cluster) -> bool {
    if !certified(own.folder()) {
        return false;
    }
    let at = own.folder().display();
    let own_files = format!("cd {at} && chown --reference=. own.key own.pem && chmod 600 own.key");
    assert!(Command::new("sh").args(["-c", &own_files]).status().expect("sh").success());
    own.stop();
    let data = own.folder().join("data");
    let settings = fs::read_to_string(data.join("postgresql.conf")).expect("settings");
    let tls =
        format!("{settings}\nssl = on\nssl_cert_file = '{at}/own.pem'\nssl_key_file = '{at}/own.key'\n");
    fs::write(data.join("postgresql.conf"), tls).expect("settings");
    let doors = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
    fs::write(data.join("pg_hba.conf"), doors).expect("who is let in how");
    own.run();
    true
}

#[test]
fn a_worker_in_a_container_needs_only_files() {
    let Some(own) = Cluster::start() else { return };
    let own: &'static Cluster = Box::leak(Box::new(own));
    if !with_tls(own) {
        return;
    }
    let agent = format!("{HONEST}\nenv > ../environment\n");
    let fleet = Fleet::on(own, 1, &plan(&TWO, "abort"), &agent, "");
    let folder = fleet.env.folder();
    let address = |user: &str, password: &str| {
        let verified = format!("sslmode=verify-full&sslrootcert={}/ca.pem", own.folder().display());
        format!("postgres://{user}:{password}@localhost:{}/{}?{verified}\n", own.port(), fleet.database())
    };
    let with_file = |mut command: Command, name: &str, text: &str| {
        fs::write(folder.join(name), text).expect("a file");
        command.env("PROVOST_DATABASE_URL_FILE", folder.join(name));
        command
    };
    let of = |state: &str, arguments: &[&str]| {
        let mut command = fleet.command(0, arguments);
        command.env("PROVOST_STATE", folder.join(state));
        command
    };
    let prepare = with_file(of("owner-state", &["cluster", "prepare"]), "owner", &address(USER, PASSWORD));
    answer(prepare.into_output()).exits(0);
    assert_eq!(fleet.workers(), 0, "the tables are there, and no worker was");

    own.sql(&fleet.url, "CREATE ROLE hand LOGIN PASSWORD 'a@b'; GRANT provost_agents TO hand");
    let hand = ["--no-ticks", "--no-checks", "--roles", "coder"];
    let hand = fleet.worker_command(&folder.join("hand-state"), &hand);
    let _hand = fleet.join(with_file(hand, "hand", &address("hand", "a%40b")));
    // This worker schedules the plan, runs its checks and ends it. Only `hand` runs agents.
    let _without_agents = fleet.worker(&["--roles", "nobody"]);
    fleet.approve(0);
    fleet.until_done(PATIENCE);
    fleet.is_sound(0, 2);
    let environment = fs::read_to_string(folder.join("environment")).expect("what the agent had");
    assert!(environment.contains("PATH=") && !environment.contains("PROVOST_DATABASE"), "{environment}");
    let kept = fs::read_to_string(folder.join("hand-state/log.url")).expect("an address");
    assert!(kept.contains("hand@localhost") && !kept.contains("a%40b"), "{kept}");

    // A state folder stays with its database, and a local log is not left behind.
    let other = address("hand", "a%40b").replace(fleet.database(), "postgres");
    let refused = with_file(of("hand-state", &["cluster", "status"]), "other", &other);
    let refused = answer(refused.into_output()).exits(2);
    assert!(refused.err.contains("log.url") && !refused.err.contains("a%40b"), "{}", refused.err);
    answer(of("local-state", &["worker"]).into_output()).exits(2);
    assert!(folder.join("local-state/log.db").exists());
    let refused = with_file(of("local-state", &["list"]), "owner", &address(USER, PASSWORD));
    let refused = answer(refused.into_output()).exits(2);
    assert!(refused.err.contains("SQLite") && refused.err.contains("provost migrate"), "{}", refused.err);
}

/// Runs a command to its end.
trait IntoOutput {
    fn into_output(self) -> std::process::Output;
}

impl IntoOutput for Command {
    fn into_output(mut self) -> std::process::Output {
        self.output().expect("provost")
    }
}
