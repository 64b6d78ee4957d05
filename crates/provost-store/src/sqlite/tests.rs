//! Tests errors that only a file on a disk can have.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use provost_core::model::chain::{Auditor, Break};
use rusqlite::Connection;
use tempfile::TempDir;

use super::schema::APPLICATION_ID;
use super::{Sqlite, select};
use crate::suite::{Handles, all, append_steps, plan, started, write};
use crate::{Error, Log as _, Query, suite};

fn fresh() -> Handles {
    let folder = TempDir::new().unwrap();
    Box::new(move || Arc::new(Sqlite::open(folder.path()).unwrap()))
}

crate::every_log_must!(fresh);

fn raw(folder: &Path) -> Connection {
    Connection::open(folder.join("log.db")).unwrap()
}

fn error(result: Result<impl Sized, Error>) -> Error {
    result.err().expect("an error")
}

/// Every holder writes its description before the lease is visible, so a missing one is an error.
#[test]
fn a_lease_that_is_held_and_does_not_say_by_whom_is_no_free_one() {
    let folder = TempDir::new().unwrap();
    let log = Sqlite::open(folder.path()).unwrap();
    let lease = log.lease("a", &suite::someone()).unwrap();
    let file = fs::read_dir(folder.path().join("leases")).unwrap().flatten().next().unwrap().path();
    for emptied in ["", "{", "null"] {
        fs::write(&file, emptied).unwrap();
        assert!(matches!(error(log.holder("a")), Error::LeaseUnreadable { .. }), "{emptied:?}");
    }
    drop(lease);
    assert_eq!(log.holder("a").unwrap(), None);
}

/// While a lease is given back, a reader sees its holder or a free lease, nothing in between.
#[test]
fn a_lease_that_is_given_back_names_its_holder_to_the_end() {
    let folder = TempDir::new().unwrap();
    let (log, other) = (Sqlite::open(folder.path()).unwrap(), Sqlite::open(folder.path()).unwrap());
    std::thread::scope(|scope| {
        let giving = scope.spawn(|| {
            for _ in 0..400 {
                drop(log.lease("a", &suite::someone()).unwrap());
            }
        });
        while !giving.is_finished() {
            let seen = other.holder("a").unwrap();
            assert!(seen.is_none_or(|holder| holder == suite::someone()));
        }
    });
}

#[test]
fn the_folder_and_its_files_are_private() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("deep/state");
    let log = Sqlite::open(&state).unwrap();
    append_steps(&log, "a", 1);
    let _lease = log.lease("a", &suite::someone()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&state.join("leases")), 0o700);
    for file in ["log.db", "log.db-wal", "log.db-shm", "log.lock"] {
        assert_eq!(mode(&state.join(file)), 0o600, "{file}");
    }
}

#[test]
fn a_log_that_was_closed_goes_on_where_it_ended() {
    let folder = TempDir::new().unwrap();
    for round in 1..=3 {
        let log = Sqlite::open(folder.path()).unwrap();
        append_steps(&log, "a", 2);
        assert_eq!(log.head(&plan("a")).unwrap().seq, 2 * round);
    }
    suite::verify_chains(&Sqlite::open(folder.path()).unwrap());
}

#[test]
fn a_log_copied_in_the_middle_of_a_crash_holds_every_append_that_returned() {
    let folder = TempDir::new().unwrap();
    let log = Sqlite::open(folder.path()).unwrap();
    append_steps(&log, "a", 2);
    append_steps(&log, "a", 2);
    // A killed process leaves the database and a write-ahead log with a torn end.
    let copy = TempDir::new().unwrap();
    fs::copy(folder.path().join("log.db"), copy.path().join("log.db")).unwrap();
    let mut wal = fs::read(folder.path().join("log.db-wal")).unwrap();
    wal.extend_from_slice(&[0x5a; 3000]);
    fs::write(copy.path().join("log.db-wal"), wal).unwrap();
    let after = Sqlite::open(copy.path()).unwrap();
    assert_eq!(after.head(&plan("a")).unwrap(), log.head(&plan("a")).unwrap());
    suite::verify_chains(&after);
}

#[test]
fn reading_finds_no_log_where_none_was_made() {
    let folder = TempDir::new().unwrap();
    assert!(Sqlite::open_existing(folder.path()).unwrap().is_none());
    assert!(Sqlite::open_existing(&folder.path().join("absent")).unwrap().is_none());
    fs::write(folder.path().join("log.db"), "").unwrap();
    assert!(Sqlite::open_existing(folder.path()).unwrap().is_none());
}

