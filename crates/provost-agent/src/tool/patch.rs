//! Reads patches in the form `*** Begin Patch`, and applies their hunks to texts.
//!
//! A hunk has no line numbers: its place is found by the lines that stay or go. If they differ from the
//! file in white space only, the file's own lines stay.

use std::fmt;

/// One section of a patch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FilePatch {
    pub path: String,
    pub change: FileChange,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    Add(String),
    Delete,
    Update { to: Option<String>, hunks: Vec<Hunk> },
}

impl fmt::Display for FilePatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.change {
            FileChange::Add(_) => write!(out, "added {}", self.path),
            FileChange::Delete => write!(out, "deleted {}", self.path),
            FileChange::Update { to: None, .. } => write!(out, "changed {}", self.path),
            FileChange::Update { to: Some(to), .. } => write!(out, "moved {} to {to}", self.path),
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines before the hunk, in order, each from one `@@`.
    headers: Vec<String>,
    lines: Vec<HunkLine>,
    /// The hunk ends at the end of the file.
    is_last: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum HunkLine {
    Stays(String),
    Goes(String),
    Comes(String),
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";

/// Reads a whole patch. Text around it, such as the marks of a code block, is ignored.
pub(super) fn read(text: &str) -> Result<Vec<FilePatch>, String> {
    let mut lines = text.lines().map(|line| line.strip_suffix('\r').unwrap_or(line)).zip(1..);
    if !lines.any(|(line, _)| line.trim() == BEGIN) {
        return Err(format!("the patch has no line `{BEGIN}`"));
    }
    let mut files: Vec<FilePatch> = Vec::new();
    for (line, number) in lines {
        if line.trim() == END {
            return match files.is_empty() {
                true => Err("the patch is empty".to_owned()),
                false => files.into_iter().map(whole).collect(),
            };
        }
        let section = [("*** Add File:", 0), ("*** Delete File:", 1), ("*** Update File:", 2)]
            .into_iter()
            .find_map(|(words, kind)| Some((line.strip_prefix(words)?.trim().to_owned(), kind)));
        if let Some((path, kind)) = section {
            let change = match kind {
                0 => FileChange::Add(String::new()),
                1 => FileChange::Delete,
                _ => FileChange::Update { to: None, hunks: Vec::new() },
            };
            files.push(FilePatch { path, change });
            continue;
        }
        match files.last_mut() {
            Some(file) => file.take(line).map_err(|why| format!("line {number} of the patch: {why}"))?,
            None if line.trim().is_empty() => {}
            None => return Err(format!("line {number} of the patch: {NO_SECTION}")),
        }
    }
    Err(format!("the patch has no line `{END}`; it may have been cut"))
}

const NO_SECTION: &str =
    "`*** Add File: PATH`, `*** Update File: PATH` or `*** Delete File: PATH` is expected";

/// Returns the section, if it changes something.
fn whole(file: FilePatch) -> Result<FilePatch, String> {
    match &file.change {
        FileChange::Update { to: None, hunks } if hunks.is_empty() => {
            Err(format!("the patch changes nothing in `{}`", file.path))
        }
        _ => Ok(file),
    }
}

impl FilePatch {
    fn take(&mut self, line: &str) -> Result<(), String> {
        match &mut self.change {
            FileChange::Add(text) => match line.strip_prefix('+') {
                Some(added) => {
                    text.push_str(added);
                    text.push('\n');
                    Ok(())
                }
                None => Err("each line of an added file begins with `+`".to_owned()),
            },
            FileChange::Delete if line.trim().is_empty() => Ok(()),
            FileChange::Delete => Err(NO_SECTION.to_owned()),
            FileChange::Update { to, hunks } => match line.strip_prefix("*** Move to:") {
                Some(path) if hunks.is_empty() => {
                    *to = Some(path.trim().to_owned());
                    Ok(())
                }
                Some(_) => Err("`*** Move to` comes directly after `*** Update File`".to_owned()),
                None => take_hunk_line(hunks, line),
            },
        }
    }
}

fn take_hunk_line(hunks: &mut Vec<Hunk>, line: &str) -> Result<(), String> {
    if let Some(header) = line.strip_prefix("@@") {
        // `@@ -1,3 +1,4 @@ fn name` is a hunk of `diff -u`; its numbers are not used.
        let header = match header.trim_start().strip_prefix('-').and_then(|rest| rest.split_once("@@")) {
            Some((_, header)) => header,
            None => header,
        };
        if hunks.last().is_none_or(|hunk| !hunk.lines.is_empty()) {
            hunks.push(Hunk::default());
        }
        let header = header.trim();
        if let (Some(hunk), false) = (hunks.last_mut(), header.is_empty()) {
            hunk.headers.push(header.to_owned());
        }
        return Ok(());
    }
    if hunks.is_empty() {
        hunks.push(Hunk::default());
    }
    let Some(hunk) = hunks.last_mut() else { return Ok(()) };
    if line.trim() == "*** End of File" {
        hunk.is_last = true;
        return Ok(());
    }
    let rest = || line[1..].to_owned();
    hunk.lines.push(match line.as_bytes().first() {
        // Editors strip the space of an empty line.
        None => HunkLine::Stays(String::new()),
        Some(b' ') => HunkLine::Stays(rest()),
        Some(b'-') => HunkLine::Goes(rest()),
        Some(b'+') => HunkLine::Comes(rest()),
        Some(_) => {
            return Err("a line of a hunk begins with a space, `-` or `+`, and a hunk with `@@`".to_owned());
        }
    });
    Ok(())
}

/// How exactly lines must be the same; the strictest that finds something counts.
const COMPARED: [fn(&str) -> &str; 3] = [|line| line, str::trim_end, str::trim];

/// Returns the text with the hunks applied, each after the one before it.
pub(super) fn applied(text: &str, hunks: &[Hunk], path: &str) -> Result<String, String> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    let ends_with_newline = text.is_empty() || text.ends_with('\n');
    if ends_with_newline {
        lines.pop();
    }
    let end = if text.contains("\r\n") { "\r" } else { "" };
    let mut out: Vec<String> = Vec::new();
    let mut done = 0;
    for (hunk, number) in hunks.iter().zip(1..) {
        let at = place(&lines, done, hunk, (number, path))?;
        out.extend(lines[done..at].iter().map(|line| (*line).to_owned()));
        done = at;
        for line in &hunk.lines {
            match line {
                HunkLine::Stays(_) => out.push(lines[done].to_owned()),
                HunkLine::Goes(_) => {}
                HunkLine::Comes(line) => out.push(format!("{line}{end}")),
            }
            done += usize::from(!matches!(line, HunkLine::Comes(_)));
        }
    }
    out.extend(lines[done..].iter().map(|line| (*line).to_owned()));
    let mut text = out.join("\n");
    if ends_with_newline && !text.is_empty() {
        text.push('\n');
    }
    Ok(text)
}

/// Returns the first line of a hunk in the file, at or after `from`.
fn place(lines: &[&str], from: usize, hunk: &Hunk, (number, path): (usize, &str)) -> Result<usize, String> {
    let mut from = from;
    for header in &hunk.headers {
        let is_it = |line: &&str| line.trim().starts_with(header.as_str());
        let found = lines[from..].iter().position(is_it);
        let missing = || format!("hunk {number} does not fit `{path}`: no line begins with `{header}`");
        from += found.ok_or_else(missing)? + 1;
    }
    let old: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            HunkLine::Stays(line) | HunkLine::Goes(line) => Some(line.as_str()),
            HunkLine::Comes(_) => None,
        })
        .collect();
    if old.is_empty() {
        return Ok(if hunk.headers.is_empty() { lines.len() } else { from });
    }
    for same in COMPARED {
        let fits = |at: &usize| {
            (!hunk.is_last || at + old.len() == lines.len())
                && lines[*at..].iter().zip(&old).all(|(line, old)| same(line) == same(old))
        };
        let places: Vec<usize> =
            (from..(lines.len() + 1).saturating_sub(old.len())).filter(fits).take(2).collect();
        match places[..] {
            [] => {}
            [at] => return Ok(at),
            // A header says from where on; the first place is meant.
            [at, ..] if !hunk.headers.is_empty() => return Ok(at),
            _ => {
                return Err(format!(
                    "hunk {number} fits `{path}` in several places; give more lines that stay, or the function \
                     after @@"
                ));
            }
        }
    }
    Err(format!(
        "hunk {number} does not fit `{path}`: its lines from `{}` on are not there{}; read the file and copy \
         them exactly",
        old[0].trim(),
        if from > 0 { format!(" after line {from}") } else { String::new() }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies the hunks of one updated file.
    fn patched(text: &str, hunks: &str) -> Result<String, String> {
        let patch = format!("```\n{BEGIN}\n*** Update File: f\n{hunks}{END}\n```\n");
        let files = read(&patch)?;
        let FileChange::Update { hunks, .. } = &files[0].change else { panic!("{files:?}") };
        applied(text, hunks, "f")
    }

    #[test]
    fn hunks_are_found_by_their_lines() {
        let text = "fn a() {\n    one();\n}\n\nfn b() {\n    one();\n}\n";
        let several = patched(text, "@@\n-    one();\n+    two();\n").expect_err("two places");
        assert!(several.contains("in several places"), "{several}");
        let with_header = patched(text, "@@ fn b()\n-    one();\n+    two();\n").expect("a text");
        assert_eq!(with_header, "fn a() {\n    one();\n}\n\nfn b() {\n    two();\n}\n");
        let with_lines = patched(text, "@@ -5,2 +5,2 @@\n fn b() {\n-    one();\n+    two();\n");
        assert_eq!(with_lines.as_ref(), Ok(&with_header));
        let two = patched(text, " fn a() {\n+    zero();\n     one();\n@@\n fn b() {\n-    one();\n")
            .expect("a text");
        assert_eq!(two, "fn a() {\n    zero();\n    one();\n}\n\nfn b() {\n}\n");
        let wrong = patched(text, "@@\n fn b() {\n@@\n-fn a() {\n").expect_err("the wrong order");
        assert!(wrong.contains("hunk 2 does not fit `f`") && wrong.contains("after line 5"), "{wrong}");
        let header = patched(text, "@@ fn c()\n-    one();\n").expect_err("no such line");
        assert!(header.contains("no line begins with `fn c()`"), "{header}");
    }

    #[test]
    fn white_space_may_differ_and_the_file_keeps_its_own() {
        assert_eq!(patched("\tone  \n\ttwo\n", " one\n-two\n+3\n").as_deref(), Ok("\tone  \n3\n"));
        assert_eq!(patched("one\r\ntwo\r\n", " one\n-two\n+2\n+3\n").as_deref(), Ok("one\r\n2\r\n3\r\n"));
    }

    #[test]
    fn the_end_of_a_file_is_a_place_too() {
        assert_eq!(patched("a\n\na\n", "@@\n-a\n+b\n*** End of File\n").as_deref(), Ok("a\n\nb\n"));
        assert_eq!(patched("a\n", "@@\n+b\n").as_deref(), Ok("a\nb\n"));
        assert_eq!(patched("a", "@@\n a\n+b\n").as_deref(), Ok("a\nb"), "no newline, as before");
        assert_eq!(patched("", "@@\n+b\n").as_deref(), Ok("b\n"));
        assert_eq!(patched("a\n", "@@\n-a\n").as_deref(), Ok(""));
    }

    #[test]
    fn a_patch_that_cannot_be_read_says_where() {
        let of = |text: &str| read(text).expect_err("no patch");
        assert_eq!(of("--- a\n+++ b\n"), "the patch has no line `*** Begin Patch`");
        assert!(of(&format!("{BEGIN}\n*** Add File: a\n+x\n")).contains("may have been cut"));
        assert_eq!(of(&format!("{BEGIN}\n{END}\n")), "the patch is empty");
        let plain = of(&format!("{BEGIN}\n*** Add File: a\nx\n{END}\n"));
        assert_eq!(plain, "line 3 of the patch: each line of an added file begins with `+`");
        assert!(of(&format!("{BEGIN}\nx\n{END}\n")).contains("line 2 of the patch: `*** Add File"));
        assert!(of(&format!("{BEGIN}\n*** Update File: a\n{END}\n")).contains("changes nothing in `a`"));
        let line = of(&format!("{BEGIN}\n*** Update File: a\n@@\nx\n{END}\n"));
        assert!(line.contains("begins with a space, `-` or `+`"), "{line}");
    }
}
