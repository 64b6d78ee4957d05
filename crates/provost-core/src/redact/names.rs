//! Rates what a name says about its value: nothing, perhaps a secret, surely a secret.
//!
//! Names are split into words (`dbPassword`, `DB_PASSWORD` and `db-password` are the same two), because
//! `KEYBOARD` is not a key and `tokenizer` not a token.

#[cfg(test)]
mod tests;

/// The strength with which a name indicates a secret, in increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    None,
    /// `key`, `auth`: the value must look random.
    Weak,
    /// `pass`, `pw`: a password, or a test that passed.
    Fair,
    /// `api_key`, `token`: the value must look like a value, not like a word.
    Strong,
    /// `password`: people choose ordinary words.
    Password,
}

/// Returns whether an environment variable of this name must be kept from other processes.
pub fn looks_secret(name: &str) -> bool {
    match weigh(name) {
        Weight::None => false,
        Weight::Weak => words(name)
            .last()
            .is_some_and(|last| WEAK_BUT_KEPT.contains(&last.as_str()) || ends_in_key_or_pass(last)),
        Weight::Fair | Weight::Strong | Weight::Password => true,
    }
}

/// Weak words that name a secret at the end of a variable's name.
const WEAK_BUT_KEPT: &[&str] =
    &["key", "keys", "auth", "pass", "salt", "cookie", "cookies", "jwt", "pin", "bearer", "authorization"];

/// A name that ends in one of these describes or locates a secret and holds none.
const HARMLESS: &[&str] = &[
    "agent",
    "age",
    "alg",
    "algorithm",
    "algo",
    "alias",
    "arn",
    "attempts",
    "available",
    "bits",
    "class",
    "cmd",
    "code",
    "command",
    "config_path",
    "count",
    "created",
    "date",
    "digest",
    "dir",
    "directory",
    "disabled",
    "email",
    "enabled",
    "endpoint",
    "enum",
    "env",
    "error",
    "errors",
    "exists",
    "expected",
    "expiration",
    "expires",
    "expiry",
    "field",
    "fields",
    "file",
    "filename",
    "files",
    "fingerprint",
    "folder",
    "format",
    "func",
    "function",
    "handler",
    "hash",
    "header",
    "headers",
    "help",
    "hint",
    "home",
    "host",
    "id",
    "ids",
    "index",
    "info",
    "input",
    "interval",
    "invalid",
    "issuer",
    "kind",
    "label",
    "len",
    "length",
    "lifetime",
    "limit",
    "list",
    "location",
    "manager",
    "map",
    "mask",
    "max",
    "message",
    "method",
    "min",
    "missing",
    "mode",
    "model",
    "name",
    "names",
    "namespace",
    "num",
    "number",
    "offset",
    "option",
    "options",
    "pair",
    "parameter",
    "params",
    "parser",
    "path",
    "paths",
    "pattern",
    "period",
    "placeholder",
    "plugin",
    "policy",
    "port",
    "position",
    "prefix",
    "prompt",
    "protocol",
    "provider",
    "ref",
    "regex",
    "region",
    "required",
    "reset",
    "role",
    "rotation",
    "rule",
    "rules",
    "schema",
    "scheme",
    "scope",
    "scopes",
    "selector",
    "service",
    "size",
    "sock",
    "socket",
    "source",
    "spec",
    "state",
    "status",
    "store",
    "strategy",
    "strength",
    "suffix",
    "template",
    "test",
    "tests",
    "text",
    "time",
    "timeout",
    "timestamp",
    "title",
    "total",
    "ttl",
    "type",
    "types",
    "uri",
    "url",
    "usage",
    "used",
    "user",
    "username",
    "valid",
    "validation",
    "validator",
    "verification",
    "verified",
    "version",
];

/// Words that make a following `key` a secret one.
const SECRET_KEYS: &[&str] = &[
    "access",
    "account",
    "admin",
    "aes",
    "api",
    "app",
    "application",
    "auth",
    "client",
    "consumer",
    "cookie",
    "crypt",
    "crypto",
    "deploy",
    "encryption",
    "enc",
    "gpg",
    "hmac",
    "jwt",
    "license",
    "master",
    "pgp",
    "priv",
    "private",
    "rsa",
    "secret",
    "server",
    "service",
    "session",
    "shared",
    "sign",
    "signing",
    "ssh",
    "storage",
    "subscription",
    "team",
    "user",
    "webhook",
    "write",
];

/// Words that make a following `key` an ordinary one.
const PLAIN_KEYS: &[&str] = &[
    "bucket",
    "cache",
    "column",
    "config",
    "dict",
    "distribution",
    "foreign",
    "group",
    "hash",
    "host",
    "idempotency",
    "index",
    "item",
    "json",
    "lock",
    "lookup",
    "map",
    "message",
    "natural",
    "object",
    "partition",
    "primary",
    "query",
    "range",
    "registry",
    "routing",
    "row",
    "search",
    "shard",
    "sort",
    "storage_object",
    "unique",
];

const WEAK: &[&str] = &[
    "api",
    "auth",
    "authorization",
    "bearer",
    "cert",
    "cookie",
    "cookies",
    "dsn",
    "jwt",
    "key",
    "keys",
    "login",
    "nonce",
    "oauth",
    "otp",
    "pass",
    "pat",
    "pin",
    "pw",
    "salt",
    "session",
    "sid",
    "sig",
    "signature",
];

