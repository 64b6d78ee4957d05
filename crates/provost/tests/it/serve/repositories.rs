//! Tests that a person or a program that is limited to a repository finds nothing of the others, on any route.

use std::io::{BufRead as _, BufReader, Write as _};

use serde_json::Value;

use super::{Server, id_of, token};
use crate::env::{Answer, Env, HONEST, answer, plan};

/// Words of the plan in the other repository.
const SECRET: &str = "Zebra crossing";

/// Routes of pages, from the place where they are listed, so that no new one is forgotten.
const PAGES: &str = include_str!("../../../../provost-server/src/pages.rs");

/// Two repositories with one state folder: in the second, a step waits for a person.
struct Site {
    env: Env,
    other: Env,
    server: Server,
    /// A token for the first repository only.
    limited: String,
    whole: String,
    hidden: String,
}

impl Site {
    fn new() -> Self {
        let env = Env::new(&plan(&["test -f out/1"], "escalate")).agent(HONEST).isolation("in-place");
        env.provost(&["run"]).exits(4);
        let text = plan(&["test -f out/2"], "escalate").replace("A plan", SECRET);
        let other = Env::new(&text).agent("echo done\n").isolation("in-place");
        let there = |arguments: &[&str]| -> Answer {
            answer(other.command(arguments).env("PROVOST_STATE", env.state()).output().expect("provost"))
        };
        there(&["approve", "--revision", &other.revision()]).exits(0);
        there(&["run"]).exits(4);
        let server = Server::start(&env);
        let whole = token(&env, "decide");
        let here = env.work().display().to_string();
        let arguments = ["serve", "token", "--scope", "decide", "--repository", &here];
        let limited = env.provost(&arguments).exits(0).out.trim().to_owned();
        let plans = server.get("/api/plans", &whole).is(200).json();
        let all = plans["items"].as_array().expect("plans").iter();
        let hidden = all.clone().find(|each| each["title"] == SECRET).expect("the other plan");
        let hidden = hidden["id"].as_str().expect("an id").to_owned();
        assert_eq!(all.count(), 2);
        Self { env, other, server, limited, whole, hidden }
    }

    /// Returns every route with its method.
    fn routes(&self) -> Vec<(String, String)> {
        let document = self.server.get("/api/openapi.json", &self.limited).is(200).json();
        let mut all = Vec::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            let methods = methods.as_object().expect("methods").keys();
            all.extend(
                methods.filter(|name| *name != "parameters").map(|name| (name.to_uppercase(), path.clone())),
            );
        }
        for line in PAGES.lines().filter(|line| line.trim().starts_with(".route(\"")) {
            let path = line.split('"').nth(1).expect("a path").to_owned();
            let is = |method: &str| line.contains(&format!("{method}("));
            all.extend(is("get").then(|| ("GET".to_owned(), path.clone())));
            all.extend(is("post").then(|| ("POST".to_owned(), path.clone())));
        }
        all
    }

    fn ask(&self, method: &str, path: &str, token: &str) -> super::Reply {
        let kind =
            if path.starts_with("/api/") { "application/json" } else { "application/x-www-form-urlencoded" };
        let body = if path.starts_with("/api/") { "{}" } else { "" };
        let head = [("Authorization", format!("Bearer {token}")), ("Content-Type", kind.to_owned())];
        let head: Vec<(&str, &str)> = head.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.server.bare(method, path, &head, body)
    }
}

#[test]
fn a_plan_of_another_repository_does_not_exist_on_any_route() {
    let site = Site::new();
    let (mut about_a_plan, mut others) = (0, 0);
    for (method, route) in site.routes() {
        if ["/api/events", "/enter", "/leave"].contains(&route.as_str()) {
            continue;
        }
        let path = |plan: &str| {
            let item = format!("{plan}:e7");
            let parts = [("{plan}", plan), ("{item}", &item), ("{step}", "1"), ("{id}", "000000000000")];
            parts.iter().fold(route.clone(), |path, (name, value)| path.replace(name, value))
        };
        let said = site.ask(&method, &path(&site.hidden), &site.limited);
        assert!(!said.body.contains(SECRET), "{method} {route}: {}", said.body);
        if !route.contains("{plan}") && !route.contains("{item}") {
            others += 1;
            assert!(!said.body.contains(&site.hidden), "{method} {route}: {}", said.body);
            continue;
        }
        about_a_plan += 1;
        let missing = "plan-00000000";
        let unknown = site.ask(&method, &path(missing), &site.limited);
        let same = (said.status, said.body.replace(&site.hidden, missing));
        assert_eq!(same, (unknown.status, unknown.body), "{method} {route}");
        // The page of an item that is over, or never was, says so. A body that cannot be read is refused before
        // the plan is looked up.
        let is_gone = match (method.as_str(), route.as_str()) {
            ("GET", "/inbox/{item}") => said.status == 200,
            ("GET", _) => said.status == 404,
            _ => (400..500).contains(&said.status),
        };
        assert!(is_gone, "{method} {route}: {}", said.status);
    }
    assert!(about_a_plan > 20 && others > 10, "{about_a_plan} {others}");
    // The same routes show it to a token without a limit.
    for route in ["", "/gate", "/lives", "/steps/1/transcript"] {
        site.server.get(&format!("/api/plans/{}{route}", site.hidden), &site.whole).is(200);
    }
    let stage = answer(
        site.other
            .command(&["status", "--json"])
            .env("PROVOST_STATE", site.env.state())
            .output()
            .expect("provost"),
    );
    assert_eq!(stage.json()["stage"], "in-progress");
}

