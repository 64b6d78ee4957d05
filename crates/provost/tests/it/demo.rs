//! Tests `provost demo`, the README's first command.

use crate::env::{Env, plan};

#[test]
fn the_demo_catches_the_lie_and_the_breakage_and_finishes() {
    let env = Env::new(&plan(&["true"], "abort"));
    let folder = env.folder().join("demo");
    let demo = env.provost(&["demo", "--fast", "--at", folder.to_str().unwrap()]).exits(0);
    for part in [
        "[Step 2/4] … Test it: the agent claims “All 3 tests pass! Step 2 is complete.”",
        "[Step 2/4] ✗ Test it: checked: contract broke",
        "[Step 3/4] ✗ Refuse nonsense: checked: contract broke",
        "🟡 plan done: 3 verified, 1 self-checked",
    ] {
        assert!(demo.out.contains(part), "no `{part}` in\n{}", demo.out);
    }
    assert!(demo.err.contains("unbroken"), "{}", demo.err);
    let marked = std::fs::read_to_string(folder.join("workspace/PLAN.md")).unwrap();
    assert!(marked.contains("status: done") && marked.contains("### 4. ✅ Document it"), "{marked}");
    env.provost(&["demo", "--at", folder.to_str().unwrap()]).exits(2);
}

#[test]
fn the_demo_plan_is_clean() {
    let env = Env::new(include_str!("../../src/demo/PLAN.md"));
    let verified = env.provost(&["verify", "--json"]).exits(0).json();
    assert_eq!(verified["steps"], 4);
    assert_eq!(verified["diagnostics"].as_array().map(Vec::len), Some(0), "{verified}");
}
