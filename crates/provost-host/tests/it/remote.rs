//! Tests trees that are sent through a git remote: they arrive as they were sent, or are refused.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use provost_host::tree::{Base, Error, ImportLimits, Remote, Touches, Trees, fetch_commit, forget_sent};

use crate::tree::{Site, listed_base};

/// A machine with the repository, a machine without it, and a remote between them.
struct Way {
    here: Site,
    there: Site,
    remote: Remote,
    path: PathBuf,
    commit: String,
}

impl Way {
    fn new() -> Self {
        let here = Site::with(&[("a", "one"), ("src/b.rs", "two"), ("gone", "x"), ("deep/er/c", "three")]);
        symlink("src/b.rs", here.at("link")).unwrap();
        here.commit();
        here.write("a", "second");
        let commit = here.commit();
        let path = here.workspace.with_file_name("carry.git");
        here.git(&["init", "-q", "--bare", path.to_str().unwrap()]);
        let remote = Remote::new(path.to_str().unwrap(), &[]).unwrap();
        Self { here, there: Site::bare(), remote, path, commit }
    }

    /// Makes the other machine's workspace from the remote alone.
    fn inhabited(&self) -> Trees {
        self.here.trees().send_commit(&self.remote, &self.commit).unwrap();
        let depot = self.there.state.with_file_name("depot");
        let repository = fetch_commit(&depot, &self.remote, &self.commit).unwrap();
        let trees = self.there.trees();
        trees.inhabit(&repository, &self.commit).unwrap();
        trees
    }

