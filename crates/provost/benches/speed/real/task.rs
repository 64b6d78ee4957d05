//! Tasks of `benches/real`: a repository before the work, the work, and the check, in one file each.
//!
//! A file begins with TOML (title, language, needed programs, `touches`, check, task). After that, each line
//! `-- before/PATH --` or `-- solution/PATH --` begins the text of a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// What the head of the file says.
#[derive(Deserialize)]
pub(crate) struct Head {
    pub title: String,
    pub language: String,
    /// Programs that must be on `PATH`.
    pub needs: Vec<String>,
    pub touches: Vec<String>,
    pub check: String,
    pub task: String,
}

pub(crate) struct Task {
    pub name: String,
    pub head: Head,
    /// Files by path; those of the solution replace those from before.
    before: Vec<(String, String)>,
    solution: Vec<(String, String)>,
}

/// Returns all tasks, by name.
pub(crate) fn all() -> Vec<Task> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/real");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("the tasks").flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "task"));
    paths.sort();
    paths.iter().map(|path| Task::read(path)).collect()
}

impl Task {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a task");
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self::parse(name, &text)
    }

    pub(crate) fn parse(name: String, text: &str) -> Self {
        let (mut head, mut files) = (String::new(), Vec::<(String, String)>::new());
        for line in text.lines() {
            let file = line.strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --"));
            match (file, files.last_mut()) {
                (Some(path), _) => files.push((path.to_owned(), String::new())),
                (None, Some((_, text))) => *text += &format!("{line}\n"),
                (None, None) => head += &format!("{line}\n"),
            }
        }
        let head = toml::from_str(&head).unwrap_or_else(|error| panic!("{name}: {error}"));
        let below = |folder: &str| -> Vec<(String, String)> {
            let inside =
                |(path, text): &(String, String)| Some((path.strip_prefix(folder)?.to_owned(), text.clone()));
            files.iter().filter_map(inside).collect()
        };
        let (before, solution) = (below("before/"), below("solution/"));
        assert!(before.len() + solution.len() == files.len(), "{name}: a file is in neither folder");
        Self { name, head, before, solution }
    }

    /// Returns the programs that are not installed.
    pub(crate) fn missing(&self) -> Vec<&str> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
        self.head.needs.iter().map(String::as_str).filter(|name| !is_there(name)).collect()
    }

    /// Writes the repository before the work, with a plan and a configuration, and commits it.
    pub(crate) fn write_repository(&self, at: &Path, agent: &[String]) {
        write(at, &self.before);
        let files = [("PLAN.md".to_owned(), self.plan()), ("provost.toml".to_owned(), configuration(agent))];
        write(at, &files);
        let commit = "git init -q && git add -A && \
                      git -c user.name=bench -c user.email=bench@localhost -c gc.auto=0 \
                      -c commit.gpgsign=false commit -qm start";
        let made = Command::new("sh").args(["-c", commit]).current_dir(at).status();
        assert!(made.is_ok_and(|status| status.success()), "a repository for {}", self.name);
    }

    /// Writes what the agent copies over the repository.
    pub(crate) fn write_solution(&self, at: &Path) {
        write(at, &self.solution);
    }

    fn plan(&self) -> String {
        let Head { title, touches, check, task, .. } = &self.head;
        format!(
            "---\ntype: plan\nstatus: draft\nowner: bench\ntouches: {touches:?}\n---\n\n# {title}\n\n## Steps\n\n\
             ### 1. {title}\n\n**target:** coder\n\n**task:**\n{task}\n\n**contract:**\n```shell\n{check}\n```\n\
             exit_code == 0\n**on_fail:** escalate\n"
        )
    }
}

fn configuration(agent: &[String]) -> String {
    format!("[agents.coder]\ndriver = \"command\"\ncommand = {agent:?}\n\n[verify]\nisolation = \"clean\"\n")
}

fn write(at: &Path, files: &[(String, String)]) {
    for (path, text) in files {
        let path = at.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
}

/// Returns the command of an agent that copies a solution over its workspace, after a pause.
pub(crate) fn agent(solution: &Path, pause_seconds: u32) -> Vec<String> {
    let copy = format!("cp -R {}/. .", solution.display());
    match pause_seconds {
        0 => ["cp", "-R", &format!("{}/.", solution.display()), "."].map(str::to_owned).to_vec(),
        seconds => vec!["sh".to_owned(), "-c".to_owned(), format!("sleep {seconds} && {copy}")],
    }
}
