//! The wire format of queues: names, and the two kinds of work.
//!
//! **Invariant:** every program registers both kinds under [`VERSION`], which is raised only if one program
//! could not read what the other queued.

use serde::{Deserialize, Serialize};

/// Version of the queued data, not of the program.
pub const VERSION: &str = "provost-wire-1";
/// Application name for the SDK.
pub(crate) const APPLICATION: &str = "provost";
/// Schema of the tables of the SDK.
pub(crate) const SCHEMA: &str = "dbos";

/// Queue of scheduling passes, one at a time per plan.
pub(crate) const TICKS: &str = "ticks";
/// Pool for work without a role: checks and what belongs to them.
pub const JUDGE: &str = "judge";

/// Pool for workers that schedule plans, because only they may end one.
pub(crate) const END: &str = "end";

/// Returns the queue of a pool: a role, or one of the pools above.
pub fn queue(pool: &str) -> String {
    format!("items {pool}")
}

/// Arguments in the form that the SDK's SQL function writes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Args<T> {
    #[serde(rename = "positionalArgs")]
    pub positional: Vec<T>,
    #[serde(rename = "namedArgs", default)]
    pub named: serde_json::Value,
}

impl<T> Args<T> {
    pub(crate) fn first(self) -> Option<T> {
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
    /// In the form of `provost_core::fleet::work_item`.
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
