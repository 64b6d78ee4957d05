//! `provost-check coverage`: tests ran the lines that were changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use globset::GlobBuilder;

use super::command::git;
use super::ending::{self, Ending};
use super::size::Percent;

/// Most lines of a file that are named.
const NAMED: usize = 12;

/// Check that tests cover the changed lines
///
/// Compares a coverage report with the lines that differ from the last commit (`git diff HEAD` and new
/// files), or with those of a diff. Lines that the report does not list cannot be covered, and do not count.
/// A changed file of a kind that the report has, but that the report lacks, counts as uncovered.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  provost-check coverage --lcov lcov.info --min 80
  provost-check coverage --cobertura coverage.xml --min 100 --ignore 'tests/**'
  provost-check coverage --lcov lcov.info --min 80 --changed work.diff")]
pub(super) struct Args {
    /// A report in the format of lcov
    #[arg(long, value_name = "FILE", required_unless_present = "cobertura", conflicts_with = "cobertura")]
    lcov: Option<PathBuf>,
    /// A report in the XML of Cobertura (coverage.py, gcovr, …)
    #[arg(long, value_name = "FILE")]
    cobertura: Option<PathBuf>,
    /// The smallest part of the changed lines that tests must run, in percent
    #[arg(long, value_name = "PERCENT")]
    min: Percent,
    /// A unified diff with the changed lines, instead of the difference to the last commit
    #[arg(long, value_name = "FILE")]
    changed: Option<PathBuf>,
    /// Changed files that do not count, as a quoted glob; may be repeated
    #[arg(long, value_name = "GLOB")]
    ignore: Vec<String>,
}

/// Lines by file.
type Lines = BTreeMap<String, BTreeSet<usize>>;

/// How often each line of each file ran.
type Hits = BTreeMap<String, BTreeMap<usize, u64>>;

pub(super) fn obey(args: &Args) -> Result<String, Ending> {
    let hits = match (&args.lcov, &args.cobertura) {
        (Some(path), _) => lcov(&ending::read(path)?),
        (None, Some(path)) => cobertura(&ending::read(path)?),
        (None, None) => return Err(Ending::Usage("--lcov or --cobertura is needed".to_owned())),
    };
    if hits.is_empty() {
        return Err(Ending::Unmet("the report has no file".to_owned()));
    }
    let mut changed = match &args.changed {
        Some(path) => changed_in(&ending::read(path)?),
        None => changed_here()?,
    };
    for glob in &args.ignore {
        let glob = GlobBuilder::new(glob).literal_separator(true).build();
        let glob = glob.map_err(|error| Ending::Usage(error.to_string()))?.compile_matcher();
        changed.retain(|name, _| !glob.is_match(name));
    }
    judged(&hits, &changed, args.min)
}

fn judged(hits: &Hits, changed: &Lines, Percent(min): Percent) -> Result<String, Ending> {
    let kinds: BTreeSet<_> = hits.keys().filter_map(|name| Path::new(name).extension()).collect();
    let (mut ran, mut all, mut unmet) = (0, 0, Vec::new());
    for (name, lines) in changed {
        let Some(hits) = reported_as(hits, name) else {
            if Path::new(name).extension().is_some_and(|kind| kinds.contains(kind)) {
                all += lines.len();
                unmet.push(format!("{name} is not in the report ({} changed lines)", lines.len()));
            }
            continue;
        };
        let counted: Vec<(usize, u64)> =
            lines.iter().filter_map(|line| Some((*line, *hits.get(line)?))).collect();
        let missed: Vec<String> =
            counted.iter().filter(|(_, hits)| *hits == 0).map(|(line, _)| line.to_string()).collect();
        all += counted.len();
        ran += counted.len() - missed.len();
        if !missed.is_empty() {
            let more = if missed.len() > NAMED { ", …" } else { "" };
            let named = missed.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            unmet.push(format!("{name}: no test runs the changed lines {named}{more}"));
        }
    }
    if all == 0 {
        return Ok("no changed line can be covered".to_owned());
    }
    let percent = ran as f64 * 100.0 / all as f64;
    let measured = format!("{percent:.1} % of {all} changed lines ran; the limit is {min} %");
    match percent >= min {
        true => Ok(measured),
        false => {
            unmet.insert(0, measured);
            Err(Ending::unmet_all(&unmet))
        }
    }
}

