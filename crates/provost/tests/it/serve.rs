//! Tests `provost serve` as a process, over plain HTTP.

mod acting;
mod held;
mod news;
pub(crate) mod oidc;
mod official;
mod quorum;
mod repositories;
mod sessions;
mod sign_in;
mod steps;
mod views;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::env::{Env, HONEST, plan};

/// Sends its second argument to the address in its first, and prints the answer.
const ASK: &str = "exec 9<>/dev/tcp/${1%:*}/${1#*:}; printf '%s' \"$2\" >&9; cat <&9";

/// A server of an environment, and the link that it printed.
pub(crate) struct Server {
    child: Child,
    address: String,
    link: String,
}

/// An answer of the server.
#[derive(Debug)]
pub(crate) struct Reply {
    status: u16,
    head: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Reply {
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:?}\n{}", self.head, self.body);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn head(&self, name: &str) -> &str {
        self.head.get(name).map_or("", String::as_str)
    }
}

impl Server {
    pub(crate) fn start(env: &Env) -> Self {
        Self::at(env, "127.0.0.1:0")
    }

    fn at(env: &Env, address: &str) -> Self {
        Self::with(env, address, &[])
    }

    fn with(env: &Env, address: &str, variables: &[(&str, &str)]) -> Self {
        let mut child = env
            .command(&["serve", "--json", "--listen", address])
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("provost serve");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("stdout")).read_line(&mut line).expect("a line");
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = |name: &str| ready[name].as_str().expect("text").to_owned();
        Self { child, address: text("address"), link: text("link") }
    }

    #[cfg(feature = "cluster")]
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request with only a host header and these ones.
    pub(crate) fn bare(&self, method: &str, path: &str, head: &[(&str, &str)], body: &str) -> Reply {
        let mut stream = self.connect();
        stream.write_all(self.request(method, path, head, body).as_bytes()).expect("sent");
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        reply(&String::from_utf8_lossy(&text))
    }

    fn request(&self, method: &str, path: &str, head: &[(&str, &str)], body: &str) -> String {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !head.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in head {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        request
    }

    /// Sends a request from a new process.
    fn by_a_new_program(&self, path: &str, token: &str, body: &Value) -> Reply {
        let head = [("Authorization", &*format!("Bearer {token}")), ("Content-Type", "application/json")];
        let output = Command::new("bash")
            .args(["-c", ASK, "ask"])
            .args([&self.address, &self.request("POST", path, &head, &body.to_string())])
            .output()
            .expect("bash");
        reply(&String::from_utf8_lossy(&output.stdout))
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a time-out");
        stream
    }

    pub(crate) fn get(&self, path: &str, token: &str) -> Reply {
        self.bare("GET", path, &[("Authorization", &format!("Bearer {token}"))], "")
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> Reply {
        let head =
            [("Authorization", format!("Bearer {token}")), ("Content-Type", "application/json".to_owned())];
        let head: Vec<(&str, &str)> = head.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.bare("POST", path, &head, &body.to_string())
    }

    /// Returns the cookie that a browser gets for the link.
    pub(crate) fn enter(&self) -> String {
        let path = self.link.split_once(&self.address).expect("a link").1;
        let reply = self.bare("GET", path, &[("Accept", "text/html")], "").is(200);
        let cookie = reply.head("set-cookie");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        cookie.split(';').next().expect("a pair").to_owned()
    }

    pub(crate) fn browse(&self, path: &str, cookie: &str) -> Reply {
        self.bare("GET", path, &[("Accept", "text/html"), ("Cookie", cookie)], "")
    }

    /// Sends a form of a page as a browser would.
    pub(crate) fn submit(&self, path: &str, cookie: &str, form: &str) -> Reply {
        let origin = format!("http://{}", self.address);
        let head = [
            ("Accept", "text/html"),
            ("Cookie", cookie),
            ("Origin", &origin),
            ("Sec-Fetch-Site", "same-origin"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        self.bare("POST", path, &head, form)
    }

    pub(crate) fn subscribe(&self, query: &str, token: &str, last: Option<u64>) -> Events {
        let mut stream = self.connect();
        let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
        let request = format!(
            "GET /api/events{query} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n{last}\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).expect("a line") > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("text/event-stream"), "{head}");
        Events { lines }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An open stream of events.
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    /// Returns id, name and data of the next event.
    pub(crate) fn next(&mut self) -> Option<(u64, String, Value)> {
        let (mut id, mut name, mut data) = (0, String::new(), Value::Null);
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", text)) => id = text.parse().expect("a number"),
                Some(("event", text)) => name = text.to_owned(),
                Some(("data", text)) => data = serde_json::from_str(text).expect("JSON"),
                // An empty line ends the event; other lines belong to the chunked transfer.
                _ if line.trim_end().is_empty() && !data.is_null() => return Some((id, name, data)),
                _ => {}
            }
        }
    }
}

fn reply(text: &str) -> Reply {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let head: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let body = if head.get("transfer-encoding").is_some_and(|kind| kind == "chunked") {
        unchunked(body)
    } else {
        body.to_owned()
    };
    Reply { status: status.unwrap_or(0), head, body }
}

fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        let Some(part) = rest.get(..size).filter(|_| size > 0) else { break };
        text.push_str(part);
        body = rest.get(size + 2..).unwrap_or("");
    }
    text
}

pub(crate) fn token(env: &Env, scope: &str) -> String {
    env.provost(&["serve", "token", "--scope", scope]).exits(0).out.trim().to_owned()
}

pub(crate) fn form_key(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"form_key\" value=\"").expect("a form");
    rest.split('"').next().expect("a key").to_owned()
}

