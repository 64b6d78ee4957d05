//! An MCP client that sends exactly what a test wants.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::env::Env;

pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    requests: u64,
    /// Progress notifications, one per line.
    pub heard: Vec<String>,
    /// Addresses of resources that have changed.
    pub updated: Vec<String>,
}

pub(crate) fn initialize(id: u64) -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params })
}

pub(crate) fn tool(id: u64, name: &str, arguments: &Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

impl Client {
    /// Starts a server; this process is its client.
    pub(crate) fn start(env: &Env, options: &[&str]) -> Self {
        let mut client = Self::silent(env, options);
        client.greet();
        client
    }

    /// Starts a server without the initial handshake.
    pub(crate) fn silent(env: &Env, options: &[&str]) -> Self {
        let arguments: Vec<&str> = std::iter::once("mcp").chain(options.iter().copied()).collect();
        Self::of(env.command(&arguments))
    }

    /// Starts a server from a shell, so that this process can be a person.
    pub(crate) fn under_a_shell(env: &Env, options: &[&str]) -> Self {
        let known = env.command(&[]);
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", "\"$0\" mcp \"$@\"; exit $?"]).arg(known.get_program()).args(options);
        shell.current_dir(env.work()).env_clear();
        shell.envs(known.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut client = Self::of(shell);
        client.greet();
        client
    }

    fn of(mut command: std::process::Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("provost mcp");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, input, output, requests: 0, heard: Vec::new(), updated: Vec::new() }
    }

    fn greet(&mut self) {
        self.requests += 1;
        self.say(initialize(self.requests).to_string().as_bytes());
        let answer = self.answer(self.requests);
        let words = answer["result"]["instructions"].as_str().unwrap_or_default();
        assert!(words.contains("plan_create"), "{answer}");
        self.say(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    pub(crate) fn say(&mut self, line: &[u8]) {
        self.write(line);
        self.write(b"\n");
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("its input");
        input.write_all(bytes).and_then(|()| input.flush()).expect("said");
    }

    pub(crate) fn any(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).expect("an answer") > 0, "the server is gone");
        serde_json::from_str(&line).expect("JSON on its output, and nothing else")
    }

    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.any();
            if message["id"] == id {
                return message;
            }
            self.hear(&message);
        }
    }

    fn hear(&mut self, message: &Value) {
        if let Some(words) = message["params"]["message"].as_str() {
            self.heard.push(words.to_owned());
        }
        if message["method"] == "notifications/resources/updated" {
            self.updated.extend(message["params"]["uri"].as_str().map(str::to_owned));
        }
    }

    /// Waits until the server has reported that a resource has changed.
    pub(crate) fn wait_for_update(&mut self, uri: &str) {
        while !self.updated.iter().any(|updated| updated == uri) {
            self.hear_one();
        }
    }

    /// Waits for one message of the server.
    pub(crate) fn hear_one(&mut self) {
        let message = self.any();
        self.hear(&message);
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        self.requests += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.requests, "method": method, "params": params });
        self.say(request.to_string().as_bytes());
        self.answer(self.requests)
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        let meta = json!({ "progressToken": self.requests });
        Reply(self.request("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta })))
    }

    /// Closes the input and returns the exit code.
    pub(crate) fn end(mut self) -> i32 {
        drop(self.input.take());
        let status = self.child.wait().expect("it ends");
        status.code().unwrap_or_else(|| panic!("the server ended by a signal: {status}"))
    }

    /// Closes the output, sends more input, and returns the exit code.
    pub(crate) fn deafened(self, last: &[u8]) -> i32 {
        let Self { mut child, mut input, output, .. } = self;
        drop(output);
        // The server may have ended before the last write.
        let _ = input.as_mut().expect("its input").write_all(last);
        drop(input);
        child.wait().expect("it ends").code().unwrap_or(-1)
    }
}

/// Answer of a tool.
#[derive(Debug)]
pub(crate) struct Reply(pub Value);

impl Reply {
    /// Returns the answer as data.
    pub(crate) fn data(&self) -> &Value {
        &self.0["result"]["structuredContent"]
    }

    pub(crate) fn text(&self) -> &str {
        self.0["result"]["content"][0]["text"].as_str().unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert_eq!(self.0["result"]["isError"], false, "{}", self.0);
        assert!(self.text().contains(words), "no `{words}` in: {}", self.text());
        self
    }

    #[track_caller]
    pub(crate) fn refuses(self, words: &str) -> Self {
        assert_eq!(self.0["result"]["isError"], true, "{}", self.0);
        assert!(self.text().contains(words), "no `{words}` in: {}", self.text());
        self
    }
}
