//! The metered APIs: variables of their clients, requests that may pass, and the format of rejections.

use serde_json::{Value, json};

use super::key::MeterKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeteredApi {
    Anthropic,
    OpenAi,
    Gemini,
    /// A server that speaks the OpenAI API.
    Chat,
}

/// A request that may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedRequest {
    /// A model call; the answer reports its usage in this form.
    Answer(Form),
    /// A free request: the list of models, or the token count of a text.
    Aside,
}

/// The format in which an answer reports its usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Messages,
    Responses,
    Completions,
    Gemini,
}

/// A rejection that the meter itself sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct No {
    pub status: u16,
    pub why: String,
    /// A retry would be rejected in the same way.
    pub is_final: bool,
}

impl No {
    pub(super) fn now(status: u16, why: impl Into<String>) -> Self {
        Self { status, why: why.into(), is_final: true }
    }

    pub(super) fn perhaps_later(status: u16, why: impl Into<String>) -> Self {
        Self { is_final: false, ..Self::now(status, why) }
    }
}

impl MeteredApi {
    pub const ALL: [MeteredApi; 4] =
        [MeteredApi::Anthropic, MeteredApi::OpenAi, MeteredApi::Gemini, MeteredApi::Chat];

    /// Returns the word in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            MeteredApi::Anthropic => "anthropic",
            MeteredApi::OpenAi => "openai",
            MeteredApi::Gemini => "gemini",
            MeteredApi::Chat => "chat",
        }
    }

    /// Returns the provider's address; a server of the user's own has to be configured.
    pub fn usual_upstream(self) -> Option<&'static str> {
        match self {
            MeteredApi::Anthropic => Some("https://api.anthropic.com"),
            MeteredApi::OpenAi => Some("https://api.openai.com/v1"),
            MeteredApi::Gemini => Some("https://generativelanguage.googleapis.com"),
            MeteredApi::Chat => None,
        }
    }

    /// Returns the variable in which its clients look for their key.
    pub fn usual_key(self) -> Option<&'static str> {
        match self {
            MeteredApi::Anthropic => Some("ANTHROPIC_API_KEY"),
            MeteredApi::OpenAi => Some("OPENAI_API_KEY"),
            MeteredApi::Gemini => Some("GEMINI_API_KEY"),
            MeteredApi::Chat => None,
        }
    }

    /// Returns the path that the clients of this API expect in the base URL.
    pub(super) fn base_path(self) -> &'static str {
        match self {
            MeteredApi::Anthropic | MeteredApi::Gemini => "",
            MeteredApi::OpenAi | MeteredApi::Chat => "/v1",
        }
    }

    /// Returns the variables that give its clients the address and the token.
    pub(super) fn variables(self, base_url: &str, token: &str) -> Vec<(&'static str, String)> {
        let (urls, key): (&[&str], _) = match self {
            MeteredApi::Anthropic => (&["ANTHROPIC_BASE_URL"], "ANTHROPIC_API_KEY"),
            MeteredApi::OpenAi | MeteredApi::Chat => {
                (&["OPENAI_BASE_URL", "OPENAI_API_BASE"], "OPENAI_API_KEY")
            }
            MeteredApi::Gemini => (&["GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"], "GEMINI_API_KEY"),
        };
        // provost's own agent reads these, whatever its API.
        let urls = urls.iter().chain(&["MODEL_BASE_URL"]).map(|name| (*name, base_url.to_owned()));
        urls.chain([key, "MODEL_API_KEY"].map(|name| (name, token.to_owned()))).collect()
    }

    /// Returns variables of other logins, which its clients would prefer to the token.
    pub(super) fn hides(self) -> &'static [&'static str] {
        match self {
            MeteredApi::Anthropic => &["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
            MeteredApi::OpenAi | MeteredApi::Chat => &["CODEX_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"],
            MeteredApi::Gemini => &["GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"],
        }
    }

    /// Returns the header with the key, for the upstream.
    pub(super) fn login(self, key: &MeterKey) -> (&'static str, String) {
        match self {
            MeteredApi::Anthropic if !key.is_bearer() => ("x-api-key", key.expose().to_owned()),
            MeteredApi::Gemini => ("x-goog-api-key", key.expose().to_owned()),
            MeteredApi::Anthropic | MeteredApi::OpenAi | MeteredApi::Chat => {
                ("authorization", format!("Bearer {}", key.expose()))
            }
        }
    }

    /// Returns whether and how a request may pass. Everything else is rejected: a key gives access to more
    /// than models, and some of that would not be counted. `path` is without its query and without the
    /// base.
    pub(super) fn asked(self, method: &str, path: &str) -> Option<AllowedRequest> {
        match (self, method) {
            (MeteredApi::Anthropic, "POST") => match path {
                "/v1/messages" => Some(AllowedRequest::Answer(Form::Messages)),
                "/v1/messages/count_tokens" => Some(AllowedRequest::Aside),
                _ => None,
            },
            (MeteredApi::OpenAi | MeteredApi::Chat, "POST") => match path {
                "/responses" | "/responses/compact" => Some(AllowedRequest::Answer(Form::Responses)),
                "/chat/completions" | "/completions" | "/embeddings" => {
                    Some(AllowedRequest::Answer(Form::Completions))
                }
                "/responses/input_tokens" => Some(AllowedRequest::Aside),
                _ => None,
            },
            (MeteredApi::Gemini, "POST") => {
                let (name, verb) = path.strip_prefix('/')?.split_once('/')?.1.rsplit_once(':')?;
                let is_model = ["models/", "tunedModels/"]
                    .iter()
                    .any(|kind| name.strip_prefix(kind).is_some_and(is_name));
                match verb {
                    _ if !is_model => None,
                    "generateContent" | "streamGenerateContent" => Some(AllowedRequest::Answer(Form::Gemini)),
                    "countTokens" => Some(AllowedRequest::Aside),
                    _ => None,
                }
            }
            (_, "GET") => {
                let versionless = match self {
                    MeteredApi::OpenAi | MeteredApi::Chat => path,
                    MeteredApi::Anthropic | MeteredApi::Gemini => &path[path.get(1..)?.find('/')? + 1..],
                };
                let name = versionless.strip_prefix("/models")?;
                let is_model = name.is_empty() || name.strip_prefix('/').is_some_and(is_name);
                is_model.then_some(AllowedRequest::Aside)
            }
            // A client tests the connection.
            (_, "HEAD") => (path == "/" || path.is_empty()).then_some(AllowedRequest::Aside),
            _ => None,
        }
    }

    /// Returns the rejection in the format of this API, so that its clients show the message.
    pub(super) fn refusal(self, no: &No) -> Value {
        let message = format!("provost: {}", no.why);
        match self {
            MeteredApi::Anthropic => {
                let kind = match no.status {
                    401 => "authentication_error",
                    402 => "billing_error",
                    403 => "permission_error",
                    413 => "request_too_large",
                    400..=499 => "invalid_request_error",
                    _ => "api_error",
                };
                json!({ "type": "error", "error": { "type": kind, "message": message } })
            }
            MeteredApi::OpenAi | MeteredApi::Chat => {
                let (kind, code) = match no.status {
                    401 => ("invalid_request_error", Some("invalid_api_key")),
                    402 => ("budget_exceeded", Some("budget_exceeded")),
                    400..=499 => ("invalid_request_error", None),
                    _ => ("server_error", None),
                };
                json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
            }
            MeteredApi::Gemini => {
                let status = match no.status {
                    401 => "UNAUTHENTICATED",
                    402 => "FAILED_PRECONDITION",
                    403 => "PERMISSION_DENIED",
                    400..=499 => "INVALID_ARGUMENT",
                    _ => "UNAVAILABLE",
                };
                json!({ "error": { "code": no.status, "message": message, "status": status } })
            }
        }
    }
}

