//! Reports of a run for other tools: JUnit for test reports, SARIF for code scanning, Markdown for a summary.
//!
//! Each format has a module that renders the same [`Report`]; nothing here reads files or the log.

pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod sarif;

use provost_core::model::pass::Pass;
use provost_core::model::plan::{Contract, Mark, Span};
use provost_core::model::test_results::TestSummary;
use provost_core::state::run::Run;
use provost_engine::observe::view::{PostconditionView, StepView, VerdictView};

/// A run as a list of the plan's checks and their outcomes.
pub(crate) struct Report {
    pub plan: String,
    pub title: String,
    pub stage: &'static str,
    /// How the command ended, as one word.
    pub end: String,
    pub revision: String,
    pub approved_by: Option<String>,
    pub isolation: Option<String>,
    pub text: String,
    pub checks: Vec<Check>,
    /// Head of the log, and its proof.
    pub head: String,
    pub proof: Option<(String, String)>,
}

impl Report {
    /// Returns why the run is not green although nothing in it failed: unchecked work proves nothing.
    pub(crate) fn unfinished(&self) -> Option<&str> {
        let failed = self.checks.iter().any(|check| matches!(check.end, End::Failed(_) | End::Waiting(_)));
        (self.stage != "done" && !failed).then_some(self.end.as_str())
    }
}

/// A step or a postcondition.
pub(crate) struct Check {
    pub name: String,
    pub end: End,
    pub attempts: u32,
    pub duration_ms: u64,
    /// Output of the check, if it did not hold.
    pub output: String,
    /// The results of its single tests, and what the work changed about them.
    pub tests: Option<Box<TestSummary>>,
    pub span: Span,
}

pub(crate) enum End {
    /// The contract held or a person confirmed it, with the kind of pass.
    Passed(Pass, Control),
    /// Waived by a person or by the plan they approved; never as good as passed.
    Waived(String),
    Failed(String),
    /// A person must act.
    Waiting(String),
    Open,
}

/// Whether a negative control has shown that the check can fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    Shown,
    Uncontrolled,
}

impl Control {
    fn of(uncontrolled: bool) -> Self {
        if uncontrolled { Control::Uncontrolled } else { Control::Shown }
    }
}

impl End {
    pub(crate) fn symbol(&self) -> &'static str {
        match self {
            End::Passed(pass, _) => pass.mark(),
            End::Waived(_) => Mark::Waived.symbol(),
            End::Failed(_) => Mark::Failed.symbol(),
            End::Waiting(_) => Mark::Blocked.symbol(),
            End::Open => "·",
        }
    }

    pub(crate) fn words(&self) -> String {
        match self {
            End::Passed(pass, Control::Shown) => pass.to_string(),
            End::Passed(pass, Control::Uncontrolled) => format!("{pass}, uncontrolled"),
            End::Waived(by) => format!("waived by {by}"),
            End::Failed(why) => format!("failed: {why}"),
            End::Waiting(why) => format!("waits for a person: {why}"),
            End::Open => "open".to_owned(),
        }
    }
}

/// Returns every step, then every postcondition.
pub(crate) fn checks(run: &Run) -> Vec<Check> {
    let steps = run.steps().map(|(step, state)| {
        let view = StepView::of(run, step, state, &[]);
        of_step(&view, span(step.contract.as_ref(), step.heading))
    });
    let posts = run.postconditions().zip(PostconditionView::all(run));
    steps
        .chain(posts.map(|((post, _), view)| of_post(&view, span(post.contract.as_ref(), post.span))))
        .collect()
}

fn of_step(step: &StepView, span: Span) -> Check {
    let seen = step.verdict.as_ref().filter(|verdict| !verdict.held());
    let end = match (step.state, &step.blocked, &step.waived_by) {
        (_, Some(reason), _) => End::Waiting(reason.clone()),
        (_, _, Some(by)) => End::Waived(by.clone()),
        ("passed", _, _) => {
            End::Passed(step.pass.unwrap_or(Pass::Verified), Control::of(step.uncontrolled.is_some()))
        }
        ("failed", _, _) => {
            End::Failed(seen.map_or("it did not pass".to_owned(), |verdict| verdict.words.clone()))
        }
        ("claimed", _, _) => End::Waiting("a person has to confirm this step".to_owned()),
        _ => End::Open,
    };
    Check {
        name: format!("{}. {}", step.number, step.title),
        end,
        attempts: step.attempt_count,
        duration_ms: step.verdict.as_ref().map_or(0, |verdict| verdict.duration_ms),
        // The output of a hidden contract is not shown where agents may read it.
        output: seen.filter(|_| !step.hidden).map(output).unwrap_or_default(),
        tests: step
            .verdict
            .as_ref()
            .filter(|_| !step.hidden)
            .and_then(|verdict| verdict.test_results.clone()),
        span,
    }
}

fn of_post(post: &PostconditionView, span: Span) -> Check {
    let broke = post.verdict.as_ref();
    let end = match (post.pass, broke) {
        (Some(pass), _) => End::Passed(pass, Control::of(post.uncontrolled.is_some())),
        (None, Some(verdict)) => End::Failed(verdict.words.clone()),
        (None, None) => End::Open,
    };
    Check {
        name: format!("postcondition {}: {}", post.number, post.description.trim()),
        end,
        attempts: 0,
        duration_ms: broke.map_or(0, |verdict| verdict.duration_ms),
        output: broke.map(output).unwrap_or_default(),
        tests: broke.and_then(|verdict| verdict.test_results.clone()),
        span,
    }
}

fn span(contract: Option<&Contract>, otherwise: Span) -> Span {
    contract.map_or(otherwise, |contract| contract.span)
}

fn output(verdict: &VerdictView) -> String {
    let unmet = verdict.unmet.join("\n");
    let parts = [&unmet, &verdict.stdout, &verdict.stderr];
    let said: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    said.join("\n")
}

#[cfg(test)]
pub(crate) mod tests {
    //! An example run for all three formats.

    use super::*;

    pub(crate) fn example() -> Report {
        let check = |name: &str, end, output: &str| Check {
            name: name.to_owned(),
            end,
            attempts: 2,
            duration_ms: 1234,
            output: output.to_owned(),
            tests: None,
            span: Span { start: 4, end: 9 },
        };
        Report {
            plan: "plan-1a2b3c4d".to_owned(),
            title: "Fix <login> & \"more\"".to_owned(),
            stage: "in-progress",
            end: "waiting for a person".to_owned(),
            revision: "2f73508e8706".to_owned(),
            approved_by: Some("ada".to_owned()),
            isolation: Some("clean".to_owned()),
            text: "one\ntwo\nthree\n".to_owned(),
            checks: vec![
                check("1. Analyse", End::Passed(Pass::Verified, Control::Shown), ""),
                check(
                    "2. Mend | it",
                    End::Waiting("broke: exit code 1".to_owned()),
                    "a < b\u{1b}[31m && ```c\n]]>",
                ),
                check("3. Later", End::Waived("ada".to_owned()), ""),
                check("postcondition 1: it works", End::Failed("timed out".to_owned()), ""),
                check("4. Last", End::Open, ""),
            ],
            head: "36 abcdef".to_owned(),
            proof: Some(("proofs/plan.jsonl".to_owned(), "c545eb".to_owned())),
        }
    }
}
