//! Tests with real files in real folders: which plan is resolved, and what a write leaves behind.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

struct Repo {
    folder: tempfile::TempDir,
}

impl Repo {
    /// Creates a checkout with these files.
    fn new(files: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join(".git")).expect("a folder");
        std::fs::create_dir_all(folder.path().join("sub/deep")).expect("folders");
        let repo = Self { folder };
        files.iter().for_each(|file| repo.write(file, "# a plan\n"));
        repo
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("a path")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }

    fn resolve(&self, argument: Option<&str>) -> Result<PlanPlace, Error> {
        resolve(argument, &self.root())
    }

    #[track_caller]
    fn finds(&self, argument: Option<&str>, path: &str, why: PlanChoice) -> PlanPlace {
        let place = self.resolve(argument).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((place.path.clone(), place.why.clone()), (self.root().join(path), why));
        assert_eq!(place.workspace, self.root());
        place
    }

    #[track_caller]
    fn refuses_marker(&self, marker: &str, problem: &str) {
        self.write(".harness/active-plan", marker);
        match self.resolve(None) {
            Err(Error::Marker { problem: said, .. }) => assert!(said.contains(problem), "{said}"),
            other => panic!("{marker:?} gave {other:?}"),
        }
    }
}

#[test]
fn a_name_a_file_name_and_a_path_mean_the_same_plan() {
    let repo = Repo::new(&[".harness/PLAN-fix-auth.md", "notes.md", "other/My Plan.md"]);
    let place = repo.finds(Some("fix-auth"), ".harness/PLAN-fix-auth.md", PlanChoice::Name);
    assert_eq!((place.slug.as_str(), place.name.as_str()), ("fix-auth", "fix-auth"));
    assert_eq!(place.dir, repo.root().join(".harness"));
    assert_eq!(place.progress, repo.root().join(".harness/progress-fix-auth.md"));
    repo.finds(Some("PLAN-fix-auth.md"), ".harness/PLAN-fix-auth.md", PlanChoice::Path);
    repo.finds(Some(".harness/PLAN-fix-auth.md"), ".harness/PLAN-fix-auth.md", PlanChoice::Path);
    repo.finds(Some("notes.md"), "notes.md", PlanChoice::Path);
    let other = repo.finds(Some("other/My Plan.md"), "other/My Plan.md", PlanChoice::Path);
    assert_eq!((other.slug.as_str(), other.name.as_str()), ("my-plan", "My Plan.md"));
    let id = id(&place).0;
    assert!(id.starts_with("fix-auth-") && id.len() == "fix-auth-".len() + 8, "{id}");
}

#[test]
fn the_workspace_is_the_top_of_the_checkout_or_the_working_folder() {
    let repo = Repo::new(&[".harness/PLAN-a.md", "sub/PLAN-b.md"]);
    let deep = repo.root().join("sub");
    let place = resolve(Some("a"), &deep).expect("found");
    assert_eq!(place.workspace, repo.root());
    assert_eq!(resolve(Some("b"), &deep).expect("found").path, repo.root().join("sub/PLAN-b.md"));
    assert!(matches!(resolve(Some("b"), &repo.root()), Err(Error::Absent { .. })));

    let bare = tempfile::tempdir().expect("a folder");
    std::fs::write(bare.path().join("PLAN.md"), "x").expect("a file");
    let place = resolve(None, bare.path()).expect("found");
    assert_eq!(place.workspace, bare.path().canonicalize().expect("a path"));
}

#[test]
fn nothing_said_means_the_one_plan_without_a_name() {
    let repo = Repo::new(&[".harness/PLAN.md", ".harness/PLAN-a.md"]);
    let place = repo.finds(None, ".harness/PLAN.md", PlanChoice::Unnamed);
    assert_eq!((place.slug.as_str(), place.name.as_str()), ("plan", "PLAN.md"));
    assert_eq!(place.progress, repo.root().join(".harness/progress.md"));
    repo.write("PLAN.md", "# another\n");
    let Err(Error::Ambiguous { candidates, .. }) = repo.resolve(None) else { panic!("one of two was taken") };
    assert_eq!(candidates, [repo.root().join(".harness/PLAN.md"), repo.root().join("PLAN.md")]);
}

#[test]
fn without_any_plan_the_named_ones_are_offered() {
    let repo = Repo::new(&[".harness/PLAN-a.md", "PLAN-b.md"]);
    let Err(Error::NoPlan { named, .. }) = repo.resolve(None) else { panic!("something was taken") };
    assert_eq!(named, ["a", "b"]);
}

