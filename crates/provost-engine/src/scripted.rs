//! The process of the scripted agent: reads its prompt and does what the script says.

use std::io::{self, Read as _};
use std::path::Path;

use provost_core::model::plan::StepNumber;
use provost_host::agent::scripted;

/// Runs the script and returns the exit code it asks for.
pub fn perform(script: &Path, step: u32, attempt: u32) -> io::Result<i32> {
    let mut prompt = String::new();
    io::stdin().lock().read_to_string(&mut prompt)?;
    Ok(scripted::perform(script, StepNumber(step), attempt, &prompt, &mut io::stdout().lock()))
}
