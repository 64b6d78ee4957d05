//! Checks the structure of the source: which module may import which, the length of files and functions,
//! and that type names are unique.
//!
//! The rules use the syntax of every shipped file; test modules are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// The path of a module inside of its crate: `["tree", "mirror"]`.
type ModulePath = Vec<String>;

/// A shipped source file.
pub(super) struct Source {
    krate: String,
    module: ModulePath,
    /// Relative to the root of the repository.
    pub(super) path: PathBuf,
    lines: usize,
    pub(super) syntax: syn::File,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns every shipped file of every crate.
pub(super) fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for krate in std::fs::read_dir(root().join("crates")).expect("crates").flatten() {
        let folder = krate.path().join("src");
        let name = krate.file_name().to_string_lossy().into_owned();
        let mut folders = vec![folder.clone()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    sources.push(source(&name, &folder, path));
                }
            }
        }
    }
    let tests = test_modules(&sources);
    sources.retain(|source| {
        let is_test =
            |length: usize| tests.contains(&(source.krate.clone(), source.module[..length].to_vec()));
        !(1..=source.module.len()).any(is_test)
    });
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    sources
}

fn source(krate: &str, folder: &Path, path: PathBuf) -> Source {
    let text = std::fs::read_to_string(&path).expect("a text");
    let inside = path.strip_prefix(folder).expect("below the folder").with_extension("");
    let mut module: ModulePath = inside.iter().map(|part| part.to_string_lossy().replace("r#", "")).collect();
    if matches!(module.last().map(String::as_str), Some("lib" | "main")) {
        module.pop();
    }
    let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Source {
        krate: krate.to_owned(),
        module,
        path: path.strip_prefix(root()).expect("in the repository").to_owned(),
        lines: text.lines().count(),
        syntax,
    }
}

/// Returns the modules that are declared behind `#[cfg(test)]`, in separate files.
fn test_modules(sources: &[Source]) -> BTreeSet<(String, ModulePath)> {
    let mut tests = BTreeSet::new();
    for source in sources {
        for item in &source.syntax.items {
            if let syn::Item::Mod(module) = item
                && is_for_tests(&module.attrs)
            {
                let mut path = source.module.clone();
                path.push(module.ident.to_string());
                tests.insert((source.krate.clone(), path));
            }
        }
    }
    tests
}

pub(super) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string().contains("test"))
    })
}

/// Collects the paths that a file names, as written.
struct Paths {
    written: Vec<Vec<String>>,
}

impl<'syntax> Visit<'syntax> for Paths {
    fn visit_item_mod(&mut self, module: &'syntax syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'syntax syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_item_impl(&mut self, item: &'syntax syn::ItemImpl) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'syntax syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.tree(&item.tree, Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'syntax syn::Path) {
        self.written.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

impl Paths {
    fn tree(&mut self, tree: &syn::UseTree, mut prefix: Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.tree(&path.tree, prefix);
            }
            syn::UseTree::Name(name) => {
                prefix.push(name.ident.to_string());
                self.written.push(prefix);
            }
            syn::UseTree::Rename(rename) => {
                prefix.push(rename.ident.to_string());
                self.written.push(prefix);
            }
            syn::UseTree::Glob(_) => self.written.push(prefix),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(tree, prefix.clone());
                }
            }
        }
    }
}

/// Imports of one crate: which module names which.
struct Imports {
    modules: BTreeSet<ModulePath>,
    /// What a module re-exports, and where that comes from.
    passed_on: BTreeMap<ModulePath, ModulePath>,
    edges: BTreeSet<(ModulePath, ModulePath)>,
}

impl Imports {
    fn of(sources: &[&Source]) -> Imports {
        let modules = sources.iter().map(|source| source.module.clone()).collect();
        let mut imports = Imports { modules, passed_on: BTreeMap::new(), edges: BTreeSet::new() };
        for source in sources {
            imports.note_what_is_passed_on(source);
        }
        for source in sources {
            let mut paths = Paths { written: Vec::new() };
            paths.visit_file(&source.syntax);
            for written in paths.written {
                if let Some(absolute) = absolute(&source.module, &written, &imports.modules) {
                    imports.edges.insert((source.module.clone(), imports.owner(absolute)));
                }
            }
        }
        imports
    }

    fn note_what_is_passed_on(&mut self, source: &Source) {
        for item in &source.syntax.items {
            let syn::Item::Use(item) = item else { continue };
            if matches!(item.vis, syn::Visibility::Inherited) {
                continue;
            }
            let mut paths = Paths { written: Vec::new() };
            paths.visit_item_use(item);
            for written in paths.written {
                let (Some(name), Some(from)) =
                    (written.last().cloned(), absolute(&source.module, &written, &self.modules))
                else {
                    continue;
                };
                let mut here = source.module.clone();
                here.push(name);
                self.passed_on.insert(here, from);
            }
        }
    }

