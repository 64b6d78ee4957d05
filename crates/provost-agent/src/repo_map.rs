//! A map of the repository for the first prompt: the files and definitions that matter most.
//!
//! A definition matters more the more other files name it, and much more if the task names it or its file.
//! The map has a limit in tokens. The same files and the same task give the same map.

mod symbols;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use provost_core::text::prompt;
use symbols::Symbol;

use crate::tool::files::Workspace;
use crate::tool::search::walk;

/// Tokens of the map, unless the configuration says otherwise.
pub(crate) const DEFAULT_TOKENS: usize = 1000;
/// Most files that are read, the largest file, and the most that is read in all, in bytes.
const FILES_MAX: usize = 4000;
const FILE_MAX: u64 = 256 * 1024;
const READ_MAX: u64 = 24 << 20;
/// Folders of packages and of what was built.
const FOREIGN: [&str; 8] =
    ["node_modules", "vendor", "third_party", "target", "dist", "build", "site-packages", "__pycache__"];
/// Bytes of a token, roughly.
const TOKEN: usize = 4;
/// A name that this many files define says little about each of them.
const DEFINED_MAX: usize = 4;
/// Names that are shorter are too common.
const NAME_MIN: usize = 3;
/// Most definitions that are shown of one file.
const SHOWN_MAX: usize = 12;
/// How much more a definition or a file counts if the task names it.
const NAMED: f64 = 20.0;

/// A source file.
struct Source {
    path: String,
    symbols: Vec<Symbol>,
    /// Every name in it.
    names: HashSet<String>,
}

/// Returns the map, with a heading; `None` if there is nothing to show.
pub(crate) fn draw(workspace: &Workspace, task: &str, tokens: usize) -> Option<String> {
    if tokens == 0 {
        return None;
    }
    let sources = sources(workspace);
    // A few files are seen with one call of a tool.
    if sources.len() < 3 {
        return None;
    }
    let lines = ranked(&sources, task);
    let mut map = String::new();
    for lines in lines {
        if map.len() + lines.len() > tokens * TOKEN {
            break;
        }
        map.push_str(&lines);
    }
    let map = map.trim_end();
    // The map is filled in last, so that placeholders in it stay as they are.
    let frame = include_str!("prompt/map.md").trim_end().replace("{fence}", &prompt::fence_for(map));
    (!map.is_empty()).then(|| frame.replace("{map}", map))
}

fn sources(workspace: &Workspace) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut read = 0;
    let mut walk = walk(workspace.root());
    walk.filter_entry(|entry| !is_foreign(entry));
    for entry in walk.build().flatten() {
        let extension = entry.path().extension().and_then(|extension| extension.to_str());
        let Some(language) = extension.and_then(symbols::language) else { continue };
        let Ok(size) = entry.metadata().map(|found| found.len()) else { continue };
        if !entry.file_type().is_some_and(|kind| kind.is_file()) || size > FILE_MAX {
            continue;
        }
        read += size;
        if sources.len() >= FILES_MAX || read > READ_MAX {
            break;
        }
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        let path = workspace.shown(entry.path()).to_string();
        let symbols = symbols::definitions(language, &text);
        sources.push(Source { path, symbols, names: names(&text).map(str::to_owned).collect() });
    }
    sources
}

/// Returns whether a folder has nothing of the project's own, also where git does not ignore it.
fn is_foreign(entry: &ignore::DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    let is_folder = entry.depth() > 0 && entry.file_type().is_some_and(|kind| kind.is_dir());
    is_folder && (name.starts_with('.') || FOREIGN.contains(&&*name))
}

/// Returns the names in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    text.split(move |letter| !is_part(letter)).filter(|name| name.len() >= NAME_MIN)
}

/// Returns the lines of each file, the most important file first.
fn ranked(sources: &[Source], task: &str) -> Vec<String> {
    let wanted: HashSet<&str> = names(task).collect();
    let mut defined: HashMap<&str, usize> = HashMap::new();
    for source in sources {
        let own: HashSet<&str> = source.symbols.iter().map(|symbol| symbol.name.as_str()).collect();
        own.into_iter().for_each(|name| *defined.entry(name).or_default() += 1);
    }
    let mut used: HashMap<&str, usize> = HashMap::new();
    for source in sources {
        let known = source.names.iter().filter_map(|name| defined.get_key_value(name.as_str()));
        known.for_each(|(name, _)| *used.entry(name).or_default() += 1);
    }
    let weight = |symbol: &Symbol| {
        let name = symbol.name.as_str();
        let files = defined.get(name).copied().unwrap_or(1);
        if name.len() < NAME_MIN || files > DEFINED_MAX {
            return 0.0;
        }
        let others = used.get(name).copied().unwrap_or(0).saturating_sub(files);
        let base = (others as f64).sqrt() / files as f64;
        if wanted.contains(name) { (base + 1.0) * NAMED } else { base }
    };
    let mut files: Vec<(f64, &Source, String)> = sources
        .iter()
        .map(|source| {
            let weights: Vec<f64> = source.symbols.iter().map(weight).collect();
            let mut sum: f64 = weights.iter().sum();
            if is_named(&source.path, task) {
                sum = (sum + 1.0) * NAMED;
            }
            (sum, source, shown(source, &weights))
        })
        .filter(|(sum, _, _)| *sum > 0.0)
        .collect();
    files.sort_by(|(left, a, _), (right, b, _)| right.total_cmp(left).then_with(|| a.path.cmp(&b.path)));
    files.into_iter().map(|(_, _, lines)| lines).collect()
}

