//! What a remote answered: its output, or an error with the remote's own words and what to do next.

use std::ffi::OsString;
use std::time::Duration;

use provost_core::model::quote::one_line;

use super::Remote;
use crate::process::{How, ProcessEnd};
use crate::tree::Error;
use crate::tree::checkout::lossy;
use crate::tree::mirror::Mirror;

/// Limits on the words of a remote in a message.
const LINES: usize = 6;
const LETTERS: usize = 600;

/// Beginnings of lines in which git says nothing about this remote.
const GENERAL: [&str; 8] = [
    "To ",
    "From ",
    "hint:",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
    "error: failed to push some refs",
    "Warning: Permanently added",
    "warning: redirecting to",
];
/// Lines that only repeat that something failed, if another line says what.
const REPEATED: [&str; 4] = [
    "fatal: Could not read from remote repository.",
    "fatal: the remote end hung up unexpectedly",
    "send-pack: unexpected disconnect while reading sideband packet",
    "error: RPC failed",
];

impl Mirror<'_> {
    /// Runs a git command that contacts the remote, and returns its output.
    pub(super) fn ask(
        &self,
        remote: &Remote,
        args: &[&str],
        more: &[(OsString, OsString)],
    ) -> Result<Vec<u8>, Error> {
        let environment = [remote.environment(), more].concat();
        let ended = self.across(args, &environment, remote.ends())?;
        match ended.how {
            How::Exited(0) => Ok(ended.stdout.head),
            How::TimedOut | How::OverBounds(_) => Err(remote.slow(&ended)),
            How::Stopped => Err(remote.failed("provost ended the command".to_owned(), String::new())),
            How::Exited(_) | How::Signalled(_) => {
                let said = remote.words(&ended);
                let next = remote.next_step(&said);
                Err(remote.failed(said, next))
            }
        }
    }
}

impl Remote {
    fn failed(&self, said: String, next: String) -> Error {
        Error::Unreachable { remote: self.to_string(), said, next }
    }

    fn slow(&self, ended: &ProcessEnd) -> Error {
        let said = match self.words(ended) {
            said if said.is_empty() => said,
            said => format!(", and said: {said}"),
        };
        Error::Slow { remote: self.to_string(), limit: readable(self.limit()), said }
    }

    /// Returns what git and the remote printed as errors, on one line.
    fn words(&self, ended: &ProcessEnd) -> String {
        let text = lossy(&[&ended.stderr.head[..], &ended.stderr.tail].concat());
        let said = self.redacted(&telling(&text));
        match (said.is_empty(), ended.how) {
            (true, How::Exited(code)) => format!("git exited with {code} and said nothing"),
            _ => said,
        }
    }

    /// Returns what a person can do about it.
    fn next_step(&self, said: &str) -> String {
        // The address may contain any word.
        let low = said.replace(self.address(), "").to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| low.contains(word));
        let next = if has(&["certificate"]) {
            "if a private authority signed its certificate, set GIT_SSL_CAINFO or SSL_CERT_FILE to the file of \
             that authority where provost is started"
        } else if has(&["proxy"]) {
            "check HTTPS_PROXY and NO_PROXY where provost is started"
        } else if has(&["host key verification"]) {
            "connect to it once with `ssh` as the user of provost, so that its key is known"
        } else if has(&["publickey"]) {
            "let the remote accept an ssh key of the user of provost"
        } else if has(&["authentication failed", "could not read username", "error: 401", "error: 403"]) {
            "set PROVOST_REMOTE_TOKEN to a token that may read and write there, where provost is started"
        } else if has(&["refused:"]) {
            "let the remote accept refs that begin with `refs/provost/`"
        } else {
            return format!("try `git ls-remote {self}` as the user of provost");
        };
        next.to_owned()
    }
}

/// Returns the lines that say what is wrong, joined to one. The words of the remote come as git prints them,
/// after `remote:`.
fn telling(text: &str) -> String {
    let text = without_sequences(text);
    let lines = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !GENERAL.iter().any(|general| line.starts_with(general)));
    let lines: Vec<String> = lines.map(|line| refusal(line).unwrap_or_else(|| line.to_owned())).collect();
    let repeats = |line: &&String| REPEATED.iter().any(|repeated| line.starts_with(repeated));
    let mut kept: Vec<&String> = lines.iter().filter(|line| !repeats(line)).collect();
    if kept.is_empty() {
        kept = lines.iter().collect();
    }
    kept.dedup();
    let last = &kept[kept.len().saturating_sub(LINES)..];
    let joined = last.iter().map(|line| one_line(line)).collect::<Vec<_>>().join("; ");
    match joined.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &joined[..end]),
        None => joined,
    }
}

/// Returns the reason in ` ! [remote rejected] … (reason)`.
fn refusal(line: &str) -> Option<String> {
    let rest = line.strip_prefix("! [remote rejected]").or_else(|| line.strip_prefix("! [rejected]"))?;
    let reason = rest.rsplit_once('(').map_or(rest, |(_, reason)| reason.trim_end_matches(')'));
    Some(format!("refused: {}", reason.trim()))
}

/// Removes sequences that colour a terminal or move its cursor.
fn without_sequences(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let end = sequence.find(|c: char| ('\u{40}'..='\u{7e}').contains(&c));
        rest = end.map_or("", |end| &sequence[end + 1..]);
    }
    out + rest
}

fn readable(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::telling;

    #[test]
    fn the_words_of_the_remote_are_told_and_general_advice_is_not() {
        for (text, told) in [
            (
                "remote: no pushes on Fridays\u{1b}[K        \nTo /srv/carry.git\n \
                 ! [remote rejected] 1a -> refs/provost/p/1/a1-e1 (pre-receive hook declined)\n\
                 error: failed to push some refs to '/srv/carry.git'\n",
                "remote: no pushes on Fridays; refused: pre-receive hook declined",
            ),
            (
                "*** authorised users only ***\ngit@git.example.org: Permission denied (publickey).\r\n\
                 fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access \
                 rights\nand the repository exists.\n",
                "*** authorised users only ***; git@git.example.org: Permission denied (publickey).",
            ),
            (
                "fatal: Could not read from remote repository.\n",
                "fatal: Could not read from remote repository.",
            ),
            ("remote: \u{1b}]0;title\u{7}a\u{202e}b\n", "remote: \\u{1b}]0;title\\u{7}a\\u{202e}b"),
            ("", ""),
        ] {
            assert_eq!(telling(text), told);
        }
        let long = telling(&"remote: words\nremote: more words\n".repeat(10_000));
        assert!(long.matches("words").count() <= 6, "{long}");
        assert!(telling(&"x".repeat(5000)).chars().count() < 700);
    }
}