#[test]
fn a_name_that_two_files_have_is_an_error_that_lists_them() {
    let repo = Repo::new(&[".harness/PLAN-a.md", "PLAN-a.md"]);
    let Err(Error::Ambiguous { candidates, .. }) = repo.resolve(Some("a")) else {
        panic!("one of two was taken")
    };
    assert_eq!(candidates.len(), 2);
    let repo = Repo::new(&[".harness/PLAN-a.md", "a"]);
    assert!(matches!(repo.resolve(Some("a")), Err(Error::Ambiguous { .. })));
    // A file with two names is one plan, and a folder is none.
    let repo = Repo::new(&[".harness/PLAN-a.md"]);
    symlink(repo.root().join(".harness/PLAN-a.md"), repo.root().join("PLAN-a.md")).expect("a link");
    std::fs::create_dir(repo.root().join("a")).expect("a folder");
    repo.finds(Some("a"), ".harness/PLAN-a.md", PlanChoice::Name);
}

#[test]
fn what_is_no_name_is_not_looked_for() {
    let repo = Repo::new(&[".harness/PLAN.md"]);
    for argument in ["", "..", ".", "Fix", "-x", "a b", "ä", "a\0b"] {
        assert!(matches!(repo.resolve(Some(argument)), Err(Error::BadName { .. })), "{argument:?}");
    }
    assert!(matches!(repo.resolve(Some("absent")), Err(Error::Absent { .. })));
    assert!(matches!(repo.resolve(Some("../absent.md")), Err(Error::Absent { .. })));
    assert!(matches!(repo.resolve(Some("sub/")), Err(Error::NotAFile { .. })));
}

#[test]
fn the_marker_of_the_worktree_comes_before_the_plan_without_a_name() {
    let repo = Repo::new(&[".harness/PLAN.md", ".harness/PLAN-a.md"]);
    let marker = || PlanChoice::Marker(repo.root().join(".harness/active-plan"));
    for text in ["a", "a\n", "  PLAN-a.md \n\n"] {
        repo.write(".harness/active-plan", text);
        repo.finds(None, ".harness/PLAN-a.md", marker());
    }
    repo.write(".harness/active-plan", "PLAN.md\n");
    repo.finds(None, ".harness/PLAN.md", marker());
    repo.finds(Some("a"), ".harness/PLAN-a.md", PlanChoice::Name);
}

#[test]
fn a_marker_that_cannot_be_followed_is_never_a_reason_to_take_another_plan() {
    let repo = Repo::new(&[".harness/PLAN.md", ".harness/PLAN-a.md", "PLAN-a.md"]);
    repo.write(".harness/PLAN-empty.md", " \n");
    repo.write("outside.md", "# x\n");
    repo.refuses_marker("", "blank");
    repo.refuses_marker(" \n\n", "blank");
    repo.refuses_marker("b\nc\n", "more than one line");
    repo.refuses_marker("absent", "there is no PLAN-absent.md");
    repo.refuses_marker("empty", "is empty");
    repo.refuses_marker("a", "could be");
    for malformed in ["../outside", "/etc/passwd", "Fix Auth", "sub/PLAN-a.md", "..", "\u{0}"] {
        repo.write(".harness/active-plan", malformed);
        assert!(matches!(repo.resolve(None), Err(Error::Marker { .. })), "{malformed:?}");
    }
    let elsewhere = tempfile::tempdir().expect("a folder");
    std::fs::write(elsewhere.path().join("p.md"), "# x\n").expect("a file");
    symlink(elsewhere.path().join("p.md"), repo.root().join(".harness/PLAN-link.md")).expect("a link");
    repo.refuses_marker("link", "link out of its folder");
    std::fs::remove_file(repo.root().join(".harness/active-plan")).expect("removed");
    symlink("nowhere", repo.root().join(".harness/active-plan")).expect("a link");
    assert!(matches!(repo.resolve(None), Err(Error::Marker { .. })), "a dangling link is a marker too");
}

#[test]
fn plans_may_live_in_a_folder_others_share() {
    let repo = Repo::new(&[]);
    let vault = tempfile::tempdir().expect("a folder");
    std::fs::write(vault.path().join("PLAN-a.md"), "# x\n").expect("a file");
    repo.write(".harness/active-plan", "a");
    let place = resolve_in(None, &repo.root(), vault.path()).expect("found");
    assert_eq!(place.dir, vault.path().canonicalize().expect("a path"));
}

#[test]
fn a_plan_beside_another_is_that_file_and_no_link_to_a_third() {
    let repo =
        Repo::new(&[".harness/PLAN.md", ".harness/PLAN-easy.md", ".harness/PLAN-login.md", "PLAN-far.md"]);
    let place = repo.finds(None, ".harness/PLAN.md", PlanChoice::Unnamed);
    let beside = beside(&place, "login").expect("a plan");
    assert_eq!(beside.path, repo.root().join(".harness/PLAN-login.md"));
    assert_eq!(
        (beside.workspace, beside.progress.ends_with("progress-login.md")),
        (place.workspace.clone(), true)
    );
    for slug in ["far", "nowhere", "../PLAN-far", "PLAN-easy.md", ""] {
        assert!(super::beside(&place, slug).is_err(), "{slug}");
    }
    symlink("PLAN-easy.md", repo.root().join(".harness/PLAN-posing.md")).expect("linked");
    assert!(super::beside(&place, "posing").is_err());
}

