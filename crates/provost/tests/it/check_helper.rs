//! Tests `provost-check`: each recipe inside of a real check, on work that holds and on work that does not.

use std::process::Command;

use provost_rehearsal::skip;
use serde_json::Value;

use crate::env::{Answer, Env, answer, plan, works};

const SERVICE: &str = r#"
import json, os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.path == "/user"
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"name": "Ada", "age": 36}).encode() if known else b"nothing here")
HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"#;

/// Returns a committed project with these files, if the machine has the level `clean`.
fn project(files: &[(&str, &str)]) -> Option<Env> {
    let env = made(files);
    env.has_fences().then_some(env)
}

fn made(files: &[(&str, &str)]) -> Env {
    let env = Env::new(&plan(&["true"], "escalate"));
    files.iter().for_each(|(name, text)| env.write(name, text));
    commit(&env);
    env
}

fn commit(env: &Env) {
    env.git(&["add", "--all"]);
    env.git(&["commit", "--quiet", "--message", "work"]);
}

/// Tries a command; returns the exit code of `provost try` and all that it prints.
fn tried(env: &Env, command: &str) -> (i32, String) {
    let Answer { code, out, err, .. } = env.provost(&["try", command]);
    (code, out + &err)
}

fn holds(env: &Env, command: &str) -> String {
    let (code, out) = tried(env, command);
    assert_eq!(code, 0, "{command}: {out}");
    out
}

/// Checks that a command does not hold, and that it says why.
fn fails(env: &Env, command: &str, why: &str) {
    let (code, out) = tried(env, command);
    assert_eq!(code, 1, "{command}: {out}");
    assert!(out.contains(why), "{command} does not say {why:?}: {out}");
}

/// Starts the program outside of a check.
fn outside_of_a_check(env: &Env, words: &[&str]) -> Answer {
    answer(env.command(&[&["check-helper"], words].concat()).output().expect("provost"))
}

#[test]
fn a_service_is_started_asked_and_ended() {
    let Some(env) = project(&[("app.py", SERVICE)]) else { return };
    holds(&env, "provost-check http --path /user --json /name=Ada --json /age=36 -- python3 app.py");
    holds(
        &env,
        "provost-check http --port 8123 --path /no --status 404 --contains nothing -- python3 app.py",
    );
    fails(
        &env,
        "provost-check http --path /user --json /name=Bob --contains Eve -- python3 app.py",
        "/name is \"Ada\", and should be \"Bob\"",
    );
    fails(&env, "provost-check http --path /no -- python3 app.py", "the status is 404, and should be 200");
    let crash = "provost-check http -- python3 -c 'print(\"no database\"); raise SystemExit(3)'";
    fails(&env, crash, "the service ended with exit code 3 before port");
    fails(&env, crash, "  | no database");
    fails(&env, "provost-check http --wait 1s -- sleep 60", "did not answer within 1s");
    let (code, out) = tried(&env, "provost-check http --json name=Ada -- python3 app.py");
    assert!(code == 1 && out.contains("write /POINTER=VALUE") && out.contains("exit 2"), "{out}");
}

/// Returns whether a process with this word in its command line is alive.
fn is_alive(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).any(|line| line.contains(word))
}

#[test]
fn no_process_of_a_service_is_left_behind() {
    let env = made(&[("app.py", SERVICE)]);
    let number = std::process::id();
    // One in another session, one that ignores the request to end, and one whose parent has ended.
    let start = format!(
        "setsid sleep 71{number} & (trap '' TERM; sleep 72{number}) & (sleep 73{number} &) ; exec python3 app.py"
    );
    let common = ["http", "--path", "/user", "--", "bash", "-c", &start];
    let held = outside_of_a_check(&env, &common).exits(0);
    assert!(held.out.contains("holds: http://127.0.0.1:"), "{held:?}");
    let failed = [&["http", "--status", "500"], &common[1..]].concat();
    outside_of_a_check(&env, &failed).exits(1);
    for word in ["71", "72", "73"] {
        assert!(!is_alive(&format!("{word}{number}")), "sleep {word}{number} is left behind");
    }
}

