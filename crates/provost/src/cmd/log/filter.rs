//! Filters events: the query selects what the log can look up, and this module drops the rest.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;

use provost_core::model::chain::{PlanId, SealedEvent};
use provost_core::model::event::{DESCRIPTIONS, Event, FailureClass};
use provost_core::model::plan::StepNumber;
use provost_core::model::suggest;
use provost_core::model::timestamp::Timestamp;
use provost_engine::Query;
use provost_engine::observe::history::History;

use crate::failure::Failure;

const CLASSES: [FailureClass; 6] = [
    FailureClass::Transient,
    FailureClass::Permission,
    FailureClass::InvalidInput,
    FailureClass::Logic,
    FailureClass::Unrecoverable,
    FailureClass::Unknown,
];

/// Events that belong to one failure; they follow each other directly, in this order.
const OF_A_FAILURE: [&str; 8] = [
    "FAILURE_DETECTED",
    "FAILURE_CLASSIFIED",
    "RECOVERY_APPLIED",
    "PERMISSION_REQUIRED",
    "RECOVERY_ESCALATION",
    "TASK_FAILED",
    "TASK_WAIVED",
    "EXECUTION_COMPLETE",
];

/// Callback for each event that passes the filter; it can stop the read.
type Each<'a> = &'a mut dyn FnMut(SealedEvent) -> ControlFlow<()>;
const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

pub(super) struct Filter {
    pub query: Query,
    /// Plans to show, if there is more than one; `query.plan` selects a single one.
    plans: Option<BTreeSet<PlanId>>,
    failures: Option<Failures>,
}

impl Filter {
    pub(super) fn read(events: &[String], class: Option<&str>) -> Result<Self, Failure> {
        let names = events.iter().map(|typed| name(typed)).collect::<Result<Vec<String>, _>>()?;
        let failures = class.map(read_class).transpose()?.map(|class| Failures::new(class, &names));
        let of_a_failure = |name: &String| OF_A_FAILURE.contains(&name.as_str());
        if failures.is_some() && !names.is_empty() && !names.iter().any(of_a_failure) {
            return Err(Failure::usage(
                format!("{} has no failure class", names.join(", ")),
                format!("Use --class with {}.", OF_A_FAILURE.join(", ")),
            ));
        }
        let names = match failures {
            Some(_) => OF_A_FAILURE.map(str::to_owned).to_vec(),
            None => names,
        };
        Ok(Self { query: Query { names, ..Query::default() }, plans: None, failures })
    }

    pub(super) fn of(
        &mut self,
        history: &History,
        task: Option<u32>,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) {
        match history.chosen() {
            Some(chosen) if chosen.len() == 1 => self.query.plan = chosen.first().cloned(),
            chosen => self.plans = chosen.cloned(),
        }
        self.query.step = task.map(StepNumber);
        (self.query.since, self.query.until) = (since, until);
    }

    /// Calls `each` for all matching events, oldest first.
    pub(super) fn all(&mut self, history: &History, each: Each<'_>) -> Result<(), Failure> {
        let query = self.query.clone();
        Ok(history.each(&query, &mut |sealed| self.pass(sealed, each))?)
    }

    /// Calls `each` for the newest `limit` matching events, oldest first.
    pub(super) fn last(&mut self, history: &History, limit: u64, each: Each<'_>) -> Result<(), Failure> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut kept = VecDeque::new();
        // An event belongs to a failure because of the events before it, so failures are read forwards.
        let backwards = self.failures.is_none();
        let query = Query { newest_first: backwards, ..self.query.clone() };
        if limit > 0 {
            history.each(&query, &mut |sealed| {
                self.pass(sealed, &mut |sealed| {
                    if backwards {
                        kept.push_front(sealed);
                        return if kept.len() == limit { ControlFlow::Break(()) } else { GO_ON };
                    }
                    kept.push_back(sealed);
                    if kept.len() > limit {
                        kept.pop_front();
                    }
                    GO_ON
                })
            })?;
        }
        let _ = kept.into_iter().try_for_each(each);
        Ok(())
    }

    fn pass(&mut self, sealed: SealedEvent, each: Each<'_>) -> ControlFlow<()> {
        if self.plans.as_ref().is_some_and(|plans| !plans.contains(&sealed.plan)) {
            return GO_ON;
        }
        match &mut self.failures {
            None => each(sealed),
            Some(failures) => failures.pass(sealed, each),
        }
    }
}

/// Selects the failures of one class, each with the events that followed from it.
struct Failures {
    class: FailureClass,
    /// Names of the events to show; empty means all.
    names: Vec<String>,
    /// A failure that was detected but is not classified yet.
    detected: Option<SealedEvent>,
    /// The last event that belonged to a failure of the class.
    last: Option<(PlanId, u64)>,
}

impl Failures {
    fn new(class: FailureClass, names: &[String]) -> Self {
        Self { class, names: names.to_vec(), detected: None, last: None }
    }

    fn pass(&mut self, sealed: SealedEvent, each: Each<'_>) -> ControlFlow<()> {
        let follows = |before: &PlanId, seq: u64| *before == sealed.plan && seq + 1 == sealed.seq;
        let detected = self.detected.take().filter(|detected| follows(&detected.plan, detected.seq));
        if sealed.name == "FAILURE_DETECTED" {
            self.detected = Some(sealed);
            return GO_ON;
        }
        let belongs = match sealed.event() {
            Ok(Event::FailureClassified { failure_type, .. }) => failure_type == self.class,
            Ok(_) => self.last.take().is_some_and(|(plan, seq)| follows(&plan, seq)),
            Err(_) => false,
        };
        if !belongs {
            self.last = None;
            return GO_ON;
        }
        self.last = Some((sealed.plan.clone(), sealed.seq));
        for sealed in detected.into_iter().chain([sealed]) {
            if self.names.is_empty() || self.names.contains(&sealed.name) {
                each(sealed)?;
            }
        }
        GO_ON
    }
}

fn name(typed: &str) -> Result<String, Failure> {
    let name = typed.trim().to_uppercase().replace('-', "_");
    let known = || DESCRIPTIONS.iter().map(|(name, _)| *name);
    if known().any(|known| known == name) {
        return Ok(name);
    }
    let hint = match suggest::suggestion(&name, known()) {
        Some(meant) => format!("Did you mean {meant}?"),
        None => format!("There are {}.", known().collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::usage(format!("there is no event `{typed}`"), hint))
}

fn read_class(typed: &str) -> Result<FailureClass, Failure> {
    let word = typed.trim().to_lowercase().replace('-', "_");
    if let Some(class) = CLASSES.into_iter().find(|class| class.word() == word) {
        return Ok(class);
    }
    let known = CLASSES.map(FailureClass::word);
    let hint = match suggest::suggestion(&word, known) {
        Some(meant) => format!("Did you mean {meant}?"),
        None => format!("There are {}.", known.join(", ")),
    };
    Err(Failure::usage(format!("there is no failure class `{typed}`"), hint))
}