/// Creates a plan at the gate.
fn verified() -> Env {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    env
}

fn id_of(server: &Server, token: &str) -> String {
    let plans = server.get("/api/plans", token).is(200).json();
    plans["items"][0]["id"].as_str().expect("a plan").to_owned()
}

#[test]
fn nobody_comes_in_without_a_token_or_a_link_and_a_link_is_good_once() {
    let env = verified();
    let server = Server::start(&env);
    let stranger = server.bare("GET", "/api/plans", &[], "").is(401);
    assert_eq!(stranger.head("content-type"), "application/problem+json");
    assert!(stranger.json()["hint"].as_str().expect("a hint").contains("provost serve link"));
    let page = server.bare("GET", "/", &[("Accept", "text/html")], "").is(401);
    assert!(page.head("content-type").starts_with("text/html"), "{:?}", page.head);
    let cookie = server.enter();
    let page = server.browse("/", &cookie).is(200);
    assert!(page.body.contains("A plan"), "{}", page.body);
    for (name, value) in [
        ("content-security-policy", "default-src 'none'; script-src 'self'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert!(page.head(name).starts_with(value), "{name}: {:?}", page.head);
    }
    assert!(!page.head.contains_key("access-control-allow-origin"));
    assert!(
        !page.body.contains("<style") && !page.body.contains(" style=") && !page.body.contains("<script>")
    );
    let path = server.link.split_once(&server.address).expect("a link").1;
    server.bare("GET", path, &[("Accept", "text/html")], "").is(401);
    // A person who is logged in can reload it.
    server.browse(path, &cookie).is(200);
    server.browse(path, "provost_1=pvt_0").is(401);
    // A session is not valid as a token, and a token is not valid as a session.
    let word = cookie.split_once('=').expect("a pair").1.to_owned();
    server.get("/api/plans", &word).is(401);
    let view = token(&env, "view");
    server
        .bare(
            "GET",
            "/api/plans",
            &[("Cookie", &format!("{}={view}", cookie.split_once('=').expect("a pair").0))],
            "",
        )
        .is(401);
    server.get("/api/plans", &view).is(200);
    // No part of a token is listed.
    let listed = env.provost(&["serve", "tokens", "--json"]).exits(0);
    assert!(!listed.out.contains(&view[20..]), "{}", listed.out);
    let id = listed
        .json()
        .as_array()
        .expect("a list")
        .iter()
        .find(|each| each["kind"] == "token")
        .expect("it")["id"]
        .clone();
    env.provost(&["serve", "revoke", id.as_str().expect("an id")]).exits(0);
    server.get("/api/plans", &view).is(401);
    let link = env.provost(&["serve", "link"]).exits(0).out;
    assert!(link.starts_with(&format!("http://{}/enter?key=", server.address)), "{link}");
}

#[test]
fn requests_that_other_sites_make_are_refused() {
    let env = verified();
    let server = Server::start(&env);
    let view = token(&env, "view");
    let bearer = format!("Bearer {view}");
    let own = server.address.clone();
    for host in ["evil.example", "127.0.0.1", ""] {
        server.bare("GET", "/api/plans", &[("Host", host), ("Authorization", &bearer)], "").is(421);
    }
    // Two host headers, or another host in the URL.
    let twice = [("Host", own.as_str()), ("Host", "evil.example"), ("Authorization", &bearer)];
    server.bare("GET", "/api/plans", &twice, "").is(421);
    server.bare("GET", "http://evil.example/api/plans", &[("Authorization", &bearer)], "").is(421);
    let port = own.rsplit(':').next().expect("a port");
    server
        .bare("GET", "/api/plans", &[("Host", &format!("localhost:{port}")), ("Authorization", &bearer)], "")
        .is(200);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"] {
        server.bare("GET", "/api/plans", &[("Origin", origin), ("Authorization", &bearer)], "").is(403);
    }
    server
        .bare("GET", "/api/plans", &[("Sec-Fetch-Site", "cross-site"), ("Authorization", &bearer)], "")
        .is(403);
    server.bare("GET", "/healthz", &[], "").is(200);
    server.bare("GET", "/readyz", &[], "").is(200);
    server.bare("GET", "/metrics", &[], "").is(401);
    let metrics = server.get("/metrics", &view).is(200).body;
    assert!(metrics.contains("provost_plans{stage=\"verified\"} 1"), "{metrics}");
    assert!(metrics.contains("provost_waiting{kind=\"approval\"} 1"), "{metrics}");
    let beyond = env.provost(&["serve", "--listen", "0.0.0.0:0"]).exits(2);
    assert!(beyond.err.contains("--behind-proxy"), "{}", beyond.err);
}

