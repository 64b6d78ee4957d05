//! Tests many plans, each described in one line: `name stage ← depends_on
//! touches`.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::language::globs;
use crate::language::globs::overlap::{Overlap, overlap};

fn agenda(text: &str) -> Agenda {
    Agenda::new(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
        let (head, touches) = line.split_once('|').map_or((line, None), |(head, rest)| (head, Some(rest)));
        let (head, depends_on) = head.split_once('←').unwrap_or((head, ""));
        let mut words = head.split_whitespace();
        let name = words.next().expect("a name").to_owned();
        let stage = match words.next() {
            Some("done") => Stage::Done,
            Some("failed") => Stage::Failed,
            Some("busy") => Stage::InProgress,
            _ => Stage::Approved,
        };
        AgendaEntry {
            name,
            stage,
            under_way: stage == Stage::InProgress,
            depends_on: depends_on.split_whitespace().map(str::to_owned).collect(),
            touches: touches.map(|globs| globs.split_whitespace().map(str::to_owned).collect()),
            asks_a_person: false,
            trouble: None,
            size: head.split_whitespace().find_map(|word| word.parse().ok()),
        }
    }))
}

fn check(text: &str, expected: Expect) {
    let agenda = agenda(text);
    let mut said = String::new();
    for problem in agenda.problems() {
        said.push_str(&format!("problem: {problem}\n"));
    }
    for entry in agenda.entries() {
        said.push_str(&format!("{}: {:?}\n", entry.name, agenda.standing(entry)));
    }
    for start in agenda.starts() {
        said.push_str(&format!("start {}: {:?}\n", start.name, start.beside));
    }
    match agenda.merge_order() {
        Ok(order) => {
            let names: Vec<&str> = order.iter().map(|entry| entry.name.as_str()).collect();
            said.push_str(&format!("order: {}\n", names.join(" ")));
        }
        Err(problem) => said.push_str(&format!("no order: {problem}\n")),
    }
    expected.assert_eq(&said);
}

