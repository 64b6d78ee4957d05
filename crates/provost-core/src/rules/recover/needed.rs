//! Extracts from an output the names of what must be configured.
//!
//! **Invariant:** only names of variables and files; never a value.

use std::sync::LazyLock;

use regex::Regex;

const NAMES_MAX: usize = 4;

static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:API_KEY|ACCESS_KEY|KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS|PROFILE)\b",
    )
});

static FILE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:['\x22 (]|^)((?:~|\$HOME)?/[a-z0-9_./@+-]+?)['\x22)]?: permission denied|permission denied[^\n/~]{0,40}['\x22 (]((?:~|\$HOME)?/[a-z0-9_./@+-]+)|((?:~|\$HOME)/\.[a-z0-9_./-]+)",
    )
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| unreachable!("not a pattern: {error}"))
}

/// Returns the names in `output`, in its order.
pub(super) fn named(output: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let variables = VARIABLE.find_iter(output).map(|found| format!("the variable {}", found.as_str()));
    let files = FILE.captures_iter(output).filter_map(|found| {
        found.iter().skip(1).flatten().next().map(|file| format!("the file {}", file.as_str()))
    });
    for name in variables.chain(files) {
        if names.len() < NAMES_MAX && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn variables_and_files_are_named_and_values_are_not() {
        assert_eq!(named("Error: set MODEL_API_KEY first"), ["the variable MODEL_API_KEY"]);
        assert_eq!(named("MODEL_API_KEY=abc123 was refused"), ["the variable MODEL_API_KEY"]);
        assert_eq!(named("cat: /etc/app/key: Permission denied"), ["the file /etc/app/key"]);
        assert_eq!(named("EACCES: permission denied, open '/srv/x'"), ["the file /srv/x"]);
        assert_eq!(named("put a token into ~/.npmrc"), ["the file ~/.npmrc"]);
        assert_eq!(named("403 Forbidden"), Vec::<String>::new());
    }
}
