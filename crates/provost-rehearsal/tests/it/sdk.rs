//! Checks the mock APIs with the providers' own clients. Only in the full suite, because the clients come
//! from a registry.

use std::path::Path;
use std::process::Command;

use provost_rehearsal::skip;
use provost_rehearsal::{Fault, Model, Turn};
use serde_json::json;

const TELL: &str = r#"
import sys, json, anthropic, openai
base = sys.argv[1]
told = {}
a = anthropic.Anthropic(base_url=base, api_key="k", max_retries=0)
ask = dict(model="claude-sonnet-4-5", max_tokens=100, messages=[{"role": "user", "content": "go"}],
           tools=[{"name": "shell", "input_schema": {"type": "object"}}])
m = a.messages.create(**ask)
told["messages"] = [m.content[0].text, m.content[1].input, m.usage.cache_read_input_tokens, m.stop_reason]
with a.messages.stream(**ask) as s:
    m = s.get_final_message()
told["messages streamed"] = [m.content[0].text, m.content[1].input, m.usage.cache_read_input_tokens, m.stop_reason]
o = openai.OpenAI(base_url=base + "/v1", api_key="k", max_retries=0)
r = o.responses.create(model="gpt-5", input="go")
told["responses"] = [r.output_text, json.loads(r.output[1].arguments), r.usage.input_tokens_details.cached_tokens]
with o.responses.stream(model="gpt-5", input="go") as s:
    r = s.get_final_response()
told["responses streamed"] = [r.output_text, json.loads(r.output[1].arguments), r.usage.input_tokens_details.cached_tokens]
ask = dict(model="gpt-5", messages=[{"role": "user", "content": "go"}])
c = o.chat.completions.create(**ask)
told["chat"] = [c.choices[0].message.content, json.loads(c.choices[0].message.tool_calls[0].function.arguments), c.usage.total_tokens]
with o.chat.completions.stream(**ask, stream_options={"include_usage": True}) as s:
    c = s.get_final_completion()
told["chat streamed"] = [c.choices[0].message.content, json.loads(c.choices[0].message.tool_calls[0].function.arguments), c.usage.total_tokens]
for name, client, kind in (("anthropic", a.messages, anthropic.RateLimitError), ("openai", o.chat.completions, openai.RateLimitError)):
    try:
        client.create(**dict(ask, max_tokens=1, messages=[{"role": "user", "content": "too often"}]))
    except kind as error:
        told[name + " refused"] = [error.status_code, error.response.headers["retry-after"]]
try:
    a.messages.create(**dict(ask, max_tokens=1, messages=[{"role": "user", "content": "too long"}]))
except anthropic.BadRequestError as error:
    told["too long"] = error.body["error"]["message"]
json.dump(told, sys.stdout)
"#;

/// Installs the SDKs, or returns why this is not possible.
fn packages(folder: &Path) -> Result<(), String> {
    if std::env::var_os("PROVOST_FULL").is_none() {
        return Err("only in the full suite (PROVOST_FULL=1)".to_owned());
    }
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"];
    let output = Command::new("python3").args(install).arg(folder).args(["anthropic", "openai"]).output();
    let output = output.map_err(|error| format!("python3: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("pip failed").to_owned())
        }
    }
}

#[test]
fn the_official_clients_understand_every_word() {
    let folder = tempfile::tempdir().unwrap();
    if let Err(why) = packages(folder.path()) {
        return match std::env::var_os("PROVOST_FULL") {
            None => skip::full("the official SDKs"),
            Some(_) => skip::tool("the Python packages anthropic and openai", &why),
        };
    }
    let turn =
        Turn::text("I look.").and_call("shell", json!({ "command": "ls" })).using(1000, 50).cached(600, 0);
    let model = Model::script([])
        .when("too often", Turn::status(429).with_header("retry-after", "7"))
        .when("too long", Turn::fault(Fault::TooLong))
        .after(turn)
        .serve()
        .unwrap();
    let output = Command::new("python3")
        .args(["-c", TELL, &model.url()])
        .env("PYTHONPATH", folder.path())
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let input = json!({ "command": "ls" });
    for name in ["messages", "messages streamed"] {
        assert_eq!(told[name], json!(["I look.", input, 600, "tool_use"]), "{name}");
    }
    for name in ["responses", "responses streamed"] {
        assert_eq!(told[name], json!(["I look.", input, 600]), "{name}");
    }
    for name in ["chat", "chat streamed"] {
        assert_eq!(told[name], json!(["I look.", input, 1050]), "{name}");
    }
    for name in ["anthropic refused", "openai refused"] {
        assert_eq!(told[name], json!([429, "7"]), "{name}");
    }
    assert!(told["too long"].as_str().unwrap().contains("prompt is too long"));
}
