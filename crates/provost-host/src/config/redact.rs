//! Reads `[redact]`: names and shapes of secrets, besides those that provost knows.

use provost_core::redact::{OwnSecrets, OwnShape};
use serde::{Deserialize, Deserializer};

use super::reading::{at, missing};
use super::values::{each, integer};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
struct RedactKeys {
    #[serde(deserialize_with = "names")]
    names: Vec<String>,
    #[serde(deserialize_with = "shapes")]
    shapes: Vec<OwnShape>,
}

/// The keys of `[[redact.shapes]]`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a section")]
struct ShapeKeys {
    name: String,
    prefix: Option<String>,
    #[serde(deserialize_with = "integer::<_, u32, _, 4, 256>")]
    length: Option<u32>,
    pattern: Option<String>,
}

pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<OwnSecrets, D::Error> {
    RedactKeys::deserialize(from).map(|RedactKeys { names, shapes }| OwnSecrets { names, shapes })
}

/// Reads names of variables. The error does not repeat the value, which may be the secret itself.
fn names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    each(from, |name: String| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        match (3..=64).contains(&name.len()) && name.bytes().all(fits) {
            true => Ok(name),
            false => Err("`{key}` lists names such as \"ACME_PIN\" with 3 to 64 letters, digits, `_`, `-` \
                          and `.`, never values"),
        }
    })
}

fn shapes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<OwnShape>, D::Error> {
    each(from, |ShapeKeys { name, prefix, length, pattern }: ShapeKeys| {
        if name.is_empty() {
            return Err(missing("name"));
        }
        if !OwnShape::is_kind(&name) {
            return Err(at("name", "`name` has up to 64 letters, digits, `_`, `-` and `.`"));
        }
        match (prefix, pattern) {
            (Some(_), Some(_)) => Err(at("pattern", "use `prefix` or `pattern`, not both")),
            (None, None) => Err("a shape needs a `prefix` or a `pattern`".to_owned()),
            (None, Some(_)) if length.is_some() => Err(at("length", "`length` belongs to `prefix`")),
            (None, Some(pattern)) => {
                OwnShape::new(&name, &pattern).map_err(|wrong| at("pattern", format!("`pattern` {wrong}")))
            }
            (Some(prefix), None) if prefix.len() < 3 => {
                Err(at("prefix", "`prefix` needs at least 3 characters"))
            }
            (Some(prefix), None) => OwnShape::with_prefix(&name, &prefix, length.unwrap_or(16))
                .map_err(|wrong| at("prefix", format!("`prefix` {wrong}"))),
        }
    })
}
