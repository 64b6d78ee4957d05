//! The rules of the classifier, as data, in order of precedence.
//!
//! A rule says what it looks for, what that means and why, and has texts it must and must not match. Rules
//! are general: each describes a way in which programs fail, not a line of one program.
//!
//! **Invariant:** the first rule that matches decides, whatever the order of the lines in the text.

mod access;
mod input;
mod machine;
mod passing;
mod work;

use crate::model::event::FailureClass;

/// One way to fail.
#[derive(Clone, Copy, Debug)]
pub struct FailureRule {
    pub name: &'static str,
    pub class: FailureClass,
    /// The reason for the class, for people.
    pub reason: &'static str,
    /// One of these occurs in the output; case is ignored.
    pub any: &'static [&'static str],
    /// None of these occurs in the output.
    pub unless: &'static [&'static str],
    /// Or one of these is the status of an HTTP response.
    pub http: &'static [u16],
    /// Or one of these is the exit code, if no rule matches the output.
    pub exit_code: &'static [i32],
    /// Things a person has to configure, if known.
    pub configure: &'static str,
    /// Neither waiting nor another step of the same role can get past it.
    pub quota: bool,
    /// In the output of a contract it is about the work: the agent can fix it.
    pub mendable: bool,
    /// It can only happen with a network.
    pub network: bool,
    /// An agent that met it could do nothing, and cannot do anything next time.
    pub stops_agent: bool,
    pub matches: &'static [&'static str],
    pub misses: &'static [&'static str],
}

const fn of(class: FailureClass) -> FailureRule {
    FailureRule {
        name: "",
        class,
        reason: "",
        any: &[],
        unless: &[],
        http: &[],
        exit_code: &[],
        configure: "",
        quota: false,
        mendable: false,
        network: false,
        stops_agent: false,
        matches: &[],
        misses: &[],
    }
}

const TRANSIENT: FailureRule = of(FailureClass::Transient);
const PERMISSION: FailureRule = of(FailureClass::Permission);
const INPUT: FailureRule = FailureRule { mendable: true, ..of(FailureClass::InvalidInput) };
const LOGIC: FailureRule = of(FailureClass::Logic);
const UNRECOVERABLE: FailureRule = of(FailureClass::Unrecoverable);

/// The meaning of an exit code alone, if the output says nothing.
const CODES: &[FailureRule] = &[
    FailureRule {
        name: "exit-timeout",
        reason: "it was ended because it took too long",
        exit_code: &[124],
        ..TRANSIENT
    },
    FailureRule {
        name: "exit-try-again",
        reason: "it asks to be tried again later",
        exit_code: &[75],
        ..TRANSIENT
    },
    FailureRule {
        name: "exit-not-executable",
        reason: "a program is not executable",
        exit_code: &[126, 77],
        configure: "the permissions of the program that was started",
        mendable: true,
        ..PERMISSION
    },
    FailureRule {
        name: "exit-not-found",
        reason: "a required program is not installed on this machine",
        exit_code: &[127],
        ..UNRECOVERABLE
    },
    FailureRule {
        name: "exit-killed",
        reason: "it was killed, most likely because memory ran out",
        exit_code: &[137],
        mendable: true,
        ..UNRECOVERABLE
    },
];

/// Returns all rules, in order.
pub fn all() -> impl Iterator<Item = &'static FailureRule> {
    [
        machine::EXHAUSTED,
        work::RUNNERS,
        access::OURS,
        input::AGENTS,
        access::QUOTA,
        passing::RATE,
        access::CREDENTIALS,
        access::LOCAL,
        passing::NETWORK,
        machine::MISSING,
        input::PARSERS,
        work::CODE,
        input::RULES,
        work::TRACES,
        CODES,
    ]
    .into_iter()
    .flatten()
}
