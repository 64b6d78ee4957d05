//! Tests plans whose log is in Postgres: moved there, run there, moved back.

use provost_store::postgres::cluster::{Cluster, PASSWORD};

use crate::env::{Answer, Env, HONEST, answer, plan};

fn with_password(env: &Env, arguments: &[&str], password: &str) -> Answer {
    answer(env.command(arguments).env("PGPASSWORD", password).output().expect("provost"))
}

/// Creates a database; returns its address on the port that needs a password.
fn database(cluster: &Cluster) -> String {
    let url = cluster.database();
    cluster.tcp_url(url.split(['/', '?']).nth(3).expect("a name"))
}

#[test]
fn a_plan_goes_on_in_postgres_and_comes_back_with_the_same_hashes() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = database(cluster);
    let agent = format!("{HONEST}\nenv > out/environment\n");
    let env =
        Env::new(&plan(&["test -f out/1", "test -f out/2"], "escalate")).agent(&agent).isolation("in-place");
    env.provost(&["run"]).exits(4);
    let before = env.provost(&["log", "--json"]).exits(0).out;
    let go = |arguments: &[&str]| with_password(&env, arguments, PASSWORD);

    let moved = go(&["migrate", "--to", &url, "--json"]).exits(0).json();
    assert_eq!(moved["events"], before.lines().count());
    assert_eq!(go(&["log", "--json"]).exits(0).out, before);
    let again = go(&["migrate", "--to", &url, "--json"]).exits(0).json();
    assert_eq!((&again["events"], &again["present"]), (&0.into(), &moved["events"]));

    let revision = go(&["show", "--json"]).exits(0).json()["revision"].as_str().expect("one").to_owned();
    go(&["approve", "--revision", &revision]).exits(0);
    go(&["run"]).exits(0);
    go(&["audit"]).exits(0);
    let after = go(&["log", "--json"]).exits(0).out;
    assert!(after.starts_with(&before) && after.contains("EXECUTION_COMPLETE"), "{after}");
    // The password is in no file and in no agent's environment.
    assert!(!env.read("out/environment").contains(PASSWORD) && !env.read("out/environment").is_empty());
    for file in ["log.url", "log.db"] {
        let kept = std::fs::read(env.state().join(file)).expect("a file");
        assert!(!kept.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD.as_bytes()), "{file}");
    }

    go(&["migrate", "--from", &url]).exits(0);
    assert_eq!(env.provost(&["log", "--json"]).exits(0).out, after);
    env.provost(&["audit"]).exits(0);
}

#[test]
fn the_configuration_can_ask_for_a_log_and_never_choose_one() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = database(cluster);
    let env = Env::new(&plan(&["true"], "escalate")).agent(HONEST).isolation("in-place");
    env.write("provost.toml", format!("{}[store]\nurl = \"{url}\"\n", env.read("provost.toml")));
    let refused = env.provost(&["run"]).exits(2);
    assert!(refused.err.contains("provost migrate --to"), "{}", refused.err);
    with_password(&env, &["migrate", "--to", &url], PASSWORD).exits(0);
    with_password(&env, &["run"], PASSWORD).exits(4);

    let other = database(cluster);
    env.write("provost.toml", env.read("provost.toml").replace(&url, &other));
    let refused = with_password(&env, &["run"], PASSWORD).exits(2);
    assert!(refused.err.contains(&other) && refused.err.contains(&url), "{}", refused.err);
}

#[test]
fn trouble_with_the_server_is_said_without_the_password() {
    let Some(cluster) = Cluster::shared() else { return };
    let env = Env::new(&plan(&["true"], "escalate"));
    let url = database(cluster);
    let wrong = with_password(&env, &["migrate", "--to", &url], "hunter2").exits(70);
    assert!(wrong.err.contains("PGPASSWORD") && !wrong.err.contains("hunter2"), "{}", wrong.err);
    let inside = url.replacen('@', ":hunter2@", 1);
    let refused = env.provost(&["migrate", "--to", &inside]).exits(2);
    assert!(refused.err.contains("PGPASSFILE") && !refused.err.contains("hunter2"), "{}", refused.err);
    let nobody = env.provost(&["migrate", "--to", "postgres://ada@127.0.0.1:1/log"]).exits(70);
    assert!(nobody.err.contains("no Postgres answers at"), "{}", nobody.err);
    env.provost(&["migrate"]).exits(2);
    // The failed commands did not switch to another log.
    env.provost(&["log"]).exits(0);
}

