//! What is said when: turns in their order, rules by what the newest message holds, sessions side by side.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::request::Seen;
use crate::turn::Turn;

/// What clients start besides their loop: suggestions for the user, reviews of a call. Told apart by words,
/// since they offer tools as the loop does.
const SIDE_THREADS: [&str; 2] = ["[SUGGESTION MODE", "agent history whose request action you are assessing"];

/// What one session is told.
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

/// Before the turns are looked at; a turn that is said by a rule does not use one of them up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    contains: String,
    /// So often, and no more; without it, always.
    times: Option<usize>,
    say: Turn,
}

/// What is due for one request.
pub(crate) struct Due {
    pub turn: Turn,
    /// Its number among the turns, where it is one of them.
    pub number: Option<usize>,
    /// The script had nothing for it.
    pub is_beyond: bool,
}

/// Where a session stands in its script.
#[derive(Debug)]
pub(crate) struct Cursor {
    script: Script,
    next: usize,
}

impl Script {
    pub fn of(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { turns: turns.into_iter().collect(), ..Self::default() }
    }

    /// What is said whenever the newest message holds `contains`.
    #[must_use]
    pub fn when(mut self, contains: impl Into<String>, say: Turn) -> Self {
        self.rules.push(Rule { contains: contains.into(), times: None, say });
        self
    }

    /// The same, the first time only.
    #[must_use]
    pub fn once(mut self, contains: impl Into<String>, say: Turn) -> Self {
        self.rules.push(Rule { contains: contains.into(), times: Some(1), say });
        self
    }

    /// What is said when no turn is left; without it, that is a failure.
    #[must_use]
    pub fn after(mut self, turn: Turn) -> Self {
        self.after = Some(turn);
        self
    }

    /// What requests get that offer no tools, or are another thread of the client: titles, suggestions,
    /// reviews. Without it, every request takes a turn.
    #[must_use]
    pub fn side(mut self, turn: Turn) -> Self {
        self.side = Some(turn);
        self
    }

    /// Any other key is refused as the provider would.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl Cursor {
    pub fn new(script: Script) -> Self {
        Self { script, next: 0 }
    }

    pub fn key(&self) -> Option<&str> {
        self.script.key.as_deref()
    }

    pub fn left(&self) -> usize {
        self.script.turns.len().saturating_sub(self.next)
    }

    pub fn due(&mut self, seen: &Seen) -> Due {
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

/// All that is known before the first request: one script, and others for sessions of their own.
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

    /// A script file: `[[turn]]`, `[[when]]`, `[after]`, `[side]`, `key`, and the same below
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

    /// Told apart by the path (`/r/NAME/v1/…`), the header `x-rehearsal: NAME`, or NAME as the API key.
    #[must_use]
    pub fn session(mut self, name: impl Into<String>, script: Script) -> Self {
        self.sessions.insert(name.into(), script);
        self
    }

    /// By itself any that is free.
    #[must_use]
    pub fn on_port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The port to listen on, and the script of each session; the one without a name is the usual one.
    pub(crate) fn into_parts(self) -> (u16, BTreeMap<String, Cursor>) {
        let mut cursors: BTreeMap<String, Cursor> =
            self.sessions.into_iter().map(|(name, script)| (name, Cursor::new(script))).collect();
        cursors.insert(String::new(), Cursor::new(self.script));
        (self.port, cursors)
    }
}
