//! Tests traces with a real collector and OpenTelemetry's published types.
//!
//! Both are installed from a registry into a temporary folder: `rotel`, a collector, and
//! `opentelemetry-proto`, the messages. The final receiver is a short Python program (`otel/receiver.py`)
//! that parses the protocol only with that package.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use provost_rehearsal::skip;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::env::{Env, HONEST, answer, plan};
use crate::log::{TOLD, tell};

/// A process that is killed on drop.
pub(crate) struct Ending(pub(crate) Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Installs packages into a separate folder; returns `None` if the registry is not reachable.
pub(crate) fn installed(packages: &[&str]) -> Option<TempDir> {
    let folder = tempfile::tempdir().expect("a folder");
    let pip = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"])
        .args(["--retries", "1", "--timeout", "20", "--only-binary", ":all:", "--target"])
        .arg(folder.path())
        .args(packages)
        .output();
    let Ok(pip) = pip else {
        skip::tool("python3", "apt-get install python3");
        return None;
    };
    let said = String::from_utf8_lossy(&pip.stderr);
    if pip.status.success() {
        return Some(folder);
    }
    // The collector is a binary that exists for common machines only.
    if said.contains("No module named pip") {
        skip::tool("pip", "apt-get install python3-pip");
        return None;
    }
    let excuses = ["Retrying (", "Could not fetch URL"];
    let no_program = packages == ["rotel"] && said.contains("No matching distribution");
    assert!(no_program || excuses.iter().any(|words| said.contains(words)), "pip: {said}");
    skip::registry(&packages.join(" and "), said.trim());
    None
}

/// Parses what arrives with the official types, and prints it line by line.
struct Receiver {
    _process: Ending,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Receiver {
    fn start(packages: &Path) -> Self {
        Self::with(packages, &[], "http")
    }

    /// Starts it with a certificate for `localhost` and its key.
    fn with(packages: &Path, certificate: &[PathBuf], scheme: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/otel/receiver.py");
        let mut process = Command::new("python3")
            .arg(script)
            .arg(packages)
            .args(certificate)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a receiver");
        let mut lines = BufReader::new(process.stdout.take().expect("stdout")).lines();
        let port = lines.next().expect("a port").expect("text");
        Self { _process: Ending(process), lines, address: format!("{scheme}://localhost:{port}") }
    }

    /// Returns the next request.
    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("a request").expect("text");
        serde_json::from_str(&line).expect("a request")
    }
}

/// Starts the collector, which forwards to `address`.
fn collector(packages: &Path, address: &str) -> (Ending, String) {
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let (http, grpc) = (free(), free());
    let program = packages.join("rotel/rotel-agent");
    let _ = std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755));
    let process = Command::new(program)
        .arg("start")
        .args(["--otlp-http-endpoint", &http.to_string(), "--otlp-grpc-endpoint", &grpc.to_string()])
        .args(["--exporter", "otlp", "--otlp-exporter-protocol", "http"])
        .args(["--otlp-exporter-endpoint", address])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a collector");
    let process = Ending(process);
    let deadline = Instant::now() + Duration::from_secs(120);
    while TcpStream::connect(http).is_err() {
        assert!(Instant::now() < deadline, "the collector does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    (process, format!("http://{http}"))
}

fn env() -> Env {
    Env::new(&plan(&["test -f out/1", "test -f out/2"], "escalate")).agent(HONEST).isolation("in-place")
}

fn spans(request: &Value) -> Vec<Value> {
    request["spans"].as_array().cloned().unwrap_or_default()
}

/// Returns `name < parent` for each span, sorted.
fn family(spans: &[Value]) -> Vec<String> {
    let names: BTreeMap<&str, &str> =
        spans.iter().map(|span| (span["id"].as_str().unwrap(), span["name"].as_str().unwrap())).collect();
    let mut family: Vec<String> = spans
        .iter()
        .map(|span| match span["parent"].as_str().filter(|parent| !parent.is_empty()) {
            Some(parent) => format!("{} < {}", span["name"].as_str().unwrap(), names[parent]),
            None => span["name"].as_str().unwrap().to_owned(),
        })
        .collect();
    family.sort();
    family
}

fn named<'s>(spans: &'s [Value], name: &str) -> Vec<&'s Value> {
    let mut found: Vec<&Value> = spans.iter().filter(|span| span["name"] == name).collect();
    found.sort_by_key(|span| span["start"].as_u64());
    found
}

/// Checks that children lie within their parents, and that nothing ends before it starts.
fn check_times(spans: &[Value]) {
    for span in spans {
        let (start, end) = (span["start"].as_u64().unwrap(), span["end"].as_u64().unwrap());
        assert!(start <= end, "{span}");
        for child in spans.iter().filter(|child| child["parent"] == span["id"]) {
            assert!(child["start"].as_u64().unwrap() >= start, "{child} in {span}");
            assert!(child["end"].as_u64().unwrap() <= end, "{child} in {span}");
        }
    }
}

