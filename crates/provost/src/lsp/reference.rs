//! The explanations of fields, keys and expectations, from the page about the plan format.
//!
//! The page is compiled in and read here, so that an editor says what the manual says.

use std::sync::OnceLock;

const PAGE: &str = include_str!("../../../../docs/plan-format.md");

/// Returns the row of the table below this heading whose first cell has the word.
fn row(heading: &str, is_it: impl Fn(&str) -> bool) -> Option<&'static str> {
    let rows = section(heading)?.lines().filter_map(|line| line.strip_prefix("| "));
    let mut cells = rows.filter_map(|row| row.trim_end().strip_suffix('|')?.split_once(" | "));
    cells.find(|(first, _)| is_it(first)).map(|(_, meaning)| meaning.trim())
}

/// Returns the text below a heading, to the next heading of its level or above.
fn section(heading: &str) -> Option<&'static str> {
    let level = heading.bytes().take_while(|byte| *byte == b'#').count();
    let start = PAGE.find(&format!("\n{heading}\n"))? + heading.len() + 2;
    let rest = &PAGE[start..];
    let mut at = 0;
    let mut is_fenced = false;
    for line in rest.split_inclusive('\n') {
        is_fenced ^= line.starts_with("```");
        let signs = line.bytes().take_while(|byte| *byte == b'#').count();
        if !is_fenced && (1..=level).contains(&signs) && line[signs..].starts_with(' ') {
            break;
        }
        at += line.len();
    }
    Some(&rest[..at])
}

/// Explains a field of a step.
pub(super) fn field(name: &str) -> Option<String> {
    let name = name.to_lowercase().replace([' ', '-'], "_");
    row("## Fields", |first| first == format!("`{name}`")).map(explained)
}

/// Fields that are read before the steps.
pub(super) const PREAMBLE: [&str; 3] = ["Context", "Budget", "Priority"];

/// Explains a field before the steps: these have a section and no table.
pub(super) fn preamble(name: &str) -> Option<String> {
    PREAMBLE.iter().find(|known| known.eq_ignore_ascii_case(name))?;
    Some(without_links(section("## Title and preamble")?.trim()))
}

/// Explains a key of the frontmatter.
pub(super) fn key(name: &str) -> Option<String> {
    row("## Frontmatter", |first| first == format!("`{name}`")).map(explained)
}

/// Explains the expectation on a line.
pub(super) fn expectation(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let needle = match (words.next()?, words.next()) {
        (first, _) if first.starts_with("exit_code") => "`exit_code",
        ("stdout" | "stderr", Some(word @ ("contains" | "matches" | "is"))) => word,
        ("tests", Some("fixed:")) => "`tests fixed",
        ("tests", Some("passed")) => "`tests passed",
        ("no", Some("new")) => "`no new failures",
        ("no", Some("test")) => "`no test removed",
        _ => return None,
    };
    let meaning = row("## Checks", |first| first.contains(needle))?;
    Some(format!("Holds when {}. All lines after a check must hold.", without_links(meaning)))
}

/// The forms of expectations, as the page writes them.
pub(super) fn expectations() -> &'static [String] {
    static FORMS: OnceLock<Vec<String>> = OnceLock::new();
    FORMS.get_or_init(|| {
        let rows =
            section("## Checks").into_iter().flat_map(str::lines).filter(|line| line.starts_with("| `"));
        let cells = rows.filter_map(|row| row.strip_prefix("| ")?.split_once(" | ")).map(|(first, _)| first);
        let forms = cells.flat_map(|first| first.split('`').skip(1).step_by(2));
        let both = |form: &str| match form.strip_prefix("stdout") {
            Some(rest) => vec![form.to_owned(), format!("stderr{rest}")],
            None => {
                // No test at all would be no expectation.
                let number = if form.starts_with("tests") { "1" } else { "0" };
                let word = |word| if word == "N" { number } else { word };
                let form = form.replace("NAME, NAME", "…");
                vec![form.split(' ').map(word).collect::<Vec<_>>().join(" ")]
            }
        };
        forms.flat_map(both).collect()
    })
}

/// Returns the meaning of a row, with the section on the same page that it refers to.
fn explained(meaning: &'static str) -> String {
    let mut text = without_links(meaning);
    let anchor =
        meaning.split_once("](#").and_then(|(_, rest)| rest.split_once(')')).map(|(anchor, _)| anchor);
    let is_it = |line: &&str| {
        let title = line.trim_start_matches('#').trim();
        line.starts_with('#') && Some(title.to_lowercase().replace(' ', "-").as_str()) == anchor
    };
    if let Some(heading) = PAGE.lines().find(is_it)
        && let Some(first) = section(heading).and_then(|section| section.trim().split("\n\n").next())
    {
        text.push_str(&format!("\n\n{}", without_links(first)));
    }
    text
}

/// Replaces links by their texts: they lead to pages that the editor does not have.
fn without_links(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("](") {
        let (before, after) = rest.split_at(at);
        let (Some(open), Some(close)) = (before.rfind('['), after.find(')')) else {
            out.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        };
        out.push_str(&before[..open]);
        out.push_str(&before[open + 1..]);
        rest = &after[close + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use provost_core::language::parse;
    use provost_core::model::plan::FRONTMATTER_KEYS;

    use super::*;

    #[test]
    fn every_field_key_and_expectation_is_explained() {
        for (name, _) in parse::fields() {
            let text = field(name).unwrap_or_else(|| panic!("docs/plan-format.md has no row `{name}`"));
            assert!(!text.contains("](") && text.len() > 10, "{name}: {text}");
        }
        for name in FRONTMATTER_KEYS {
            assert!(key(name).is_some(), "{name}");
        }
        let shown = expectations().join("; ");
        let forms = "exit_code == 0; exit_code != 0; stdout contains \"…\"; stderr contains \"…\"; \
                     stdout matches /…/; stderr matches /…/; stdout is empty; stderr is empty; tests fixed: …; \
                     no new failures; tests passed >= 1; no test removed or skipped";
        assert_eq!(shown, forms);
        for form in expectations() {
            assert!(expectation(form).is_some(), "{form}");
        }
        assert_eq!(expectation("make check"), None);
        assert_eq!(field("contarct"), None);
        assert!(preamble("budget").unwrap().contains("**Budget:**"));
    }

    #[test]
    fn a_row_brings_the_section_it_refers_to() {
        let text = field("hidden").unwrap();
        assert!(text.starts_with("`yes` or `no`") && text.contains("With `**hidden:** yes`"), "{text}");
        assert_eq!(field("On-Fail"), field("on_fail"));
    }
}
