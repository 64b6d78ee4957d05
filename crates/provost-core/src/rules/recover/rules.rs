//! The rules of the classifier, as data, in the order in which they are asked.
//!
//! A rule says what it looks for, what that means and why, and carries texts it must and must not
//! match. They are general: each names a way in which programs fail, none a program's very line.
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
pub struct Rule {
    pub name: &'static str,
    pub class: FailureClass,
    /// Why it is of that class, for people.
    pub reason: &'static str,
    /// Any of these in the output; letters of either case.
    pub any: &'static [&'static str],
    /// None of these in the output.
    pub unless: &'static [&'static str],
    /// Or one of these as the status of an HTTP answer.
    pub http: &'static [u16],
    /// Or one of these as the exit code, with nothing known from the output.
    pub exit_code: &'static [i32],
    /// What a person has to configure, where that is known.
    pub configure: &'static str,
    /// No waiting and no other step of the same role can get past it.
    pub quota: bool,
    /// In the output of a contract it is about the work: the agent can mend it.
    pub mendable: bool,
    /// It takes a network to run into it.
    pub network: bool,
    /// An agent that ran into it could do nothing, and cannot do anything the next time.
    pub stops_agent: bool,
    pub matches: &'static [&'static str],
    pub misses: &'static [&'static str],
}

const fn of(class: FailureClass) -> Rule {
    Rule {
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

const TRANSIENT: Rule = of(FailureClass::Transient);
const PERMISSION: Rule = of(FailureClass::Permission);
const INPUT: Rule = Rule { mendable: true, ..of(FailureClass::InvalidInput) };
const LOGIC: Rule = of(FailureClass::Logic);
const UNRECOVERABLE: Rule = of(FailureClass::Unrecoverable);

/// What an exit code says by itself, where the output says nothing.
const CODES: &[Rule] = &[
    Rule {
        name: "exit-timeout",
        reason: "it was ended because it took too long",
        exit_code: &[124],
        ..TRANSIENT
    },
    Rule { name: "exit-try-again", reason: "it asks to be tried again later", exit_code: &[75], ..TRANSIENT },
    Rule {
        name: "exit-not-executable",
        reason: "a program may not be executed",
        exit_code: &[126, 77],
        configure: "the rights of the program that was started",
        mendable: true,
        ..PERMISSION
    },
    Rule {
        name: "exit-not-found",
        reason: "a program that is needed is not on this machine",
        exit_code: &[127],
        ..UNRECOVERABLE
    },
    Rule {
        name: "exit-killed",
        reason: "it was killed, most likely for want of memory",
        exit_code: &[137],
        mendable: true,
        ..UNRECOVERABLE
    },
];

/// All of them, in order.
pub fn all() -> impl Iterator<Item = &'static Rule> {
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