/// Finds a file in a report. Reports have paths from the root of the repository, absolute paths, or paths
/// from a folder below the root; of these, the longest is the nearest.
fn reported_as<'h>(hits: &'h Hits, name: &str) -> Option<&'h BTreeMap<usize, u64>> {
    let ends = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'));
    let plain = |reported: &'h String| reported.trim_start_matches("./");
    let rank = |reported: &str| match reported {
        _ if reported == name => Some((2, 0)),
        _ if ends(reported, name) => Some((1, 0)),
        _ if ends(name, reported) => Some((0, reported.len())),
        _ => None,
    };
    let fitting = hits.iter().filter_map(|(reported, lines)| Some((rank(plain(reported))?, lines)));
    fitting.max_by_key(|(rank, _)| *rank).map(|(_, lines)| lines)
}

fn lcov(text: &str) -> Hits {
    let mut hits = Hits::new();
    let mut file = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("SF:") {
            file = name.trim().to_owned();
            hits.entry(file.clone()).or_default();
        } else if let Some((line, count)) = line.strip_prefix("DA:").and_then(|rest| rest.split_once(',')) {
            let count = count.split(',').next().unwrap_or_default();
            if let (Ok(line), Ok(count)) = (line.parse(), count.parse::<f64>()) {
                *hits.entry(file.clone()).or_default().entry(line).or_default() += count as u64;
            }
        }
    }
    hits
}

/// Reads the files and lines of a report; nothing else of the XML matters.
fn cobertura(text: &str) -> Hits {
    let mut hits = Hits::new();
    let mut file = String::new();
    for tag in text.split('<').filter_map(|part| part.split('>').next()) {
        let value = |name: &str| {
            let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
            Some(rest.split('"').next().unwrap_or_default().replace("&amp;", "&"))
        };
        if let Some(name) = tag.strip_prefix("class ").and(value("filename")) {
            file = name;
            hits.entry(file.clone()).or_default();
        } else if tag.starts_with("line ")
            && let (Some(line), Some(count)) = (value("number"), value("hits"))
            && let (Ok(line), Ok(count)) = (line.parse(), count.parse::<u64>())
        {
            // A line of a method is listed twice.
            let known = hits.entry(file.clone()).or_default().entry(line).or_default();
            *known = count.max(*known);
        }
    }
    hits
}

/// Returns the added lines of a unified diff.
fn changed_in(diff: &str) -> Lines {
    let mut changed = Lines::new();
    let (mut file, mut at, mut left) = (None, 0, 0);
    for line in diff.lines() {
        if left > 0 {
            match line.chars().next() {
                Some('+') => {
                    if let Some(file) = &file {
                        changed.entry(String::clone(file)).or_default().insert(at);
                    }
                    (at, left) = (at + 1, left - 1);
                }
                Some(' ') | None => (at, left) = (at + 1, left - 1),
                _ => {}
            }
        } else if let Some(name) = line.strip_prefix("+++ ") {
            let name = name.split('\t').next().unwrap_or_default();
            let name = name.strip_prefix("b/").unwrap_or(name);
            file = (name != "/dev/null").then(|| name.to_owned());
        } else if let Some(rest) = line.strip_prefix("@@ ") {
            let place = rest.split(' ').find_map(|part| part.strip_prefix('+')).unwrap_or_default();
            let (start, count) = place.split_once(',').unwrap_or((place, "1"));
            (at, left) = (start.parse().unwrap_or_default(), count.parse().unwrap_or_default());
        }
    }
    changed
}

