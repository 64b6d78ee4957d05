//! Final answers in a form: a JSON value that a JSON Schema describes.
//!
//! The model gives such an answer with the tool `answer`, whose arguments have that schema, because every
//! provider supports tools. A model that writes the value as text instead is understood too.

use std::sync::{Arc, Mutex, PoisonError};

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

use crate::tool::{Spec, Tool};

/// Name of the tool.
pub const TOOL: &str = "answer";
/// The property that holds the answer if the schema does not describe an object.
const WRAPPED: &str = "answer";
/// Address of the schema inside the validator; nothing is fetched.
const ADDRESS: &str = "http://localhost/answer.json";

/// The form of a final answer.
#[derive(Clone)]
pub struct AnswerForm {
    schema: Value,
    compiled: Arc<(Schemas, SchemaIndex)>,
    given: Arc<Mutex<Option<Value>>>,
}

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the schema of the answer cannot be used: {0}")]
pub struct AnswerFormError(String);

impl AnswerForm {
    pub fn new(schema: Value) -> Result<Self, AnswerFormError> {
        let wrong = |error: boon::CompileError| AnswerFormError(error.to_string());
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        // Without a loader, a schema that names another file or address is an error.
        compiler.use_loader(Box::new(boon::SchemeUrlLoader::new()));
        compiler.add_resource(ADDRESS, schema.clone()).map_err(wrong)?;
        let index = compiler.compile(ADDRESS, &mut schemas).map_err(wrong)?;
        Ok(Self { schema, compiled: Arc::new((schemas, index)), given: Arc::default() })
    }

    /// Returns the tool with which the model gives its answer.
    pub(crate) fn tool(&self) -> Tool {
        let is_object = self.schema.get("type").is_some_and(|kind| kind == "object");
        let schema = if is_object {
            self.schema.clone()
        } else {
            // The arguments of a tool are always an object.
            json!({ "type": "object", "properties": { WRAPPED: self.schema }, "required": [WRAPPED] })
        };
        let description = "Gives your final answer. Call it once, alone, when the work is done.".to_owned();
        let form = self.clone();
        Tool::described(Spec { name: TOOL.to_owned(), description, schema }, move |arguments| {
            let form = form.clone();
            async move {
                let value = match arguments {
                    Value::Object(mut object) if !is_object => object.remove(WRAPPED).unwrap_or(Value::Null),
                    arguments => arguments,
                };
                form.check(&value)?;
                *form.given() = Some(value);
                Ok("taken".to_owned())
            }
        })
    }

    /// Returns the answer that the tool was given, once.
    pub(crate) fn take(&self) -> Option<String> {
        self.given().take().map(|value| value.to_string())
    }

    /// Reads an answer that the model wrote as text; an error says what is wrong with it.
    pub(crate) fn read(&self, text: &str) -> Result<String, String> {
        let value: Value =
            serde_json::from_str(without_fence(text)).map_err(|_| "it is not JSON".to_owned())?;
        self.check(&value)?;
        Ok(value.to_string())
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        let (schemas, index) = &*self.compiled;
        // The first line of the message names the schema, not the error.
        schemas.validate(value, *index).map_err(|error| {
            let lines = error.to_string();
            let lines: Vec<&str> =
                lines.lines().skip(1).map(|line| line.trim().trim_start_matches("- ")).collect();
            lines.join("; ")
        })
    }

    fn given(&self) -> std::sync::MutexGuard<'_, Option<Value>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for AnswerForm {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "AnswerForm({})", self.schema)
    }
}

/// Removes a Markdown fence around the text.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    inner.and_then(|inner| inner.strip_suffix("```")).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(schema: Value) -> AnswerForm {
        AnswerForm::new(schema).expect("a schema")
    }

    #[tokio::test]
    async fn an_answer_is_taken_only_in_its_form() {
        let schema =
            json!({ "type": "object", "required": ["ok"], "properties": { "ok": { "type": "boolean" } } });
        let form = form(schema.clone());
        let tool = form.tool();
        assert_eq!(tool.spec.schema, schema);
        let wrong = tool.call(json!({ "ok": "yes" })).await.expect_err("not a boolean");
        assert!(wrong.contains("/ok") && wrong.contains("boolean"), "{wrong}");
        assert_eq!(form.take(), None);
        assert_eq!(tool.call(json!({ "ok": true })).await, Ok("taken".to_owned()));
        assert_eq!(form.take().as_deref(), Some(r#"{"ok":true}"#));
        assert_eq!(form.take(), None, "once");
    }

    #[tokio::test]
    async fn an_answer_that_is_no_object_is_wrapped() {
        let form = form(json!({ "type": "array", "items": { "type": "string" } }));
        assert_eq!(form.tool().call(json!({ "answer": ["a"] })).await, Ok("taken".to_owned()));
        assert_eq!(form.take().as_deref(), Some(r#"["a"]"#));
    }

    #[test]
    fn text_is_read_with_and_without_a_fence() {
        let form = form(json!({ "type": "integer" }));
        assert_eq!(form.read(" 7\n").as_deref(), Ok("7"));
        assert_eq!(form.read("```json\n7\n```").as_deref(), Ok("7"));
        assert_eq!(form.read("seven"), Err("it is not JSON".to_owned()));
        assert!(form.read("\"7\"").is_err());
    }

    #[test]
    fn a_schema_that_needs_another_file_or_is_none_is_refused() {
        let refused = |schema: Value| AnswerForm::new(schema).expect_err("refused").to_string();
        assert!(refused(json!({ "$ref": "file:///etc/passwd" })).contains("cannot be used"));
        assert!(refused(json!({ "type": 7 })).contains("cannot be used"));
    }
}
