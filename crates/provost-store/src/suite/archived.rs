//! Cases about archived plans: nothing is lost at any moment, and every change of a cold file is found.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use super::*;
use crate::archive::{ArchiveResult, ArchiveStage, ColdPart, archive};

/// Archives plans of the log.
pub fn archive_plans(log: &dyn ArchivableLog, folder: &Path, names: &[&str]) -> ArchiveResult {
    let plans: Vec<PlanId> = names.iter().map(|name| plan(name)).collect();
    archive(log, folder, &plans, Timestamp(7), &mut |_| Ok(())).unwrap()
}

/// Every query about a plan, with its answer.
fn answers(log: &dyn Log, name: &str) -> Vec<Vec<(Cursor, SealedEvent)>> {
    let whole = Query::plan(&plan(name));
    let queries = [
        whole.clone(),
        Query { newest_first: true, ..whole.clone() },
        Query { newest_first: true, limit: Some(2), ..whole.clone() },
        Query { limit: Some(2), ..whole.clone() },
        Query { limit: Some(0), ..whole.clone() },
        Query { after_seq: Some(2), ..whole.clone() },
        Query { after_seq: Some(2), limit: Some(2), ..whole.clone() },
        Query { step: Some(StepNumber(1)), ..whole.clone() },
        Query { names: vec!["TASK_FAILED".to_owned()], ..whole.clone() },
        Query { names: vec!["TASK_FAILED".to_owned()], newest_first: true, limit: Some(1), ..whole.clone() },
        Query { since: Some(Timestamp(150)), ..whole.clone() },
        Query { until: Some(Timestamp(150)), ..whole.clone() },
        Query { after: Some(Cursor(2)), through: Some(Cursor(5)), ..whole },
    ];
    queries.iter().map(|query| placed(log, query)).collect()
}

