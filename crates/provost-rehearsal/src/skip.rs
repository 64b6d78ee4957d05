//! Records the tests that could not run here, so that none of them passes unnoticed.
//!
//! `./test` names a file in `PROVOST_TEST_SKIPS` and prints its lines at the end. Each line has the reason,
//! the missing thing and the test. With `PROVOST_TEST_REQUIRE=all` a test fails if a tool is missing; a
//! list of names (`PROVOST_TEST_REQUIRE=postgres,npm`) requires only these. Crates that do not depend on
//! this one include the file itself.

#![allow(dead_code, unreachable_pub, clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::Write as _;

/// Records that a tool or a kernel feature is missing. `how` says how to get it.
#[track_caller]
pub fn tool(name: &str, how: &str) {
    let required = std::env::var("PROVOST_TEST_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|each| each == "all" || each == name);
    assert!(
        !is_required,
        "this test needs {name}, and PROVOST_TEST_REQUIRE={required} does not let it be skipped: {how}"
    );
    record("a tool is missing", &format!("{name} ({how})"));
}

/// Records that isolation at the level `clean` is missing.
#[track_caller]
pub fn fences(why: &str) {
    tool("bubblewrap", &format!("apt-get install bubblewrap, and allow user namespaces; {why}"));
}

/// Records that the test needs root, or an ordinary user.
pub fn user(needs: User) {
    match needs {
        User::Root => record("the user is another", "needs root"),
        User::Ordinary => record("the user is another", "needs an ordinary user"),
    }
}

/// The user that a test needs.
pub enum User {
    Root,
    Ordinary,
}

/// Records that a package is missing and its registry is unreachable. Check the latter before the call.
pub fn registry(package: &str, why: &str) {
    record("a registry cannot be reached", &format!("{package}: {why}"));
}

/// Records that the test takes long: only `./test --full` runs it.
pub fn full(what: &str) {
    record("only `./test --full` runs it", what);
}

/// Records that the test needs cases that are not part of this repository.
pub fn cases(path: &str) {
    record("cases are not beside the repository", path);
}

fn record(reason: &str, what: &str) {
    let thread = std::thread::current();
    let line = format!("{reason}: {}: {}\n", what.replace('\n', " "), thread.name().unwrap_or("a test"));
    eprint!("skipped: {line}");
    let Some(path) = std::env::var_os("PROVOST_TEST_SKIPS") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "PROVOST_TEST_SKIPS={} cannot be written: {written:?}", path.display());
}
