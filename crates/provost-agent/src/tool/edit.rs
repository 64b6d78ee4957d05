//! Tools that change pieces of files: `edit` replaces texts, `apply_patch` applies a patch.
//!
//! **Invariant:** a call makes all of its changes or none. The new contents are made in memory first; if a
//! file cannot be written, those before it get their old content back.

use std::fs;
use std::io;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::files::Workspace;
use super::{Tool, ToolAnswer, patch};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// Path inside the workspace.
    path: String,
    /// Text that is in the file exactly once, whitespace included.
    #[serde(default)]
    old: String,
    /// Text to put in its place.
    #[serde(default)]
    new: String,
    /// Replace every occurrence instead of exactly one.
    #[serde(default)]
    all: bool,
    /// Several replacements in this file, made in this order; instead of `old` and `new`.
    #[serde(default)]
    edits: Vec<Replacement>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Replacement {
    /// Text that is in the file exactly once, whitespace included.
    old: String,
    /// Text to put in its place.
    new: String,
    /// Replace every occurrence instead of exactly one.
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ApplyPatch {
    /// From `*** Begin Patch` to `*** End Patch`.
    patch: String,
}

pub fn tools(workspace: &Workspace) -> Vec<Tool> {
    let (edited, patched) = (workspace.clone(), workspace.clone());
    vec![
        Tool::new(
            "edit",
            "Replaces pieces of a file. `old` must be in it exactly once; take enough lines around it. With \
             `edits`, several replacements are made together, or none of them.",
            move |ask: Edit| std::future::ready(edit(&edited, ask)),
        )
        .editing(),
        Tool::new("apply_patch", include_str!("apply_patch.md"), move |ask: ApplyPatch| {
            std::future::ready(patch::read(&ask.patch).and_then(|files| apply(&patched, &files)))
        })
        .editing(),
    ]
}

fn edit(workspace: &Workspace, ask: Edit) -> ToolAnswer {
    let has_one = !ask.old.is_empty() || !ask.new.is_empty() || ask.all;
    let edits = match (has_one, ask.edits.is_empty()) {
        (true, false) => return Err("use `old` and `new`, or `edits`, not both".to_owned()),
        (_, true) => vec![Replacement { old: ask.old, new: ask.new, all: ask.all }],
        (false, false) => ask.edits,
    };
    let mut text = workspace.text(&ask.path)?;
    let mut replaced = 0;
    for (edit, number) in edits.iter().zip(1..) {
        let (next, found) = replace(&text, edit, &ask.path).map_err(|why| match edits.len() {
            1 => why,
            all => format!("edit {number} of {all}: {why}; nothing was changed"),
        })?;
        (text, replaced) = (next, replaced + found);
    }
    let place = workspace.place(&ask.path)?;
    fs::write(&place, text).map_err(|error| not_written(&ask.path, &error))?;
    Ok(format!("replaced {replaced} in {}", workspace.shown(&place)))
}

fn replace(text: &str, edit: &Replacement, path: &str) -> Result<(String, usize), String> {
    if edit.old.is_empty() {
        return Err("`old` is empty; name the text to replace, or use write_file".to_owned());
    }
    match text.matches(&edit.old).count() {
        0 => Err(format!(
            "`old` is not in {path}; read the file and copy the text exactly, whitespace included"
        )),
        found if found == 1 || edit.all => Ok((text.replace(&edit.old, &edit.new), found)),
        found => Err(format!(
            "`old` occurs {found} times in {path}; take more of the lines around it, or set all = true"
        )),
    }
}

fn not_written(path: &str, error: &io::Error) -> String {
    format!("`{path}` could not be written: {error}")
}

/// A file with its new content; `None` removes it.
struct NewContent {
    path: String,
    place: PathBuf,
    text: Option<String>,
    /// The content before, if the file was there.
    before: Option<Vec<u8>>,
}

impl NewContent {
    fn new(workspace: &Workspace, path: &str, text: Option<String>) -> Result<Self, String> {
        let place = workspace.place(path)?;
        let before = fs::read(&place).ok();
        Ok(Self { path: path.to_owned(), place, text, before })
    }

    fn write(&self) -> io::Result<()> {
        let Some(text) = &self.text else { return fs::remove_file(&self.place) };
        if let Some(folder) = self.place.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&self.place, text)
    }

    fn restore(&self) {
        // The error that is reported is the one that made this necessary.
        let _ = match &self.before {
            Some(bytes) => fs::write(&self.place, bytes),
            None => fs::remove_file(&self.place),
        };
    }
}

fn apply(workspace: &Workspace, files: &[patch::FilePatch]) -> ToolAnswer {
    let mut changes: Vec<NewContent> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    for file in files {
        let found = changed(workspace, file).map_err(|why| format!("{why}; nothing was changed"))?;
        if let Some(twice) = found.iter().find(|new| changes.iter().any(|other| other.place == new.place)) {
            return Err(format!("the patch names `{}` twice; write one section for it", twice.path));
        }
        changes.extend(found);
        lines.push(file.to_string());
    }
    for (at, change) in changes.iter().enumerate() {
        if let Err(error) = change.write() {
            changes[..=at].iter().rev().for_each(NewContent::restore);
            return Err(format!("{}; nothing was changed", not_written(&change.path, &error)));
        }
    }
    Ok(lines.join("\n"))
}

