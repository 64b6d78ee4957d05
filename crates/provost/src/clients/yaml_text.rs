//! Adds an entry to a mapping at the top of a YAML text, and removes it again by its indentation.

use super::jsonc::Splice;
use super::{Trouble, lines};

/// Where an entry is, or would be.
struct Place {
    /// Line of the parent.
    parent: usize,
    /// Indentation of the entries of the parent.
    indent: usize,
    /// Lines of the entry, if it is there.
    entry: Option<std::ops::Range<usize>>,
    /// Whether the parent has other entries.
    has_others: bool,
}

/// Returns the insertion of `key` with these lines below the mapping `parent`, unless it is there.
pub(crate) fn entry(text: &str, parent: &str, key: &str, inner: &str) -> Result<Option<Splice>, Trouble> {
    let Some(place) = find(text, parent, key)? else {
        let added = format!("{parent}:\n{}", block(key, inner, 2));
        return Ok(lines::at_the_end(text, &added));
    };
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let wanted = block(key, inner, place.indent);
    match place.entry {
        Some(entry) if same(&all[entry.clone()].concat(), &wanted) => Ok(None),
        Some(_) => Err(Trouble::new(format!("`{parent}.{key}` is there already, and says something else"))),
        None => {
            let before = all[..=place.parent].concat();
            let gap = if before.ends_with('\n') { "" } else { "\n" };
            Ok(Some(Splice { at: before.len(), text: lines::as_in(text, &format!("{gap}{wanted}")) }))
        }
    }
}

/// Returns the lines of an entry as they are in the text, without their indentation.
pub(crate) fn lines_of(text: &str, parent: &str, key: &str) -> Option<Vec<String>> {
    let entry = find(text, parent, key).ok()??.entry?;
    Some(
        text.lines().skip(entry.start + 1).take(entry.len() - 1).map(|line| line.trim().to_owned()).collect(),
    )
}

/// Returns whether an entry is as it was written.
pub(crate) fn is_unchanged(text: &str, parent: &str, key: &str, inner: &str) -> bool {
    let now = lines_of(text, parent, key);
    now.is_none_or(|now| same(&now.join("\n"), inner))
}

/// Returns the text without an entry, and without its parent if that was added with it.
pub(crate) fn without(text: &str, parent: &str, key: &str, has_own_parent: bool) -> Option<String> {
    let Some(place) = find(text, parent, key).ok()? else { return Some(text.to_owned()) };
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(entry) = place.entry else { return Some(text.to_owned()) };
    let mut gone: std::collections::BTreeSet<usize> = entry.collect();
    match (place.has_others, has_own_parent) {
        (true, _) => {}
        (false, true) => {
            gone.insert(place.parent);
        }
        // A parent without an entry would be null.
        (false, false) => {
            let left = lines::without(&all, gone);
            return Some(left.replacen(&format!("{parent}:"), &format!("{parent}: {{}}"), 1));
        }
    }
    Some(lines::without(&all, gone))
}

fn block(key: &str, inner: &str, indent: usize) -> String {
    let (outer, deeper) = (" ".repeat(indent), " ".repeat(indent * 2));
    let lines: String = inner.lines().map(|line| format!("{deeper}{line}\n")).collect();
    format!("{outer}{key}:\n{lines}")
}

fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn find(text: &str, parent: &str, key: &str) -> Result<Option<Place>, Trouble> {
    let all: Vec<&str> = text.lines().collect();
    let is_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let head = format!("{parent}:");
    let Some(at) = all.iter().position(|line| line.starts_with(&head)) else { return Ok(None) };
    let rest = all[at][head.len()..].trim();
    if !rest.is_empty() && !rest.starts_with('#') || all.iter().any(|line| line.starts_with('\t')) {
        return Err(Trouble::new(format!("`{parent}` is not a list of lines; write it as one")));
    }
    let end = (at + 1..all.len()).find(|line| is_content(&all[*line]) && indent(all[*line]) == 0);
    let inside = at + 1..end.unwrap_or(all.len());
    let first = inside.clone().find(|line| is_content(&all[*line]));
    let depth = first.map_or(2, |line| indent(all[line]));
    let entries: Vec<usize> =
        inside.clone().filter(|line| is_content(&all[*line]) && indent(all[*line]) == depth).collect();
    let is_key = |line: &usize| all[*line].trim().trim_end_matches(':').trim_matches(['"', '\'']) == key;
    let found = entries.iter().position(is_key);
    let entry = found.map(|index| {
        let next = entries.get(index + 1).copied().unwrap_or(inside.end);
        // Comments before the next entry belong to it.
        let last =
            (entries[index]..next).rev().find(|line| is_content(&all[*line])).unwrap_or(entries[index]);
        entries[index]..last + 1
    });
    let has_others = entries.len() > usize::from(entry.is_some());
    Ok(Some(Place { parent: at, indent: depth, entry, has_others }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: &str = "enabled: true\ncmd: \"/p\"\nargs: [mcp]\n";

    /// A text with the entry and without it again.
    fn check(text: &str) -> String {
        let splice = entry(text, "extensions", "provost", INNER).expect(text).expect(text);
        let after = splice.apply(text);
        assert_eq!(entry(&after, "extensions", "provost", INNER), Ok(None), "{after}");
        assert!(is_unchanged(&after, "extensions", "provost", INNER));
        let read: serde_json::Value = serde_saphyr::from_str(&after).expect(&after);
        assert_eq!(read["extensions"]["provost"]["cmd"], "/p", "{after}");
        let is_new = !text.contains("extensions:");
        assert_eq!(without(&after, "extensions", "provost", is_new).as_deref(), Some(text), "{after}");
        after
    }

    #[test]
    fn an_entry_is_added_and_removed() {
        check("");
        check("GOOSE_MODEL: one # mine\n");
        check("extensions:\n    developer:\n        enabled: true\n\n# the end\nGOOSE_MODEL: one\n");
        let ends = check("a: 1\r\nextensions:\r\n  memory: # x\r\n    enabled: true\r\n");
        assert_eq!(ends.matches('\n').count(), ends.matches("\r\n").count());
        assert!(entry("extensions: {}\n", "extensions", "provost", INNER).is_err());
        assert!(entry("extensions:\n  provost:\n    cmd: x\n", "extensions", "provost", INNER).is_err());
    }

    #[test]
    fn what_the_client_rewrote_is_removed_too() {
        let text = "extensions:\n  a:\n    enabled: true\n  provost:\n    cmd: /p\n    # more\n    args:\n    - mcp\n  b:\n    x: 1\nGOOSE_MODEL: one\n";
        let left = without(text, "extensions", "provost", true).expect("text");
        assert_eq!(left, "extensions:\n  a:\n    enabled: true\n  b:\n    x: 1\nGOOSE_MODEL: one\n");
        assert!(!is_unchanged(text, "extensions", "provost", INNER));
        let alone = "extensions:\n  provost:\n    cmd: /p\n";
        assert_eq!(without(alone, "extensions", "provost", false).as_deref(), Some("extensions: {}\n"));
        assert_eq!(without(alone, "extensions", "provost", true).as_deref(), Some(""));
    }
}
