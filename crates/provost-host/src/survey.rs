//! Answers the questions of the static checks about the machine.
//!
//! Core lists its questions; this module looks for files, programs, topics and other plans, and lets bash
//! parse the contracts without running them.
//!
//! **Invariant:** nothing of a plan is run here: `bash -n` only parses, in an empty environment.
//! **Invariant:** a path that leads out of the workspace or the plan folder counts as missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_core::language::facts::{Facts, Questions};
use provost_core::language::{parse, recipes};

use crate::activity::Activity;
use crate::check::visible_paths::VisiblePaths;
use crate::tree::{IgnoreRules, Touches};

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const LIMIT: Duration = Duration::from_secs(5);
const THREADS: usize = 2;
/// Most scripts of which bash's answer is kept.
const MOST_SCRIPTS: usize = 10_000;
/// Most plans that are followed through their dependencies; more is a mistake.
const MOST_PLANS: usize = 1_000;

/// The context of the questions.
pub struct SurveyContext {
    pub workspace: PathBuf,
    pub plan_dir: PathBuf,
    pub slug: String,
    /// The roles for which an agent is configured.
    pub targets: BTreeSet<String>,
    pub git: bool,
    /// Why a hidden contract is visible to agents here.
    pub in_sight: Option<String>,
    /// The role that judges contracts with a rubric.
    pub judge: Option<String>,
    /// A file of the judge's own program that is inside the workspace.
    pub judge_within: Option<String>,
    /// Roles that use the same model as the judge.
    pub judges_models: BTreeSet<String>,
    /// Roles whose program an attempt could not start, with the reasons.
    pub not_startable: BTreeMap<String, String>,
    /// The paths that checks can see.
    pub sight: VisiblePaths,
    /// Secrets that the configuration gives to checks.
    pub secrets: BTreeSet<String>,
}

/// Answers every question.
pub fn answer(questions: &Questions, place: &SurveyContext) -> Facts {
    let _activity = Activity::begin("looking at the repository");
    let (broken_scripts, no_bash) = scripts(&questions.scripts);
    Facts {
        git: place.git,
        slug: place.slug.clone(),
        targets: place.targets.clone(),
        files: existing(&questions.files, &place.workspace),
        missing_tools: missing(&questions.tools),
        unseen: unseen(&questions.paths, &place.sight),
        secrets: place.secrets.clone(),
        broken_scripts,
        no_bash,
        in_sight: place.in_sight.clone(),
        judge: place.judge.clone(),
        judge_within: place.judge_within.clone(),
        judges_models: place.judges_models.clone(),
        not_startable: place.not_startable.clone(),
        topics: topics(&questions.topics, &place.plan_dir),
        plans: plans(&questions.plans, &place.plan_dir),
        ignored_globs: ignored(&questions.globs, &place.workspace),
    }
}

fn existing(files: &BTreeSet<String>, workspace: &Path) -> BTreeSet<String> {
    let there = |path: &&String| inside(path) && workspace.join(path).symlink_metadata().is_ok();
    files.iter().filter(there).cloned().collect()
}

/// Returns the globs that match something that git ignores, by the current rules.
fn ignored(globs: &BTreeSet<String>, workspace: &Path) -> BTreeSet<String> {
    let Some(rules) = IgnoreRules::of_workspace(workspace).filter(|_| !globs.is_empty()) else {
        return BTreeSet::new();
    };
    let names = |glob: &&String| {
        Touches::new(&[glob.as_str()]).is_ok_and(|touches| !rules.named_by(&touches).is_empty())
    };
    globs.iter().filter(names).cloned().collect()
}

/// Returns whether the path has only plain components: no root, no `..`.
fn inside(path: &str) -> bool {
    let mut components = Path::new(path).components();
    !path.is_empty() && components.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn missing(tools: &BTreeSet<String>) -> BTreeSet<String> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| PATH.into());
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = |tool: &str| folders.iter().any(|folder| is_program(&folder.join(tool)));
    // Provost adds it to every check.
    let is_ours = |tool: &str| tool == recipes::PROGRAM;
    tools.iter().filter(|tool| !found(tool) && !is_ours(tool)).cloned().collect()
}

