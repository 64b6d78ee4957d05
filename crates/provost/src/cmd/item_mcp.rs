use std::path::PathBuf;

use provost_engine::session::attempt_tools::ItemFiles;
use provost_server::stdio;

use crate::failure::Failure;
use crate::outcome::{Answer, Outcome};

/// Serve the work item of an attempt to the agent over MCP (internal: the agent's client starts it)
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folder with the files of the work item
    folder: PathBuf,
}

pub(super) fn obey(args: Args) -> Answer {
    let failed = |what: String| move |source| Failure::Io { what, source };
    let served = ItemFiles::open(&args.folder).map_err(failed(format!("open {}", args.folder.display())))?;
    stdio::serve_item(served).map_err(failed("serve on standard input and output".to_owned()))?;
    Ok(Outcome::Done)
}
