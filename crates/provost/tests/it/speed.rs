//! Tests parts of the speed bench (`benches/speed`): its comparison with kept figures, its tasks, and one of them
//! as a whole run.

use serde_json::json;

use crate::env::Env;

#[allow(dead_code, reason = "the bench uses the rest")]
#[path = "../../benches/speed/baseline.rs"]
mod baseline;
#[path = "../../benches/speed/real/phases.rs"]
mod phases;
#[allow(dead_code, reason = "the bench uses the rest")]
#[path = "../../benches/speed/real/task.rs"]
mod task;

use baseline::{Baseline, Change, Measured, Stored, compare, fails};

fn measured(what: &str, figure: f64, is_quiet: bool) -> Measured {
    Measured { what: what.to_owned(), figure, tolerance: 0.1, is_quiet }
}

fn stored(figure: f64) -> Stored {
    Stored { what: "step".to_owned(), figure, tolerance: 0.1 }
}

#[test]
fn a_figure_is_compared_within_its_tolerance() {
    let cases = [
        (2.0, 2.0, Change::Ok),
        (2.0, 2.19, Change::Ok),
        (2.0, 2.21, Change::Worse),
        (2.0, 1.81, Change::Ok),
        (2.0, 1.79, Change::Better),
        (0.0, 0.0, Change::Ok),
        (0.0, 1.0, Change::Worse),
        (2.0, f64::NAN, Change::Worse),
    ];
    for (kept, now, change) in cases {
        assert_eq!(compare(&measured("step", now, true), Some(&stored(kept))), change, "{kept} → {now}");
    }
    assert_eq!(compare(&measured("step", 9.0, true), None), Change::New);
}

#[test]
fn only_a_worse_row_on_a_quiet_machine_fails() {
    let worse = compare(&measured("step", 3.0, true), Some(&stored(2.0)));
    let busy = compare(&measured("step", 3.0, false), Some(&stored(2.0)));
    assert_eq!((worse.word(), busy.word()), ("worse", "busy"));
    assert!(fails(&[Change::Ok, worse, Change::Better]));
    assert!(!fails(&[Change::Ok, busy, Change::Better, Change::New]));
    assert!(!fails(&[]));
}

#[test]
fn an_update_takes_over_the_figures_of_a_quiet_machine_only() {
    let own = Stored { what: "own".to_owned(), figure: 5.0, tolerance: 0.5 };
    let row = vec![stored(2.0), own.clone()];
    let mut kept = Baseline { profile: baseline::profile().to_owned(), row };
    kept.update(&[measured("step", 1.23456, true), measured("own", 9.0, false), measured("new", 4.0, true)]);
    let new = Stored { what: "new".to_owned(), ..stored(4.0) };
    assert_eq!(kept.row, [stored(1.235), own, new]);
    assert_eq!(Baseline::parse(&kept.text()).expect("the text is read"), kept);
    let mut other = Baseline { profile: "another".to_owned(), ..kept };
    other.update(&[measured("step", 1.0, true)]);
    assert_eq!((other.profile.as_str(), other.row.len()), (baseline::profile(), 1));
}

#[test]
fn the_kept_figures_can_be_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/ratios.toml");
    let kept = Baseline::parse(&std::fs::read_to_string(path).expect("the file")).expect("figures");
    assert!(["release", "debug"].contains(&kept.profile.as_str()), "{}", kept.profile);
    for row in &kept.row {
        assert!(row.figure >= 0.0 && row.tolerance > 0.0 && row.tolerance < 1.0, "{row:?}");
        assert_eq!(kept.row.iter().filter(|other| other.what == row.what).count(), 1, "{row:?}");
    }
}

#[test]
fn there_are_four_tasks_in_each_of_five_languages() {
    let tasks = task::all();
    assert_eq!(tasks.len(), 20);
    for language in ["Python", "JavaScript", "Rust", "Go", "C and shell"] {
        assert_eq!(tasks.iter().filter(|task| task.head.language == language).count(), 4, "{language}");
    }
}

#[test]
fn the_phases_of_a_run_add_up_to_its_time() {
    let at = |ms: u64, event: &str, details: serde_json::Value| json!({ "timestamp": format!("1970-01-01T00:00:{:02}.{:03}Z", ms / 1000, ms % 1000), "event": event, "details": details });
    let verdict = |ms: u64| json!({ "duration_ms": ms, "outcome": { "kind": "held" } });
    let controlled = json!({ "duration_ms": 1000, "teeth": { "planted": "a.py", "bit": true }, "environment": { "path": ["/bin"] } });
    let cached = json!({ "duration_ms": 0, "cached": true });
    let events = [
        at(1_500, "ISOLATION_ATTESTED", json!({})),
        at(2_500, "CONTRACT_JUDGED", json!({ "subject": { "control": 1 }, "verdict": verdict(700) })),
        at(2_500, "TASK_STARTED", json!({})),
        at(5_500, "ATTEMPT_ENDED", json!({})),
        at(7_750, "CONTRACT_JUDGED", json!({ "subject": { "contract": 1 }, "verdict": controlled })),
        at(7_750, "TASK_COMPLETED", json!({ "pass": "verified" })),
        at(8_000, "CONTRACT_JUDGED", json!({ "subject": { "final": 1 }, "verdict": cached })),
        at(8_000, "EXECUTION_COMPLETE", json!({})),
    ];
    let account = phases::account(&events, 1_000.0, 8_500.0);
    let wanted = phases::Phases {
        prepare: 0.5,
        base: 1.0,
        agent: 3.0,
        check: 1.0,
        control: 1.25,
        last: 0.25,
        exit: 0.5,
    };
    assert_eq!(account.phases, wanted);
    assert_eq!((account.runs, account.base_run, account.verified), (3, 0.7, true));
    assert_eq!(account.path, ["/bin"]);
}

#[test]
fn a_task_of_the_bench_passes_by_its_solution_and_not_without() {
    let tasks = task::all();
    let task = tasks.iter().find(|task| task.name == "python-durations").expect("the task");
    for (does_work, code) in [(true, 0), (false, 4)] {
        let env = Env::new("");
        if !env.has_fences() {
            return;
        }
        let solution = env.folder().join("solution");
        task.write_solution(&solution);
        let agent = if does_work { task::agent(&solution, 0) } else { vec!["true".to_owned()] };
        task.write_repository(&env.work(), &agent);
        env.approve();
        env.provost(&["run"]).exits(code);
        let events = env.provost(&["log", "--json"]).exits(0).lines();
        let account = phases::account(&events, 0.0, 0.0);
        assert_eq!(account.verified, does_work);
        assert!(account.runs >= 1 && does_work == (account.phases.check > 0.0), "{account:?}");
    }
}
