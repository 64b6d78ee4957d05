//! Sandbox forwarder: a process inside the sandbox that forwards connections to the proxy.
//!
//! It listens on the loopback of the sandbox's otherwise empty network, and forwards each connection to the
//! proxy's socket. The agent learns its address from the usual variables. If the user's own model listens
//! on the machine's loopback, the forwarder also listens at the same address in the sandbox, for clients
//! that bypass proxies for such addresses.
//!
//! The first process becomes the agent's program itself, so that its exit is the agent's exit. The
//! listening process is a child of the sandbox only. It decides nothing: the proxy decides which
//! connections are allowed, and an agent that kills this process has only cut off itself.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::pump::pump;
use super::{Address, IDLE};

/// More connections than the proxy accepts, so that the proxy sends the refusal.
const CONNECTIONS: usize = 128;
/// Servers of the agent's own inside the sandbox are reached without the proxy.
const NOT_THROUGH_THE_PROXY: &str = "localhost,127.0.0.1,::1";
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// A forwarder, as its command line describes it.
#[derive(Clone, Debug)]
pub struct Forwarder {
    /// The command that starts another process of this kind: a program and its first arguments.
    pub launcher: Vec<OsString>,
    pub socket: PathBuf,
    /// Loopback addresses of the machine that it also listens on.
    pub direct: Vec<String>,
}

impl Forwarder {
    /// Starts the forwarder and replaces this process with the program. Returns only on an error.
    pub fn enter(&self, command: &[OsString]) -> io::Result<Infallible> {
        let [program, args @ ..] = command else { return Err(io::ErrorKind::InvalidInput.into()) };
        let mut starter = self.another("leave")?.stdout(Stdio::piped()).spawn()?;
        let mut port = String::new();
        if let Some(said) = starter.stdout.take() {
            BufReader::new(said).read_line(&mut port)?;
        }
        starter.wait()?;
        let port: u16 = port
            .trim()
            .parse()
            .map_err(|_| io::Error::other("the forwarder in the sandbox did not start"))?;
        let url = format!("http://127.0.0.1:{port}");
        let error = Command::new(program)
            .args(args)
            .envs(PROXY_VARIABLES.map(|name| (name, url.as_str())))
            .envs(["NO_PROXY", "no_proxy"].map(|name| (name, NOT_THROUGH_THE_PROXY)))
            .env("NODE_USE_ENV_PROXY", "1")
            .exec();
        Err(io::Error::new(error.kind(), format!("{}: {error}", program.display())))
    }

    /// Starts the listening process and exits, so that it is not the agent's child: an agent that waits for
    /// all its children would wait for it forever.
    pub fn leave(&self) -> io::Result<()> {
        self.another("serve")?.process_group(0).spawn().map(|_| ())
    }

    fn another(&self, part: &str) -> io::Result<Command> {
        let [program, args @ ..] = self.launcher.as_slice() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut command = Command::new(program);
        command.args(args).arg(&self.socket).args(["--part", part]);
        command.args(self.direct.iter().flat_map(|address| ["--direct", address.as_str()]));
        command.stdin(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    /// Listens, prints the port, and runs until the sandbox ends.
    pub fn serve(&self) -> io::Result<Infallible> {
        let main = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = main.local_addr()?.port();
        let ways = Arc::new(Ways { socket: self.socket.clone(), open: AtomicUsize::new(0) });
        for address in self.direct.iter().filter_map(|text| Address::parse(text)) {
            for ip in places(&address) {
                // Privileged ports cannot be bound in here.
                if let Ok(listener) = TcpListener::bind((ip, address.port)) {
                    ways.listen(listener, Some(address.clone()))?;
                }
            }
        }
        ways.listen(main, None)?;
        io::stdout().write_all(format!("{port}\n").as_bytes())?;
        io::stdout().flush()?;
        loop {
            thread::park();
        }
    }
}

fn places(address: &Address) -> Vec<IpAddr> {
    match address.host.parse::<IpAddr>() {
        Ok(ip) => vec![ip],
        Err(_) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
    }
}

struct Ways {
    socket: PathBuf,
    open: AtomicUsize,
}

impl Ways {
    /// Accepts connections. With an address, every connection goes there; without one, the client names its
    /// target.
    fn listen(self: &Arc<Self>, listener: TcpListener, to: Option<Address>) -> io::Result<()> {
        let ways = self.clone();
        thread::Builder::new().spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    thread::sleep(Duration::from_millis(50));
                    continue;
                };
                if ways.open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                    ways.open.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (of_thread, to) = (ways.clone(), to.clone());
                let carrying = thread::Builder::new().spawn(move || {
                    let _ = of_thread.carry(&stream, to.as_ref());
                    of_thread.open.fetch_sub(1, Ordering::Relaxed);
                });
                if carrying.is_err() {
                    ways.open.fetch_sub(1, Ordering::Relaxed);
                }
            }
        })?;
        Ok(())
    }

    fn carry(&self, inside: &TcpStream, to: Option<&Address>) -> io::Result<()> {
        let mut outside = UnixStream::connect(&self.socket)?;
        if let Some(to) = to {
            outside.write_all(format!("CONNECT {to} HTTP/1.1\r\n\r\n").as_bytes())?;
            if !is_let_through(&mut outside)? {
                return Ok(());
            }
        }
        pump(inside, &outside, IDLE)
    }
}

/// Reads the proxy's answer to `CONNECT`, and no byte more.
fn is_let_through(outside: &mut UnixStream) -> io::Result<bool> {
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") && answer.len() < 4096 {
        outside.read_exact(&mut byte)?;
        answer.push(byte[0]);
    }
    Ok(answer.starts_with(b"HTTP/1.1 200 "))
}
