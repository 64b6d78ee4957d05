//! Tests the git remote of machines without a shared disk: one that refuses, hangs or is behind TLS and a proxy;
//! large files; what stays on the remote and on the disks of workers.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use provost_rehearsal::skip;

use super::apart::{AGENTS, JUDGES, Machines};
use crate::env::{Answer, HONEST, answer, plan};

const ONE: [&str; 1] = ["test -e out/1"];
const SERVER: &str = include_str!("../../../../provost-host/tests/it/git_server.py");
const CERTIFICATES: &str = r#"
    new="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    openssl req -x509 $new -keyout ca.key -out ca.crt -subj /CN=authority -days 30 &&
    openssl req $new -keyout server.key -out server.csr -subj /CN=server &&
    echo subjectAltName=DNS:git.example.invalid > names &&
    openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile names -out server.crt
"#;

impl Machines {
    fn script(&self, path: &Path, text: &str) -> String {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("a script");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        path.display().to_string()
    }

    /// Makes the remote run this when something is pushed to it; `$names` are the refs.
    fn hook(&self, script: &str) {
        let hook = Path::new(&self.remote()).join("hooks/pre-receive");
        self.script(&hook, &format!("names=$(cat)\n{script}"));
    }

    fn place(&self, name: &str) -> PathBuf {
        self.env.folder().join(name)
    }

    fn shown(&self) -> String {
        self.env.provost(&["cluster", "status"]).exits(0).out
    }

