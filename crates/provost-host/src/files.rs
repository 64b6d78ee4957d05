//! Reads and writes single files in folders that agents can write too: digests of the files that contracts
//! name, texts for prompts, and reports.
//!
//! **Invariant:** in a folder that agents can write, only regular files below it are opened. No symbolic
//! link leads out of the folder, and for prompts and reports no link is followed at all.

pub(crate) mod bounded_lock;
pub(crate) mod folder;
pub(crate) mod safe_open;

pub use folder::make_private as make_private_folder;
pub use folder::remove as remove_folder;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use provost_core::model::event::NamedFile;
use provost_core::model::hash::Hash;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

const FILES_MAX: usize = 512;
const SIZE_MAX: u64 = 64 << 20;

/// Returns the digests of those `paths` that are regular files inside `workspace`, each path once, in the
/// order given. Leaves out all others, files above 64 MiB, and every path after the 512th.
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

/// Hashes a file as a stream. The file may grow while it is read, so the size limit is checked at the end.
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

/// Opens a file below `root` without blocking on a pipe. Symbolic links inside the workspace are followed
/// if the kernel can guarantee that they stay inside (`openat2`); otherwise the path is refused.
fn open_beneath(root: &File, path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        // EAGAIN: a folder on the path was renamed during the lookup.
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

/// Opens the path one component at a time, following no symbolic link.
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

/// Replaces a file atomically: a reader sees either the old text or the new one.
pub fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut fresh = tempfile::Builder::new().prefix(".provost-").tempfile_in(folder)?;
    fresh.write_all(text)?;
    fresh.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Reads the beginning of a text file, for a prompt. A file that is not text is an error.
///
/// A relative path lies in the workspace, which agents may write: there no symbolic link is followed.
/// Outside the workspace, a link at the end of the path is refused.
pub fn beginning(workspace: &Path, path: &Path, limit: usize) -> io::Result<String> {
    let full = workspace.join(path);
    let file = match within(workspace, &full) {
        Some((root, inside)) => {
            let top = safe_open::top(&root)?;
            safe_open::file(&top, plain(&inside)?).map_err(|errno| refused(&top, &inside, errno))?
        }
        None => match std::fs::read_link(&full) {
            Ok(leads_to) => return Err(a_link(&leads_to)),
            Err(_) => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                File::from(rustix::fs::open(&full, flags, Mode::empty())?)
            }
        },
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes)?;
    if bytes.contains(&0) {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is not text"));
    }
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if metadata.len() > limit as u64 {
        text.push_str(&format!("\n[… {} more bytes]", metadata.len() - limit as u64));
    }
    Ok(text)
}

/// Mode in which [`write_report`] writes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Replaces the content.
    Whole,
    /// Appends to the content.
    Added,
}

/// Writes a file that a person named, while agents can write `workspace`.
///
/// Inside the workspace no symbolic link is followed: a link at the end of the path is replaced by the
/// file, a link earlier in the path is an error. Outside, a link at the end is an error, except below
/// `/dev` and `/proc`.
pub fn write_report(workspace: &Path, path: &Path, text: &[u8], put: Put) -> io::Result<()> {
    let full = std::path::absolute(path)?;
    if let Some((root, inside)) = within(workspace, &full) {
        return write_beneath(&root, &inside, text, put);
    }
    let is_system = full.starts_with("/dev") || full.starts_with("/proc");
    if !is_system && let Ok(leads_to) = std::fs::read_link(&full) {
        return Err(a_link(&leads_to));
    }
    let mut options = File::options();
    let add = put == Put::Added;
    options.create(true).write(true).append(add).truncate(!add);
    options.open(&full)?.write_all(text)
}

/// Splits `path` into the ancestor folder that is the workspace (under any name) and the rest of the path.
fn within(workspace: &Path, path: &Path) -> Option<(PathBuf, PathBuf)> {
    let real = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    // Take the outermost match: below it an agent may have chosen every name.
    let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
    folders.reverse();
    let root = folders.into_iter().find(|folder| folder.canonicalize().is_ok_and(|found| found == real))?;
    Some((root.to_owned(), path.strip_prefix(root).ok()?.to_owned()))
}