#[test]
fn a_reader_sees_what_a_writer_appends_and_cannot_append() {
    let folder = TempDir::new().unwrap();
    let writer = Sqlite::open(folder.path()).unwrap();
    append_steps(&writer, "a", 2);
    let reader = Sqlite::open_existing(folder.path()).unwrap().unwrap();
    assert_eq!(all(&reader, Query::default()).len(), 2);
    append_steps(&writer, "a", 1);
    assert_eq!(reader.head(&plan("a")).unwrap().seq, 3);
    let _lease = writer.lease("a", &suite::someone()).unwrap();
    assert_eq!(reader.holder("a").unwrap(), Some(suite::someone()));
    let refused = error(write(&reader, "a", 3, 1, &[started(1)]));
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
}

#[test]
fn nothing_in_the_log_is_changed_or_removed() {
    let folder = TempDir::new().unwrap();
    append_steps(&Sqlite::open(folder.path()).unwrap(), "a", 2);
    let raw = raw(folder.path());
    for sql in [
        "UPDATE event SET details = '{}'",
        "DELETE FROM event WHERE seq = 2",
        "UPDATE plan SET name = 'b'",
        "DELETE FROM plan",
    ] {
        let refused = raw.execute(sql, []).unwrap_err();
        assert!(refused.to_string().contains("the log is append-only"), "{sql}: {refused}");
    }
    assert!(
        raw.execute(
            "INSERT INTO event SELECT NULL, plan, seq, 'now', '', 1, '', '', x'', x'' FROM event",
            []
        )
        .is_err()
    );
}

#[test]
fn an_altered_byte_is_found_by_the_auditor() {
    let folder = TempDir::new().unwrap();
    append_steps(&Sqlite::open(folder.path()).unwrap(), "a", 3);
    let raw = raw(folder.path());
    raw.execute_batch(
        "DROP TRIGGER event_is_never_changed;
         UPDATE event SET details = replace(details, '1', '2') WHERE seq = 2",
    )
    .unwrap();
    let log = Sqlite::open_existing(folder.path()).unwrap().unwrap();
    let mut auditor = Auditor::default();
    let found: Vec<_> = all(&log, Query::plan(&plan("a"))).iter().map(|event| auditor.next(event)).collect();
    assert_eq!(found[..2], [Ok(()), Err(Break::Altered { seq: 2 })]);
}

#[test]
fn a_file_that_is_no_database_is_damaged() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("log.db"), "garbage ".repeat(1000)).unwrap();
    for found in [error(Sqlite::open(folder.path())), error(Sqlite::open_existing(folder.path()))] {
        assert!(matches!(found, Error::Damaged { .. }), "{found:?}");
        assert!(found.to_string().contains("log.db"), "{found}");
    }
}

#[test]
fn a_malformed_database_is_damaged() {
    let folder = TempDir::new().unwrap();
    let log = Sqlite::open(folder.path()).unwrap();
    for _ in 0..50 {
        append_steps(&log, "a", 10);
    }
    drop(log);
    raw(folder.path()).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let path = folder.path().join("log.db");
    let mut bytes = fs::read(&path).unwrap();
    for byte in bytes.iter_mut().skip(4096) {
        *byte = 0xee;
    }
    fs::write(&path, bytes).unwrap();
    let log = Sqlite::open(folder.path()).unwrap();
    let found = error(log.read(&Query::default(), &mut |_| std::ops::ControlFlow::Continue(())));
    assert!(matches!(found, Error::Damaged { .. }), "{found:?}");
}

#[test]
fn a_database_of_somebody_else_is_left_alone() {
    let folder = TempDir::new().unwrap();
    raw(folder.path()).execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 3").unwrap();
    let found = error(Sqlite::open(folder.path()));
    assert!(matches!(found, Error::NotALog { .. }), "{found:?}");
}

#[test]
fn a_log_of_a_newer_version_is_not_touched() {
    let folder = TempDir::new().unwrap();
    drop(Sqlite::open(folder.path()).unwrap());
    raw(folder.path()).execute_batch("PRAGMA user_version = 9").unwrap();
    for found in [error(Sqlite::open(folder.path())), error(Sqlite::open_existing(folder.path()))] {
        assert!(matches!(found, Error::NewerSchema { found: 9, known: 2, .. }), "{found:?}");
    }
}

