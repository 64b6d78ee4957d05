//! Reads `meter = { … }` of a role: the metered API, its address and its key.

use std::fmt;

use serde::{Deserialize, Deserializer};

use super::reading::{at, missing};
use super::values::{checked, choice, command};
use crate::egress::meter::{MeteredApi, Source, Target};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "MeterKeys")]
pub struct MeteringConfig {
    pub api: MeteredApi,
    pub upstream: Target,
    /// `None` for a server that needs no key.
    pub key: Option<Source>,
}

/// The text that the gate shows.
impl fmt::Display for MeteringConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.api.word(), self.upstream)?;
        match &self.key {
            Some(key) => write!(f, ", its key {key}"),
            None => f.write_str(", without a key"),
        }
    }
}

/// The keys of `meter`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
struct MeterKeys {
    #[serde(deserialize_with = "choice::<_, MeteredApi, _>")]
    api: MeteredApi,
    upstream: Option<String>,
    #[serde(default, deserialize_with = "key_env")]
    key_env: Option<String>,
    #[serde(default, deserialize_with = "command")]
    key_command: Option<Vec<String>>,
}

impl TryFrom<MeterKeys> for MeteringConfig {
    type Error = String;

    fn try_from(keys: MeterKeys) -> Result<Self, String> {
        let api = keys.api;
        let upstream = keys.upstream.or_else(|| api.usual_upstream().map(str::to_owned));
        let upstream = upstream.ok_or_else(|| missing("upstream"))?;
        let Some(upstream) = Target::parse(&upstream) else {
            let message = format!(
                "`{upstream}` is not a URL such as \"https://llm.example.org/v1\", without `?`, `#` or `@`"
            );
            return Err(at("upstream", message));
        };
        let key = match (keys.key_env, keys.key_command) {
            (Some(_), Some(_)) => return Err(at("key_command", "use `key_env` or `key_command`, not both")),
            (None, Some(words)) => Some(Source::Command(words)),
            (Some(name), None) => Some(Source::Variable(name)),
            (None, None) => api.usual_key().map(|name| Source::Variable(name.to_owned())),
        };
        Ok(Self { api, upstream, key })
    }
}

/// Reads `key_env`. The error does not repeat the value, which may be the key itself.
fn key_env<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    checked(from, |name| match !name.is_empty() && name.bytes().all(fits) {
        true => Ok(()),
        false => {
            Err("`{key}` is the name of a variable, such as \"ANTHROPIC_API_KEY\"; do not write the key \
                      itself into a file")
        }
    })
}
