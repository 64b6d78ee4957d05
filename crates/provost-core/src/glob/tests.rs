//! What overlaps, and that it is what the library that files are taken over with says.

use globset::GlobBuilder;
use proptest::prelude::*;

use super::*;

fn globs(texts: &[&str]) -> Vec<Glob> {
    texts.iter().map(|text| Glob::parse(text).unwrap()).collect()
}

fn common_path(one: &str, other: &str) -> Option<String> {
    overlap(&globs(&[one]), &globs(&[other]))
}

/// The library that files are taken over with says the same of a path, or of a folder it is in.
fn library_covers(glob: &str, path: &str) -> bool {
    let matcher = GlobBuilder::new(plain(glob)).literal_separator(true).build().unwrap().compile_matcher();
    let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
    folders.chain([path]).any(|part| matcher.is_match(part))
}

#[test]
fn two_globs_overlap_where_one_path_is_covered_by_both() {
    for (one, other, path) in [
        ("src/**", "docs/**", None),
        ("src/**", "src/a/**", Some("src/a/a")),
        ("src", "src/a.rs", Some("src/a.rs")),
        ("src/*.rs", "src/lib.*", Some("src/lib.rs")),
        ("src/*.rs", "src/*.md", None),
        ("src/*.rs", "**/*.md", Some("src/a.rs/a.md")),
        ("**/*.rs", "src/**", Some("src/.rs")),
        ("**/a/**/b", "a/*/c/*", Some("a/x/c/b")),
        ("**/a/**/b", "x/*/c/*", Some("x/a/c/b")),
        ("a?c", "abc", Some("abc")),
        ("a?c", "ac", None),
        ("[ab]x", "[bc]x", Some("bx")),
        ("[!a]x", "ax", None),
        ("{src,docs}/x", "docs/*", Some("docs/x")),
        ("{src,docs}/x", "test/*", None),
        ("src/{a,b/c}.rs", "src/b/**", Some("src/b/c.rs")),
        ("*", "deep/er/file", Some("deep/er/file")),
        ("**", "anything", Some("anything")),
        (".", "./a/", Some("a")),
        ("[.]", "**", None),
        ("a[.][.]", "a..", Some("a..")),
        ("src/[.][.]/x", "src/**", None),
        ("\\*", "\\*", Some("*")),
        ("\\*", "a*", None),
        ("a**b", "a/b", None),
        ("name", "NAME", None),
        ("é*", "?**", Some("é")),
    ] {
        let found = common_path(one, other);
        match (&found, path) {
            (None, None) => {}
            (Some(found), Some(path)) => {
                assert!(library_covers(one, found) && library_covers(other, found), "{one} {other}: {found}");
                assert!(library_covers(one, path) && library_covers(other, path), "{one} {other}: {path}");
            }
            _ => panic!("{one} and {other}: {found:?} instead of {path:?}"),
        }
        assert_eq!(common_path(other, one).is_some(), found.is_some(), "{one} and {other}, turned round");
    }
}

#[test]
fn nothing_overlaps_with_no_glob_at_all() {
    assert_eq!(overlap(&[], &globs(&["**"])), None);
    assert_eq!(overlap(&globs(&["a", "b/c"]), &globs(&["d", "b/**"])).as_deref(), Some("b/c"));
}

#[test]
fn what_is_no_glob_is_refused() {
    for glob in ["/", "/etc", "../x", "a/../b", "a//b", "a/./b", "src/[", "{a", "a}", "[b-a]", "a\\"] {
        assert!(Glob::parse(glob).is_err(), "{glob}");
    }
}

/// Many stars, which would be many ways for a matcher that tries them all.
#[test]
fn globs_that_are_hard_to_try_are_decided_at_once() {
    let many = "*a".repeat(40);
    assert_eq!(common_path(&format!("{many}b"), &format!("{many}c")), None);
    assert!(common_path(&format!("{many}b"), &format!("{many}*")).is_some());
    assert_eq!(common_path(&format!("x/{many}[b]"), &format!("y/{many}c")), None);
    let deep = "**/a/".repeat(20);
    assert!(common_path(&format!("{deep}b"), "**/b").is_some());
}

fn a_glob() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "b",
        "ab",
        "*",
        "**",
        "?",
        "a*",
        "*b",
        "a?b",
        "[ab]",
        "[!a]",
        "[a-c]x",
        "{a,b}",
        "{a,b*}x",
        "{a/b,c}",
        "{**/a,b}",
        "{a,}",
        "**a",
        "a**",
        "{{a,b},c}",
        ".a",
        "\\*",
        "{x/**,y}",
    ]);
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

fn a_path() -> impl Strategy<Value = String> {
    let part =
        prop::sample::select(vec!["a", "b", "c", "ab", "x", "ax", "bx", "axb", "aab", ".a", "*", "y", "cx"]);
    prop::collection::vec(part, 1..6).prop_map(|parts| parts.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_glob_covers_what_the_library_covers(glob in a_glob(), path in a_path()) {
        let own = Glob::parse(&glob).unwrap().covers(path.as_bytes());
        prop_assert_eq!(own, library_covers(&glob, &path), "{} {}", glob, path);
    }

    #[test]
    fn what_is_found_is_covered_by_both_and_what_is_not_found_is_not_there(
        one in a_glob(), other in a_glob(), paths in prop::collection::vec(a_path(), 40)
    ) {
        match common_path(&one, &other) {
            Some(path) => prop_assert!(
                library_covers(&one, &path) && library_covers(&other, &path), "{} {}: {}", one, other, path
            ),
            None => for path in paths {
                prop_assert!(
                    !library_covers(&one, &path) || !library_covers(&other, &path), "{} {}: {}", one, other, path
                );
            }
        }
    }
}
