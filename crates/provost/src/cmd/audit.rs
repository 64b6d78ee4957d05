use provost_engine::plan::queries;
use std::path::{Path, PathBuf};

use provost_engine::plan::prove;
use provost_engine::settings::Access;
use serde_json::json;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Verify the log: hash chain, verdicts and signed proofs
///
/// Checks that every passed step has a verdict that held.
///
/// With --proof and --key, provost checks envelopes alone, without a repository, a log or a state folder.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost audit                       the active plan
  provost audit --proof FILE --key PUB   envelopes (one per line) with a public key or its file
  provost audit PLAN.md --json        for programs; exit code 70 if the log does not verify, 5 if there is none")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// Check the envelopes in this file instead of a log
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "plan")]
    proof: Option<PathBuf>,
    /// Public key, or a file that contains it
    #[arg(long, value_name = "PUB", requires = "proof")]
    key: Option<String>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    if let (Some(proof), Some(key)) = (&args.proof, &args.key) {
        return envelopes(global, proof, key);
    }
    let harness = global.open(args.plan.as_deref(), Access::Read)?;
    let audit = queries::audit(&harness)?;
    if global.json {
        let found = json!({
            "plan": harness.id(),
            "sound": audit.sound(),
            "events": audit.head.seq,
            "passed": audit.passed,
            "head": audit.head.hash.to_string(),
            "broken": audit.broken.as_ref().map(ToString::to_string),
            "unfounded": audit.unfounded,
            "forged": audit.forged,
            "disproved": audit.disproved,
            "proofs": audit.proofs.as_ref().map(|(file, _)| file),
            "key": audit.proofs.as_ref().map(|(_, key)| key),
        });
        terminal::print(&format!("{found}\n"))?;
    } else {
        terminal::print(&terminal::audit(&audit))?;
    }
    Ok(match audit.sound() {
        true => Outcome::Done,
        false if audit.is_empty() => Outcome::Refused,
        false => Outcome::Unsound,
    })
}

/// Checks envelopes alone: prints what each proves, or why it proves nothing.
fn envelopes(global: &Global, proof: &Path, key: &str) -> Answer {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| Failure::Usage {
            message: format!("cannot read {}: {error}", path.display()),
            hint: None,
        })
    };
    let key = if Path::new(key).exists() { read(Path::new(key))? } else { key.to_owned() };
    let mut sound = true;
    let mut any = false;
    for line in read(proof)?.lines().filter(|line| !line.trim().is_empty()) {
        any = true;
        let opened = prove::open(line, &key);
        sound &= opened.is_ok();
        let told = match (&opened, global.json) {
            (Ok(statement), true) => json!({ "good": true, "statement": statement }).to_string(),
            (Err(doubt), true) => json!({ "good": false, "why": doubt.to_string() }).to_string(),
            (Ok(statement), false) => words(&statement.predicate),
            (Err(doubt), false) => format!("NOT GOOD: {doubt}"),
        };
        terminal::print(&format!("{told}\n"))?;
    }
    Ok(if sound && any { Outcome::Done } else { Outcome::Unsound })
}

/// Returns the waived steps, with who waived them.
fn waived(predicate: &serde_json::Value) -> String {
    let waived = predicate["waived"].as_array().into_iter().flatten();
    let words = waived.map(|step| {
        format!("; step {} was waived by {}", step["number"], step["by"].as_str().unwrap_or("-"))
    });
    words.collect()
}

fn words(predicate: &serde_json::Value) -> String {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    let approver = text(&predicate["approver"]);
    let revision: String = text(&predicate["revision"]).chars().take(12).collect();
    match predicate["step"]["number"].as_u64() {
        Some(step) => format!(
            "good: step {step} ({}): {}; revision {revision} approved by {approver}",
            text(&predicate["step"]["title"]),
            text(&predicate["result"]),
        ),
        None => format!(
            "good: plan {} is {}{}; revision {revision} approved by {approver}; log of {} events, head {}",
            text(&predicate["title"]),
            text(&predicate["stage"]),
            waived(predicate),
            predicate["log"]["seq"],
            text(&predicate["log"]["hash"]),
        ),
    }
}
