//! Measures what the built-in agent's loop adds to a turn of its model, with a conversation of 100k tokens,
//! and how soon the model's text is reported.
//!
//! The model is a socket that reads a request and always answers with the same bytes. The floor is the
//! crate with the wire formats alone: it takes a whole request each turn, copies it into JSON and writes
//! that, and cannot reuse what was written before.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ContentPart, MessageContent, Tool, ToolCall, ToolResponse,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use provost_agent::agent::{Agent, Settings, Stop};
use provost_agent::call_log::CallLog;
use provost_agent::event::AgentEvent;
use provost_agent::plan_state::PlanHolder;
use provost_agent::provider::api::{Api, Dialect, Key};
use provost_agent::tool::files::Workspace;
use provost_agent::tool::{Catalogue, Spec};
use provost_agent::transcript::{Call, Message, ToolResult, Transcript};
use serde_json::json;

use crate::Asked;
use crate::measure::{interleaved, quantile, time};
use crate::table::{Kind, Row, Table};

const TURNS: u32 = 20;
/// 3.5 bytes per token.
const CONVERSATION: usize = 350_000;

/// Returns a call of a tool that costs nothing.
fn answer() -> String {
    let frames = [
        json!({ "type": "message_start", "message": { "usage": { "input_tokens": 100_000, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Let me see." } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "content_block_start", "index": 1,
                "content_block": { "type": "tool_use", "id": "t", "name": "plan_show", "input": {} } }),
        json!({ "type": "content_block_stop", "index": 1 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 9 } }),
        json!({ "type": "message_stop" }),
    ];
    let frame = |frame: &serde_json::Value| {
        format!("event: {}\ndata: {frame}\n\n", frame["type"].as_str().unwrap_or(""))
    };
    frames.iter().map(frame).collect()
}

/// A model with one answer, which records when it gave it.
struct Socket {
    address: SocketAddr,
    said: Arc<Mutex<Option<Instant>>>,
}

impl Socket {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let said = Arc::new(Mutex::new(None));
        let of_thread = said.clone();
        std::thread::spawn(move || {
            for wire in listener.incoming().flatten() {
                let said = of_thread.clone();
                std::thread::spawn(move || serve(wire, &said));
            }
        });
        Self { address, said }
    }
}

fn serve(wire: TcpStream, said: &Mutex<Option<Instant>>) -> Option<()> {
    let mut reader = BufReader::with_capacity(1 << 16, wire.try_clone().ok()?);
    let body = answer();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let whole = head + &body;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            (reader.read_line(&mut line).ok()? > 0).then_some(())?;
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink()).ok()?;
        *said.lock().ok()? = Some(Instant::now());
        (&wire).write_all(whole.as_bytes()).ok()?;
    }
}

/// Returns turns that each read this many lines of a file, until the conversation is long enough.
fn conversation(lines: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Message::User("Find out why the build is slow.".to_owned()));
    let output =
        "    1  fn main() { println!(\"a line of \\\"code\\\" as there are many\"); }\n".repeat(lines);
    for call in 1.. {
        if transcript.size() >= CONVERSATION {
            break;
        }
        let id = format!("toolu_{call}");
        let asked = Call {
            id: id.clone(),
            tool: "read_file".to_owned(),
            arguments: json!({ "path": "src/main.rs" }),
        };
        let text = "I look at the file.".to_owned();
        transcript.push(Message::Assistant { text, calls: vec![asked], replay: None });
        let text = format!("call:{call} ok\n{output}");
        transcript.push(Message::Results(vec![ToolResult {
            id,
            call,
            tool: "read_file".to_owned(),
            text,
            failed: false,
        }]));
    }
    transcript
}

