//! Compares two JSON Schemas: what a client sends must still be accepted, and what it reads must still be
//! what it expects.

use std::collections::BTreeSet;

use serde_json::Value;

/// Most references that lead to each other.
const HOPS: usize = 32;
/// Limits that a smaller value narrows, and those that a larger one does.
const UPPER: [&str; 5] = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"];
const LOWER: [&str; 5] = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"];

/// Whether the client sends the value or reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    Request,
    Response,
}

/// Two documents, and what breaks clients of the old one.
pub(super) struct Comparison<'d> {
    pub(super) old: &'d Value,
    pub(super) new: &'d Value,
    pub(super) breaks: Vec<String>,
    /// Pairs of references that were compared: schemas may be circular.
    seen: BTreeSet<(String, String, Direction)>,
}

impl<'d> Comparison<'d> {
    pub(super) fn new(old: &'d Value, new: &'d Value) -> Self {
        Self { old, new, breaks: Vec::new(), seen: BTreeSet::new() }
    }

    pub(super) fn in_old<'v>(&self, value: &'v Value) -> &'v Value
    where
        'd: 'v,
    {
        resolved(self.old, value)
    }

    pub(super) fn in_new<'v>(&self, value: &'v Value) -> &'v Value
    where
        'd: 'v,
    {
        resolved(self.new, value)
    }

    /// Compares two schemas at a place that messages name.
    pub(super) fn schemas(&mut self, old: &Value, new: &Value, at: &str, direction: Direction) {
        if let (Some(one), Some(other)) = (old["$ref"].as_str(), new["$ref"].as_str())
            && !self.seen.insert((one.to_owned(), other.to_owned(), direction))
        {
            return;
        }
        let old = merged(self.old, self.in_old(old), HOPS);
        let new = merged(self.new, self.in_new(new), HOPS);
        self.required(&old, &new, at, direction);
        self.types(&old, &new, at, direction);
        self.values(&old, &new, at, direction);
        if direction == Direction::Request {
            self.limits(&old, &new, at);
        }
        for (name, one) in old["properties"].as_object().into_iter().flatten() {
            match new["properties"].get(name) {
                Some(other) => self.schemas(one, other, &format!("{at}.{name}"), direction),
                None => self.breaks.push(format!("{at}.{name} was removed")),
            }
        }
        if let (Some(one), Some(other)) = (old.get("items"), new.get("items")) {
            self.schemas(one, other, &format!("{at}[]"), direction);
        }
        for word in ["oneOf", "anyOf"] {
            self.alternatives(&old[word], &new[word], at, direction);
        }
    }

    fn required(&mut self, old: &Value, new: &Value, at: &str, direction: Direction) {
        let names = |schema: &Value| -> BTreeSet<String> {
            let names = schema["required"].as_array().into_iter().flatten();
            names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let (before, after) = (names(old), names(new));
        let broken = match direction {
            Direction::Request => {
                after.difference(&before).map(|name| format!("{at}: `{name}` is now required"))
            }
            Direction::Response => {
                let gone = before.difference(&after);
                let gone = gone.map(|name| format!("{at}: `{name}` is not always there any more"));
                self.breaks.extend(gone);
                return;
            }
        };
        self.breaks.extend(broken);
    }

    fn types(&mut self, old: &Value, new: &Value, at: &str, direction: Direction) {
        let (before, after) = (types(old), types(new));
        // Without a type, everything is allowed.
        let allows = |types: &BTreeSet<String>, kind: &String| {
            types.is_empty() || types.contains(kind) || kind == "integer" && types.contains("number")
        };
        match direction {
            Direction::Request if before.is_empty() && !after.is_empty() => {
                self.breaks.push(format!("{at}: only the type {} is accepted", joined(&after)));
            }
            Direction::Request => {
                let gone = before.iter().filter(|kind| !allows(&after, kind));
                let gone = gone.map(|kind| format!("{at}: the type {kind} is no longer accepted"));
                self.breaks.extend(gone);
            }
            Direction::Response if after.is_empty() && !before.is_empty() => {
                self.breaks.push(format!("{at}: the type is not {} any more", joined(&before)));
            }
            Direction::Response => {
                let come = after.iter().filter(|kind| !allows(&before, kind));
                self.breaks.extend(come.map(|kind| format!("{at}: the type {kind} is new")));
            }
        }
    }

    fn values(&mut self, old: &Value, new: &Value, at: &str, direction: Direction) {
        let listed = |schema: &Value| -> Option<Vec<Value>> {
            let one = schema.get("const").map(|value| vec![value.clone()]);
            one.or_else(|| schema["enum"].as_array().cloned())
        };
        match (direction, listed(old), listed(new)) {
            (Direction::Request, Some(before), Some(after)) => {
                let gone = before.iter().filter(|value| !after.contains(value));
                let gone = gone.map(|value| format!("{at}: the value {value} is no longer accepted"));
                self.breaks.extend(gone);
            }
            (Direction::Request, None, Some(after)) => {
                let values: Vec<String> = after.iter().map(Value::to_string).collect();
                self.breaks.push(format!("{at}: only the values {} are accepted", values.join(", ")));
            }
            (Direction::Response, Some(before), Some(after)) => {
                let come = after.iter().filter(|value| !before.contains(value));
                self.breaks.extend(come.map(|value| format!("{at}: the value {value} is new")));
            }
            (Direction::Response, Some(_), None) => {
                self.breaks.push(format!("{at}: values outside of the old list are possible"));
            }
            (Direction::Request, _, None) | (Direction::Response, None, _) => {}
        }
    }

    fn limits(&mut self, old: &Value, new: &Value, at: &str) {
        let narrowed = |word: &str, is_upper: bool| {
            let (before, after) = (old[word].as_f64(), new[word].as_f64()?);
            let narrows = before.is_none_or(|before| if is_upper { after < before } else { after > before });
            narrows.then(|| format!("{at}: {word} is now {}", new[word]))
        };
        let upper = UPPER.iter().filter_map(|word| narrowed(word, true));
        let lower = LOWER.iter().filter_map(|word| narrowed(word, false));
        let narrower: Vec<String> = upper.chain(lower).collect();
        self.breaks.extend(narrower);
        if new.get("pattern").is_some() && new["pattern"] != old["pattern"] {
            self.breaks.push(format!("{at}: the pattern is now {}", new["pattern"]));
        }
        if new["additionalProperties"] == false && old["additionalProperties"] != false {
            self.breaks.push(format!("{at}: other properties are no longer accepted"));
        }
    }

    /// Each old alternative must be covered by a new one, or the other way round.
    fn alternatives(&mut self, old: &Value, new: &Value, at: &str, direction: Direction) {
        let (Some(before), Some(after)) = (old.as_array(), new.as_array()) else { return };
        let fits = |one: &Value, other: &Value| {
            let mut inner = Comparison { seen: self.seen.clone(), ..Comparison::new(self.old, self.new) };
            inner.schemas(one, other, at, direction);
            inner.breaks.is_empty()
        };
        let broken = match direction {
            Direction::Request => {
                before.iter().filter(|one| !after.iter().any(|other| fits(one, other))).count()
            }
            Direction::Response => {
                after.iter().filter(|other| !before.iter().any(|one| fits(one, other))).count()
            }
        };
        let what = match direction {
            Direction::Request => "no longer accepted",
            Direction::Response => "new or changed",
        };
        if broken > 0 {
            self.breaks.push(format!(
                "{at}: {broken} of its alternatives {} {what}",
                if broken == 1 { "is" } else { "are" }
            ));
        }
    }
}

