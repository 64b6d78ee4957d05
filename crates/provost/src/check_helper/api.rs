//! `provost-check api`: a new description of an API still serves the clients of the old one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::base_tree;
use super::ending::{self, Ending};
use super::schema::{Comparison, Direction};

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Check that an OpenAPI document or a JSON Schema breaks no client of the old one
///
/// Breaking are: removed paths, operations, parameters, properties, responses and media types; what is newly
/// required of a client; changed types; values or limits that are no longer accepted. Reads JSON and YAML.
/// Without --old, the same file of the last commit is the old one.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost-check api --new openapi.json                       against the last commit
  provost-check api --old v1/openapi.yaml --new v2/openapi.yaml")]
pub(super) struct Args {
    /// The new document
    #[arg(long, value_name = "FILE")]
    new: PathBuf,
    /// The old document
    #[arg(long, value_name = "FILE")]
    old: Option<PathBuf>,
}

pub(super) fn obey(args: &Args) -> Result<String, Ending> {
    let new = parsed(&ending::read(&args.new)?, &args.new).map_err(Ending::Unmet)?;
    let old = match &args.old {
        Some(old) => {
            ending::read(old).map_err(|_| Ending::NotRun(format!("{} cannot be read", old.display())))?
        }
        None => String::from_utf8_lossy(&base_tree::file(&args.new)?).into_owned(),
    };
    let old = parsed(&old, args.old.as_ref().unwrap_or(&args.new))
        .map_err(|why| Ending::NotRun(format!("the old document: {why}")))?;
    let (breaks, compared) = match (old.get("paths"), is_schema(&old)) {
        (Some(_), _) => breaks_of_api(&old, &new),
        (None, true) => {
            let mut comparison = Comparison::new(&old, &new);
            comparison.schemas(&old, &new, "the document", Direction::Request);
            (comparison.breaks, 1)
        }
        (None, false) => {
            return Err(Ending::NotRun(
                "the old document is neither OpenAPI (it has no `paths`) nor a JSON Schema".to_owned(),
            ));
        }
    };
    match breaks.is_empty() {
        true => Ok(format!("nothing breaks a client ({compared} compared)")),
        false => Err(Ending::unmet_all(&breaks)),
    }
}

fn parsed(text: &str, path: &Path) -> Result<Value, String> {
    let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    let value: Result<Value, String> = match is_yaml {
        true => serde_saphyr::from_str(text).map_err(|error| error.to_string()),
        false => serde_json::from_str(text).map_err(|error| error.to_string()),
    };
    value.map_err(|error| format!("{} cannot be parsed: {error}", path.display()))
}

fn is_schema(document: &Value) -> bool {
    let words = ["$schema", "type", "properties", "$ref", "allOf", "anyOf", "oneOf", "enum", "items"];
    words.iter().any(|word| document.get(word).is_some())
}

/// Returns what breaks clients, and the number of operations that were compared.
fn breaks_of_api(old: &Value, new: &Value) -> (Vec<String>, usize) {
    let mut comparison = Comparison::new(old, new);
    let mut compared = 0;
    for (path, before) in entries(old.get("paths")) {
        let Some(after) = new.pointer("/paths").and_then(|paths| paths.get(path)) else {
            comparison.breaks.push(format!("{path} was removed"));
            continue;
        };
        let (before, after) = (comparison.in_old(before), comparison.in_new(after));
        for method in METHODS {
            let Some(operation) = before.get(method) else { continue };
            let name = format!("{} {path}", method.to_uppercase());
            compared += 1;
            match after.get(method) {
                None => comparison.breaks.push(format!("{name} was removed")),
                Some(other) => {
                    parameters(&mut comparison, &name, [before, operation], [after, other]);
                    request(&mut comparison, &name, operation, other);
                    responses(&mut comparison, &name, operation, other);
                }
            }
        }
    }
    (comparison.breaks, compared)
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// Compares the parameters of a path and of one of its operations.
fn parameters(comparison: &mut Comparison<'_>, name: &str, before: [&Value; 2], after: [&Value; 2]) {
    type Known<'v> = BTreeMap<(String, String), &'v Value>;
    fn collect<'v>(levels: [&'v Value; 2], resolve: impl Fn(&'v Value) -> &'v Value) -> Known<'v> {
        let lists = levels.into_iter().filter_map(|level| level.get("parameters")?.as_array());
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        lists.flatten().map(resolve).map(|each| ((text(each, "in"), text(each, "name")), each)).collect()
    }
    let (old, new) = (comparison.old, comparison.new);
    let before = collect(before, |value| super::schema::resolved(old, value));
    let after = collect(after, |value| super::schema::resolved(new, value));
    let is_required = |value: &Value| value["required"] == true;
    for ((place, key), one) in &before {
        let Some(other) = after.get(&(place.clone(), key.clone())) else {
            comparison.breaks.push(format!("{name}: the {place} parameter `{key}` was removed"));
            continue;
        };
        if is_required(other) && !is_required(one) {
            comparison.breaks.push(format!("{name}: the {place} parameter `{key}` is now required"));
        }
        // Swagger 2 has the type in the parameter itself.
        let (one, other) = (one.get("schema").unwrap_or(one), other.get("schema").unwrap_or(other));
        let at = format!("{name}: the {place} parameter `{key}`");
        if one.get("type").is_some() || one.get("$ref").is_some() {
            comparison.schemas(&without_required(one), &without_required(other), &at, Direction::Request);
        }
    }
    for ((place, key), _) in
        after.iter().filter(|(key, value)| is_required(value) && !before.contains_key(*key))
    {
        comparison.breaks.push(format!("{name}: the new {place} parameter `{key}` is required"));
    }
}

