//! Answers the permission requests of an agent.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Permissions;

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
