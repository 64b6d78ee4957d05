//! The documents can be trusted: pages are linked, tables and links are whole, snippets are accepted by the
//! program they describe, and the words are plain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::env::Env;
use crate::plain_words;

mod prompts;
mod site;

/// Tests write the tables of these pages from scripts; only the openings are written by hand.
const GENERATED: [&str; 3] = ["docs/cheats.md", "docs/honest.md", "docs/events.md"];

pub(crate) struct Page {
    name: String,
    pub(crate) text: String,
}

struct Snippet {
    /// The words after the fence, such as `toml`, `markdown plan` or `markdown bad P022`.
    kind: String,
    text: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn page(name: &str) -> Page {
    let text = std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    Page { name: name.to_owned(), text }
}

/// All pages of a folder, sorted.
fn pages_below(folder: &str) -> Vec<Page> {
    let mut names: Vec<String> = std::fs::read_dir(root().join(folder))
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".md"))
        .collect();
    names.sort();
    names.iter().map(|name| page(&format!("{folder}/{name}"))).collect()
}

fn manual() -> Vec<Page> {
    let mut pages = vec![page("README.md"), page("CONTRIBUTING.md")];
    pages.extend(pages_below("docs"));
    pages
}

/// The Markdown beside the code: prompts, templates, pages of diagnostics.
fn pages_beside_the_code() -> Vec<Page> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()) {
            let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !name.ends_with("/tests") && !name.ends_with("/test_data") {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(page(&name));
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(found.len() > 80, "{}", found.len());
    found
}

/// The pages of diagnostics: `P022.md`.
fn diagnostics() -> Vec<Page> {
    let is_code = |page: &Page| {
        let name = page.name.rsplit('/').next().unwrap_or_default().trim_end_matches(".md");
        name.len() == 4 && name.starts_with('P') && name[1..].chars().all(|c| c.is_ascii_digit())
    };
    pages_beside_the_code().into_iter().filter(is_code).collect()
}

pub(crate) fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut heading: Option<String> = None;
    for event in parser(text) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(words) | Event::Code(words), Some(title)) => title.push_str(&words),
            (Event::End(TagEnd::Heading(_)), Some(title)) => {
                let name = anchor(title);
                let count = seen.entry(name.clone()).or_default();
                found.insert(if *count == 0 { name } else { format!("{name}-{count}") });
                *count += 1;
                heading = None;
            }
            _ => {}
        }
    }
    found
}

fn links(text: &str) -> Vec<String> {
    parser(text)
        .filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.to_string())
            }
            _ => None,
        })
        .filter(|link| !link.contains("://"))
        .collect()
}

fn snippets(text: &str) -> Vec<Snippet> {
    let mut found: Vec<Snippet> = Vec::new();
    let mut open = false;
    for event in parser(text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) => {
                found.push(Snippet { kind: kind.to_string(), text: String::new() });
                open = true;
            }
            Event::Text(words) if open => {
                if let Some(snippet) = found.last_mut() {
                    snippet.text.push_str(&words);
                }
            }
            Event::End(TagEnd::CodeBlock) => open = false,
            _ => {}
        }
    }
    found
}

/// Paragraphs, list items and table cells as plain text, without headings. Code is replaced by one word.
fn prose(page: &Page) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block = String::new();
    let (mut in_code, mut in_table) = (false, false);
    let by_hand = !GENERATED.contains(&page.name.as_str());
    for event in parser(&page.text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Start(Tag::Table(_)) => in_table = true,
            Event::End(TagEnd::Table) => in_table = false,
            Event::Text(words) if !in_code && (by_hand || !in_table) => block.push_str(&words),
            Event::Code(_) => block.push_str("code"),
            Event::SoftBreak | Event::HardBreak => block.push(' '),
            Event::End(TagEnd::Heading(_)) => block.clear(),
            Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell) | Event::Start(Tag::List(_)) => {
                blocks.push(std::mem::take(&mut block));
            }
            _ => {}
        }
    }
    blocks
}

#[track_caller]
fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} in the documents:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_page_is_linked_from_the_readme() {
    let linked: BTreeSet<String> = links(&page("README.md").text)
        .into_iter()
        .map(|link| link.split('#').next().unwrap_or_default().to_owned())
        .collect();
    let unlinked: Vec<String> =
        pages_below("docs").into_iter().map(|page| page.name).filter(|name| !linked.contains(name)).collect();
    assert_none(&unlinked);
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_of_it() {
    let mut wrong = Vec::new();
    let others = ["ARCHITECTURE.md", "CHANGELOG.md", "redteam/README.md"].map(page);
    for page in manual().iter().chain(&others).chain(&diagnostics()) {
        let folder = Path::new(&page.name).parent().unwrap_or(Path::new(""));
        for link in links(&page.text) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let path = if file.is_empty() { root().join(&page.name) } else { root().join(folder).join(file) };
            if !path.exists() {
                wrong.push(format!("{}: {link}: no such file", page.name));
            } else if !heading.is_empty() {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                if !anchors(&text).contains(heading) {
                    wrong.push(format!("{}: {link}: no such heading", page.name));
                }
            }
        }
    }
    assert_none(&wrong);
}

