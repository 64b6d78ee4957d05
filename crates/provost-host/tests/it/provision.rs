//! Tests what checks find besides their tree: the same for every check, and never changed by an agent.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use provost_core::model::plan::{Shell, Span};
use provost_core::model::verdict::{CheckOutcome, Isolation, Verdict};
use provost_host::config;
use provost_host::config::{Config, Demand};
use provost_host::exec::environment::{
    self, ApprovedFiles, CheckExtras, CheckSettings, CheckSpec, Comparison, ExecEnv, RunPaths,
};
use provost_host::tree::{CopyTrust, ImportLimits};
use provost_rehearsal::skip;
use tempfile::TempDir;

use crate::tag;

/// A repository and a state folder.
struct Site {
    root: TempDir,
    config: Config,
    level: Isolation,
}

impl Site {
    /// Returns `None` if this machine does not have the level.
    fn new(level: Isolation, config: &str, files: &[(&str, &str)]) -> Option<Self> {
        let root =
            tempfile::Builder::new().prefix("provision").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for folder in ["work", "state"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        let config = config::parse(&PathBuf::from("/p/provost.toml"), config).unwrap();
        let site = Self { root, config, level };
        for (name, text) in files {
            site.write(name, text);
        }
        site.git(&["init", "--quiet"]);
        site.commit();
        let (work, state) = (site.at("work"), site.at("state"));
        let estate =
            RunPaths { workspace: &work, state: &state, read_only: &[], secrets: &[], launcher: &[] };
        match environment::attest(Demand::Exactly(level), &estate) {
            Ok(_) => Some(site),
            Err(error) => {
                skip::fences(&error.to_string());
                None
            }
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at("work").join(name), text).unwrap();
    }

    fn git(&self, arguments: &[&str]) -> String {
        let done = Command::new("git")
            .args(["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"])
            .args(arguments)
            .current_dir(self.at("work"))
            .env("HOME", self.root.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "next"]);
    }

    /// Returns the environment of a new plan that may touch `x` and `new.lock`.
    fn ground(&self) -> ExecEnv {
        let (work, state) = (self.at("work"), self.at("state"));
        let estate =
            RunPaths { workspace: &work, state: &state, read_only: &[], secrets: &[], launcher: &[] };
        let (offer, _) = environment::attest(Demand::Exactly(self.level), &estate).unwrap();
        let commit = self.git(&["rev-parse", "HEAD"]);
        let verify = &self.config.verify;
        let approval = ApprovedFiles {
            revision: "one",
            commit: Some(&commit),
            files: &[],
            included: &[],
            touches: &["x".to_owned(), "new.lock".to_owned()],
            caches: &verify.caches,
            limits: ImportLimits::default(),
            adopts: false,
            copies: &CopyTrust::new(|| true),
            recorded: None,
            wanted: CheckSettings {
                provision: &verify.provision,
                build_caches: verify.build_caches,
                stop: None,
            },
        };
        ExecEnv::prepare(offer, self.level, &estate, &approval).unwrap()
    }

    fn entries(&self, folder: &str) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = fs::read_dir(self.at("state").join(folder))
            .into_iter()
            .flatten()
            .flatten()
            .map(|it| it.path())
            .collect();
        all.sort();
        all
    }
}

fn judge(ground: &ExecEnv, tree: Option<&str>, with_work: bool, command: &str) -> Verdict {
    let shell = Shell { command: command.to_owned(), body: Span::default(), expectations: Vec::new() };
    ground
        .judge(&CheckSpec {
            shell: &shell,
            timeout: Duration::from_secs(600),
            tag: &tag(),
            stop: None,
            tree,
            start: None,
            with_work,
            apart: None,
            touches: None,
            protect: &[],
            network: false,
            processes: Default::default(),
            given: CheckExtras::default(),
            bounds: None,
            in_background: false,
            shown_to: None,
            doubts: Default::default(),
            compare: Comparison::Nothing,
            reuses: false,
        })
        .unwrap()
}

const OWN: &str = r#"
[verify]
caches = []
[verify.provision.own]
command = 'cp x.lock out/copy; date +%s%N > out/made; test "$PLACE" = "$PWD/out"; echo words >&2; test ! -e fails'
lock = ["x.lock", "new.lock"]
into = "out"
env = { PLACE = "{into}" }
"#;

/// Runs the test at every level with a separate tree.
fn at_each(config: &str, files: &[(&str, &str)], then: impl Fn(&Site)) {
    for level in [Isolation::Clean, Isolation::GuardClean] {
        if let Some(site) = Site::new(level, config, files) {
            then(&site);
        }
    }
}

