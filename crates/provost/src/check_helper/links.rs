//! `provost-check links`: the links of Markdown files lead to files and headings that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::ending::Ending;

/// Check that relative links and anchors in Markdown files exist
///
/// Looks at links, images and the `href` and `src` of HTML. Links to other sites are not fetched. A link that
/// begins with `/` is looked up from the working folder.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost-check links README.md docs          a file, and all Markdown files of a folder
  provost-check links 'docs/**/*.md'          a glob, quoted")]
pub(super) struct Args {
    /// Files, folders or quoted globs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
}

pub(super) fn obey(args: &Args) -> Result<String, Ending> {
    let mut files = BTreeSet::new();
    for name in &args.files {
        let found = markdown_files(name)?;
        if found.is_empty() {
            return Err(Ending::Unmet(format!("{name}: no Markdown file is there")));
        }
        files.extend(found);
    }
    let mut pages = BTreeMap::new();
    let (mut unmet, mut count) = (Vec::new(), 0);
    for file in &files {
        let page = page_of(file, &mut pages)?;
        for (line, link) in page.links {
            count += 1;
            if let Some(why) = objection(file, &link, &mut pages) {
                unmet.push(format!("{}:{line}: {link}: {why}", file.display()));
            }
        }
    }
    match unmet.is_empty() {
        true => Ok(format!("{count} links in {} files", files.len())),
        false => Err(Ending::unmet_all(&unmet)),
    }
}

/// Returns the file of this name, or the Markdown files of a folder or a glob.
fn markdown_files(name: &str) -> Result<Vec<PathBuf>, Ending> {
    let path = Path::new(name);
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let is_markdown = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    if path.is_dir() {
        return Ok(files_below(path).into_iter().filter(|path| is_markdown(path)).collect());
    }
    let glob = GlobBuilder::new(name.trim_start_matches("./")).literal_separator(true).build();
    let glob = glob.map_err(|error| Ending::Usage(error.to_string()))?.compile_matcher();
    let plain = |path: PathBuf| path.strip_prefix(".").map(Path::to_path_buf).unwrap_or(path);
    let all = files_below(Path::new(".")).into_iter().map(plain);
    Ok(all.filter(|path| glob.is_match(path)).collect())
}

/// Returns all files below a folder, without hidden folders and dependencies.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !name.starts_with('.') && name != "node_modules" => {
                    open.push(entry.path());
                }
                Ok(kind) if !kind.is_dir() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

/// What a Markdown file links to, and what can be linked in it.
#[derive(Clone, Debug, Default)]
struct MarkdownPage {
    links: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

fn page_of(path: &Path, pages: &mut BTreeMap<PathBuf, MarkdownPage>) -> Result<MarkdownPage, Ending> {
    if let Some(page) = pages.get(path) {
        return Ok(page.clone());
    }
    let page = MarkdownPage::read(&super::ending::read(path)?);
    pages.insert(path.to_owned(), page.clone());
    Ok(page)
}

impl MarkdownPage {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_HEADING_ATTRIBUTES;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            let line = || text[..range.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::Heading { id, .. }) => {
                    page.anchors.extend(id.map(|id| id.to_string()));
                    heading = Some(String::new());
                }
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    let times = known.entry(slug.clone()).or_default();
                    page.anchors.insert(if *times == 0 { slug } else { format!("{slug}-{times}") });
                    *times += 1;
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((line(), dest_url.to_string()));
                }
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    let links = [" href=", " src="].iter().flat_map(|name| attributes(&html, name));
                    page.links.extend(links.map(|link| (line(), link)));
                    let anchors = [" id=", " name="].iter().flat_map(|name| attributes(&html, name));
                    page.anchors.extend(anchors);
                }
                _ => {}
            }
        }
        page
    }
}

/// Returns the quoted values of an attribute.
fn attributes(html: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find(name) {
        rest = &rest[at + name.len()..];
        let Some(quote) = rest.chars().next().filter(|quote| matches!(quote, '"' | '\'')) else { continue };
        let value = &rest[1..];
        found.extend(value.find(quote).map(|end| value[..end].to_owned()));
    }
    found
}

/// Returns the anchor of a heading, as GitHub and mdBook make it.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns why a link leads nowhere.
fn objection(file: &Path, link: &str, pages: &mut BTreeMap<PathBuf, MarkdownPage>) -> Option<String> {
    if link.starts_with("//") || has_scheme(link) {
        return None;
    }
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(decoded(anchor))),
        None => (link, None),
    };
    let path = decoded(path.split('?').next().unwrap_or_default());
    let target = match (path.is_empty(), path.strip_prefix('/')) {
        (true, _) => file.to_owned(),
        (false, Some(from_root)) => PathBuf::from(from_root),
        (false, None) => file.parent().unwrap_or(Path::new("")).join(&path),
    };
    let shown = if target.as_os_str().is_empty() { Path::new(".") } else { &target };
    if !shown.exists() {
        return Some("no such file".to_owned());
    }
    let anchor = anchor.filter(|anchor| !anchor.is_empty())?;
    if target.extension().is_none_or(|extension| extension != "md") {
        return None;
    }
    match page_of(&target, pages) {
        Ok(page) if page.anchors.contains(&anchor) => None,
        Ok(_) => Some("no such heading".to_owned()),
        Err(_) => Some("the file cannot be read".to_owned()),
    }
}

fn has_scheme(link: &str) -> bool {
    let Some((scheme, _)) = link.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Replaces `%20` and the like.
fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_become_anchors_and_links_are_found_everywhere() {
        let page = MarkdownPage::read(
            "# What's `new` in 2.0?\n\n## Same\n## Same\n### Own {#mine}\n\n[a](b.md#c) ![i](i.png)\n\
             <a id=\"here\" href='x.md'>x</a>\n\n[r]\n\n```\n[no](no.md)\n```\n\n[r]: r.md\n",
        );
        let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["here", "mine", "own", "same", "same-1", "whats-new-in-20"]);
        let links: Vec<&str> = page.links.iter().map(|(_, link)| link.as_str()).collect();
        assert_eq!(links, ["b.md#c", "i.png", "x.md", "r.md"]);
        assert_eq!(page.links[0].0, 7);
    }

    #[test]
    fn other_sites_are_left_alone() {
        let mut pages = BTreeMap::new();
        for link in ["https://example.org/x", "mailto:a@b.c", "//example.org/x"] {
            assert_eq!(objection(Path::new("a.md"), link, &mut pages), None, "{link}");
        }
        assert!(objection(Path::new("a.md"), "no/such%20file.md", &mut pages).is_some());
    }
}
