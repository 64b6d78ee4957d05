//! Node: the scripts of `package.json`, or Node's own test runner.

use serde_json::Value;

use super::listing::{FileListing, split};
use super::{CheckCandidates, Project, TEST};

/// What npm writes into a new package as its test script.
const NO_TESTS: &str = "no test specified";
const LOCKS: [(&str, &str); 5] = [
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
];

pub(super) fn project(files: &FileListing) -> Project {
    let package: Value = serde_json::from_str(&files.top("package.json")).unwrap_or_default();
    let lock = LOCKS.into_iter().find(|(name, _)| files.has(name));
    let manager = lock.map_or("npm", |(_, manager)| manager);
    let script = |name: &str| package["scripts"][name].as_str().filter(|text| !text.contains(NO_TESTS));
    let run = |name: &str| script(name).map(|_| format!("{manager} run {name}"));
    let test = script("test").map(|_| match manager {
        "bun" => "bun run test".to_owned(),
        manager => format!("{manager} test"),
    });
    let test_files: Vec<&String> = files.paths.iter().filter(|path| is_test(path)).collect();
    let mut checks = vec![CheckCandidates::new(TEST, [test.unwrap_or_else(|| "node --test".to_owned())])];
    checks.extend(run("lint").map(|command| CheckCandidates::new("lint", [command])));
    let types = ["typecheck", "type-check", "check-types"].into_iter().find_map(run);
    checks.extend(types.map(|command| CheckCandidates::new("types", [command])));
    let manifests = std::iter::once("package.json").chain(lock.map(|(name, _)| name));
    Project {
        manager: Some(manager),
        manifest: Some("package.json".to_owned()),
        manifests: manifests.map(str::to_owned).collect(),
        checks,
        build: Some(run("build").unwrap_or_else(|| "npm pack --dry-run".to_owned())),
        sources: sources(files),
        tests: files.folder_globs(&["test", "tests", "__tests__", "spec"]),
        has_tests: !test_files.is_empty(),
        first_test: first_test(files, test_files.first().copied()),
        ..Project::default()
    }
}

const ENDINGS: [&str; 6] = [".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx"];

fn is_test(path: &str) -> bool {
    let Some(stem) = ENDINGS.iter().find_map(|ending| path.strip_suffix(ending)) else { return false };
    stem.ends_with(".test")
        || stem.ends_with(".spec")
        || ["test/", "tests/", "__tests__/"].iter().any(|folder| path.starts_with(folder))
}

fn sources(files: &FileListing) -> Vec<String> {
    let mut globs = files.folder_globs(&["src", "lib", "app", "packages"]);
    for ending in [".js", ".mjs", ".cjs", ".ts"] {
        globs.extend(
            files.top_files(ending).into_iter().filter(|path| !is_test(path) && !path.contains(".config.")),
        );
    }
    globs
}

/// Names a test file like the first one that exists: in its folder, with its ending.
fn first_test(files: &FileListing, like: Option<&String>) -> Option<String> {
    let Some(like) = like else { return files.free(|word| format!("test/{word}.test.js")) };
    let (folder, name) = split(like);
    let ending = name.find('.').map_or(".js", |at| &name[at..]);
    files.free(|word| format!("{folder}{word}{ending}"))
}
