//! Completes the commands that a message names, so that they work when they are pasted.
//!
//! A message names a command in back-quotes: `provost run`. If the person named a plan or a folder on the
//! command line, the command needs the same words, or it would be about another plan.

use std::path::Path;
use std::sync::OnceLock;

use provost_core::language::shell_word::quoted;

/// Commands whose first argument is a plan.
const TAKE_A_PLAN: &[&str] = &[
    "amend", "approve", "ask", "audit", "changes", "commit", "diff", "fork", "log", "proved", "recheck",
    "reject", "run", "show", "status", "stop", "verify", "watch",
];

/// The words of this command line that a hint repeats.
#[derive(Debug, Default)]
struct TypedWords {
    options: String,
    plan: Option<String>,
}

static TYPED: OnceLock<TypedWords> = OnceLock::new();

/// Keeps the folder, the state folder and the plan that this command is about. The first call counts: a
/// command is about one plan.
pub(crate) fn keep(dir: Option<&Path>, state: Option<&Path>, plan: Option<&str>) {
    let _ = TYPED.set(TypedWords { options: options(dir, state), plan: plan.map(quoted) });
}

/// Returns the global options that were typed; those of the environment hold for the next command too.
fn options(dir: Option<&Path>, state: Option<&Path>) -> String {
    let mut options = String::new();
    if let Some(dir) = dir {
        options.push_str(&format!(" -C {}", quoted(&dir.display().to_string())));
    }
    let in_environment = std::env::var_os("PROVOST_STATE");
    if let Some(state) = state.filter(|state| in_environment.as_deref() != Some(state.as_os_str())) {
        options.push_str(&format!(" --state {}", quoted(&state.display().to_string())));
    }
    options
}

/// Returns the message with its commands completed.
pub(crate) fn complete(text: &str) -> String {
    match TYPED.get() {
        Some(typed) => complete_with(text, typed),
        None => text.to_owned(),
    }
}

fn complete_with(text: &str, typed: &TypedWords) -> String {
    const OPENING: &str = "`provost ";
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(OPENING) {
        let (before, command) = rest.split_at(at + OPENING.len());
        let Some(end) = command.find('`') else { break };
        done.push_str(before.trim_end_matches(' '));
        done.push_str(&typed.options);
        done.push(' ');
        done.push_str(&with_plan(&command[..end], typed.plan.as_deref()));
        rest = &command[end..];
    }
    done + rest
}

/// Adds the plan to a command that names none.
fn with_plan(command: &str, plan: Option<&str>) -> String {
    let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
    let first = rest.split(' ').next().unwrap_or_default();
    let is_step = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let names_a_plan = !first.is_empty() && !first.starts_with('-') && !is_step;
    match plan {
        Some(plan) if verb == "answer" && (is_step || first == "post") => format!("{verb} {plan}:{rest}"),
        Some(plan) if TAKE_A_PLAN.contains(&verb) && !names_a_plan => {
            format!("{verb} {plan} {rest}").trim_end().to_owned()
        }
        _ => command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(text: &str) -> String {
        let typed = TypedWords { options: " -C 'my app'".to_owned(), plan: Some("auth".to_owned()) };
        complete_with(text, &typed)
    }

    #[test]
    fn a_command_gets_the_folder_and_the_plan_of_the_command_line() {
        assert_eq!(
            completed("read it with `provost show`, then `provost approve --revision 12ab`"),
            "read it with `provost -C 'my app' show auth`, then `provost -C 'my app' approve auth --revision 12ab`"
        );
        assert_eq!(completed("see `provost inbox e7`"), "see `provost -C 'my app' inbox e7`");
        assert_eq!(completed("`provost changes 2`"), "`provost -C 'my app' changes auth 2`");
        assert_eq!(completed("`provost answer 2 retry`"), "`provost -C 'my app' answer auth:2 retry`");
        assert_eq!(completed("`provost run docs --jobs 2`"), "`provost -C 'my app' run docs --jobs 2`");
        assert_eq!(completed("no command, and an open ` quote"), "no command, and an open ` quote");
    }

    #[test]
    fn without_these_words_nothing_changes() {
        let text = "`provost run` continues it";
        assert_eq!(complete_with(text, &TypedWords::default()), text);
    }
}
