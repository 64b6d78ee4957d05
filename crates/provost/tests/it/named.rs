//! Tests named plans: which plan a command uses, what it refuses, and many writers at once.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use provost_core::model::hash::Hash;
use provost_core::model::timestamp::Timestamp;
use provost_host::plans::plan_file::{self, Error};
use provost_host::plans::progress::{self, ProgressLine};

use crate::env::{Env, plan};

fn env() -> Env {
    let env = Env::new(&plan(&["test -e out/1"], "abort"));
    env.write(".harness/PLAN-foo.md", plan(&["test -e out/foo"], "abort"));
    env.write(".harness/PLAN-bar.md", plan(&["test -e out/bar"], "abort"));
    env
}

/// Returns the two paths of a resolved plan, relative to the workspace.
#[track_caller]
fn bridge(env: &Env, arguments: &[&str]) -> (String, String) {
    let words = [&["which", "--porcelain"], arguments].concat();
    let answer = env.provost(&words).exits(0);
    let (plan, progress) = answer.out.trim_end_matches('\n').split_once('\t').expect("a tab");
    let work = env.work().canonicalize().expect("a path");
    let inside =
        |path: &str| Path::new(path).strip_prefix(&work).unwrap_or(Path::new(path)).display().to_string();
    (inside(plan), inside(progress))
}

/// Checks for exit code 2 and an empty standard output, so that no script takes the output for a plan.
#[track_caller]
fn refused(env: &Env, arguments: &[&str], why: &str) {
    let words = [&["which", "--porcelain"], arguments].concat();
    let answer = env.provost(&words).exits(2);
    assert_eq!(answer.out, "", "{arguments:?}");
    assert!(answer.err.contains(why), "{arguments:?}: {}", answer.err);
}

#[test]
fn the_bridge_prints_plan_and_progress_with_a_tab_between() {
    let env = env();
    assert_eq!(bridge(&env, &[]), ("PLAN.md".into(), "progress.md".into()));
    let foo = (".harness/PLAN-foo.md".to_owned(), ".harness/progress-foo.md".to_owned());
    assert_eq!(bridge(&env, &["--plan", "foo"]), foo);
    assert_eq!(bridge(&env, &["--plan", "PLAN-foo.md"]), foo);
    env.write(".harness/active-plan", "foo\n");
    assert_eq!(bridge(&env, &[]), foo, "the marker comes before the plan without a name");
    assert_eq!(bridge(&env, &["--plan", "bar"]).0, ".harness/PLAN-bar.md", "an argument before the marker");
    // The command only reads, and creates no files.
    assert_eq!(env.state().read_dir().expect("the state folder").count(), 0);
    let json = env.provost(&["which", "--plan", "foo", "--json"]).exits(0).json();
    assert_eq!(json["name"], "foo");
    assert!(json["progress"].as_str().is_some_and(|path| path.ends_with("progress-foo.md")));
}

#[test]
fn a_name_that_is_no_single_safe_component_is_refused_before_anything_is_looked_for() {
    let env = env();
    env.write("secret.md", "# x\n");
    for name in
        ["", " ", ".", "..", "../secret", "../secret.md", "/etc/passwd", "Foo", "a b", "-x", "foo/bar"]
    {
        refused(&env, &[&format!("--plan={name}")], "name");
    }
    // Also if the folder for plans does not exist.
    std::fs::remove_dir_all(env.work().join(".harness")).expect("removed");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("removed");
    refused(&env, &["--plan=../secret"], "neither a file nor the name");
}

#[test]
fn a_plan_that_is_absent_empty_or_ambiguous_is_loud() {
    let env = env();
    refused(&env, &["--plan", "absent"], "there is no plan absent");
    env.write(".harness/PLAN-empty.md", " \n\n");
    refused(&env, &["--plan", "empty"], "is empty");
    env.write("PLAN-foo.md", "# another\n");
    refused(&env, &["--plan", "foo"], "could be");
    env.write(".harness/PLAN.md", "# another\n");
    refused(&env, &[], "could be");
}

#[test]
fn a_marker_that_cannot_be_followed_never_falls_back_to_the_plan_without_a_name() {
    let env = env();
    env.write(".harness/PLAN-empty.md", "\n");
    for (marker, why) in [
        ("", "is blank"),
        ("  \n\n", "is blank"),
        ("foo\nbar\n", "more than one line"),
        ("absent\n", "there is no PLAN-absent.md"),
        ("empty\n", "is empty"),
        ("../PLAN", "not the name of a plan"),
        ("/etc/passwd", "not the name of a plan"),
        ("Foo Bar", "not the name of a plan"),
    ] {
        env.write(".harness/active-plan", marker);
        refused(&env, &[], why);
        // Other commands do not fall back to another plan either.
        for command in [&["status"][..], &["verify"], &["run"], &["show"]] {
            let answer = env.provost(command).exits(2);
            assert!(answer.err.contains(why), "{command:?}: {}", answer.err);
        }
    }
    assert_eq!(bridge(&env, &["--plan", "PLAN.md"]).0, "PLAN.md", "who names a plan gets it");
}