#[test]
fn what_a_lock_file_asks_for_is_made_once_and_cannot_be_spoiled() {
    at_each(OWN, &[("x.lock", "one")], |site| {
        let first = judge(&site.ground(), None, false, "cat out/made && test $(cat out/copy) = one");
        assert!(first.held(), "{first:?}");
        let second = judge(&site.ground(), None, false, "cat out/made && test \"$PLACE\" = \"$PWD/out\"");
        assert_eq!((second.held(), &second.stdout), (true, &first.stdout), "{second:?}");
        let spoiled = judge(&site.ground(), None, false, "echo bad > out/made && rm out/copy");
        assert!(spoiled.held(), "{spoiled:?}");
        let third = judge(&site.ground(), None, false, "cat out/made && test -e out/copy");
        assert_eq!((third.held(), &third.stdout), (true, &first.stdout), "{third:?}");
        assert!(!site.at("work").join("out").exists());
        assert_eq!(site.entries("provision/building"), Vec::<PathBuf>::new());
        // A changed lock file is provisioned separately.
        site.write("x.lock", "two");
        site.commit();
        let other = judge(&site.ground(), None, false, "cat out/made; test $(cat out/copy) = two");
        assert!(other.held() && other.stdout != first.stdout, "{other:?}");
    });
}

#[test]
fn a_lock_file_that_the_step_changed_is_provided_for_again_and_for_its_tree_alone() {
    at_each(OWN, &[("x.lock", "one")], |site| {
        let ground = site.ground();
        let before = judge(&ground, None, false, "cat out/made");
        // A change outside of `touches` has no effect.
        site.write("x.lock", "two");
        let same = judge(&ground, None, true, "test $(cat out/copy) = one && cat out/made");
        assert_eq!(
            (same.held(), &same.stdout, same.provisioned.len()),
            (true, &before.stdout, 0),
            "{same:?}"
        );
        // A change inside of `touches` is provisioned.
        site.write("new.lock", "new");
        let again = judge(&ground, None, true, "cat out/made");
        assert!(again.held() && again.stdout != before.stdout, "{again:?}");
        assert_eq!(again.provisioned, ["own, from x.lock, new.lock as the step left it"]);
        // The tree passed, so the next step starts from it and finds what was provisioned.
        let tree = again.tree.unwrap().id;
        let next = judge(&ground, Some(&tree), false, "cat out/made");
        assert_eq!((next.held(), next.stdout), (true, again.stdout));
        let base = judge(&ground, None, false, "cat out/made");
        assert_eq!((base.held(), base.stdout), (true, before.stdout));
    });
}

#[test]
fn what_cannot_be_provided_is_said_and_nothing_is_left_of_it() {
    at_each(OWN, &[("x.lock", "one"), ("fails", "")], |site| {
        let verdict = judge(&site.ground(), None, false, "true");
        let CheckOutcome::NotRun { reason } = &verdict.outcome else { panic!("{verdict:?}") };
        assert!(reason.starts_with("provisioning own failed: exit code 1: words; "), "{reason}");
        let left = site.entries("provision").into_iter().filter(|path| path.join("used").exists()).count();
        assert_eq!((left, site.entries("provision/building")), (0, Vec::new()));
    });
}

#[test]
fn what_asks_for_nothing_starts_nothing() {
    let lock = "version = 4\n\n[[package]]\nname = \"calc\"\nversion = \"0.1.0\"\n";
    let files = [
        ("Cargo.lock", lock),
        ("requirements.txt", "# none\n"),
        ("package-lock.json", "{\"packages\":{\"\":{}}}"),
    ];
    at_each("", &files, |site| {
        let verdict = judge(&site.ground(), None, false, "test -z \"$CARGO_HOME\" && test ! -e .venv");
        assert!(verdict.held(), "{verdict:?}");
        assert!(!site.at("state/provision/building").exists());
    });
}

#[test]
fn a_folder_that_was_there_before_the_agent_counts() {
    let lock = r#"{"packages":{"":{},"node_modules/nowhere":{"version":"1.0.0"}}}"#;
    let Some(site) = Site::new(Isolation::Clean, "", &[("package-lock.json", lock)]) else { return };
    fs::create_dir(site.at("work/node_modules")).unwrap();
    site.write("node_modules/x", "as it was");
    let verdict = judge(&site.ground(), None, false, "grep was node_modules/x");
    assert!(verdict.held(), "{verdict:?}");
}

/// Prints the log in the cache and appends a line to it; holds if `x` is good.
const BUILD: &str = "cat target/log; echo $(cat x) >> target/log; grep -q good x";