/// Returns whether the text is a single path segment that cannot lead elsewhere.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':' | b'@');
    !text.is_empty() && !text.contains("..") && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::{AllowedRequest, Form, MeteredApi};

    #[test]
    fn what_a_model_answers_passes_and_the_rest_of_the_account_is_closed() {
        let asked = |api: MeteredApi, line: &str| {
            let (method, path) = line.split_once(' ').expect("a line");
            api.asked(method, path)
        };
        for (api, line, form) in [
            (MeteredApi::Anthropic, "POST /v1/messages", Form::Messages),
            (MeteredApi::OpenAi, "POST /responses", Form::Responses),
            (MeteredApi::OpenAi, "POST /chat/completions", Form::Completions),
            (MeteredApi::Gemini, "POST /v1beta/models/gemini-2.5-pro:generateContent", Form::Gemini),
            (MeteredApi::Gemini, "POST /v1alpha/models/g:streamGenerateContent", Form::Gemini),
        ] {
            assert_eq!(asked(api, line), Some(AllowedRequest::Answer(form)), "{line}");
        }
        for (api, line) in [
            (MeteredApi::Anthropic, "GET /v1/models"),
            (MeteredApi::Anthropic, "GET /v1/models/claude-sonnet-4-5"),
            (MeteredApi::Anthropic, "POST /v1/messages/count_tokens"),
            (MeteredApi::Anthropic, "HEAD /"),
            (MeteredApi::OpenAi, "GET /models"),
            (MeteredApi::Gemini, "GET /v1beta/models"),
            (MeteredApi::Gemini, "POST /v1beta/models/g:countTokens"),
        ] {
            assert_eq!(asked(api, line), Some(AllowedRequest::Aside), "{line}");
        }
        for (api, line) in [
            (MeteredApi::Anthropic, "POST /v1/messages/batches"),
            (MeteredApi::Anthropic, "GET /v1/files"),
            (MeteredApi::Anthropic, "GET /v1/models/../files"),
            (MeteredApi::Anthropic, "GET /v1/models/%2e%2e"),
            (MeteredApi::Anthropic, "DELETE /v1/messages"),
            (MeteredApi::OpenAi, "GET /responses/resp_1"),
            (MeteredApi::OpenAi, "POST /batches"),
            (MeteredApi::OpenAi, "POST /fine_tuning/jobs"),
            (MeteredApi::OpenAi, "GET /models/a/b"),
            (MeteredApi::Gemini, "POST /v1beta/models/g:batchGenerateContent"),
            (MeteredApi::Gemini, "POST /v1beta/files/g:generateContent"),
            (MeteredApi::Gemini, "GET "),
        ] {
            assert_eq!(asked(api, line), None, "{line}");
        }
    }
}
