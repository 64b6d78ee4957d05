//! Tools that the model can call; their schemas are made from Rust types.
//!
//! A tool takes typed arguments and answers with text, or with an error that tells the model what to do
//! instead. It does not depend on the loop.

pub mod after_edit;
mod background;
mod command;
pub mod edit;
pub mod files;
pub mod fetch;
pub mod find;
pub(crate) mod image;
pub mod mcp_server;
pub mod output;
mod page_text;
mod patch;
pub mod plans;
pub mod search;
pub mod shell;
pub mod topics;

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Future;
use crate::budget::SideAccount;
use crate::call_log::CallLog;
use crate::plan_state::PlanHolder;
use crate::tool::files::Workspace;
use crate::tool::image::ImageTray;
use crate::transcript::ImageData;

/// Description of a tool for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub name: String,
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub schema: Value,
}

/// Answer of a tool; an error is text for the model too.
pub type ToolAnswer = Result<String, String>;

type Run = dyn Fn(Value) -> Future<'static, ToolAnswer> + Send + Sync;

#[derive(Clone)]
pub struct Tool {
    pub spec: Spec,
    /// The tool changes nothing, so it may run in parallel with others.
    pub reads_only: bool,
    /// The tool changes files.
    pub edits: bool,
    run: Arc<Run>,
}

impl Tool {
    pub fn new<A, F, R>(name: &str, description: &str, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        F: Fn(A) -> R + Send + Sync + 'static,
        R: std::future::Future<Output = ToolAnswer> + Send + 'static,
    {
        let schema = schema::<A>();
        let hint = parameters(&schema);
        let run = move |arguments: Value| -> Future<'static, ToolAnswer> {
            match read::<A>(arguments, &hint) {
                Ok(arguments) => Box::pin(run(arguments)),
                Err(wrong) => Box::pin(async { Err(wrong) }),
            }
        };
        let spec = Spec { name: name.to_owned(), description: description.trim().to_owned(), schema };
        Self { spec, reads_only: false, edits: false, run: Arc::new(run) }
    }

    /// Makes a tool whose arguments something else describes and checks.
    pub fn described<F, R>(spec: Spec, run: F) -> Self
    where
        F: Fn(Value) -> R + Send + Sync + 'static,
        R: std::future::Future<Output = ToolAnswer> + Send + 'static,
    {
        let run = Arc::new(move |arguments| -> Future<'static, ToolAnswer> { Box::pin(run(arguments)) });
        Self { spec, reads_only: false, edits: false, run }
    }

    #[must_use]
    pub fn reading_only(mut self) -> Self {
        self.reads_only = true;
        self
    }

    #[must_use]
    pub fn editing(mut self) -> Self {
        self.edits = true;
        self
    }

    pub fn call(&self, arguments: Value) -> Future<'static, ToolAnswer> {
        (self.run)(arguments)
    }
}

#[derive(Clone, Default)]
pub struct Catalogue {
    tools: BTreeMap<String, Tool>,
    images: ImageTray,
    side: SideAccount,
}

impl Catalogue {
    /// Adds a tool; replaces one of the same name.
    #[must_use]
    pub fn with(mut self, tool: Tool) -> Self {
        self.tools.insert(tool.spec.name.clone(), tool);
        self
    }

    #[must_use]
    pub fn with_all(self, tools: impl IntoIterator<Item = Tool>) -> Self {
        tools.into_iter().fold(self, Self::with)
    }

    /// Returns the tools for files, search, shell and reading long answers.
    pub fn standard(workspace: &Workspace, ledger: &CallLog) -> Self {
        let images = ImageTray::default();
        let catalogue = Self { images: images.clone(), ..Self::default() };
        catalogue
            .with_all(files::tools(workspace))
            .with_all(edit::tools(workspace))
            .with_all(search::tools(workspace))
            .with(find::tool(workspace))
            .with(image::tool(workspace, &images))
            .with_all(shell::tools(workspace))
            .with(output::tool(ledger))
    }

    #[must_use]
    pub fn with_plan(self, holder: &PlanHolder, ledger: &CallLog) -> Self {
        self.with_all(plans::tools(holder, ledger))
    }

