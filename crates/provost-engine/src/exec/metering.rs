//! Opens the account of a metered attempt: finds the key, sets the limit, and redacts the learned secrets.
//!
//! **Invariant:** a metered role works with its meter or not at all.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use provost_core::model::event::{AttemptEnd, Event};
use provost_core::model::usage::{Amount, Usage};
use provost_core::redact::Redactor;
use provost_core::rules::recover::last_words;
use provost_host::agent::AttemptReport;
use provost_host::egress::meter::{Account, Limit, NetworkSettings, PriceLookup, Service};
use provost_host::egress::prices;

use crate::plan::plan_context::PlanContext;

/// State shared by all attempts of a run.
#[derive(Default)]
pub struct RunMetering {
    way: OnceLock<Arc<NetworkSettings>>,
    /// Keys from commands or from variables that do not look secret, and tokens of attempts.
    secrets: Mutex<Vec<Redactor>>,
}

impl RunMetering {
    /// Opens an account, or returns why it cannot, in words for the person who configures it. `None` if the
    /// role has no meter.
    pub fn open(&self, site: &PlanContext, role: &str, limit: Amount) -> Result<Option<Account>, String> {
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
        let way = self.way.get_or_init(|| Arc::new(NetworkSettings::of(&site.environment)));
        let account = Account::open(service, way.clone());
        let account = account.map_err(|error| told(format!("its meter cannot be opened: {error}")))?;
        let known =
            key.iter().map(|key| ("model-key", key.expose())).chain([("meter-token", account.token())]);
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).push(Redactor::new(known));
        Ok(Some(account))
    }

    /// Closes the account of a finished attempt and replaces its usage by what the meter counted.
    pub fn close(&self, account: Account, attempt: &mut AttemptReport) {
        let bill = account.close();
        let told = std::mem::replace(&mut attempt.usage, bill.usage);
        attempt.notes.extend(bill.notes);
        // The status and the wait that the API asked for do not reach the report of every client.
        if let Some(refused) = bill.refused.filter(|_| attempt.end != (AttemptEnd::Exited { exit_code: 0 })) {
            let line = last_words::answered(refused.status, refused.after.as_deref());
            attempt.report = format!("{}\n{line}", attempt.report.trim_end()).trim_start().to_owned();
        }
        if attempt.usage.calls == Some(0) && told.tokens().is_some_and(|tokens| tokens > 0) {
            attempt
                .notes
                .push("the agent says that it asked a model, and the meter saw nothing of it".to_owned());
        }
    }

    /// Returns the event without the secrets learned here.
    pub fn redacted(&self, event: Event) -> Event {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.iter().fold(event, |event, secrets| secrets.event(event))
    }

    /// Returns the text without the secrets learned here.
    pub fn clean(&self, text: String) -> String {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.iter().fold(text, |text, secrets| secrets.text(&text).into_owned())
    }
}

/// Returns the price function: prices of the configuration first, then the built-in list.
fn price(site: &PlanContext) -> PriceLookup {
    let own = site.config.prices.clone();
    Arc::new(move |model: &str, usage: &Usage| prices::priced(&own, Some(model), usage.clone()).micro_usd)
}
