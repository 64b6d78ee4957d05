//! Tests trains with random conflicts: the same plans land as if each were tried in its turn, with fewer
//! checks.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// The conflicts of a random set of plans.
#[derive(Clone, Debug)]
struct World {
    cars: Vec<Car>,
    conflicts: BTreeSet<(usize, usize)>,
    alone: BTreeSet<usize>,
    pairs: BTreeSet<(usize, usize)>,
}

impl World {
    fn has(pairs: &BTreeSet<(usize, usize)>, set: &[usize]) -> bool {
        pairs.iter().any(|(one, other)| set.contains(one) && set.contains(other))
    }

    fn merges(&self, set: &[usize]) -> bool {
        !Self::has(&self.conflicts, set)
    }

    fn is_green(&self, set: &[usize]) -> bool {
        self.merges(set) && !set.iter().any(|car| self.alone.contains(car)) && !Self::has(&self.pairs, set)
    }

    /// Returns the plans that land if each is tried and checked in its turn.
    fn patiently(&self) -> Vec<usize> {
        let mut landed: Vec<usize> = Vec::new();
        for (place, car) in self.cars.iter().enumerate() {
            let longer = [landed.clone(), vec![place]].concat();
            if car.needs.iter().all(|need| landed.contains(need)) && self.is_green(&longer) {
                landed = longer;
            }
        }
        landed
    }

    fn run(&self) -> (TrainDecision, usize) {
        let mut answers = Answers::default();
        let mut judgings = 0;
        for _ in 0..10_000 {
            match next(&self.cars, &answers) {
                TrainStep::Over(settled) => return (settled, judgings),
                TrainStep::Ask(TrainQuestion::Merge(set)) => {
                    let merged = match self.merges(&set) {
                        true => MergeResult::Clean,
                        false => MergeResult::Conflict { files: vec!["a".to_owned()] },
                    };
                    assert!(answers.merged.insert(set, merged).is_none(), "asked twice");
                }
                TrainStep::Ask(TrainQuestion::Judge(set)) => {
                    judgings += 1;
                    let seen = match self.is_green(&set) {
                        true => TrainResult::Green,
                        false => TrainResult::Red { what: "broke".to_owned() },
                    };
                    assert!(answers.seen.insert(set, seen).is_none(), "asked twice");
                }
            }
        }
        panic!("it never ends");
    }
}

