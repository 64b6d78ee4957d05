use provost_core::model::event::Revision;
use provost_core::rules::quorum::{self, ApprovalCount};
use provost_core::state::run::{Run, Stage};
use provost_core::text::render;
use provost_engine::exec::base_look;
use provost_engine::observe::notifier;
use provost_engine::plan::harness::Harness;
use provost_engine::plan::{commands, kept_trees, outside, recording, uncommitted};
use provost_engine::settings::Access;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;
use crate::terminal::Gate;

/// Approve exactly the revision that is shown
///
/// In a terminal, provost shows the plan and reads your answer: "approved", "yes", "proceed", "✓" or 👍
/// approve; "no" rejects; anything else is recorded as a question. Without a terminal, pass the revision
/// that `provost show` printed.
///
/// If `[gate]` asks for several people, provost records each approval with its name. The plan is approved
/// with the last of them; until then the exit code is 4.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost approve                                  read it, then decide
  provost approve PLAN.md --revision 3f9a1c02be77  without a terminal
  provost approve --include-uncommitted            uncommitted files become part of the base
  provost approve --policy docs-only               let a policy of provost.toml approve from now on
  provost approve --check unit                     trust a check that agents can use in their plans")]
pub(super) struct Args {
    /// Path or name of the plan [default: the active plan]
    plan: Option<String>,
    /// Revision that you have read (at least 12 digits)
    #[arg(long, value_name = "REV")]
    revision: Option<String>,
    /// Name to record in the log [default: your user name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Make uncommitted files inside `touches` part of the approved base
    #[arg(long, conflicts_with_all = ["policy", "notify"])]
    include_uncommitted: bool,
    /// Trust this policy's text instead of approving a plan
    #[arg(long, value_name = "NAME", conflicts_with = "revision")]
    policy: Option<String>,
    /// Trust this check of provost.toml ([checks.NAME]) instead of approving a plan
    #[arg(long, value_name = "NAME", conflicts_with_all = ["revision", "policy"])]
    check: Option<String>,
    /// Trust the command and the webhooks under [notify] instead of approving a plan
    #[arg(long, conflicts_with_all = ["revision", "policy", "check"])]
    notify: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let harness = global.open(args.plan.as_deref(), Access::Write)?;
    if let Some(policy) = &args.policy {
        commands::trust_policy(&harness, policy)?;
        terminal::talk(&format!(
            "policy {policy} can approve the plans it covers; if its text changes, approve it again"
        ));
        return Ok(Outcome::Done);
    }
    if let Some(check) = &args.check {
        commands::trust_check(&harness, check)?;
        let known = harness.config().checks.get(check).cloned().unwrap_or_default();
        terminal::talk(&format!(
            "check {check} is trusted until its text changes: it {known}\nsteps of agents' own plans that use it pass as verified"
        ));
        return Ok(Outcome::Done);
    }
    if args.notify {
        if harness.config().notify == Default::default() {
            return Err(Failure::usage(
                "there is no [notify] in provost.toml, so there is nothing to trust",
                "Add a [notify] section first; see docs/inbox.md.",
            ));
        }
        notifier::trust_notify(&harness)?;
        terminal::talk("provost uses the settings under [notify]; if they change, approve them again");
        return Ok(Outcome::Done);
    }
    commands::only_people(&harness)?;
    if args.include_uncommitted {
        uncommitted::include_uncommitted(&harness);
    }
    let by = signature(&harness, args.by)?;
    match args.revision {
        Some(typed) => approve(global, &harness, &typed, by),
        None if terminal::is_interactive() => interactive(&harness, by),
        None => Err(Failure::usage(
            "without a terminal, name the revision that you have read",
            "`provost show` prints it; then `provost approve --revision REV`.",
        )),
    }
}

/// Returns the name of the approver. If the quorum counts people, it must be their own name.
fn signature(harness: &Harness, by: Option<String>) -> Result<String, Failure> {
    let person = harness.person();
    match by {
        Some(by) if !harness.config().gate.quorum.is_usual() && !quorum::is_same(&by, &person) => {
            Err(Failure::usage(
                format!(
                    "`--by {by}` is not allowed: [gate] counts approvals by person, and you are {person}"
                ),
                "Others approve from their own account, or with their own token: \
                 `provost serve token --scope decide --name NAME`.",
            ))
        }
        Some(by) => Ok(by),
        None => Ok(terminal::user()),
    }
}

fn approve(global: &Global, harness: &Harness, typed: &str, by: String) -> Answer {
    let (run, _) = recording::bring_up_to_approve_revision(harness, typed)?;
    for line in run.changed_since_approval() {
        terminal::talk(&format!("changed since the last approval: {line}"));
    }
    for line in outside::changed_caches(harness, &run) {
        terminal::talk(&line);
    }
    // A prefix names the revision only if it is the one the plan has now.
    let revision =
        if run.revision.is_named_by(typed) { run.revision.clone() } else { Revision(typed.to_owned()) };
    let run = commands::approve(harness, &run, revision, by)?;
    if global.json {
        let approved = serde_json::json!({
            "plan": harness.id(), "stage": run.stage.word(), "revision": run.revision,
            "approvals": ApprovalCount::of(&run),
        });
        terminal::print(&format!("{approved}\n"))?;
    } else if run.approved_by.is_none() {
        terminal::talk(&format!("your approval is recorded: {}", ApprovalCount::of(&run)));
    } else {
        if let Some(look) = base_look::base_look(harness, &run) {
            render::base::lines(&run.plan, &look).iter().for_each(|line| terminal::talk(line));
        }
        terminal::advise(&format!("approved revision {}; next: `provost run`", run.revision.short()));
    }
    tell_of_the_remote(harness, &run);
    Ok(if run.approved_by.is_none() { Outcome::Waiting } else { Outcome::Done })
}

/// Pushes the approved base to the git remote, so that other machines can start, and reports an error.
fn tell_of_the_remote(harness: &Harness, run: &Run) {
    if run.approved_by.is_none() {
        return;
    }
    if let Err(error) = kept_trees::offer_base(harness, run) {
        terminal::advise(&format!(
            "approved, but other machines cannot start the plan yet: {error}; then run `provost cluster push`"
        ));
    }
}

fn interactive(harness: &Harness, by: String) -> Answer {
    let (run, reading) = recording::bring_up_to_approve(harness)?;
    if run.stage == Stage::Verified && !ApprovalCount::of(&run).lets(&harness.person()) {
        // Refused before anything is read, and not after.
        commands::approve(harness, &run, run.revision.clone(), by.clone())?;
    }
    terminal::tell_of_base(harness, &run);
    match terminal::gate(harness, &run, reading.as_ref(), by)? {
        Gate::Approved(run) => {
            terminal::advise(&format!("approved revision {}; next: `provost run`", run.revision.short()));
            tell_of_the_remote(harness, &run);
            Ok(Outcome::Done)
        }
        Gate::Rejected => Ok(Outcome::Refused),
        Gate::Waiting => Ok(Outcome::Waiting),
    }
}
