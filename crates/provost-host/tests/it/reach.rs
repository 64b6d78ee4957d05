//! Tests what an agent can access of the user's home and repository, with real sandboxes and real git.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::model::event::AttemptEnd;
use provost_core::model::plan::StepNumber;
use provost_host::agent::command::CommandDriver;
use provost_host::agent::{AgentDriver as _, AttemptInput};
use provost_host::exec::access::WorkspaceRepository;
use provost_host::sandbox::{AgentFence, HomePolicy};
use provost_host::tree::Trees;

use crate::sandbox::{Site, agent, contents, offer};
use crate::tree;

/// Creates the folder of a layer in the state folder.
fn kept(site: &Site, name: &str) -> PathBuf {
    let folder = site.state.join(name);
    for part in ["upper", "work"] {
        fs::create_dir_all(folder.join(part)).unwrap();
    }
    folder
}

fn layered<'a>(site: &'a Site, kept: &'a Path, hidden: &'a [&'a Path]) -> AgentFence<'a> {
    AgentFence { home: HomePolicy::Layered { home: &site.home, kept }, hidden, ..site.agent_fence() }
}

#[test]
fn what_an_agent_writes_to_its_home_is_kept_for_its_role_and_nowhere_else() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    fs::create_dir_all(site.home.join(".config/client")).unwrap();
    fs::write(site.home.join(".config/client/key"), "secret").unwrap();
    fs::write(site.home.join(".bashrc"), "untouched").unwrap();
    let _listener = UnixListener::bind(site.home.join("agent.sock")).unwrap();
    let before = contents(&site.home);
    let (coder, other) = (kept(&site, "coder"), kept(&site, "other"));
    let hidden = [site.state.as_path()];
    let home = site.home.display();
    let script = format!(
        "cd {home} && test \"$(cat .config/client/key)\" = secret && echo owned > .bashrc && rm -r .config && \
         mkdir .config && echo mine > .config/session && test -S agent.sock && \
         ! perl -e 'use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un(\"agent.sock\")) or exit 1'"
    );
    agent(layered(&site, &coder, &hidden), &script).holds();
    let again =
        format!("cd {home} && test \"$(cat .bashrc)\" = owned && test \"$(ls -A .config)\" = session");
    agent(layered(&site, &coder, &hidden), &again).holds();
    let another =
        format!("cd {home} && test \"$(cat .bashrc)\" = untouched && ! ls {}/*", site.state.display());
    agent(layered(&site, &other, &hidden), &another).holds();
    assert_eq!(contents(&site.home), before);
}

#[test]
fn a_layer_that_cannot_be_kept_is_said() {
    let Some(offer) = offer() else { return };
    let site = Site::new();
    fs::write(site.home.join("key"), "secret").unwrap();
    // A folder without the subfolders that a layer needs.
    let nothing = site.state.join("nothing");
    fs::create_dir(&nothing).unwrap();
    let hidden = [site.state.as_path()];
    let fence = layered(&site, &nothing, &hidden);
    let script = format!("cd {} && cat key && echo x > made && cat made", site.home.display());
    let tag = crate::tag();
    let work = AttemptInput {
        home: None,
        resume: None,
        outbox: None,
        heard: None,
        limit: None,
        granted: &[],
        answer_schema: None,
        prompt: "",
        workspace: &site.workspace,
        step: StepNumber(1),
        attempt: 1,
        timeout: Duration::from_secs(300),
        tag: &tag,
        stop: None,
        fence: Some(provost_host::agent::Behind::Bubblewrap(offer, fence)),
        environment: &std::env::vars_os().collect::<Vec<_>>(),
        bounds: None,
    };
    let attempt = CommandDriver::new(["bash", "-c", &script]).unwrap().attempt(&work).unwrap();
    assert_eq!((attempt.end, attempt.report.as_str()), (AttemptEnd::Exited { exit_code: 0 }, "secretx\n"));
    assert!(
        attempt.notes.len() == 1 && attempt.notes[0].contains("discarded what the agent wrote"),
        "{:?}",
        attempt.notes
    );
    assert!(!site.home.join("made").exists());
}

