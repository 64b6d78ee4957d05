//! Protects the processes of a check from each other: the program under test cannot read or control the
//! process that judges it.
//!
//! Three measures work together. System calls that access another process are denied, so that a debugger in
//! a check fails with "Operation not permitted". `/proc` is read-only, so that no memory can be written
//! through it. And a library that every program loads first tells the kernel not to let other processes of
//! the same user read its memory, its environment and its open files (`PR_SET_DUMPABLE`).
//!
//! Not covered: other processes in the check can read (not write) a program without a dynamic loader, and
//! any program in the moment before its loader has run.

use std::io;

use seccompiler::{BpfProgram, sock_filter};

/// System calls of one architecture: its code in the kernel, the numbers of the calls that access another
/// process, and the number of the one that sets limits.
struct Calls {
    architecture: u32,
    reaching: &'static [u32],
    limits: u32,
}

// In each: ptrace, process_vm_readv, process_vm_writev, kcmp, pidfd_getfd.
#[cfg(target_arch = "x86_64")]
const CALLS: [Calls; 2] = [
    // The last three are x32 numbers, which old kernels also accepted here.
    Calls { architecture: 0xc000_003e, reaching: &[101, 310, 311, 312, 438, 521, 539, 540], limits: 302 },
    Calls { architecture: 0x4000_0003, reaching: &[26, 347, 348, 349, 438], limits: 340 },
];
#[cfg(target_arch = "aarch64")]
const CALLS: [Calls; 2] = [
    Calls { architecture: 0xc000_00b7, reaching: &[117, 270, 271, 272, 438], limits: 261 },
    Calls { architecture: 0x4000_0028, reaching: &[26, 376, 377, 378, 438], limits: 369 },
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: [Calls; 0] = [];

/// System call numbers from here on belong to the x32 interface.
const X32: u32 = 0x4000_0000;

const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const REFUSE: u32 = 0x0005_0000;
/// Offsets of the call's number, its architecture and its first argument in the filter's input.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST: u32 = 16;

/// Denies this process and all its descendants the system calls that access another process.
pub(super) fn forbid_tracing() -> io::Result<()> {
    if CALLS.is_empty() {
        return Err(io::Error::other("provost cannot deny tracing on this machine's processor"));
    }
    seccompiler::apply_filter(&filter()).map_err(io::Error::other)
}

fn filter() -> BpfProgram {
    let mut program = vec![word(LOAD, ARCHITECTURE)];
    for calls in &CALLS {
        let block = block(calls);
        program.push(jump(IF_EQUAL, calls.architecture, 0, block.len()));
        program.extend(block);
    }
    program.push(word(RETURN, REFUSE | libc::ENOSYS.unsigned_abs()));
    program
}

fn block(calls: &Calls) -> BpfProgram {
    // After the tests follow: allow, limits (3), refuse, no such call.
    let tests = calls.reaching.len() + 2;
    let mut block = vec![word(LOAD, NUMBER), jump(IF_AT_LEAST, X32, tests + 4, 0)];
    for (index, number) in calls.reaching.iter().enumerate() {
        let left = tests - 2 - index;
        block.push(jump(IF_EQUAL, *number, left + 3, 0));
    }
    block.push(jump(IF_EQUAL, calls.limits, 1, 0));
    block.push(word(RETURN, ALLOW));
    // A process may change its own limits.
    block.push(word(LOAD, FIRST));
    block.push(jump(IF_EQUAL, 0, 1, 0));
    block.push(word(RETURN, REFUSE | libc::EPERM.unsigned_abs()));
    block.push(word(RETURN, ALLOW));
    block.push(word(RETURN, REFUSE | libc::ENOSYS.unsigned_abs()));
    block
}

fn word(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

fn jump(code: u16, k: u32, then: usize, otherwise: usize) -> sock_filter {
    let short = |distance: usize| u8::try_from(distance).unwrap_or(u8::MAX);
    sock_filter { code, jt: short(then), jf: short(otherwise), k }
}

/// The name contains one that AddressSanitizer looks for: a program built with it refuses to start if
/// another library than its own is loaded first.
pub(super) const LIBRARY: &str = "provost-untraced/libasan.so";

/// Machine code of `prctl(PR_SET_DUMPABLE, 0)` and a return.
#[cfg(target_arch = "x86_64")]
const CODE: &[u8] = &[
    0xf3, 0x0f, 0x1e, 0xfa, // endbr64
    0xb8, 0x9d, 0x00, 0x00, 0x00, // mov eax, 157
    0xbf, 0x04, 0x00, 0x00, 0x00, // mov edi, 4
    0x31, 0xf6, // xor esi, esi
    0x31, 0xd2, // xor edx, edx
    0x45, 0x31, 0xd2, // xor r10d, r10d
    0x45, 0x31, 0xc0, // xor r8d, r8d
    0x0f, 0x05, // syscall
    0xc3, // ret
];
#[cfg(target_arch = "aarch64")]
const CODE: &[u8] = &[
    0x5f, 0x24, 0x03, 0xd5, // bti c
    0xe8, 0x14, 0x80, 0xd2, // mov x8, 167
    0x80, 0x00, 0x80, 0xd2, // mov x0, 4
    0x01, 0x00, 0x80, 0xd2, // mov x1, 0
    0x02, 0x00, 0x80, 0xd2, // mov x2, 0
    0x03, 0x00, 0x80, 0xd2, // mov x3, 0
    0x04, 0x00, 0x80, 0xd2, // mov x4, 0
    0x01, 0x00, 0x00, 0xd4, // svc 0
    0xc0, 0x03, 0x5f, 0xd6, // ret
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CODE: &[u8] = &[];

/// Offsets of the parts of the library: its tables of names, its code, its dynamic section.
const NAMES: u64 = 0x120;
const SYMBOLS: u64 = 0x128;
const START: u64 = 0x140;
const DYNAMIC: u64 = 0x180;
/// The largest page size of these kernels; the writable part begins this far after the rest.
const PAGE: u64 = 0x10000;

/// Returns a shared library that only runs [`CODE`] when it is loaded; `None` for other processors.
pub(super) fn library() -> Option<Vec<u8>> {
    let machine: u16 = match std::env::consts::ARCH {
        "x86_64" => 62,
        "aarch64" => 183,
        _ => return None,
    };
    // DT_INIT, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL
    let dynamic: [(u64, u64); 6] = [(12, START), (5, NAMES), (6, SYMBOLS), (10, 1), (11, 24), (0, 0)];
    let size = dynamic.len() as u64 * 16;
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half = |bytes: &mut Vec<u8>, values: &[u16]| {
        values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    };
    let whole = |bytes: &mut Vec<u8>, values: &[u64]| {
        values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    };
    // A shared object; its segments start at offset 64, and it has no sections.
    half(&mut bytes, &[3, machine]);
    bytes.extend(1_u32.to_le_bytes());
    whole(&mut bytes, &[0, 64, 0]);
    bytes.extend(0_u32.to_le_bytes());
    half(&mut bytes, &[64, 56, 4, 64, 0, 0]);
    let mut segment = |kind: u32, flags: u32, numbers: [u64; 6]| {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        whole(&mut bytes, &numbers);
    };
    // PT_LOAD read and execute, PT_LOAD read and write, PT_DYNAMIC, PT_GNU_STACK
    segment(1, 5, [0, 0, 0, DYNAMIC, DYNAMIC, PAGE]);
    segment(1, 6, [DYNAMIC, PAGE + DYNAMIC, PAGE + DYNAMIC, size, size, PAGE]);
    segment(2, 6, [DYNAMIC, PAGE + DYNAMIC, PAGE + DYNAMIC, size, size, 8]);
    segment(0x6474_e551, 6, [0, 0, 0, 0, 0, 16]);
    bytes.resize(usize::try_from(START).ok()?, 0);
    bytes.extend_from_slice(CODE);
    bytes.resize(usize::try_from(DYNAMIC).ok()?, 0);
    for (tag, value) in dynamic {
        whole(&mut bytes, &[tag, value]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{IF_AT_LEAST, IF_EQUAL, LOAD, RETURN, filter};

    /// Returns the filter's answer to a call.
    fn answer(architecture: u32, number: u32, first: u32) -> u32 {
        let program = filter();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            match step.code {
                LOAD => {
                    loaded = match step.k {
                        0 => number,
                        4 => architecture,
                        _ => first,
                    }
                }
                IF_EQUAL => at += usize::from(if loaded == step.k { step.jt } else { step.jf }),
                IF_AT_LEAST => at += usize::from(if loaded >= step.k { step.jt } else { step.jf }),
                RETURN => return step.k,
                code => panic!("{code}"),
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_that_reach_into_another_process_are_refused_however_they_are_made() {
        let (allow, refuse, unknown) = (0x7fff_0000, 0x0005_0001, 0x0005_0026);
        let (native, old) = (0xc000_003e, 0x4000_0003);
        for number in [101, 310, 311, 312, 438, 521, 539, 540] {
            assert_eq!(answer(native, number, 0), refuse, "{number}");
        }
        for number in [26, 347, 348, 349, 438] {
            assert_eq!(answer(old, number, 0), refuse, "{number}");
        }
        for number in [0, 1, 26, 59, 100, 102, 309, 313, 435] {
            assert_eq!(answer(native, number, 7), allow, "{number}");
        }
        assert_eq!(answer(old, 101, 0), allow);
        assert_eq!([answer(native, 302, 0), answer(native, 302, 7)], [allow, refuse]);
        assert_eq!([answer(native, 0x4000_0000 | 521, 0), answer(0x1234, 1, 0)], [unknown, unknown]);
    }
}