#[test]
fn a_browser_decides_with_the_key_of_its_page_and_in_its_persons_name() {
    let env = verified();
    let server = Server::start(&env);
    let cookie = server.enter();
    let view = token(&env, "view");
    let id = id_of(&server, &view);
    let place = format!("/plans/{id}/gate");
    let page = server.browse(&place, &cookie).is(200).body;
    assert!(page.contains("all of it is new") && page.contains("test -f out/1"), "{page}");
    let revision = env.revision();
    let form = format!("decision=approve&revision={revision}");
    // Without the form key, with a wrong one, without an origin, from another origin.
    server.submit(&place, &cookie, &form).is(403);
    server.submit(&place, &cookie, &format!("{form}&form_key=0")).is(403);
    let keyed = format!("{form}&form_key={}", form_key(&page));
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    server.bare("POST", &place, &[("Cookie", &cookie), kind], &keyed).is(403);
    server
        .bare("POST", &place, &[("Cookie", &cookie), kind, ("Origin", "http://evil.example")], &keyed)
        .is(403);
    assert_eq!(env.stage(), "verified");
    server.submit(&place, &cookie, &keyed).is(303);
    assert_eq!(env.stage(), "approved");
    let log = env.provost(&["log", "--json", "--event", "GATE_APPROVED"]).exits(0);
    assert_eq!(log.lines()[0]["details"]["by"]["person"], "ada");
    // The second approval is refused and names the first approver.
    let again = server.submit(&place, &cookie, &keyed).is(409);
    assert!(again.body.contains("ada already approved"), "{}", again.body);
}

