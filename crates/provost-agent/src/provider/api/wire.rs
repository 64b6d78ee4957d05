//! Converts requests and answers to and from the types of `genai`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use genai::chat::{
    Binary, CacheControl, ChatMessage, ChatRequest, ContentPart, MessageContent, Tool, ToolCall, ToolResponse,
};
use provost_core::model::usage::Usage;
use serde_json::{Value, json};

use super::Dialect;
use crate::provider::Ask;
use crate::tool::Spec;
use crate::transcript::{Call, Message, Replay, ToolResult};

pub(super) fn request(ask: &Ask<'_>, dialect: Dialect) -> ChatRequest {
    let mut messages: Vec<ChatMessage> = ask.messages.iter().map(message).collect();
    let tools = ask.tools.iter().map(|spec| tool(spec, dialect));
    if dialect != Dialect::Anthropic {
        return ChatRequest::new(messages).with_system(ask.system).with_tools(tools);
    }
    // Lets Anthropic cache everything up to here for the next turn; other APIs do so without an option. The
    // end of the request before is marked too, because a cache is looked for in the last 20 parts only.
    for back in [1, 3] {
        let marked = messages.len().checked_sub(back).and_then(|at| messages.get_mut(at));
        if let Some(marked) = marked {
            marked.options = Some(CacheControl::Ephemeral.into());
        }
    }
    // The tools come before the system prompt, so this mark is for both.
    let system = ChatMessage::system(ask.system).with_options(CacheControl::Ephemeral);
    messages.insert(0, system);
    ChatRequest::new(messages).with_tools(tools)
}

/// Returns a name for everything that stays the same in a conversation.
pub(super) fn cache_key(ask: &Ask<'_>) -> String {
    let mut hasher = DefaultHasher::new();
    ask.system.hash(&mut hasher);
    if let Some(Message::User(task)) = ask.messages.first() {
        task.hash(&mut hasher);
    }
    format!("provost-{:016x}", hasher.finish())
}

fn tool(spec: &Spec, dialect: Dialect) -> Tool {
    let tool = Tool::new(spec.name.as_str())
        .with_description(spec.description.as_str())
        .with_schema(spec.schema.clone());
    match dialect {
        // By default this API requires every argument.
        Dialect::OpenAi => tool.with_strict(false),
        _ => tool,
    }
}

fn message(message: &Message) -> ChatMessage {
    match message {
        Message::User(text) => ChatMessage::user(text.as_str()),
        Message::Assistant { text, calls, replay } => {
            replay.as_ref().and_then(Replay::get::<ChatMessage>).cloned().unwrap_or_else(|| said(text, calls))
        }
        Message::Images(images) => {
            let parts = images.iter().flat_map(|image| {
                let data = Binary::from_base64(image.content_type.as_str(), image.data.clone(), None);
                [ContentPart::Text(format!("{}:", image.name)), ContentPart::Binary(data)]
            });
            ChatMessage::user(MessageContent::from_parts(parts.collect::<Vec<_>>()))
        }
        Message::Results(results) => {
            ChatMessage::from(results.iter().map(result).collect::<Vec<ToolResponse>>())
        }
    }
}

/// Returns a turn of the model that need not be replayed exactly.
fn said(text: &str, calls: &[Call]) -> ChatMessage {
    let mut parts: Vec<ContentPart> = Vec::new();
    // No provider accepts a turn without text and calls.
    if !text.is_empty() || calls.is_empty() {
        let shown = if text.trim().is_empty() { "(nothing)" } else { text };
        parts.push(ContentPart::Text(shown.to_owned()));
    }
    parts.extend(calls.iter().map(|call| {
        ContentPart::ToolCall(ToolCall {
            call_id: call.id.clone(),
            fn_name: call.tool.clone(),
            fn_arguments: object(&call.arguments),
            thought_signatures: None,
        })
    }));
    ChatMessage::assistant(MessageContent::from_parts(parts))
}

/// Returns an object, whatever the model wrote, because every provider needs one.
fn object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        other => json!({ "not_json": other }),
    }
}

fn result(result: &ToolResult) -> ToolResponse {
    ToolResponse::new(result.id.as_str(), result.text.as_str()).with_fn_name(result.tool.as_str())
}

pub(super) fn call(call: &ToolCall) -> Call {
    let arguments = match &call.fn_arguments {
        // Missing arguments are an empty object; any other text could not be parsed.
        Value::String(text) if text.trim().is_empty() => json!({}),
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| call.fn_arguments.clone()),
        Value::Null => json!({}),
        other => other.clone(),
    };
    Call { id: call.call_id.clone(), tool: call.fn_name.clone(), arguments }
}

/// Converts usage. The input count of `genai` includes cached tokens already.
pub(super) fn usage(usage: Option<&genai::chat::Usage>, model: &str) -> Usage {
    let Some(usage) = usage else { return Usage { model: Some(model.to_owned()), ..Usage::default() } };
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    let details = usage.prompt_tokens_details.as_ref();
    Usage {
        model: Some(model.to_owned()),
        input_tokens: count(usage.prompt_tokens),
        output_tokens: count(usage.completion_tokens),
        cache_read_tokens: count(details.and_then(|details| details.cached_tokens)),
        cache_write_tokens: count(details.and_then(|details| details.cache_creation_tokens)),
        ..Usage::default()
    }
}
