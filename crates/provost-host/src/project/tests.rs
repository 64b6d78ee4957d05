//! Tests the look at repositories of each language.

use super::*;

fn looked(files: &[(&str, &str)]) -> Project {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    look(folder.path(), folder.path(), None)
}

fn commands(project: &Project) -> Vec<String> {
    project.checks.iter().map(|check| format!("{}: {}", check.name, check.commands.join(" | "))).collect()
}

#[test]
fn tests_in_python_make_a_python_project_without_a_manifest() {
    let files = [("src/login.py", ""), ("tests/test_login.py", "def test_a():\n    assert 1\n")];
    let project = looked(&files);
    assert_eq!((project.language, project.has_tests), (Some(Language::Python), true));
    let node = looked(&[files[0], files[1], ("package.json", "{}")]);
    assert_eq!((node.language, node.others), (Some(Language::Node), Vec::new()));
}

#[test]
fn python_uses_pytest_if_the_project_does_and_unittest_if_not() {
    let project = looked(&[
        ("pyproject.toml", "[project]\ndependencies = []\n[tool.ruff]\n[tool.pytest.ini_options]\n"),
        ("app/__init__.py", ""),
        ("tests/test_app.py", "def test_a():\n    assert 1\n"),
        (".github/workflows/ci.yml", "run: mypy ."),
    ]);
    assert_eq!(project.language, Some(Language::Python));
    assert_eq!(
        commands(&project),
        [
            "test: python3 -m pytest -q | pytest -q | python3 -m unittest discover -s tests",
            "lint: ruff check . | python3 -m ruff check .",
            "types: mypy . | python3 -m mypy .",
        ]
    );
    assert_eq!(project.sources, ["app/**"]);
    assert_eq!(project.first_test.as_deref(), Some("tests/test_first.py"));
    assert_eq!(project.ci, [".github/workflows/ci.yml"]);
    let plain =
        looked(&[("app.py", ""), ("test_app.py", "import unittest\nclass T(unittest.TestCase): pass\n")]);
    assert_eq!(plain.test(), Some("python3 -m unittest discover"));
    assert_eq!(
        (plain.sources, plain.first_test),
        (vec!["app.py".to_owned()], Some("test_first.py".to_owned()))
    );
}

#[test]
fn node_uses_the_scripts_of_the_package_and_its_manager() {
    let package = r#"{"scripts": {"test": "vitest", "lint": "eslint .", "typecheck": "tsc"}}"#;
    let project =
        looked(&[("package.json", package), ("pnpm-lock.yaml", ""), ("src/a.spec.ts", ""), ("src/a.ts", "")]);
    assert_eq!(commands(&project), ["test: pnpm test", "lint: pnpm run lint", "types: pnpm run typecheck"]);
    assert_eq!(project.first_test.as_deref(), Some("src/first.spec.ts"));
    assert_eq!(project.facts()["manifests"], "package.json, pnpm-lock.yaml");
    let fresh = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
    let project = looked(&[("package.json", fresh), ("index.js", "")]);
    assert_eq!(commands(&project), ["test: node --test"]);
    assert!(!project.has_tests);
    assert_eq!(project.first_test.as_deref(), Some("test/first.test.js"));
}

#[test]
fn rust_finds_the_package_of_a_workspace() {
    let one = looked(&[("Cargo.toml", "[package]\nname = \"a\"\n"), ("src/lib.rs", "#[test]\nfn a() {}\n")]);
    assert_eq!(commands(&one), ["test: cargo test", "format: cargo fmt --all --check"]);
    assert_eq!((one.has_tests, one.first_test.as_deref()), (true, Some("tests/first.rs")));
    let many = looked(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
        ("crates/b/Cargo.toml", "[package]\n"),
        ("crates/b/src/lib.rs", ""),
        (".gitlab-ci.yml", "script: cargo clippy"),
    ]);
    assert_eq!(many.first_test.as_deref(), Some("crates/b/tests/first.rs"));
    assert_eq!(
        commands(&many).last().unwrap(),
        "lint: cargo clippy --workspace --all-targets -- --deny warnings"
    );
}

