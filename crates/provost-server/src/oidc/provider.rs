//! Talks to the provider: its documents, which are cached, and the exchange of a code for tokens.
//!
//! **Invariant:** a token with an unknown key makes provost fetch the keys once more, at most once a minute.

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use provost_core::model::timestamp::Timestamp;
use provost_engine::ProviderAnswer;

use super::id_token::{self, Expected, TokenFault};
use super::json::Object;
use super::keys::KeySet;
use super::metadata::{self, Metadata};
use super::{Fault, Web, words};

/// How long a document is used, in milliseconds.
const FRESH: u64 = 3_600_000;
/// How long a failure is remembered, so that a provider that is down does not hold up every visitor.
const FAILED: u64 = 5_000;
/// Shortest time between two fetches of keys because of an unknown one.
const AGAIN: u64 = 60_000;

/// What the provider knows about this server.
pub(super) struct ClientSettings {
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<String>,
    pub scopes: Vec<String>,
    /// Address to which the provider sends people back.
    pub redirect: String,
}

/// The tokens for a code.
pub(super) struct ProviderTokens {
    pub id_token: String,
    pub access_token: Option<String>,
}

/// A document with the time at which it was fetched.
struct Cached<T> {
    got: Option<(Arc<T>, Timestamp)>,
    failed: Option<(Fault, Timestamp)>,
    /// The last time at which a fresh document was fetched again.
    again: Option<Timestamp>,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self { got: None, failed: None, again: None }
    }
}

impl<T> Cached<T> {
    /// Returns the document, fetched if it is missing or old. One caller fetches; the others wait for it.
    fn get(&mut self, now: Timestamp, fetch: impl FnOnce() -> Result<T, Fault>) -> Result<Arc<T>, Fault> {
        let since = |then: Timestamp| now.0.saturating_sub(then.0);
        if let Some((known, _)) = self.got.as_ref().filter(|(_, at)| since(*at) < FRESH) {
            return Ok(known.clone());
        }
        if let Some((fault, _)) = self.failed.as_ref().filter(|(_, at)| since(*at) < FAILED) {
            return Err(fault.clone());
        }
        self.fetched(now, fetch)
    }

    fn fetched(&mut self, now: Timestamp, fetch: impl FnOnce() -> Result<T, Fault>) -> Result<Arc<T>, Fault> {
        match fetch().map(Arc::new) {
            Ok(new) => {
                self.got = Some((new.clone(), now));
                self.failed = None;
                Ok(new)
            }
            Err(fault) => {
                self.failed = Some((fault.clone(), now));
                Err(fault)
            }
        }
    }

    /// Fetches a document again that is fresh; `None` if this was done a moment ago.
    fn again(
        &mut self,
        now: Timestamp,
        fetch: impl FnOnce() -> Result<T, Fault>,
    ) -> Option<Result<Arc<T>, Fault>> {
        if self.again.is_some_and(|then| now.0.saturating_sub(then.0) < AGAIN) {
            return None;
        }
        self.again = Some(now);
        Some(self.fetched(now, fetch))
    }
}

pub(super) struct Provider {
    settings: ClientSettings,
    web: Box<dyn Web>,
    metadata: Mutex<Cached<Metadata>>,
    keys: Mutex<Cached<KeySet>>,
}

impl Provider {
    pub(super) fn new(settings: ClientSettings, web: Box<dyn Web>) -> Self {
        Self { settings, web, metadata: Mutex::default(), keys: Mutex::default() }
    }

    pub(super) fn client_id(&self) -> &str {
        &self.settings.client_id
    }

    pub(super) fn redirect(&self) -> &str {
        &self.settings.redirect
    }

