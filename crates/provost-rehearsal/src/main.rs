//! The mock model as a program, for people and for tests in shell:
//! `cargo run -p provost-rehearsal -- SCRIPT.toml [--port N]`.
//!
//! The first line on stdout is the base URL; each request is a line on stderr. The program runs until it is
//! killed.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use provost_rehearsal::{Model, Rehearsal};

const HELP: &str = "\
A model that says what a script says, on loopback.

Usage: provost-rehearsal SCRIPT.toml [--port N]

A script:
  key = \"sk-test\"               # optional: any other key is refused
  [[turn]]
  text = \"I look around.\"
  do = [{ tool = \"shell\", input = { command = \"ls\" } }]
  usage = { input = 900, output = 40, cache_read = 700 }
  [[turn]]
  fault = { status = { status = 429, headers = { retry-after = \"2\" } } }
  [[turn]]
  expect = [\"README\"]
  text = \"Done.\"
  [[when]]                      # before the turns, whenever the newest message holds it
  contains = \"is missing\"
  say = { text = \"I was wrong.\" }
  [session.other]               # at /r/other/v1/…, with turns of its own

Other keys of a turn: thinking, refusal, stop, delay_ms, held, dribbled; faults: \"cut\", \"hang_up\",
\"garbage\", \"too_long\", { in_stream = { status = 529 } }. `after` is said when no turn is left, `side` to
requests that offer no tools.
";

fn main() -> ExitCode {
    match open(std::env::args().skip(1).collect()) {
        Ok(Some(rehearsal)) => {
            println!("{}", rehearsal.url());
            report(&rehearsal)
        }
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("provost-rehearsal: {why}");
            ExitCode::from(2)
        }
    }
}

fn open(mut words: Vec<String>) -> Result<Option<Rehearsal>, String> {
    if words.iter().any(|word| matches!(word.as_str(), "-h" | "--help")) {
        return Ok(None);
    }
    let mut port = 0;
    if let Some(place) = words.iter().position(|word| word == "--port") {
        let given = words.get(place + 1).ok_or("--port wants a number")?;
        port = given.parse().map_err(|_| format!("--port {given} is no port"))?;
        words.drain(place..=place + 1);
    }
    let [path] = words.as_slice() else { return Err("give one script; see --help".to_owned()) };
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let model = Model::read(&text).map_err(|error| format!("{path}: {error}"))?;
    model.on_port(port).serve().map(Some).map_err(|error| format!("no port to listen on: {error}"))
}

fn report(rehearsal: &Rehearsal) -> ExitCode {
    let (mut told, mut failed) = (0, 0);
    loop {
        for seen in rehearsal.requests().iter().skip(told) {
            let turn = seen.turn.map_or("no turn of the script".to_owned(), |turn| format!("turn {turn}"));
            let how = if seen.is_stream { "streamed" } else { "whole" };
            eprintln!("{:?} {} {how}: {turn} {}", seen.dialect, seen.model, seen.session);
            told += 1;
        }
        for failure in rehearsal.failures().iter().skip(failed) {
            eprintln!("against the script: {failure}");
            failed += 1;
        }
        thread::sleep(Duration::from_millis(200));
    }
}
