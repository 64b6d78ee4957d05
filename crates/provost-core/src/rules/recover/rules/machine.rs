//! Rules for faults of the machine, which no agent can fix.

use super::{FailureRule, UNRECOVERABLE};

/// Explicit messages; they come before all other rules, because a full disk also looks like a compile error.
pub(super) const EXHAUSTED: &[FailureRule] = &[
    FailureRule {
        name: "disk-full",
        reason: "the disk is full",
        any: &[
            r"no space left on device",
            r"\bENOSPC\b",
            r"disk quota exceeded",
            r"\bEDQUOT\b",
            r"database or disk is full",
            r"there is not enough space on the disk",
            r"not enough free disk space",
            r"you don't have enough free space",
            r"file size limit exceeded",
        ],
        matches: &[
            "write /var/tmp/x: no space left on device",
            "npm ERR! nospc ENOSPC: no space left on device, write",
        ],
        misses: &["there is space left on the device", "the disk is fast"],
        ..UNRECOVERABLE
    },
    FailureRule {
        name: "out-of-memory",
        reason: "there is not enough memory",
        any: &[
            r"\boom[- ]?kill(?:er|ed)?\b",
            r"\bOOMKilled\b",
            r"\bcannot allocate memory",
            r"\bENOMEM\b",
            r"(?m)^\s*(?:\w+: )?MemoryError\b",
            r"java\.lang\.OutOfMemoryError",
            r"process OOM\b",
            r"javascript heap out of memory",
            r"fatal error: runtime: out of memory",
            r"virtual memory exhausted",
            r"\bstd::bad_alloc\b",
            r"memory allocation of \d+ bytes failed",
            r"(?m)^out of memory\b",
            r"out of memory: killed process",
            r"cuda out of memory",
            r"unable to allocate [\d.]+ ?[kmgt]i?b",
        ],
        matches: &[
            "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
            "fork: Cannot allocate memory",
        ],
        misses: &["memory: 4 GiB, 3 GiB free", "assert MemoryErrorHandler is not None"],
        ..UNRECOVERABLE
    },
    FailureRule {
        name: "wrong-system",
        reason: "the program was made for another system",
        any: &[
            r"version `?'?(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+'? not found",
            r"error while loading shared libraries",
            r"exec format error",
            r"cannot execute binary file",
            r"bad cpu type in executable",
            r"library not loaded:",
            r"illegal instruction",
            r"no matching manifest for \S+ in the manifest list",
            r"does not match the (?:detected|specified) (?:host )?platform",
            r"\bEBADPLATFORM\b",
            r"unsupported platform\b",
            r"cannot open shared object file",
        ],
        matches: &[
            "./tool: error while loading shared libraries: libfoo.so.2: cannot open shared object file",
        ],
        misses: &["loading shared state", "the format of the executive summary"],
        ..UNRECOVERABLE
    },
    FailureRule {
        name: "read-only",
        reason: "the file system is read-only",
        any: &[r"read-only file system", r"\bEROFS\b"],
        matches: &["touch: cannot touch '/opt/x': Read-only file system"],
        misses: &["the file is opened read-only"],
        ..UNRECOVERABLE
    },
    FailureRule {
        name: "too-many-open",
        reason: "a limit of the machine is reached",
        any: &[
            r"too many open files",
            r"\bEMFILE\b",
            r"\bENFILE\b",
            r"system limit for number of file watchers reached",
            r"input/output error",
            r"\bEIO: i/o error",
            r"stale file handle",
        ],
        matches: &["accept: Too many open files", "cp: error reading 'x': Input/output error"],
        misses: &["3 files are open"],
        ..UNRECOVERABLE
    },
];

/// Weaker than the output of a test runner or a compiler, which may mention a missing program.
pub(super) const MISSING: &[FailureRule] = &[
    FailureRule {
        name: "command-not-found",
        reason: "a required program is not installed on this machine",
        any: &[
            r"(?m)(?::|^)\s*\S+: (?:command )?not found\s*$",
            r"command not found",
            r#"executable file not found in \$path"#,
            r"(?m)^make(?:\[\d+\])?: \S+: no such file or directory",
            r"is not recognized as an internal or external command",
            r"spawn \S+ ENOENT",
            r"bad interpreter: no such file or directory",
            r"cannot execute: required file not found",
            r"env: .{1,80}: no such file or directory",
            r"no such file or directory \(os error 2\)\s*\(could not execute",
            r"could not execute process `.*never executed",
            r"(?m)^\S+: '[\w-]+' is not a \S+ command",
            r"error: no such command: `",
            r"unable to find [\w /-]*\b(?:compiler|interpreter)\b",
            r"linker `\S+` not found",
            r"no (?:acceptable )?c compiler found",
            r"toolchain '\S+' is not installed",
            r"docker: unknown command",
            r"cannot connect to the docker daemon",
            r"no module named (?:pip|ensurepip|venv)\b",
            r"no version is set for (?:command|shim)",
            r"(?s)subprocess\.py\x22, line \d+, in _execute_child.{0,1500}FileNotFoundError: \[Errno 2\]",
        ],
        matches: &[
            "bash: line 3: shellcheck: command not found",
            "sh: 1: tsc: not found",
            "exec: \"helm\": executable file not found in $PATH",
        ],
        misses: &["404 page not found in the index of pages", "the key was not found in the map: defaulting"],
        ..UNRECOVERABLE
    },
    FailureRule {
        name: "module-not-found",
        reason: "a required library is not installed",
        any: &[
            r"ModuleNotFoundError: no module named",
            r"(?m)^\S*python3?\S*: No module named",
            r"error: cannot find module '[^'./]",
            r"error \[ERR_MODULE_NOT_FOUND\]: cannot find package",
            r"package \S+ was not found in the pkg-config search path",
            r"fatal error: [\w/.+-]+\.h(?:pp)?: no such file or directory",
            r"could not find (?:directory of )?openssl",
            r"cannot load such file -- ",
            r"can't locate \S+\.pm in @INC",
        ],
        matches: &["ModuleNotFoundError: No module named 'pandas'", "Error: Cannot find module 'express'"],
        misses: &["Error: Cannot find module './helper'", "every module was found"],
        mendable: true,
        ..UNRECOVERABLE
    },
    FailureRule {
        name: "gone",
        reason: "a repository, package or service no longer exists",
        any: &[
            r"repository (?:not found|.{1,120} does not exist)",
            r"(?:has been|was|is) (?:permanently )?(?:archived|deleted|decommissioned|deprecated) (?:and|so) (?:is|can)",
            r"this repository (?:was|is|has been) archived",
            r"\b410 gone\b",
            r"has been (?:yanked|unpublished)\b",
            r"no longer (?:available|supported|exists)\b",
            r"end of life",
        ],
        matches: &["remote: Repository not found.", "HTTP/1.1 410 Gone"],
        misses: &["the file is gone over line by line"],
        ..UNRECOVERABLE
    },
];
