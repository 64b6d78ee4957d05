//! Parses the address of the database: a URL without a password; the password comes from the usual Postgres
//! sources.
//!
//! **Invariant:** an address with a password is refused, because it would appear in a file, a list of
//! processes or a shell history.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::Error;

#[derive(Clone)]
pub struct DatabaseAddress {
    options: PgConnectOptions,
}

impl DatabaseAddress {
    /// Reads `PGPASSWORD` from `environment`; a password file is found in the same way as by Postgres' own
    /// programs.
    pub fn new(url: &str, environment: &[(OsString, OsString)]) -> Result<Self, Error> {
        let wrong = |why: &str| Error::BadAddress { why: why.to_owned() };
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.ok_or_else(|| wrong("it does not begin with postgres://"))?;
        if has_password(rest) {
            return Err(Error::PasswordInAddress);
        }
        let said = |name: &str| {
            let found = environment.iter().find(|(key, value)| key == name && !value.is_empty());
            found.and_then(|(_, value)| value.to_str())
        };
        // Postgres' own programs accept an empty host, but the URL parser does not.
        let url = url.replacen("@/", "@localhost/", 1);
        // The driver's message may quote the address, but there is no password in it.
        let mut options = PgConnectOptions::from_str(&url)
            .map_err(|error| wrong(&error.to_string()))?
            .application_name("provost");
        if let Some(password) = said("PGPASSWORD") {
            options = options.password(password);
        }
        if options.get_database().is_none() {
            return Err(wrong("it does not name a database: postgres://user@host/database"));
        }
        let asks_for_tls =
            rest.contains("sslmode=") || rest.contains("ssl-mode=") || said("PGSSLMODE").is_some();
        if !asks_for_tls && is_elsewhere(&options) {
            options = options.ssl_mode(PgSslMode::VerifyFull);
        }
        let options = options.options([
            ("default_transaction_isolation", "read committed"),
            ("synchronous_commit", "on"),
            // Limits how long a writer that stops before its commit can block the others.
            ("idle_in_transaction_session_timeout", "10s"),
        ]);
        Ok(Self { options })
    }

    pub fn options(&self) -> &PgConnectOptions {
        &self.options
    }
}

fn has_password(rest: &str) -> bool {
    let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = authority.split('/').next().unwrap_or(authority);
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':'))
        || query.split('&').any(|pair| pair.split('=').next() == Some("password"))
}

/// Returns whether the server is on another machine, reached over a network.
fn is_elsewhere(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    let is_loopback = host.parse::<std::net::IpAddr>().map_or(host == "localhost", |ip| ip.is_loopback());
    options.get_socket().is_none() && !host.starts_with('/') && !is_loopback
}

impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        let host = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => options.get_host().to_owned(),
        };
        let database = options.get_database().unwrap_or_default();
        write!(f, "postgres://{}@{host}:{}/{database}", options.get_username(), options.get_port())
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}
