//! The words that no text for people uses. Tests of documents and of messages share this list.

/// Phrases that hide who does what, or how much, and the plain form to use.
const PHRASES: &[(&str, &str)] = &[
    ("whoever", "name the actor: the person, the agent, the caller"),
    ("whomever", "name the actor"),
    ("whosoever", "name the actor"),
    ("somebody", "a person, another process, the agent"),
    ("so many", "a number, or `this many`"),
    ("so long as", "while, or if"),
    ("is to be had", "is available"),
    ("cannot be had", "is not available"),
    ("can be had", "is available"),
    ("gone on with", "continued, resumed"),
    ("goes on with", "continues, resumes"),
    ("go on with", "continue, resume"),
    ("but for", "except"),
    ("of its own accord", "by itself"),
    ("by now", "say what it is now"),
    ("in the hands of", "locked by, run by"),
    ("where nothing is said", "by default"),
    ("is nobody's", "belongs to no one"),
    ("nobody's business", "say what is not done with it"),
    ("it is nothing to", "say what happens"),
    ("in its stead", "instead"),
    ("in their stead", "instead"),
    ("in a person's stead", "instead of a person"),
    ("behind which most is still to come", "critical path first"),
    ("has a try", "tries"),
    ("teeth", "negative control"),
    ("errand", "sub-plan"),
    ("outpost", "remote workspace"),
    ("leash", "limits"),
    ("stint", "continuation"),
    ("estate", "run paths"),
    ("veil", "mask"),
];

/// Words that open a sentence without a subject, unless the sentence asks something.
const OPENERS: &[&str] = &["What", "Who", "Whom", "Whose", "Where", "Wherever", "Whether", "Whatever"];

/// Returns what is wrong with the words of a text, one line per problem.
pub(crate) fn complaints(text: &str) -> Vec<String> {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let low = flat.to_lowercase();
    let mut found: Vec<String> = PHRASES
        .iter()
        .filter(|(phrase, _)| has_phrase(&low, phrase))
        .map(|(phrase, plain)| format!("“{phrase}” ({plain}): {}", shorten(&flat)))
        .collect();
    for sentence in sentences(&flat) {
        let first = sentence.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        if OPENERS.contains(&first) && !sentence.ends_with('?') {
            found.push(format!("starts with “{first}” and asks nothing: {}", shorten(sentence)));
        }
    }
    found
}

/// Returns whether the text contains the phrase as whole words.
fn has_phrase(low: &str, phrase: &str) -> bool {
    low.match_indices(phrase).any(|(at, _)| {
        let before = low[..at].chars().next_back();
        let after = low[at + phrase.len()..].chars().next();
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

fn sentences(flat: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, c) in flat.char_indices() {
        let end = at + c.len_utf8();
        if matches!(c, '.' | '?' | '!') && flat[end..].starts_with(' ') {
            found.push(flat[start..end].trim());
            start = end;
        }
    }
    found.push(flat[start..].trim());
    found
}

fn shorten(text: &str) -> String {
    text.chars().take(120).collect()
}

#[test]
fn a_complaint_names_the_phrase_and_its_plain_form() {
    assert!(complaints("A person approves the plan. What happens next? It runs.").is_empty());
    let all = complaints("Whoever runs it waits. What was held is kept. It waits so many seconds.");
    assert_eq!(all.len(), 3, "{all:#?}");
    assert!(complaints("The whoevers of `estates` are other words.").is_empty());
}
