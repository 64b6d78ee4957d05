//! Recognises what a file is by its path: its language, and whether it is code, a test, a document or
//! configuration.

pub mod scan;

use std::ops::Range;

use self::scan::CodeToken;
use crate::language::test_files;

/// A language whose tokens provost can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceLanguage {
    Rust,
    Python,
    /// JavaScript and TypeScript.
    JavaScript,
    Go,
}

/// The purpose of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    Code,
    Test,
    Document,
    Configuration,
}

impl SourceLanguage {
    pub fn of_path(path: &str) -> Option<Self> {
        match extension(path) {
            "rs" => Some(Self::Rust),
            "py" | "pyi" => Some(Self::Python),
            "js" | "cjs" | "mjs" | "jsx" | "ts" | "cts" | "mts" | "tsx" => Some(Self::JavaScript),
            "go" => Some(Self::Go),
            _ => None,
        }
    }
}

impl FileRole {
    pub fn of_path(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let begins = |names: &[&str]| names.iter().any(|own| name.starts_with(own));
        match extension(path) {
            _ if test_files::is_test(path) => Self::Test,
            "md" | "mdx" | "rst" | "txt" | "adoc" => Self::Document,
            "toml" | "json" | "jsonc" | "yml" | "yaml" | "ini" | "cfg" | "conf" | "lock" | "mod" | "sum"
            | "properties" => Self::Configuration,
            _ if begins(&["LICENSE", "NOTICE", "CHANGELOG", "README", "AUTHORS"]) => Self::Document,
            _ if name.starts_with('.') || test_files::is_oracle(path) => Self::Configuration,
            _ => Self::Code,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Test => "a test",
            Self::Document => "a document",
            Self::Configuration => "configuration",
        }
    }
}

fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Returns the lines of a Rust file, counted from 0, that are compiled for tests only.
pub fn test_lines(text: &str, tokens: &[CodeToken]) -> Vec<Range<usize>> {
    let code: Vec<&CodeToken> = tokens.iter().filter(|token| !token.is_comment()).collect();
    let is = |at: usize, word: &str| code.get(at).is_some_and(|token| token.text(text) == word);
    let mut found = Vec::new();
    for at in 0..code.len() {
        let begins = ["#", "[", "cfg", "(", "test", ")", "]"];
        if !begins.iter().enumerate().all(|(more, word)| is(at + more, word)) {
            continue;
        }
        let mut depth = 0usize;
        for token in &code[at + begins.len()..] {
            match token.text(text) {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                ";" if depth == 0 => {}
                _ => continue,
            }
            if depth == 0 {
                found.push(code[at].line..token.last_line(text) + 1);
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_language_and_a_role_by_its_path() {
        let roles = [
            ("src/calc.py", FileRole::Code),
            ("src/main.rs", FileRole::Code),
            ("web/app.tsx", FileRole::Code),
            ("lib/run.sh", FileRole::Code),
            ("tests/test_calc.py", FileRole::Test),
            ("pkg/calc_test.go", FileRole::Test),
            ("docs/use.md", FileRole::Document),
            ("LICENSE", FileRole::Document),
            ("Cargo.toml", FileRole::Configuration),
            ("Makefile", FileRole::Configuration),
            (".gitignore", FileRole::Configuration),
        ];
        for (path, role) in roles {
            assert_eq!(FileRole::of_path(path), role, "{path}");
        }
        assert_eq!(SourceLanguage::of_path("a/b.mts"), Some(SourceLanguage::JavaScript));
        assert_eq!(SourceLanguage::of_path("a.py/b"), None);
    }

    #[test]
    fn the_test_module_of_a_rust_file_is_found() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn t() { \"}\"; }\n}\nfn b() {}\n";
        let tokens = scan::tokens(text, SourceLanguage::Rust);
        assert_eq!(test_lines(text, &tokens).first(), Some(&(1..5)));
        let text = "#[cfg(test)]\nmod tests;\nfn b() {}\n";
        assert_eq!(test_lines(text, &scan::tokens(text, SourceLanguage::Rust)).first(), Some(&(0..2)));
    }
}
