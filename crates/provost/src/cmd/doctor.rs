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
        let levels: Vec<_> = found
            .levels
            .iter()
            .map(|seen| json!({ "level": seen.level, "probes": seen.probes.iter().map(probe).collect::<Vec<_>>() }))
            .collect();
        // What was seen of the level that is used, or of the strongest.
        let used = found.levels.iter().find(|seen| seen.level == found.level).or(found.levels.first());
        let probes: Vec<_> = used.iter().flat_map(|seen| &seen.probes).map(probe).collect();
        let answer = json!({ "level": found.level, "offers": offers, "probes": probes, "levels": levels });
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
    text.push_str("self-test, inside each fence, strongest first:\n");
    for seen in &found.levels {
        let failed: Vec<_> = seen.probes.iter().filter(|probe| !probe.held).collect();
        let mark = if failed.is_empty() { "✓" } else { "✗" };
        text.push_str(&format!(
            "  {mark} {:<28} {} of {} held\n",
            seen.level.to_string(),
            seen.probes.len() - failed.len(),
            seen.probes.len()
        ));
        for probe in failed {
            text.push_str(&format!("    ✗ {} {}\n", probe.name, probe.detail));
        }
    }
    terminal::print(&text)?;
    Ok(Outcome::Done)
}

fn probe(probe: &doctor::Probe) -> serde_json::Value {
    json!({ "name": probe.name, "held": probe.held, "detail": probe.detail })
}
