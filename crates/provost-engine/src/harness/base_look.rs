//! Tries the checks of a plan on the base before anybody approves it, so that the gate can say which of
//! them hold already. What was seen is kept in the state folder, by revision.
//!
//! **Invariant:** nothing is run here that is not behind bubblewrap and without a network: nobody has approved
//! these commands yet.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use provost_core::plan::Step;
use provost_core::render::base::{self, BaseLook};
use provost_core::run::{Run, Stage};
use provost_core::verdict::Isolation;
use provost_host::ground::{self, Estate};
use provost_host::{judge, process};

use crate::Error;
use crate::confined;
use crate::hands::Hands;

use super::Harness;

/// One check may take so long here, whatever the plan says, and all of them together so long.
const EACH: Duration = Duration::from_secs(30);
const ALL: Duration = Duration::from_secs(90);

impl Harness {
    /// What the checks said on the base of this revision, where somebody has looked.
    pub fn base_look(&self, run: &Run) -> Option<BaseLook> {
        let text = std::fs::read_to_string(self.base_file()).ok()?;
        let look: BaseLook = serde_json::from_str(&text).ok()?;
        (look.revision == run.revision.0 && !run.revision.0.is_empty()).then_some(look)
    }

    /// The same, and looks if nobody has. Nothing, where the plan is not new at the gate or the checks cannot be
    /// tried safely.
    pub fn look_at_base(&self, run: &Run) -> Option<BaseLook> {
        if let Some(look) = self.base_look(run) {
            return Some(look);
        }
        let is_new = run.stage == Stage::Verified && !run.started();
        let has_checks = run.plan.steps.iter().any(may_be_tried)
            || run.plan.postconditions.iter().any(|post| base::is_shell(post.contract.as_ref()));
        let elsewhere = self.is_under_way() || self.carrying.is_some() || self.within.is_some();
        if !is_new || !has_checks || elsewhere {
            return None;
        }
        // Where it fails, the gate is open all the same; it only says less.
        self.tried_on_base(run).ok().flatten()
    }

    fn tried_on_base(&self, run: &Run) -> Result<Option<BaseLook>, Error> {
        let _ = process::become_subreaper();
        let launcher = confined::launcher(&self.site.launcher);
        let workspace = &self.place().workspace;
        let estate =
            Estate { workspace, state: &self.state, read_only: &[], secret: None, launcher: &launcher };
        let (offer, seen) = ground::attest(self.config().verify.isolation, &estate)?;
        if seen.level != Isolation::Clean {
            return Ok(None);
        }
        let hands = Hands::new(&self.site, self.on_the_base(run, offer, seen.level, &estate)?);
        let begun = Instant::now();
        let left = || ALL.saturating_sub(begun.elapsed()).min(EACH);
        let goes_on = || !left().is_zero() && !self.is_stopped();
        let mut look = BaseLook { revision: run.revision.0.clone(), ..BaseLook::default() };
        for step in run.plan.steps.iter().filter(|step| may_be_tried(step) && goes_on()) {
            look.steps.extend(hands.step_on_base(run, step.number, left()).map(|seen| (step.number, seen)));
        }
        for post in run.plan.postconditions.iter().filter(|_| goes_on()) {
            let seen = hands.postcondition_on_base(run, post.number, left());
            look.postconditions.extend(seen.map(|seen| (post.number, seen)));
        }
        judge::leave();
        if self.is_stopped() {
            return Ok(None);
        }
        self.keep(&look);
        Ok(Some(look))
    }

    /// It is looked at again where it cannot be kept.
    fn keep(&self, look: &BaseLook) {
        let (file, text) = (self.base_file(), serde_json::to_string(look).unwrap_or_default());
        let next = file.with_extension(std::process::id().to_string());
        let _ = file.parent().map(std::fs::create_dir_all);
        if std::fs::write(&next, text).is_err() || std::fs::rename(&next, &file).is_err() {
            let _ = std::fs::remove_file(&next);
        }
    }

    fn base_file(&self) -> PathBuf {
        self.state.join("base").join(format!("{}.json", self.id()))
    }
}

/// A command, and none that wants the network.
fn may_be_tried(step: &Step) -> bool {
    let network = step.network.as_ref().is_some_and(|network| network.value);
    base::is_shell(step.contract.as_ref()) && !network && step.secrets.is_empty()
}
