//! Tests the separate trees of agents that work in parallel, and how their work is merged.

use std::fs;
use std::path::Path;

use provost_host::tree::{Apart, Base, Error, ImportLimits, Layer, Touches, clear_apart};

use crate::tree::{Site, listed, listed_base};

fn changed(site: &Site, apart: &Apart, base: &Base) -> Layer {
    let (all, none) = (Touches::new(&["**"]).unwrap(), Touches::new::<&str>(&[]).unwrap());
    site.trees().take_over_from(&apart.folder, base, &all, &none, &ImportLimits::default()).unwrap()
}

/// Makes two copies of a tree and applies one change to each.
fn two(site: &Site, one: impl Fn(&Path), other: impl Fn(&Path)) -> (Base, Layer, Layer) {
    let base = site.base();
    let place = |name: &str| site.state.join("../apart").join(name);
    let set = |name: &str| site.trees().set_apart(&base, &base.id, &place(name)).unwrap();
    let (first, second) = (set("1"), set("2"));
    assert_eq!(Apart::at(&place("1")).as_ref(), Some(&first));
    assert_eq!(listed(&first.folder), listed_base(&base));
    one(&first.folder);
    other(&second.folder);
    let layers = (changed(site, &first, &base), changed(site, &second, &base));
    (base, layers.0, layers.1)
}

#[test]
fn what_two_made_apart_comes_together_where_they_changed_different_files() {
    let site = Site::with(&[("a", "a"), ("b", "b"), ("c/d", "d"), ("gone", "x")]);
    let (base, one, other) = two(
        &site,
        |one| {
            fs::write(one.join("a"), "one").unwrap();
            fs::remove_file(one.join("gone")).unwrap();
        },
        |other| {
            fs::write(other.join("b"), "other").unwrap();
            fs::write(other.join("c/new"), "new").unwrap();
            // The same deletion as in the first copy is no conflict.
            fs::remove_file(other.join("gone")).unwrap();
        },
    );
    let trees = site.trees();
    let first = trees.advance(&base, one).unwrap();
    let both = trees.carried(other, &base, &first).unwrap();
    let id = both.id.clone();
    let union = trees.advance(&first, both).unwrap();
    assert_eq!(union.id, id);
    assert_eq!(listed_base(&union), ["a 644 one", "b 644 other", "c/d 644 d", "c/new 644 new"]);
    // The workspace is updated too, except for files that the user changed.
    site.write("b", "mine");
    assert_eq!(trees.bring_home(&base, &union).unwrap(), ["b"]);
    let there = |name: &str| fs::read_to_string(site.at(name)).ok();
    assert_eq!((there("a").as_deref(), there("b").as_deref()), (Some("one"), Some("mine")));
    assert_eq!((there("c/new").as_deref(), there("gone")), (Some("new"), None));
    assert_eq!(trees.bring_home(&base, &union).unwrap(), ["b"], "again, and nothing else comes of it");
    assert!(trees.bring_home(&union, &base).unwrap() == ["b"], "and back");
    assert_eq!((there("a").as_deref(), there("gone").as_deref()), (Some("a"), Some("x")));
}

#[test]
fn a_file_that_two_changed_is_named_and_never_merged() {
    let write = |name: &'static str, text: &'static str| {
        move |folder: &Path| {
            fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            fs::write(folder.join(name), text).unwrap();
        }
    };
    let remove = |name: &'static str| move |folder: &Path| fs::remove_file(folder.join(name)).unwrap();
    type Deed = Box<dyn Fn(&Path)>;
    let cases: [(Deed, Deed, &str); 5] = [
        (Box::new(write("a", "one")), Box::new(write("a", "other")), "a"),
        (Box::new(write("new", "one")), Box::new(write("new", "other")), "new"),
        (Box::new(remove("a")), Box::new(write("a", "other")), "a"),
        (Box::new(write("a", "one")), Box::new(remove("a")), "a"),
        (Box::new(write("x", "a file")), Box::new(write("x/y", "in a folder")), "x/y"),
    ];
    for (one, other, name) in cases {
        let site = Site::with(&[("a", "a"), ("b", "b")]);
        let (base, one, other) = two(&site, one, other);
        let first = site.trees().advance(&base, one).unwrap();
        match site.trees().carried(other, &base, &first) {
            Err(Error::Conflict { files }) => assert_eq!(files, [name]),
            outcome => panic!("{name}: {outcome:?}"),
        }
    }
}

#[test]
fn a_link_in_the_workspace_leads_nothing_out_of_it() {
    let site = Site::with(&[("a/b", "b")]);
    let base = site.base();
    site.write("a/b", "new");
    let after = site.trees().advance(&base, site.take(&base, &["**"], &[])).unwrap();
    let outside = site.state.join("../outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("b"), "b").unwrap();
    fs::remove_dir_all(site.at("a")).unwrap();
    std::os::unix::fs::symlink(&outside, site.at("a")).unwrap();
    assert_eq!(site.trees().bring_home(&base, &after).unwrap(), ["a/b"]);
    assert_eq!(fs::read_to_string(outside.join("b")).unwrap(), "b");
}

#[test]
fn a_tree_that_an_agent_has_closed_is_taken_away() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::with(&[("a/b", "b")]);
    let base = site.base();
    let place = site.state.join("../apart/1");
    let apart = site.trees().set_apart(&base, &base.id, &place).unwrap();
    fs::set_permissions(apart.folder.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
    clear_apart(&place).unwrap();
    assert!(!place.exists());
    clear_apart(&place).unwrap();
}
