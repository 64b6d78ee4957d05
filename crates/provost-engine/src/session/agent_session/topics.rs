//! Topics: notes that steps and sessions share.
//!
//! A person writes a topic as a small Markdown file beside the plans; a session never writes there. What a
//! session publishes is kept in the state folder until its step has passed, and is then in the log with the
//! attempt.
//!
//! **Invariant:** a session publishes only to the topics its step declares, and the posts are readable only
//! after the step has passed.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use provost_core::model::chain::PlanId;
use provost_core::model::event::TopicPost;
use provost_core::model::plan::StepNumber;
use provost_core::rules::session_work;
use provost_core::state::run::Run;
use provost_host::files;
use provost_host::files::Put;
use provost_host::plans::{plan_file, trust};

use super::{AgentSessions, Answer, SessionRefusal};
use crate::Error;
use crate::plan::plan_registry::Here;
use crate::plan::sessions::ClientSession;

const FOLDER: &str = "topics";
/// Folder in the state folder for posts of steps that have not passed.
const POSTS: &str = "posts";
/// Maximum size in a prompt.
const MOST: usize = 64 * 1024;
/// Maximum size that an attempt may publish to one topic.
const POST_MAX: usize = 32 * 1024;

impl AgentSessions {
    /// Returns what a person wrote to a topic, followed by the posts of passed steps.
    pub fn topic(&self, session: &ClientSession, name: &str) -> Answer<String> {
        let path = self.topic_file(name)?;
        trust::check(&path).map_err(|untrusted| Error::PlanFile(untrusted.into()))?;
        let run = self.show(session).ok().map(|shown| shown.run);
        let posts = run.iter().flat_map(|run| run.posts(name));
        let posts: Vec<String> = posts.map(|(step, text)| format!("From step {step}:\n\n{text}")).collect();
        match files::beginning(Here::of(&self.settings.cwd).workspace(), &path, MOST) {
            Ok(text) if posts.is_empty() => Ok(text),
            Ok(text) => Ok(format!("{}\n\n{}", text.trim_end(), posts.join("\n\n"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && posts.is_empty() => {
                Err(SessionRefusal::NoSuchTopic { name: name.to_owned(), topics: self.topics(session) })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(posts.join("\n\n")),
            Err(source) => Err(Error::Io { what: "read", path, source }.into()),
        }
    }

    /// Adds to a topic that the current step declares, and returns the length of the post.
    pub fn publish(&self, session: &ClientSession, name: &str, text: &str) -> Answer<u64> {
        if !is_name(name) {
            return Err(SessionRefusal::BadTopic { name: name.to_owned() });
        }
        let text = text.trim();
        if text.is_empty() {
            return Err(SessionRefusal::NothingToPublish);
        }
        if self.attempt.is_some() {
            return Err(SessionRefusal::InsideAttempt);
        }
        let (harness, run) = self.to_write(session)?;
        // The running step; after a failed check, the one to continue with.
        let begun = run.plan.steps.iter().find(|step| session_work::is_running(&run, step.number));
        let next = || run.under_way().chain(run.ready()).next().and_then(|number| run.plan.step(number));
        let step = begun.or_else(next).ok_or(SessionRefusal::NoStepToPublish)?;
        if !step.publishes.iter().any(|topic| topic.value == name) {
            let declared = step.publishes.iter().map(|topic| topic.value.clone()).collect();
            return Err(SessionRefusal::NotDeclared { name: name.to_owned(), step: step.number, declared });
        }
        let folder = self.posts_folder(harness.id(), step.number);
        let path = folder.join(format!("{name}.md"));
        let io = |what: &'static str| {
            let path = path.clone();
            move |source| SessionRefusal::from(Error::Io { what, path, source })
        };
        let length = path.metadata().map_or(0, |known| known.len());
        let gap = if length > 0 { "\n" } else { "" };
        let added = format!("{gap}{}\n", harness.redactor().text(text));
        if length + added.len() as u64 > POST_MAX as u64 {
            return Err(SessionRefusal::TopicFull { most: POST_MAX });
        }
        fs::create_dir_all(&folder).map_err(io("make the folder of"))?;
        files::write_beneath(&folder, format!("{name}.md").as_ref(), added.as_bytes(), Put::Added)
            .map_err(io("write"))?;
        Ok(length + added.len() as u64)
    }

    /// Returns what the session published during a step, to be recorded with its attempt.
    pub(super) fn posts(&self, plan: &PlanId, run: &Run, step: StepNumber) -> Vec<TopicPost> {
        let folder = self.posts_folder(plan, step);
        let declared = run.plan.step(step).into_iter().flat_map(|step| &step.publishes);
        let post = |topic: &String| {
            let text = files::beginning(&folder, format!("{topic}.md").as_ref(), POST_MAX).ok()?;
            Some(TopicPost { topic: topic.clone(), text: text.trim().to_owned() })
        };
        declared.filter_map(|topic| post(&topic.value)).collect()
    }

    /// Deletes the posts of a settled step: they are in the log, or no longer needed.
    pub(super) fn forget_posts(&self, plan: &PlanId, step: StepNumber) {
        let _ = fs::remove_dir_all(self.posts_folder(plan, step));
    }

    /// Returns the names of all topics that have content.
    pub fn topics(&self, session: &ClientSession) -> Vec<String> {
        let entries = fs::read_dir(self.topic_folder()).into_iter().flatten().flatten();
        let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(".md")?.to_owned());
        let mut names: BTreeSet<String> = entries.filter_map(name).filter(|name| is_name(name)).collect();
        if let Ok(shown) = self.show(session) {
            let declared = shown.run.plan.steps.iter().flat_map(|step| &step.publishes);
            let written = declared.filter(|topic| shown.run.posts(&topic.value).next().is_some());
            names.extend(written.map(|topic| topic.value.clone()));
        }
        names.into_iter().collect()
    }

    fn topic_file(&self, name: &str) -> Answer<PathBuf> {
        if !is_name(name) {
            return Err(SessionRefusal::BadTopic { name: name.to_owned() });
        }
        Ok(self.topic_folder().join(format!("{name}.md")))
    }

    fn topic_folder(&self) -> PathBuf {
        Here::of(&self.settings.cwd).workspace().join(plan_file::FOLDER).join(FOLDER)
    }

    fn posts_folder(&self, plan: &PlanId, step: StepNumber) -> PathBuf {
        self.settings.state_folder().join(POSTS).join(&plan.0).join(step.to_string())
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte))
}