/// Returns the same conversation with the same tools, in the types of the crate that sends it.
fn request(transcript: &Transcript, tools: &[Spec], system: &str) -> ChatRequest {
    let messages = transcript.messages().iter().map(|message| match message {
        Message::User(text) => ChatMessage::user(text.as_str()),
        Message::Assistant { text, calls, .. } => {
            let call = |call: &Call| {
                ContentPart::ToolCall(ToolCall {
                    call_id: call.id.clone(),
                    fn_name: call.tool.clone(),
                    fn_arguments: call.arguments.clone(),
                    thought_signatures: None,
                })
            };
            let parts = std::iter::once(ContentPart::Text(text.clone())).chain(calls.iter().map(call));
            ChatMessage::assistant(MessageContent::from_parts(parts.collect::<Vec<_>>()))
        }
        Message::Images(_) => ChatMessage::user("an image"),
        Message::Results(results) => {
            let result = |result: &ToolResult| ToolResponse::new(result.id.as_str(), result.text.as_str());
            ChatMessage::from(results.iter().map(result).collect::<Vec<ToolResponse>>())
        }
    });
    let tool = |spec: &Spec| {
        Tool::new(spec.name.as_str())
            .with_description(spec.description.as_str())
            .with_schema(spec.schema.clone())
    };
    ChatRequest::new(messages.collect()).with_system(system).with_tools(tools.iter().map(tool))
}

/// Sends as many requests as the loop, without the loop.
async fn bare(client: &Client, address: SocketAddr, request: &ChatRequest) {
    let options = ChatOptions::default().with_capture_content(true).with_capture_tool_calls(true);
    for _ in 0..TURNS {
        let target = ServiceTarget {
            endpoint: Endpoint::from_owned(format!("http://{address}/v1/")),
            auth: AuthData::Key(String::new()),
            model: ModelIden::new(AdapterKind::Anthropic, "bench"),
        };
        let answer = client.exec_chat_stream(target, request.clone(), Some(&options)).await;
        let mut pieces = answer.expect("an answer").stream;
        while let Some(piece) = pieces.next().await {
            piece.expect("a piece");
        }
    }
}

pub(crate) fn measure(_: &Asked, table: &mut Table) {
    let socket = Socket::open();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let base_url = format!("http://{}", socket.address);
    let provider = Api::new(Dialect::Anthropic, "bench", Some(&base_url), Key::none()).expect("a provider");
    let folder = crate::measure::folder("agent");
    let workspace = Workspace::new(&folder).expect("a workspace");
    let (holder, ledger) = (PlanHolder::default(), CallLog::default());
    let settings = Settings { max_turns: TURNS, context_tokens: 200_000, ..Settings::default() };
    let catalogue = Catalogue::standard(&workspace, &ledger).with_plan(&holder, &ledger);
    let agent = Agent { provider: &provider, catalogue, holder, ledger, settings };
    let client = Client::new().expect("a client");
    let mut delays = Vec::new();
    // As many lines as a page of a file has, and so few that each message costs more than its content.
    for (lines, what) in
        [(100, "agent: a turn with 100k tokens, less the wire"), (24, "agent: the same in 200 small turns")]
    {
        let transcript = conversation(lines);
        let mut turns = || {
            let said = socket.said.clone();
            let mut tell = |event: AgentEvent| {
                if let (AgentEvent::Text(_), Ok(said)) = (event, said.lock()) {
                    delays.push(said.map_or(Duration::ZERO, |at| at.elapsed()).as_secs_f64());
                }
            };
            let run = runtime.block_on(agent.go_on(transcript.clone(), &Stop::default(), &mut tell));
            assert_eq!(run.turns, TURNS, "{:?}", run.outcome);
        };
        let request = request(&transcript, &agent.catalogue.specs(), &agent.settings.system);
        let mut floor = || runtime.block_on(bare(&client, socket.address, &request));
        let mut again = || runtime.block_on(bare(&client, socket.address, &request));
        let [subject, floor, again] = interleaved(15, [&mut turns, &mut floor, &mut again]);
        table.guard("the wire alone against itself", again.cpu_over(&floor));
        let each = f64::from(TURNS);
        table.row(Row {
            what,
            subject: time(subject.cpu_median() / each),
            floor: time(floor.cpu_median() / each),
            figure: (subject.cpu_median() - floor.cpu_median()) / each * 1000.0,
            unit: " ms",
            goal: 2.0,
            kind: Kind::Cpu,
        });
    }
    table.row(Row {
        what: "agent: first word, from its sending to its telling",
        subject: time(quantile(&delays, 0.5)),
        floor: String::new(),
        figure: quantile(&delays, 0.95) * 1000.0,
        unit: " ms",
        goal: 5.0,
        kind: Kind::Wall,
    });
}
