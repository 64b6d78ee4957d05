//! Scripts of the mock model: turns in order, rules that match the newest message, and parallel sessions.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::request::SeenRequest;
use crate::turn::Turn;

/// Marks of requests that clients send besides their loop: suggestions for the user, reviews of a call.
/// They offer tools as the loop does, so they are recognised by their text.
const SIDE_THREADS: [&str; 2] = ["[SUGGESTION MODE", "agent history whose request action you are assessing"];

/// The script of one session.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    #[serde(rename = "turn")]
    turns: Vec<Turn>,
    #[serde(rename = "when")]
    rules: Vec<Rule>,
    after: Option<Turn>,
    side: Option<Turn>,
    key: Option<String>,
}

/// A rule, which is checked before the turns and does not use up a turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    contains: String,
    /// How often the rule applies; `None` means always.
    times: Option<usize>,
    say: Turn,
}

/// The answer to one request.
pub(crate) struct Due {
    pub turn: Turn,
    /// Its number, if it is one of the turns.
    pub number: Option<usize>,
    /// The script had no answer left.
    pub is_beyond: bool,
}

/// The position of a session in its script.
#[derive(Debug)]
pub(crate) struct Cursor {
    script: Script,
    next: usize,
}

impl Script {
    pub fn of(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { turns: turns.into_iter().collect(), ..Self::default() }
    }

    /// Adds an answer for every newest message that contains `contains`.
    #[must_use]
    pub fn when(mut self, contains: impl Into<String>, say: Turn) -> Self {
        self.rules.push(Rule { contains: contains.into(), times: None, say });
        self
    }

    /// Adds an answer for the first newest message that contains `contains`.
    #[must_use]
    pub fn once(mut self, contains: impl Into<String>, say: Turn) -> Self {
        self.rules.push(Rule { contains: contains.into(), times: Some(1), say });
        self
    }

    /// Sets the answer after the last turn; without it, such a request is a failure.
    #[must_use]
    pub fn after(mut self, turn: Turn) -> Self {
        self.after = Some(turn);
        self
    }

    /// Sets the answer to requests that offer no tools or are another thread of the client: titles,
    /// suggestions, reviews. Without it, every request takes a turn.
    #[must_use]
    pub fn side(mut self, turn: Turn) -> Self {
        self.side = Some(turn);
        self
    }

    /// Refuses any other key, as the provider would.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl Cursor {
    pub(crate) fn new(script: Script) -> Self {
        Self { script, next: 0 }
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.script.key.as_deref()
    }

    pub(crate) fn left(&self) -> usize {
        self.script.turns.len().saturating_sub(self.next)
    }

    pub(crate) fn due(&mut self, seen: &SeenRequest) -> Due {
        let is_aside = seen.tools.is_empty() || SIDE_THREADS.iter().any(|mark| seen.newest.contains(mark));
        if let Some(side) = self.script.side.as_ref().filter(|_| is_aside) {
            return Due { turn: side.clone(), number: None, is_beyond: false };
        }
        let fits = |rule: &&mut Rule| rule.times != Some(0) && seen.newest.contains(&rule.contains);
        if let Some(rule) = self.script.rules.iter_mut().find(fits) {
            rule.times = rule.times.map(|times| times - 1);
            return Due { turn: rule.say.clone(), number: None, is_beyond: false };
        }
        let number = self.next;
        if let Some(turn) = self.script.turns.get(number) {
            self.next += 1;
            return Due { turn: turn.clone(), number: Some(number), is_beyond: false };
        }
        let is_beyond = self.script.after.is_none();
        let turn = self.script.after.clone().unwrap_or_else(|| Turn::text("(the script is over)"));
        Due { turn, number: None, is_beyond }
    }
}

/// The settings of a mock model: one script, and further scripts for named sessions.
#[derive(Clone, Debug, Default)]
pub struct Model {
    script: Script,
    sessions: BTreeMap<String, Script>,
    port: u16,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    session: BTreeMap<String, Script>,
    #[serde(flatten)]
    script: toml::Table,
}

impl Model {
    pub fn script(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { script: Script::of(turns), ..Self::default() }
    }

    /// Parses a script file: `[[turn]]`, `[[when]]`, `[after]`, `[side]`, `key`, and the same below
    /// `[session.NAME]`.
    pub fn read(text: &str) -> Result<Self, toml::de::Error> {
        let file: File = toml::from_str(text)?;
        Ok(Self { script: file.script.try_into()?, sessions: file.session, port: 0 })
    }

    #[must_use]
    pub fn when(mut self, contains: impl Into<String>, say: Turn) -> Self {
        self.script = self.script.when(contains, say);
        self
    }

    #[must_use]
    pub fn once(mut self, contains: impl Into<String>, say: Turn) -> Self {
        self.script = self.script.once(contains, say);
        self
    }

    #[must_use]
    pub fn after(mut self, turn: Turn) -> Self {
        self.script = self.script.after(turn);
        self
    }

    #[must_use]
    pub fn side(mut self, turn: Turn) -> Self {
        self.script = self.script.side(turn);
        self
    }

    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.script = self.script.key(key);
        self
    }

    /// Adds a session, which is selected by the path (`/r/NAME/v1/…`), the header `x-rehearsal: NAME`, or
    /// NAME as the API key.
    #[must_use]
    pub fn session(mut self, name: impl Into<String>, script: Script) -> Self {
        self.sessions.insert(name.into(), script);
        self
    }

    /// Sets the port; the default is any free port.
    #[must_use]
    pub fn on_port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Returns the port and the script of each session; the empty name is the default session.
    pub(crate) fn into_parts(self) -> (u16, BTreeMap<String, Cursor>) {
        let mut cursors: BTreeMap<String, Cursor> =
            self.sessions.into_iter().map(|(name, script)| (name, Cursor::new(script))).collect();
        cursors.insert(String::new(), Cursor::new(self.script));
        (self.port, cursors)
    }
}
