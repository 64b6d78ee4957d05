//! Tests with real plans of other projects, if they are in a folder next to this one.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::language::diagnostic::Code;
use provost_core::language::facts::Facts;
use provost_core::language::parse;

use crate::{cpu_time, diagnose, permissive};

const PLANS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/plans");

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() { files(&entry.path(), found) } else { found.push(entry.path()) }
    }
}

/// Returns the texts of all plans; without any, reports the test as skipped.
fn texts() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(Path::new(PLANS), &mut found);
    if found.is_empty() {
        crate::skip::cases(PLANS);
    }
    found.sort();
    found.into_iter().filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?))).collect()
}

fn embedded(name: &str) -> Option<String> {
    let path = format!("{PLANS}/autopoiesis/{name}");
    let text = std::fs::read_to_string(&path);
    if text.is_err() {
        crate::skip::cases(&path);
    }
    text.ok()
}

#[test]
fn the_first_two_examples_have_no_errors_on_a_bare_machine() {
    for (name, steps) in [("embedded-plan-1.md", 4), ("embedded-plan-2.md", 3)] {
        let Some(text) = embedded(name) else { return };
        assert_eq!(parse::plan(&text).plan.steps.len(), steps);
        let bare = |plan: &provost_core::model::plan::Plan| Facts {
            git: true,
            slug: "x".into(),
            missing_tools: provost_core::language::facts::questions(plan).tools,
            ..Facts::default()
        };
        for facts in [&permissive as &dyn Fn(&provost_core::model::plan::Plan) -> Facts, &bare] {
            let errors: Vec<_> = diagnose(&text, facts).into_iter().filter(|d| d.is_error()).collect();
            assert!(errors.is_empty(), "{name}: {errors:#?}");
        }
    }
}

#[test]
fn the_third_example_has_two_errors_and_no_wrong_number() {
    let Some(text) = embedded("embedded-plan-3.md") else { return };
    let numbers: Vec<u32> = parse::plan(&text).plan.steps.iter().map(|step| step.number.0).collect();
    assert_eq!(numbers, [1, 2]);
    let errors: Vec<_> = diagnose(&text, permissive).into_iter().filter(|d| d.is_error()).collect();
    let heads: Vec<_> =
        errors.iter().map(|d| (d.code, d.span.of(&text).chars().take(8).collect::<String>())).collect();
    assert_eq!(heads, [(Code::StepRange, "### 3–N.".into()), (Code::StepRange, "### N+1.".into())]);
}

#[test]
fn every_real_plan_is_read_quickly() {
    for (path, text) in texts() {
        let (_, took) = cpu_time(|| diagnose(&text, permissive));
        assert!(took < Duration::from_secs(2), "{path:?} {took:?}");
    }
}

#[test]
fn real_plans_with_random_damage_are_read() {
    // A small random generator, so that a failure can be reproduced from its seed.
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below.max(1) as u64) as usize
    };
    for (_, text) in texts().into_iter().filter(|(_, text)| text.len() < 30_000) {
        for _ in 0..6 {
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            for _ in 0..1 + random(8) {
                let (a, b) = (random(lines.len()), random(lines.len()));
                match random(3) {
                    0 if lines.len() > 1 => drop(lines.remove(a)),
                    1 => lines.insert(a, lines[b]),
                    _ => lines.swap(a, b),
                }
            }
            let mut bytes = lines.concat().into_bytes();
            for _ in 0..random(4) {
                let at = random(bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random(256) as u8;
                }
            }
            let (text, _) = parse::bytes(&bytes);
            diagnose(&text, permissive);
        }
    }
}
