//! Reads the topics that an agent wrote, from a folder that the agent can write.
//!
//! **Invariant:** no link is followed, and no more is read than a post may have.

use std::io::Read as _;

use provost_core::model::event::TopicPost;
use rustix::fs::FileType;

use crate::agent::{AttemptReport, Outbox};
use crate::files::safe_open;

/// Longest post, in bytes.
const POST_MAX: u64 = 32 * 1024;

/// Collects the posts and adds a note for each that cannot be read. Call it when no process of the attempt
/// is alive.
pub fn collect(outbox: Outbox<'_>, attempt: &mut AttemptReport) {
    for topic in outbox.topics {
        match post(outbox, topic) {
            Ok(None) => {}
            Ok(Some(text)) => attempt.published.push(TopicPost { topic: topic.clone(), text }),
            Err(why) => attempt.notes.push(format!("not published to {topic}: {why}")),
        }
    }
}

fn post(outbox: Outbox<'_>, topic: &str) -> Result<Option<String>, String> {
    let told = |errno: rustix::io::Errno| std::io::Error::from(errno).to_string();
    let folder = safe_open::top(outbox.folder).map_err(told)?;
    let file = match safe_open::file(&folder, format!("{topic}.md").as_bytes()) {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        opened => opened.map_err(told)?,
    };
    if safe_open::stamp(&file).map_err(told)?.kind() != FileType::RegularFile {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(POST_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > POST_MAX {
        return Err(format!("it is longer than {POST_MAX} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{POST_MAX, collect};
    use crate::agent::{AttemptReport, Outbox};

    #[test]
    fn what_was_posted_is_taken_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.md"), " found it\n").expect("written");
        fs::write(at("other.md"), "not declared").expect("written");
        fs::write(at("long.md"), "x".repeat(POST_MAX as usize + 1)).expect("written");
        symlink("/etc/hostname", at("link.md")).expect("linked");
        let topics = ["a", "long", "link", "absent"].map(str::to_owned);
        let mut attempt = AttemptReport::not_started(&std::fmt::Error);
        collect(Outbox { folder: folder.path(), topics: &topics, item: None }, &mut attempt);
        let posts: Vec<_> =
            attempt.published.iter().map(|post| (post.topic.as_str(), post.text.as_str())).collect();
        assert_eq!(posts, [("a", "found it")]);
        assert_eq!(attempt.notes.len(), 2, "{:?}", attempt.notes);
    }
}
