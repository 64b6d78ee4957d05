//! Tests the meter between clients and a scripted model: what it forwards, counts and refuses.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::model::usage::Usage;
use provost_host::config::{MessageFormat, WebhookConfig};
use provost_host::egress::meter::{
    Account, Limit, MeterKey, MeteredApi, NetworkSettings, Service, Source, Target,
};
use provost_host::notify::{Channel, Courier, DecisionText, Notification, SentNotifications, Webhook};
use provost_rehearsal::skip;
use provost_rehearsal::{ApiFailure, Fault, Model, Rehearsal, Script, Turn};
use serde_json::{Value, json};

const KEY: &str = "sk-real-0123456789abcdef";

/// Returns one millionth of a dollar per token, for models with a price.
fn price(model: &str, usage: &Usage) -> Option<u64> {
    (model != "unpriced").then(|| usage.tokens()).flatten()
}

fn open_at(upstream: &str, api: MeteredApi, limit: Limit, environment: &[(OsString, OsString)]) -> Account {
    let service = Service {
        api,
        target: Target::parse(upstream).expect("a target"),
        key: MeterKey::new(KEY, Some("THE_KEY")),
        limit,
        price: Arc::new(price),
    };
    Account::open(service, Arc::new(NetworkSettings::of(environment))).expect("an account")
}

fn open(model: &Rehearsal, api: MeteredApi) -> Account {
    let path = if matches!(api, MeteredApi::OpenAi | MeteredApi::Chat) { "/v1" } else { "" };
    open_at(&format!("{}{path}", model.url()), api, Limit::default(), &[])
}

/// An answer as the client receives it.
struct Answer {
    head: String,
    body: String,
    is_cut: bool,
}

impl Answer {
    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    fn of(account: &Account) -> Self {
        let stream = TcpStream::connect(account.address()).expect("the meter");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        Self { reader: BufReader::new(stream) }
    }

    fn send(&mut self, line: &str, headers: &str, body: &str) {
        let head = format!("{line} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        let _ = self.reader.get_mut().write_all(format!("{head}{body}").as_bytes());
    }

    fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && self.reader.read_line(&mut head).unwrap_or(0) > 0 {}
        head
    }

    /// Returns the next chunk as soon as it arrives; `None` at the end.
    fn chunk(&mut self) -> Option<String> {
        let mut size = String::new();
        self.reader.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes).ok()?;
        bytes.truncate(size);
        Some(String::from_utf8(bytes).expect("text"))
    }

    fn receive(&mut self) -> Answer {
        let head = self.head();
        let mut answer = Answer { head, body: String::new(), is_cut: false };
        if answer.head.contains("transfer-encoding: chunked") {
            loop {
                match self.chunk() {
                    Some(piece) if piece.is_empty() => break,
                    Some(piece) => answer.body.push_str(&piece),
                    None => {
                        answer.is_cut = true;
                        break;
                    }
                }
            }
            return answer;
        }
        let length = answer.head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let length: u64 = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        let got = self.reader.by_ref().take(length).read_to_string(&mut answer.body).unwrap_or(0);
        answer.is_cut = (got as u64) < length;
        answer
    }

    fn ask(&mut self, account: &Account, path: &str, body: &Value) -> Answer {
        let login = format!("Authorization: Bearer {}\r\n", account.token());
        self.send(&format!("POST {path}"), &login, &body.to_string());
        self.receive()
    }
}

fn ask(account: &Account, path: &str, body: &Value) -> Answer {
    Client::of(account).ask(account, path, body)
}

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/v1/chat/completions";
const GEMINI: &str = "/v1beta/models/gemini-2.5-pro:generateContent";
const GEMINI_STREAM: &str = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse";

fn question(is_stream: bool) -> Value {
    json!({
        "model": "scripted-1", "max_tokens": 9, "stream": is_stream, "input": "go", "contents": [],
        "messages": [{ "role": "user", "content": "go" }],
    })
}

