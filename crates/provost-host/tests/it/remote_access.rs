//! Tests how git remotes are reached: over TLS with a private authority, through a proxy, by a given ssh command;
//! the messages if a remote refuses or hangs; large files.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use provost_host::tree::{Error, ImportLimits, Remote, Touches, fetch_commit};
use provost_rehearsal::skip;

use crate::tree::Site;

const SERVER: &str = include_str!("git_server.py");
const NAME: &str = "refs/provost/plan-1/1/a1-e1";
/// No name server knows it; the proxy of the tests leads it to loopback.
const HOST: &str = "git.example.invalid";

const CERTIFICATES: &str = r#"
    new="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    openssl req -x509 $new -keyout ca.key -out ca.crt -subj /CN=authority -days 30 &&
    openssl req $new -keyout server.key -out server.csr -subj /CN=server &&
    echo subjectAltName=DNS:localhost,DNS:git.example.invalid > names &&
    openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile names -out server.crt
"#;

/// A repository with a commit, and an empty bare repository.
struct Place {
    site: Site,
    commit: String,
    folder: PathBuf,
}

impl Place {
    fn new() -> Self {
        let site = Site::with(&[("a", "one")]);
        let (commit, folder) = (site.head(), site.workspace.with_file_name("served"));
        fs::create_dir(&folder).unwrap();
        site.git(&["init", "-q", "--bare", folder.join("carry.git").to_str().unwrap()]);
        Self { site, commit, folder }
    }

    fn path(&self) -> String {
        self.folder.join("carry.git").display().to_string()
    }

    /// Makes the bare repository run this when something is pushed to it.
    fn hook(&self, script: &str) {
        let hook = self.folder.join("carry.git/hooks/pre-receive");
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn script(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// Pushes the commit, and a tree with one more file.
    fn sends(&self, remote: &Remote) -> Result<String, Error> {
        let trees = self.site.trees();
        trees.send_commit(remote, &self.commit)?;
        self.site.write("src/new", "two");
        let (all, none) = (Touches::new(&["src/**"]).unwrap(), Touches::new::<&str>(&[]).unwrap());
        let base = trees.base("", Some(&self.commit), &[], &[]).unwrap();
        let taken = trees.take_over(&base, &all, &none, &ImportLimits::default()).unwrap();
        let sent = trees.advance(&base, taken).unwrap();
        trees.send(remote, &self.commit, &sent, NAME).map(|()| sent.id)
    }

    /// Pushes, and fetches on another machine. Both have the same tree then.
    #[track_caller]
    fn carries(&self, remote: &Remote) -> Site {
        let sent = self.sends(remote).unwrap();
        let there = Site::bare();
        let depot = there.state.with_file_name("depot");
        let repository = fetch_commit(&depot, remote, &self.commit).unwrap();
        there.trees().inhabit(&repository, &self.commit).unwrap();
        assert_eq!(there.trees().receive(remote, &self.commit, NAME, &sent).unwrap().id, sent);
        there.trees().receive_files(remote, &self.commit, NAME, &["src/new"]).unwrap();
        there
    }

    #[track_caller]
    fn fails(&self, remote: &Remote) -> String {
        let error = self.sends(remote).expect_err("it was sent");
        assert!(error.is_of_the_remote(), "{error:?}");
        error.to_string()
    }
}

fn remote(address: &str, variables: &[(&str, &str)]) -> Remote {
    let variables: Vec<(OsString, OsString)> =
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Remote::new(address, &variables).unwrap()
}

/// A process of `git_server.py`.
struct Server {
    child: Child,
    port: u16,
    told: Option<BufReader<ChildStdout>>,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", SERVER]).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3");
        let mut told = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut port = String::new();
        told.read_line(&mut port).expect("a port");
        Self { child, port: port.trim().parse().expect("a port"), told: Some(told) }
    }

    /// Serves the folder over TLS. Returns `None` without openssl; the test is then reported as skipped.
    fn serve(place: &Place, token: &str) -> Option<(Self, String)> {
        let made = Command::new("sh").args(["-c", CERTIFICATES]).current_dir(&place.folder).output().unwrap();
        if !made.status.success() {
            skip::tool("openssl", "apt-get install openssl");
            return None;
        }
        let file = |name: &str| place.folder.join(name).display().to_string();
        let (folder, certificate, key) = (file(""), file("server.crt"), file("server.key"));
        let server = Self::start(&["serve", &folder, &certificate, &key, token]);
        Some((server, file("ca.crt")))
    }

