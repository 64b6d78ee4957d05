//! Measures how long an agent's client waits for a long plan.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::Asked;
use crate::measure::{folder, median};
use crate::table::{Kind, Row, Table};

const STEPS: usize = 1_000;
const ROUNDS: usize = 40;
const PROVOST: &str = env!("CARGO_BIN_EXE_provost");

struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl Client {
    fn start(at: &Path) -> Self {
        let mut command = Command::new(PROVOST);
        command.arg("--state").arg(at.join("state")).args(["mcp", "--session", "bench"]);
        command.current_dir(at.join("work")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("provost mcp");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut client = Self { child, input, output, requests: 0 };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" },
        });
        client.request("initialize", hello);
        client
    }

    fn request(&mut self, method: &str, params: Value) -> String {
        self.requests += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.requests, "method": method, "params": params });
        writeln!(self.input, "{request}").and_then(|()| self.input.flush()).expect("asked");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("an answer");
        answer
    }

    fn ms(&mut self, method: &str, params: &Value) -> f64 {
        let begun = Instant::now();
        self.request(method, params.clone());
        begun.elapsed().as_secs_f64() * 1e3
    }

    fn end(self) {
        let Self { mut child, input, .. } = self;
        drop(input);
        let _ = child.wait();
    }
}

pub(crate) fn measure(_asked: &Asked, table: &mut Table) {
    let at = folder("mcp");
    for name in ["work", "state"] {
        std::fs::create_dir_all(at.join(name)).expect("a folder");
    }
    let steps: Vec<Value> = (1..=STEPS)
        .map(|number| json!({ "title": format!("Step {number}"), "check": "make check" }))
        .collect();
    let plan = json!({ "name": "plan_create", "arguments": { "objective": "A long plan", "steps": steps } });
    let show = json!({ "name": "plan_show", "arguments": {} });
    let mut client = Client::start(&at);
    let made = client.request("tools/call", plan);
    assert!(made.contains("approved by"), "{made}");
    let (mut shown, mut pinged) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        pinged.push(client.ms("ping", &json!({})));
        shown.push(client.ms("tools/call", &show));
    }
    client.end();
    let first: Vec<f64> = (0..5)
        .map(|_| {
            let mut client = Client::start(&at);
            let ms = client.ms("tools/call", &show);
            client.end();
            ms
        })
        .collect();
    table.row(Row {
        what: "mcp: plan_show, 1,000 steps",
        subject: format!("{:.2} ms", median(&shown)),
        floor: format!("ping {:.2} ms", median(&pinged)),
        figure: median(&shown),
        unit: " ms",
        goal: 5.0,
        kind: Kind::Wall,
    });
    table.note("  the first of a server, which reads the log", &format!("{:.2} ms", median(&first)));
    let _ = std::fs::remove_dir_all(at);
}
