//! Refusals of an agent's requests in a session, with what to do instead.
//!
//! The reader is a model in the middle of its work: every line says what to call next.

use provost_core::language::plan_writer::Unwritable;
use provost_core::model::plan::StepNumber;
use provost_core::rules::command::Refusal;
use provost_core::rules::session_work::WorkRefusal;

use crate::Error;

#[derive(Debug, thiserror::Error)]
pub enum SessionRefusal {
    #[error(
        "there is no plan in this session yet: call plan_create first, with an objective, steps and a check for each; \
         or plan_take, to carry out a plan that is there"
    )]
    NoPlan,
    #[error("plan {name} has not been verified yet: `provost verify {name}`")]
    NotRecorded { name: String },
    #[error(
        "plan {name} belongs to another session that is still there: call plan_create for a plan of your own"
    )]
    Taken { name: String },
    #[error("`{name}` cannot be used here: name a plan of this folder, in a session that was given none")]
    NotToTake { name: String },
    #[error("the log of plan {name} has contracts that are hidden from agents; plan_show shows its state")]
    HidesContracts { name: String },
    #[error(
        "this session works on plan {name}, which is not done: finish it first. If your user wants another one, they \
         release the session with `provost session release {name}`"
    )]
    HasAPlan { name: String },
    #[error(
        "provost cannot tell which session this is: its client gives it no name and runs no `provost mcp`. \
         Set PROVOST_SESSION to its name"
    )]
    UnknownSession,
    #[error(
        "evidence is required: say what was done and where it can be seen, for example which command showed it"
    )]
    NoEvidence,
    #[error("a reason is required: say what keeps you from continuing, so that a person can help")]
    NoReason,
    #[error("the file of plan {name} differs from what was approved ({}). Ask your user to look at it: \
     `provost diff {name}`", changes.join("; "))]
    LawChanged { name: String, changes: Vec<String> },
    #[error("this plan was written by a person: ask your user to change it (`provost amend {name}`)")]
    NotYours { name: String },
    #[error(
        "you work on one step of a run: do it, and end with what you did and where it can be seen. \
         provost checks it when you have ended"
    )]
    InsideAttempt,
    #[error("{0}")]
    Unwritable(#[from] Unwritable),
    #[error("the plan has errors; correct them and call plan_create again:\n{}", lines.join("\n"))]
    Diagnosed { lines: Vec<String> },
    #[error("`{name}` is no name of a topic: a-z, 0-9, `.`, `_`, `-`, beginning with a letter or digit")]
    BadTopic { name: String },
    #[error("there is no topic `{name}`{}", known(topics))]
    NoSuchTopic { name: String, topics: Vec<String> },
    #[error("a topic takes at most {most} bytes; publish a summary, or a path to a file")]
    TopicFull { most: usize },
    #[error("no step is open, so no step would read it; call plan_show")]
    NoStepToPublish,
    #[error(
        "step {step} does not publish `{name}`: {}. Topics are declared with the plan (`publishes` of a step in plan_create)",
        declared_topics(declared)
    )]
    NotDeclared { name: String, step: StepNumber, declared: Vec<String> },
    #[error("there is nothing to publish: `text` is empty")]
    NothingToPublish,
    #[error(transparent)]
    Work(#[from] WorkRefusal),
    #[error(transparent)]
    Engine(Error),
}

impl From<Refusal> for SessionRefusal {
    fn from(refusal: Refusal) -> Self {
        SessionRefusal::Engine(refusal.into())
    }
}

impl From<Error> for SessionRefusal {
    fn from(error: Error) -> Self {
        SessionRefusal::Engine(error)
    }
}

impl SessionRefusal {
    /// Returns the message, followed by its causes.
    pub fn told(&self) -> String {
        let mut words = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            let cause_words = cause.to_string();
            if !words.contains(&cause_words) {
                words.push_str(": ");
                words.push_str(&cause_words);
            }
            source = cause.source();
        }
        words
    }
}

fn declared_topics(declared: &[String]) -> String {
    if declared.is_empty() {
        "it declares none".to_owned()
    } else {
        format!("it declares {}", declared.join(", "))
    }
}

fn known(topics: &[String]) -> String {
    if topics.is_empty() {
        "; none was published yet".to_owned()
    } else {
        format!("; there are: {}", topics.join(", "))
    }
}
