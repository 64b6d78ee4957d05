//! Tests which files get from a workspace into the tree of a check, and from there into a commit.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use provost_host::tree::{
    Base, CommitText, ExclusionReason, ImportLimits, Layer, NewCommit, Touches, Trees, With,
};

use crate::tree::{Site, listed, listed_base};

struct Approved {
    site: Site,
    trees: Trees,
    base: Base,
}

impl Approved {
    /// Creates a repository with these files, approved before any work.
    fn with(files: &[(&str, &str)]) -> Self {
        Self::on(Site::with(files))
    }

    fn on(site: Site) -> Self {
        let mut trees = site.trees();
        let base = site.base();
        let own: Vec<PathBuf> = vec![site.at("PLAN.md"), site.at("progress.md")];
        trees.leave_out("revision", &base, &own).unwrap();
        Self { site, trees, base }
    }

    fn take(&self, touches: &[&str]) -> Layer {
        self.take_with(touches, &ImportLimits::default())
    }

    fn take_with(&self, touches: &[&str], limits: &ImportLimits) -> Layer {
        let touches = Touches::new(touches).unwrap();
        self.trees.take_over(&self.base, &touches, &Touches::default(), limits).unwrap()
    }

    fn commit(&self, layer: Layer, with: &With) -> NewCommit {
        let judged = self.trees.advance(&self.base, layer).unwrap();
        let by = CommitText { name: "a", email: "a@b", message: "m" };
        let made = self.trees.commit(&self.site.head(), &self.base, &judged, with, &by).unwrap();
        self.trees.hand_over(&made.commit, "refs/heads/made", None).unwrap();
        made
    }

