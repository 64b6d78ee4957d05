//! Reads `[serve.oidc]`: the identity provider at which people sign in, and what each of them may do.
//!
//! **Invariant:** the client's secret is never in the text, only the name of its variable or file.
//! **Invariant:** a rule without `email` and `group` is an error; it would let every account of the provider in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_core::model::hash::Hash;
use serde::{Deserialize, Deserializer, Serialize};

use super::choices::SignInScope;
use super::notify::{reachable, secret_env};
use super::reading::{at, missing};
use super::values::{WEEK, at_home, checked, each, path, time};

/// An identity provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
pub struct OidcConfig {
    /// Address of the provider, exactly as it names itself.
    #[serde(deserialize_with = "issuer")]
    pub issuer: String,
    #[serde(deserialize_with = "client_id")]
    pub client_id: String,
    /// The variable that holds the client's secret.
    #[serde(default, deserialize_with = "secret_env")]
    pub client_secret_env: Option<String>,
    /// The file that holds the client's secret.
    #[serde(default, deserialize_with = "path")]
    pub client_secret_file: Option<PathBuf>,
    /// Name of the provider on the button.
    #[serde(default, deserialize_with = "shown_name")]
    pub name: Option<String>,
    #[serde(default = "usual_scopes", deserialize_with = "scopes")]
    pub scopes: Vec<String>,
    /// The claim that lists the groups of a person.
    #[serde(default = "usual_claim", deserialize_with = "claim")]
    pub groups_claim: String,
    /// How long a session lasts.
    #[serde(default = "usual_session", deserialize_with = "time::<_, _, WEEK>")]
    pub session: Duration,
    /// The first rule that matches decides; without one a person does not get in.
    #[serde(deserialize_with = "rules")]
    pub allow: Vec<SignInRule>,
}

/// What a person or a group may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignInRule {
    pub whom: SignInMatch,
    #[serde(serialize_with = "word")]
    pub scope: SignInScope,
    /// The only repositories whose plans exist for them, as folders; all if empty.
    pub repositories: Vec<PathBuf>,
    /// Name for their decisions, instead of the one of the provider.
    pub name: Option<String>,
}

/// The people whom a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum SignInMatch {
    Email(String),
    /// Every address of a domain.
    Domain(String),
    Group(String),
}

/// The keys of `[[serve.oidc.allow]]`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
struct RuleKeys {
    email: Option<String>,
    group: Option<String>,
    scope: Option<String>,
    repositories: Vec<String>,
    name: Option<String>,
}

impl OidcConfig {
    /// Returns the name of the provider for people: the given one, or its host.
    pub fn shown(&self) -> String {
        let host = || self.issuer.split("://").nth(1).and_then(|rest| rest.split('/').next());
        self.name.clone().unwrap_or_else(|| host().unwrap_or(&self.issuer).to_owned())
    }

    /// Makes paths absolute: they are relative to the folder of the configuration.
    pub(super) fn resolve(&mut self, folder: &Path) {
        self.client_secret_file = self.client_secret_file.take().map(|file| folder.join(file));
        for rule in &mut self.allow {
            for repository in &mut rule.repositories {
                *repository = folder.join(&repository);
            }
        }
    }

    /// Returns the digest under which a person's trust in this section is recorded. `url` is the public
    /// address of the server, to which the provider sends people back.
    pub fn digest(&self, url: Option<&str>) -> String {
        Hash::of(serde_json::json!({ "serve": { "oidc": self, "url": url } }).to_string().as_bytes())
            .to_string()
    }
}

fn word<S: serde::Serializer>(scope: &SignInScope, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(scope.word())
}

fn usual_scopes() -> Vec<String> {
    ["openid", "email"].map(str::to_owned).to_vec()
}

fn usual_claim() -> String {
    "groups".to_owned()
}

fn usual_session() -> Duration {
    Duration::from_secs(24 * 3600)
}

