//! Tests provost's own trees: what is taken over, what is left out, and what is kept.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use provost_core::model::event::NamedFile;
use provost_core::model::hash::Hash;
use provost_host::tree::{
    Base, CopyTrust, Error, ExclusionReason, ImportLimits, Layer, RetentionLimits, Touches, Trees, sweep,
    uncommitted,
};

/// Age from which on a file is remembered.
const OLD: Duration = Duration::from_millis(150);

pub(crate) struct Site {
    _folder: tempfile::TempDir,
    pub workspace: PathBuf,
    pub state: PathBuf,
}

impl Site {
    pub(crate) fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, state) = (folder.path().join("work"), folder.path().join("state/trees"));
        fs::create_dir(&workspace).unwrap();
        Self { _folder: folder, workspace, state }
    }

    /// Creates a repository with these files committed.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let site = Self::bare();
        site.git(&["init", "-q", "-b", "main"]);
        for (path, text) in files {
            site.write(path, text);
        }
        site.commit();
        site
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.workspace.join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(&self.workspace)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub(crate) fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "m"]);
        self.head()
    }

    pub(crate) fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) fn trees(&self) -> Trees {
        Trees::open(&self.state, &self.workspace).unwrap()
    }

    pub(crate) fn base(&self) -> Base {
        self.trees().base("test", Some(&self.head()), &[], &[]).unwrap()
    }

    pub(crate) fn take(&self, base: &Base, touches: &[&str], protect: &[&str]) -> Layer {
        let (touches, protect) = (Touches::new(touches).unwrap(), Touches::new(protect).unwrap());
        self.trees().take_over(base, &touches, &protect, &ImportLimits::default()).unwrap()
    }
}

/// Lists every file and link below a folder as `path mode content`.
pub(crate) fn listed(folder: &Path) -> Vec<String> {
    fn walk(top: &Path, folder: &Path, lines: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let kind = entry.file_type().unwrap();
            let name = path.strip_prefix(top).unwrap().to_string_lossy().into_owned();
            if kind.is_dir() {
                walk(top, &path, lines);
            } else if kind.is_symlink() {
                lines.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
            } else {
                let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
                lines.push(format!("{name} {mode:o} {}", String::from_utf8_lossy(&fs::read(&path).unwrap())));
            }
        }
    }
    let mut lines = Vec::new();
    walk(folder, folder, &mut lines);
    lines.sort();
    lines
}

/// Lists the files of a base in the same way, however it is stored.
pub(crate) fn listed_base(base: &Base) -> Vec<String> {
    let mut lines = Vec::new();
    for path in base.files().unwrap() {
        let (name, file) = (path.display(), base.file(&path));
        let found = fs::symlink_metadata(&file).unwrap();
        lines.push(match found.is_symlink() {
            true => format!("{name} -> {}", fs::read_link(&file).unwrap().display()),
            false => {
                let mode = found.permissions().mode() & 0o777;
                format!("{name} {mode:o} {}", String::from_utf8_lossy(&fs::read(&file).unwrap()))
            }
        });
    }
    lines.sort();
    lines
}

fn refused(layer: &Layer) -> Vec<(&str, &ExclusionReason)> {
    layer.refused.iter().map(|refused| (refused.path.as_str(), &refused.why)).collect()
}

