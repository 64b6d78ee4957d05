//! Digests of the files a plan's contracts name, so that an approval can be bound to them.
//!
//! **Invariant:** only regular files inside the workspace are opened; no link leads out of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::{Component, Path};

use provost_core::chain::Hash;
use provost_core::event::NamedFile;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

const FILES_MAX: usize = 512;
const SIZE_MAX: u64 = 64 << 20;

/// The digests of those of `paths` that are regular files inside `workspace`, each once, in the order
/// given. Others are left out, and so are files above 64 MiB and whatever follows the 512th.
pub fn digests(workspace: &Path, paths: &[String]) -> Vec<NamedFile> {
    let Ok(root) = File::open(workspace) else { return Vec::new() };
    let mut seen = BTreeSet::new();
    paths
        .iter()
        .filter(|path| seen.insert(path.as_str()))
        .take(FILES_MAX)
        .filter_map(|path| Some(NamedFile { path: path.clone(), sha256: digest(&root, path)?.to_string() }))
        .collect()
}

fn digest(root: &File, path: &str) -> Option<Hash> {
    let relative = Path::new(path);
    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.is_empty() || !relative.components().all(plain) {
        return None;
    }
    let file = open_beneath(root, relative)?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > SIZE_MAX {
        return None;
    }
    streamed(file)
}

/// A file may grow while it is read, so its size is watched to the end.
fn streamed(file: File) -> Option<Hash> {
    let mut file = file.take(SIZE_MAX + 1);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                hasher.update(&buffer[..read]);
                total += read as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    (total <= SIZE_MAX).then(|| Hash(hasher.finalize().into()))
}

/// Never waits for a pipe, never leaves `root`. Links inside the workspace are followed where the
/// kernel can promise that they stay inside, and refused elsewhere.
fn open_beneath(root: &File, path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        // EAGAIN: something was renamed on the way.
        for _ in 0..8 {
            match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
                Ok(file) => return Some(File::from(file)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::NOSYS | Errno::PERM) => break,
                Err(_) => return None,
            }
        }
    }
    walk(root, path, flags).ok()
}

/// One component at a time, following no link.
fn walk(root: &File, path: &Path, flags: OFlags) -> Result<File, Errno> {
    let mut folder = rustix::io::dup(root)?;
    let parts: Vec<_> = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let (last, before) = parts.split_last().ok_or(Errno::NOENT)?;
    for part in before {
        let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        folder = rustix::fs::openat(&folder, part.as_os_str(), open, Mode::empty())?;
    }
    rustix::fs::openat(&folder, last.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty()).map(File::from)
}

/// Puts a file in place as a whole: whoever reads it sees the old text or the new one.
pub fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut fresh = tempfile::Builder::new().prefix(".provost-").tempfile_in(folder)?;
    fresh.write_all(text)?;
    fresh.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The beginning of a text file, for a prompt. What is no text says so instead.
pub fn beginning(path: &Path, limit: usize) -> std::io::Result<String> {
    use std::io::{Error, ErrorKind, Read as _};
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(limit as u64).read_to_end(&mut bytes)?;
    if bytes.contains(&0) {
        return Err(Error::new(ErrorKind::InvalidData, "it is not text"));
    }
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if metadata.len() > limit as u64 {
        text.push_str(&format!("\n[… {} more bytes]", metadata.len() - limit as u64));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_inside_the_workspace_are_digested() {
        let outside = tempfile::tempdir().expect("a folder");
        let root = tempfile::tempdir().expect("a folder");
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir(at("sub")).expect("a folder");
        std::fs::write(at("a"), "abc").expect("a file");
        std::fs::write(at("sub/b"), "abc").expect("a file");
        std::fs::write(outside.path().join("secret"), "abc").expect("a file");
        symlink(outside.path(), at("out")).expect("a link");
        symlink(outside.path().join("secret"), at("link")).expect("a link");
        symlink("../../../etc", at("sub/up")).expect("a link");
        let huge = File::create(at("huge")).expect("a file");
        huge.set_len(SIZE_MAX + 1).expect("a size");
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RWXU, 0)
            .expect("a pipe");

        let absolute = outside.path().join("secret").display().to_string();
        let asked = [
            "a",
            "sub/b",
            "./a",
            "a",
            "sub",
            "out/secret",
            "link",
            "sub/up/passwd",
            "../x",
            &absolute,
            "huge",
            "pipe",
            "",
            "no",
        ]
        .map(str::to_owned);
        let found = digests(root.path(), &asked);
        let names: Vec<_> = found.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names, ["a", "sub/b", "./a"]);
        assert_eq!(found[0].sha256, Hash::of(b"abc").to_string());
    }

    #[test]
    fn the_walk_without_help_of_the_kernel_follows_no_link() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("sub")).expect("a folder");
        std::fs::write(root.path().join("sub/b"), "abc").expect("a file");
        symlink("sub", root.path().join("link")).expect("a link");
        let folder = File::open(root.path()).expect("the folder");
        assert!(walk(&folder, Path::new("./sub/b"), OFlags::RDONLY).is_ok());
        assert!(walk(&folder, Path::new("link/b"), OFlags::RDONLY).is_err());
    }

    #[test]
    fn there_is_an_end_to_how_many_are_read() {
        let root = tempfile::tempdir().expect("a folder");
        let names: Vec<String> = (0..600).map(|number| format!("f{number}")).collect();
        names.iter().for_each(|name| std::fs::write(root.path().join(name), name).expect("a file"));
        assert_eq!(digests(root.path(), &names).len(), FILES_MAX);
    }
}
