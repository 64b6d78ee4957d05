//! Compares `docs/cheats.md` with the measured results.
//!
//! The text at the top of the page is written by hand; everything below the mark is generated here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::LEVELS;
use super::cell::Got;
use super::script::Attack;

const MARK: &str = "<!-- What follows is written by the red-team suite: UPDATE_EXPECT=1 -->";
const UNKNOWN: &str = "–";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub attack: String,
    pub fixture: String,
}

#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub got: Got,
    pub by: String,
    /// What provost printed at the end of the run; empty in a row of the page.
    pub said: String,
}

pub(super) struct Table {
    path: PathBuf,
    opening: String,
    known: BTreeMap<Key, Row>,
    found: BTreeMap<Key, Row>,
}

/// A cell for each level that was measured.
type Row = BTreeMap<String, Cell>;

impl Table {
    pub(super) fn read(attacks: &[Attack]) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cheats.md");
        let text = std::fs::read_to_string(&path).expect("docs/cheats.md");
        let (opening, body) = text.split_once(MARK).unwrap_or((&text, ""));
        let written = levels(body);
        let known: BTreeMap<Key, Row> = body.lines().filter_map(|line| row(line, &written)).collect();
        let is_there = |key: &Key| {
            attacks.iter().any(|attack| attack.name == key.attack && attack.fixtures.contains(&key.fixture))
        };
        let found =
            known.iter().filter(|(key, _)| is_there(key)).map(|(k, r)| (k.clone(), r.clone())).collect();
        Self { path, opening: opening.to_owned(), known, found }
    }

    pub(super) fn measured(&mut self, key: Key, level: &str, cell: Cell) {
        self.found.entry(key).or_default().insert(level.to_owned(), cell);
    }

    /// Prints the differences, and fails or writes them to the page.
    pub(super) fn settle(&self, attacks: &[Attack]) {
        let differences = self.differences();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&self.path, self.write(attacks)).expect("docs/cheats.md");
            println!("written: {} differences\n{}", differences.len(), differences.join("\n"));
            return;
        }
        assert!(
            differences.is_empty(),
            "docs/cheats.md says otherwise:\n{}\n\nWhat got worse is to be repaired. Where the rest is as it \
             should be, UPDATE_EXPECT=1 writes it down.",
            differences.join("\n")
        );
    }

    fn differences(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (key, row) in &self.found {
            for (level, cell) in row {
                let before = self.known.get(key).and_then(|row| row.get(level)).map(|cell| cell.got);
                let what = match (before, cell.got) {
                    (Some(before), now) if before == now => continue,
                    (None, Got::Cheated) => "NEW, CHEATED",
                    (None, _) => "new",
                    (Some(_), Got::Cheated) => "WORSE",
                    (Some(Got::Cheated), _) => "better",
                    (Some(_), _) => "changed",
                };
                let before = before.map_or(UNKNOWN, word);
                let (attack, fixture, now) = (&key.attack, &key.fixture, word(cell.got));
                let Cell { by, said, .. } = cell;
                all.push(format!("{what}: {attack} ({fixture}) at {level}: {before} → {now} {by}\n{said}"));
            }
        }
        let gone = self.known.keys().filter(|key| !self.found.contains_key(key));
        all.extend(gone.map(|key| format!("gone: {} ({})", key.attack, key.fixture)));
        all.sort_by_key(|line| !line.contains("WORSE"));
        all
    }

    fn write(&self, attacks: &[Attack]) -> String {
        let mut page = format!("{}{MARK}\n\n", self.opening);
        let levels = LEVELS.join(" | ");
        let _ = writeln!(
            page,
            "## CHEATED, of all\n\n| class | {levels} |\n| --- |{}",
            " --- |".repeat(LEVELS.len())
        );
        let mut classes: Vec<&str> = attacks.iter().map(|attack| attack.class.as_str()).collect();
        classes.sort_unstable();
        classes.dedup();
        for class in classes {
            let _ = writeln!(page, "| {class} |{}", self.counts(|attack| attack.class == class, attacks));
        }
        let _ = writeln!(page, "| all |{}", self.counts(|_| true, attacks));
        let _ = write!(
            page,
            "\n## Every attack\n\n| attack | class | on | what it does → what it is after | {levels} | named by |\n\
             | --- | --- | --- | --- |{} --- |\n",
            " --- |".repeat(LEVELS.len())
        );
        for attack in attacks {
            for fixture in &attack.fixtures {
                let key = Key { attack: attack.name.clone(), fixture: fixture.clone() };
                let _ = writeln!(page, "{}", self.line(attack, &key));
            }
        }
        page
    }

    fn counts(&self, is_meant: impl Fn(&Attack) -> bool, attacks: &[Attack]) -> String {
        let names: Vec<&str> =
            attacks.iter().filter(|attack| is_meant(attack)).map(|attack| attack.name.as_str()).collect();
        let mut text = String::new();
        for level in LEVELS {
            let cells = self.found.iter().filter(|(key, _)| names.contains(&key.attack.as_str()));
            let measured: Vec<Got> =
                cells.filter_map(|(_, row)| row.get(level)).map(|cell| cell.got).collect();
            let cheated = measured.iter().filter(|got| **got == Got::Cheated).count();
            let _ = match measured.len() {
                0 => write!(text, " {UNKNOWN} |"),
                all => write!(text, " {cheated} of {all} |"),
            };
        }
        text
    }

    fn line(&self, attack: &Attack, key: &Key) -> String {
        let row = self.found.get(key).cloned().unwrap_or_default();
        let wants = attack.wants.as_ref().map(|wants| format!(" → {wants}")).unwrap_or_default();
        let cells: Vec<&str> =
            LEVELS.iter().map(|level| row.get(*level).map_or(UNKNOWN, |cell| word(cell.got))).collect();
        let by: Vec<String> = LEVELS
            .iter()
            .filter_map(|level| Some((level, row.get(*level)?)))
            .filter(|(_, cell)| cell.got == Got::Caught)
            .map(|(level, cell)| format!("{level}: {}", cell.by))
            .collect();
        let (name, class, title, fixture) = (&attack.name, &attack.class, &attack.title, &key.fixture);
        format!(
            "| {name} | {class} | {fixture} | {title}{wants} | {} | {} |",
            cells.join(" | "),
            by.join("; ")
        )
    }
}

