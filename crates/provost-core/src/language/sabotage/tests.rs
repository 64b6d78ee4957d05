//! Tests the sabotages of each language.

use expect_test::{Expect, expect};

use super::*;

/// Shows every sabotage of the text, the chosen ones marked with a star.
#[track_caller]
fn check(language: SourceLanguage, text: &str, expected: Expect) {
    let lines = 0..text.lines().count();
    let chosen = of_lines(text, language, &lines);
    let mut shown = String::new();
    for (_, sabotage) in all(text, language, &lines) {
        let star = if chosen.contains(&sabotage) { "*" } else { " " };
        let varied = sabotage.applied(text);
        assert_ne!(varied, text);
        let line = varied.lines().nth(sabotage.line).unwrap_or_default().trim();
        let told = format!("{star} {}: {} | {line}", sabotage.line + 1, sabotage.what);
        shown.push_str(&format!("{}\n", told.trim_end()));
    }
    expected.assert_eq(&shown);
}

#[test]
fn python() {
    check(
        SourceLanguage::Python,
        "from a import b\n\
         def f(x, y):\n    \
             \"\"\"x == y\"\"\"\n    \
             if x is not None and y in (1, 2):  # x == y\n        \
                 log(\"a == b\",\n            x)\n        \
                 return [\n            x + 1,\n        ]\n    \
             if ready(x):\n        \
                 total = f'{x} == {y}'\n    \
             for i in x:\n        \
                 y += 1\n    \
             return not y < 3 or True\n",
        expect![[r#"
            * 7: `None` is returned instead of the value | return None
              14: `None` is returned instead of the value | return None
            * 4: `is not` became `is` | if x is None and y in (1, 2):  # x == y
              4: `in` became `not in` | if x is not None and y not in (1, 2):  # x == y
              10: `if ready(x)` became `if not (ready(x))` | if not (ready(x)):
              14: `not` was removed | return  y < 3 or True
              14: `<` became `>=` | return not y >= 3 or True
            * 4: `and` became `or` | if x is not None or y in (1, 2):  # x == y
              14: `or` became `and` | return not y < 3 and True
              11: `total = f'{x} == {y}'` was removed | pass
              13: `y += 1` was removed | pass
              14: `True` became `False` | return not y < 3 or False
              8: `+` became `-` | x - 1,
              13: `+=` became `-=` | y -= 1
              4: `1` became `2` | if x is not None and y in (2, 2):  # x == y
              4: `2` became `3` | if x is not None and y in (1, 3):  # x == y
              8: `1` became `2` | x + 2,
              13: `1` became `2` | y += 2
              14: `3` became `4` | return not y < 4 or True
              5: a string became empty | log("",
              11: a string became empty | total = ""
        "#]],
    );
}

#[test]
fn rust() {
    check(
        SourceLanguage::Rust,
        "use a::b;\n\
         fn f<'a>(x: Vec<u8>, y: &'a str) -> Result<bool, Error> {\n    \
             let wide = x.len() > 3 && y != \"x == y\";\n    \
             if let Some(z) = g() {\n        return Ok(true);\n    }\n    \
             if wide {\n        self.keep(y);\n    }\n    \
             // a == b\n    \
             x.iter().map(|_| r#\"a == b\"#).count();\n    \
             Ok(wide)\n}\n",
        expect![[r##"
            * 3: `>` became `<=` | let wide = x.len() <= 3 && y != "x == y";
              3: `!=` became `==` | let wide = x.len() > 3 && y == "x == y";
              7: `if wide` became `if !(wide)` | if !(wide) {
            * 5: `Ok(Default::default())` is returned instead of the value | return Ok(Default::default());
              12: `Ok(Default::default())` is returned instead of the value | Ok(Default::default())
            * 3: `&&` became `||` | let wide = x.len() > 3 || y != "x == y";
              5: `true` became `false` | return Ok(false);
              8: `self.keep(y);` was removed |
              11: `x.iter().map(|_| r#"a == b"#).count();` was removed |
              3: `3` became `4` | let wide = x.len() > 4 && y != "x == y";
              3: a string became empty | let wide = x.len() > 3 && y != "";
        "##]],
    );
}

#[test]
fn javascript() {
    check(
        SourceLanguage::JavaScript,
        "import a from 'a'\n\
         export function f(x: Map<string, number>, y) {\n  \
             if (!x || y === 3) return g(`${x} === ${y}`)\n  \
             if (ready(y)) {\n    save(y)\n    z = /a==b/.test(y);\n  }\n  \
             /* a == b */\n  \
             const more = (n) => n * 2\n  \
             return {\n    total: x.size > 1,\n  }\n}\n",
        expect![[r#"
            * 3: `undefined` is returned instead of the value | if (!x || y === 3) return undefined
              10: `undefined` is returned instead of the value | return undefined
            * 3: `===` became `!==` | if (!x || y !== 3) return g(`${x} === ${y}`)
              4: `if ready(y)` became `if !(ready(y))` | if (!(ready(y))) {
              11: `>` became `<=` | total: x.size <= 1,
            * 3: `||` became `&&` | if (!x && y === 3) return g(`${x} === ${y}`)
              5: `save(y)` was removed |
              6: `z = /a==b/.test(y);` was removed |
              9: `*` became `+` | const more = (n) => n + 2
              3: `3` became `4` | if (!x || y === 4) return g(`${x} === ${y}`)
              9: `2` became `3` | const more = (n) => n * 3
              11: `1` became `2` | total: x.size > 2,
              3: a string became empty | if (!x || y === 3) return g("")
        "#]],
    );
}

#[test]
fn go() {
    check(
        SourceLanguage::Go,
        "package a\n\
         func (s *S) F(x int, y []string) (int, error) {\n\t\
             if x > 0 && len(y) == 0 {\n\t\ts.save(x)\n\t\ttotal := x - 1\n\t\treturn total, nil\n\t}\n\t\
             if err := s.g(); err != nil {\n\t\treturn 0, err\n\t}\n\t\
             if s.ready {\n\t\ts.n = 2 // a == b\n\t}\n\t\
             return f(func() int { return 1 }), nil\n}\n\
         func g(x int) bool { return true }\n\
         func h() (n map[string]int, err error) {\n\treturn m(), `a\n== b`\n}\n",
        expect![[r#"
            * 3: `>` became `<=` | if x <= 0 && len(y) == 0 {
              3: `==` became `!=` | if x > 0 && len(y) != 0 {
              8: `!=` became `==` | if err := s.g(); err == nil {
              11: `if s.ready` became `if !(s.ready)` | if !(s.ready) {
            * 6: `*new(int), *new(error)` is returned instead of the value | return *new(int), *new(error)
              9: `*new(int), *new(error)` is returned instead of the value | return *new(int), *new(error)
              14: `*new(int), *new(error)` is returned instead of the value | return *new(int), *new(error)
              14: `*new(int)` is returned instead of the value | return f(func() int { return *new(int) }), nil
              16: `*new(bool)` is returned instead of the value | func g(x int) bool { return *new(bool) }
              18: `*new(map[string]int), *new(error)` is returned instead of the value | return *new(map[string]int), *new(error)
            * 3: `&&` became `||` | if x > 0 || len(y) == 0 {
              16: `true` became `false` | func g(x int) bool { return false }
              5: `-` became `+` | total := x + 1
              4: `s.save(x)` was removed |
              12: `s.n = 2` was removed | // a == b
              3: `0` became `1` | if x > 1 && len(y) == 0 {
              3: `0` became `1` | if x > 0 && len(y) == 1 {
              5: `1` became `2` | total := x - 2
              9: `0` became `1` | return 1, err
              12: `2` became `3` | s.n = 3 // a == b
              14: `1` became `2` | return f(func() int { return 2 }), nil
              18: a string became empty | return m(), ""
        "#]],
    );
}

#[test]
fn only_the_lines_of_the_hunk_are_sabotaged() {
    let text = "a = 1 == 2\nb = 1 == 2\nc = 1 == 2\n";
    let found = of_lines(text, SourceLanguage::Python, &(1..2));
    assert!(!found.is_empty() && found.iter().all(|sabotage| sabotage.line == 1), "{found:?}");
    assert_eq!(found[0].applied(text), "a = 1 == 2\nb = 1 != 2\nc = 1 == 2\n");
    assert!(of_lines("# a == b\n\n", SourceLanguage::Python, &(0..2)).is_empty());
}
