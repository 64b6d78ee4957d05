//! Parses the address of the database: a URL without a password; the password comes from the usual Postgres
//! sources.
//!
//! Its parameter `project` names one of several projects of the database ([`DatabaseProject`]).
//! If the address is the one of a pooler, its parameter `direct` names the server behind it, for the few
//! connections that need a session of their own.
//!
//! **Invariant:** an address with a password is refused, because it would appear in a file, a list of
//! processes or a shell history.

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::project::DatabaseProject;
use crate::Error;

/// A setting of provost's own sessions. A pooler ignores it, which tells that it is there.
pub(super) const IDLE_LIMIT: (&str, &str) = ("idle_in_transaction_session_timeout", "10s");

#[derive(Clone)]
pub struct DatabaseAddress {
    options: PgConnectOptions,
    /// The server itself, if `options` lead to a pooler.
    direct: Option<PgConnectOptions>,
    project: DatabaseProject,
}

type Environment = [(OsString, OsString)];

impl DatabaseAddress {
    /// Reads `PGPASSWORD` from `environment`; a password file is found in the same way as by Postgres' own
    /// programs.
    pub fn new(url: &str, environment: &Environment) -> Result<Self, Error> {
        let wrong = |why: &str| Error::BadAddress { why: why.to_owned() };
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.ok_or_else(|| wrong("it does not begin with postgres://"))?;
        if has_password(rest) {
            return Err(Error::PasswordInAddress);
        }
        let (rest, project) = without(rest, "project");
        let project = project.map_or(Ok(DatabaseProject::default()), |name| DatabaseProject::new(&name))?;
        let (rest, Some(server)) = without(&rest, "direct") else {
            return Ok(Self { options: with_session(parsed(&rest, environment)?), direct: None, project });
        };
        let direct = at_server(&rest, &server)
            .ok_or_else(|| wrong("`direct` names a server as HOST:PORT, and nothing else of its address"))?;
        // A pooler gives a session to another client after each transaction, so it refuses settings of a session.
        let options = parsed(&rest, environment)?;
        Ok(Self { options, direct: Some(with_session(parsed(&direct, environment)?)), project })
    }

    /// Returns how to connect for transactions, perhaps through a pooler.
    pub fn options(&self) -> &PgConnectOptions {
        &self.options
    }

    /// Returns how to connect for what needs a session of its own: listening, and locks of a session.
    pub fn direct(&self) -> &PgConnectOptions {
        self.direct.as_ref().unwrap_or(&self.options)
    }

    /// Returns the project in the database.
    pub fn project(&self) -> &DatabaseProject {
        &self.project
    }

    /// Returns whether a pooler is between this program and the server.
    pub fn has_pooler(&self) -> bool {
        self.direct.is_some()
    }
}

/// Parses an address without its scheme.
fn parsed(rest: &str, environment: &Environment) -> Result<PgConnectOptions, Error> {
    let wrong = |why: &str| Error::BadAddress { why: why.to_owned() };
    let said = |name: &str| {
        let found = environment.iter().find(|(key, value)| key == name && !value.is_empty());
        found.and_then(|(_, value)| value.to_str())
    };
    // Postgres' own programs accept an empty host, but the URL parser does not.
    let url = format!("postgres://{}", rest.replacen("@/", "@localhost/", 1));
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
    let asks_for_tls = rest.contains("sslmode=") || rest.contains("ssl-mode=") || said("PGSSLMODE").is_some();
    if !asks_for_tls && is_elsewhere(&options) {
        options = options.ssl_mode(PgSslMode::VerifyFull);
    }
    Ok(options)
}

/// Adds the settings of provost's own sessions.
fn with_session(options: PgConnectOptions) -> PgConnectOptions {
    options.options([
        ("default_transaction_isolation", "read committed"),
        ("synchronous_commit", "on"),
        // Limits how long a writer that stops before its commit can block the others.
        (IDLE_LIMIT.0, IDLE_LIMIT.1),
    ])
}

