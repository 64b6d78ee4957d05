//! Says whether one glob plainly lies within another.

/// Returns whether `outer` plainly matches every path that `inner` can match: they are equal, or `outer` is
/// `folder/**` and `inner` begins with that folder.
pub fn contains(outer: &str, inner: &str) -> bool {
    if !bounds(outer) || !is_confined(inner) {
        return false;
    }
    match outer.strip_suffix("/**") {
        _ if outer == inner => true,
        // Wildcards before the `/**` could mean another folder in the plan than in the policy.
        Some(folder) if is_plain(folder) => inner
            .strip_prefix(folder)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|rest| !rest.is_empty()),
        _ => false,
    }
}

/// Returns whether a policy may use this glob: it has one meaning, stays in the workspace and does not match
/// everything.
pub fn bounds(glob: &str) -> bool {
    is_confined(glob) && !is_universal(glob)
}

/// Recognises a glob of wildcards only, in any spelling: `**`, `*/**`, `*.*`.
fn is_universal(glob: &str) -> bool {
    glob.bytes().all(|byte| b"*?./".contains(&byte))
}

/// Recognises a relative path that cannot leave its folder and has one meaning.
fn is_confined(glob: &str) -> bool {
    let absolute = glob.starts_with(['/', '~', '\\', '!']) || glob.as_bytes().get(1) == Some(&b':');
    !absolute
        && !glob.contains(['{', '}', '\\', '\0', ',', '$'])
        && !glob.chars().any(|each| each.is_control() || each.is_whitespace())
        && glob.split('/').all(|part| !matches!(part, "" | "." | ".."))
        // `[.][.]` and `?.` can also match `..`.
        && glob.split('/').all(|part| !could_be_parent(part))
}

fn could_be_parent(part: &str) -> bool {
    part.contains('[') || (part.contains('.') && part.bytes().all(|byte| b".?".contains(&byte)))
}

fn is_plain(folder: &str) -> bool {
    !folder.is_empty() && !folder.contains(['*', '?', '[', ']', '{', '}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_that_bounds_nothing_is_known_in_every_spelling() {
        for glob in [
            "",
            " ",
            "*",
            "**",
            "**/*",
            ".",
            "./",
            "./**",
            "*/**",
            "**/**",
            "?*",
            "{src,**}",
            "{*,docs/**}",
            "*.*",
            "[!.]*",
            "../**",
            "/etc/**",
            "docs/..",
            "{src,docs}/**",
        ] {
            assert!(!bounds(glob), "{glob:?}");
        }
        for glob in ["docs/**", "*.md", "**/*.rs", "src", "a/b/c.txt"] {
            assert!(bounds(glob), "{glob:?}");
        }
    }
}
