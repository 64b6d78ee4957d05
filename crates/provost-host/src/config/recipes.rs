//! Reads `[recipes.NAME]`: recovery rules that say how a failure is recognised, which class it has and what
//! follows.
//!
//! **Invariant:** the example texts of a recipe are tested; a recipe that does not match its `matches` or
//! matches its `misses` is refused.

use std::time::Duration;

use provost_core::model::event::FailureClass;
use provost_core::model::verdict::CheckOutcome;
use provost_core::rules::recover::class::FailureOutput;
use provost_core::rules::recover::recipe::{Detect, Pattern, Recipe, RecipeEnd, Recipes, built_in};
use serde::de::{Deserialize, Deserializer, Error};

use super::reading::at;
use super::values::{choice, each, integer, integers, named};

/// Longest pause; a person decides about anything longer than a day.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Reads all recipes, in the order of the text, because the first that matches a failure decides.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Recipes, D::Error> {
    let recipes: Vec<(String, NamelessRecipe)> = named(from)?;
    let recipes = recipes.into_iter().map(|(name, NamelessRecipe(recipe))| Recipe { name, ..recipe });
    Ok(Recipes::new(recipes.collect()))
}

/// The keys of `[recipes.NAME]`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a section")]
struct RecipeKeys {
    #[serde(deserialize_with = "choice::<_, FailureClass, _>")]
    class: FailureClass,
    #[serde(default, deserialize_with = "detect")]
    detect: Option<Detect>,
    #[serde(default, deserialize_with = "pauses")]
    backoff: Option<Vec<Duration>>,
    #[serde(default, deserialize_with = "integer::<_, u32, _, 0, 100>")]
    max_attempts: Option<u32>,
    #[serde(default, deserialize_with = "choice::<_, RecipeEnd, _>")]
    then: Option<RecipeEnd>,
    matches: Option<Vec<String>>,
    misses: Option<Vec<String>>,
}

#[derive(serde::Deserialize)]
#[serde(try_from = "RecipeKeys")]
struct NamelessRecipe(Recipe);

impl TryFrom<RecipeKeys> for NamelessRecipe {
    type Error = String;

    fn try_from(keys: RecipeKeys) -> Result<Self, String> {
        examples(&keys)?;
        let usual = built_in(keys.class);
        let max_attempts = match (&keys.backoff, keys.max_attempts) {
            (_, Some(most)) => Some(most),
            // The default is one attempt per pause.
            (Some(pauses), None) => u32::try_from(pauses.len()).ok(),
            (None, None) => usual.max_attempts,
        };
        Ok(Self(Recipe {
            name: String::new(),
            class: keys.class,
            detect: keys.detect,
            backoff: keys.backoff.unwrap_or(usual.backoff),
            max_attempts,
            then: keys.then.unwrap_or(usual.then),
        }))
    }
}

fn pauses<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Duration>>, D::Error> {
    let pause = |text: String| match humantime::parse_duration(text.trim()) {
        Ok(pause) if pause <= LONGEST => Ok(pause),
        Ok(_) => Err(format!("the longest wait is {}", humantime::format_duration(LONGEST))),
        Err(error) => Err(format!("`{{key}}` must be a list of times such as [\"5s\", \"30s\"]: {error}")),
    };
    each(from, pause).map(Some)
}

/// The keys of `detect`.
#[derive(serde::Deserialize)]
#[serde(remote = "Detect", deny_unknown_fields, expecting = "a section")]
struct DetectKeys {
    #[serde(default, deserialize_with = "pattern")]
    stderr: Option<Pattern>,
    #[serde(default, deserialize_with = "pattern")]
    stdout: Option<Pattern>,
    #[serde(default, deserialize_with = "integers::<_, _, 0, 255>")]
    exit_code: Vec<i32>,
    #[serde(default, deserialize_with = "integers::<_, _, 400, 599>")]
    http: Vec<u16>,
    #[serde(default, deserialize_with = "verdict")]
    verdict: Vec<String>,
}

fn detect<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Detect>, D::Error> {
    let detect = DetectKeys::deserialize(from)?;
    match detect.is_empty() {
        true => {
            Err(D::Error::custom("`{key}` is empty; it can have stderr, stdout, exit_code, http, verdict"))
        }
        false => Ok(Some(detect)),
    }
}

fn pattern<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Pattern>, D::Error> {
    let pattern = Pattern::new(&String::deserialize(from)?)
        .map_err(|error| D::Error::custom(format!("`{{key}}` is not a regular expression: {error}")))?;
    // A pattern that matches an empty output would match every output.
    let empty = Detect { stderr: Some(pattern.clone()), ..Detect::default() };
    match empty.matches(FailureOutput::default(), "") {
        true => Err(D::Error::custom("`{key}` matches even an empty output")),
        false => Ok(Some(pattern)),
    }
}

/// Reads the verdicts that a recipe can name. The other verdicts (held, vacuous, flaky, tampered) have fixed
/// rules.
fn verdict<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let known = [
        CheckOutcome::Broke { exit_code: 1 }.word(),
        CheckOutcome::TimedOut { after_ms: 0 }.word(),
        CheckOutcome::Killed { signal: 9 }.word(),
        CheckOutcome::NotRun { reason: String::new() }.word(),
        "not_started",
        "agent",
    ];
    each(from, |word: String| match known.contains(&word.as_str()) {
        true => Ok(word),
        false => Err(format!("there is no verdict `{word}`; it is one of {}", known.join(", "))),
    })
}

/// Tests the patterns on the example texts. Only patterns are tested, because an example is an output and
/// not a whole failure.
fn examples(keys: &RecipeKeys) -> Result<(), String> {
    for (key, texts, wanted) in [("matches", &keys.matches, true), ("misses", &keys.misses, false)] {
        let Some(texts) = texts else { continue };
        let patterns =
            keys.detect.as_ref().filter(|detect| detect.stderr.is_some() || detect.stdout.is_some());
        let Some(Detect { stderr, stdout, .. }) = patterns.cloned() else {
            return Err(at(key, format!("`{key}` needs a pattern in `detect` to test")));
        };
        let patterns = Detect { stderr, stdout, ..Detect::default() };
        for text in texts {
            let seen = FailureOutput { stdout: text, stderr: text, exit_code: None };
            if patterns.matches(seen, "") != wanted {
                let does = if wanted { "is not recognised" } else { "is recognised" };
                return Err(at(key, format!("{text:?} {does} by `detect`")));
            }
        }
    }
    Ok(())
}