fn placed(log: &dyn Log, query: &Query) -> Vec<(Cursor, SealedEvent)> {
    let mut found = Vec::new();
    log.read_placed(query, &mut |place, sealed| {
        found.push((place, sealed));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

pub fn read_archived_plans_as_before(open: &Handles) {
    let (log, folder) = (open(), tempfile::tempdir().unwrap());
    history(&*log);
    let (before, head, end) = (answers(&*log, "a"), log.head(&plan("a")).unwrap(), log.cursor().unwrap());
    let archivings = log.archivings().unwrap();
    let result = archive_plans(&*log, folder.path(), &["a"]);
    assert_eq!((result.plans, result.events, result.files.len()), (1, 5, 1));
    for log in [&log, &open()] {
        assert_eq!(answers(&**log, "a"), before);
        assert_eq!(log.head(&plan("a")).unwrap(), head);
        assert_eq!(log.unarchived_plans().unwrap(), [plan("b")]);
        assert_eq!(log.archived_plans().unwrap(), [plan("a")]);
        assert_eq!(log.archived_count().unwrap(), 1);
        assert_eq!(told(&**log, &Query::default()), "b1 b2 b3 b4");
        assert!(log.cursor().unwrap() > end, "followers look again");
        assert_ne!(log.archivings().unwrap(), archivings);
    }
    verify_chains(&*log);
    // A second time there is nothing to do.
    assert_eq!(archive_plans(&*log, folder.path(), &["a", "unheard of"]), ArchiveResult::default());
}

pub fn go_on_with_an_archived_plan(open: &Handles) {
    let (log, folder) = (open(), tempfile::tempdir().unwrap());
    history(&*log);
    archive_plans(&*log, folder.path(), &["b", "a"]);
    assert_eq!(log.unarchived_plans().unwrap(), []);
    let end = log.cursor().unwrap();
    for wrong in [0, 4] {
        let refused = write(&*log, "a", wrong, 9, &[started(1)]).unwrap_err();
        assert!(matches!(refused, Error::Conflict { found: 5, .. }), "{refused}");
    }
    write(&*open(), "a", 5, 400, &[started(3), failed(3)]).unwrap();
    assert_eq!(told(&*log, &Query::plan(&plan("a"))), "a1 a2 a3 a4 a5 a6 a7");
    assert_eq!(
        told(&*log, &Query { newest_first: true, limit: Some(3), ..Query::plan(&plan("a")) }),
        "a7 a6 a5"
    );
    assert_eq!(
        told(&*log, &Query { after: Some(end), ..Query::default() }),
        "a6 a7",
        "no place is used twice"
    );
    assert_eq!(log.unarchived_plans().unwrap(), [plan("a")]);
    assert_eq!(log.archived_plans().unwrap(), [plan("b")]);
    verify_chains(&*log);
    // The rest is archived later, into another file.
    assert_eq!(archive_plans(&*log, folder.path(), &["a"]).events, 2);
    assert_eq!(log.archived(&plan("a")).unwrap().len(), 2);
    assert_eq!(told(&*log, &Query::plan(&plan("a"))), "a1 a2 a3 a4 a5 a6 a7");
    let newest = Query { newest_first: true, limit: Some(4), ..Query::plan(&plan("a")) };
    assert_eq!(told(&*open(), &newest), "a7 a6 a5 a4");
    assert_eq!(log.head(&plan("a")).unwrap().seq, 7);
}

pub fn archive_whole_plans_only(open: &Handles) {
    let (log, folder) = (open(), tempfile::tempdir().unwrap());
    history(&*log);
    archive_plans(&*log, folder.path(), &["b"]);
    let part = log.archived(&plan("b")).unwrap().remove(0);
    let events = all(&*log, Query::plan(&plan("a")));
    let whole = ColdPart { plan: plan("a"), last_seq: 5, last_hash: events[4].hash, ..part };
    for wrong in [
        ColdPart { last_seq: 4, last_hash: events[3].hash, ..whole.clone() },
        ColdPart { first_seq: 2, prev: events[0].hash, ..whole.clone() },
        ColdPart { last_hash: events[3].hash, ..whole.clone() },
        ColdPart { last_seq: 6, ..whole.clone() },
        ColdPart { plan: plan("unheard of"), ..whole.clone() },
    ] {
        let refused = log.remove_archived(std::slice::from_ref(&wrong), Timestamp(1));
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{wrong:?}: {refused:?}");
        // One wrong part keeps all others from being removed.
        let refused = log.remove_archived(&[whole.clone(), wrong], Timestamp(1));
        assert!(refused.is_err());
    }
    assert_eq!(all(&*log, Query::plan(&plan("a"))), events);
    assert_eq!(log.archived(&plan("a")).unwrap(), []);
}

/// Stops after each stage, and then does it again.
pub fn lose_nothing_if_an_archiving_stops(open: &Handles) {
    use ArchiveStage::{Named, Removed, Verified, Written};
    for stop in [Written, Verified, Named, Removed] {
        let (log, folder) = (open(), tempfile::tempdir().unwrap());
        let name = format!("{stop:?}");
        append_steps(&*log, &name, 40);
        let before = all(&*log, Query::plan(&plan(&name)));
        let stopped = archive(&*log, folder.path(), &[plan(&name)], Timestamp(7), &mut |stage| {
            if stage == stop { Err(Error::Full { path: "/full".into() }) } else { Ok(()) }
        });
        assert!(matches!(stopped, Err(Error::Full { .. })));
        assert_eq!(all(&*log, Query::plan(&plan(&name))), before, "after {stop:?}");
        assert_eq!(log.unarchived_plans().unwrap().contains(&plan(&name)), stop != Removed);
        let again = archive_plans(&*log, folder.path(), &[&name]);
        assert_eq!(again.events, if stop == Removed { 0 } else { 40 });
        assert_eq!(all(&*open(), Query::plan(&plan(&name))), before);
        assert_eq!(files(folder.path()).len(), 1, "after {stop:?}");
    }
}

pub fn find_changed_cold_files(open: &Handles) {
    let (log, folder) = (open(), tempfile::tempdir().unwrap());
    history(&*log);
    archive_plans(&*log, folder.path(), &["a"]);
    let path = files(folder.path()).remove(0);
    let good = fs::read(&path).unwrap();
    let changed = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let read = log.read(&Query::plan(&plan("a")), &mut |_| ControlFlow::Continue(()));
        let refused = read.expect_err("the file was changed");
        assert!(matches!(&refused, Error::ColdFileChanged { first: 1, last: 5, .. }), "{refused}");
        assert!(refused.to_string().contains(&path.display().to_string()), "{refused}");
    };
    for place in [0, good.len() / 2, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[place] ^= 1;
        changed(&bytes);
    }
    changed(&good[..good.len() - 1]);
    changed(&[]);
    // Other events with valid seals, written as provost would.
    let other = crate::Memory::new();
    write(&other, "a", 0, 100, &[started(9), started(9), started(9), started(9), started(9)]).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    archive_plans(&other, elsewhere.path(), &["a"]);
    changed(&fs::read(files(elsewhere.path()).remove(0)).unwrap());
    // More behind the events is none of them.
    fs::write(&path, [good.as_slice(), b"more"].concat()).unwrap();
    assert_eq!(all(&*log, Query::plan(&plan("a"))).len(), 5);
}

pub fn say_which_cold_file_is_missing(open: &Handles) {
    let (log, folder) = (open(), tempfile::tempdir().unwrap());
    history(&*log);
    archive_plans(&*log, folder.path(), &["a"]);
    let path = files(folder.path()).remove(0);
    let aside = folder.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    let read = log.read(&Query::plan(&plan("a")), &mut |_| ControlFlow::Continue(()));
    let missing = read.expect_err("the file is gone").to_string();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    assert!(missing.contains("events 1 to 5 of plan a") && missing.contains(&name), "{missing}");
    assert!(
        missing.contains(&folder.path().display().to_string()) && missing.contains("put the file"),
        "{missing}"
    );
    // All other plans are as they were, and so is this one when the file is back.
    assert_eq!(told(&*log, &Query::default()), "b1 b2 b3 b4");
    assert_eq!(log.head(&plan("a")).unwrap().seq, 5);
    fs::rename(&aside, &path).unwrap();
    assert_eq!(all(&*log, Query::plan(&plan("a"))).len(), 5);
}

pub fn archive_beside_a_writer(open: &Handles) {
    let (log, folder) = (open(), tempfile::tempdir().unwrap());
    let names: Vec<String> = (0..10).map(|number| format!("over {number}")).collect();
    names.iter().for_each(|name| append_steps(&*log, name, 30));
    let other = open();
    thread::scope(|scope| {
        let writing = scope.spawn(|| (0..100).for_each(|_| append_steps(&*other, "running", 1)));
        for name in &names {
            assert_eq!(archive_plans(&*log, folder.path(), &[name]).events, 30);
        }
        writing.join().unwrap();
    });
    assert_eq!(log.unarchived_plans().unwrap(), [plan("running")]);
    assert_eq!(told(&*log, &Query::default()).split(' ').count(), 100);
    // A plan that goes on just before its events are removed stays, and the others of its file do not.
    append_steps(&*log, "late", 3);
    append_steps(&*log, "over", 3);
    let mut written = false;
    let result = archive(&*log, folder.path(), &[plan("late"), plan("over")], Timestamp(7), &mut |stage| {
        if stage == ArchiveStage::Named && !written {
            written = true;
            append_steps(&*log, "late", 1);
        }
        Ok(())
    });
    let result = result.unwrap();
    assert_eq!((result.plans, result.left), (1, vec![plan("late")]));
    assert_eq!(log.unarchived_plans().unwrap(), [plan("running"), plan("late")]);
    verify_chains(&*log);
    assert_eq!(all(&*log, Query::plan(&plan("over"))).len(), 3);
}

pub fn archive_twice_at_once(open: &Handles) {
    let (log, folder) = (open(), tempfile::tempdir().unwrap());
    let names: Vec<String> = (0..20).map(|number| format!("over {number}")).collect();
    names.iter().for_each(|name| append_steps(&*log, name, 30));
    let plans: Vec<PlanId> = names.iter().map(|name| plan(name)).collect();
    let handles = [open(), open()];
    let archived: u64 = thread::scope(|scope| {
        let both: Vec<_> = handles
            .iter()
            .map(|log| {
                let (folder, plans) = (folder.path(), &plans);
                scope.spawn(move || {
                    let at_once = |plan: &PlanId| {
                        archive(&**log, folder, std::slice::from_ref(plan), Timestamp(7), &mut |_| Ok(()))
                            .unwrap()
                    };
                    plans.iter().map(|plan| at_once(plan).events).sum::<u64>()
                })
            })
            .collect();
        both.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert!(archived >= 20 * 30, "{archived}");
    for plan in &plans {
        assert_eq!(all(&*log, Query::plan(plan)).len(), 30);
        assert_eq!(log.archived(plan).unwrap().len(), 1);
    }
    assert_eq!(log.unarchived_plans().unwrap(), []);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}
