//! Tests merging plans in provost's own repository, and the update of checkouts.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use provost_host::tree::{Error, Trees, Union};

use crate::tree::Site;

/// Commits these files and resets the repository; returns the commit.
fn side(site: &Site, files: &[(&str, &str)]) -> String {
    let before = site.git(&["rev-parse", "HEAD"]);
    for (path, text) in files {
        site.write(path, text);
    }
    site.commit();
    let made = site.git(&["rev-parse", "HEAD"]);
    site.git(&["reset", "-q", "--hard", &before]);
    made
}

#[test]
fn no_driver_and_no_attribute_of_the_repository_has_a_part_in_a_merge() {
    let site =
        Site::with(&[("list", "one\ntwo\nthree\n"), (".gitattributes", "* merge=evil\nlist merge=union\n")]);
    let mark = site.workspace.with_file_name("mark");
    let config = format!("[merge \"evil\"]\n\tdriver = touch {}\n", mark.display());
    fs::write(site.at(".git/config"), config + "[core]\n\trepositoryformatversion = 0\n").unwrap();
    let base = site.git(&["rev-parse", "HEAD"]);
    let upper = side(&site, &[("list", "one\nTWO\nthree\n")]);
    let other = side(&site, &[("list", "one\ndeux\nthree\n"), ("more", "x\n")]);
    let trees = Trees::open(&site.state, &site.workspace).unwrap();
    let [base, upper, other] = [base, upper, other].map(|commit| trees.tree_of(&commit).unwrap());
    assert_eq!(trees.merge(&base, &upper, &other).unwrap(), Union::Conflict(vec!["list".to_owned()]));
    assert_eq!(trees.merge(&base, &upper, &base).unwrap(), Union::Clean(upper.clone()));
    let apart = trees.tree_of(&side(&site, &[(".gitattributes", "")])).unwrap();
    let Union::Clean(union) = trees.merge(&base, &upper, &apart).unwrap() else { panic!("they do not meet") };
    let differing = trees.differing(&upper, &union).unwrap();
    assert_eq!(differing.iter().map(|change| change.shown()).collect::<Vec<_>>(), [".gitattributes"]);
    assert_eq!(trees.size(&base, &other).unwrap(), 3);
    assert!(!mark.exists(), "a driver was run");
}

#[test]
fn a_union_is_laid_on_a_base_that_keeps_its_caches() {
    let site = Site::with(&[("a", "one\n"), ("b/c", "two\n"), ("gone", "x\n"), ("run", "#!/bin/sh\n")]);
    site.write("node_modules/dep", "built\n");
    let commit = site.git(&["rev-parse", "HEAD"]);
    let trees = Trees::open(&site.state, &site.workspace).unwrap();
    let caches = ["node_modules".to_owned()];
    let base = trees.base("r", Some(&commit), &[], &caches).unwrap();
    fs::remove_dir_all(site.at("node_modules")).unwrap();
    fs::remove_file(site.at("gone")).unwrap();
    fs::remove_file(site.at("b/c")).unwrap();
    fs::remove_dir(site.at("b")).unwrap();
    fs::set_permissions(site.at("run"), fs::Permissions::from_mode(0o755)).unwrap();
    let later = side(&site, &[("a", "uno\n"), ("b", "a file now\n"), ("new/file", "y\n")]);
    let [old, new] = [&commit, &later].map(|commit| trees.tree_of(commit).unwrap());
    let laid = trees.laid(&base, &trees, (&old, &new), None).unwrap();
    let files: Vec<String> = laid.files().unwrap().iter().map(|path| path.display().to_string()).collect();
    assert_eq!(files, ["a", "b", "new/file", "node_modules/dep", "run"]);
    let text = |path: &str| fs::read_to_string(laid.file(path)).unwrap();
    assert_eq!(
        (text("a"), text("b"), text("node_modules/dep")),
        ("uno\n".into(), "a file now\n".into(), "built\n".into())
    );
    assert_eq!(fs::metadata(laid.file("run")).unwrap().permissions().mode() & 0o111, 0o111);
    // The same files, reached in another way, are the same tree.
    assert_eq!(trees.laid(&base, &trees, (&old, &new), None).unwrap().id, laid.id);
    assert_eq!(trees.laid(&base, &trees, (&old, &old), None).unwrap().id, base.id);
    symlink("a", site.at("link")).unwrap();
    let linked = trees.tree_of(&side(&site, &[])).unwrap();
    let laid = trees.laid(&base, &trees, (&old, &linked), None).unwrap();
    assert_eq!(fs::read_link(laid.file("link")).unwrap().to_str(), Some("a"));
    symlink("/etc", site.at("link")).unwrap();
    let leads_out = trees.tree_of(&side(&site, &[])).unwrap();
    assert!(
        matches!(trees.laid(&base, &trees, (&old, &leads_out), None), Err(Error::Unlaid { path }) if path == "link")
    );
}

