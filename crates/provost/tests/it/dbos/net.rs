//! A separate network for a worker, with one link to the database. It is a pair of virtual interfaces;
//! nothing leaves this machine.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Net {
    name: String,
    link: String,
    /// Address of the outer end of the link, where a process inside finds the server.
    pub outside: IpAddr,
}

impl Net {
    /// Returns `None`, and reports the test as skipped, if no network can be made.
    pub(super) fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Four addresses of a range for experiments that is routed nowhere.
        let first = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + (pid * 8 + number) % 0x8000 * 4;
        let (outside, inside) = (Ipv4Addr::from(first + 1), Ipv4Addr::from(first + 2));
        let net = Self {
            name: format!("provost-{pid}-{number}"),
            link: format!("pv{pid}x{number}"),
            outside: IpAddr::V4(outside),
        };
        let steps = [
            format!("netns add {}", net.name),
            format!("link add {} type veth peer name inside netns {}", net.link, net.name),
            format!("addr add {outside}/30 dev {}", net.link),
            format!("link set {} up", net.link),
            format!("-n {} addr add {inside}/30 dev inside", net.name),
            format!("-n {} link set inside up", net.name),
            format!("-n {} link set lo up", net.name),
        ];
        if steps.iter().all(|step| ip(step)) {
            return Some(net);
        }
        eprintln!(
            "no network namespace can be made here (root and `ip` can); lines are cut by proxies alone"
        );
        None
    }

    /// Drops all packets in both directions, silently.
    pub(super) fn part(&self) {
        ip(&format!("link set {} down", self.link));
    }

    pub(super) fn rejoin(&self) {
        ip(&format!("link set {} up", self.link));
    }

    /// Returns the same command inside of the network, as one process.
    pub(super) fn inside(&self, command: &Command) -> Command {
        let mut entered = Command::new("nsenter");
        entered.arg(format!("--net=/run/netns/{}", self.name));
        entered.arg(command.get_program()).args(command.get_args()).env_clear();
        for (name, value) in command.get_envs() {
            entered.env(name, value.unwrap_or_default());
        }
        if let Some(folder) = command.get_current_dir() {
            entered.current_dir(folder);
        }
        entered.stdin(Stdio::null());
        entered
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        ip(&format!("link del {}", self.link));
        ip(&format!("netns del {}", self.name));
    }
}

fn ip(words: &str) -> bool {
    let ran = Command::new("ip").args(words.split(' ')).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}