fn check_told(spans: &[Value]) {
    assert_eq!(
        family(spans),
        [
            "execute_tool contract < step 1. Step 1",
            "execute_tool contract < step 1. Step 1",
            "execute_tool contract < step 2. Step 2",
            "execute_tool contract < step 2. Step 2",
            "invoke_agent coder < step 1. Step 1",
            "invoke_agent coder < step 1. Step 1",
            "invoke_agent reviewer < step 2. Step 2",
            "invoke_agent reviewer < step 2. Step 2",
            "invoke_workflow told",
            "pause < step 1. Step 1",
            "step 1. Step 1 < invoke_workflow told",
            "step 2. Step 2 < invoke_workflow told",
            "wait for a person < step 2. Step 2",
            "wait for approval < invoke_workflow told",
        ]
    );
    check_times(spans);
    assert!(spans.iter().all(|span| span["trace"] == spans[0]["trace"] && span["kind"] == 1));
    let second = |second: u64| (1_800_000_000 + second) * 1_000_000_000;

    let root = named(spans, "invoke_workflow told")[0];
    assert_eq!((root["start"].as_u64(), root["end"].as_u64()), (Some(second(0)), Some(second(141))));
    assert_eq!(root["status"], 1);
    assert_eq!(root["attributes"]["gen_ai.operation.name"], "invoke_workflow");
    assert_eq!(root["attributes"]["gen_ai.workflow.name"], "told");
    assert_eq!(root["attributes"]["provost.run.outcome"], "done");

    let first = named(spans, "invoke_agent coder")[0];
    assert_eq!((first["start"].as_u64(), first["end"].as_u64()), (Some(second(61)), Some(second(65))));
    let attributes = &first["attributes"];
    for (key, value) in [
        ("gen_ai.operation.name", json!("invoke_agent")),
        ("gen_ai.agent.name", json!("coder")),
        ("gen_ai.request.model", json!("small-1")),
        ("gen_ai.usage.input_tokens", json!(4100)),
        ("gen_ai.usage.output_tokens", json!(220)),
        ("gen_ai.usage.cache_read.input_tokens", json!(3000)),
        ("provost.usage.cost_usd", json!(0.0052)),
        ("provost.attempt", json!(1)),
    ] {
        assert_eq!(attributes[key], value, "{key}");
    }
    let unknown = &named(spans, "invoke_agent reviewer")[0]["attributes"];
    assert_eq!(unknown["gen_ai.usage.input_tokens"], Value::Null);
    assert_eq!(unknown["error.type"], "exited");

    let check = named(spans, "execute_tool contract")[0];
    assert_eq!(check["status"], 2);
    assert_eq!(check["end"].as_u64().unwrap() - check["start"].as_u64().unwrap(), 400_000_000);
    assert_eq!(check["attributes"]["gen_ai.tool.name"], "contract");

    let pause = named(spans, "pause")[0];
    assert_eq!((pause["start"].as_u64(), pause["end"].as_u64()), (Some(second(66)), Some(second(71))));
    let wait = named(spans, "wait for a person")[0];
    assert_eq!((wait["start"].as_u64(), wait["end"].as_u64()), (Some(second(76)), Some(second(136))));
    assert_eq!(wait["attributes"]["provost.answer"], "retry");

    let events = |name: &str| -> Vec<Value> {
        named(spans, name)[0]["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["name"].clone())
            .collect()
    };
    let failure = ["FAILURE_DETECTED", "FAILURE_CLASSIFIED"];
    assert_eq!(events("step 1. Step 1"), [&["STEP_CLAIMED"][..], &failure, &["RECOVERY_APPLIED"]].concat());
    assert_eq!(
        events("step 2. Step 2"),
        [&failure[..], &["RECOVERY_ESCALATION", "TAMPER_DETECTED", "HUMAN_ANSWERED"]].concat()
    );
    let classified = &named(spans, "step 1. Step 1")[0]["events"][2];
    assert_eq!(classified["attributes"]["provost.failure.class"], "transient");
}

#[test]
fn a_real_collector_takes_a_run_and_hands_it_on_unchanged() {
    let Some(packages) = installed(&["opentelemetry-proto"]) else { return };
    let Some(collectors) = installed(&["rotel"]) else { return };
    let mut receiver = Receiver::start(packages.path());
    let (_collector, address) = collector(collectors.path(), &receiver.address);
    let env = env();
    tell(&env);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let sent = env.provost(&["log", TOLD, &format!("--otel={address}")]).exits(0);
        assert!(sent.err.contains("14 spans sent") && sent.out.is_empty(), "{sent:?}");
        let request = receiver.next();
        assert_eq!(request["type"], "application/x-protobuf", "what the collector speaks, not we");
        assert_eq!(request["resource"]["service.name"], "provost");
        let mut spans = spans(&request);
        check_told(&spans);
        spans.sort_by_key(|span| span["id"].as_str().map(str::to_owned));
        seen.push(spans);
    }
    assert_eq!(seen[0], seen[1], "the same run is the same trace");
}

