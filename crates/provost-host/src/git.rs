//! Reads the few facts of a repository that provost needs, directly from its files.
//!
//! **Invariant:** this module never runs git. A repository that an agent can write may name programs that
//! git would run: hooks, filters, aliases, pagers.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use crate::files::safe_open;

mod identity;

pub use identity::identity;

/// Limit for files of one line: refs and `.git` files.
const LINE_MAX: u64 = 4096;
const PACKED_MAX: u64 = 64 << 20;
const INDEX_MAX: u64 = 64 << 20;
pub(crate) const SPAWN_NOTE: &str = "provost-spawned";
/// Limit on the length of a chain of symbolic refs.
const HOPS: usize = 5;
/// Limit on the entries that are read in one folder of refs.
const REFS_MAX: usize = 100_000;

/// Returns the commit of HEAD in the checkout at `workspace`. `None`: no repository, no commit yet, or a
/// ref storage format that this version cannot read.
pub fn head(workspace: &Path) -> Option<String> {
    let own = git_folder(workspace)?;
    let value = ref_line(&own, "HEAD")?;
    resolve(&own, value)
}

/// Returns the commit of a ref, given its full name.
pub fn find(workspace: &Path, name: &str) -> Option<String> {
    resolve(&git_folder(workspace)?, format!("ref: {name}"))
}

fn resolve(own: &Path, mut value: String) -> Option<String> {
    let shared = shared_folder(own);
    for _ in 0..HOPS {
        let Some(name) = value.strip_prefix("ref:").map(str::trim) else { return commit_id(&value) };
        if !is_ref_name(name) {
            return None;
        }
        value = match ref_line(own, name).or_else(|| ref_line(&shared, name)) {
            Some(next) => next,
            None => return packed(&shared, name),
        };
    }
    None
}

/// Returns the folders of all existing checkouts of the repository: this one and its worktrees.
pub fn checkouts(workspace: &Path) -> Vec<PathBuf> {
    let Some(shared) = git_folder(workspace).map(|own| shared_folder(&own)) else { return Vec::new() };
    let main = shared.canonicalize().ok().and_then(|shared| shared.parent().map(Path::to_owned));
    let others = shared.join("worktrees").read_dir().into_iter().flatten().flatten();
    let others = others.filter_map(|entry| {
        let file = PathBuf::from(line(&entry.path().join("gitdir"))?);
        Some(entry.path().join(file).parent()?.to_owned())
    });
    let all = main.into_iter().chain(others).chain([workspace.to_owned()]);
    let there = all.filter(|place| place.join(".git").exists()).filter_map(|place| place.canonicalize().ok());
    let mut there: Vec<PathBuf> = there.collect();
    there.sort();
    there.dedup();
    there
}

/// Returns the path of the user's global git ignore file; reads only plain values of the configuration.
pub fn excludes() -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME").filter(|home| !home.is_empty())?);
    let folder = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
    let folder = folder.map_or_else(|| home.join(".config"), PathBuf::from).join("git");
    let mut found = None;
    for text in [folder.join("config"), home.join(".gitconfig")].map(std::fs::read_to_string) {
        let mut in_core = false;
        for line in text.unwrap_or_default().lines().map(str::trim) {
            if line.starts_with('[') {
                in_core = line.eq_ignore_ascii_case("[core]");
            } else if let (true, Some((key, value))) = (in_core, line.split_once('='))
                && key.trim().eq_ignore_ascii_case("excludesfile")
            {
                let value = value.trim().trim_matches('"');
                found = Some(match value.strip_prefix("~/") {
                    Some(rest) => home.join(rest),
                    None => PathBuf::from(value),
                });
            }
        }
    }
    Some(found.unwrap_or_else(|| folder.join("ignore")))
}

/// Returns the nearest folder from `from` upwards that is the top of a checkout.
pub fn top(from: &Path) -> Option<PathBuf> {
    from.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_owned)
}

/// Returns the folder that all worktrees of a repository share; it identifies the repository.
pub fn repository(workspace: &Path) -> Option<PathBuf> {
    shared_folder(&git_folder(workspace)?).canonicalize().ok()
}

