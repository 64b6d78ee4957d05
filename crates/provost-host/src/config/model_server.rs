//! Reads the server of a model for `driver = "opencode"`: a local one, one of your own, or the meter.
//!
//! **Invariant:** the file never holds a key, only the variable with it.

use std::fmt;

use super::reading::at;
use super::server_address::address;
use crate::egress::proxy::Address;

/// Servers on this machine that have a usual address.
const LOCAL: [(&str, &str); 2] =
    [("ollama", "http://127.0.0.1:11434/v1"), ("lmstudio", "http://127.0.0.1:1234/v1")];

/// The server that a role's `model = "PROVIDER/MODEL"` is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelServer {
    pub provider: String,
    pub model: String,
    pub at: ModelAddress,
    /// The variable with the key; `None` for a server that needs none.
    pub key_env: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelAddress {
    /// The provider's own, which the client knows.
    Usual,
    Url(String),
    /// That of the meter, which the environment of the attempt names.
    Meter,
}

impl ModelServer {
    /// Returns the server of a role, if it is not only the model that says it. `is_metered` if a meter for
    /// servers with OpenAI's API stands before it.
    pub(super) fn of(
        model: Option<&str>,
        base_url: Option<&str>,
        key_env: Option<&str>,
        is_metered: bool,
    ) -> Result<Option<Self>, String> {
        if is_metered && base_url.is_some() {
            return Err(at("base_url", "the meter has the address: write it as its `upstream`"));
        }
        let Some((provider, name)) = model.and_then(|model| model.split_once('/')) else {
            let is_given = base_url.is_some() || key_env.is_some();
            let message = "opencode needs PROVIDER/MODEL here, such as \"ollama/qwen3-coder\"";
            return if is_given { Err(at("model", message)) } else { Ok(None) };
        };
        let usual = LOCAL.iter().find(|(local, _)| *local == provider).map(|(_, url)| *url);
        let at = match (is_metered, base_url.or(usual)) {
            (true, _) => ModelAddress::Meter,
            (false, Some(url)) => ModelAddress::Url(url.to_owned()),
            (false, None) if key_env.is_some() => ModelAddress::Usual,
            (false, None) => return Ok(None),
        };
        let (provider, model) = (provider.to_owned(), name.to_owned());
        Ok(Some(Self { provider, model, at, key_env: key_env.map(str::to_owned) }))
    }

    /// Returns the address to which the agent gets network access.
    pub(super) fn address(&self) -> Option<Address> {
        match &self.at {
            ModelAddress::Url(url) => address(url),
            ModelAddress::Usual | ModelAddress::Meter => None,
        }
    }
}

/// The text that the gate shows.
impl fmt::Display for ModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ModelAddress::Url(url) = &self.at {
            write!(f, ", at {url}")?;
        }
        match &self.key_env {
            Some(name) => write!(f, ", its key in {name}"),
            None => Ok(()),
        }
    }
}