    /// Returns the discovery document.
    pub(super) fn metadata(&self, now: Timestamp) -> Result<Arc<Metadata>, Fault> {
        let issuer = &self.settings.issuer;
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner).get(now, || {
            let body = self.document(&metadata::place(issuer))?;
            metadata::read(&body, issuer).map_err(Fault::Provider)
        })
    }

    /// Fetches the documents that a sign-in needs.
    pub(super) fn documents(&self, now: Timestamp) -> Result<(), Fault> {
        let metadata = self.metadata(now)?;
        self.keys(&metadata, now).map(|_| ())
    }

    fn keys(&self, metadata: &Metadata, now: Timestamp) -> Result<Arc<KeySet>, Fault> {
        let mut cached = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        cached.get(now, || self.fetch_keys(metadata))
    }

    fn fetch_keys(&self, metadata: &Metadata) -> Result<KeySet, Fault> {
        let body = self.document(&metadata.jwks_uri)?;
        KeySet::read(&body).map_err(|why| Fault::Provider(format!("its keys cannot be read: {why}")))
    }

    fn document(&self, url: &str) -> Result<Vec<u8>, Fault> {
        let answer = self.web.get(url, None).map_err(Fault::Unreachable)?;
        match answer.status {
            200 => Ok(answer.body),
            status => Err(Fault::Provider(format!("{url} answered {status}"))),
        }
    }

    /// Returns the address to which the browser goes.
    pub(super) fn authorize(&self, metadata: &Metadata, state: &str, nonce: &str, challenge: &str) -> String {
        let ClientSettings { client_id, scopes, redirect, .. } = &self.settings;
        let scopes = scopes.join(" ");
        let asked = [
            ("response_type", "code"),
            ("client_id", client_id),
            ("redirect_uri", redirect),
            ("scope", &scopes),
            ("state", state),
            ("nonce", nonce),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256"),
        ];
        with_query(&metadata.authorization_endpoint, &asked)
    }

    /// Exchanges a code for tokens.
    pub(super) fn exchange(
        &self,
        metadata: &Metadata,
        code: &str,
        verifier: &str,
    ) -> Result<ProviderTokens, Fault> {
        let ClientSettings { client_id, client_secret, redirect, .. } = &self.settings;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect.as_str()),
            ("code_verifier", verifier),
        ];
        let mut authorization = None;
        match client_secret {
            Some(secret) if metadata.secret_in_form => {
                form.extend([("client_id", client_id.as_str()), ("client_secret", secret)]);
            }
            Some(secret) => authorization = Some(basic(client_id, secret)),
            None => form.push(("client_id", client_id)),
        }
        let answer = self.web.post(&metadata.token_endpoint, authorization.as_deref(), &form);
        let answer = answer.map_err(Fault::Unreachable)?;
        let status = answer.status;
        let document = json(&answer);
        if status != 200 {
            let said = document
                .as_ref()
                .ok()
                .and_then(|said| Some((said.text("error")?, said.text("error_description"))));
            let why = said.map(|(error, more)| format!(": {}", words(error, more))).unwrap_or_default();
            return Err(Fault::Provider(format!("its token endpoint answered {status}{why}")));
        }
        let tokens = document?;
        let Some(id_token) = tokens.text("id_token") else {
            return Err(Fault::Provider("it sent no ID token".to_owned()));
        };
        let is_bearer = tokens.text("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"));
        let is_plain = |token: &&str| is_bearer && token.bytes().all(|byte| byte.is_ascii_graphic());
        let access_token = tokens.text("access_token").filter(is_plain).map(str::to_owned);
        Ok(ProviderTokens { id_token: id_token.to_owned(), access_token })
    }

    /// Checks an ID token. If its key is unknown, the keys may have changed.
    pub(super) fn checked(
        &self,
        metadata: &Metadata,
        token: &str,
        expected: &Expected<'_>,
        now: Timestamp,
    ) -> Result<Object, Fault> {
        let seconds = now.0 / 1000;
        let checked = id_token::check(token, &*self.keys(metadata, now)?, expected, seconds);
        if checked != Err(TokenFault::UnknownKey) {
            return Ok(checked?);
        }
        let mut cached = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let fetched = cached.again(now, || self.fetch_keys(metadata)).ok_or(TokenFault::UnknownKey)?;
        Ok(id_token::check(token, &*fetched?, expected, seconds)?)
    }

    /// Returns what the provider says about the owner of an access token.
    pub(super) fn userinfo(&self, url: &str, access: &str) -> Result<Object, Fault> {
        let answer = self.web.get(url, Some(access)).map_err(Fault::Unreachable)?;
        match answer.status {
            200 => json(&answer),
            status => Err(Fault::Provider(format!("its user info answered {status}"))),
        }
    }

    /// Returns the address at which a person signs out of the provider, if it was fetched already.
    pub(super) fn sign_out(&self) -> Option<String> {
        let cached = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        let place = cached.got.as_ref()?.0.end_session_endpoint.clone()?;
        Some(with_query(&place, &[("client_id", &self.settings.client_id)]))
    }
}

fn json(answer: &ProviderAnswer) -> Result<Object, Fault> {
    match answer.kind.as_str() {
        "application/json" => Object::read(&answer.body)
            .map_err(|why| Fault::Provider(format!("its answer cannot be read: {why}"))),
        kind => Err(Fault::Provider(format!("its answer is `{kind}`, not JSON"))),
    }
}

fn with_query(place: &str, pairs: &[(&str, &str)]) -> String {
    let query = serde_urlencoded::to_string(pairs).unwrap_or_default();
    format!("{place}{}{query}", if place.contains('?') { '&' } else { '?' })
}

/// Returns the value of the header `Authorization`; both parts are encoded as in a form first (RFC 6749, 2.3.1).
fn basic(id: &str, secret: &str) -> String {
    let part = |text: &str| {
        let pair = serde_urlencoded::to_string([("", text)]).unwrap_or_default();
        pair.strip_prefix('=').unwrap_or(&pair).to_owned()
    };
    format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", part(id), part(secret))))
}
