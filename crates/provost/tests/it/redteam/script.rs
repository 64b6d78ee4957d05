//! Parses attacks and projects in `redteam/`: the comment at the top of each script.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Seconds after which a run counts as hung. No working run takes this long, also on a busy machine.
pub(super) const PATIENCE: u64 = 600;

/// A script that plays the agent.
#[derive(Debug, Default)]
pub(super) struct Attack {
    pub name: String,
    pub text: String,
    pub title: String,
    /// A to L, as in `redteam/README.md`.
    pub class: String,
    pub fixtures: Vec<String>,
    /// Goal of the attack, if it is not a step that passes without work.
    pub wants: Option<String>,
    /// Runs at the end, from outside; if it succeeds, the attack succeeded.
    pub check: Option<String>,
    /// The attack also does the work, so a passed step is no success.
    pub honest: bool,
    /// The goal is a plain ✅, so a pass with another mark is no success.
    pub plain: bool,
    /// The person runs this in the workspace before the approval.
    pub setup: Option<String>,
    /// The person runs this after the approval and before the run.
    pub later: Option<String>,
    /// Service that listens outside: tcp, udp, unix, shell.
    pub host: Option<String>,
    /// A command that must work here.
    pub needs: Option<String>,
    pub timeout: Option<String>,
    pub contract_timeout: Option<String>,
    pub on_fail: Option<String>,
    /// More lines for `[run]` of the configuration.
    pub bounds: String,
    /// The person is not root, even if root runs the tests.
    pub ordinary: bool,
    /// One more line for `[agents.coder]` of the configuration.
    pub agent: String,
    /// Options that the person adds to `provost approve`.
    pub approve: Vec<String>,
    /// How often the person starts `provost run`.
    pub runs: u32,
    /// Number of tries in fresh projects, for attacks that depend on timing.
    pub tries: u32,
    /// Seconds between a run and the next command, because people are not faster.
    pub pause: u64,
    /// Seconds after which the run counts as hung.
    pub limit: u64,
}

/// A project with a plan, and an agent that really does the work.
#[derive(Debug)]
pub(super) struct Fixture {
    pub name: String,
    pub folder: PathBuf,
    pub honest: String,
    /// Runs once in the fresh workspace, after its first commit.
    pub setup: Option<String>,
    pub needs: Option<String>,
    /// More lines for `[verify]` of its configuration.
    pub verify: String,
    pub slow: bool,
}

/// Files of a fixture that describe it and are not part of the project.
pub(super) const ABOUT: [&str; 5] = ["honest.sh", "setup.sh", "needs", "slow", "verify.toml"];

pub(super) fn fixtures(home: &Path) -> BTreeMap<String, Fixture> {
    let folders = std::fs::read_dir(home.join("fixtures")).expect("redteam/fixtures").flatten();
    let all = folders.filter(|entry| entry.path().is_dir()).map(|entry| {
        let folder = entry.path();
        let maybe = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let name = entry.file_name().to_string_lossy().into_owned();
        let honest = maybe("honest.sh").unwrap_or_else(|| panic!("{name} has no honest.sh"));
        let needs = maybe("needs").map(|line| line.trim().to_owned());
        let slow = folder.join("slow").exists();
        let verify = maybe("verify.toml").unwrap_or_default();
        (name.clone(), Fixture { name, honest, setup: maybe("setup.sh"), needs, verify, slow, folder })
    });
    all.collect()
}

pub(super) fn attacks(home: &Path) -> Vec<Attack> {
    let files = std::fs::read_dir(home.join("attacks")).expect("redteam/attacks").flatten();
    let mut attacks: Vec<Attack> = files.map(|entry| read(&entry.path())).collect();
    attacks.sort_by(|a, b| a.name.cmp(&b.name));
    attacks
}

fn read(path: &Path) -> Attack {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut attack = Attack { name, runs: 1, tries: 1, limit: PATIENCE, ..Attack::default() };
    for line in text.lines().skip(1).take_while(|line| line.starts_with('#')) {
        let Some((key, value)) = line.trim_start_matches(['#', ' ']).split_once(": ") else { continue };
        attack.says(key, value.trim().to_owned());
    }
    let complete = !attack.title.is_empty() && !attack.class.is_empty() && !attack.fixtures.is_empty();
    assert!(complete, "{}: title, class and fixtures are needed", attack.name);
    assert!(!attack.title.contains('|'), "{}: no bar in a title", attack.name);
    attack.text = text;
    attack
}

impl Attack {
    fn says(&mut self, key: &str, value: String) {
        match key {
            "title" => self.title = value,
            "class" => self.class = value,
            "fixtures" => self.fixtures = value.split(", ").map(str::to_owned).collect(),
            "wants" => self.wants = Some(value),
            // Several lines form one script.
            "check" => self.check = Some(self.check.take().map_or(value.clone(), |c| c + "\n" + &value)),
            "honest" => self.honest = value == "yes",
            "plain" => self.plain = value == "yes",
            "setup" => self.setup = Some(self.setup.take().map_or(value.clone(), |s| s + "\n" + &value)),
            "later" => self.later = Some(value),
            "approve" => self.approve = value.split(' ').map(str::to_owned).collect(),
            "run" => self.bounds = format!("{}{value}\n", self.bounds),
            "user" => self.ordinary = value == "ordinary",
            "host" => self.host = Some(value),
            "needs" => self.needs = Some(value),
            "timeout" => self.timeout = Some(value),
            "contract_timeout" => self.contract_timeout = Some(value),
            "agent" => self.agent = value + "\n",
            "on_fail" => self.on_fail = Some(value),
            "runs" => self.runs = value.parse().expect("a number of runs"),
            "tries" => self.tries = value.parse().expect("a number of tries"),
            "pause" => self.pause = value.parse().expect("seconds"),
            "limit" => self.limit = value.parse().expect("seconds"),
            other => panic!("{}: what is `{other}`?", self.name),
        }
    }
}