fn turn() -> Turn {
    Turn::text("a text of some length, in a few pieces").using(1000, 50).cached(600, 100)
}

#[test]
fn every_dialect_is_counted_whole_and_streamed() {
    for (api, path, is_stream, written) in [
        (MeteredApi::Anthropic, MESSAGES, false, Some(100)),
        (MeteredApi::Anthropic, MESSAGES, true, Some(100)),
        (MeteredApi::OpenAi, RESPONSES, false, None),
        (MeteredApi::OpenAi, RESPONSES, true, None),
        (MeteredApi::OpenAi, CHAT, false, None),
        (MeteredApi::Chat, CHAT, true, None),
        (MeteredApi::Gemini, GEMINI, false, None),
        (MeteredApi::Gemini, GEMINI_STREAM, true, None),
        (MeteredApi::Gemini, "/v1beta/models/gemini-2.5-pro:streamGenerateContent", true, None),
    ] {
        let model = Model::script([turn(), turn()]).key(KEY).serve().expect("a model");
        let account = open(&model, api);
        let mut client = Client::of(&account);
        for _ in 0..2 {
            let answer = client.ask(&account, path, &question(is_stream));
            assert_eq!((answer.status(), answer.is_cut), (200, false), "{path}: {}", answer.body);
            assert!(answer.body.contains("pieces"), "{path}: {}", answer.body);
        }
        let bill = account.close();
        let name = if api == MeteredApi::Gemini { "gemini-2.5-pro" } else { "scripted-1" };
        let expected = Usage {
            model: Some(name.to_owned()),
            calls: Some(2),
            input_tokens: Some(2000),
            output_tokens: Some(100),
            cache_read_tokens: Some(1200),
            cache_write_tokens: written.map(|each| each * 2),
            micro_usd: Some(2100),
        };
        assert_eq!((bill.usage, bill.notes), (expected, Vec::new()), "{path} {is_stream}");
    }
}

#[test]
fn the_token_is_taken_off_and_the_key_put_on() {
    let model = Model::script([]).after(Turn::text("in")).key(KEY).serve().expect("a model");
    let account = open(&model, MeteredApi::Gemini);
    let token = account.token().to_owned();
    let body = question(false).to_string();
    for (path, login) in [
        (GEMINI.to_owned(), format!("x-goog-api-key: {token}\r\n")),
        (GEMINI.to_owned(), format!("x-api-key: {token}\r\n")),
        (GEMINI.to_owned(), format!("Authorization: Bearer {token}\r\n")),
        (format!("{GEMINI}?key={token}&x=1"), String::new()),
    ] {
        let mut client = Client::of(&account);
        client.send(&format!("POST {path}"), &format!("{login}Cookie: a=b\r\nX-Other: kept\r\n"), &body);
        assert_eq!(client.receive().status(), 200, "{path} {login}");
    }
    for seen in model.requests() {
        assert_eq!((seen.key.as_deref(), seen.header("x-other")), (Some(KEY), Some("kept")));
        let all = format!("{} {:?}", seen.path, seen.headers);
        assert!(!all.contains(&token) && !all.contains("cookie"), "{all}");
    }
    assert_eq!(model.requests()[3].path, format!("{GEMINI}?x=1"));
}

#[test]
fn whoever_has_no_token_is_refused_and_the_model_sees_nothing() {
    let model = Model::script([]).after(Turn::text("in")).serve().expect("a model");
    let (account, other) = (open(&model, MeteredApi::Anthropic), open(&model, MeteredApi::Anthropic));
    for login in [
        String::new(),
        "x-api-key: sk-provost-0\r\n".to_owned(),
        format!("x-api-key: {KEY}\r\n"),
        format!("x-api-key: {}\r\n", other.token()),
    ] {
        let mut client = Client::of(&account);
        client.send("POST /v1/messages", &login, &"x".repeat(1 << 20));
        let answer = client.receive();
        assert_eq!((answer.status(), &answer.json()["error"]["type"]), (401, &json!("authentication_error")));
        assert!(answer.head.contains("x-should-retry: false"));
    }
    assert_eq!(model.requests().len(), 0);
    assert_eq!(account.close().usage.calls, Some(0));
}

