//! The project of a database. Several teams can keep their logs in one database, each in schemas of its own, with
//! roles of its own.
//!
//! Every SQL text of provost is written for a database without projects. [`DatabaseProject::sql`] puts the names of a
//! project in place of the names of schemas and roles: `provost.event` becomes `provost_web.event`, and
//! `provost_worker` becomes `provost_web_worker`. Parameters are never rewritten.
//!
//! **Invariant:** every statement on provost's tables passes through here; `it structure` holds it.
//! **Invariant:** no schema and no role of a project has the name of one of another project, or of none.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::{Query, QueryAs, QueryScalar};
use sqlx::{AssertSqlSafe, FromRow, RawSql, SqlSafeStr as _, SqlStr};

use crate::Error;

/// The schema of the log; names of other schemas and of roles begin with it.
const LOG: &str = "provost";
/// The schema of the queues. Its name is the SDK's.
const QUEUES: &str = "dbos";
/// The channel of a database without projects, which earlier programs listen on.
const KNOWN_CHANNEL: &str = "provost";
/// The longest name of a project: names of roles and schemas have up to 63 bytes.
const LONGEST: usize = 24;
/// Last words of names of schemas and roles. A project that ended in one could have the name of another's.
const LAST_WORDS: [&str; 9] =
    ["cluster", "dbos", "harness", "person", "gateway", "worker", "agents", "reader", "operator"];

/// A project, or none: the database then has the log of one team.
#[derive(Clone, Default)]
pub struct DatabaseProject(Option<Arc<Named>>);

struct Named {
    name: String,
    /// Texts that were rewritten before.
    texts: Mutex<HashMap<&'static str, Arc<str>>>,
}

impl DatabaseProject {
    /// Returns the project with this name, or why there can be none.
    pub fn new(name: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::BadProject { name: name.to_owned(), why };
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_plain) {
            return Err(wrong("use lowercase letters, digits and _, and begin with a letter".to_owned()));
        }
        if name.len() > LONGEST {
            return Err(wrong(format!("it has {} characters; use {LONGEST} or fewer", name.len())));
        }
        let last = name.rsplit('_').next().unwrap_or(name);
        if LAST_WORDS.contains(&last) {
            return Err(wrong(format!(
                "schemas and roles of provost end with `{last}`; choose another word"
            )));
        }
        Ok(Self(Some(Arc::new(Named { name: name.to_owned(), texts: Mutex::default() }))))
    }

    /// Returns the name; `None` without a project.
    pub fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|named| named.name.as_str())
    }

    /// Returns the text with the names of this project. Without a project it is the text itself.
    pub fn sql<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.name() {
            None => Cow::Borrowed(text),
            Some(name) => Cow::Owned(rewritten(text, name)),
        }
    }

    /// The same for a text that is used again and again; it is rewritten once.
    pub fn statement(&self, text: &'static str) -> SqlStr {
        let Some(named) = &self.0 else { return SqlStr::from_static(text) };
        let mut texts = named.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = texts.entry(text).or_insert_with(|| rewritten(text, &named.name).into());
        AssertSqlSafe(known.clone()).into_sql_str()
    }

    pub fn query(&self, text: &'static str) -> Query<'static, sqlx::Postgres, PgArguments> {
        sqlx::query(self.statement(text))
    }

    /// Returns a query that was put together from constant texts.
    pub fn composed(
        &self,
        text: String,
        arguments: PgArguments,
    ) -> Query<'static, sqlx::Postgres, PgArguments> {
        sqlx::query_with(AssertSqlSafe(self.owned(text)), arguments)
    }

    pub fn query_as<T>(&self, text: &'static str) -> QueryAs<'static, sqlx::Postgres, T, PgArguments>
    where
        T: for<'r> FromRow<'r, PgRow>,
    {
        sqlx::query_as(self.statement(text))
    }

    pub fn query_scalar<T>(&self, text: &'static str) -> QueryScalar<'static, sqlx::Postgres, T, PgArguments>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        sqlx::query_scalar(self.statement(text))
    }

    /// Returns several statements as one text.
    pub fn raw(&self, text: &'static str) -> RawSql {
        sqlx::raw_sql(self.statement(text))
    }

    fn owned(&self, text: String) -> String {
        match self.name() {
            None => text,
            Some(name) => rewritten(&text, name),
        }
    }

    /// Returns the channel for a new log. Channels have no rights, so that of a project has a random name, which
    /// only those know who may read its schema.
    pub(super) fn new_channel(&self) -> std::io::Result<String> {
        if self.0.is_none() {
            return Ok(KNOWN_CHANNEL.to_owned());
        }
        let mut random = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("{KNOWN_CHANNEL}_{digits}"))
    }
}

