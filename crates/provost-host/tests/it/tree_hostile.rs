//! Tests hostile repositories, and machines that fail.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use provost_core::model::hash::Hash;
use provost_host::tree::{Error, Trees};
use provost_rehearsal::skip;

use crate::tree::{Site, listed};

/// Returns digest, mode and modification time of every file below a folder.
fn fingerprint(folder: &Path) -> BTreeMap<String, (String, u32, i64)> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let digest = match metadata.is_dir() {
            true => {
                open.extend(fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
                String::new()
            }
            false => Hash::of(&fs::read(&path).unwrap()).to_string(),
        };
        let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
        found.insert(name, (digest, metadata.mode(), metadata.mtime_nsec()));
    }
    found
}

/// Creates a repository in which every program that git might run leaves a mark.
fn hostile() -> (Site, std::path::PathBuf) {
    let site = Site::with(&[("a.txt", "one\n"), ("b/c.txt", "two\n")]);
    site.write(".gitattributes", "* filter=evil diff=evil merge=evil text eol=crlf\n");
    site.commit();
    let marks = site.workspace.with_file_name("marks");
    fs::create_dir(&marks).unwrap();
    let evil = site.workspace.with_file_name("evil.sh");
    let script = format!("#!/bin/sh\ntouch {}/$$\ncat\n", marks.display());
    fs::write(&evil, script).unwrap();
    fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
    let run = evil.display();
    let git = site.at(".git");
    let included = site.workspace.with_file_name("included");
    fs::write(&included, format!("[core]\n\tpager = {run}\n\tfsmonitor = {run}\n")).unwrap();
    let config = format!(
        "[core]\n\trepositoryformatversion = 1\n\tfsmonitor = {run}\n\tsshCommand = {run}\n\thooksPath = {git}/hooks\n\
         \tgitProxy = {run}\n\taskPass = {run}\n\teditor = {run}\n\talternateRefsCommand = {run}\n\
         [uploadpack]\n\tpackObjectsHook = {run}\n\
         [filter \"evil\"]\n\tclean = {run}\n\tsmudge = {run}\n\tprocess = {run}\n\trequired = true\n\
         [diff \"evil\"]\n\ttextconv = {run}\n\tcommand = {run}\n[diff]\n\texternal = {run}\n\
         [merge \"evil\"]\n\tdriver = {run}\n[credential]\n\thelper = !{run}\n[gpg]\n\tprogram = {run}\n\
         [extensions]\n\tpartialClone = evil\n[remote \"evil\"]\n\tpromisor = true\n\turl = ext::{run}\n\
         \tuploadpack = {run}\n[protocol \"ext\"]\n\tallow = always\n[include]\n\tpath = {included}\n\
         [alias]\n\tls-tree = !{run}\n\tcat-file = !{run}\n\trev-list = !{run}\n",
        git = git.display(),
        included = included.display(),
    );
    fs::write(git.join("config"), config).unwrap();
    fs::write(git.join("info/attributes"), "* filter=evil working-tree-encoding=UTF-16\n").unwrap();
    for hook in
        ["post-checkout", "pre-commit", "reference-transaction", "post-index-change", "fsmonitor-watchman"]
    {
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::copy(&evil, git.join("hooks").join(hook)).unwrap();
    }
    // Programs with the names of git's own in the workspace and in the object folder.
    for name in ["git", "git-ls-tree", "sh"] {
        fs::copy(&evil, site.at(name)).unwrap();
    }
    (site, marks)
}

#[test]
fn nothing_of_a_hostile_repository_is_run() {
    let (site, marks) = hostile();
    // Reads the ref itself, so that git does not run the configuration above.
    let head = fs::read_to_string(site.at(".git/refs/heads/main")).unwrap().trim().to_owned();
    let before = fingerprint(&site.workspace);
    let trees = site.trees();
    let base = trees.base("x", Some(&head), &[], &[]).unwrap();
    assert_eq!(
        listed(&base.path),
        [
            ".gitattributes 644 * filter=evil diff=evil merge=evil text eol=crlf\r\n",
            "a.txt 644 one\r\n",
            "b/c.txt 644 two\r\n"
        ]
    );
    site.write("a.txt", "1\n");
    let layer = site.take(&base, &["*.txt"], &[]);
    assert_eq!(layer.changed, ["a.txt"]);
    drop(trees.assemble(&base, &layer).unwrap());
    trees.advance(&base, layer).unwrap();
    site.write("a.txt", "one\n");
    let mut after = fingerprint(&site.workspace);
    // The test itself wrote this file.
    for side in [&mut after, &mut before.clone()] {
        side.remove("a.txt");
    }
    let before: BTreeMap<_, _> = before.into_iter().filter(|(path, _)| path != "a.txt").collect();
    assert_eq!(after, before, "the user's repository is as it was");
    assert_eq!(fs::read_dir(&marks).unwrap().count(), 0, "a program of the agent was run");
}

