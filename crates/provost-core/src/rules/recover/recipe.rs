//! Recipes: what follows from a class of failure, as data.
//!
//! Each class has a built-in recipe. The configuration adds recipes that recognise a failure by themselves
//! (`detect`), or replaces the recipe of a class. The plan's `on_fail` sets the number of attempts of a step
//! and what comes after them; a recipe says whether and when an attempt makes sense.
//!
//! **Invariant:** a recipe never lets a step pass: it skips only if the plan's `on_fail` does.

use std::time::Duration;

use regex::Regex;

use super::class::{self, FailureMatch, FailureOutput};
use crate::model::event::FailureClass;

/// A recipe for a kind of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    pub name: String,
    pub class: FailureClass,
    /// Conditions that recognise it; `None` for the whole class.
    pub detect: Option<Detect>,
    /// The wait before each try; the last one repeats.
    pub backoff: Vec<Duration>,
    /// Maximum number of retries; `None` leaves it to the plan's `on_fail`.
    pub max_attempts: Option<u32>,
    pub then: RecipeEnd,
}

/// The step after an exhausted recipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecipeEnd {
    #[default]
    Escalate,
    /// A person is asked to correct something.
    Ask,
    Abort,
    /// Skips if the plan's `on_fail` does, else asks a person.
    Skip,
}

impl RecipeEnd {
    pub const ALL: [RecipeEnd; 4] = [RecipeEnd::Escalate, RecipeEnd::Ask, RecipeEnd::Abort, RecipeEnd::Skip];

    /// Returns the word used in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            RecipeEnd::Escalate => "escalate",
            RecipeEnd::Ask => "ask",
            RecipeEnd::Abort => "abort",
            RecipeEnd::Skip => "skip",
        }
    }
}

/// Conditions of a recipe; all given ones must be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detect {
    pub stdout: Option<Pattern>,
    pub stderr: Option<Pattern>,
    /// One of these, as in the other lists.
    pub exit_code: Vec<i32>,
    pub http: Vec<u16>,
    /// Words of [`CheckOutcome::word`](crate::model::verdict::CheckOutcome::word).
    pub verdict: Vec<String>,
}

impl Detect {
    pub fn is_empty(&self) -> bool {
        *self == Detect::default()
    }

    pub fn matches(&self, seen: FailureOutput<'_>, verdict: &str) -> bool {
        let says =
            |pattern: &Option<Pattern>, text| pattern.as_ref().is_none_or(|each| each.0.is_match(text));
        let answered = || {
            let mut statuses = class::http_statuses(seen.stderr).chain(class::http_statuses(seen.stdout));
            self.http.is_empty() || statuses.any(|status| self.http.contains(&status))
        };
        let code = || seen.exit_code.is_some_and(|code| self.exit_code.contains(&code));
        says(&self.stdout, seen.stdout)
            && says(&self.stderr, seen.stderr)
            && (self.exit_code.is_empty() || code())
            && (self.verdict.is_empty() || self.verdict.iter().any(|word| word == verdict))
            && answered()
    }
}

/// A regular expression of the configuration.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles the pattern. `Err` describes the mistake in one line.
    pub fn new(text: &str) -> Result<Self, String> {
        Regex::new(text).map(Self).map_err(|error| {
            let words = error.to_string();
            words.lines().last().unwrap_or("it is not a regular expression").trim().to_owned()
        })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

/// All recipes: those of the configuration in their order, then the built-in ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipes {
    all: Vec<Recipe>,
}

impl Default for Recipes {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Recipes {
    pub fn new(mut own: Vec<Recipe>) -> Self {
        own.extend(FailureClass::ALL.map(built_in));
        Self { all: own }
    }

    /// Returns the finding of the first recipe of the configuration that recognises this failure.
    pub fn recognise(&self, seen: FailureOutput<'_>, verdict: &str) -> Option<FailureMatch> {
        let recipe = self
            .all
            .iter()
            .find(|recipe| recipe.detect.as_ref().is_some_and(|detect| detect.matches(seen, verdict)))?;
        let reason = format!("recipe {} of the configuration", recipe.name);
        Some(FailureMatch::new(recipe.class, recipe.name.clone(), reason))
    }

    /// Returns the recipe that found it, else the one of its class.
    pub fn of(&self, found: &FailureMatch) -> &Recipe {
        let own = |recipe: &&Recipe| recipe.detect.is_some() && recipe.name == found.rule;
        let whole = |recipe: &&Recipe| recipe.detect.is_none() && recipe.class == found.class;
        let known = self.all.iter().find(own).or_else(|| self.all.iter().find(whole));
        known.unwrap_or_else(|| unreachable!("every class has a recipe"))
    }
}

/// Returns the recipe that the specification of the stages gives; for logic errors the plan sets the number
/// of retries.
pub fn built_in(class: FailureClass) -> Recipe {
    let seconds = |all: &[u64]| all.iter().map(|each| Duration::from_secs(*each)).collect();
    let (backoff, max_attempts, then) = match class {
        FailureClass::Transient => (seconds(&[5, 30]), Some(2), RecipeEnd::Escalate),
        FailureClass::Logic => (Vec::new(), None, RecipeEnd::Escalate),
        FailureClass::InvalidInput => (Vec::new(), Some(0), RecipeEnd::Ask),
        FailureClass::Permission | FailureClass::Unrecoverable | FailureClass::Unknown => {
            (Vec::new(), Some(0), RecipeEnd::Escalate)
        }
    };
    Recipe { name: class.word().to_owned(), class, detect: None, backoff, max_attempts, then }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(name: &str, class: FailureClass, detect: Option<Detect>) -> Recipe {
        Recipe { name: name.to_owned(), detect, ..built_in(class) }
    }

    #[test]
    fn a_recipe_that_detects_wins_over_one_for_the_class_and_both_over_the_built_in() {
        let detect = Detect { stderr: Pattern::new("registry").ok(), ..Detect::default() };
        let recipes = Recipes::new(vec![
            own("registry", FailureClass::Unknown, Some(detect)),
            own("network", FailureClass::Transient, None),
        ]);
        let seen = FailureOutput { stderr: "the registry is away", ..FailureOutput::default() };
        let found = recipes.recognise(seen, "broke").expect("recognised");
        assert_eq!((found.class, recipes.of(&found).name.as_str()), (FailureClass::Unknown, "registry"));
        let other = FailureMatch::new(FailureClass::Transient, "connection", "");
        assert_eq!(recipes.of(&other).name, "network");
        assert_eq!(Recipes::default().of(&other).name, "transient");
        assert_eq!(recipes.recognise(FailureOutput::default(), "broke"), None);
    }

    #[test]
    fn everything_a_detection_says_has_to_be_so() {
        let detect = Detect {
            stdout: Pattern::new("(?i)slow").ok(),
            exit_code: vec![3, 4],
            http: vec![503],
            verdict: vec!["broke".to_owned()],
            ..Detect::default()
        };
        let seen = FailureOutput { stdout: "SLOW: HTTP 503", stderr: "", exit_code: Some(4) };
        assert!(detect.matches(seen, "broke"));
        assert!(!detect.matches(seen, "killed"));
        assert!(!detect.matches(FailureOutput { exit_code: None, ..seen }, "broke"));
        assert!(!detect.matches(FailureOutput { stdout: "slow: 503 tests", ..seen }, "broke"));
        assert!(!detect.matches(FailureOutput { stdout: "fast: HTTP 503", ..seen }, "broke"));
    }
}
