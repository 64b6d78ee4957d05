//! Tests who may make a person's decisions and write to the log, and what is recorded of attempts to do so.
//! All tests run without a sandbox, where agent and person are the same user.

use std::process::Command;

use provost_rehearsal::skip;

use crate::env::{Env, HONEST, answer, plan};

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");

/// An agent that knows every path, at the weakest level.
fn unfenced(contracts: &[&str], on_fail: &str, script: &str) -> Env {
    let env = Env::new(&plan(contracts, on_fail)).isolation("in-place");
    let places = format!("state={:?}; provost={PROVOST:?}\n", env.state());
    let env = env.agent(&format!("{places}{script}\n"));
    env.approve();
    env
}

/// Returns what TAMPER_DETECTED names.
fn tampering(env: &Env) -> String {
    let log = env.provost(&["log", "--json", "--event", "TAMPER_DETECTED"]).exits(0);
    let words = log.lines().iter().map(|event| event["details"]["what"].to_string()).collect::<Vec<_>>();
    words.join("\n")
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Runs a command without parents or environment, so that only the lease and /proc identify it.
const CLEAN: &str =
    "clean() { env -i PATH=\"$PATH\" HOME=\"$HOME\" PROVOST_STATE=\"$state\" USER=ada \"$@\"; }";

#[test]
fn a_door_stays_shut_where_nothing_can_be_seen() {
    let mut ways = vec![(
        "for lease in $state/leases/*; do : > $lease; done\n\
         clean setsid bash -c '(setsid bash -c \"$0 reject --reason x; echo \\$? > late\" &)' $provost\n\
         until [ -s late ]; do sleep 0.02; done; (exit $(cat late))",
        "names no holder",
    )];
    if succeeds("unshare", &["-Urpf", "--mount-proc", "true"]) {
        ways.push(("clean unshare -Urpf --mount-proc $provost reject --reason x", "cannot be seen"));
        // The host's /proc, in which this pid belongs to another process.
        ways.push(("clean unshare -Urpf $provost reject --reason x", "shows another process"));
    }
    if succeeds("unshare", &["-Urm", "true"]) {
        ways.push((
            "clean unshare -Urm bash -c 'mount -t tmpfs none /proc; mkdir /proc/self; ln -s $0 /proc/self/exe; \
             exec $0 reject --reason x' $provost",
            "not the kernel's own",
        ));
    }
    for (way, seen) in ways {
        let env = unfenced(&["test -f out/1"], "escalate", &format!("{CLEAN}\n{way}; echo $? > code"));
        env.provost(&["run"]).exits(4);
        assert_eq!(env.read("code").trim(), "5", "{way}: {}", tampering(&env));
        assert!(tampering(&env).contains(seen), "{way}: {}", tampering(&env));
        assert!(!env.events().contains(&"GATE_REJECTED".to_owned()), "{way}");
    }
}

#[test]
fn a_person_beside_a_run_is_let_in() {
    let env = unfenced(&["test -f out/1"], "escalate", "touch begun; while [ ! -f go ]; do sleep 0.02; done");
    let mut person = env.person();
    let run = env.start(&["run"]);
    while !env.work().join("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let rejected = person.provost(&["reject", "--reason", "not like this"]);
    env.write("go", "");
    let ended = answer(run.wait_with_output().unwrap());
    rejected.exits(0);
    // The run notices the rejection and stops; it is not recorded as tampering.
    let ended = ended.exits(4);
    assert!(ended.out.contains("not like this"), "{}", ended.out);
    assert_eq!((env.stage().as_str(), tampering(&env).as_str()), ("draft", ""));
    env.provost(&["audit"]).exits(0);
}

/// Forges events: an agent with access to the database can do this, because the hash chain needs no key.
const FORGE: &str = r#"
import hashlib, json, sqlite3, sys, datetime
log = sqlite3.connect(sys.argv[1] + "/log.db", isolation_level=None)
for (name,) in log.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
    log.execute("DROP TRIGGER " + name)
plan, plan_name = log.execute("SELECT id, name FROM plan").fetchone()
def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
def rows():
    return log.execute("SELECT seq, at_ms, name, step, task_name, details FROM event ORDER BY seq").fetchall()
def put(seq, at, name, step, task, details, prev):
    stamp = datetime.datetime.fromtimestamp(at / 1000, datetime.timezone.utc)
    stamp = stamp.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (at % 1000)
    text = '{"details":%s,"event":%s,"plan":%s,"prev":"%s","seq":%d,"task_id":%s,"task_name":%s,"timestamp":"%s"}' % (
        details, compact(name), compact(plan_name), prev.hex(), seq,
        "null" if step is None else '"task_%d"' % step, compact(task), stamp)
    hash = hashlib.sha256(text.encode()).digest()
    log.execute("INSERT INTO event (plan, seq, at_ms, name, step, task_name, details, prev, hash) VALUES (?,?,?,?,?,?,?,?,?)",
                (plan, seq, at, name, step, task, details, prev, hash))
    return hash
def rebuild(rows):
    log.execute("DELETE FROM event")
    prev = bytes(32)
    for seq, (_, *rest) in enumerate(rows, 1):
        prev = put(seq, *rest, prev)
def append(name, details, step=None):
    seq, at, prev = log.execute("SELECT seq, at_ms, hash FROM event ORDER BY seq DESC LIMIT 1").fetchone()
    put(seq + 1, at, name, step, "Step 1" if step else None, compact(details), prev)
HELD = {"outcome": {"kind": "held"}, "isolation": "in-place", "duration_ms": 12}
"#;

fn forger(then: &str) -> String {
    format!("python3 - \"$state\" <<'PY'\n{FORGE}\n{then}\nPY\necho done")
}

const PASS: &str = r#"
append("ATTEMPT_ENDED", {"step": 1, "attempt": 1, "end": {"kind": "exited", "exit_code": 0}, "duration_ms": 5}, 1)
append("CONTRACT_JUDGED", {"step": 1, "subject": {"contract": 1}, "verdict": HELD}, 1)
append("TASK_COMPLETED", {"step": 1, "attempt": 1, "result": "contract held (in-place, 12 ms)"}, 1)
append("EXECUTION_COMPLETE", {"outcome": "done", "summary": {"completed": 1, "failed": 0, "skipped": 0}})
"#;
const LAW: &str = r#"rebuild([(*row[:5], row[5].replace("test -f out/1", "true")) for row in rows()])"#;
const CUT: &str = r#"rebuild([row for row in rows() if row[2] != "TASK_STARTED"])"#;
const APPROVAL: &str = r#"
revision = json.loads(rows()[0][5])["revision"]
append("GATE_REJECTED", {"revision": revision, "reason": "?", "by": "ada"})
append("PLAN_VERIFIED", {"revision": revision, "warnings": 0})
append("GATE_APPROVED", {"revision": revision, "by": {"person": "ada"}})
"#;

#[test]
fn a_log_that_somebody_else_wrote_to_stops_the_run_and_is_never_believed() {
    if !succeeds("python3", &["-c", "import sqlite3"]) {
        return skip::tool("python3", "apt-get install python3, with its module sqlite3");
    }
    for (forged, from, says) in [
        (PASS, 7, "ATTEMPT_ENDED was not written by provost"),
        (LAW, 1, "was replaced by another one"),
        (CUT, 1, "was replaced by another one"),
        (APPROVAL, 9, "GATE_APPROVED was not written by provost"),
    ] {
        let env = unfenced(&["test -f out/1"], "escalate", &forger(forged));
        let run = env.provost(&["run"]).exits(70);
        assert!(run.err.contains(says) && run.err.contains("provost audit"), "{forged}: {}", run.err);
        // No later command trusts the forged events.
        let again = env.provost(&["run"]).exits(70);
        assert!(again.err.contains(&format!("from event {from} on")), "{forged}: {}", again.err);
        let status = env.provost(&["status", "--json"]).exits(0).json();
        assert_eq!(status["forged_from"], from, "{forged}: {status}");
        assert_ne!(status["stage"], "done", "{forged}");
        assert!(env.provost(&["status"]).exits(0).out.contains("another program"), "{forged}");
        let audit = env.provost(&["audit"]).exits(70);
        assert!(audit.out.contains("FORGED"), "{forged}: {}", audit.out);
        let revision = env.provost(&["show", "--json"]).exits(0).json()["revision"].to_string();
        env.provost(&["approve", "--revision", revision.trim_matches('"')]).exits(70);
        // No proof says that the step passed.
        let proofs = env.state().join("proofs");
        for file in std::fs::read_dir(proofs).unwrap().flatten() {
            let key = env.state().join("key.pub");
            let (file, key) = (file.path(), key.to_string_lossy().into_owned());
            let shown = env.provost(&["audit", "--proof", &file.to_string_lossy(), "--key", &key]);
            assert!(!shown.out.contains("good: step"), "{forged}: {}", shown.out);
        }
    }
}

#[test]
fn a_planted_key_is_put_back_and_signs_nothing() {
    let env = unfenced(
        &["test -f out/1"],
        "abort",
        "cp $state/key $state/key.pub .; head -c 32 /dev/zero > $state/key; echo x > $state/key.pub\n\
         mkdir -p out; touch out/1; echo done",
    );
    env.provost(&["run"]).exits(0);
    assert!(tampering(&env).contains("the key in the state folder was changed"), "{}", tampering(&env));
    let at = |name: &str| std::fs::read(env.state().join(name)).unwrap();
    for name in ["key", "key.pub"] {
        assert_eq!(at(name), std::fs::read(env.work().join(name)).unwrap(), "{name}");
    }
    env.provost(&["audit"]).exits(0);
    // Between two runs, the existing signatures reveal the changed key.
    std::fs::write(env.state().join("key"), [7; 32]).unwrap();
    env.write("PLAN.md", env.read("PLAN.md").replace("# A plan", "# Another plan"));
    env.provost(&["run"]).exits(4);
    let mut person = env.person();
    assert_eq!(person.provost(&["approve", "--revision", &env.revision()]).code, 5);
    std::fs::remove_file(env.state().join("key.pub")).unwrap();
    let other = Env::new(&plan(&["test -f out/1"], "abort")).agent(HONEST).isolation("in-place");
    let here = |arguments: &[&str]| {
        answer(other.command(arguments).env("PROVOST_STATE", env.state()).output().unwrap())
    };
    here(&["approve", "--revision", &other.revision()]).exits(0);
    let refused = here(&["run"]).exits(70);
    assert!(refused.err.contains("signed with another"), "{}", refused.err);
}

#[test]
fn a_policy_nobody_trusted_at_a_door_stays_silent() {
    let policy = "\n[gate.policies.mine]\ntouches = [\"out/**\"]\nowner = [\"test\"]\n";
    // The agent copies a signed line of another policy, and adds its own policy.
    let env = unfenced(
        &["test -f out/1"],
        "escalate",
        &format!(
            "echo deadbeef >> $state/trusted-policies; sed 's/\"sig\":\"[^\"]*/&x/' $state/trusted-policies >> \
             $state/trusted-policies\nprintf '{}' >> provost.toml",
            policy.replace('\n', "\\n").replace('"', "\\\"")
        ),
    );
    env.provost(&["run"]).exits(4);
    let seen = tampering(&env);
    assert!(seen.contains("trusted policies was changed, but not by a person"), "{seen}");
    assert!(seen.contains("the configuration was changed"), "{seen}");
    assert_eq!(std::fs::read_to_string(env.state().join("trusted-policies")).unwrap_or_default(), "");
}

#[test]
fn what_an_attempt_does_to_the_harnesss_files_is_said() {
    for (done, says) in [
        ("sed -i s/escalate/abort/ PLAN.md", "the plan file was changed"),
        ("sed -i 's/^status: .*/status: done/' PLAN.md", "the plan file was changed"),
        ("rm PLAN.md; mkfifo PLAN.md", "the plan file was replaced"),
        ("echo '# mine' >> provost.toml", "the configuration was changed"),
        ("mkdir -p .harness; echo mine > .harness/active-plan", "the marker of the active plan was made"),
        ("echo '- 2030-01-01T00:00:00.000Z #99 ✅ done' >> progress.md", "a line of provost's form"),
        ("sed -i s/Progress/Done/ progress.md", "had written into the progress file were changed"),
    ] {
        // The second step does it. The progress file may be up to a second behind the event.
        let there = "until [ -s progress.md ]; do sleep 0.02; done";
        let script =
            format!("mkdir -p out; if [ -f out/1 ]; then {there}; {done}; touch out/2; fi; touch out/1");
        let env = unfenced(&["test -f out/1", "test -f out/2"], "escalate", &script);
        env.provost(&["run", "PLAN.md"]);
        if !env.work().join("PLAN.md").is_file() {
            std::fs::remove_file(env.work().join("PLAN.md")).unwrap();
            env.write("PLAN.md", plan(&["true"], "abort"));
        }
        let log = env.provost(&["log", "--json", "PLAN.md", "--event", "TAMPER_DETECTED"]).exits(0).lines();
        assert_eq!(log.len(), 1, "{done}: {log:?}");
        assert_eq!(log[0]["task_id"], "task_2", "{done}: {log:?}");
        assert!(log[0]["details"]["what"].as_str().unwrap().contains(says), "{done}: {log:?}");
    }
}

#[test]
fn what_the_harness_and_an_orderly_agent_write_is_not_mistaken() {
    // Both steps run in parallel, so that marks are written while the other works. The agent adds a note
    // below provost's lines, and rewrites a file with the same content, as git or an editor would.
    let agent = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); mkdir -p out; sleep 0.$part\n\
                 cp -p provost.toml kept; cat kept > provost.toml; cp provost.toml x; mv x provost.toml\n\
                 [ -f progress.md ] && echo a note >> progress.md; touch out/$part; echo done\n";
    let contracts = ["test -f out/1", "test -f out/2", "test -f out/3", "test -f out/4"];
    let text = plan(&contracts, "abort").replace("**task:**", "**needs:** none\n\n**task:**");
    let env = Env::new(&text).agent(agent).isolation("in-place");
    env.approve();
    env.provost(&["run", "--jobs", "2"]).exits(0);
    assert_eq!(tampering(&env), "");
    assert!(env.read("progress.md").contains("a note"));
}

#[test]
fn behind_the_fence_marker_and_progress_file_cannot_be_written() {
    let env = Env::new(&plan(&["test -f out/1", "test -f out/2"], "escalate"));
    if !env.has_fences() {
        return;
    }
    env.write(".harness/active-plan", "PLAN.md\n");
    let env = env.agent(
        "mkdir -p out; [ -f out/1 ] && touch out/2; touch out/1\n\
         echo forged >> progress.md; echo forged > .harness/active-plan; rm -rf .harness progress.md\n",
    );
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "agent"]);
    env.approve();
    let run = env.provost(&["run"]);
    assert_eq!(env.read(".harness/active-plan"), "PLAN.md\n", "{run:?}");
    let progress = env.read("progress.md");
    assert!(progress.contains("given to coder") && !progress.contains("forged"), "{progress}");
}

