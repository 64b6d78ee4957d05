//! Tests the messages for people: in chats, and by e-mail to a real SMTP server.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

use serde_json::Value;

use super::{HONEST, place, receiver};
use crate::env::{Env, answer};
use crate::otel::{Ending, certified, installed};

/// Words of a plan that would mention people and link elsewhere if they were markup.
const EVIL: &str = "`<!channel>` @everyone `[here](https://evil.example)`";

fn telling(notify: &str, serve: &str) -> Env {
    let env = place(&["test -f out/1"], HONEST, notify);
    env.write("provost.toml", env.read("provost.toml") + serve);
    let text = env.read("PLAN.md").replacen("A plan", &format!("A plan {EVIL}"), 1);
    env.write("PLAN.md", text);
    env
}

/// Returns the body that a chat gets, and the id of the item.
fn told(format: &str, serve: &str) -> (Value, String) {
    let (port, requests) = receiver(&[200]);
    let hook = format!("[[notify.webhook]]\nurl = \"http://127.0.0.1:{port}/\"\nformat = \"{format}\"\n");
    let env = telling(&hook, serve);
    let run = env.provost(&["run"]).exits(4);
    assert!(!run.err.contains("could not notify"), "{}", run.err);
    let request = requests.try_recv().expect("a request");
    (serde_json::from_str(&request.body).expect("JSON"), request.headers["webhook-id"].clone())
}

const PUBLIC: &str = "[serve]\nurl = \"https://plans.example.org/\"\n";

fn assert_sentence(text: &str) {
    assert!(text.contains("waits for your decision: the plan is not approved"), "{text}");
}

#[test]
fn slack_gets_blocks_with_a_link_to_the_decision() {
    let (body, id) = told("slack", PUBLIC);
    let blocks = body["blocks"].as_array().expect("blocks");
    assert_eq!(blocks[0]["text"]["text"], "provost: approval");
    let sentence = blocks[1]["text"]["text"].as_str().expect("a text");
    assert_sentence(sentence);
    assert_eq!(blocks[1]["text"]["type"], "plain_text");
    assert!(sentence.contains("&lt;!channel&gt;") && !sentence.contains('<'), "{sentence}");
    assert!(blocks[2]["text"]["text"].as_str().unwrap().contains("• approve: "), "{}", blocks[2]);
    let link = format!("<https://plans.example.org/inbox/{id}|Open the decision>");
    assert_eq!(blocks[3]["text"]["text"], link);
}

#[test]
fn teams_gets_an_adaptive_card_with_a_button_to_the_decision() {
    let (body, id) = told("teams", PUBLIC);
    let card = &body["attachments"][0]["content"];
    assert_eq!((&body["type"], &card["type"]), (&"message".into(), &"AdaptiveCard".into()));
    assert_sentence(card["body"][1]["inlines"][0]["text"].as_str().expect("a text"));
    // A text block would read Markdown; a text run does not.
    assert!(!card.to_string().contains("\"TextBlock\""), "{card}");
    assert_eq!(card["actions"][0]["url"], format!("https://plans.example.org/inbox/{id}"));
}

#[test]
fn discord_gets_an_embed_that_mentions_nobody() {
    let (body, id) = told("discord", PUBLIC);
    assert_eq!(body["allowed_mentions"]["parse"], serde_json::json!([]));
    let embed = &body["embeds"][0];
    let link = format!("https://plans.example.org/inbox/{id}");
    assert_eq!(embed["url"], link);
    let text = embed["description"].as_str().expect("a text");
    assert_sentence(&text.replace('\\', ""));
    assert!(text.contains("\\@everyone") && !text.contains("](https://evil"), "{text}");
    assert!(text.ends_with(&format!("[Open the decision](<{link}>)")), "{text}");
}

#[test]
fn without_a_server_a_message_names_the_command_and_a_program_gets_no_link() {
    let (body, id) = told("slack", "");
    let last = body["blocks"].as_array().and_then(|blocks| blocks.last()).expect("blocks");
    assert_eq!(last["text"]["text"], format!("Decide with: provost inbox {id}"));
    let (body, id) = told("provost", "");
    assert_eq!((&body["id"], &body["link"]), (&id.as_str().into(), &Value::Null));
    let (body, id) = told("provost", PUBLIC);
    assert_eq!(body["link"], format!("https://plans.example.org/inbox/{id}"));
}