/// A separate file system, if the test may mount one.
struct Mounted(TempDir);

impl Mounted {
    fn tmpfs(size: &str) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        if !rustix::process::geteuid().is_root() {
            crate::skip::user(crate::skip::User::Root);
            return None;
        }
        let options = format!("size={size}");
        let is_mounted = mount(&["-t", "tmpfs", "-o", &options, "provost-test"], folder.path());
        if !is_mounted {
            crate::skip::tool("tmpfs", "allow mounts in this container");
        }
        is_mounted.then(|| Self(folder))
    }

    fn make_read_only(&self) -> bool {
        mount(&["-o", "remount,ro"], self.0.path())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn mount(args: &[&str], at: &Path) -> bool {
    rustix::process::geteuid().is_root()
        && Command::new("mount").args(args).arg(at).output().is_ok_and(|done| done.status.success())
}

#[test]
fn a_full_disk_is_said_to_be_full_and_loses_nothing_that_was_written() {
    let mounted = Mounted::tmpfs("400k");
    let elsewhere = TempDir::new().unwrap();
    let folder = mounted.as_ref().map_or(elsewhere.path(), |mounted| mounted.0.path());
    let log = Sqlite::open(folder).unwrap();
    if mounted.is_none() {
        log.page_limit.store(24, Ordering::Relaxed);
        log.idle.lock().unwrap().clear();
    }
    let mut written = 0;
    let full = loop {
        match write(&log, "a", written, 1, &[started(1)]) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 100_000, "the disk never filled");
    };
    assert!(matches!(full, Error::Full { .. }), "{full:?}");
    assert_eq!(log.head(&plan("a")).unwrap().seq, written);
    suite::verify_chains(&log);
}

#[test]
fn a_read_only_folder_can_be_read_and_not_written() {
    // Closed by a checkpoint, closed without one, and copied without its shared memory.
    for (truncate, remove_shm) in [(true, true), (false, false), (true, false)] {
        let Some(mounted) = Mounted::tmpfs("8m") else { return };
        let folder = mounted.0.path();
        append_steps(&Sqlite::open(folder).unwrap(), "a", 3);
        if truncate {
            raw(folder).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        }
        if remove_shm {
            let _ = fs::remove_file(folder.join("log.db-shm"));
            let _ = fs::remove_file(folder.join("log.db-wal"));
        }
        assert!(mounted.make_read_only());
        let reader = Sqlite::open_existing(folder).unwrap().unwrap();
        assert_eq!(all(&reader, Query::default()).len(), 3, "{truncate} {remove_shm}");
        assert_eq!(reader.holder("a").unwrap(), None);
        let found = error(Sqlite::open(folder));
        assert!(matches!(found, Error::ReadOnly { .. }), "{found:?}");
    }
}

#[test]
fn a_folder_of_somebody_else_is_not_writable() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("file/state");
    fs::write(folder.path().join("file"), "in the way").unwrap();
    let found = error(Sqlite::open(&state));
    assert!(matches!(found, Error::Unavailable { .. }), "{found:?}");
    assert!(found.to_string().contains("make the state folder"), "{found}");
}

#[test]
fn the_queries_that_matter_go_through_an_index_and_sort_nothing() {
    let folder = TempDir::new().unwrap();
    let log = Sqlite::open(folder.path()).unwrap();
    append_steps(&log, "a", 3);
    let raw = raw(folder.path());
    let explain = |query: Query| {
        let select::SelectStatement { sql, values } = select::statement(&raw, &query).unwrap().unwrap();
        let mut plan = raw.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let lines =
            plan.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
        lines.map(|line| line.unwrap().replace(" CROSS-JOIN", "")).collect::<Vec<_>>().join("; ")
    };
    let by_plan = Query::plan(&plan("a"));
    let cases = [
        (by_plan.clone(), "SEARCH event USING INDEX sqlite_autoindex_event_1 (plan=?)"),
        (
            Query { after_seq: Some(1), newest_first: true, ..by_plan },
            "SEARCH event USING INDEX sqlite_autoindex_event_1 (plan=? AND seq>?)",
        ),
        (
            Query { after: Some(crate::Cursor(1)), ..Query::default() },
            "SEARCH event USING INTEGER PRIMARY KEY (rowid>?)",
        ),
        (
            Query { names: vec!["GATE_APPROVED".to_owned()], newest_first: true, ..Query::default() },
            "SEARCH event USING INDEX event_unusual (name=?)",
        ),
        (
            Query { since: Some(provost_core::model::timestamp::Timestamp(1)), ..Query::default() },
            "SEARCH event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
        ),
    ];
    for (query, expected) in cases {
        let explained = explain(query.clone());
        assert!(explained.starts_with(expected), "{query:?}: {explained}");
        assert!(!explained.contains("TEMP B-TREE"), "{query:?}: {explained}");
    }
}

