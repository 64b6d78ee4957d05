use provost_engine::plan::queries;
use std::path::{Path, PathBuf};

use provost_core::model::chain::PlanId;
use provost_engine::plan::audit::Audit;
use provost_engine::plan::prove;
use provost_engine::settings::Access;
use serde_json::json;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Verify the log: hash chain, verdicts and signed proofs
///
/// Checks that every passed step has a verdict that held. Archived events are read from their cold files.
///
/// With --proof and --key, provost checks envelopes alone, without a repository, a log or a state folder.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost audit                       the active plan
  provost audit --proof FILE --key PUB   envelopes (one per line) with a public key or its file
  provost audit PLAN.md --json        for programs; exit code 70 if the log does not verify, 5 if there is none")]
pub(super) struct Args {
    /// Path, name or id of the plan [default: the active plan]
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
    let (plan, audit) = audited(global, args.plan.as_deref())?;
    if global.json {
        let found = json!({
            "plan": plan,
            "sound": audit.sound(),
            "events": audit.head.seq,
            "passed": audit.passed,
            "head": audit.head.hash.to_string(),
            "broken": audit.broken.as_ref().map(ToString::to_string),
            "lost": audit.lost,
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

/// Audits a plan, also one whose file is gone and that is named by its id.
fn audited(global: &Global, plan: Option<&str>) -> Result<(PlanId, Audit), Failure> {
    let failure = match global.open(plan, Access::Read) {
        Ok(harness) => return Ok((harness.id().clone(), queries::audit(&harness)?)),
        Err(failure) => failure,
    };
    let Some(id) = plan.map(|plan| PlanId(plan.to_owned())) else { return Err(failure) };
    match queries::audit_by_id(&global.settings(None)?, &id)? {
        Some(audit) => Ok((id, audit)),
        None => Err(failure),
    }
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
