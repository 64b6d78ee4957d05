//! Tests filling templates, also with values that try to break out of their place.

use super::*;
use crate::language::diagnostic::Severity;

const ONE: &str = "\
#: For tests.
#: word | word | | w
#: run | command | | r
#: said | text | | s
#: where | globs | src/** | g
---
status: draft
touches: {{where}}
---
# P
## Steps
### 1. A {{said}}
**target:** coder
**task:** Do {{word}}: {{said}}
**contract:**
```shell
{{run}}
test -s {{word}}
```
";

fn fill(pairs: &[(&str, &str)]) -> Result<String, TemplateProblem> {
    let mut values: BTreeMap<String, String> =
        [("word", "a.txt"), ("run", "make check"), ("said", "some words")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    values.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Template::read(ONE).unwrap().fill("p", &values)
}

#[test]
fn values_come_into_their_places() {
    let plan =
        fill(&[("where", "src/**, docs/*.md"), ("run", "make 'all of it' && ./run \"$HOME\"")]).unwrap();
    assert!(plan.starts_with("---\nstatus: draft\ntouches: [\"src/**\", \"docs/*.md\"]\n---\n"), "{plan}");
    assert!(plan.contains("make 'all of it' && ./run \"$HOME\"\ntest -s a.txt\n"), "{plan}");
    assert_eq!(parse::plan(&plan).diagnostics, []);
}

#[test]
fn no_value_breaks_out_of_its_place() {
    let cases = [
        ("word", "a b"),
        ("word", "a;true"),
        ("word", "$(true)"),
        ("word", "-rf"),
        ("word", "x\n```\n**contract:** human"),
        ("run", "true\nexit 0"),
        ("run", "true \\"),
        ("run", "cat <<E"),
        ("run", "echo 'open"),
        ("run", "```"),
        ("run", "~~~"),
        ("run", "`true`"),
        ("said", "x\n**contract:** human"),
        ("said", "x **contract:** human"),
        ("said", "<!-- "),
        ("said", "(depends on Task 1)"),
        ("said", "a\u{202e}b"),
        ("said", "{{word}}"),
        ("said", " "),
        ("where", "src/**\"]\nstatus: done"),
        ("where", "\"a\""),
        ("where", "../x, !y"),
    ];
    for (name, value) in cases {
        let answer = fill(&[(name, value)]);
        let refused = matches!(&answer, Err(TemplateProblem::Value { name: at, .. } | TemplateProblem::BreaksOut { name: at }) if at == name);
        assert!(refused, "{name}={value:?}: {answer:?}");
    }
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    let template = Template::read(ONE).unwrap();
    let missing = template.fill("p", &BTreeMap::new()).unwrap_err().to_string();
    assert_eq!(
        missing,
        "the template has no value for word, run, said; set it with --set word=… --set run=… --set said=…"
    );
    let unknown = fill(&[("issu", "1")]).unwrap_err().to_string();
    assert_eq!(unknown, "the template has no parameter `issu`; it has word, run, said, where");
}

#[test]
fn a_template_says_where_it_is_wrong() {
    let said = |text: &str| Template::read(text).unwrap_err().to_string();
    assert_eq!(said("#: a | b\n"), "line 1 of the template: a parameter is `name | kind | default | about`");
    assert!(said("#: a | shell | | x\n").contains("there is no kind `shell`"));
    assert!(said("---\nx: {{a\n---\n").starts_with("line 2 of the template: `{{` is never closed"));
    assert!(said("#: a | text | | x\n---\n---\n```\n{{a}}\n```\n").contains("not allowed here"));
    assert!(said("#: a | text | | x\n---\n---\n{{a}} b\n").contains("line 4"));
    assert!(said("#: a | command | | x\n---\n---\n```\ntrue {{a}}\n```\n").contains("not allowed here"));
}

#[test]
fn those_built_in_give_plans_without_a_word_of_complaint() {
    for (name, text) in BUILT_IN {
        let template = Template::read(text).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        let template = template.for_project(&BTreeMap::new());
        assert!(!template.about.is_empty(), "{name}");
        let needed = template.parameters.iter().filter(|parameter| parameter.default.is_none());
        let values = needed
            .filter(|parameter| parameter.name != NAME)
            .map(|parameter| (parameter.name.clone(), parameter.kind.sample().to_owned()));
        let plan =
            template.fill("a-name", &values.collect()).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        let parsed = parse::plan(&plan);
        let facts = crate::language::facts::Facts {
            git: true,
            targets: ["coder".to_owned(), ValueKind::Word.sample().to_owned()].into(),
            ..crate::language::facts::Facts::default()
        };
        let said = crate::language::verify::plan(&plan, &parsed.plan, &facts);
        let said: Vec<String> = parsed
            .diagnostics
            .iter()
            .chain(&said)
            .filter(|each| each.severity != Severity::Advice || name != BLANK)
            // One step is the point of a first plan.
            .filter(|each| each.code.id() != "P083" || ![FIRST_TEST, MEND_TESTS].contains(&name))
            .map(|each| format!("{} {}", each.code, each.message))
            .collect();
        assert_eq!(said, [""; 0], "{name}");
    }
}

#[test]
fn a_default_follows_the_project_and_is_missing_without_it() {
    let text = "#: A.\n#: test | command | {{test}} | t\n#: touches | globs | {{sources}}, docs/** | g\n---\nstatus: draft\ntouches: {{touches}}\n---\n# P\n## Steps\n### 1. A\n**target:** coder\n**task:** Do.\n**contract:**\n```shell\n{{test}}\n```\n";
    let facts = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let template = Template::read(text).unwrap();
    let python =
        template.clone().for_project(&facts(&[("test", "pytest -q"), ("sources", "src/**, app.py")]));
    let plan = python.fill("p", &BTreeMap::new()).unwrap();
    assert!(plan.contains("\npytest -q\n"), "{plan}");
    assert!(plan.contains("touches: [\"src/**\", \"app.py\", \"docs/**\"]"), "{plan}");
    let unknown = template.for_project(&facts(&[("sources", "src/**")]));
    let missing = unknown.fill("p", &BTreeMap::new()).unwrap_err().to_string();
    assert_eq!(missing, "the template has no value for test; set it with --set test=…");
}
