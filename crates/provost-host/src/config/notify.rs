//! Reads `[notify]`: where provost sends notifications when it waits for a person.
//!
//! **Invariant:** an address on another machine is used over TLS, or not at all.

use provost_core::model::hash::Hash;
use serde::Serialize;

use super::reading::{Section, Wrong};

const KEYS: [&str; 3] = ["desktop", "command", "webhook"];
const WEBHOOK_KEYS: [&str; 2] = ["url", "secret_env"];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Notify {
    /// Use the desktop's notifications, if there are any.
    pub desktop: bool,
    /// A program that reads the item on its standard input.
    pub command: Option<Vec<String>>,
    pub webhooks: Vec<WebhookConfig>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WebhookConfig {
    pub url: String,
    /// The variable that holds the secret that signs the request.
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

pub(super) fn read(top: &Section<'_, '_>) -> Result<Notify, Wrong> {
    let Some(section) = top.section("notify", &KEYS)? else { return Ok(Notify::default()) };
    let command = match section.has("command") {
        true => Some(section.command()?),
        false => None,
    };
    let webhooks = section.list("webhook", &WEBHOOK_KEYS)?.iter().map(webhook).collect::<Result<_, _>>()?;
    Ok(Notify { desktop: section.boolean("desktop")?.unwrap_or(false), command, webhooks })
}

fn webhook(section: &Section<'_, '_>) -> Result<WebhookConfig, Wrong> {
    let url = section.required("url")?;
    if let Err(message) = reachable(&url) {
        return Err(section.wrong("url", message));
    }
    let secret_env = section.string("secret_env")?;
    let is_name = |name: &String| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match secret_env.as_ref().filter(|name| !is_name(name)) {
        Some(_) => {
            let message = "`secret_env` is the name of a variable, not the secret itself".to_owned();
            Err(section.wrong("secret_env", message))
        }
        None => Ok(WebhookConfig { url, secret_env }),
    }
}

/// Accepts an address over TLS or on this machine.
fn reachable(url: &str) -> Result<(), String> {
    let uri: ureq::http::Uri = url.parse().map_err(|error| format!("`url` is not an address: {error}"))?;
    let Some(host) = uri.host() else { return Err("`url` names no host".to_owned()) };
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_loopback(host) => Ok(()),
        Some("http") => Err("`url` must begin with https://; http:// is allowed only \
                 for this machine's loopback"
            .to_owned()),
        _ => Err("`url` must begin with https://".to_owned()),
    }
}

pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
