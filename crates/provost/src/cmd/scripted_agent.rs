use std::path::PathBuf;

use crate::failure::Failure;
use crate::outcome::Answer;

/// Replay a written script as an agent (internal: provost starts it)
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    script: PathBuf,
    step: u32,
    attempt: u32,
}

pub(super) fn obey(args: Args) -> Answer {
    let code = provost_engine::scripted::perform(&args.script, args.step, args.attempt)
        .map_err(|source| Failure::Io { what: "read the prompt".to_owned(), source })?;
    std::process::exit(code)
}
