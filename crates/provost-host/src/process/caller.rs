//! Finds the process at the other end of a TCP connection, if it is on this machine.
//!
//! The kernel lists every connection with the inode of its socket, and every process with the sockets it
//! has open. If several processes have the socket open, all of them count as callers.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::process::getpid;

use super::Lineage;

/// The result of a search for the caller.
#[derive(Debug)]
pub enum Caller {
    /// Processes of this machine, each with its ancestors.
    Local(Vec<Lineage>),
    /// A process of this machine that cannot be examined, with the reason. `socket` is `None` if its socket
    /// was not found, for example because it has hung up.
    Unseen { why: String, socket: Option<u64> },
    /// The caller is on another machine.
    Remote,
}

impl Caller {
    /// Returns the lineages of the callers that can be examined.
    pub fn lineages(&self) -> &[Lineage] {
        match self {
            Caller::Local(lineages) => lineages,
            Caller::Unseen { .. } | Caller::Remote => &[],
        }
    }
}

/// Finds the caller of a connection. `ours` and `theirs` are its two ends, as this process sees them.
pub fn caller(ours: SocketAddr, theirs: SocketAddr) -> Caller {
    let inode = match inode(ours, theirs) {
        Some(inode) => inode,
        None if theirs.ip().to_canonical().is_loopback() => {
            let why = "the caller has hung up, or is in another network namespace".to_owned();
            return Caller::Unseen { why, socket: None };
        }
        None => return Caller::Remote,
    };
    let owners: Vec<i32> = processes().filter(|pid| has_open(*pid, inode) == Some(true)).collect();
    let lineages = owners.into_iter().map(Lineage::of).collect::<Result<Vec<Lineage>, _>>();
    let unseen = |why: String| Caller::Unseen { why, socket: Some(inode) };
    match lineages {
        Ok(none) if none.is_empty() => unseen("provost may not inspect the calling process".to_owned()),
        Ok(lineages) => Caller::Local(lineages),
        Err(blind) => unseen(blind.to_string()),
    }
}

/// Returns whether the process `top` or a descendant may have this socket open. A process that cannot be
/// examined counts as one that may.
pub fn can_be_below(top: u32, socket: u64) -> bool {
    let is_below = |pid: &i32| Lineage::of(*pid).is_ok_and(|lineage| lineage.has(top));
    processes().filter(is_below).any(|pid| has_open(pid, socket) != Some(false))
}

/// Returns the inode of the socket at their end.
fn inode(ours: SocketAddr, theirs: SocketAddr) -> Option<u64> {
    let is_theirs = |line: &&str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = fields.next().and_then(address);
        let remote = fields.next().and_then(address);
        let same = |one: Option<SocketAddr>, other: SocketAddr| {
            one.is_some_and(|one| {
                (one.ip().to_canonical(), one.port()) == (other.ip().to_canonical(), other.port())
            })
        };
        same(local, theirs) && same(remote, ours)
    };
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| {
        let text = fs::read_to_string(table).ok()?;
        let line = text.lines().skip(1).find(is_theirs)?;
        let inode = line.split_ascii_whitespace().nth(9)?.parse().ok()?;
        // A connection that is being closed has no inode any more.
        (inode != 0).then_some(inode)
    })
}

/// Parses an address such as `0100007F:1F90`: words in the machine's byte order.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Vec<u32> = (0..ip.len() / 8)
        .map(|place| u32::from_str_radix(ip.get(place * 8..place * 8 + 8)?, 16).ok())
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let ip = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => IpAddr::V4(Ipv4Addr::from(four)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?)),
    };
    Some(SocketAddr::new(ip, port))
}

/// Returns all processes except this one.
fn processes() -> impl Iterator<Item = i32> {
    let me = getpid().as_raw_nonzero().get();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(move |pid| *pid != me)
}

/// Returns whether the process has the socket open; `None` if the process cannot be examined.
fn has_open(pid: i32, socket: u64) -> Option<bool> {
    let link = format!("socket:[{socket}]");
    let open = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(open) => open,
        // The process has ended, and its descriptors are closed.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(false),
        Err(_) => return None,
    };
    let is_it =
        |path| fs::read_link(path).is_ok_and(|to: std::path::PathBuf| to.as_os_str() == link.as_str());
    Some(open.flatten().any(|entry| is_it(entry.path())))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::{Caller, address, caller, can_be_below, inode};

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        // On a big-endian machine the kernel writes addresses differently.
        if cfg!(target_endian = "little") {
            assert_eq!(address("0100007F:1F90"), "127.0.0.1:8080".parse().ok());
            assert_eq!(address("00000000000000000000000001000000:0050"), "[::1]:80".parse().ok());
        }
        assert_eq!(address("01:0G"), None);
    }

    #[test]
    fn whoever_calls_is_found_with_its_parents() {
        let door = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = door.local_addr().expect("an address").port();
        let script = format!("exec 9<>/dev/tcp/127.0.0.1/{port}; read -r _ <&9");
        let mut child = Command::new("bash")
            .args(["-c", &script])
            .env("PROVOST_ATTEMPT", "plan-1/1/1")
            .stdin(Stdio::null())
            .spawn()
            .expect("bash");
        let (stream, theirs) = door.accept().expect("a call");
        let ours = stream.local_addr().expect("an address");
        let Caller::Local(lineages) = caller(ours, theirs) else { panic!("it cannot be seen") };
        assert_eq!(lineages.len(), 1);
        assert!(lineages[0].has(child.id()) && lineages[0].has(std::process::id()));
        assert_eq!(lineages[0].attempt().as_deref(), Some("plan-1/1/1"));
        let socket = inode(ours, theirs).expect("a socket");
        assert!(can_be_below(child.id(), socket) && !can_be_below(child.id(), socket + 1_000_000));
        drop(stream);
        let _ = child.wait();
        assert!(matches!(caller(ours, theirs), Caller::Unseen { .. }));
    }

    #[test]
    fn one_of_our_own_is_not_an_owner() {
        let door = TcpListener::bind("127.0.0.1:0").expect("a port");
        let ours = door.local_addr().expect("an address");
        let stream = TcpStream::connect(ours).expect("connected");
        let theirs = stream.local_addr().expect("an address");
        assert!(matches!(caller(ours, theirs), Caller::Unseen { .. }));
    }
}
