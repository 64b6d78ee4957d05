//! Recognises the caches in which tools store results, and which of them are up to date.
//!
//! A tool that finds its cache does not look at the sources again. So a check would believe what the agent
//! wrote into the cache. A check starts without these files, and its tools make them anew.

/// Names of folders and files.
const NAMES: [&[u8]; 17] = [
    b"__pycache__",
    b".pytest_cache",
    b".mypy_cache",
    b".ruff_cache",
    b".dmypy.json",
    b".fingerprint",
    b".rustc_info.json",
    b".eslintcache",
    b".stylelintcache",
    b".parcel-cache",
    b".turbo",
    b".nx",
    b".gradle",
    b".phpunit.cache",
    b".phpunit.result.cache",
    b".ninja_deps",
    b".ninja_log",
];

/// Returns whether the path itself is such a cache, independent of the folders above it.
pub(super) fn is_one(path: &[u8]) -> bool {
    let mut parts = path.rsplit(|byte| *byte == b'/');
    let name = parts.next().unwrap_or_default();
    NAMES.contains(&name)
        || name.ends_with(b".tsbuildinfo")
        || parts.next() == Some(b"incremental") && is_of_rustc(name)
}

/// Returns whether the folder is one of rustc's incremental results: a crate's name and a hash.
fn is_of_rustc(name: &[u8]) -> bool {
    let hash = name.rsplit(|byte| *byte == b'-').next().unwrap_or_default();
    hash.len() < name.len() && hash.len() >= 10 && hash.iter().all(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_recognised_by_their_names() {
        for (path, is_cache) in [
            ("__pycache__", true),
            ("src/a/__pycache__", true),
            ("src/__pycache__.py", false),
            ("target/debug/.fingerprint", true),
            ("target/debug/hello", false),
            ("target/debug/deps", false),
            ("target/debug/incremental", false),
            ("target/debug/incremental/hello-0a1b2c3d4e5f6", true),
            ("src/incremental/well-known", false),
            ("src/incremental/update.rs", false),
            ("web/app.tsbuildinfo", true),
            (".turbo", true),
            ("turbo", false),
        ] {
            assert_eq!(is_one(path.as_bytes()), is_cache, "{path}");
        }
    }
}
