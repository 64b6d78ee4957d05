use provost_engine::doctor;
use serde_json::json;

use crate::outcome::{Answer, Outcome};
use crate::place::Global;
use crate::terminal;

/// Say what this machine offers: which isolation it attests, and how to get the next level
///
/// Runs the self-test that every run begins with: a real fence, attacked from inside.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost doctor                      for reading
  provost doctor --json               for programs")]
pub struct Args {}

pub fn obey(global: &Global, _args: Args) -> Answer {
    let settings = global.settings(None)?;
    let found = doctor::examine(&settings)?;
    if global.json {
        let offers: Vec<_> = found
            .offers
            .iter()
            .map(|line| json!({ "name": line.name, "here": line.here, "words": line.words, "hint": line.hint }))
            .collect();
        let probes: Vec<_> = found
            .probes
            .iter()
            .map(|probe| json!({ "name": probe.name, "held": probe.held, "detail": probe.detail }))
            .collect();
        let answer = json!({ "level": found.level, "offers": offers, "probes": probes });
        terminal::print(&format!("{answer}\n"))?;
        return Ok(Outcome::Done);
    }
    let mut text = format!("isolation: {}\n", found.level);
    for line in &found.offers {
        let mark = if line.here { "✓" } else { "✗" };
        text.push_str(&format!("  {mark} {:<28} {}\n", line.name, line.words));
        if let Some(hint) = &line.hint {
            text.push_str(&format!("    {:<28} {hint}\n", ""));
        }
    }
    text.push_str("self-test, inside the fence:\n");
    for probe in &found.probes {
        let mark = if probe.held { "✓" } else { "✗" };
        let detail = if probe.held { "" } else { probe.detail.as_str() };
        text.push_str(&format!("  {mark} {} {detail}\n", probe.name));
    }
    terminal::print(&text)?;
    Ok(Outcome::Done)
}
