//! The language server: its open documents, and which feature answers which message.
//!
//! One thread reads and answers. Requests that look at files or at the log are answered by a second one, in
//! their order, and diagnostics come from a third.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use provost_core::language::parse;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::diagnostics::{Found, Verifier};
use super::documents::{Change, Document, path_of};
use super::names::Names;
use super::positions::{Position, Range};
use super::surroundings::Surroundings;
use super::trial::Trials;
use super::wire::{ErrorCode, Kind, Outbox};
use super::{actions, completion, definition, hover, lenses, outline, rename};
use crate::open_plan::Global;

/// An error of a request: its code, and a message.
type Refusal = (ErrorCode, String);

pub(super) struct Server {
    outbox: Outbox,
    surroundings: Surroundings,
    documents: BTreeMap<String, Arc<Document>>,
    verifier: Verifier,
    trials: Trials,
    reader: Sender<Box<dyn FnOnce() + Send>>,
}

#[derive(Deserialize)]
struct DocumentId {
    uri: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AboutDocument {
    text_document: DocumentId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AtPosition {
    text_document: DocumentId,
    position: Position,
    /// For rename only.
    #[serde(default)]
    new_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InRange {
    text_document: DocumentId,
    range: Range,
    #[serde(default)]
    context: ActionContext,
}

#[derive(Default, Deserialize)]
struct ActionContext {
    only: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidOpen {
    text_document: OpenText,
}

#[derive(Deserialize)]
struct OpenText {
    uri: String,
    #[serde(default)]
    version: i64,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidChange {
    text_document: VersionedId,
    content_changes: Vec<Change>,
}

#[derive(Deserialize)]
struct VersionedId {
    uri: String,
    version: Option<i64>,
}

#[derive(Deserialize)]
struct CommandCall {
    command: String,
    #[serde(default)]
    arguments: Vec<Value>,
}

/// Returns the answer to `initialize`.
pub(super) fn abilities() -> Value {
    json!({
        "capabilities": {
            "positionEncoding": "utf-16",
            // Changes come as ranges.
            "textDocumentSync": { "openClose": true, "change": 2, "save": true },
            "hoverProvider": true,
            "completionProvider": { "triggerCharacters": ["*", ":", "/", " ", ","] },
            "codeActionProvider": { "codeActionKinds": ["quickfix", "source.fixAll.provost"] },
            "codeLensProvider": {},
            "executeCommandProvider": { "commands": [lenses::TRY, lenses::APPROVE] },
            "renameProvider": { "prepareProvider": true },
            "documentSymbolProvider": true,
            "foldingRangeProvider": true,
            "definitionProvider": true,
        },
        "serverInfo": { "name": "provost", "version": env!("CARGO_PKG_VERSION") },
    })
}

impl Server {
    /// Starts the threads of a server for a client that sent these parameters.
    pub(super) fn new(global: Global, outbox: Outbox, params: &Value) -> Self {
        let surroundings = Surroundings { global, roots: roots(params) };
        let related = "/capabilities/textDocument/publishDiagnostics/relatedInformation";
        let shows_related = params.pointer(related).and_then(Value::as_bool).unwrap_or_default();
        let verifier = Verifier::start(surroundings.clone(), outbox.clone(), shows_related);
        let (reader, jobs) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        std::thread::spawn(move || jobs.into_iter().for_each(|job| job()));
        let (documents, trials) = (BTreeMap::new(), Trials::default());
        Self { outbox, surroundings, documents, verifier, trials, reader }
    }

    /// Ends what the server has started.
    pub(super) fn stop(&self) {
        self.trials.stop();
    }

    pub(super) fn notified(&mut self, method: &str, params: Value) -> Result<(), Refusal> {
        match method {
            "textDocument/didOpen" => {
                let OpenText { uri, version, text } = read::<DidOpen>(params)?.text_document;
                self.keep(Document::new(uri, version, text));
            }
            "textDocument/didChange" => {
                let DidChange { text_document, content_changes } = read(params)?;
                let document = self.document(&text_document.uri)?;
                let version = text_document.version.unwrap_or(document.version + 1);
                self.keep(document.changed(version, content_changes));
            }
            "textDocument/didSave" => {
                let document = self.document(&read::<AboutDocument>(params)?.text_document.uri)?;
                self.verifier.verify(&document);
            }
            "textDocument/didClose" => {
                let uri = read::<AboutDocument>(params)?.text_document.uri;
                self.documents.remove(&uri);
                self.verifier.forget(&uri);
                let nothing = json!({ "uri": uri, "diagnostics": [] });
                self.outbox.notify("textDocument/publishDiagnostics", nothing);
            }
            // Another configuration, or another plan, may change what is wrong with each.
            "workspace/didChangeWatchedFiles" | "workspace/didChangeConfiguration" => {
                self.documents.values().for_each(|document| self.verifier.verify(document));
            }
            _ => {}
        }
        Ok(())
    }

    /// Answers a request, at once or by the second thread.
    pub(super) fn asked(&mut self, id: Value, method: &str, params: Value) {
        let answered = match method {
            "textDocument/hover" => self.look(&id, params, |about, at| {
                let run = || about.surroundings.run(&about.document);
                hover::find(&about.document, at, &about.found, run).unwrap_or_default()
            }),
            "textDocument/completion" => self.look(&id, params, |about, at| {
                let names = || Names::find(&about.surroundings, &about.document);
                json!(completion::find(&about.document, at, names))
            }),
            "textDocument/definition" => self.look(&id, params, |about, at| {
                let open = || about.surroundings.open(&about.document)?.ok();
                definition::find(&about.document, at, open).unwrap_or_default()
            }),
            "textDocument/codeLens" => self.lenses(&id, params),
            _ => {
                let result = unpanicked(|| self.now(method, params));
                result.and_then(|result| result).map(|result| self.outbox.answer(&id, result))
            }
        };
        if let Err((code, message)) = answered {
            self.outbox.fail(&id, code, &message);
        }
    }

    /// Answers a request that needs only the text.
    fn now(&self, method: &str, params: Value) -> Result<Value, Refusal> {
        Ok(match method {
            "textDocument/documentSymbol" => json!(outline::symbols(&*self.plan(params)?)),
            "textDocument/foldingRange" => json!(outline::folds(&*self.plan(params)?)),
            "textDocument/codeAction" => {
                let InRange { text_document, range, context } = read(params)?;
                let document = self.document(&text_document.uri)?;
                if !document.is_plan() {
                    return Ok(json!([]));
                }
                json!(actions::find(&document, range, &self.found(&document), context.only.as_deref()))
            }
            "textDocument/prepareRename" => {
                let AtPosition { text_document, position, .. } = read(params)?;
                let document = self.document(&text_document.uri)?;
                rename::prepare(&document, document.offset(position)).unwrap_or_default()
            }
            "textDocument/rename" => {
                let AtPosition { text_document, position, new_name } = read(params)?;
                let document = self.document(&text_document.uri)?;
                let edits = rename::edits(&document, document.offset(position), &new_name);
                edits.map_err(|why| (ErrorCode::RequestFailed, why))?
            }
            "workspace/executeCommand" => {
                self.execute(read(params)?)?;
                Value::Null
            }
            _ => return Err((ErrorCode::MethodNotFound, format!("provost has no method {method}"))),
        })
    }

    fn execute(&self, call: CommandCall) -> Result<(), Refusal> {
        let invalid = |why: &str| (ErrorCode::InvalidParams, format!("{}: {why}", call.command));
        let uri =
            call.arguments.first().and_then(Value::as_str).ok_or_else(|| invalid("names no document"))?;
        let document = self.document(uri)?;
        match call.command.as_str() {
            lenses::TRY => {
                let step =
                    call.arguments.get(1).and_then(Value::as_u64).and_then(|step| u32::try_from(step).ok());
                let step = step.ok_or_else(|| invalid("names no step"))?;
                let started = self.trials.start(&self.surroundings, &self.outbox, &document, step);
                started.map_err(|why| (ErrorCode::RequestFailed, why))
            }
            lenses::APPROVE => {
                let command =
                    lenses::approval(&document).ok_or_else(|| invalid("the plan is no file yet"))?;
                let message = format!("a person approves a plan in a terminal: {command}");
                self.outbox.show(Kind::Info, &message);
                Ok(())
            }
            _ => Err(invalid("provost has no such command")),
        }
    }

    /// Has the second thread answer a request about a place.
    fn look(
        &self,
        id: &Value,
        params: Value,
        answer: impl FnOnce(&About, usize) -> Value + Send + 'static,
    ) -> Result<(), Refusal> {
        let AtPosition { text_document, position, .. } = read(params)?;
        let about = self.about(&text_document.uri)?;
        self.later(id, move || match about.document.is_plan() {
            true => answer(&about, about.document.offset(position)),
            false => Value::Null,
        });
        Ok(())
    }

    fn lenses(&self, id: &Value, params: Value) -> Result<(), Refusal> {
        let about = self.about(&read::<AboutDocument>(params)?.text_document.uri)?;
        self.later(id, move || match about.document.is_plan() {
            true => json!(lenses::find(&about.document, about.surroundings.run(&about.document).as_ref())),
            false => json!([]),
        });
        Ok(())
    }

    fn later(&self, id: &Value, answer: impl FnOnce() -> Value + Send + 'static) {
        let (outbox, id) = (self.outbox.clone(), id.clone());
        let job = move || match unpanicked(answer) {
            Ok(result) => outbox.answer(&id, result),
            Err((code, message)) => outbox.fail(&id, code, &message),
        };
        // The thread ends with the server.
        let _ = self.reader.send(Box::new(job));
    }

    fn about(&self, uri: &str) -> Result<About, Refusal> {
        let document = self.document(uri)?;
        Ok(About { found: self.found(&document), document, surroundings: self.surroundings.clone() })
    }

    /// Returns the diagnostics of a text. Until it is verified, those of the parser.
    fn found(&self, document: &Arc<Document>) -> Found {
        let found = self.verifier.found(document);
        found.unwrap_or_else(|| Arc::new(parse::plan(&document.text).diagnostics))
    }

    fn plan(&self, params: Value) -> Result<Arc<Document>, Refusal> {
        let document = self.document(&read::<AboutDocument>(params)?.text_document.uri)?;
        let empty = || Arc::new(Document::new(document.uri.clone(), document.version, String::new()));
        Ok(if document.is_plan() { document } else { empty() })
    }

    fn document(&self, uri: &str) -> Result<Arc<Document>, Refusal> {
        let found = self.documents.get(uri).cloned();
        found.ok_or_else(|| (ErrorCode::InvalidParams, format!("the document {uri} is not open")))
    }

    fn keep(&mut self, document: Document) {
        let document = Arc::new(document);
        self.verifier.verify(&document);
        self.documents.insert(document.uri.clone(), document);
    }
}

/// A document with what is known about it, for the second thread.
struct About {
    document: Arc<Document>,
    found: Found,
    surroundings: Surroundings,
}

/// Answers a mistake of provost itself with an error, so that it costs one answer and not the server.
fn unpanicked<T>(answer: impl FnOnce() -> T) -> Result<T, Refusal> {
    let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(answer));
    answered.map_err(|_| (ErrorCode::Internal, "provost failed; its standard error says where".to_owned()))
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Refusal> {
    serde_json::from_value(params).map_err(|error| (ErrorCode::InvalidParams, error.to_string()))
}

/// Returns the folders that the client has open.
fn roots(params: &Value) -> Vec<PathBuf> {
    let folders = params["workspaceFolders"].as_array().into_iter().flatten();
    let folders = folders.filter_map(|folder| folder["uri"].as_str()).chain(params["rootUri"].as_str());
    folders.filter_map(path_of).collect()
}