fn named(path: &str, text: &str) -> NamedFile {
    NamedFile { path: path.to_owned(), sha256: Hash::of(text.as_bytes()).to_string() }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_base_is_the_commit_and_not_the_workspace() {
    let site = Site::with(&[("a", "one"), ("src/b.rs", "two $Id$\n"), ("run.sh", "#!")]);
    chmod(&site.at("run.sh"), 0o755);
    symlink("src/b.rs", site.at("link")).unwrap();
    site.write(".gitattributes", "*.rs text eol=crlf ident\n");
    let commit = site.commit();
    site.write("a", "dirty");
    site.write("untracked", "x");
    let base = site.trees().base("plan", Some(&commit), &[], &[]).unwrap();
    let files = listed(&base.path);
    assert_eq!(
        files,
        [
            ".gitattributes 644 *.rs text eol=crlf ident\n",
            "a 644 one",
            "link -> src/b.rs",
            "run.sh 755 #!",
            "src/b.rs 644 two $Id$\r\n",
        ]
    );
    assert!(base.left_out.is_empty());
    let again = site.trees().base("another plan", Some(&commit), &[], &[]).unwrap();
    assert_eq!((again.id, again.path), (base.id, base.path));
}

/// Returns an identity of a base's file, which a copy does not have.
fn inode(base: &Base) -> u64 {
    fs::metadata(base.path.join("a")).unwrap().ino()
}

#[test]
fn plans_share_a_base_if_no_agent_can_have_changed_it() {
    let site = Site::with(&[("a", "one"), ("src/b.rs", "two")]);
    let commit = site.head();
    let base = |plan: &str| {
        let mut trees = site.trees();
        trees.trust_copies(&CopyTrust::new(|| true));
        trees.base(plan, Some(&commit), &[], &[]).unwrap()
    };
    let first = base("first");
    assert_eq!(inode(&base("second")), inode(&first), "shared, not made again");
}

#[test]
fn a_base_that_an_agent_can_have_changed_is_used_only_if_it_is_the_same() {
    let site = Site::with(&[("a", "one"), ("src/b.rs", "two")]);
    let commit = site.head();
    let base = |plan: &str| site.trees().base(plan, Some(&commit), &[], &[]).unwrap();
    let first = base("first");
    assert_eq!(inode(&base("second")), inode(&first), "it is the same");
    drop(first);
    let change = |what: &str, tree: &Path| match what {
        "content" => fs::write(tree.join("a"), "bad").unwrap(),
        "mode" => chmod(&tree.join("src/b.rs"), 0o755),
        "more" => fs::write(tree.join("src/conftest.py"), "bad").unwrap(),
        "hard link" => {
            // The same content, which the agent of a later plan can change.
            fs::write(site.at("a"), "one").unwrap();
            fs::remove_file(tree.join("a")).unwrap();
            fs::hard_link(site.at("a"), tree.join("a")).unwrap();
        }
        "folder" => {
            fs::rename(tree.join("src"), site.at("src-of-the-agent")).unwrap();
            symlink(site.at("src-of-the-agent"), tree.join("src")).unwrap();
        }
        "whole" => {
            fs::rename(tree, site.at("tree-of-the-agent")).unwrap();
            symlink(site.at("tree-of-the-agent"), tree).unwrap();
        }
        _ => fs::remove_file(tree.join("src/b.rs")).unwrap(),
    };
    for plan in ["content", "mode", "more", "hard link", "folder", "whole", "less"] {
        let before = base("first");
        change(plan, &before.path);
        drop(before);
        let after = base(plan);
        assert_eq!(listed(&after.path), ["a 644 one", "src/b.rs 644 two"], "{plan}");
        fs::write(site.at("a"), "changed by the agent").unwrap();
        assert_eq!(listed(&after.path), ["a 644 one", "src/b.rs 644 two"], "{plan}");
        assert_eq!(inode(&base("first")), inode(&after), "{plan}: the changed one is gone for every plan");
    }
}

#[test]
fn what_an_agent_has_prepared_for_another_plan_is_not_used() {
    let site = Site::with(&[("a", "one")]);
    let commit = site.head();
    let mut trees = site.trees();
    trees.trust_copies(&CopyTrust::new(|| true));
    let base = trees.base("first", Some(&commit), &[], &[]).unwrap();
    // The base of a commit with other content, noted as the answer to every question about the first commit.
    site.write("a", "bad");
    let bad = trees.base("bad", Some(&site.commit()), &[], &[]).unwrap();
    let requests = fs::read_dir(site.state.join("requests")).unwrap();
    for request in requests.map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&request).unwrap();
        fs::write(&request, text.replace(&base.id, &bad.id)).unwrap();
    }
    // A mirror in which the commit has other content.
    let mirror = site.state.join("mirror-sha1.git");
    let packs = fs::read_dir(mirror.join("objects/pack")).unwrap();
    packs.for_each(|pack| fs::remove_file(pack.unwrap().path()).unwrap());
    let after = site.trees().base("second", Some(&commit), &[], &[]).unwrap();
    assert_eq!(listed(&after.path), ["a 644 one"]);
}

#[test]
fn a_base_with_cache_folders_belongs_to_one_approval() {
    let site = Site::with(&[("a", "one")]);
    let commit = site.head();
    let base =
        |plan: &str| site.trees().base(plan, Some(&commit), &[], &["node_modules".to_owned()]).unwrap();
    let without = base("before");
    // An agent installs something; the tree of the plan stays what it was, and another plan has it.
    site.write("node_modules/left-pad/index.js", "x");
    assert_eq!(base("before").id, without.id);
    assert_eq!(listed(&base("after").path), ["a 644 one", "node_modules/left-pad/index.js 644 x"]);
    site.write("node_modules/left-pad/index.js", "y");
    assert_eq!(listed(&base("later").path), ["a 644 one", "node_modules/left-pad/index.js 644 y"]);
    fs::remove_dir_all(site.at("node_modules")).unwrap();
    assert_eq!(base("without").id, without.id);
}

#[test]
fn the_same_content_has_the_same_id_on_every_machine() {
    let files = [("a", "one"), ("b/c", "two")];
    let (one, other) = (Site::with(&files), Site::with(&files));
    other.write("b/c", "three");
    other.commit();
    other.write("b/c", "two");
    other.commit();
    assert_ne!(one.head(), other.head());
    assert_eq!(one.base().id, other.base().id);
    let copy = Site::bare();
    files.iter().for_each(|(path, text)| copy.write(path, text));
    assert_eq!(copy.trees().base("x", None, &[], &[]).unwrap().id, one.base().id);
    assert_eq!(one.base().id, "60b992036c6964dd0586eca83f81842b602b6765c1039735bb07d2eecae83be8");
}

#[test]
fn only_what_differs_inside_touches_is_taken_over() {
    let site = Site::with(&[
        ("src/same.rs", "same"),
        ("src/changed.rs", "old"),
        ("src/gone.rs", "x"),
        ("src/deep/er/gone.rs", "x"),
        ("src/mode.sh", "m"),
        ("tests/t.rs", "t"),
    ]);
    let base = site.base();
    site.write("src/changed.rs", "new");
    site.write("src/new/file.rs", "fresh");
    chmod(&site.at("src/mode.sh"), 0o755);
    fs::remove_file(site.at("src/gone.rs")).unwrap();
    fs::remove_dir_all(site.at("src/deep")).unwrap();
    site.write("tests/t.rs", "bought");
    site.write("conftest.py", "bought");
    let layer = site.take(&base, &["src/**"], &[]);
    assert_eq!(layer.changed, ["src/changed.rs", "src/mode.sh", "src/new/file.rs"]);
    assert_eq!(layer.deleted, ["src/deep/er/gone.rs", "src/gone.rs"]);
    assert_eq!(refused(&layer), []);
    assert_eq!(
        listed(&layer.path),
        ["src/changed.rs 644 new", "src/mode.sh 755 m", "src/new/file.rs 644 fresh"]
    );
    let id = layer.id.clone();
    let next = site.trees().advance(&base, layer).unwrap();
    assert_eq!(next.id, id);
    assert_eq!(
        listed_base(&next),
        [
            "src/changed.rs 644 new",
            "src/mode.sh 755 m",
            "src/new/file.rs 644 fresh",
            "src/same.rs 644 same",
            "tests/t.rs 644 t"
        ]
    );
    assert!(site.take(&next, &["src/**"], &[]).is_empty(), "what was taken over is the base now");
    assert_eq!(listed(&base.path).len(), 6, "the old base is as it was");
    // The same tree has the same id when it is committed.
    site.git(&["checkout", "-q", "--", "tests/t.rs"]);
    fs::remove_file(site.at("conftest.py")).unwrap();
    let commit = site.commit();
    let mut trees = site.trees();
    trees.trust_copies(&CopyTrust::new(|| true));
    assert_eq!(trees.base("", Some(&commit), &[], &[]).unwrap().id, id);
    assert_eq!(site.trees().kept(&id, &[]).unwrap().unwrap().over, next.over);
    assert!(site.trees().kept("../../etc", &[]).unwrap().is_none());
}