    fn committed(&self) -> String {
        self.site.git(&["ls-tree", "-r", "--name-only", "made"])
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_git_ignores_is_left_out_and_named() {
    let plan = Approved::with(&[(".gitignore", ".env\ntarget/\n*.log\n"), ("src/a", "1")]);
    for path in [".env", "src/.env", "target/debug/a", "src/target/b", "src/x.log", "src/b"] {
        plan.site.write(path, "new");
    }
    for touches in [&["**"][..], &["*"], &["."]] {
        let layer = plan.take(touches);
        assert_eq!(layer.changed, ["src/b"], "{touches:?}");
        assert_eq!(layer.ignored, [".env", "src/.env", "src/target/", "src/x.log", "target/"]);
        assert!(layer.refused.is_empty());
    }
    let layer = plan.take(&["src/**"]);
    assert_eq!((layer.changed, layer.ignored.len()), (vec!["src/b".to_owned()], 3));
}

#[test]
fn a_file_that_is_tracked_is_never_ignored() {
    let site = Site::with(&[("src/a", "1"), ("build/kept", "1"), ("x.log", "1")]);
    site.write(".gitignore", "build/\n*.log\n");
    site.commit();
    let plan = Approved::on(site);
    plan.site.write("build/kept", "2");
    plan.site.write("build/new", "2");
    fs::remove_file(plan.site.at("x.log")).unwrap();
    let layer = plan.take(&["**"]);
    assert_eq!(
        (&layer.changed[..], &layer.deleted[..]),
        (&["build/kept".to_owned()][..], &["x.log".to_owned()][..])
    );
    assert_eq!(layer.ignored, ["build/new"]);
}

#[test]
fn a_glob_that_names_what_is_ignored_takes_it_into_the_check_and_a_commit_leaves_it_out() {
    let plan = Approved::with(&[(".gitignore", ".env\ndist/\nnode_modules/\n"), ("src/a", "1")]);
    for path in [".env", "dist/app.js", "node_modules/x/dist/y", "packages/p/dist/z", "src/a"] {
        plan.site.write(path, "new");
    }
    let layer = plan.take(&["src/**", "dist/**", ".env", "packages/*/dist/**"]);
    assert_eq!(layer.changed, [".env", "dist/app.js", "packages/p/dist/z", "src/a"]);
    // One glob names the file; another one also covers it.
    let layer = plan.take(&["**", "dist/**"]);
    assert_eq!(layer.changed, ["dist/app.js", "src/a"]);
    assert_eq!(layer.ignored, [".env", "node_modules/", "packages/p/dist/"]);
    let made = plan.commit(layer, &With::default());
    assert_eq!(plan.committed(), ".gitignore\nsrc/a");
    let left: Vec<_> = made.left_out.iter().map(|left| (left.path.as_str(), &left.why)).collect();
    assert_eq!(left, [("dist/app.js", &ExclusionReason::Ignored)]);
}

#[test]
fn a_commit_takes_what_is_ignored_along_where_a_person_asks() {
    let plan = Approved::with(&[(".gitignore", "dist/\n"), ("src/a", "1")]);
    plan.site.write("dist/app.js", "new");
    let layer = plan.take(&["dist/**"]);
    let made = plan.commit(layer, &With { ignored: true, plan: None });
    assert_eq!((plan.committed().as_str(), made.left_out.len()), (".gitignore\ndist/app.js\nsrc/a", 0));
}

#[test]
fn rules_that_an_agent_wrote_neither_hide_nor_let_in() {
    let plan = Approved::with(&[(".gitignore", ".env\n"), ("src/a", "1")]);
    plan.site.write(".git/info/exclude", "src/\n");
    plan.site.write(".gitignore", "src/\n");
    plan.site.write("src/.gitignore", "*\n");
    plan.site.write("src/b", "new");
    plan.site.write(".env", "key");
    // A later run of the same approval.
    let mut trees = plan.site.trees();
    trees.leave_out("revision", &plan.base, &[]).unwrap();
    let (touches, none) = (Touches::new(&["**"]).unwrap(), Touches::default());
    let layer = trees.take_over(&plan.base, &touches, &none, &ImportLimits::default()).unwrap();
    assert_eq!(layer.changed, [".gitignore", "src/.gitignore", "src/b"]);
    assert_eq!(layer.ignored, [".env"]);
}

#[test]
fn the_repositorys_own_list_counts_as_it_was_before() {
    let site = Site::with(&[("src/a", "1")]);
    site.write(".git/info/exclude", "notes/\n");
    let plan = Approved::on(site);
    fs::write(plan.site.at(".git/info/exclude"), "").unwrap();
    plan.site.write("notes/x", "mine");
    assert_eq!(plan.take(&["**"]).ignored, ["notes/"]);
}

#[test]
fn plans_progress_configuration_and_the_marker_are_nobodys_work() {
    let plan = Approved::with(&[("PLAN.md", "approved"), ("src/a", "1")]);
    for path in ["PLAN.md", "progress.md", "PLAN-other.md", "provost.toml", ".harness/active-plan", "src/b"] {
        plan.site.write(path, "written by the harness");
    }
    let layer = plan.take(&["**"]);
    assert_eq!((&layer.changed[..], layer.refused.len()), (&["src/b".to_owned()][..], 0));
    let named = plan.take(&["PLAN.md", "provost.toml", "PLAN-other.md"]);
    assert_eq!(named.changed, ["PLAN-other.md", "provost.toml"], "its own plan never");
    let made = plan.commit(named, &With::default());
    assert_eq!(plan.committed(), "PLAN.md\nsrc/a");
    assert!(made.left_out.iter().all(|left| left.why == ExclusionReason::Own) && made.left_out.len() == 2);
}

#[test]
fn a_commit_takes_the_plan_along_where_a_person_asks() {
    let plan = Approved::with(&[("PLAN.md", "approved"), ("src/a", "1")]);
    plan.site.write("PLAN.md", "done");
    plan.site.write("src/b", "new");
    let own = ["PLAN.md", "progress.md"].map(str::to_owned).to_vec();
    plan.commit(plan.take(&["**"]), &With { ignored: false, plan: Some(own) });
    assert_eq!(plan.committed(), "PLAN.md\nsrc/a\nsrc/b");
    assert_eq!(plan.site.git(&["show", "made:PLAN.md"]), "done");
}

#[test]
fn permissions_arrive_as_the_agent_left_them() {
    let plan = Approved::with(&[("src/a", "1"), ("src/b", "1"), ("src/run", "1")]);
    plan.site.write("src/key", "k");
    plan.site.write("src/tool", "t");
    for (path, mode) in [("src/key", 0o600), ("src/tool", 0o700), ("src/a", 0o400), ("src/run", 0o755)] {
        chmod(&plan.site.at(path), mode);
    }
    let layer = plan.take(&["src/**"]);
    assert_eq!(layer.changed, ["src/a", "src/key", "src/run", "src/tool"]);
    let wanted = ["src/a 400 1", "src/b 644 1", "src/key 600 k", "src/run 755 1", "src/tool 700 t"];
    let assembled = plan.trees.assemble(&plan.base, &layer).unwrap();
    assert_eq!(listed(&assembled.path), wanted);
    drop(assembled);
    let next = plan.trees.advance(&plan.base, layer).unwrap();
    assert_eq!(listed_base(&next), wanted);
    // The next step sees no changes.
    let (touches, none) = (Touches::new(&["src/**"]).unwrap(), Touches::default());
    let again = plan.trees.take_over(&next, &touches, &none, &ImportLimits::default()).unwrap();
    assert!(again.is_empty(), "{again:?}");
    // A commit stores only the executable bit.
    let by = CommitText { name: "a", email: "a@b", message: "m" };
    let head = plan.site.head();
    let made = plan.trees.commit(&head, &plan.base, &next, &With::default(), &by).unwrap();
    plan.trees.hand_over(&made.commit, "refs/heads/made", None).unwrap();
    let modes = plan.site.git(&["ls-tree", "-r", "--format=%(objectmode) %(path)", "made"]);
    assert_eq!(modes, "100644 src/a\n100644 src/b\n100644 src/key\n100755 src/run\n100755 src/tool");
}

#[test]
fn permissions_from_before_the_work_are_no_change() {
    let site = Site::with(&[("src/a", "1"), ("src/b", "1")]);
    // Permissions as another umask would set them.
    chmod(&site.at("src/a"), 0o600);
    chmod(&site.at("src/b"), 0o664);
    // File times have a limited resolution, so wait for the next step.
    let changed = || fs::metadata(site.at("src/a")).unwrap().ctime_nsec();
    let before = changed();
    while fs::write(site.at("clock"), "x").is_ok()
        && fs::metadata(site.at("clock")).unwrap().ctime_nsec() == before
    {}
    fs::remove_file(site.at("clock")).unwrap();
    let plan = Approved::on(site);
    assert!(plan.take(&["**"]).is_empty());
}

#[test]
fn links_inside_touches_arrive_as_links() {
    let plan = Approved::with(&[("src/v1/a", "1"), ("src/was", "1"), ("src/dir/x", "1"), ("tests/t", "1")]);
    symlink("v1", plan.site.at("src/current")).unwrap();
    symlink("../src/v1/a", plan.site.at("src/up")).unwrap();
    symlink("not/there", plan.site.at("src/dangling")).unwrap();
    fs::remove_file(plan.site.at("src/was")).unwrap();
    symlink("v1/a", plan.site.at("src/was")).unwrap();
    fs::remove_dir_all(plan.site.at("src/dir")).unwrap();
    symlink("v1", plan.site.at("src/dir")).unwrap();
    for (name, target) in
        [("abs", "/etc/passwd"), ("far", "../../x"), ("tests", "../tests/t"), ("git", "../.git/config")]
    {
        symlink(target, plan.site.at(&format!("src/{name}"))).unwrap();
    }
    let layer = plan.take(&["src/**"]);
    assert_eq!(layer.changed, ["src/current", "src/dangling", "src/dir", "src/up", "src/was"]);
    assert_eq!(layer.deleted, ["src/dir/x"]);
    let refused: Vec<_> = layer.refused.iter().map(|refused| (refused.path.as_str(), &refused.why)).collect();
    assert_eq!(
        refused,
        [
            ("src/abs", &ExclusionReason::Link),
            ("src/far", &ExclusionReason::Link),
            ("src/git", &ExclusionReason::Link),
            ("src/tests", &ExclusionReason::Link)
        ]
    );
    let wanted = [
        "src/current -> v1",
        "src/dangling -> not/there",
        "src/dir -> v1",
        "src/up -> ../src/v1/a",
        "src/v1/a 644 1",
        "src/was -> v1/a",
        "tests/t 644 1",
    ];
    let assembled = plan.trees.assemble(&plan.base, &layer).unwrap();
    assert_eq!(listed(&assembled.path), wanted);
    drop(assembled);
    let next = plan.trees.advance(&plan.base, layer).unwrap();
    assert_eq!(listed_base(&next), wanted);
    assert!(next.gone.is_empty(), "a link covers what was beneath: {:?}", next.gone);
    // The link becomes a folder again.
    fs::remove_file(plan.site.at("src/dir")).unwrap();
    plan.site.write("src/dir/y", "2");
    let (touches, none) = (Touches::new(&["src/**"]).unwrap(), Touches::default());
    let layer = plan.trees.take_over(&next, &touches, &none, &ImportLimits::default()).unwrap();
    assert_eq!(
        (&layer.changed[..], &layer.deleted[..]),
        (&["src/dir/y".to_owned()][..], &["src/dir".to_owned()][..])
    );
    let last = plan.trees.advance(&next, layer).unwrap();
    assert!(listed_base(&last).contains(&"src/dir/y 644 2".to_owned()));
    let assembled = plan
        .trees
        .assemble(&last, &plan.trees.take_over(&last, &none, &none, &ImportLimits::default()).unwrap());
    assert_eq!(listed(&assembled.unwrap().path), listed_base(&last));
    let by = CommitText { name: "a", email: "a@b", message: "m" };
    let made = plan.trees.commit(&plan.site.head(), &plan.base, &last, &With::default(), &by).unwrap();
    plan.trees.hand_over(&made.commit, "refs/heads/made", None).unwrap();
    assert_eq!(plan.site.git(&["show", "made:src/current"]), "v1");
}

#[test]
fn protected_files_are_not_reached_by_a_link() {
    let plan = Approved::with(&[("src/a", "1"), ("src/tests/t", "1")]);
    symlink("tests/t", plan.site.at("src/way")).unwrap();
    let (touches, protect) = (Touches::new(&["src/**"]).unwrap(), Touches::new(&["src/tests/**"]).unwrap());
    let layer = plan.trees.take_over(&plan.base, &touches, &protect, &ImportLimits::default()).unwrap();
    assert_eq!(layer.refused.len(), 1);
    assert!(layer.is_empty());
}

#[test]
fn empty_folders_arrive_and_vanish() {
    let plan = Approved::with(&[("src/a", "1"), ("src/old/x", "1"), ("src/emptied/y", "1")]);
    fs::create_dir_all(plan.site.at("src/data/deep")).unwrap();
    fs::remove_dir_all(plan.site.at("src/old")).unwrap();
    fs::remove_file(plan.site.at("src/emptied/y")).unwrap();
    let layer = plan.take(&["src/**"]);
    assert!(layer.changed.is_empty());
    assert_eq!(layer.deleted, ["src/emptied/y", "src/old/x"]);
    let vanished: Vec<&Path> = layer.vanished_paths().collect();
    assert_eq!(vanished, [Path::new("src/emptied/y"), Path::new("src/old")]);
    let assembled = plan.trees.assemble(&plan.base, &layer).unwrap();
    assert!(assembled.path.join("src/data/deep").is_dir());
    assert!(assembled.path.join("src/emptied").is_dir() && !assembled.path.join("src/old").exists());
    drop(assembled);
    let next = plan.trees.advance(&plan.base, layer).unwrap();
    let (touches, none) = (Touches::new(&["src/**"]).unwrap(), Touches::default());
    let take = |base: &Base| plan.trees.take_over(base, &touches, &none, &ImportLimits::default()).unwrap();
    assert!(take(&next).is_empty());
    plan.site.write("src/a", "2");
    let after = plan.trees.advance(&next, take(&next)).unwrap();
    assert!(after.has("src/data/deep") && after.over.as_ref().unwrap().join("src/data/deep").is_dir());
    fs::remove_dir_all(plan.site.at("src/data")).unwrap();
    let layer = take(&after);
    assert_eq!(layer.vanished_paths().collect::<Vec<_>>(), [Path::new("src/data")]);
    assert!(!plan.trees.advance(&after, layer).unwrap().has("src/data"));
}

#[test]
fn a_second_name_is_no_reason_to_leave_a_file_out() {
    let plan = Approved::with(&[("src/a", "1")]);
    plan.site.write("src/deps/bin", "built");
    fs::hard_link(plan.site.at("src/deps/bin"), plan.site.at("src/bin")).unwrap();
    assert_eq!(plan.take(&["src/**"]).changed, ["src/bin", "src/deps/bin"]);
}

#[test]
fn files_keep_the_order_in_which_they_were_written_and_none_is_older_than_the_walk() {
    let plan = Approved::with(&[("src/a", "1")]);
    let now = SystemTime::now();
    for (path, age) in [("src/z", 300), ("src/b", 200), ("src/m", 100), ("src/c", 200)] {
        plan.site.write(path, "x");
        let file = fs::File::options().write(true).open(plan.site.at(path)).unwrap();
        file.set_modified(now - Duration::from_secs(age)).unwrap();
    }
    let layer = plan.take(&["src/**"]);
    let time = |path: &str| fs::metadata(layer.path.join(path)).unwrap().modified().unwrap();
    assert!(time("src/z") < time("src/b") && time("src/b") < time("src/m"));
    assert_eq!(time("src/b"), time("src/c"));
    assert!(time("src/z") >= now && time("src/m") <= SystemTime::now());
}

#[test]
fn a_repository_inside_the_workspace_is_taken_by_name_or_named() {
    let plan = Approved::with(&[("src/a", "1")]);
    plan.site.write("src/inner/.git/HEAD", "ref: refs/heads/main\n");
    plan.site.write("src/inner/x", "1");
    let layer = plan.take(&["src/**"]);
    assert_eq!(layer.changed, ["src/inner/x"]);
    let refused: Vec<_> = layer.refused.iter().map(|refused| (refused.path.as_str(), &refused.why)).collect();
    assert_eq!(refused, [("src/inner/.git", &ExclusionReason::Repository)]);
    let layer = plan.take(&["src/**", "src/inner/.git/**", ".git/**"]);
    assert_eq!(layer.changed, ["src/inner/.git/HEAD", "src/inner/x"]);
    let made = plan.commit(layer, &With::default());
    assert_eq!(plan.committed(), "src/a\nsrc/inner/x");
    assert_eq!(made.left_out[0].why, ExclusionReason::Repository);
}

#[test]
fn lists_that_are_cut_say_by_how_much() {
    let plan = Approved::with(&[(".gitignore", "*.log\n"), ("src/a", "1")]);
    for number in 0..1_010 {
        plan.site.write(&format!("src/{number}.log"), "x");
    }
    let layer = plan.take(&["**"]);
    assert_eq!((layer.ignored.len(), layer.ignored_more), (1_000, 10));
}

#[test]
fn a_check_on_another_machine_gets_what_a_commit_can_hold() {
    let plan = Approved::with(&[("src/a", "1")]);
    plan.site.write("src/key", "k");
    chmod(&plan.site.at("src/key"), 0o600);
    chmod(&plan.site.at("src/a"), 0o600);
    fs::create_dir(plan.site.at("src/empty")).unwrap();
    let layer = plan.take_with(&["src/**"], &ImportLimits { as_git: true, ..ImportLimits::default() });
    assert_eq!(layer.changed, ["src/key"]);
    let next = plan.trees.advance(&plan.base, layer).unwrap();
    assert_eq!(listed_base(&next), ["src/a 644 1", "src/key 644 k"]);
    assert!(!next.has("src/empty"));
}

#[test]
fn ends_of_lines_are_those_the_person_sees_and_no_difference_of_their_own() {
    let attributes = "*.bat text eol=crlf\n*.txt text\n";
    let site = Site::with(&[
        (".gitattributes", attributes),
        ("a.bat", "one\ntwo\n"),
        ("b.bat", "x\n"),
        ("c.txt", "x\n"),
    ]);
    for file in ["a.bat", "b.bat"] {
        fs::remove_file(site.at(file)).unwrap();
    }
    site.git(&["checkout", "--", "."]);
    assert_eq!(fs::read(site.at("a.bat")).unwrap(), b"one\r\ntwo\r\n");
    let plan = Approved::on(site);
    assert_eq!(fs::read(plan.base.file("a.bat")).unwrap(), b"one\r\ntwo\r\n", "as in the checkout");
    assert!(plan.take(&["**"]).is_empty());
    // Only the line ends change.
    plan.site.write("a.bat", "one\ntwo\n");
    plan.site.write("c.txt", "x\r\n");
    assert!(plan.take(&["**"]).is_empty());
    plan.site.write("b.bat", "x\r\ny\r\n");
    plan.site.write("new.bat", "z\r\n");
    let layer = plan.take(&["**"]);
    assert_eq!(layer.changed, ["b.bat", "new.bat"]);
    plan.commit(layer, &With::default());
    let blob = |path: &str| plan.site.git(&["cat-file", "-s", &format!("made:{path}")]);
    assert_eq!((blob("b.bat").as_str(), blob("new.bat").as_str()), ("4", "2"), "a commit has plain ends");
}

#[test]
fn the_files_of_a_submodule_are_in_the_base_and_its_changes_in_no_commit_of_ours() {
    let inner = Site::with(&[("lib/x", "1"), ("y", "1")]);
    let site = Site::with(&[("src/a", "1")]);
    let from = inner.workspace.to_str().unwrap();
    site.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "vendor/inner"]);
    site.commit();
    let plan = Approved::on(site);
    assert!(plan.base.has("vendor/inner/lib/x") && plan.base.left_out.is_empty(), "{:?}", plan.base.left_out);
    assert!(plan.take(&["**"]).is_empty() && plan.take(&["**"]).refused.is_empty());
    plan.site.write("vendor/inner/y", "2");
    plan.site.write("src/a", "2");
    let layer = plan.take(&["**"]);
    assert_eq!(layer.changed, ["src/a", "vendor/inner/y"]);
    let made = plan.commit(layer, &With::default());
    let left: Vec<_> = made.left_out.iter().map(|left| (left.path.as_str(), &left.why)).collect();
    assert_eq!(left, [("vendor/inner/y", &ExclusionReason::Submodule)]);
    assert_eq!(plan.site.git(&["diff", "--name-only", "HEAD", "made"]), "src/a");
}
