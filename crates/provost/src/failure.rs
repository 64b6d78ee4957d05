//! Errors that stop a command before it has an outcome.

use provost_engine::Error;

/// An error that stops a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Engine(#[from] Error),
    #[error("{message}")]
    Usage { message: String, hint: Option<String> },
    #[error("cannot {what}")]
    Io {
        what: String,
        #[source]
        source: std::io::Error,
    },
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::Usage { message: message.into(), hint: Some(hint.into()) }
    }
}

impl From<provost_server::http::Error> for Failure {
    fn from(error: provost_server::http::Error) -> Self {
        use provost_server::http::Error as Served;
        let hint = match &error {
            Served::Open(_) => {
                "Listen on 127.0.0.1, pass --tls-cert and --tls-key, or pass --behind-proxy HOST if a TLS proxy is in front of the server."
            }
            Served::Listen { .. } => {
                "Another program may use this port; `--listen 127.0.0.1:0` takes any free port."
            }
            Served::Tls { .. } => {
                "Both files must be PEM: the certificate chain, with the server's certificate first, and its private key."
            }
            Served::SignIn(_) => "Correct [serve.oidc] in provost.toml; see docs/sign-in.md.",
            Served::Engine(_) | Served::Io(_) => "",
        };
        match error {
            Served::Engine(error) => Failure::Engine(error),
            Served::Io(source) => Failure::Io { what: "start the server".to_owned(), source },
            Served::SignIn(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                Failure::usage(format!("{error}{}", cause.unwrap_or_default()), hint)
            }
            Served::Listen { address, source } => {
                Failure::usage(format!("cannot listen on {address}: {source}"), hint)
            }
            other => Failure::usage(other.to_string(), hint),
        }
    }
}

/// Returns the error for commands that need a cluster, in a program built without it.
#[cfg(not(feature = "cluster"))]
pub(crate) fn no_cluster() -> Failure {
    Failure::usage(
        "this provost was built without the cluster",
        "Build it with `--features cluster`; see docs/cluster.md.",
    )
}

#[cfg(feature = "cluster")]
impl From<provost_dbos::Error> for Failure {
    fn from(error: provost_dbos::Error) -> Self {
        use provost_dbos::Error as Spread;
        let hint = match &error {
            Spread::Engine(_) | Spread::Database { .. } | Spread::Queues { .. } | Spread::Runtime(_) => "",
            Spread::NotShared => "Move it to a database that all machines reach: `provost migrate --to URL`.",
            Spread::OtherWire { .. } => "Use the version of provost that the other workers have.",
            Spread::NoCluster { .. } => "Start one with `provost worker`.",
            Spread::KeyNotTrusted { .. }
            | Spread::MayNotJudge { .. }
            | Spread::NotAKey { .. }
            | Spread::NotTrusted { .. } => "docs/cluster.md says which login may do what.",
            Spread::LeaseNotHeld { .. } => "`provost cluster status` shows who holds which item.",
            Spread::NoQueue { .. } => {
                "`provost cluster status` lists the queues; a worker makes the queue of its role when it joins."
            }
        };
        match error {
            Spread::Engine(error) => Failure::Engine(error),
            Spread::Database { attempted, source } => Failure::Io {
                what: format!("use the database to {attempted}"),
                source: std::io::Error::other(source),
            },
            Spread::Queues { .. } => {
                Failure::Io { what: "use the queues".to_owned(), source: std::io::Error::other(error) }
            }
            Spread::Runtime(source) => Failure::Io { what: "start a runtime".to_owned(), source },
            other => Failure::usage(other.to_string(), hint),
        }
    }
}
