//! Finds the definitions in a source file, line by line, by the patterns of its language.
//!
//! Patterns see less than a parser: a definition in a comment or in a string counts too. For a map this is
//! enough, and a parser for each language would make the program several times larger.

use std::sync::LazyLock;

use regex::Regex;

/// A definition in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub name: String,
    /// Its line, without what follows the head.
    pub head: String,
    /// How deep it is indented, in characters.
    pub depth: usize,
}

/// Longest head that is shown.
const HEAD_MAX: usize = 120;

/// Extensions of a language, and the pattern of a line that defines something.
const LANGUAGES: [(&[&str], &str); 10] = [
    (
        &["rs"],
        r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:(?:async|const|unsafe|default|extern(?:\s+\x22[^\x22]*\x22)?)\s+)*(?:fn|struct|enum|union|trait|type|macro_rules!)\s+(?P<name>[A-Za-z_]\w*)",
    ),
    (&["py", "pyi"], r"^\s*(?:async\s+)?(?:def|class)\s+(?P<name>[A-Za-z_]\w*)"),
    (
        &["js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts"],
        r"^\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:(?:function\*?|class|interface|type|enum|namespace)\s+|const\s+)(?P<name>[A-Za-z_$][\w$]*)(?:\s*[=<({:]|\s+(?:extends|implements)|\s*$)",
    ),
    (&["go"], r"^(?:func\s+(?:\([^)]*\)\s*)?|type\s+)(?P<name>[A-Za-z_]\w*)"),
    (
        &["java", "kt", "kts", "cs", "scala", "swift", "dart"],
        r"^\s*(?:(?:public|private|protected|internal|static|final|abstract|sealed|open|override|data|async|partial|suspend|case|readonly)\s+)*(?:class|interface|enum|record|object|struct|trait|protocol|fun|func|def|mixin)\s+(?P<name>[A-Za-z_]\w*)",
    ),
    (&["rb"], r"^\s*(?:def\s+(?:self\.)?|class\s+|module\s+)(?P<name>[A-Za-z_]\w*[?!]?)"),
    (
        &["php"],
        r"^\s*(?:(?:abstract|final|public|private|protected|static|readonly)\s+)*(?:function|class|interface|trait|enum)\s+&?(?P<name>[A-Za-z_]\w*)",
    ),
    (
        &["c", "h", "cc", "cpp", "cxx", "hh", "hpp"],
        r"^(?:(?:typedef\s+)?(?:struct|class|enum|union|namespace)\s+|#define\s+|[A-Za-z_][\w\s*&:<>,]*[\s*&])(?P<name>[A-Za-z_]\w*)\s*(?:[{(:]|$)",
    ),
    (&["ex", "exs"], r"^\s*(?:defp?|defmodule|defmacro|defstruct)\s+(?P<name>[A-Za-z_][\w.]*)"),
    (
        &["sh", "bash", "lua"],
        r"^\s*(?:local\s+)?(?:function\s+)?(?P<name>[A-Za-z_][\w.:]*)\s*\(\)?.*(?:\{|\))\s*$",
    ),
];

static PATTERNS: LazyLock<Vec<Option<Regex>>> =
    LazyLock::new(|| LANGUAGES.iter().map(|(_, pattern)| Regex::new(pattern).ok()).collect());

/// Returns the number of a file's language; `None` if it is not known.
pub(super) fn language(extension: &str) -> Option<usize> {
    LANGUAGES.iter().position(|(extensions, _)| extensions.contains(&extension))
}

/// Returns the definitions of a file, in their order.
pub(super) fn definitions(language: usize, text: &str) -> Vec<Symbol> {
    let Some(pattern) = PATTERNS.get(language).and_then(Option::as_ref) else { return Vec::new() };
    text.lines()
        .filter_map(|line| {
            let name = pattern.captures(line)?.name("name")?.as_str().to_owned();
            let depth = line.len() - line.trim_start().len();
            Some(Symbol { name, head: head(line), depth })
        })
        .collect()
}

/// Shortens a line to what says how the thing is used: no body, no open bracket.
fn head(line: &str) -> String {
    let line = line.trim();
    let line = line.strip_suffix('{').or_else(|| line.strip_suffix(':')).unwrap_or(line).trim_end();
    let line = line.strip_suffix("where").unwrap_or(line).trim_end();
    match line.char_indices().nth(HEAD_MAX) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(extension: &str, text: &str) -> Vec<String> {
        let language = language(extension).expect("a language");
        definitions(language, text)
            .into_iter()
            .map(|symbol| format!("{}: {}", symbol.name, symbol.head))
            .collect()
    }

    #[test]
    fn every_pattern_compiles_and_has_a_name() {
        for ((extensions, _), pattern) in LANGUAGES.iter().zip(&*PATTERNS) {
            let pattern = pattern.as_ref().unwrap_or_else(|| panic!("{extensions:?}"));
            assert!(pattern.capture_names().flatten().any(|name| name == "name"), "{extensions:?}");
        }
    }

    #[test]
    fn definitions_are_found_in_each_language() {
        let table = [
            (
                "rs",
                "pub(crate) async fn go(x: u8) -> u8 {\n  struct A;\nlet fnord = 1;\nimpl A {",
                "go: pub(crate) async fn go(x: u8) -> u8|A: struct A;",
            ),
            (
                "py",
                "class A(B):\n    async def f(self, x):\n    define = 1",
                "A: class A(B)|f: async def f(self, x)",
            ),
            (
                "ts",
                "export default class A extends B {\nexport const f = (x: number) => x\nconst same\nconstant = 1\ninterface I<T> {",
                "A: export default class A extends B|f: export const f = (x: number) => x|same: const same|I: interface I<T>",
            ),
            (
                "go",
                "func (s *Server) Run(ctx Context) error {\ntype Server struct {\n\tfunc inner",
                "Run: func (s *Server) Run(ctx Context) error|Server: type Server struct",
            ),
            ("java", "public final class A {\n  int classify;\n}", "A: public final class A"),
            ("kt", "suspend fun load(id: Int): User {", "load: suspend fun load(id: Int): User"),
            ("rb", "  def self.find?(x)\nmodule M", "find?: def self.find?(x)|M: module M"),
            (
                "php",
                "abstract class A {\n  public static function make(): A {",
                "A: abstract class A|make: public static function make(): A",
            ),
            (
                "c",
                "static int parse(const char *text) {\n  return parse(text);\nstruct node {",
                "parse: static int parse(const char *text)|node: struct node",
            ),
            ("ex", "defmodule A.B do\n  def run(x), do: x", "A.B: defmodule A.B do|run: def run(x), do: x"),
            ("sh", "build() {\n  build\n}", "build: build()"),
        ];
        for (extension, text, expected) in table {
            assert_eq!(heads(extension, text).join("|"), expected, "{extension}");
        }
    }

    #[test]
    fn a_long_head_is_cut() {
        let found = heads("py", &format!("def f({}):", "x, ".repeat(90)));
        assert!(found[0].ends_with('…') && found[0].chars().count() < HEAD_MAX + 10, "{found:?}");
    }
}