#[test]
fn a_run_is_started_and_stopped_on_the_page() {
    let agent = "touch begun; sleep 120\n";
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(agent).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    let server = Server::start(&env);
    let cookie = server.enter();
    let view = token(&env, "view");
    let id = id_of(&server, &view);
    let place = format!("/plans/{id}");
    let key = form_key(&server.browse(&format!("{place}/gate"), &cookie).is(200).body);
    let act = |action: &str| server.submit(&place, &cookie, &format!("action={action}&form_key={key}"));
    let state = || server.get(&format!("/api/plans/{id}"), &view).is(200).json()["state"].clone();
    // A start approves nothing, and needs the key of the page and the right to decide.
    assert!(act("start").is(409).body.contains("not approved"));
    env.approve();
    assert!(server.browse(&place, &cookie).is(200).body.contains("value=\"start\""));
    server.submit(&place, &cookie, "action=start").is(403);
    server.post(&format!("/api/plans/{id}/start"), &view, &json!({})).is(403);
    assert_eq!(state(), "idle");
    act("start").is(303);
    let begun = Instant::now();
    while !env.work().join("begun").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the run did not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(state(), "running");
    assert!(act("start").is(409).body.contains("another run works in this workspace"));
    assert!(server.browse(&place, &cookie).is(200).body.contains("value=\"stop\""));
    act("stop").is(303);
    assert_eq!(state(), "idle");
}

/// The gate itself runs the checks on the base and shows the results, without `provost show` before.
#[test]
fn the_gate_has_the_checks_tried_on_the_base() {
    let env = Env::new(&plan(&["test -d ."], "escalate")).agent(HONEST);
    if !env.has_fences() {
        return;
    }
    env.provost(&["verify"]).exits(0);
    let server = Server::start(&env);
    let view = token(&env, "view");
    let id = id_of(&server, &view);
    let mut gate = server.get(&format!("/api/plans/{id}/gate"), &view).is(200).json();
    assert!(gate["on_base_under_way"] == true || gate["on_base"][0].is_string(), "{gate}");
    while gate["on_base_under_way"] == true {
        std::thread::sleep(Duration::from_millis(50));
        gate = server.get(&format!("/api/plans/{id}/gate"), &view).is(200).json();
    }
    let said = "1 of 1 check holds already and proves nothing about the work";
    assert!(gate["on_base"][0].as_str().is_some_and(|line| line.contains(said)), "{gate}");
    let page = server.browse(&format!("/plans/{id}/gate"), &server.enter()).is(200).body;
    assert!(page.contains(said), "{page}");
    // The task, the program and the result of the check are beside the step that is approved.
    for part in ["Do part 1 of the work", "<code>bash agent.sh</code>", "On the base: ", "holds already"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("class=\"decision-bar\""), "{page}");
}

#[test]
fn of_two_who_decide_at_once_one_wins_and_the_other_is_told_why() {
    let env = verified();
    let server = Server::start(&env);
    let (one, two) = (token(&env, "decide"), token(&env, "decide"));
    let id = id_of(&server, &one);
    let body = json!({ "revision": env.revision() });
    let path = format!("/api/plans/{id}/gate/approve");
    server.post(&path, &token(&env, "view"), &body).is(403);
    let replies = std::thread::scope(|scope| {
        let both = [&one, &two].map(|token| scope.spawn(|| server.post(&path, token, &body)));
        both.map(|reply| reply.join().expect("a reply"))
    });
    let mut codes: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    codes.sort_unstable();
    assert_eq!(codes, [200, 409], "{replies:?}");
    let told = replies.iter().find(|reply| reply.status == 409).expect("one").json();
    assert!(told["detail"].as_str().expect("words").contains("already approved"), "{told}");
    let approvals = env.events().iter().filter(|name| *name == "GATE_APPROVED").count();
    assert_eq!(approvals, 1);
}

