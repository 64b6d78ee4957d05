//! Attacks the sandboxes from inside, with real bubblewrap. Without it, each test is reported as skipped.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use provost_core::model::verdict::Isolation;
use provost_host::process::{Enclosure, HeadAndTail, How, ProcessEnd, Spawn};
use provost_host::sandbox::{
    AgentFence, CheckFence, CheckMount, CheckTree, HomePolicy, MissingFeature, MountWrites, NO_NEEDS,
    Network, Outlet, Processes, SandboxFeatures, SandboxedCommand, Unavailable, Vantage, What,
};
use provost_host::{process, sandbox};
use provost_rehearsal::skip;
use tempfile::TempDir;

use crate::{lives, tag};

fn surveyed() -> &'static SandboxFeatures {
    static OFFER: OnceLock<SandboxFeatures> = OnceLock::new();
    OFFER.get_or_init(|| sandbox::survey(Path::new("/nonexistent")))
}

/// Returns the features of this machine; if they are not sufficient, reports the test as skipped.
pub(crate) fn offer() -> Option<&'static SandboxFeatures> {
    let offer = surveyed();
    if let Some(missing) = offer.bubblewrap.as_ref().err().or(offer.overlay.as_ref().err()) {
        skip::fences(&format!("{} ({})", missing.why, missing.hint));
        return None;
    }
    Some(offer)
}

/// A base, an agent's changes and a workspace; the file `where` in each names it.
pub(crate) struct Site {
    pub root: TempDir,
    base: PathBuf,
    layer: PathBuf,
    pub workspace: PathBuf,
    pub scratch: PathBuf,
    pub state: PathBuf,
    cache: PathBuf,
    pub home: PathBuf,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::named("site")
    }

    fn named(name: &str) -> Self {
        // Not in the temporary folder, because every sandbox replaces it.
        let root = tempfile::Builder::new().prefix(name).tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let folder = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let [base, layer, workspace] = ["base", "layer", "workspace"].map(folder);
        let [scratch, state, cache, home] = ["scratch", "state", "cache", "home"].map(folder);
        for (tree, name) in [(&base, "base"), (&workspace, "workspace")] {
            fs::write(tree.join("where"), name).unwrap();
            fs::create_dir(tree.join("src")).unwrap();
            fs::write(tree.join("src/old"), "old").unwrap();
        }
        fs::write(layer.join("taken"), "from the agent").unwrap();
        fs::write(state.join("log"), "secret").unwrap();
        Self { root, base, layer, workspace, scratch, state, cache, home }
    }

    fn overlay<'a>(&'a self, deleted: &'a [PathBuf]) -> CheckTree<'a> {
        CheckTree::Overlay { lower: &self.base, over: None, layer: &self.layer, deleted }
    }

    /// Returns the usual sandbox of a check.
    fn fence(&self) -> CheckFence<'_> {
        CheckFence {
            tree: self.overlay(&[]),
            at: &self.workspace,
            size: 64 * 1024 * 1024,
            network: Network::Off,
            processes: Processes::Guarded,
            toolchains: &[],
            keep: &[],
            hidden: &[],
            scratch: &self.scratch,
        }
    }

    pub(crate) fn agent_fence(&self) -> AgentFence<'_> {
        AgentFence {
            workspace: &self.workspace,
            writable: &[],
            veiled: &[],
            read_only: &[],
            hidden: &[],
            instead: &[],
            network: Outlet::Off,
            home: HomePolicy::Users(&self.home),
            needs: NO_NEEDS,
            scratch: &self.scratch,
        }
    }

    fn vantage(&self, api: Option<SocketAddr>) -> Vantage<'_> {
        Vantage { state: &self.state, harness_pid: std::process::id(), api, workspace: &self.workspace }
    }
}

/// A cache that a check writes in place.
fn kept<'a>(at: &'a str, folder: &'a Path) -> CheckMount<'a> {
    CheckMount { at: Path::new(at), what: What::Writable(folder) }
}

