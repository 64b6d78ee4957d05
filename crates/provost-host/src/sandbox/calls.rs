//! Forbids system calls that no confined program needs: access to other processes and to the kernel, and
//! sockets to services that would act for the caller.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

const FORBIDDEN: [libc::c_long; 19] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_open_by_handle_at,
];
// The type of these constants differs between C libraries.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
/// The x32 variant of the system calls on x86-64, which a filter sees under other numbers.
const X32: libc::c_long = 0x4000_0000;

/// Forbids the calls. `network` is true if network sockets may be created. Sockets with a name in the file
/// system may not: permissions do not stop a confined program from connecting to the user's own session,
/// terminals and containers.
pub(super) fn forbid(network: bool) -> io::Result<()> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        FORBIDDEN.iter().map(|number| (*number, Vec::new())).collect();
    let word = SeccompCmpArgLen::Dword;
    // Limits of other processes.
    rules.insert(libc::SYS_prlimit64, vec![rule(0, word.clone(), SeccompCmpOp::Ne, 0)?]);
    // Input into another process's terminal.
    let typing = rule(1, word.clone(), SeccompCmpOp::Eq, TIOCSTI)?;
    let console = rule(1, word.clone(), SeccompCmpOp::Eq, TIOCLINUX)?;
    rules.insert(libc::SYS_ioctl, vec![typing, console]);
    let local = u64::from(libc::AF_UNIX.unsigned_abs());
    let sockets = match network {
        true => vec![rule(0, word.clone(), SeccompCmpOp::Eq, local)?],
        false => Vec::new(),
    };
    rules.insert(libc::SYS_socket, sockets);
    // A datagram socket of a pair can be connected to another address.
    let kind = SeccompCmpOp::MaskedEq(0xf);
    let datagram = u64::from(libc::SOCK_DGRAM.unsigned_abs());
    rules.insert(libc::SYS_socketpair, vec![rule(1, word, kind, datagram)?]);
    if cfg!(target_arch = "x86_64") {
        let again: Vec<_> = rules.iter().map(|(number, rules)| (number | X32, rules.clone())).collect();
        rules.extend(again);
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let machine = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refused, machine).map_err(io::Error::other)?;
    let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

fn rule(argument: u8, width: SeccompCmpArgLen, how: SeccompCmpOp, value: u64) -> io::Result<SeccompRule> {
    let condition = SeccompCondition::new(argument, width, how, value).map_err(io::Error::other)?;
    SeccompRule::new(vec![condition]).map_err(io::Error::other)
}
