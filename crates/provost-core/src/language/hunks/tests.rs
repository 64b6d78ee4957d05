//! Tests how changes are cut into hunks.

use expect_test::{Expect, expect};

use super::*;

fn added(path: &str, text: &str) -> Vec<Hunk> {
    let run = ChangedRun { old: 0..0, new: 0..text.lines().count() };
    of_file(&FileTexts { path, old: None, new: Some(text) }, &[run])
}

/// Shows the hunks of a new file: their lines, and the first of them.
#[track_caller]
fn check(path: &str, text: &str, expected: Expect) {
    let shown: String = added(path, text)
        .iter()
        .map(|hunk| {
            let first = text.lines().nth(hunk.shown.start).unwrap_or_default().trim();
            let why = hunk.subject.why_no_code().unwrap_or_default();
            format!("{}-{} {first} {why}", hunk.shown.start + 1, hunk.shown.end).trim_end().to_owned() + "\n"
        })
        .collect();
    expected.assert_eq(&shown);
}

#[test]
fn a_new_file_of_python_is_cut_at_its_functions() {
    check(
        "calc.py",
        "import os\n\nLIMIT = 1\n\n# Adds.\n@cache\ndef add(a, b):\n    def inner():\n        return a\n\n    return inner() + b\n\n\n\
         class A:\n    \"\"\"An A.\"\"\"\n\n    def one(self):\n        text = '''\ndef no():\n'''\n        return text\n\n    def two(\n        self,\n    ):\n        return 2\n\n\nif __name__ == '__main__':\n    add(1, 2)\n",
        expect![[r#"
            1-3 import os
            5-11 # Adds.
            14-21 class A:
            23-26 def two(
            29-30 if __name__ == '__main__':
        "#]],
    );
}

#[test]
fn new_code_of_the_other_languages_is_cut_at_its_functions() {
    check(
        "src/a.rs",
        "use b::c;\n\n/// One.\n#[must_use]\npub fn one() -> u8 {\n    1\n}\npub(crate) const fn two() -> u8 { 2 }\n\nimpl A {\n    fn three(&self) {\n    }\n\n    fn four(&self) {\n    }\n}\n\n#[cfg(test)]\nmod tests {\n    fn five() {}\n}\n",
        expect![[r#"
            1-1 use b::c;
            3-7 /// One.
            8-8 pub(crate) const fn two() -> u8 { 2 }
            10-12 impl A {
            14-15 fn four(&self) {
            18-21 #[cfg(test)] not code: a test
        "#]],
    );
    check(
        "a.ts",
        "import b from 'b'\n\nexport function one() {\n  return 1\n}\n\nconst two = (x) => {\n  return 2\n}\n\nclass C {\n  three() {\n    if (x) {\n    }\n  }\n\n  async four() {\n  }\n}\n\nmodule.exports = { one }\n",
        expect![[r#"
            1-1 import b from 'b'
            3-5 export function one() {
            7-9 const two = (x) => {
            11-15 class C {
            17-18 async four() {
            21-21 module.exports = { one }
        "#]],
    );
    check(
        "a.go",
        "package a\n\n// One adds.\nfunc One() int {\n\treturn 1\n}\n\nfunc (s *S) Two() {\n}\n",
        expect![[r#"
            1-1 package a
            3-6 // One adds.
            8-9 func (s *S) Two() {
        "#]],
    );
    check(
        "run.sh",
        "one() {\n  echo 1\n\n  echo 2\n}\n\ntwo() {\n  echo 2\n}\n",
        expect![[r#"
            1-5 one() {
            7-9 two() {
        "#]],
    );
}

#[test]
fn comments_descriptions_tests_and_documents_are_no_code() {
    let why = |path: &str, text: &str| {
        added(path, text).iter().map(|hunk| hunk.subject.why_no_code()).collect::<Vec<_>>()
    };
    let told = |text: &str| vec![Some(text.to_owned())];
    assert_eq!(why("a.py", "# a\n\n"), told("not code: a comment"));
    assert_eq!(why("a.py", "\"\"\"A\nmodule.\"\"\"\n"), told("not code: a comment"));
    assert_eq!(why("a.rs", "}\n// b\n"), told("not code: a comment"));
    assert_eq!(why("tests/test_a.py", "x = 1\n"), told("not code: a test"));
    assert_eq!(why("README.md", "# a\n"), told("not code: a document"));
    assert_eq!(why("a.py", "x = \"\"\"\ntext\"\"\"\n"), [None]);
    assert_eq!(why("a.sh", "# unknown to provost\n"), [None]);
}

#[test]
fn a_hunk_is_taken_out_and_nothing_else() {
    let (old, new) = ("a\nb\nc", "a\nB\nB2\nc\nd");
    let file = FileTexts { path: "x.txt", old: Some(old), new: Some(new) };
    let runs = [ChangedRun { old: 1..2, new: 1..3 }, ChangedRun { old: 3..3, new: 4..5 }];
    let hunks = of_file(&file, &runs);
    assert_eq!(hunks[0].reversed(&file).as_deref(), Some("a\nb\nc\nd"));
    assert_eq!(hunks[1].reversed(&file).as_deref(), Some("a\nB\nB2\nc\n"));
    let deleted = FileTexts { new: None, ..file };
    let hunks = of_file(&deleted, &[ChangedRun { old: 0..3, new: 0..0 }]);
    assert_eq!(hunks[0].reversed(&deleted).as_deref(), Some(old));
    let file = FileTexts { path: "x.py", old: None, new: Some("x = 1\n") };
    let hunks = of_file(&file, &[ChangedRun { old: 0..0, new: 0..1 }]);
    assert_eq!(hunks[0].reversed(&file), None, "the file was not there before");
}

#[test]
fn blank_lines_around_a_hunk_are_not_shown() {
    let (old, new) = ("a = 1\n", "a = 1\n\nb = 2\n\n");
    let file = FileTexts { path: "x.py", old: Some(old), new: Some(new) };
    let hunks = of_file(&file, &[ChangedRun { old: 1..1, new: 1..4 }]);
    assert_eq!((hunks[0].shown.clone(), hunks[0].new.clone()), (2..3, 1..4));
    assert_eq!(hunks[0].reversed(&file).as_deref(), Some(old));
}

#[test]
fn the_digest_follows_the_content_and_the_place() {
    let text = "def a():\n    return 1\n\n\ndef b():\n    return 1\n";
    let file = FileTexts { path: "a.py", old: None, new: Some(text) };
    let hunks = added("a.py", text);
    let digest = hunks[0].digest(&file);
    assert_eq!(digest, added("a.py", text)[0].digest(&file));
    assert_ne!(digest, hunks[1].digest(&file));
    let other = text.replace("return 1", "return 2");
    assert_ne!(digest, hunks[0].digest(&FileTexts { new: Some(&other), ..file }));
}

#[test]
fn code_with_conditions_comes_first() {
    let text = "def a():\n    x = 1\n    y = 2\n\n\ndef b(x):\n    if x == 1:\n        return 2\n";
    let (code, docs) = (added("a.py", text), added("README.md", "a\n"));
    let mut hunks: Vec<&Hunk> = docs.iter().chain(&code).collect();
    rank(&mut hunks);
    assert_eq!(hunks.iter().map(|hunk| hunk.shown.start).collect::<Vec<_>>(), [5, 0, 0]);
    assert_eq!(hunks[2].path, "README.md");
}