#[test]
fn nothing_of_a_failed_attempt_is_in_the_cache_of_the_next() {
    let files = [("Cargo.toml", ""), ("x", "start")];
    let Some(site) = Site::new(Isolation::Clean, "", &files) else { return };
    let ground = site.ground();
    let said = |verdict: &Verdict| verdict.stdout.to_string();
    let control = judge(&ground, None, false, BUILD);
    assert_eq!((control.held(), said(&control).as_str()), (false, ""), "{control:?}");
    site.write("x", "bad");
    let failed = judge(&ground, None, true, BUILD);
    assert_eq!((failed.held(), said(&failed).as_str()), (false, "start\n"));
    site.write("x", "good");
    let passed = judge(&ground, None, true, BUILD);
    assert_eq!((passed.held(), said(&passed).as_str()), (true, "start\n"));
    // The next step continues from this tree.
    let tree = passed.tree.unwrap().id;
    site.write("x", "bad again");
    let next = judge(&ground, Some(&tree), true, BUILD);
    assert_eq!((next.held(), said(&next).as_str()), (false, "start\ngood\n"));
    // The cache of the approved base is unchanged, also in another run.
    let base = judge(&site.ground(), None, false, BUILD);
    assert_eq!(said(&base), "start\n");
    assert_eq!(site.entries("builds").len(), 1);
    let builds = site.entries("builds").remove(0);
    assert_eq!(fs::read_dir(builds.join("running")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(builds.join("layers")).unwrap().count(), 2);
    // The same tree is approved as a base: build results of steps are not reused for it.
    site.write("x", "good");
    site.commit();
    let approved = judge(&site.ground(), None, false, BUILD);
    assert_ne!(said(&approved), "start\ngood\n", "{approved:?}");
}

#[test]
fn a_new_base_takes_over_what_is_older_than_all_its_files() {
    let Some(site) = Site::new(Isolation::Clean, "", &[("Cargo.toml", ""), ("x", "start")]) else { return };
    judge(&site.ground(), None, false, BUILD);
    let trees = site.entries("builds").remove(0).join("trees");
    let age = |by_ms: i64| {
        for entry in fs::read_dir(&trees).unwrap().flatten() {
            let text = fs::read(entry.path()).unwrap();
            let mut known: serde_json::Value = serde_json::from_slice(&text).unwrap();
            known["kept_at_ms"] = (known["kept_at_ms"].as_i64().unwrap() - by_ms).into();
            fs::write(entry.path(), known.to_string()).unwrap();
            if known["layers"]["cargo"].as_array().unwrap().is_empty() {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    };
    // The cache must count as younger than the files, however long this test takes, because it may contain
    // builds of files that look older.
    age(-600_000);
    site.write("y", "");
    site.commit();
    let young = judge(&site.ground(), None, false, "test -e target/log || echo none");
    assert_eq!(young.stdout.to_string(), "none\n");
    age(660_000);
    site.write("y", "more");
    site.commit();
    let taken_over = judge(&site.ground(), None, false, BUILD);
    assert_eq!(taken_over.stdout.to_string(), "start\n", "{taken_over:?}");
}

#[test]
fn what_a_check_saw_keeps_its_time_in_the_next_base() {
    let Some(site) = Site::new(Isolation::Clean, "", &[("Cargo.toml", ""), ("x", "start")]) else { return };
    let ground = site.ground();
    site.write("x", "good");
    let time = "stat -c %.Y x && grep -q good x";
    let passed = judge(&ground, None, true, time);
    let tree = passed.tree.unwrap().id;
    assert_eq!(judge(&ground, Some(&tree), true, time).stdout, passed.stdout);
    let own = fs::metadata(site.at("work/x")).unwrap();
    let agents = format!("{}.{:09}\n", own.mtime(), own.mtime_nsec());
    assert_ne!(passed.stdout.to_string(), agents, "the time is not the agent's to choose");
}

/// The versions of tools are asked for on the approved base, here beside a check of work that does not hold.
#[test]
fn a_question_for_a_version_keeps_no_cache() {
    let Some(site) = Site::new(Isolation::Clean, "", &[("Cargo.toml", ""), ("x", "good")]) else { return };
    let ground = site.ground();
    site.write("x", "bad");
    let verdict = judge(&ground, None, true, "make --version && false");
    let tools = &verdict.environment.expect("an environment").tools;
    assert!(tools["make"].version.starts_with("GNU Make"), "{tools:?}");
    let trees = site.entries("builds").remove(0).join("trees");
    assert_eq!(fs::read_dir(trees).unwrap().count(), 0);
}

#[test]
fn caches_can_be_turned_off() {
    let config = "[verify]\nbuild_caches = false\n";
    let Some(site) = Site::new(Isolation::Clean, config, &[("Cargo.toml", ""), ("x", "good")]) else {
        return;
    };
    let ground = site.ground();
    for _ in 0..2 {
        let verdict = judge(&ground, None, false, "test ! -e target && mkdir target && touch target/log");
        assert!(verdict.held(), "{verdict:?}");
    }
}
