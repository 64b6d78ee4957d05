use std::ffi::OsString;

use crate::failure::Failure;
use crate::outcome::Answer;

/// Give up what an agent or a check must not have, and become it (started by the harness)
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What is to be given up
    orders: String,
    #[arg(last = true)]
    command: Vec<OsString>,
}

pub fn obey(args: Args) -> Answer {
    let failed = |source| Failure::Io { what: "put up the fence".to_owned(), source };
    match provost_engine::confined::enter(&args.orders, &args.command).map_err(failed)? {}
}
