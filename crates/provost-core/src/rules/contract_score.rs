//! Rates a contract by what is known about it: 100 points, less a fixed number for each weakness.
//!
//! `docs/try.md` has the table of the weaknesses; a test compares it with this one.

use serde::Serialize;

use crate::model::contract_traits::{ContractTraits, Evidence, EvidenceKind};

/// A weakness of a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weakness {
    CannotRun,
    HoldsOnEmpty,
    Flaky,
    HoldsOnBase,
    OnlyLooks,
    Network,
    Order,
    Writes,
    Chance,
    Clock,
    Git,
}

impl Weakness {
    /// All of them, the gravest first.
    pub const ALL: [Weakness; 11] = [
        Weakness::CannotRun,
        Weakness::HoldsOnEmpty,
        Weakness::Flaky,
        Weakness::HoldsOnBase,
        Weakness::OnlyLooks,
        Weakness::Network,
        Weakness::Order,
        Weakness::Writes,
        Weakness::Chance,
        Weakness::Clock,
        Weakness::Git,
    ];

    /// Returns the name for people.
    pub fn title(self) -> &'static str {
        match self {
            Weakness::CannotRun => "cannot be run here",
            Weakness::HoldsOnEmpty => "holds on an empty repository",
            Weakness::Flaky => "flaky",
            Weakness::HoldsOnBase => "holds on the base",
            Weakness::OnlyLooks => "looks for a word only",
            Weakness::Network => "needs the network",
            Weakness::Order => "depends on order",
            Weakness::Writes => "writes to the tree",
            Weakness::Chance => "uses random values",
            Weakness::Clock => "reads the clock",
            Weakness::Git => "uses git",
        }
    }

    /// Returns the points that it costs.
    pub fn points(self) -> u8 {
        match self {
            Weakness::CannotRun => 100,
            Weakness::HoldsOnEmpty => 60,
            Weakness::Flaky => 50,
            Weakness::HoldsOnBase => 40,
            Weakness::OnlyLooks => 30,
            Weakness::Network => 25,
            Weakness::Order => 20,
            Weakness::Writes | Weakness::Chance => 15,
            Weakness::Clock => 10,
            Weakness::Git => 5,
        }
    }

    /// Returns a sentence that says what to do.
    pub fn advice(self) -> &'static str {
        match self {
            Weakness::CannotRun => "Make its tools available to checks, or use another command.",
            Weakness::HoldsOnEmpty => "Test what the code does, so that it fails without any code.",
            Weakness::Flaky => "Find what differs between the runs, or test something else.",
            Weakness::HoldsOnBase => "Test what the work adds, or declare a guard with `**guard:** yes`.",
            Weakness::OnlyLooks => {
                "Run the code that the words stand for: a comment with the words passes too."
            }
            Weakness::Network => "Use files of the repository, or a service that the contract starts itself.",
            Weakness::Order => "Let each test make what it needs, so that every order gives the same result.",
            Weakness::Writes => "Write to a temporary folder: `mktemp -d`.",
            Weakness::Chance => "Set a seed, or use fixed values.",
            Weakness::Clock => "Pass a fixed time to the code under test.",
            Weakness::Git => {
                "Compare files: a check sees the approved history only, not the commits of an agent."
            }
        }
    }
}

/// How good a contract is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    Strong,
    Fair,
    Weak,
}

impl Grade {
    fn of_points(points: u8) -> Self {
        match points {
            80.. => Grade::Strong,
            50.. => Grade::Fair,
            _ => Grade::Weak,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Grade::Strong => "strong",
            Grade::Fair => "fair",
            Grade::Weak => "weak",
        }
    }
}

/// A weakness that a contract has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    pub weakness: Weakness,
    pub minus: u8,
    /// A run showed it, or a text.
    pub from: EvidenceKind,
    /// A sentence about what was found.
    pub says: String,
    /// A sentence about what to do.
    pub advice: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContractScore {
    pub points: u8,
    pub grade: Grade,
    /// The gravest first.
    pub reasons: Vec<Reason>,
}

/// Rates a contract.
pub fn rate(traits: &ContractTraits) -> ContractScore {
    let reasons: Vec<Reason> = Weakness::ALL
        .into_iter()
        .filter_map(|weakness| {
            let (from, says) = found(weakness, traits)?;
            Some(Reason { weakness, minus: weakness.points(), from, says, advice: weakness.advice() })
        })
        .collect();
    let points = reasons.iter().fold(100u8, |left, reason| left.saturating_sub(reason.minus));
    ContractScore { points, grade: Grade::of_points(points), reasons }
}

