//! Checks that the plans in docs/plan-format.md and in test_data parse as the pages say.

use provost_core::language::diagnostic::{Code, Severity};

use crate::{diagnose, permissive};

const PAGE: &str = include_str!("../../../../docs/plan-format.md");

/// The fenced plans of a page, good and bad, with the words after `markdown`. Single steps are left out.
fn plans(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("````markdown ") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "````").collect();
            found.push((kind.to_string(), body.join("\n") + "\n"));
        }
    }
    found.retain(|(kind, _)| kind != "steps");
    found
}

#[test]
fn every_plan_of_the_page_is_as_good_or_as_bad_as_it_says() {
    let plans = plans(PAGE);
    assert!(plans.len() > 5);
    for (kind, text) in plans {
        let said = diagnose(&text, permissive);
        match kind.strip_prefix("bad ") {
            Some(code) => {
                let code = Code::find(code).unwrap();
                assert!(said.iter().any(|d| d.code == code), "{kind}: {said:#?}");
            }
            None => {
                let loud: Vec<_> = said.iter().filter(|d| d.severity != Severity::Advice).collect();
                let allowed = |d: &&provost_core::language::diagnostic::Diagnostic| d.code == Code::WeakKind;
                assert!(loud.iter().all(allowed), "{loud:#?}\n{text}");
            }
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_plans_of_test_data_are_as_good_or_as_bad_as_their_folder() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/test_data/plans");
    let mut seen = 0;
    for folder in ["good", "bad"] {
        for entry in std::fs::read_dir(format!("{root}/{folder}")).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let errors: Vec<_> = diagnose(&text, permissive).into_iter().filter(|d| d.is_error()).collect();
            match name.split('-').next().and_then(Code::find) {
                Some(code) => assert!(errors.iter().any(|d| d.code == code), "{name}: {errors:#?}"),
                None => assert!(errors.is_empty(), "{name}: {errors:#?}"),
            }
            seen += 1;
        }
    }
    assert!(seen >= 6);
}
