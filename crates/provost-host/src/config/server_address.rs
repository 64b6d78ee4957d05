//! Reads the address of a server and the variable with its key.

use serde::Deserializer;

use super::values::checked;
use crate::egress::proxy::Address;

pub(super) fn base_url<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    checked(from, |url| match address(url) {
        Some(_) => Ok(()),
        None => Err(format!("`{url}` is not a URL such as \"http://127.0.0.1:8000/v1\"")),
    })
}

/// Reads `key_env`. The error does not repeat the value, which may be the key itself.
pub(super) fn key_env<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    checked(from, |name| {
        let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        match starts && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            true => Ok(()),
            false => Err("`{key}` is the name of a variable; the key itself does not belong here"),
        }
    })
}

/// Returns the address of a base URL, to which the agent gets network access.
pub(super) fn address(url: &str) -> Option<Address> {
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    is_http.then(|| Address::of_url(url, 80)).flatten()
}
