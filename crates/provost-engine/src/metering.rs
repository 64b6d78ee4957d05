//! Opens the account of a metered attempt: finds the key, says what may be spent, and remembers what must
//! not be seen.
//!
//! **Invariant:** a role that is metered works with its meter or not at all.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use provost_core::model::event::Event;
use provost_core::model::usage::{Amount, Usage};
use provost_core::redact::Redactor;
use provost_host::agent::Attempt;
use provost_host::meter::{Account, Limit, Price, Service, Way};
use provost_host::prices;

use crate::site::Site;

/// What all attempts of a run have in common.
#[derive(Default)]
pub struct Metering {
    way: OnceLock<Arc<Way>>,
    /// Keys that came from commands, or from variables that do not look secret, and tokens of attempts.
    secrets: Mutex<Vec<Redactor>>,
}

impl Metering {
    /// Or why it cannot be, in words for the person who configures it. None, where the role has no meter.
    pub fn open(&self, site: &Site, role: &str, limit: Amount) -> Result<Option<Account>, String> {
        let metering = site.config.agents.get(role).and_then(|found| found.meter.as_ref());
        let Some(metering) = metering else { return Ok(None) };
        let told = |why: String| format!("[agents.{role}] is metered: {why}");
        let key = metering.key.as_ref().map(|source| source.key(&site.environment, &site.place.workspace));
        let key = key.transpose().map_err(|error| told(error.to_string()))?;
        let service = Service {
            api: metering.api,
            target: metering.upstream.clone(),
            key: key.clone(),
            limit: Limit { tokens: limit.tokens, micro_usd: limit.micro_usd },
            price: price(site),
        };
        let way = self.way.get_or_init(|| Arc::new(Way::of(&site.environment)));
        let account = Account::open(service, way.clone());
        let account = account.map_err(|error| told(format!("its meter cannot be opened: {error}")))?;
        let known =
            key.iter().map(|key| ("model-key", key.expose())).chain([("meter-token", account.token())]);
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).push(Redactor::new(known));
        Ok(Some(account))
    }

    /// The attempt is over, and the meter has the word on what it used.
    pub fn close(&self, account: Account, attempt: &mut Attempt) {
        let bill = account.close();
        let told = std::mem::replace(&mut attempt.usage, bill.usage);
        attempt.notes.extend(bill.notes);
        if attempt.usage.calls == Some(0) && told.tokens().is_some_and(|tokens| tokens > 0) {
            attempt
                .notes
                .push("the agent says that it asked a model, and the meter saw nothing of it".to_owned());
        }
    }

    /// The event without any of the secrets that were learned here.
    pub fn redacted(&self, event: Event) -> Event {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.iter().fold(event, |event, secrets| secrets.event(event))
    }

    /// Without any of the secrets that were learned here.
    pub fn clean(&self, text: String) -> String {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.iter().fold(text, |text, secrets| secrets.text(&text).into_owned())
    }
}

/// By the prices of the configuration, then by the list that is built in.
fn price(site: &Site) -> Price {
    let own = site.config.prices.clone();
    Arc::new(move |model: &str, usage: &Usage| prices::priced(&own, Some(model), usage.clone()).micro_usd)
}
