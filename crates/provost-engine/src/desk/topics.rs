//! Topics: what steps and sessions tell each other, a small Markdown file each beside the plans.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use provost_host::files;
use provost_host::plan_file;

use super::{Answer, Desk, Refused};
use crate::Error;
use crate::places::Here;

const FOLDER: &str = "topics";
/// What fits into a prompt.
const MOST: usize = 64 * 1024;

impl Desk {
    pub fn topic(&self, name: &str) -> Answer<String> {
        let path = self.topic_file(name)?;
        match files::beginning(&path, MOST) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Refused::NoSuchTopic { name: name.to_owned(), topics: self.topics() })
            }
            Err(source) => Err(Error::Io { what: "read", path, source }.into()),
        }
    }

    /// Adds to a topic, and says how long it is now.
    pub fn publish(&self, name: &str, text: &str) -> Answer<u64> {
        let path = self.topic_file(name)?;
        let text = text.trim();
        if text.is_empty() {
            return Err(Refused::NothingToPublish);
        }
        let io = |what: &'static str| {
            let path = path.clone();
            move |source| Refused::from(Error::Io { what, path, source })
        };
        let length = path.metadata().map_or(0, |known| known.len());
        if length + text.len() as u64 + 2 > MOST as u64 {
            return Err(Refused::TopicFull { most: MOST });
        }
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(io("make the folder of"))?;
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(io("open"))?;
        let gap = if length > 0 { "\n" } else { "" };
        file.write_all(format!("{gap}{text}\n").as_bytes()).map_err(io("write"))?;
        Ok(length + text.len() as u64 + 1)
    }

    /// The names of all topics.
    pub fn topics(&self) -> Vec<String> {
        let entries = fs::read_dir(self.topic_folder()).into_iter().flatten().flatten();
        let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(".md")?.to_owned());
        let mut names: Vec<String> = entries.filter_map(name).filter(|name| is_name(name)).collect();
        names.sort();
        names
    }

    fn topic_file(&self, name: &str) -> Answer<PathBuf> {
        if !is_name(name) {
            return Err(Refused::BadTopic { name: name.to_owned() });
        }
        Ok(self.topic_folder().join(format!("{name}.md")))
    }

    fn topic_folder(&self) -> PathBuf {
        Here::of(&self.settings.cwd).workspace().join(plan_file::FOLDER).join(FOLDER)
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte))
}
