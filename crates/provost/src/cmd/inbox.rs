use provost_engine::observe::notifier;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use provost_core::language::shell_word::quoted;
use provost_core::model::chain::PlanId;
use provost_core::rules::command::Refusal;
use provost_core::rules::inbox::{self, InboxItem};
use provost_engine::observe::inbox as listing;
use provost_engine::observe::inbox::InboxListing;
use provost_engine::observe::view::{self, InboxItemView};
use provost_engine::plan::step_changes;
use provost_engine::settings::Access;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::{hints, terminal};

/// Show what waits for a person: approvals, questions, escalations, confirmations
///
/// Lists the items of every plan in this repository, newest last. With an ID, shows one item in full: the
/// attempts, the output, and the effect of each choice. provost never answers an item by itself.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost inbox                       items of this repository
  provost inbox e12                   one item, with its attempts
  provost inbox --all --json          every plan of the state folder, for programs")]
pub(super) struct Args {
    /// One item, such as `e12` or `PLAN:e12`
    id: Option<String>,
    /// Include every plan of the state folder, not only of this repository
    #[arg(long, short)]
    all: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    global.keep_for_hints(None);
    let listing = listing::list(&global.settings(None)?, args.all)?;
    for trouble in &listing.troubles {
        terminal::talk(trouble);
    }
    let overdue = overdue(global, &listing);
    match &args.id {
        Some(id) => one(global, &listing, id, &overdue)?,
        None if global.json => {
            let all = listing.items.iter().zip(&overdue);
            let all = all.map(|(item, late)| InboxItemView::of(item, Some(*late)));
            terminal::print_json(&all.collect::<Vec<_>>())?;
        }
        None => all(&listing, &overdue, args.all)?,
    }
    for line in listing.left.iter().filter(|_| args.id.is_none()) {
        terminal::talk(line);
    }
    attend(global, &listing);
    Ok(Outcome::Done)
}

/// Returns which items have waited longer than `remind_after`.
fn overdue(global: &Global, listing: &InboxListing) -> Vec<bool> {
    let patience = |item: &InboxItem| {
        let harness = listing::open(global.settings(None).ok()?, item, Access::Read).ok()?;
        harness.config().gate.remind_after
    };
    let mut known = BTreeMap::new();
    let late = |item: &InboxItem| {
        let patience = *known.entry(item.plan.clone()).or_insert_with(|| patience(item));
        patience.is_some_and(|patience| item.reminder(terminal::now(), patience).is_some())
    };
    listing.items.iter().map(late).collect()
}

/// Records overdue items and sends missing notifications. Errors are ignored: the person only wants to look.
fn attend(global: &Global, listing: &InboxListing) {
    let plans: BTreeMap<&PlanId, &InboxItem> = listing.items.iter().map(|item| (&item.plan, item)).collect();
    for item in plans.values() {
        let Ok(settings) = global.settings(None) else { return };
        let Ok(harness) = listing::open(settings, item, Access::Write) else { continue };
        let config = harness.config();
        let nothing = config.gate.remind_after.is_none() && config.notify == Default::default();
        if nothing || !provost_engine::observe::inbox::may_tell(&harness) {
            continue;
        }
        let (Ok(run), Ok(notices)) = (harness.run(), notifier::notices(&harness)) else { continue };
        notices.look(&run);
        notices.silent.iter().for_each(|line| terminal::talk(line));
        notices.finish().iter().for_each(|line| terminal::talk(line));
    }
}

fn all(listing: &InboxListing, overdue: &[bool], everywhere: bool) -> Result<(), Failure> {
    let mut text = String::new();
    for (item, late) in listing.items.iter().zip(overdue) {
        let id = inbox::short(&listing.items, item);
        let step = item.step.map(|step| format!(" · step {step}")).unwrap_or_default();
        let late = if *late { terminal::coloured(" · OVERDUE", "31") } else { String::new() };
        let _ = writeln!(
            text,
            "{}  {} · {}{step} · {}{late}",
            terminal::coloured(&id, "1"),
            terminal::coloured(item.kind.word(), "33"),
            item.title,
            terminal::age(item.since)
        );
        let _ = writeln!(text, "    {}", item.reason);
        if !item.context.changed.is_empty() {
            let _ = writeln!(
                text,
                "    changed files: {} (`provost inbox {id}` shows the diff)",
                item.context.changed.join(", ")
            );
        }
        let _ = writeln!(text, "    {}\n", hints::complete(&item.how(&id)));
    }
    if listing.items.is_empty() {
        let place = if everywhere { "" } else { " in this repository (`--all` for every plan)" };
        terminal::talk(&format!("nothing waits for a person{place}"));
    }
    terminal::print(&text)
}

