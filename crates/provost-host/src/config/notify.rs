//! Reads `[notify]`: where provost sends notifications when it waits for a person.
//!
//! **Invariant:** an address on another machine is used over TLS, or not at all.

use provost_core::model::hash::Hash;
use serde::{Deserialize, Deserializer, Serialize};

use super::values::{checked, command};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct Notify {
    /// Use the desktop's notifications, if there are any.
    pub desktop: bool,
    /// A program that reads the item on its standard input.
    #[serde(deserialize_with = "command")]
    pub command: Option<Vec<String>>,
    #[serde(rename(deserialize = "webhook"))]
    pub webhooks: Vec<WebhookConfig>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct WebhookConfig {
    #[serde(deserialize_with = "url")]
    pub url: String,
    /// The variable that holds the secret that signs the request.
    #[serde(default, deserialize_with = "secret_env")]
    pub secret_env: Option<String>,
}

impl Notify {
    /// Returns whether the section starts a program or contacts an address, which a person has to trust
    /// first.
    pub fn needs_trust(&self) -> bool {
        self.command.is_some() || !self.webhooks.is_empty()
    }

    /// Returns the digest under which a person's trust in this section is recorded.
    pub fn digest(&self) -> String {
        let words = serde_json::json!({ "notify": { "command": self.command, "webhooks": self.webhooks } });
        Hash::of(words.to_string().as_bytes()).to_string()
    }
}

fn url<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, |url| match url.is_empty() {
        true => Err("`{key}` is empty".to_owned()),
        false => reachable(url),
    })
}

fn secret_env<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    checked(from, |name| {
        match !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            true => Ok(()),
            false => Err("`{key}` is the name of a variable, not the secret itself"),
        }
    })
}

/// Accepts an address over TLS or on this machine.
fn reachable(url: &str) -> Result<(), String> {
    let uri: ureq::http::Uri =
        url.parse().map_err(|error| format!("`{{key}}` is not an address: {error}"))?;
    let Some(host) = uri.host() else { return Err("`{key}` names no host".to_owned()) };
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_loopback(host) => Ok(()),
        Some("http") => Err("`{key}` must begin with https://; http:// is allowed only \
                 for this machine's loopback"
            .to_owned()),
        _ => Err("`{key}` must begin with https://".to_owned()),
    }
}

pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
