//! Signs people in at an identity provider by OpenID Connect: the authorization code flow with PKCE.
//!
//! `pending.rs` has the sign-ins that are under way, `provider.rs` talks to the provider, `metadata.rs` and
//! `keys.rs` read its documents, `id_token.rs` checks its token, `person.rs` finds the rule for a person.
//! `pages/sign_in.rs` has the two routes. The time is an argument everywhere.
//!
//! **Invariant:** a person gets in only with an ID token that this provider signed for this server and for this
//! sign-in, in the browser that began it, once, and only if a rule matches.

mod id_token;
mod json;
mod keys;
mod metadata;
mod pending;
mod person;
mod provider;
#[cfg(test)]
mod tests;

use std::time::Duration;

use provost_core::model::timestamp::Timestamp;
use provost_engine::manage::sign_in::SignInSettings;
use provost_engine::manage::tokens::TokenGrant;
use provost_engine::{ProviderAnswer, ProviderClient};
use tokio::sync::{Semaphore, SemaphorePermit};

use id_token::{Expected, TokenFault};
use pending::{Pending, TakenSignIn};
use provider::Provider;

pub(crate) use pending::BINDING_LASTS;

/// Path to which the provider sends people back.
pub(crate) const CALLBACK: &str = "/sign-in/callback";
/// Longest code that a provider sends.
const CODE_MAX: usize = 4096;
/// Most requests that wait for the provider at a time, so that a slow one does not stop the other pages.
const TURNS: usize = 8;

/// Why a sign-in failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the identity provider cannot be reached: {0}")]
    Unreachable(String),
    #[error("the identity provider gave a wrong answer: {0}")]
    Provider(String),
    #[error("the ID token of the identity provider is not valid: {0}")]
    Token(#[from] TokenFault),
    #[error(
        "this browser has no sign-in under way: it was begun elsewhere, was used already, or took too long"
    )]
    NotBegun,
    #[error("the identity provider did not sign you in: {0}")]
    Denied(String),
    #[error("{who} may not use this server: no rule under [[serve.oidc.allow]] is about this person")]
    NoRule { who: String },
}

/// What the routes of the sign-in ask a provider for. Tests answer in its place.
pub(crate) trait Web: Send + Sync {
    fn get(&self, url: &str, bearer: Option<&str>) -> Result<ProviderAnswer, String>;
    fn post(
        &self,
        url: &str,
        authorization: Option<&str>,
        form: &[(&str, &str)],
    ) -> Result<ProviderAnswer, String>;
}

impl Web for ProviderClient {
    fn get(&self, url: &str, bearer: Option<&str>) -> Result<ProviderAnswer, String> {
        ProviderClient::get(self, url, bearer)
    }

    fn post(
        &self,
        url: &str,
        authorization: Option<&str>,
        form: &[(&str, &str)],
    ) -> Result<ProviderAnswer, String> {
        ProviderClient::post(self, url, authorization, form)
    }
}

/// The sign-in of a server.
pub struct Oidc {
    /// Name of the provider for people.
    pub(crate) name: String,
    /// Address of this server.
    pub(crate) base: String,
    pub(crate) lasts: Duration,
    provider: Provider,
    pending: Pending,
    turns: Semaphore,
    rules: person::Rules,
}

impl std::fmt::Debug for Oidc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Oidc({})", self.name)
    }
}

/// What the provider sent back with the browser.
#[derive(Default, serde::Deserialize)]
pub(crate) struct Callback {
    code: Option<String>,
    state: Option<String>,
    iss: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// A sign-in that begins.
pub(crate) struct Begun {
    /// Address of the provider to lead the browser to.
    pub location: String,
    /// Secret for the cookie that binds the sign-in to this browser.
    pub binding: String,
}

/// A sign-in that has ended.
pub(crate) struct Finished {
    /// The page that the person wanted.
    pub next: String,
    /// What the person may do now.
    pub person: Result<TokenGrant, Fault>,
}

impl Oidc {
    /// `shown` is the address that the server has if none is configured.
    pub(crate) fn new(settings: SignInSettings, shown: &str) -> Self {
        let SignInSettings { url, client, .. } = settings;
        let base = url.unwrap_or_else(|| shown.to_owned());
        let client_settings = provider::ClientSettings {
            issuer: settings.issuer.clone(),
            client_id: settings.client_id,
            client_secret: settings.client_secret,
            scopes: settings.scopes,
            redirect: format!("{base}{CALLBACK}"),
        };
        Self {
            name: settings.name,
            base,
            lasts: settings.lasts,
            provider: Provider::new(client_settings, Box::new(client)),
            pending: Pending::default(),
            turns: Semaphore::new(TURNS),
            rules: person::Rules {
                issuer: settings.issuer,
                groups_claim: settings.groups_claim,
                rules: settings.rules,
            },
        }
    }

