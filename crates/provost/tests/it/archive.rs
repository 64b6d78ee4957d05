//! Tests `provost archive`: what it moves, what it leaves, and that everything reads the same afterwards.

use std::path::PathBuf;

use provost_store::Log as _;
#[cfg(feature = "postgres")]
use provost_store::postgres::cluster::{Cluster, PASSWORD};

use crate::env::{Env, HONEST, answer, plan};
use crate::serve::Server;

/// A repository with a plan. Without a sandbox, a person has to decide at a terminal.
fn fresh() -> Env {
    Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST)
}

/// Runs the plan until it is done.
fn finish(env: &Env) {
    env.approve();
    env.provost(&["run"]).exits(0);
}

/// Adds a plan that may depend on another one, and approves it.
fn add(env: &Env, name: &str, contract: &str, depends_on: &str) {
    let text = plan(&[contract], "escalate");
    let text = match depends_on {
        "" => text,
        other => text.replacen("---\n", &format!("---\ndepends_on: [{other}]\n"), 1),
    };
    env.write(&format!("PLAN-{name}.md"), text);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", name]);
    env.provost(&["run", name]).exits(4);
    let shown = env.provost(&["show", name, "--json"]).exits(0).json();
    env.provost(&["approve", name, "--revision", shown["revision"].as_str().expect("one")]).exits(0);
}

fn id(env: &Env) -> String {
    env.provost(&["status", "--json"]).exits(0).json()["id"].as_str().expect("an id").to_owned()
}

