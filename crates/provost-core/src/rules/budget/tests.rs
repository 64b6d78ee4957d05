//! Tests which attempts fit a budget, with a clock set by the tests.

mod answers;
mod time;

use super::*;
use crate::model::approved_spec::Binding;
use crate::model::event::{AttemptEnd, CheckSubject, Choice, EndedAttempt, Event, RunEndReason, RunOutcome};
use crate::model::run_policy::RunPolicy;
use crate::model::usage::{Cost, Usage};
use crate::model::verdict::{CheckOutcome, Isolation, Verdict};
use crate::rules::command::{HarnessCommand, HumanCommand, Refusal};
use crate::rules::recover::RecoveryInput;
use crate::rules::schedule::{self, Action, InHand};
use crate::rules::{decide, foreign_events};

const ONE: StepNumber = StepNumber(1);
const TWO: StepNumber = StepNumber(2);
const THREE: StepNumber = StepNumber(3);

/// A running plan: commands become events at the current time of the test.
pub(super) struct Story {
    pub run: Run,
    pub log: Vec<(Event, Timestamp)>,
    pub now: u64,
}

fn text(budget: &str, steps: &[&str]) -> String {
    let mut text = format!("---\nstatus: draft\n---\n# T\n**Budget:** {budget}\n## Steps\n");
    for (index, fields) in steps.iter().enumerate() {
        let number = index + 1;
        text.push_str(&format!(
            "### {number}. S{number}\n**target:** coder\n{fields}**task:** Do it.\n\
             **contract:**\n```shell\ntest -f {number}\n```\n**on_fail:** retry(1), then escalate\n"
        ));
    }
    text
}

fn used(tokens: u64) -> Usage {
    Usage {
        input_tokens: Some(tokens),
        output_tokens: Some(0),
        micro_usd: Some(tokens * 10),
        ..Usage::default()
    }
}

impl Story {
    pub(super) fn new(budget: &str, steps: &[&str]) -> Self {
        Self::under(RunPolicy::default(), &text(budget, steps))
    }

    fn under(terms: RunPolicy, text: &str) -> Self {
        let mut story = Self { run: Run::default(), log: Vec::new(), now: 1_000 };
        story.law(terms, text);
        story.attest();
        story
    }

    fn law(&mut self, terms: RunPolicy, text: &str) {
        let binding = Binding { terms, ..Binding::default() };
        self.harness(HarnessCommand::Record { text: text.to_owned(), binding, author: None });
        let revision = self.run.revision.clone();
        self.harness(HarnessCommand::Verified { revision: revision.clone(), warnings: 0 });
        let (by, modifications) = ("ada".to_owned(), Vec::new());
        self.human(HumanCommand::Approve { revision, by, modifications }).expect("approved");
    }

    fn attest(&mut self) {
        let (level, require_red, probes) = (Isolation::InPlace, false, Vec::new());
        let (kernel, bubblewrap) = (String::new(), None);
        self.harness(HarnessCommand::Attested {
            level,
            require_red,
            probes,
            kernel,
            bubblewrap,
            agent_outside: false,
            took_over: None,
        });
    }

    fn take(&mut self, events: Vec<Event>) {
        let at = Timestamp(self.now);
        for event in &events {
            self.run.apply(event);
        }
        for event in events {
            self.run.tick(&event, at);
            self.log.push((event, at));
        }
    }

    pub(super) fn try_harness(&mut self, command: HarnessCommand) -> Result<(), Refusal> {
        let means = RecoveryInput { now: Timestamp(self.now), ..RecoveryInput::default() };
        let events = decide::harness_with(&self.run, &means, command)?;
        self.take(events);
        Ok(())
    }

    #[track_caller]
    fn harness(&mut self, command: HarnessCommand) {
        self.try_harness(command).expect("allowed");
    }

    fn human(&mut self, command: HumanCommand) -> Result<(), Refusal> {
        let events = decide::human(&self.run, command)?;
        self.take(events);
        Ok(())
    }

