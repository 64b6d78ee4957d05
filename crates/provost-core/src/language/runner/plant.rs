//! Writes a failing test to a place where the contract's runner must find it.
//!
//! The best place is an existing test file: whatever the code under test does to the process that loads it,
//! it does to the planted test too. A new file beside it is second best. The caller provides a random name;
//! if the contract selects tests by name, the name is made to match.
//!
//! **Invariant:** a place that the contract does not reach is never offered: if the selection is not
//! understood, planting is refused.

use super::select::Selection;
use super::{Runner, RunnerStart, dotnet};

/// A file that contains a failing test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plant {
    pub path: String,
    pub text: String,
}

/// Adds a test at the end of a test file; an error says why that is impossible.
pub fn into_file(
    started: &RunnerStart,
    chosen: &Selection,
    path: &str,
    text: &str,
    random: &str,
) -> Result<Plant, String> {
    if let Some(mark) = puts_itself_aside(started.runner, text) {
        return Err(format!("{path} has `{mark}`"));
    }
    let name = named(chosen, random, if started.runner == Runner::Go { "Test_" } else { "test_" });
    let added = match started.runner {
        Runner::Pytest | Runner::Unittest => python(started, chosen, text, &name, random),
        Runner::Cargo | Runner::Nextest if text.contains("#[test]") || text.contains("::test]") => {
            rust(&name, random)
        }
        Runner::Cargo | Runner::Nextest => return Err(format!("{path} has no test")),
        Runner::Node => node_test(path, text, &name, random),
        Runner::NodeFile => format!("\nthrow new Error(\"planted: {name}\");\n"),
        Runner::Jest => format!("\ntest(\"{name}\", () => {{ throw new Error(\"planted\"); }});\n"),
        Runner::Vitest => vitest(&name, random),
        Runner::Go if text.contains("\"testing\"") => go_test(&name),
        Runner::Go => return Err(format!("{path} has no test")),
        Runner::Phpunit | Runner::Maven | Runner::Gradle => {
            let method = if path.ends_with(".php") { php(&name) } else { jvm(path, text, &name)? };
            return into_class(path, text, &method);
        }
        Runner::Dotnet => dotnet::planted(path, text, &name, random)?,
        Runner::Mocha | Runner::Rspec | Runner::Ctest | Runner::Script | Runner::Other => {
            return Err("it cannot be planted".to_owned());
        }
    };
    Ok(Plant { path: path.to_owned(), text: format!("{}\n{added}", text.trim_end_matches('\n')) })
}

/// Makes a new file in a folder of tests; `like` is an existing test file there.
pub fn beside(
    started: &RunnerStart,
    chosen: &Selection,
    folder: &str,
    like: Option<&str>,
    random: &str,
) -> Option<Plant> {
    let file_is_named =
        chosen.places.iter().any(|place| place.rsplit('/').next().is_some_and(|name| name.contains('.')));
    if file_is_named || chosen.function.is_some() || !chosen.parts.is_empty() || !chosen.targets.is_empty() {
        return None;
    }
    let name = named(chosen, random, if started.runner == Runner::Go { "Test_" } else { "test_" });
    let (file, text) = match started.runner {
        Runner::Pytest | Runner::Unittest => {
            let style = like.unwrap_or("TestCase").to_owned();
            (format!("test_{random}.py"), python(started, chosen, &style, &name, random))
        }
        Runner::Cargo | Runner::Nextest => {
            (format!("test_{random}.rs"), format!("#[test]\nfn {name}() {{\n    panic!(\"planted\");\n}}\n"))
        }
        Runner::Node => (format!("{random}.test.cjs"), node_test(".cjs", "", &name, random)),
        Runner::Jest => (
            format!("{random}.test.js"),
            format!("test(\"{name}\", () => {{ throw new Error(\"planted\"); }});\n"),
        ),
        Runner::Vitest => (format!("{random}.test.mjs"), vitest(&name, random)),
        Runner::Go => {
            let package = like?.lines().find_map(|line| line.strip_prefix("package "))?.trim().to_owned();
            (
                format!("{random}_test.go"),
                format!("package {package}\n\nimport \"testing\"\n{}", go_test(&name)),
            )
        }
        // A class belongs to a file of its name and to a package, and a file to a project: only an existing
        // one is used.
        Runner::Phpunit | Runner::Maven | Runner::Gradle | Runner::Dotnet => return None,
        Runner::Mocha | Runner::Rspec | Runner::NodeFile => return None,
        Runner::Ctest | Runner::Script | Runner::Other => return None,
    };
    let path = if folder.is_empty() { file } else { format!("{folder}/{file}") };
    Some(Plant { path, text })
}

