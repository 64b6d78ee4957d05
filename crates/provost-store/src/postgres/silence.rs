//! Limits how long a dead connection stays open that is neither closed nor answered.
//!
//! By default a kernel keeps such a connection for a quarter of an hour. The driver has no option for this,
//! so the sockets are searched among the open files of this process.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use socket2::{SockRef, TcpKeepalive};

/// Number of unanswered keep-alive probes after which a connection ends.
const QUESTIONS: u32 = 3;

/// Makes every connection of this process to these ports end if nothing is received for `time`. Does nothing
/// if the kernel does not allow it.
pub(super) fn ends_after(time: Duration, ports: &[u16]) {
    let Ok(own) = pidfd_open(getpid(), PidfdFlags::empty()) else { return };
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let is_socket =
            fs::read_link(entry.path()).is_ok_and(|what| what.to_string_lossy().starts_with("socket:"));
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let (true, Some(number)) = (is_socket, number)
            && let Ok(socket) = pidfd_getfd(&own, number, PidfdGetfdFlags::empty())
            && peer(&socket).is_some_and(|peer| ports.contains(&peer.port()))
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
