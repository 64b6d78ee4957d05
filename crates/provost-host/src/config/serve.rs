//! Reads `[serve]`: the public address of `provost serve`, and how people sign in.

use serde::{Deserialize, Deserializer};

use super::notify::reachable;
use super::oidc::OidcConfig;
use super::values::checked;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
pub struct ServeConfig {
    /// Address under which people open the pages, without a slash at its end.
    #[serde(deserialize_with = "url")]
    pub url: Option<String>,
    /// Identity provider at which people sign in.
    pub oidc: Option<OidcConfig>,
}

fn url<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let url: String = checked(from, |url| match url.contains(['?', '#']) {
        true => Err("`{key}` is the address of the server, without a query".to_owned()),
        false => reachable(url),
    })?;
    Ok(Some(url.trim_end_matches('/').to_owned()))
}
