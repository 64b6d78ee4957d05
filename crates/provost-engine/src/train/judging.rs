//! Merges and judges unions of plans: by the contracts of every plan in them, and of every landed plan whose
//! files they touch.

use crate::exec::approved_base::{PlanPaths, on_the_base};
use crate::plan::{commands, recording};
use std::collections::{BTreeMap, BTreeSet};

use provost_core::fleet::train::{self, Look, MergeResult, TrainResult};
use provost_core::language::test_files;
use provost_core::model::event::{CheckSubject, TrainExclusion};
use provost_core::model::plan::Check;
use provost_core::model::verdict::{CheckOutcome, Isolation, Verdict};
use provost_core::rules::command::HarnessCommand;
use provost_host::config::Demand;
use provost_host::exec::environment::{self, RunPaths};
use provost_host::sandbox::SandboxFeatures;
use provost_host::tree::{Base, Touches, TreeDifference, Trees, Union};

use super::boarding::{TrainCandidates, TrainPlan};
use super::train_log::TrainLog;
use super::{Wish, Yard};
use crate::Error;
use crate::exec::executor::Executor;
use crate::plan::commit::{self, PlanTrees};

/// Maximum number of commits named that may have undone a plan.
const SUSPECTS: usize = 3;

/// Execution environment for the checks of one plan: its approved base with all later changes.
struct Stand<'a> {
    hands: Executor<'a>,
    trees: Trees,
    approved: Base,
    base_tree: String,
}

impl<'a> Stand<'a> {
    fn of(yard: &Yard<'_>, plan: &'a TrainPlan, attested: &mut Vec<Attested>) -> Result<Self, Error> {
        let PlanTrees { trees, approved, judged, base } = commit::kept(&plan.harness, &plan.run)?;
        let approved = trees.with_ignored(&approved, &judged).map_err(environment::Error::from)?;
        let harness = &plan.harness;
        let paths = PlanPaths::of(harness);
        let estate = RunPaths { state: &yard.state, ..paths.for_checks(harness) };
        let demand = harness.config().verify.isolation;
        let (offer, level) = match attested.iter().find(|(known, ..)| *known == demand) {
            Some((_, offer, level)) => (offer.clone(), *level),
            None => {
                let (offer, seen) = environment::attest(demand, &estate)?;
                attested.push((demand, offer.clone(), seen.level));
                (offer, seen.level)
            }
        };
        let ground = on_the_base(harness, &plan.run, offer, level, &estate)?;
        let base_tree = yard.trees.tree_of(&base).map_err(environment::Error::from)?;
        Ok(Self { hands: Executor::new(harness.site(), ground), trees, approved, base_tree })
    }
}

/// Demanded and attested isolation; the machine is the same for all plans.
type Attested = (Demand, Option<SandboxFeatures>, Isolation);

/// Result of a plan's checks on a tree.
enum Says {
    Held,
    Red {
        subject: CheckSubject,
        verdict: Box<Verdict>,
        what: String,
    },
    /// No clear result; `at_times` says whether it held in some runs.
    Doubtful {
        what: String,
        at_times: bool,
    },
}

impl Says {
    /// Appends a remark to the result.
    fn with(self, more: &str) -> Self {
        match self {
            Says::Held => Says::Held,
            Says::Red { subject, verdict, what } => Says::Red { subject, verdict, what: what + more },
            Says::Doubtful { what, at_times } => Says::Doubtful { what: what + more, at_times },
        }
    }
}

pub(super) struct TrainChecker<'a> {
    yard: &'a Yard<'a>,
    boarding: &'a TrainCandidates,
    tip_tree: String,
    unions: BTreeMap<Vec<usize>, Union>,
    stands: BTreeMap<String, Stand<'a>>,
    attested: Vec<Attested>,
}

impl<'a> TrainChecker<'a> {
    pub(super) fn new(yard: &'a Yard<'a>, boarding: &'a TrainCandidates, tip: &str) -> Result<Self, Error> {
        let tip_tree = yard.trees.tree_of(tip).map_err(environment::Error::from)?;
        Ok(Self {
            yard,
            boarding,
            tip_tree,
            unions: BTreeMap::new(),
            stands: BTreeMap::new(),
            attested: Vec::new(),
        })
    }

    pub(super) fn merge(&mut self, set: &[usize]) -> Result<MergeResult, Error> {
        Ok(match self.union(set)? {
            Union::Clean(_) => MergeResult::Clean,
            Union::Conflict(files) => MergeResult::Conflict { files },
        })
    }

    /// Merges these plans onto the branch, one after the other.
    pub(super) fn union(&mut self, set: &[usize]) -> Result<Union, Error> {
        let Some((last, before)) = set.split_last() else { return Ok(Union::Clean(self.tip_tree.clone())) };
        if let Some(known) = self.unions.get(set) {
            return Ok(known.clone());
        }
        let union = match (self.union(before)?, &self.boarding.plans[*last].piece) {
            (Union::Clean(ours), Some(piece)) => {
                let merged = self.yard.trees.merge(&piece.base_tree, &ours, &piece.tree);
                merged.map_err(environment::Error::from)?
            }
            (union, _) => union,
        };
        self.unions.insert(set.to_vec(), union.clone());
        Ok(union)
    }