#[test]
fn the_rest_of_the_account_is_closed() {
    let model = Model::script([]).serve().expect("a model");
    let account = open(&model, MeteredApi::OpenAi);
    for line in
        ["POST /v1/batches", "GET /v1/files", "GET /v1/responses/resp_1", "DELETE /v1/models/x", "POST /v2/x"]
    {
        let mut client = Client::of(&account);
        client.send(line, &format!("authorization: Bearer {}\r\n", account.token()), "{}");
        let answer = client.receive();
        assert_eq!(answer.status(), 403, "{line}: {}", answer.body);
        assert!(answer.body.contains("the meter blocks"), "{}", answer.body);
    }
    let background = json!({ "model": "m", "input": "go", "background": true });
    assert_eq!(ask(&account, RESPONSES, &background).status(), 400);
    assert_eq!(
        ask(&account, RESPONSES, &json!("{")).status(),
        200,
        "what the model makes of it is its business"
    );
    let mut client = Client::of(&account);
    client.send("GET /v1/models", &format!("authorization: Bearer {}\r\n", account.token()), "");
    assert_eq!(client.receive().json()["object"], "list");
}

#[test]
fn the_first_bytes_pass_before_the_model_has_ended() {
    let model = Model::script([turn().held()]).serve().expect("a model");
    let account = open(&model, MeteredApi::Anthropic);
    let mut client = Client::of(&account);
    let login = format!("x-api-key: {}\r\n", account.token());
    client.send("POST /v1/messages", &login, &question(true).to_string());
    assert!(client.head().contains("text/event-stream"));
    // The model waits in the middle of its answer; the first part must already have arrived.
    let mut said = String::new();
    while !said.contains("content_block_delta") {
        said.push_str(&client.chunk().expect("a piece"));
    }
    assert_eq!(account.usage().input_tokens, Some(0), "it is counted when it is over");
    model.release();
    while let Some(piece) = client.chunk().filter(|piece| !piece.is_empty()) {
        said.push_str(&piece);
    }
    assert!(said.contains("message_stop"), "{said}");
    assert_eq!(account.close().usage.tokens(), Some(1050));
}

#[test]
fn a_budget_stops_the_next_call_in_the_clients_own_words() {
    for (api, path, pointer, kind) in [
        (MeteredApi::Anthropic, MESSAGES, "/error/type", "billing_error"),
        (MeteredApi::OpenAi, RESPONSES, "/error/code", "budget_exceeded"),
        (MeteredApi::Gemini, GEMINI, "/error/status", "FAILED_PRECONDITION"),
    ] {
        let model = Model::script([]).after(turn()).serve().expect("a model");
        let base = if api == MeteredApi::OpenAi { format!("{}/v1", model.url()) } else { model.url() };
        let account = open_at(&base, api, Limit { tokens: Some(2000), micro_usd: None }, &[]);
        let statuses: Vec<u16> = (0..4).map(|_| ask(&account, path, &question(false)).status()).collect();
        // The second call exceeded the limit, but it started below it.
        assert_eq!(statuses, [200, 200, 402, 402]);
        let refused = ask(&account, path, &question(true));
        assert_eq!(refused.json().pointer(pointer), Some(&json!(kind)));
        assert!(refused.body.contains("the budget is used up: 2100 of 2000 tokens"), "{}", refused.body);
        assert!(refused.head.contains("x-should-retry: false"), "{}", refused.head);
        assert_eq!(model.requests().len(), 2, "the model is not asked any more");
        let bill = account.close();
        assert_eq!((bill.usage.calls, bill.usage.tokens()), (Some(2), Some(2100)));
        assert_eq!(
            bill.notes,
            ["provost blocked further calls to the model: the budget is used up: 2100 of 2000 tokens"]
        );
    }
}