/// Runs a line of bash in a check.
fn check(fence: CheckFence<'_>, script: &str) -> Fenced {
    Fenced::run(sandbox::check(surveyed(), &fence, OsStr::new("bash"), &bash(script)).unwrap())
}

pub(crate) fn agent(fence: AgentFence<'_>, script: &str) -> Fenced {
    Fenced::run(sandbox::agent(surveyed(), &fence, OsStr::new("bash"), &bash(script)).unwrap())
}

fn bash(script: &str) -> Vec<OsString> {
    ["--noprofile", "--norc", "-c", script].map(OsString::from).into()
}

pub(crate) struct Fenced {
    how: Result<How, Unavailable>,
    stdout: String,
    stderr: String,
    ended: ProcessEnd,
}

impl Fenced {
    fn run(wrapped: SandboxedCommand) -> Self {
        Self::run_within(Duration::from_secs(600), wrapped)
    }

    fn run_within(deadline: Duration, wrapped: SandboxedCommand) -> Self {
        let ended = process::run(Spawn {
            program: &wrapped.program,
            args: &wrapped.args,
            cwd: Path::new("/"),
            env: &[
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("HOME".into(), sandbox::HOME.into()),
                ("GIVEN".into(), "as \"given\"\n".into()),
            ],
            stdin: b"",
            deadline,
            grace: Duration::from_millis(100),
            keep: HeadAndTail { head: 64 * 1024, tail: 0 },
            tag: &tag(),
            stop: None,
            tee: None,
            bounds: None,
            enclosure: Enclosure::None,
        })
        .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            how: wrapped.how(&ended),
            stdout: text(&ended.stdout.head),
            stderr: text(&ended.stderr.head),
            ended,
        }
    }

    #[track_caller]
    pub(crate) fn holds(&self) {
        assert!(
            matches!(self.how, Ok(How::Exited(0))),
            "{:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.how,
            self.stdout,
            self.stderr
        );
        assert_eq!(self.ended.survivors, []);
    }
}

/// Returns every file below the folder, with its content.
pub(crate) fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.clone(), fs::read(path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

#[test]
fn what_a_check_writes_reaches_neither_base_nor_layer_nor_workspace() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let trees = [&site.base, &site.layer, &site.workspace, &site.scratch, &site.state];
    let before = trees.map(|tree| contents(tree));
    check(
        site.fence(),
        "test \"$(cat where)\" = base && test \"$(cat taken)\" = 'from the agent' && echo x > where && \
         echo x > taken && echo x > new && rm -r src && mkdir src && echo x > src/new && chmod 600 taken",
    )
    .holds();
    assert_eq!(trees.map(|tree| contents(tree)), before);
}

#[test]
fn a_check_sees_its_tree_at_the_workspace_and_finds_it_whole() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let at = &site.workspace;
    let seen = check(site.fence(), "pwd; ls; id -u; stat -c %u where taken");
    let user = our_uid();
    assert_eq!(seen.stdout, format!("{}\nsrc\ntaken\nwhere\n{user}\n{user}\n{user}\n", at.display()));
}

fn our_uid() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

#[test]
fn what_was_deleted_is_gone_and_what_was_made_again_is_there() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    for folder in ["base/dir/deep", "base/again", "layer/again"] {
        fs::create_dir_all(site.root.path().join(folder)).unwrap();
    }
    for file in ["base/dir/deep/a", "base/dir/b", "base/again/old", "layer/again/new", "base/a 'b\"\n,:\\c"] {
        fs::write(site.root.path().join(file), "").unwrap();
    }
    let deleted = ["src/old", "dir/deep/a", "dir", "again", "a 'b\"\n,:\\c", "never/was"].map(PathBuf::from);
    let fence = CheckFence { tree: site.overlay(&deleted), ..site.fence() };
    let seen = check(fence, "find . -type f | sort");
    seen.holds();
    assert_eq!(seen.stdout, "./again/new\n./taken\n./where\n");
}

