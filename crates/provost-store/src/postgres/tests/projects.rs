//! Tests projects that share one database: each passes the suite of every log, and one cannot read, write or wake
//! another.

use std::collections::BTreeSet;

use provost_core::model::timestamp::Timestamp;
use sqlx::postgres::PgListener;

use super::super::cluster::{Cluster, address, text};
use super::super::*;
use super::doors::as_user;
use crate::archive::ArchivableLog as _;
use crate::suite::{self, Handles};
use crate::{Memory, archive};

/// Returns the address of a project in a database.
fn of(url: &str, project: &str) -> String {
    format!("{url}&project={project}")
}

fn opened(url: &str) -> Postgres {
    Postgres::open(&address(url)).expect("a log")
}

fn fresh_beside_another() -> Handles {
    let Some(cluster) = Cluster::shared() else {
        let log = Memory::new();
        return Box::new(move || Arc::new(log.clone()));
    };
    let url = cluster.database();
    // A plan of the same name in other projects changes nothing.
    suite::append_steps(&opened(&of(&url, "app")), "a", 3);
    suite::append_steps(&opened(&url), "a", 2);
    Box::new(move || Arc::new(opened(&of(&url, "web"))))
}

crate::every_log_must!(fresh_beside_another);

#[test]
fn one_project_leaves_no_trace_in_another() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let none = || Postgres::open_existing(&address(&url)).expect("a look").is_none();
    let (web, app) = (opened(&of(&url, "web")), opened(&of(&url, "app")));
    assert!(none(), "the database without a project has no log yet");
    suite::append_steps(&web, "a", 3);
    let web_holds = web.lease("plan a", &suite::someone()).expect("free");
    let app_holds = app.lease("plan a", &suite::someone()).expect("free in this project");
    assert_eq!(app.head(&suite::plan("a")).unwrap(), Head::START);
    suite::append_steps(&app, "a", 1);
    drop(web_holds);
    app.renew(app_holds.fence()).expect("still held");
    let folder = tempfile::tempdir().unwrap();
    suite::archive_plans(&web, folder.path(), &["a"]);
    assert_eq!((web.archived_count().unwrap(), app.archived_count().unwrap()), (1, 0));
    assert_eq!(suite::all(&web, Query::plan(&suite::plan("a"))).len(), 3);
    assert_eq!(suite::all(&app, Query::default()).len(), 1);
    assert!(none());
    cluster.sql(&url, "DROP SCHEMA provost_web CASCADE");
    assert_eq!(suite::all(&app, Query::default()).len(), 1, "the other one stays");
}

#[test]
fn messages_name_the_project() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    opened(&of(&url, "web"));
    let _ = cluster.try_sql(&url, "CREATE ROLE stranger LOGIN");
    let Err(refused) = Postgres::open(&address(&as_user(&of(&url, "web"), "stranger"))) else {
        panic!("a stranger is let in")
    };
    let Error::NotAllowed { at, .. } = &refused else { panic!("{refused}") };
    assert!(at.ends_with("?project=web"), "{refused}");
    for (address, name) in [("postgres://u@h/d?project=Web", "`Web`"), ("postgres://u@h/d?project=", "``")] {
        let refused = DatabaseAddress::new(address, &[]).expect_err(address);
        assert!(
            matches!(refused, Error::BadProject { .. }) && refused.to_string().contains(name),
            "{refused}"
        );
    }
    let through = "postgres://ada@p:6432/log?project=web&direct=db:5432&sslmode=require";
    let through = DatabaseAddress::new(through, &[]).expect("an address");
    assert_eq!(through.to_string(), "postgres://ada@p:6432/log?project=web");
    assert_eq!((through.has_pooler(), through.project().name()), (true, Some("web")));
}

#[test]
fn missing_roles_are_those_of_the_project() {
    let Some(cluster) = Cluster::start() else { return };
    for statement in ["CREATE ROLE otto LOGIN", "CREATE DATABASE own OWNER otto"] {
        cluster.sql(&cluster.url("postgres"), statement);
    }
    let web = opened(&of(&cluster.url_as("otto", "own"), "web"));
    let missing = web.grant_roles().expect("an owner").expect("an owner");
    assert!(missing.contains(&"provost_web_worker".to_owned()) && missing.len() == 7, "{missing:?}");
}

#[test]
fn an_event_wakes_nobody_in_another_project() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let (web, app, none) = (opened(&of(&url, "web")), opened(&of(&url, "app")), opened(&url));
    let channel = |schema: &str| text(&cluster.sql(&url, &format!("SELECT name FROM {schema}.channel"))[0]);
    let (of_web, of_app, of_none) = (channel("provost_web"), channel("provost_app"), channel("provost"));
    assert_eq!(of_none, "provost", "programs of an earlier version listen on it");
    assert_eq!(BTreeSet::from([&of_web, &of_app, &of_none]).len(), 3);
    let heard = run(async {
        let pool = sqlx::postgres::PgPoolOptions::new().connect_lazy_with(address(&url).options().clone());
        let mut listener = PgListener::connect_with(&pool).await.expect("a connection");
        let guesses = ["provost", "provost_web", "provost_cluster", of_app.as_str()];
        listener.listen_all(guesses).await.expect("anybody may listen");
        suite::append_steps(&web, "a", 3);
        suite::append_steps(&app, "a", 2);
        let first = listener.recv().await.expect("a notification");
        suite::append_steps(&none, "a", 1);
        let second = listener.recv().await.expect("a notification");
        [first, second].map(|heard| (heard.channel().to_owned(), heard.payload().to_owned()))
    });
    assert_eq!(heard, [(of_app, "2".to_owned()), ("provost".to_owned(), "1".to_owned())]);
}

#[test]
fn only_the_owner_of_a_project_archives_it() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let web = opened(&of(&url, "web"));
    suite::append_steps(&web, "a", 3);
    let owner = format!("owner_{}", address(&url).options().get_database().unwrap_or_default());
    cluster.sql(
        &url,
        &format!(
            "CREATE ROLE {owner} LOGIN; GRANT CREATE ON DATABASE {} TO {owner}",
            &owner["owner_".len()..]
        ),
    );
    // The owner of one project has no right in another.
    let app = opened(&of(&as_user(&url, &owner), "app"));
    app.check_may_archive().expect("its own");
    let refused = Postgres::open(&address(&as_user(&of(&url, "web"), &owner)));
    assert!(matches!(refused, Err(Error::NotAllowed { .. })));
    let folder = tempfile::tempdir().unwrap();
    archive(&web, folder.path(), &[suite::plan("a")], Timestamp(1), &mut |_| Ok(()))
        .expect("the owner of all");
}
