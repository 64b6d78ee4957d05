//! A process of a run that provost could not end.

use super::proc_files;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    pub pid: u32,
    pub name: String,
}

impl Survivor {
    pub(super) fn of(pid: i32) -> Self {
        Self { pid: pid.unsigned_abs(), name: proc_files::name(pid) }
    }

    /// Returns whether the process is still alive.
    pub fn is_alive(&self) -> bool {
        proc_files::stat(self.pid.cast_signed()).is_some_and(|stat| !stat.is_dead())
    }
}

impl std::fmt::Display for Survivor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}