#[test]
fn a_check_writes_as_much_as_it_may_and_no_more() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let seen = check(
        site.fence(),
        "dd if=/dev/zero of=big bs=1M count=100; stat -c %s big; rm big; \
         dd if=/dev/zero of=/tmp/a bs=1M count=40; dd if=/dev/zero of=$HOME/b bs=1M count=40; \
         stat -c %s /tmp/a $HOME/b | awk '{ all += $1 } END { print all }'",
    );
    let written: Vec<u64> = seen.stdout.lines().map(|line| line.parse().unwrap()).collect();
    assert!(seen.stderr.contains("No space left on device"), "{}", seen.stderr);
    for written in written {
        assert!((60 * 1024 * 1024..=64 * 1024 * 1024).contains(&written), "{written}");
    }
}

#[test]
fn the_network_is_there_when_it_is_asked_for_and_only_then() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let script = format!("exec 9<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    assert!(!matches!(check(site.fence(), &script).how, Ok(How::Exited(0))));
    assert!(!matches!(agent(site.agent_fence(), &script).how, Ok(How::Exited(0))));
    assert!(listener.accept().is_err());
    check(CheckFence { network: Network::On, ..site.fence() }, &script).holds();
    listener.accept().unwrap();
    agent(AgentFence { network: Outlet::On, ..site.agent_fence() }, &script).holds();
    listener.accept().unwrap();
}

#[test]
fn arguments_and_environment_arrive_as_they_were_given() {
    let Some(offer) = offer() else { return };
    let site = Site::new();
    let fence = site.fence();
    let odd: Vec<OsString> = ["", "a b", "$(id)", "`id`", "'\"", "new\nline", "--", "-n", "*"]
        .map(OsString::from)
        .into_iter()
        .chain([OsStr::from_bytes(b"\xff\xfe").to_owned()])
        .collect();
    let script = "printf '<%s>' \"$GIVEN\" \"$@\"; env | cut -d= -f1 | sort | tr '\\n' ' ' >&2";
    let args = [bash(script), vec!["sh".into()], odd.clone()].concat();
    let wrapped = sandbox::check(offer, &fence, OsStr::new("bash"), &args).unwrap();
    let seen = Fenced::run(wrapped);
    let mut expected = b"<as \"given\"\n>".to_vec();
    for word in &odd {
        expected.extend([b"<", word.as_bytes(), b">"].concat());
    }
    assert_eq!(seen.ended.stdout.head, expected);
    assert_eq!(seen.stderr.lines().last(), Some(" GIVEN HOME PATH PROVOST_ATTEMPT PWD SHLVL _ "));
}

#[test]
fn every_exit_code_comes_through() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    for code in [0, 1, 3, 124, 126, 127, 128, 137, 255] {
        let script = format!("exit {code}");
        assert!(
            matches!(check(site.fence(), &script).how, Ok(How::Exited(found)) if found == code),
            "check {code}"
        );
        assert!(
            matches!(agent(site.agent_fence(), &script).how, Ok(How::Exited(found)) if found == code),
            "agent {code}"
        );
    }
    // A signal is reported as an exit code, as a shell does it.
    assert!(matches!(check(site.fence(), "kill -9 $$").how, Ok(How::Exited(137))));
    assert_eq!(sandbox::signal_behind(137), Some(9));
}

#[test]
fn a_fence_that_does_not_stand_is_not_a_contract_that_broke() {
    let Some(offer) = offer() else { return };
    let site = Site::new();
    let nowhere = site.root.path().join("nowhere");
    let fence = site.fence();
    let no_base = CheckTree::Overlay { lower: &nowhere, over: None, layer: &site.layer, deleted: &[] };
    let fences =
        [CheckFence { tree: no_base, ..fence }, CheckFence { tree: CheckTree::Folder(&nowhere), ..fence }];
    for fence in fences {
        let wrapped = sandbox::check(offer, &fence, OsStr::new("true"), &[]).unwrap();
        let how = Fenced::run(wrapped).how;
        assert!(matches!(&how, Err(Unavailable::NotEntered { said }) if !said.is_empty()), "{how:?}");
    }
    let wrapped = sandbox::check(offer, &fence, OsStr::new("no such program"), &[]).unwrap();
    let how = Fenced::run(wrapped).how;
    assert!(
        matches!(&how, Err(Unavailable::NotEntered { said }) if said.contains("no such program")),
        "{how:?}"
    );
}

