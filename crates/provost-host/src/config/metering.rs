//! Reads `meter = { … }` of a role: the metered API, its address and its key.

use std::fmt;

use super::Wrong;
use super::reading::Section;
use crate::egress::meter::{MeteredApi, Source, Target};

#[derive(Clone, Debug, PartialEq, Eq)]
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

const KEYS: &[&str] = &["api", "upstream", "key_env", "key_command"];

pub(super) fn read(role: &Section<'_, '_>, driver: &str) -> Result<Option<MeteringConfig>, Wrong> {
    let Some(section) = role.section("meter", KEYS)? else { return Ok(None) };
    if matches!(driver, "scripted" | "human") {
        return Err(
            role.wrong("meter", format!("driver `{driver}` calls no model, so there is nothing to meter"))
        );
    }
    let word = section.required("api")?;
    let Some(api) = MeteredApi::ALL.into_iter().find(|api| api.word() == word) else {
        let known = MeteredApi::ALL.map(MeteredApi::word);
        return Err(section.wrong_value("api", &format!("there is no API `{word}`"), &known));
    };
    let upstream = match (section.string("upstream")?, api.usual_upstream()) {
        (Some(given), _) => given,
        (None, Some(usual)) => usual.to_owned(),
        (None, None) => return Err(section.missing("upstream")),
    };
    let Some(upstream) = Target::parse(&upstream) else {
        let message = format!(
            "`{upstream}` is not a URL such as \"https://llm.example.org/v1\", without `?`, `#` or `@`"
        );
        return Err(section.wrong("upstream", message));
    };
    Ok(Some(MeteringConfig { api, upstream, key: key(&section, api)? }))
}

fn key(section: &Section<'_, '_>, api: MeteredApi) -> Result<Option<Source>, Wrong> {
    if section.has("key_env") && section.has("key_command") {
        let message = "use `key_env` or `key_command`, not both".to_owned();
        return Err(section.wrong("key_command", message));
    }
    if let Some(words) = section.strings("key_command")? {
        return match words.first() {
            Some(program) if !program.is_empty() => Ok(Some(Source::Command(words))),
            _ => {
                Err(section.wrong("key_command", "a command needs at least the name of a program".to_owned()))
            }
        };
    }
    let Some(name) = section.string("key_env")? else {
        return Ok(api.usual_key().map(|name| Source::Variable(name.to_owned())));
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match !name.is_empty() && name.bytes().all(fits) {
        true => Ok(Some(Source::Variable(name))),
        // The message does not repeat the value, which may be the key itself.
        false => {
            let message = "`key_env` is the name of a variable, such as \"ANTHROPIC_API_KEY\"; do not \
                 write the key itself into a file";
            Err(section.wrong("key_env", message.to_owned()))
        }
    }
}
