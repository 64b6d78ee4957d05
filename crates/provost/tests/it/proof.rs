//! What was judged can be shown to somebody who has nothing but the proof and the public key.

use crate::env::{Env, HONEST, plan};

fn done() -> Env {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "escalate")).agent(HONEST);
    env.approve();
    env.provost(&["run"]).exits(0);
    env
}

#[test]
fn a_finished_plan_leaves_proofs_that_stand_alone() {
    let env = done();
    let audit = env.provost(&["audit", "--json"]).exits(0).json();
    let (proofs, key) = (audit["proofs"].as_str().unwrap(), audit["key"].as_str().unwrap());
    // Another machine: another folder, no log, no repository.
    let elsewhere = Env::new("");
    let shown = elsewhere.provost(&["audit", "--proof", proofs, "--key", key]).exits(0);
    assert_eq!(shown.out.lines().count(), 3, "{}", shown.out);
    assert!(shown.out.contains("good: step 2 (Step 2): contract held"), "{}", shown.out);
    let opened = elsewhere.provost(&["audit", "--proof", proofs, "--key", key, "--json"]).exits(0).lines();
    let predicate = &opened[0]["statement"]["predicate"];
    assert_eq!(predicate["contract"]["command"], "test -f out/1");
    assert_eq!(predicate["approver"], "ada");
    assert_eq!(predicate["verdict"]["outcome"]["kind"], "held");
    // Another key, a changed word: nothing is proved.
    let other = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    elsewhere.provost(&["audit", "--proof", proofs, "--key", other]).exits(70);
    let text = std::fs::read_to_string(proofs).unwrap();
    elsewhere.write("forged.jsonl", text.replacen("\"payload\":\"ey", "\"payload\":\"eX", 1));
    elsewhere.provost(&["audit", "--proof", "forged.jsonl", "--key", key]).exits(70);
}

/// A chain without a key can be cut and still verifies; the proof of its head tells.
#[test]
fn a_log_that_was_cut_short_no_longer_fits_its_proofs() {
    let env = done();
    let log = rusqlite::Connection::open(env.state().join("log.db")).unwrap();
    let triggers: Vec<String> = log
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .flatten()
        .collect();
    for trigger in triggers {
        log.execute_batch(&format!("DROP TRIGGER {trigger}")).unwrap();
    }
    assert!(log.execute("DELETE FROM event WHERE seq > 8", []).unwrap() > 0);
    drop(log);
    let audit = env.provost(&["audit"]).exits(70);
    assert!(audit.out.contains("unbroken") && audit.out.contains("is not in the log"), "{}", audit.out);
    env.provost(&["run"]).exits(70);
}

/// The same envelope, read by another implementation where one is installed.
#[test]
fn an_independent_implementation_agrees() {
    let env = done();
    let audit = env.provost(&["audit", "--json"]).exits(0).json();
    let script = include_str!("proof.py");
    let python = std::env::var_os("PROVOST_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let output = std::process::Command::new(python)
        .args(["-c", script, audit["proofs"].as_str().unwrap(), audit["key"].as_str().unwrap()])
        .output();
    match output {
        Ok(output) if output.status.code() == Some(77) => eprintln!("no securesystemslib here; skipped"),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => eprintln!("no python3 here ({error}); skipped"),
    }
}
