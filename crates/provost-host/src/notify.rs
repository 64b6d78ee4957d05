//! Sends notifications that provost waits for a person: on the desktop, by a program, by a
//! webhook, by e-mail.
//!
//! Each channel has its own thread ([`Courier`]), so that no channel waits for another and the run waits
//! for none. Deliveries are recorded in the state folder ([`SentNotifications`]).
//!
//! **Invariant:** this module only sends. It ignores the content of every answer.

mod chat;
pub mod collector;
mod delivery;
mod desktop;
mod mail;
mod memory;
mod webhook;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use provost_core::model::hash::Hash;

use crate::config::Notify;
use crate::process;
use crate::process::{Enclosure, HeadAndTail, How, Spawn};

pub use delivery::Courier;
pub use desktop::{Desktop, find as desktop};
pub use mail::Mail;
pub use memory::SentNotifications;
pub use webhook::{SigningSecret, Webhook};

/// Longest run time of a notification program.
const PROGRAM_PATIENCE: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(1);
const KEEP: HeadAndTail = HeadAndTail { head: 0, tail: 512 };

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The same for every try, so that a receiver recognises duplicates.
    pub id: String,
    pub title: String,
    /// A summary on one line.
    pub line: String,
    /// The whole item as JSON.
    pub body: String,
    pub decision: DecisionText,
}

/// What people read in a chat or in an e-mail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionText {
    /// One sentence with the plan, the step and the question; may have words of an agent.
    pub sentence: String,
    /// Each choice and its effect.
    pub choices: Vec<(&'static str, &'static str)>,
    /// Address of the page with the decision, if a server is known.
    pub link: Option<String>,
    /// Command that shows the decision.
    pub command: String,
}

/// A notification channel.
pub enum Channel {
    Desktop(Desktop),
    Command { words: Vec<String>, workspace: PathBuf },
    Webhook(Box<Webhook>),
    Mail(Box<Mail>),
}

/// Why a notification was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryError {
    pub why: String,
    /// A retry cannot help.
    pub hopeless: bool,
}

impl DeliveryError {
    fn for_now(why: impl Into<String>) -> Self {
        Self { why: why.into(), hopeless: false }
    }

    fn for_good(why: impl Into<String>) -> Self {
        Self { why: why.into(), hopeless: true }
    }
}

/// Returns the configured channels of this machine. A desktop is left out if the machine has none.
pub fn ways(notify: &Notify, environment: &[(OsString, OsString)], workspace: &Path) -> Vec<Channel> {
    let mut all = Vec::new();
    if notify.desktop {
        all.extend(desktop::find(environment).map(Channel::Desktop));
    }
    if let Some(words) = &notify.command {
        all.push(Channel::Command { words: words.clone(), workspace: workspace.to_owned() });
    }
    all.extend(
        notify.webhooks.iter().map(|each| Channel::Webhook(Box::new(Webhook::new(each, environment)))),
    );
    all.extend(notify.mail.iter().map(|mail| Channel::Mail(Box::new(Mail::new(mail, environment)))));
    all
}

impl Channel {
    /// Returns a name for people, without the secrets of an address.
    pub fn name(&self) -> String {
        match self {
            Channel::Desktop(_) => "the desktop".to_owned(),
            Channel::Command { words, .. } => {
                format!("the command {}", words.first().map_or("", |word| word))
            }
            Channel::Webhook(webhook) => format!("the webhook at {}", webhook.host()),
            Channel::Mail(mail) => format!("the mail server {}", mail.host()),
        }
    }

    /// Returns a unique key, for the delivery record.
    fn key(&self) -> String {
        match self {
            Channel::Desktop(_) => "desktop".to_owned(),
            Channel::Command { words, .. } => {
                format!("command-{}", &Hash::of(words.join("\0").as_bytes()).to_string()[..16])
            }
            Channel::Webhook(webhook) => format!("webhook-{}", webhook.digest()),
            Channel::Mail(mail) => format!("mail-{}", mail.digest()),
        }
    }

    /// Tries once to deliver, for at most about `patience`.
    fn deliver(
        &self,
        message: &Notification,
        environment: &[(OsString, OsString)],
        patience: Duration,
        stop: &AtomicBool,
    ) -> Result<(), DeliveryError> {
        let run = |program: &OsStr, args: &[OsString], cwd: &Path, stdin: &str| {
            // The tag marks processes that are started here, so that provost does not accept commands of a
            // person from them.
            let ended = process::run(Spawn {
                program,
                args,
                cwd,
                env: environment,
                stdin: stdin.as_bytes(),
                deadline: patience.min(PROGRAM_PATIENCE),
                grace: GRACE,
                keep: KEEP,
                tag: &format!("notify/{}/{}", self.key(), message.id),
                stop: Some(stop),
                tee: None,
                bounds: None,
                enclosure: Enclosure::None,
            });
            said(ended)
        };
        match self {
            Channel::Desktop(desktop) => {
                run(desktop.program(), &desktop.arguments(message), Path::new("/"), "")
            }
            Channel::Command { words, workspace } => {
                let Some((program, args)) = words.split_first() else { return Ok(()) };
                let args: Vec<OsString> = args.iter().map(OsString::from).collect();
                run(OsStr::new(program), &args, workspace, &format!("{}\n", message.body))
            }
            Channel::Webhook(webhook) => webhook.deliver(message, patience),
            Channel::Mail(mail) => mail.deliver(message, patience),
        }
    }
}

fn said(ended: Result<process::ProcessEnd, process::StartError>) -> Result<(), DeliveryError> {
    let ended = ended.map_err(|error| DeliveryError::for_good(error.to_string()))?;
    let text = String::from_utf8_lossy(&ended.stderr.tail).trim().to_owned();
    let last = text.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
    match ended.how {
        How::Exited(0) => Ok(()),
        How::Exited(code) => Err(DeliveryError::for_now(format!("it exited with {code}{last}"))),
        How::Signalled(signal) => Err(DeliveryError::for_now(format!("it was ended by signal {signal}"))),
        How::TimedOut | How::OverBounds(_) => Err(DeliveryError::for_now("it took too long and was ended")),
        How::Stopped => Err(DeliveryError::for_now("it was still running when the run ended")),
    }
}
