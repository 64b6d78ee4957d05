//! Asks git about the repository of a project: where its hooks are, what it tracks, what it ignores.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use provost_core::text::hook_protocol::HookClient;

use super::set_up_client::SetUpClient;
use super::{Edit, Finding, Ground, OWN_KEY, Wanted, finding};

/// Variables that would make git answer for another repository.
const OTHER: [&str; 4] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"];
/// Comment above the files that git does not show.
const MARK: &str =
    "# provost: files with a path of this machine; `provost init --program provost` writes others";

impl Ground {
    fn git(&self, words: &[&str]) -> Option<String> {
        let mut git = Command::new("git");
        git.env_clear().envs(self.environment.iter().cloned()).current_dir(&self.workspace);
        for name in OTHER {
            git.env_remove(name);
        }
        let output = git.args(words).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let said = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| said.trim_end_matches('\n').to_owned())
    }

    fn git_path(&self, name: &str) -> Option<PathBuf> {
        self.git(&["rev-parse", "--path-format=absolute", "--git-path", name]).map(PathBuf::from)
    }

    /// Returns the folder where git looks for the hooks of this repository; or why there is none.
    pub(super) fn hooks_folder(&self) -> Result<PathBuf, String> {
        let folder = self.git_path("hooks").ok_or("this is no git repository")?;
        let scope = self.git(&["config", "--show-scope", "--get", "core.hooksPath"]);
        let is_shared =
            scope.is_some_and(|scope| !scope.starts_with("local") && !scope.starts_with("worktree"));
        if is_shared {
            let hook = self.hook(HookClient::GitPrePush);
            return Err(format!(
                "core.hooksPath of your git configuration is {}, for every repository; add `{hook}` to its \
                 pre-push by hand",
                folder.display()
            ));
        }
        // husky makes its own folder anew; the person's hooks are in the one above it.
        Ok(if folder.ends_with(".husky/_") { folder.parent().unwrap_or(&folder).to_owned() } else { folder })
    }

    /// Returns the rules that keep files with a path of this machine out of commits.
    pub(crate) fn exclusion(&self, files: &[PathBuf]) -> Option<Wanted> {
        let path = self.git_path("info/exclude")?;
        let prefix = self.git(&["rev-parse", "--show-prefix"])?;
        let inside = files.iter().filter_map(|file| file.strip_prefix(&self.workspace).ok());
        let rules: Vec<String> = inside.map(|file| format!("/{prefix}{}\n", file.display())).collect();
        let text = if rules.is_empty() { String::new() } else { format!("{MARK}\n{}", rules.concat()) };
        Some(Wanted::new(path, vec![Edit::Rules(text)]))
    }

    /// Returns which of these files git tracks.
    pub(crate) fn tracked(&self, files: &[PathBuf]) -> Vec<PathBuf> {
        self.listed(&["ls-files", "-z", "--"], files)
    }

    fn listed(&self, words: &[&str], files: &[PathBuf]) -> Vec<PathBuf> {
        let inside = files.iter().filter_map(|file| file.strip_prefix(&self.workspace).ok()?.to_str());
        let inside: Vec<&str> = inside.collect();
        if self.user || inside.is_empty() {
            return Vec::new();
        }
        let listed = self.git(&[words, &inside].concat()).unwrap_or_default();
        listed.split('\0').filter(|name| !name.is_empty()).map(|name| self.workspace.join(name)).collect()
    }

    /// Returns why a clone of this repository would not be gated as this checkout is.
    pub(super) fn half_committed(&self, client: SetUpClient) -> Vec<Finding> {
        let files: Vec<PathBuf> = self.wanted(client).into_iter().map(|wanted| wanted.path).collect();
        let call = format!(" hook {}", client.word());
        let with = |words: &[&str]| {
            let patterns: Vec<&str> = words.iter().flat_map(|word| ["-e", *word]).collect();
            self.listed(&[&["grep", "--cached", "-l", "-z", "-F"], &patterns[..], &["--"]].concat(), &files)
        };
        let committed = with(&[OWN_KEY, &call]);
        let Some(first) = committed.first() else { return Vec::new() };
        let name = |file: &Path| file.strip_prefix(&self.workspace).unwrap_or(file).display().to_string();
        let mut findings = Vec::new();
        let missing: Vec<String> =
            files.iter().filter(|file| !committed.contains(file)).map(|file| name(file)).collect();
        if !missing.is_empty() {
            findings.push(finding(
                format!("{} is committed without {}: a clone is not gated", name(first), missing.join(", ")),
                "Commit all of them with `provost init --program provost`, or none.",
            ));
        }
        if self.is_private() && with(&[&self.program]).contains(first) {
            findings.push(finding(
                format!("{} is committed with a path of this machine: a clone is not gated", name(first)),
                "Run `provost init --program provost`, then commit the files.",
            ));
        }
        findings
    }
}
