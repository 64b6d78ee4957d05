//! Reads `[notify]`: where provost sends notifications when it waits for a person.
//!
//! **Invariant:** an address on another machine is used over TLS, or not at all.

use provost_core::model::hash::Hash;
use serde::{Deserialize, Deserializer, Serialize};

use super::choices::MessageFormat;
use super::values::{checked, choice, command, each};

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
    /// Where to send e-mail.
    pub mail: Option<MailConfig>,
    /// Public address of the pages (`url` of `[serve]`), for links to a decision. [`config`](super) sets it.
    #[serde(skip)]
    pub page: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct WebhookConfig {
    #[serde(deserialize_with = "url")]
    pub url: String,
    /// The variable that holds the secret that signs the request.
    #[serde(default, deserialize_with = "secret_env")]
    pub secret_env: Option<String>,
    /// Who reads the body: a program, or people in a chat.
    #[serde(default, deserialize_with = "choice", skip_serializing_if = "MessageFormat::is_default")]
    pub format: MessageFormat,
}

/// E-mail over SMTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct MailConfig {
    #[serde(deserialize_with = "mail_server")]
    pub server: String,
    #[serde(deserialize_with = "mailbox")]
    pub from: String,
    #[serde(deserialize_with = "mailboxes")]
    pub to: Vec<String>,
    /// Name for the login at the server; no login without it.
    #[serde(default)]
    pub user: Option<String>,
    /// The variable that holds the password of `user`.
    #[serde(default, deserialize_with = "secret_env")]
    pub password_env: Option<String>,
}

impl Notify {
    /// Returns whether the section starts a program or contacts an address, which a person has to trust
    /// first.
    pub fn needs_trust(&self) -> bool {
        self.command.is_some() || !self.webhooks.is_empty() || self.mail.is_some()
    }

    /// Returns the digest under which a person's trust in this section is recorded.
    pub fn digest(&self) -> String {
        let mut words =
            serde_json::json!({ "notify": { "command": self.command, "webhooks": self.webhooks } });
        // Only if they are there, so that an older trust stays valid.
        if let Some(mail) = &self.mail {
            words["notify"]["mail"] = serde_json::json!(mail);
        }
        if let Some(page) = &self.page {
            words["notify"]["page"] = serde_json::json!(page);
        }
        Hash::of(words.to_string().as_bytes()).to_string()
    }
}

fn mailbox<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, is_mailbox)
}

fn mailboxes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let all = each(from, |text: String| is_mailbox(&text).map(|()| text))?;
    match all.is_empty() {
        true => Err(serde::de::Error::custom("`{key}` needs at least one address")),
        false => Ok(all),
    }
}

fn is_mailbox(text: &str) -> Result<(), String> {
    match text.parse::<lettre::message::Mailbox>() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("`{text}` is not an e-mail address: {error}")),
    }
}

fn mail_server<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, |url| {
        let uri: ureq::http::Uri =
            url.parse().map_err(|error| format!("`{{key}}` is not an address: {error}"))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("smtp" | "smtps"), Some(_)) if url.contains('@') => {
                Err("`{key}` has no name and no password: use `user` and `password_env`".to_owned())
            }
            (Some("smtp" | "smtps"), Some(_)) => Ok(()),
            _ => {
                Err("`{key}` must begin with smtps:// or smtp://, as in smtps://mail.example.org".to_owned())
            }
        }
    })
}

fn url<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, |url| match url.is_empty() {
        true => Err("`{key}` is empty".to_owned()),
        false => reachable(url),
    })
}

pub(super) fn secret_env<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    checked(from, |name| {
        match !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            true => Ok(()),
            false => Err("`{key}` is the name of a variable, not the secret itself"),
        }
    })
}

/// Accepts an address over TLS or on this machine.
pub(super) fn reachable(url: &str) -> Result<(), String> {
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
