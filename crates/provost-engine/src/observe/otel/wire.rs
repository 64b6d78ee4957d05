//! OTLP in JSON, as far as traces need it.
//!
//! Ids are hexadecimal, enumerations are numbers, and 64-bit numbers are text: here OTLP differs from the
//! usual JSON form of protobuf.

use serde::{Serialize, Serializer};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceRequest<'a> {
    pub resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSpans<'a> {
    pub resource: OtelResource,
    pub scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Debug, Serialize)]
pub struct OtelResource {
    pub attributes: Vec<Attribute>,
}

#[derive(Debug, Serialize)]
pub struct ScopeSpans<'a> {
    pub scope: InstrumentationScope,
    pub spans: &'a [OtelSpan],
}

#[derive(Debug, Serialize)]
pub struct InstrumentationScope {
    pub name: &'static str,
    pub version: &'static str,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtelSpan {
    pub trace_id: Id<16>,
    pub span_id: Id<8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<Id<8>>,
    pub name: String,
    pub kind: u8,
    pub start_time_unix_nano: Nanoseconds,
    pub end_time_unix_nano: Nanoseconds,
    pub attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<SpanEvent>,
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_events_count: u32,
    pub status: SpanStatus,
}

/// Span kind: the work happened inside this program or a child of it.
pub(super) const INTERNAL: u8 = 1;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpanEvent {
    pub time_unix_nano: Nanoseconds,
    pub name: String,
    pub attributes: Vec<Attribute>,
}

/// Status of a span; empty while unknown.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SpanStatus {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "is_nothing")]
    pub code: u8,
}

impl SpanStatus {
    pub fn good() -> Self {
        Self { message: String::new(), code: 1 }
    }

    pub fn bad(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 2 }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Attribute {
    pub key: &'static str,
    pub value: Value,
}

#[derive(Clone, Debug, Serialize)]
pub enum Value {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "boolValue")]
    Bool(bool),
    #[serde(rename = "intValue", serialize_with = "as_text")]
    Number(i64),
    #[serde(rename = "doubleValue")]
    Fraction(f64),
    #[serde(rename = "arrayValue")]
    List { values: Vec<Value> },
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Value::Number(number.into())
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Value::Number(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Fraction(number)
    }
}

impl From<&[String]> for Value {
    fn from(texts: &[String]) -> Self {
        Value::List { values: texts.iter().cloned().map(Value::Text).collect() }
    }
}

/// First bytes of a hash, as hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id<const N: usize>(pub [u8; N]);

impl<const N: usize> Serialize for Id<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&digits)
    }
}

/// Time since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanoseconds(pub u64);

impl Serialize for Nanoseconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

fn as_text<S: Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_nothing(code: &u8) -> bool {
    *code == 0
}