#[test]
fn a_changed_address_of_the_page_is_trusted_anew() {
    let (port, requests) = receiver(&[200, 200]);
    let hook = format!("[[notify.webhook]]\nurl = \"http://127.0.0.1:{port}/\"\n");
    let env = telling(&hook, PUBLIC);
    let mut person = env.person();
    env.approve();
    env.provost(&["run"]).exits(0);
    let elsewhere = env.read("provost.toml").replace("plans.example.org", "evil.example.org");
    env.write("provost.toml", elsewhere);
    env.write("PLAN.md", env.read("PLAN.md").replacen("A plan", "Another plan", 1));
    let run = env.provost(&["run"]);
    assert!(run.err.contains("provost approve --notify"), "{}", run.err);
    assert!(requests.try_iter().all(|request| !request.body.contains("evil.example.org/inbox")));
    person.provost(&["approve", "--notify"]).exits(0);
}

/// A real SMTP server.
struct Mailbox {
    _process: Ending,
    lines: Lines<BufReader<ChildStdout>>,
    port: u16,
}

impl Mailbox {
    fn start(packages: &Path, certificate: &[PathBuf]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/notify/mailbox.py");
        let mut process = Command::new("python3")
            .arg(script)
            .arg(packages)
            .args(certificate)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut lines = BufReader::new(process.stdout.take().expect("stdout")).lines();
        let _process = Ending(process);
        let port = lines.next().expect("a port").expect("a line").parse().expect("a number");
        Self { _process, lines, port }
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().expect("a mail").expect("a line")).expect("JSON")
    }
}

fn mail(scheme: &str, port: u16, more: &str) -> String {
    format!(
        "[notify.mail]\nserver = \"{scheme}://localhost:{port}\"\nfrom = \"provost <provost@example.org>\"\n\
         to = [\"ada@example.org\", \"bob@example.org\"]\n{more}"
    )
}

#[test]
fn a_mail_is_plain_text_and_is_sent_once() {
    let Some(packages) = installed(&["aiosmtpd"]) else { return };
    let mut mailbox = Mailbox::start(packages.path(), &[]);
    let env = telling(&mail("smtp", mailbox.port, ""), PUBLIC);
    for _ in 0..2 {
        let run = env.provost(&["run"]).exits(4);
        assert!(!run.err.contains("could not notify"), "{}", run.err);
    }
    let first = mailbox.next();
    assert_eq!(first["to"], serde_json::json!(["ada@example.org", "bob@example.org"]));
    assert_eq!((&first["from"], &first["kind"]), (&"provost@example.org".into(), &"text/plain".into()));
    assert_eq!(first["auto"], "auto-generated");
    assert!(first["subject"].as_str().unwrap().starts_with("provost: approval: A plan"), "{first}");
    let text = first["text"].as_str().expect("a text");
    assert_sentence(text);
    assert!(text.contains("• approve: ") && text.contains("Decide here: https://plans.example.org/inbox/"));
    // The next mail is about another item: the second run sent nothing.
    env.provost(&["ask", "--question", "which file?"]).exits(0);
    env.provost(&["run"]).exits(4);
    assert_ne!(mailbox.next()["id"], first["id"]);
}

#[test]
fn a_mail_server_is_used_over_tls_with_a_login_or_not_at_all() {
    let Some(packages) = installed(&["aiosmtpd"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    if !certified(folder.path()) {
        return;
    }
    let files = [folder.path().join("own.pem"), folder.path().join("own.key")];
    let mut mailbox = Mailbox::start(packages.path(), &files);
    let login = "user = \"provost\"\npassword_env = \"MAIL_PASSWORD\"\n";
    let env = telling(&mail("smtps", mailbox.port, login), "");
    let authority = folder.path().join("ca.pem");
    let run = |password: Option<&str>, authority: Option<&Path>| {
        let mut command = env.command(&["run"]);
        command.envs(password.map(|password| ("MAIL_PASSWORD", password)));
        command.envs(authority.map(|file| ("SSL_CERT_FILE", file)));
        answer(command.output().expect("provost")).exits(4).err
    };
    let said = run(None, Some(&authority));
    assert!(said.contains("the variable MAIL_PASSWORD with the password is not set"), "{said}");
    let said = run(Some("mail-password"), None);
    assert!(said.contains("could not notify the mail server localhost"), "{said}");
    let said = run(Some("wrong"), Some(&authority));
    assert!(said.contains("could not notify the mail server localhost"), "{said}");
    assert!(!said.contains("wrong"), "{said}");
    let said = run(Some("mail-password"), Some(&authority));
    assert!(!said.contains("could not notify"), "{said}");
    let told = mailbox.next();
    assert_eq!(told["login"], true);
    assert!(told["text"].as_str().unwrap().contains("Decide with: provost inbox "), "{told}");
}
