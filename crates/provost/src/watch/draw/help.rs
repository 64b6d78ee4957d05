//! The help screen: what each key does.

use crate::watch::known::Said;

const KEYS: [(&str, &[(&str, &str)]); 5] = [
    (
        "Everywhere",
        &[
            ("1 2 3, Tab", "agenda, inbox, log"),
            ("↑ ↓, k j", "previous line, next line"),
            ("Home End", "first line, last line"),
            ("Enter, →", "open the selected line; a second click does too"),
            ("Esc, ←", "back"),
            ("PgUp PgDn, K J", "scroll the page by screens, by lines"),
            ("m", "mouse on or off: off lets your terminal select text"),
            ("Ctrl-L", "redraw the screen"),
            ("Ctrl-Z", "suspend; `fg` resumes"),
            ("q, Ctrl-C", "quit; runs continue"),
        ],
    ),
    (
        "Agenda and plan",
        &[
            ("g", "the gate of the plan"),
            ("l", "its log"),
            ("d", "what the selected step changed (in a plan and in the inbox)"),
            ("t", "what the agent said and did in its last attempt (in a plan and in the inbox)"),
            ("i", "its inbox (in a plan)"),
        ],
    ),
    (
        "Gate",
        &[
            ("a", "approve exactly the revision that is shown"),
            ("r", "reject with a reason; the plan becomes a draft"),
            ("b", "ask a question; the plan waits"),
        ],
    ),
    (
        "Inbox",
        &[
            ("r", "retry: try again"),
            ("s", "skip: waive the step in your name"),
            ("x", "abort: end the plan as failed"),
            ("v", "revise: send it back to draft"),
            ("c", "confirm: the contract holds"),
        ],
    ),
    (
        "Log",
        &[
            ("/", "show only events with this text"),
            ("f", "follow new events, or stop"),
            ("a", "all plans, all events"),
        ],
    ),
];

pub(super) fn page() -> Vec<Said> {
    let mut page = vec![
        Said::plain("The screen updates by itself. Every decision asks for confirmation; only y confirms."),
        Said::gap(),
    ];
    for (screen, keys) in KEYS {
        page.push(Said::strong(screen));
        page.extend(keys.iter().map(|(key, does)| Said::plain(format!("  {key:<16} {does}"))));
        page.push(Said::gap());
    }
    page
}
