//! Tests with real, labelled outputs of other programs, if they are in a folder next to this one.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::BTreeMap;

use provost_core::rules::recover::class::{self, FailureOutput};

const OUTPUTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/stderr.jsonl");

#[test]
fn nine_in_ten_real_outputs_are_known_and_no_wrong_retry_or_stop_among_twenty() {
    let Ok(text) = std::fs::read_to_string(OUTPUTS) else {
        return crate::skip::cases(OUTPUTS);
    };
    let (mut all, mut right) = (0u32, 0u32);
    let mut said: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let row: serde_json::Value = serde_json::from_str(line).expect("a row");
        let exit_code = row["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok());
        let stderr = row["text"].as_str().unwrap_or_default();
        let found = class::of(FailureOutput { stderr, exit_code, ..FailureOutput::default() }).class.word();
        let alternatives = row["alt"].as_array().cloned().unwrap_or_default();
        let good = row["class"] == found || alternatives.iter().any(|each| each == found);
        all += 1;
        right += u32::from(good);
        let count = said.entry(found.to_owned()).or_default();
        *count = (count.0 + u32::from(good), count.1 + 1);
    }
    println!("{right} of {all}: {said:?}");
    assert!(right * 10 >= all * 9, "{right} of {all}");
    for class in ["transient", "permission"] {
        let (good, of) = said[class];
        assert!(good * 20 >= of * 19, "{class}: {good} of {of}");
    }
}