/// `required` of a parameter is no list of properties.
fn without_required(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(map) = value.as_object_mut().filter(|map| map.get("required").is_some_and(Value::is_boolean))
    {
        map.remove("required");
    }
    value
}

fn request(comparison: &mut Comparison<'_>, name: &str, before: &Value, after: &Value) {
    let one = before.get("requestBody").map(|body| comparison.in_old(body));
    let other = after.get("requestBody").map(|body| comparison.in_new(body));
    match (one, other) {
        (_, Some(other)) if other["required"] == true && one.is_none_or(|one| one["required"] != true) => {
            comparison.breaks.push(format!("{name}: a request body is now required"));
        }
        (Some(_), None) => comparison.breaks.push(format!("{name}: the request body was removed")),
        _ => {}
    }
    if let (Some(one), Some(other)) = (one, other) {
        contents(comparison, &format!("{name}: the request body"), one, other, Direction::Request);
    }
}

fn responses(comparison: &mut Comparison<'_>, name: &str, before: &Value, after: &Value) {
    for (status, one) in entries(before.get("responses")) {
        let at = format!("{name}: the response {status}");
        match after.pointer("/responses").and_then(|all| all.get(status)) {
            None => comparison.breaks.push(format!("{at} was removed")),
            Some(other) => {
                let (one, other) = (comparison.in_old(one), comparison.in_new(other));
                contents(comparison, &at, one, other, Direction::Response);
            }
        }
    }
}

/// Compares the media types of a body, or the schema of a response of Swagger 2.
fn contents(comparison: &mut Comparison<'_>, at: &str, one: &Value, other: &Value, direction: Direction) {
    if let (Some(one), Some(other)) = (one.get("schema"), other.get("schema")) {
        comparison.schemas(one, other, at, direction);
    }
    for (media, one) in entries(one.get("content")) {
        let found = other.get("content").and_then(|content| content.get(media));
        match (found, one.get("schema")) {
            (None, _) => comparison.breaks.push(format!("{at}: {media} was removed")),
            (Some(_), None) => {}
            (Some(other), Some(one)) => {
                comparison.schemas(one, other.get("schema").unwrap_or(&Value::Null), at, direction);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(parameters: Value, request: Value, response: Value) -> Value {
        json!({"openapi": "3.0.0", "paths": {"/users": {"post": {
            "parameters": parameters,
            "requestBody": {"content": {"application/json": {"schema": request}}},
            "responses": {"200": {"content": {"application/json": {"schema": response}}}},
        }}}})
    }

    #[test]
    fn what_breaks_a_client_is_named() {
        let limit = |required: bool| json!([{"in": "query", "name": "limit", "required": required, "schema": {"type": "integer"}}]);
        let user = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "kind": {"enum": ["a", "b"]}}});
        let old = document(limit(false), user.clone(), user.clone());
        assert_eq!(breaks_of_api(&old, &old), (vec![], 1));
        let breaks = |new: &Value| breaks_of_api(&old, new).0;
        assert_eq!(breaks(&json!({"paths": {}})), ["/users was removed"]);
        assert_eq!(breaks(&json!({"paths": {"/users": {}}})), ["POST /users was removed"]);
        assert_eq!(
            breaks(&document(limit(true), user.clone(), user.clone())),
            ["POST /users: the query parameter `limit` is now required"]
        );
        assert_eq!(
            breaks(&document(json!([]), user.clone(), user.clone())),
            ["POST /users: the query parameter `limit` was removed"]
        );
        let narrow = json!({"type": "object", "required": ["name", "kind"], "properties": {"name": {"type": "integer"}, "kind": {"enum": ["a"]}}});
        assert_eq!(
            breaks(&document(limit(false), narrow.clone(), user.clone())),
            [
                "POST /users: the request body: `kind` is now required",
                "POST /users: the request body.name: the type string is no longer accepted",
                "POST /users: the request body.kind: the value \"b\" is no longer accepted",
            ]
        );
        // A client that reads does not mind fewer values.
        assert_eq!(
            breaks(&document(limit(false), user.clone(), narrow)),
            ["POST /users: the response 200.name: the type integer is new"]
        );
        let open = json!({"type": "object", "properties": {"kind": {"enum": ["a", "b", "c"]}}});
        assert_eq!(
            breaks(&document(limit(false), user.clone(), open)),
            [
                "POST /users: the response 200: `name` is not always there any more",
                "POST /users: the response 200.name was removed",
                "POST /users: the response 200.kind: the value \"c\" is new",
            ]
        );
    }

    #[test]
    fn references_are_followed_and_may_be_circular() {
        let document = |kind: &str| {
            json!({"openapi": "3.0.0",
            "paths": {"/n": {"get": {"responses": {"200": {"$ref": "#/components/responses/N"}}}}},
            "components": {
                "responses": {"N": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/N"}}}}},
                "schemas": {"N": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/N"}, "value": {"type": kind}}}},
            }})
        };
        assert_eq!(breaks_of_api(&document("string"), &document("string")).0, [""; 0]);
        assert_eq!(
            breaks_of_api(&document("number"), &document("string")).0,
            ["GET /n: the response 200.value: the type string is new"]
        );
        assert_eq!(breaks_of_api(&document("number"), &document("integer")).0, [""; 0]);
    }
}