#[test]
fn an_agent_that_names_another_log_is_found_out_and_nothing_is_believed_of_it() {
    let Some(cluster) = Cluster::shared() else { return };
    let (url, other) = (database(cluster), database(cluster));
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).isolation("in-place");
    let file = env.state().join("log.url");
    let env = env.agent(&format!("{HONEST}\necho '{other}' > '{}'\n", file.display()));
    let go = |arguments: &[&str]| with_password(&env, arguments, PASSWORD);
    go(&["migrate", "--to", &url]).exits(0);
    go(&["run"]).exits(4);
    let revision = go(&["show", "--json"]).exits(0).json()["revision"].as_str().expect("one").to_owned();
    go(&["approve", "--revision", &revision]).exits(0);
    go(&["run"]);
    assert_eq!(std::fs::read_to_string(&file).expect("an address").trim(), url);
    let log = go(&["log", "--json"]).exits(0).out;
    assert!(log.contains("TAMPER_DETECTED") && log.contains("the address of the log"), "{log}");
}

#[test]
fn the_password_can_be_in_a_file_that_agents_are_not_told_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(cluster) = Cluster::shared() else { return };
    let url = database(cluster);
    let agent = format!("{HONEST}\nenv > out/environment\n");
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(&agent).isolation("in-place");
    let file = env.folder().join("passwords");
    std::fs::write(&file, format!("127.0.0.1:*:*:*:{PASSWORD}\n")).expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    let go = |arguments: &[&str]| {
        answer(env.command(arguments).env("PGPASSFILE", &file).output().expect("provost"))
    };
    go(&["migrate", "--to", &url]).exits(0);
    go(&["run"]).exits(4);
    let revision = go(&["show", "--json"]).exits(0).json()["revision"].as_str().expect("one").to_owned();
    go(&["approve", "--revision", &revision]).exits(0);
    go(&["run"]).exits(0);
    let told = env.read("out/environment");
    assert!(told.contains("PATH=") && !told.contains("PGPASSFILE"), "{told}");
    env.provost(&["log"]).exits(70);
}

#[test]
fn credentials_of_the_log_are_out_of_reach_of_agents_behind_a_fence() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(cluster) = Cluster::shared() else { return };
    for level in ["clean", "landlock"] {
        let url = database(cluster);
        let env = Env::new(&plan(&["test -f out/1"], "escalate"));
        if !env.has_fences() {
            return;
        }
        let home = env.folder().join("home");
        std::fs::create_dir(home.join(".postgresql")).expect("a folder");
        let files = [".pgpass", ".pg_service.conf", ".postgresql/postgresql.key", "elsewhere"];
        for file in files.map(|file| home.join(file)) {
            std::fs::write(&file, format!("127.0.0.1:*:*:*:{PASSWORD}\n")).expect("a file");
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("its mode");
        }
        let looks = files.map(|file| format!("cat '{}'", home.join(file).display())).join("; ");
        let agent = format!("mkdir -p out; ({looks}; env | grep ^PG) > out/seen 2> /dev/null\n{HONEST}\n");
        let env = env.agent(&agent);
        env.write("provost.toml", format!("{}network = \"on\"\n", env.read("provost.toml")));
        let env = env.isolation(level);
        let go = |arguments: &[&str]| {
            let mut command = env.command(arguments);
            command.env("PGPASSFILE", home.join("elsewhere")).env("PGUSER", "olga").env("PGSERVICE", "log");
            answer(command.output().expect("provost"))
        };
        go(&["migrate", "--to", &url]).exits(0);
        go(&["run"]).exits(4);
        let revision = go(&["show", "--json"]).exits(0).json()["revision"].as_str().expect("one").to_owned();
        go(&["approve", "--revision", &revision]).exits(0);
        go(&["run"]).exits(0);
        assert_eq!(env.read("out/seen"), "", "at {level}");
    }
}

#[test]
fn a_list_of_many_items_uses_few_connections() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.database();
    let env = Env::new(&plan(&["true"], "escalate")).agent(HONEST).isolation("in-place");
    env.provost(&["migrate", "--to", &url]).exits(0);
    std::fs::create_dir_all(env.work().join("plans")).expect("a folder");
    for number in 0..30 {
        let path = format!("plans/plan-{number}.md");
        env.write(&path, plan(&["test -e out/1"], "escalate"));
        env.provost(&["verify", &path]).exits(0);
    }
    let sessions = || {
        let name = url.split(['/', '?']).nth(3).expect("a name");
        let question = format!(
            "SELECT pg_stat_clear_snapshot(); SELECT sessions::text FROM pg_stat_database WHERE datname = '{name}'"
        );
        let rows = cluster.sql(&cluster.url("postgres"), &question);
        provost_store::postgres::cluster::text(rows.last().expect("a row")).parse::<u64>().expect("a number")
    };
    let before = sessions();
    let listed = env.provost(&["inbox", "--json"]).exits(0).json();
    assert!(listed.as_array().is_some_and(|items| items.len() >= 30), "{listed}");
    // The statistics of a session arrive when it ends.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let used = sessions() - before;
    assert!(used <= 10, "{used} connections");
}
