//! Tests the error messages if the log is not available, and that none contains the password.

use std::ffi::OsString;
use std::net::TcpListener;
use std::time::Instant;

use super::super::cluster::{Cluster, PASSWORD, address};
use super::super::*;
use crate::suite;

pub(super) fn refused(address: &DatabaseAddress) -> Error {
    match Postgres::open(address) {
        Ok(_) => panic!("{address} let us in"),
        Err(error) => error,
    }
}

pub(super) fn with_password(url: &str, password: &str) -> DatabaseAddress {
    let environment = [(OsString::from("PGPASSWORD"), OsString::from(password))];
    DatabaseAddress::new(url, &environment).expect("an address")
}

#[test]
fn no_server_is_said_at_once() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let begun = Instant::now();
    let error = refused(&address(&format!("postgres://ada@127.0.0.1:{port}/log")));
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(
        error.to_string().starts_with(&format!("no Postgres answers at postgres://ada@127.0.0.1:{port}/log"))
    );
    assert!(begun.elapsed() < Duration::from_secs(9));
}

#[test]
fn the_password_comes_from_the_environment_and_is_in_no_message() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let name = url.split(['/', '?']).nth(3).expect("a name").to_owned();
    let tcp = cluster.tcp_url(&name);
    let error = refused(&with_password(&tcp, "hunter2"));
    assert!(matches!(error, Error::NotLetIn { .. }), "{error:?}");
    let (said, shown) = (format!("{error} {error:?}"), format!("{:?}", with_password(&tcp, "hunter2")));
    assert!(said.contains("PGPASSWORD") && !said.contains("hunter2") && !shown.contains("hunter2"), "{said}");
    let log = Postgres::open(&with_password(&tcp, PASSWORD)).expect("the right one");
    suite::append_steps(&log, "a", 1);
}

#[test]
fn a_password_in_an_address_is_refused() {
    for url in ["postgres://u:hunter2@h/d", "postgres://u@h/d?password=hunter2", "postgresql://:hunter2@h/d"]
    {
        let error = DatabaseAddress::new(url, &[]).expect_err(url);
        assert!(matches!(error, Error::PasswordInAddress) && !error.to_string().contains("hunter2"));
    }
    for url in ["mysql://h/d", "postgres://u@h", "postgres://u@h/d?sslmode=sometimes"] {
        assert!(matches!(DatabaseAddress::new(url, &[]), Err(Error::BadAddress { .. })), "{url}");
    }
}

#[test]
fn what_goes_over_a_network_is_verified_unless_somebody_says_otherwise() {
    use sqlx::postgres::PgSslMode;
    let mode = |url: &str| address(url).options().get_ssl_mode();
    assert!(matches!(mode("postgres://u@db.example.org/d"), PgSslMode::VerifyFull));
    assert!(matches!(mode("postgres://u@db.example.org/d?sslmode=require"), PgSslMode::Require));
    for near in
        ["postgres://u@localhost/d", "postgres://u@127.0.0.1/d", "postgres://u@/d?host=/run/postgresql"]
    {
        assert!(matches!(mode(near), PgSslMode::Prefer), "{near}");
    }
}

#[test]
fn a_database_that_is_missing_newer_or_read_only_says_so() {
    let Some(cluster) = Cluster::shared() else { return };
    let error = refused(&address(&cluster.url("nowhere")));
    assert!(error.to_string().contains("\"nowhere\" does not exist"), "{error}");

    let newer = cluster.database();
    Postgres::open(&address(&newer)).expect("a log");
    cluster.sql(&newer, "INSERT INTO provost.migration (version) VALUES (99)");
    assert!(matches!(refused(&address(&newer)), Error::NewerSchema { found: 99, .. }));

    let frozen = cluster.database();
    suite::append_steps(&Postgres::open(&address(&frozen)).expect("a log"), "a", 1);
    let name = frozen.split(['/', '?']).nth(3).expect("a name");
    cluster.sql(&frozen, &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let log = Postgres::open_existing(&address(&frozen)).expect("to be looked at").expect("there");
    assert_eq!(suite::all(&log, Query::default()).len(), 1);
    let written = suite::write(&log, "a", 1, 1, &[suite::started(1)]);
    assert!(matches!(written, Err(Error::ServerReadOnly { .. })), "{written:?}");
    assert!(Postgres::open_existing(&address(&cluster.database())).expect("a look").is_none());
}

#[test]
fn many_who_begin_at_once_make_the_log_once() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    std::thread::scope(|scope| {
        for who in 0..8 {
            let url = &url;
            scope.spawn(move || {
                let log = Postgres::open(&address(url)).expect("a log");
                suite::append_steps(&log, &format!("plan {who}"), 1);
            });
        }
    });
    assert_eq!(cluster.sql(&url, "SELECT version FROM provost.migration").len(), schema::MIGRATIONS.len());
    assert_eq!(Postgres::open(&address(&url)).expect("a log").cursor().expect("an end"), Cursor(8));
}

#[test]
fn a_log_moves_from_sqlite_to_postgres_and_back_byte_by_byte() {
    let Some(cluster) = Cluster::shared() else { return };
    let (one, two) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let first = crate::Sqlite::open(one.path()).expect("a log");
    for round in 0..200 {
        suite::append_steps(&first, &format!("plän {} \0", round % 5), 1 + round % 4);
    }
    let database = cluster.log();
    let moved = crate::transfer(&first, &database, &mut |_| {}).expect("moved");
    assert_eq!(moved.events, first.cursor().expect("an end").0);
    let second = crate::Sqlite::open(two.path()).expect("a log");
    crate::transfer(&database, &second, &mut |_| {}).expect("moved");
    let lines =
        |log: &dyn Log| suite::all(log, Query::default()).iter().map(SealedEvent::line).collect::<Vec<_>>();
    assert_eq!(lines(&first), lines(&database));
    assert_eq!(lines(&first), lines(&second));
    // Both logs continued the plan, so neither may overwrite the other.
    suite::write(&database, "new", 0, 1, &[suite::started(1)]).expect("written");
    suite::write(&first, "new", 0, 2, &[suite::started(1)]).expect("written");
    let refused = crate::transfer(&first, &database, &mut |_| {});
    assert!(matches!(refused, Err(Error::OtherEvents { .. })), "{refused:?}");
}
