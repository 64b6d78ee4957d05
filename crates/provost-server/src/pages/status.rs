//! The status vocabulary: a state has the same word, symbol and colour on every page.
//!
//! The words are those of the read model (`view.rs`); `assets/tokens.css` has the colours. The word is always
//! shown, so that nothing is said by colour alone.

use maud::{Markup, html};
use provost_core::model::pass::Pass;
use provost_core::model::plan::StepNumber;
use provost_core::state::run::Run;
use provost_engine::observe::view::StepView;

use super::text::T;

/// A colour, and the class of the stylesheet that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    /// A person has to act.
    Wait,
    /// Something is at work.
    Run,
    /// It counts, but as less than verified.
    Weak,
    Quiet,
}

impl Tone {
    pub(super) fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Wait => "wait",
            Tone::Run => "run",
            Tone::Weak => "weak",
            Tone::Quiet => "",
        }
    }
}

/// Returns colour and symbol of a word. Words without a state of their own have neither.
pub(super) fn look(word: &str) -> (Tone, &'static str) {
    match word {
        "draft" => (Tone::Quiet, "✎"),
        "waiting for you" | "verified" => (Tone::Wait, "⚑"),
        "running" | "in_progress" | "in-progress" => (Tone::Run, "▶"),
        "idle" => (Tone::Quiet, "▷"),
        "done" | "passed" | "held" | "approved" | "sound" | "here" => (Tone::Good, "✓"),
        "failed" | "broke" | "tampered" | "timed_out" | "killed" | "not_run" | "vacuous" | "flaky"
        | "error" | "not sound" => (Tone::Bad, "✗"),
        "blocked" => (Tone::Bad, "■"),
        "claimed" => (Tone::Wait, "?"),
        "warning" => (Tone::Wait, "!"),
        "missing" | "gone" | "skipped" | "unsteady" => (Tone::Wait, "–"),
        "waived" => (Tone::Weak, "–"),
        "pending" => (Tone::Quiet, "○"),
        "added" => (Tone::Good, "+"),
        "deleted" => (Tone::Bad, "−"),
        _ => (Tone::Quiet, ""),
    }
}

/// Renders a state, a stage or an outcome.
pub(super) fn word(word: &str) -> Markup {
    let (tone, sign) = look(word);
    signed(tone, sign, &word.replace('_', " "))
}

fn signed(tone: Tone, sign: &str, word: &str) -> Markup {
    html! {
        span class={ "word " (tone.class()) } {
            @if !sign.is_empty() { span class="sign" aria-hidden="true" { (sign) } }
            (T(word))
        }
    }
}

/// Returns colour and symbol of a step: of its state, or of its kind of pass.
fn look_of_step(state: &str, pass: Option<Pass>) -> (Tone, &'static str) {
    match pass {
        Some(pass) if pass != Pass::Verified => (Tone::Weak, pass.mark()),
        Some(_) | None => look(state),
    }
}

/// The same for a step of a run.
pub(super) fn look_in_run(run: &Run, step: StepNumber) -> (Tone, &'static str) {
    look_of_step(run.state_word(step), run.pass(step))
}

/// Renders the state of a step; for a passed step the kind of pass.
pub(super) fn step_word(step: &StepView) -> Markup {
    let (tone, sign) = look_of_step(step.state, step.pass);
    let word = if step.pass.is_some() { step.word.clone() } else { step.state.replace('_', " ") };
    signed(tone, sign, &word)
}

/// Renders the result of a postcondition in the words of the read model.
pub(super) fn post_word(state: &str, pass: Option<Pass>, mark: &str, word: &str) -> Markup {
    let (tone, sign) = match (state, pass) {
        ("held", Some(Pass::Verified)) => look("held"),
        ("held", _) => (Tone::Weak, mark),
        ("broke", _) => look("broke"),
        _ => look("pending"),
    };
    signed(tone, sign, word)
}

#[cfg(test)]
mod tests {
    use provost_core::model::pass::Pass;
    use provost_engine::observe::view::PlanState;

    use super::{Tone, look, look_of_step};

    #[test]
    fn the_states_of_a_plan_have_a_symbol_each() {
        let signs: std::collections::BTreeSet<&str> =
            PlanState::ALL.iter().map(|state| look(state.word()).1).collect();
        assert!(signs.len() == PlanState::ALL.len() && !signs.contains(""), "{signs:?}");
    }

    #[test]
    fn only_a_verified_pass_is_green() {
        for pass in Pass::ALL {
            let (tone, sign) = look_of_step("passed", Some(pass));
            assert_eq!(tone == Tone::Good, pass == Pass::Verified, "{pass}");
            assert_eq!(sign == "✓", pass == Pass::Verified, "{pass}");
        }
    }
}
