//! Checks that the time of parsing and verifying grows only linearly with the text.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::time::Duration;

use crate::{cpu_time, diagnose, permissive};

fn time(text: &str) -> Duration {
    let once = || cpu_time(|| diagnose(text, permissive)).1;
    once().min(once())
}

#[test]
fn no_input_takes_more_than_linear_time() {
    const HEAD: &str = "---\nstatus: draft\n---\n# T\n## Steps\n";
    const STEP: &str = "### 1. A\n**target:** c\n**task:**\n";
    const CHECK: &str = "### 1. A\n**target:** c\n**task:** do\n**contract:**\n```\n";
    let shapes: [(&str, &str); 29] = [
        (STEP, "["),
        (STEP, "`"),
        (STEP, "> "),
        (STEP, "**a "),
        (STEP, "**a:** b\n"),
        (STEP, "**task:** b\n"),
        (STEP, "- a\n"),
        (STEP, "- "),
        (STEP, "<!-- x --> y\n"),
        (STEP, "a <b> c\n"),
        (STEP, "<!-- "),
        (STEP, "[a]: b\n"),
        (STEP, "- <!-- x -->\n- **target:** y\n"),
        (STEP, "```\nx\n```\n"),
        (STEP, "a\n---\n"),
        (STEP, "\u{200b}"),
        (STEP, "é"),
        ("", "### 1. A\n"),
        ("", "### N. A\n"),
        ("", "## Steps\n"),
        ("", "### 1. A\n**needs:** 2\n**task:** a.md b.md\n**subscriptions:**\n- file:x.md\n"),
        (CHECK, "$("),
        (CHECK, "`"),
        (CHECK, "a && "),
        (CHECK, "a() { b; }; a\n"),
        (CHECK, "<<x\n"),
        (CHECK, "<x"),
        ("### 1. A\n**needs:** ", "1, "),
        ("### 1. A\n**subscriptions:** ", "file:a, "),
    ];
    let mut slow = Vec::new();
    for (before, unit) in shapes {
        let small = format!("{HEAD}{before}{}", unit.repeat(20_000 / unit.len()));
        let large = format!("{HEAD}{before}{}", unit.repeat(160_000 / unit.len()));
        // For eight times the text, quadratic time would be 64 times as long; 24 times is the limit. Other
        // processes share the caches, so one fast measurement of four is enough.
        let looks = (0..4).map(|_| (time(&small), time(&large)));
        let mut fast = looks.map(|(a, b)| (a, b, b <= Duration::from_millis(40) || b <= a * 24));
        if !fast.any(|(_, _, fine)| fine) {
            slow.push(format!("{before:?} {unit:?}"));
        }
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

#[test]
fn ten_thousand_steps_are_read_in_a_moment() {
    let mut text = String::from("---\nstatus: draft\n---\n# T\n## Steps\n");
    for n in 1..=10_000 {
        text.push_str(&format!(
            "### {n}. Step\n**target:** c\n**needs:** {}\n**task:** Write `out/{n}.txt`.\n**contract:**\n```\n./check out/{n}.txt\n```\n",
            if n == 1 { "none".to_string() } else { (n - 1).to_string() }
        ));
    }
    let (diagnostics, took) = cpu_time(|| diagnose(&text, permissive));
    assert_eq!(diagnostics.into_iter().filter(|d| d.is_error()).count(), 0);
    assert!(took < Duration::from_secs(10), "{took:?}");
}
