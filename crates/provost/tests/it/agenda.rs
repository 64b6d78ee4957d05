//! Tests many plans in one repository: which may start, which may run in parallel, and the merge order.

use serde_json::Value;

use crate::env::{Env, HONEST, plan};

/// Returns a plan of one step that makes `out/1`, with this front matter.
fn with(front: &str) -> String {
    plan(&["test -e out/1"], "abort").replace("touches: [\"out/**\"]\n", &format!("{front}\n"))
}

fn env(plans: &[(&str, &str)]) -> Env {
    let env = Env::new(&plan(&["test -e out/1"], "abort")).agent(HONEST).isolation("in-place");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("removed");
    for (name, front) in plans {
        env.write(&format!(".harness/PLAN-{name}.md"), with(front));
    }
    env
}

#[track_caller]
fn approve(env: &Env, name: &str) {
    let shown = env.provost(&["show", name, "--json"]).exits(0).json();
    let revision = shown["revision"].as_str().expect("a revision").to_owned();
    env.provost(&["verify", name]).exits(0);
    env.provost(&["approve", name, "--revision", &revision]).exits(0);
}

fn of<'a>(answer: &'a Value, key: &str, name: &str) -> &'a Value {
    let all = answer[key].as_array().expect("a list");
    all.iter().find(|each| each["name"] == name).unwrap_or_else(|| panic!("no {name} in {answer}"))
}

#[test]
fn all_plans_are_listed_with_their_stage_and_the_one_that_is_meant() {
    let env =
        env(&[("api", "touches: [\"src/api/**\"]"), ("ui", "depends_on: [api]\ntouches: [\"src/ui/**\"]")]);
    env.write("PLAN.md", with("touches: [\"docs/**\"]"));
    let list = env.provost(&["list", "--json"]).exits(0).json();
    let names: Vec<&str> =
        list["plans"].as_array().expect("a list").iter().filter_map(|plan| plan["name"].as_str()).collect();
    assert_eq!(names, ["PLAN.md", "api", "ui"]);
    assert_eq!(of(&list, "plans", "PLAN.md")["active"], true);
    assert_eq!(of(&list, "plans", "ui")["stage"], "draft");
    assert_eq!(of(&list, "plans", "ui")["depends_on"], serde_json::json!(["api"]));
    env.write(".harness/active-plan", "ui\n");
    let list = env.provost(&["list", "--json"]).exits(0).json();
    assert_eq!(of(&list, "plans", "ui")["active"], true);
    assert_eq!(of(&list, "plans", "PLAN.md")["active"], false);

    // A dangling marker is reported, and the list is printed anyway.
    env.write(".harness/active-plan", "gone\n");
    let told = env.provost(&["list"]).exits(0);
    assert!(told.err.contains("DANGLING") && told.err.contains("PLAN-gone.md"), "{}", told.err);
    assert!(told.out.lines().all(|line| line.chars().count() <= 80), "{}", told.out);
    assert!(env.provost(&["list", "--json"]).exits(0).json()["dangling"].is_string());
}

#[test]
fn what_may_start_follows_from_what_is_done_and_what_is_touched() {
    let env = env(&[
        ("api", "touches: [\"out/**\"]"),
        ("auth", "depends_on: [api]\ntouches: [\"src/auth/**\"]"),
        ("login", "depends_on: [api]\ntouches: [\"src/*/login.rs\"]"),
        ("docs", "depends_on: [api]\ntouches: [\"docs/**\"]"),
        ("wild", "depends_on: [api]"),
        ("ui", "depends_on: [auth]\ntouches: [\"src/ui/**\"]"),
    ]);
    for name in ["api", "auth", "login", "docs", "wild", "ui"] {
        approve(&env, name);
    }
    let ready = env.provost(&["ready", "--json"]).exits(0).json();
    assert_eq!(ready["together"], serde_json::json!(["api"]));
    assert_eq!(of(&ready, "plans", "auth")["standing"], "waits");
    assert_eq!(of(&ready, "plans", "auth")["waits_for"], serde_json::json!(["api"]));

    env.provost(&["run", "api"]).exits(0);
    let ready = env.provost(&["ready", "--json"]).exits(0).json();
    assert_eq!(ready["together"], serde_json::json!(["auth", "docs"]));
    let login = &of(&ready, "plans", "login")["beside"];
    assert_eq!((login["meets"].as_str(), login["path"].as_str()), (Some("auth"), Some("src/auth/login.rs")));
    assert_eq!(of(&ready, "plans", "wild")["beside"]["undeclared"], true);
    let told = env.provost(&["ready"]).exits(0);
    assert!(told.err.contains("wild has no `touches`"), "{}", told.err);
    assert!(told.out.contains("both may change src/auth/login.rs"), "{}", told.out);
}

