//! Finds files and folders of the workspace by name; skips what git ignores.

use std::path::Path;

use ignore::gitignore::GitignoreBuilder;
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::Workspace;
use super::search::walk;
use super::{Tool, ToolAnswer};

const NAMES: usize = 200;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Find {
    /// Glob such as `*.rs`, `*config*` or `src/**/test_*.py`. Without a slash, it is compared with names in every folder.
    pattern: String,
    /// Folder to look in. Default: the workspace.
    #[serde(default)]
    path: String,
    /// How many names to skip, to read on in a long result.
    #[serde(default)]
    skip: usize,
}

pub fn tool(workspace: &Workspace) -> Tool {
    let workspace = workspace.clone();
    let run = move |ask: Find| {
        let workspace = workspace.clone();
        async move {
            // A large tree takes a while; the loop can be stopped meanwhile.
            let found = tokio::task::spawn_blocking(move || find(&workspace, &ask)).await;
            found.unwrap_or_else(|error| Err(format!("the search failed: {error}")))
        }
    };
    let description = "Finds files and folders by name; folders end with `/`. Files that git ignores are left out. To find \
                       text in files use search.";
    Tool::new("find", description, run).reading_only()
}

fn find(workspace: &Workspace, ask: &Find) -> ToolAnswer {
    let pattern = ask.pattern.trim();
    if pattern.is_empty() {
        return Err("the pattern is empty; `*` finds everything".to_owned());
    }
    let place = workspace.place(if ask.path.is_empty() { "." } else { &ask.path })?;
    if !place.is_dir() {
        return Err(format!("`{}` is not a folder; use list or find to see what is there", ask.path));
    }
    let mut wanted = GitignoreBuilder::new(&place);
    // A negated pattern of this kind would find nothing.
    let pattern = pattern.trim_start_matches('!');
    let built = wanted.add_line(None, pattern).and_then(|wanted| wanted.build());
    let wanted = built.map_err(|error| format!("the pattern cannot be read: {error}"))?;
    let is_dir = |entry: &ignore::DirEntry| entry.file_type().is_some_and(|kind| kind.is_dir());
    let is_wanted = |path: &Path, is_dir: bool| path != place && wanted.matched(path, is_dir).is_ignore();
    let found = walk(&place).build().flatten().filter(|entry| is_wanted(entry.path(), is_dir(entry)));
    let mut names: Vec<String> = found
        .skip(ask.skip)
        .take(NAMES + 1)
        .map(|entry| format!("{}{}", workspace.shown(entry.path()), if is_dir(&entry) { "/" } else { "" }))
        .collect();
    if names.is_empty() {
        let hint = if pattern.contains('*') { "" } else { "; `*` matches any text, as in `*name*`" };
        return Ok(format!("no name matches{hint}"));
    }
    if names.len() > NAMES {
        names[NAMES] = format!("[more; read on with skip = {}, or look more narrowly]", ask.skip + NAMES);
    }
    Ok(names.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_every_folder_and_ignored_ones_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        for name in ["src/a.rs", "src/deep/b.rs", "target/c.rs", "d.log", "many/x", "my_config.toml"] {
            std::fs::create_dir_all(at.join(name).parent().expect("a folder")).expect("a folder");
            std::fs::write(at.join(name), "").expect("a file");
        }
        std::fs::write(at.join(".gitignore"), "target/\n*.log\n").expect("a file");
        let workspace = Workspace::new(at).expect("a workspace");
        let ask = |pattern: &str, path: &str, skip| {
            let ask = Find { pattern: pattern.to_owned(), path: path.to_owned(), skip };
            find(&workspace, &ask).unwrap_or_else(|error| format!("error: {error}"))
        };
        assert_eq!(ask("*.rs", "", 0), "src/a.rs\nsrc/deep/b.rs");
        assert_eq!(ask("*.rs", "src/deep", 0), "src/deep/b.rs");
        assert_eq!(ask("src/*.rs", "", 0), "src/a.rs");
        assert_eq!(ask("deep", "", 0), "src/deep/");
        assert_eq!(ask("*config*", "", 0), "my_config.toml");
        assert_eq!(ask("*.log", "", 0), "no name matches");
        assert!(ask("config", "", 0).contains("as in `*name*`"));
        assert_eq!(ask("*.rs", "", 1), "src/deep/b.rs");
        assert!(ask("*", "../", 0).contains("outside of the workspace"));
        (0..NAMES).for_each(|name| std::fs::write(at.join(format!("many/{name}.n")), "").expect("a file"));
        std::fs::write(at.join("many/last.n"), "").expect("a file");
        let long = ask("*.n", "", 0);
        assert_eq!(long.lines().count(), NAMES + 1);
        assert!(long.ends_with("[more; read on with skip = 200, or look more narrowly]"), "{long}");
        assert_eq!(ask("*.n", "", NAMES).lines().count(), 1);
    }
}
