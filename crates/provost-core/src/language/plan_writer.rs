//! Writes the text of a plan from its parts, for agents that plan through tools.
//!
//! The text is parsed again, and a part that would be read as something else is refused by name.
//!
//! **Invariant:** a step or postcondition without a check is left for a person to confirm; nothing passes
//! unchecked.

use std::fmt::Write as _;

use crate::language::parse;
use crate::model::plan::{Check, Contract, Plan};

/// The role of steps that the agent of a session carries out.
pub const ROLE: &str = "session";
/// Number of failed claims of a step before provost asks a person.
const RETRIES: u32 = 4;
const SLUG_MAX: usize = 40;
const TITLE_MAX: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanDraft {
    pub objective: String,
    /// Globs; empty if the agent gave none.
    pub touches: Vec<String>,
    pub steps: Vec<DraftStep>,
    pub postconditions: Vec<DraftPostcondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftStep {
    pub title: String,
    pub task: String,
    /// A shell command; may be empty.
    pub check: String,
    pub needs: Vec<u32>,
    pub network: bool,
    /// Topics it may publish to.
    pub publishes: Vec<String>,
    /// The check is meant to hold before the work too.
    pub guard: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftPostcondition {
    pub text: String,
    pub check: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    #[error("`objective` is empty: say what the plan should achieve")]
    NoObjective,
    #[error("a plan needs at least one step")]
    NoSteps,
    #[error("{part} is empty")]
    Empty { part: String },
    #[error("{part} is longer than {TITLE_MAX} characters; put the details into `task`")]
    TooLong { part: String },
    #[error("step {step} needs step {need}, but a step can only need earlier steps: 1 to {}", step - 1)]
    BadNeed { step: u32, need: u32 },
    #[error("{part} cannot be part of a plan as it is; write it without headings, fields and code fences")]
    NotAsSaid { part: String },
}

/// Returns the text of the plan, or why it cannot be written.
pub fn text(draft: &PlanDraft) -> Result<String, Unwritable> {
    let draft = complete(draft)?;
    let mut refused = None;
    // Write the words as given; if they are not read back the same, escape everything special.
    for manner in [Manner::Plain, Manner::Escaped] {
        let text = write(&draft, manner);
        match differs(&parse::plan(&text).plan, &draft) {
            None => return Ok(text),
            Some(part) => refused = Some(part),
        }
    }
    Err(Unwritable::NotAsSaid { part: refused.unwrap_or_default() })
}

/// Adds `require_red: true` to a plan that does not set it.
pub fn with_red_first(text: &str) -> String {
    let plan = parse::plan(text).plan;
    let Some(status) = plan.status.filter(|_| plan.require_red.is_none()) else { return text.to_owned() };
    let line_end = text.get(status.span.end..).and_then(|rest| rest.find('\n'));
    let Some(at) = line_end.map(|end| status.span.end + end + 1) else { return text.to_owned() };
    let changed = format!("{}require_red: true\n{}", &text[..at], &text[at..]);
    // Whatever the frontmatter looks like, nothing else in the plan may change.
    let same = parse::plan(&changed).plan;
    let is_read = same.require_red.is_some() && same.steps.len() == plan.steps.len();
    if is_read { changed } else { text.to_owned() }
}

/// Derives a name for the plan's file.
pub fn slug(objective: &str) -> String {
    let mut slug = String::new();
    for c in objective.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
        if slug.len() >= SLUG_MAX {
            break;
        }
    }
    let slug = slug.trim_matches('-');
    if slug.is_empty() { "session".to_owned() } else { slug.to_owned() }
}

/// Trims and bounds the parts, and adds a step for each postcondition that only a person can confirm.
fn complete(draft: &PlanDraft) -> Result<PlanDraft, Unwritable> {
    let objective = draft.objective.trim().to_owned();
    if objective.is_empty() {
        return Err(Unwritable::NoObjective);
    }
    if draft.steps.is_empty() {
        return Err(Unwritable::NoSteps);
    }
    let mut steps = Vec::new();
    for (place, step) in draft.steps.iter().enumerate() {
        let number = place as u32 + 1;
        let title = one_line(&step.title, || format!("the title of step {number}"))?;
        if let Some(need) = step.needs.iter().find(|need| **need == 0 || **need >= number) {
            return Err(Unwritable::BadNeed { step: number, need: *need });
        }
        let task = if step.task.trim().is_empty() { title.clone() } else { step.task.trim().to_owned() };
        steps.push(DraftStep { title, task, check: step.check.trim().to_owned(), ..step.clone() });
    }
    let mut postconditions = Vec::new();
    for (place, post) in draft.postconditions.iter().enumerate() {
        let text = one_line(&post.text, || format!("postcondition {}", place + 1))?;
        let check = post.check.trim().to_owned();
        if check.is_empty() {
            let task = format!("Make sure that this is so, and say where it can be seen: {text}");
            steps.push(DraftStep { title: text, task, ..DraftStep::default() });
        } else {
            postconditions.push(DraftPostcondition { text, check });
        }
    }
    Ok(PlanDraft { objective, touches: draft.touches.clone(), steps, postconditions })
}

fn one_line(text: &str, part: impl Fn() -> String) -> Result<String, Unwritable> {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return Err(Unwritable::Empty { part: part() });
    }
    if line.chars().count() > TITLE_MAX {
        return Err(Unwritable::TooLong { part: part() });
    }
    Ok(line)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Plain,
    Escaped,
}