#[test]
fn names_of_any_kind_are_only_names() {
    let Some(_) = offer() else { return };
    let site = Site::named("a 'b\" $(touch x)\n,:\\=;%");
    fs::write(site.base.join("-rf ,lowerdir=\n"), "odd").unwrap();
    let keep = [kept("my 'cache\"\n,:/deep", &site.cache)];
    check(
        CheckFence { keep: &keep, ..site.fence() },
        "cat where -- *lowerdir* && cd *cache*/deep && echo kept > made",
    )
    .holds();
    assert_eq!(fs::read_to_string(site.cache.join("made")).unwrap(), "kept\n");
    agent(site.agent_fence(), "echo done > made").holds();
    assert_eq!(fs::read_to_string(site.workspace.join("made")).unwrap(), "done\n");
}

#[test]
fn two_checks_at_once_do_not_meet() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let script =
        "test ! -e mine && test ! -e /tmp/mine && echo $$ | tee mine /tmp/mine $HOME/mine && sleep 0.3";
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| check(site.fence(), script))).collect();
        runs.into_iter().for_each(|run| run.join().unwrap().holds());
    });
    let left: Vec<_> = fs::read_dir(&site.scratch).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["room"]);
}

#[test]
fn only_a_kept_cache_remembers() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let keep = [kept("target/debug", &site.cache)];
    check(CheckFence { keep: &keep, ..site.fence() }, "echo built > target/debug/app").holds();
    check(CheckFence { keep: &keep, ..site.fence() }, "test -e target/debug/app && ls target").holds();
    check(site.fence(), "test ! -e target").holds();
}

#[test]
fn layers_are_one_folder_and_only_what_is_to_be_remembered_is() {
    let Some(_) = offer() else { return };
    let site = Site::named("a 'b\",:");
    let lowers = ["new", "old"].map(|name| {
        let lower = site.root.path().join(name);
        fs::create_dir(&lower).unwrap();
        fs::write(lower.join(name), name).unwrap();
        fs::write(lower.join("both"), name).unwrap();
        lower
    });
    let [remembered, forgotten] = ["remembered", "forgotten"].map(|name| {
        let folder = site.root.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    });
    let layered = |folder, writes| What::Layered { lowers: &lowers, folder, writes };
    let keep = [
        CheckMount { at: Path::new("target"), what: layered(&remembered, MountWrites::Remembered) },
        CheckMount { at: Path::new("/var/cache/check/x"), what: layered(&forgotten, MountWrites::Forgotten) },
        CheckMount { at: Path::new("/var/cache/check/fixed"), what: What::ReadOnly(&site.cache) },
        CheckMount {
            at: Path::new("empty"),
            what: What::Layered { lowers: &[], folder: &site.state, writes: MountWrites::Forgotten },
        },
    ];
    check(
        CheckFence { keep: &keep, ..site.fence() },
        "for place in target /var/cache/check/x; do test $(cat $place/new $place/old $place/both) = newoldnew && \
         echo more > $place/old && rm $place/both && mkdir $place/made && touch $place/made/x || exit 1; done; \
         ! touch /var/cache/check/fixed/x && touch empty/x && test $(ls target | wc -l) = 3 && ! touch /var/cache/check/y",
    )
    .holds();
    assert_eq!(fs::read_to_string(lowers[1].join("old")).unwrap(), "old");
    assert_eq!(fs::read_to_string(remembered.join("upper/old")).unwrap(), "more\n");
    assert!(remembered.join("upper/made/x").exists());
    assert!(fs::read_link(forgotten.join("upper")).is_ok_and(|room| !room.exists()));
}

#[test]
fn a_tree_that_was_put_together_beforehand_does_as_well() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    check(
        CheckFence { tree: CheckTree::Folder(&site.base), ..site.fence() },
        "test $(cat where) = base && echo x > new && echo x > /tmp/y && echo x > $HOME/z && \
         ! unshare -U true && ! touch /usr/x && ! ls ../state",
    )
    .holds();
    assert!(site.base.join("new").exists());
}