#[test]
fn a_plan_may_start_when_those_before_it_are_done_and_beside_those_it_does_not_meet() {
    check(
        "api done | src/api/**
         auth ← api | src/auth/**
         login ← api | src/auth/login.rs docs/**
         ui ← auth | src/ui/**
         misc
         old busy | legacy/**
         sweep | legacy",
        expect![[r#"
            api: Done
            auth: Ready
            login: Ready
            misc: Ready
            old: UnderWay
            sweep: Ready
            ui: Waits([("auth", Approved)])
            start auth: Safe
            start login: Meets { plan: "auth", meeting: GlobOverlap { globs: ("src/auth/login.rs", "src/auth/**"), overlap: Shared("src/auth/login.rs") } }
            start misc: Undeclared
            start sweep: Meets { plan: "old", meeting: GlobOverlap { globs: ("legacy", "legacy/**"), overlap: Shared("legacy/a") } }
            order: api auth login misc old sweep ui
        "#]],
    );
}

#[test]
fn beside_a_plan_at_work_that_does_not_say_where_nothing_is_safe() {
    check(
        "a busy
         b | src/**
         c |",
        expect![[r#"
            a: UnderWay
            b: Ready
            c: Ready
            start b: Meets { plan: "a", meeting: GlobOverlap { globs: ("src/**", "**"), overlap: Shared("src/a") } }
            start c: Safe
            order: a b c
        "#]],
    );
}

#[test]
fn cycles_and_names_that_nobody_has_are_told() {
    check(
        "a ← b
         b ← c
         c ← a
         d ← a
         self ← self
         lost ← auht
         auth",
        expect![[r#"
            problem: lost depends on auht, but there is no such plan; did you mean auth?
            problem: these plans wait for each other: a → b → c → a
            problem: these plans wait for each other: self → self
            a: Unsound(Cycle { round: ["a", "b", "c", "a"] })
            auth: Ready
            b: Unsound(Cycle { round: ["a", "b", "c", "a"] })
            c: Unsound(Cycle { round: ["a", "b", "c", "a"] })
            d: Waits([("a", Approved)])
            lost: Unsound(Unknown { plan: "lost", named: "auht", nearest: Some("auth") })
            self: Unsound(Cycle { round: ["self", "self"] })
            start auth: Undeclared
            no order: these plans wait for each other: a → b → c → a
        "#]],
    );
}

#[test]
fn work_is_merged_after_what_it_rests_on_then_the_smaller_first_then_by_name() {
    check(
        "z done 1
         base done 900
         top done 2 ← base
         b done 40
         a done 40
         unknown done",
        expect![[r#"
            a: Done
            b: Done
            base: Done
            top: Done
            unknown: Done
            z: Done
            order: z a b base top unknown
        "#]],
    );
}

#[test]
fn whether_two_globs_meet_is_decided_with_a_path_that_shows_it() {
    for (one, other, witness) in [
        ("src/**", "src/auth/*.rs", Some("src/auth/.rs")),
        ("src/**/*.rs", "src/auth/*.rs", Some("src/auth/.rs")),
        ("src", "src/a/b", Some("src/a/b")),
        ("src/", "./src/**", Some("src/a")),
        ("src/*.rs", "src/*.md", None),
        // A folder may have this name, and its content is covered.
        ("src/*.rs", "src/*/mod.rs", Some("src/.rs/mod.rs")),
        ("src/*", "src/*/mod.rs", Some("src/a/mod.rs")),
        ("**/*.md", "docs/**", Some("docs/.md")),
        ("a*b", "*ab", Some("ab")),
        ("a?c", "abc", Some("abc")),
        ("[ab]x", "[bc]x", Some("bx")),
        ("[a]x", "[!a]x", None),
        ("src/{a,b/c}.rs", "src/b/*", Some("src/b/c.rs")),
        ("README.md", "docs/README.md", None),
        ("**/README.md", "docs/README.md", Some("docs/README.md")),
        ("**", "x", Some("x")),
        (".", "x", Some("x")),
        ("src", "srcs/**", None),
        ("a/b", "a", Some("a/b")),
        ("..x", "..x", Some("..x")),
    ] {
        let expected = witness.map_or(Overlap::None, |path| Overlap::Shared(path.to_owned()));
        assert_eq!(overlap(one, other), expected, "{one} {other}");
        let is_shared = |found: &Overlap| matches!(found, Overlap::Shared(_));
        assert_eq!(is_shared(&overlap(other, one)), witness.is_some(), "{other} {one}");
    }
}

#[test]
fn what_cannot_be_decided_is_not_taken_for_disjoint() {
    assert!(matches!(overlap("../x", "y"), Overlap::Undecided(_)));
    let huge = format!("{}x", "{*a,*b}".repeat(24));
    assert_ne!(overlap(&huge, &huge), Overlap::None);
}

/// Returns whether a glob covers a file, as provost checks it.
fn covers(glob: &str, path: &str) -> bool {
    let Ok(glob) = globs::glob(glob) else { return false };
    let matcher = glob.compile_matcher();
    let ends = path.char_indices().filter(|(_, each)| *each == '/').map(|(at, _)| at).chain([path.len()]);
    ends.into_iter().any(|end| matcher.is_match(&path[..end]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_path_that_is_named_is_covered_by_both_and_no_path_is_overlooked(
        one in "([ab*?]{1,3}|\\*\\*)(/([ab*?]{1,2}|\\*\\*)){0,2}",
        other in "([ab*?]{1,3}|\\*\\*)(/([ab*?]{1,2}|\\*\\*)){0,2}",
        paths in proptest::collection::vec("[ab]{1,3}(/[ab]{1,2}){0,3}", 20),
    ) {
        match overlap(&one, &other) {
            Overlap::Shared(path) => prop_assert!(covers(&one, &path) && covers(&other, &path), "{one} {other} {path}"),
            Overlap::None => for path in paths {
                prop_assert!(!(covers(&one, &path) && covers(&other, &path)), "{one} {other} {path}");
            },
            Overlap::Undecided(why) => prop_assert!(globs::glob(&one).is_err() || globs::glob(&other).is_err(), "{why}"),
        }
    }
}
