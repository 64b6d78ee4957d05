//! The groups of commands in `provost --help`.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

/// Heading of each group, and its commands in the order of their use.
const GROUPS: &[(&str, &[&str])] = &[
    ("Plan", &["new", "suggest-checks", "verify", "try", "show", "diff", "amend"]),
    ("Run", &["run", "chat", "stop", "status", "watch", "log", "changes"]),
    ("Decide", &["inbox", "approve", "reject", "ask", "answer", "trust"]),
    ("Prove", &["proved", "audit", "recheck", "commit", "integrate"]),
    (
        "Many plans",
        &["list", "ready", "queue", "merge-order", "which", "spawn", "worktree", "fork", "compare"],
    ),
    ("Set up", &["start", "demo", "init", "doctor", "completions", "serve", "gc", "archive"]),
    ("Many machines", &["migrate", "worker", "cluster"]),
    ("For clients and scripts", &["mcp", "lsp", "hook", "session", "classify", "redact", "bench"]),
];

/// Commands that print no document, so that their help does not offer `--json`.
const WITHOUT_JSON: [&str; 5] = ["chat", "hook", "lsp", "mcp", "watch"];

/// Gives the command a help that lists its subcommands by group. A visible subcommand without a group is
/// listed at the end.
pub(crate) fn grouped(command: Command) -> Command {
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let visible =
        |name: &str| command.get_subcommands().find(|sub| sub.get_name() == name && !sub.is_hide_set());
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let rest: Vec<&str> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && !is_grouped(sub.get_name()))
        .map(Command::get_name)
        .collect();
    let mut text = String::new();
    for (heading, names) in GROUPS.iter().copied().chain([("Other", rest.as_slice())]) {
        let commands: Vec<&Command> = names.iter().filter_map(|name| visible(name)).collect();
        if commands.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{header}{heading}:{header:#}");
        for sub in commands {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{:<12}{literal:#} {about}", sub.get_name());
        }
        text.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}{header}Global options:{header:#}\n{{options}}\n\n\
         `provost COMMAND --help` has an example of each command.\n{{after-help}}"
    );
    WITHOUT_JSON.iter().fold(command.help_template(template), |command, name| {
        command.mut_subcommand(name, |sub| {
            sub.arg(Arg::new("json").long("json").action(ArgAction::SetTrue).hide(true))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cmd::Cli;

    /// Every visible command with its path, `provost` left out.
    fn visible_commands() -> Vec<(Vec<String>, Command)> {
        fn collect(path: &[String], command: &Command, found: &mut Vec<(Vec<String>, Command)>) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
            {
                let path: Vec<String> = path.iter().cloned().chain([sub.get_name().to_owned()]).collect();
                collect(&path, sub, found);
                found.push((path, sub.clone()));
            }
        }
        let mut command = Cli::command();
        command.build();
        let mut found = Vec::new();
        collect(&[], &command, &mut found);
        found
    }

    /// The lines of a help text that are commands of provost, without the words that explain them.
    fn examples(command: &Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        let lines = lines.take_while(|line| line.starts_with("  "));
        let typed = lines.map(|line| line.trim().split("  ").next().unwrap_or_default().to_owned());
        typed.filter(|line| line.contains("provost ") && !line.contains(" mcp add ")).collect()
    }

    /// Splits a line as a shell does, as far as the examples need it.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for letter in line.chars() {
            match (quote, letter) {
                (Some(open), letter) if letter == open => quote = None,
                (Some(_), letter) => word.get_or_insert_default().push(letter),
                (None, '\'' | '"') => {
                    quote = Some(letter);
                    word.get_or_insert_default();
                }
                (None, ' ') => words.extend(word.take()),
                (None, letter) => word.get_or_insert_default().push(letter),
            }
        }
        words.extend(word);
        words
    }

    #[test]
    fn every_visible_command_is_in_one_group_and_fits_a_line() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name)).count();
            assert_eq!(groups, 1, "`provost {name}` is in {groups} groups of help_groups.rs");
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.chars().count() <= 84, "the first line of `provost {name} --help` is too long");
        }
        let help = grouped(Cli::command()).render_help().to_string();
        assert!(!help.contains("Other:") && help.contains("Decide:\n  inbox"), "{help}");
    }

    #[test]
    fn every_visible_command_has_an_example_that_parses() {
        for (path, command) in visible_commands() {
            let own = examples(&command);
            let call = format!("provost {}", path.join(" "));
            assert!(own.iter().any(|line| line.contains(&call)), "`{call} --help` has no example of it");
            for line in own {
                let start = line.find("provost ").unwrap_or_default();
                let line = &line[start..];
                let end = line.find([')', '|', '<', '>']).unwrap_or(line.len());
                let parsed = Cli::command().try_get_matches_from(words(&line[..end]));
                assert!(parsed.is_ok(), "`{line}` of `{call} --help`: {}", parsed.unwrap_err());
            }
        }
        let whole = Cli::command();
        assert!(!examples(&whole).is_empty());
    }

    #[test]
    fn a_flag_has_one_meaning_over_all_commands() {
        let shape = |arg: &Arg| match arg.get_action() {
            ArgAction::Set | ArgAction::Append => {
                let names = arg.get_value_names().unwrap_or_default();
                names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
            _ => "a switch".to_owned(),
        };
        let mut longs: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        let mut shorts: BTreeMap<char, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        for (path, command) in visible_commands() {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let Some(long) = arg.get_long() else { continue };
                let of_flag = longs.entry(long.to_owned()).or_default();
                of_flag.entry(shape(arg)).or_default().push(path.join(" "));
                if let Some(short) = arg.get_short() {
                    let of_short = shorts.entry(short).or_default();
                    of_short.entry(long.to_owned()).or_default().push(path.join(" "));
                }
            }
        }
        let mut clashes = Vec::new();
        clashes
            .extend(longs.iter().filter(|(_, shapes)| shapes.len() > 1).map(|found| format!("--{found:?}")));
        clashes.extend(shorts.iter().filter(|(_, flags)| flags.len() > 1).map(|found| format!("-{found:?}")));
        assert!(clashes.is_empty(), "one flag, several meanings:\n{}", clashes.join("\n"));
    }
}
