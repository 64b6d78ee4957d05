//! SARIF 2.1.0: each check that did not hold, at its position in the plan.

use serde_json::{Value, json};

use super::{End, Report};

const RULE: &str = "contract";

pub(crate) fn text(report: &Report, file: &str) -> String {
    let failed = report.checks.iter().filter(|check| matches!(check.end, End::Failed(_) | End::Waiting(_)));
    let mut results: Vec<Value> = failed
        .map(|check| {
            let line = report.text.get(..check.span.start).unwrap_or_default().matches('\n').count() + 1;
            result(file, line, format!("{}: {}", check.name, check.end.words()))
        })
        .collect();
    let unfinished = report.unfinished();
    results.extend(unfinished.map(|why| result(file, 1, format!("the plan is not done: {why}"))));
    let rule = json!({
        "id": RULE,
        "shortDescription": { "text": "a contract of the plan does not hold" },
        "defaultConfiguration": { "level": "error" },
    });
    let driver = json!({
        "name": "provost run", "semanticVersion": env!("CARGO_PKG_VERSION"), "rules": [rule],
    });
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{ "tool": { "driver": driver }, "results": results }],
    });
    format!("{log:#}\n")
}

fn result(file: &str, line: usize, words: String) -> Value {
    let place = json!({ "artifactLocation": { "uri": file }, "region": { "startLine": line } });
    json!({
        "ruleId": RULE,
        "level": "error",
        "message": { "text": words },
        "locations": [{ "physicalLocation": place }],
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn what_did_not_hold_has_its_line() {
        let text = super::text(&crate::report::tests::example(), "PLAN.md");
        let value: Value = serde_json::from_str(&text).unwrap();
        let results = value["runs"][0]["results"].as_array().unwrap();
        let lines: Vec<_> = results
            .iter()
            .map(|result| {
                (
                    &result["message"]["text"],
                    &result["locations"][0]["physicalLocation"]["region"]["startLine"],
                )
            })
            .map(|(text, line)| format!("{line} {}", text.as_str().unwrap()))
            .collect();
        assert_eq!(
            lines,
            [
                "2 2. Mend | it: waits for a person: broke: exit code 1",
                "2 postcondition 1: it works: failed: timed out"
            ]
        );
    }
}