    pub(super) fn judge(&mut self, set: &[usize], record: &mut TrainLog<'_>) -> Result<TrainResult, Error> {
        let tree = match self.union(set)? {
            Union::Clean(tree) => tree,
            Union::Conflict(files) => {
                return Ok(TrainResult::Red { what: format!("it does not merge: {}", files.join(", ")) });
            }
        };
        let names: Vec<&str> = set.iter().map(|car| self.boarding.plans[*car].name.as_str()).collect();
        (self.yard.talk)(&format!("judging {} on {}", names.join(", "), self.yard.target));
        for car in set {
            let plan = &self.boarding.plans[*car];
            let own = plan.piece.as_ref().map(|piece| piece.tree.clone());
            match self.says(plan, &tree, own.as_deref(), record)? {
                Says::Held => {}
                Says::Red { what, .. } => return Ok(TrainResult::Red { what }),
                Says::Doubtful { what, .. } => return Ok(TrainResult::Doubtful { car: *car, what }),
            }
        }
        let differing = self.yard.trees.differing(&self.tip_tree, &tree).map_err(environment::Error::from)?;
        for plan in &self.boarding.landed {
            if touched(plan, &differing)?.is_empty() {
                continue;
            }
            let own = plan.run.landed.as_ref().map(|landed| self.yard.trees.tree_of(&landed.commit));
            let own = own.transpose().map_err(environment::Error::from)?;
            match self.says(plan, &tree, own.as_deref(), record)? {
                // A flaky check is no reason against other plans.
                Says::Held | Says::Doubtful { at_times: true, .. } => {}
                Says::Red { what, .. } | Says::Doubtful { what, .. } => {
                    return Ok(TrainResult::Red {
                        what: format!("{what}; it has landed and must stay done"),
                    });
                }
            }
        }
        Ok(TrainResult::Green)
    }

    /// Runs the checks of the plan on the tree, unless this train already knows the result. If the plan has
    /// its own tree, also runs them with the tests and configuration from there: no plan may land by changing
    /// what another plan is judged by.
    fn says(
        &mut self,
        plan: &'a TrainPlan,
        tree: &str,
        own: Option<&str>,
        record: &mut TrainLog<'_>,
    ) -> Result<Says, Error> {
        let key = plan.id().to_string();
        if !self.stands.contains_key(&key) {
            let stand = Stand::of(self.yard, plan, &mut self.attested)?;
            self.stands.insert(key.clone(), stand);
        }
        let Some(stand) = self.stands.get(&key) else { return Ok(Says::Held) };
        let lay = |own| {
            let laid = stand.trees.laid(&stand.approved, &self.yard.trees, (&stand.base_tree, tree), own);
            laid.map_err(|error| Says::Doubtful { what: format!("{}: {error}", plan.name), at_times: false })
        };
        let said = match lay(None) {
            Ok(laid) => self.said_on(stand, plan, &laid, record)?,
            Err(doubt) => doubt,
        };
        let (Says::Held, Some(own)) = (&said, own) else { return Ok(said) };
        let differing = self.yard.trees.differing(own, tree).map_err(environment::Error::from)?;
        let rests_on = rests_on(plan, &differing)?;
        if rests_on.is_empty() {
            return Ok(said);
        }
        let said = match lay(Some((own, &rests_on))) {
            Ok(laid) => self.said_on(stand, plan, &laid, record)?,
            Err(doubt) => doubt,
        };
        let files: Vec<_> = rests_on.iter().map(|path| String::from_utf8_lossy(path)).collect();
        Ok(said.with(&format!(", with {} as it was judged by", files.join(", "))))
    }

    /// Runs the checks on a prepared tree.
    fn said_on(
        &self,
        stand: &Stand<'_>,
        plan: &TrainPlan,
        laid: &Base,
        record: &mut TrainLog<'_>,
    ) -> Result<Says, Error> {
        for subject in train::checks(&plan.run) {
            let mut verdicts = record.state.verdicts(plan.id(), subject, &laid.id);
            let look = loop {
                let outcomes: Vec<&CheckOutcome> = verdicts.iter().map(|verdict| &verdict.outcome).collect();
                match train::looks(&outcomes) {
                    Look::Again => {}
                    look => break look,
                }
                let judged = stand.hands.judge_on(&plan.run, subject, &laid.id);
                let verdict = judged.map_err(|_| Error::Interrupted)?;
                record.judged(plan.id(), subject, &verdict)?;
                if !verdict.held() {
                    let what = train::subject(&plan.run, subject);
                    (self.yard.talk)(&format!("  {what} of {} {}", plan.name, verdict.outcome));
                }
                verdicts.push(verdict);
            };
            let Some(last) = verdicts.pop() else { continue };
            let what = format!("{} of {}", train::subject(&plan.run, subject), plan.name);
            match look {
                Look::Held | Look::Again => {}
                Look::Red => {
                    let what = format!("{what} {}", last.outcome);
                    return Ok(Says::Red { subject, verdict: Box::new(last), what });
                }
                Look::Doubtful => {
                    let at_times = last.held();
                    let how = if at_times {
                        "broke, then held on the same tree".into()
                    } else {
                        last.outcome.to_string()
                    };
                    return Ok(Says::Doubtful { what: format!("{what} {how}"), at_times });
                }
            }
        }
        Ok(Says::Held)
    }
}

