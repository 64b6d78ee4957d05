use std::path::PathBuf;

use crate::failure::Failure;
use crate::open_plan::Global;
use crate::outcome::{Answer, Outcome};
use crate::terminal;

/// Trust a file that appeared or changed while an agent worked
///
/// The file is a configuration file, a marker or a topic. provost refuses commands that would use it until a person has read it. Without FILE, lists the
/// files that wait.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost trust                       files that wait, and the attempt they came with
  provost trust sub/provost.toml      I have read it")]
pub(super) struct Args {
    /// File, as the refusal names it
    file: Option<PathBuf>,
}

pub(super) fn obey(global: &Global, args: Args) -> Answer {
    let settings = global.settings(None)?;
    let Some(file) = args.file else {
        let waiting = provost_engine::trust::list(&settings.state);
        if global.json {
            let waiting = serde_json::to_value(&waiting).unwrap_or_default();
            terminal::print(&format!("{waiting}\n"))?;
        } else if waiting.is_empty() {
            terminal::talk("no file waits to be trusted");
        }
        for untrusted in waiting.iter().filter(|_| !global.json) {
            terminal::print(&format!("{}: {}\n", untrusted.path.display(), untrusted.by))?;
        }
        return Ok(Outcome::Done);
    };
    let path = settings.cwd.join(&file);
    if path.symlink_metadata().is_err() {
        return Err(Failure::usage(
            format!("{} does not exist", path.display()),
            "`provost trust` lists the files that wait.",
        ));
    }
    match provost_engine::plan::human_check::trust(&settings, &path)? {
        true => terminal::talk(&format!("trusted: {}", path.display())),
        false => terminal::talk(&format!("{} is already trusted", path.display())),
    }
    Ok(Outcome::Done)
}