fn write(draft: &PlanDraft, manner: Manner) -> String {
    let mut out = String::from("---\ntype: plan\nstatus: draft\nowner: session\nrequire_red: true\n");
    if !draft.touches.is_empty() {
        let globs: Vec<String> =
            draft.touches.iter().map(|glob| serde_json::Value::from(glob.as_str()).to_string()).collect();
        let _ = writeln!(out, "touches: [{}]", globs.join(", "));
    }
    let mut lines = draft.objective.lines();
    let title: String = lines.next().unwrap_or_default().trim().chars().take(TITLE_MAX).collect();
    let _ = writeln!(out, "---\n\n# {}", said(&title, manner));
    let rest: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
    if !rest.is_empty() {
        let _ = writeln!(out, "\n**Context:** {}", said(&rest.join(" "), Manner::Escaped));
    }
    out.push_str("\n## Steps\n");
    for (place, step) in draft.steps.iter().enumerate() {
        let number = place as u32 + 1;
        let _ = writeln!(out, "\n### {number}. {}\n\n**target:** {ROLE}", said(&step.title, manner));
        out.push_str(&needs(draft, place));
        if !step.publishes.is_empty() {
            let _ = writeln!(out, "**publishes:** {}", step.publishes.join(", "));
        }
        let _ = writeln!(out, "**task:**\n{}\n", task(&step.task, manner));
        if step.check.is_empty() {
            out.push_str("**contract:** human\n");
        } else {
            let _ = writeln!(out, "**contract:**\n{}", fenced(&step.check, ""));
        }
        if step.network {
            out.push_str("**network:** on\n");
        }
        if step.guard && !step.check.is_empty() {
            out.push_str("**guard:** yes\n");
        }
        let _ = writeln!(out, "**on_fail:** retry({RETRIES}), then escalate");
    }
    if !draft.postconditions.is_empty() {
        out.push_str("\n## Postconditions\n\n");
        for (place, post) in draft.postconditions.iter().enumerate() {
            let number = format!("{}. ", place + 1);
            let indent = " ".repeat(number.len());
            let _ = writeln!(out, "{number}{}\n{}", said(&post.text, manner), fenced(&post.check, &indent));
        }
    }
    out
}

/// Returns the `needs` of a step. By default no step waits for steps that a person confirms.
fn needs(draft: &PlanDraft, place: usize) -> String {
    let step = &draft.steps[place];
    let before = &draft.steps[..place];
    let numbers: Vec<String> = if !step.needs.is_empty() {
        step.needs.iter().map(u32::to_string).collect()
    } else if before.iter().all(|step| !step.check.is_empty()) {
        return String::new();
    } else {
        let checked = before.iter().enumerate().filter(|(_, step)| !step.check.is_empty());
        checked.map(|(place, _)| (place + 1).to_string()).collect()
    };
    let list = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
    format!("**needs:** {list}\n")
}