fn issuer<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, |url| match url {
        _ if url.contains(['?', '#', '@']) => {
            Err("`{key}` is the address of the provider, without a query and without a password".to_owned())
        }
        _ if url.contains("/.well-known/") => {
            Err("`{key}` is the address without `/.well-known/openid-configuration`".to_owned())
        }
        url => reachable(url),
    })
}

fn client_id<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, |id| match id.trim().is_empty() || id.chars().any(char::is_control) {
        true => Err("`{key}` is the id that the provider gave to this server"),
        false => Ok(()),
    })
}

fn is_name(name: &str) -> Result<(), &'static str> {
    match name.trim().is_empty() || name.chars().count() > 60 || name.chars().any(char::is_control) {
        true => Err("`{key}` has 1 to 60 characters"),
        false => Ok(()),
    }
}

fn shown_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    checked(from, is_name)
}

fn scopes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    let all = each(from, |scope: String| match !scope.is_empty() && scope.bytes().all(fits) {
        true => Ok(scope),
        false => Err(format!("`{scope}` is not a scope: each entry of `{{key}}` is one word")),
    })?;
    match all.iter().any(|scope| scope == "openid") {
        true => Ok(all),
        false => Err(serde::de::Error::custom("`{key}` must contain \"openid\"")),
    }
}

fn claim<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, |claim| match claim.is_empty() {
        true => Err("`{key}` is the name of a claim, such as \"groups\""),
        false => Ok(()),
    })
}

fn rules<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SignInRule>, D::Error> {
    let all = each(from, rule)?;
    match all.is_empty() {
        true => Err(serde::de::Error::custom("`{key}` is empty, so nobody could sign in")),
        false => Ok(all),
    }
}

fn rule(RuleKeys { email, group, scope, repositories, name }: RuleKeys) -> Result<SignInRule, String> {
    let whom = match (email, group) {
        (Some(_), Some(_)) => return Err(at("group", "use `email` or `group`, not both: write two rules")),
        (None, None) => return Err("a rule needs an `email` or a `group`".to_owned()),
        (Some(email), None) => address(&email).map_err(|wrong| at("email", wrong))?,
        (None, Some(group)) if group.trim().is_empty() => return Err(at("group", "`group` is empty")),
        (None, Some(group)) => SignInMatch::Group(group),
    };
    let Some(scope) = scope else { return Err(missing("scope")) };
    let scope = SignInScope::ALL.into_iter().find(|known| known.word() == scope).ok_or_else(|| {
        at("scope", format!("`scope` cannot be `{scope}`; it is one of view, decide, admin"))
    })?;
    if scope == SignInScope::Admin && !repositories.is_empty() {
        let message = "an admin sees all repositories: leave out `repositories`, or use `scope = \"decide\"`";
        return Err(at("repositories", message));
    }
    if let Some(given) = &name {
        is_name(given).map_err(|wrong| at("name", wrong))?;
        if !matches!(whom, SignInMatch::Email(_)) {
            return Err(at("name", "`name` is for one person, so it needs the `email` of one person"));
        }
    }
    let repositories = repositories.iter().map(|folder| at_home(folder)).collect();
    Ok(SignInRule { whom, scope, repositories, name })
}

/// Reads an address, or `*@` and a domain.
fn address(email: &str) -> Result<SignInMatch, String> {
    let wrong = || format!("`{email}` is neither an e-mail address nor `*@` and a domain");
    let (local, domain) = email.rsplit_once('@').ok_or_else(wrong)?;
    let is_odd = |text: &str| text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control());
    if is_odd(local) || is_odd(domain) || domain.contains('*') || local.contains('*') && local != "*" {
        return Err(wrong());
    }
    Ok(match local {
        "*" => SignInMatch::Domain(domain.to_owned()),
        _ => SignInMatch::Email(email.to_owned()),
    })
}

#[cfg(test)]
mod tests;
