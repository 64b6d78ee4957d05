//! Reads which part of the tree a contract selects, from the arguments of its runner.
//!
//! **Invariant:** a selection that is not understood is an error, never a guess.

use super::{Args, Runner, RunnerStart, joined};
use crate::language::test_files;

/// The part of the tree that a contract selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Files and folders, relative to the tree; empty for all of the folder the runner works in.
    pub places: Vec<String>,
    /// Substrings of paths (jest, vitest).
    pub(super) parts: Vec<String>,
    /// Required prefix of a test's name.
    pub(super) name: Option<String>,
    /// The only function that is run.
    pub(super) function: Option<String>,
    /// cargo: `--lib`, or the names of `--test`.
    pub(super) targets: Vec<String>,
    package: Option<String>,
    /// go: a package is a folder without its subfolders.
    is_flat: bool,
}

/// Reads the selection, or says why nothing can be planted.
pub fn selection(started: &RunnerStart) -> Result<Selection, String> {
    if started.negated {
        return Err("it is meant to fail".to_owned());
    }
    match started.runner {
        Runner::Pytest => pytest(started),
        Runner::Unittest => unittest(started),
        Runner::Cargo | Runner::Nextest => cargo(started),
        Runner::Node => node(started),
        Runner::NodeFile => places(started, &started.args[..1]),
        Runner::Jest => {
            by_parts(started, &["-t", "--testNamePattern"], &["-c", "--config", "-w", "--maxWorkers"])
        }
        Runner::Vitest => {
            by_parts(started, &["-t", "--testNamePattern"], &["-c", "--config", "-r", "--root"])
        }
        Runner::Go => go(started),
        Runner::Phpunit => phpunit(started),
        Runner::Maven => maven(started),
        Runner::Gradle => gradle(started),
        Runner::Dotnet => dotnet(started),
        Runner::Mocha | Runner::Rspec => {
            Err(format!("only a run of {} tells which tests it runs", started.runner.word()))
        }
        Runner::Ctest => Err("ctest runs programs of the build".to_owned()),
        Runner::Script => Err("package.json does not say which tests the script runs".to_owned()),
        Runner::Other => Err(format!("provost does not know which tests {} runs", started.runner.word())),
    }
}

impl Selection {
    /// Returns whether the contract runs the tests of a file of this name.
    pub fn reaches(&self, started: &RunnerStart, path: &str) -> bool {
        let Some(inner) = beneath(path, &started.folder) else { return false };
        if path
            .split('/')
            .any(|part| matches!(part, "node_modules" | "target" | ".venv" | "vendor" | "testdata" | "dist"))
        {
            return false;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let is_named = self.places.iter().any(|place| place == path);
        let is_placed =
            self.places.is_empty() || self.places.iter().any(|place| beneath(path, place).is_some());
        match started.runner {
            Runner::Pytest => {
                let is_test = name.ends_with(".py") && (stem.starts_with("test_") || stem.ends_with("_test"));
                is_named || is_placed && is_test
            }
            Runner::Unittest => is_named || is_placed && name.ends_with(".py") && stem.starts_with("test"),
            Runner::Cargo | Runner::Nextest => self.is_cargo_home(path),
            Runner::Node => is_named || self.places.is_empty() && is_node_test(inner),
            Runner::NodeFile => is_named,
            Runner::Jest | Runner::Vitest => {
                let is_part =
                    self.parts.is_empty() || self.parts.iter().any(|part| path.contains(part.as_str()));
                is_part
                    && is_script(name)
                    && (stem.ends_with(".test")
                        || stem.ends_with(".spec")
                        || started.runner == Runner::Jest && inner.split('/').any(|part| part == "__tests__"))
            }
            Runner::Go => {
                let own = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let here = |place: &String| place == own;
                let is_here = self.places.iter().any(here) || self.places.is_empty() && own == started.folder;
                stem.ends_with("_test")
                    && name.ends_with(".go")
                    && if self.is_flat { is_here } else { is_placed }
            }
            Runner::Phpunit => is_named || is_placed && name.ends_with("Test.php"),
            Runner::Maven | Runner::Gradle => {
                let is_source =
                    path.contains("src/test/") && (name.ends_with(".java") || name.ends_with(".kt"));
                let is_test = stem.ends_with("Test") || stem.ends_with("Tests") || stem.starts_with("Test");
                is_placed && is_source && is_test
            }
            Runner::Dotnet => {
                let is_built = inner.split('/').any(|part| matches!(part, "bin" | "obj"));
                is_placed && name.ends_with(".cs") && test_files::is_test(path) && !is_built
            }
            Runner::Mocha | Runner::Rspec | Runner::Ctest | Runner::Script | Runner::Other => false,
        }
    }

    /// Recognises `tests/x.rs` of a package, or a source file if only the library is selected.
    fn is_cargo_home(&self, path: &str) -> bool {
        if !path.ends_with(".rs") {
            return false;
        }
        if let Some(package) = &self.package
            && !path.split('/').any(|part| part == package)
        {
            return false;
        }
        let mut parts = path.rsplit('/');
        let (name, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let stem = name.strip_suffix(".rs").unwrap_or(name);
        match self.targets.first().map(String::as_str) {
            None => folder == "tests" || folder == "src" && matches!(stem, "lib" | "main"),
            Some("--lib") => folder == "src" && stem == "lib",
            Some(_) => folder == "tests" && self.targets.iter().any(|target| target == stem),
        }
    }
}

fn beneath<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    if folder.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

fn is_script(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    matches!(extension, "js" | "cjs" | "mjs" | "jsx" | "ts" | "cts" | "mts" | "tsx")
}

fn is_node_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_plain = [".js", ".cjs", ".mjs"].iter().any(|end| name.ends_with(end));
    let is_in_folder = path.split('/').rev().skip(1).any(|part| part == "test");
    is_plain && (is_in_folder || test_files::is_test(name))
}

/// Returns the words that are neither options nor values of options.
fn operands<'a>(args: Args<'a>, values: &[&str]) -> Result<Vec<&'a str>, String> {
    let mut found = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let arg = arg.as_deref().ok_or("its arguments are known only when it runs")?;
        if values.contains(&arg) {
            rest.next();
        } else if !arg.starts_with('-') {
            found.push(arg);
        }
    }
    Ok(found)
}