fn said(line: &str, manner: Manner) -> String {
    if manner == Manner::Plain {
        return line.to_owned();
    }
    let mut out = String::with_capacity(line.len() + 8);
    for c in line.chars() {
        if c.is_ascii_punctuation() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Writes the task, in a fence if its words would be read as something else.
fn task(task: &str, manner: Manner) -> String {
    match manner {
        Manner::Plain => task.to_owned(),
        Manner::Escaped => {
            let fence = fence_around(task);
            format!("{fence}text\n{task}\n{fence}")
        }
    }
}

fn fenced(command: &str, indent: &str) -> String {
    let fence = fence_around(command);
    let mut out = format!("{indent}{fence}shell\n");
    for line in command.lines() {
        let _ = writeln!(out, "{indent}{line}");
    }
    let _ = write!(out, "{indent}{fence}");
    out
}

/// Returns a fence longer than any run of backticks in the text.
fn fence_around(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// Returns the first part that is not read back as given.
fn differs(plan: &Plan, draft: &PlanDraft) -> Option<String> {
    if plan.steps.len() != draft.steps.len() {
        return Some("the plan".to_owned());
    }
    for (number, (read, step)) in (1..).zip(plan.steps.iter().zip(&draft.steps)) {
        if read.title != step.title {
            return Some(format!("the title of step {number}"));
        }
        let task = read.task.as_ref().map(|task| task.value.as_str()).unwrap_or_default();
        if !task.contains(&step.task) {
            return Some(format!("the task of step {number}"));
        }
        if !same(read.contract.as_ref(), &step.check) {
            return Some(format!("the check of step {number}"));
        }
        if !read.publishes.iter().map(|topic| &topic.value).eq(&step.publishes) {
            return Some(format!("`publishes` of step {number}"));
        }
        if read.network.as_ref().is_some_and(|network| network.value) != step.network {
            return Some(format!("the task of step {number}"));
        }
    }
    let posts = plan.postconditions.iter().zip(&draft.postconditions);
    let odd = posts
        .clone()
        .position(|(read, post)| read.description != post.text || !same(read.contract.as_ref(), &post.check));
    match odd {
        Some(place) => Some(format!("postcondition {}", place + 1)),
        None if plan.postconditions.len() != draft.postconditions.len() => Some("a postcondition".to_owned()),
        None => None,
    }
}

fn same(contract: Option<&Contract>, check: &str) -> bool {
    match contract.map(|contract| &contract.check) {
        Some(Check::Shell(shell)) => shell.command.trim() == check,
        Some(Check::Human) => check.is_empty(),
        Some(Check::Judge { .. }) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(title: &str, task: &str, check: &str) -> DraftStep {
        DraftStep { title: title.into(), task: task.into(), check: check.into(), ..DraftStep::default() }
    }

    fn draft(steps: Vec<DraftStep>) -> PlanDraft {
        PlanDraft { objective: "Fix it".into(), steps, ..PlanDraft::default() }
    }

    #[test]
    fn a_plan_is_written_as_a_person_would() {
        let mut draft = draft(vec![
            step("Write the test", "", "test -f tests/a.rs"),
            step("Look at it", "Read `src/*.rs`:\n\n- all of it", ""),
            step("Build", "Build it.", "make"),
        ]);
        draft.touches = vec!["src/**".into()];
        draft.postconditions = vec![
            DraftPostcondition { text: "All green".into(), check: "make check".into() },
            DraftPostcondition { text: "It reads well".into(), check: String::new() },
        ];
        expect_test::expect![[r#"
            ---
            type: plan
            status: draft
            owner: session
            require_red: true
            touches: ["src/**"]
            ---

            # Fix it

            ## Steps

            ### 1. Write the test

            **target:** session
            **task:**
            Write the test

            **contract:**
            ```shell
            test -f tests/a.rs
            ```
            **on_fail:** retry(4), then escalate

            ### 2. Look at it

            **target:** session
            **task:**
            Read `src/*.rs`:

            - all of it

            **contract:** human
            **on_fail:** retry(4), then escalate

            ### 3. Build

            **target:** session
            **needs:** 1
            **task:**
            Build it.

            **contract:**
            ```shell
            make
            ```
            **on_fail:** retry(4), then escalate

            ### 4. It reads well

            **target:** session
            **needs:** 1, 3
            **task:**
            Make sure that this is so, and say where it can be seen: It reads well

            **contract:** human
            **on_fail:** retry(4), then escalate

            ## Postconditions

            1. All green
               ```shell
               make check
               ```
        "#]]
        .assert_eq(&text(&draft).expect("a plan"));
    }

    #[test]
    fn words_that_would_be_read_as_something_else_stay_words() {
        for (title, task) in [
            ("Rename foo_bar to *baz*", "Do it."),
            ("<b>Bold</b> [link](x) & more", "Do it."),
            ("One", "## Steps\n\n### 2. Another\n\n**contract:** human"),
            ("One", "**contract:**\n```shell\ntrue\n```"),
            ("One", "```shell\ntrue"),
            ("One", "<!-- hidden"),
            ("One", "---\n# Title"),
            ("✅ Done (depends on Task 3)", "Do it."),
        ] {
            let draft = draft(vec![step(title, task, "make check")]);
            match text(&draft) {
                Ok(text) => {
                    let plan = parse::plan(&text).plan;
                    assert_eq!(plan.steps.len(), 1, "{text}");
                    assert_eq!(plan.steps[0].title, title, "{text}");
                    assert!(same(plan.steps[0].contract.as_ref(), "make check"), "{text}");
                }
                Err(refused) => assert!(matches!(refused, Unwritable::NotAsSaid { .. }), "{refused}"),
            }
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let refused = |draft: PlanDraft| text(&draft).expect_err("refused").to_string();
        assert_eq!(refused(PlanDraft::default()), "`objective` is empty: say what the plan should achieve");
        assert_eq!(refused(draft(Vec::new())), "a plan needs at least one step");
        assert_eq!(refused(draft(vec![step(" ", "", "")])), "the title of step 1 is empty");
        let ahead = DraftStep { needs: vec![2], ..step("One", "", "make") };
        assert_eq!(
            refused(draft(vec![step("Zero", "", "make"), ahead])),
            "step 2 needs step 2, but a step can only need earlier steps: 1 to 1"
        );
    }

    #[test]
    fn a_slug_fits_a_file() {
        assert_eq!(slug("Fix the  Login (again)!"), "fix-the-login-again");
        assert_eq!(slug("日本"), "session");
        assert!(slug(&"long ".repeat(40)).len() <= SLUG_MAX);
    }
}
