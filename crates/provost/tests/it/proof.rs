//! Tests that a proof and the public key alone show what was judged.

use provost_rehearsal::skip;

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
    // Another machine: another folder, without log and repository.
    let elsewhere = Env::new("");
    let shown = elsewhere.provost(&["audit", "--proof", proofs, "--key", key]).exits(0);
    assert_eq!(shown.out.lines().count(), 3, "{}", shown.out);
    assert!(shown.out.contains("good: step 2 (Step 2): contract held"), "{}", shown.out);
    let opened = elsewhere.provost(&["audit", "--proof", proofs, "--key", key, "--json"]).exits(0).lines();
    let predicate = &opened[0]["statement"]["predicate"];
    assert_eq!(predicate["contract"]["command"], "test -f out/1");
    assert_eq!(predicate["approver"], "ada");
    assert_eq!(predicate["verdict"]["outcome"]["kind"], "held");
    // With another key or a changed word, nothing is proved.
    let other = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    elsewhere.provost(&["audit", "--proof", proofs, "--key", other]).exits(70);
    let text = std::fs::read_to_string(proofs).unwrap();
    elsewhere.write("forged.jsonl", text.replacen("\"payload\":\"ey", "\"payload\":\"eX", 1));
    elsewhere.provost(&["audit", "--proof", "forged.jsonl", "--key", key]).exits(70);
}

/// A truncated hash chain still verifies; the signed proof of its head reveals the cut.
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
    assert!(audit.out.contains("unbroken") && audit.out.contains("not in the log"), "{}", audit.out);
    env.provost(&["run"]).exits(70);
}

/// The user's own key signs too, its public key verifies the proofs, and the agent in its sandbox cannot
/// read the private key.
#[test]
fn an_ssh_key_signs_too_and_is_kept_from_the_agent() {
    let env = Env::new(&plan(&["test -f out/1"], "abort"))
        .agent(&format!("test -r ../home/.ssh/sign && cp ../home/.ssh/sign out/stolen\n{HONEST}"));
    std::fs::create_dir_all(env.folder().join("home/.ssh")).unwrap();
    let key = env.folder().join("home/.ssh/sign");
    let generate = |passphrase: &str| {
        let _ = std::fs::remove_file(&key);
        let made = std::process::Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", passphrase, "-C", "a person", "-f"])
            .arg(&key)
            .status();
        made.is_ok_and(|made| made.success())
    };
    if !generate("locked") {
        return skip::tool("ssh-keygen", "apt-get install openssh-client");
    }
    env.write("provost.toml", format!("{}[proof]\nssh_key = \"~/.ssh/sign\"\n", env.read("provost.toml")));
    env.approve();
    let refused = env.provost(&["run"]).exits(2);
    assert!(refused.err.contains("passphrase") && refused.err.contains("ssh-keygen"), "{}", refused.err);
    assert!(generate(""));
    env.provost(&["run"]).exits(0);
    let proofs = env.provost(&["audit", "--json"]).exits(0).json()["proofs"].as_str().unwrap().to_owned();
    let public = key.with_extension("pub");
    env.provost(&["audit", "--proof", &proofs, "--key", public.to_str().unwrap()]).exits(0);
    let own = env.state().join("key.pub");
    env.provost(&["audit", "--proof", &proofs, "--key", own.to_str().unwrap()]).exits(0);
    assert!(generate(""));
    env.provost(&["audit", "--proof", &proofs, "--key", public.to_str().unwrap()]).exits(70);
    if env.has_fences() {
        assert!(!env.work().join("out/stolen").exists(), "the agent read the key");
    }
}

/// Another implementation verifies the same envelope, if one is installed.
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
        Ok(output) if output.status.code() == Some(77) => match crate::registry::reaches_pypi() {
            Some(false) => skip::registry("Python's securesystemslib", "`./test` could not install it"),
            _ => skip::tool("securesystemslib", "`./test` installs it and sets PROVOST_TEST_PYTHON"),
        },
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => skip::tool("python3", &format!("apt-get install python3; {error}")),
    }
}