#[test]
fn a_checkout_follows_its_branch_and_keeps_what_somebody_changed() {
    let site =
        Site::with(&[("a", "one\n"), ("b/c", "two\n"), ("gone/x", "x\n"), ("mine", "1\n"), ("run", "#\n")]);
    let before = site.git(&["rev-parse", "HEAD"]);
    fs::remove_dir_all(site.at("gone")).unwrap();
    fs::set_permissions(site.at("run"), fs::Permissions::from_mode(0o755)).unwrap();
    let after = side(&site, &[("a", "uno\n"), ("b/c", "due\n"), ("new/deep/file", "y\n"), ("run", "#!\n")]);
    let trees = Trees::open(&site.state, &site.workspace).unwrap();
    for commit in [&before, &after] {
        trees.tree_of(commit).unwrap();
    }
    // A file that the user changed, and one that already has its new content.
    site.write("mine", "2\n");
    site.write("b/c", "due\n");
    assert_eq!(trees.in_the_way(&site.workspace, &before, &after).unwrap(), Vec::<String>::new());
    for (path, text) in [("a", "changed\n"), ("new/deep/file", "somebody's\n")] {
        let kept = fs::read(site.at(path)).ok();
        site.write(path, text);
        assert_eq!(trees.in_the_way(&site.workspace, &before, &after).unwrap(), [path]);
        match kept {
            Some(kept) => fs::write(site.at(path), kept).unwrap(),
            None => fs::remove_dir_all(site.at("new")).unwrap(),
        }
    }
    // A link that leads out of the checkout is neither followed nor replaced.
    symlink("/etc", site.at("new")).unwrap();
    assert_eq!(trees.in_the_way(&site.workspace, &before, &after).unwrap(), ["new/deep/file"]);
    fs::remove_file(site.at("new")).unwrap();
    site.git(&["update-ref", "refs/heads/main", &after]);
    // Twice, as after a crash.
    for _ in 0..2 {
        assert!(trees.arrive(&site.workspace, &before, &after).unwrap());
        assert_eq!(site.git(&["status", "--porcelain"]), "M mine");
        assert!(!site.at("gone").exists(), "a folder that is empty goes");
        assert_eq!(fs::read_to_string(site.at("new/deep/file")).unwrap(), "y\n");
    }
    // The lock of another process is respected.
    fs::write(site.at(".git/index.lock"), "theirs").unwrap();
    assert!(!trees.arrive(&site.workspace, &after, &before).unwrap());
    assert_eq!(fs::read_to_string(site.at(".git/index.lock")).unwrap(), "theirs");
}

/// After a kill between making a note and publishing it, the next note builds only on notes that the user's
/// repository has.
#[test]
fn a_note_that_was_never_handed_over_is_no_parent_of_the_next() {
    const NOTES: &str = "refs/notes/provost";
    let site = Site::with(&[("a", "one\n")]);
    let (trees, head) = (site.trees(), site.head());
    trees.tree_of(&head).unwrap();
    let (lost, _) = trees.note(&head, NOTES, "lost\n").unwrap();
    let mirror = site.state.join("mirror-sha1.git");
    site.git(&["--git-dir", mirror.to_str().unwrap(), "update-ref", NOTES, &lost]);
    let (now, before) = trees.note(&head, NOTES, "kept\n").unwrap();
    trees.hand_over(&now, NOTES, before.as_deref()).unwrap();
    assert_eq!(site.git(&["notes", "--ref", NOTES, "show", &head]), "kept");
    assert_eq!(site.git(&["rev-list", "--count", NOTES]), "1");
    site.git(&["fsck", "--strict"]);
}
