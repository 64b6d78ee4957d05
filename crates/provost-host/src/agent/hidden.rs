//! Explains a program that does not start because the sandbox hides what it needs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use crate::sandbox::find_program;

/// Longest output of a program that did nothing else than fail to start, in bytes.
const BRIEF: usize = 2 * 1024;

/// The names of missing programs and files in the messages of shells, `env`, Node.js and bubblewrap.
static MISSING: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?mx)
        ^\S*env:\ [‘'"`]?(?P<env>[^’'"`:\n]+)[’'"`]?:\ No\ such\ file
      | (?:^|:\ )(?P<sh>[^\s:]+):\ (?:command\ )?not\ found\s*$
      | Cannot\ find\ (?:module|package)\ '(?P<js>/[^'\n]+)'
      | execvp\ (?P<bwrap>[^:\n]+):\ No\ such\ file
      | (?P<shebang>/[^\s:]+):\ bad\ interpreter"#;
    Regex::new(pattern).unwrap_or_else(|error| unreachable!("not a pattern: {error}"))
});

/// Returns where a program or file that the agent's program misses is on this machine, in words for the person
/// who configures the role.
pub(super) fn by_sandbox(
    printed: &str,
    workspace: &Path,
    environment: &[(OsString, OsString)],
) -> Option<String> {
    if printed.len() > BRIEF {
        return None;
    }
    MISSING.captures_iter(printed).find_map(|found| {
        let name = found.iter().skip(1).flatten().next()?.as_str().trim();
        let path = located(name, workspace, environment)?;
        let folder = path.parent().unwrap_or(&path).display();
        Some(format!(
            "provost: the sandbox hides `{name}`, which is {} outside of it; add `read = [\"{folder}\"]` to the role",
            path.display()
        ))
    })
}

fn located(name: &str, workspace: &Path, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    match Path::new(name) {
        path if path.is_absolute() => path.exists().then(|| path.to_owned()),
        _ => find_program(OsStr::new(name), workspace, environment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_there_outside_of_the_sandbox_is_named() {
        let environment = [(OsString::from("PATH"), OsString::from("/usr/bin:/bin"))];
        let said = |printed: &str| by_sandbox(printed, Path::new("/"), &environment);
        let hint = said("/usr/bin/env: ‘sh’: No such file or directory\n").expect("a hint");
        assert!(hint.starts_with("provost: the sandbox hides `sh`, which is /"), "{hint}");
        assert!(hint.contains("read = [\"/"), "{hint}");
        assert!(said("sh: 1: sh: not found").is_some());
        assert!(said("Error: Cannot find module '/etc/passwd'").is_some());
        assert_eq!(said("env: 'no-such-program-here': No such file or directory"), None);
        assert_eq!(said("the page was not found"), None);
        assert_eq!(said(&format!("{}sh: 1: sh: not found", "a long talk\n".repeat(300))), None);
    }
}