/// Follows references inside of the document.
pub(super) fn resolved<'v>(document: &'v Value, value: &'v Value) -> &'v Value {
    let mut value = value;
    for _ in 0..HOPS {
        let Some(to) = value["$ref"].as_str().and_then(|to| to.strip_prefix('#')) else { return value };
        let Some(found) = document.pointer(to) else { return value };
        value = found;
    }
    value
}

/// Joins the parts of `allOf` into one schema.
fn merged(document: &Value, schema: &Value, hops: usize) -> Value {
    let mut whole = schema.clone();
    let Some(parts) = schema["allOf"].as_array().filter(|_| hops > 0) else { return whole };
    for part in parts {
        let part = merged(document, resolved(document, part), hops - 1);
        for (word, value) in part.as_object().into_iter().flatten() {
            match (word.as_str(), whole.get_mut(word)) {
                ("properties", Some(Value::Object(known))) => {
                    known.extend(value.as_object().cloned().unwrap_or_default());
                }
                ("required", Some(Value::Array(known))) => {
                    known.extend(value.as_array().cloned().unwrap_or_default());
                }
                (_, Some(_)) => {}
                (_, None) => whole[word.as_str()] = value.clone(),
            }
        }
    }
    whole
}

fn types(schema: &Value) -> BTreeSet<String> {
    let mut types: BTreeSet<String> = match &schema["type"] {
        Value::String(one) => BTreeSet::from([one.clone()]),
        Value::Array(all) => all.iter().filter_map(|kind| kind.as_str().map(str::to_owned)).collect(),
        _ => BTreeSet::new(),
    };
    if schema["nullable"] == true && !types.is_empty() {
        types.insert("null".to_owned());
    }
    types
}

fn joined(types: &BTreeSet<String>) -> String {
    types.iter().cloned().collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn breaks(old: &Value, new: &Value, direction: Direction) -> Vec<String> {
        let mut comparison = Comparison::new(old, new);
        comparison.schemas(old, new, "it", direction);
        comparison.breaks
    }

    #[test]
    fn limits_and_types_may_only_widen_for_what_a_client_sends() {
        let old = json!({"type": "string", "maxLength": 10, "minLength": 1});
        let narrower = json!({"type": "string", "maxLength": 5, "minLength": 2, "pattern": "a"});
        assert_eq!(
            breaks(&old, &narrower, Direction::Request),
            ["it: maxLength is now 5", "it: minLength is now 2", "it: the pattern is now \"a\""]
        );
        assert_eq!(breaks(&old, &narrower, Direction::Response), [""; 0]);
        assert_eq!(breaks(&narrower, &json!({"type": ["string", "null"]}), Direction::Request), [""; 0]);
        assert_eq!(
            breaks(
                &json!({"type": "string"}),
                &json!({"type": "string", "nullable": true}),
                Direction::Response
            ),
            ["it: the type null is new"]
        );
    }

    #[test]
    fn parts_and_alternatives_are_compared() {
        let old = json!({"allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a"]}]});
        let new = json!({"properties": {"a": {"type": "string"}}, "required": ["a"]});
        assert_eq!(breaks(&old, &new, Direction::Response), [""; 0]);
        let two = json!({"oneOf": [{"type": "string"}, {"type": "integer"}]});
        let one = json!({"oneOf": [{"type": "number"}]});
        assert_eq!(
            breaks(&two, &one, Direction::Request),
            ["it: 1 of its alternatives is no longer accepted"]
        );
        assert_eq!(breaks(&one, &two, Direction::Response), ["it: 1 of its alternatives is new or changed"]);
    }
}
