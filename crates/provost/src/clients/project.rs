//! The files of the project: `provost.toml`, the harness folder with its ignore rules, and on request a
//! paragraph in `AGENTS.md`.

use super::{Edit, Ground, Wanted};

const CONFIG: &str = include_str!("provost.toml");
const PARAGRAPH: &str = include_str!("agents.md");
/// Files that belong to one worktree.
const IGNORED: &str = "# provost: of this worktree alone\nactive-plan\nprogress*.md\n";

/// Returns the files for a first plan: `provost.toml`, or the tables that an existing one lacks, and on
/// request the ignore rules.
pub(super) fn starting(ground: &Ground, config: &str, tables: &[ConfigTable], ignores: bool) -> Vec<Wanted> {
    let path = ground.workspace.join("provost.toml");
    let edits = match path.exists() {
        false => vec![Edit::Template(config.to_owned())],
        true => tables
            .iter()
            .map(|table| {
                let (text, keys) = (table.text.clone(), table.keys.clone());
                Edit::Tables { text, keys, ours: String::new() }
            })
            .collect(),
    };
    let ignored =
        Wanted::new(ground.workspace.join(".harness/.gitignore"), vec![Edit::Rules(IGNORED.to_owned())]);
    std::iter::once(Wanted::new(path, edits)).chain(ignores.then_some(ignored)).collect()
}

/// A table of `provost.toml`.
pub(crate) struct ConfigTable {
    pub keys: Vec<String>,
    pub text: String,
}

pub(super) fn wanted(ground: &Ground, agents_md: bool) -> Vec<Wanted> {
    let at = |path: &str| ground.workspace.join(path);
    let mut wanted = vec![
        Wanted::new(at("provost.toml"), vec![Edit::Template(CONFIG.to_owned())]),
        Wanted::new(at(".harness/.gitignore"), vec![Edit::Rules(IGNORED.to_owned())]),
    ];
    if agents_md {
        wanted.push(Wanted::new(at("AGENTS.md"), vec![Edit::Paragraph(PARAGRAPH.to_owned())]));
    }
    wanted
}
