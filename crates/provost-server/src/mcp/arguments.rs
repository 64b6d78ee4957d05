//! Reads the arguments of a tool call leniently: numbers as text, steps as plain titles. Unknown names are
//! refused, because a model that made one up expects an effect of it.

use provost_core::language::plan_writer::{DraftPostcondition, DraftStep, PlanDraft};
use provost_core::model::suggest::suggestion;
use rmcp::model::{JsonObject, RequestMetaObject, Tool};
use serde_json::Value;

use super::Reply;

const STATUSES: &str = "pending, in_progress, done, blocked";
/// Fields of a step.
pub(super) const STEP: [&str; 7] = ["title", "task", "check", "needs", "guard", "network", "publishes"];
/// Fields of a postcondition.
pub(super) const POSTCONDITION: [&str; 2] = ["text", "check"];
/// Other names that models use for the title of a step, and for the text of a postcondition.
const TITLES: [&str; 3] = ["title", "description", "text"];
const TEXTS: [&str; 3] = ["text", "description", "title"];
/// Another name that models use for `step`.
const STEP_NUMBER: &str = "step_number";
/// Maximum number of steps or postconditions.
const MOST: usize = 1000;

pub(super) struct Arguments(pub JsonObject);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Pending,
    InProgress,
    Done,
    Blocked,
}

impl Arguments {
    /// Refuses arguments that the tool does not have. An unknown tool is refused elsewhere.
    pub(super) fn known_to(&self, name: &str, tools: &[Tool]) -> Result<(), Reply> {
        let Some(tool) = tools.iter().find(|tool| tool.name == name) else { return Ok(()) };
        let known = tool.input_schema.get("properties").and_then(Value::as_object);
        let known: Vec<&str> = known.into_iter().flat_map(|known| known.keys().map(String::as_str)).collect();
        let also = if known.contains(&"step") { [STEP_NUMBER].as_slice() } else { &[] };
        self.only(name, &known, also)
    }

    /// Refuses names that are neither among `known` nor among `also`; the refusal lists `known`.
    fn only(&self, whose: &str, known: &[&str], also: &[&str]) -> Result<(), Reply> {
        let is_unknown = |key: &&String| !known.contains(&key.as_str()) && !also.contains(&key.as_str());
        let Some(key) = self.0.keys().find(is_unknown) else { return Ok(()) };
        let takes = if known.is_empty() { "no arguments".to_owned() } else { known.join(", ") };
        let meant = suggestion(key, known.iter().copied());
        let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        Err(Reply::refusal(format!("unknown argument `{key}`: {whose} takes {takes}{meant}")))
    }

    /// Returns a text, empty if it is missing.
    pub(super) fn text(&self, key: &str) -> Result<String, Reply> {
        text(self.0.get(key), key)
    }

    pub(super) fn required(&self, key: &str) -> Result<String, Reply> {
        let text = self.text(key)?;
        if text.trim().is_empty() { Err(Reply::refusal(format!("`{key}` is missing"))) } else { Ok(text) }
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, Reply> {
        let wrong = || Reply::refusal(format!("`{key}` has to be a whole number, counted from 1"));
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(value) => number(value).map(Some).ok_or_else(wrong),
        }
    }