/// Returns the main checkout that a worktree belongs to, or `None` for the main checkout itself.
pub fn main_checkout(workspace: &Path) -> Option<PathBuf> {
    let own = git_folder(workspace)?;
    let shared = shared_folder(&own).canonicalize().ok()?;
    let is_main = own.canonicalize().ok()? == shared;
    let top = shared.parent().filter(|_| shared.file_name().is_some_and(|name| name == ".git"))?;
    (!is_main).then(|| top.to_owned())
}

/// Returns the path of the note, in git's metadata of a worktree, that says that provost made it and why.
pub fn spawn_note(workspace: &Path) -> Option<PathBuf> {
    Some(git_folder(workspace)?.join(SPAWN_NOTE))
}

pub fn is_spawned(workspace: &Path) -> bool {
    spawn_note(workspace).is_some_and(|note| note.is_file())
}

/// Returns the git folder: `.git` itself, or the folder that a `.git` file names (worktree or submodule).
pub(crate) fn git_folder(workspace: &Path) -> Option<PathBuf> {
    let path = workspace.join(".git");
    if path.is_dir() {
        return Some(path);
    }
    let named = line(&path)?;
    Some(workspace.join(named.strip_prefix("gitdir:")?.trim()))
}

/// Returns the folder in which a worktree shares its refs with the others.
pub(crate) fn shared_folder(own: &Path) -> PathBuf {
    match line(&own.join("commondir")) {
        Some(relative) => own.join(relative.trim()),
        None => own.to_owned(),
    }
}

/// Returns whether the index of the checkout at `workspace` names the file. In an index format that is not
/// parsed here, any matching byte sequence counts: the answer is used for a warning, not for a rule.
pub fn tracks(workspace: &Path, file: &Path) -> bool {
    let top = top(workspace);
    let found = top.as_ref().and_then(|top| {
        let (top, file) = (top.canonicalize().ok()?, file.canonicalize().ok()?);
        let name = file.strip_prefix(&top).ok()?.to_str()?.to_owned();
        let mut bytes = Vec::new();
        File::open(git_folder(&top)?.join("index")).ok()?.take(INDEX_MAX).read_to_end(&mut bytes).ok()?;
        Some(names(&bytes, name.as_bytes()))
    });
    found.unwrap_or(false)
}

fn names(index: &[u8], name: &[u8]) -> bool {
    // Every entry ends with its name and a zero byte.
    let ended = [name, b"\0"].concat();
    let is_plain = index.get(4..8).is_some_and(|version| version == [0, 0, 0, 2] || version == [0, 0, 0, 3]);
    index.windows(ended.len()).enumerate().any(|(at, window)| {
        // The two bytes before a name are its flags; twelve of their bits are the length of the name.
        let length = at
            .checked_sub(2)
            .and_then(|from| index.get(from..at))
            .map(|flags| (usize::from(flags[0] & 0x0f) << 8) | usize::from(flags[1]));
        window == ended && (!is_plain || length == Some(name.len()))
    })
}