/// The cells of a row: bars that are not escaped separate them.
fn cells(row: &str) -> usize {
    let row = row.trim().replace("\\|", "");
    row.trim_matches('|').split('|').count()
}

#[test]
fn every_table_has_rows_of_one_length() {
    let mut wrong = Vec::new();
    let others = ["ARCHITECTURE.md", "CHANGELOG.md", "redteam/README.md"].map(page);
    for page in manual().iter().chain(&others).chain(&diagnostics()) {
        let mut in_table = false;
        for (event, range) in parser(&page.text).into_offset_iter() {
            match event {
                Event::Start(Tag::Table(columns)) => {
                    in_table = true;
                    for row in page.text[range].lines().filter(|row| cells(row) != columns.len()) {
                        wrong.push(format!("{}: a row of {} cells: {row}", page.name, cells(row)));
                    }
                }
                Event::End(TagEnd::Table) => in_table = false,
                Event::Start(Tag::Paragraph) if !in_table => {
                    let rows = page.text[range].lines().filter(|line| line.trim().starts_with('|'));
                    wrong.extend(rows.map(|row| format!("{}: a row outside of a table: {row}", page.name)));
                }
                _ => {}
            }
        }
    }
    assert_none(&wrong);
}

/// Twelve words in a row that a paragraph repeats were pasted twice.
fn doubled(block: &str) -> Option<String> {
    let words: Vec<&str> = block.split_whitespace().collect();
    let mut seen = BTreeSet::new();
    let is_text = |window: &&[&str]| window.iter().filter(|word| !word.starts_with("code")).count() > 8;
    words
        .windows(12)
        .filter(is_text)
        .find(|window| !seen.insert(window.to_vec()))
        .map(|window| window.join(" "))
}

#[test]
fn no_paragraph_says_the_same_twice() {
    let mut wrong = Vec::new();
    for page in manual().iter().chain(&diagnostics()) {
        let twice = prose(page).into_iter().filter_map(|block| doubled(&block));
        wrong.extend(twice.map(|words| format!("{}: {words}", page.name)));
    }
    assert_none(&wrong);
}

#[test]
fn the_words_of_every_page_are_plain() {
    let mut wrong = Vec::new();
    let others = [page("redteam/README.md")];
    for page in manual().iter().chain(&pages_beside_the_code()).chain(&others) {
        let all = prose(page).into_iter().flat_map(|block| plain_words::complaints(&block));
        wrong.extend(all.map(|words| format!("{}: {words}", page.name)));
    }
    assert_none(&wrong);
}

#[test]
fn every_configuration_and_every_data_snippet_is_read_by_its_reader() {
    let mut wrong = Vec::new();
    let mut read = 0;
    for page in manual() {
        for snippet in snippets(&page.text) {
            let error = match snippet.kind.as_str() {
                "toml" => provost_host::config::parse(Path::new("provost.toml"), &snippet.text)
                    .err()
                    .map(|error| error.to_string()),
                // A script of the scripted agent, which reads it only while it works.
                "toml script" => snippet.text.parse::<toml::Table>().err().map(|error| error.to_string()),
                "json" => snippet
                    .text
                    .lines()
                    .find_map(|line| serde_json::from_str::<serde_json::Value>(line).err())
                    .map(|error| error.to_string()),
                _ => continue,
            };
            read += 1;
            wrong.extend(error.map(|error| format!("{}: {error}\n{}", page.name, snippet.text)));
        }
    }
    assert!(read > 40, "{read}");
    assert_none(&wrong);
}

#[test]
fn every_plan_snippet_is_read_without_an_error() {
    let mut wrong = Vec::new();
    for page in manual() {
        for snippet in snippets(&page.text) {
            let text = match snippet.kind.as_str() {
                "markdown plan" => snippet.text,
                // Steps of a plan, without its beginning.
                "markdown steps" => {
                    format!("---\nstatus: draft\n---\n# A plan\n\n## Steps\n\n{}", snippet.text)
                }
                // The fields of a step that the cookbook shows.
                "markdown recipe" => crate::cookbook::plan("A recipe", &snippet.text),
                // One field of a step.
                "markdown field" => continue,
                kind if kind.starts_with("markdown bad ") => continue,
                kind if kind.starts_with("markdown") => {
                    wrong
                        .push(format!("{}: say what `{kind}` is: plan, steps, field or bad CODE", page.name));
                    continue;
                }
                _ => continue,
            };
            let errors = provost_core::language::parse::plan(&text).diagnostics;
            let errors = errors.iter().filter(|diagnostic| diagnostic.is_error());
            wrong.extend(errors.map(|error| format!("{}: {error:?}\n{text}", page.name)));
        }
    }
    assert_none(&wrong);
}