    /// Replaces each tool; the name of the new one counts.
    #[must_use]
    pub fn map(self, change: impl Fn(Tool) -> Tool) -> Self {
        let Self { tools, images, side } = self;
        Self { images, side, ..Self::default() }.with_all(tools.into_values().map(change))
    }

    /// Returns the account of the sub-agents.
    pub fn side_account(&self) -> &SideAccount {
        &self.side
    }

    /// Returns the images that tools showed since the last time.
    pub(crate) fn take_images(&self) -> Vec<ImageData> {
        self.images.take()
    }

    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// Returns the descriptions in a fixed order, so that providers can cache them.
    pub fn specs(&self) -> Vec<Spec> {
        self.tools.values().map(|tool| tool.spec.clone()).collect()
    }

    pub(crate) fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.tools.keys().map(String::as_str).collect();
        format!("there is no tool `{name}`; use one of: {}", names.join(", "))
    }
}

fn schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        // Not every provider follows references.
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    strip(&mut schema);
    schema
}

/// Removes schema keywords that do not help a model and that some providers reject.
fn strip(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            // A property may have the same name as a keyword, but its value is an object.
            let says_nothing = |key: &str| matches!(key, "title" | "format" | "minimum");
            entries.retain(|key, value| !says_nothing(key) || value.is_object());
            entries.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Formats the arguments as one line: `path, offset?, limit?`.
fn parameters(schema: &Value) -> String {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object();
    let names = properties.into_iter().flatten().map(|(name, _)| match required.contains(&name.as_str()) {
        true => name.clone(),
        false => format!("{name}?"),
    });
    let mut names: Vec<String> = names.collect();
    names.sort_by_key(|name| name.ends_with('?'));
    names.join(", ")
}

fn read<A: DeserializeOwned>(arguments: Value, hint: &str) -> Result<A, String> {
    if let Value::String(text) = &arguments {
        let why = serde_json::from_str::<Value>(text).err().map(|why| why.to_string()).unwrap_or_default();
        return Err(format!(
            "the arguments are not valid JSON ({why}); call the tool again with an object of: {hint}"
        ));
    }
    serde_json::from_value(arguments)
        .map_err(|why| format!("the arguments do not fit ({why}); call the tool again with: {hint}"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Weigh {
        /// The file.
        path: String,
        /// How often.
        #[serde(default)]
        times: u32,
    }

    fn tool() -> Tool {
        Tool::new("weigh", "Weighs a file.", |weigh: Weigh| async move {
            Ok(format!("{} × {}", weigh.path, weigh.times))
        })
    }

    #[test]
    fn the_schema_comes_from_the_type() {
        let schema = serde_json::to_string_pretty(&tool().spec.schema).expect("JSON");
        expect![[r#"
            {
              "type": "object",
              "additionalProperties": false,
              "properties": {
                "path": {
                  "type": "string",
                  "description": "The file."
                },
                "times": {
                  "type": "integer",
                  "description": "How often.",
                  "default": 0
                }
              },
              "required": [
                "path"
              ]
            }"#]]
        .assert_eq(&schema);
    }

    #[tokio::test]
    async fn wrong_arguments_are_answered_with_the_right_ones() {
        let call = |arguments| async move { tool().call(arguments).await };
        assert_eq!(call(json!({ "path": "a", "times": 2 })).await, Ok("a × 2".to_owned()));
        let missing = call(json!({})).await.expect_err("an error");
        assert!(missing.contains("missing field `path`") && missing.ends_with("path, times?"), "{missing}");
        let unknown = call(json!({ "path": "a", "time": 2 })).await.expect_err("an error");
        assert!(unknown.contains("unknown field `time`"), "{unknown}");
        let broken = call(json!("{\"path\": \"a")).await.expect_err("an error");
        assert!(broken.contains("not valid JSON (EOF"), "{broken}");
    }

    #[test]
    fn an_unknown_tool_is_answered_with_the_known_ones() {
        let catalogue = Catalogue::default().with(tool());
        assert_eq!(catalogue.unknown("wiegh"), "there is no tool `wiegh`; use one of: weigh");
    }
}
