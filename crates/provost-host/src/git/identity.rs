//! The author of commits in a checkout.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{git_folder, opened, shared_folder};

const CONFIG_MAX: u64 = 1 << 20;

/// Returns the name and address that git would use for an author in this checkout: of the environment, the
/// repository's configuration, or the user's own. Reads only plain values of `user.name` and `user.email` and
/// follows no include: an agent may have written the repository's configuration.
pub fn identity(workspace: &Path, home: Option<&Path>) -> (Option<String>, Option<String>) {
    let mut texts = Vec::new();
    if let Some(own) = git_folder(workspace) {
        let shared = config(&shared_folder(&own), "config");
        let has_own = config_value(&shared, "extensions", "worktreeconfig");
        if has_own.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            texts.push(config(&own, "config.worktree"));
        }
        texts.push(shared);
    }
    if let Some(home) = home {
        let folder = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
        let folder = folder.map_or_else(|| home.join(".config"), PathBuf::from);
        let files = [home.join(".gitconfig"), folder.join("git/config")];
        texts.extend(files.iter().filter_map(|file| std::fs::read_to_string(file).ok()));
    }
    let find = |variable: &str, key: &str| {
        let given = std::env::var(variable).ok().filter(|value| !value.trim().is_empty());
        given.or_else(|| texts.iter().find_map(|text| config_value(text, "user", key)))
    };
    (find("GIT_AUTHOR_NAME", "name"), find("GIT_AUTHOR_EMAIL", "email"))
}

/// Reads a configuration file of the repository without following a link; a missing one is empty.
fn config(repository: &Path, name: &str) -> String {
    let mut text = String::new();
    let file = opened(repository, name).map(|file| file.take(CONFIG_MAX));
    match file.and_then(|mut file| file.read_to_string(&mut text).ok()) {
        Some(_) => text,
        None => String::new(),
    }
}

/// Returns the last value of a key in a git configuration, if it is not empty.
fn config_value(text: &str, section: &str, key: &str) -> Option<String> {
    let (mut found, mut is_inside) = (None, false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim_start();
        if let Some((head, rest)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            is_inside = head.trim().eq_ignore_ascii_case(section);
            line = rest.trim_start();
        }
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) else {
            continue;
        };
        let value = plain_value(value, &mut lines);
        if is_inside && name.trim().eq_ignore_ascii_case(key) {
            found = Some(value).filter(|value| !value.is_empty());
        }
    }
    found
}

/// Reads a value as git does: with quotes, escapes and comments. A backslash at the end continues the line.
fn plain_value(first: &str, more: &mut std::str::Lines<'_>) -> String {
    let (mut value, mut is_quoted, mut kept) = (String::new(), false, 0);
    let mut rest = first.trim_start().chars();
    while let Some(letter) = rest.next() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => match rest.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some(escaped) => value.push(escaped),
                None => rest = more.next().unwrap_or_default().chars(),
            },
            letter => value.push(letter),
        }
        // Blanks at the end count only in quotes.
        if is_quoted || !letter.is_whitespace() {
            kept = value.len();
        }
    }
    value.truncate(kept);
    value
}

#[cfg(test)]
mod tests {
    use super::config_value;

    #[test]
    fn a_value_of_a_configuration_is_read_as_git_reads_it() {
        let text = "[core]\n\tname = no\n# [user]\n[user \"x\"]\n\tname = no\n[User] email = a@b ; mine\n\
                    [user]\n\tNAME = \" Ada \\\"L\\\" \" # who\n; name = no\n";
        assert_eq!(config_value(text, "user", "name").as_deref(), Some(" Ada \"L\" "));
        assert_eq!(config_value(text, "user", "email").as_deref(), Some("a@b"));
        assert_eq!(
            config_value("[user]\nname = Ada \\\n  Lovelace  \n", "user", "name").as_deref(),
            Some("Ada   Lovelace")
        );
        assert_eq!(config_value("[user]\nname =\n[include]\npath = x\n", "user", "name"), None);
        assert_eq!(config_value("[user]\nname = One\nname = Two\n", "user", "name").as_deref(), Some("Two"));
    }
}
