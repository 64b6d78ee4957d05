//! Tests the verdict of every kind of contract.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use expect_test::{Expect, expect};
use provost_core::model::plan::{Expectation, Shell, Span, Spanned, Stream};
use provost_core::model::verdict::{CheckOutcome, Isolation, Verdict};
use provost_host::Interrupted;
use provost_host::check::judge::{CheckRequest, CheckRoot, CheckTools, contract};
use tempfile::TempDir;

use crate::tag;

fn shell(command: &str, expectations: &[Expectation]) -> Shell {
    let spanned = |value: &Expectation| Spanned::new(value.clone(), Span::default());
    Shell {
        command: command.to_owned(),
        body: Span::default(),
        expectations: expectations.iter().map(spanned).collect(),
    }
}

fn judge_in(workspace: &Path, shell: &Shell) -> Verdict {
    let timeout = Duration::from_millis(if shell.command.contains("beyond") { 150 } else { 300_000 });
    contract(
        shell,
        &CheckRequest {
            workspace,
            tools: &CheckTools::of_person(workspace),
            supplied: &[],
            ground: CheckRoot::Workspace,
            timeout,
            tag: &tag(),
            stop: None,
            env: &[],
            isolation: Isolation::InPlace,
            bounds: None,
            in_background: false,
            shown_to: None,
        },
    )
    .unwrap()
}

fn judge(command: &str, expectations: &[Expectation]) -> Verdict {
    judge_in(TempDir::new().unwrap().path(), &shell(command, expectations))
}

fn check(cases: &[(&str, &[Expectation])], expected: Expect) {
    let mut table = String::new();
    for (command, expectations) in cases {
        let verdict = judge(command, expectations);
        let unmet = verdict.unmet.join("; ");
        let _ = writeln!(
            table,
            "{command} -> {}{}{unmet}",
            verdict.outcome,
            if unmet.is_empty() { "" } else { " | " }
        );
    }
    expected.assert_eq(&table);
}

