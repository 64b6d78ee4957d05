//! Measures watching: many subscribers at one server, against a minimal server that sends them the same;
//! and the largest pages, against the queries they need.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use provost_core::model::event::{Event, Revision};
use provost_core::model::run_policy::RunPolicy;
use provost_core::model::timestamp::Timestamp;
use provost_store::Sqlite;
use rusqlite::Connection;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::Asked;
use crate::events::{Chain, ended};
use crate::measure::{folder, median, quantile, time};
use crate::table::{Kind, Row, Table};

const PROVOST: &str = env!("CARGO_BIN_EXE_provost");
const SUBSCRIBERS: usize = 10_000;
const EVENTS: usize = 20;
const PLANS: usize = 1_000;
const LOG: usize = 1_000_000;
const ASKED: usize = 60;
/// A subscriber that got nothing by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of either kind.
struct Served {
    child: Child,
    address: String,
    /// Added to the head of a request.
    head: String,
}

impl Served {
    fn provost(at: &Path) -> Self {
        let state = at.join("state");
        let provost = || {
            let mut command = Command::new(PROVOST);
            command.arg("--state").arg(&state).arg("--json").current_dir(at.join("work"));
            command
        };
        let (child, ready) = begun(provost().args(["serve", "--listen", "127.0.0.1:0"]));
        let token = provost().args(["serve", "token", "--scope", "view"]).output().expect("a token");
        let token: Value = serde_json::from_slice(&token.stdout).expect("a token");
        let address = ready["address"].as_str().expect("an address").to_owned();
        let head = format!("Authorization: Bearer {}\r\n", token["token"].as_str().expect("a token"));
        Self { child, address, head }
    }

    fn bare() -> Self {
        let own = std::env::current_exe().expect("this program");
        let (child, ready) = begun(Command::new(own).arg("--as-sse"));
        let address = ready["address"].as_str().expect("an address").to_owned();
        Self { child, address, head: String::new() }
    }

    fn request(&self, method: &str, path: &str) -> String {
        let Self { address, head, .. } = self;
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n{head}Content-Length: 0\r\n\r\n")
    }

    fn resident_kb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the server prints its address.
fn begun(command: &mut Command) -> (Child, Value) {
    let mut child = command.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn().expect("a server");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("its output")).read_line(&mut line).expect("a line");
    (child, serde_json::from_str(&line).expect("where it listens"))
}

/// What all subscribers of a server received.
struct Told {
    /// For each event and each subscriber: milliseconds since just before it was published.
    ms: Vec<f64>,
    /// For each event: the time until the last subscriber had it.
    last_ms: Vec<f64>,
    kb_each: f64,
}

