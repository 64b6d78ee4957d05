//! Tests with a process that dies in the middle of an archiving, and with what such a process leaves.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use provost_core::model::chain::{Head, SealedEvent};
use provost_core::model::timestamp::Timestamp;

use super::{ArchiveStage, archive};
use crate::suite::{all, append_steps, archive_plans, plan, started, write};
use crate::{Error, Log as _, Query, Sqlite, transfer};

const STAGES: [ArchiveStage; 4] =
    [ArchiveStage::Written, ArchiveStage::Verified, ArchiveStage::Named, ArchiveStage::Removed];

#[test]
fn a_process_that_dies_at_any_stage_loses_nothing_and_the_next_one_finishes() {
    for stop in STAGES {
        let folder = tempfile::tempdir().unwrap();
        let (state, cold) = (folder.path().join("state"), folder.path().join("cold"));
        let log = Sqlite::open(&state).unwrap();
        append_steps(&log, "a", 300);
        append_steps(&log, "b", 3);
        let before = all(&log, Query::plan(&plan("a")));
        let died = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "archive::tests::a_process_that_dies"])
            .env("PROVOST_TEST_FOLDER", folder.path())
            .env("PROVOST_TEST_STAGE", format!("{stop:?}"))
            .output()
            .unwrap();
        assert!(!died.status.success(), "it lives after {stop:?}");
        assert_eq!(all(&log, Query::plan(&plan("a"))), before, "after {stop:?}");
        assert_eq!(log.unarchived_plans().unwrap().contains(&plan("a")), stop != ArchiveStage::Removed);
        archive_plans(&log, &cold, &["a"]);
        assert_eq!(all(&Sqlite::open(&state).unwrap(), Query::plan(&plan("a"))), before);
        assert_eq!(log.unarchived_plans().unwrap(), [plan("b")]);
        // A later archiving removes what was half written.
        archive_plans(&log, &cold, &["b"]);
        let names: Vec<_> = fs::read_dir(&cold).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| name.to_string_lossy().ends_with(".jsonl.zst")), "{names:?}");
        assert_eq!(names.len(), 2, "{names:?}");
    }
}

#[test]
#[ignore = "another test starts it, and it dies"]
fn a_process_that_dies() {
    let folder = std::env::var_os("PROVOST_TEST_FOLDER").expect("where to work");
    let stop = std::env::var("PROVOST_TEST_STAGE").expect("when to die");
    let folder = Path::new(&folder);
    let log = Sqlite::open(&folder.join("state")).unwrap();
    let _ = archive(&log, &folder.join("cold"), &[plan("a")], Timestamp(7), &mut |stage| {
        if format!("{stage:?}") == stop { std::process::abort() } else { Ok(()) }
    });
}

#[test]
fn a_cold_file_is_lines_of_json_that_are_the_events() {
    let folder = tempfile::tempdir().unwrap();
    let log = Sqlite::open(folder.path()).unwrap();
    append_steps(&log, "a", 2);
    append_steps(&log, "ein \"Plän\"\n", 1);
    let events = all(&log, Query::default());
    let cold = folder.path().join("archive");
    archive_plans(&log, &cold, &["a", "ein \"Plän\"\n"]);
    let path = fs::read_dir(&cold).unwrap().next().unwrap().unwrap().path();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with("1970-01-01-") && name.ends_with(".jsonl.zst"), "{name}");
    let mut text = String::new();
    zstd::Decoder::new(fs::File::open(&path).unwrap()).unwrap().read_to_string(&mut text).unwrap();
    for (line, event) in text.lines().zip(&events) {
        let mut expected = event.line();
        expected.pop();
        assert!(line.starts_with(&format!("{expected},\"place\":")), "{line}");
    }
    assert_eq!(text.lines().count(), 3);
    // The folder moves with the state folder, and is found there first.
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("state");
    drop(log);
    fs::rename(folder.path(), &moved).unwrap();
    let log = Sqlite::open(&moved).unwrap();
    assert_eq!(all(&log, Query::plan(&plan("a"))), events[..2]);
    fs::create_dir(folder.path()).unwrap();
}

