//! Reads how people sign in at `provost serve`: the identity provider of `[serve.oidc]`, its secret, and the rules.
//!
//! A provider decides who a person is, so one that an agent wrote would let the agent approve its own work. The
//! section is used only if a person must have written it (`plan/section_trust.rs`).

use std::fs;
use std::path::Path;
use std::time::Duration;

use provost_core::model::chain::PlanId;
use provost_host::config::{self, OidcConfig, SignInMatch, SignInScope};
use provost_host::egress::provider_client::ProviderClient;

use crate::Error;
use crate::manage::tokens::TokenScope;
use crate::observe::overview::Overview;
use crate::plan::gate;
use crate::plan::plan_registry::repository_key;
use crate::plan::prove::Prover;
use crate::plan::section_trust;
use crate::settings::EngineSettings;

/// Longest secret of a client, in bytes.
const SECRET_MAX: u64 = 4096;

/// How people sign in, besides links.
pub enum SignIn {
    /// There is no provider.
    Off,
    /// Agents can have written the section; it is not used.
    Untrusted,
    On(Box<SignInSettings>),
}

/// An identity provider, and what people who sign in there may do.
pub struct SignInSettings {
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<String>,
    /// Name of the provider for people.
    pub name: String,
    pub scopes: Vec<String>,
    pub groups_claim: String,
    /// How long a session lasts.
    pub lasts: Duration,
    /// Public address of the server, if it is configured.
    pub url: Option<String>,
    /// The first rule that matches decides.
    pub rules: Vec<GrantRule>,
    pub client: ProviderClient,
}

/// What a person or a group may do.
#[derive(Clone, Debug)]
pub struct GrantRule {
    pub whom: SignInMatch,
    pub scope: TokenScope,
    /// Keys of the only repositories whose plans exist for them; all if empty.
    pub repositories: Vec<std::path::PathBuf>,
    /// Name for their decisions, instead of the one of the provider.
    pub name: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error("the variable {name}, which `client_secret_env` under [serve.oidc] names, is not set")]
    NoVariable { name: String },
    #[error("cannot read {}, which `client_secret_file` under [serve.oidc] names", .path.display())]
    Unreadable { path: std::path::PathBuf, source: std::io::Error },
    #[error("{place}, the secret of the client under [serve.oidc], {why}")]
    BadSecret { place: String, why: &'static str },
    #[error("`repositories` under [[serve.oidc.allow]] names {}, which is not a folder", .0.display())]
    NoFolder(std::path::PathBuf),
    #[error("there is no [serve.oidc] in provost.toml, so there is nothing to trust")]
    Nothing,
    #[error(transparent)]
    Engine(#[from] Error),
}

impl From<config::Error> for SignInError {
    fn from(error: config::Error) -> Self {
        Self::Engine(error.into())
    }
}

/// Reads the provider of the folder of the server.
pub fn read(overview: &Overview) -> Result<SignIn, SignInError> {
    let config = config::find(&overview.settings().cwd)?;
    let Some(oidc) = config.serve.oidc else { return Ok(SignIn::Off) };
    let (state, digest) = (overview.state(), oidc.digest(config.serve.url.as_deref()));
    let is_under_way = !overview.is_quiet()?;
    if !section_trust::is_trusted(overview.log(), state, &prover(state), &digest, is_under_way)? {
        return Ok(SignIn::Untrusted);
    }
    settings(oidc, config.serve.url, overview.settings()).map(|on| SignIn::On(Box::new(on)))
}

/// Records that a person trusts the section.
pub fn trust(overview: &Overview) -> Result<(), SignInError> {
    overview.only_at_a_terminal()?;
    let config = config::find(&overview.settings().cwd)?;
    let oidc = config.serve.oidc.ok_or(SignInError::Nothing)?;
    let digest = oidc.digest(config.serve.url.as_deref());
    let key = prover(overview.state()).secret()?.key();
    Ok(gate::trust(overview.state(), &key, &digest)?)
}

/// The key of the state folder; it belongs to no plan.
fn prover(state: &Path) -> Prover {
    Prover::new(state, &PlanId("serve".to_owned()), None)
}

fn settings(
    oidc: OidcConfig,
    url: Option<String>,
    engine: &EngineSettings,
) -> Result<SignInSettings, SignInError> {
    let client_secret = secret(&oidc, engine)?;
    let mut rules = Vec::new();
    for rule in &oidc.allow {
        if let Some(folder) = rule.repositories.iter().find(|folder| !folder.is_dir()) {
            return Err(SignInError::NoFolder(folder.clone()));
        }
        let scope = match rule.scope {
            SignInScope::View => TokenScope::View,
            SignInScope::Decide => TokenScope::Decide,
            SignInScope::Admin => TokenScope::Admin,
        };
        let repositories = rule.repositories.iter().map(|folder| repository_key(folder)).collect();
        rules.push(GrantRule { whom: rule.whom.clone(), scope, repositories, name: rule.name.clone() });
    }
    Ok(SignInSettings {
        name: oidc.shown(),
        issuer: oidc.issuer,
        client_id: oidc.client_id,
        client_secret,
        scopes: oidc.scopes,
        groups_claim: oidc.groups_claim,
        lasts: oidc.session,
        url,
        rules,
        client: ProviderClient::new(&engine.environment),
    })
}

/// Returns the secret of the client; a client without one proves itself by PKCE alone.
fn secret(oidc: &OidcConfig, engine: &EngineSettings) -> Result<Option<String>, SignInError> {
    let (place, text) = if let Some(name) = &oidc.client_secret_env {
        let found =
            engine.environment.iter().rev().find(|(key, value)| key == name.as_str() && !value.is_empty());
        let Some((_, value)) = found else { return Err(SignInError::NoVariable { name: name.clone() }) };
        (name.clone(), value.to_str().map(str::to_owned))
    } else if let Some(path) = &oidc.client_secret_file {
        let unreadable = |source| SignInError::Unreadable { path: path.clone(), source };
        let place = path.display().to_string();
        if fs::metadata(path).map_err(unreadable)?.len() > SECRET_MAX {
            return Err(SignInError::BadSecret { place, why: "is longer than 4096 bytes" });
        }
        (place, String::from_utf8(fs::read(path).map_err(unreadable)?).ok())
    } else {
        return Ok(None);
    };
    let Some(text) = text else { return Err(SignInError::BadSecret { place, why: "is not UTF-8 text" }) };
    // Editors end a file with a line break.
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(SignInError::BadSecret { place, why: "is empty" }),
        text if text.chars().any(char::is_control) => {
            Err(SignInError::BadSecret { place, why: "has more than one line" })
        }
        text => Ok(Some(text.to_owned())),
    }
}
