//! Holds the shape of the manual: a complete summary, short paragraphs, short pages, a short README.
//!
//! The site itself is built in `manual.rs`, where `mdbook` is installed.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Tag, TagEnd};

use super::{Page, assert_none, links, manual, page, pages_below, parser};

const PARAGRAPH_WORDS: usize = 90;
const PAGE_WORDS: usize = 1500;
const README_LINES: usize = 150;

/// Pages that are looked up and not read: they may be longer.
const REFERENCE: [&str; 2] = ["docs/plan-format.md", "docs/configuration.md"];

/// Paragraphs and headings, without code blocks and tables.
fn paragraphs(page: &Page) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = String::new();
    let mut skipped = 0;
    for event in parser(&page.text) {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::Table(_)) => skipped += 1,
            Event::End(TagEnd::CodeBlock | TagEnd::Table) => skipped -= 1,
            Event::Text(text) | Event::Code(text) if skipped == 0 => words.push_str(&text),
            Event::SoftBreak | Event::HardBreak => words.push(' '),
            Event::Start(Tag::List(_))
            | Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::Heading(_)) => {
                found.push(std::mem::take(&mut words));
            }
            _ => {}
        }
    }
    found
}

fn count(text: &str) -> usize {
    text.split_whitespace().count()
}

#[test]
fn the_summary_names_every_page_once() {
    let named = links(&page("docs/SUMMARY.md").text);
    let unique: BTreeSet<String> = named.iter().map(|link| format!("docs/{link}")).collect();
    assert_eq!(unique.len(), named.len(), "a page is named twice: {named:?}");
    let pages: BTreeSet<String> = pages_below("docs").into_iter().map(|page| page.name).collect();
    let pages: BTreeSet<String> = pages.into_iter().filter(|name| name != "docs/SUMMARY.md").collect();
    let wrong = pages.symmetric_difference(&unique).map(|name| format!("{name}: in one of both only"));
    assert_none(&wrong.collect::<Vec<_>>());
}

#[test]
fn no_page_of_the_site_links_to_a_file_outside_of_it() {
    let mut wrong = Vec::new();
    for page in pages_below("docs") {
        let outside = links(&page.text).into_iter().filter(|link| link.starts_with("../"));
        wrong.extend(outside.map(|link| format!("{}: {link}", page.name)));
    }
    assert_none(&wrong);
}

#[test]
fn no_paragraph_is_too_long() {
    let mut wrong = Vec::new();
    for page in manual() {
        let long = paragraphs(&page).into_iter().filter(|words| count(words) > PARAGRAPH_WORDS);
        wrong.extend(long.map(|words| {
            let start: String = words.chars().take(60).collect();
            format!("{}: {} words: {start} …", page.name, count(&words))
        }));
    }
    assert_none(&wrong);
}

#[test]
fn no_page_is_too_long() {
    let mut wrong = Vec::new();
    for page in manual() {
        let words: usize = paragraphs(&page).iter().map(|words| count(words)).sum();
        let may_be_long = REFERENCE.contains(&page.name.as_str());
        if words > PAGE_WORDS && !may_be_long {
            wrong.push(format!("{}: {words} words outside of code and tables", page.name));
        }
        assert!(words > PAGE_WORDS || !may_be_long, "{} is short: take it from the list", page.name);
    }
    let lines = page("README.md").text.lines().count();
    if lines >= README_LINES {
        wrong.push(format!("README.md: {lines} lines"));
    }
    assert_none(&wrong);
}

/// The text of every source file of the program.
fn sources() -> String {
    crate::tidy::sources("crates")
        .iter()
        .filter(|path| path.components().any(|part| part.as_os_str() == "src"))
        .map(crate::tidy::read)
        .collect()
}

/// The headings of the page that are messages: they are code and nothing else.
fn messages(page: &Page) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_heading = false;
    for event in parser(&page.text) {
        match event {
            Event::Start(Tag::Heading { .. }) => in_heading = true,
            Event::End(TagEnd::Heading(_)) => in_heading = false,
            Event::Code(words) if in_heading => found.push(words.to_string()),
            _ => {}
        }
    }
    found
}

#[test]
fn every_message_of_the_troubleshooting_page_is_one_of_the_program() {
    let sources = sources();
    let messages = messages(&page("docs/troubleshooting.md"));
    assert!(messages.len() > 25, "{messages:?}");
    let mut wrong = Vec::new();
    for message in &messages {
        // `…` replaces a value. A part of one or two words would be found anywhere.
        let parts = message.split('…').map(str::trim).filter(|part| part.split(' ').count() > 2);
        let unknown: Vec<&str> = parts.filter(|part| !sources.contains(part)).collect();
        wrong.extend(unknown.iter().map(|part| format!("{message}: no “{part}” in the source")));
    }
    assert_none(&wrong);
}

#[test]
fn a_long_paragraph_is_found_in_a_list_and_not_in_code_or_tables() {
    let long = "word ".repeat(91);
    let text =
        format!("# Title\n\n- {long}\n\n```text\n{long}\n```\n\n| a |\n| --- |\n| {long} |\n\n{long}\n");
    let page = Page { name: "a page".to_owned(), text };
    let counts: Vec<usize> = paragraphs(&page).iter().map(|words| count(words)).filter(|n| *n > 0).collect();
    assert_eq!(counts, [1, 91, 91]);
}
