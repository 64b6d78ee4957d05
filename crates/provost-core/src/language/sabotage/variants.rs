//! Variants of code that tell a test of behaviour from a test that only reads the code.
//!
//! A test that searches the code still finds everything in [`Sabotage::applied_beside_original`]. A test that
//! compares the code, or takes a compiled function apart, fails on [`rewritten`], which behaves as before.

use super::Sabotage;
use crate::language::source_code::SourceLanguage;
use crate::language::source_code::scan;

/// Added to the name of a function that is called through another one.
const INNER: &str = "_inner_";

impl Sabotage {
    /// Returns the sabotaged code, and behind it the original without effect: as text, and in Python also as code
    /// that is never run.
    pub fn applied_beside_original(&self, text: &str, language: SourceLanguage) -> String {
        let broken = self.applied(text);
        if language != SourceLanguage::Python {
            return format!("{broken}\n/*\n{}\n*/\n", text.replace("*/", "* /").replace("/*", "/ *"));
        }
        let mut unused = String::new();
        for line in text.lines().filter(|line| !line.starts_with("from __future__")) {
            unused.push_str(&format!(" {line}\n"));
        }
        format!("{broken}\nif 0:\n pass\n{unused}\nr\"\"\"\n{}\n\"\"\"\n", text.replace("\"\"\"", "\"\" \""))
    }
}

/// Returns code that behaves as before, with a comment before this line. In Python, the function around the line is
/// also called through another one that has its name.
pub fn rewritten(text: &str, language: SourceLanguage, line: usize) -> String {
    let mark = if language == SourceLanguage::Python { "#" } else { "//" };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let line = line.min(lines.len());
    let comment = format!("{}{mark} a comment", lines.get(line).map_or("", |own| indent(own)));
    lines.insert(line, comment);
    if language == SourceLanguage::Python
        && let Some(function) = function_around(text, line)
    {
        // It begins before the comment.
        let at = function.line;
        lines[at] = lines[at].replacen(&function.name, &format!("{INNER}{}", function.name), 1);
        lines.splice(at..at, function.caller());
    }
    lines.join("\n") + "\n"
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// A function of a Python module, or a method of a class in it.
struct PythonFunction<'t> {
    line: usize,
    indent: &'t str,
    name: String,
}

impl PythonFunction<'_> {
    /// Returns the function that has the name and calls it.
    fn caller(&self) -> [String; 2] {
        let Self { indent, name, .. } = self;
        let call = match indent.is_empty() {
            true => format!("{INNER}{name}(*args, **kwargs)"),
            false => format!("args[0].{INNER}{name}(*args[1:], **kwargs)"),
        };
        [format!("{indent}def {name}(*args, **kwargs):"), format!("{indent}    return {call}")]
    }
}

/// The first words of a statement.
struct PythonStatement<'t> {
    line: usize,
    indent: &'t str,
    first: &'t str,
    second: &'t str,
}

/// Returns the outermost function around a line, if it is neither decorated nor asynchronous.
fn function_around(text: &str, line: usize) -> Option<PythonFunction<'_>> {
    let statements = python_statements(text);
    let last = statements.iter().rposition(|each| each.line <= line)?;
    let mut around = vec![last];
    for at in (0..last).rev() {
        let inner = &statements[*around.last()?];
        if statements[at].indent.len() < inner.indent.len() {
            around.push(at);
        }
    }
    let outer: Vec<usize> = around.into_iter().rev().collect();
    let at = match statements[outer[0]].first {
        "class" => *outer.get(1)?,
        _ => outer[0],
    };
    let function = &statements[at];
    let is_decorated = at > 0 && statements[at - 1].first == "@";
    let is_plain = function.first == "def" && !is_decorated && function.line < line;
    is_plain.then(|| PythonFunction {
        line: function.line,
        indent: function.indent,
        name: function.second.to_owned(),
    })
}

/// Returns the statements that begin on a line of their own.
fn python_statements(text: &str) -> Vec<PythonStatement<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let tokens: Vec<_> =
        scan::tokens(text, SourceLanguage::Python).into_iter().filter(|token| !token.is_comment()).collect();
    let (mut depth, mut last_line, mut found) = (0_usize, None, Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        let is_continued =
            token.line > 0 && lines.get(token.line - 1).is_some_and(|line| line.ends_with('\\'));
        if depth == 0 && !is_continued && last_line.is_none_or(|last| last < token.line) {
            let second = tokens.get(at + 1).map_or("", |token| token.text(text));
            let indent = lines.get(token.line).map_or("", |line| indent(line));
            found.push(PythonStatement { line: token.line, indent, first: token.text(text), second });
        }
        match token.text(text) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        last_line = Some(token.last_line(text));
    }
    found
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::of_lines;
    use super::*;

    #[test]
    fn a_function_of_python_is_called_through_another_one() {
        let text = "import a\n\n\ndef sub(\n    a, b\n):\n    \"\"\"def x():\n    \"\"\"\n    return (\n        a - b)\n";
        expect![[r#"
            import a


            def sub(*args, **kwargs):
                return _inner_sub(*args, **kwargs)
            def _inner_sub(
                a, b
            ):
                """def x():
                """
                return (
                    # a comment
                    a - b)
        "#]]
        .assert_eq(&rewritten(text, SourceLanguage::Python, 9));
    }

    #[test]
    fn a_method_of_python_is_called_through_another_one() {
        let text =
            "class Calc:\n    def add(self, a):\n        if a:\n            return 1\n        return 2\n";
        expect![[r#"
            class Calc:
                def add(*args, **kwargs):
                    return args[0]._inner_add(*args[1:], **kwargs)
                def _inner_add(self, a):
                    if a:
                        # a comment
                        return 1
                    return 2
        "#]]
        .assert_eq(&rewritten(text, SourceLanguage::Python, 3));
    }

    #[test]
    fn other_code_gets_a_comment() {
        for text in
            ["@cache\ndef f():\n    return 1\n", "async def f():\n\n    return 1\n", "A = 1\nB = 2\nC = 3\n"]
        {
            let lines = text.lines().count();
            let rewritten = rewritten(text, SourceLanguage::Python, 2);
            assert_eq!(rewritten.lines().count(), lines + 1, "{rewritten}");
        }
        let text = "fn f() -> u8 {\n    1\n}\n";
        let expected = "fn f() -> u8 {\n    // a comment\n    1\n}\n";
        assert_eq!(rewritten(text, SourceLanguage::Rust, 1), expected);
    }

    #[test]
    fn the_original_stays_beside_a_sabotage() {
        let text = "from __future__ import annotations\ndef f(a):\n    return a\n";
        let sabotage = &of_lines(text, SourceLanguage::Python, &(0..3))[0];
        expect![[r#"
            from __future__ import annotations
            def f(a):
                return None

            if 0:
             pass
             def f(a):
                 return a

            r"""
            from __future__ import annotations
            def f(a):
                return a

            """
        "#]]
        .assert_eq(&sabotage.applied_beside_original(text, SourceLanguage::Python));
    }
}