#[test]
fn a_budget_in_dollars_takes_a_price() {
    let model = Model::script([]).after(turn()).serve().expect("a model");
    let limit = Limit { tokens: None, micro_usd: Some(1000) };
    let account = open_at(&model.url(), MeteredApi::Anthropic, limit, &[]);
    let mut unpriced = question(false);
    unpriced["model"] = json!("unpriced");
    let refused = ask(&account, MESSAGES, &unpriced);
    assert_eq!(refused.status(), 402);
    assert!(refused.body.contains(r#"the price of \"unpriced\" is not known"#), "{}", refused.body);
    assert_eq!(ask(&account, MESSAGES, &question(false)).status(), 200);
    assert!(ask(&account, MESSAGES, &question(false)).body.contains("$0.0010 of $0.0010"));
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn errors_of_the_provider_pass_as_they_are_and_cost_nothing() {
    let failure = ApiFailure { status: 418, body: Some("<b>odd</b>".to_owned()), ..ApiFailure::default() };
    let late = Turn::status(429).with_header("retry-after", "7").with_header("x-ratelimit-reset", "1s");
    let model = Model::script([late, Turn::fault(Fault::Status(failure)), Turn::fault(Fault::TooLong)]);
    let model = model.serve().expect("a model");
    let account = open(&model, MeteredApi::Anthropic);
    let answer = ask(&account, MESSAGES, &question(true));
    assert_eq!((answer.status(), &answer.json()["error"]["type"]), (429, &json!("rate_limit_error")));
    assert!(answer.head.contains("retry-after: 7") && answer.head.contains("x-ratelimit-reset: 1s"));
    assert_eq!(ask(&account, MESSAGES, &question(true)).body, "<b>odd</b>");
    assert!(ask(&account, MESSAGES, &question(false)).body.contains("prompt is too long"));
    let usage = account.close().usage;
    assert_eq!((usage.calls, usage.tokens(), usage.micro_usd), (Some(3), Some(0), Some(0)));
}

#[test]
fn what_was_cut_is_cut_for_the_client_too_and_unknown_in_the_count() {
    let model = Model::script([
        turn(),
        turn().failing(Fault::Cut),
        Turn::fault(Fault::HangUp),
        turn().failing(Fault::Garbage),
    ]);
    let model = model.serve().expect("a model");
    let account = open(&model, MeteredApi::Anthropic);
    assert!(!ask(&account, MESSAGES, &question(true)).is_cut);
    let cut = ask(&account, MESSAGES, &question(true));
    assert!(cut.is_cut && cut.body.contains("message_start"), "{}", cut.body);
    let unanswered = ask(&account, MESSAGES, &question(true));
    assert_eq!(unanswered.status(), 502);
    assert!(unanswered.body.contains("did not answer") && !unanswered.head.contains("x-should-retry"));
    assert!(ask(&account, MESSAGES, &question(true)).body.contains("<html>gateway</html>"));
    let bill = account.close();
    assert_eq!((bill.usage.calls, bill.usage.tokens()), (Some(4), None));
    assert_eq!(
        bill.notes,
        ["3 answers of the model ended without a usage report; known: 3000 tokens in, 50 out"]
    );
}

#[test]
fn when_the_client_goes_the_provider_is_hung_up_on() {
    let model = Model::script([turn().held(), turn().held(), turn()]).serve().expect("a model");
    let account = open(&model, MeteredApi::OpenAi);
    let login = format!("authorization: Bearer {}\r\n", account.token());
    for (request, is_stream) in [(0, true), (1, false)] {
        let mut client = Client::of(&account);
        client.send("POST /v1/responses", &login, &question(is_stream).to_string());
        model.wait_for(request + 1);
        drop(client);
        model.wait_until_left(request);
    }
    assert_eq!(ask(&account, RESPONSES, &question(false)).status(), 200, "and the next one is served");
    assert_eq!(account.close().usage.calls, Some(3));
}

#[test]
fn an_account_that_is_closed_ends_what_is_under_way() {
    let model = Model::script([turn().held()]).serve().expect("a model");
    let account = open(&model, MeteredApi::Anthropic);
    let mut client = Client::of(&account);
    let login = format!("x-api-key: {}\r\n", account.token());
    client.send("POST /v1/messages", &login, &question(true).to_string());
    model.wait_for(1);
    let (begun, address) = (Instant::now(), account.address());
    let bill = account.close();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!((bill.usage.calls, bill.usage.output_tokens), (Some(1), None));
    model.wait_until_left(0);
    assert!(client.receive().body.len() < 4096);
    assert!(TcpStream::connect(address).is_err(), "nobody listens there any more");
}

#[test]
fn two_attempts_at_once_are_counted_apart() {
    let script = |input| Script::of([]).after(Turn::text("yes").using(input, 1));
    let model =
        Model::script([]).session("ada", script(10)).session("bob", script(1000)).serve().expect("a model");
    let accounts = ["ada", "bob"]
        .map(|name| open_at(&model.session_url(name), MeteredApi::Anthropic, Limit::default(), &[]));
    std::thread::scope(|scope| {
        for account in &accounts {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut client = Client::of(account);
                    for _ in 0..5 {
                        assert_eq!(client.ask(account, MESSAGES, &question(true)).status(), 200);
                    }
                });
            }
        }
    });
    let tokens = accounts.map(|account| account.close().usage.tokens());
    assert_eq!(tokens, [Some(165), Some(15_015)]);
}

