//! Interprets the words of a person at the gate.
//!
//! Only a fixed list of words approves. Everything else is a rejection or a question: silence, a timeout or
//! half a sentence must not start an agent.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateAnswer {
    Approval,
    /// A plain no, with the rest of the answer.
    Rejection(String),
    /// Everything else: the plan stays at the gate until the question is answered.
    Question(String),
    Nothing,
}

const YES: &[&str] = &[
    "approved",
    "approve",
    "i approve",
    "yes",
    "y",
    "yes, proceed",
    "yes proceed",
    "proceed",
    "go",
    "go ahead",
    "confirmed",
    "lgtm",
    "✓",
    "✔",
    "✅",
    "👍",
    ":+1:",
    "+1",
];
const NO: &[&str] =
    &["no", "n", "reject", "rejected", "stop", "don't", "do not", "✗", "✘", "❌", "👎", ":-1:", "-1"];

pub fn hear(said: &str) -> GateAnswer {
    let said = said.trim();
    if said.is_empty() {
        return GateAnswer::Nothing;
    }
    let word = plain(said);
    if YES.contains(&word.as_str()) {
        return GateAnswer::Approval;
    }
    let (first, rest) = match said.split_once([',', ':', ' ']) {
        Some((first, rest)) => (plain(first), rest.trim_start_matches([',', ':', ' ']).trim()),
        None => (word.clone(), ""),
    };
    if NO.contains(&word.as_str()) {
        return GateAnswer::Rejection(String::new());
    }
    if NO.contains(&first.as_str()) && !said.ends_with('?') {
        return GateAnswer::Rejection(rest.to_owned());
    }
    GateAnswer::Question(said.to_owned())
}

/// Lowercases the text and removes closing punctuation, variation selectors and skin tones.
fn plain(said: &str) -> String {
    said.trim_end_matches(['.', '!'])
        .chars()
        .filter(|c| !matches!(c, '\u{fe0e}' | '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}'))
        .flat_map(char::to_lowercase)
        .collect::<String>()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_closed_list_approves() {
        for yes in ["approved", "Yes", "YES!", "proceed.", "✓", "✔️", "👍", "👍🏽", "yes, proceed", " y "]
        {
            assert_eq!(hear(yes), GateAnswer::Approval, "{yes}");
        }
        for unclear in [
            "yes but skip task 2",
            "approved?",
            "maybe",
            "ok why not later",
            "yes?",
            "approved, but reorder",
            "why does step 1 need step 2?",
            "wait",
            "no idea what sync means?",
            "looks fine I guess",
            "👍👎",
        ] {
            assert!(matches!(hear(unclear), GateAnswer::Question(_)), "{unclear}: {:?}", hear(unclear));
        }
        for no in ["no", "No.", "n", "rejected", "👎", "no, wrong approach", "reject: try another way"] {
            assert!(matches!(hear(no), GateAnswer::Rejection(_)), "{no}");
        }
        assert_eq!(hear("reject: try another way"), GateAnswer::Rejection("try another way".to_owned()));
        assert_eq!(hear(" \n"), GateAnswer::Nothing);
    }
}
