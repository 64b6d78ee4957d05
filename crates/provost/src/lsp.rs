//! The language server for plan files: `provost lsp`.
//!
//! It reads messages from standard input and writes messages to standard output, and nothing else there.
//! Everything it says about a plan comes from the parser, `verify`, the manual and the log.
//!
//! **Invariant:** the server changes no file and no log, and approves nothing.

mod actions;
mod completion;
mod definition;
mod diagnostics;
mod documents;
mod hover;
mod lenses;
mod names;
mod outline;
mod place;
mod positions;
mod reference;
mod rename;
mod server;
mod surroundings;
#[cfg(test)]
mod tests;
mod trial;
mod wire;

use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;
use server::Server;
use wire::{ErrorCode, Outbox, Received};

/// Serves the client on standard input and output until it says `exit` or closes the input.
pub(crate) fn serve(global: &Global) -> Answer {
    let outbox = Outbox::new(std::io::stdout());
    let served = converse(global, &outbox, &mut BufReader::new(std::io::stdin()));
    served.map_err(|source| Failure::Io { what: "read from standard input".to_owned(), source })
}

/// The state of a conversation.
enum Stage {
    Begun,
    Serving(Box<Server>),
    /// The client has sent `shutdown`.
    ShutDown,
}

fn converse(global: &Global, outbox: &Outbox, input: &mut impl BufRead) -> std::io::Result<Outcome> {
    let mut stage = Stage::Begun;
    let outcome = loop {
        let message = match wire::read(input)? {
            Received::Message(message) => message,
            Received::Malformed(why) => {
                terminal::talk(&format!("the client sent {why}"));
                outbox.fail(&Value::Null, ErrorCode::Parse, &why);
                continue;
            }
            Received::End => break Outcome::Done,
        };
        let (id, method) = (message.get("id").cloned(), message["method"].as_str());
        let params = message.get("params").cloned().unwrap_or_default();
        match (method, id) {
            (Some("exit"), None) => match stage {
                Stage::ShutDown => break Outcome::Done,
                // The protocol asks for an exit code of 1.
                Stage::Begun | Stage::Serving(_) => break Outcome::PlanFailed,
            },
            (Some(method), Some(id)) => stage = asked(global, outbox, stage, id, method, params),
            (Some(method), None) => {
                if let Stage::Serving(server) = &mut stage
                    && let Err((_, why)) = server.notified(method, params)
                {
                    terminal::talk(&format!("{method}: {why}"));
                }
            }
            // A response: the server asks nothing.
            (None, Some(_)) if message.get("result").is_some() || message.get("error").is_some() => {}
            (None, id) => {
                let why = "a message is an object with a method";
                outbox.fail(&id.unwrap_or_default(), ErrorCode::InvalidRequest, why);
            }
        }
    };
    if let Stage::Serving(server) = &stage {
        server.stop();
    }
    Ok(outcome)
}

fn asked(global: &Global, outbox: &Outbox, stage: Stage, id: Value, method: &str, params: Value) -> Stage {
    match (stage, method) {
        (Stage::Begun, "initialize") => {
            let server = Server::new(global.clone(), outbox.clone(), &params);
            outbox.answer(&id, server::abilities());
            Stage::Serving(Box::new(server))
        }
        (Stage::Begun, _) => {
            outbox.fail(&id, ErrorCode::NotInitialized, "send `initialize` first");
            Stage::Begun
        }
        (Stage::Serving(server), "initialize") => {
            outbox.fail(&id, ErrorCode::InvalidRequest, "the server is initialized already");
            Stage::Serving(server)
        }
        (Stage::Serving(server), "shutdown") => {
            server.stop();
            outbox.answer(&id, Value::Null);
            Stage::ShutDown
        }
        (Stage::Serving(mut server), method) => {
            server.asked(id, method, params);
            Stage::Serving(server)
        }
        (Stage::ShutDown, _) => {
            outbox.fail(&id, ErrorCode::InvalidRequest, "the server is shut down; send `exit`");
            Stage::ShutDown
        }
    }
}