/// The cold files of the state folder.
fn files(env: &Env) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(env.state().join("archive")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn an_archived_plan_reads_as_before_and_is_in_no_list() {
    let env = fresh();
    if !env.has_fences() {
        return;
    }
    finish(&env);
    let id = id(&env);
    let read = |arguments: &[&str]| env.provost(arguments).exits(0).out;
    let commands: [&[&str]; 5] =
        [&["log", "--json"], &["audit"], &["show", "--json"], &["log", "--summary"], &["log", "--last", "3"]];
    let before = commands.map(read);
    let young = env.provost(&["archive", "--json"]).exits(0).json();
    assert!(young["archived"] == serde_json::json!([]), "{young}");
    assert!(young["kept"][0]["why"].as_str().is_some_and(|why| why.contains("30days")), "{young}");

    let shown = env.provost(&["archive", "--older-than", "0s", "--dry-run"]).exits(0);
    assert!(shown.err.contains("1 plan would be archived"), "{}{}", shown.out, shown.err);
    assert_eq!(files(&env), Vec::<PathBuf>::new());
    let moved = env.provost(&["archive", "--older-than", "0s", "--json"]).exits(0).json();
    assert_eq!(moved["archived"][0]["plan"], id.as_str(), "{moved}");
    assert_eq!(files(&env).len(), 1);

    assert_eq!(commands.map(read), before);
    let by_id = env.provost(&["log", &id, "--json"]).exits(0).out;
    assert_eq!(by_id, before[0]);
    let list = env.provost(&["list"]).exits(0);
    assert!(
        list.out.is_empty() && list.err.contains("1 plan is archived: `provost log"),
        "{}{}",
        list.out,
        list.err
    );
    assert_eq!(env.provost(&["list", "--json"]).exits(0).json()["plans"], serde_json::json!([]));
    let all = env.provost(&["log", "--all"]).exits(0);
    assert!(all.out.is_empty() && all.err.contains("1 plan is archived"), "{}{}", all.out, all.err);
    let again = env.provost(&["archive", &id]).exits(5);
    assert!(again.err.contains("it is archived already"), "{}", again.err);
    assert!(env.provost(&["status"]).exits(0).out.contains("done"));

    // The same plan is done, so a run has nothing to do. A changed one goes on with its chain.
    env.provost(&["run"]).exits(0);
    env.write("PLAN.md", plan(&["test -f out/1", "test -f out/2"], "escalate"));
    env.approve();
    env.provost(&["run"]).exits(0);
    let after = env.provost(&["log", "--json"]).exits(0).out;
    assert!(after.starts_with(&before[0]) && after.len() > before[0].len());
    env.provost(&["audit"]).exits(0);
    assert_eq!(env.provost(&["list", "--json"]).exits(0).json()["plans"].as_array().map(Vec::len), Some(1));
    env.provost(&["archive", &id]).exits(0);
    assert_eq!(env.provost(&["log", "--json"]).exits(0).out, after);
    assert_eq!(files(&env).len(), 2);
    // The plan can be named by its id if its file is gone.
    std::fs::remove_file(env.work().join("PLAN.md")).expect("a plan");
    assert!(env.provost(&["audit", &id]).exits(0).out.contains("unbroken"));
    assert_eq!(env.provost(&["log", &id, "--json"]).exits(0).out, after);
}

#[test]
fn audit_finds_a_cold_file_that_was_changed_cut_or_lost() {
    let env = fresh();
    if !env.has_fences() {
        return;
    }
    finish(&env);
    env.provost(&["archive", "--older-than", "0s"]).exits(0);
    let path = files(&env).remove(0);
    let good = std::fs::read(&path).expect("a file");
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;
    for bytes in [changed, good[..good.len() / 2].to_vec(), Vec::new()] {
        std::fs::write(&path, &bytes).expect("written");
        let found = env.provost(&["audit"]).exits(70);
        assert!(
            found.out.contains("LOST") && found.out.contains("restore the file from a copy"),
            "{}",
            found.out
        );
        let found = env.provost(&["audit", "--json"]).exits(70).json();
        assert!(found["sound"] == false && found["lost"].is_string(), "{found}");
        let unread = env.provost(&["log"]).exits(70);
        assert!(unread.err.contains("restore the file from a copy"), "{}", unread.err);
    }
    std::fs::remove_file(&path).expect("a file");
    let found = env.provost(&["audit"]).exits(70).out;
    assert!(found.contains("put the file back there"), "{found}");
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(env.provost(&["log"]).exits(70).err.contains(&name));
    // Nothing goes on with a chain that cannot be read.
    env.provost(&["run"]).exits(70);
    std::fs::write(&path, &good).expect("written");
    env.provost(&["audit"]).exits(0);
}

#[test]
fn plans_that_are_not_over_or_needed_stay() {
    let env = fresh();
    if !env.has_fences() {
        return;
    }
    env.provost(&["run"]).exits(4);
    let refused = env.provost(&["archive", "PLAN.md"]).exits(5);
    assert!(refused.err.contains("it is not over"), "{}", refused.err);
    env.approve();
    let refused = env.provost(&["archive", "PLAN.md"]).exits(5);
    assert!(refused.err.contains("it is not over"), "{}", refused.err);
    env.provost(&["run"]).exits(0);
    // A process that holds the plan.
    let log = provost_store::Sqlite::open(&env.state()).expect("the log");
    let id = id(&env);
    let holder = provost_store::Holder::here("a test", Default::default());
    let lease = log.lease(&format!("plan {id}"), &holder).expect("free");
    let refused = env.provost(&["archive", "PLAN.md"]).exits(5);
    assert!(refused.err.contains("a process holds it"), "{}", refused.err);
    drop(lease);
    // Another archiving.
    let lease = log.lease("archive", &holder).expect("free");
    let refused = env.provost(&["archive", "PLAN.md"]).exits(5);
    assert!(refused.err.contains("`archive` is held by a test"), "{}", refused.err);
    drop(lease);
    // Another plan that depends on it.
    add(&env, "first", "test -f out/1", "");
    env.provost(&["run", "first"]).exits(0);
    add(&env, "second", "test -f out/2", "first");
    let refused = env.provost(&["archive", "first"]).exits(5);
    assert!(refused.err.contains("plan second, which is not over, needs it"), "{}", refused.err);
    // A folder where agents write.
    let inside = env.work().join("cold").display().to_string();
    let refused = env.provost(&["archive", "PLAN.md", "--to", &inside]).exits(2);
    assert!(refused.err.contains("inside a workspace"), "{}", refused.err);
    assert_eq!(files(&env), Vec::<PathBuf>::new());
    assert_eq!(log.unarchived_plans().expect("plans").len(), 3);
    let named = env.provost(&["archive", "--older-than", "0s", "--dry-run"]).exits(0);
    assert!(named.err.contains("first stays: plan second, which is not over, needs it"), "{}", named.err);
}

#[test]
fn a_plan_that_depends_on_an_archived_one_starts() {
    let env = fresh();
    if !env.has_fences() {
        return;
    }
    finish(&env);
    add(&env, "first", "test -f out/1", "");
    env.provost(&["run", "first"]).exits(0);
    env.provost(&["archive", "first"]).exits(0);
    add(&env, "second", "test -f out/1", "first");
    env.provost(&["run", "second"]).exits(0);
    assert!(!env.provost(&["list"]).exits(0).err.contains("depends on"));
}

#[test]
fn a_running_server_lists_no_archived_plan_and_still_shows_it() {
    let env = fresh();
    if !env.has_fences() {
        return;
    }
    finish(&env);
    let (server, id) = (Server::start(&env), id(&env));
    let cookie = server.enter();
    let agenda = || server.browse("/", &cookie).is(200).body;
    let page = || server.browse(&format!("/plans/{id}"), &cookie).is(200).body;
    assert!(agenda().contains(&id) && page().contains("Step 1"));
    env.provost(&["archive", "PLAN.md"]).exits(0);
    assert!(
        !agenda().contains(&id) && agenda().contains("1 plan is archived and not listed"),
        "{}",
        agenda()
    );
    assert!(page().contains("Step 1"), "{}", page());
    let path = files(&env).remove(0);
    let aside = env.folder().join("aside");
    std::fs::rename(&path, &aside).expect("moved");
    let missing = server.browse(&format!("/plans/{id}"), &cookie).is(500).body;
    assert!(missing.contains("put the file back there"), "{missing}");
    std::fs::rename(&aside, &path).expect("moved back");
    // It goes on, and is listed with everything that it was before.
    env.write("PLAN.md", plan(&["test -f out/1", "test -f out/2"], "escalate"));
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "more"]);
    env.approve();
    env.provost(&["run"]).exits(0);
    assert!(agenda().contains(&id) && !agenda().contains("archived"));
    assert!(page().contains("Step 2") && !page().contains("missing"), "{}", page());
    // The same for a server that has never seen the first events in the log.
    let fresh = Server::start(&env);
    let cookie = fresh.enter();
    let body = fresh.browse(&format!("/plans/{id}"), &cookie).is(200).body;
    assert!(body.contains("Step 2") && !body.contains("missing"), "{body}");
}