/// Returns the lines that differ from the last commit. New files count whole, without empty lines.
fn changed_here() -> Result<Lines, Ending> {
    let options = ["--unified=0", "--no-color", "--no-ext-diff", "--no-renames", "--src-prefix=a/"];
    let mut arguments = vec!["-c", "core.quotePath=false", "diff", "HEAD", "--dst-prefix=b/"];
    arguments.extend(options);
    let mut changed = changed_in(&String::from_utf8_lossy(&git(&arguments, &[])?));
    let top = git(&["rev-parse", "--show-toplevel"], &[])?;
    let top = PathBuf::from(String::from_utf8_lossy(&top).trim());
    let listed = ["ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--"];
    let root = top.display().to_string();
    let new = git(&[listed.as_slice(), &[&root]].concat(), &[])?;
    for name in String::from_utf8_lossy(&new).split('\0').filter(|name| !name.is_empty()) {
        let Ok(text) = std::fs::read_to_string(top.join(name)) else { continue };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        changed.insert(name.to_owned(), lines.map(|(at, _)| at + 1).collect());
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n\
                        @@ -1 +1,2 @@\n-old\n+new\n+++ more\n@@ -9,0 +11 @@ def f():\n+last\n\
                        diff --git a/gone.py b/gone.py\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";

    #[test]
    fn a_diff_names_the_added_lines() {
        let changed = changed_in(DIFF);
        assert_eq!(changed, Lines::from([("src/a.py".to_owned(), BTreeSet::from([1, 2, 11]))]));
    }

    #[test]
    fn both_formats_say_which_lines_ran() {
        let expected = Hits::from([("src/a.py".to_owned(), BTreeMap::from([(1, 3), (2, 0)]))]);
        assert_eq!(lcov("TN:\nSF:src/a.py\nDA:1,3\nDA:2,0,abc\nend_of_record\n"), expected);
        let xml = "<?xml version=\"1.0\"?><coverage><packages><package name=\"p\"><classes>\
                   <class name=\"a\" filename=\"src/a.py\"><lines><line number=\"1\" hits=\"3\"/>\
                   <line hits=\"0\" number=\"2\"/></lines></class></classes></package></packages></coverage>";
        assert_eq!(cobertura(xml), expected);
    }

    #[test]
    fn uncovered_lines_and_files_are_named() {
        let changed = changed_in(DIFF);
        let hits = |text: &str| lcov(&format!("SF:/home/x/src/a.py\n{text}"));
        assert!(judged(&hits("DA:1,1\nDA:2,1\n"), &changed, Percent(100.0)).is_ok());
        let Err(Ending::Unmet(why)) = judged(&hits("DA:1,1\nDA:11,0\n"), &changed, Percent(80.0)) else {
            panic!("half of them ran")
        };
        assert!(why.contains("50.0 % of 2 changed lines ran; the limit is 80 %"), "{why}");
        assert!(why.contains("src/a.py: no test runs the changed lines 11"), "{why}");
        let Err(Ending::Unmet(why)) = judged(&lcov("SF:b.py\nDA:1,1\n"), &changed, Percent(1.0)) else {
            panic!("the file is not in the report")
        };
        assert!(why.contains("src/a.py is not in the report (3 changed lines)"), "{why}");
        assert!(judged(&lcov("SF:b.js\nDA:1,1\n"), &changed, Percent(1.0)).is_ok());
    }

    #[test]
    fn a_file_is_found_by_its_nearest_path() {
        let hits =
            lcov("SF:./a.py\nDA:1,1\nSF:src/a.py\nDA:2,1\nSF:/home/x/lib/a.py\nDA:3,1\nSF:xb.py\nDA:4,1\n");
        let line = |name: &str| reported_as(&hits, name).and_then(|lines| lines.keys().next().copied());
        assert_eq!(["a.py", "src/a.py", "lib/a.py"].map(line), [Some(1), Some(2), Some(3)]);
        assert_eq!(["py/src/a.py", "other/a.py", "b.py"].map(line), [Some(2), Some(1), None]);
    }
}
