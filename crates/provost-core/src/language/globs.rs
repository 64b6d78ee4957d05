//! Defines the meaning of the globs of `touches`.
//!
//! A glob is matched against paths relative to the workspace: `*` and `?` match within one folder, `**`
//! across folders. A glob that matches a folder covers everything in it, so `src`, `src/` and `src/**` mean
//! the same for the content of `src`.

pub mod containment;
pub mod overlap;

use globset::{Glob, GlobBuilder};

/// Compiles a glob of a plan, or says why it is invalid. The glob itself does not match the content of a
/// folder that it matches: callers must test the parent folders of a path as well.
pub fn glob(written: &str) -> Result<Glob, String> {
    let plain = plain(written);
    if plain.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("it is not a path inside the workspace".to_owned());
    }
    GlobBuilder::new(plain).literal_separator(true).build().map_err(|error| error.kind().to_string())
}

/// Normalises a glob: `./src/` becomes `src`, and `.` becomes `**`.
pub fn plain(glob: &str) -> &str {
    let mut glob = glob;
    while let Some(rest) = glob.strip_prefix("./") {
        glob = rest.trim_start_matches('/');
    }
    let trimmed = glob.trim_end_matches('/');
    // `/` alone is the root of the machine; it is rejected like all absolute paths.
    let glob = if trimmed.is_empty() && glob.starts_with('/') { glob } else { trimmed };
    if matches!(glob, "." | "") { "**" } else { glob }
}
