//! Finds the values of telling names: `password=…`, `"api_key": "…"`, `--token …`, `<secret>…`.
//!
//! The name is weighed first, then its value; the weaker the name, the more random the value must look.
//! Commit ids, digests, paths, identifiers and blanks are kept.
//!
//! **Invariant:** a name is read once, and at most [`VALUE_MAX`] bytes after it.

use std::ops::Range;

use super::Found;
use super::names::{self, Weight};
use super::own::OwnSecrets;
use super::values;

/// A name is read only if it contains one of these.
pub(super) const HINTS: &[&str] = &[
    "pass",
    "pwd",
    "psw",
    "secret",
    "token",
    "key",
    "cred",
    "auth",
    "api",
    "salt",
    "nonce",
    "cert",
    "login",
    "cookie",
    "session",
    "sid",
    "sig",
    "jwt",
    "bearer",
    "connection",
    "dsn",
    "pat",
    "pin",
    "pw",
    "otp",
];

pub(super) const KINDS: &[&str] = &["password", "secret", "token", "key", "credential"];

/// The number of bytes of a value that are judged; a longer value is removed up to its end.
const VALUE_MAX: usize = 4096;
const NAME_MAX: usize = 128;

/// The connection between the value and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    /// `=`, `:`, `=>` and similar ones.
    Assigned,
    /// `NAME=value` without a space: a shell, an environment file, a connection string.
    Tight,
    /// A flag and a space.
    Flag,
    /// `(`, `,`, a space before a quote, a comparison: only quoted values count.
    Loose,
    /// `<password>value<`
    Element,
    /// "the password is …"
    Said,
}

struct Value<'t> {
    text: &'t str,
    start: usize,
    quoted: bool,
}

/// Finds the values; `hits` are the positions of the hints, in order of their ends.
pub(super) fn find(text: &str, mut hits: Vec<Range<usize>>, own: &OwnSecrets, found: &mut Vec<Found<'_>>) {
    hits.sort_by_key(|hit| hit.start);
    let mut done = 0;
    for hit in hits {
        if hit.start < done {
            continue;
        }
        let name = name_around(text, &hit);
        done = name.end;
        let is_own = own.has_name(&text[name.clone()]);
        let weight = if is_own { Weight::Password } else { names::weigh(&text[name.clone()]) };
        if weight == Weight::None {
            continue;
        }
        if let Some((value, tie)) = value_of(text, &name)
            && (is_own && !values::stands_for(value.text)
                || is_secret(weight, tie, &value, &text[name.clone()]))
        {
            let end = whole_end(text, &value);
            found.push(Found { start: value.start, end, kind: kind_of(&text[name]) });
            done = done.max(end);
        }
    }
}

fn kind_of(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    let has = |word: &str| name.contains(word);
    match () {
        () if has("pass") || has("pwd") => "password",
        () if has("token") => "token",
        () if has("key") => "key",
        () if has("cred") || has("auth") || has("login") => "credential",
        () => "secret",
    }
}

fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

fn name_around(text: &str, hit: &Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes[..hit.start].iter().rev().take(NAME_MAX).take_while(|byte| in_name(**byte)).count();
    let after = bytes[hit.end..].iter().take_while(|byte| in_name(**byte)).count();
    hit.start - before..hit.end + after
}

fn value_of<'t>(text: &'t str, name: &Range<usize>) -> Option<(Value<'t>, Tie)> {
    let (at, tie) = tie_after(text, name).or_else(|| tie_before(text, name))?;
    let value = read(text, at, tie)?;
    Some((value, tie))
}

/// Skips blanks other than line ends.
fn blanks(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    at
}

/// Returns the start of the value, and how it is connected.
fn tie_after(text: &str, name: &Range<usize>) -> Option<(usize, Tie)> {
    let bytes = text.as_bytes();
    let mut at = name.end;
    // Characters that close the name: quotes, an index, a closing bracket.
    while matches!(bytes.get(at), Some(b'\\' | b'"' | b'\'' | b'`' | b']' | b')' | b'[')) && at < name.end + 6
    {
        at += 1;
    }
    let spaced = blanks(bytes, at);
    let rest = &text[spaced..];
    if rest.starts_with("%3D") || rest.starts_with("%3d") {
        return Some((spaced + 3, Tie::Tight));
    }
    let symbol = rest.bytes().take_while(|byte| b"=:!<>~|?+-".contains(byte)).count();
    let tie = match &rest[..symbol] {
        "" => return untied(text, name, at, spaced),
        ">" if opens_element(bytes, name.start) => return Some((spaced + 1, Tie::Element)),
        "==" | "===" | "!=" | "!==" | "<>" | "=~" | "!~" | "-" => Tie::Loose,
        "=" if spaced == name.end && !matches!(bytes.get(spaced + 1), Some(b' ' | b'\t')) => Tie::Tight,
        "=" | ":" | ":=" | "=>" | "::=" | "||=" | "|=" | "?=" | "??=" | "+=" | "<-" | "->" | ":=>" | ">>" => {
            Tie::Assigned
        }
        "<" | ">" | "|" | "?" | "::" => return None,
        // `password=-x`, `:-default`, `=?`: from its second character, the symbol belongs to the value.
        other if other.starts_with(['=', ':']) => return Some((blanks(bytes, spaced + 1), Tie::Assigned)),
        _ => return None,
    };
    let at = blanks(bytes, spaced + symbol);
    Some((past_type(text, at, tie), tie))
}