#[test]
fn a_decision_is_made_once_and_a_stale_one_is_refused() {
    let env = verified();
    let server = Server::start(&env);
    let decide = token(&env, "decide");
    let id = id_of(&server, &decide);
    let stale = server.post(
        &format!("/api/plans/{id}/gate/approve"),
        &decide,
        &json!({ "revision": "0".repeat(64) }),
    );
    assert_eq!(stale.is(409).json()["type"], "urn:provost:problem:stale");
    server.post(&format!("/api/plans/{id}/gate/approve"), &decide, &json!({ "rev": 1 })).is(422);
    server.post("/api/plans/none/gate/approve", &decide, &json!({ "revision": "0".repeat(64) })).is(404);
    let gate = server.get(&format!("/api/plans/{id}/gate"), &decide).is(200).json();
    let text = gate["text"].as_str().expect("a text").replace("# A plan", "# A better plan");
    let amend = format!("/api/plans/{id}/gate/amend");
    server.post(&amend, &decide, &json!({ "text": "# no plan", "digest": gate["digest"] })).is(422);
    server.post(&amend, &decide, &json!({ "text": text, "digest": "0" })).is(409);
    server.post(&amend, &decide, &json!({ "text": text, "digest": gate["digest"] })).is(200);
    assert!(env.read("PLAN.md").contains("# A better plan"));
    assert_eq!(server.get(&format!("/api/plans/{id}"), &decide).is(200).json()["title"], "A better plan");
    // An `Idempotency-Key` is ignored; the rules of the gate refuse the repetition.
    let gate = server.get(&format!("/api/plans/{id}/gate"), &decide).is(200).json();
    let (bearer, body) = (format!("Bearer {decide}"), json!({ "revision": gate["revision"] }).to_string());
    let head = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "no key at all"),
    ];
    let approve = || server.bare("POST", &format!("/api/plans/{id}/gate/approve"), &head, &body);
    approve().is(200);
    assert_eq!(approve().is(409).json()["type"], "urn:provost:problem:already-approved");
    assert_eq!(env.events().iter().filter(|name| *name == "GATE_APPROVED").count(), 1);
}

/// Enter in a field presses the first button of its form, which is disabled for every item.
#[test]
fn enter_in_the_inbox_decides_nothing() {
    let human = plan(&["x"], "escalate");
    let (from, to) = (human.find("**contract:**").expect("one"), human.find("**on_fail:**").expect("one"));
    let human = format!("{}**contract:** human\n{}", &human[..from], &human[to..]);
    for text in [human, plan(&["test -f out/1"], "escalate")] {
        let env = Env::new(&text).agent("true\n").isolation("in-place");
        let mut person = env.person();
        env.provost(&["verify"]).exits(0);
        person.approve();
        env.provost(&["run"]).exits(4);
        let server = Server::start(&env);
        let page = server.browse("/inbox", &server.enter()).is(200).body;
        let form = page.split("<form").find(|form| form.contains("name=\"choice\"")).expect("a form");
        let first =
            form.split("<button").nth(1).and_then(|button| button.split('>').next()).expect("a button");
        assert!(first.contains("disabled") && !first.contains("choice"), "{first}");
        assert!(form.contains("<textarea") && form.contains("name=\"note\""), "{form}");
    }
}

