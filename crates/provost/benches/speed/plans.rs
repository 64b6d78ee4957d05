//! Measures parsing and checking a plan without subprocesses (G13, goal 6), against bare pulldown-cmark.

use std::fmt::Write as _;
use std::hint::black_box;

use provost_core::language::facts::{self, Facts};
use provost_core::language::{parse, verify};
use pulldown_cmark::{Options, Parser};

use crate::Asked;
use crate::measure::{interleaved, time};
use crate::table::{Kind, Row, Table};

const HEAD: &str = "---\ntype: plan\nstatus: draft\nowner: bench\ntouches: [\"src/**\"]\n---\n\n# Many steps\n\n\
    **Context:** A plan as people write them.\n**Budget:** max 50k tokens, $0.50, 8 hours wall clock\n\n## Steps\n\n";

/// Returns a plan of `count` steps, each with the task `task`.
pub(crate) fn text(count: usize, task: &str) -> String {
    let mut text = String::from(HEAD);
    for n in 1..=count {
        let _ = write!(
            text,
            "### {n}. Step number {n}\n\n**target:** coder\n**task:** {task}\n**contract:**\n```shell\ntrue\n```\n\
             exit_code == 0\n**on_fail:** retry(1), then escalate\n\n"
        );
    }
    text
}

/// Returns a text as people write it: prose, code, a list, a contract with a few commands.
fn prose(bytes: usize) -> String {
    let mut text = String::from(HEAD);
    let mut n = 0;
    while text.len() < bytes {
        n += 1;
        let _ = write!(
            text,
            "### {n}. Move setting {n} into one module\n\n**target:** coder\n**subscriptions:**\n- file:src/config/mod{n}.rs\n\
             **task:**\nFind every place that reads setting `{n}`, in code and in *tests*, and move its default into\n\
             `src/config/defaults.rs`. Keep the name. Where two modules disagree, the **older** one is right;\n\
             say so in the commit. See [the list](docs/config.md) for who reads what.\n\n- one commit per module\n\
             - no new dependency\n\n**contract:**\n```shell\nset -e\ncargo test --quiet config_{n}\n\
             ! grep -rn \"env::var\" src --include='*.rs' --exclude-dir=config\n```\nstdout contains \"test result: ok\"\n\
             **timeout:** 20 minutes\n**on_fail:** retry(2), then abort\n\n"
        );
    }
    text
}

/// Does what `provost verify` does, without the survey of the machine.
fn checked(text: &str) -> usize {
    let parsed = parse::plan(text);
    let questions = facts::questions(&parsed.plan);
    let facts = Facts {
        git: true,
        slug: "bench".to_owned(),
        targets: ["coder".to_owned()].into(),
        files: questions.files,
        ..Facts::default()
    };
    parsed.diagnostics.len() + verify::plan(text, &parsed.plan, &facts).len()
}

fn bare(text: &str) -> usize {
    Parser::new_ext(text, Options::empty()).into_offset_iter().map(|(_, range)| range.len()).sum()
}

pub(crate) fn measure(_: &Asked, table: &mut Table) {
    against_floor(table, "plan: read and check 20 KB (aim: 1.5×)", &prose(20_000), 20, 150);
    against_floor(table, "plan: read and check 1 MB (aim: 1.5×)", &prose(1_000_000), 1, 30);
    hostile(table);
}

fn against_floor(table: &mut Table, what: &str, text: &str, batch: usize, rounds: usize) {
    let times = |work: fn(&str) -> usize| {
        (0..batch).for_each(|_| {
            black_box(work(black_box(text)));
        })
    };
    let [subject, floor, again] =
        interleaved(rounds, [&mut || times(checked), &mut || times(bare), &mut || times(bare)]);
    table.guard("pulldown-cmark against itself", again.cpu_over(&floor));
    let each = batch as f64;
    table.row(Row {
        what,
        subject: time(subject.cpu_median() / each),
        floor: time(floor.cpu_median() / each),
        figure: subject.cpu_over(&floor),
        unit: "×",
        goal: 3.0,
        kind: Kind::Cpu,
    });
}

const STEP: &str = "---\nstatus: draft\n---\n# T\n## Steps\n### 1. A\n**target:** c\n**task:**\n";
const CHECK: &str =
    "---\nstatus: draft\n---\n# T\n## Steps\n### 1. A\n**target:** c\n**task:** do\n**contract:**\n```\n";

const SHAPES: [(&str, &str); 14] = [
    (STEP, "["),
    (STEP, "`"),
    (STEP, "> "),
    (STEP, "**a "),
    (STEP, "**task:** b\n"),
    (STEP, "- "),
    (STEP, "<!-- "),
    (STEP, "[a]: b\n"),
    (STEP, "a\n---\n"),
    (STEP, "\u{200b}"),
    (CHECK, "$("),
    (CHECK, "`"),
    (CHECK, "a && "),
    (CHECK, "<<x\n"),
];

/// Checks that four times the text takes at most five times the time, for any text.
fn hostile(table: &mut Table) {
    let growth = |before: &str, unit: &str, work: &dyn Fn(&str) -> usize| {
        let of = |bytes: usize| format!("{before}{}", unit.repeat(bytes / unit.len()));
        let (small, large) = (of(50_000), of(200_000));
        let [small, large] = interleaved(
            5,
            [
                &mut || {
                    black_box((0..4).map(|_| work(&small)).sum::<usize>());
                },
                &mut || {
                    black_box(work(&large));
                },
            ],
        );
        (large.cpu_over(&small) * 4.0, small.cpu_median() / 4.0, large.cpu_median())
    };
    let worst = SHAPES
        .iter()
        .map(|(before, unit)| (growth(before, unit, &checked), unit))
        .max_by(|(a, _), (b, _)| a.0.total_cmp(&b.0));
    let Some(((ratio, small, large), unit)) = worst else { return };
    table.row(Row {
        what: "plan: hostile text 50 → 200 KB, the worst",
        subject: time(large),
        floor: time(small),
        figure: ratio,
        unit: "×",
        goal: 5.0,
        kind: Kind::Cpu,
    });
    table.note("  the worst text repeats", &format!("{unit:?}"));
    let quadratic = |text: &str| {
        let bytes = text.as_bytes();
        bytes.iter().step_by(64).map(|b| bytes.iter().filter(|other| *other == b).count()).sum()
    };
    let (ratio, ..) = growth(STEP, "[", &quadratic);
    table.control("a quadratic reader", &format!("{ratio:.1}×"), ratio > 5.0);
}