/// The commands of the program with their flags, asked of the program itself.
#[derive(Default)]
struct Help {
    known: BTreeMap<Vec<String>, Option<Manual>>,
}

#[derive(Clone, Default)]
struct Manual {
    flags: BTreeSet<String>,
    commands: BTreeSet<String>,
}

impl Help {
    fn of(&mut self, env: &Env, path: &[String]) -> Option<Manual> {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
        arguments.push("--help");
        let answer = env.provost(&arguments);
        let manual = (answer.code == 0).then(|| Manual::read(&answer.out));
        self.known.insert(path.to_vec(), manual.clone());
        manual
    }

    /// What is wrong with a command line that begins with `provost`.
    fn fault(&mut self, env: &Env, line: &str) -> Option<String> {
        let mut path = Vec::new();
        let mut manual = self.of(env, &path)?;
        for word in line.split_whitespace().skip(1) {
            let word = word.trim_matches(['"', '\'', ')', ',', '(', '[', ']']);
            if word == "--" || word.starts_with(['#', '|', '>', '&', ';']) {
                break;
            }
            if word.starts_with('-') && word.len() > 1 {
                for flag in word.split('|').filter(|flag| flag.starts_with('-')) {
                    let name = flag.split(['=', '[']).next().unwrap_or(flag);
                    if !manual.flags.contains(name) {
                        return Some(format!("`provost {}` has no {name}", path.join(" ")));
                    }
                }
            } else if manual.commands.contains(word) {
                path.push(word.to_owned());
                manual = self.of(env, &path)?;
            } else if path.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
                // The help of the program lists its commands in groups, and hides those that this build lacks.
                path.push(word.to_owned());
                let Some(found) = self.of(env, &path) else {
                    return Some(format!("there is no `provost {word}`"));
                };
                manual = found;
            }
        }
        None
    }
}

impl Manual {
    fn read(help: &str) -> Self {
        let mut manual = Self::default();
        let mut in_commands = false;
        for line in help.lines() {
            if !line.starts_with(' ') && !line.is_empty() {
                in_commands = line == "Commands:";
            }
            let text = line.trim_start();
            let indent = line.len() - text.len();
            if in_commands && indent == 2 {
                manual.commands.extend(text.split_whitespace().next().map(str::to_owned));
            }
            if text.starts_with('-') && indent <= 6 {
                let words = text.split([' ', ',', '=', '[']);
                manual.flags.extend(words.filter(|word| word.starts_with('-')).map(str::to_owned));
            }
        }
        manual
    }
}

/// The command lines of a page: after `$` in a console, each line of a shell, and code that is one command.
fn commands(page: &Page) -> Vec<String> {
    let mut lines = Vec::new();
    for snippet in snippets(&page.text) {
        match snippet.kind.as_str() {
            "console" => lines
                .extend(snippet.text.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned)),
            "shell" | "sh" => lines.extend(snippet.text.lines().map(str::to_owned)),
            _ => {}
        }
    }
    lines.extend(parser(&page.text).filter_map(|event| match event {
        Event::Code(words) => Some(words.to_string()),
        _ => None,
    }));
    lines
        .iter()
        .flat_map(|line| line.split(['|', ';', '(']).flat_map(|part| part.split("&&")))
        .map(|part| part.trim().to_owned())
        .filter(|part| part.starts_with("provost "))
        .collect()
}

#[test]
fn every_command_of_every_page_is_one_that_the_program_has() {
    let env = Env::new(&crate::env::plan(&["true"], "abort"));
    let mut help = Help::default();
    let mut wrong = Vec::new();
    let mut read = 0;
    for page in manual().iter().chain(&diagnostics()) {
        for line in commands(page) {
            read += 1;
            let fault = help.fault(&env, &line);
            wrong.extend(fault.map(|fault| format!("{}: {fault}: {line}", page.name)));
        }
    }
    assert!(read > 100, "{read}");
    assert_none(&wrong);
    for (line, fault) in [
        ("provost lost", "there is no `provost lost`"),
        ("provost log --lost", "`provost log` has no --lost"),
        ("provost cluster status --lost", "`provost cluster status` has no --lost"),
    ] {
        assert_eq!(help.fault(&env, line).as_deref(), Some(fault));
    }
}