pub(crate) fn line(path: &Path) -> Option<String> {
    // Reading a pipe in place of a ref would block forever.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(LINE_MAX).read_to_string(&mut text).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// Reads the line of a ref. Follows no symbolic link on the path: it could lead out of the repository.
fn ref_line(repository: &Path, name: &str) -> Option<String> {
    let file = opened(repository, name)?;
    let mut text = String::new();
    file.take(LINE_MAX).read_to_string(&mut text).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// Opens a regular file of the repository without following a symbolic link.
fn opened(repository: &Path, name: &str) -> Option<File> {
    let top = safe_open::top(repository).ok()?;
    let file = safe_open::file(&top, name.as_bytes()).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

/// Returns the first symbolic link on a path of the repository, if there is one.
pub(crate) fn link_on_the_way(repository: &Path, name: &str) -> Option<PathBuf> {
    let mut here = repository.to_owned();
    Path::new(name).components().find_map(|part| {
        here.push(part);
        here.is_symlink().then(|| here.clone())
    })
}

/// Returns the objects in whose place git would show others (`refs/replace`).
pub fn replaced(workspace: &Path) -> std::collections::BTreeSet<String> {
    let Some(shared) = repository(workspace) else { return Default::default() };
    let loose = shared.join("refs/replace").read_dir().into_iter().flatten().flatten();
    let loose = loose.filter_map(|entry| entry.file_name().into_string().ok());
    let packed = opened(&shared, "packed-refs").into_iter();
    let packed = packed.flat_map(|file| BufReader::new(file.take(PACKED_MAX)).lines().map_while(Result::ok));
    let packed = packed.filter_map(|line| Some(line.split_once(" refs/replace/")?.1.trim().to_owned()));
    loose.chain(packed).collect()
}

fn packed(repository: &Path, name: &str) -> Option<String> {
    let file = opened(repository, "packed-refs")?;
    let lines = BufReader::new(file.take(PACKED_MAX)).lines().map_while(Result::ok);
    let mut found =
        lines.filter_map(|line| line.split_once(' ').map(|(id, each)| (id.to_owned(), each.trim() == name)));
    found.find(|(_, same)| *same).and_then(|(id, _)| commit_id(&id))
}

fn commit_id(text: &str) -> Option<String> {
    let hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (hex && matches!(text.len(), 40 | 64)).then(|| text.to_ascii_lowercase())
}

/// Returns every ref whose name starts with `prefix`, with its commit. A loose ref wins over a packed one
/// of the same name.
pub fn refs(workspace: &Path, prefix: &str) -> Vec<(String, String)> {
    let Some(shared) = repository(workspace) else { return Vec::new() };
    let mut names = std::collections::BTreeSet::new();
    let mut folders = vec![prefix.trim_end_matches('/').to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in shared.join(&folder).read_dir().into_iter().flatten().flatten().take(REFS_MAX) {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let name = format!("{folder}/{name}");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(name),
                Ok(kind) if kind.is_file() && !name.ends_with(".lock") => _ = names.insert(name),
                _ => {}
            }
        }
    }
    if let Some(file) = opened(&shared, "packed-refs") {
        let lines = BufReader::new(file.take(PACKED_MAX)).lines().map_while(Result::ok);
        let packed = lines.filter_map(|line| Some(line.split_once(' ')?.1.trim().to_owned()));
        names.extend(packed.filter(|name| name.starts_with(prefix)));
    }
    names.into_iter().filter_map(|name| Some((name.clone(), find(workspace, &name)?))).collect()
}

/// Returns at most `most` refs of the repository with the object each names. Leaves out symbolic refs.
pub fn all_refs(workspace: &Path, most: usize) -> std::collections::BTreeMap<String, String> {
    let mut refs = std::collections::BTreeMap::new();
    let Some(shared) = repository(workspace) else { return refs };
    if let Ok(file) = File::open(shared.join("packed-refs")) {
        let lines = BufReader::new(file.take(PACKED_MAX)).lines().map_while(Result::ok);
        let packed = lines.filter_map(|line| {
            let (id, name) = line.split_once(' ')?;
            Some((name.trim().to_owned(), commit_id(id)?))
        });
        refs.extend(packed.take(most));
    }
    let mut folders = vec!["refs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in shared.join(&folder).read_dir().into_iter().flatten().flatten().take(REFS_MAX) {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let name = format!("{folder}/{name}");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(name),
                Ok(kind) if kind.is_file() && !name.ends_with(".lock") && refs.len() < most => {
                    refs.extend(line(&entry.path()).and_then(|id| Some((name, commit_id(&id)?))));
                }
                _ => {}
            }
        }
    }
    refs
}

/// Returns the full name of the branch that HEAD of the checkout at `workspace` is on.
pub fn branch(workspace: &Path) -> Option<String> {
    ref_line(&git_folder(workspace)?, "HEAD")?.strip_prefix("ref:").map(|name| name.trim().to_owned())
}

