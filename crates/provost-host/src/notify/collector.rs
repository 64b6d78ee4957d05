//! Sends traces to an OpenTelemetry collector as OTLP JSON over HTTP.
//!
//! Address, headers and certificates come from the standard OpenTelemetry variables. Sending a trace twice
//! is harmless: its ids do not change.
//!
//! **Invariant:** no header and no password of an address appears in an error. Redirects are not followed,
//! so data reaches only the configured address.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::egress::trust_roots::TrustRoots;

const TRACES: &str = "v1/traces";
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes that are read of an answer.
const ANSWER_MAX: u64 = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{address}` is not the address of a collector: {why}")]
    Address { address: String, why: &'static str },
    #[error("neither OTEL_EXPORTER_OTLP_TRACES_ENDPOINT nor OTEL_EXPORTER_OTLP_ENDPOINT is set")]
    NoAddress,
    #[error("{name} is not `name=value,name=value`")]
    Headers { name: &'static str },
    #[error("{0}")]
    Certificates(String),
    #[error("provost could not reach the collector at {address}")]
    Unreached {
        address: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error("the collector at {address} answered {status}{said}")]
    Refused { address: String, status: u16, said: String },
    #[error("the collector at {address} rejected {spans} spans{said}")]
    Rejected { address: String, spans: u64, said: String },
}

pub struct Collector {
    agent: ureq::Agent,
    url: String,
    headers: Vec<(String, String)>,
}

/// A collector's answer.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    partial_success: Option<PartialSuccess>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartialSuccess {
    #[serde(default)]
    rejected_spans: Number,
    #[serde(default)]
    error_message: String,
}

/// OTLP writes 64-bit numbers as text, but some collectors send plain numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Text(String),
    Plain(u64),
}

impl Default for Number {
    fn default() -> Self {
        Number::Plain(0)
    }
}

impl Number {
    fn value(&self) -> u64 {
        match self {
            Number::Text(text) => text.parse().unwrap_or(0),
            Number::Plain(number) => *number,
        }
    }
}

type Environment = [(OsString, OsString)];

impl Collector {
    /// Creates a collector for an address. An address without a path is a base, to which `v1/traces` is
    /// added.
    pub fn at(address: &str, environment: &Environment) -> Result<Self, Error> {
        let path = path(address)?;
        let url = if path.trim_matches('/').is_empty() { below(address) } else { address.to_owned() };
        Self::new(url, environment)
    }

    /// Creates a collector for the address in the environment.
    pub fn from_environment(environment: &Environment) -> Result<Self, Error> {
        let url = match value(environment, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
            Some(url) => url.to_string_lossy().into_owned(),
            None => match value(environment, "OTEL_EXPORTER_OTLP_ENDPOINT") {
                Some(base) => below(&base.to_string_lossy()),
                None => return Err(Error::NoAddress),
            },
        };
        path(&url)?;
        Self::new(url, environment)
    }

    fn new(url: String, environment: &Environment) -> Result<Self, Error> {
        let roots = match either(environment, "CERTIFICATE") {
            Some((_, file)) => TrustRoots::from_file(PathBuf::from(file)),
            None => TrustRoots::from_environment(environment),
        };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .max_redirects(0)
            .http_status_as_error(false)
            .tls_config(roots.for_request(&url).map_err(Error::Certificates)?)
            .user_agent(concat!("provost/", env!("CARGO_PKG_VERSION")));
        let headers = match either(environment, "HEADERS") {
            Some((name, text)) => headers(&text.to_string_lossy()).ok_or(Error::Headers { name })?,
            None => Vec::new(),
        };
        Ok(Self { agent: config.build().new_agent(), url, headers })
    }

    /// Returns the address without its secrets.
    pub fn address(&self) -> String {
        shown(&self.url)
    }

    /// Sends a request. Returns the collector's warning, if there is one.
    pub fn post(&self, body: &str) -> Result<Option<String>, Error> {
        let unreached = |source| Error::Unreached { address: self.address(), source: Box::new(source) };
        let mut request = self.agent.post(&self.url).content_type("application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut answer = request.send(body).map_err(unreached)?;
        let status = answer.status();
        let said = answer.body_mut().with_config().limit(ANSWER_MAX).lossy_utf8(true).read_to_string();
        let said = said.map_err(unreached)?;
        if !status.is_success() {
            return Err(Error::Refused {
                address: self.address(),
                status: status.as_u16(),
                said: words(&said),
            });
        }
        let answer: Answer = serde_json::from_str(&said).unwrap_or_default();
        let partial = answer.partial_success.unwrap_or_default();
        match partial.rejected_spans.value() {
            0 if partial.error_message.is_empty() => Ok(None),
            0 => Ok(Some(partial.error_message)),
            spans => {
                Err(Error::Rejected { address: self.address(), spans, said: words(&partial.error_message) })
            }
        }
    }
}

/// Returns the path of an HTTP address.
fn path(address: &str) -> Result<&str, Error> {
    let wrong = |why| Error::Address { address: shown(address), why };
    let rest = ["http://", "https://"].iter().find_map(|scheme| address.strip_prefix(scheme));
    let rest = rest.ok_or_else(|| wrong("it begins with neither http:// nor https://"))?;
    let (host, path) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
    if host.is_empty() {
        return Err(wrong("it names no host"));
    }
    if address.contains(char::is_whitespace) {
        return Err(wrong("it has a space in it"));
    }
    Ok(path)
}

fn below(base: &str) -> String {
    format!("{}/{TRACES}", base.trim_end_matches('/'))
}

/// Returns the address without user, password and query.
fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (host, path) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    format!("{scheme}://{host}{path}")
}

fn value<'e>(environment: &'e Environment, name: &str) -> Option<&'e OsStr> {
    let found = environment.iter().find(|(key, value)| key == name && !value.is_empty());
    found.map(|(_, value)| value.as_os_str())
}

/// Returns the variable for traces, or else the one for all signals.
fn either<'e>(environment: &'e Environment, what: &str) -> Option<(&'static str, &'e OsStr)> {
    let names = match what {
        "HEADERS" => ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"],
        _ => ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"],
    };
    names.into_iter().find_map(|name| Some((name, value(environment, name)?)))
}

/// Parses `name=value,name=value`; values may be percent-encoded.
fn headers(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            let name = name.trim();
            let value = decoded(value.trim())?;
            let sane = !name.is_empty() && name.chars().all(token) && !value.contains(char::is_control);
            sane.then(|| (name.to_owned(), value))
        })
        .collect()
}

/// Decodes percent-encoding; `None` if a percent sign is not followed by two digits.
fn decoded(text: &str) -> Option<String> {
    let is_code = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    let is_sound = text.split('%').skip(1).all(is_code);
    let bytes = is_sound.then(|| percent_decode_str(text))?;
    bytes.decode_utf8().ok().map(Cow::into_owned)
}

/// Returns the first 300 characters of the answer on one line.
fn words(said: &str) -> String {
    let line: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).take(300).collect();
    if line.is_empty() { line } else { format!(": {line}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn a_base_gets_the_path_for_traces_and_a_path_is_kept() {
        for (said, meant) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://otel.example/", "http://otel.example/v1/traces"),
            ("http://otel.example/in/v1/traces", "http://otel.example/in/v1/traces"),
        ] {
            assert_eq!(Collector::at(said, &[]).expect("a collector").url, meant);
        }
        for wrong in ["localhost:4318", "ftp://x", "http://", "http:///v1", "", "http://a b"] {
            assert!(matches!(Collector::at(wrong, &[]), Err(Error::Address { .. })), "{wrong}");
        }
    }

    #[test]
    fn the_environment_names_a_base_or_the_place_itself() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://base:4318/in/");
        let found = |pairs: &[(&str, &str)]| {
            Collector::from_environment(&environment(pairs)).map(|found| found.url).map_err(|e| e.to_string())
        };
        assert_eq!(found(&[base]).as_deref(), Ok("http://base:4318/in/v1/traces"));
        let place = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://place/x");
        assert_eq!(found(&[base, place]).as_deref(), Ok("http://place/x"));
        assert!(found(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).is_err());
    }

    #[test]
    fn headers_are_read_as_other_programs_read_them() {
        let read = |text| headers(text).map(|found| format!("{found:?}"));
        assert_eq!(read("api-key=a%20b, x=1=2").as_deref(), Some(r#"[("api-key", "a b"), ("x", "1=2")]"#));
        assert_eq!(read("").as_deref(), Some("[]"));
        for wrong in ["api-key", "=x", "a b=c", "a=%0a", "a=%4", "a=%zz"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_secret_in_an_address_is_not_shown() {
        assert_eq!(shown("https://me:secret@host:1/v1?key=secret"), "https://host:1/v1");
        assert_eq!(shown("https://me:p@ss@host"), "https://host");
    }
}