#[test]
fn a_chain_that_does_not_verify_stays_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = Sqlite::open(folder.path()).unwrap();
    append_steps(&log, "a", 3);
    let forged = rusqlite::Connection::open(folder.path().join("log.db")).unwrap();
    forged
        .execute_batch("DROP TRIGGER event_is_never_changed; UPDATE event SET details = '{}' WHERE seq = 2")
        .unwrap();
    let refused = archive(&log, &folder.path().join("cold"), &[plan("a")], Timestamp(7), &mut |_| Ok(()));
    assert!(matches!(refused, Err(Error::BrokenChain { .. })), "{refused:?}");
    assert_eq!(log.unarchived_plans().unwrap(), [plan("a")]);
    assert_eq!(fs::read_dir(folder.path().join("cold")).unwrap().count(), 0);
}

#[test]
fn archived_plans_move_to_another_log_with_all_others() {
    let (from_folder, to_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (Sqlite::open(from_folder.path()).unwrap(), Sqlite::open(to_folder.path()).unwrap());
    let cold = from_folder.path().join("archive");
    for name in ["a", "b", "c"] {
        append_steps(&from, name, 4);
    }
    // `c` is moved before it is archived here.
    transfer(&from, &to, &mut |_| {}).unwrap();
    append_steps(&from, "c", 2);
    append_steps(&from, "d", 4);
    append_steps(&from, "e", 4);
    archive_plans(&from, &cold, &["a", "c", "d", "e"]);
    write(&from, "e", 4, 50, &[started(1)]).unwrap();
    archive_plans(&from, &cold, &["e"]);
    write(&from, "e", 5, 60, &[started(2)]).unwrap();
    let moved = transfer(&from, &to, &mut |_| {}).unwrap();
    assert_eq!((moved.plans, moved.events), (5, 2 + 4 + 5 + 1));
    for name in ["a", "b", "c", "d", "e"] {
        let chain = |log: &Sqlite| all(log, Query::plan(&plan(name)));
        assert_eq!(chain(&from), chain(&to), "{name}");
        assert_eq!(from.head(&plan(name)).unwrap(), to.head(&plan(name)).unwrap());
    }
    assert_eq!(to.archived_plans().unwrap(), [plan("d")]);
    // Their places are those of the first log, and all that is written here later comes after them.
    let end = to.cursor().unwrap();
    let query = Query { through: Some(end), ..Query::plan(&plan("d")) };
    assert_eq!(all(&to, query).len(), 4);
    append_steps(&to, "f", 1);
    let query = Query { after: Some(end), ..Query::default() };
    assert_eq!(all(&to, query).len(), 1);
    assert_eq!(transfer(&from, &to, &mut |_| {}).unwrap().events, 0);
    // A lost file stops the move before anything of its plan is recorded.
    let third_folder = tempfile::tempdir().unwrap();
    let third = Sqlite::open(third_folder.path()).unwrap();
    fs::remove_dir_all(&cold).unwrap();
    let refused = transfer(&from, &third, &mut |_| {}).unwrap_err();
    assert!(refused.is_of_cold_file(), "{refused}");
    assert_eq!(third.archived_plans().unwrap(), []);
}

#[test]
fn details_with_line_ends_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let log = Sqlite::open(&folder.path().join("state")).unwrap();
    append_steps(&log, "a", 3);
    // As another program could have written it: the chain is right.
    rewrite_with_line_ends(&log, &folder.path().join("state/log.db"));
    let before = all(&log, Query::plan(&plan("a")));
    assert!(before.iter().any(|event| event.details.contains('\n')));
    archive_plans(&log, &folder.path().join("cold"), &["a"]);
    assert_eq!(all(&log, Query::plan(&plan("a"))), before);
}

/// Puts a line end into the details of each event, and computes the chain anew.
fn rewrite_with_line_ends(log: &Sqlite, database: &Path) {
    let mut head = Head::START;
    let events = all(log, Query::plan(&plan("a")));
    let connection = rusqlite::Connection::open(database).unwrap();
    connection.execute_batch("DROP TRIGGER event_is_never_changed").unwrap();
    for event in events {
        let details = event.details.replacen('{', "{\n", 1);
        let event = SealedEvent { details, prev: head.hash, ..event };
        head = Head { seq: event.seq, hash: event.computed_hash() };
        let values = rusqlite::params![event.details, event.prev.0, head.hash.0, event.seq.cast_signed()];
        connection
            .execute("UPDATE event SET details = ?1, prev = ?2, hash = ?3 WHERE seq = ?4", values)
            .unwrap();
    }
}
