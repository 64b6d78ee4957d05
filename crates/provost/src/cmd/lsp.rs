use std::io::IsTerminal as _;

use crate::open_plan::Global;
use crate::outcome::Answer;
use crate::{lsp, terminal};

/// Serve plan files to an editor over the language server protocol
///
/// Your editor starts this command and talks to it on standard input and output. It shows the diagnostics of
/// `provost verify` while you type, offers their fixes, explains and completes fields, and shows the last
/// verdict of each step. It changes no file, and never approves a plan. docs/editor.md has the setup for each
/// editor.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost lsp                         the command that an editor starts

Neovim, in init.lua:
  vim.api.nvim_create_autocmd('BufReadPost', { pattern = 'PLAN*.md', callback = function()
    vim.lsp.start({ name = 'provost', cmd = { 'provost', 'lsp' }, root_dir = vim.fn.getcwd() })
  end })

Helix, in languages.toml:
  [language-server.provost]
  command = \"provost\"
  args = [\"lsp\"]
  [[language]]
  name = \"markdown\"
  language-servers = [\"provost\"]

VS Code: the extension in editors/vscode of the repository starts it.")]
pub(super) struct Args {
    /// Use standard input and output, as always; for clients that add this flag
    #[arg(long, hide = true)]
    stdio: bool,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    // Some clients always say how they talk.
    let Args { stdio: _ } = args;
    if std::io::stdin().is_terminal() {
        terminal::talk("an editor starts this command; `provost lsp --help` shows how to set it up");
    }
    lsp::serve(global)
}
