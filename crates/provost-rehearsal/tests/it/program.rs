//! Tests the mock model as a program.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::client::{CHAT, ask, question};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_provost-rehearsal"))
}

#[test]
fn it_says_where_it_listens_and_plays_its_script() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.toml");
    std::fs::write(&script, "[[turn]]\ntext = \"from a file\"\n").unwrap();
    let mut child = program().arg(&script).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let answer = ask(url.trim(), CHAT, &question(CHAT, "go", false));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "from a file");
}

#[test]
fn a_slip_names_the_file_and_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.toml");
    std::fs::write(&script, "[[turn]]\ntext = \"a\"\nhold = true\n").unwrap();
    let output = program().arg(&script).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("script.toml: ") && said.contains("unknown field `hold`"), "{said}");
}