#[test]
fn a_workspace_in_the_home_is_written_and_what_is_around_it_is_not() {
    let Some(_) = offer() else { return };
    let mut site = Site::new();
    let app = site.home.join("code/app");
    fs::create_dir_all(&app).unwrap();
    fs::create_dir_all(site.home.join("code/neighbour")).unwrap();
    site.workspace = app.clone();
    let kept = kept(&site, "coder");
    let hidden = [site.state.as_path()];
    let script = "echo done > made && echo x > ../neighbour/made && ! mv ../../code ../../moved && \
                  echo x > ../../made && test -e ../neighbour/made";
    agent(layered(&site, &kept, &hidden), script).holds();
    assert!(app.join("made").exists());
    assert!(!site.home.join("made").exists() && !site.home.join("code/neighbour/made").exists());
    assert!(!site.home.join("moved").exists());
}

#[test]
fn a_link_that_an_agent_left_in_its_layer_leads_no_mount_out_of_the_fence() {
    let Some(_) = offer() else { return };
    let site = Site::new();
    let tools = site.home.join(".tools/bin");
    fs::create_dir_all(&tools).unwrap();
    fs::write(tools.join("tool"), "").unwrap();
    let secret = site.home.join("secret");
    fs::create_dir(&secret).unwrap();
    let kept = kept(&site, "coder");
    for target in [secret.clone(), Path::new("/oldroot").join(secret.strip_prefix("/").unwrap())] {
        symlink(&target, kept.join("upper/.tools")).unwrap();
        let hidden = [site.state.as_path()];
        let read_only = [tools.as_path()];
        let fence = AgentFence { read_only: &read_only, ..layered(&site, &kept, &hidden) };
        let script = format!("cd {} && test -e .tools/bin/tool && echo x > .tools/made", site.home.display());
        agent(fence, &script).holds();
        assert_eq!(contents(&secret), [], "{target:?}");
        assert!(!secret.join("bin").exists() && !site.home.join(".tools/made").exists(), "{target:?}");
        fs::remove_dir_all(kept.join("upper/.tools")).unwrap();
    }
}

/// A repository, and a sandbox around its workspace with the given access to it.
struct Fenced {
    site: Site,
    repository: tree::Site,
}

impl Fenced {
    fn new() -> Option<Self> {
        offer()?;
        Some(Self { site: Site::new(), repository: tree::Site::with(&[("a", "1")]) })
    }

    fn run(&self, sight: &provost_host::exec::access::RepositoryMounts, script: &str) {
        let path = |paths: &'_ [PathBuf]| -> Vec<PathBuf> { paths.to_vec() };
        let (writable, read_only, hidden) =
            (path(&sight.writable), path(&sight.read_only), path(&sight.hidden));
        let instead: Vec<_> = sight.instead.iter().map(|(at, from)| (at.as_path(), from.as_path())).collect();
        let fence = AgentFence {
            workspace: &self.repository.workspace,
            writable: &writable.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
            read_only: &read_only.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
            hidden: &hidden.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
            instead: &instead,
            ..self.site.agent_fence()
        };
        let settings = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a \
                        GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b";
        // `set -e` ignores a command after `!`, so a function is used instead.
        let no = "no() { if \"$@\" 2>/dev/null; then echo \"it could: $*\" >&2; exit 1; fi; }";
        agent(fence, &format!("{settings}\n{no}\nset -e\n{script}")).holds();
    }
}

const PLANT: &str = "no bash -c 'echo x >> .git/config'
no git config core.hooksPath /tmp/x
no touch .git/hooks/pre-commit
no touch .git/info/attributes
no mv .git/hooks .git/old
no mv .git .old
no rm -rf .git/hooks
test ! -e .git/hooks/pre-commit";