#[test]
fn writes_to_a_plan_of_another_repository_find_no_plan() {
    let site = Site::new();
    let items = site.server.get("/api/inbox", &site.whole).is(200).json();
    let items: Vec<&Value> = items["items"].as_array().expect("items").iter().collect();
    let item = items.iter().find(|item| item["plan"] == site.hidden.as_str()).expect("an item")["id"].clone();
    let item = item.as_str().expect("an id");
    let body = serde_json::json!({ "choice": "skip", "note": "no" });
    site.server.post(&format!("/api/inbox/{item}/answer"), &site.limited, &body).is(404);
    for act in ["start", "stop"] {
        let path = format!("/api/plans/{}/{act}", site.hidden);
        site.server.post(&path, &site.limited, &serde_json::json!({})).is(404);
    }
    let reason = serde_json::json!({ "reason": "no" });
    site.server.post(&format!("/api/plans/{}/reject", site.hidden), &site.limited, &reason).is(404);
    // Its own plan is there, and metrics and other folders of MCP are not.
    assert_ne!(id_of(&site.server, &site.limited), site.hidden);
    assert_eq!(
        site.server.get("/api/inbox", &site.limited).is(200).json()["items"].as_array().map(Vec::len),
        Some(1)
    );
    site.server.get("/metrics", &site.limited).is(403);
    let there = site.other.work().display().to_string();
    let agent = ["serve", "token", "--scope", "agent", "--repository", &there];
    let agent = site.env.provost(&agent).exits(0).out.trim().to_owned();
    site.server.get("/mcp", &agent).is(403);
    // The cluster works for all repositories, and new plans are made in the first one.
    site.server.get("/cluster", &site.limited).is(403);
    site.server.get("/new", &site.limited).is(200);
    let elsewhere = ["serve", "token", "--scope", "decide", "--repository", &there];
    let elsewhere = site.env.provost(&elsewhere).exits(0).out.trim().to_owned();
    site.server.get("/new", &elsewhere).is(403);
}

#[test]
fn the_stream_and_the_log_have_only_events_of_its_repository() {
    let site = Site::new();
    let log = site.server.get("/api/log?limit=500", &site.limited).is(200).json();
    let plans: Vec<&Value> =
        log["items"].as_array().expect("events").iter().map(|each| &each["plan"]).collect();
    let own = id_of(&site.server, &site.limited);
    assert!(!plans.is_empty() && plans.iter().all(|plan| **plan == own.as_str()), "{plans:?}");
    // A page of the log is as long as it may be, whatever lies between its events.
    let two = site.server.get("/api/log?limit=2", &site.limited).is(200).json();
    assert_eq!(two["items"].as_array().map(Vec::len), Some(2));

    let mut stream = site.server.connect();
    let head = [("Authorization", &*format!("Bearer {}", site.limited))];
    let request = site.server.request("GET", "/api/events?after=0", &head, "");
    stream.write_all(request.as_bytes()).expect("sent");
    // Something happens in both repositories while it listens; its own comes last.
    let question = ["ask", "--question", "why?"];
    let there = answer(
        site.other
            .command(&["reject", "--reason", "no"])
            .env("PROVOST_STATE", site.env.state())
            .output()
            .expect("provost"),
    );
    drop(there);
    site.env.provost(&question).exits(0);
    let mut heard = String::new();
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a line");
        heard.push_str(&line);
        if line.contains("GATE_QUESTION_ASKED") && line.starts_with("event") {
            break;
        }
    }
    assert!(heard.contains(&own) && !heard.contains(&site.hidden), "{heard}");
}

#[test]
fn a_limited_session_is_of_a_person_who_is_no_admin() {
    let site = Site::new();
    let here = site.env.work().display().to_string();
    let refused = site.env.provost(&["serve", "link", "--scope", "admin", "--repository", &here]).exits(2);
    assert!(refused.err.contains("an admin sees all repositories"), "{}", refused.err);
    let gone = site.env.provost(&["serve", "link", "--repository", "/no/such/folder"]).exits(2);
    assert!(gone.err.contains("there is no folder"), "{}", gone.err);
    let listed = site.env.provost(&["serve", "tokens"]).exits(0).out;
    assert!(listed.contains(&format!("only {here}")), "{listed}");
}
