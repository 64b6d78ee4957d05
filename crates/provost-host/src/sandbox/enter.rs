//! Runs inside the confined process: gives up the rights that the orders name, reports it, and executes the
//! program.
//!
//! **Invariant:** the program is started only with every restriction in place; if one is not available, the
//! process ends instead.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::process::enter_cgroup;

use super::confine::ConfineOrders;
use super::{calls, capabilities, inside, landlock, room};

/// Applies the orders and executes the command. Returns only on failure.
pub fn enter(orders: &str, command: &[OsString]) -> io::Result<Infallible> {
    match orders {
        room::ORDER => return room::build(command),
        room::ONLY_REPORT => return room::only_report(command),
        inside::ORDER => return inside::enter(command),
        inside::BEGIN => return inside::begin(command),
        _ => {}
    }
    let (program, args) = command.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
    let orders: ConfineOrders = serde_json::from_str(orders)?;
    // Opened while this is still allowed; closed by the exec.
    let mut status = File::options().append(true).open(&orders.status)?;
    if let Some(cgroup) = &orders.cgroup {
        // Before anything of the program exists, so that nothing of it is outside.
        enter_cgroup(cgroup)?;
    }
    let opened = landlock::open(&orders.rules)?;
    capabilities::give_up()?;
    landlock::restrict(opened, orders.network)?;
    calls::forbid(orders.network)?;
    writeln!(status, "{{\"entered\":true}}")?;
    let error = Command::new(program).args(args).exec();
    writeln!(status, "{{\"entered\":false}}")?;
    Err(io::Error::new(error.kind(), format!("{}: {error}", program.display())))
}
