//! A pgbouncer in transaction mode in front of a test server. It ends with the process that started it.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use provost_store::postgres::cluster::{Cluster, PASSWORD, USER};

/// The first version that keeps prepared statements in transaction mode.
const OLDEST: (u32, u32) = (1, 21);
/// Connections that it may have to the server.
pub(super) const SHARED: usize = 4;

/// What every test needs; the second of two settings with one name counts.
const SETTINGS: &str = "listen_addr = 127.0.0.1\nunix_socket_dir =\npool_mode = transaction\n\
    max_prepared_statements = 200\nignore_startup_parameters = extra_float_digits\nmax_client_conn = 1000\n\
    server_login_retry = 1\nauth_type = trust\n";

pub(super) struct Bouncer {
    cluster: &'static Cluster,
    folder: tempfile::TempDir,
    program: PathBuf,
    pub port: u16,
    running: Mutex<Option<Child>>,
}

impl Bouncer {
    /// Starts one with these additional settings. Returns `None` if there is no pgbouncer; the test is then
    /// reported as skipped.
    pub(super) fn start(cluster: &'static Cluster, settings: &str) -> Option<Self> {
        let Some(program) = program() else {
            provost_rehearsal::skip::tool("pgbouncer", "1.21 or newer; ./test unpacks one on Debian 12");
            return None;
        };
        let folder = tempfile::Builder::new().prefix("provost-pool-").tempdir_in("/tmp").expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let bouncer = Self { cluster, folder, program, port, running: Mutex::default() };
        let at = bouncer.folder.path();
        fs::write(at.join("users"), format!("\"{USER}\" \"{PASSWORD}\"\n")).expect("a file");
        bouncer.configure(settings);
        bouncer.run();
        Some(bouncer)
    }

    /// Writes its configuration, which counts from its next start on.
    pub(super) fn configure(&self, settings: &str) {
        let at = self.folder.path();
        let host = match settings.contains("server_tls_") {
            true => "127.0.0.1".to_owned(),
            false => self.cluster.folder().display().to_string(),
        };
        // It refuses to run as root.
        let user = if is_root() { "user = postgres\n" } else { "" };
        let text = format!(
            "[databases]\n* = host={host} port={}\n[pgbouncer]\nlisten_port = {}\nauth_file = {}\n\
             default_pool_size = {SHARED}\nmax_db_connections = {SHARED}\nadmin_users = {USER}\n\
             {SETTINGS}{user}{settings}\n",
            self.cluster.port(),
            self.port,
            at.join("users").display(),
        );
        fs::write(at.join("pgbouncer.ini"), text).expect("its configuration");
    }

    /// Starts it, also after [`Bouncer::stop`], and waits until it accepts connections.
    pub(super) fn run(&self) {
        // The shell ends it when its stdin closes, which happens when this process ends.
        let script = "\"$@\" & pooler=$!; read -r end; kill -QUIT $pooler; wait $pooler";
        let said = fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log"));
        let child = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&self.program)
            .arg(self.folder.path().join("pgbouncer.ini"))
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(said.expect("a file"))
            .spawn()
            .expect("sh");
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < deadline, "the pooler does not start: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it at once, with all connections through it.
    pub(super) fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut shell) = running {
            if let Some(mut input) = shell.stdin.take() {
                let _ = writeln!(input, "end");
            }
            let _ = shell.wait();
        }
    }

    /// Returns the address of a database through it, with the server's socket behind it.
    pub(super) fn url(&self, database: &str) -> String {
        let (socket, port) = (self.cluster.folder().display(), self.cluster.port());
        format!("{}?direct={socket}:{port}", self.plain_url(database))
    }

    /// Returns the address without the server behind it.
    pub(super) fn plain_url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns its own log.
    pub(super) fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            eprintln!("the pooler said:\n{}", self.said());
        }
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// Returns the pgbouncer that `./test` has unpacked, or the installed one, if it is new enough.
fn program() -> Option<PathBuf> {
    let unpacked =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pgbouncer/bin/pgbouncer").canonicalize();
    let installed = ["pgbouncer", "/usr/sbin/pgbouncer"].map(PathBuf::from);
    unpacked.into_iter().chain(installed).find(|program| is_new_enough(program))
}

fn is_new_enough(program: &Path) -> bool {
    let said = Command::new(program).arg("--version").output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    let version = said.lines().next().and_then(|line| line.strip_prefix("PgBouncer ")).unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST
}
