//! Tests the different ways in which people and models write the same thing.

use expect_test::{Expect, expect};

use crate::outline;

/// Parses a plan with `body` under `## Steps`.
fn check(body: &str, expected: Expect) {
    let text = format!("---\nstatus: draft\n---\n# T\n## Steps\n{body}");
    expected.assert_eq(&outline(&text));
    // CRLF line ends and a byte order mark make no difference.
    let other = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    assert_eq!(outline(&other), outline(&text));
}

const REST: &str = "**target:** c\n**task:** do\n**contract:**\n```\nmake\n```\n";

#[test]
fn fields_need_no_empty_lines_between_them() {
    check(
        "### 1. A\n**target:** c\n**subscriptions:**\n- file:a.md\n- topic:t\n**task:**\nRead.\nWrite.\n**contract:**\n```shell\nmake\n```\nexit_code == 0\nstdout contains \"x\" # why\n**on_fail:** retry(1), then skip\n### 2. B\n**Target**: c\n**TASK**: do it\n**contract:**\n\n~~~\nmake\n\n# end\n~~~\n\nexit_code != 3\n\n**on fail:** abort\n",
        expect![[r#"
            1. "A" target=c task="Read.\nWrite." File("a.md") Topic("t") contract="make" [exit_code == 0; stdout contains "x"] on_fail=retry(1), then skip
            2. "B" target=c task="do it" contract="make\n\n# end" [exit_code != 3] on_fail=abort
        "#]],
    );
}

#[test]
fn titles_survive_whatever_they_hold() {
    for (heading, expected) in [
        ("### 1. Plain", "1. \"Plain\""),
        (
            "### 1. ✅ Done `code` **bold** [link](u) &amp; *x*",
            "1. \"Done code bold link & x\" mark=Passed(Verified)",
        ),
        ("### 1. ⏭\u{fe0f} Skipped", "1. \"Skipped\" mark=Waived"),
        ("###   1.   ❌  Two spaces  ###", "1. \"Two spaces\" mark=Failed"),
        ("### 1. ✅NoSpace", "1. \"✅NoSpace\""),
        ("### 1. Übung 日本語 👩\u{200d}💻", "1. \"Übung 日本語 👩\\u{200d}💻\""),
        ("### 1. A (depends on Task 2, task 3 and 4)", "1. \"A\" needs=[2, 3, 4]"),
        ("### 1. A (see b)", "1. \"A (see b)\""),
        ("###\t1.\tTabs", "1. \"Tabs\""),
        ("### 1. 2. Two numbers", "1. \"2. Two numbers\""),
    ] {
        let text = format!("---\nstatus: draft\n---\n# T\n## Steps\n{heading}\n{REST}");
        let outline = outline(&text);
        let first = outline.lines().next().unwrap_or("").split(" target=").next().unwrap_or("");
        assert_eq!(first, expected, "{outline}");
    }
}

#[test]
fn headings_that_are_no_steps_are_said_and_never_renumbered() {
    let body = format!(
        "### 1. A\n{REST}### 2) B\n{REST}### 3. C\n{REST}### Notes\n### 4–N. D\n{REST}### N+1. E\n{REST}### 9. F\n{REST}### 9. G\n{REST}### 0. H\n### 10.I\n### 11.\n### 12. J\n{REST}"
    );
    check(
        &body,
        expect![[r####"
        1. "A" target=c task="do" contract="make"
        3. "C" target=c task="do" contract="make"
        9. "F" target=c task="do" contract="make"
        9. "G" target=c task="do" contract="make"
        12. "J" target=c task="do" contract="make"
        P023 "### 2) B": this heading is not a step, so provost runs nothing under it
        P023 "### Notes": this heading is not a step, so provost runs nothing under it
        P022 "### 4–N. D": the heading `4–N.` names several steps
        P022 "### N+1. E": the heading `N+1.` names several steps
        P024 "9": two steps have the number 9
        P023 "### 0. H": this heading is not a step, so provost runs nothing under it
        P023 "### 10.I": this heading is not a step, so provost runs nothing under it
        P023 "### 11.": this heading is not a step, so provost runs nothing under it
    "####]],
    );
}

#[test]
fn values_are_read_whole_or_not_at_all() {
    check(
        "### 1. A\n**target:** `coder` # who\n**needs:** Step 1, 2\n**timeout:** 1h 30m\n**contract timeout:** 90 s\n**protect:** a/**, b/*.c\n**network:** ON\n**hidden:** maybe\n**verify_runs:** 0\n**on_fail:** retry(2), then escalate, then abort\n**task:** do\n**contract:** judge\nIs it good?\n\nReally?\n",
        expect![[r#"
            1. "A" needs=[1, 2] target=coder task="do" contract=judge "Is it good?\n\nReally?"
            P032 "maybe": `hidden` cannot be read: `maybe`
            P032 "0": `verify_runs` cannot be read: `0`
            P032 "retry(2), then escalate, then ": `on_fail` cannot be read: `retry(2), then escalate, then abort`
        "#]],
    );
}

#[test]
fn a_task_is_what_shows() {
    check(
        "### 1. A\n**target:** c\n**task:** one <!-- not two --> three\n\n- item `x`\n  - nested <b>bold</b>\n\n[hidden]: http://x \"said nowhere\"\n\n> quote\n\n<!-- block\n\n**contract:** human\n-->\n\n```text secret words\ncode\n```\n\n    indented\n\n#### Sub\nlast\n**contract:** human\n",
        expect![[r#"
            1. "A" target=c task="one  three\n\n- item `x`\n  - nested bold\n\n\n> quote\n\n\n```text\ncode\n```\n\n    indented\n\n#### Sub\nlast" contract=human
            P005 "<!-- not two -->": provost does not read HTML and comments in a step
            P005 "<b>": provost does not read HTML and comments in a step
            P005 "<!-- block": provost does not read HTML and comments in a step
        "#]],
    );
}

#[test]
fn postconditions_are_lists_with_blocks() {
    check(
        "### 1. A\n**target:** c\n**task:** do\n**contract:** human\n## Postconditions\nIntro.\n\n1. One\n   more\n   ```shell\n   make one\n     indented\n   ```\n   exit_code == 2\n2. Two\n\n   ~~~~\n   make two\n   ~~~~\n\n   stderr is empty\n3. Three\n```\nmake three\n```\nstdout contains \"3\"\n\n- Four: `make four`\n## Notes\n1. Not one of them\n",
        expect![[r#"
            1. "A" target=c task="do" contract=human
            post 1. "One more" "make one\n  indented" [exit_code == 2]
            post 2. "Two" "make two" [stderr is empty]
            post 3. "Three" "make three" [stdout contains "3"]
            post 4. "Four: `make four`" 
            P044 "- Four: `make four`": this postcondition has no check
        "#]],
    );
}

#[test]
fn the_status_word_is_exactly_its_bytes() {
    for (line, word) in [
        ("status: draft", "draft"),
        ("status:   in-progress   # comment", "in-progress"),
        ("status: \"done\" # x", "done"),
        ("status: 'failed'", "failed"),
        ("\"status\": approved", "approved"),
    ] {
        for end in ["\n", "\r\n"] {
            let text = format!("---{end}type: plan{end}{line}{end}owner: é{end}---{end}# T{end}");
            let parsed = provost_core::language::parse::plan(&text);
            let status = parsed.plan.status.unwrap();
            assert_eq!(status.span.of(&text), word, "{line}");
            assert_eq!(status.value, word);
        }
    }
}
