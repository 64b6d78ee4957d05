//! Tests that `provost bench` measures the cost and benefit of plans, and repeats its numbers.

use crate::env::Env;

#[test]
fn plans_leave_no_false_completion_and_cost_more() {
    let env = Env::new("no plan\n");
    let arguments =
        ["bench", "plan-overhead", "--tasks", "12", "--stop-rate", "0.3", "--seed", "5", "--json"];
    let one = env.provost(&arguments).exits(0);
    assert_eq!(one.out, env.provost(&arguments).exits(0).out);
    let measured = one.json();
    let (off, on) = (&measured["without_plan"], &measured["with_plan"]);
    assert!(off["false_completions"].as_u64() > Some(0), "{measured}");
    assert_eq!(on["false_completions"], 0, "{measured}");
    assert_eq!(on["completed"], 12, "{measured}");
    assert!(on["input_tokens"].as_u64() > off["input_tokens"].as_u64(), "{measured}");
    let honest = ["bench", "plan-overhead", "--tasks", "3", "--stop-rate", "0"];
    assert!(env.provost(&honest).exits(0).out.contains("false completions                0             0"));
    env.provost(&["bench", "plan-overhead", "--stop-rate", "2"]).exits(2);
}
