//! Tests `provost verify --deep`: every contract runs on the base, and what it does becomes diagnostics.

use crate::env::Env;

fn plan(contracts: &[(&str, &str)]) -> String {
    let mut text =
        "---\ntype: plan\nstatus: draft\nowner: test\ntouches: [\"out/**\"]\n---\n\n# A plan\n\n## Steps\n"
            .to_owned();
    for (number, (contract, fields)) in contracts.iter().enumerate() {
        text.push_str(&format!(
            "\n### {}. Make it\n\n**target:** coder\n\n**task:**\nMake the file `out/1`.\n\n{fields}**contract:**\n```shell\n{contract}\n```\n\
             exit_code == 0\n**on_fail:** escalate\n",
            number + 1
        ));
    }
    text + "\n## Postconditions\n\n1. The tree is clean.\n   ```shell\n   git diff --exit-code\n   ```\n"
}

fn project(contracts: &[(&str, &str)]) -> Option<Env> {
    let env = Env::new(&plan(contracts)).agent("exit 1\n");
    if !env.has_fences() {
        return None;
    }
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "project"]);
    Some(env)
}

/// The codes of P094 to P099, in the order of the text.
fn codes(document: &serde_json::Value) -> Vec<String> {
    let all = document["diagnostics"].as_array().cloned().unwrap_or_default();
    let codes = all.iter().filter_map(|each| each["code"].as_str()).map(str::to_owned);
    codes.filter(|code| ("P094"..="P099").contains(&code.as_str())).collect()
}

#[test]
fn every_contract_runs_on_the_base_and_its_traits_are_reported() {
    let connects = "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 2)'";
    let contracts = [
        (connects, ""),
        ("echo x > made.txt && test -s out/1", ""),
        ("test \"$(date +%Y)\" -gt 2000 && test $RANDOM -gt 100", ""),
        ("no-such-tool --check", ""),
        ("test -s out/1", ""),
        ("true", "**network:** on\n"),
    ];
    let Some(env) = project(&contracts) else { return };
    let json = env.provost(&["verify", "--deep", "--json"]).exits(0).json();
    assert_eq!(codes(&json), ["P094", "P097", "P095", "P096", "P099", "P098"], "{json}");
    let rows = json["contracts"].as_array().expect("rows");
    let places: Vec<&str> = rows.iter().filter_map(|row| row["place"].as_str()).collect();
    assert_eq!(places, ["step 1", "step 2", "step 3", "step 4", "step 5", "step 6", "postcondition 1"]);
    assert_eq!(rows[4]["verdict"]["outcome"]["kind"], "broke", "{json}");
    assert_eq!(
        rows[5]["verdict"]["outcome"]["kind"], "not_run",
        "no person has approved the network: {json}"
    );
    let told = env.provost(&["verify", "--deep"]).exits(0);
    assert!(told.err.contains("step 2: fails on the base (exit 1)"), "{}", told.err);
    assert!(told.err.contains("changes files") && told.out.contains("made.txt"), "{}{}", told.err, told.out);
    let plain = env.provost(&["verify", "--json"]).exits(0).json();
    assert!(codes(&plain).is_empty() && plain["contracts"].is_null(), "without --deep nothing runs: {plain}");
    assert!(!env.work().join("made.txt").exists());
    let sarif = env.provost(&["verify", "--deep", "--sarif"]).exits(0).out;
    assert!(sarif.contains("P094"), "{sarif}");
}

#[test]
fn a_plan_with_errors_runs_nothing() {
    let Some(env) = project(&[("echo x > made.txt", "**needs:** 9\n")]) else { return };
    let told = env.provost(&["verify", "--deep"]).exits(3);
    assert!(told.err.contains("the plan has errors, so no contract was run"), "{}", told.err);
    env.provost(&["verify", "--explain", "P094"]).exits(0);
}