#[test]
fn a_lost_file_of_a_plan_that_another_one_needs_is_named() {
    let env = fresh();
    if !env.has_fences() {
        return;
    }
    finish(&env);
    add(&env, "first", "test -f out/1", "");
    env.provost(&["run", "first"]).exits(0);
    env.provost(&["archive", "first"]).exits(0);
    add(&env, "second", "test -f out/1", "first");
    std::fs::remove_file(files(&env).remove(0)).expect("a file");
    let refused = env.provost(&["run", "second"]).exits(70);
    assert!(refused.err.contains("put the file back there"), "{}", refused.err);
}

/// An agent without a sandbox can have written `[notify]`, also if its plan is archived.
#[test]
fn an_archived_plan_is_remembered_when_a_command_asks_for_trust() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    let mut person = env.person();
    finish(&env);
    person.provost(&["archive", "PLAN.md"]).exits(0);
    let notify = "[notify]\ncommand = [\"bash\", \"-c\", \"cat > /dev/null; touch owned\"]\n";
    env.write("provost.toml", env.read("provost.toml") + notify);
    env.write("PLAN-second.md", plan(&["test -f out/1"], "escalate"));
    let waits = env.provost(&["run", "second"]).exits(4);
    assert!(waits.err.contains("provost approve --notify"), "{}", waits.err);
    assert!(!env.work().join("owned").exists());
}

/// An agent without a sandbox tries to archive a plan that is done.
#[test]
fn no_agent_archives() {
    let provost = env!("CARGO_BIN_EXE_provost");
    for clear in ["", "env -u PROVOST_ATTEMPT "] {
        let env = Env::new(&plan(&["test -f out/1"], "escalate")).isolation("in-place");
        let way = format!("{clear}{provost} archive --older-than 0s; echo $? > out/code");
        let env = env.agent(&format!(
            "{HONEST}\n[ -e agent ] || exit 0\nexport PROVOST_STATE=$STATE_OF_TEST\n{way}\n"
        ));
        env.approve();
        env.provost(&["run"]).exits(0);
        env.write("agent", "");
        add(&env, "second", "test -f out/never", "");
        let run =
            env.command(&["run", "second"]).env("STATE_OF_TEST", env.state()).output().expect("provost");
        answer(run).exits(4);
        assert_eq!(env.read("out/code").trim(), "5", "{way}");
        assert_eq!(files(&env), Vec::<PathBuf>::new());
        let events = env.provost(&["log", "second", "--json"]).exits(0).out;
        assert!(events.contains("TAMPER_DETECTED"), "{way}");
    }
}

#[cfg(feature = "postgres")]
#[test]
fn the_owner_of_a_shared_log_archives_and_others_read() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.database();
    let url = cluster.tcp_url(url.split(['/', '?']).nth(3).expect("a name"));
    let env = fresh();
    if !env.has_fences() {
        return;
    }
    finish(&env);
    let go = |arguments: &[&str]| {
        answer(env.command(arguments).env("PGPASSWORD", PASSWORD).output().expect("provost"))
    };
    let before = go(&["log", "--json"]).exits(0).out;
    go(&["migrate", "--to", &url]).exits(0);
    go(&["archive", "PLAN.md"]).exits(0);
    assert_eq!(go(&["log", "--json"]).exits(0).out, before);
    go(&["audit"]).exits(0);
    // Back in the state folder it is still archived.
    std::fs::remove_file(env.state().join("log.db")).expect("the old log");
    for rest in ["log.db-wal", "log.db-shm"] {
        let _ = std::fs::remove_file(env.state().join(rest));
    }
    go(&["migrate", "--back", &url]).exits(0);
    assert_eq!(go(&["log", "--json"]).exits(0).out, before);
    go(&["audit"]).exits(0);
    assert!(go(&["list"]).exits(0).err.contains("1 plan is archived"));
    let path = files(&env).remove(0);
    std::fs::remove_file(path).expect("a file");
    let refused = go(&["migrate", "--to", &url]);
    assert!(refused.code == 0 || refused.err.contains("put the file back"), "{}", refused.err);
}