    /// Returns the module that owns what a path names, through all re-exports.
    fn owner(&self, mut path: ModulePath) -> ModulePath {
        for _ in 0..8 {
            let passed = (1..=path.len()).rev().find_map(|length| {
                let from = self.passed_on.get(&path[..length])?;
                Some(from.iter().chain(&path[length..]).cloned().collect::<ModulePath>())
            });
            match passed {
                Some(next) if next != path => path = next,
                _ => break,
            }
        }
        while !self.modules.contains(&path) {
            path.pop();
        }
        path
    }

    /// Returns the cycles among modules with the same parent, each as the modules that reach each other. A
    /// parent and its children may name each other, but siblings may not form a cycle.
    fn cycles(&self) -> Vec<Vec<String>> {
        let parents: BTreeSet<&[String]> =
            self.modules.iter().filter_map(|module| module.split_last().map(|(_, parent)| parent)).collect();
        let mut cycles = Vec::new();
        for parent in parents {
            let depth = parent.len();
            let edges: BTreeSet<(&str, &str)> = self
                .edges
                .iter()
                .filter(|(from, to)| from.starts_with(parent) && to.starts_with(parent))
                .filter_map(|(from, to)| Some((from.get(depth)?.as_str(), to.get(depth)?.as_str())))
                .filter(|(from, to)| from != to)
                .collect();
            let prefix = parent.iter().fold(String::new(), |text, part| text + part + "::");
            cycles.extend(
                circles(&edges)
                    .into_iter()
                    .map(|circle| circle.iter().map(|name| format!("{prefix}{name}")).collect()),
            );
        }
        cycles
    }
}

/// Returns a path from the root of its crate; `None` for a path of another crate.
fn absolute(module: &[String], written: &[String], modules: &BTreeSet<ModulePath>) -> Option<ModulePath> {
    let mut here = module.to_vec();
    let mut rest = written;
    match written.first().map(String::as_str)? {
        "crate" => {
            here.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                here.pop();
                rest = &rest[1..];
            }
        }
        first => {
            here.push(first.to_owned());
            if !modules.contains(&here) {
                return None;
            }
            rest = &rest[1..];
        }
    }
    here.extend(rest.iter().cloned());
    Some(here)
}

/// Returns groups of names that reach each other.
fn circles<'name>(edges: &BTreeSet<(&'name str, &'name str)>) -> Vec<BTreeSet<&'name str>> {
    let reach = |start: &'name str| {
        let mut seen = BTreeSet::new();
        let mut next = vec![start];
        while let Some(at) = next.pop() {
            for (_, to) in edges.iter().filter(|(from, _)| *from == at) {
                if seen.insert(*to) {
                    next.push(to);
                }
            }
        }
        seen
    };
    let names: BTreeSet<&str> = edges.iter().map(|(from, _)| *from).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> = names.iter().map(|name| (*name, reach(name))).collect();
    let mut circles: Vec<BTreeSet<&str>> = Vec::new();
    for name in &names {
        if reached[name].contains(name) && !circles.iter().any(|circle| circle.contains(name)) {
            let both = |other: &&&str| {
                reached[name].contains(**other)
                    && reached.get(**other).is_some_and(|back| back.contains(name))
            };
            circles.push(names.iter().filter(both).copied().collect());
        }
    }
    circles
}

fn per_crate(sources: &[Source]) -> BTreeMap<&str, Vec<&Source>> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        crates.entry(&source.krate).or_default().push(source);
    }
    crates
}

/// Collects every function of a file with its length in lines.
struct Functions {
    found: Vec<(String, usize)>,
}

impl<'syntax> Visit<'syntax> for Functions {
    fn visit_item_mod(&mut self, module: &'syntax syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'syntax syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            self.note(&function.sig, &function.block);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'syntax syn::ImplItemFn) {
        self.note(&function.sig, &function.block);
    }
}

impl Functions {
    fn note(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let lines = block.span().end().line - signature.span().start().line + 1;
        self.found.push((signature.ident.to_string(), lines));
    }
}

#[test]
fn modules_do_not_import_each_other_in_a_circle() {
    for (krate, sources) in per_crate(&sources()) {
        let cycles: Vec<String> =
            Imports::of(&sources).cycles().iter().map(|cycle| cycle.join(", ")).collect();
        assert!(cycles.is_empty(), "modules of {krate} import each other in a circle: {}", cycles.join("; "));
    }
}