#[test]
fn go_puts_a_test_beside_the_code() {
    let project =
        looked(&[("go.mod", "module x\n"), ("internal/a/a.go", "package a\n"), ("first_test.go", "")]);
    assert_eq!(commands(&project), ["test: go test ./...", "lint: go vet ./..."]);
    assert_eq!(project.first_test.as_deref(), Some("internal/a/first_test.go"));
}

#[test]
fn a_folder_without_a_known_language_may_have_a_makefile() {
    let project = looked(&[("Makefile", "all:\n\ttrue\ntest:\n\ttrue\n")]);
    assert_eq!((project.language, project.test()), (None, Some("make test")));
    assert_eq!(looked(&[("README", "")]).facts().get("test"), None);
}

#[test]
fn a_project_may_be_in_a_folder_of_the_repository() {
    let files = [
        ("README.md", ""),
        ("backend/pyproject.toml", "[tool.pytest.ini_options]\n"),
        ("backend/app/__init__.py", ""),
        ("backend/tests/test_app.py", "import pytest\n"),
        ("web/package.json", r#"{"scripts": {"test": "vitest", "build": "vite build"}}"#),
        ("web/src/a.ts", ""),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let near = |name: &str, wanted| look(folder.path(), &folder.path().join(name), wanted);
    let backend = near("", None);
    assert_eq!((backend.language, backend.folder.as_str()), (Some(Language::Python), "backend/"));
    assert_eq!(backend.test(), Some("(cd backend && python3 -m pytest -q)"));
    assert_eq!(backend.sources, ["backend/app/**"]);
    assert_eq!(backend.first_test.as_deref(), Some("backend/tests/test_first.py"));
    assert_eq!(backend.elsewhere, ["web/"]);
    let web = near("web/src", None);
    assert_eq!((web.language, web.test()), (Some(Language::Node), Some("(cd web && npm test)")));
    assert_eq!(web.facts()["build"], "(cd web && npm run build)");
    assert_eq!(web.facts()["tests"], "web/tests/**");
    assert_eq!(near("", Some(Language::Node)).folder, "web/");
}

#[test]
fn checks_are_proposed_from_what_the_repository_has() {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        (
            "package.json",
            r#"{"scripts": {"test": "vitest", "lint": "eslint .", "test:watch": "vitest --watch", "deploy": "x"}}"#,
        ),
        ("tsconfig.json", "{}"),
        ("src/price.test.ts", ""),
        ("src/cart.test.ts", ""),
        ("api/openapi.yaml", ""),
        ("src/__snapshots__/cart.snap", ""),
        ("Makefile", "all: x\ncheck: x\nclean:\n"),
        (
            ".github/workflows/ci.yml",
            "steps:\n  - run: npm ci\n  - run: npm test\n  - run: |\n      cargo test --locked\n      npm run e2e -- ${{ x }}\n",
        ),
    ] {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let project = look(folder.path(), folder.path(), None);
    let proposals = proposals::for_goal(folder.path(), &project, "A discount for the price of large orders");
    let shown: Vec<String> = proposals
        .iter()
        .map(|each| format!("{} {} ({}, {})", each.check.name, each.check.commands[0], each.source, each.fit))
        .collect();
    assert_eq!(
        shown,
        [
            "focused npm test -- src/price.test.ts (src/price.test.ts, 1)",
            "test npm test (package.json, 0)",
            "lint npm run lint (package.json, 0)",
            "make make check (Makefile, 0)",
            "types npx --no-install tsc --noEmit (tsconfig.json, 0)",
            "api provost-check api --new api/openapi.yaml (api/openapi.yaml, 0)",
            "snapshots CI=true npm test (src/__snapshots__/cart.snap, 0)",
            "ci cargo test --locked (.github/workflows/ci.yml, 0)",
        ]
    );
}
