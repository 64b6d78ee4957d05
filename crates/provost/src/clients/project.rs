//! The files of the project: `provost.toml`, the harness folder with its ignore rules, and on request a
//! paragraph in `AGENTS.md`.

use super::{Edit, Ground, Wanted};

const CONFIG: &str = include_str!("provost.toml");
const PARAGRAPH: &str = include_str!("agents.md");
/// Files that belong to one worktree or are generated.
const IGNORED: &str = "# provost: of this worktree alone\nactive-plan\nprogress*.md\nprovost-opencode.js\n";

pub(super) fn wanted(ground: &Ground, agents_md: bool) -> Vec<Wanted> {
    let at = |path: &str| ground.workspace.join(path);
    let mut wanted = vec![
        Wanted::new(at("provost.toml"), vec![Edit::Whole(CONFIG.to_owned())]),
        Wanted::new(at(".harness/.gitignore"), vec![Edit::Lines(IGNORED.to_owned())]),
    ];
    if agents_md {
        wanted.push(Wanted::new(at("AGENTS.md"), vec![Edit::Lines(PARAGRAPH.to_owned())]));
    }
    wanted
}