    /// Does an agent's work: changes a file, adds two (one executable), and deletes one.
    fn work(&self) -> Base {
        self.here.write("src/b.rs", "changed");
        self.here.write("src/new\nline", "odd name");
        self.here.write("src/run", "#!");
        fs::set_permissions(self.here.at("src/run"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_file(self.here.at("gone")).unwrap();
        let (all, none) = (Touches::new(&["src/**", "gone"]).unwrap(), Touches::new::<&str>(&[]).unwrap());
        let trees = self.here.trees();
        let base = trees.base("", Some(&self.commit), &[], &[]).unwrap();
        trees.advance(&base, trees.take_over(&base, &all, &none, &ImportLimits::default()).unwrap()).unwrap()
    }

    fn git(&self, args: &[&str]) -> String {
        self.here.git(&[&["--git-dir", self.path.to_str().unwrap()], args].concat())
    }
}

#[test]
fn a_tree_arrives_as_it_was_sent_and_is_the_same_commit_whoever_sends_it() {
    let way = Way::new();
    let there = way.inhabited();
    let (sent, name) = (way.work(), "refs/provost/plan-1/1/a1-e1");
    way.here.trees().send(&way.remote, &way.commit, &sent, name).unwrap();
    let came = there.receive(&way.remote, &way.commit, name, &sent.id).unwrap();
    assert_eq!(came.id, sent.id);
    assert_eq!(listed_base(&came), listed_base(&sent));
    // Sending the same tree again changes nothing, from either machine.
    there.send(&way.remote, &way.commit, &came, name).unwrap();
    way.here.trees().send(&way.remote, &way.commit, &sent, "refs/provost/plan-1/passed/x").unwrap();
    assert_eq!(way.git(&["rev-parse", name]), way.git(&["rev-parse", "refs/provost/plan-1/passed/x"]));
}

#[test]
fn the_workspace_of_the_other_machine_is_the_commit_with_its_history() {
    let way = Way::new();
    way.inhabited();
    assert_eq!(fs::read_to_string(way.there.at("a")).unwrap(), "second");
    assert!(way.there.at("link").is_symlink());
    let clone = way.there.state.with_file_name("clone");
    fs::create_dir(&clone).unwrap();
    way.there.trees().clone_of(&way.commit, &clone).unwrap();
    let history = way.here.git(&["--git-dir", clone.to_str().unwrap(), "log", "--format=%H"]);
    assert_eq!(history, way.here.git(&["log", "--format=%H"]));
    // A workspace is not overwritten, but provost can restore single files.
    fs::write(way.there.at("a"), "mine").unwrap();
    way.inhabited();
    assert_eq!(fs::read_to_string(way.there.at("a")).unwrap(), "mine");
    way.there.trees().restore(&way.commit, "a").unwrap();
    assert_eq!(fs::read_to_string(way.there.at("a")).unwrap(), "second");
}

#[test]
fn a_name_that_is_there_is_never_moved() {
    let way = Way::new();
    let there = way.inhabited();
    let (sent, name) = (way.work(), "refs/provost/plan-1/1/a1-e1");
    way.here.trees().send(&way.remote, &way.commit, &sent, name).unwrap();
    let before = way.git(&["rev-parse", name]);
    let other = there.base("", Some(&way.commit), &[], &[]).unwrap();
    let refused = there.send(&way.remote, &way.commit, &other, name);
    assert!(matches!(refused, Err(Error::Taken { .. })), "{refused:?}");
    assert_eq!(way.git(&["rev-parse", name]), before);
}

#[test]
fn another_tree_a_missing_one_and_a_remote_that_is_away_are_told_apart() {
    let way = Way::new();
    let there = way.inhabited();
    let (sent, name) = (way.work(), "refs/provost/plan-1/1/a1-e1");
    way.here.trees().send(&way.remote, &way.commit, &sent, name).unwrap();
    let ask = |name: &str| there.receive(&way.remote, &way.commit, name, &sent.id).map(|base| base.id);
    let missing = ask("refs/provost/plan-1/1/a2-e1");
    assert!(matches!(missing, Err(Error::NotOnRemote { .. })), "{missing:?}");
    way.git(&["update-ref", name, &way.commit]);
    let other = ask(name);
    assert!(matches!(other, Err(Error::OtherTree { .. })), "{other:?}");
    let blob = way.here.git(&["rev-parse", "HEAD:a"]);
    way.git(&["update-ref", name, &blob]);
    assert!(ask(name).is_err());
    fs::rename(&way.path, way.path.with_extension("away")).unwrap();
    let away = ask(name);
    assert!(matches!(away, Err(Error::Unreachable { .. })), "{away:?}");
}

#[test]
fn what_is_over_is_taken_off_and_the_rest_stays() {
    let way = Way::new();
    way.here.trees().send_commit(&way.remote, &way.commit).unwrap();
    let (sent, trees) = (way.work(), way.here.trees());
    let names =
        ["refs/provost/plan-1/1/a1-e1", "refs/provost/plan-1/passed/x", "refs/provost/plan-12/1/a1-e1"];
    names.iter().for_each(|name| trees.send(&way.remote, &way.commit, &sent, name).unwrap());
    let over = |name: &str| name.contains("/a1-");
    let depot = way.here.state.with_file_name("depot");
    assert_eq!(forget_sent(&depot, &way.remote, "refs/provost/plan-1/", over).unwrap(), 1);
    assert_eq!(forget_sent(&depot, &way.remote, "refs/provost/plan-1/", over).unwrap(), 0);
    let left = way.git(&["for-each-ref", "--format=%(refname)"]);
    let base = format!("refs/provost/base/{}", way.commit);
    assert_eq!(left.lines().collect::<Vec<_>>(), [&base, names[1], names[2]]);
}

#[test]
fn the_users_repository_stays_as_it_was() {
    let way = Way::new();
    way.here.write(".git/hooks/pre-push", "#!/bin/sh\ntouch ran\nexit 1\n");
    fs::set_permissions(way.here.at(".git/hooks/pre-push"), fs::Permissions::from_mode(0o755)).unwrap();
    let before = crate::tree::listed(&way.here.at(".git"));
    way.here.trees().send_commit(&way.remote, &way.commit).unwrap();
    let sent = way.work();
    way.here.trees().send(&way.remote, &way.commit, &sent, "refs/provost/plan-1/1/a1-e1").unwrap();
    assert_eq!(crate::tree::listed(&way.here.at(".git")), before);
    assert!(!way.here.at("ran").exists());
}

#[test]
fn a_file_that_was_sent_is_written_where_it_is_named_and_nowhere_a_link_leads() {
    let way = Way::new();
    let there = way.inhabited();
    let name = "refs/provost/plan-1/approved/r";
    fs::remove_file(way.here.at("link")).unwrap();
    way.here.write("link", "a file by now");
    way.here.write("new/er/d", "four");
    let (all, none) = (Touches::new(&["link", "new/**"]).unwrap(), Touches::new::<&str>(&[]).unwrap());
    let trees = way.here.trees();
    let base = trees.base("", Some(&way.commit), &[], &[]).unwrap();
    let taken = trees.take_over(&base, &all, &none, &ImportLimits::default()).unwrap();
    let sent = trees.advance(&base, taken).unwrap();
    trees.send(&way.remote, &way.commit, &sent, name).unwrap();
    let receive = |file: &str| there.receive_files(&way.remote, &way.commit, name, &[file]);
    receive("link").unwrap();
    receive("new/er/d").unwrap();
    assert_eq!(fs::read_to_string(way.there.at("src/b.rs")).unwrap(), "two", "it was written through a link");
    assert!(fs::symlink_metadata(way.there.at("link")).unwrap().is_file());
    assert_eq!(fs::read_to_string(way.there.at("new/er/d")).unwrap(), "four");
    // It writes through no folder that is a link here, and reads from none that is a link there.
    let elsewhere = way.there.state.with_file_name("elsewhere");
    fs::create_dir_all(elsewhere.join("er")).unwrap();
    fs::remove_dir_all(way.there.at("new")).unwrap();
    symlink(&elsewhere, way.there.at("new")).unwrap();
    assert!(receive("new/er/d").is_err());
    assert!(!elsewhere.join("er/d").exists(), "it was written outside of the workspace");
    let links = "refs/provost/plan-1/approved/s";
    way.here.trees().send(&way.remote, &way.commit, &base, links).unwrap();
    assert!(there.receive_files(&way.remote, &way.commit, links, &["link"]).is_err());
}