/// Splits an address without its scheme into the rest and the value of a parameter of provost, if it is there.
fn without(rest: &str, name: &str) -> (String, Option<String>) {
    let Some((place, query)) = rest.split_once('?') else { return (rest.to_owned(), None) };
    let is_it = |pair: &&str| pair.split('=').next() == Some(name);
    let Some(found) = query.split('&').find(is_it) else { return (rest.to_owned(), None) };
    let value = found.split_once('=').map_or("", |(_, value)| value);
    let others: Vec<&str> = query.split('&').filter(|pair| !is_it(pair)).collect();
    (joined(place, &others), Some(value.replace("%2F", "/").replace("%3A", ":")))
}

/// Returns the address with this server instead of its own; `None` if it is not the name of a server.
fn at_server(rest: &str, server: &str) -> Option<String> {
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse::<u16>().ok()?),
        _ => (server, 5432),
    };
    if host.is_empty() || host.contains(['@', '?', '#', '%']) || host.contains('/') != host.starts_with('/') {
        return None;
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = place.split_once('/').unwrap_or((place, ""));
    let user = authority.rsplit_once('@').map(|(user, _)| format!("{user}@")).unwrap_or_default();
    let is_place = |pair: &&str| matches!(pair.split('=').next(), Some("host" | "hostaddr" | "port"));
    let mut others: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty() && !is_place(pair)).collect();
    let socket = format!("host={host}");
    let host = if host.starts_with('/') {
        others.push(&socket);
        "localhost"
    } else {
        host
    };
    Some(joined(&format!("{user}{host}:{port}/{database}"), &others))
}

fn joined(place: &str, query: &[&str]) -> String {
    if query.is_empty() { place.to_owned() } else { format!("{place}?{}", query.join("&")) }
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
        write!(f, "postgres://{}@{host}:{}/{database}", options.get_username(), options.get_port())?;
        self.project.name().map_or(Ok(()), |project| write!(f, "?project={project}"))
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::DatabaseAddress;
    use crate::Error;

    #[test]
    fn a_pooler_has_the_server_behind_it_in_its_address() {
        let socket = |options: &sqlx::postgres::PgConnectOptions| {
            options.get_socket().map(|socket| socket.display().to_string())
        };
        for (direct, host, port, at) in [
            ("db.example.org", "db.example.org", 5432, None),
            ("db.example.org:5433", "db.example.org", 5433, None),
            ("127.0.0.1%3A5433", "127.0.0.1", 5433, None),
            ("[::1]:5433", "[::1]", 5433, None),
            ("/run/postgresql:5433", "localhost", 5433, Some("/run/postgresql")),
        ] {
            let url = format!("postgres://ada@pooler.example.org:6432/log?sslmode=require&direct={direct}");
            let address = DatabaseAddress::new(&url, &[]).expect("an address");
            assert!(address.has_pooler());
            assert_eq!(address.to_string(), "postgres://ada@pooler.example.org:6432/log");
            assert_eq!(address.options().get_options(), None, "a pooler has no session for settings");
            let direct = address.direct();
            assert_eq!((direct.get_host(), direct.get_port()), (host, port), "{url}");
            assert_eq!(socket(direct).as_deref(), at, "{url}");
            assert_eq!((direct.get_username(), direct.get_database()), ("ada", Some("log")));
            assert!(direct.get_options().is_some_and(|said| said.contains("idle_in_transaction")));
        }
        for direct in ["", "ada:hunter2@h", "h:port", "h/other", "h:1?x", "h#"] {
            let url = format!("postgres://ada@pooler/log?direct={direct}");
            let refused = DatabaseAddress::new(&url, &[]);
            assert!(matches!(refused, Err(Error::BadAddress { .. })), "{url}: {refused:?}");
        }
        let plain = DatabaseAddress::new("postgres://ada@h/log", &[]).expect("an address");
        assert!(!plain.has_pooler());
        assert_eq!(plain.direct().get_host(), "h");
    }
}
