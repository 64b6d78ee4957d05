//! Classifies a value: a placeholder, a word, a piece of code, a digest, or a secret.

use super::MARK;
use super::names;

/// Recognises `xxxxxxxx`, `********`: already masked.
pub(super) fn crossed_out(value: &str) -> bool {
    let mut run = (0u8, 0usize);
    for byte in value.bytes() {
        let byte = byte.to_ascii_lowercase();
        run = if byte == run.0 { (byte, run.1 + 1) } else { (byte, 1) };
        if run.1 >= 8 && matches!(byte, b'x' | b'*' | b'.' | b'#') {
            return true;
        }
    }
    false
}

/// Recognises lower-case words or an identifier: a token has digits unless it is long and mixed.
pub(super) fn spelled(value: &str) -> bool {
    if value.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let upper = value.bytes().any(|byte| byte.is_ascii_uppercase());
    let lower = value.bytes().any(|byte| byte.is_ascii_lowercase());
    !upper || (lower && value.len() < 32)
}

/// Recognises a value that only marks the place of a secret: a variable, a template, a placeholder, its name.
pub(super) fn stands_for(value: &str) -> bool {
    let value = value.trim();
    value.is_empty()
        || value.starts_with(MARK)
        || crossed_out(value)
        || one_character(value)
        || is_variable(value)
        || is_bracketed(value)
        || is_vocabulary(value)
}

fn one_character(value: &str) -> bool {
    let first = value.as_bytes()[0];
    value.bytes().all(|byte| byte == first || byte == b'-') && !first.is_ascii_digit()
}

/// Recognises `$VAR`, `${VAR}`, `$(command)`, `%VAR%`, `{{ .Value }}`, `#{x}`, `@x@`, also several of them.
fn is_variable(value: &str) -> bool {
    let named = |rest: &str| {
        let rest = rest.strip_prefix("env:").or_else(|| rest.strip_prefix("secrets.")).unwrap_or(rest);
        rest.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && rest.chars().all(|each| each.is_ascii_alphanumeric() || "_.:-/[]".contains(each))
    };
    if let Some(rest) = value.strip_prefix('$')
        && (named(rest)
            || rest.starts_with('(')
            || rest.chars().all(|each| each.is_ascii_digit() || each == '$'))
    {
        return true;
    }
    let pairs = [("${", "}"), ("$(", ")"), ("{{", "}}"), ("#{", "}"), ("<%", "%>"), ("%{", "}"), ("$[", "]")];
    if pairs.iter().any(|(open, close)| {
        value.starts_with(open) && value.ends_with(close) && closes_once(value, open, close)
    }) {
        return true;
    }
    let inner =
        |mark: char| value.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark)).is_some_and(named);
    inner('%') || inner('@') || inner('_')
}

/// Returns whether there is no character of a secret between templates: `${a}`, `{{ a }}:{{ b }}`.
fn closes_once(value: &str, open: &str, close: &str) -> bool {
    let mut rest = value;
    while let Some(after) = rest.strip_prefix(open) {
        let Some(end) = after.find(close) else { return false };
        let inside = &after[..end];
        if inside.chars().any(|each| "]>#".contains(each)) && !inside.contains('[') {
            return false;
        }
        rest = after[end + close.len()..].trim_start_matches([':', '-', '/', '.', '_', ' ', '}', ')']);
    }
    rest.is_empty()
}

/// Recognises `<token>`, `[token]`, `{token}`, `(token)`.
fn is_bracketed(value: &str) -> bool {
    [('<', '>'), ('[', ']'), ('{', '}'), ('(', ')')].iter().any(|&(open, close)| {
        value
            .strip_prefix(open)
            .and_then(|rest| rest.strip_suffix(close))
            .is_some_and(|inside| !inside.contains(open) && !inside.contains(close) && !looks_random(inside))
    })
}

/// Placeholder words.
const BLANKS: &[&str] = &[
    "a",
    "abc",
    "an",
    "any",
    "bar",
    "base64",
    "bool",
    "boolean",
    "bytes",
    "changeit",
    "changeme",
    "change",
    "default",
    "dummy",
    "empty",
    "enabled",
    "disabled",
    "encrypted",
    "env",
    "environ",
    "example",
    "expected",
    "fake",
    "false",
    "foo",
    "forbidden",
    "from",
    "hash",
    "hashed",
    "here",
    "hidden",
    "insert",
    "int",
    "integer",
    "invalid",
    "it",
    "me",
    "missing",
    "mock",
    "my",
    "nil",
    "no",
    "none",
    "null",
    "number",
    "object",
    "off",
    "on",
    "optional",
    "or",
    "placeholder",
    "plain",
    "private",
    "prompt",
    "public",
    "redacted",
    "removed",
    "replace",
    "required",
    "sample",
    "set",
    "some",
    "str",
    "string",
    "template",
    "text",
    "the",
    "this",
    "to",
    "todo",
    "true",
    "undefined",
    "unknown",
    "unset",
    "valid",
    "value",
    "var",
    "with",
    "yes",
    "you",
    "your",
    "yours",
];

/// Names of secrets, which people also write as placeholders.
const NAMES: &[&str] = &[
    "access",
    "account",
    "admin",
    "api",
    "apikey",
    "app",
    "auth",
    "authorization",
    "basic",
    "bearer",
    "client",
    "credential",
    "credentials",
    "user",
    "id",
    "key",
    "login",
    "name",
    "oauth",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "refresh",
    "secret",
    "secrets",
    "session",
    "token",
    "tokens",
    "username",
    "type",
    "field",
];