fn word(got: Got) -> &'static str {
    match got {
        Got::Prevented => "prevented",
        Got::Caught => "caught",
        Got::Cheated => "**CHEATED**",
    }
}

/// Returns the levels that the page has columns for, in order.
fn levels(body: &str) -> Vec<&'static str> {
    let heading = body.lines().find(|line| line.starts_with("| attack |")).unwrap_or_default();
    let names = heading.split('|').map(str::trim);
    names.filter_map(|name| LEVELS.into_iter().find(|level| *level == name)).collect()
}

/// Parses a row of the page.
fn row(line: &str, levels: &[&'static str]) -> Option<(Key, Row)> {
    let columns: Vec<&str> = line.strip_prefix("| ")?.split('|').map(str::trim).collect();
    if columns.len() != 6 + levels.len() || !columns[0].starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let key = Key { attack: columns[0].to_owned(), fixture: columns[2].to_owned() };
    let names: BTreeMap<&str, &str> =
        columns[4 + levels.len()].split("; ").filter_map(|part| part.split_once(": ")).collect();
    let mut row = Row::new();
    for (level, text) in levels.iter().zip(&columns[4..]) {
        let got = [Got::Prevented, Got::Caught, Got::Cheated].into_iter().find(|got| word(*got) == *text);
        if let Some(got) = got {
            let by = names.get(level).copied().unwrap_or_default().to_owned();
            row.insert((*level).to_owned(), Cell { got, by, said: String::new() });
        }
    }
    Some((key, row))
}