    fn answer(&mut self, step: StepNumber, choice: Choice) -> Result<(), Refusal> {
        let (note, by) = (String::new(), "ada".to_owned());
        self.human(HumanCommand::Answer { step: Some(step), choice, note, by })
    }

    fn raise(&mut self, step: StepNumber, limits: &str) -> Result<(), Refusal> {
        let budget = crate::language::parse::budget(limits).map(Amount::from).expect(limits);
        let (note, by) = (String::new(), "ada".to_owned());
        self.human(HumanCommand::Raise { step, budget, note, by })
    }

    pub(super) fn next(&self, jobs: usize) -> Vec<Action> {
        schedule::next(&self.run, &InHand::default(), jobs, Timestamp(self.now))
    }

    #[track_caller]
    fn start(&mut self, step: StepNumber) -> Amount {
        self.harness(HarnessCommand::Start { step });
        self.run.ledger.held(step).expect("held")
    }

    pub(super) fn end(&mut self, step: StepNumber, duration_ms: u64, usage: Usage) {
        self.now += duration_ms;
        let attempt = self.run.step(step).map_or(0, |step| step.attempts);
        let (end, report, notes) = (AttemptEnd::Exited { exit_code: 0 }, String::new(), Vec::new());
        self.harness(HarnessCommand::AttemptEnded(EndedAttempt {
            duration_ms,
            report,
            notes,
            usage,
            ..EndedAttempt::new(step, attempt, end)
        }));
    }

    pub(super) fn judge(&mut self, step: StepNumber, held: bool) {
        let outcome = if held {
            CheckOutcome::Held
        } else {
            CheckOutcome::Broke { exit_code: self.now as i32 % 99 + 1 }
        };
        let verdict = Verdict::bare(Isolation::InPlace, outcome);
        self.harness(HarnessCommand::Judged { subject: CheckSubject::Contract(step), verdict });
    }

    #[track_caller]
    fn does(&mut self, step: StepNumber, usage: Usage) {
        self.start(step);
        self.end(step, 100, usage);
        self.judge(step, true);
    }