fn world(most: usize) -> impl Strategy<Value = World> {
    (1..=most).prop_flat_map(move |count| {
        let pair = move || (0..count, 0..count);
        let pairs = move |most| {
            proptest::collection::vec(pair(), 0..=most).prop_map(|pairs| {
                pairs.into_iter().filter(|(one, other)| one < other).collect::<BTreeSet<_>>()
            })
        };
        let alone = proptest::collection::btree_set(0..count, 0..=2);
        (pairs(3), alone, pairs(3), pairs(3)).prop_map(move |(conflicts, alone, red, needs)| {
            let cars = (0..count).map(|place| Car {
                name: format!("plan-{place}"),
                needs: needs.iter().filter(|(_, later)| *later == place).map(|(need, _)| *need).collect(),
            });
            World { cars: cars.collect(), conflicts, alone, pairs: red }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_lands_is_what_trying_each_in_turn_would_have_found(world in world(10)) {
        let (settled, judgings) = world.run();
        prop_assert_eq!(&settled.landing, &world.patiently());
        prop_assert!(world.is_green(&settled.landing));
        prop_assert_eq!(settled.landing.len() + settled.left_out.len(), world.cars.len());
        let at_fault =
            settled.left_out.values().filter(|reason| matches!(reason, LandingProblem::Red { .. })).count();
        let most = 1 + at_fault * (2 + 2 * world.cars.len().ilog2() as usize + 2);
        prop_assert!(judgings <= most, "{} judgings for {} at fault", judgings, at_fault);
    }

    #[test]
    fn who_is_blamed_is_to_blame(world in world(10)) {
        let (settled, _) = world.run();
        for (car, reason) in &settled.left_out {
            match reason {
                LandingProblem::Red { with: Some(other), .. } => {
                    prop_assert!(world.pairs.contains(&(*other, *car)), "{} and {}", other, car);
                    prop_assert!(settled.landing.contains(other));
                }
                LandingProblem::Red { with: None, .. } => {
                    let with_needs = |pair: &(usize, usize)| pair.1 == *car;
                    prop_assert!(
                        world.alone.contains(car) || world.pairs.iter().any(with_needs),
                        "{} is green by itself", car
                    );
                }
                LandingProblem::Conflict { with: Some(other), .. } => {
                    prop_assert!(world.conflicts.contains(&(*other, *car)));
                }
                LandingProblem::Conflict { with: None, .. } => {
                    prop_assert!(world.conflicts.iter().any(|(_, later)| later == car));
                }
                LandingProblem::Needs(need) => {
                    prop_assert!(world.cars[*car].needs.contains(need));
                    prop_assert!(!settled.landing.contains(need));
                }
                LandingProblem::Doubtful { .. } => prop_assert!(false, "nothing here is doubtful"),
            }
        }
    }

    /// A later plan may repair what an earlier one broke, and a check may have any result: nothing lands
    /// that was not checked and green.
    #[test]
    fn nothing_red_lands_however_odd_the_checks_are(count in 1..9usize, dice in any::<u64>()) {
        let cars: Vec<Car> =
            (0..count).map(|place| Car { name: place.to_string(), needs: Vec::new() }).collect();
        let odd = |set: &[usize], salt: u64| {
            let word: u64 = set.iter().map(|car| 1 << car).sum();
            (word ^ dice ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60
        };
        let mut answers = Answers::default();
        for _ in 0..10_000 {
            match next(&cars, &answers) {
                TrainStep::Over(settled) => {
                    let seen = answers.seen.get(&settled.landing);
                    prop_assert!(settled.landing.is_empty() || seen == Some(&TrainResult::Green));
                    return Ok(());
                }
                TrainStep::Ask(TrainQuestion::Merge(set)) => {
                    let merged = match odd(&set, 7) {
                        0..3 => MergeResult::Conflict { files: Vec::new() },
                        _ => MergeResult::Clean,
                    };
                    answers.merged.insert(set, merged);
                }
                TrainStep::Ask(TrainQuestion::Judge(set)) => {
                    let what = String::new();
                    let seen = match odd(&set, 11) {
                        0..7 => TrainResult::Red { what },
                        7..9 => TrainResult::Doubtful { car: set[set.len() / 2], what },
                        _ => TrainResult::Green,
                    };
                    answers.seen.insert(set, seen);
                }
            }
        }
        prop_assert!(false, "it never ends");
    }
}

#[test]
fn who_conflicts_with_one_that_does_not_land_gets_its_turn() {
    let cars = ["a", "b"].map(|name| Car { name: name.to_owned(), needs: Vec::new() });
    let world =
        World { cars: cars.to_vec(), conflicts: [(0, 1)].into(), alone: [0].into(), pairs: BTreeSet::new() };
    let (settled, _) = world.run();
    assert_eq!(settled.landing, [1]);
    assert_eq!(
        settled.left_out[&0].say(&world.cars),
        "fails on the branch, even without the other plans: broke"
    );
}

#[test]
fn a_check_is_looked_at_twice_before_anybody_is_blamed() {
    let broke = CheckOutcome::Broke { exit_code: 1 };
    let unrun = CheckOutcome::NotRun { reason: String::new() };
    for (outcomes, look) in [
        (vec![], Look::Again),
        (vec![&CheckOutcome::Held], Look::Held),
        (vec![&broke], Look::Again),
        (vec![&broke, &broke], Look::Red),
        (vec![&broke, &CheckOutcome::Held], Look::Doubtful),
        (vec![&unrun], Look::Again),
        (vec![&unrun, &unrun], Look::Doubtful),
        (vec![&broke, &unrun], Look::Doubtful),
    ] {
        assert_eq!(looks(&outcomes), look, "{outcomes:?}");
    }
}