    /// Tries to reach the provider; returns a sentence for the person who started the server.
    pub fn probe(&self, now: Timestamp) -> Result<String, String> {
        let (name, redirect) = (&self.name, self.provider.redirect());
        match self.provider.documents(now) {
            Ok(()) => Ok(format!("people can sign in with {name}; it sends them back to {redirect}")),
            Err(fault) => Err(format!("people cannot sign in with {name} now: {fault}; links work")),
        }
    }

    /// Returns the right to wait for the provider, if not too many requests wait already.
    pub(crate) fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.try_acquire().ok()
    }

    /// Begins a sign-in that leads on to `next`.
    pub(crate) fn begin(&self, next: &str, now: Timestamp) -> Result<Begun, Fault> {
        let metadata = self.provider.metadata(now)?;
        let begun = self.pending.begin(next, now)?;
        let location = self.provider.authorize(&metadata, &begun.state, &begun.nonce, &begun.challenge());
        Ok(Begun { location, binding: begun.binding })
    }

    /// Ends a sign-in. `binding` is the secret of the browser's cookie.
    pub(crate) fn finish(&self, sent: &Callback, binding: Option<&str>, now: Timestamp) -> Finished {
        match self.pending.take(sent.state.as_deref(), binding, now) {
            Some(begun) => Finished { person: self.person(sent, &begun, now), next: begun.next },
            None => Finished { person: Err(Fault::NotBegun), next: "/".to_owned() },
        }
    }

    fn person(&self, sent: &Callback, begun: &TakenSignIn, now: Timestamp) -> Result<TokenGrant, Fault> {
        let metadata = self.provider.metadata(now)?;
        // Another provider's answer must not be used here (RFC 9207).
        let is_other = sent.iss.as_deref().map_or(metadata.names_itself, |iss| iss != metadata.issuer);
        if is_other {
            return Err(Fault::Provider("it came from another provider".to_owned()));
        }
        if let Some(error) = &sent.error {
            return Err(Fault::Denied(words(error, sent.error_description.as_deref())));
        }
        let code = sent.code.as_deref().filter(|code| !code.is_empty() && code.len() <= CODE_MAX);
        let Some(code) = code else { return Err(Fault::Provider("it sent no code".to_owned())) };
        let tokens = self.provider.exchange(&metadata, code, &begun.verifier)?;
        let expected =
            Expected { issuer: &metadata.issuer, client_id: self.provider.client_id(), nonce: &begun.nonce };
        let claims = self.provider.checked(&metadata, &tokens.id_token, &expected, now)?;
        let mut claims = person::Claims::of_token(&claims, &self.rules);
        if claims.lacks(&self.rules)
            && let (Some(place), Some(access)) = (&metadata.userinfo_endpoint, &tokens.access_token)
        {
            claims.add(&self.provider.userinfo(place, access)?, &self.rules)?;
        }
        self.rules.grant(&claims).ok_or_else(|| Fault::NoRule { who: claims.shown() })
    }

    /// Returns the host of this server as browsers name it, without the usual port.
    pub(crate) fn host(&self) -> &str {
        let (scheme, rest) = self.base.split_once("://").unwrap_or(("", &self.base));
        let host = rest.split('/').next().unwrap_or_default();
        let usual = if scheme == "https" { ":443" } else { ":80" };
        host.strip_suffix(usual).unwrap_or(host)
    }

    /// Returns where a person can sign out of the provider, if it is known.
    pub(crate) fn sign_out(&self) -> Option<String> {
        self.provider.sign_out()
    }
}

/// Returns the error of a provider, short and on one line.
fn words(error: &str, description: Option<&str>) -> String {
    let short = |text: &str, most: usize| -> String {
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(most).collect()
    };
    match description {
        Some(description) => format!("{} ({})", short(error, 60), short(description, 200)),
        None => short(error, 60),
    }
}