fn one(global: &Global, listing: &InboxListing, typed: &str, overdue: &[bool]) -> Result<(), Failure> {
    let found = inbox::named(&listing.items, typed);
    let item = match found.as_slice() {
        [item] => *item,
        [] => {
            // The same answer as `provost answer` gives.
            return Err(provost_engine::Error::from(Refusal::NoSuchItem { id: typed.to_owned() }).into());
        }
        several => {
            let ids: Vec<String> = several.iter().map(|item| item.id.to_string()).collect();
            return Err(Failure::usage(
                format!("`{typed}` is ambiguous: {}", ids.join(" or ")),
                "Use the whole id.",
            ));
        }
    };
    let late = listing.items.iter().zip(overdue).any(|(each, late)| each.id == item.id && *late);
    if global.json {
        return terminal::print_json(&InboxItemView::of(item, Some(late)));
    }
    let mut text = whole(item, &inbox::short(&listing.items, item), late);
    if let Some(command) = shows_changes(global, item) {
        let hint = hints::complete(&format!("`{command}` shows what the step changed"));
        let _ = writeln!(text, "\n{hint}");
    }
    terminal::print(&text)
}

fn whole(item: &InboxItem, id: &str, late: bool) -> String {
    let mut text = format!("{id}  {} · {} ({})\n", item.kind.word(), item.title, item.plan);
    if let (Some(step), Some(title)) = (item.step, &item.step_title) {
        let _ = writeln!(text, "step {step}. {title}");
    }
    let overdue = if late { ", overdue" } else { "" };
    let _ = writeln!(text, "since {} ({}{overdue})", item.since, terminal::age(item.since));
    let _ = writeln!(text, "{}", item.reason);
    let context = &item.context;
    if !context.tried.is_empty() {
        text.push_str("\ntried:\n");
    }
    for tried in &context.tried {
        let _ = writeln!(text, "  {}", view::attempt(tried));
    }
    if !context.configure.is_empty() {
        let names: Vec<&str> = context.configure.iter().map(String::as_str).collect();
        let _ = writeln!(text, "\nconfigure outside of the run: {}", names.join(", "));
    }
    if let Some(claim) = &context.claim {
        let _ = writeln!(text, "\nthe agent claims:\n{}", indented(claim));
    }
    if let Some(said) = &context.said {
        let _ = writeln!(text, "\nlast words of the agent:\n{}", indented(said));
    }
    if let Some(output) = &context.output {
        let _ = writeln!(text, "\nlast output:\n{}", indented(output));
    }
    if !context.changed.is_empty() {
        let _ = writeln!(text, "\nchanged files:\n{}", indented(&context.changed.join("\n")));
    }
    if let Some(diff) = &context.diff {
        let _ = writeln!(text, "\n{}", indented(diff));
    }
    text.push_str("\nchoices:\n");
    for offer in &item.choices {
        let command = offer.command.replace(&item.id.to_string(), id);
        let _ = writeln!(text, "  {command}\n      {}", offer.does);
    }
    text
}

/// Returns the command that shows the changes of the item's step, if provost kept its tree.
fn shows_changes(global: &Global, item: &InboxItem) -> Option<String> {
    let step = item.step?;
    let harness = listing::open(global.settings(None).ok()?, item, Access::Read).ok()?;
    step_changes::look(&harness, step).ok()?;
    let plan = listing::path_from(&global.cwd().ok()?, &harness).map(|path| format!(" {}", quoted(&path)));
    Some(format!("provost changes{} {step}", plan.unwrap_or_default()))
}

fn indented(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("  {line}\n")).collect::<String>().trim_end().to_owned()
}