#[test]
fn toolchains_are_seen_and_cannot_be_written() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let tools = site.home.join("tools");
    fs::create_dir_all(tools.join("bin")).unwrap();
    fs::write(site.home.join("private"), "").unwrap();
    let script = format!("cd {0} && ls bin && ! touch bin/x && ! ls ../private", tools.display());
    check(CheckFence { toolchains: &[&tools], ..site.fence() }, &script).holds();
    assert!(fs::read_dir(tools.join("bin")).unwrap().next().is_none());
}

#[test]
fn what_is_hidden_is_covered_wherever_it_would_be_seen() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let tools = site.home.join("tools");
    let hidden = [tools.join("state"), site.cache.join("state"), site.workspace.join("src")];
    for folder in &hidden {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("old"), "secret").unwrap();
    }
    let socket = tools.join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let keep = [kept("target", &site.cache)];
    let [first, second, third] = hidden.each_ref().map(PathBuf::as_path);
    let fence = CheckFence {
        toolchains: &[&tools],
        keep: &keep,
        hidden: &[first, second, third, &socket],
        ..site.fence()
    };
    let script = format!(
        "cd src && test -z \"$(ls -A)\" && ! touch x && cd ../target/state && ! touch x && cd {} && ! ls state/old && \
         test ! -S socket && ! cat socket",
        tools.display()
    );
    check(fence, &script).holds();
    assert_eq!(fs::read_to_string(site.cache.join("state/old")).unwrap(), "secret");
}

#[test]
fn what_only_root_may_read_is_not_there_to_be_read() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    check(
        site.fence(),
        "! cat /etc/shadow && ! ls /etc/ssl/private/* && cat /etc/passwd >/dev/null && ! ls ~root/.*rc",
    )
    .holds();
}

#[test]
fn a_fence_that_would_not_hold_is_refused() {
    let Some(offer) = offer() else { return };
    let site = Site::new();
    std::os::unix::fs::symlink("/etc", site.base.join("link")).unwrap();
    let out = [PathBuf::from("../x")];
    let absolute = [PathBuf::from("/etc/passwd")];
    let through = [PathBuf::from("link/passwd")];
    let linked = [kept("link/inner", &site.cache)];
    let elsewhere = [kept("/etc/x", &site.cache)];
    let fence = site.fence();
    let refused = [
        CheckFence { tree: site.overlay(&out), ..fence },
        CheckFence { tree: site.overlay(&absolute), ..fence },
        CheckFence { tree: site.overlay(&through), ..fence },
        CheckFence { keep: &linked, ..fence },
        CheckFence { keep: &elsewhere, ..fence },
        CheckFence { at: Path::new("/usr/x"), ..fence },
        CheckFence { at: Path::new("/"), ..fence },
        CheckFence { at: Path::new("relative"), ..fence },
        CheckFence { toolchains: &[Path::new("/")], ..fence },
        CheckFence { toolchains: &[site.root.path()], ..fence },
    ];
    for fence in refused {
        let answer = sandbox::check(offer, &fence, OsStr::new("true"), &[]);
        assert!(matches!(answer, Err(Unavailable::Refused { .. })), "{fence:?} -> {answer:?}");
    }
}

#[test]
fn a_daemon_dies_with_its_fence() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    // A sleep time that no other process uses. Pids in the namespace are reused too soon to identify the
    // process.
    let mark = format!("7{}.5", std::process::id());
    let script = format!(
        "(setsid bash -c ': > /tmp/up; trap \"\" TERM; sleep {mark} & sleep {mark}' >/dev/null 2>&1 &) \
         ; until [ -e /tmp/up ]; do sleep 0.01; done"
    );
    for fenced in [check(site.fence(), &script), agent(site.agent_fence(), &script)] {
        fenced.holds();
        let is_left = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&mark) && lives(*pid)
        };
        let pids =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        assert_eq!(pids.filter(is_left).collect::<Vec<i32>>(), Vec::<i32>::new());
    }
}

