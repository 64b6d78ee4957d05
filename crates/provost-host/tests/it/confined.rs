//! Tests the sandbox without namespaces, with the self-test that a run starts with.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use provost_core::model::verdict::Isolation;
use provost_host::config::Demand;
use provost_host::exec::environment::{self, RunPaths};
use provost_host::process::{become_subreaper, cgroups_offered};
use provost_host::sandbox;
use provost_rehearsal::skip;
use tempfile::TempDir;

/// The process that confines itself: this test binary, if it is asked to.
#[test]
fn enters_when_asked() {
    let Some(orders) = std::env::var("ORDERS").ok() else { return };
    let command = std::env::var("COMMAND").unwrap();
    let command: Vec<OsString> = command.split('\u{1f}').map(OsString::from).collect();
    let error = sandbox::enter(&orders, &command).unwrap_err();
    eprintln!("{error}");
    std::process::exit(70);
}

fn launcher() -> Vec<OsString> {
    const PLAY: &str = "export ORDERS=$1; shift 2; IFS=$'\\x1f'; export COMMAND=\"$*\"
        exec \"$0\" --exact confined::enters_when_asked --nocapture --quiet";
    let exe = std::env::current_exe().unwrap();
    vec!["bash".into(), "-c".into(), PLAY.into(), exe.into()]
}

struct Site {
    _folder: TempDir,
    workspace: PathBuf,
    state: PathBuf,
}

impl Site {
    fn new() -> Self {
        become_subreaper().unwrap();
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let [workspace, state] = ["work", "state"].map(|name| folder.path().join(name));
        fs::create_dir(&workspace).unwrap();
        fs::create_dir(&state).unwrap();
        Self { _folder: folder, workspace, state }
    }

    fn estate<'a>(&'a self, launcher: &'a [OsString]) -> RunPaths<'a> {
        RunPaths { workspace: &self.workspace, state: &self.state, read_only: &[], secrets: &[], launcher }
    }
}

#[test]
fn what_landlock_promises_holds_when_it_is_attacked() {
    let site = Site::new();
    let launcher = launcher();
    let (offer, seen) = environment::levels(&site.estate(&launcher));
    if let Err(missing) = &offer.landlock {
        return skip::tool("landlock", &missing.why);
    }
    let (_, probes) = seen.iter().find(|(found, _)| *found == Isolation::Landlock).unwrap();
    // Other tests have children too. Without a cgroup it is unknown which test a daemon belongs to.
    let is_known = |name: &str| cgroups_offered().is_ok() || !name.ends_with("/daemon");
    let failed: Vec<_> = probes.iter().filter(|probe| !probe.held && is_known(&probe.name)).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let names: Vec<&str> = probes.iter().map(|probe| probe.name.as_str()).collect();
    for promised in ["state-write", "state-read", "home-read", "signal", "process-read", "network", "daemon"]
    {
        for inside in
            ["check", "agent"].iter().filter(|inside| promised != "home-read" || **inside == "check")
        {
            let name = format!("landlock/{inside}/{promised}");
            assert!(names.contains(&name.as_str()), "{name} was not tried: {names:?}");
        }
    }
}

#[test]
fn a_fence_that_is_not_put_up_attests_nothing() {
    let site = Site::new();
    // Launchers that succeed without a report, that fail, and that do not exist.
    let launchers: [&[OsString]; 3] = [&["true".into()], &["false".into()], &[]];
    for launcher in launchers {
        let level = Isolation::Landlock;
        let refused = environment::attest(Demand::Exactly(level), &site.estate(launcher));
        assert!(matches!(refused, Err(environment::Error::Unattested { wanted, .. }) if wanted == level));
    }
}

#[test]
fn levels_that_only_old_logs_have_are_never_attested() {
    let site = Site::new();
    let launcher = launcher();
    for level in [Isolation::Uid, Isolation::None] {
        let refused = environment::attest(Demand::Exactly(level), &site.estate(&launcher));
        assert!(matches!(refused, Err(environment::Error::Unattested { wanted, .. }) if wanted == level));
    }
}