/// An answer that ends the plan is asked for again, and the page then shows what the log recorded.
#[test]
fn an_answer_that_ends_the_plan_is_asked_for_twice() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent("true\n").isolation("clean");
    env.approve();
    env.provost(&["run"]).exits(4);
    let server = Server::start(&env);
    let cookie = server.enter();
    let view = token(&env, "view");
    let inbox = server.get("/api/inbox", &view).is(200).json();
    let item = inbox["items"][0]["id"].as_str().expect("an item").to_owned();
    let place = format!("/inbox/{item}");
    let page = server.browse(&place, &cookie).is(200).body;
    let form = format!("choice=abort&note=not+worth+it&form_key={}", form_key(&page));
    let again = server.submit(&place, &cookie, &form).is(200).body;
    assert!(again.contains("are you sure?") && again.contains("not worth it"), "{again}");
    assert_eq!(env.stage(), "in-progress");
    let done = server.submit(&place, &cookie, &format!("{form}&sure=yes")).is(303);
    assert_eq!(env.stage(), "failed");
    let page = server.browse(done.head("location"), &cookie).is(200).body;
    assert!(page.contains("Recorded: ") && page.contains("not worth it"), "{page}");
    // The address of the item says that it is over.
    assert!(server.browse(&place, &cookie).is(200).body.contains("This item is not open any more."));
    // The answer is taken back where it was given, and the step is tried again.
    assert!(page.contains("Undo: try step 1 again"), "{page}");
    let id = id_of(&server, &view);
    let plan = format!("/plans/{id}");
    assert!(server.browse(&plan, &cookie).is(200).body.contains("Try step 1 again"));
    server.submit(&plan, &cookie, "action=retry").is(403);
    assert_eq!(env.stage(), "failed");
    let undo = format!("action=retry&form_key={}", form_key(&page));
    server.submit(&plan, &cookie, &undo).is(303);
    assert_eq!((env.stage().as_str(), env.states().as_str()), ("in-progress", "1 pending"));
    let twice = server.submit(&plan, &cookie, &undo).is(409).body;
    assert!(twice.contains("the plan is in-progress, not failed"), "{twice}");
    env.write("agent.sh", HONEST);
    env.provost(&["run"]).exits(0);
    assert_eq!(env.stage(), "done");
}

#[test]
fn what_a_plan_and_an_agent_say_is_shown_and_never_obeyed() {
    let text = plan(&["test -f out/1"], "escalate").replace("# A plan", "# <b>bold</b> & 'quoted'");
    let agent = "printf '%s' '<script>alert(1)</script>'; printf '\\033[2J\\342\\200\\256'; printf '\"><img src=x onerror=alert(2)>'\n";
    let env = Env::new(&text).agent(agent).isolation("in-place");
    let mut person = env.person();
    env.provost(&["verify"]).exits(0);
    person.approve();
    env.provost(&["run"]).exits(4);
    let server = Server::start(&env);
    let cookie = server.enter();
    let id = id_of(&server, &token(&env, "view"));
    let own = ["", "/gate", "/steps", "/changes", "/timeline", "/text", "/steps/1"];
    let own = own.map(|rest| format!("/plans/{id}{rest}"));
    for path in ["/", "/inbox", "/log"].into_iter().chain(own.iter().map(String::as_str)) {
        let page = server.browse(path, &cookie).is(200).body;
        assert!(
            !page.contains("<script>alert") && !page.contains("<img") && !page.contains("<b>bold"),
            "{page}"
        );
        assert!(!page.contains(['\u{1b}', '\u{202e}']), "{path} has control characters");
    }
    let page = server.browse(&format!("/plans/{id}/steps"), &cookie).body;
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && page.contains("␛[2J"), "{page}");
    assert!(page.contains("&lt;U+202E&gt;"), "{page}");
}

#[test]
fn events_are_live_filtered_and_none_is_lost_when_the_server_is_killed() {
    let env = verified();
    let mut server = Server::start(&env);
    let view = token(&env, "view");
    let id = id_of(&server, &view);
    let mut all = server.subscribe("?after=0", &view, None);
    let (first, name, data) = all.next().expect("an event");
    assert_eq!((name.as_str(), data["seq"].as_u64()), ("PLAN_CREATED", Some(1)));
    let mut gate = server.subscribe(&format!("?plan={id}&event=GATE_APPROVED"), &view, None);
    let mut last = first;
    while let Some((at, name, _)) = all.next() {
        last = at;
        if name == "PLAN_VERIFIED" {
            break;
        }
    }
    env.approve();
    let (at, name, data) = gate.next().expect("an event");
    assert_eq!((name.as_str(), data["plan"].as_str()), ("GATE_APPROVED", Some(id.as_str())));
    assert!(at > last);
    // After a kill and a restart on the same port, a subscriber continues where it was.
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
    assert!(gate.next().is_none());
    env.provost(&["run"]).exits(0);
    let address = server.address.clone();
    drop(server);
    let server = Server::at(&env, &address);
    let mut again = server.subscribe("", &view, Some(last));
    let mut seen = Vec::new();
    while seen.last().is_none_or(|name| name != "EXECUTION_COMPLETE") {
        seen.push(again.next().expect("an event").1);
    }
    let whole = env.events();
    assert_eq!(seen[..], whole[whole.len() - seen.len()..]);
    assert!(seen.contains(&"GATE_APPROVED".to_owned()) && seen.contains(&"TASK_COMPLETED".to_owned()));
    server
        .bare(
            "GET",
            "/api/events",
            &[("Authorization", &format!("Bearer {view}")), ("Last-Event-ID", "x")],
            "",
        )
        .is(400);
}