#[test]
fn a_stream_is_counted_though_its_client_did_not_ask_for_it() {
    let model = Model::script([turn().dribbled(), turn()]).serve().expect("a model");
    let account = open(&model, MeteredApi::Chat);
    let plain = ask(&account, CHAT, &question(true));
    assert!(!plain.body.contains("\"usage\"") && plain.body.ends_with("data: [DONE]\n\n"), "{}", plain.body);
    let mut asks = question(true);
    asks["stream_options"] = json!({ "include_usage": true });
    assert!(ask(&account, CHAT, &asks).body.contains("\"usage\""));
    assert_eq!(account.close().usage.tokens(), Some(2100));
}

/// Uses curl, which sends `Expect: 100-continue` before a large body.
#[test]
fn large_bodies_pass_in_both_directions() {
    let large = "x".repeat(3 << 20);
    let model = Model::script([]).after(Turn::text(&large).using(5, 5)).serve().expect("a model");
    let account = open(&model, MeteredApi::Anthropic);
    let mut body = question(false);
    body["messages"][0]["content"] = json!(large);
    let url = format!("{}/v1/messages", account.base_url());
    let login = format!("x-api-key: {}", account.token());
    for more in [&["-H", "Expect: 100-continue"][..], &["-H", "Transfer-Encoding: chunked"], &["--http1.0"]] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--noproxy", "*", "-H", &login, "--data-binary", "@-"]).args(more).arg(&url);
        let mut curl = curl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("curl");
        let mut stdin = curl.stdin.take().expect("a pipe");
        let text = body.to_string();
        let writing = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
        let output = curl.wait_with_output().expect("curl");
        writing.join().expect("a thread").expect("written");
        assert!(
            output.status.success() && output.stdout.len() > large.len(),
            "{more:?}: {}",
            output.stdout.len()
        );
    }
    assert!(model.requests().iter().all(|seen| seen.newest.len() > large.len()));
    assert_eq!(account.close().usage.tokens(), Some(30));
}