#[test]
fn a_program_that_takes_too_long_is_ended_with_all_that_it_started() {
    let Some(offer) = offer() else { return };
    let site = Site::new();
    let script = bash("trap '' TERM; setsid sleep 598.7 & sleep 598.7");
    let wrapped = sandbox::check(offer, &site.fence(), OsStr::new("bash"), &script).unwrap();
    let fenced = Fenced::run_within(Duration::from_millis(300), wrapped);
    assert!(matches!(fenced.how, Ok(How::TimedOut)), "{:?}", fenced.how);
    assert!(fenced.ended.duration < Duration::from_secs(60));
    assert_eq!(fenced.ended.survivors, []);
}

#[test]
fn a_tree_may_stand_in_a_place_that_is_private_inside() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    for at in ["/tmp/a/tree", "/dev/shm/tree", "/run/tree", "/home/someone/tree"].map(Path::new) {
        let seen = check(CheckFence { at, ..site.fence() }, "pwd && cat where && touch new");
        seen.holds();
        assert_eq!(seen.stdout, format!("{}\nbase", at.display()));
        assert!(!at.exists());
    }
}

#[test]
fn an_agent_works_in_its_workspace_and_sees_no_state() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let state = &site.state;
    // No other test and no other program has a file of this name.
    let mine = format!("/tmp/provost-test-{}", std::process::id());
    let seen = agent(
        AgentFence { hidden: &[state], ..site.agent_fence() },
        &format!(
            "echo done > made && echo conf > {home}/conf && ! cat {state}/log && ! touch {state}/forged && \
         ! touch /usr/x /etc/x && echo x > {mine} && pwd",
            state = state.display(),
            home = site.home.display(),
        ),
    );
    seen.holds();
    let made = fs::metadata(site.workspace.join("made")).unwrap();
    assert_eq!(made.uid(), our_uid());
    assert_eq!(contents(state), [(state.join("log"), b"secret".to_vec())]);
    assert!(site.home.join("conf").exists() && !Path::new(&mine).exists());
}

#[test]
fn an_agent_can_neither_write_nor_replace_what_is_read_only_nor_the_way_to_it() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let folder = site.workspace.join(".harness/plans");
    fs::create_dir_all(&folder).unwrap();
    let plan = folder.join("PLAN.md");
    fs::write(&plan, "the plan").unwrap();
    agent(
        AgentFence { read_only: &[&plan], ..site.agent_fence() },
        "cd .harness/plans && cat PLAN.md && ! (echo forged > PLAN.md) && ! mv PLAN.md x && ! rm -f PLAN.md && \
         echo forged > new && ! mv -f new PLAN.md && cd ../.. && ! mv .harness/plans y && ! mv .harness z && \
         ! rm -rf .harness && touch .harness/plans/mine && ! mv . ../elsewhere",
    )
    .holds();
    assert_eq!(fs::read_to_string(&plan).unwrap(), "the plan");
}

#[test]
fn an_agent_cannot_move_away_the_folders_that_lead_to_the_state() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let state = site.home.join(".local/state/provost");
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("log"), "secret").unwrap();
    let home = &site.home;
    let script = format!(
        "cd {} && ! mv .local x && ! mv .local/state y && ! mv .local/state/provost z && ! rm -rf .local && \
         mkdir .local/share && test ! -e .local/state/provost/log",
        home.display()
    );
    agent(AgentFence { hidden: &[&state], ..site.agent_fence() }, &script).holds();
    assert_eq!(fs::read_to_string(state.join("log")).unwrap(), "secret");
}

#[test]
fn an_agents_private_home_leaves_nothing_behind() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let home = &site.home;
    fs::write(home.join("key"), "secret").unwrap();
    let script = format!("cd {} && test ! -e key && echo x > made", home.display());
    agent(AgentFence { home: HomePolicy::Private(&site.home), ..site.agent_fence() }, &script).holds();
    assert!(!home.join("made").exists());
}