/// Returns the text with the names of a project, word by word.
fn rewritten(text: &str, project: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut rest = text;
    while !rest.is_empty() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word);
        let between = after.find(is_word).unwrap_or(after.len());
        match word.strip_prefix(LOG) {
            Some(role) if role.is_empty() || role.starts_with('_') => {
                out.extend([LOG, "_", project, role]);
            }
            _ if word == QUEUES => out.extend([LOG, "_", project, "_", QUEUES]),
            _ => out.push_str(word),
        }
        out.push_str(&after[..between]);
        rest = &after[between..];
    }
    out
}

impl PartialEq for DatabaseProject {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Debug for DatabaseProject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DatabaseProject").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::DatabaseProject;

    fn web() -> DatabaseProject {
        DatabaseProject::new("web").expect("a name")
    }

    #[test]
    fn names_of_schemas_and_roles_are_those_of_the_project() {
        for (text, of_web) in [
            ("SELECT provost.log_end()", "SELECT provost_web.log_end()"),
            (
                "FROM provost_cluster.item i, dbos.queues q",
                "FROM provost_web_cluster.item i, provost_web_dbos.queues q",
            ),
            ("provost.has_role('provost_worker')", "provost_web.has_role('provost_web_worker')"),
            ("nspname = 'provost'; SCHEMA provost", "nspname = 'provost_web'; SCHEMA provost_web"),
            ("replace(x, 'f(''provost'', y)')", "replace(x, 'f(''provost_web'', y)')"),
            ("provosts my_provost provost2 dbos_x $1", "provosts my_provost provost2 dbos_x $1"),
            ("ä provost.ü", "ä provost_web.ü"),
            ("", ""),
        ] {
            assert_eq!(web().sql(text), of_web);
            assert!(matches!(DatabaseProject::default().sql(text), Cow::Borrowed(same) if same == text));
            assert_eq!(DatabaseProject::default().statement(text).as_str().as_ptr(), text.as_ptr());
            let project = web();
            let (one, again) = (project.statement(text), project.statement(text));
            assert_eq!(one.as_str(), of_web);
            assert_eq!(one.as_str().as_ptr(), again.as_str().as_ptr(), "it is rewritten once");
        }
    }

    #[test]
    fn a_name_can_be_a_part_of_others_and_is_no_name_in_use() {
        for name in ["web", "a", "team_2", "a23456789012345678901234", "workers", "provost"] {
            let project = DatabaseProject::new(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            let longest = project.sql("provost_operator").into_owned();
            assert!(longest.len() <= 63, "{longest}");
        }
        for name in [
            "",
            "Web",
            "1web",
            "_web",
            "web-2",
            "web.x",
            "web\"",
            "wéb",
            "web x",
            "a234567890123456789012345",
            "worker",
            "web_worker",
            "cluster",
            "web_cluster",
            "dbos",
            "web_dbos",
            "operator",
        ] {
            let refused = DatabaseProject::new(name).expect_err(name).to_string();
            assert!(refused.contains(&format!("`{name}`")), "{refused}");
        }
    }

    #[test]
    fn only_a_project_has_a_secret_channel() {
        assert_eq!(DatabaseProject::default().new_channel().unwrap(), "provost");
        let (one, other) = (web().new_channel().unwrap(), web().new_channel().unwrap());
        assert!(one != other && one.len() == 40, "{one} {other}");
    }
}
