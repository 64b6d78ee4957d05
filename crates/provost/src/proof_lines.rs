//! Shows a proof map: as lines, as the margin of a diff, as JSON and as SARIF.

use provost_core::model::plan::StepNumber;
use provost_core::model::proof_map::{HunkMark, HunkProof, LineChange, ProofMap};
use provost_engine::exec::proof_map::MadeMap;
use serde_json::{Value, json};

use crate::{diagnose, terminal};

const RULE: &str = "unproved";

/// Returns the map as lines, with a summary at the end.
pub(crate) fn text(heading: &str, made: &MadeMap) -> String {
    let mut text = format!("{heading}\n");
    let places: Vec<String> = made.map.hunks.iter().map(place).collect();
    let width = places.iter().map(|place| place.chars().count()).max().unwrap_or_default();
    for (hunk, place) in made.map.hunks.iter().zip(&places) {
        let line = format!("  {} {place:width$}  {}", sign(hunk.mark), hunk.why);
        text.push_str(&format!("{}\n", line.trim_end()));
    }
    if made.map.hunks.is_empty() {
        text.push_str("  no file changed\n");
    }
    if let Some(broken) = &made.broken {
        let outcome = &broken.outcome;
        text.push_str(&format!(
            "the contract does not hold on the judged tree ({outcome}), so nothing can be proved with it\n"
        ));
        return text;
    }
    let share = made.map.share();
    text.push_str(&share.to_string());
    if share.not_buildable > 0 {
        text.push_str(&format!("; {} not buildable alone", share.not_buildable));
    }
    if share.not_tried > 0 {
        text.push_str(&format!("; {} not tried", share.not_tried));
    }
    let runs = terminal::count(made.runs, "run");
    let command = made.command.lines().next().unwrap_or_default();
    text.push_str(&format!("\ncontract: {command} ({}, {runs})\n", made.level));
    text
}

fn place(hunk: &HunkProof) -> String {
    let removed = match (hunk.added_lines, hunk.removed_lines) {
        (0, removed) if removed > 0 => format!(" ({} removed)", terminal::count(removed, "line")),
        _ => String::new(),
    };
    format!("{}{removed}", hunk.place())
}

fn sign(mark: HunkMark) -> String {
    let sign = mark.sign().to_string();
    match mark {
        HunkMark::Proved => terminal::coloured(&sign, "32"),
        HunkMark::Unproved => terminal::coloured(&sign, "31"),
        HunkMark::NotBuildable => terminal::coloured(&sign, "33"),
        HunkMark::NotTried => sign,
    }
}

/// Returns the lines of a unified diff, each changed line with the mark of its hunk before it. `line` shows
/// one line of the diff.
pub(crate) fn with_margin(diff: &str, path: &str, map: &ProofMap, line: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    // The number of the next line of the judged tree.
    let mut next = 0;
    for (at, each) in diff.lines().enumerate() {
        let is_header = at < 2;
        let change = match each.as_bytes().first() {
            _ if is_header => None,
            Some(b'+') => Some(LineChange::Added),
            Some(b'-') => Some(LineChange::Removed),
            Some(b'@') => {
                next = first_new_line(each).unwrap_or(next);
                None
            }
            _ => None,
        };
        let hunk = change.and_then(|change| map.of_line(path, next, change));
        let margin = hunk.map_or_else(|| " ".to_owned(), |hunk| sign(hunk.mark));
        text.push_str(&format!("{margin} {}\n", line(each)));
        let is_of_new = !is_header && matches!(each.as_bytes().first(), Some(b'+' | b' ') | None);
        next += usize::from(is_of_new);
    }
    text
}

/// Reads the first line of the new side from `@@ -1,2 +3,4 @@`. An empty side is at the line before.
fn first_new_line(line: &str) -> Option<usize> {
    let side = line.split('+').nth(1)?.split(' ').next()?;
    let (first, count) = side.split_once(',').unwrap_or((side, "1"));
    let first: usize = first.parse().ok()?;
    Some(if count == "0" { first + 1 } else { first })
}