#[test]
fn where_agents_run_without_a_fence_letting_through_takes_an_older_terminal() {
    let env = unfenced(&["test -f out/1", "test -f out/2"], "escalate", "touch begun; echo done");
    let mut person = env.person();
    env.provost(&["run"]).exits(4);
    // Without a terminal, and at a terminal that was opened after the first attempt.
    for (refused, why) in [
        (env.provost(&["answer", "1", "skip"]), "is not a terminal"),
        (env.person().provost(&["answer", "1", "skip"]), "after the first attempt"),
        (env.provost(&["approve", "--policy", "any"]), "is not a terminal"),
    ] {
        let refused = refused.exits(5);
        let said = format!("{}{}", refused.out, refused.err);
        assert!(said.contains("bubblewrap") && said.contains("docs/trust.md"), "{said}");
        assert!(said.contains(why) || said.contains("is not a terminal"), "{said}");
    }
    assert!(tampering(&env).contains("its standard input is not a terminal"), "{}", tampering(&env));
    assert_eq!(env.states(), "1 blocked, 2 pending");
    // An answer that waives nothing needs no terminal.
    env.provost(&["answer", "1", "retry"]).exits(0);
    env.provost(&["run"]).exits(4);
    if succeeds("script", &["--version"]) {
        person.provost(&["answer", "1", "skip"]).exits(0);
        assert_eq!(env.states(), "1 waived, 2 pending");
    }
}

