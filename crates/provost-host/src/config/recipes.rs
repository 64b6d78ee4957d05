//! Reads `[recipes.NAME]`: recovery rules that say how a failure is recognised, which class it has and what
//! follows. Also checks `fallback`, the role that tries after another role has failed.
//!
//! **Invariant:** the example texts of a recipe are tested; a recipe that does not match its `matches` or
//! matches its `misses` is refused.

use std::time::Duration;

use provost_core::model::event::FailureClass;
use provost_core::model::verdict::CheckOutcome;
use provost_core::rules::recover::class::FailureOutput;
use provost_core::rules::recover::recipe::{Detect, Pattern, Recipe, RecipeEnd, Recipes, built_in};

use super::reading::{Section, Wrong};

const KEYS: [&str; 7] = ["class", "detect", "backoff", "max_attempts", "then", "matches", "misses"];
const DETECT_KEYS: [&str; 5] = ["stderr", "stdout", "exit_code", "http", "verdict"];
/// Longest pause; a person decides about anything longer than a day.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

pub(super) fn read(top: &Section<'_, '_>) -> Result<Recipes, Wrong> {
    let mut sections: Vec<_> = top.named("recipes")?.collect();
    // In the order of the text, because the first recipe that matches a failure decides.
    sections.sort_by_key(|(_, section)| section.start());
    let recipes = sections.into_iter().map(|(name, section)| recipe(name, &section));
    Ok(Recipes::new(recipes.collect::<Result<_, _>>()?))
}

fn recipe(name: String, section: &Section<'_, '_>) -> Result<Recipe, Wrong> {
    section.only(&KEYS)?;
    let word = section.required("class")?;
    let Some(class) = FailureClass::ALL.into_iter().find(|class| class.word() == word) else {
        let known = FailureClass::ALL.map(FailureClass::word);
        return Err(section.wrong_value("class", &format!("there is no class `{word}`"), &known));
    };
    let usual = built_in(class);
    let detect = detect(section)?;
    let backoff = section.durations("backoff", LONGEST)?;
    let own = section.integer("max_attempts", 0..=100)?.and_then(|most| u32::try_from(most).ok());
    let max_attempts = match (&backoff, own) {
        (_, Some(most)) => Some(most),
        // The default is one attempt per pause.
        (Some(pauses), None) => u32::try_from(pauses.len()).ok(),
        (None, None) => usual.max_attempts,
    };
    let then = match section.string("then")? {
        None => usual.then,
        Some(word) => RecipeEnd::ALL.into_iter().find(|end| end.word() == word).ok_or_else(|| {
            section.wrong_value(
                "then",
                &format!("`then` cannot be `{word}`"),
                &RecipeEnd::ALL.map(RecipeEnd::word),
            )
        })?,
    };
    examples(section, detect.as_ref())?;
    Ok(Recipe { name, class, detect, backoff: backoff.unwrap_or(usual.backoff), max_attempts, then })
}

fn detect(section: &Section<'_, '_>) -> Result<Option<Detect>, Wrong> {
    let Some(detect) = section.section("detect", &DETECT_KEYS)? else { return Ok(None) };
    let pattern = |key: &str| {
        let Some(text) = detect.string(key)? else { return Ok(None) };
        let wrong = |error| detect.wrong(key, format!("`{key}` is not a regular expression: {error}"));
        let pattern = Pattern::new(&text).map_err(wrong)?;
        // A pattern that matches an empty output would match every output.
        let empty = Detect { stderr: Some(pattern.clone()), ..Detect::default() };
        if empty.matches(FailureOutput::default(), "") {
            return Err(detect.wrong(key, format!("`{key}` matches even an empty output")));
        }
        Ok(Some(pattern))
    };
    let verdict = detect.strings("verdict")?.unwrap_or_default();
    let known = verdict_words();
    if let Some(word) = verdict.iter().find(|word| !known.contains(&word.as_str())) {
        let message = format!("there is no verdict `{word}`; it is one of {}", known.join(", "));
        return Err(detect.wrong("verdict", message));
    }
    let read = Detect {
        stderr: pattern("stderr")?,
        stdout: pattern("stdout")?,
        exit_code: detect
            .integers("exit_code", 0..=255)?
            .into_iter()
            .filter_map(|code| i32::try_from(code).ok())
            .collect(),
        http: detect
            .integers("http", 400..=599)?
            .into_iter()
            .filter_map(|status| u16::try_from(status).ok())
            .collect(),
        verdict,
    };
    if read.is_empty() {
        let message = format!("`detect` is empty; it can have {}", DETECT_KEYS.join(", "));
        return Err(section.wrong("detect", message));
    }
    Ok(Some(read))
}

/// Returns the verdicts that a recipe can name. The other verdicts (held, vacuous, flaky, tampered) have
/// fixed rules.
fn verdict_words() -> [&'static str; 6] {
    let reason = String::new();
    [
        CheckOutcome::Broke { exit_code: 1 }.word(),
        CheckOutcome::TimedOut { after_ms: 0 }.word(),
        CheckOutcome::Killed { signal: 9 }.word(),
        CheckOutcome::NotRun { reason }.word(),
        "not_started",
        "agent",
    ]
}

/// Tests the patterns on the example texts. Only patterns are tested, because an example is an output and
/// not a whole failure.
fn examples(section: &Section<'_, '_>, detect: Option<&Detect>) -> Result<(), Wrong> {
    for (key, wanted) in [("matches", true), ("misses", false)] {
        let Some(texts) = section.strings(key)? else { continue };
        let Some(detect) = detect.filter(|detect| detect.stderr.is_some() || detect.stdout.is_some()) else {
            return Err(section.wrong(key, format!("`{key}` needs a pattern in `detect` to test")));
        };
        let patterns =
            Detect { stderr: detect.stderr.clone(), stdout: detect.stdout.clone(), ..Detect::default() };
        for text in texts {
            let seen = FailureOutput { stdout: &text, stderr: &text, exit_code: None };
            if patterns.matches(seen, "") != wanted {
                let does = if wanted { "is not recognised" } else { "is recognised" };
                return Err(section.wrong(key, format!("{text:?} {does} by `detect`")));
            }
        }
    }
    Ok(())
}

/// Checks that each `fallback` names another role that exists.
pub(super) fn fallbacks(top: &Section<'_, '_>) -> Result<(), Wrong> {
    let sections: Vec<_> = top.named("agents")?.collect();
    let names: Vec<&str> = sections.iter().map(|(name, _)| name.as_str()).collect();
    for (name, section) in &sections {
        let Some(other) = section.string("fallback")? else { continue };
        if other == *name {
            return Err(section.wrong("fallback", format!("`{name}` cannot be its own fallback")));
        }
        if !names.contains(&other.as_str()) {
            let others: Vec<&str> = names.iter().copied().filter(|each| each != name).collect();
            return Err(section.wrong_value("fallback", &format!("there is no [agents.{other}]"), &others));
        }
    }
    Ok(())
}