/// Checks that this test finds a cycle.
#[test]
fn a_circle_between_siblings_is_found_through_reexports() {
    let file = |module: &[&str], text: &str| Source {
        krate: "example".to_owned(),
        module: module.iter().map(|part| (*part).to_owned()).collect(),
        path: PathBuf::new(),
        lines: 0,
        syntax: syn::parse_file(text).expect("Rust"),
    };
    let root = file(&[], "pub use inner::Deep; mod inner; mod outer; mod calm;");
    let inner = file(&["inner"], "use crate::outer::Thing; pub struct Deep;");
    let outer = file(&["outer"], "pub struct Thing; fn f() { let _ = crate::Deep; }");
    let calm = file(&["calm"], "use super::outer::Thing; #[cfg(test)] mod tests { use crate::inner; }");
    let imports = Imports::of(&[&root, &inner, &outer, &calm]);
    assert_eq!(imports.cycles(), [["inner", "outer"]]);
}

/// A function longer than this is split.
const LINES_OF_A_FUNCTION: usize = 70;
/// A file longer than this is split.
const LINES_OF_A_FILE: usize = 500;

#[test]
fn files_and_functions_fit_on_a_few_screens() {
    let (mut long_files, mut long_functions) = (BTreeSet::<String>::new(), BTreeSet::new());
    for source in sources() {
        let path = source.path.display().to_string();
        let mut functions = Functions { found: Vec::new() };
        functions.visit_file(&source.syntax);
        for (name, lines) in functions.found {
            if lines > LINES_OF_A_FUNCTION {
                long_functions.insert(format!("{path} {name}"));
            }
        }
        if source.lines > LINES_OF_A_FILE {
            long_files.insert(path);
        }
    }
    assert_eq!(long_files, BTreeSet::new(), "files over {LINES_OF_A_FILE} lines");
    assert_eq!(long_functions, BTreeSet::<String>::new(), "functions over {LINES_OF_A_FUNCTION} lines");
}

/// A change that ARCHITECTURE.md explains: its example in the source, and the files it touches.
struct Recipe {
    title: String,
    examples: Vec<String>,
    files: Vec<String>,
}

/// Parses the list "How to add …": `- **a change** (example: `X`): words, `file`, `file``.
fn recipes() -> Vec<Recipe> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let (_, after) = text.split_once("\n## How to add").expect("the section");
    let section = after.split("\n## ").next().unwrap_or_default();
    let in_code =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let entries = section.lines().filter_map(|line| line.strip_prefix("- **"));
    entries
        .map(|line| {
            let (title, rest) = line.split_once("**").expect("a title");
            let (examples, rest) = match rest.strip_prefix(" (example: ") {
                Some(rest) => rest.split_once(')').expect("the end of the examples"),
                None => ("", rest),
            };
            Recipe { title: title.to_owned(), examples: in_code(examples), files: in_code(rest) }
        })
        .collect()
}

/// Returns the paths in `crates` of all shipped files, Rust and SQL, with their texts.
fn shipped_texts() -> Vec<(String, String)> {
    let shipped: BTreeSet<PathBuf> = sources().into_iter().map(|source| source.path).collect();
    let mut texts = Vec::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let inside = path.strip_prefix(root()).expect("in the repository").to_owned();
            let is_shipped = path.extension().is_some_and(|end| end == "sql") || shipped.contains(&inside);
            if path.is_dir() {
                folders.push(path);
            } else if is_shipped && let Ok(text) = std::fs::read_to_string(&path) {
                let inside = inside.strip_prefix("crates").unwrap_or(&inside);
                texts.push((inside.display().to_string(), text));
            }
        }
    }
    texts
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |each: Option<char>| each.is_some_and(|each| each.is_alphanumeric() || each == '_');
    text.match_indices(word).any(|(at, _)| {
        !is_part(text[..at].chars().last()) && !is_part(text[at + word.len()..].chars().next())
    })
}

#[test]
fn the_architecture_names_every_file_of_a_change() {
    let (recipes, texts) = (recipes(), shipped_texts());
    assert_eq!(recipes.len(), 9, "the changes that ARCHITECTURE.md explains");
    for recipe in recipes {
        for file in &recipe.files {
            let is_there = ["", "crates"].iter().any(|folder| root().join(folder).join(file).exists());
            assert!(is_there, "{}: {file} is not there", recipe.title);
        }
        for example in &recipe.examples {
            let has_example = |(file, text): &(String, String)| has_word(text, example).then(|| file.clone());
            let found: Vec<String> = texts.iter().filter_map(has_example).collect();
            assert!(!found.is_empty(), "{}: nothing has the example {example}", recipe.title);
            let missing: Vec<&String> = found.iter().filter(|file| !recipe.files.contains(file)).collect();
            assert!(missing.is_empty(), "{}: {example} is also in {missing:?}", recipe.title);
        }
    }
}

/// Types that several crates may have: every library has its `Error`.
const SHARED_TYPE_NAMES: &[&str] = &["Error"];
/// Nouns that end like participles, and two participles that the field uses as names.
const NOUNS: &[&str] = &[
    "Binding",
    "Finding",
    "Framing",
    "Heading",
    "InboxListing",
    "Interrupted",
    "KeySeed",
    "Landing",
    "PlanListing",
    "RunMetering",
    "Spanned",
    "StepHeading",
];

