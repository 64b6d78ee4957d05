//! Tests projects: teams that share one database, each with its own workers, roles and queues.

use provost_store::postgres::cluster::{Cluster, text};

use super::suite::TWO;
use super::{Fleet, PATIENCE};
use crate::env::{HONEST, plan};

const ROLES: [&str; 7] = ["harness", "person", "gateway", "worker", "agents", "reader", "operator"];

impl Fleet {
    /// Plans of a project in a database that others may use too.
    fn of_project(cluster: &'static Cluster, url: &str, project: &str) -> Self {
        let url = format!("{url}&project={project}");
        Self::at(cluster, url, 1, &plan(&TWO, "abort"), HONEST, "")
    }

    /// Archives a plan, as soon as no process holds it.
    pub(super) fn archives(&self, place: usize) {
        self.until("it is archived", PATIENCE, || self.provost(place, &["archive", "PLAN.md"]).code == 0);
    }

    fn texts(&self, question: &str) -> Vec<String> {
        self.cluster.sql(&self.url, question).iter().map(text).collect()
    }
}

#[test]
fn two_teams_in_one_database_each_carry_out_their_plans() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let (web, app) = (Fleet::of_project(cluster, &url, "web"), Fleet::of_project(cluster, &url, "app"));
    let _of_web = web.worker(&[]);
    web.approve(0);
    app.approve(0);
    web.until_done(PATIENCE);
    assert_eq!(app.stage(0), "approved", "a worker of another team took the plan");
    let _of_app = app.worker(&[]);
    app.until_done(PATIENCE);
    for team in [&web, &app] {
        team.is_sound(0, 2);
        assert_eq!(team.workers(), 1);
    }
    // Nothing of it was done in the schemas of a database without projects.
    let schemas = "SELECT nspname::text FROM pg_namespace WHERE nspname ~ '^(provost|dbos)' ORDER BY 1";
    let all =
        ["app", "web"].map(|team| ["", "_cluster", "_dbos"].map(|part| format!("provost_{team}{part}")));
    assert_eq!(web.texts(schemas), all.concat());
    web.archives(0);
    web.provost(0, &["audit"]).exits(0);
    assert_eq!(web.stage(0), "done", "it is read from the archive");
    let plans = |team: &str| web.texts(&format!("SELECT count(*)::text FROM provost_{team}.plan"));
    assert_eq!([plans("web"), plans("app")].concat(), ["1", "1"]);
    let archived = |team: &str| web.texts(&format!("SELECT count(*)::text FROM provost_{team}.archived"));
    assert_eq!((archived("web"), archived("app")), (vec!["1".to_owned()], vec!["0".to_owned()]));
}

#[test]
fn commands_name_the_project_and_refuse_a_bad_name() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let web = Fleet::of_project(cluster, &url, "web");
    let alone = web.provost(0, &["cluster", "status"]).exits(2);
    assert!(alone.err.contains("?project=web"), "{}", alone.err);
    let bad = web
        .command(0, &["migrate", "--to", &format!("{url}&project=Web")])
        .env("PROVOST_STATE", "/x/s")
        .output();
    let bad = crate::env::answer(bad.expect("provost")).exits(2);
    assert!(bad.err.contains("`Web`") && bad.err.contains("lowercase"), "{}", bad.err);
    // A state folder that belongs to one project does not go over to another.
    let other = web.provost(0, &["migrate", "--to", &format!("{url}&project=app")]);
    assert_ne!(other.code, 0, "{}", other.out);
    assert!(other.err.contains("project=web"), "{}", other.err);
}

/// Tries every table, sequence and function of the other project, and names those that were not refused.
const TRIES: &str = r"
DO $try$
DECLARE
    thing record;
    attempt text;
    reached text := '';
BEGIN
    FOR thing IN
        SELECT unnest(CASE c.relkind WHEN 'S' THEN ARRAY[format('SELECT nextval(%L)', n.nspname || '.' || c.relname)]
            ELSE ARRAY[format('SELECT FROM %I.%I', n.nspname, c.relname),
                       format('DELETE FROM %I.%I', n.nspname, c.relname),
                       format('TRUNCATE %I.%I', n.nspname, c.relname),
                       format('INSERT INTO %I.%I DEFAULT VALUES', n.nspname, c.relname)] END) AS attempt
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname ~ '^provost_app' AND c.relkind IN ('r', 'S', 'v', 'p')
        UNION ALL
        SELECT format('SELECT %I.%I(%s)', n.nspname, p.proname,
            (SELECT string_agg('NULL::' || format_type(t, NULL), ', ') FROM unnest(p.proargtypes) t))
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname ~ '^provost_app'
        UNION ALL SELECT format('CREATE TABLE %I.mine ()', nspname) FROM pg_namespace WHERE nspname ~ '^provost_app'
    LOOP
        BEGIN
            EXECUTE thing.attempt;
            reached := reached || thing.attempt || E'\n';
        EXCEPTION
            WHEN insufficient_privilege THEN NULL;
            WHEN OTHERS THEN reached := reached || thing.attempt || ': ' || SQLERRM || E'\n';
        END;
    END LOOP;
    PERFORM set_config('test.reached', reached, false);
END $try$;
SELECT current_setting('test.reached')";

#[test]
fn a_login_of_one_project_reaches_nothing_of_another() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let (web, app) = (Fleet::of_project(cluster, &url, "web"), Fleet::of_project(cluster, &url, "app"));
    for team in [&web, &app] {
        team.provost(0, &["cluster", "prepare"]).exits(0);
    }
    let count = "SELECT count(*)::text FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname ~ '^provost_app'";
    let functions: usize = web.texts(count)[0].parse().expect("a number");
    assert!(functions > 30, "{functions} functions");
    for role in ROLES {
        let login = format!("{role}_{}", web.database());
        cluster.sql(&url, &format!("CREATE ROLE {login} LOGIN; GRANT provost_web_{role} TO {login}"));
        let own = url.replacen("postgres://olga@", &format!("postgres://{login}@"), 1);
        cluster.sql(&own, "SELECT FROM provost_web.event");
        let reached = text(cluster.sql(&own, TRIES).last().expect("an answer"));
        assert_eq!(reached, "", "{role} reaches");
        let mut joins = app.command(0, &["migrate", "--to", &format!("{own}&project=app")]);
        joins.env("PROVOST_STATE", app.env.folder().join(&login));
        crate::env::answer(joins.output().expect("provost")).exits(70);
    }
    // No function has the name of its channel in its text, which everybody can read.
    let known = "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
                 WHERE nspname ~ '^provost_' AND prosrc ~ 'pg_notify\\('''";
    assert_eq!(web.texts(known), Vec::<String>::new());
}

#[test]
fn a_worker_with_the_role_of_its_project_works_for_it() {
    let Some(cluster) = Cluster::shared() else { return };
    let web = Fleet::of_project(cluster, &cluster.database(), "web");
    let _looks = web.worker(&["--roles", "reviewer"]);
    let hand = web.login("hand", "provost_web_agents");
    let _hand = web.worker_of(&hand, &["--no-ticks", "--no-checks", "--roles", "coder"]);
    web.approve(0);
    web.until_done(PATIENCE);
    web.is_sound(0, 2);
    let by = "SELECT DISTINCT writer FROM provost_web.event WHERE name = 'ATTEMPT_ENDED'";
    assert_eq!(web.texts(by), ["worker"]);
}
