//! Reads JSON objects of a provider.
//!
//! **Invariant:** an object that has a key twice is an error: two readers could take different values.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// A JSON object in which every key is there once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Object(Map<String, Value>);

impl Object {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        // A provider may write `null` for a claim that it does not have.
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some(&Value::Bool(true))
    }

    /// Returns a time in seconds; a provider may write fractions.
    pub(super) fn seconds(&self, key: &str) -> Option<u64> {
        let number = self.get(key)?;
        let fraction = || number.as_f64().filter(|time| (0.0..1e15).contains(time)).map(|time| time as u64);
        number.as_u64().filter(|time| *time < 1_000_000_000_000_000).or_else(fraction)
    }

    /// Returns the texts of a claim that is one text or a list of texts; `None` if it is anything else.
    pub(super) fn texts(&self, key: &str) -> Option<Vec<&str>> {
        match self.get(key)? {
            Value::String(text) => Some(vec![text]),
            Value::Array(all) => all.iter().map(Value::as_str).collect(),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Object;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
                let mut map = Map::new();
                while let Some((key, value)) = entries.next_entry::<String, Value>()? {
                    if map.contains_key(&key) {
                        return Err(A::Error::custom(format!("`{key}` is there twice")));
                    }
                    map.insert(key, value);
                }
                Ok(Object(map))
            }
        }
        from.deserialize_map(Keys)
    }
}