/// Returns how a weakness is known and what was found, if the contract has it.
fn found(weakness: Weakness, traits: &ContractTraits) -> Option<(EvidenceKind, String)> {
    let seen = |is_so: bool, says: &str| is_so.then(|| (EvidenceKind::Seen, says.to_owned()));
    let by = |evidence: &Option<Evidence>, says: &str| {
        evidence.as_ref().map(|evidence| (evidence.kind, format!("{says}: {}.", evidence.what)))
    };
    match weakness {
        Weakness::CannotRun => {
            let reason = traits.cannot_run.as_ref()?;
            Some((EvidenceKind::Seen, format!("It could not be run: {reason}.")))
        }
        Weakness::HoldsOnEmpty => {
            seen(traits.holds_on_empty, "It holds on an empty repository, so it says nothing about the code.")
        }
        Weakness::Flaky => {
            let how_often = traits.flaky.as_ref()?;
            Some((EvidenceKind::Seen, format!("It is flaky: {how_often}.")))
        }
        Weakness::HoldsOnBase => {
            seen(traits.holds_on_base, "It holds before the work already, so it shows no progress.")
        }
        Weakness::OnlyLooks => traits.only_looks.then(|| {
            (EvidenceKind::Text, "It only looks into files and runs no code of the project.".to_owned())
        }),
        Weakness::Network => by(&traits.network, "It reaches for the network"),
        Weakness::Order => by(&traits.order, "Its tests depend on their order"),
        Weakness::Writes => by(&traits.writes, "It changes files of its tree"),
        Weakness::Chance => by(&traits.chance, "It uses random values"),
        Weakness::Clock => by(&traits.clock, "It reads the clock"),
        Weakness::Git => by(&traits.git, "It uses git"),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn each_weakness_costs_its_points() {
        let sign = || Some(Evidence::text("`x` in the contract"));
        let table = [
            ContractTraits::default(),
            ContractTraits { cannot_run: Some("`uv` is missing".into()), ..Default::default() },
            ContractTraits { holds_on_empty: true, ..Default::default() },
            ContractTraits { flaky: Some("it held in 2 of 4 runs".into()), ..Default::default() },
            ContractTraits { holds_on_base: true, ..Default::default() },
            ContractTraits { only_looks: true, ..Default::default() },
            ContractTraits { network: sign(), ..Default::default() },
            ContractTraits { order: Some(Evidence::seen("it exited with 1")), ..Default::default() },
            ContractTraits { writes: Some(Evidence::seen("a.txt")), ..Default::default() },
            ContractTraits { chance: sign(), ..Default::default() },
            ContractTraits { clock: sign(), ..Default::default() },
            ContractTraits { git: sign(), ..Default::default() },
            ContractTraits { only_looks: true, holds_on_base: true, git: sign(), ..Default::default() },
            ContractTraits { holds_on_base: true, holds_on_empty: true, clock: sign(), ..Default::default() },
        ];
        let mut shown = String::new();
        for traits in &table {
            let score = rate(traits);
            let reasons: Vec<String> =
                score.reasons.iter().map(|reason| format!("-{} {}", reason.minus, reason.says)).collect();
            shown.push_str(&format!("{} {}: {}\n", score.points, score.grade.word(), reasons.join(" ")));
        }
        expect![[r#"
            100 strong: 
            0 weak: -100 It could not be run: `uv` is missing.
            40 weak: -60 It holds on an empty repository, so it says nothing about the code.
            50 fair: -50 It is flaky: it held in 2 of 4 runs.
            60 fair: -40 It holds before the work already, so it shows no progress.
            70 fair: -30 It only looks into files and runs no code of the project.
            75 fair: -25 It reaches for the network: `x` in the contract.
            80 strong: -20 Its tests depend on their order: it exited with 1.
            85 strong: -15 It changes files of its tree: a.txt.
            85 strong: -15 It uses random values: `x` in the contract.
            90 strong: -10 It reads the clock: `x` in the contract.
            95 strong: -5 It uses git: `x` in the contract.
            25 weak: -40 It holds before the work already, so it shows no progress. -30 It only looks into files and runs no code of the project. -5 It uses git: `x` in the contract.
            0 weak: -60 It holds on an empty repository, so it says nothing about the code. -40 It holds before the work already, so it shows no progress. -10 It reads the clock: `x` in the contract.
        "#]]
        .assert_eq(&shown);
    }

    #[test]
    fn the_gravest_weakness_comes_first() {
        let points: Vec<u8> = Weakness::ALL.iter().map(|weakness| weakness.points()).collect();
        assert!(points.is_sorted_by(|one, next| one >= next), "{points:?}");
    }
}
