//! The help screen: what each key does.

use crate::watch::known::Said;

const KEYS: [(&str, &[(&str, &str)]); 5] = [
    (
        "Everywhere",
        &[
            ("1 2 3, Tab", "agenda, inbox, log"),
            ("↑ ↓, k j", "the line before, the line after"),
            ("Home End", "the first line, the last"),
            ("Enter, →", "open what is chosen; a second click does it too"),
            ("Esc, ←", "back"),
            ("PgUp PgDn, K J", "scroll the page by screens, by lines"),
            ("m", "mouse on or off: off lets your terminal mark text"),
            ("Ctrl-L", "draw everything anew"),
            ("Ctrl-Z", "to the shell; `fg` comes back"),
            ("q, Ctrl-C", "quit; runs go on"),
        ],
    ),
    (
        "Agenda and plan",
        &[("g", "the gate of the plan"), ("l", "its log"), ("i", "what waits in it (in a plan)")],
    ),
    (
        "Gate",
        &[
            ("a", "approve exactly the revision that is shown"),
            ("r", "reject it, with a reason: it is a draft again"),
            ("b", "ask back: it waits with your question"),
        ],
    ),
    (
        "Inbox",
        &[
            ("r", "retry: try again"),
            ("s", "skip: let the step go, in your name"),
            ("x", "abort: end the plan as failed"),
            ("v", "revise: send it back to draft"),
            ("c", "confirm: say that it holds"),
        ],
    ),
    (
        "Log",
        &[("/", "only events with these words"), ("f", "follow, or stay"), ("a", "all plans, all events")],
    ),
];

pub fn page() -> Vec<Said> {
    let mut page = vec![
        Said::plain("What happens shows by itself. Every decision is asked for once more; only y is a yes."),
        Said::gap(),
    ];
    for (screen, keys) in KEYS {
        page.push(Said::strong(screen));
        page.extend(keys.iter().map(|(key, does)| Said::plain(format!("  {key:<16} {does}"))));
        page.push(Said::gap());
    }
    page
}
