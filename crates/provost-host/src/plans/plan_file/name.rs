//! Rules for names of plans, and the file names that sync tools use for conflict copies.
//!
//! **Invariant:** a slug is a single path component, and not the name of a conflict copy.

/// The file of the plan without a name.
pub(crate) const UNNAMED: &str = "PLAN.md";
/// The text that Syncthing inserts between a name and its extension.
const SYNCTHING: &str = ".sync-conflict-";

/// Returns the file name for `fix-auth`, `PLAN-fix-auth.md` or `PLAN.md`; `None` for anything else.
pub(crate) fn as_file_name(name: &str) -> Option<String> {
    if name == UNNAMED {
        return Some(UNNAMED.to_owned());
    }
    if let Some(slug) = named_slug(name) {
        return Some(format!("PLAN-{slug}.md"));
    }
    (is_slug(name) && !name.ends_with(".md")).then(|| format!("PLAN-{name}.md"))
}

pub(crate) fn named_slug(file_name: &str) -> Option<&str> {
    file_name.strip_prefix("PLAN-")?.strip_suffix(".md").filter(|slug| is_slug(slug))
}

pub fn is_slug(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte))
        && !name.contains(SYNCTHING)
}

/// Returns a slug for any file that was given by its path.
pub(crate) fn slug_of(file_name: &str) -> String {
    let stem = file_name.strip_suffix(".md").unwrap_or(file_name);
    let stem = stem.strip_prefix("PLAN-").unwrap_or(stem).to_ascii_lowercase();
    let fits = |each: char| each.is_ascii_lowercase() || each.is_ascii_digit() || "._-".contains(each);
    let slug: String = stem.chars().map(|each| if fits(each) { each } else { '-' }).take(100).collect();
    let slug = slug.trim_matches(['-', '.', '_']);
    if slug.is_empty() { "plan".to_owned() } else { slug.to_owned() }
}

/// Returns the name of the progress file that belongs to a plan's file.
pub(crate) fn progress_of(file_name: &str) -> String {
    match file_name {
        UNNAMED => "progress.md".to_owned(),
        other => format!("progress-{}.md", slug_of(other)),
    }
}

/// Returns the original of a conflict copy, and the tool that uses such names. `is_there` is called only if
/// the name alone is ambiguous.
pub(crate) fn conflict_copy(
    file_name: &str,
    host: &str,
    is_there: impl Fn(&str) -> bool,
) -> Option<(String, &'static str)> {
    let of_ours = |stem: &str, ending: &str, by| {
        let original = format!("{stem}{ending}");
        is_ours(&original).then_some((original, by))
    };
    if let Some((original, digest)) = file_name.rsplit_once(".conflict-") {
        let is_digest = digest == "unread" || digest.len() == 8 && is_hex(digest);
        return is_digest.then(|| of_ours(original, "", "provost"))?;
    }
    let (stem, ending) = match file_name.rfind('.') {
        Some(at) if at > 0 => file_name.split_at(at),
        _ => (file_name, ""),
    };
    if let Some((stem, _)) = stem.split_once(SYNCTHING) {
        return of_ours(stem, ending, "Syncthing");
    }
    if let Some((stem, words)) = bracketed(stem, '(', ')').or_else(|| bracketed(stem, '[', ']')) {
        let said = words.to_lowercase();
        return if is_number(&said) {
            of_ours(stem, ending, "Google Drive")
        } else if said.contains("conflict") {
            of_ours(
                stem,
                ending,
                if said.contains("copy") { "Dropbox or Google Drive" } else { "Google Drive" },
            )
        } else {
            None
        };
    }
    if let Some((stem, number)) = stem.rsplit_once(' ')
        && is_number(number)
    {
        return of_ours(stem, ending, "iCloud Drive");
    }
    machine_copy(stem, ending, host, is_there)
}

/// Recognises copies of OneDrive, which adds the computer's name. A plan's name could end in the same way,
/// so the original must exist, and the suffix must look like a computer's name or be this one's.
fn machine_copy(
    stem: &str,
    ending: &str,
    host: &str,
    is_there: impl Fn(&str) -> bool,
) -> Option<(String, &'static str)> {
    let cuts: Vec<usize> = stem.match_indices('-').map(|(at, _)| at).collect();
    cuts.into_iter().rev().find_map(|at| {
        let (original, machine) = (format!("{}{ending}", &stem[..at]), &stem[at + 1..]);
        let is_name = machine.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let looks_so = machine.starts_with(|first: char| first.is_ascii_uppercase())
            || (!host.is_empty() && machine.eq_ignore_ascii_case(host));
        (is_name && looks_so && is_ours(&original) && is_there(&original)).then_some((original, "OneDrive"))
    })
}

