//! What a login of the database may do, and whom others trust: keys of workers, policies, broken leases.
//!
//! **Invariant:** the database decides; these functions only ask it.

use provost_core::model::proof::PublicKey;
use sqlx::Row as _;

use super::{Postgres, failure, rows, run, schema};
use crate::{Error, Holder};

/// The rights of the login that this process uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRights {
    pub login: String,
    /// Its verdicts count only if a trusted key signed them.
    pub must_sign: bool,
    /// It may write verdicts.
    pub may_judge: bool,
    /// It owns the schema of the log.
    pub is_owner: bool,
}

/// A key whose signed verdicts count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    pub key: String,
    pub name: String,
    /// The login that trusted it.
    pub added_by: String,
}

impl Postgres {
    pub fn rights(&self) -> Result<LoginRights, Error> {
        self.with("ask for the rights of this login", async |connection| {
            let row = self
                .project()
                .query("SELECT login, writer, may_judge FROM provost.my_rights()")
                .fetch_one(connection)
                .await?;
            let writer: &str = row.try_get(1)?;
            let (must_sign, is_owner) = (writer == "worker", writer == "owner");
            Ok(LoginRights { login: row.try_get(0)?, must_sign, may_judge: row.try_get(2)?, is_owner })
        })
    }

    /// Returns the keys whose verdicts count, oldest first.
    pub fn checkers(&self) -> Result<Vec<TrustedKey>, Error> {
        self.with("list the trusted keys", async |connection| {
            let rows = self
                .project()
                .query("SELECT encode(key, 'hex'), name, added_by FROM provost.checker ORDER BY added, key")
                .fetch_all(connection)
                .await?;
            let read = |row: &sqlx::postgres::PgRow| {
                Ok(TrustedKey { key: row.try_get(0)?, name: row.try_get(1)?, added_by: row.try_get(2)? })
            };
            rows.iter().map(read).collect()
        })
    }

    /// Lets verdicts count that this key signs.
    pub fn trust_checker(&self, key: &PublicKey, name: &str) -> Result<(), Error> {
        self.with("trust a key", async |connection| {
            let call = self.project().query("SELECT provost.trust_checker($1, $2)");
            call.bind(key.to_bytes().as_slice()).bind(name).execute(connection).await.map(drop)
        })
    }

    /// Lets nothing count that this key signed, also in the past. Returns whether it was trusted.
    pub fn distrust_checker(&self, key: &PublicKey) -> Result<bool, Error> {
        self.with("stop to trust a key", async |connection| {
            let call = self.project().query("SELECT provost.distrust_checker($1)");
            call.bind(key.to_bytes().as_slice()).fetch_one(connection).await?.try_get(0)
        })
    }

    /// Takes a lease away from its holder. Returns the holder; `None` if the lease was free.
    pub fn break_lease(&self, name: &str) -> Result<Option<String>, Error> {
        let held: Option<String> = self.with("break a lease", async |connection| {
            let call = self.project().query("SELECT provost.break_lease($1)");
            call.bind(rows::quoted(name)).fetch_one(connection).await?.try_get(0)
        })?;
        let words =
            |held: String| serde_json::from_str::<Holder>(&held).map_or(held, |holder| holder.to_string());
        Ok(held.map(words))
    }

    /// Gives the roles their rights, and creates those that this login may create. Returns the roles that are
    /// missing afterwards; `None` if this login does not own the log.
    pub fn grant_roles(&self) -> Result<Option<Vec<String>>, Error> {
        let mut first = self.first_connection()?;
        let granted = run(schema::grant_roles(self.project(), &mut first));
        let granted =
            granted.map_err(|source| failure::of(&self.shared.at, "give the roles their rights", source));
        self.shared.give_back(first);
        granted
    }

    pub(super) fn ask_own_name(&self) -> Result<Option<String>, Error> {
        self.with("ask for the name of this login", async |connection| {
            self.project().query("SELECT provost.own_name()").fetch_one(connection).await?.try_get(0)
        })
    }

    pub(super) fn keep_policy(&self, digest: &str) -> Result<(), Error> {
        self.with("trust a policy", async |connection| {
            let call = self.project().query("SELECT provost.trust_policy($1)");
            call.bind(digest).execute(connection).await.map(drop)
        })
    }
}
