//! Runs the tutorial as a reader would, builds the manual as a site, and compares the pictures.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};
use tempfile::TempDir;

use crate::docs::{page, parser, root};
use crate::env::{Answer, Env, answer, plan, works};

/// A fenced block with the paragraph above it.
struct Block {
    above: String,
    kind: String,
    text: String,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let (mut above, mut open) = (String::new(), false);
    for event in parser(text) {
        match event {
            Event::Start(Tag::Paragraph | Tag::Heading { .. }) => above.clear(),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) => {
                let above = std::mem::take(&mut above);
                found.push(Block { above, kind: kind.to_string(), text: String::new() });
                open = true;
            }
            Event::End(TagEnd::CodeBlock) => open = false,
            Event::Text(words) if open => found.last_mut().expect("a block").text.push_str(&words),
            Event::Text(words) => above.push_str(&words),
            Event::Code(words) => above.push_str(&format!("`{words}`")),
            _ => {}
        }
    }
    found
}

impl Block {
    /// The file that the page says to write: "Write this to `PLAN.md`:".
    fn file(&self) -> Option<&str> {
        let (_, rest) = self.above.split_once("Write ")?;
        let (_, name) = rest.split_once(" to `")?;
        name.split_once('`').map(|(name, _)| name)
    }

    /// The commands after `$`, each with the lines that the page shows below it.
    fn commands(&self) -> Vec<(String, Vec<String>)> {
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for line in self.text.lines() {
            match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(command), _) => found.push((command.to_owned(), Vec::new())),
                (None, Some((_, shown))) => shown.push(line.to_owned()),
                (None, None) => panic!("output without a command: {line}"),
            }
        }
        found
    }
}

/// A person with an empty home, who types what the page says.
struct Reader {
    folder: TempDir,
    place: PathBuf,
}

impl Reader {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().to_owned();
        Self { folder, place }
    }

    fn writes(&self, name: &str, text: &str) {
        let path = self.place.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// Types a command at a terminal, then an answer to its question.
    fn types(&mut self, line: &str, reply: &str) -> Answer {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_provost"));
        let bin = program.parent().expect("a folder").display().to_string();
        let now_in = self.folder.path().join("now-in");
        let shell = format!("{line}\ncode=$?; pwd > '{}'; exit $code", now_in.display());
        let typed = self.folder.path().join("typed.sh");
        std::fs::write(&typed, shell).expect("a script");
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command"]);
        script.arg(format!("bash '{}'", typed.display())).arg("/dev/null");
        script.env_clear().current_dir(&self.place).env("HOME", self.folder.path());
        script.env("PATH", format!("{bin}:{}", std::env::var("PATH").unwrap_or_default()));
        script.env("USER", "ada").env("TERM", "dumb").env("NO_COLOR", "1");
        script.env("PAGER", "cat").env("GIT_PAGER", "cat");
        for name in ["AUTHOR", "COMMITTER"] {
            script.env(format!("GIT_{name}_NAME"), "Ada").env(format!("GIT_{name}_EMAIL"), "ada@localhost");
        }
        let mut child =
            script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script (bsdutils)");
        child.stdin.take().expect("a terminal").write_all(reply.as_bytes()).expect("typed");
        let answer = answer(child.wait_with_output().expect("said"));
        self.place = std::fs::read_to_string(&now_in).expect("a place").trim().into();
        answer
    }
}

/// Returns the first part of `shown` that the output lacks. `…` matches any text.
fn missing<'a>(shown: &'a str, output: &str) -> Option<&'a str> {
    let mut rest = output;
    for part in shown.lines().flat_map(|line| line.split('…')).map(str::trim).filter(|part| !part.is_empty())
    {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return Some(part),
        }
    }
    None
}

#[test]
fn every_command_of_the_tutorial_does_what_the_page_shows() {
    let env = Env::new(&plan(&["true"], "abort"));
    if !env.has_fences() {
        return;
    }
    let mut reader = Reader::new();
    let home = reader.folder.path().join("home");
    std::fs::create_dir(&home).expect("a folder");
    reader.place = home;
    let mut output = String::new();
    let (mut files, mut commands) = (0, 0);
    for block in blocks(&page("docs/first-plan.md").text) {
        match (block.kind.as_str(), block.file()) {
            ("console", _) => {
                for (line, mut shown) in block.commands() {
                    // The page shows the question of the gate with the answer of the reader.
                    let last = shown.last_mut();
                    let reply = match last.and_then(|line| line.strip_suffix("> yes").map(str::to_owned)) {
                        Some(question) => {
                            *shown.last_mut().expect("a line") = question;
                            "yes\n"
                        }
                        None => "",
                    };
                    let said = reader.types(&line, reply).exits(0);
                    let shown = shown.join("\n");
                    assert_eq!(missing(&shown, &said.out), None, "{line}: {}", said.out);
                    output = said.out;
                    commands += 1;
                }
            }
            ("text", _) => assert_eq!(missing(&block.text, &output), None, "{output}"),
            (_, Some(name)) => {
                reader.writes(name, &block.text);
                files += 1;
            }
            // The agent of the reader.
            (_, None) => assert!(block.above.contains("For Claude Code:"), "{}", block.above),
        }
    }
    assert_eq!((files, commands), (5, 12));
}

#[test]
fn a_line_that_the_output_lacks_is_found() {
    assert_eq!(missing("one … three\n…\nfour", "one two three\nmore\nfour"), None);
    assert_eq!(missing("three … one", "one two three"), Some("one"));
}

#[test]
fn the_manual_builds_as_a_site_that_can_be_searched() {
    if !works("mdbook", "cargo install mdbook") {
        return;
    }
    let site = tempfile::tempdir().expect("a folder");
    let mut mdbook = Command::new("mdbook");
    mdbook.arg("build").arg(root().join("docs")).arg("--dest-dir").arg(site.path());
    let built = answer(mdbook.output().expect("mdbook")).exits(0);
    assert!(!built.err.contains("WARN") && !built.err.contains("ERROR"), "{}", built.err);
    let names: Vec<String> = std::fs::read_dir(site.path())
        .expect("a site")
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    for page in ["index.html", "first-plan.html", "cookbook.html", "trust.html"] {
        assert!(names.iter().any(|name| name == page), "no {page} in {names:?}");
    }
    assert!(names.iter().any(|name| name.starts_with("searchindex")), "{names:?}");
    assert!(site.path().join("pictures/demo.svg").exists());
}

#[test]
fn the_pictures_show_what_the_program_prints_today() {
    let env = Env::new(&plan(&["true"], "abort"));
    if !env.has_fences() || !works("python3", "apt-get install python3") {
        return;
    }
    let mut script = Command::new("python3");
    script.arg(root().join("docs/make-pictures")).arg("--check");
    script.env("PROVOST", env!("CARGO_BIN_EXE_provost"));
    let checked = answer(script.output().expect("python3"));
    assert_eq!(checked.code, 0, "run docs/make-pictures: {}{}", checked.out, checked.err);
}