fn unseen(paths: &BTreeMap<String, bool>, sight: &VisiblePaths) -> BTreeSet<String> {
    let hidden = paths.iter().filter(|(path, looked_at)| sight.would_hide(path, **looked_at));
    hidden.map(|(path, _)| path.clone()).collect()
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn topics(names: &BTreeSet<String>, plan_dir: &Path) -> BTreeSet<String> {
    let there =
        |name: &&String| is_slug(name) && plan_dir.join("topics").join(format!("{name}.md")).is_file();
    names.iter().filter(there).cloned().collect()
}

fn is_slug(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

/// Returns every plan that can be reached, with the plans it depends on and those that carry out its steps.
fn plans(slugs: &BTreeSet<String>, plan_dir: &Path) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut open: Vec<String> = slugs.iter().cloned().collect();
    while let Some(slug) = open.pop() {
        if found.contains_key(&slug) || found.len() >= MOST_PLANS || !is_slug(&slug) {
            continue;
        }
        let Ok(bytes) = fs::read(plan_dir.join(format!("PLAN-{slug}.md"))) else { continue };
        let (text, unreadable) = parse::bytes(&bytes);
        let plan = if unreadable.is_none() { parse::plan(&text).plan } else { Default::default() };
        let carrying = plan.steps.into_iter().filter_map(|step| step.plan);
        let waits_for: Vec<String> =
            plan.depends_on.into_iter().chain(carrying).map(|other| other.value).collect();
        open.extend(waits_for.iter().cloned());
        found.insert(slug, waits_for);
    }
    found
}

/// Returns the scripts that bash rejects, and whether bash is missing.
fn scripts(scripts: &BTreeSet<String>) -> (BTreeMap<String, String>, bool) {
    let open: Vec<&String> = scripts.iter().filter(|script| !is_trivial(script)).collect();
    if open.is_empty() {
        return (BTreeMap::new(), false);
    }
    let Some(bash) =
        std::env::split_paths(PATH).map(|folder| folder.join("bash")).find(|path| is_program(path))
    else {
        return (BTreeMap::new(), true);
    };
    let next = AtomicUsize::new(0);
    let refused = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(open.len()) {
            scope.spawn(|| {
                while let Some(script) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(why) = known_refusal(&bash, script) {
                        let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
                        refused.insert(script.to_string(), why);
                    }
                }
            });
        }
    });
    (refused.into_inner().unwrap_or_else(PoisonError::into_inner), false)
}

/// Returns whether a script is plain words on one line, which bash cannot reject.
fn is_trivial(script: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'=' | b'-' | b' ');
    script.bytes().all(plain) && !script.split(' ').any(is_reserved)
}

fn is_reserved(word: &str) -> bool {
    matches!(
        word,
        "if" | "then"
            | "else"
            | "elif"
            | "fi"
            | "for"
            | "while"
            | "until"
            | "do"
            | "done"
            | "case"
            | "esac"
            | "select"
            | "function"
            | "in"
            | "time"
            | "coproc"
    )
}

/// Returns bash's complaint about a script. A process that verifies a plan at every change, such as the one
/// behind an editor, asks bash about each script once.
fn known_refusal(bash: &Path, script: &str) -> Option<String> {
    static KNOWN: Mutex<BTreeMap<String, Option<String>>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = known().get(script) {
        return why.clone();
    }
    match refusal(bash, script) {
        Asked::Answered(why) => {
            let mut known = known();
            if known.len() >= MOST_SCRIPTS {
                known.clear();
            }
            known.insert(script.to_owned(), why.clone());
            why
        }
        Asked::Failed(why) => Some(why),
    }
}

/// An answer of bash, or why it gave none.
enum Asked {
    Answered(Option<String>),
    Failed(String),
}

/// Returns bash's complaint about a script. Any output on stderr counts: an unclosed here-document is only
/// a warning for bash, but a mistake in a contract.
fn refusal(bash: &Path, script: &str) -> Asked {
    let started = Command::new(bash)
        .args(["--noprofile", "--norc", "-n"])
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return Asked::Failed(format!("bash could not be started: {error}")),
    };
    let script = format!("{script}\n");
    let stdin = child.stdin.take();
    let stderr = child.stderr.take();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // Bash stops reading at the first error; a broken pipe is expected.
                let _ = stdin.write_all(script.as_bytes());
            }
        });
        let words = scope.spawn(move || {
            let mut words = Vec::new();
            if let Some(stderr) = stderr {
                let _ = stderr.take(16 * 1024).read_to_end(&mut words);
            }
            String::from_utf8_lossy(&words).into_owned()
        });
        let status = wait(&mut child);
        let words = words.join().unwrap_or_default();
        match status {
            None => Asked::Failed("bash did not finish reading it".to_string()),
            Some(true) if words.trim().is_empty() => Asked::Answered(None),
            Some(_) => Asked::Answered(Some(complaint(&words))),
        }
    })
}