#[test]
fn what_is_not_there_yet_cannot_be_protected_from_an_agent() {
    let Some(offer) = offer() else { return };
    let site = Site::new();
    let nowhere = site.root.path().join("nowhere");
    let fence = site.agent_fence();
    let refused = [
        AgentFence { read_only: &[&nowhere], ..fence },
        AgentFence { hidden: &[&nowhere], ..fence },
        AgentFence { hidden: &[&site.workspace], ..fence },
        AgentFence { workspace: Path::new("/"), ..fence },
    ];
    for fence in refused {
        let answer = sandbox::agent(offer, &fence, OsStr::new("true"), &[]);
        assert!(matches!(answer, Err(Unavailable::Refused { .. })), "{fence:?} -> {answer:?}");
    }
}

#[test]
fn a_machine_without_bubblewrap_says_how_to_get_it() {
    let site = Site::new();
    let hint = "Install it: apt-get install bubblewrap (0.8 or newer).";
    let missing = MissingFeature { why: "not installed".into(), hint: hint.into() };
    let mut offer = surveyed().clone();
    offer.bubblewrap = Err(missing);
    let fence = site.agent_fence();
    let refused = sandbox::agent(&offer, &fence, OsStr::new("true"), &[]).unwrap_err();
    assert_eq!(
        (refused.to_string().as_str(), refused.hint()),
        ("bubblewrap is not available: not installed", Some(hint))
    );
    let attested = sandbox::self_test(&offer, &site.vantage(None));
    assert_eq!((attested.level, attested.bubblewrap.as_deref()), (Isolation::GuardClean, None));
    assert!(attested.failed().all(|probe| probe.detail.contains(hint)), "{attested:?}");
    let line = offer.lines().into_iter().find(|line| line.name == "bubblewrap").unwrap();
    assert_eq!(line.hint.as_deref(), Some(hint));
}

#[test]
fn this_machine_attests_what_its_fences_hold() {
    let Some(offer) = offer() else { return };
    let site = Site::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let before = contents(&site.workspace);
    let attested = sandbox::self_test(offer, &site.vantage(Some(listener.local_addr().unwrap())));
    assert_eq!(attested.failed().collect::<Vec<_>>(), [] as [&sandbox::SelfTestProbe; 0]);
    assert_eq!(attested.level, Isolation::Clean);
    let names: Vec<_> = attested.probes.iter().map(|probe| probe.name.as_str()).collect();
    for probe in ["works", "state-write", "state-read", "api", "signal", "processes", "network", "daemon"] {
        for fence in ["check", "agent"] {
            assert!(names.contains(&format!("{fence}/{probe}").as_str()), "{fence}/{probe} in {names:?}");
        }
    }
    assert_eq!(contents(&site.workspace), before);
    assert_eq!(fs::read_dir(site.state).unwrap().count(), 1);
}

#[test]
fn a_fence_with_a_hole_is_not_attested() {
    let Some(offer) = offer() else { return };
    let site = Site::new();
    // A fake bubblewrap without isolation: it drops every option and runs the program.
    let fake = site.root.path().join("bwrap");
    fs::write(&fake, "#!/bin/bash\nwhile [ \"$1\" != -- ]; do shift; done; shift; echo '{ \"exit-code\": 0 }' >&3; exec \"$@\"\n")
        .unwrap();
    fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut offer = offer.clone();
    offer.bubblewrap.as_mut().unwrap().path = fake;
    let attested = sandbox::self_test(&offer, &site.vantage(None));
    assert_eq!(attested.level, Isolation::GuardClean);
    let failed: Vec<_> = attested.failed().map(|probe| probe.name.as_str()).collect();
    for probe in ["state-write", "state-read", "signal", "processes", "network"] {
        assert!(failed.contains(&format!("agent/{probe}").as_str()), "{probe} in {failed:?}");
    }
}

#[test]
fn an_agent_whose_program_lies_in_a_private_folder_is_started() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let folder = tempfile::Builder::new().prefix("program-").tempdir_in("/tmp").unwrap();
    let program = folder.path().join("agent");
    std::fs::copy("/usr/bin/true", &program).unwrap();
    let wrapped = sandbox::agent(surveyed(), &site.agent_fence(), program.as_os_str(), &[]).unwrap();
    Fenced::run(wrapped).holds();
}
