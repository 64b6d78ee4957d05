//! Finds paths that a check names and that exist on this machine, but that the check cannot see.
//!
//! It searches the text of the contract and the scripts that the contract names, as they are in the tree of
//! the check.

use std::path::Path;

use provost_core::language::shell::{self, OuterPath};
use provost_core::model::verdict::Isolation;

use super::{CheckSpec, ExecEnv, gone, view};
use crate::check::judge::CheckTools;
use crate::check::visible_paths::VisiblePaths;
use crate::config::Folders;
use crate::tree::{Base, Layer};

/// Longest script that is searched, in bytes.
const SCRIPT_MAX: usize = 256 * 1024;
/// The files that `make` reads.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];
/// File name endings of other languages.
const CODE: [&str; 7] = [".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl"];

impl ExecEnv {
    /// Returns the reason why the check cannot be believed, if it names a path that it cannot see.
    pub(super) fn out_of_sight(&self, case: &CheckSpec<'_>, base: &Base, layer: &Layer) -> Option<String> {
        // At other levels it sees the whole machine, but from another folder and with another home.
        let sees_all = !matches!(self.level, Isolation::Clean | Isolation::Landlock);
        let nothing = Folders::default();
        let sight = VisiblePaths::of_checks(&self.tools, case.given.folders.unwrap_or(&nothing));
        // Landlock lets every check read this.
        let sight = if self.level == Isolation::Landlock { sight.also("/opt") } else { sight };
        let first = |paths: Vec<OuterPath>| {
            let mut paths = paths.iter().filter(|path| !sees_all || !path.path.starts_with('/'));
            paths.find_map(|path| Some((path.path.clone(), sight.hides(path)?)))
        };
        let command = &case.shell.command;
        if let Some((path, place)) = first(shell::outer_paths(command)) {
            return Some(told("it", &path, &place, sees_all));
        }
        let deleted = gone(base, layer);
        let view = view(base, layer, &deleted);
        let script = shell::read(command);
        let mut names = shell::files(command, &script);
        if shell::tools(command, &script).iter().any(|tool| tool.name == "make") {
            names.extend(MAKEFILES.map(str::to_owned));
        }
        names.iter().find_map(|name| {
            let text = view.read(name).filter(|bytes| bytes.len() <= SCRIPT_MAX)?;
            let (path, place) = first(named_in(name, std::str::from_utf8(&text).ok()?))?;
            Some(told(&format!("{name}, which it runs,"), &path, &place, sees_all))
        })
    }
}

/// Explains a broken contract that names a path in the user's home, since a check has its own home.
pub(super) fn left_at_home(command: &str, tools: &CheckTools) -> Option<String> {
    let sight = VisiblePaths::of_checks(tools, &Folders::default());
    let mut paths = shell::outer_paths(command).into_iter().filter(|path| path.path.starts_with("~/"));
    let (path, place) = paths.find_map(|path| {
        let place = sight.hides(&OuterPath { looked_at: true, ..path.clone() })?;
        Some((path.path, place))
    })?;
    let place = place.display();
    Some(format!(
        "a check cannot use {path}, because it has its own home: put the program on PATH, or name it \
         {place} and add read = [\"{place}\"] under [verify] in provost.toml"
    ))
}

/// Returns the paths that a script names; none if the file is not a script.
fn named_in(name: &str, text: &str) -> Vec<OuterPath> {
    let first = text.lines().next().unwrap_or("");
    let is_shell = name.ends_with(".sh") || name.ends_with(".bash");
    if is_shell || first.starts_with("#!") && first.contains("sh") {
        return shell::outer_paths(text);
    }
    if MAKEFILES.contains(&name) {
        let recipes = text.lines().filter_map(|line| line.strip_prefix('\t'));
        let recipes: Vec<&str> = recipes.map(|line| line.trim_start_matches(['@', '-', '+'])).collect();
        return shell::outer_paths(&recipes.join("\n"));
    }
    match CODE.iter().any(|end| name.ends_with(end)) || first.starts_with("#!") {
        true => shell::outer_paths_in_code(text),
        false => Vec::new(),
    }
}

fn told(who: &str, path: &str, place: &Path, sees_all: bool) -> String {
    let place = place.display();
    if sees_all {
        return format!("{who} names {path}, but a check has its own folder and home; name it {place}");
    }
    format!(
        "{who} names {path}, which exists on this machine, but a check cannot see it; add read = \
         [\"{place}\"] under [verify] in provost.toml, or use a path of the workspace"
    )
}