/// Writes to a file below `root`. Follows no symbolic link: a link at the end of the path is replaced, and
/// so is a file that has a second hard link.
pub fn write_beneath(root: &Path, path: &Path, text: &[u8], put: Put) -> io::Result<()> {
    let top = safe_open::top(root)?;
    let name = plain(path)?;
    let failed = |errno| refused(&top, path, errno);
    if put == Put::Added {
        match safe_open::writable(&top, name, OFlags::APPEND | OFlags::CREATE) {
            Ok(mut file) => {
                let stamp = safe_open::stamp(&file)?;
                if stamp.kind() == FileType::RegularFile && stamp.links == 1 {
                    return file.write_all(text);
                }
            }
            Err(Errno::LOOP) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = match parent {
        Some(parent) => safe_open::folder(&top, parent.as_os_str().as_bytes()).map_err(failed)?,
        None => rustix::io::dup(&top)?,
    };
    let last = path.file_name().unwrap_or_default();
    // A real folder is in the way, not a link to one.
    if safe_open::stamp_at(&folder, last.as_bytes()).is_ok_and(|found| found.kind() == FileType::Directory) {
        return Err(ErrorKind::IsADirectory.into());
    }
    let fresh = format!(".provost-{}-{:x}", std::process::id(), Hash::of(text).0[0]);
    let _ = rustix::fs::unlinkat(&folder, fresh.as_str(), AtFlags::empty());
    let mut file = safe_open::writable(&folder, fresh.as_bytes(), OFlags::CREATE | OFlags::EXCL)?;
    let done = file.write_all(text);
    let done = done.and_then(|()| Ok(rustix::fs::renameat(&folder, fresh.as_str(), &folder, last)?));
    done.inspect_err(|_| {
        let _ = rustix::fs::unlinkat(&folder, fresh.as_str(), AtFlags::empty());
    })
}

/// Creates a file below `root`, with the folders above it. Follows no symbolic link; an existing file is an
/// error.
pub fn write_new_file(root: &Path, path: &Path, text: &[u8]) -> io::Result<()> {
    let top = safe_open::top(root)?;
    let name = plain(path)?;
    let mut folders: Vec<&Path> =
        path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()).collect();
    folders.reverse();
    for folder in folders {
        match rustix::fs::mkdirat(&top, folder, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(refused(&top, folder, errno)),
        }
        safe_open::folder(&top, folder.as_os_str().as_bytes())
            .map_err(|errno| refused(&top, folder, errno))?;
    }
    let mut file = safe_open::new_file(&top, name, 0o644).map_err(|errno| refused(&top, path, errno))?;
    file.write_all(text)
}

/// Returns the path as bytes if it only goes down (no `..`, not absolute).
fn plain(path: &Path) -> io::Result<&[u8]> {
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    match path.components().all(is_plain) && path.file_name().is_some() {
        true => Ok(path.as_os_str().as_bytes()),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "it is not inside the workspace")),
    }
}

/// Makes the error of an open that failed; names the symbolic link that was not followed, if there is one.
fn refused(top: &OwnedFd, path: &Path, errno: Errno) -> io::Error {
    if matches!(errno, Errno::LOOP | Errno::NOTDIR | Errno::XDEV) {
        let mut ways: Vec<&Path> = path.ancestors().filter(|way| !way.as_os_str().is_empty()).collect();
        ways.reverse();
        for way in ways {
            if let Ok(target) = safe_open::target(top, way.as_os_str().as_bytes()) {
                return a_link(Path::new(OsStr::from_bytes(&target)));
            }
        }
    }
    errno.into()
}

