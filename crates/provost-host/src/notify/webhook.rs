//! Sends the item to a webhook, as JSON or as a message for a chat, signed as in the Standard Webhooks specification.
//!
//! `webhook-id` is the same for every try, `webhook-timestamp` is the time of this try in seconds, and
//! `webhook-signature` is `v1,` and the HMAC-SHA256 of `id.timestamp.body` in base64.
//!
//! **Invariant:** if a secret is configured but missing, nothing is sent unsigned.
//! **Invariant:** no redirect is followed: only the configured address gets the item.

use std::ffi::{OsStr, OsString};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use provost_core::model::hash::Hash;
use ring::hmac;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::TlsConfig;

use super::{DeliveryError, Notification, chat};
use crate::config::notify;
use crate::config::{self, MessageFormat};
use crate::egress::trust_roots::TrustRoots;

/// Timeout of one request; a later try follows.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Webhook {
    url: String,
    uri: Uri,
    secret: SigningSecret,
    format: MessageFormat,
    roots: TrustRoots,
}

/// The secret that signs requests.
pub enum SigningSecret {
    None,
    /// The variable is not set.
    Missing(String),
    Key(hmac::Key),
}

impl SigningSecret {
    /// Creates a key from a secret. After `whsec_` the secret is base64, as other senders write it.
    pub fn new(text: &str) -> Self {
        let encoded = text.strip_prefix("whsec_").and_then(|rest| BASE64_STANDARD.decode(rest).ok());
        let bytes = encoded.unwrap_or_else(|| text.as_bytes().to_vec());
        Self::Key(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
    }

    fn of(variable: Option<&String>, environment: &[(OsString, OsString)]) -> Self {
        let Some(name) = variable else { return SigningSecret::None };
        match variable_of(name, environment).and_then(OsStr::to_str) {
            Some(value) => SigningSecret::new(value),
            None => SigningSecret::Missing(name.clone()),
        }
    }
}

pub(super) fn variable_of<'e>(name: &str, environment: &'e [(OsString, OsString)]) -> Option<&'e OsStr> {
    let found = environment.iter().rev().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
}

/// Returns the value of the signature header.
fn signature(key: &hmac::Key, id: &str, second: u64, body: &str) -> String {
    let code = hmac::sign(key, format!("{id}.{second}.{body}").as_bytes());
    format!("v1,{}", BASE64_STANDARD.encode(code))
}

impl Webhook {
    pub fn new(webhook: &config::WebhookConfig, environment: &[(OsString, OsString)]) -> Self {
        Self {
            url: webhook.url.clone(),
            uri: webhook.url.parse().unwrap_or_default(),
            secret: SigningSecret::of(webhook.secret_env.as_ref(), environment),
            format: webhook.format,
            roots: TrustRoots::from_environment(environment),
        }
    }

    /// Returns the host, which holds no secret; a path or a query may.
    pub(super) fn host(&self) -> &str {
        self.uri.host().unwrap_or("?")
    }

    pub(super) fn digest(&self) -> String {
        Hash::of(self.url.as_bytes()).to_string()[..16].to_owned()
    }

    pub(super) fn deliver(&self, message: &Notification, patience: Duration) -> Result<(), DeliveryError> {
        let key = match &self.secret {
            SigningSecret::None => None,
            SigningSecret::Key(key) => Some(key),
            SigningSecret::Missing(name) => {
                return Err(DeliveryError::for_good(format!(
                    "the variable {name} with its secret is not set"
                )));
            }
        };
        let tls = self.roots.for_request(&self.url).map_err(DeliveryError::for_good)?;
        let body = chat::body(self.format, message);
        let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut request = self
            .agent(patience.min(PATIENCE), tls)
            .post(&self.url)
            .header("content-type", "application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", second.to_string());
        if let Some(key) = key {
            request = request.header("webhook-signature", signature(key, &message.id, second, &body));
        }
        match request.send(&body) {
            Ok(answer) => heard(answer.status().as_u16()),
            Err(error) => Err(DeliveryError::for_now(error.to_string())),
        }
    }

    fn agent(&self, patience: Duration, tls: TlsConfig) -> Agent {
        let config = Agent::config_builder()
            .timeout_global(Some(patience))
            .max_redirects(0)
            .tls_config(tls)
            .http_status_as_error(false)
            .user_agent(concat!("provost/", env!("CARGO_PKG_VERSION")));
        // A server on this machine is not behind a proxy.
        let config = if notify::is_loopback(self.host()) { config.proxy(None) } else { config };
        config.build().into()
    }
}

fn heard(status: u16) -> Result<(), DeliveryError> {
    let words = format!("it answered {status}");
    match status {
        200..=299 => Ok(()),
        408 | 425 | 429 | 500..=599 => Err(DeliveryError::for_now(words)),
        _ => Err(DeliveryError::for_good(words)),
    }
}

#[cfg(test)]
mod tests {
    use super::{SigningSecret, signature};

    /// The example of the Standard Webhooks specification.
    #[test]
    fn a_signature_is_what_other_receivers_compute() {
        let SigningSecret::Key(key) = SigningSecret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") else {
            panic!("a key")
        };
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
