//! Topics: text files by which agents pass information to each other.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Tool, ToolAnswer};

/// Maximum size of one publication; topics are for text, not for files.
const PUBLISHED: usize = 32 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TopicRead {
    /// Name of the topic.
    topic: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TopicPublish {
    /// Name of the topic: letters, digits, `-` and `_`.
    topic: String,
    /// What to add to it.
    text: String,
}

/// Returns the tools for topics in `folder`, which need not exist yet.
pub fn tools(folder: &Path) -> Vec<Tool> {
    let (from, to) = (folder.to_owned(), folder.to_owned());
    vec![
        Tool::new("topic_read", "Reads what was published under a topic.", move |ask: TopicRead| {
            std::future::ready(read(&from, &ask.topic))
        })
        .reading_only(),
        Tool::new(
            "topic_publish",
            "Adds a text to a topic, for agents that work after you.",
            move |ask: TopicPublish| std::future::ready(publish(&to, &ask)),
        ),
    ]
}

/// Topics that a step may read and publish to, as provost wrote them for an attempt.
#[derive(Deserialize)]
struct Declared {
    reads: Vec<String>,
    publishes: Vec<String>,
}

/// Returns tools for the topics that the step declares and provost put into `folder`. provost collects what
/// the agent publishes there when the attempt is over.
pub fn declared(folder: &Path) -> Vec<Tool> {
    let index = fs::read(folder.join("item/index.json")).ok();
    let Some(declared) = index.and_then(|text| serde_json::from_slice::<Declared>(&text).ok()) else {
        return Vec::new();
    };
    let mut tools = Vec::new();
    if !declared.reads.is_empty() {
        let (from, names) = (folder.join("item"), declared.reads);
        let read = move |ask: TopicRead| {
            let place = names.iter().position(|name| *name == ask.topic);
            std::future::ready(match place {
                Some(number) => fs::read_to_string(from.join(format!("topic-{number}.md")))
                    .map_err(|_| format!("nothing was published under `{}`", ask.topic)),
                None => {
                    Err(format!("the step does not read `{}`; it reads: {}", ask.topic, names.join(", ")))
                }
            })
        };
        tools.push(Tool::new("topic_read", "Reads what was published under a topic.", read).reading_only());
    }
    if !declared.publishes.is_empty() {
        let (to, names) = (folder.to_owned(), declared.publishes);
        let publish = move |ask: TopicPublish| {
            std::future::ready(match names.contains(&ask.topic) {
                true => publish(&to, &ask),
                false => Err(format!(
                    "the step does not publish `{}`; it may publish: {}",
                    ask.topic,
                    names.join(", ")
                )),
            })
        };
        let what = "Adds a text to a topic, for the steps after this one, once it has passed.";
        tools.push(Tool::new("topic_publish", what, publish));
    }
    tools
}

fn file(folder: &Path, topic: &str) -> Result<PathBuf, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match !topic.is_empty() && topic.len() <= 100 && topic.bytes().all(is_plain) {
        true => Ok(folder.join(format!("{topic}.md"))),
        false => Err(format!("`{topic}` is not the name of a topic; use letters, digits, `-` and `_`")),
    }
}

fn read(folder: &Path, topic: &str) -> ToolAnswer {
    let file = file(folder, topic)?;
    fs::read_to_string(file).map_err(|_| {
        let names = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = names
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".md")?.to_owned()))
            .collect();
        names.sort();
        match names.is_empty() {
            true => format!("nothing was published under `{topic}`, and there are no other topics"),
            false => format!("nothing was published under `{topic}`; the topics are: {}", names.join(", ")),
        }
    })
}

fn publish(folder: &Path, ask: &TopicPublish) -> ToolAnswer {
    let file = file(folder, &ask.topic)?;
    if ask.text.trim().is_empty() {
        return Err("there is nothing to publish; `text` is empty".to_owned());
    }
    if ask.text.len() > PUBLISHED {
        return Err(format!(
            "that is {} bytes, more than the limit of a topic; write a file and publish its name",
            ask.text.len()
        ));
    }
    let failed = |error: std::io::Error| format!("topic `{}` could not be written: {error}", ask.topic);
    fs::create_dir_all(folder).map_err(failed)?;
    let mut open = fs::File::options().create(true).append(true).open(file).map_err(failed)?;
    // One write, so that texts of two agents do not mix.
    open.write_all(format!("{}\n\n", ask.text.trim_end()).as_bytes()).map_err(failed)?;
    Ok(format!("published under `{}`", ask.topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_tools_for_declared_topics_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(declared(folder.path()).is_empty());
        let lay_out = |index: &str| {
            fs::create_dir_all(folder.path().join("item")).expect("made");
            fs::write(folder.path().join("item/index.json"), index).expect("written");
            declared(folder.path()).len()
        };
        assert_eq!(lay_out(r#"{"step":1,"reads":[],"publishes":[]}"#), 0);
        assert_eq!(lay_out(r#"{"step":1,"reads":["a"],"publishes":[]}"#), 1);
        assert_eq!(lay_out(r#"{"step":1,"reads":["a"],"publishes":["b"]}"#), 2);
    }

    #[test]
    fn what_is_published_is_read_and_names_are_plain() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("topics");
        let say = |topic: &str, text: &str| {
            publish(&at, &TopicPublish { topic: topic.to_owned(), text: text.to_owned() })
        };
        assert!(read(&at, "found").expect_err("nothing").contains("no other topics"));
        say("found", "the cause").expect("published");
        say("found", "the fix").expect("published");
        assert_eq!(read(&at, "found").expect("text"), "the cause\n\nthe fix\n\n");
        assert!(read(&at, "fuond").expect_err("nothing").ends_with("the topics are: found"));
        for topic in ["../x", "", "a/b", "a.b"] {
            assert!(say(topic, "x").is_err(), "{topic}");
        }
        assert!(say("found", " ").is_err());
    }
}