/// Waits up to the limit; `None` if the process had to be killed.
fn wait(child: &mut Child) -> Option<bool> {
    let deadline = Instant::now() + LIMIT;
    let mut pause = Duration::from_micros(200);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if Instant::now() < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// Returns `/bin/bash: line 3: syntax error …` without the program's name.
fn complaint(words: &str) -> String {
    let line = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("syntax error");
    let line = line.split_once(": ").map_or(line, |(_, rest)| rest);
    line.trim().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn the_survey_sees_files_tools_topics_and_plans() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        fs::create_dir_all(at.join("topics")).unwrap();
        fs::write(at.join("a.txt"), "").unwrap();
        fs::write(at.join("topics/known.md"), "").unwrap();
        fs::write(at.join("PLAN-b.md"), "---\nstatus: draft\ndepends_on: [c, gone]\n---\n").unwrap();
        fs::write(at.join("PLAN-c.md"), "---\nstatus: draft\ndepends_on: [b]\n---\n").unwrap();
        let questions = Questions {
            files: set(&["a.txt", "b.txt", "../a.txt", "/etc/passwd"]),
            tools: set(&["sh", "no-such-tool-here"]),
            paths: BTreeMap::new(),
            scripts: set(&["echo hello", "test -f x && (", "cat <<EOF\nopen", "[[ -f x ]] && a | b"]),
            topics: set(&["known", "unknown", "../PLAN-b"]),
            plans: set(&["b", "nowhere"]),
            globs: set(&["dist/**"]),
        };
        let place = SurveyContext {
            workspace: at.to_path_buf(),
            plan_dir: at.to_path_buf(),
            slug: "a".into(),
            targets: set(&["coder"]),
            in_sight: None,
            judge: None,
            judge_within: None,
            judges_models: BTreeSet::new(),
            not_startable: BTreeMap::new(),
            git: false,
            sight: VisiblePaths::of_checks(
                &crate::check::judge::CheckTools::of_person(at),
                &Default::default(),
            ),
            secrets: BTreeSet::new(),
        };
        let facts = answer(&questions, &place);
        assert_eq!(facts.files, set(&["a.txt"]));
        assert_eq!(facts.missing_tools, set(&["no-such-tool-here"]));
        assert_eq!(facts.topics, set(&["known"]));
        assert_eq!(facts.plans.keys().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(facts.plans["b"], ["c", "gone"]);
        assert!(!facts.no_bash, "these tests need bash");
        assert_eq!(facts.broken_scripts.keys().collect::<Vec<_>>(), ["cat <<EOF\nopen", "test -f x && ("]);
    }

    #[test]
    fn a_very_long_script_and_a_very_long_complaint_both_end() {
        let long = format!("echo {}\n(", "x".repeat(300_000));
        assert!(known_refusal(Path::new("/bin/bash"), &long).is_some());
        assert!(known_refusal(Path::new("/bin/bash"), &"true; ".repeat(50_000)).is_none());
    }

    #[test]
    fn bash_is_asked_once_about_a_script_and_again_if_it_gave_no_answer() {
        let (bash, none) = (Path::new("/bin/bash"), Path::new("/no/such/bash"));
        let refused = known_refusal(bash, "echo once && (");
        assert!(refused.is_some());
        assert_eq!(known_refusal(none, "echo once && ("), refused);
        assert!(known_refusal(none, "echo; later").unwrap().starts_with("bash could not be started"));
        assert_eq!(known_refusal(bash, "echo; later"), None);
    }

    #[test]
    fn bash_agrees_with_the_labels_of_the_real_contracts() {
        let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/shell_contracts.jsonl");
        let Ok(text) = fs::read_to_string(cases) else {
            return provost_rehearsal::skip::cases(cases);
        };
        let mut questions = Vec::new();
        for line in text.lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let command = case["cmd"].as_str().unwrap_or_default().to_string();
            questions.push((command, case["valid_bash"].as_bool().unwrap_or_default()));
        }
        let asked = questions.iter().map(|(command, _)| command.clone()).collect();
        let (broken, no_bash) = scripts(&asked);
        assert!(!no_bash);
        let wrong: Vec<_> = questions.iter().filter(|(c, valid)| broken.contains_key(c) == *valid).collect();
        assert!(
            wrong.len() * 100 <= questions.len() * 3,
            "{} of {}: {wrong:#?}",
            wrong.len(),
            questions.len()
        );
    }
}