    /// Ends it and returns what it printed.
    fn end(mut self) -> String {
        self.child.kill().expect("killed");
        let mut text = String::new();
        self.told.take().expect("its output").read_to_string(&mut text).expect("text");
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_remote_with_a_private_authority_is_reached_by_the_usual_variables() {
    let place = Place::new();
    let Some((server, authority)) = Server::serve(&place, "open-sesame") else { return };
    let address = format!("https://localhost:{}/carry.git", server.port);
    let token = ("PROVOST_REMOTE_TOKEN", "open-sesame");
    for name in ["GIT_SSL_CAINFO", "SSL_CERT_FILE"] {
        place.carries(&remote(&address, &[token, (name, &authority)]));
    }
    let folder = place.folder.join("authorities");
    fs::create_dir(&folder).unwrap();
    fs::copy(&authority, folder.join("ca.pem")).unwrap();
    let hashed = Command::new("openssl").arg("rehash").arg(&folder).status();
    assert!(hashed.is_ok_and(|status| status.success()));
    place.carries(&remote(&address, &[token, ("SSL_CERT_DIR", &folder.display().to_string())]));
    let unknown = place.fails(&remote(&address, &[token]));
    assert!(unknown.contains("certificate") && unknown.contains("GIT_SSL_CAINFO"), "{unknown}");
    let wrong = ("PROVOST_REMOTE_TOKEN", "close-sesame");
    let refused = place.fails(&remote(&address, &[wrong, ("SSL_CERT_FILE", &authority)]));
    assert!(refused.contains("set PROVOST_REMOTE_TOKEN") && !refused.contains("close-sesame"), "{refused}");
}

#[test]
fn a_remote_behind_a_proxy_is_reached_by_the_usual_variables() {
    let place = Place::new();
    let Some((server, authority)) = Server::serve(&place, "") else { return };
    let proxy = Server::start(&["proxy"]);
    let address = format!("https://{HOST}:{}/carry.git", server.port);
    let gate = format!("http://127.0.0.1:{}", proxy.port);
    let trusted = ("SSL_CERT_FILE", authority.as_str());
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        place.carries(&remote(&address, &[trusted, (name, &gate)]));
    }
    let past = place.fails(&remote(&address, &[trusted, ("HTTPS_PROXY", &gate), ("NO_PROXY", HOST)]));
    assert!(past.contains("resolve") && past.contains("git ls-remote"), "{past}");
    let told = proxy.end();
    assert!(told.lines().count() > 5 && told.lines().all(|line| line.starts_with(HOST)), "{told}");
    let gone =
        place.fails(&remote(&address, &[trusted, ("HTTPS_PROXY", "http://gate.example.invalid:8080")]));
    assert!(gone.contains("check HTTPS_PROXY and NO_PROXY"), "{gone}");
}

#[test]
fn a_given_ssh_command_is_used_and_its_words_are_told() {
    let place = Place::new();
    // The last argument is the command for the other side, with the path as it is in the address.
    let local = place.script("hop", "for last; do :; done; eval \"$last\"");
    let address = format!("git@{HOST}:{}", place.path());
    place.carries(&remote(&address, &[("GIT_SSH_COMMAND", &local)]));
    let denies = "echo '*** authorised users only ***' >&2; echo \"git@host: Permission denied (publickey).\" >&2; exit 255";
    let denied = place.fails(&remote(&address, &[("GIT_SSH_COMMAND", &place.script("denies", denies))]));
    assert!(denied.contains("Permission denied (publickey)."), "{denied}");
    assert!(denied.contains("let the remote accept an ssh key"), "{denied}");
}

#[test]
fn a_refusal_is_told_in_the_words_of_the_remote() {
    let place = Place::new();
    place.hook("printf '\\033[31mno pushes\\033[0m on Fridays\\033]0;title\\007\\n'; exit 1");
    for address in [place.path(), format!("file://{}", place.path())] {
        let refused = place.fails(&remote(&address, &[]));
        assert!(refused.contains("no pushes on Fridays"), "{refused}");
        assert!(refused.contains("refused: pre-receive hook declined"), "{refused}");
        assert!(refused.contains("refs/provost/") && !refused.contains("failed to push"), "{refused}");
        assert!(!refused.chars().any(char::is_control), "{refused:?}");
    }
    place.hook("exit 0");
    place.carries(&remote(&place.path(), &[]));
}

#[test]
fn a_remote_that_hangs_is_given_up_after_the_limit() {
    let place = Place::new();
    place.hook("echo wait; sleep 600");
    let limit = [("PROVOST_REMOTE_LIMIT", "2s")];
    let hung = place.fails(&remote(&place.path(), &limit));
    assert!(hung.contains("did not finish within 2s") && hung.contains("set PROVOST_REMOTE_LIMIT"), "{hung}");
    assert!(hung.contains("remote: wait"), "{hung}");
    // It accepts connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}/carry.git", silent.local_addr().unwrap());
    let hung = place.fails(&remote(&address, &limit));
    assert!(hung.contains("did not finish within 2s"), "{hung}");
    let ssh = [limit[0], ("GIT_SSH_COMMAND", &place.script("sleeps", "sleep 600"))];
    let hung = place.fails(&remote(&format!("git@{HOST}:carry.git"), &ssh));
    assert!(hung.contains("did not finish within 2s"), "{hung}");
    let stop = Arc::new(AtomicBool::new(false));
    let remote = remote(&place.path(), &[]).until(stop.clone());
    let ended = std::thread::scope(|scope| {
        let sends = scope.spawn(|| place.fails(&remote));
        std::thread::sleep(std::time::Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        sends.join().unwrap()
    });
    assert!(ended.contains("ended the command"), "{ended}");
}

/// Writes this many bytes that cannot be compressed.
fn fill(path: &Path, bytes: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut random = File::open("/dev/urandom").unwrap().take(bytes);
    std::io::copy(&mut random, &mut File::create(path).unwrap()).unwrap();
}

#[test]
fn a_file_of_more_than_64_mib_arrives_as_it_was() {
    let place = Place::new();
    fill(&place.site.at("src/large"), 70 << 20);
    let there = place.carries(&remote(&place.path(), &[]));
    let large = fs::read(place.site.at("src/large")).unwrap();
    there.trees().receive_files(&remote(&place.path(), &[]), &place.commit, NAME, &["src/large"]).unwrap();
    assert!(fs::read(there.at("src/large")).unwrap() == large, "it differs");
    let Some((server, authority)) = Server::serve(&place, "") else { return };
    let address = format!("https://localhost:{}/carry.git", server.port);
    place.site.git(&["--git-dir", &place.path(), "update-ref", "-d", NAME]);
    place.carries(&remote(&address, &[("SSL_CERT_FILE", &authority)]));
}