    /// Declares that the step does not fit, and says why.
    #[track_caller]
    fn over(&mut self, step: StepNumber) -> Breach {
        assert_eq!(self.next(1), [Action::OverBudget { step }]);
        self.harness(HarnessCommand::OverBudget { step });
        match self.log.last() {
            Some((Event::BudgetExceeded { breach, .. }, _)) => (**breach).clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Replays the same log, as a new process would.
    fn again(&self) -> Run {
        let mut run = Run::default();
        for (event, at) in &self.log {
            run.apply_at(event, *at);
        }
        run
    }
}

fn tokens(amount: Amount) -> u64 {
    amount.tokens.expect("tokens")
}

#[test]
fn without_a_limit_nothing_is_held() {
    let mut story = Story::new("$5", &["", ""]);
    assert_eq!(story.start(ONE).tokens, None);
    let mut free = Story::under(RunPolicy::default(), &text("$5", &["", ""]).replace("**Budget:** $5\n", ""));
    assert!(free.start(ONE).is_empty());
}

#[test]
fn a_share_first_then_what_attempts_used_on_average() {
    // Two steps with two attempts each.
    let mut story = Story::new("100k tokens", &["", ""]);
    assert_eq!(tokens(story.start(ONE)), 25_000);
    story.end(ONE, 100, used(10_000));
    story.judge(ONE, false);
    assert_eq!(tokens(story.start(ONE)), 10_000);
    story.end(ONE, 100, used(30_000));
    story.judge(ONE, true);
    assert_eq!(tokens(story.start(TWO)), 20_000);
    assert_eq!(story.run.ledger.committed(Resource::Tokens, Timestamp(0)), 60_000);
}

#[test]
fn what_the_configuration_expects_comes_first() {
    let expected = Amount { tokens: Some(70_000), ..Amount::default() };
    let terms = RunPolicy { estimates: [("coder".to_owned(), expected)].into(), ..RunPolicy::default() };
    let mut story = Story::under(terms, &text("100k tokens", &["", ""]));
    assert_eq!(tokens(story.start(ONE)), 70_000);
    story.end(ONE, 100, used(40_000));
    story.judge(ONE, true);
    assert_eq!(tokens(story.over(TWO).needed), 70_000);
}

#[test]
fn limits_of_the_configuration_hold_where_a_plan_names_none() {
    let limit = |tokens| Amount { tokens: Some(tokens), ..Amount::default() };
    let terms = RunPolicy { budget: limit(80_000), step_budget: limit(10_000), ..RunPolicy::default() };
    let plan = text("$5", &["", "**budget:** 50k tokens\n"]);
    let story = Story::under(terms.clone(), &plan.replace("**Budget:** $5\n", ""));
    assert_eq!(of_plan(&story.run), limit(80_000));
    assert_eq!((of_step(&story.run, ONE), of_step(&story.run, TWO)), (limit(10_000), limit(50_000)));
    assert_eq!(of_plan(&Story::under(terms, &plan).run).to_string(), "$5.00");
}

#[test]
fn two_attempts_never_hold_the_same_money() {
    let free = "**needs:** none\n**touches:** none\n";
    let mut story = Story::new("100k tokens", &[free, free, free]);
    story.does(ONE, used(45_000));
    // Each would fit alone; the second no longer fits when the first has started.
    assert_eq!(story.next(2), [Action::Dispatch { step: TWO }, Action::Dispatch { step: THREE }]);
    story.start(TWO);
    let refused = story.try_harness(HarnessCommand::Start { step: THREE });
    assert_eq!(refused, Err(Refusal::NoBudget { step: THREE }));
    // It waits for what the other step leaves, without asking a person.
    assert!(matches!(fit(&story.run, THREE, Timestamp(story.now)), Fit::NotNow));
    assert_eq!(
        story.try_harness(HarnessCommand::OverBudget { step: THREE }),
        Err(Refusal::NotOpen { step: THREE })
    );
    story.end(TWO, 100, used(5_000));
    story.judge(TWO, true);
    assert_eq!(tokens(story.start(THREE)), 25_000);
}

#[test]
fn a_breach_says_what_ran_out_what_is_left_and_what_it_would_cost() {
    let mut story = Story::new("100k tokens, $9", &["", "", ""]);
    story.does(ONE, used(60_000));
    let breach = story.over(TWO);
    assert_eq!(
        breach.to_string(),
        "the plan's budget of 100k tokens does not allow the next attempt: 60k tokens counted as spent, \
         60k tokens needed; left to do: steps 2, 3, about 120k tokens"
    );
    assert_eq!(breach.enough().map(|enough| enough.to_string()), Some("180k tokens".to_owned()));
    // Nothing starts until a person has answered.
    assert_eq!(story.next(4), []);
    assert_eq!(story.again().step(TWO).and_then(|step| step.over_budget.as_deref()), Some(&breach));
}

#[test]
fn unknown_counts_as_what_was_held_and_is_shown_as_unknown() {
    let mut story = Story::new("100k tokens", &["", ""]);
    let held = tokens(story.start(ONE));
    story.end(ONE, 100, Usage::default());
    let ledger = &story.run.ledger;
    assert_eq!(ledger.committed(Resource::Tokens, Timestamp(0)), held);
    assert_eq!((ledger.cost().tokens, ledger.cost().unknown), (None, 1));
    story.judge(ONE, true);
    // A later known usage does not make the earlier unknown usage known.
    story.does(TWO, used(1_000));
    let cost = story.run.ledger.cost();
    assert_eq!((cost.tokens, cost.micro_usd, cost.unknown), (None, None, 1));
    assert_eq!(story.run.ledger.known(Resource::Tokens), 1_000);
}

#[test]
fn an_agent_that_reports_nothing_gets_every_try_the_plan_allows() {
    let mut story = Story::new("100k tokens, $1", &["", ""]);
    for (step, held) in [(ONE, false), (ONE, true), (TWO, false), (TWO, true)] {
        story.start(step);
        story.end(step, 100, Usage::default());
        story.judge(step, held);
    }
    assert!(story.run.all_settled());
    assert!(story.run.ledger.committed(Resource::Tokens, Timestamp(0)) <= 100_000);
}

#[test]
fn a_crash_keeps_what_was_held_and_a_lost_attempt_has_spent_it() {
    let mut story = Story::new("100k tokens, 60 minutes", &["", ""]);
    let held = tokens(story.start(ONE));
    // The process dies, and a day passes.
    story.run = story.again();
    assert_eq!(story.run.ledger.committed(Resource::Tokens, Timestamp(0)), held);
    story.now += 24 * 3_600_000;
    story.attest();
    let verdict = Verdict::bare(Isolation::InPlace, CheckOutcome::Broke { exit_code: 1 });
    story.harness(HarnessCommand::JudgedLost { step: ONE, verdict, max_losses: 3 });
    let ledger = &story.run.ledger;
    assert_eq!(ledger.held(ONE), None);
    assert_eq!(ledger.committed(Resource::Tokens, Timestamp(0)), held);
    assert_eq!((ledger.cost().tokens, ledger.cost().unknown), (None, 1));
    // The attempt counts at most its timeout, not a whole day.
    assert_eq!(ledger.cost().wall_ms, 3_600_000);
}

#[test]
fn an_agent_that_could_not_be_started_used_nothing() {
    let mut story = Story::new("100k tokens", &["", ""]);
    story.start(ONE);
    let end = AttemptEnd::NotStarted { reason: "no such program".to_owned() };
    let (report, notes, usage) = (String::new(), Vec::new(), Usage::default());
    let (step, attempt, duration_ms) = (ONE, 1, 0);
    story.harness(HarnessCommand::AttemptEnded(EndedAttempt {
        duration_ms,
        report,
        notes,
        usage,
        ..EndedAttempt::new(step, attempt, end)
    }));
    assert_eq!(story.run.ledger.committed(Resource::Tokens, Timestamp(0)), 0);
    assert_eq!(story.run.ledger.cost().unknown, 0);
}

#[test]
fn a_step_has_a_limit_of_its_own_and_others_say_nothing_against_it() {
    let mut story = Story::new("1m tokens", &["", "**budget:** 20k tokens\n"]);
    story.does(ONE, used(90_000));
    // At most its own limit, whatever the first step used.
    assert_eq!(tokens(story.start(TWO)), 20_000);
    story.end(TWO, 100, used(15_000));
    story.judge(TWO, false);
    let breach = story.over(TWO);
    assert_eq!((breach.scope, breach.resource), (BudgetScope::Step, Resource::Tokens));
    assert!(breach.to_string().starts_with("the step's budget of 20k tokens"), "{breach}");
    story.raise(TWO, "40k tokens").expect("raised");
    assert_eq!(of_step(&story.run, TWO).to_string(), "40k tokens");
    assert_eq!(of_plan(&story.run).to_string(), "1m tokens");
    assert_eq!(tokens(story.start(TWO)), 15_000);
}

#[test]
fn another_budget_in_the_text_takes_the_place_of_what_was_raised_and_keeps_what_passed() {
    let mut story = Story::new("100k tokens", &["", ""]);
    story.does(ONE, used(70_000));
    story.over(TWO);
    story.raise(TWO, "300k tokens").expect("raised");
    // The same budget line in another text: the person's new limit stays.
    story.law(RunPolicy::default(), &text("100k tokens", &["", ""]).replace("# T", "# Another"));
    assert_eq!(tokens(of_plan(&story.run)), 300_000);
    story.law(RunPolicy::default(), &text("200k tokens", &["", ""]));
    assert_eq!(tokens(of_plan(&story.run)), 200_000);
    assert_eq!(story.run.step(ONE).map(|step| &step.state), Some(&StepState::Passed));
    assert_eq!(story.run.ledger.cost(), Cost { tokens: Some(70_000), ..story.run.ledger.cost() });
    assert_eq!(tokens(story.start(TWO)), 70_000);
}

mod property {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever attempts use and however they end: each start fits, and a limit is exceeded only by
        /// what running attempts used above their reservations.
        #[test]
        fn a_limit_is_exceeded_by_overruns_alone(
            limit in 1_000u64..100_000,
            jobs in 1usize..4,
            deeds in proptest::collection::vec((0u8..10, 0u64..40_000), 1..60),
        ) {
            let free = "**needs:** none\n**touches:** none\n";
            let mut story = Story::new(&format!("{limit} tokens"), &[free, free, "", ""]);
            let mut overrun = 0u64;
            for (what, tokens) in deeds {
                let running: Vec<StepNumber> = story.run.under_way().collect();
                for action in story.next(jobs.saturating_sub(running.len())) {
                    match action {
                        Action::Dispatch { step } => {
                            let begun = story.try_harness(HarnessCommand::Start { step });
                            let committed = story.run.ledger.committed(Resource::Tokens, Timestamp(0));
                            // If the limit was already exceeded, nothing starts.
                            prop_assert!(begun.is_err() || committed <= limit, "{committed} of {limit}");
                        }
                        Action::OverBudget { step } => {
                            let _ = story.try_harness(HarnessCommand::OverBudget { step });
                        }
                        _ => {}
                    }
                }
                let Some(step) = story.run.under_way().nth(what as usize % jobs) else { continue };
                let held = story.run.ledger.held(step).and_then(|held| held.tokens).unwrap_or(0);
                let running = matches!(
                    story.run.step(step).map(|step| &step.state),
                    Some(StepState::Running { .. })
                );
                if running && what == 9 {
                    let attempt = story.run.step(step).map_or(0, |step| step.attempts);
                    story.harness(HarnessCommand::AttemptInterrupted { step, attempt });
                } else if running {
                    let usage = if what == 8 { Usage::default() } else { used(tokens) };
                    overrun += usage.tokens().map_or(0, |tokens| tokens.saturating_sub(held));
                    story.end(step, 10, usage);
                    story.judge(step, what % 2 == 0);
                }
                let committed = story.run.ledger.committed(Resource::Tokens, Timestamp(0));
                prop_assert!(committed <= limit + overrun, "{committed} of {limit}, overrun {overrun}");
                // With one job, only the last attempt can exceed the limit.
                if jobs == 1 && committed > limit {
                    let fits = fit(&story.run, step, Timestamp(story.now));
                    prop_assert!(!matches!(fits, Fit::Yes(_)));
                }
                prop_assert_eq!(story.again().ledger.cost(), story.run.ledger.cost());
            }
        }
    }
}

#[test]
fn for_all_plans_a_plan_counts_without_the_steps_that_other_plans_carry_out() {
    let steps =
        text("1m tokens", &["", ""]).replace("**target:** coder\n**task:** Do it.", "**plan:** below");
    let own = "### 3. S3\n**target:** coder\n**task:** Do it.\n**contract:**\n```shell\ntest -f 3\n```\n";
    let mut story = Story::under(RunPolicy::default(), &format!("{steps}{own}"));
    let counted = |story: &Story| of_all_plans(&story.run);
    assert_eq!(tokens(counted(&story)), 0);
    story.start(ONE);
    assert_eq!(tokens(counted(&story)), 0, "the sub-plan reserves by itself");
    story.end(ONE, 100, used(50_000));
    story.judge(ONE, true);
    assert_eq!(tokens(counted(&story)), 0);
    story.does(TWO, used(1_000));
    let reserved = tokens(story.start(THREE));
    assert_eq!(tokens(counted(&story)), reserved);
    story.end(THREE, 100, used(7_000));
    assert_eq!(counted(&story).to_string(), "7k tokens, $0.07");
    assert_eq!(tokens(of_all_plans(&story.again())), 7_000);
}