fn named(chosen: &Selection, random: &str, usual: &str) -> String {
    match &chosen.name {
        Some(prefix) => format!("{prefix}_{random}"),
        None => format!("{usual}{random}"),
    }
}

/// Returns a word by which a file skips its own tests: it would skip a planted one too.
fn puts_itself_aside(runner: Runner, text: &str) -> Option<&'static str> {
    let marks: &[&'static str] = match runner {
        Runner::Pytest | Runner::Unittest => &[
            "pytestmark",
            "allow_module_level",
            "importorskip",
            "__test__",
            "load_tests",
            "raise SkipTest",
            "raise unittest.SkipTest",
        ],
        Runner::Cargo | Runner::Nextest => &["#![cfg", "fn main("],
        Runner::Node | Runner::Jest | Runner::Vitest => &[".only(", "process.exit"],
        Runner::NodeFile => &["process.exit", "process.abort"],
        Runner::Go => &["//go:build", "// +build", "func TestMain("],
        Runner::Phpunit | Runner::Maven | Runner::Gradle => &["abstract class"],
        Runner::Dotnet => &["#if "],
        Runner::Mocha | Runner::Rspec | Runner::Ctest | Runner::Script | Runner::Other => &[],
    };
    // The tests of a program are in `src/main.rs` beside its `main`.
    let is_program = matches!(runner, Runner::Cargo | Runner::Nextest) && text.contains("#[cfg(test)]");
    marks.iter().copied().find(|mark| text.contains(mark) && !(is_program && *mark == "fn main("))
}

fn python(started: &RunnerStart, chosen: &Selection, like: &str, name: &str, random: &str) -> String {
    if let Some(function) = &chosen.function {
        return format!("\n\ndef {function}():\n    assert False, \"planted\"\n");
    }
    // Written in the style of the tests around it, so that whatever affects those affects this one too.
    if started.runner == Runner::Unittest || like.contains("TestCase") {
        return format!(
            "\n\nimport unittest as unittest_{random}\n\n\nclass Test_{random}(unittest_{random}.TestCase):\n    \
             def {name}(self):\n        self.fail(\"planted\")\n"
        );
    }
    format!("\n\ndef {name}():\n    assert False, \"planted\"\n")
}

fn rust(name: &str, random: &str) -> String {
    format!(
        "\n#[cfg(test)]\nmod test_{random} {{\n    #[test]\n    fn {name}() {{\n        panic!(\"planted\");\n    }}\n}}\n"
    )
}

fn node_test(path: &str, text: &str, name: &str, random: &str) -> String {
    let is_module = !path.ends_with(".cjs")
        && (path.ends_with(".mjs")
            || text.lines().any(|line| line.starts_with("import ") || line.starts_with("export ")));
    let body = format!("(\"{name}\", () => {{ throw new Error(\"planted\"); }});\n");
    match is_module {
        true => format!("\nimport {{ test as test_{random} }} from \"node:test\";\ntest_{random}{body}"),
        false => format!("\nrequire(\"node:test\").test{body}"),
    }
}

fn vitest(name: &str, random: &str) -> String {
    format!(
        "\nimport {{ test as test_{random} }} from \"vitest\";\ntest_{random}(\"{name}\", () => {{ throw new Error(\"planted\"); }});\n"
    )
}

fn go_test(name: &str) -> String {
    format!("\nfunc {name}(t *testing.T) {{\n\tt.Fatal(\"planted\")\n}}\n")
}

/// Adds a method at the end of a file's last class.
fn into_class(path: &str, text: &str, method: &str) -> Result<Plant, String> {
    let (before, after) = text.rsplit_once('}').ok_or_else(|| format!("{path} has no class"))?;
    Ok(Plant { path: path.to_owned(), text: format!("{before}\n{method}}}{after}") })
}

fn php(name: &str) -> String {
    format!("    public function {name}(): void\n    {{\n        $this->fail(\"planted\");\n    }}\n")
}

/// A test of the library that the file uses.
fn jvm(path: &str, text: &str, name: &str) -> Result<String, String> {
    let mark = if text.contains("org.junit.jupiter") {
        "@org.junit.jupiter.api.Test "
    } else if text.contains("org.testng") {
        "@org.testng.annotations.Test "
    } else if text.contains("org.junit.") {
        "@org.junit.Test "
    } else if text.contains("junit.framework") {
        ""
    } else {
        return Err(format!("{path} has no test of JUnit or TestNG"));
    };
    Ok(match path.ends_with(".kt") {
        true => format!("    {mark}fun {name}() {{ throw AssertionError(\"planted\") }}\n"),
        false => format!("    {mark}public void {name}() {{ throw new AssertionError(\"planted\"); }}\n"),
    })
}
