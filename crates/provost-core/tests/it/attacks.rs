//! Tests texts that show one plan to a person and would run another.

use expect_test::{Expect, expect};

use crate::outline;

fn check(step: &str, expected: Expect) {
    let text = format!("---\nstatus: draft\n---\n# T\n## Steps\n### 1. A\n**target:** c\n{step}");
    expected.assert_eq(&outline(&text));
}

#[test]
fn a_contract_in_a_comment_is_no_contract() {
    check(
        "**task:** do\n\n<!--\n**contract:**\n```\ntrue\n```\n-->\n",
        expect![[r#"
        1. "A" target=c task="do"
        P039 "1. A": step 1 has no contract, so nothing can show that it is done
        P005 "<!--": provost does not read HTML and comments in a step
    "#]],
    );
}

#[test]
fn a_contract_in_raw_html_is_no_contract() {
    check(
        "**task:** do\n\n<div>\n**contract:** human\n</div>\n",
        expect![[r#"
        1. "A" target=c task="do"
        P039 "1. A": step 1 has no contract, so nothing can show that it is done
        P005 "<div>": provost does not read HTML and comments in a step
    "#]],
    );
    check(
        "**task:** do\n\n<b>contract:</b> human\n",
        expect![[r#"
        1. "A" target=c task="do\n\ncontract: human"
        P039 "1. A": step 1 has no contract, so nothing can show that it is done
        P005 "<b>": provost does not read HTML and comments in a step
    "#]],
    );
}

#[test]
fn a_contract_in_a_link_definition_is_no_contract() {
    check(
        "**task:** do\n\n[a]: b '\n**contract:** human\n'\n",
        expect![[r#"
        1. "A" target=c task="do"
        P039 "1. A": step 1 has no contract, so nothing can show that it is done
    "#]],
    );
}

#[test]
fn a_second_contract_does_not_replace_the_first() {
    check(
        "**task:** do\n**contract:**\n```\nmake\n```\n**contract:**\n```\ntrue\n```\nexit_code == 9\n",
        expect![[r#"
        1. "A" target=c task="do" contract="make"
        P031 "**contract:**": `contract` appears twice
    "#]],
    );
    check(
        "**task:** do\n**contract:**\n```\nmake\n```\n```\ntrue\n```\n",
        expect![[r#"
        1. "A" target=c task="do" contract="make"
        P040 "```\ntrue\n```": provost does not read a second block for the same check
    "#]],
    );
}

#[test]
fn an_underline_does_not_end_the_steps() {
    check(
        "**task:** do\n**contract:** human\n---\n**on_fail:** abort\n",
        expect![[r#"
        1. "A" target=c task="do" contract=human on_fail=abort
        P026 "**target:** c\n**task:** do\n**c": the line below turns this text into a heading
    "#]],
    );
}

#[test]
fn quotations_lists_and_code_open_no_fields() {
    check(
        "**task:** do\n\n> **contract:** human\n\n1. **contract:** human\n\n    **contract:** human\n\n`x\n**contract:** human`\n",
        expect![[r#"
            1. "A" target=c task="do\n\n> **contract:** human\n\n1. **contract:** human\n\n    **contract:** human\n\n`x"
            P033 "**contract:**": provost does not read `contract` in a list or a quotation
            P033 "**contract:**": provost does not read `contract` in a list or a quotation
            P033 "**contract:**": provost does not read `contract` in a list or a quotation
            P035 "**contract:**": `contract` is not written as a field, so provost does not read it
        "#]],
    );
}

#[test]
fn entities_and_disguises_open_no_fields() {
    check(
        "**task:** do\n\n&#42;&#42;contract:&#42;&#42; human\n",
        expect![[r#"
        1. "A" target=c task="do\n\n&#42;&#42;contract:&#42;&#42; human"
        P039 "1. A": step 1 has no contract, so nothing can show that it is done
    "#]],
    );
    check(
        "**task:** do\n\n\\*\\*contract:\\*\\* human\n",
        expect![[r#"
        1. "A" target=c task="do\n\n\\*\\*contract:\\*\\* human"
        P039 "1. A": step 1 has no contract, so nothing can show that it is done
    "#]],
    );
    check(
        "**task:** do\n\n**contr&#97;ct:** human\n",
        expect![[r#"
            1. "A" target=c task="do"
            P035 "**contr&#97;ct:**": `contract` is not written as a field, so provost does not read it
        "#]],
    );
    check(
        "**task:** do\n\n**`contract`:** human\n",
        expect![[r#"
            1. "A" target=c task="do"
            P035 "**`contract`:**": `contract` is not written as a field, so provost does not read it
        "#]],
    );
}

#[test]
fn a_heading_in_a_list_or_a_fence_is_no_step() {
    check(
        "**task:** do\n\n- ### 2. B\n\n```\n### 2. B\n```\n\n> ### 2. B\n\n**contract:** human\n",
        expect![[r#"
        1. "A" target=c task="do\n\n- ### 2. B\n\n```\n### 2. B\n```\n\n> ### 2. B" contract=human
    "#]],
    );
}

#[test]
fn invisible_characters_are_found_wherever_they_are() {
    let text = "---\nstatus: dr\u{ad}aft\n---\n# T\u{200b}\n## Steps\n### 1. A\n```\nmake \u{2066}x\u{2069}\n```\n<!-- \u{202e} -->\n\u{feff}\u{1b}";
    let said = provost_core::language::parse::plan(text).diagnostics;
    let messages: Vec<_> = said.into_iter().filter(|d| d.code.id() == "P003").map(|d| d.message).collect();
    expect![[r#"
        invisible character U+00AD
        invisible character U+200B
        invisible character U+2066
        invisible character U+2069
        invisible character U+202E
        invisible character U+FEFF
        control character U+001B"#]]
    .assert_eq(&messages.join("\n"));
}

#[test]
fn bytes_that_are_no_text_give_one_answer() {
    let (text, said) = provost_core::language::parse::bytes(b"\x89PNG\r\n\x1a\n\0\0");
    expect![[r#""" Some("the plan is not UTF-8 text: byte 0 is not valid")"#]]
        .assert_eq(&format!("{text:?} {:?}", said.map(|d| d.message)));
}