/// Returns the differing files that the plan may change, protects, or names in its contracts.
fn touched(plan: &TrainPlan, differing: &[TreeDifference]) -> Result<Vec<String>, Error> {
    let of_plan = &plan.run.plan;
    let own = match &of_plan.touches {
        Some(touches) => touches.iter().map(|glob| glob.value.clone()).collect(),
        None => vec!["**".to_owned()],
    };
    let protected = of_plan.steps.iter().flat_map(|step| &step.protect).map(|glob| glob.value.clone());
    let globs: Vec<String> = own.into_iter().chain(protected).collect();
    let globs = Touches::new(&globs).map_err(environment::Error::from)?;
    let named = |path: &str| plan.run.binding.files.iter().any(|file| file.path == path);
    let touched = differing.iter().filter(|change| globs.covers(&change.path) || named(&change.shown()));
    Ok(touched.map(TreeDifference::shown).collect())
}

/// Returns the differing files that the plan is judged by: files it protects or names, the tests of its
/// checks, and runner configuration that was not there before.
fn rests_on(plan: &TrainPlan, differing: &[TreeDifference]) -> Result<BTreeSet<Vec<u8>>, Error> {
    let of_plan = &plan.run.plan;
    let protected: Vec<&str> =
        of_plan.steps.iter().flat_map(|step| &step.protect).map(|glob| glob.value.as_str()).collect();
    let protected = Touches::new(&protected).map_err(environment::Error::from)?;
    let shown: BTreeMap<String, &TreeDifference> =
        differing.iter().map(|change| (change.shown(), change)).collect();
    let contracts = of_plan.steps.iter().filter_map(|step| step.contract.as_ref());
    let contracts = contracts.chain(of_plan.postconditions.iter().filter_map(|post| post.contract.as_ref()));
    let mut tests = BTreeSet::new();
    for contract in contracts {
        if let Check::Shell(shell) = &contract.check {
            tests.extend(test_files::of_contract(&shell.command, shown.keys().map(String::as_str)));
        }
    }
    let named = |path: &str| plan.run.binding.files.iter().any(|file| file.path == path);
    let found = shown.iter().filter(|(path, change)| {
        let was_there = change.old.is_some() || test_files::is_runner_file(path);
        was_there && (tests.contains(path.as_str()) || named(path) || protected.covers(&change.path))
    });
    Ok(found.map(|(_, change)| change.path.clone()).collect())
}

/// Checks landed plans again if the branch has moved since and touched their files. Plans that no longer hold
/// are reopened and no longer count as landed.
pub(super) fn look_at_landed(
    yard: &Yard<'_>,
    tip: &str,
    record: &mut TrainLog<'_>,
    boarding: &mut TrainCandidates,
) -> Result<Vec<TrainExclusion>, Error> {
    if record.state.tip.as_deref() == Some(tip) {
        return Ok(Vec::new());
    }
    let mut undone = Vec::new();
    let mut bench = TrainChecker::new(yard, boarding, tip)?;
    for plan in &boarding.landed {
        let Some(landed) = &plan.run.landed else { continue };
        let then = yard.trees.tree_of(&landed.commit).map_err(environment::Error::from)?;
        let differing = yard.trees.differing(&then, &bench.tip_tree).map_err(environment::Error::from)?;
        let files = touched(plan, &differing)?;
        if files.is_empty() {
            continue;
        }
        let tree = bench.tip_tree.clone();
        // People may change tests together with the tested code.
        let Says::Red { subject, verdict, what } = bench.says(plan, &tree, None, record)? else { continue };
        let paths: Vec<&str> = files.iter().map(String::as_str).collect();
        let suspects = yard.trees.commits(&landed.commit, tip, &paths, SUSPECTS).unwrap_or_default();
        let who = if suspects.is_empty() { format!("{} moved", yard.target) } else { suspects.join(", ") };
        let reason = format!(
            "no longer holds on {}: {what}; since it landed, its files were changed by {who}. Revise \
             the plan on {}, or revert that change and retry",
            yard.target, yard.target
        );
        if yard.request.wish != Wish::DryRun {
            let command = HarnessCommand::Undone { subject, verdict: *verdict, reason: reason.clone() };
            let run = commands::harness_alone(&plan.harness, command)?;
            recording::project(&plan.harness, &run);
        }
        let with = suspects.first().cloned();
        undone.push(TrainExclusion { plan: plan.id().to_string(), name: plan.name.clone(), reason, with });
    }
    drop(bench);
    boarding.landed.retain(|plan| !undone.iter().any(|out| out.plan == plan.id().0));
    Ok(undone)
}
