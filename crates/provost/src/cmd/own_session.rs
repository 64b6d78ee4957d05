use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::failure::Failure;

/// Start a program in a session of its own, without a terminal (internal: `provost chat` starts it)
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

pub(super) fn obey(args: &Args) -> Result<Infallible, Failure> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::usage("no program is named", "Use `provost own-session PROGRAM`."));
    };
    let failed = |source| Failure::Io { what: format!("start `{}`", program.display()), source };
    rustix::process::setsid().map_err(|errno| failed(errno.into()))?;
    Err(failed(Command::new(program).args(arguments).exec()))
}
