use crate::completion::{self, ShellName};
use crate::failure::Failure;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Print the completion script of a shell
///
/// The script asks provost at each tab, so names of plans, numbers of steps and ids of the inbox come from the
/// log as it is then.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  source <(provost completions bash)                                  in ~/.bashrc
  source <(provost completions zsh)                                   in ~/.zshrc, after compinit
  provost completions fish > ~/.config/fish/completions/provost.fish
  provost completions powershell | Out-String | Invoke-Expression     in $PROFILE
  provost completions nushell | save -f ($nu.default-config-dir | path join autoload/provost.nu)")]
pub(super) struct Args {
    shell: ShellName,
}

pub(super) fn obey(args: Args) -> Answer {
    let script = completion::script(args.shell)
        .map_err(|source| Failure::Io { what: "write the completion script".to_owned(), source })?;
    terminal::print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}