/// The schema before events could be archived.
const FIRST_SCHEMA: &str = include_str!("schema.sql");

#[test]
fn a_log_of_the_first_version_is_read_as_it_is_and_upgraded_by_a_writer() {
    let folder = TempDir::new().unwrap();
    let now = Sqlite::open(folder.path()).unwrap();
    append_steps(&now, "a", 3);
    let events = all(&now, Query::default());
    let old = TempDir::new().unwrap();
    raw(old.path())
        .execute_batch(&format!(
            "PRAGMA journal_mode = WAL; {FIRST_SCHEMA} PRAGMA application_id = {APPLICATION_ID};
             PRAGMA user_version = 1;
             ATTACH '{}' AS now; INSERT INTO plan SELECT * FROM now.plan; INSERT INTO event SELECT * FROM now.event",
            folder.path().join("log.db").display()
        ))
        .unwrap();
    let reader = Sqlite::open_existing(old.path()).unwrap().unwrap();
    let read = || all(&reader, Query::plan(&plan("a")));
    assert_eq!((read(), reader.cursor().unwrap().0), (events.clone(), 3));
    assert_eq!(
        (reader.unarchived_plans().unwrap(), reader.archived_plans().unwrap()),
        (vec![plan("a")], vec![])
    );
    let writer = Sqlite::open(old.path()).unwrap();
    suite::archive_plans(&writer, &old.path().join("archive"), &["a"]);
    assert_eq!((read(), reader.cursor().unwrap().0), (events, 4), "the reader was opened before");
    assert_eq!(reader.archived_plans().unwrap(), [plan("a")]);
    append_steps(&writer, "b", 1);
    assert_eq!(reader.cursor().unwrap().0, 5);
}

#[test]
fn only_events_that_are_recorded_as_archived_can_be_removed() {
    let folder = TempDir::new().unwrap();
    let log = Sqlite::open(folder.path()).unwrap();
    append_steps(&log, "a", 3);
    append_steps(&log, "b", 3);
    suite::archive_plans(&log, &folder.path().join("archive"), &["a"]);
    let record = |last: u32, hash: &str| {
        format!(
            "INSERT INTO archived SELECT id, {last}, 1, x'', {hash}, 1, 0, 1, x'' FROM plan WHERE name = 'b'; \
             DELETE FROM event"
        )
    };
    for attempt in [
        "DELETE FROM event".to_owned(),
        "DELETE FROM plan".to_owned(),
        "DELETE FROM archived".to_owned(),
        "UPDATE archived SET digest = x'00'".to_owned(),
        "UPDATE archive_file SET name = 'other'".to_owned(),
        "DELETE FROM archive_file".to_owned(),
        record(2, "x''"),
        record(3, "x''"),
    ] {
        let refused = raw(folder.path()).execute_batch(&format!("BEGIN; {attempt}; COMMIT")).unwrap_err();
        assert!(refused.to_string().contains("append-only"), "{attempt}: {refused}");
    }
    assert_eq!(all(&log, Query::plan(&plan("b"))).len(), 3);
    assert_eq!(all(&log, Query::plan(&plan("a"))).len(), 3);
}

#[test]
fn the_space_of_archived_events_is_used_again() {
    let folder = TempDir::new().unwrap();
    let log = Sqlite::open(folder.path()).unwrap();
    let pages =
        || -> i64 { raw(folder.path()).query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap() };
    append_steps(&log, "before", 3000);
    let full = pages();
    suite::archive_plans(&log, &folder.path().join("archive"), &["before"]);
    append_steps(&log, "after", 3000);
    assert!(pages() <= full + full / 10, "{} pages, and {full} before", pages());
}