/// Connects until it is accepted: with ten thousand connections of one token, some have to wait.
async fn subscribed(address: &str, request: &str) -> tokio::net::TcpStream {
    loop {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
        stream.write_all(request.as_bytes()).await.expect("asked");
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.expect("an answer");
        match &status {
            b"HTTP/1.1 200" => return stream,
            b"HTTP/1.1 429" => tokio::time::sleep(Duration::from_millis(100)).await,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
}

fn watch(served: &Served, path: &str, mut publish: impl FnMut()) -> Told {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let before = served.resident_kb();
    let arrived = Arc::new(AtomicUsize::new(0));
    let open = Arc::new(AtomicUsize::new(0));
    let begun = Arc::new(Mutex::new(Instant::now()));
    let times = Arc::new(Mutex::new(Vec::with_capacity(SUBSCRIBERS * EVENTS)));
    let request = served.request("GET", path);
    runtime.block_on(async {
        for _ in 0..SUBSCRIBERS {
            let mut stream = subscribed(&served.address, &request).await;
            let (arrived, open, begun, times) = (arrived.clone(), open.clone(), begun.clone(), times.clone());
            tokio::spawn(async move {
                let mut bytes = [0; 2048];
                let mut is_open = false;
                while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                    if !is_open {
                        is_open = true;
                        open.fetch_add(1, Ordering::Relaxed);
                    }
                    if bytes[..length].windows(5).any(|part| part == b"data:") {
                        let begun = *begun.lock().expect("a lock");
                        times.lock().expect("a lock").push(begun.elapsed().as_secs_f64() * 1e3);
                        arrived.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let since = Instant::now();
        while open.load(Ordering::Relaxed) < SUBSCRIBERS {
            assert!(since.elapsed() < PATIENCE, "{open:?} of {SUBSCRIBERS} subscribers are heard");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        let kb_each = (served.resident_kb() - before) / SUBSCRIBERS as f64;
        let mut last_ms = Vec::new();
        for event in 1..=EVENTS {
            *begun.lock().expect("a lock") = Instant::now();
            publish();
            let since = Instant::now();
            while arrived.load(Ordering::Relaxed) < SUBSCRIBERS * event {
                assert!(since.elapsed() < PATIENCE, "{arrived:?} of {} were told", SUBSCRIBERS * event);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            last_ms.push(begun.lock().expect("a lock").elapsed().as_secs_f64() * 1e3);
        }
        Told { ms: times.lock().expect("a lock").clone(), last_ms, kb_each }
    })
}

pub(crate) fn fan_out(_asked: &Asked, table: &mut Table) {
    let at = folder("serve");
    for name in ["work", "state"] {
        std::fs::create_dir_all(at.join(name)).expect("a folder");
    }
    let log = Sqlite::open(&at.join("state")).expect("a log");
    let mut chain = Chain::new(&log, "watched");
    let floor = {
        let served = Served::bare();
        let publish = served.request("POST", "/publish");
        watch(&served, "/", || {
            let mut stream = TcpStream::connect(&served.address).expect("connected");
            stream.write_all(publish.as_bytes()).expect("published");
            let _ = stream.read(&mut [0; 64]);
        })
    };
    let subject = {
        let served = Served::provost(&at);
        watch(&served, "/api/events", || {
            let at = Timestamp(1_700_000_000_000 + chain.seq);
            chain.append(&[ended(1)], at).expect("a commit");
        })
    };
    let ratio = |share: f64| quantile(&subject.ms, share) / quantile(&floor.ms, share);
    table.row(Row {
        what: "serve: 10,000 subscribers, until the last has it",
        subject: time(median(&subject.last_ms) / 1e3),
        floor: time(median(&floor.last_ms) / 1e3),
        figure: median(&subject.last_ms) / median(&floor.last_ms),
        unit: "×",
        goal: 1.3,
        kind: Kind::Wall,
    });
    table.row(Row {
        what: "serve: 10,000 subscribers, p99",
        subject: time(quantile(&subject.ms, 0.99) / 1e3),
        floor: time(quantile(&floor.ms, 0.99) / 1e3),
        figure: quantile(&subject.ms, 0.99),
        unit: " ms",
        goal: 300.0,
        kind: Kind::Wall,
    });
    table.note("  p50 and p99 over the floor's", &format!("{:.2}× {:.2}×", ratio(0.5), ratio(0.99)));
    table.row(Row {
        what: "serve: memory of a subscriber",
        subject: format!("{:.1} kB", subject.kb_each),
        floor: format!("{:.1} kB", floor.kb_each),
        figure: subject.kb_each,
        unit: " kB",
        goal: 20.0,
        kind: Kind::Counter,
    });
    let _ = std::fs::remove_dir_all(at);
}

fn created(number: usize) -> Event {
    let text = format!(
        "---\ntype: plan\nstatus: draft\nowner: bench\n---\n\n# Plan {number}\n\n## Steps\n\n### 1. Work\n\n\
         **target:** coder\n\n**task:**\nDo it.\n\n**contract:**\n```shell\ntrue\n```\nexit_code == 0\n"
    );
    Event::PlanCreated {
        text,
        revision: Revision(format!("{number:064x}")),
        base: None,
        files: Vec::new(),
        terms: RunPolicy::default(),
        included: Vec::new(),
        task_count: 1,
        dependencies: Vec::new(),
        drafting: Vec::new(),
        author: None,
        checks_by: provost_core::model::check_author::CheckAuthor::Person,
    }
}

pub(crate) fn pages(asked: &Asked, table: &mut Table) {
    let at = folder("pages");
    for name in ["work", "state"] {
        std::fs::create_dir_all(at.join(name)).expect("a folder");
    }
    let events = if asked.large { LOG } else { LOG / 10 };
    let log = Sqlite::open(&at.join("state")).expect("a log");
    for plan in 0..PLANS {
        let mut chain = Chain::new(&log, &format!("plan-{plan:04}"));
        let mut all = vec![created(plan)];
        all.extend((1..events / PLANS).map(|_| ended(1)));
        chain.append(&all, Timestamp(1_700_000_000_000 + plan as u64)).expect("a commit");
    }
    let mut last = Chain::new(&log, "plan-last");
    last.append(&[created(PLANS)], Timestamp(1_700_000_000_999)).expect("a commit");
    let served = Served::provost(&at);
    let bare = Connection::open(at.join("state/log.db")).expect("a database");
    // Keeps the connection open, as a browser does.
    let mut stream = TcpStream::connect(&served.address).expect("connected");
    stream.set_nodelay(true).expect("an option");
    let mut page = |path: &str| {
        let request = served.request("GET", path);
        let begun = Instant::now();
        stream.write_all(request.as_bytes()).expect("asked");
        answered(&mut stream);
        begun.elapsed().as_secs_f64()
    };
    let query = |sql: &str| {
        let begun = Instant::now();
        let mut statement = bare.prepare_cached(sql).expect("a query");
        let columns = statement.column_count();
        let mut rows = statement.query([]).expect("rows");
        let mut values = 0;
        while let Some(row) = rows.next().expect("a row") {
            for column in 0..columns {
                values += usize::from(row.get::<_, rusqlite::types::Value>(column).is_ok());
            }
        }
        assert!(values > 0);
        begun.elapsed().as_secs_f64()
    };
    // The rows of the page, and one more to know whether there are older ones.
    let newest = "SELECT event.id, plan.name, seq, at_ms, event.name, step, task_name, details \
                  FROM event CROSS JOIN plan ON plan.id = event.plan ORDER BY event.id DESC LIMIT 101";
    let heads =
        "SELECT (SELECT details FROM event WHERE event.plan = plan.id ORDER BY seq DESC LIMIT 1) FROM plan";
    for (what, path, sql) in
        [("serve: agenda, 1,000 plans", "/", heads), ("serve: log page of a long log", "/log", newest)]
    {
        page(path);
        let (mut pages, mut queries, mut first) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ASKED {
            // A new event makes all cached pages invalid.
            last.append(&[ended(1)], Timestamp(1_700_000_001_000)).expect("a commit");
            first.push(page(path));
            pages.push(page(path));
            queries.push(query(sql));
        }
        table.row(Row {
            what,
            subject: time(median(&pages)),
            floor: time(median(&queries)),
            figure: median(&pages) / median(&queries),
            unit: "×",
            goal: 3.0,
            kind: Kind::Wall,
        });
        let ratio = median(&first) / median(&queries);
        table.note("  the first look after an event", &format!("{}, {ratio:.1} ×", time(median(&first))));
    }
    let _ = std::fs::remove_dir_all(at);
}

/// Reads one whole answer.
fn answered(stream: &mut TcpStream) {
    let mut bytes = Vec::with_capacity(1 << 20);
    let mut end = None;
    while end.is_none_or(|end| bytes.len() < end) {
        let mut some = [0; 1 << 16];
        let length = stream.read(&mut some).expect("an answer");
        assert!(length > 0, "it hung up");
        bytes.extend_from_slice(&some[..length]);
        if end.is_none()
            && let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n")
        {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            assert!(text.starts_with("http/1.1 200"), "{text}");
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
            end = Some(head + 4 + length.expect("a length").trim().parse::<usize>().expect("a length"));
        }
    }
}

/// A minimal server that sends the same to all subscribers.
pub(crate) fn bare() -> std::process::ExitCode {
    use axum::extract::State;
    use axum::response::sse::{Event as Message, Sse};
    use axum::routing::{get, post};
    type Queue = tokio::sync::broadcast::Sender<String>;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (queue, _) = tokio::sync::broadcast::channel::<String>(1024);
        let listen = async |State(queue): State<Queue>| {
            let stream = futures_util::stream::unfold(queue.subscribe(), |mut queue| async move {
                let text = queue.recv().await.ok()?;
                Some((Ok::<_, std::convert::Infallible>(Message::default().data(text)), queue))
            });
            Sse::new(stream)
        };
        let publish = async |State(queue): State<Queue>| {
            let _ = queue.send("x".repeat(300));
        };
        let app =
            axum::Router::new().route("/", get(listen)).route("/publish", post(publish)).with_state(queue);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        println!("{}", serde_json::json!({ "address": address.to_string() }));
        axum::serve(listener, app).await.expect("served");
    });
    std::process::ExitCode::SUCCESS
}