#[test]
fn what_is_too_large_or_no_request_is_answered() {
    let model = Model::script([]).serve().expect("a model");
    let account = open(&model, MeteredApi::Anthropic);
    let says = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(account.address()).expect("the meter");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        let _ = stream.write_all(bytes);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let login = format!("x-api-key: {}\r\n", account.token());
    for (bytes, status) in [
        ("nonsense\r\n\r\n".to_owned(), 400),
        ("GET http://elsewhere/ HTTP/1.1\r\n\r\n".to_owned(), 400),
        (format!("GET /v1/models HTTP/2\r\n{login}\r\n"), 400),
        (format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000)), 400),
        (format!("POST /v1/messages HTTP/1.1\r\n{login}Content-Length: 99999999\r\n\r\n"), 413),
        (
            format!(
                "POST /v1/messages HTTP/1.1\r\n{login}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{{}}"
            ),
            400,
        ),
        (
            format!(
                "POST /v1/messages HTTP/1.1\r\n{login}Content-Encoding: zstd\r\nContent-Length: 2\r\n\r\nxx"
            ),
            415,
        ),
        (format!("POST /v1/messages HTTP/1.1\r\n{login}Content-Length: 1\r\n\r\n{{"), 400),
    ] {
        let answer = says(bytes.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    }
    assert_eq!(model.requests().len(), 0);
}

#[test]
fn an_upstream_that_is_not_there_is_told() {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let account = open_at(&format!("http://127.0.0.1:{port}"), MeteredApi::Anthropic, Limit::default(), &[]);
    let answer = ask(&account, MESSAGES, &question(false));
    assert_eq!((answer.status(), &answer.json()["error"]["type"]), (502, &json!("api_error")));
    assert!(answer.body.contains("cannot be reached"), "{}", answer.body);
    assert_eq!(account.close().usage.tokens(), Some(0), "nobody saw it");
}

#[test]
fn the_environment_has_the_token_and_not_the_key() {
    let model = Model::script([]).serve().expect("a model");
    let account = open(&model, MeteredApi::Anthropic);
    let given = [
        ("PATH", "/bin"),
        ("THE_KEY", KEY),
        ("ANTHROPIC_API_KEY", "another"),
        ("ANTHROPIC_AUTH_TOKEN", "login"),
        ("COPY", &format!("prefix {KEY}")),
        ("NO_PROXY", "lan"),
    ];
    let given: Vec<(OsString, OsString)> =
        given.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let mut environment: Vec<String> = account
        .environment(&given)
        .into_iter()
        .map(|(name, value)| format!("{}={}", name.display(), value.display()))
        .collect();
    environment.sort();
    let (url, token) = (account.base_url(), account.token());
    assert_eq!(
        environment,
        [
            format!("ANTHROPIC_API_KEY={token}"),
            format!("ANTHROPIC_BASE_URL={url}"),
            format!("MODEL_API_KEY={token}"),
            format!("MODEL_BASE_URL={url}"),
            "NO_PROXY=lan,127.0.0.1,localhost".to_owned(),
            "PATH=/bin".to_owned(),
            "no_proxy=127.0.0.1,localhost".to_owned(),
        ]
    );
}

#[test]
fn a_key_comes_from_the_environment_or_from_a_command_outside_of_the_workspace() {
    let folder = tempfile::tempdir().expect("a folder");
    let workspace = folder.path().join("work");
    std::fs::create_dir(&workspace).expect("a folder");
    let path = format!("{}:/usr/bin:/bin", workspace.display());
    let environment: Vec<(OsString, OsString)> =
        vec![("PATH".into(), path.into()), ("K".into(), KEY.into()), ("TWO".into(), "a\nb".into())];
    let script = |place: &std::path::Path, name: &str| {
        let path = place.join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho {KEY}\n")).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("a mode");
        path.display().to_string()
    };
    let (outside, inside) = (script(folder.path(), "key"), script(&workspace, "printkey"));
    let key = |source: Source| {
        let found = source.key(&environment, &workspace);
        found.map(|key| key.expose().to_owned()).map_err(|error| error.to_string())
    };
    let command = |words: &[&str]| Source::Command(words.iter().map(|word| (*word).to_owned()).collect());
    assert_eq!(key(Source::Variable("K".to_owned())).as_deref(), Ok(KEY));
    assert_eq!(key(command(&[&outside])).as_deref(), Ok(KEY));
    assert_eq!(key(command(&["printf", "%s", KEY])).as_deref(), Ok(KEY));
    for (source, words) in [
        (Source::Variable("NONE".to_owned()), "the variable NONE with the key of its model is not set"),
        (Source::Variable("TWO".to_owned()), "one line"),
        (command(&[&inside]), "is in the workspace"),
        // A program in the workspace is not used even if PATH leads to it.
        (command(&["printkey"]), "there is no program printkey"),
        (command(&["./key"]), "absolute path"),
        (command(&["sh", "-c", "echo secret >&2; exit 3"]), "it exited with 3"),
        (command(&["true"]), "one line"),
    ] {
        let error = key(source).expect_err(words);
        assert!(error.contains(words) && !error.contains("secret"), "{error}");
    }
}