#[test]
fn nothing_is_let_through_while_an_agent_works_without_a_fence() {
    let script = "part=$(sed -n 's/^Do part \\([0-9]*\\) .*/\\1/p'); [ $part = 1 ] && exit\n\
                  touch begun; while [ ! -f go ]; do sleep 0.02; done; mkdir -p out; touch out/2";
    let text = plan(&["test -f out/1", "test -f out/2"], "escalate")
        .replace("**task:**", "**needs:** none\n\n**task:**");
    let env = Env::new(&text).agent(script).isolation("in-place");
    let mut person = env.person();
    env.approve();
    let run = env.start(&["run", "--jobs", "2"]);
    while !env.work().join("begun").exists() || !env.states().contains("1 blocked") {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let early = person.provost(&["answer", "1", "skip"]);
    env.write("go", "");
    answer(run.wait_with_output().unwrap()).exits(4);
    let early = early.exits(5);
    assert!(
        format!("{}{}", early.out, early.err).contains("terminal") || early.out.contains("an agent works")
    );
    if succeeds("script", &["--version"]) {
        assert!(early.out.contains("an agent works without a sandbox"), "{}", early.out);
        person.provost(&["answer", "1", "skip"]).exits(0);
        env.provost(&["run"]).exits(0);
    }
    env.provost(&["audit"]).exits(0);
}