#[test]
fn only_plans_that_can_start_are_called_ready() {
    let env = env(&[("new", ""), ("good", ""), ("asks", "")]);
    env.write(".harness/PLAN-empty.md", "");
    env.write(".harness/PLAN-noise.md", [0xfe, 0x00, 0x9c, 0x23, 0x0a, 0x7f].repeat(500));
    approve(&env, "good");
    let asks = with("").replace("**task:**", "**precondition:**\n```shell\nfalse\n```\n**task:**");
    env.write(".harness/PLAN-asks.md", asks);
    approve(&env, "asks");
    env.provost(&["run", "asks"]).exits(4);
    let ready = env.provost(&["ready", "--json"]).exits(0).json();
    let standing = |name: &str| of(&ready, "plans", name)["standing"].as_str().unwrap_or_default().to_owned();
    assert_eq!(standing("good"), "ready");
    assert_eq!(standing("new"), "unapproved");
    assert_eq!(standing("asks"), "asks_a_person");
    assert_eq!((standing("empty"), standing("noise")), ("stuck".to_owned(), "stuck".to_owned()));
    let told = env.provost(&["ready"]).exits(0);
    let ready: Vec<&str> = told.out.lines().filter(|line| line.contains(" ready")).collect();
    assert!(ready.len() == 1 && ready[0].starts_with("good"), "{}", told.out);
    assert!(told.out.contains("provost approve new"), "{}", told.out);
}

#[test]
fn plans_that_wait_for_each_other_are_named_here_and_by_verify() {
    let env =
        env(&[("a", "depends_on: [b]"), ("b", "depends_on: [a]"), ("c", "depends_on: [apu]"), ("api", "")]);
    let ready = env.provost(&["ready", "--json"]).exits(0).json();
    let problems = ready["problems"].to_string();
    assert!(problems.contains("a → b → a") && problems.contains("did you mean api?"), "{problems}");
    assert_eq!(of(&ready, "plans", "a")["standing"], "stuck");
    let order = env.provost(&["merge-order"]).exits(3);
    assert!(order.err.contains("a → b → a"), "{}", order.err);
    assert_eq!(order.out, "");
    for (name, code) in [("a", "wait"), ("c", "apu")] {
        let said = env.provost(&["verify", name]).exits(3);
        assert!(said.out.contains(code) || said.err.contains(code), "{}{}", said.out, said.err);
    }
    let doctor = env.provost(&["doctor", "--json"]).exits(3).json();
    assert!(doctor["findings"].to_string().contains("plan-cycle"), "{}", doctor["findings"]);
}

#[test]
fn work_is_merged_after_what_it_rests_on_and_the_smaller_first() {
    let env = env(&[
        ("top", "depends_on: [base]\ntouches: [\"t/**\"]"),
        ("base", "touches: [\"b/**\"]"),
        ("small", "touches: [\"s/**\"]"),
        ("none", "touches: [\"n/**\"]"),
    ]);
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "plans"]);
    for (name, lines) in [("base", 100), ("small", 2), ("top", 1)] {
        env.git(&["checkout", "--quiet", "-b", &format!("provost/{name}"), "master"]);
        env.write(&format!("{name}.txt"), "line\n".repeat(lines));
        env.git(&["add", "--all"]);
        env.git(&["commit", "--quiet", "--message", name]);
        env.git(&["checkout", "--quiet", "master"]);
    }
    let order = env.provost(&["merge-order", "--json"]).exits(0).json();
    let names: Vec<&str> =
        order["order"].as_array().expect("a list").iter().filter_map(|each| each["name"].as_str()).collect();
    assert_eq!(names, ["small", "base", "top", "none"]);
    assert_eq!(of(&order, "order", "base")["lines"], 100);
    assert_eq!(of(&order, "order", "none")["lines"], Value::Null);
    let some = env.provost(&["merge-order", "top", "base", "--json"]).exits(0).json();
    assert_eq!(some["order"].as_array().map(Vec::len), Some(2));
    env.provost(&["merge-order", "nobody"]).exits(2);
}

#[test]
fn the_queue_says_who_works_on_what_since_when() {
    let env = env(&[("slow", "touches: [\"out/**\"]"), ("idle", "touches: [\"x/**\"]")]);
    env.write(
        "agent.sh",
        "mkdir -p out; touch out/begun; while [ ! -e ../go ]; do sleep 0.05; done; touch out/1\n",
    );
    assert_eq!(env.provost(&["queue", "--json"]).exits(0).json()["queue"], serde_json::json!([]));
    let revision = env.provost(&["show", "slow", "--json"]).exits(0).json()["revision"].clone();
    env.provost(&["verify", "slow"]).exits(0);
    env.provost(&["approve", "slow", "--revision", revision.as_str().expect("a revision")]).exits(0);
    let mut run = env.start(&["run", "slow"]);
    for _ in 0..1000 {
        if env.work().join("out/begun").exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let queue = env.provost(&["queue", "--json"]).exits(0).json();
    let row = of(&queue, "queue", "slow");
    assert_eq!(row["holder"]["pid"], run.id());
    assert_eq!(
        (&row["steps"][0]["number"], &row["steps"][0]["role"]),
        (&Value::from(1), &Value::from("coder"))
    );
    assert_eq!(row["last"]["event"], "TASK_STARTED");
    assert_eq!(queue["queue"].as_array().map(Vec::len), Some(1), "nobody has the other one");
    let ready = env.provost(&["ready", "--json"]).exits(0).json();
    assert_eq!(of(&ready, "plans", "slow")["standing"], "running");
    let table = env.provost(&["queue"]).exits(0).out;
    assert!(table.contains("coder") && table.lines().all(|line| line.chars().count() <= 80), "{table}");
    std::fs::write(env.folder().join("go"), "").expect("a sign");
    assert!(run.wait().expect("ended").success());
    assert_eq!(env.provost(&["queue", "--json"]).exits(0).json()["queue"], serde_json::json!([]));
}