/// Handles a name without a sign after it: a flag, a call, a list, a quoted word, a sentence.
fn untied(text: &str, name: &Range<usize>, at: usize, spaced: usize) -> Option<(usize, Tie)> {
    let bytes = text.as_bytes();
    match bytes.get(spaced)? {
        b'(' | b',' => Some((blanks(bytes, spaced + 1), Tie::Loose)),
        _ if spaced == at => None,
        _ if bytes[name.start] == b'-' => Some((spaced, Tie::Flag)),
        b'"' | b'\'' | b'`' => Some((spaced, Tie::Loose)),
        _ => {
            let rest = &text[spaced..];
            let said = ["is ", "was ", "are "].iter().find(|verb| rest.starts_with(**verb))?;
            Some((blanks(bytes, spaced + said.len()), Tie::Said))
        }
    }
}

fn opens_element(bytes: &[u8], name_start: usize) -> bool {
    name_start > 0 && bytes[name_start - 1] == b'<'
}

/// Skips a type after the colon, as in `password: str = "…"`.
fn past_type(text: &str, at: usize, tie: Tie) -> usize {
    let bytes = text.as_bytes();
    let in_type = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_&<>[]'. |?".contains(byte);
    if tie != Tie::Assigned || matches!(bytes.get(at), Some(b'"' | b'\'' | b'`')) {
        return at;
    }
    let length = bytes[at..].iter().take(40).take_while(in_type).count();
    let quote = blanks(bytes, at + length + 1);
    let typed = length > 0
        && bytes.get(at + length) == Some(&b'=')
        && matches!(bytes.get(quote), Some(b'"' | b'\'' | b'`'));
    if typed { quote } else { at }
}

/// Handles `"value" == password`, with the value first.
fn tie_before(text: &str, name: &Range<usize>) -> Option<(usize, Tie)> {
    let bytes = text.as_bytes();
    let line = bytes[..name.start].iter().rev().take(512).take_while(|byte| **byte != b'\n').count();
    let before = text.get(name.start - line..name.start)?;
    let left = before.trim_end_matches([' ', '\t', '$', '@', '*']);
    let left = ["===", "!==", "==", "!="].iter().find_map(|sign| left.strip_suffix(sign))?.trim_end();
    let quote = left.chars().next_back().filter(|each| "\"'`".contains(*each))?;
    let open = left[..left.len() - 1].rfind(quote)?;
    Some((name.start - line + open, Tie::Loose))
}

fn read(text: &str, at: usize, tie: Tie) -> Option<Value<'_>> {
    let rest = text.get(at..)?;
    let prefix = rest.bytes().take(2).take_while(|byte| b"brfuL@$".contains(byte)).count();
    let slashes = rest[prefix..].bytes().take(3).take_while(|byte| *byte == b'\\').count();
    match rest.as_bytes().get(prefix + slashes) {
        Some(b'"' | b'\'' | b'`') if tie != Tie::Element => {
            let open = &rest[prefix..prefix + slashes + 1];
            Some(quoted(text, at + prefix + open.len(), open))
        }
        Some(_) => Some(bare(text, at, tie)),
        None => None,
    }
}

fn quoted<'t>(text: &'t str, start: usize, open: &str) -> Value<'t> {
    let rest = capped(&text[start..]);
    let line = rest.find('\n').unwrap_or(rest.len());
    let mut end = line;
    let mut from = 0;
    while let Some(close) = rest[from..line].find(open) {
        let close = from + close;
        // A quote after a backslash belongs to the value.
        if open.len() == 1 && rest[..close].ends_with('\\') && !rest[..close].ends_with("\\\\") {
            from = close + 1;
            continue;
        }
        end = close;
        break;
    }
    Value { text: &rest[..end], start, quoted: true }
}

