//! Computes a fingerprint of a failure: its output without the parts that always differ.
//!
//! **Invariant:** an output without content has no fingerprint; two silent failures are not the same.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::model::hash::Hash;

/// Number of characters that are compared, from the beginning and from the end of an output.
const PART_CHARS: usize = 8 * 1024;

/// Matches addresses, times, durations, hashes, ids and numbers; the folders of absolute paths; temporary
/// names.
static NEVER_ALIKE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?x)
        /(?:tmp|var/tmp|run|proc|dev/shm)/[^\s:'\x22,)]*    # temporary names
      | /(?:[a-zA-Z0-9_.@+~-]+/)+                                # folders of an absolute path
      | \b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F-]{22}\b  # ids
      | \b0x[0-9a-fA-F]+\b
      | \b[0-9a-f]*[0-9][0-9a-f]{6,}\b                      # hashes
      | \btmp[.a-zA-Z0-9_-]*
      | (?P<name>[a-zA-Z_][a-zA-Z0-9_.-]*(?:/[a-zA-Z0-9_.-]+)+)  # a file of the workspace keeps its name
      | \b[0-9]+(?:[.,:T_-][0-9]+)*                         # numbers, dates and times
    ";
    Regex::new(pattern).unwrap_or_else(|error| unreachable!("not a pattern: {error}"))
});

/// Returns the fingerprint for an ending and an output.
pub fn of(ending: &str, output: &str) -> Option<String> {
    let head: String = output.chars().take(PART_CHARS).collect();
    let rest = &output[head.len()..];
    let skipped = rest.chars().count().saturating_sub(PART_CHARS);
    let tail: String = rest.chars().skip(skipped).collect();
    let plain = plain(&head) + &plain(&tail);
    let words: Vec<&str> = plain.split_whitespace().collect();
    if words.iter().all(|word| *word == "#") {
        return None;
    }
    let hash = Hash::of(format!("{ending}\n{}", words.join(" ")).as_bytes()).to_string();
    Some(hash[..16].to_owned())
}

fn plain(text: &str) -> String {
    let told = |found: &Captures<'_>| found.name("name").map_or("#", |name| name.as_str()).to_owned();
    NEVER_ALIKE.replace_all(text, told).into_owned()
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn paths_numbers_times_hashes_and_temporary_names_do_not_count() {
        let pairs = [
            ("FAILED in 0.12s (pid 4711)", "FAILED in 3.40s (pid 17)"),
            ("2026-11-15T07:00:01Z error: no", "2026-11-16T09:10:11Z error: no"),
            ("/tmp/tmp.Xy3/a.py: broken", "/tmp/tmp.Qq9/b.py: broken"),
            ("/home/a/w1/src/x.rs:3:4: broken", "/home/b/w2/src/x.rs:9:1: broken"),
            ("at commit 3f2a9bc1d0", "at commit 0a11bbccdd99"),
            ("object at 0x7fdf8b8df420", "object at 0x7f0000000010"),
            ("  spaced\n\n out", "spaced out"),
        ];
        for (one, other) in pairs {
            assert_eq!(of("broke", one), of("broke", other), "{one} / {other}");
            assert!(of("broke", one).is_some(), "{one}");
        }
    }

    #[test]
    fn another_message_another_file_or_another_end_is_another_failure() {
        let of = |ending: &str, text: &str| of(ending, text).expect("a fingerprint");
        assert_ne!(of("broke", "KeyError: 'x'"), of("broke", "KeyError: 'y'"));
        assert_ne!(of("broke", "tests/a.py failed"), of("broke", "tests/b.py failed"));
        assert_ne!(of("broke", "out/1 is missing"), of("broke", "out/2 is missing"));
        assert_ne!(of("broke", "FAILED test_1"), of("broke", "FAILED test_2"));
        assert_ne!(of("broke", "same"), of("timed_out", "same"));
    }

    #[test]
    fn silence_has_no_fingerprint() {
        assert_eq!(of("broke", ""), None);
        assert_eq!(of("broke", " \n 17 \n"), None);
    }
}