#[test]
fn a_run_that_ends_is_sent_to_the_collector() {
    let env = verified();
    let collector = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = format!("http://{}", collector.local_addr().expect("an address"));
    let server = Server::with(&env, "127.0.0.1:0", &[("OTEL_EXPORTER_OTLP_ENDPOINT", &place)]);
    env.approve();
    env.provost(&["run"]).exits(0);
    let (mut stream, _) = collector.accept().expect("a request");
    let mut lines = BufReader::new(stream.try_clone().expect("a stream"));
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).expect("a line") > 0, "{head}");
        if let Some(("content-length", value)) = line.to_lowercase().split_once(": ") {
            length = value.trim().parse().expect("a length");
        }
        head.push_str(&line);
    }
    assert!(head.starts_with("POST /v1/traces "), "{head}");
    let mut body = vec![0; length];
    lines.read_exact(&mut body).expect("a body");
    assert!(String::from_utf8_lossy(&body).contains("invoke_workflow"));
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").expect("an answer");
    let view = token(&env, "view");
    let metric = "provost_traces_total{outcome=\"sent\"} 1";
    let begun = Instant::now();
    while !server.get("/metrics", &view).is(200).body.contains(metric) {
        assert!(begun.elapsed() < Duration::from_secs(300), "{}", server.get("/metrics", &view).body);
    }
}

#[test]
fn what_waits_is_answered_over_the_api() {
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent("echo nothing\n").isolation("in-place");
    let mut person = env.person();
    env.provost(&["verify"]).exits(0);
    person.approve();
    env.provost(&["run"]).exits(4);
    let server = Server::start(&env);
    let decide = token(&env, "decide");
    let inbox = server.get("/api/inbox", &decide).is(200).json();
    let item = inbox["items"][0]["id"].as_str().expect("an item").to_owned();
    assert_eq!(inbox["items"][0]["kind"], "escalation");
    let path = format!("/api/inbox/{item}/answer");
    server.post(&path, &decide, &json!({ "choice": "maybe" })).is(422);
    // If agents ran without a sandbox, skipping needs a terminal; retrying does not.
    let skip = server.by_a_new_program(&path, &decide, &json!({ "choice": "skip" })).is(403).json();
    assert_eq!(skip["type"], "urn:provost:problem:not-here");
    server.post(&path, &decide, &json!({ "choice": "retry", "note": "once more" })).is(200);
    let log = env.provost(&["log", "--json", "--event", "HUMAN_ANSWERED"]).exits(0);
    assert_eq!(log.lines()[0]["details"]["by"], "ada");
    server.post(&path, &decide, &json!({ "choice": "retry" })).is(404);
}

