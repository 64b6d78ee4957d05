//! How requests for permission are answered.
//!
//! **Invariant:** an option is chosen by its kind; what it is called and where it stands means nothing.

use serde_json::{Value, json};

use crate::config::Permissions;

impl Permissions {
    /// The answer, out of the options there are. Where none of them means it, nothing is chosen.
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