pub(crate) fn json(step: StepNumber, made: &MadeMap) -> Value {
    let mut map = json_map(made);
    map["step"] = json!(step);
    map
}

/// Returns the map for programs.
pub(crate) fn json_map(made: &MadeMap) -> Value {
    let share = made.map.share();
    json!({
        "contract": made.command,
        "isolation": made.level,
        "tree": made.tree,
        "runs": made.runs,
        "proved": share.proved,
        "counted": share.hunks,
        "percent": share.percent(),
        "not_tried": share.not_tried,
        "not_buildable": share.not_buildable,
        "interrupted": made.interrupted,
        "broken": made.broken,
        "hunks": made.map.hunks,
    })
}

/// Returns SARIF 2.1.0 with the unproved hunks of all steps.
pub(crate) fn sarif(maps: &[(StepNumber, MadeMap)]) -> Value {
    let results: Vec<Value> = maps
        .iter()
        .flat_map(|(step, made)| {
            let unproved = made.map.hunks.iter().filter(|hunk| hunk.mark == HunkMark::Unproved);
            unproved.map(move |hunk| result(*step, hunk))
        })
        .collect();
    let rule = json!({
        "id": RULE,
        "shortDescription": { "text": "no contract notices this change" },
        "help": { "text": "The contract of the step holds without these lines, or with a sabotage of them. \
                           Add a check that needs them, or remove them." },
        "defaultConfiguration": { "level": "warning" },
    });
    let driver = json!({
        "name": "provost proved", "semanticVersion": env!("CARGO_PKG_VERSION"), "rules": [rule],
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{ "tool": { "driver": driver }, "results": results }],
    })
}

fn result(step: StepNumber, hunk: &HunkProof) -> Value {
    let region = json!({ "startLine": hunk.first_line, "endLine": hunk.last_line });
    let place = json!({ "artifactLocation": { "uri": diagnose::uri(&hunk.path) }, "region": region });
    json!({
        "ruleId": RULE,
        "ruleIndex": 0,
        "level": "warning",
        "message": { "text": format!("unproved in step {step}: {}", hunk.why) },
        "locations": [{ "physicalLocation": place }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(first: usize, added: usize, removed: usize, mark: HunkMark) -> HunkProof {
        HunkProof {
            path: "a b.py".to_owned(),
            first_line: first,
            last_line: first + added.max(1) - 1,
            added_lines: added,
            removed_lines: removed,
            is_code: true,
            mark,
            why: "w".to_owned(),
            runs: Vec::new(),
            cached: false,
        }
    }

    #[test]
    fn each_changed_line_of_a_diff_has_the_mark_of_its_hunk() {
        let map =
            ProofMap { hunks: vec![hunk(2, 2, 1, HunkMark::Proved), hunk(6, 0, 1, HunkMark::Unproved)] };
        let diff = "--- a/a b.py\n+++ b/a b.py\n@@ -1,6 +1,6 @@\n a\n-b\n+B\n+B2\n c\n d\n-e\n f\n";
        let shown = with_margin(diff, "a b.py", &map, str::to_owned);
        let margin: Vec<&str> = shown.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(margin, ["", "", "", "", "✓", "✓", "✓", "", "", "✗", ""], "{shown}");
        let gone = with_margin("--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n-x\n", "a b.py", &map, str::to_owned);
        assert!(!gone.contains('✓'), "{gone}");
    }

    #[test]
    fn sarif_has_a_region_for_each_unproved_hunk() {
        let made = MadeMap {
            map: ProofMap { hunks: vec![hunk(2, 2, 1, HunkMark::Proved), hunk(6, 3, 1, HunkMark::Unproved)] },
            command: "true".to_owned(),
            level: provost_core::model::verdict::Isolation::Clean,
            tree: String::new(),
            runs: 1,
            broken: None,
            interrupted: false,
        };
        let sarif = sarif(&[(StepNumber(1), made)]);
        let results = sarif["runs"][0]["results"].as_array().unwrap();
        assert_eq!(results.len(), 1);
        let place = &results[0]["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%20b.py");
        assert_eq!(place["region"], json!({ "startLine": 6, "endLine": 8 }));
    }
}