    pub(super) fn step(&self) -> Result<u32, Reply> {
        let number = match self.number("step")? {
            Some(number) => Some(number),
            None => self.number(STEP_NUMBER)?,
        };
        let number = number.ok_or_else(|| Reply::refusal("`step` is missing: the number of the step"))?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    pub(super) fn status(&self) -> Result<Status, Reply> {
        match self.text("status")?.trim() {
            "pending" => Ok(Status::Pending),
            "in_progress" => Ok(Status::InProgress),
            "done" => Ok(Status::Done),
            "blocked" => Ok(Status::Blocked),
            "" => Err(Reply::refusal(format!("`status` is missing: one of {STATUSES}"))),
            other => Err(Reply::refusal(format!("unknown status `{other}`: it is one of {STATUSES}"))),
        }
    }

    pub(super) fn draft(&self) -> Result<PlanDraft, Reply> {
        Ok(PlanDraft {
            objective: self.text("objective")?,
            touches: self
                .list("touches")?
                .iter()
                .map(|glob| text(Some(glob), "touches"))
                .collect::<Result<_, _>>()?,
            steps: self.list("steps")?.iter().map(step).collect::<Result<_, _>>()?,
            postconditions: self
                .list("postconditions")?
                .iter()
                .map(postcondition)
                .collect::<Result<_, _>>()?,
        })
    }

    fn list(&self, key: &str) -> Result<Vec<Value>, Reply> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(list)) if list.len() > MOST => {
                Err(Reply::refusal(format!("`{key}` has {} entries; at most {MOST} are taken", list.len())))
            }
            Some(Value::Array(list)) => Ok(list.clone()),
            // Some clients send nested values as text.
            Some(Value::String(text)) => match serde_json::from_str(text) {
                Ok(Value::Array(list)) => Ok(list),
                _ => Err(Reply::refusal(format!("`{key}` has to be a list"))),
            },
            Some(_) => Err(Reply::refusal(format!("`{key}` has to be a list"))),
        }
    }
}

fn step(value: &Value) -> Result<DraftStep, Reply> {
    let entry = match value {
        Value::String(title) => return Ok(DraftStep { title: title.clone(), ..DraftStep::default() }),
        Value::Object(entry) => Arguments(entry.clone()),
        _ => return Err(Reply::refusal("each of `steps` is {title, task, check}")),
    };
    entry.only("a step", &STEP, &TITLES)?;
    let needs = entry.list("needs")?;
    let need = |value: &Value| {
        let need = number(value).and_then(|number| u32::try_from(number).ok());
        need.ok_or_else(|| Reply::refusal("`needs` is a list of step numbers"))
    };
    Ok(DraftStep {
        title: entry.first(&TITLES)?,
        task: entry.text("task")?,
        check: entry.text("check")?,
        needs: needs.iter().map(need).collect::<Result<_, _>>()?,
        network: matches!(entry.0.get("network"), Some(Value::Bool(true))),
        publishes: entry
            .list("publishes")?
            .iter()
            .map(|topic| text(Some(topic), "publishes"))
            .collect::<Result<_, _>>()?,
        guard: matches!(entry.0.get("guard"), Some(Value::Bool(true))),
    })
}

fn postcondition(value: &Value) -> Result<DraftPostcondition, Reply> {
    match value {
        Value::String(text) => Ok(DraftPostcondition { text: text.clone(), check: String::new() }),
        Value::Object(entry) => {
            let entry = Arguments(entry.clone());
            entry.only("a postcondition", &POSTCONDITION, &TEXTS)?;
            Ok(DraftPostcondition { text: entry.first(&TEXTS)?, check: entry.text("check")? })
        }
        _ => Err(Reply::refusal("each of `postconditions` is {text, check}")),
    }
}

impl Arguments {
    /// Returns the first of these that is not empty.
    fn first(&self, keys: &[&str]) -> Result<String, Reply> {
        for key in keys {
            let text = self.text(key)?;
            if !text.trim().is_empty() {
                return Ok(text);
            }
        }
        Ok(String::new())
    }
}

fn text(value: Option<&Value>, key: &str) -> Result<String, Reply> {
    match value {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(_) => Err(Reply::refusal(format!("`{key}` has to be text"))),
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number
            .as_u64()
            .or_else(|| number.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as u64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Returns the session's name, if the client sends it in the request metadata.
pub(super) fn session_name(meta: &RequestMetaObject) -> Option<String> {
    const KEYS: [&str; 5] = ["sessionId", "session_id", "threadId", "thread_id", "conversationId"];
    let named = |map: &JsonObject| {
        KEYS.iter().find_map(|key| map.get(*key)?.as_str().filter(|name| !name.is_empty()).map(str::to_owned))
    };
    let map = &meta.0.0;
    named(map).or_else(|| match map.get("x-codex-turn-metadata")? {
        Value::Object(nested) => named(nested),
        Value::String(text) => named(serde_json::from_str::<Value>(text).ok()?.as_object()?),
        _ => None,
    })
}
