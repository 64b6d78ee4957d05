//! Decides how provost selects the model of an ACP agent: with `session/set_model`, or with an option that the
//! agent offers.

use serde_json::{Value, json};

/// What the answer to opening a session says about the wanted model.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ModelChoice {
    /// The agent uses the model already.
    Current,
    /// The request that selects the model, without the id of the session.
    Request { method: &'static str, params: Value },
    /// The agent offers only these models.
    NotOffered { request: Option<&'static str>, offered: Vec<String> },
    /// The agent does not let its client choose.
    Unsupported,
}

impl ModelChoice {
    /// Reads the answer to `session/new`, `session/load` or `session/resume`.
    pub(super) fn of(session: &Value, wanted: &str) -> Self {
        let models = &session["models"];
        if let Some(all) = models["availableModels"].as_array() {
            let offered: Vec<&str> = all.iter().filter_map(|model| model["modelId"].as_str()).collect();
            return Self::among(
                &offered,
                &models["currentModelId"],
                wanted,
                Some("session/set_model"),
                || json!({ "modelId": wanted }),
            );
        }
        let mut options = session["configOptions"].as_array().into_iter().flatten();
        let Some(option) = options.find(|option| option["category"] == "model" || option["id"] == "model")
        else {
            return Self::Unsupported;
        };
        let mut offered = Vec::new();
        values(&option["options"], &mut offered);
        Self::among(
            &offered,
            &option["currentValue"],
            wanted,
            None,
            || json!({ "configId": option["id"], "value": wanted }),
        )
    }

    fn among(
        offered: &[&str],
        current: &Value,
        wanted: &str,
        request: Option<&'static str>,
        params: impl Fn() -> Value,
    ) -> Self {
        if current == wanted {
            return Self::Current;
        }
        if offered.contains(&wanted) {
            let method = request.unwrap_or("session/set_config_option");
            return Self::Request { method, params: params() };
        }
        Self::NotOffered { request, offered: offered.iter().map(|&name| name.to_owned()).collect() }
    }
}

/// Collects the values of an option; they may stand in groups.
fn values<'a>(options: &'a Value, into: &mut Vec<&'a str>) {
    for option in options.as_array().into_iter().flatten() {
        into.extend(option["value"].as_str());
        if let Some(inner) = option["options"].as_array().filter(|_| option["value"].is_null()) {
            into.extend(inner.iter().filter_map(|option| option["value"].as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_chosen_by_the_request_or_by_the_option_that_the_agent_offers() {
        let models = json!({ "models": {
            "currentModelId": "a", "availableModels": [{ "modelId": "a" }, { "modelId": "b" }],
        } });
        assert_eq!(ModelChoice::of(&models, "a"), ModelChoice::Current);
        let set = ModelChoice::Request { method: "session/set_model", params: json!({ "modelId": "b" }) };
        assert_eq!(ModelChoice::of(&models, "b"), set);
        let offered = vec!["a".to_owned(), "b".to_owned()];
        let request = Some("session/set_model");
        assert_eq!(ModelChoice::of(&models, "c"), ModelChoice::NotOffered { request, offered });

        let grouped = json!([{ "group": "g", "options": [{ "value": "b" }] }, { "value": "a" }]);
        let options = json!({ "configOptions": [
            { "id": "mode", "category": "mode", "options": [{ "value": "b" }] },
            { "id": "llm", "category": "model", "currentValue": "a", "options": grouped },
        ] });
        let params = json!({ "configId": "llm", "value": "b" });
        let set = ModelChoice::Request { method: "session/set_config_option", params };
        assert_eq!(ModelChoice::of(&options, "b"), set);
        let offered = vec!["b".to_owned(), "a".to_owned()];
        assert_eq!(ModelChoice::of(&options, "c"), ModelChoice::NotOffered { request: None, offered });
        for odd in [json!({}), json!({ "models": 7, "configOptions": [7, { "id": "mode" }] })] {
            assert_eq!(ModelChoice::of(&odd, "a"), ModelChoice::Unsupported, "{odd}");
        }
    }
}