#[test]
fn a_service_is_ended_if_the_recipe_is_asked_to_end() {
    let env = made(&[]);
    let word = format!("74{}", std::process::id());
    let started = env.start(&["check-helper", "http", "--", "sleep", &word]);
    let alive = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::fs::read_dir("/proc").is_ok_and(|_| is_alive(&format!("sleep\0{word}")))
    });
    assert!(alive, "the service was never started");
    let asked = Command::new("kill").arg(started.id().to_string()).status().expect("kill");
    assert!(asked.success());
    let ended = answer(started.wait_with_output().expect("an end")).exits(69);
    assert!(ended.err.contains("could not be run: it was interrupted"), "{ended:?}");
    assert!(!is_alive(&format!("sleep\0{word}")));
}

#[test]
fn a_port_that_is_taken_is_not_taken_for_the_service() {
    let env = made(&[]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let refused = outside_of_a_check(&env, &["http", "--port", &port, "--", "sleep", "1"]).exits(69);
    assert!(refused.err.contains("answers before the service was started"), "{refused:?}");
}

#[test]
fn sizes_are_compared_with_a_limit_and_with_the_last_commit() {
    let text = "0123456789".repeat(100);
    let build = "mkdir -p dist && cat app.js app.js > dist/out";
    let Some(env) = project(&[("app.js", &text), ("build.sh", build)]) else { return };
    holds(&env, "provost-check size app.js build.sh --max 1kB");
    fails(&env, "provost-check size app.js --max 999", "app.js has 1,000 bytes; the limit is 999 bytes");
    env.write("app.js", text.clone() + &"x".repeat(60));
    holds(&env, "provost-check size app.js --max-growth 6%");
    fails(&env, "provost-check size app.js --max-growth 5%", "1,060 bytes, +6.0 % from 1,000 bytes");
    holds(&env, "bash build.sh && provost-check size dist --max-growth 10% --build 'bash build.sh'");
    fails(
        &env,
        "bash build.sh && provost-check size dist --max-growth 1% --build 'bash build.sh'",
        "dist has 2,120 bytes, +6.0 % from 2,000 bytes",
    );
    holds(&env, "provost-check size app.js --max-growth 0% --than 2kB");
    let (code, out) = tried(&env, "touch new; provost-check size new --max-growth 5%");
    assert!(code == 4 && out.contains("use --build or --than"), "{out}");
}

#[test]
fn a_command_is_compared_with_the_last_commit() {
    let Some(env) = project(&[("work.sh", "sleep 0.15\n")]) else { return };
    env.write("work.sh", "sleep 0.02\n");
    let fast = holds(&env, "provost-check faster --ratio 0.7 --runs 6 -- bash work.sh");
    assert!(fast.contains("95 % interval"), "{fast}");
    fails(&env, "provost-check faster --base 'sleep 0.02' --runs 6 -- sleep 0.15", "the limit is 1");
    fails(&env, "provost-check faster --base true --runs 6 -- bash -c 'echo no >&2; exit 3'", "exit code 3");
}

fn openapi(kind: &str) -> String {
    format!(
        "openapi: 3.0.0\npaths:\n  /users:\n    get:\n      parameters:\n        - {{in: query, name: limit, \
         schema: {{type: {kind}}}}}\n      responses:\n        '200': {{description: ok}}\n"
    )
}

#[test]
fn an_api_may_not_break_its_clients() {
    let Some(env) = project(&[("openapi.yaml", &openapi("integer"))]) else { return };
    env.write("openapi.yaml", openapi("number"));
    holds(&env, "provost-check api --new openapi.yaml");
    env.write("openapi.yaml", openapi("boolean"));
    fails(
        &env,
        "provost-check api --new openapi.yaml",
        "GET /users: the query parameter `limit`: the type integer is no longer accepted",
    );
    env.write("old.json", r#"{"type": "object", "properties": {"a": {"type": "string"}}}"#);
    env.write("new.json", r#"{"type": "object", "properties": {}}"#);
    fails(&env, "provost-check api --old old.json --new new.json", "the document.a was removed");
}

/// A program that migrates a real database; `down` of the second argument forgets an index.
const MIGRATE: &str = r#"
import sqlite3, sys
base = sqlite3.connect("app.db")
up = "CREATE TABLE users (id INTEGER, name TEXT); CREATE INDEX by_name ON kept (name)"
down = {"good": "DROP TABLE users; DROP INDEX by_name", "bad": "DROP TABLE users"}
if sys.argv[1] == "dump":
    print("\n".join(row[0] for row in base.execute("SELECT sql FROM sqlite_master ORDER BY name")))
else:
    base.executescript(up if sys.argv[1] == "up" else down[sys.argv[2]])
"#;

#[test]
fn a_migration_is_taken_back_on_a_real_database() {
    let Some(env) = project(&[("migrate.py", MIGRATE)]) else { return };
    let recipe = |up: &str, down: &str| {
        format!(
            "python3 -c 'import sqlite3; sqlite3.connect(\"app.db\").execute(\"CREATE TABLE kept (name TEXT)\")'\n\
             provost-check migration --idempotent --up '{up}' --down '{down}' --dump 'python3 migrate.py dump'"
        )
    };
    let up = "python3 migrate.py up";
    holds(&env, &recipe(up, "python3 migrate.py down good"));
    fails(&env, &recipe(up, "python3 migrate.py down bad"), "+CREATE INDEX by_name ON kept (name)");
    fails(&env, &recipe("true", "true"), "--up did not change the schema");
    fails(&env, &recipe("exit 7", "true"), "--up ended with exit code 7");
}

#[test]
fn changed_lines_must_be_covered() {
    let Some(env) = project(&[("src/a.py", "one\ntwo\nthree\n")]) else { return };
    env.write("src/a.py", "one\nTWO\nTHREE\n");
    let report =
        |hits: [u32; 2]| format!("SF:src/a.py\nDA:1,0\nDA:2,{}\nDA:3,{}\nend_of_record\n", hits[0], hits[1]);
    env.write("lcov.info", report([1, 4]));
    holds(&env, "provost-check coverage --lcov lcov.info --min 100");
    env.write("lcov.info", report([1, 0]));
    holds(&env, "provost-check coverage --lcov lcov.info --min 50");
    fails(
        &env,
        "provost-check coverage --lcov lcov.info --min 80",
        "src/a.py: no test runs the changed lines 3",
    );
    env.write("src/new.py", "four\n");
    fails(&env, "provost-check coverage --lcov lcov.info --min 50", "src/new.py is not in the report");
    holds(&env, "provost-check coverage --lcov lcov.info --min 50 --ignore 'src/new.py'");
    fails(&env, "provost-check coverage --lcov none.info --min 50", "none.info cannot be read");
}

#[test]
fn links_lead_to_files_and_headings() {
    let one = "# One thing\n\n[b](sub/b.md#other) [own](#one-thing) [site](https://example.org/)\n";
    let other = "# Other\n\n[up](../a.md)\n";
    let Some(env) = project(&[("docs/a.md", one), ("docs/sub/b.md", other)]) else { return };
    let held = holds(&env, "provost-check links docs");
    assert!(held.contains("holds: 4 links in 2 files"), "{held}");
    env.write("docs/sub/b.md", "# Another\n\n[gone](../c.md)\n");
    fails(&env, "provost-check links 'docs/**/*.md'", "docs/sub/b.md:3: ../c.md: no such file");
    fails(&env, "provost-check links docs/a.md", "docs/a.md:3: sub/b.md#other: no such heading");
    fails(&env, "provost-check links nowhere", "nowhere: no Markdown file is there");
}

const PAGE: &str = "<!doctype html><p id=p></p><script>\
    setTimeout(() => { document.getElementById('p').textContent = 'Wel' + 'come' }, 100)</script>";

#[test]
fn a_page_is_opened_in_a_browser() {
    if !works("chromium", "apt-get install chromium") {
        return;
    }
    let broken = format!("{PAGE}<script>nothing.at.all()</script><img src=gone.png>");
    let Some(env) = project(&[("good/index.html", PAGE), ("bad/index.html", &broken)]) else { return };
    let recipe =
        |rest: &str| format!("provost-check page {rest} -- python3 -m http.server {{port}} --bind 127.0.0.1");
    holds(&env, &recipe("--path good/ --text Welcome --no-console-errors"));
    holds(&env, &recipe("--path bad/ --text Welcome"));
    fails(&env, &recipe("--path bad/ --no-console-errors"), "ReferenceError: nothing is not defined");
    fails(&env, &recipe("--path bad/ --no-console-errors"), "gone.png");
    fails(&env, &recipe("--wait 3s --path good/ --text Goodbye"), "the page does not show \"Goodbye\"");
}

#[test]
fn a_page_keeps_its_look_or_looks_like_a_picture() {
    if !works("chromium", "apt-get install chromium") {
        return;
    }
    let page = "<!doctype html><body style=\"background: #fff\"><h1 style=\"color: #036\">Orders</h1>";
    let Some(env) = project(&[("index.html", page)]) else { return };
    let recipe = |rest: &str| {
        format!("provost-check screenshot {rest} -- python3 -m http.server {{port}} --bind 127.0.0.1")
    };
    holds(&env, &recipe(""));
    env.write("index.html", page.replace("#036", "#630"));
    fails(&env, &recipe(""), "differ from the page of the last commit, between");
    holds(&env, &recipe("--max-difference 5%"));
    fails(&env, &recipe("--expected none.png"), "`--save none.png` writes how the page looks now");
    holds(
        &env,
        &format!(
            "{}; {}",
            recipe("--size 400x300 --save seen.png"),
            recipe("--size 400x300 --expected seen.png")
        ),
    );
    fails(
        &env,
        &format!("{}; {}", recipe("--size 400x300 --save seen.png"), recipe("--expected seen.png")),
        "seen.png has 400x300 pixels, the page 1280x800",
    );
    env.write("no.png", "no picture");
    fails(&env, &recipe("--expected no.png"), "no.png is no picture");
}

#[test]
fn without_a_browser_a_page_could_not_be_run() {
    let Some(env) = project(&[]) else { return };
    let (code, out) =
        tried(&env, "PATH=$(dirname \"$(command -v provost-check)\") provost-check page --text x -- sleep 1");
    assert!(code == 4 && out.contains("none of chromium,"), "{out}");
}

#[test]
fn a_program_of_the_project_does_not_take_its_place() {
    let own = "node_modules/.bin/provost-check";
    let Some(env) = project(&[("package.json", "{}"), (own, "#!/bin/sh\nexit 0\n")]) else { return };
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(env.work().join(own), mode).unwrap();
    commit(&env);
    let both = "type -a provost-check; provost-check links nowhere";
    fails(&env, both, "nowhere: no Markdown file is there");
    fails(&env, both, own);
}

#[test]
fn a_verdict_records_the_program() {
    let Some(env) = project(&[("README.md", "# A\n")]) else { return };
    let tools = |command: &str| -> Value {
        let json = env.provost(&["try", "--json", command]).json();
        json["workspace"]["environment"]["tools"]["provost-check"].clone()
    };
    let recorded = tools("LC_ALL=C provost-check links README.md");
    let version = recorded["version"].as_str().expect("a version");
    assert!(version.starts_with("provost-check ") && version.contains(" sha256:"), "{recorded}");
    assert_eq!(recorded, tools("provost-check links README.md"), "the same program");
    assert_eq!(tools("true"), Value::Null, "only if the contract calls it");
}

#[test]
fn recipes_are_there_at_weaker_levels_too() {
    let checked = ["guard+clean", "landlock", "in-place"].map(|level| {
        let env = made(&[("README.md", "# A\n\n[a](#a)\n")]).isolation(level);
        commit(&env);
        let answer = env.provost(&["try", "--json", "provost-check links README.md"]);
        if answer.code != 0 && level == "landlock" && answer.err.contains("is not available here") {
            skip::tool("landlock", "a kernel with Landlock");
            return level.to_owned();
        }
        let json = answer.exits(0).json();
        let version = &json["workspace"]["environment"]["tools"]["provost-check"]["version"];
        assert!(version.as_str().is_some_and(|version| version.contains("sha256:")), "{level}: {json}");
        json["isolation"].as_str().unwrap_or_default().to_owned()
    });
    assert_eq!(checked, ["guard+clean", "landlock", "in-place"]);
}

#[test]
fn verify_knows_the_program_and_its_recipes() {
    let found = |contract: &str| {
        let env = Env::new(&plan(&[contract], "escalate"));
        let verified = env.provost(&["verify", "--json"]).json();
        verified["diagnostics"].to_string()
    };
    let known = found("provost-check http --path /health --contains ok -- bash app.sh");
    assert!(!known.contains("P058") && !known.contains("P093"), "{known}");
    let inner = found("provost-check http -- no-such-program-here app");
    assert!(inner.contains("P058") && inner.contains("no-such-program-here"), "{inner}");
    let unknown = found("provost-check htp -- bash app.sh");
    assert!(unknown.contains("P093") && unknown.contains("has no recipe `htp`"), "{unknown}");
}