/// Returns whether provost writes a file of this name in a folder of plans.
fn is_ours(file_name: &str) -> bool {
    let of_plan = |rest: &str| rest.strip_suffix(".md").is_some_and(is_slug);
    let of_lease = |rest: &str| rest.strip_suffix(".json").is_some_and(is_slug);
    matches!(file_name, UNNAMED | "progress.md" | "active-plan" | "lease.json")
        || file_name.strip_prefix("PLAN-").is_some_and(of_plan)
        || file_name.strip_prefix("progress-").is_some_and(of_plan)
        || file_name.strip_prefix("lease-").is_some_and(of_lease)
}

/// Splits `stem (words)` into `stem` and `words`.
fn bracketed(stem: &str, open: char, close: char) -> Option<(&str, &str)> {
    let (stem, words) = stem.strip_suffix(close)?.rsplit_once(open)?;
    Some((stem.trim_end(), words))
}

fn is_number(text: &str) -> bool {
    (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copies_that_sync_tools_make_are_known_by_their_names() {
        let is_there = |name: &str| ["PLAN.md", "PLAN-foo.md", "PLAN-foo-bar.md"].contains(&name);
        for (name, of, by) in [
            ("PLAN-foo (conflicted copy 2026-11-15).md", "PLAN-foo.md", "Dropbox or Google Drive"),
            ("PLAN-foo (Ada's conflicted copy 2026-11-15).md", "PLAN-foo.md", "Dropbox or Google Drive"),
            ("progress-foo (1).md", "progress-foo.md", "Google Drive"),
            ("PLAN (1).md", "PLAN.md", "Google Drive"),
            ("PLAN-foo [Conflict].md", "PLAN-foo.md", "Google Drive"),
            ("PLAN-foo-DESKTOP-4QX1.md", "PLAN-foo.md", "OneDrive"),
            ("PLAN-foo-bar-Adas-MacBook.md", "PLAN-foo-bar.md", "OneDrive"),
            ("PLAN-foo-laptop.md", "PLAN-foo.md", "OneDrive"),
            ("PLAN-foo.sync-conflict-20261115-120000-ABCDEF7.md", "PLAN-foo.md", "Syncthing"),
            ("PLAN.sync-conflict-20261115-120000-2345672.md", "PLAN.md", "Syncthing"),
            ("PLAN-foo 2.md", "PLAN-foo.md", "iCloud Drive"),
            ("active-plan 2", "active-plan", "iCloud Drive"),
            ("lease-foo (1).json", "lease-foo.json", "Google Drive"),
            ("PLAN-foo.md.conflict-0a1b2c3d", "PLAN-foo.md", "provost"),
        ] {
            assert_eq!(conflict_copy(name, "laptop", is_there), Some((of.to_owned(), by)), "{name}");
            assert_eq!(as_file_name(name).filter(|_| name != "PLAN-foo-laptop.md"), None, "{name}");
        }
        for name in [
            "PLAN.md",
            "PLAN-foo.md",
            "PLAN-foo-bar.md",
            "PLAN-foo-desktop.md",
            "PLAN-baz-DESKTOP.md",
            "PLAN-2.md",
            "notes (1).md",
            "PLAN-foo (draft).md",
            "PLAN-foo 2026.md",
            "PLAN-foo.md.conflict-of-interest",
            "progress-foo.md",
            "README 2.md",
        ] {
            assert_eq!(conflict_copy(name, "laptop", is_there), None, "{name}");
        }
    }

    #[test]
    fn a_slug_is_one_safe_component() {
        for good in ["a", "fix-auth", "0", "a.b_c-9", "a..b"] {
            assert!(is_slug(good), "{good}");
        }
        let long = "a".repeat(101);
        for bad in ["", ".", "..", "-a", "_a", "A", "a/b", "a b", "a\0", "a\n", "ä", &long] {
            assert!(!is_slug(bad), "{bad:?}");
        }
    }
}