#[test]
fn an_exported_type_has_a_name_of_its_own_and_the_name_is_a_noun() {
    let sources = sources();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // No other crate can use the types of the program itself.
    for source in sources.iter().filter(|source| source.krate != "provost") {
        for item in &source.syntax.items {
            let (name, visibility, attributes) = match item {
                syn::Item::Struct(item) => (&item.ident, &item.vis, &item.attrs),
                syn::Item::Enum(item) => (&item.ident, &item.vis, &item.attrs),
                syn::Item::Trait(item) => (&item.ident, &item.vis, &item.attrs),
                syn::Item::Type(item) => (&item.ident, &item.vis, &item.attrs),
                _ => continue,
            };
            if matches!(visibility, syn::Visibility::Public(_)) && !is_for_tests(attributes) {
                places.entry(name.to_string()).or_default().push(source.path.display().to_string());
            }
        }
    }
    let mut complaints = Vec::new();
    for (name, places) in &places {
        if places.len() > 1 && !SHARED_TYPE_NAMES.contains(&name.as_str()) {
            complaints.push(format!("`{name}` is the name of several types: {}", places.join(", ")));
        }
        let ending = name.ends_with("ed") || name.ends_with("ing");
        if ending && !NOUNS.contains(&name.as_str()) {
            complaints.push(format!("`{name}` is no noun: {}", places.join(", ")));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Collects the variants of core's `Event` that a file constructs.
struct MadeEvents<'names> {
    variants: &'names BTreeSet<String>,
    found: Vec<String>,
}

impl MadeEvents<'_> {
    fn note(&mut self, path: &syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let [.., owner, variant] = parts.as_slice()
            && owner == "Event"
            && self.variants.contains(variant)
        {
            self.found.push(variant.clone());
        }
    }
}

impl<'syntax> Visit<'syntax> for MadeEvents<'_> {
    fn visit_item_mod(&mut self, module: &'syntax syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_expr_struct(&mut self, made: &'syntax syn::ExprStruct) {
        self.note(&made.path);
        visit::visit_expr_struct(self, made);
    }

    fn visit_expr_call(&mut self, call: &'syntax syn::ExprCall) {
        if let syn::Expr::Path(called) = &*call.func {
            self.note(&called.path);
        }
        visit::visit_expr_call(self, call);
    }
}

#[test]
fn only_the_rules_make_events() {
    let sources = sources();
    let is_list = |source: &&Source| source.path.ends_with("provost-core/src/model/event.rs");
    let list = sources.iter().find(is_list).expect("the list of events");
    let variants = list.syntax.items.iter().find_map(|item| match item {
        syn::Item::Enum(item) if item.ident == "Event" => {
            Some(item.variants.iter().map(|variant| variant.ident.to_string()).collect())
        }
        _ => None,
    });
    let variants: BTreeSet<String> = variants.expect("the enum");
    let mut made = Vec::new();
    // The agent has events of its own, and the mock model has none.
    let others = ["provost-core", "provost-agent", "provost-rehearsal"];
    for source in sources.iter().filter(|source| !others.contains(&source.krate.as_str())) {
        let mut events = MadeEvents { variants: &variants, found: Vec::new() };
        events.visit_file(&source.syntax);
        made.extend(events.found.iter().map(|variant| format!("{}: {variant}", source.path.display())));
    }
    assert!(variants.len() > 20, "the enum was read");
    assert!(made.is_empty(), "events that the rules of core should decide: {}", made.join(", "));
}

/// A text that is not rewritten would read and write the log of a database without projects.
#[test]
fn every_statement_on_the_database_passes_through_its_project() {
    let is_of_one =
        |path: &Path| path.ends_with("postgres/project.rs") || path.ends_with("postgres/cluster.rs");
    let places = [
        "crates/provost-store/src/postgres.rs",
        "crates/provost-store/src/postgres",
        "crates/provost-dbos/src",
    ];
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| places.iter().any(|place| source.path.starts_with(place)))
    {
        let text = std::fs::read_to_string(root().join(&source.path)).expect("a text");
        let ends = ["\"BEGIN\"", "\"COMMIT\"", "\"ROLLBACK", "\"SAVEPOINT"];
        let is_raw = |line: &str| line.contains("raw_sql(") && !ends.iter().any(|end| line.contains(end));
        let lines = text.lines().filter(|line| line.contains("sqlx::query") || is_raw(line));
        if !is_of_one(&source.path) {
            found.extend(lines.map(|line| format!("{}: {}", source.path.display(), line.trim())));
        }
    }
    assert!(found.is_empty(), "use DatabaseProject:\n{}", found.join("\n"));
}