#[test]
fn digests_of_an_earlier_run_count_if_no_agent_can_have_written_them() {
    let names: Vec<String> = (0..1_100).map(|number| format!("src/{number}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "same")).collect();
    let site = Site::with(&files);
    let base = site.base();
    let taken = |is_trusted: bool| {
        let mut trees = site.trees();
        trees.trust_copies(&CopyTrust::new(move || is_trusted));
        let (touches, none) = (Touches::new(&["src/**"]).unwrap(), Touches::new::<&str>(&[]).unwrap());
        trees.take_over(&base, &touches, &none, &ImportLimits::default()).unwrap().changed
    };
    let kept = site.state.join("digests");
    // Files that were written just now are read again next time.
    while fs::metadata(site.at("src/1099")).unwrap().modified().unwrap().elapsed().unwrap() < OLD {
        std::thread::yield_now();
    }
    assert_eq!(taken(false), [] as [&str; 0]);
    assert!(!kept.exists(), "an agent could read and change the file");
    assert_eq!(taken(true), [] as [&str; 0]);
    let honest = fs::read(&kept).unwrap();
    // The same size and the same time as before.
    let before = fs::metadata(site.at("src/7")).unwrap();
    site.write("src/7", "new!");
    fs::File::options()
        .write(true)
        .open(site.at("src/7"))
        .unwrap()
        .set_modified(before.modified().unwrap())
        .unwrap();
    assert_eq!(taken(true), ["src/7"]);
    assert_eq!(taken(false), ["src/7"]);
    // A file that says of the new content that it is the old one.
    let after = fs::metadata(site.at("src/7")).unwrap();
    let changed = |of: &fs::Metadata| [of.ctime().to_le_bytes(), of.ctime_nsec().to_le_bytes()].concat();
    let (then, now) = (changed(&before), changed(&after));
    let inode = before.ino().to_le_bytes();
    let mut forged = honest.clone();
    let found = |at: &usize| forged[*at..].starts_with(&then) && forged[at - 48..].starts_with(&inode);
    let at = (48..forged.len() - 16).find(found).expect("the file of the changed name");
    forged[at..at + 16].copy_from_slice(&now);
    fs::write(&kept, &forged).unwrap();
    assert_eq!(taken(true), [] as [&str; 0], "the file is read");
    assert_eq!(taken(false), ["src/7"]);
    // After a restart of the machine.
    let line = forged.iter().position(|byte| *byte == b'\n').unwrap();
    forged[line - 1] ^= 1;
    fs::write(&kept, &forged).unwrap();
    assert_eq!(taken(true), ["src/7"]);
}

#[test]
fn globs_may_be_nested_and_name_single_files() {
    let site =
        Site::with(&[("a/x.rs", "1"), ("a/b/x.rs", "1"), ("a/b/x.py", "1"), ("c/d/e", "1"), ("README", "1")]);
    let base = site.base();
    for path in ["a/x.rs", "a/b/x.rs", "a/b/x.py", "c/d/e", "README"] {
        site.write(path, "22");
    }
    let taken = |touches: &[&str]| site.take(&base, touches, &[]).changed;
    assert_eq!(taken(&["a/*.rs"]), ["a/x.rs"]);
    assert_eq!(taken(&["a/**/*.rs"]), ["a/b/x.rs", "a/x.rs"]);
    assert_eq!(taken(&["a/**/*.rs", "a/b", "README"]), ["README", "a/b/x.py", "a/b/x.rs", "a/x.rs"]);
    assert_eq!(taken(&["**/e", "c/**"]), ["c/d/e"]);
    assert_eq!(taken(&["*"]).len(), 5);
    assert_eq!(taken(&["nowhere/**", "README/x"]), [""; 0]);
    assert_eq!(taken(&[]), [""; 0]);
    let layer = site.take(&base, &["a/*.rs"], &[]);
    assert_eq!(layer.outside, [""; 0], "what the walk did not come by is not said");
}

#[test]
fn what_is_protected_stays_as_it_was_and_is_named() {
    let site = Site::with(&[("t/a", "1"), ("t/keep/b", "1"), ("t/keep/c", "1"), ("t/keep/same", "1")]);
    let base = site.base();
    site.write("t/a", "2");
    site.write("t/keep/b", "2");
    fs::remove_file(site.at("t/keep/c")).unwrap();
    site.write("t/keep/new", "2");
    let layer = site.take(&base, &["t/**"], &["t/keep/**"]);
    assert_eq!(layer.changed, ["t/a"]);
    assert_eq!(layer.deleted, [""; 0]);
    assert_eq!(layer.protected_changed, ["t/keep/b", "t/keep/c", "t/keep/new"]);
    // A file replaces a folder that contains a protected file.
    fs::remove_dir_all(site.at("t")).unwrap();
    site.write("t", "file");
    let layer = site.take(&base, &["t"], &["t/keep/b"]);
    assert_eq!((layer.changed.len(), layer.deleted.len()), (0, 0));
    assert_eq!(refused(&layer), [("t", &ExclusionReason::InTheWay)]);
    assert_eq!(layer.protected_changed, ["t/keep/b"]);
    assert_eq!(layer.id, base.id);
}

#[test]
fn links_that_lead_out_pipes_and_sockets_are_refused_by_name() {
    let site = Site::with(&[("src/a", "1"), ("src/dir/b", "1")]);
    symlink("a", site.at("src/known")).unwrap();
    site.commit();
    let base = site.base();
    fs::remove_file(site.at("src/a")).unwrap();
    symlink("/etc/passwd", site.at("src/a")).unwrap();
    fs::remove_dir_all(site.at("src/dir")).unwrap();
    symlink("/etc", site.at("src/dir")).unwrap();
    symlink("../outside", site.at("src/out")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        site.at("src/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(site.at("src/socket")).unwrap();
    let layer = site.take(&base, &["src/**"], &[]);
    assert_eq!(
        refused(&layer),
        [
            ("src/a", &ExclusionReason::Link),
            ("src/dir", &ExclusionReason::Link),
            ("src/out", &ExclusionReason::Link),
            ("src/pipe", &ExclusionReason::Pipe),
            ("src/socket", &ExclusionReason::Socket),
        ]
    );
    assert!(layer.is_empty());
    assert_eq!(layer.id, base.id);
}

#[test]
fn a_folder_on_the_way_that_became_something_else_is_refused() {
    let site = Site::with(&[("a/b/c", "1"), ("lib", "file")]);
    let base = site.base();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("b")).unwrap();
    fs::write(outside.path().join("b/c"), "host").unwrap();
    fs::remove_dir_all(site.at("a")).unwrap();
    symlink(outside.path(), site.at("a")).unwrap();
    assert_eq!(refused(&site.take(&base, &["a/b/**"], &[])), [("a", &ExclusionReason::Link)]);
    assert_eq!(refused(&site.take(&base, &["a/b/c"], &[])), [("a", &ExclusionReason::Link)]);
    assert_eq!(refused(&site.take(&base, &["**"], &[])), [("a", &ExclusionReason::Link)]);
    fs::remove_file(site.at("a")).unwrap();
    site.write("a", "now a file");
    assert_eq!(refused(&site.take(&base, &["a/b/**"], &[])), [("a", &ExclusionReason::NotAFolder)]);
    fs::remove_file(site.at("a")).unwrap();
    let layer = site.take(&base, &["a/b/**"], &[]);
    assert_eq!((layer.deleted.as_slice(), refused(&layer)), (["a/b/c".to_owned()].as_slice(), vec![]));
    fs::remove_file(site.at("lib")).unwrap();
    site.write("lib/x", "1");
    assert_eq!(refused(&site.take(&base, &["lib/**"], &[])), [("lib", &ExclusionReason::InTheWay)]);
    let layer = site.take(&base, &["lib"], &[]);
    assert_eq!(
        (layer.changed.as_slice(), layer.deleted.as_slice()),
        (["lib/x".to_owned()].as_slice(), ["lib".to_owned()].as_slice())
    );
    let assembled = site.trees().assemble(&base, &layer).unwrap();
    let next = site.trees().advance(&base, layer).unwrap();
    assert_eq!(listed_base(&next), ["a/b/c 644 1", "lib/x 644 1"]);
    assert_eq!(listed(&assembled.path), listed_base(&next));
    // The reverse: a file replaces a folder.
    fs::remove_dir_all(site.at("lib")).unwrap();
    site.write("lib", "file");
    let back = site.take(&next, &["lib"], &[]);
    assert_eq!(
        (back.id.as_str(), back.deleted.as_slice()),
        (base.id.as_str(), ["lib/x".to_owned()].as_slice())
    );
    assert_eq!(listed_base(&site.trees().advance(&next, back).unwrap()), listed(&base.path));
}

#[test]
fn limits_are_kept_by_name() {
    let site = Site::with(&[("src/a", "1")]);
    let base = site.base();
    let huge = fs::File::create(site.at("src/huge")).unwrap();
    huge.set_len(2 << 30).unwrap();
    fs::File::create(site.at("huge")).unwrap().set_len(2 << 30).unwrap();
    site.write("src/m1", "123456");
    site.write("src/m2", "123456");
    let layer = site.take(&base, &["src/**"], &[]);
    assert_eq!(refused(&layer), [("src/huge", &ExclusionReason::TooLarge { bytes: 2 << 30 })]);
    assert_eq!(layer.changed, ["src/m1", "src/m2"]);
    let take = |limits: ImportLimits| {
        let (touches, none) = (Touches::new(&["src"]).unwrap(), Touches::default());
        site.trees().take_over(&base, &touches, &none, &limits).unwrap()
    };
    let layer = take(ImportLimits { total_bytes: 10, ..ImportLimits::default() });
    assert_eq!(refused(&layer)[1], ("src/m2", &ExclusionReason::OverTotal));
    let layer = take(ImportLimits { files: 1, ..ImportLimits::default() });
    assert_eq!(refused(&layer)[1], ("src/m2", &ExclusionReason::TooMany));
}

#[test]
fn any_name_a_file_system_allows_is_a_name() {
    let site = Site::with(&[("plain", "1")]);
    let odd = site.workspace.join(OsStr::from_bytes(b"odd/\xff\xfe name"));
    fs::create_dir(odd.parent().unwrap()).unwrap();
    fs::write(&odd, "bytes").unwrap();
    site.write("odd/new\nline\t\"quoted\"", "1");
    site.write("odd/Case", "upper");
    site.write("odd/case", "lower");
    site.write("odd/-dash", "1");
    site.write("odd/:colon*?[", "1");
    let commit = site.commit();
    let base = site.trees().base("x", Some(&commit), &[], &[]).unwrap();
    assert_eq!(listed(&base.path).len(), 7);
    assert_eq!(fs::read(base.path.join(OsStr::from_bytes(b"odd/\xff\xfe name"))).unwrap(), b"bytes");
    assert_eq!(fs::read_to_string(base.path.join("odd/case")).unwrap(), "lower");
    assert!(site.take(&base, &["**"], &[]).is_empty());
    fs::write(&odd, "other").unwrap();
    site.write("odd/new\nline\t\"quoted\"", "2");
    let layer = site.take(&base, &["odd/**"], &[]);
    let changed: Vec<_> = layer.changed_paths().collect();
    assert_eq!(
        changed,
        [Path::new("odd/new\nline\t\"quoted\""), Path::new(OsStr::from_bytes(b"odd/\xff\xfe name"))]
    );
    assert_eq!(fs::read(layer.path.join(changed[1])).unwrap(), b"other");
    let assembled = site.trees().assemble(&base, &layer).unwrap();
    assert_eq!(listed(&assembled.path), listed_base(&site.trees().advance(&base, layer).unwrap()));
}

#[test]
fn named_files_are_as_approved_or_there_is_no_base() {
    let site = Site::with(&[("tests/check.sh", "committed"), ("tests/other", "x"), ("dir/real", "r")]);
    symlink("dir", site.at("link")).unwrap();
    let commit = site.commit();
    site.write("tests/check.sh", "edited before approval");
    chmod(&site.at("tests/check.sh"), 0o755);
    site.write("untracked.sh", "untracked");
    let files = [
        named("./tests/check.sh", "edited before approval"),
        named("untracked.sh", "untracked"),
        named("tests/other", "x"),
        named("link/real", "r"),
    ];
    let base = site.trees().base("x", Some(&commit), &files, &[]).unwrap();
    assert_eq!(
        listed(&base.path),
        [
            "dir/real 644 r",
            "link -> dir",
            "tests/check.sh 755 edited before approval",
            "tests/other 644 x",
            "untracked.sh 644 untracked"
        ]
    );
    site.write("untracked.sh", "the agent's");
    let again = site.trees().base("x", Some(&commit), &files, &[]).unwrap();
    assert_eq!(again.id, base.id, "it is kept");
    let gone = site.trees().base("x", Some(&commit), &[named("untracked.sh", "never")], &[]);
    assert!(matches!(gone, Err(Error::NotAsApproved { path }) if path == "untracked.sh"));
    let out = site.trees().base("x", Some(&commit), &[named("../x", "never")], &[]);
    assert!(matches!(out, Err(Error::NotInside { .. })));
}

#[test]
fn caches_are_those_from_before_the_agent() {
    let site = Site::with(&[("a", "1"), (".gitignore", "node_modules\n")]);
    site.write("node_modules/p/index.js", "honest");
    symlink("../p/index.js", site.at("node_modules/p/self")).unwrap();
    symlink("/usr/bin/env", site.at("node_modules/env")).unwrap();
    symlink(site.at("a"), site.at("node_modules/back")).unwrap();
    let caches = ["node_modules".to_owned(), "target".to_owned()];
    let head = site.head();
    let base = site.trees().base("plan 1", Some(&head), &[], &caches).unwrap();
    assert_eq!(base.left_out.len(), 1, "{:?}", base.left_out);
    assert_eq!(fs::read_link(base.path.join("node_modules/env")).unwrap(), Path::new("/usr/bin/env"));
    site.write("node_modules/p/index.js", "poisoned");
    site.write("target/x", "poisoned");
    let again = site.trees().base("plan 1", Some(&head), &[], &caches).unwrap();
    assert_eq!(again.id, base.id);
    let layer = site.take(&again, &["**"], &[]);
    assert!(layer.is_empty() && layer.refused.is_empty(), "{layer:?}");
    let later = site.trees().base("plan 2", Some(&head), &[], &caches).unwrap();
    assert_ne!(later.id, base.id, "another approval looks again");
}

#[test]
fn without_a_commit_the_base_is_a_copy_of_the_workspace() {
    let site = Site::bare();
    site.git(&["init", "-q"]);
    site.write("a", "1");
    site.write("deep/b", "2");
    chmod(&site.at("deep/b"), 0o555);
    chmod(&site.at("deep"), 0o555);
    symlink("a", site.at("link")).unwrap();
    symlink("x", site.at("x")).unwrap();
    symlink("../../etc/passwd", site.at("out")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        site.at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let huge = fs::File::create(site.at("huge")).unwrap();
    huge.set_len(2 << 30).unwrap();
    let base = site.trees().base("x", None, &[], &[]).unwrap();
    assert_eq!(listed(&base.path), ["a 644 1", "deep/b 555 2", "link -> a", "x -> x"]);
    let left: Vec<_> = base.left_out.iter().map(|left| (left.path.as_str(), left.why.clone())).collect();
    assert_eq!(
        left,
        [
            ("huge", ExclusionReason::TooLarge { bytes: 2 << 30 }),
            ("out", ExclusionReason::LeadsOut),
            ("pipe", ExclusionReason::Pipe)
        ]
    );
    site.write("a", "the agent's");
    assert_eq!(site.trees().base("x", None, &[], &[]).unwrap().id, base.id);
    assert_eq!(site.trees().base("x", None, &[], &[]).unwrap().left_out.len(), 3);
    let layer = site.take(&base, &["a", "deep"], &[]);
    assert_eq!(layer.changed, ["a"]);
    chmod(&site.at("deep"), 0o755);
}

#[test]
fn a_worktree_and_a_submodule_are_read_too() {
    let inner = Site::with(&[("inside", "1")]);
    let site = Site::with(&[("a", "1")]);
    let url = inner.workspace.to_str().unwrap();
    site.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "sub"]);
    let commit = site.commit();
    let side = site.workspace.with_file_name("si\"d:e");
    site.git(&["worktree", "add", "-q", "-b", "side", side.to_str().unwrap()]);
    let trees = Trees::open(&site.state, &side).unwrap();
    let base = trees.base("x", Some(&commit), &[], &[]).unwrap();
    assert_eq!(base.left_out.len(), 1);
    assert_eq!((base.left_out[0].path.as_str(), &base.left_out[0].why), ("sub", &ExclusionReason::Submodule));
    assert!(base.path.join("a").exists() && !base.path.join("sub").exists());
    // A repository that borrows objects from another one.
    let shared = site.workspace.with_file_name("shared");
    site.git(&["clone", "-q", "--shared", ".", shared.to_str().unwrap()]);
    let other = site.state.with_file_name("other");
    let trees = Trees::open(&other, &shared).unwrap();
    assert_eq!(trees.base("x", Some(&commit), &[], &[]).unwrap().id, base.id);
}

#[test]
fn a_repository_of_the_longer_digests_is_read() {
    let site = Site::bare();
    site.git(&["init", "-q", "--object-format=sha256"]);
    site.write("a", "1");
    let commit = site.commit();
    assert_eq!(commit.len(), 64);
    assert_eq!(listed(&site.base().path), ["a 644 1"]);
}

#[test]
fn a_later_commit_brings_only_what_is_new() {
    let site = Site::with(&[("a", "1"), ("b", "1")]);
    let first = site.base();
    site.write("b", "2");
    site.commit();
    site.git(&["gc", "-q"]);
    let second = site.base();
    assert_eq!(listed(&second.path), ["a 644 1", "b 644 2"]);
    assert_eq!(listed(&first.path), ["a 644 1", "b 644 1"]);
}

#[test]
fn large_files_come_through_whole() {
    let site = Site::with(&[]);
    let large: String = (0..400_000).map(|number| format!("{number}\n")).collect();
    site.write("large", &large);
    site.write("empty", "");
    site.write("limit", &"x".repeat(1 << 20));
    site.commit();
    let base = site.base();
    assert_eq!(fs::read_to_string(base.path.join("large")).unwrap(), large);
    assert!(site.take(&base, &["**"], &[]).is_empty());
    site.write("large", &(large + "more"));
    assert_eq!(site.take(&base, &["**"], &[]).changed, ["large"]);
}

#[test]
fn a_kept_file_that_somebody_wrote_to_is_named_and_not_used() {
    let site = Site::with(&[("a", "1"), ("tests/b", "2")]);
    let base = site.base();
    let layer = site.take(&base, &["a"], &[]);
    let trees = site.trees();
    let kept = base.path.join("tests/b");
    chmod(&kept, 0o644);
    fs::write(&kept, "").unwrap();
    let altered = |found: Result<_, Error>| matches!(found, Err(Error::Altered { path }) if path == kept);
    assert!(altered(trees.assemble(&base, &layer).map(|_| ())));
    // The next request gets a new, intact base.
    drop((base, layer));
    let base = site.base();
    let layer = site.take(&base, &["a"], &[]);
    let assembled = site.trees().assemble(&base, &layer).unwrap();
    assert_eq!(fs::read_to_string(assembled.path.join("tests/b")).unwrap(), "2");
}

#[test]
fn a_worktree_for_checks_is_brought_up_to_date_whatever_a_check_did_to_it() {
    let site = Site::with(&[("a", "1"), ("b", "1"), ("dir/c", "1"), ("dir/d", "1"), ("run", "1")]);
    symlink("a", site.at("link")).unwrap();
    chmod(&site.at("run"), 0o755);
    site.commit();
    let base = site.base();
    site.write("a", "2");
    let layer = site.take(&base, &["a"], &[]);
    let trees = site.trees();
    let kept = trees.advance(&base, site.take(&base, &["a"], &[])).unwrap();
    let expected = listed_base(&kept);
    let first = trees.assemble(&base, &layer).unwrap();
    assert_eq!((listed(&first.path), first.written), (expected.clone(), 5));
    // While one check uses the tree, another check gets its own.
    let second = trees.assemble(&base, &layer).unwrap();
    assert_ne!(second.path, first.path);
    assert_eq!(listed(&second.path), expected);
    let copy = second.path.clone();
    drop(second);
    assert!(!copy.exists());
    let path = first.path.clone();
    drop(first);
    let again = |written: usize| {
        let assembled = trees.assemble(&base, &layer).unwrap();
        assert_eq!(listed(&assembled.path), expected);
        assert_eq!(assembled.written, written);
    };
    again(0);
    std::thread::sleep(Duration::from_millis(150));
    again(0);
    // Size and modification time are the same, but the change time differs.
    let before = fs::metadata(path.join("b")).unwrap().modified().unwrap();
    fs::write(path.join("b"), "X").unwrap();
    fs::File::options().write(true).open(path.join("b")).unwrap().set_modified(before).unwrap();
    again(1);
    fs::write(path.join("b"), "Y").unwrap();
    again(1);
    fs::remove_file(path.join("link")).unwrap();
    symlink("/etc", path.join("link")).unwrap();
    fs::remove_dir_all(path.join("dir")).unwrap();
    symlink("/tmp", path.join("dir")).unwrap();
    fs::create_dir_all(path.join("target/x")).unwrap();
    fs::write(path.join("target/x/y"), "1").unwrap();
    chmod(&path.join("target/x"), 0o000);
    chmod(&path.join("run"), 0o644);
    fs::hard_link(path.join("a"), site.at("second name")).unwrap();
    again(4);
    fs::remove_file(path.join("a")).unwrap();
    fs::create_dir(path.join("a")).unwrap();
    fs::write(path.join("a/inside"), "1").unwrap();
    fs::write(path.parent().unwrap().join("notes"), "spoilt").unwrap();
    again(5);
    // Back to the base alone: one file differs.
    site.write("a", "1");
    let none = site.take(&base, &["a"], &[]);
    let assembled = trees.assemble(&base, &none).unwrap();
    assert_eq!((listed(&assembled.path), assembled.written), (listed(&base.path), 1));
}

#[test]
fn a_layer_fits_only_the_base_it_was_made_for() {
    let site = Site::with(&[("a", "1")]);
    let base = site.base();
    site.write("a", "2");
    let layer = site.take(&base, &["a"], &[]);
    let next = site.trees().advance(&base, site.take(&base, &["a"], &[])).unwrap();
    let another = site.take(&base, &["a"], &[]);
    assert!(matches!(site.trees().advance(&next, another), Err(Error::OtherBase { .. })));
    assert!(matches!(site.trees().assemble(&next, &layer), Err(Error::OtherBase { .. })));
    let path = layer.path.clone();
    drop(layer);
    assert!(!path.exists(), "a layer goes when nobody holds it");
}

#[test]
fn a_sweep_takes_what_nobody_used_and_nobody_holds() {
    let site = Site::with(&[("a", "1")]);
    let held = site.base();
    site.write("a", "2");
    site.commit();
    let old = site.base();
    let (old_path, old_id) = (old.path.clone(), old.id.clone());
    drop(old);
    assert_eq!(sweep(&site.state, &RetentionLimits::default()).unwrap(), 0);
    let none = RetentionLimits { unused: Duration::ZERO, bases: 0 };
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(sweep(&site.state, &none).unwrap(), 1);
    assert!(!old_path.exists() && held.path.exists());
    let again = site.base();
    assert_eq!(again.id, old_id, "it is made anew");
    drop((held, again));
    assert_eq!(sweep(&site.state, &none).unwrap(), 2);
    assert!(fs::read_dir(&site.state).unwrap().flatten().all(|entry| !entry.path().join("HEAD").exists()));
    assert_eq!(site.base().id, old_id);
    assert_eq!(sweep(&site.state.join("nowhere"), &none).unwrap(), 0);
}

#[test]
fn after_a_boot_a_base_is_read_once_and_damage_is_found() {
    let site = Site::with(&[("a", "1"), ("b", "1")]);
    let base = site.base();
    let (path, id) = (base.path.clone(), base.id.clone());
    drop(base);
    let used = path.with_file_name("used");
    fs::write(&used, "another boot").unwrap();
    assert_eq!(site.base().id, id);
    assert_ne!(fs::read_to_string(&used).unwrap(), "another boot");
    fs::write(&used, "another boot").unwrap();
    fs::write(path.join("b"), "").unwrap();
    assert!(site.trees().kept(&id, &[]).unwrap().is_none());
    let again = site.base();
    assert_eq!(listed(&again.path), ["a 644 1", "b 644 1"]);
}

#[test]
fn trees_that_lie_in_the_workspace_do_not_hold_themselves() {
    let site = Site::bare();
    site.write("a", "1");
    let trees = Trees::open(&site.at("state/trees"), &site.workspace).unwrap();
    let base = trees.base("x", None, &[], &[]).unwrap();
    assert_eq!(listed(&base.path), ["a 644 1"]);
    let all = Touches::new(&["**"]).unwrap();
    assert!(trees.take_over(&base, &all, &Touches::default(), &ImportLimits::default()).unwrap().is_empty());
}

/// Each step builds on the tree of the one before. Only changes are written, and the tree always equals its
/// index, also when folders come and go.
#[test]
fn a_base_on_a_base_on_a_base_is_the_tree_it_lists() {
    let site =
        Site::with(&[("keep/a", "1"), ("dir/f", "1"), ("dir/deep/g", "1"), ("lib/x", "1"), ("top", "1")]);
    let first = site.base();
    let trees = site.trees();
    let mut base = first.clone();
    type Change = fn(&Site);
    let changes: [Change; 6] = [
        |site| fs::remove_dir_all(site.at("dir")).unwrap(),
        |site| site.write("dir/new", "2"),
        |site| {
            fs::remove_dir_all(site.at("lib")).unwrap();
            site.write("lib", "a file now");
        },
        |site| site.write("dir/deep/g", "1"),
        |site| {
            fs::remove_file(site.at("dir/new")).unwrap();
            fs::remove_file(site.at("lib")).unwrap();
            site.write("lib/y", "3");
        },
        |site| site.write("top", "4"),
    ];
    for (number, change) in changes.iter().enumerate() {
        change(&site);
        let layer = site.take(&base, &["**"], &[]);
        base = trees.advance(&base, layer).unwrap();
        fs::remove_dir_all(site.at(".git")).unwrap_or_default();
        assert_eq!(listed_base(&base), listed(&site.workspace), "after change {number}");
        let assembled = trees.assemble(&base, &site.take(&base, &["none"], &[])).unwrap();
        assert_eq!(listed(&assembled.path), listed(&site.workspace), "after change {number}");
        // The view of an overlay: the lower layer, the upper layer over it, without deleted files.
        let merged = tempfile::tempdir().unwrap();
        let copy = |from: &Path| {
            for line in listed(from) {
                let name = line.split(' ').next().unwrap();
                let to = merged.path().join(name);
                // A file replaces a folder of the same name, and the reverse.
                for above in Path::new(name).ancestors().skip(1).filter(|above| *above != Path::new("")) {
                    let _ = fs::remove_file(merged.path().join(above));
                }
                let _ = fs::remove_dir_all(&to);
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::copy(from.join(name), to).unwrap();
            }
        };
        copy(&base.path);
        base.over.as_deref().into_iter().for_each(copy);
        for path in &base.gone {
            let path = merged.path().join(path);
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
        assert_eq!(listed(merged.path()), listed(&site.workspace), "after change {number}");
        let again = trees.kept(&base.id, &[]).unwrap().unwrap();
        assert_eq!((&again.over, &again.gone), (&base.over, &base.gone));
    }
    assert_eq!(listed(&first.path).len(), 5, "the tree that was approved is as it was");
}

/// A file is read again only if it was touched, even if its size and time are the old ones.
#[test]
fn a_file_that_looks_the_same_and_was_touched_is_read_again() {
    let site = Site::with(&[("src/a", "honest"), ("src/b", "1")]);
    let base = site.base();
    let trees = site.trees();
    let touches = Touches::new(&["src/**"]).unwrap();
    let nothing: &[&str] = &[];
    let none = Touches::new(nothing).unwrap();
    let take = || trees.take_over(&base, &touches, &none, &ImportLimits::default()).unwrap();
    // provost caches only files that are older than this.
    std::thread::sleep(std::time::Duration::from_millis(150));
    assert!(take().is_empty() && take().is_empty());
    let before = fs::metadata(site.at("src/a")).unwrap().modified().unwrap();
    fs::write(site.at("src/a"), "forged").unwrap();
    fs::File::options().write(true).open(site.at("src/a")).unwrap().set_modified(before).unwrap();
    assert_eq!(take().changed, ["src/a"]);
    fs::write(site.at("src/a"), "honest").unwrap();
    assert!(take().is_empty());
}

#[test]
fn a_change_is_found_also_if_the_workspace_was_compared_before() {
    let site = Site::with(&[("a", "one"), ("b", "two")]);
    let first = site.head();
    let differing = |commit: &str| -> Vec<String> {
        uncommitted(&site.workspace, commit).unwrap().into_iter().map(|file| file.path).collect()
    };
    assert!(differing(&first).is_empty());
    // Neither the size nor the mtime shows this change.
    let before = fs::metadata(site.at("a")).unwrap().modified().unwrap();
    site.write("a", "ONE");
    fs::File::options().write(true).open(site.at("a")).unwrap().set_modified(before).unwrap();
    assert_eq!(differing(&first), ["a"]);
    let second = site.commit();
    assert!(differing(&second).is_empty());
    assert_eq!(differing(&first), ["a"]);
}

/// git compares times in seconds.
#[test]
fn a_change_in_the_second_of_a_comparison_is_found_in_the_next_second() {
    let site = Site::with(&[("a", "one")]);
    let commit = site.head();
    let differing = || uncommitted(&site.workspace, &commit).unwrap().len();
    let next_second = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        std::thread::sleep(Duration::from_nanos(1_010_000_000 - u64::from(now.subsec_nanos())));
    };
    next_second();
    site.write("a", "one");
    assert_eq!(differing(), 0);
    site.write("a", "ONE");
    next_second();
    assert_eq!(differing(), 1);
}

/// Makes the repository of checks, and returns what git says about a tree with the files of the base.
fn said_by_git(trees: &Trees, base: &Base, commit: &str, files: &[NamedFile]) -> String {
    let made = trees.repository_for_checks(base, commit, files).unwrap();
    let output = Command::new("git")
        .args(["status", "--porcelain", "--untracked-files=no"])
        .env("GIT_DIR", &made.folder)
        .env("GIT_WORK_TREE", &base.path)
        .env("GIT_OBJECT_DIRECTORY", &made.objects)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn git_reads_no_file_that_provost_wrote_from_the_commit() {
    for format in ["sha1", "sha256"] {
        let site = Site::bare();
        site.git(&["init", "-q", &format!("--object-format={format}")]);
        let long = format!("{}/{}", "d".repeat(200), "f".repeat(200));
        for (path, text) in [
            (".gitattributes", "*.txt eol=crlf text\n"),
            ("a", "one"),
            ("empty", ""),
            ("lines.txt", "1\n2\n"),
            ("cache/b", "committed"),
            ("program", "#!/bin/sh\n"),
            (long.as_str(), "long"),
            ("tests/check.sh", "committed"),
        ] {
            site.write(path, text);
        }
        chmod(&site.at("program"), 0o755);
        symlink("a", site.at("link")).unwrap();
        let commit = site.commit();
        site.write("cache/b", "as it is!");
        site.write("tests/check.sh", "of a man.");
        let files = [named("tests/check.sh", "of a man.")];
        let changed = " M cache/b\n M tests/check.sh\n";
        for is_trusted in [true, false] {
            let mut trees = Trees::open(&site.state.join(is_trusted.to_string()), &site.workspace).unwrap();
            trees.trust_copies(&CopyTrust::new(move || is_trusted));
            let base = trees.base("x", Some(&commit), &files, &["cache".to_owned()]).unwrap();
            // What git would find if it read the file. Its time is in a second that is over.
            let file = base.path.join("a");
            chmod(&file, 0o644);
            fs::write(&file, "two").unwrap();
            let long_ago = SystemTime::now() - Duration::from_secs(100);
            fs::File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
            let said = said_by_git(&trees, &base, &commit, &files);
            match is_trusted {
                true => assert_eq!(said, changed, "{format}"),
                false => assert_eq!(said, format!(" M a\n{changed}"), "{format}"),
            }
        }
    }
}