#[test]
fn without_a_folder_for_plans_the_bridge_says_so_with_exit_code_1() {
    let env = env();
    std::fs::remove_dir_all(env.work().join(".harness")).expect("removed");
    assert_eq!(bridge(&env, &[]).0, "PLAN.md", "one plan without a name is as before");
    std::fs::remove_file(env.work().join("PLAN.md")).expect("removed");
    for arguments in [&["which", "--porcelain"][..], &["which", "--porcelain", "--plan", "foo"]] {
        let answer = env.provost(arguments).exits(1);
        assert_eq!(answer.out, "");
        assert!(answer.err.contains("the folder for plans does not exist"), "{}", answer.err);
    }
    env.write(".harness/.keep", "");
    refused(&env, &["--plan", "foo"], "there is no plan foo");
}

#[test]
fn plans_live_in_a_shared_folder_that_the_configuration_names() {
    let env = env();
    let vault = env.folder().join("vault");
    let folder = vault.display().to_string();
    env.write("provost.toml", format!("{}[plans]\nfolder = \"{folder}\"\n", env.read("provost.toml")));
    std::fs::remove_file(env.work().join("PLAN.md")).expect("removed");
    assert_eq!(env.provost(&["which", "--porcelain"]).exits(1).out, "", "no vault, nothing to do");
    std::fs::create_dir(&vault).expect("a vault");
    std::fs::write(vault.join("PLAN-foo.md"), plan(&["test -e out/vault"], "abort")).expect("a plan");
    let real = vault.canonicalize().expect("a path").display().to_string();
    let (found, progress) = bridge(&env, &["--plan", "foo"]);
    assert_eq!((found, progress), (format!("{real}/PLAN-foo.md"), format!("{real}/progress-foo.md")));
    // The marker belongs to this worktree, the plan to all of them.
    env.write(".harness/active-plan", "foo\n");
    assert_eq!(bridge(&env, &[]).0, format!("{real}/PLAN-foo.md"));
    let shown = env.provost(&["show", "--json"]).exits(0).json();
    assert!(shown.to_string().contains("out/vault"), "{shown}");
    env.provost(&["new", "fresh"]).exits(0);
    assert!(vault.join("PLAN-fresh.md").is_file(), "a new plan goes where plans are");
    // If the shared folder is missing, provost takes no plan from elsewhere.
    std::fs::rename(&vault, env.folder().join("away")).expect("moved");
    env.provost(&["which", "--porcelain"]).exits(1);
    env.provost(&["status"]).exits(2);
}

#[test]
fn a_lone_plan_works_exactly_as_before() {
    let env = Env::new(&plan(&["test -e out/1"], "abort")).agent(crate::env::HONEST).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    env.approve();
    env.provost(&["run"]).exits(0);
    assert!(env.read("progress.md").contains("Step 1"), "{}", env.read("progress.md"));
    let names: Vec<String> = std::fs::read_dir(env.work())
        .expect("the workspace")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            !["PLAN.md", "progress.md", "provost.toml", "agent.sh", "out", ".git"].contains(&&**name)
        })
        .collect();
    assert!(names.is_empty(), "nothing else is written: {names:?}");
}

#[test]
fn a_named_plan_goes_the_way_the_unnamed_one_goes() {
    let env = env().agent("mkdir -p out; echo x > out/foo\n").isolation("in-place");
    let shown = env.provost(&["show", "foo", "--json"]).exits(0).json();
    let revision = shown["revision"].as_str().expect("a revision").to_owned();
    env.provost(&["verify", "foo"]).exits(0);
    env.provost(&["approve", "foo", "--revision", &revision]).exits(0);
    env.provost(&["run", "foo"]).exits(0);
    assert!(env.read(".harness/PLAN-foo.md").contains("status: done"));
    assert!(env.read(".harness/progress-foo.md").contains("Step 1"));
    assert!(env.read("PLAN.md").contains("status: draft"), "the other one was left alone");
    assert_eq!(env.read("progress.md"), "");
}

/// Variable with the instructions for the ten processes.
const TOLD: &str = "PROVOST_TEST_HAMMER";
const TURNS: usize = 25;

#[test]
#[ignore = "one of the writers that the next test starts"]
fn a_writer_in_a_process_of_its_own() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let (name, folder) = told.split_once(' ').expect("a name and a folder");
    let (file, log) = (Path::new(folder).join("PLAN-foo.md"), Path::new(folder).join("progress-foo.md"));
    for turn in 0..TURNS {
        let line = format!("{name}-{turn} {}\n", "x".repeat(200));
        loop {
            let text = plan_file::read(&file).expect("read");
            let new = [text.bytes.as_slice(), line.as_bytes()].concat();
            match plan_file::replace(&file, &text.hash, &new) {
                Ok(_) => break,
                Err(Error::Changed { kept, .. }) => assert_eq!(kept, None),
                Err(error) => panic!("{error}"),
            }
        }
        let words = format!("{name}-{turn} {}", "y".repeat(300));
        let line = ProgressLine { at: Timestamp(1_794_711_600_000), seq: turn as u64 + 1, words };
        progress::append(&log, &[line]).expect("appended");
    }
}

