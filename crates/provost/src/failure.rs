//! What stops a command before it has an outcome.

use provost_engine::Error;

/// What stops a command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
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
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::Usage { message: message.into(), hint: Some(hint.into()) }
    }
}

impl From<provost_server::http::Error> for Failure {
    fn from(error: provost_server::http::Error) -> Self {
        use provost_server::http::Error as Served;
        let hint = match &error {
            Served::Open(_) => {
                "Listen on 127.0.0.1, give --tls-cert and --tls-key, or say --behind-proxy HOST if a proxy with TLS stands before it."
            }
            Served::Listen { .. } => "Somebody else may listen there: `--listen 127.0.0.1:0` takes any port.",
            Served::Tls { .. } => {
                "Both files are PEM: the chain with the server's own certificate first, and its key."
            }
            Served::Engine(_) | Served::Io(_) => "",
        };
        match error {
            Served::Engine(error) => Failure::Engine(error),
            Served::Io(source) => Failure::Io { what: "start the server".to_owned(), source },
            Served::Listen { address, source } => {
                Failure::usage(format!("cannot listen on {address}: {source}"), hint)
            }
            other => Failure::usage(other.to_string(), hint),
        }
    }
}
