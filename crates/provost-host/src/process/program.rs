//! Finds the program of a child, and explains why a start failed.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::{Spawn, StartError};

/// Looks a bare name up in the child's own `PATH`. This is done here because the standard library would do
/// it without posix_spawn.
pub(super) fn find_program(spawn: &Spawn<'_>) -> Result<PathBuf, StartError> {
    let program = Path::new(spawn.program);
    if program.components().count() > 1 || program.is_absolute() {
        return Ok(program.to_path_buf());
    }
    let path = spawn.env.iter().rev().find(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new("/usr/bin:/bin"), |(_, value)| value);
    let mut refused = None;
    for folder in std::env::split_paths(path).filter(|folder| folder.is_absolute()) {
        let candidate = folder.join(program);
        match rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK) {
            Ok(()) if candidate.is_file() => return Ok(candidate),
            Err(source @ rustix::io::Errno::ACCESS) => refused = refused.or(Some((candidate, source.into()))),
            _ => {}
        }
    }
    match refused {
        Some((program, source)) => Err(StartError::NotExecutable { program, source }),
        None => Err(StartError::NotFound { program: program.to_path_buf() }),
    }
}

/// Finds out why the start failed: the kernel reports one error for several missing things.
pub(super) fn why_not(program: PathBuf, cwd: &Path, source: io::Error) -> StartError {
    let at = if program.is_absolute() { program.clone() } else { cwd.join(&program) };
    match source.kind() {
        _ if !cwd.is_dir() => StartError::NoFolder { cwd: cwd.to_path_buf() },
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if !at.exists() => {
            StartError::NotFound { program }
        }
        // The program exists, but the interpreter in its first line does not.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            StartError::NotExecutable { program, source }
        }
        io::ErrorKind::ArgumentListTooLong => StartError::TooLong { program },
        _ if source.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            StartError::NotExecutable { program, source }
        }
        _ => StartError::Other { program, source },
    }
}
