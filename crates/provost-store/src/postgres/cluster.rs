//! Starts a Postgres server for tests: from the installed packages, in a temporary folder, with its own
//! socket and loopback port. It ends with the process that started it.
//!
//! The socket needs no password; the port needs [`PASSWORD`].

use std::fs;
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection as _};

use super::runtime::run;
use super::{DatabaseAddress, Postgres};

/// The owner of the server's databases.
pub const USER: &str = "olga";
pub const PASSWORD: &str = "sesame";

const CERTIFICATES: &str = r#"
    new="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    openssl req -x509 $new -keyout ca.key -out ca.crt -subj /CN=authority -days 30 &&
    openssl req $new -keyout server.key -out server.csr -subj /CN=localhost &&
    echo subjectAltName=DNS:localhost > names &&
    openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile names -out server.crt &&
    chmod 600 server.key && chown --reference=. server.key server.crt
"#;

pub struct Cluster {
    folder: tempfile::TempDir,
    port: u16,
    running: Mutex<Option<Child>>,
    databases: AtomicU32,
}

impl Cluster {
    /// Returns one server for all tests of a process. Without an installed Postgres, reports that the tests
    /// are skipped and returns `None`.
    pub fn shared() -> Option<&'static Cluster> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| programs().and_then(|_| Cluster::start())).as_ref();
        if shared.is_none() {
            is_missing();
        }
        shared
    }

    pub fn start() -> Option<Cluster> {
        let Some(programs) = programs() else {
            is_missing();
            return None;
        };
        let folder = tempfile::Builder::new().prefix("provost-pg-").tempdir_in("/tmp").expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder for the data");
        let password = folder.path().join("password");
        fs::write(&password, PASSWORD).expect("a file for the password");
        if is_root() {
            let own = Command::new("chown").args(["-R", "postgres"]).arg(folder.path()).status();
            assert!(own.expect("chown").success(), "there is no user `postgres` to run the server as");
        }
        let made = unprivileged(&programs.join("initdb"))
            .args(["--username", USER, "--encoding", "UTF8", "--locale", "C.UTF-8", "--auth-local", "trust"])
            .args(["--auth-host", "scram-sha-256", "--pwfile"])
            .arg(&password)
            .arg("-D")
            .arg(&data)
            .output()
            .expect("initdb");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let cluster = Cluster { folder, port, running: Mutex::default(), databases: AtomicU32::new(0) };
        cluster.run();
        Some(cluster)
    }

    /// Starts the server, also after [`Cluster::kill`] or [`Cluster::stop`], and waits until it accepts
    /// connections.
    pub fn run(&self) {
        let programs = programs().expect("a server");
        // The shell ends the server when its stdin closes, which happens when this process ends.
        let script = "folder=$1; shift; \"$@\" & server=$!; read -r end; kill -QUIT $server; wait $server; \
                      [ \"$end\" = keep ] || rm -rf \"$folder\"";
        let child = unprivileged(Path::new("sh"))
            .args(["-c", script, "sh"])
            .arg(self.folder.path())
            .arg(programs.join("postgres"))
            .arg("-D")
            .arg(self.folder.path().join("data"))
            .args(["-k", &self.folder.path().display().to_string(), "-p", &self.port.to_string()])
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"])
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder.path().join("log")).expect("a file for what it says"))
            .spawn()
            .expect("the server");
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        let deadline = Instant::now() + Duration::from_secs(60);
        while let Err(error) = run(PgConnection::connect_with(&self.options("postgres"))) {
            assert!(Instant::now() < deadline, "the server does not start: {error}\n{}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts the server again with TLS, which the port then demands. Returns the authority that signed its
    /// certificate, which is for `localhost`.
    pub fn use_tls(&self) -> PathBuf {
        let made = Command::new("sh").args(["-c", CERTIFICATES]).current_dir(self.folder()).output();
        let made = made.expect("sh");
        assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
        self.stop();
        let (at, data) = (self.folder().display(), self.folder().join("data"));
        let settings = fs::read_to_string(data.join("postgresql.conf")).expect("settings");
        let tls = format!("ssl = on\nssl_cert_file = '{at}/server.crt'\nssl_key_file = '{at}/server.key'\n");
        fs::write(data.join("postgresql.conf"), settings + &tls).expect("settings");
        let doors = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(data.join("pg_hba.conf"), doors).expect("who is let in how");
        self.run();
        self.folder().join("ca.crt")
    }

    /// Kills all server processes at once, as in a power failure.
    pub fn kill(&self) {
        let pids = self.pids();
        for pid in &pids {
            let _ = rustix::process::kill_process(*pid, rustix::process::Signal::KILL);
        }
        self.wait_for(&pids);
    }

    /// Stops the server as an administrator would: connected clients are disconnected.
    pub fn stop(&self) {
        let pids = self.pids();
        self.end_shell();
        self.wait_for(&pids);
    }

    fn wait_for(&self, pids: &[rustix::process::Pid]) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let is_there = |pid: &rustix::process::Pid| {
            // Zombies do not count.
            let status =
                fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
            status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
        };
        while pids.iter().any(is_there) {
            assert!(Instant::now() < deadline, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.end_shell();
        let _ = fs::remove_file(self.folder.path().join("data/postmaster.pid"));
    }

    fn end_shell(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut shell) = running {
            // The folder is kept: the server may start again, or the folder is removed with this value.
            if let Some(mut input) = shell.stdin.take() {
                let _ = writeln!(input, "keep");
            }
            let _ = shell.wait();
        }
    }

    /// Returns the postmaster and its children.
    fn pids(&self) -> Vec<rustix::process::Pid> {
        let file = fs::read_to_string(self.folder.path().join("data/postmaster.pid")).unwrap_or_default();
        let Some(first) = file.lines().next().and_then(|line| line.trim().parse::<i32>().ok()) else {
            return Vec::new();
        };
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap_or_default();
        let all =
            std::iter::once(first).chain(children.split_whitespace().filter_map(|pid| pid.parse().ok()));
        all.filter_map(rustix::process::Pid::from_raw).collect()
    }

    /// Creates a new database and returns its URL, by the socket.
    pub fn database(&self) -> String {
        let name = format!("log_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql(&self.url("postgres"), &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Creates a log in a new database.
    pub fn log(&self) -> Postgres {
        Postgres::open(&address(&self.database())).expect("a log")
    }

    pub fn url(&self, database: &str) -> String {
        self.url_as(USER, database)
    }

    pub fn url_as(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@/{database}?host={}&port={}", self.folder.path().display(), self.port)
    }

    /// Returns the URL by the loopback port, which needs a password.
    pub fn tcp_url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn options(&self, database: &str) -> PgConnectOptions {
        address(&self.url(database)).options().clone()
    }

    /// Runs statements and returns the rows of all of them.
    pub fn try_sql(&self, url: &str, statements: &str) -> sqlx::Result<Vec<PgRow>> {
        run(async {
            let mut connection = PgConnection::connect_with(address(url).options()).await?;
            sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).fetch_all(&mut connection).await
        })
    }

    pub fn sql(&self, url: &str, statements: &str) -> Vec<PgRow> {
        self.try_sql(url, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// Returns the server's own log.
    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end_shell();
    }
}

/// Returns the first column of a row, which is a text.
pub fn text(row: &PgRow) -> String {
    sqlx::Row::get(row, 0)
}

pub fn address(url: &str) -> DatabaseAddress {
    DatabaseAddress::new(url, &[]).expect("an address")
}

/// Returns the folder of `initdb` and `postgres`.
fn programs() -> Option<PathBuf> {
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|found| found.filter_map(io::Result::ok).map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    versions.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = versions.into_iter().rev().chain(std::env::split_paths(&path)).collect();
    folders.retain(|folder| folder.join("initdb").exists() && folder.join("postgres").exists());
    folders.into_iter().next()
}

fn is_missing() {
    crate::skip::tool("postgres", "apt-get install postgresql");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns a command as another user if this one is root, because the server refuses to run as root.
fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
    command
}