/// A TLS server in front of the model, with a certificate that only `SSL_CERT_FILE` contains.
const TLS: &str = r#"
import socket, ssl, sys, threading
cert, key, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
def pump(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
    except OSError:
        pass
    for each in (one, other):
        try: each.shutdown(socket.SHUT_RDWR)
        except OSError: pass
while True:
    raw, _ = listener.accept()
    def serve(raw=raw):
        try: inside = context.wrap_socket(raw, server_side=True)
        except OSError: return
        outside = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=pump, args=(inside, outside), daemon=True).start()
        pump(outside, inside)
    threading.Thread(target=serve, daemon=True).start()
"#;

#[test]
fn the_provider_is_reached_by_tls_and_has_to_be_who_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &key, "-out", &cert])
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return skip::tool("openssl", "apt-get install openssl");
    }
    let model = Model::script([]).after(turn()).key(KEY).serve().expect("a model");
    let mut server = Command::new("python3");
    server.args(["-c", TLS, &cert, &key, &model.port().to_string()]).stdout(Stdio::piped());
    let mut server = server.spawn().expect("python3");
    let mut port = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut port).expect("a port");
    let url = |host: &str| format!("https://{host}:{}", port.trim());
    let trusted = [(OsString::from("SSL_CERT_FILE"), OsString::from(&cert))];
    let asked = |host: &str, environment: &[(OsString, OsString)]| {
        let account = open_at(&url(host), MeteredApi::Anthropic, Limit::default(), environment);
        let mut client = Client::of(&account);
        let answers = [true, false].map(|is_stream| client.ask(&account, MESSAGES, &question(is_stream)));
        (answers.map(|answer| (answer.status(), answer.body)), account.close().usage.tokens())
    };
    let ([(streamed, _), (whole, _)], tokens) = asked("localhost", &trusted);
    let ([(other_name, words), _], _) = asked("127.0.0.1", &trusted);
    let ([(untrusted, reason), _], _) = asked("localhost", &[]);
    let requests = model.requests().len();
    let webhook = |path: &str| {
        let config =
            WebhookConfig { url: url("localhost"), secret_env: None, format: MessageFormat::Provost };
        let environment = vec![(OsString::from("SSL_CERT_FILE"), OsString::from(path))];
        let channel = Channel::Webhook(Box::new(Webhook::new(&config, &environment)));
        let memory = Arc::new(SentNotifications::open(folder.path(), "plan"));
        let courier = Courier::start(channel, environment, memory);
        let text = || "x".to_owned();
        courier.take(&Notification {
            id: text(),
            title: text(),
            line: text(),
            body: "{}".to_owned(),
            decision: DecisionText::default(),
        });
        courier.close(Duration::from_secs(20));
        courier.finish().concat()
    };
    let (heard, unread) = (webhook(&cert), webhook("/nowhere/cert.pem"));
    server.kill().expect("ended");
    server.wait().expect("ended");
    assert_eq!((streamed, whole, tokens), (200, 200, Some(2100)));
    assert_eq!((other_name, untrusted), (502, 502), "{words} {reason}");
    assert!(reason.contains("certificate"), "{reason}");
    assert_eq!(requests, 2);
    assert!(heard.contains("it answered 4"), "{heard}");
    assert!(unread.contains("/nowhere/cert.pem"), "{unread}");
}
