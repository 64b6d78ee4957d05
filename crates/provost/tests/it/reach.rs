//! Tests what an agent may access: by configuration, by the step, and as the gate shows it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use crate::env::{Env, plan};

/// Starts a server that answers every connection; returns its port.
pub(crate) fn server(name: &'static str) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
                head.push(byte[0]);
            }
            let body = format!("hello from {name}\n");
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    port
}

/// Connects to servers directly and through the proxy, and writes down the results.
const ASKS: &str = r#"
mkdir -p out
ask() {
    timeout 5 bash -c 'exec 9<>"/dev/tcp/127.0.0.1/$1" && printf "GET %s HTTP/1.1\r\nHost: x\r\n\r\n" "$2" >&9 && cat <&9' \
        ask "$1" "$2" 2>/dev/null | tr -d '\r' | grep -e hello -e provost: || echo nobody
}
proxy=${HTTPS_PROXY##*:}
{
    echo "model: $(ask "$MODEL" /)"
    echo "other: $(ask "$OTHER" /)"
    echo "proxy: ${proxy:+$(ask "$proxy" "http://127.0.0.1:$MODEL/")}"
    echo "other by proxy: ${proxy:+$(ask "$proxy" "http://127.0.0.1:$OTHER/" | cut -c1-30)}"
} > out/1
echo asked
"#;

fn run(env: &Env, model: u16, other: u16) -> String {
    env.approve();
    let mut command = env.command(&["run"]);
    command.env("MODEL", model.to_string()).env("OTHER", other.to_string());
    command.env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{model}/r/x"));
    let said = crate::env::answer(command.output().expect("provost")).exits(0);
    format!("{}{}", said.out, said.err)
}

fn with(env: Env, line: &str) -> Env {
    env.write("provost.toml", format!("{}{line}\n", env.read("provost.toml")));
    env
}

#[test]
fn an_agent_reaches_its_model_and_nobody_else() {
    let env = Env::new(&plan(&["test -s out/1"], "escalate")).agent(ASKS);
    if !env.has_fences() {
        return;
    }
    let (model, other) = (server("the model"), server("another"));
    let said = run(&env, model, other);
    assert_eq!(
        env.read("out/1"),
        format!(
            "model: hello from the model\nother: nobody\nproxy: hello from the model\n\
             other by proxy: {}\n",
            &format!("provost: 127.0.0.1:{other} is not the model's API")[..30]
        )
    );
    assert!(said.contains(&format!("blocked by the proxy: 127.0.0.1:{other}")), "{said}");
    let log = env.provost(&["log", "--json", "--event", "ATTEMPT_ENDED"]).exits(0).lines();
    assert_eq!(log[0]["details"]["notes"][0], format!("blocked by the proxy: 127.0.0.1:{other}"));
}

#[test]
fn network_on_and_off_are_what_they_say() {
    let (model, other) = (server("the model"), server("another"));
    for (line, expected) in [("network = \"on\"", "hello from another"), ("network = \"off\"", "nobody")] {
        let env = with(Env::new(&plan(&["test -s out/1"], "escalate")).agent(ASKS), line);
        if !env.has_fences() {
            return;
        }
        run(&env, model, other);
        let seen = env.read("out/1");
        assert!(
            seen.contains(&format!("other: {expected}\n")) && seen.ends_with("other by proxy: \n"),
            "{seen}"
        );
    }
}

#[test]
fn a_step_says_otherwise_and_the_gate_shows_it() {
    let text = plan(&["test -s out/1", "true"], "escalate");
    let text =
        text.replacen("**target:** coder\n", "**target:** coder\n**agent_network:** on\n**git:** none\n", 1);
    let env = Env::new(&text);
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("   target coder · network on · git none\n"), "{shown}");
    assert!(shown.contains("coder: network model, git clone, home private"), "{shown}");
    let json = env.provost(&["show", "--json"]).exits(0).json();
    assert_eq!(json["steps"][0]["reach"]["network"], "on");
    assert_eq!(json["steps"][1]["reach"]["network"], "model");
    assert_eq!(json["terms"]["roles"]["coder"]["git"], "clone");
    let revision = env.revision();
    let env = with(env, "api = [\"127.0.0.1:9\"]");
    assert_ne!(env.revision(), revision, "an approval covers whom the agent may reach");
    let env = env.isolation("guard+clean");
    let shown = env.provost(&["show"]).exits(0).out;
    assert!(shown.contains("provost does not confine network, git and home at guard+clean"), "{shown}");
}

#[test]
fn a_word_that_means_nothing_is_an_error() {
    let text = plan(&["true"], "escalate")
        .replace("**on_fail:**", "**agent_network:** sometimes\n**git:** mine\n**on_fail:**");
    let env = Env::new(&text);
    let said = env.provost(&["verify"]).exits(3);
    let said = format!("{}{}", said.out, said.err);
    assert!(
        said.contains("Write `model`, `on` or `off`.") && said.contains("Write `clone`, `none` or `shared`."),
        "{said}"
    );
    let env = with(Env::new(&plan(&["true"], "escalate")), "network = \"models\"");
    let said = env.provost(&["show"]).exits(2);
    assert!(said.err.contains("did you mean `model`?"), "{}", said.err);
}

#[test]
fn the_home_of_an_agent_is_kept_and_the_users_is_as_it_was() {
    let script =
        "mkdir -p out; date >> ~/sessions; wc -l < ~/sessions > out/1; echo owned > ~/.bashrc; echo ok\n";
    let env = Env::new(&plan(&["grep -qx 2 out/1"], "retry(1), then escalate")).agent(script);
    if !env.has_fences() {
        return;
    }
    let home = env.folder().join("home");
    std::fs::write(home.join(".bashrc"), "mine\n").expect("a file");
    env.approve().provost(&["run"]).exits(0);
    assert_eq!(std::fs::read_to_string(home.join(".bashrc")).expect("a file"), "mine\n");
    assert_eq!(std::fs::read_dir(&home).expect("a folder").count(), 1);
}
