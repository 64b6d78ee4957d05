//! Overlay over the user's home that keeps what agents of one role write, across attempts.
//!
//! **Invariant:** two attempts never use the same layer at once; the second gets another one.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use provost_core::model::hash::Hash;

use crate::files::folder;

/// Most simultaneous attempts of one role.
const AT_ONCE: usize = 256;

#[derive(Debug)]
pub struct HomeLayer {
    /// Contains `upper` and `work`.
    pub folder: PathBuf,
    // Held for its lock.
    _lock: File,
}

impl HomeLayer {
    pub fn take(homes: &Path, role: &str) -> io::Result<Self> {
        let role = homes.join(folder_name(role));
        folder::make_private(&role)?;
        for number in 1..=AT_ONCE {
            let folder = role.join(number.to_string());
            folder::make_private(&folder)?;
            let lock = File::create(folder.join("lock"))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => return Err(error),
            }
            folder::make_private(&folder.join("upper"))?;
            folder::make_private(&folder.join("work"))?;
            return Ok(Self { folder, _lock: lock });
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

impl HomeLayer {
    /// Moves the content away, so that the next attempt sees the user's home unchanged. Returns the new
    /// path, if there was any content.
    pub fn set_aside(&self) -> Option<PathBuf> {
        let [upper, work, aside] = ["upper", "work", "aside"].map(|name| self.folder.join(name));
        // A folder that cannot be listed counts as not empty.
        if fs::read_dir(&upper).is_ok_and(|mut entries| entries.next().is_none()) {
            return None;
        }
        folder::remove(&aside);
        fs::rename(&upper, &aside).ok()?;
        folder::remove(&work);
        folder::make_private(&upper).and_then(|()| folder::make_private(&work)).ok()?;
        Some(aside)
    }
}

/// Returns a folder name for a role, which may have any name.
fn folder_name(role: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match !role.is_empty() && role.len() <= 64 && role.bytes().all(is_plain) {
        true => role.to_owned(),
        false => format!("role.{}", &Hash::of(role.as_bytes()).to_string()[..16]),
    }
}

#[cfg(test)]
mod tests {
    use super::HomeLayer;

    #[test]
    fn two_at_once_get_two_and_the_next_gets_the_first_again() {
        let homes = tempfile::tempdir().expect("a folder");
        let first = HomeLayer::take(homes.path(), "coder").expect("a layer");
        let second = HomeLayer::take(homes.path(), "coder").expect("a layer");
        assert_ne!(first.folder, second.folder);
        let place = first.folder.clone();
        drop(first);
        assert_eq!(HomeLayer::take(homes.path(), "coder").expect("a layer").folder, place);
        let layer = HomeLayer::take(homes.path(), "coder").expect("a layer");
        assert_eq!(layer.set_aside(), None);
        std::fs::write(layer.folder.join("upper/file"), "").expect("a file");
        let aside = layer.set_aside().expect("it was put away");
        assert!(aside.join("file").exists() && !layer.folder.join("upper/file").exists());
        let odd = HomeLayer::take(homes.path(), "../../x").expect("a layer");
        assert!(odd.folder.starts_with(homes.path()), "{:?}", odd.folder);
    }
}