#[test]
fn what_is_sent_is_what_the_official_types_say_and_headers_go_along() {
    let Some(packages) = installed(&["opentelemetry-proto", "opentelemetry-semantic-conventions"]) else {
        return;
    };
    let mut receiver = Receiver::start(packages.path());
    let env = env();
    tell(&env);
    let mut command = env.command(&["log", TOLD, "--otel=send"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.address);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=a%20key");
    answer(command.output().expect("provost")).exits(0);
    let request = receiver.next();
    assert_eq!(request["type"], "application/json");
    assert_eq!(request["path"], "/v1/traces");
    assert_eq!(request["api_key"], "a key");
    assert_eq!(request["unknown_names"], json!([]), "names that the conventions do not have");
    check_told(&spans(&request));

    over_tls(&env, packages.path());

    // A real run with agents and checks.
    env.approve();
    env.provost(&["run"]).exits(0);
    env.provost(&["log", &format!("--otel={}", receiver.address)]).exits(0);
    let spans = spans(&receiver.next());
    check_times(&spans);
    let family = family(&spans);
    for name in ["invoke_agent coder < step 2. Step 2", "execute_tool contract < step 2. Step 2"] {
        assert!(family.iter().any(|found| found == name), "{family:?}");
    }
}

/// Makes an authority (`ca.pem`) and a certificate of it for `localhost` (`own.pem`, `own.key`).
pub(crate) fn certified(folder: &Path) -> bool {
    let openssl = |arguments: &str| {
        let words = arguments.split(' ');
        Command::new("openssl").args(words).current_dir(folder).stderr(Stdio::null()).status()
    };
    let own = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test";
    if openssl(&format!("{own} -keyout ca.key -out ca.pem")).is_err() {
        skip::tool("openssl", "apt-get install openssl");
        return false;
    }
    let leaf = "-CA ca.pem -CAkey ca.key -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:localhost";
    let made = openssl(&format!("{own} {leaf} -keyout own.key -out own.pem")).expect("openssl");
    assert!(made.success(), "openssl made no certificate");
    true
}

/// provost sends only to a collector with a trusted certificate.
fn over_tls(env: &Env, packages: &Path) {
    let folder = env.folder().join("tls");
    std::fs::create_dir(&folder).expect("a folder");
    if !certified(&folder) {
        return;
    }
    let mut receiver = Receiver::with(packages, &[folder.join("own.pem"), folder.join("own.key")], "https");
    let url = format!("--otel={}", receiver.address);
    let stranger = env.provost(&["log", TOLD, &url]).exits(70);
    assert!(stranger.err.contains("certificate"), "{}", stranger.err);
    for name in ["OTEL_EXPORTER_OTLP_CERTIFICATE", "SSL_CERT_FILE"] {
        let mut command = env.command(&["log", TOLD, &url]);
        command.env(name, folder.join("ca.pem"));
        answer(command.output().expect("provost")).exits(0);
        check_told(&spans(&receiver.next()));
    }
}

#[test]
fn a_trace_is_printed_a_request_a_line_and_twice_the_same() {
    let env = env();
    env.provost(&["log", "--otel"]).exits(0);
    tell(&env);
    let once = env.provost(&["log", TOLD, "--otel"]).exits(0);
    assert_eq!(once.lines().len(), 1);
    assert_eq!(once.out, env.provost(&["log", "--all", "--otel"]).exits(0).out);
    let spans = once.json()["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().map(Vec::len);
    assert_eq!(spans, Some(14));
    assert!(!once.out.contains("I think"), "what the agent said stays in the log");
}

#[test]
fn a_collector_that_is_not_there_or_refuses_is_named_without_its_secrets() {
    use std::io::{Read as _, Write as _};
    let env = env();
    tell(&env);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let answers = std::thread::spawn(move || {
        for said in [
            "HTTP/1.1 503 Busy\r\ncontent-length: 9\r\nconnection: close\r\n\r\ntoo  busy",
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"too old\"}}",
        ] {
            let (mut stream, _) = listener.accept().expect("a caller");
            let mut heard = Vec::new();
            let mut part = [0; 4096];
            while !heard.ends_with(b"]}]}]}") {
                let length = stream.read(&mut part).expect("a request");
                assert!(length > 0, "the caller went away");
                heard.extend_from_slice(&part[..length]);
            }
            stream.write_all(said.as_bytes()).expect("an answer");
        }
    });
    let url = format!("--otel=http://me:hush@{address}/v1/traces?token=hush");
    for (code, words) in
        [(70, "answered 503: too busy"), (70, "answered 302"), (70, "rejected 3 spans: too old")]
    {
        let failed = env.provost(&["log", TOLD, &url]).exits(code);
        assert!(failed.err.contains(words) && !failed.err.contains("hush"), "{}", failed.err);
    }
    answers.join().expect("all were asked");
    let failed = env.provost(&["log", TOLD, &url]).exits(70);
    assert!(failed.err.contains("could not reach") && !failed.err.contains("hush"), "{}", failed.err);
    env.provost(&["log", TOLD, "--otel=localhost"]).exits(2);
    env.provost(&["log", TOLD, "--otel=send"]).exits(2);
}