#[test]
fn an_agent_inside_an_attempt_gets_nowhere_and_it_is_recorded() {
    // The agent has a person's token, and runs without a sandbox.
    let agent = "ask() { exec 9<>/dev/tcp/${1%:*}/${1#*:}; cat $2 >&9; cat <&9; }\n\
                 ask $(cat address) look > looked\nask $(cat address) reject > rejected\n\
                 mkdir -p out; echo x > out/1\n";
    let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(agent).isolation("in-place");
    env.provost(&["verify"]).exits(0);
    let server = Server::start(&env);
    let decide = token(&env, "decide");
    let id = id_of(&server, &decide);
    let bearer = format!("Bearer {decide}");
    let head = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    env.write("address", &server.address);
    env.write("look", server.request("GET", "/api/plans", &head, ""));
    let reject = json!({ "reason": "mine" }).to_string();
    env.write("reject", server.request("POST", &format!("/api/plans/{id}/gate/reject"), &head, &reject));
    env.approve();
    env.provost(&["run"]).exits(0);
    for file in ["looked", "rejected"] {
        let refused = reply(&env.read(file)).is(403).json();
        assert_eq!(refused["type"], "urn:provost:problem:not-a-person", "{refused}");
    }
    let log = env.provost(&["log", "--json", "--event", "TAMPER_DETECTED"]).exits(0);
    let what = log.lines()[0]["details"]["what"].as_str().expect("words").to_owned();
    assert!(what.contains("from inside attempt"), "{what}");
    assert!(!env.events().contains(&"GATE_REJECTED".to_owned()));
    // A client outside of the attempt still has access.
    server.get("/api/plans", &decide).is(200);
}

#[test]
fn what_a_step_changed_is_shown_file_by_file() {
    let text = plan(&["test -f out/1", "test -f out/2"], "escalate");
    let agent = format!("{HONEST}printf 'one\\n' >> out/all; printf '\\377' > out/binary\n");
    let env = Env::new(&text).agent(&agent).isolation("guard+clean");
    env.approve();
    env.provost(&["run"]).exits(0);
    let server = Server::start(&env);
    let view = token(&env, "view");
    let id = id_of(&server, &view);
    let changes = server.get(&format!("/api/plans/{id}/steps/2/changes"), &view).is(200).json();
    let file = |path: &str| {
        let files = changes["files"].as_array().expect("files");
        files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("{changes}")).clone()
    };
    assert_eq!((&file("out/2")["old"], &file("out/2")["new"]), (&Value::Null, &json!("done\n")));
    assert_eq!((&file("out/all")["old"], &file("out/all")["new"]), (&json!("one\n"), &json!("one\none\n")));
    server.get(&format!("/api/plans/{id}/steps/9/changes"), &view).is(404);
    server.get(&format!("/api/plans/{id}/steps/x/changes"), &view).is(400);
    let first = server.get(&format!("/api/plans/{id}/steps/1/changes"), &view).is(200).json();
    let files = first["files"].as_array().expect("files");
    let binary = files.iter().find(|file| file["path"] == "out/binary").expect("it");
    assert_eq!(binary["unshown"], "it is no text");
}

#[test]
fn the_document_says_what_there_is() {
    let env = verified();
    let server = Server::start(&env);
    let view = token(&env, "view");
    let document = server.get("/api/openapi.json", &view).is(200).json();
    assert!(document["openapi"].as_str().expect("a version").starts_with("3.1"), "{document}");
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            assert!(operation["responses"]["401"].is_object(), "{method} {path} does not say who may");
        }
    }
    server.bare("DELETE", "/api/plans", &[("Authorization", &format!("Bearer {view}"))], "").is(405);
    server.get("/api/plans?limit=0", &view).is(400);
    server.get("/api/plans?nothing=1", &view).is(400);
    let events = server.get("/api/log?limit=1", &view).is(200).json();
    let before = events["next"].as_u64().expect("more");
    let older = server.get(&format!("/api/log?limit=1&before={before}"), &view).is(200).json();
    assert!(older["items"][0]["cursor"].as_u64().expect("a cursor") < before, "{older}");
    server.get("/api/log?since=yesterday", &view).is(400);
    let proofs = server.get(&format!("/api/plans/{}/proofs", id_of(&server, &view)), &view).is(200).json();
    assert_eq!(proofs["sound"], true);
}