    fn answers(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Answer {
        let mut command = self.env.command(arguments);
        command.envs(environment.iter().copied());
        answer(command.output().expect("provost"))
    }

    fn approve_with(&self, environment: &[(&str, &str)]) -> Answer {
        let revision = self.env.revision();
        self.answers(&["approve", "--revision", &revision], environment).exits(0)
    }
}

fn entries(folder: &Path) -> usize {
    folder.read_dir().map_or(0, Iterator::count)
}

/// Returns the one entry of a folder.
fn only(folder: &Path) -> PathBuf {
    folder.read_dir().expect("a folder").flatten().next().expect("an entry").path()
}

#[test]
fn a_refusal_of_the_remote_is_told_in_its_words_and_the_work_is_kept() {
    let Some(machines) = Machines::new(&plan(&ONE, "abort"), HONEST) else { return };
    machines.sets_remote();
    machines.hook(
        "case $names in */1/a1-*) [ -e ../opened ] || { printf '\\033[31mno pushes\\033[0m on Fridays\\007\\n'; exit 1; } ;; esac",
    );
    let (_agents, _judges) = (machines.worker("a", &AGENTS), machines.worker("b", &JUDGES));
    machines.env.approve();
    machines.until("the words are told", || machines.trouble().contains("remote: no pushes on Fridays"));
    let told = machines.trouble();
    assert!(
        told.contains("waits to be sent") && told.contains("refused: pre-receive hook declined"),
        "{told}"
    );
    assert!(!told.chars().any(char::is_control), "{told:?}");
    assert!(machines.shown().contains("no pushes on Fridays"));
    std::fs::write(machines.place("opened"), "").expect("a file");
    machines.until_done();
    machines.is_sound(1);
    assert_eq!(machines.events("TASK_STARTED").len(), 1, "nothing was done over");
}

#[test]
fn a_remote_that_hangs_is_given_up_and_the_check_is_offered_again() {
    let Some(machines) = Machines::new(&plan(&ONE, "abort"), HONEST) else { return };
    machines.sets_remote();
    machines.hook("case $names in */passed/*) [ -e ../opened ] || sleep 600 ;; esac");
    let limit = [("PROVOST_REMOTE_LIMIT", "2s")];
    let _agents = machines.worker("a", &AGENTS);
    let _judges = machines.worker_with("b", &JUDGES, &limit);
    machines.env.approve();
    machines.until("cluster status shows the time limit", || {
        let told = machines.trouble();
        told.contains("did not finish within 2s") && told.contains("set PROVOST_REMOTE_LIMIT")
    });
    machines.until("it is offered again", || machines.trouble().contains("the check is offered again"));
    std::fs::write(machines.place("opened"), "").expect("a file");
    machines.until_done();
    machines.is_sound(1);
}

#[test]
fn an_ssh_remote_that_hangs_or_denies_is_told_and_waited_for() {
    let contract = "test -e out/1 && test -e out/2 && ! grep open-sesame out/2";
    let Some(machines) = Machines::new(&plan(&[contract], "abort"), HONEST) else { return };
    let key = machines.folder("a", "home/keys").join("carry");
    // Only a fence hides the file with the key from an agent.
    std::fs::write(&key, if machines.env.has_fences() { "open-sesame" } else { "" }).expect("a key");
    let reads = format!("{HONEST}cat '{}' > out/2 2>&1; true\n", key.display());
    machines.env.write("agent.sh", reads);
    machines.env.git(&["commit", "--quiet", "--all", "--message", "it looks around"]);
    let program = machines.script(
        &machines.place("hop"),
        "here=$(dirname \"$0\"); for last; do :; done; [ -e \"$here/hangs\" ] && sleep 600\n\
         [ -e \"$here/denies\" ] && { echo 'git@host: Permission denied (publickey).' >&2; exit 255; }\n\
         eval \"$last\"",
    );
    let command = format!("{program} -i '{}'", key.display());
    let keys = [("GIT_SSH_COMMAND", command.as_str()), ("PROVOST_REMOTE_LIMIT", "2s")];
    let address = format!("git@git.example.invalid:{}", machines.remote());
    machines.answers(&["cluster", "remote", &address], &keys).exits(0);
    std::fs::write(machines.place("denies"), "").expect("a file");
    let denied = machines.approve_with(&keys);
    assert!(denied.err.contains("Permission denied (publickey)"), "{}", denied.err);
    assert!(denied.err.contains("provost cluster push"), "{}", denied.err);
    std::fs::remove_file(machines.place("denies")).expect("removed");
    machines.answers(&["cluster", "push"], &keys).exits(0);
    std::fs::write(machines.place("hangs"), "").expect("a file");
    let _worker = machines.worker_at(&address, "a", &[], &keys);
    machines.until("it hangs", || machines.trouble().contains("did not finish within 2s"));
    std::fs::rename(machines.place("hangs"), machines.place("denies")).expect("renamed");
    machines.until("it denies", || machines.trouble().contains("Permission denied (publickey)"));
    std::fs::remove_file(machines.place("denies")).expect("removed");
    machines.until_done();
    machines.is_sound(1);
}

/// Servers that end with the test.
struct Servers(Vec<Child>);

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Servers {
    fn start(&mut self, arguments: &[&str]) -> String {
        let mut command = Command::new("python3");
        command.args(["-c", SERVER]).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3");
        let mut port = String::new();
        let mut told = BufReader::new(child.stdout.take().expect("a pipe"));
        told.read_line(&mut port).expect("a port");
        // It prints the hosts that were asked for.
        std::thread::spawn(move || told.lines().count());
        self.0.push(child);
        port.trim().to_owned()
    }
}

#[test]
fn work_travels_over_tls_with_a_private_authority_through_a_proxy() {
    let agent = format!("{HONEST}env > out/2\n");
    let contract = "test -e out/1 && ! grep -e open.sesame -e REMOTE_TOKEN out/2";
    let Some(machines) = Machines::new(&plan(&[contract], "abort"), &agent) else { return };
    let folder = machines.place("tls");
    std::fs::create_dir(&folder).expect("a folder");
    let made = Command::new("sh").args(["-c", CERTIFICATES]).current_dir(&folder).output().expect("sh");
    if !made.status.success() {
        return skip::tool("openssl", "apt-get install openssl");
    }
    let file = |name: &str| folder.join(name).display().to_string();
    let served = machines.env.folder().display().to_string();
    let mut servers = Servers(Vec::new());
    let port = servers.start(&["serve", &served, &file("server.crt"), &file("server.key"), "open-sesame"]);
    let proxy = format!("http://127.0.0.1:{}", servers.start(&["proxy"]));
    let address = format!("https://git.example.invalid:{port}/carry.git");
    let authority = file("ca.crt");
    let ways = [("HTTPS_PROXY", proxy.as_str()), ("SSL_CERT_FILE", &authority)];
    let keys = [ways[0], ways[1], ("PROVOST_REMOTE_TOKEN", "open-sesame")];
    machines.answers(&["cluster", "remote", &address], &keys).exits(0);
    let refused = machines.approve_with(&ways);
    assert!(refused.err.contains("set PROVOST_REMOTE_TOKEN"), "{}", refused.err);
    machines.answers(&["cluster", "push"], &keys).exits(0);
    let _agents = machines.worker_at(&address, "a", &AGENTS, &keys);
    let _judges = machines.worker_at(&address, "b", &JUDGES, &keys);
    machines.until_done();
    machines.is_sound(1);
    machines.answers(&["commit", "--branch", "judged"], &keys).exits(0);
}

#[test]
fn a_file_of_more_than_64_mib_travels_as_it_is() {
    let agent = "mkdir -p out; head -c 73400320 /dev/urandom > out/1; sha256sum out/1 > out/sum; echo done\n";
    let contract = "sha256sum -c out/sum && sha256sum -c out/known && test $(stat -c %s out/1) = 73400320";
    let Some(machines) = Machines::new(&plan(&[contract], "abort"), agent) else { return };
    machines.sets_remote();
    // A large file that is approved and not committed.
    let fills = "mkdir out; head -c 73400321 /dev/urandom > out/large; sha256sum out/large > out/known";
    assert!(
        Command::new("sh")
            .args(["-c", fills])
            .current_dir(machines.env.work())
            .status()
            .expect("sh")
            .success()
    );
    let (_agents, _judges) = (machines.worker("a", &AGENTS), machines.worker("b", &JUDGES));
    machines.env.approve_with_uncommitted();
    machines.until_done();
    machines.is_sound(1);
    machines.env.provost(&["commit", "--branch", "judged"]).exits(0);
    let git = machines.env.work().join(".git").display().to_string();
    assert_eq!(machines.git(&["--git-dir", &git, "cat-file", "-s", "judged:out/1"]), "73400320");
}

#[test]
fn what_ended_plans_left_is_removed_from_workers_and_the_remote() {
    let contracts = ["test -e out/1", "test -e out/2", "test -e out/3"];
    let Some(machines) = Machines::new(&plan(&contracts, "abort"), HONEST) else { return };
    machines.sets_remote();
    let places = ["a/state-cluster", "a/state/trees", "a/state/apart", "a/state/depots"];
    let mut agents = machines.worker("a", &AGENTS);
    let (looks, judges) = (machines.worker("c", &["--ticks-only"]), machines.worker("b", &JUDGES));
    machines.env.approve();
    machines.until("it has a workspace", || entries(&machines.place(places[0])) == 1);
    agents.kill();
    // The plan goes on, so its workspace stays.
    let mut agents = machines.worker("a", &AGENTS);
    machines.until_done();
    machines.is_sound(3);
    agents.kill();
    drop((judges, looks));
    assert_eq!(entries(&machines.place(places[0])), 1, "nothing was there to be removed");
    let passed = || machines.names().iter().filter(|name| name.contains("/passed/")).count();
    assert_eq!(passed(), 3, "{:?}", machines.names());
    // Another process on the same machine works there.
    let used = only(&only(&machines.place(places[0]))).join("used");
    let used = std::fs::File::open(used).expect("the file of its users");
    used.lock_shared().expect("a lock");
    let mut looks = machines.worker_with("a", &["--ticks-only"], &[("PROVOST_REMOTE_KEEP", "0s")]);
    // The disk comes first.
    machines.until("only the newest is left", || passed() == 1);
    assert_eq!(entries(&machines.place(places[0])), 1, "it was removed under its user");
    drop(used);
    looks.kill();
    let _agents = machines.worker("a", &AGENTS);
    machines.until("its disk is free", || places.iter().all(|place| entries(&machines.place(place)) == 0));
    // It is the one that is needed.
    machines.env.provost(&["commit", "--branch", "judged"]).exits(0);
    let git = machines.env.work().join(".git").display().to_string();
    let listed = machines.git(&["--git-dir", &git, "ls-tree", "-r", "--name-only", "judged"]);
    assert!(contracts.iter().zip(1..).all(|(_, part)| listed.contains(&format!("out/{part}"))), "{listed}");
}