/// Returns the value of an option, given as a separate word or after `=`.
fn value_of<'a>(args: Args<'a>, names: &[&str]) -> Option<&'a str> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let arg = arg.as_deref()?;
        if names.contains(&arg) {
            return rest.next()?.as_deref();
        }
        if let Some((name, value)) = arg.split_once('=')
            && names.contains(&name)
        {
            return Some(value);
        }
    }
    None
}

fn has(args: Args<'_>, names: &[&str]) -> bool {
    args.iter().flatten().any(|arg| names.contains(&arg.split('=').next().unwrap_or(arg)))
}

/// Accepts a word that can begin the name of a function.
fn identifier(word: &str) -> Option<String> {
    let is_plain = !word.is_empty()
        && !word.starts_with(|c: char| c.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_plain.then(|| word.to_owned())
}

fn by_name(option: &str, word: &str) -> Result<Option<String>, String> {
    identifier(word)
        .map(Some)
        .ok_or_else(|| format!("provost does not understand what `{option} {word}` selects"))
}

fn places(started: &RunnerStart, args: Args<'_>) -> Result<Selection, String> {
    let mut chosen = Selection::default();
    for place in operands(args, &[])? {
        chosen
            .places
            .push(joined(&started.folder, place).ok_or_else(|| format!("{place} is outside of the tree"))?);
    }
    Ok(chosen)
}

fn pytest(started: &RunnerStart) -> Result<Selection, String> {
    let args = &started.args;
    let values = [
        "-k",
        "-m",
        "-p",
        "-c",
        "-o",
        "-n",
        "-W",
        "-r",
        "--rootdir",
        "--maxfail",
        "--ignore",
        "--ignore-glob",
        "--deselect",
        "--cov",
        "--cov-report",
        "--junitxml",
        "--junit-xml",
        "--tb",
        "--durations",
        "--timeout",
        "--confcutdir",
        "--import-mode",
        "--basetemp",
        "--color",
        "--capture",
    ];
    if has(args, &["-m", "--collect-only", "--co", "--lf", "--last-failed", "--pyargs"]) {
        return Err("it selects tests by marks or by an earlier run".to_owned());
    }
    let mut chosen = Selection::default();
    for place in operands(args, &values)? {
        let mut parts = place.split("::");
        let file = parts.next().unwrap_or_default();
        chosen
            .places
            .push(joined(&started.folder, file).ok_or_else(|| format!("{file} is outside of the tree"))?);
        match (parts.next(), parts.next()) {
            (None, _) => {}
            (Some(function), None) if identifier(function).is_some_and(|name| name.starts_with("test")) => {
                chosen.function = Some(function.to_owned());
            }
            _ => return Err(format!("{place} names one test")),
        }
    }
    if chosen.function.is_some() && chosen.places.len() > 1 {
        return Err("it names single tests".to_owned());
    }
    if let Some(word) = value_of(args, &["-k"]) {
        by_name("-k", word)?;
        chosen.name = identifier(&format!("test_{word}"));
    }
    Ok(chosen)
}

fn unittest(started: &RunnerStart) -> Result<Selection, String> {
    let args = &started.args;
    if has(args, &["-p", "--pattern"]) {
        return Err("it selects files by its own pattern".to_owned());
    }
    let mut chosen = Selection::default();
    if let Some(word) = value_of(args, &["-k"]) {
        by_name("-k", word)?;
        chosen.name = identifier(&format!("test_{word}"));
    }
    let start = value_of(args, &["-s", "--start-directory"]);
    let mut words = operands(args, &["-k", "-s", "-t", "-p", "--start-directory", "--top-level-directory"])?;
    if words.first() == Some(&"discover") {
        words.remove(0);
        words.extend(start);
        let folder = words.first().copied().unwrap_or(".");
        chosen.places = vec![joined(&started.folder, folder).ok_or("it starts outside of the tree")?];
        chosen.places.retain(|place| !place.is_empty());
        return Ok(chosen);
    }
    for word in words {
        let path =
            if word.ends_with(".py") { word.to_owned() } else { format!("{}.py", word.replace('.', "/")) };
        chosen
            .places
            .push(joined(&started.folder, &path).ok_or_else(|| format!("{word} is outside of the tree"))?);
    }
    Ok(chosen)
}

fn cargo(started: &RunnerStart) -> Result<Selection, String> {
    let split = started.args.iter().position(|arg| arg.as_deref() == Some("--"));
    let (args, behind) = started.args.split_at(split.unwrap_or(started.args.len()));
    if has(behind, &["--exact", "--ignored", "--list"])
        || has(
            args,
            &["--doc", "--no-run", "-E", "--filter-expr", "--filterset", "--run-ignored", "--manifest-path"],
        )
    {
        return Err("provost does not understand which tests it selects".to_owned());
    }
    if has(args, &["--bin", "--bins", "--example", "--examples", "--bench", "--benches", "--exclude"]) {
        return Err("it selects other targets than tests and the library".to_owned());
    }
    let mut chosen =
        Selection { package: value_of(args, &["-p", "--package"]).map(str::to_owned), ..Default::default() };
    if has(args, &["--lib"]) {
        chosen.targets.push("--lib".to_owned());
    }
    if let Some(target) = value_of(args, &["--test"]) {
        if !chosen.targets.is_empty() {
            return Err("it selects targets of two kinds".to_owned());
        }
        chosen.targets.push(target.to_owned());
    }
    let values = [
        "-p",
        "--package",
        "--test",
        "-F",
        "--features",
        "-j",
        "--jobs",
        "--profile",
        "--target",
        "--target-dir",
        "--color",
        "--test-threads",
        "-P",
        "--config",
        "-Z",
        "--retries",
        "--skip",
    ];
    let filters = operands(args, &values)?;
    let behind = operands(behind.get(1..).unwrap_or(&[]), &values)?;
    if let Some(word) = filters.iter().chain(&behind).next() {
        chosen.name = by_name("the filter", word)?;
    }
    Ok(chosen)
}

fn node(started: &RunnerStart) -> Result<Selection, String> {
    if has(&started.args, &["--test-name-pattern", "--test-only", "--test-skip-pattern"]) {
        return Err("it selects tests by their names".to_owned());
    }
    let chosen = places(started, &started.args)?;
    match chosen.places.iter().find(|place| !is_script(place)) {
        Some(place) => Err(format!("{place} is not a test file")),
        None => Ok(chosen),
    }
}

fn by_parts(started: &RunnerStart, by_name: &[&str], values: &[&str]) -> Result<Selection, String> {
    if has(&started.args, by_name)
        || has(&started.args, &["--onlyChanged", "-o", "--changed", "--findRelatedTests", "--shard"])
    {
        return Err("provost does not understand which tests it selects".to_owned());
    }
    let parts = operands(&started.args, values)?;
    if let Some(part) = parts.iter().find(|part| part.contains(['*', '(', '[', '\\', '|', '^', '$'])) {
        return Err(format!("provost does not understand what `{part}` selects"));
    }
    let parts = parts.into_iter().map(|part| part.trim_start_matches("./").to_owned()).collect();
    Ok(Selection { parts, ..Selection::default() })
}

fn go(started: &RunnerStart) -> Result<Selection, String> {
    let args = &started.args;
    if has(args, &["-skip", "-list", "-bench", "-c", "-tags"]) {
        return Err("provost does not understand which tests it selects".to_owned());
    }
    let mut chosen = Selection::default();
    if let Some(word) = value_of(args, &["-run"]) {
        chosen.name = by_name("-run", word)?
            .map(|word| if word.starts_with("Test") { word } else { format!("Test{word}") });
    }
    let values =
        ["-run", "-count", "-timeout", "-p", "-parallel", "-cpu", "-coverprofile", "-covermode", "-coverpkg"];
    chosen.is_flat = true;
    for place in operands(args, &values)? {
        chosen.is_flat &= !place.ends_with("...");
        let folder = place.strip_suffix("...").unwrap_or(place).trim_end_matches('/');
        if !place.starts_with('.') {
            return Err(format!("{place} names a package by its import path"));
        }
        chosen.places.push(joined(&started.folder, folder).ok_or("it is outside of the tree")?);
    }
    chosen.places.retain(|place| !place.is_empty());
    Ok(chosen)
}

fn phpunit(started: &RunnerStart) -> Result<Selection, String> {
    let by_name =
        ["--filter", "--group", "--exclude-group", "--testsuite", "--exclude-testsuite", "--covers"];
    if has(&started.args, &by_name) {
        return Err("it selects tests by their names or groups".to_owned());
    }
    let values =
        ["-c", "-d", "--configuration", "--bootstrap", "--log-junit", "--printer", "--order-by", "--seed"];
    let mut chosen = Selection::default();
    for place in operands(&started.args, &values)? {
        let place =
            joined(&started.folder, place).ok_or_else(|| format!("{place} is outside of the tree"))?;
        chosen.places.push(place);
    }
    chosen.places.retain(|place| !place.is_empty());
    Ok(chosen)
}

fn maven(started: &RunnerStart) -> Result<Selection, String> {
    let options = ["-pl", "--projects", "-f", "--file", "-rf", "--resume-from", "-N", "--non-recursive"];
    let properties = ["-Dtest", "-Dit.test", "-Dgroups", "-DexcludedGroups", "-DfailIfNoTests"];
    if has(&started.args, &options) || has(&started.args, &properties) {
        return Err("provost does not understand which tests it selects".to_owned());
    }
    Ok(Selection::default())
}

fn gradle(started: &RunnerStart) -> Result<Selection, String> {
    let options = ["--tests", "-p", "--project-dir", "-b", "--build-file", "-c", "--settings-file", "-x"];
    if has(&started.args, &options) {
        return Err("provost does not understand which tests it selects".to_owned());
    }
    let mut chosen = Selection::default();
    for task in operands(&started.args, &["-I", "--init-script", "--console", "--max-workers"])? {
        // `:app:test` is the task of one project, whose folder usually has its name.
        if let Some((project, _)) = task.trim_start_matches(':').rsplit_once(':') {
            let folder = project.replace(':', "/");
            chosen.places.push(joined(&started.folder, &folder).ok_or("it is outside of the tree")?);
        }
    }
    Ok(chosen)
}

/// A project, a solution or their folder; a solution has its projects in the folders below it.
fn dotnet(started: &RunnerStart) -> Result<Selection, String> {
    let behind = started.args.iter().position(|arg| arg.as_deref() == Some("--"));
    let args = &started.args[..behind.unwrap_or(started.args.len())];
    if behind.is_some() || has(args, &["--filter", "-s", "--settings", "--list-tests", "-t"]) {
        return Err("provost does not understand which tests it selects".to_owned());
    }
    let values = [
        "-l",
        "--logger",
        "-r",
        "--results-directory",
        "-c",
        "--configuration",
        "-f",
        "--framework",
        "-v",
        "--verbosity",
        "-o",
        "--output",
        "-d",
        "--diag",
        "-e",
        "--environment",
        "-a",
        "--arch",
        "--os",
        "--runtime",
        "--collect",
        "--test-adapter-path",
    ];
    let mut chosen = Selection::default();
    for place in operands(args, &values)? {
        let is_project = place.ends_with("proj") || place.ends_with(".sln") || place.ends_with(".slnx");
        if place.ends_with(".dll") {
            return Err(format!("{place} was built before"));
        }
        let path = joined(&started.folder, place).ok_or_else(|| format!("{place} is outside of the tree"))?;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        chosen.places.push(if is_project { folder } else { path });
    }
    chosen.places.retain(|place| !place.is_empty());
    Ok(chosen)
}
