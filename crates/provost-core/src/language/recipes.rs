//! Names the recipes of `provost-check`, the program that provost adds to the `PATH` of every check.

/// The program's name on the `PATH` of a check.
pub const PROGRAM: &str = "provost-check";

/// Its subcommands.
pub const NAMES: [&str; 9] =
    ["http", "size", "faster", "api", "migration", "coverage", "links", "page", "screenshot"];

/// First words of the line with which a recipe says that it could not be run.
pub const NOT_RUN: &str = "provost-check: could not be run: ";
/// Its exit code then.
pub const NOT_RUN_CODE: u8 = 69;

/// The subcommands that only read files: no code of the project runs in them.
const READERS: [&str; 2] = ["api", "links"];

/// Returns whether this subcommand only reads files.
pub(crate) fn only_reads(recipe: &str) -> bool {
    READERS.contains(&recipe)
}

/// Returns why a call of the program cannot work, by the first word after its name.
pub(crate) fn objection(recipe: Option<&str>) -> Option<String> {
    let Some(name) = recipe else { return Some(format!("`{PROGRAM}` needs the name of a recipe")) };
    let is_known = NAMES.contains(&name) || ["--help", "-h", "--version", "help"].contains(&name);
    (!is_known).then(|| format!("`{PROGRAM}` has no recipe `{name}`"))
}
