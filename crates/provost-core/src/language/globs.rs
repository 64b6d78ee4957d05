//! What a glob of `touches` means, in one place.
//!
//! A glob is matched against paths relative to the workspace: `*` and `?` stay within a folder, `**`
//! does not, and a glob that matches a folder covers everything in it, so `src`, `src/` and `src/**`
//! say the same of what is inside `src`.

pub mod overlap;

use globset::{Glob, GlobBuilder};

/// The glob that a plan writes, or why it is none. What is said of a folder is not yet said of what is
/// in it: whoever asks about a path asks about the folders above it as well.
pub fn glob(written: &str) -> Result<Glob, String> {
    let plain = plain(written);
    if plain.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("it is no path inside the workspace".to_owned());
    }
    GlobBuilder::new(plain).literal_separator(true).build().map_err(|error| error.kind().to_string())
}

/// `./src/` means `src`, and `.` means everything.
pub fn plain(glob: &str) -> &str {
    let mut glob = glob;
    while let Some(rest) = glob.strip_prefix("./") {
        glob = rest.trim_start_matches('/');
    }
    let trimmed = glob.trim_end_matches('/');
    // `/` alone is the root of the machine; it is refused with the other absolute paths.
    let glob = if trimmed.is_empty() && glob.starts_with('/') { glob } else { trimmed };
    if matches!(glob, "." | "") { "**" } else { glob }
}