/// Returns whether the task names the file, by its path or its name.
fn is_named(path: &str, task: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    task.contains(path)
        || task
            .split(|letter: char| letter.is_whitespace() || "`'\"/,:()".contains(letter))
            .any(|word| word == name)
}

/// Returns a file with its most used definitions, in the order of the file.
fn shown(source: &Source, weights: &[f64]) -> String {
    let mut by_weight: Vec<usize> = (0..weights.len()).collect();
    by_weight.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]).then(a.cmp(b)));
    by_weight.truncate(SHOWN_MAX);
    by_weight.sort_unstable();
    let mut seen = HashSet::new();
    let mut lines = format!("{}\n", source.path);
    for symbol in by_weight.into_iter().map(|number| &source.symbols[number]) {
        if seen.insert(&symbol.head) {
            let depth = if symbol.depth == 0 { 2 } else { 4 };
            let _ = writeln!(lines, "{:depth$}{}", "", symbol.head);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(files: &[(&str, &str)]) -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let at = folder.path().join(name);
            std::fs::create_dir_all(at.parent().expect("a folder")).expect("a folder");
            std::fs::write(at, text).expect("a file");
        }
        let workspace = Workspace::new(folder.path()).expect("a workspace");
        (folder, workspace)
    }

    const FILES: [(&str, &str); 5] = [
        (
            "app/money.py",
            "class Money:\n    def add_tax(self, rate):\n        pass\n\ndef unused():\n    pass\n",
        ),
        ("app/order.py", "from money import Money\n\nclass Order:\n    total = Money()\n"),
        (
            "app/bill.py",
            "from money import Money\nfrom order import Order\n\ndef print_bill(order):\n    Money(); Order()\n",
        ),
        ("app/lonely.py", "def nothing():\n    pass\n"),
        ("ignored/big.py", "class Ignored:\n    pass\n"),
    ];

    #[test]
    fn what_others_use_comes_first_and_ignored_files_are_left_out() {
        let (folder, workspace) = workspace(&FILES);
        std::fs::write(folder.path().join(".gitignore"), "ignored/\n").expect("a file");
        let map = draw(&workspace, "Do it.", 1000).expect("a map");
        let order =
            ["app/money.py\n  class Money\n    def add_tax(self, rate)", "app/order.py\n  class Order"];
        let places: Vec<usize> =
            order.iter().map(|part| map.find(part).unwrap_or_else(|| panic!("{map}"))).collect();
        assert!(places[0] < places[1], "{map}");
        assert!(!map.contains("lonely") && !map.contains("Ignored"), "{map}");
    }

    #[test]
    fn what_the_task_names_comes_first() {
        let (_folder, workspace) = workspace(&FILES);
        let first = |task: &str| {
            let map = draw(&workspace, task, 1000).expect("a map");
            map.lines().find(|line| line.ends_with(".py")).map(str::to_owned)
        };
        assert_eq!(first("Rename `nothing`.").as_deref(), Some("app/lonely.py"));
        assert_eq!(first("Look at app/bill.py, please").as_deref(), Some("app/bill.py"));
        assert_eq!(first("Look at `order.py`").as_deref(), Some("app/order.py"));
    }

    #[test]
    fn the_map_keeps_to_its_tokens() {
        let mut files: Vec<(String, String)> = Vec::new();
        for number in 0..200 {
            let next = (number + 1) % 200;
            files
                .push((format!("m{number}.py"), format!("def part_{number}():\n    return part_{next}()\n")));
        }
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let (_folder, workspace) = workspace(&files);
        let map = draw(&workspace, "Do it.", 200).expect("a map");
        assert!(map.len() < 200 * TOKEN + 400 && map.contains("def part_"), "{}", map.len());
        assert_eq!(draw(&workspace, "Do it.", 0), None);
        assert_eq!(map, draw(&workspace, "Do it.", 200).expect("a map"), "the same again");
    }

    #[test]
    fn a_few_files_need_no_map() {
        let (_folder, workspace) = workspace(&FILES[..2]);
        assert_eq!(draw(&workspace, "Do it.", 1000), None);
    }
}