pub(super) fn weigh(name: &str) -> Weight {
    // Variables of the shell, too common in logs.
    if matches!(name, "PWD" | "OLDPWD" | "pwd") {
        return Weight::None;
    }
    let mut words = words(name);
    // A number at the end changes nothing: `access_token4`, `password2`.
    while words.len() > 1 && words.last().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit())) {
        words.pop();
    }
    let Some(last) = words.last() else { return Weight::None };
    let said = |word: &str| words.iter().any(|each| each == word);
    if HARMLESS.contains(&last.as_str()) || said("public") || said("pub") || said("example") {
        return Weight::None;
    }
    if words.iter().any(|word| is_password(word)) {
        return Weight::Password;
    }
    if words.iter().any(|word| is_secret(word)) || ends_in_token(&words) || has_secret_key(&words) {
        return Weight::Strong;
    }
    if matches!(last.as_str(), "pass" | "pw") || (last.ends_with("pass") && ends_in_key_or_pass(last)) {
        return Weight::Fair;
    }
    let before = words.len().checked_sub(2).map(|at| words[at].as_str());
    let plain =
        matches!(last.as_str(), "key" | "keys") && before.is_some_and(|word| PLAIN_KEYS.contains(&word));
    if !plain && (WEAK.contains(&last.as_str()) || ends_in_key_or_pass(last)) {
        Weight::Weak
    } else {
        Weight::None
    }
}

fn is_password(word: &str) -> bool {
    ["password", "passwd", "passphrase", "passwort", "passcode"].iter().any(|each| word.contains(each))
        || matches!(word, "pwd" | "passwords" | "psw" | "pswd")
        || (word.ends_with("pwd") && word != "oldpwd")
}

fn is_secret(word: &str) -> bool {
    word.starts_with("credential")
        || matches!(word, "secret" | "secrets" | "creds" | "cred")
        || (word.ends_with("secret") && word.len() > 6)
        || (word.starts_with("secret") && !word.starts_with("secretar") && !word.starts_with("secretl"))
        || [
            "apikey",
            "accesskey",
            "secretkey",
            "privatekey",
            "privkey",
            "authkey",
            "authtoken",
            "accesstoken",
        ]
        .iter()
        .any(|each| word.contains(each))
        || word.contains("connectionstring")
}

/// Recognises `token` and words that end in it. `tokens` is usually a count.
fn ends_in_token(words: &[String]) -> bool {
    let at = |back: usize| words.len().checked_sub(back).map_or("", |at| words[at].as_str());
    let token = |word: &str| word.ends_with("token") && word != "nontoken";
    let tail = ["value", "key", "str", "string", "sec", "base64", "b64", "raw", "data"];
    token(at(1))
        || (tail.contains(&at(1)) && token(at(2)))
        || (at(1) == "tokens" && ["api", "auth", "access", "secret", "refresh", "bearer"].contains(&at(2)))
        || (at(1) == "string" && at(2) == "connection")
}

fn has_secret_key(words: &[String]) -> bool {
    words
        .windows(2)
        .any(|pair| matches!(pair[1].as_str(), "key" | "keys") && SECRET_KEYS.contains(&pair[0].as_str()))
}

/// Recognises words joined without a separator: `dbpass`, `hostkey`.
fn ends_in_key_or_pass(word: &str) -> bool {
    let ordinary = [
        "monkey",
        "turkey",
        "donkey",
        "hotkey",
        "whiskey",
        "hockey",
        "jockey",
        "bypass",
        "compass",
        "askpass",
        "surpass",
        "trespass",
        "encompass",
    ];
    (word.ends_with("key") || word.ends_with("pass")) && !ordinary.iter().any(|each| word.ends_with(each))
}

/// Splits a name into words: `AWSSecretKey_2` → aws, secret, key, 2
pub(super) fn words(name: &str) -> Vec<String> {
    let bytes = name.as_bytes();
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, &byte) in bytes.iter().enumerate() {
        if !byte.is_ascii_alphanumeric() {
            close(&mut word, &mut words);
            continue;
        }
        if at > 0 && begins_word(bytes, at) {
            close(&mut word, &mut words);
        }
        word.push(char::from(byte.to_ascii_lowercase()));
    }
    close(&mut word, &mut words);
    words
}

fn close(word: &mut String, words: &mut Vec<String>) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

/// Returns whether a word begins here: at `oA`, `a1`, and the last capital of `ABc`. A digit inside lower
/// case (`oauth2`, `base64`) ends a word, which makes no difference here.
fn begins_word(bytes: &[u8], at: usize) -> bool {
    let (before, here, after) = (bytes[at - 1], bytes[at], bytes.get(at + 1).copied().unwrap_or(b'_'));
    (before.is_ascii_lowercase() && here.is_ascii_uppercase())
        || (before.is_ascii_uppercase() && here.is_ascii_uppercase() && after.is_ascii_lowercase())
        || (before.is_ascii_alphabetic() && here.is_ascii_digit())
        || (before.is_ascii_digit() && here.is_ascii_alphabetic())
}
