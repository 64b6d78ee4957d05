//! Answers the permission requests of an agent, and describes them for a person.
//!
//! **Invariant:** an option is chosen by its kind; its name and its position do not matter.

use serde_json::{Value, json};

use crate::config::Permissions;

impl Permissions {
    /// Chooses an option of a wanted kind. If there is none, the answer is "cancelled".
    pub fn answer(self, options: &Value) -> Value {
        let wanted: &[&str] = match self {
            Permissions::Allow => &["allow_once", "allow_always"],
            Permissions::Deny => &["reject_once", "reject_always"],
            Permissions::Ask => &[],
        };
        let of_kind = |kind: &&str| {
            let mut all = options.as_array().into_iter().flatten();
            all.find(|option| option["kind"] == **kind).map(|option| &option["optionId"])
        };
        match wanted.iter().find_map(of_kind).filter(|id| id.is_string()) {
            Some(id) => json!({ "outcome": { "outcome": "selected", "optionId": id } }),
            None => json!({ "outcome": { "outcome": "cancelled" } }),
        }
    }
}

/// Describes what the agent wants to do: the title of its tool call, and the command or file it names.
pub(super) fn asked_for(call: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            Some(words.join(" ")).filter(|text| !text.is_empty())
        }
        _ => None,
    };
    let names = [&call["title"], &call["name"], &call["kind"], &call["toolCallId"]];
    let title = names.into_iter().find_map(text).unwrap_or("something without a name".to_owned());
    let (input, locations) = (&call["rawInput"], call["locations"].as_array());
    let named = ["command", "cmd", "file_path", "filePath", "path", "url", "query"].map(|name| &input[name]);
    let place = locations.and_then(|places| places.first()).map(|place| &place["path"]);
    match named.into_iter().chain(place).find_map(text) {
        Some(detail) if !title.contains(&detail) => format!("{title}: {detail}"),
        _ => title,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Permissions, asked_for};

    #[test]
    fn a_person_reads_the_title_and_the_command_or_file() {
        for (call, words) in [
            (json!({ "title": "rm -rf x" }), "rm -rf x"),
            (json!({ "title": "Run", "rawInput": { "command": ["rm", "x"] } }), "Run: rm x"),
            (json!({ "title": "`ls`", "rawInput": { "command": "ls" } }), "`ls`"),
            (json!({ "kind": "edit", "locations": [{ "path": "/w/a.txt" }] }), "edit: /w/a.txt"),
            (json!({ "title": 7, "rawInput": "odd" }), "something without a name"),
        ] {
            assert_eq!(asked_for(&call), words, "{call}");
        }
    }

    #[test]
    fn the_kind_decides_and_not_the_name_or_the_place() {
        let options = json!([
            { "optionId": "allow", "name": "Allow", "kind": "reject_once" },
            { "optionId": "x", "name": "No", "kind": "allow_always" },
            { "optionId": "reject", "name": "Reject", "kind": "allow_once" },
        ]);
        let chosen = |how: Permissions| how.answer(&options)["outcome"]["optionId"].clone();
        assert_eq!(chosen(Permissions::Allow), "reject");
        assert_eq!(chosen(Permissions::Deny), "allow");
        assert_eq!(Permissions::Ask.answer(&options)["outcome"]["outcome"], "cancelled");
        for odd in [json!([]), json!("x"), json!([{ "kind": "allow_once" }]), json!([{ "kind": "new" }])] {
            assert_eq!(Permissions::Allow.answer(&odd)["outcome"]["outcome"], "cancelled", "{odd}");
        }
    }
}
