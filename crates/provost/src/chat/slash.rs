//! The commands of a chat, which begin with a slash.

use std::path::Path;
use std::process::Command;

use super::Talk;
use crate::failure::Failure;
use crate::terminal;

const HELP: &str = "\
/plan      show the plan of this conversation and its steps
/approve   decide about a plan that waits
/diff      show what changed in the folder, with git
/cost      show the tokens that this conversation used
/clear     begin a new conversation
/quit      end (also Ctrl-D)
A line that ends in \\ goes on in the next one. Ctrl-C interrupts the agent.";

/// A command of the person.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Slash {
    Help,
    Plan,
    Approve,
    Diff,
    Cost,
    Clear,
    Quit,
    Unknown(String),
}

impl Slash {
    /// Reads a line; `None` if it is a message for the agent. A path such as `/etc/hosts` is one.
    pub(super) fn of(line: &str) -> Option<Self> {
        let word = line.trim().strip_prefix('/')?;
        Some(match word {
            "help" | "?" => Slash::Help,
            "plan" | "status" => Slash::Plan,
            "approve" => Slash::Approve,
            "diff" => Slash::Diff,
            "cost" => Slash::Cost,
            "clear" | "new" => Slash::Clear,
            "quit" | "exit" | "q" => Slash::Quit,
            other if other.contains([' ', '/']) => return None,
            other => Slash::Unknown(other.to_owned()),
        })
    }
}

/// Makes the folder of a file, readable by this user only.
pub(super) fn make_folder(file: &Path) -> std::io::Result<()> {
    file.parent().map_or(Ok(()), provost_engine::make_private_folder)
}

impl Talk {
    pub(super) fn command(&mut self, command: &Slash) -> Result<(), Failure> {
        match command {
            Slash::Help => terminal::talk(HELP),
            Slash::Plan => self.show_plan(),
            Slash::Approve => match self.gate.ask() {
                Some(Ok(words)) => {
                    self.turn(&words);
                }
                Some(Err(_)) => {}
                None => terminal::talk("no plan waits for you"),
            },
            Slash::Diff => {
                let git = Command::new("git").args(["--no-pager", "diff", "HEAD"]).status();
                if !git.is_ok_and(|status| status.success()) {
                    terminal::talk("git could not show the changes in this folder");
                }
            }
            Slash::Cost => {
                let count = |tokens: Option<u64>| tokens.map_or("unknown".to_owned(), |n| n.to_string());
                terminal::talk(&match self.chat.usage() {
                    Some(used) => {
                        let [input, output] = [used.input_tokens, used.output_tokens].map(count);
                        format!("tokens since you opened this conversation: {input} in, {output} out")
                    }
                    None => "nothing was asked yet".to_owned(),
                });
            }
            Slash::Clear => {
                self.chat.clear();
                terminal::talk("a new conversation");
            }
            Slash::Unknown(word) => {
                terminal::talk(&format!("there is no /{word}; /help lists the commands"));
            }
            Slash::Quit => {}
        }
        Ok(())
    }

    fn show_plan(&self) {
        let Some(plan) = self.gate.plan() else {
            return terminal::talk("this conversation has no plan");
        };
        let (done, total) = plan.run.progress();
        terminal::talk(&format!("{}: {} · {done}/{total} steps", plan.run.plan.title, plan.run.stage.word()));
        for step in &plan.run.plan.steps {
            terminal::talk(&format!(
                "  {}. {}: {}",
                step.number,
                step.title,
                plan.run.state_word(step.number)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Slash;

    #[test]
    fn a_path_is_a_message_and_a_misspelt_command_is_not() {
        assert_eq!(Slash::of(" /help "), Some(Slash::Help));
        assert_eq!(Slash::of("/etc/hosts is wrong"), None);
        assert_eq!(Slash::of("/halp"), Some(Slash::Unknown("halp".to_owned())));
        assert_eq!(Slash::of("help"), None);
    }
}