#[test]
fn ten_processes_on_one_folder_lose_no_update_and_tear_no_line() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("PLAN-foo.md"), "# Foo\n").expect("a plan");
    let start = |name: usize| {
        Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "--ignored", "named::a_writer_in_a_process_of_its_own"])
            .env(TOLD, format!("w{name} {}", folder.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("a writer")
    };
    let writers: Vec<_> = (0..10).map(start).collect();
    for mut writer in writers {
        let mut said = String::new();
        writer.stdout.take().expect("words").read_to_string(&mut said).expect("read");
        assert!(writer.wait().expect("ended").success(), "{said}");
        assert!(said.contains("1 passed"), "it did write: {said}");
    }
    let wanted: std::collections::BTreeSet<String> =
        (0..10).flat_map(|name| (0..TURNS).map(move |turn| format!("w{name}-{turn}"))).collect();
    let plan = std::fs::read_to_string(folder.path().join("PLAN-foo.md")).expect("read");
    let mut found = Vec::new();
    for line in plan.lines().skip(1) {
        let (name, rest) = line.split_once(' ').expect("a whole line");
        assert_eq!(rest, "x".repeat(200), "{line}");
        found.push(name.to_owned());
    }
    assert_eq!(found.len(), 10 * TURNS, "no update is lost and none is there twice");
    assert_eq!(found.into_iter().collect::<std::collections::BTreeSet<_>>(), wanted);
    let log = std::fs::read_to_string(folder.path().join("progress-foo.md")).expect("read");
    let mut found = Vec::new();
    for line in log.lines().filter(|line| line.starts_with("- ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, _, _, name, rest] = words[..] else { panic!("torn: {line}") };
        assert_eq!(rest, "y".repeat(300), "{line}");
        found.push(name.to_owned());
    }
    assert_eq!(found.len(), 10 * TURNS);
    assert_eq!(found.into_iter().collect::<std::collections::BTreeSet<_>>(), wanted);
    assert_eq!(log.matches("# Progress").count(), 1, "one heading");
    assert_eq!(folder.path().read_dir().expect("entries").count(), 2, "nothing is left behind");
}

#[test]
fn of_two_who_change_a_plan_at_once_one_is_refused_and_told() {
    let env = env();
    let path = env.work().join(".harness/PLAN-foo.md");
    let before = plan_file::read(&path).expect("read");
    plan_file::replace(&path, &before.hash, b"# theirs\n").expect("replaced");
    let stale = plan_file::replace(&path, &before.hash, b"# ours\n");
    assert!(matches!(stale, Err(Error::Changed { .. })), "{stale:?}");
    assert_eq!(plan_file::read(&path).expect("read").hash, Hash::of(b"# theirs\n"));

    // With the command: the editor takes so long that another process finishes first.
    env.write(".harness/PLAN-bar.md", plan(&["test -e out/bar"], "abort"));
    let mine = env.folder().join("mine.md");
    std::fs::write(&mine, plan(&["test -e out/mine"], "abort")).expect("a text");
    let gone = env.folder().join("begun");
    let editor = format!("sh -c 'touch {}; sleep 2; cp {} \"$0\"'", gone.display(), mine.display());
    let mut slow = env.command(&["amend", "bar"]);
    let script = env.folder().join("editor.sh");
    std::fs::write(&script, format!("{editor} \"$1\"\n")).expect("an editor");
    let slow = slow.env("VISUAL", format!("sh {}", script.display())).stderr(Stdio::piped());
    let slow = slow.stdout(Stdio::piped()).spawn().expect("provost");
    for _ in 0..500 {
        if gone.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(gone.exists(), "the editor was opened");
    let theirs = plan(&["test -e out/theirs"], "abort");
    env.write(".harness/PLAN-bar.md", &theirs);
    let answer = crate::env::answer(slow.wait_with_output().expect("ended")).exits(5);
    assert!(answer.err.contains("changed meanwhile"), "{}", answer.err);
    assert_eq!(env.read(".harness/PLAN-bar.md"), theirs);
}

#[test]
fn a_copy_of_a_lock_that_a_sync_tool_left_keeps_nobody_waiting() {
    let env = env();
    // Files that a sync tool may copy from another machine; no process here holds them.
    for name in [".lock", "PLAN-foo.md.lock", ".PLAN-foo.md.lock", ".provost-x.tmp", "PLAN-foo (1).md"] {
        env.write(&format!(".harness/{name}"), "held by process 1 on another machine\n");
    }
    let path = env.work().join(".harness/PLAN-foo.md");
    let before = plan_file::read(&path).expect("read");
    plan_file::replace(&path, &before.hash, b"# new\n").expect("replaced at once");
    progress::append(
        &env.work().join(".harness/progress-foo.md"),
        &[ProgressLine { at: Timestamp(1), seq: 1, words: "one".to_owned() }],
    )
    .expect("appended at once");
    assert_eq!(bridge(&env, &["--plan", "foo"]).0, ".harness/PLAN-foo.md", "a copy is no second plan");
}