fn bare(text: &str, start: usize, tie: Tie) -> Value<'_> {
    let rest = capped(&text[start..]);
    let ends = |each: char| match tie {
        Tie::Element => each == '<' || each == '\n',
        Tie::Tight => each.is_whitespace() || "\"'`;&,<".contains(each),
        _ => each.is_whitespace() || "\"'`".contains(each),
    };
    let value = &rest[..rest.find(ends).unwrap_or(rest.len())];
    let value = value.trim_end_matches([',', ';', '.', ':']);
    // A bracket that closes one opened before the name is not part of the value.
    let closing = |value: &str, open: char, close: char| {
        value.ends_with(close) && value.matches(close).count() > value.matches(open).count()
    };
    let mut end = value.len();
    while closing(&value[..end], '(', ')')
        || closing(&value[..end], '{', '}')
        || closing(&value[..end], '[', ']')
    {
        end -= 1;
    }
    Value { text: &value[..end], start, quoted: false }
}

fn capped(rest: &str) -> &str {
    let mut end = rest.len().min(VALUE_MAX);
    while !rest.is_char_boundary(end) {
        end -= 1;
    }
    &rest[..end]
}

/// Returns the end of a value; one that was cut at the limit extends to the end of its run.
fn whole_end(text: &str, value: &Value<'_>) -> usize {
    let end = value.start + value.text.len();
    if value.text.len() + 4 < VALUE_MAX {
        return end;
    }
    let stop = |each: char| each.is_whitespace() || "\"'`<".contains(each);
    text[end..].find(stop).map_or(text.len(), |more| end + more)
}

fn is_secret(weight: Weight, tie: Tie, value: &Value<'_>, name: &str) -> bool {
    let text = value.text.trim();
    if values::stands_for(text) || text.len() < 4 || text.eq_ignore_ascii_case(name) {
        return false;
    }
    if tie == Tie::Loose && !value.quoted {
        return false;
    }
    match weight {
        Weight::None => false,
        Weight::Weak => is_random(value.quoted, text),
        Weight::Fair => is_chosen(value.quoted, tie, text),
        Weight::Strong | Weight::Password if value.quoted => is_quoted_secret(weight, tie, text),
        Weight::Strong | Weight::Password => is_bare_secret(weight, tie, text),
    }
}

/// Judges a value after a weak name.
fn is_random(quoted: bool, text: &str) -> bool {
    let long = text.len() >= if quoted { 12 } else { 16 };
    long && !text.contains(' ')
        && values::looks_random(text)
        && !values::is_digest(text)
        && !values::is_place(text)
        && (quoted || !values::is_code(text))
}

/// Judges a value after `pass`, which also occurs in reports about tests.
fn is_chosen(quoted: bool, tie: Tie, text: &str) -> bool {
    if tie == Tie::Loose
        || text.len() < 6
        || text.contains(' ')
        || values::is_place(text)
        || !values::is_mixed(text)
    {
        return false;
    }
    let literal = quoted || matches!(tie, Tie::Tight | Tie::Element);
    literal || (!values::is_code(text) && text.contains(['!', '#', '$', '%', '^', '*', '?', '~', '@']))
}

fn is_quoted_secret(weight: Weight, tie: Tie, text: &str) -> bool {
    if values::is_place(text) || values::is_sentence(text) {
        return false;
    }
    // `get("token", "Bearer")`: words are arguments; only values that look chosen or random count.
    if tie == Tie::Loose {
        let drawn = values::looks_random(text) || text.contains(['!', '#', '$', '^', '?', '~', '@', '{']);
        return text.len() >= 6 && (drawn || (weight == Weight::Password && values::is_mixed(text)));
    }
    let number = text.bytes().all(|byte| byte.is_ascii_digit());
    match weight {
        Weight::Password => true,
        _ if values::is_label(text) => false,
        _ => !number && text.len() >= 8 || text.len() >= 10,
    }
}

fn is_bare_secret(weight: Weight, tie: Tie, text: &str) -> bool {
    if values::is_code(text) || values::is_place(text) || text.len() < 6 {
        return false;
    }
    let number = text.bytes().all(|byte| byte.is_ascii_digit());
    if number {
        return weight == Weight::Password && tie != Tie::Said || text.len() >= 10 && tie == Tie::Tight;
    }
    match tie {
        // A shell or an environment file computes nothing: a word is a value.
        Tie::Tight | Tie::Element => weight == Weight::Password || values::is_mixed(text) || text.len() >= 16,
        Tie::Assigned | Tie::Flag | Tie::Said | Tie::Loose => values::is_mixed(text) && !is_bare_name(text),
    }
}

/// Recognises an identifier with a number in it: `token = next_token2`, `key1`.
fn is_bare_name(text: &str) -> bool {
    let identifier = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    identifier && text.contains('_') && !values::looks_random(text) && text.len() < 24
}