/// Recognises placeholder words and names only, with at most one number: `YOUR_API_KEY`,
/// `my-secret-token-here`.
fn is_vocabulary(value: &str) -> bool {
    let plain = |each: char| each.is_ascii_alphanumeric() || "_-. /:'!".contains(each);
    if value.len() > 64 || !value.chars().all(plain) {
        return false;
    }
    let words = names::words(value);
    let digits = words.iter().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit())).count();
    digits < 2
        && words.iter().any(|word| !word.bytes().all(|byte| byte.is_ascii_digit()))
        && words.iter().all(|word| {
            BLANKS.contains(&word.as_str())
                || NAMES.contains(&word.as_str())
                || (word.len() < 3 && word.bytes().all(|byte| byte.is_ascii_digit()))
                || word.bytes().all(|byte| byte == b'x')
        })
        // `password1` may be a real password; `password` is a placeholder.
        && (digits == 0 || words.iter().any(|word| BLANKS.contains(&word.as_str())))
}

/// Recognises a statement about a field, not a value of it.
pub(super) fn is_sentence(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let telling = [
        "required",
        "invalid",
        "must",
        "cannot",
        "can't",
        "can not",
        "blank",
        "enter",
        "your",
        "missing",
        "should",
        "please",
        "too short",
        "n't",
        "match",
        "incorrect",
        "wrong",
        "denied",
        "already",
        "expired",
        "not ",
        "expected",
        "unexpected",
        "failed",
        "error",
        "the ",
        "for ",
        " or ",
    ];
    value.contains(' ') && telling.iter().any(|each| lower.contains(each))
}

/// Recognises an unquoted value that a program would compute.
pub(super) fn is_code(value: &str) -> bool {
    let bytes = value.as_bytes();
    if value.starts_with(['&', '*', '!', '(', '[', '|', '\\', '@', '?'])
        || value.contains("::")
        || value.contains("->")
    {
        return true;
    }
    let head = bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    if head == 0 || bytes[0].is_ascii_digit() {
        return false;
    }
    match bytes.get(head) {
        Some(b'(' | b'[' | b'<') => true,
        Some(b'!') => matches!(bytes.get(head + 1), Some(b'(' | b'[' | b'{')),
        // `user.password`, `process.env.TOKEN`: each part is a word.
        Some(b'.') => value.split('.').all(|part| is_identifier(part) && !looks_random(part)),
        _ => false,
    }
}

fn is_identifier(part: &str) -> bool {
    let part = part.trim_end_matches(['(', ')', ';', ',', '?', '!']);
    part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_([])\"'".contains(&byte))
}

/// Recognises separated words without a digit: `auth-token`, `app.storage_key`. Keys of maps look like this.
pub(super) fn is_label(value: &str) -> bool {
    value.contains(['-', '_', '.', ':'])
        && value.bytes().all(|byte| byte.is_ascii_alphabetic() || b"-_.:".contains(&byte))
        && changes(value) < 3
}

/// Recognises a location: a path, an address, a file name.
pub(super) fn is_place(value: &str) -> bool {
    let start = ["/", "./", "../", "~/", "http://", "https://", "file:", "arn:", "s3://", "git@", "C:\\"];
    if start.iter().any(|each| value.starts_with(each)) {
        // Base64 may begin with a slash; a path has words between its slashes.
        return !(value.starts_with('/')
            && value.len() >= 32
            && looks_random(value)
            && value.matches('/').count() < 4);
    }
    let slashes = value.matches('/').count();
    let parts_are_words = || value.split('/').all(|part| !looks_random(part));
    (slashes > 0 && parts_are_words()) || is_address(value)
}

fn is_address(value: &str) -> bool {
    let Some((user, host)) = value.split_once('@') else { return false };
    !user.is_empty()
        && host.contains('.')
        && !host.contains('@')
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
        && user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte))
        && host
            .rsplit('.')
            .next()
            .is_some_and(|top| top.len() >= 2 && top.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// Recognises a commit id, a checksum or a UUID: random, but not secret after an ordinary name.
pub(super) fn is_digest(value: &str) -> bool {
    let value = value.rsplit_once(':').map_or(value, |(_, rest)| rest);
    let hex = |part: &&str| part.len() >= 7 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = || value.split(['-', '_', '.', '/', '@', '+']);
    let others: usize = parts().filter(|part| !hex(part)).map(changes).sum();
    (parts().any(|part| hex(&part)) && others < 4)
        || ["sha1-", "sha256-", "sha384-", "sha512-", "SHA256:"].iter().any(|each| value.starts_with(each))
}

/// Returns whether letters and digits alternate as they do not in words.
pub(super) fn looks_random(value: &str) -> bool {
    changes(value) >= 4
}

/// Counts the changes of the kind of character inside words. A capital that begins a word is not a change.
fn changes(value: &str) -> usize {
    let kind = |byte: u8| match byte {
        b'a'..=b'z' => Some(0),
        b'A'..=b'Z' => Some(1),
        b'0'..=b'9' => Some(2),
        _ => None,
    };
    value
        .as_bytes()
        .windows(2)
        .filter(|pair| match (kind(pair[0]), kind(pair[1])) {
            (Some(1), Some(0)) | (None, _) | (_, None) => false,
            (before, after) => before != after,
        })
        .count()
}

/// Recognises letters together with digits or with characters that no word has.
pub(super) fn is_mixed(value: &str) -> bool {
    let letter = value.bytes().any(|byte| byte.is_ascii_alphabetic());
    let digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let strange = value.bytes().any(|byte| b"!#$%^&*+=?~|@{}[]()<>".contains(&byte));
    (letter && (digit || strange)) || changes(value) >= 3
}