#[test]
fn what_is_too_large_or_no_file_is_said_and_not_read() {
    let repo = Repo::new(&[]);
    let path = repo.root().join("PLAN.md");
    File::create(&path).and_then(|file| file.set_len(SIZE_MAX)).expect("a file");
    assert_eq!(read(&path).expect("just fits").bytes.len() as u64, SIZE_MAX);
    File::create(&path).and_then(|file| file.set_len(SIZE_MAX + 1)).expect("a file");
    assert!(matches!(read(&path), Err(Error::TooLarge { .. })));
    assert!(matches!(read(&repo.root()), Err(Error::NotAFile { .. })));
}

#[test]
fn a_stamp_changes_with_the_file_and_only_with_it() {
    let repo = Repo::new(&["PLAN.md"]);
    let path = repo.root().join("PLAN.md");
    let text = read(&path).expect("read");
    assert_eq!(text.stamp, stamp(&path).expect("a stamp"));
    let after = replace(&path, &text.hash, b"# b plan\n").expect("replaced");
    assert_ne!(after, text.stamp, "the same size, another file");
    assert_eq!(after, stamp(&path).expect("a stamp"));
}

#[test]
fn a_replaced_plan_keeps_its_permissions_and_its_link() {
    let repo = Repo::new(&["vault/PLAN.md"]);
    let (real, link) = (repo.root().join("vault/PLAN.md"), repo.root().join("PLAN.md"));
    symlink(&real, &link).expect("a link");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).expect("permissions");
    replace(&link, &Hash::of(b"# a plan\n"), b"new").expect("replaced");
    assert_eq!(std::fs::read(&real).expect("read"), b"new");
    assert!(link.symlink_metadata().expect("a link").is_symlink());
    assert_eq!(real.metadata().expect("a file").permissions().mode() & 0o777, 0o640);
    assert!(matches!(replace(&link, &Hash::of(b"# a plan\n"), b"x"), Err(Error::Changed { .. })));
    let entries = repo.root().join("vault").read_dir().expect("entries").count();
    assert_eq!(entries, 1, "nothing is left behind");
}

/// Appends a line to the current content; returns whether the write was accepted.
fn add_line(path: &Path, line: &str) -> bool {
    let Ok(text) = read(path) else { return false };
    let new = [text.bytes.as_slice(), line.as_bytes()].concat();
    match replace(path, &text.hash, &new) {
        Ok(_) => true,
        Err(Error::Changed { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn of_two_writers_every_change_is_visible_or_refused() {
    let repo = Repo::new(&["PLAN.md"]);
    let path = repo.root().join("PLAN.md");
    let writer = |name: &'static str| {
        let path = path.clone();
        move || {
            (0..200)
                .map(|turn| format!("{name}{turn}\n"))
                .filter(|line| add_line(&path, line))
                .collect::<Vec<_>>()
        }
    };
    let taken: Vec<String> = std::thread::scope(|scope| {
        let threads = [scope.spawn(writer("a")), scope.spawn(writer("b"))];
        threads.into_iter().flat_map(|thread| thread.join().expect("a writer")).collect()
    });
    let text = std::fs::read_to_string(&path).expect("read");
    let mut visible: Vec<&str> = text.lines().skip(1).collect();
    let mut taken: Vec<&str> = taken.iter().map(|line| line.trim_end()).collect();
    visible.sort_unstable();
    taken.sort_unstable();
    assert_eq!(visible, taken);
    assert!(!taken.is_empty());
    assert_eq!(repo.root().read_dir().expect("entries").count(), 3, ".git, sub and the plan");
}

#[test]
fn the_save_of_an_editor_that_knows_no_lock_is_never_overwritten() {
    let repo = Repo::new(&["PLAN.md"]);
    let path = repo.root().join("PLAN.md");
    let saved = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..200 {
                let own = path.with_file_name("editor~");
                std::fs::write(&own, format!("edit {turn}\n")).expect("written");
                std::fs::rename(&own, &path).expect("saved");
                std::thread::yield_now();
            }
            saved.store(true, Ordering::SeqCst);
        });
        while !saved.load(Ordering::SeqCst) {
            add_line(&path, "harness\n");
        }
    });
    let text = std::fs::read_to_string(&path).expect("read");
    assert!(
        text.starts_with("edit 199\n"),
        "the last save is what everything after it was made from: {text}"
    );
    let left = repo.root().read_dir().expect("entries").flatten().map(|entry| entry.file_name());
    let temporary = left.filter(|name| name.to_string_lossy().ends_with(".tmp")).count();
    assert_eq!(temporary, 0, "nothing is left behind");
}
