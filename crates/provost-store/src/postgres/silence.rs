//! Connections behind a network that lost its way: neither closed nor answered.
//!
//! A kernel goes on for a quarter of an hour before it gives such a connection up. The driver has no word for
//! how long it may be, so the sockets are looked up among what this process has open.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use socket2::{SockRef, TcpKeepalive};

/// After how many questions without an answer a connection that says nothing is over.
const QUESTIONS: u32 = 3;

/// Has every connection of this process to that port end when nothing was heard of it for so long. Where the
/// kernel does not let it be, nothing is different.
pub fn ends_after(time: Duration, port: u16) {
    let Ok(own) = pidfd_open(getpid(), PidfdFlags::empty()) else { return };
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let is_socket =
            fs::read_link(entry.path()).is_ok_and(|what| what.to_string_lossy().starts_with("socket:"));
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let (true, Some(number)) = (is_socket, number)
            && let Ok(socket) = pidfd_getfd(&own, number, PidfdGetfdFlags::empty())
            && peer(&socket).is_some_and(|peer| peer.port() == port)
        {
            end_after(&socket, time);
        }
    }
}

fn peer(socket: &OwnedFd) -> Option<SocketAddr> {
    SockRef::from(socket).peer_addr().ok()?.as_socket()
}

fn end_after(socket: &OwnedFd, time: Duration) {
    let pause = (time / (QUESTIONS + 1)).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new().with_time(pause).with_interval(pause).with_retries(QUESTIONS);
    let socket = SockRef::from(socket);
    let _ = socket.set_tcp_keepalive(&keepalive);
    let _ = socket.set_tcp_user_timeout(Some(time));
}