fn a_link(leads_to: &Path) -> io::Error {
    let words =
        format!("it is a link to {:?}, and provost does not follow links; name that file itself", leads_to);
    io::Error::new(ErrorKind::InvalidInput, words)
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
    fn a_text_for_a_prompt_is_read_through_no_link() {
        let outside = tempfile::tempdir().expect("a folder");
        let root = tempfile::tempdir().expect("a folder");
        std::fs::write(outside.path().join("secret"), "abc").expect("a file");
        std::fs::create_dir(root.path().join("docs")).expect("a folder");
        std::fs::write(root.path().join("docs/a.md"), "words").expect("a file");
        symlink(outside.path().join("secret"), root.path().join("link.md")).expect("a link");
        symlink(outside.path(), root.path().join("out")).expect("a link");
        symlink("docs/a.md", root.path().join("near.md")).expect("a link");
        let read = |name: &str| beginning(root.path(), Path::new(name), 100);
        assert_eq!(read("docs/a.md").expect("text"), "words");
        assert_eq!(read("./docs/a.md").expect("text"), "words");
        for name in ["link.md", "out/secret", "near.md"] {
            let said = read(name).expect_err(name).to_string();
            assert!(said.contains("a link to"), "{name}: {said}");
        }
        let outer = outside.path().join("link");
        symlink(outside.path().join("secret"), &outer).expect("a link");
        for name in ["docs/../../secret", "docs", &outer.display().to_string()] {
            assert!(read(name).is_err(), "{name}");
        }
        assert_eq!(read("no.md").expect_err("nothing").kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_report_inside_the_workspace_is_written_through_no_link() {
        let outside = tempfile::tempdir().expect("a folder");
        let root = tempfile::tempdir().expect("a folder");
        let at = |name: &str| root.path().join(name);
        let precious = outside.path().join("precious");
        std::fs::write(&precious, "mine").expect("a file");
        let write = |name: &str, put| write_report(root.path(), &at(name), b"report", put);
        for (name, put) in [("whole.xml", Put::Whole), ("added.md", Put::Added)] {
            symlink(&precious, at(name)).expect("a link");
            write(name, put).expect("written");
            assert_eq!(std::fs::read_to_string(at(name)).expect("read"), "report", "{name}");
            assert!(!at(name).is_symlink(), "{name}");
            std::fs::remove_file(at(name)).expect("removed");
            std::fs::hard_link(&precious, at(name)).expect("a second name");
            write(name, put).expect("written");
        }
        symlink(outside.path(), at("out")).expect("a link");
        assert!(write("out/precious", Put::Whole).is_err());
        assert!(write("out/precious", Put::Added).is_err());
        assert_eq!(std::fs::read_to_string(&precious).expect("read"), "mine");
        // As people use it.
        std::fs::create_dir(at("reports")).expect("a folder");
        for _ in 0..2 {
            write("reports/a.xml", Put::Whole).expect("written");
            write("reports/b.md", Put::Added).expect("written");
        }
        assert_eq!(std::fs::read_to_string(at("reports/a.xml")).expect("read"), "report");
        assert_eq!(std::fs::read_to_string(at("reports/b.md")).expect("read"), "reportreport");
        // Through another name of the workspace, and outside the workspace.
        symlink(root.path(), outside.path().join("work")).expect("a link");
        let by_link = outside.path().join("work/c.xml");
        write_report(root.path(), &by_link, b"report", Put::Whole).expect("written");
        assert!(at("c.xml").is_file());
        let elsewhere = outside.path().join("d.xml");
        write_report(root.path(), &elsewhere, b"report", Put::Whole).expect("written");
        symlink(&precious, outside.path().join("e.xml")).expect("a link");
        assert!(write_report(root.path(), &outside.path().join("e.xml"), b"x", Put::Whole).is_err());
        write_report(root.path(), Path::new("/dev/null"), b"report", Put::Whole).expect("written");
    }

    #[test]
    fn there_is_an_end_to_how_many_are_read() {
        let root = tempfile::tempdir().expect("a folder");
        let names: Vec<String> = (0..600).map(|number| format!("f{number}")).collect();
        names.iter().for_each(|name| std::fs::write(root.path().join(name), name).expect("a file"));
        assert_eq!(digests(root.path(), &names).len(), FILES_MAX);
    }
}