#[test]
fn every_ending_is_one_verdict() {
    check(
        &[
            ("true", &[]),
            ("exit 7", &[]),
            ("no-such-program", &[]),
            ("if then (", &[]),
            ("kill -9 $$", &[]),
            ("sh -c 'kill -ABRT $$'", &[]),
            ("test -d / && bash -c 'kill -SEGV $$'; exit $?", &[]),
            ("sh -c 'kill -SEGV $$'", &[Expectation::ExitIsNot(0)]),
            ("sh -c 'kill -SEGV $$'; exit 139", &[Expectation::ExitIs(139)]),
            ("exit 129", &[]),
            ("sleep 60 # beyond", &[]),
            ("trap '' TERM; while :; do sleep 0.01; done # beyond", &[]),
            ("sleep 60 & exit 0", &[]),
            ("head -c 50000000 /dev/zero; exit 2", &[]),
            ("cat; read x; exit 4", &[]),
            ("printf '\\xff\\xfe\\x00'; exit 1", &[]),
        ],
        expect![[r#"
            true -> held
            exit 7 -> broke: exit code 7 | exit_code == 0
            no-such-program -> could not be run: `no-such-program` is not on the PATH of checks; install it, or start `provost run` with its folder on PATH
            if then ( -> broke: exit code 2 | exit_code == 0
            kill -9 $$ -> killed by signal 9
            sh -c 'kill -ABRT $$' -> broke: exit code 134 | exit_code == 0; no program of the check may crash: exit code 134 is signal 6 (SIGABRT)
            test -d / && bash -c 'kill -SEGV $$'; exit $? -> broke: exit code 139 | exit_code == 0; no program of the check may crash: exit code 139 is signal 11 (SIGSEGV)
            sh -c 'kill -SEGV $$' -> broke: exit code 139 | no program of the check may crash: exit code 139 is signal 11 (SIGSEGV)
            sh -c 'kill -SEGV $$'; exit 139 -> held
            exit 129 -> broke: exit code 129 | exit_code == 0
            sleep 60 # beyond -> timed out after 0.1 s
            trap '' TERM; while :; do sleep 0.01; done # beyond -> timed out after 0.1 s
            sleep 60 & exit 0 -> held
            head -c 50000000 /dev/zero; exit 2 -> broke: exit code 2 | exit_code == 0
            cat; read x; exit 4 -> broke: exit code 4 | exit_code == 0
            printf '\xff\xfe\x00'; exit 1 -> broke: exit code 1 | exit_code == 0
        "#]],
    );
}

#[test]
fn every_expectation_can_be_met_and_missed() {
    let (out, err) = (Stream::Stdout, Stream::Stderr);
    let contains = |stream, text: &str| Expectation::Contains { stream, text: text.to_owned() };
    let matches = |stream, pattern: &str| Expectation::Matches { stream, pattern: pattern.to_owned() };
    check(
        &[
            ("exit 3", &[Expectation::ExitIs(3)]),
            ("exit 3", &[Expectation::ExitIs(0)]),
            ("exit 3", &[Expectation::ExitIsNot(0)]),
            ("exit 0", &[Expectation::ExitIsNot(0)]),
            ("echo 1 passed, 0 failed", &[Expectation::ExitIs(0), contains(out, "1 passed")]),
            ("echo a.c", &[contains(out, "a.c")]),
            ("echo abc", &[contains(out, "a.c")]),
            ("echo abc >&2", &[contains(out, "abc"), contains(err, "abc")]),
            ("echo one; echo two", &[matches(out, "^two$")]),
            ("echo one; echo two", &[matches(out, "^t.o .")]),
            ("exit 1", &[contains(out, "x"), Expectation::ExitIs(0)]),
            ("true", &[Expectation::Empty { stream: out }, Expectation::Empty { stream: err }]),
            ("echo", &[Expectation::Empty { stream: out }]),
            (
                "echo first; head -c 5000000 /dev/zero; echo last",
                &[contains(out, "first"), contains(out, "last")],
            ),
            ("true", &[matches(out, "(unclosed")]),
        ],
        expect![[r#"
            exit 3 -> held
            exit 3 -> broke: exit code 3 | exit_code == 0
            exit 3 -> held
            exit 0 -> broke: exit code 0 | exit_code != 0
            echo 1 passed, 0 failed -> held
            echo a.c -> held
            echo abc -> broke: exit code 0 | stdout contains "a.c"
            echo abc >&2 -> broke: exit code 0 | stdout contains "abc"
            echo one; echo two -> held
            echo one; echo two -> broke: exit code 0 | stdout matches /^t.o ./
            exit 1 -> broke: exit code 1 | stdout contains "x"; exit_code == 0
            true -> held
            echo -> broke: exit code 0 | stdout is empty
            echo first; head -c 5000000 /dev/zero; echo last -> held
            true -> could not be run: an expectation cannot be read: regex parse error:
                (unclosed
                ^
            error: unclosed group
        "#]],
    );
}

#[test]
fn a_workspace_that_is_gone_is_not_a_broken_contract() {
    let folder = TempDir::new().unwrap();
    let gone = folder.path().join("gone");
    let verdict = judge_in(&gone, &shell("true", &[]));
    assert!(
        matches!(&verdict.outcome, CheckOutcome::NotRun { reason } if reason.contains("gone")),
        "{verdict:?}"
    );
}

#[test]
fn a_contract_too_long_to_be_given_is_not_run() {
    let verdict = judge(&format!("true # {}", "x".repeat(3_000_000)), &[]);
    assert!(
        matches!(&verdict.outcome, CheckOutcome::NotRun { reason } if reason.contains("too long")),
        "{verdict:?}"
    );
}

#[test]
fn a_stronger_fence_than_there_is_is_refused() {
    let folder = TempDir::new().unwrap();
    for isolation in [Isolation::Clean, Isolation::Landlock, Isolation::Uid, Isolation::GuardClean] {
        let timeout = Duration::from_secs(9);
        let court = CheckRequest {
            workspace: folder.path(),
            tools: &CheckTools::of_person(folder.path()),
            supplied: &[],
            ground: CheckRoot::Workspace,
            timeout,
            tag: &tag(),
            stop: None,
            env: &[],
            isolation,
            bounds: None,
            in_background: false,
            shown_to: None,
        };
        let verdict = contract(&shell("true", &[]), &court).unwrap();
        assert!(matches!(verdict.outcome, CheckOutcome::NotRun { .. }), "{verdict:?}");
    }
}

#[test]
fn a_check_that_was_stopped_has_no_verdict() {
    let folder = TempDir::new().unwrap();
    let stop = AtomicBool::new(true);
    let timeout = Duration::from_secs(20);
    let (tag, isolation) = (tag(), Isolation::InPlace);
    let tools = CheckTools::of_person(folder.path());
    let court = CheckRequest {
        workspace: folder.path(),
        tools: &tools,
        supplied: &[],
        ground: CheckRoot::Workspace,
        timeout,
        tag: &tag,
        stop: Some(&stop),
        env: &[],
        isolation,
        bounds: None,
        in_background: false,
        shown_to: None,
    };
    assert_eq!(contract(&shell("sleep 60", &[]), &court), Err(Interrupted));
}

#[test]
fn the_environment_of_a_check_is_the_harnesss_own() {
    if std::env::var_os("SECRET_KEY").is_none() {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("env.sh"), "true() { echo hijacked; exit 0; }\n").unwrap();
        let exe = std::env::current_exe().unwrap();
        let test = "verdicts::the_environment_of_a_check_is_the_harnesss_own";
        let done = std::process::Command::new(exe)
            .args(["--exact", test, "--nocapture"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("SECRET_KEY", "hunter2")
            .env("BASH_ENV", folder.path().join("env.sh"))
            .env("ENV", folder.path().join("env.sh"))
            .env("LD_LIBRARY_PATH", folder.path())
            .env("PYTHONSTARTUP", "x")
            .env("GIT_DIR", "/nowhere")
            .env("HOME", folder.path())
            .env("RUSTUP_HOME", "/nowhere")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let verdict =
        judge("true; env -0 | sed -z 's/=.*//' | tr '\\0' '\\n' | sort | tr '\\n' ' '; exit 1", &[]);
    assert_eq!(
        verdict.stdout.head.trim(),
        "BASH_FUNC_command_not_found_handle%% CI HOME LC_CTYPE PATH PROVOST_ATTEMPT PWD SHELL SHLVL TERM TMPDIR _",
        "{verdict:?}"
    );
}

#[test]
fn home_and_temporary_folder_are_empty_for_every_check_and_emptied_after_it() {
    let look = "echo $HOME; echo $TMPDIR; ls -A $HOME $TMPDIR | grep -v :; ";
    for mess in [
        "mkdir -p $HOME/a/b; touch $TMPDIR/x",
        "true",
        "rmdir $HOME; ln -s / $HOME",
        "chmod 777 $HOME",
        "rmdir $TMPDIR",
        "rmdir $TMPDIR; echo > $TMPDIR",
        "true",
    ] {
        let verdict = judge(&format!("{look}{mess}"), &[]);
        let lines: Vec<&str> = verdict.stdout.head.split_whitespace().collect();
        assert_eq!(lines.len(), 2, "{mess}: {verdict:?}");
        assert_ne!(lines[0], lines[1]);
        for folder in lines {
            let left = std::fs::read_dir(folder).map_or(0, |entries| entries.count());
            assert!(left == 0 && !Path::new(folder).is_symlink(), "{mess}: {folder}");
        }
    }
}

#[test]
fn programs_of_the_workspace_are_not_on_the_path() {
    if std::env::var_os("HIJACKED").is_none() {
        let folder = TempDir::new().unwrap();
        let outside = TempDir::new().unwrap();
        let link = outside.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        let exe = std::env::current_exe().unwrap();
        let path = format!("bin:.:{}:{}:/usr/bin:/bin", folder.path().display(), link.display());
        let done = std::process::Command::new(exe)
            .args(["--exact", "verdicts::programs_of_the_workspace_are_not_on_the_path", "--nocapture"])
            .env("PATH", path)
            .env("HIJACKED", folder.path())
            .env("HOME", outside.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let workspace = std::path::PathBuf::from(std::env::var_os("HIJACKED").unwrap());
    let verdict = judge_in(&workspace, &shell("echo $PATH", &[]));
    // A machine may have Go at its usual place.
    let path = verdict.stdout.head.replace(":/usr/local/go/bin", "");
    assert_eq!(path, "/usr/bin:/bin\n");
}

#[test]
fn excerpts_are_small_and_smaller_where_it_held() {
    let held = judge("head -c 100000 /dev/zero | tr '\\0' x", &[]);
    let broke = judge("head -c 100000 /dev/zero | tr '\\0' x; exit 1", &[]);
    let size =
        |verdict: &Verdict| (verdict.stdout.head.len(), verdict.stdout.tail.len(), verdict.stdout.bytes);
    assert_eq!(size(&held), (512, 512, 100_000));
    assert_eq!(size(&broke), (4096, 4096, 100_000));
}