fn changed(workspace: &Workspace, file: &patch::FilePatch) -> Result<Vec<NewContent>, String> {
    let is_there = |path: &str| workspace.place(path).map(|place| fs::symlink_metadata(place).is_ok());
    let path = file.path.as_str();
    match &file.change {
        patch::FileChange::Add(_) if is_there(path)? => {
            Err(format!("`{path}` is there already; use *** Update File"))
        }
        patch::FileChange::Add(text) => Ok(vec![NewContent::new(workspace, path, Some(text.clone()))?]),
        patch::FileChange::Delete => {
            workspace.text(path)?;
            Ok(vec![NewContent::new(workspace, path, None)?])
        }
        patch::FileChange::Update { to, hunks } => {
            let text = patch::applied(&workspace.text(path)?, hunks, path)?;
            let Some(to) = to else { return Ok(vec![NewContent::new(workspace, path, Some(text))?]) };
            if is_there(to)? {
                return Err(format!("`{path}` cannot be moved: `{to}` is there already"));
            }
            Ok(vec![NewContent::new(workspace, to, Some(text))?, NewContent::new(workspace, path, None)?])
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    struct Place {
        folder: tempfile::TempDir,
        tools: Vec<Tool>,
    }

    impl Place {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).expect("a file"));
            let tools = tools(&Workspace::new(folder.path()).expect("a workspace"));
            Self { folder, tools }
        }

        async fn call(&self, name: &str, arguments: Value) -> String {
            let tool = self.tools.iter().find(|tool| tool.spec.name == name).expect("a tool");
            tool.call(arguments).await.unwrap_or_else(|error| format!("error: {error}"))
        }

        async fn patch(&self, text: &str) -> String {
            let patch = format!("*** Begin Patch\n{text}*** End Patch\n");
            self.call("apply_patch", json!({ "patch": patch })).await
        }

        fn text(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.folder.path().join(name)).ok()
        }
    }

    #[tokio::test]
    async fn an_ambiguous_edit_says_how_to_make_it_plain() {
        let place = Place::new(&[("f", "x x")]);
        let twice = place.call("edit", json!({ "path": "f", "old": "x", "new": "y" })).await;
        assert!(twice.contains("2 times") && twice.contains("all = true"), "{twice}");
        let none = place.call("edit", json!({ "path": "f", "old": "z", "new": "y" })).await;
        assert!(none.contains("copy the text exactly"), "{none}");
        assert_eq!(
            place.call("edit", json!({ "path": "f", "old": "x", "new": "y", "all": true })).await,
            "replaced 2 in f"
        );
    }

    #[tokio::test]
    async fn several_edits_are_made_together_or_not_at_all() {
        let place = Place::new(&[("f", "one\ntwo\nthree\n")]);
        let edits = |last: &str| {
            json!({ "path": "f", "edits": [
                { "old": "one", "new": "1" },
                // Finds what the first has written.
                { "old": "1\ntwo", "new": "1\n2" },
                { "old": last, "new": "3" },
            ] })
        };
        let failed = place.call("edit", edits("four")).await;
        assert!(failed.starts_with("error: edit 3 of 3: `old` is not in f"), "{failed}");
        assert!(failed.ends_with("nothing was changed"), "{failed}");
        assert_eq!(place.text("f").as_deref(), Some("one\ntwo\nthree\n"));
        assert_eq!(place.call("edit", edits("three")).await, "replaced 3 in f");
        assert_eq!(place.text("f").as_deref(), Some("1\n2\n3\n"));
        let both = json!({ "path": "f", "old": "1", "new": "2", "edits": [{ "old": "2", "new": "1" }] });
        assert!(place.call("edit", both).await.contains("not both"));
    }

    #[tokio::test]
    async fn a_patch_adds_updates_moves_and_deletes() {
        let place = Place::new(&[("a", "one\ntwo\nthree\n"), ("b", "b\n"), ("c", "old\n")]);
        let done = place
            .patch(
                "*** Add File: sub/new\n+first\n+second\n*** Update File: a\n@@\n one\n-two\n+2\n three\n\
                 *** Delete File: b\n*** Update File: c\n*** Move to: d\n@@\n-old\n+new\n",
            )
            .await;
        assert_eq!(done, "added sub/new\nchanged a\ndeleted b\nmoved c to d");
        assert_eq!(place.text("sub/new").as_deref(), Some("first\nsecond\n"));
        assert_eq!(place.text("a").as_deref(), Some("one\n2\nthree\n"));
        assert_eq!((place.text("b"), place.text("c")), (None, None));
        assert_eq!(place.text("d").as_deref(), Some("new\n"));
    }

    #[tokio::test]
    async fn a_patch_that_fits_in_part_changes_nothing() {
        let place = Place::new(&[("a", "one\n"), ("b", "b\n"), ("file", "f\n")]);
        let update = "*** Update File: a\n@@\n-one\n+1\n";
        let rest = [
            ("*** Update File: b\n@@\n-x\n+y\n", "hunk 1 does not fit `b`"),
            ("*** Add File: b\n+x\n", "is there already; use *** Update File"),
            ("*** Delete File: none\n", "does not exist"),
            ("*** Update File: ../x\n@@\n-x\n", "outside of the workspace"),
            ("*** Update File: b\n*** Move to: a\n@@\n-b\n+c\n", "cannot be moved"),
            // `file` is no folder, so this one can only fail when it is written.
            ("*** Add File: file/new\n+x\n", "could not be written"),
        ];
        for (rest, words) in rest {
            let answer = place.patch(&format!("{update}{rest}")).await;
            assert!(answer.contains(words) && answer.contains("nothing was changed"), "{rest}: {answer}");
            assert_eq!(place.text("a").as_deref(), Some("one\n"), "{rest}");
        }
        let twice = place.patch(&format!("{update}{update}")).await;
        assert!(twice.contains("names `a` twice"), "{twice}");
    }
}
