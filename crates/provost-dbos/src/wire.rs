//! What is written on queues: names, and the two forms of work.
//!
//! **Invariant:** every program registers both forms under [`VERSION`], which is raised only when what was
//! queued by one could not be read by the other.

use serde::{Deserialize, Serialize};

/// Names the form of what is queued, and not the program.
pub const VERSION: &str = "provost-wire-1";
/// As which application the SDK knows us.
pub(crate) const APPLICATION: &str = "provost";

/// Looks at plans, one at a time for each.
pub(crate) const TICKS: &str = "ticks";
/// For whoever does what no role does: checks, and what is around them.
pub const JUDGE: &str = "judge";

/// For whoever looks at plans: the end of one is not a worker's to say.
pub(crate) const END: &str = "end";

/// The queue of those who work for a pool: a role, or one of those above.
pub fn queue(pool: &str) -> String {
    format!("items {pool}")
}

/// As the SQL function of the SDK wraps what it is given.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Args<T> {
    #[serde(rename = "positionalArgs")]
    pub positional: Vec<T>,
    #[serde(rename = "namedArgs", default)]
    pub named: serde_json::Value,
}

impl<T> Args<T> {
    pub fn first(self) -> Option<T> {
        self.positional.into_iter().next()
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Look {
    pub plan: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub plan: String,
    /// As `provost_core::fleet::work_item` writes it.
    pub item: String,
    pub id: String,
}

#[cfg(test)]
mod tests {
    use super::{Args, Piece};

    #[test]
    fn what_the_sql_function_writes_is_read() {
        let text = r#"{"positionalArgs" : [{"plan" : "a", "item" : "contract 1", "id" : "item 7 a"}], "namedArgs" : {}}"#;
        let piece: Args<Piece> = serde_json::from_str(text).unwrap();
        assert_eq!(piece.first().unwrap().item, "contract 1");
        let empty: Args<Piece> = serde_json::from_str(r#"{"positionalArgs":[],"namedArgs":{}}"#).unwrap();
        assert!(empty.first().is_none());
    }
}
