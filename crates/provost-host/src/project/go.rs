//! Go: modules and their tests.

use super::listing::{FileListing, split};
use super::{CheckCandidates, Project, TEST};

pub(super) fn project(files: &FileListing) -> Project {
    let mut checks =
        vec![CheckCandidates::one(TEST, "go test ./..."), CheckCandidates::one("lint", "go vet ./...")];
    if files.has(".golangci.yml") || files.has(".golangci.yaml") || files.ci_runs("golangci-lint") {
        checks.push(CheckCandidates::one("golangci", "golangci-lint run"));
    }
    let code = files.paths.iter().find(|path| path.ends_with(".go") && !path.ends_with("_test.go"));
    let folder = code.map(|path| split(path).0.to_owned());
    let sum = files.has("go.sum").then(|| "go.sum".to_owned());
    Project {
        manager: Some("go"),
        // go.mod names no version of the module itself.
        manifest: None,
        manifests: std::iter::once("go.mod".to_owned()).chain(sum).collect(),
        checks,
        build: Some("go build ./...".to_owned()),
        sources: vec!["**/*.go".to_owned()],
        tests: vec!["**/*_test.go".to_owned()],
        has_tests: files.paths.iter().any(|path| path.ends_with("_test.go")),
        first_test: folder.and_then(|folder| files.free(|word| format!("{folder}{word}_test.go"))),
        ..Project::default()
    }
}