/// Returns whether provost may write the ref: a branch or notes, with a name that git accepts.
pub fn is_branch_or_note(name: &str) -> bool {
    let own = name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/notes/"));
    let plain = |part: &str| {
        let bytes = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte));
        bytes && !part.starts_with(['.', '-']) && !part.ends_with('.') && !part.ends_with(".lock")
    };
    own.is_some_and(|own| own.split('/').all(|part| !part.is_empty() && plain(part) && !part.contains("..")))
}

fn is_ref_name(name: &str) -> bool {
    name.starts_with("refs/")
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && !name.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }

    #[test]
    fn head_is_found_loose_packed_and_detached() {
        let root = tempfile::tempdir().expect("a folder");
        let git = root.path().join(".git");
        assert_eq!(head(root.path()), None);
        write(&git.join("HEAD"), "ref: refs/heads/main\n");
        assert_eq!(head(root.path()), None, "no commit yet");
        write(
            &git.join("packed-refs"),
            &format!("# pack-refs with: peeled\n{TWO} refs/heads/main\n^{ONE}\n"),
        );
        assert_eq!(head(root.path()).as_deref(), Some(TWO));
        write(&git.join("refs/heads/main"), &format!("{ONE}\n"));
        assert_eq!(head(root.path()).as_deref(), Some(ONE), "loose refs win over packed ones");
        write(&git.join("HEAD"), &format!("{TWO}\n"));
        assert_eq!(head(root.path()).as_deref(), Some(TWO));
    }

    #[test]
    fn a_worktree_keeps_its_head_and_shares_its_refs() {
        let root = tempfile::tempdir().expect("a folder");
        let git = root.path().join("repo/.git");
        write(&git.join("refs/heads/side"), ONE);
        write(&git.join("worktrees/wt/HEAD"), "ref: refs/heads/side\n");
        write(&git.join("worktrees/wt/commondir"), "../..\n");
        write(&root.path().join("wt/.git"), "gitdir: ../repo/.git/worktrees/wt\n");
        assert_eq!(head(&root.path().join("wt")).as_deref(), Some(ONE));
        assert_eq!(top(&root.path().join("wt/a/b")), Some(root.path().join("wt")));
    }

    #[test]
    fn what_the_index_names_is_tracked() {
        let entry = |name: &str| [&[0; 60][..], &[0, name.len() as u8], name.as_bytes(), &[0, 0]].concat();
        let index = [b"DIRC\0\0\0\x02\0\0\0\x02".to_vec(), entry("docs/PLAN.md"), entry("a.md")].concat();
        assert!(names(&index, b"docs/PLAN.md") && names(&index, b"a.md"));
        assert!(!names(&index, b"PLAN.md") && !names(&index, b"docs") && !names(b"", b"a.md"));
    }

    #[test]
    fn a_ref_is_read_through_no_link() {
        let root = tempfile::tempdir().expect("a folder");
        let git = root.path().join(".git");
        write(&root.path().join("elsewhere/main"), ONE);
        write(&git.join("HEAD"), "ref: refs/heads/main\n");
        write(&git.join("refs/heads/kept"), ONE);
        std::os::unix::fs::symlink(root.path().join("elsewhere/main"), git.join("refs/heads/main"))
            .expect("a link");
        std::os::unix::fs::symlink(root.path().join("elsewhere"), git.join("refs/out")).expect("a link");
        assert_eq!(head(root.path()), None);
        assert_eq!(find(root.path(), "refs/out/main"), None);
        assert_eq!(find(root.path(), "refs/heads/kept").as_deref(), Some(ONE));
        assert_eq!(link_on_the_way(&git, "refs/out/main"), Some(git.join("refs/out")));
        assert_eq!(link_on_the_way(&git, "refs/heads/kept"), None);
    }

    #[test]
    fn a_head_that_leads_astray_is_no_commit() {
        let root = tempfile::tempdir().expect("a folder");
        let git = root.path().join(".git");
        write(&root.path().join("secret"), ONE);
        for astray in ["ref: refs/../../secret", "ref: /etc/passwd", "ref: refs/heads/loop", "words", ""] {
            write(&git.join("HEAD"), astray);
            write(&git.join("refs/heads/loop"), "ref: refs/heads/loop");
            assert_eq!(head(root.path()), None, "{astray}");
        }
    }
}
