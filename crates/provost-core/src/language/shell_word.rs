//! Writes a text as one word of a shell command.

/// Quotes a text if a shell would change it or split it.
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_word_is_quoted_if_a_shell_would_change_it() {
        let quoted = ["a/b-1.md", "", "$0.05", "it's"].map(quoted);
        assert_eq!(quoted, ["a/b-1.md", "''", "'$0.05'", "'it'\\''s'"]);
    }
}
