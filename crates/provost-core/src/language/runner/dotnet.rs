//! Reads the totals that `dotnet test` prints, and writes a failing test in C#.
//!
//! Each project prints its own totals, and projects print at the same time. So lines of one kind are added up,
//! in whatever order they come.
//!
//! **Invariant:** a line that a test printed is indented, and is no total.

/// The numbers of all projects together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DotnetTotals {
    pub total: u32,
    pub passed: u32,
    pub failed: u32,
    pub skipped: u32,
}

impl DotnetTotals {
    /// Returns the totals; `None` if there are none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut sum = Self::default();
        let mut is_told = false;
        for line in text.lines() {
            if let Some(own) = of_one_line(line) {
                sum.add(own);
                is_told = true;
            } else if let Some((word, number)) = of_several_lines(line) {
                let field = match word {
                    "Total tests" => &mut sum.total,
                    "Passed" => &mut sum.passed,
                    "Failed" => &mut sum.failed,
                    _ => &mut sum.skipped,
                };
                *field = field.saturating_add(number);
                is_told |= word == "Total tests";
            } else if is_empty_project(line) {
                is_told = true;
            }
        }
        is_told.then_some(sum)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.total = self.total.saturating_add(other.total);
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
    }
}

/// Returns the number of tests that ran.
pub(super) fn counted(text: &str) -> Option<u32> {
    DotnetTotals::read(text).map(|sum| sum.total.saturating_sub(sum.skipped))
}

/// `Failed!  - Failed:     2, Passed:     1, Skipped:     1, Total:     4, Duration: 30 ms - Calc.Tests.dll (net8.0)`
fn of_one_line(line: &str) -> Option<DotnetTotals> {
    let rest = ["Passed! ", "Failed! ", "Skipped! "].iter().find_map(|mark| line.strip_prefix(mark))?;
    let mut numbers = rest.trim_start().strip_prefix("- ")?.split(", ");
    let mut next = |word: &str| numbers.next()?.strip_prefix(word)?.trim().parse::<u32>().ok();
    Some(DotnetTotals {
        failed: next("Failed:")?,
        passed: next("Passed:")?,
        skipped: next("Skipped:")?,
        total: next("Total:")?,
    })
}

/// `Total tests: 4`, then `     Passed: 1`, `     Failed: 2` and `    Skipped: 1`, if they are not zero.
fn of_several_lines(line: &str) -> Option<(&'static str, u32)> {
    let words = [
        ("Total tests", "Total tests: "),
        ("Passed", "     Passed: "),
        ("Failed", "     Failed: "),
        ("Skipped", "    Skipped: "),
    ];
    words.iter().find_map(|(word, mark)| Some((*word, line.strip_prefix(mark)?.trim_end().parse().ok()?)))
}

fn is_empty_project(line: &str) -> bool {
    line.starts_with("No test is available in ")
        || line.starts_with("No test matches the given testcase filter")
}

/// Returns a class with a failing test of the library that the file uses. A class at the end of a file needs
/// no namespace of its own.
pub(super) fn planted(path: &str, text: &str, name: &str, random: &str) -> Result<String, String> {
    let has = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
    let (of_class, of_test) = if has(&["TUnit"]) {
        return Err(format!("{path} has tests of TUnit"));
    } else if has(&["[Fact", "[Theory"]) {
        ("", "[global::Xunit.Fact]")
    } else if has(&["[TestMethod", "[DataTestMethod"]) {
        (
            "[global::Microsoft.VisualStudio.TestTools.UnitTesting.TestClass]\n",
            "[global::Microsoft.VisualStudio.TestTools.UnitTesting.TestMethod]",
        )
    } else if has(&["[Test]", "[Test,", "[Test(", "[TestCase"]) {
        ("[global::NUnit.Framework.TestFixture]\n", "[global::NUnit.Framework.Test]")
    } else {
        return Err(format!("{path} has no test of xUnit, NUnit or MSTest"));
    };
    Ok(format!(
        "\n{of_class}public class Test_{random}\n{{\n    {of_test}\n    public void {name}() {{ throw new \
         global::System.Exception(\"planted\"); }}\n}}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_several_projects_are_added_up() {
        let long = "Test Run Failed.\nTotal tests: 4\nTotal tests: 2\n     Passed: 1\n     Passed: 2\n     Failed: 2\n    Skipped: 1\n Total time: 1.3239 Seconds\n";
        let wanted = DotnetTotals { total: 6, passed: 3, failed: 2, skipped: 1 };
        assert_eq!(DotnetTotals::read(long), Some(wanted));
        let short = "Failed!  - Failed:     2, Passed:     1, Skipped:     1, Total:     4, Duration: 30 ms - Calc.Tests.dll (net8.0)\n\
                     Passed!  - Failed:     0, Passed:     2, Skipped:     0, Total:     2, Duration: 3 ms - More.Tests.dll (net8.0)\n";
        assert_eq!(DotnetTotals::read(short), Some(wanted));
        assert_eq!(counted(short), Some(5));
    }

    #[test]
    fn lines_of_tests_and_of_a_broken_build_are_no_totals() {
        for text in [
            "  Standard Output Messages:\n Total tests: 9\n Passed!  - Failed:     0, Passed:     9, Skipped:     0, Total:     9\n",
            "Total tests: Unknown\n     Passed: 3\n",
            "Build FAILED.\n    1 Error(s)\n",
            "Passed! - Passed: 3",
        ] {
            assert_eq!(DotnetTotals::read(text), None, "{text}");
        }
        let none = "No test is available in /w/bin/a.dll. Make sure that test discoverer & executors are registered\n";
        assert_eq!(counted(none), Some(0));
    }
}