#[test]
fn a_missing_object_is_not_fetched_from_where_the_repository_says() {
    let (site, marks) = hostile();
    let head = fs::read_to_string(site.at(".git/refs/heads/main")).unwrap().trim().to_owned();
    let blob = hash_object(b"one\n");
    fs::remove_file(site.at(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    let base = site.trees().base("x", Some(&head), &[], &[]);
    assert!(matches!(base, Err(Error::Git { .. })), "{base:?}");
    assert_eq!(fs::read_dir(&marks).unwrap().count(), 0, "a program of the agent was run");
    assert_eq!(fs::read_dir(site.state.join("bases")).unwrap().count(), 0);
}

fn hash_object(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    fs::write(&file, bytes).unwrap();
    let output = Command::new("git").arg("hash-object").arg("--no-filters").arg(&file).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn an_object_that_is_not_what_its_name_says_is_no_object() {
    let site = Site::with(&[("a", "honest\n"), ("b", "other\n")]);
    let (a, b) = (hash_object(b"honest\n"), hash_object(b"other\n"));
    let place = |id: &str| site.at(".git/objects").join(&id[..2]).join(&id[2..]);
    fs::remove_file(place(&a)).unwrap();
    fs::copy(place(&b), place(&a)).unwrap();
    let base = site.trees().base("x", Some(&site.head()), &[], &[]);
    assert!(matches!(base, Err(Error::Git { .. } | Error::Object { .. })), "{base:?}");
    assert_eq!(fs::read_dir(site.state.join("bases")).unwrap().count(), 0);
}

#[test]
fn replaced_and_grafted_objects_are_not_believed() {
    let site = Site::with(&[("a", "honest\n")]);
    let honest = site.head();
    site.write("a", "forged\n");
    let forged = site.commit();
    site.git(&["replace", &honest, &forged]);
    site.git(&["commit-graph", "write", "--reachable"]);
    fs::write(site.at(".git/info/grafts"), format!("{honest} {forged}\n")).unwrap();
    let base = site.trees().base("x", Some(&honest), &[], &[]).unwrap();
    assert_eq!(listed(&base.path), ["a 644 honest\n"]);
}

#[test]
fn a_tree_made_by_hand_cannot_write_outside() {
    let site = Site::with(&[("a", "1")]);
    let blob = site.git(&["hash-object", "-w", "a"]);
    let out = site.workspace.with_file_name("out");
    // git mktree refuses these names, so the test writes the bytes itself.
    let tree = |entries: &[(&str, &str, &str)]| {
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend(format!("{mode} {name}\0").into_bytes());
            bytes.extend((0..20).map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap()));
        }
        fs::write(&out, bytes).unwrap();
        site.git(&["hash-object", "-t", "tree", "-w", "--literally", out.to_str().unwrap()])
    };
    let up = tree(&[("100644", "escaped", &blob)]);
    let top = tree(&[("40000", "..", &up), ("40000", ".GIT", &up), ("100644", "good", &blob)]);
    let commit = site.git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", &top, "-m", "m"]);
    let base = site.trees().base("x", Some(&commit), &[], &[]).unwrap();
    assert_eq!(listed(&base.path), ["good 644 1"]);
    assert_eq!(base.left_out.len(), 2);
    // The same name as a link and as a folder.
    fs::write(site.at("target"), "/tmp").unwrap();
    let link = site.git(&["hash-object", "-w", "target"]);
    fs::write(site.at("target"), "good").unwrap();
    let inside = site.git(&["hash-object", "-w", "target"]);
    for (target, clash) in [(link, false), (inside, true)] {
        let top = tree(&[("120000", "x", &target), ("40000", "x", &up)]);
        let commit = site.git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", &top, "-m", "m"]);
        let base = site.trees().base("x", Some(&commit), &[], &[]);
        assert_eq!(matches!(base, Err(Error::Clash { .. })), clash, "{base:?}");
    }
    assert!(!Path::new("/tmp/escaped").exists());
}

#[test]
fn commits_that_are_not_there_are_an_error_and_leave_nothing() {
    let site = Site::with(&[("a", "1")]);
    for commit in ["0000000000000000000000000000000000000000", "HEAD", "--help", ""] {
        assert!(matches!(site.trees().base("x", Some(commit), &[], &[]), Err(Error::Git { .. })), "{commit}");
    }
    assert_eq!(fs::read_dir(site.state.join("bases")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(site.state.join("building")).unwrap().count(), 0);
    let bare = Site::bare();
    assert!(bare.trees().base("x", Some(&site.head()), &[], &[]).is_err());
}

#[test]
fn a_lock_left_behind_in_the_repository_is_no_hindrance() {
    let site = Site::with(&[("a", "1")]);
    site.write("staged", "1");
    site.git(&["add", "staged"]);
    for lock in ["index.lock", "HEAD.lock", "config.lock", "packed-refs.lock"] {
        fs::write(site.at(".git").join(lock), "").unwrap();
    }
    assert_eq!(listed(&site.base().path), ["a 644 1"]);
}

#[test]
fn two_processes_at_once_make_one_base() {
    let files: Vec<(String, String)> =
        (0..300).map(|n| (format!("d{}/f{n}", n % 7), format!("{n}"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let site = Site::with(&files);
    let head = site.head();
    let ids: Vec<String> = std::thread::scope(|scope| {
        let one = || {
            let base = site.trees().base("x", Some(&head), &[], &[]).unwrap();
            assert_eq!(listed(&base.path).len(), 300);
            base.id
        };
        let running: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(fs::read_dir(site.state.join("bases")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(site.state.join("building")).unwrap().count(), 0);
}

/// Child process of the next test: makes a base, and is killed while it does.
#[test]
#[ignore = "started by another test"]
fn makes_a_base_of_the_folders_it_is_told() {
    let (Ok(state), Ok(workspace), Ok(commit)) =
        (std::env::var("TREE_STATE"), std::env::var("TREE_WORK"), std::env::var("TREE_COMMIT"))
    else {
        return;
    };
    let trees = Trees::open(Path::new(&state), Path::new(&workspace)).unwrap();
    trees.base("x", Some(&commit), &[], &[]).unwrap();
}

#[test]
fn a_kill_at_any_moment_leaves_no_half_base() {
    let files: Vec<(String, String)> =
        (0..2000).map(|n| (format!("d{}/f{n}", n % 40), format!("content {n}\n").repeat(20))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let site = Site::with(&files);
    let head = site.head();
    let mut killed_midway = 0;
    let count = |name: &str| fs::read_dir(site.state.join(name)).map_or(0, |entries| entries.count());
    // Counted from when it begins to write, or without a wait for that.
    for (begins, wait_ms) in [
        (false, 5),
        (false, 15),
        (true, 0),
        (true, 1),
        (true, 3),
        (true, 10),
        (true, 20),
        (true, 40),
        (true, 100),
    ] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "tree_hostile::makes_a_base_of_the_folders_it_is_told"])
            .env("TREE_STATE", &site.state)
            .env("TREE_WORK", &site.workspace)
            .env("TREE_COMMIT", &head)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let before = count("bases");
        while begins
            && count("building") == 0
            && count("bases") == before
            && child.try_wait().unwrap().is_none()
        {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        killed_midway += usize::from(count("building") > 0);
        if count("bases") > 0 {
            let base = site.base();
            assert_eq!(listed(&base.path).len(), 2000, "whole after {wait_ms} ms");
            fs::remove_dir_all(&site.state).unwrap();
        }
    }
    let base = site.base();
    assert_eq!(listed(&base.path).len(), 2000);
    assert_eq!(fs::read_dir(site.state.join("building")).unwrap().count(), 0, "remains are cleared away");
    assert!(killed_midway > 0, "no kill hit the middle");
    assert!(site.take(&base, &["**"], &[]).is_empty());
}

/// Child process of the next test.
#[test]
#[ignore = "started by another test"]
fn makes_a_base_or_says_why_not() {
    let (Ok(state), Ok(workspace), Ok(commit)) =
        (std::env::var("TREE_STATE"), std::env::var("TREE_WORK"), std::env::var("TREE_COMMIT"))
    else {
        return;
    };
    let state = Path::new(&state);
    let count = |name: &str| fs::read_dir(state.join(name)).map_or(0, |entries| entries.count());
    let made =
        Trees::open(state, Path::new(&workspace)).and_then(|trees| trees.base("x", Some(&commit), &[], &[]));
    match made {
        Ok(base) => {
            assert_eq!(listed(&base.path).len(), 300);
            println!("whole");
        }
        Err(error) => {
            assert!(matches!(error, Error::Io { .. } | Error::Git { .. }), "{error:?}");
            assert_eq!((count("bases"), count("requests"), count("building")), (0, 0, 0));
            println!("refused: {error}");
        }
    }
}

#[test]
fn a_full_disk_leaves_no_half_base_and_the_next_try_works() {
    let text = "0123456789abcdef\n".repeat(400);
    let files: Vec<(String, String)> =
        (0..300).map(|n| (format!("d{}/f{n}", n % 7), format!("{n} {text}"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let site = Site::with(&files);
    let state = site.workspace.with_file_name("small");
    fs::create_dir(&state).unwrap();
    // The state folder on a disk that becomes larger each time.
    let script = r#"mount -t tmpfs -o size=64k none "$TREE_STATE" || exit 9
        for size in 64k 200k 400k 800k 1600k 2400k 3200k 64m; do
            mount -o remount,size=$size "$TREE_STATE" || exit 9
            "$0" --ignored --exact --nocapture tree_hostile::makes_a_base_or_says_why_not || exit 1
        done"#;
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env("TREE_STATE", &state)
        .env("TREE_WORK", &site.workspace)
        .env("TREE_COMMIT", site.head())
        .output();
    let Some(output) =
        output.ok().filter(|output| output.status.code() == Some(0) || output.status.code() == Some(1))
    else {
        return skip::tool("unshare", "apt-get install util-linux, and allow user namespaces");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("whole") && said.matches("refused").count() >= 3, "{said}");
    eprintln!("{said}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let site = Site::with(&[("src/a", "1"), ("src/closed/b", "1")]);
    let base = site.base();
    site.write("src/a", "2");
    let set = |path: &str, mode: u32| {
        fs::set_permissions(site.at(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("src/a", 0o000);
    set("src/closed", 0o000);
    let layer = site.take(&base, &["src/**"], &[]);
    let copy = site.trees().base("x", None, &[], &[]).unwrap();
    set("src/closed", 0o755);
    if rustix::process::geteuid().is_root() {
        assert_eq!(layer.changed, ["src/a"]);
        return skip::user(skip::User::Ordinary);
    }
    let refused: Vec<&str> = layer.refused.iter().map(|refused| refused.path.as_str()).collect();
    assert_eq!(refused, ["src/a", "src/closed"]);
    assert!(layer.is_empty());
    assert_eq!(copy.left_out.len(), 2);
}

#[test]
fn a_file_that_changes_while_it_is_read_has_the_digest_of_what_was_written() {
    use std::os::unix::fs::FileExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};
    let site = Site::with(&[("a", "1")]);
    let base = site.base();
    let texts = ["x".repeat(300_000), "y".repeat(400_000)];
    site.write("a", &texts[0]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs::File::options().write(true).open(site.at("a")).unwrap();
            for text in texts.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                file.set_len(0).unwrap();
                file.write_all_at(text.as_bytes(), 0).unwrap();
            }
        });
        for _ in 0..30 {
            let layer = site.take(&base, &["a"], &[]);
            if layer.changed.is_empty() {
                assert_eq!(layer.refused.len(), 1);
                continue;
            }
            let next = site.trees().advance(&base, layer).unwrap();
            // As after a reboot: provost reads and compares every file.
            let used = next.over.as_ref().expect("a base on another").with_file_name("used");
            fs::OpenOptions::new().write(true).open(used).unwrap().write_all_at(b"another boot", 0).unwrap();
            assert!(site.trees().kept(&next.id, &[]).unwrap().is_some());
        }
        stop.store(true, Ordering::Relaxed);
    });
}
