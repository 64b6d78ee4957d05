//! Sends notifications about what waits for a person.
//!
//! An agent may be able to write `provost.toml`, and provost runs the commands and calls the webhooks under
//! `[notify]` outside of every sandbox. They are therefore used only if a person must have written them: all
//! agents so far were kept from that file by the level `clean`, or a person has trusted its exact words.
//!
//! **Invariant:** only [`Notices::finish`] makes a run wait, and only for a short time.

use std::sync::Arc;
use std::time::Duration;

use provost_core::model::event::Event;
use provost_core::rules::inbox::{self, InboxItem};
use provost_core::state::run::Run;
use provost_host::config::Notify;
use provost_host::notify;
use provost_host::notify::{Courier, DecisionText, Notification, SentNotifications};
use serde_json::json;

use crate::Error;
use crate::observe::overview;
use crate::plan::gate;
use crate::plan::harness::Harness;
use crate::plan::section_trust;

/// Time for undelivered notifications when a run is over.
const LAST_TRY: Duration = Duration::from_secs(3);
/// Maximum length of a desktop notification.
const LINE_CHARS: usize = 300;
/// Maximum length of a title and of a reason in a sentence.
const TITLE_CHARS: usize = 150;
const REASON_CHARS: usize = 700;

pub struct Notices<'h> {
    harness: &'h Harness,
    couriers: Vec<Courier>,
    /// Address of the pages: the configured one, or that of the running server.
    page: Option<String>,
    /// Why some channels are not used, in one line for the person at the terminal.
    pub silent: Option<String>,
}

/// Starts the notification channels. Only for commands of a person.
pub fn notices(harness: &Harness) -> Result<Notices<'_>, Error> {
    let mut wanted = harness.config().notify.clone();
    let mut silent = None;
    if wanted.needs_trust() && !trusts_notify(harness, &wanted)? {
        wanted = Notify { desktop: wanted.desktop, ..Notify::default() };
        let words = "the command, the webhooks and the e-mail under [notify] are not used: agents can have \
                     written them; read them, then run `provost approve --notify`";
        silent = Some(words.to_owned());
    }
    let site = harness.site();
    let memory = Arc::new(SentNotifications::open(harness.state(), &harness.id().0));
    let ways = notify::ways(&wanted, &site.environment, &site.place.workspace);
    let start = |way| Courier::start(way, site.environment.clone(), memory.clone());
    let page = wanted.page.clone().or_else(|| overview::running(harness.state()));
    Ok(Notices { harness, couriers: ways.into_iter().map(start).collect(), page, silent })
}

/// Records that a person trusts the `[notify]` section.
pub fn trust_notify(harness: &Harness) -> Result<(), Error> {
    crate::plan::authorization::only_people(harness)?;
    crate::plan::authorization::only_at_a_terminal(harness)?;
    gate::trust(harness.state(), &harness.prover().secret()?.key(), &harness.config().notify.digest())
}

fn trusts_notify(harness: &Harness, notify: &Notify) -> Result<bool, Error> {
    let (digest, prover) = (notify.digest(), harness.prover());
    section_trust::is_trusted(harness.log(), harness.state(), &prover, &digest, harness.is_under_way())
}

impl Notices<'_> {
    /// Handles an event of a running plan.
    pub fn hear(&self, run: &Run, event: &Event) {
        if self.couriers.is_empty() || !inbox::may_open(run, event) {
            return;
        }
        for item in crate::observe::inbox::plan_items(self.harness, run).unwrap_or_default() {
            self.tell(&item, None);
        }
    }

    /// Notifies of what waits now, and sends reminders for overdue items. Read errors are ignored, so that
    /// they do not disturb a run.
    pub fn look(&self, run: &Run) {
        let reminds = self.harness.config().gate.remind_after.is_some();
        if self.couriers.is_empty() && !reminds {
            return;
        }
        let Ok(items) = crate::observe::inbox::plan_items(self.harness, run) else { return };
        for item in &items {
            self.tell(item, None);
        }
        for (item, reminder) in crate::observe::inbox::remind(self.harness, &items).unwrap_or_default() {
            self.tell(&item, Some(reminder));
        }
    }

    fn tell(&self, item: &InboxItem, reminder: Option<u64>) {
        // A plan that was only verified has not been presented to a person yet.
        if !item.asked || self.couriers.is_empty() {
            return;
        }
        let item = item.clone().redacted(self.harness.redactor());
        let message = message(&item, reminder, self.page.as_deref());
        for courier in &self.couriers {
            courier.take(&message);
        }
    }

    /// Makes a last, bounded attempt to deliver; returns one line per channel that failed.
    pub fn finish(self) -> Vec<String> {
        for courier in &self.couriers {
            courier.close(LAST_TRY);
        }
        self.couriers.into_iter().flat_map(Courier::finish).collect()
    }
}

fn message(item: &InboxItem, reminder: Option<u64>, page: Option<&str>) -> Notification {
    let id = match reminder {
        None => item.id.to_string(),
        Some(number) => format!("{}/reminder-{number}", item.id),
    };
    let still = if reminder.is_some() { "still waiting: " } else { "" };
    let line = bounded(&format!("{still}{item}"), LINE_CHARS);
    let title = format!("provost: {}", item.kind.word());
    let decision = decision(item, reminder, page);
    let mut body = serde_json::to_value(item).unwrap_or_default();
    body["overdue"] = json!(reminder);
    body["text"] = json!(format!("{title}: {line}"));
    body["link"] = json!(decision.link);
    Notification { id, title, line, body: body.to_string(), decision }
}

/// Returns what people read in a chat or in an e-mail.
fn decision(item: &InboxItem, reminder: Option<u64>, page: Option<&str>) -> DecisionText {
    let waits = if reminder.is_some() { "still waits" } else { "waits" };
    let plan = bounded(&one_line(&item.title), TITLE_CHARS);
    let step = match (item.step, &item.step_title) {
        (Some(step), Some(title)) => {
            format!(" at step {step} “{}”", bounded(&one_line(title), TITLE_CHARS))
        }
        (Some(step), None) => format!(" at step {step}"),
        (None, _) => String::new(),
    };
    let reason = bounded(&one_line(&item.reason), REASON_CHARS);
    DecisionText {
        sentence: format!("The plan “{plan}” {waits} for your decision{step}: {reason}."),
        choices: item.choices.iter().map(|offer| (offer.choice, offer.does)).collect(),
        link: page.map(|page| format!("{page}/inbox/{}", in_path(&item.id.to_string()))),
        command: format!("provost inbox {}", item.id),
    }
}

/// Puts a text on one line, without control characters and without those that change its direction.
fn one_line(text: &str) -> String {
    let shown = |letter: &char| !matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let spaced: String =
        text.chars().filter(shown).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn bounded(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

/// Escapes an id for the path of a URL.
fn in_path(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => {
                out.push(byte.into())
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
