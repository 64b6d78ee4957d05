//! Completes command lines for shells: commands and options from clap; plans, steps and inbox items from the
//! log.
//!
//! The script of a shell (`provost completions SHELL`) starts the program with `PROVOST_COMPLETE` set and the
//! words typed so far. Completion only reads, and answers nothing if the log cannot be read.

use std::ffi::{OsStr, OsString};
use std::io::{Error, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, Command};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    self, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use clap_complete::env::{Bash, EnvCompleter, Fish, Powershell, Shells, Zsh};
use provost_core::rules::inbox;
use provost_engine::observe::{agenda, inbox as listing};
use provost_engine::plan::recording;
use provost_engine::settings::Access;

use crate::open_plan::Global;
use crate::outcome;

const VARIABLE: &str = "PROVOST_COMPLETE";
const SHELLS: [&dyn EnvCompleter; 5] = [&Bash, &Zsh, &Fish, &Powershell, &Nushell];

/// Shells with completion, by the names of `provost completions`.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum ShellName {
    Bash,
    Zsh,
    Fish,
    #[value(name = "powershell", alias = "pwsh")]
    PowerShell,
    #[value(alias = "nu")]
    Nushell,
}

/// Returns the script that a shell loads.
pub(crate) fn script(shell: ShellName) -> Result<Vec<u8>, Error> {
    let shell: &dyn EnvCompleter = match shell {
        ShellName::Bash => &Bash,
        ShellName::Zsh => &Zsh,
        ShellName::Fish => &Fish,
        ShellName::PowerShell => &Powershell,
        ShellName::Nushell => &Nushell,
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "provost", "provost", "provost", &mut script)?;
    Ok(script)
}

/// Answers the script of a shell. `None` if this process was not started by one.
pub(crate) fn answer(command: fn() -> Command) -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    let folder = std::env::current_dir().ok();
    let answered = CompleteEnv::with_factory(|| with_values(command()))
        .var(VARIABLE)
        .bin("provost")
        .completer("provost")
        .shells(Shells(&SHELLS))
        .try_complete(std::env::args_os(), folder.as_deref());
    match answered {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(error) => {
            let _ = error.print();
            Some(ExitCode::from(outcome::USAGE))
        }
    }
}

/// Adds the values from the log to the arguments of all commands, by the names of the arguments.
fn with_values(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.mut_subcommands(with_values).mut_args(|arg| with_value(&name, arg))
}

fn with_value(command: &str, arg: Arg) -> Arg {
    let completer = match (command, arg.get_id().as_str()) {
        ("changes", "plan") | (_, "what") => ArgValueCompleter::new(plans_and_steps),
        (_, "plan" | "plans" | "named" | "one" | "other") => ArgValueCompleter::new(plans),
        ("amend" | "fork", "from") | (_, "step" | "task") => ArgValueCompleter::new(steps),
        ("answer", "id") => ArgValueCompleter::new(items_and_steps),
        ("inbox", "id") => ArgValueCompleter::new(items),
        _ => return arg,
    };
    arg.add(completer)
}

/// Names of plans; files if no name fits.
fn plans(typed: &OsStr) -> Vec<CompletionCandidate> {
    let fitting = fitting(typed, plan_names().unwrap_or_default());
    if fitting.is_empty() { PathCompleter::file().complete(typed) } else { fitting }
}

fn plans_and_steps(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = fitting(typed, step_numbers().unwrap_or_default());
    found.extend(plans(typed));
    found
}

fn steps(typed: &OsStr) -> Vec<CompletionCandidate> {
    fitting(typed, step_numbers().unwrap_or_default())
}

fn items(typed: &OsStr) -> Vec<CompletionCandidate> {
    fitting(typed, item_ids().unwrap_or_default())
}

fn items_and_steps(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = items(typed);
    found.extend(steps(typed));
    found
}

/// Keeps the values that begin with what was typed. Each value has a description.
fn fitting(typed: &OsStr, values: Vec<(String, String)>) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let fits = values.into_iter().filter(|(value, _)| value.starts_with(typed));
    fits.map(|(value, help)| CompletionCandidate::new(value).help(Some(help.into()))).collect()
}

fn plan_names() -> Option<Vec<(String, String)>> {
    let settings = typed_options().settings_without_signals(None).ok()?;
    let plans = agenda::read(&settings).ok()?.listed;
    let described =
        |card: &provost_engine::observe::view::PlanCard| format!("{}: {}", card.stage.word(), card.title);
    Some(plans.iter().map(|plan| (plan.card.name.clone(), described(&plan.card))).collect())
}

/// Steps of the plan whose name was typed, or of the active one.
fn step_numbers() -> Option<Vec<(String, String)>> {
    let words = typed_words();
    let names = plan_names()?;
    let plan =
        names.iter().map(|(name, _)| name.as_str()).find(|name| words.iter().any(|word| word == *name));
    let harness = typed_options().open(plan, Access::Read).ok()?;
    let (run, _) = recording::preview(&harness).ok()?;
    let described = |step: &provost_core::model::plan::Step| {
        format!("{}: {}", run.state_word(step.number).replace('_', " "), step.title)
    };
    Some(run.steps().map(|(step, _)| (step.number.to_string(), described(step))).collect())
}

fn item_ids() -> Option<Vec<(String, String)>> {
    let settings = typed_options().settings_without_signals(None).ok()?;
    let items = listing::list(&settings, false).ok()?.items;
    Some(
        items
            .iter()
            .map(|item| (inbox::short(&items, item), format!("{}: {}", item.name, item.reason)))
            .collect(),
    )
}

/// Returns the words of the command line that is completed.
fn typed_words() -> Vec<OsString> {
    std::env::args_os().skip_while(|word| word != "--").skip(2).collect()
}

/// Returns the options of every command, as far as they were typed.
fn typed_options() -> Global {
    let words = typed_words();
    let value = |names: [&str; 2]| {
        let at = words.iter().position(|word| names.iter().any(|name| word == name))?;
        words.get(at + 1).map(PathBuf::from)
    };
    let state =
        value(["--state", "--state"]).or_else(|| std::env::var_os("PROVOST_STATE").map(PathBuf::from));
    Global { dir: value(["-C", "--dir"]), state, json: false }
}

/// Adapter for nushell, which clap lacks: its external completer takes a list of values with descriptions.
struct Nushell;

impl EnvCompleter for Nushell {
    fn name(&self) -> &'static str {
        "nushell"
    }

    fn is(&self, name: &str) -> bool {
        ["nushell", "nu"].contains(&name)
    }

    fn write_registration(
        &self,
        variable: &str,
        _name: &str,
        program: &str,
        completer: &str,
        script: &mut dyn Write,
    ) -> Result<(), Error> {
        let text = include_str!("completion/provost.nu");
        let text =
            text.replace("VARIABLE", variable).replace("PROGRAM", program).replace("COMPLETER", completer);
        script.write_all(text.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        output: &mut dyn Write,
    ) -> Result<(), Error> {
        let last = words.len().saturating_sub(1);
        let found = engine::complete(command, words, last, folder)?;
        let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let values: Vec<_> = found
            .iter()
            .map(|found| {
                let help = found.get_help().map(|help| first_line(help.to_string()));
                serde_json::json!({ "value": found.get_value().to_string_lossy(), "description": help })
            })
            .collect();
        writeln!(output, "{}", serde_json::Value::from(values))
    }
}