#[test]
fn a_shared_repository_takes_commits_and_no_programs() {
    let Some(fenced) = Fenced::new() else { return };
    let (work, head) = (&fenced.repository.workspace, fenced.repository.head());
    for folder in ["hooks", "info"] {
        fs::remove_dir_all(work.join(".git").join(folder)).unwrap();
    }
    let repository = WorkspaceRepository::of(work);
    let sight = repository.shared().unwrap();
    let script = format!("{PLANT}\necho 2 > a; git commit -qam two; echo ../evil > .git/commondir");
    fenced.run(&sight, &script);
    let notes = sight.restore();
    assert!(notes.len() == 1 && notes[0].contains("commondir"), "{notes:?}");
    drop(repository);
    assert_ne!(fenced.repository.head(), head);
    for name in ["hooks", "info", "commondir"] {
        assert!(!work.join(".git").join(name).exists(), "{name} was not there before");
    }
}

#[test]
fn a_linked_worktree_is_shared_hidden_and_replaced_like_any_other() {
    let Some(mut fenced) = Fenced::new() else { return };
    let main = fenced.repository.workspace.clone();
    let linked = main.parent().unwrap().join("linked");
    fenced.repository.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    fenced.repository.workspace = linked.clone();
    let commit = fenced.repository.head();
    let repository = WorkspaceRepository::of(&linked);
    let sight = repository.shared().unwrap();
    let common = main.join(".git").display().to_string();
    fenced.run(
        &sight,
        &format!(
            "echo 2 > a; git commit -qam two; no touch {common}/hooks/pre-commit
             no bash -c 'echo x > {common}/worktrees/linked/commondir'; no bash -c 'echo x > .git'"
        ),
    );
    assert_eq!(sight.restore(), [""; 0]);
    assert_ne!(fenced.repository.head(), commit);
    fenced.run(&repository.hidden(), &format!("no git status; no ls {common}/*"));
    let clone = fenced.site.state.join("clone");
    fs::create_dir(&clone).unwrap();
    Trees::open(&fenced.repository.state, &linked).unwrap().clone_of(&commit, &clone).unwrap();
    let sight = repository.instead(&clone, &fenced.site.scratch).unwrap();
    fenced.run(
        &sight,
        &format!("test \"$(git rev-parse HEAD)\" = {commit}; git diff --stat | grep -q a; no ls {common}/*"),
    );
}

#[test]
fn a_file_that_names_somebody_elses_repository_opens_nothing() {
    let Some(fenced) = Fenced::new() else { return };
    let theirs = tree::Site::with(&[("secret", "1")]);
    let work = tempfile::tempdir().unwrap();
    fs::write(work.path().join(".git"), format!("gitdir: {}\n", theirs.at(".git").display())).unwrap();
    let sight = WorkspaceRepository::of(work.path()).shared().unwrap();
    assert!(sight.writable.is_empty(), "{sight:?}");
    drop(fenced);
}

#[test]
fn a_clone_has_the_history_of_its_commit_and_nothing_else() {
    let Some(fenced) = Fenced::new() else { return };
    let repository = &fenced.repository;
    repository.write("a", "2");
    let base = repository.commit();
    repository.write("a", "future");
    let future = repository.commit();
    repository.git(&["tag", "later"]);
    repository.git(&["reset", "-q", "--hard", &base]);
    let before = repository.git(&["for-each-ref"]);
    let clone = fenced.site.state.join("clone");
    fs::create_dir(&clone).unwrap();
    repository.trees().clone_of(&base, &clone).unwrap();
    let seen = WorkspaceRepository::of(&repository.workspace);
    let sight = seen.instead(&clone, &fenced.site.scratch).unwrap();
    fenced.run(
        &sight,
        &format!(
            "test \"$(git rev-list --all --reflog | wc -l)\" = 2
             test \"$(git status --porcelain)\" = ''
             no git cat-file -e {future}
             git fsck --strict >/dev/null 2>&1
             test \"$(git remote; git stash list)\" = ''
             echo mine > a; git commit -qam mine; git log --oneline | grep -q mine"
        ),
    );
    // The clone is kept for the next attempt of the run.
    fenced.run(&sight, "test \"$(git rev-list --count HEAD)\" = 3");
    assert_eq!((repository.head(), repository.git(&["for-each-ref"])), (base, before));
    // A hidden repository is empty.
    fenced.run(&seen.hidden(), "no git status; test -z \"$(ls -A .git)\"");
}
