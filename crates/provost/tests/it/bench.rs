//! Tests that `provost bench` measures the cost and benefit of plans, and repeats its numbers.

use provost_rehearsal::{Model, Rehearsal, Turn};
use serde_json::json;

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

#[test]
fn no_lie_of_a_scripted_model_passes_and_another_prompt_is_named_by_its_digest() {
    let env = Env::new("no plan\n");
    env.write("short.md", "Work with a plan.\n");
    let arguments = ["bench", "prompts", "--system", "short.md", "--json"];
    let one = env.provost(&arguments).exits(0);
    assert_eq!(one.out, env.provost(&arguments).exits(0).out, "the same numbers again");
    let results = one.json();
    let rows: Vec<String> = results
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| {
            let of = |key: &str| row[key].to_string().replace('"', "");
            let counts = ["tasks", "verified", "false_claims", "refused", "attempts"].map(of).join(" ");
            format!("{} {}: {counts}\n", of("prompts"), of("model"))
        })
        .collect();
    expect_test::expect![[r#"
        built-in honest (scripted): 20 20 0 0 20
        built-in hasty (scripted): 20 20 20 0 40
        built-in eager (scripted): 20 20 0 20 20
        built-in sloppy (scripted): 20 20 20 0 40
        built-in stubborn (scripted): 20 0 40 0 40
        short.md honest (scripted): 20 20 0 0 20
        short.md hasty (scripted): 20 20 20 0 40
        short.md eager (scripted): 20 20 0 20 20
        short.md sloppy (scripted): 20 20 20 0 40
        short.md stubborn (scripted): 20 0 40 0 40
    "#]]
    .assert_eq(&rows.concat());
    let (built_in, other) = (&results[0], &results[5]);
    assert_ne!(built_in["digest"], other["digest"]);
    assert!(built_in["input_tokens"].as_u64() > other["input_tokens"].as_u64(), "{results}");
    let table = env.provost(&["bench", "prompts", "--tasks", "2"]).exits(0).out;
    assert!(table.starts_with("prompts ") && table.contains("stubborn (scripted)"), "{table}");
}

#[test]
fn a_real_model_works_with_files_only_and_one_that_refuses_is_named() {
    let env = Env::new("no plan\n");
    let measure = |model: &Rehearsal| {
        let url = model.url();
        let named = ["--provider", "chat", "--base-url", &url, "--model", "small"];
        env.provost(&[&["bench", "prompts", "--tasks", "1", "--json"], &named[..]].concat())
    };
    let shell = Turn::call("shell", json!({ "command": "touch ran" }));
    let model = Model::script([shell]).after(Turn::text("It is done.")).serve().expect("a model");
    let measured = measure(&model).exits(0).json();
    assert_eq!((&measured[5]["model"], &measured[5]["verified"]), (&json!("small"), &json!(0)), "{measured}");
    assert!(measured[5]["false_claims"].as_u64() > Some(0), "{measured}");
    model.expect_seen("there is no tool `shell`");
    let model = Model::script([]).after(Turn::status(401)).serve().expect("a model");
    assert!(measure(&model).exits(2).err.contains("the model cannot be reached"));
}
